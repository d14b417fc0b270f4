"""Which entries of a client can go behind the gateway, and why one cannot. No value is told: it may be a password."""

import json
from collections.abc import Mapping
from typing import Any

from holdall.gateway.client_servers import behind
from holdall.upstream.config import parse
from holdall.values.errors import BadServer

MOVED = ("url", "type", "headers")  # what the gateway needs of an entry with a URL; all else belongs to the client
_SIGNING_IN = ("oauth", "auth", "headersHelper")
# A variable is known where the client starts the gateway, not here. One of these fits wherever one may stand in a URL.
_STAND_INS = ("x", "http://x", "1")


class _Every(dict[str, str]):
    """An environment in which every variable has this value."""

    def __init__(self, value: str) -> None:
        super().__init__()
        self._value = value

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return self._value


def why_left(entry: Mapping[str, Any]) -> str:
    """Empty where it can go behind the gateway."""
    if behind(entry) is not None:
        return "it is behind the gateway already"
    if "command" in entry and "url" in entry:
        return "it has both a command and a url"
    if "command" in entry:
        return _why_not_started(entry)
    return _why_not_reached(entry) if "url" in entry else "it has neither a command nor a url"


def _why_not_started(entry: Mapping[str, Any]) -> str:
    command = entry["command"]
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return "its command must be a text, and not empty"
    return "" if isinstance(entry.get("args", []), list) else "its args must be a list"


def _why_not_reached(entry: Mapping[str, Any]) -> str:
    for key in _SIGNING_IN:
        if entry.get(key):
            return f"the client signs in for it ({key}), and the gateway cannot"
    reasons = [_complaint(entry, _Every(value)) for value in _STAND_INS]
    return "" if "" in reasons else f"the gateway could not serve it: {reasons[0]}"


def _complaint(entry: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    used = {key: entry[key] for key in (*MOVED, "args") if key in entry}
    try:
        parse(json.dumps({"mcpServers": {"server": used}}), source="", environment=environment)
    except BadServer as problem:
        return f"{problem.key.removeprefix('mcpServers.server.')} {problem.rule}"
    return ""
