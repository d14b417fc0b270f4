"""How a client is greeted: what its servers can do, together, and what comes with Holdall. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import holdall
from holdall.gateway import eras
from holdall.upstream.greeting import Greeting

_OURS = {"name": "holdall", "title": "Holdall", "version": holdall.__version__}


def negotiated(wanted: object) -> str:
    return wanted if isinstance(wanted, str) and wanted in eras.HANDSHAKES else eras.LATEST_HANDSHAKE


def server_info(greetings: Sequence[Greeting]) -> Mapping[str, Any]:
    """With one server, its own: clients show it, and some know it by it."""
    return (greetings[0].server if len(greetings) == 1 else {}) or _OURS


def capabilities_of(greetings: Sequence[Greeting], *, changing: bool, offers: bool) -> dict[str, Any]:
    """All that any of them can do. `offers`: we have tools and resources, too; `changing`: our tools come and go."""
    found = _merged(greeting.capabilities for greeting in greetings)
    several = len(greetings) != 1
    if several:  # a server that is started later may have any of these
        found = _merged((found, {"prompts": {"listChanged": True}, "resources": {"listChanged": True}}))
    if offers or several:
        found = _merged((found, {"tools": {"listChanged": True} if changing or several else {}, "resources": {}}))
    return found


def instructions_of(greetings: Mapping[str, Greeting], ours: str) -> str:
    """What the servers say, each under its name where there are several, then what we say."""
    said = {name: greeting.instructions for name, greeting in greetings.items() if greeting.instructions}
    texts = list(said.values()) if len(greetings) == 1 else [f"# {name}\n{text}" for name, text in said.items()]
    return "\n\n".join([*texts, *([ours] if ours else [])])


def initialize_result(
    revision: str, greetings: Mapping[str, Greeting], capabilities: Mapping[str, Any], instructions: str
) -> dict[str, Any]:
    all_of_them = list(greetings.values())
    one = all_of_them[0] if len(all_of_them) == 1 and not all_of_them[0].modern else None
    base = dict(one.raw) if one is not None else {}
    base |= {"protocolVersion": revision, "capabilities": dict(capabilities)}
    base |= {"serverInfo": dict(server_info(all_of_them))}
    return base | ({"instructions": instructions} if instructions else {})


def discover_result(
    greetings: Mapping[str, Greeting], capabilities: Mapping[str, Any], instructions: str
) -> dict[str, Any]:
    all_of_them = list(greetings.values())
    base = dict(all_of_them[0].raw) if len(all_of_them) == 1 and all_of_them[0].modern else {}
    base |= {"supportedVersions": list(eras.MODERN), "capabilities": dict(capabilities)}
    base |= {"instructions": instructions} if instructions else {}
    return eras.completed("server/discover", base, server_info(all_of_them))


def _merged(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in tables:
        for name, value in one.items():
            there = found.get(name)
            if isinstance(there, Mapping) and isinstance(value, Mapping):
                found[name] = _merged((cast("Mapping[str, Any]", there), cast("Mapping[str, Any]", value)))
            else:
                found[name] = value or there or value
    return found
