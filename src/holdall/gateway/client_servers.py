"""The servers of a client's configuration: where they stand in its text, and which are behind the gateway."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from holdall.gateway.json_places import Member, Place, Places
from holdall.upstream import jsonc

TABLES = ("mcpServers", "servers")
GATEWAY = "gateway"
MODULE = ("-m", "holdall")
_HOLDALL = re.compile(r"(^|[\\/])holdall(\.exe)?$")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """What the gateway of an entry stands in front of: a file, or the command that its `args` hold at `command_at`."""

    config: str = ""
    command_at: int | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a client. `label` is its name, with where it stands if there are more of that name."""

    name: str
    path: Path
    place: Place
    members: tuple[Member, ...]
    label: str = ""

    @property
    def fields(self) -> Mapping[str, Place]:
        return {member.name: member.place for member in self.members}

    @property
    def entry(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.place.value)

    @property
    def is_wrapped(self) -> bool:
        return behind(self.entry) is not None


@dataclass(frozen=True, slots=True)
class Found:
    """`odd` are places where a server, or servers, should be and something else is."""

    servers: tuple[Server, ...]
    odd: tuple[tuple[str, str], ...]
    has_table: bool


def behind(entry: Mapping[str, object]) -> Behind | None:
    """By value, whatever its spacing; the user may have added options of ours."""
    given = entry.get("args")
    words = cast("list[object]", given) if isinstance(given, list) else []
    if _HOLDALL.search(str(entry.get("command"))) is not None:
        start = 0
    elif tuple(words[:2]) == MODULE:
        start = 2
    else:
        return None
    end = words.index("--") if "--" in words else len(words)
    own = words[start:end]
    if GATEWAY not in own or not (own[0] == GATEWAY or str(own[0]).startswith("-")):
        return None
    return Behind(_config(own), end + 1 if end + 1 < len(words) and isinstance(words[end + 1], str) else None)


def _config(words: list[object]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--config":
            return str(following)
        if str(word).startswith("--config="):
            return str(word).partition("=")[2]
    return ""


def servers_in(text: str) -> list[Server]:
    """Every server, at the top and in tables of projects. Raises ValueError where the text is no JSON object."""
    return list(look(text).servers)


def look(text: str) -> Found:
    jsonc.parse(text)  # what it cannot read is refused before anything is looked for
    places = Places(text)
    servers: list[Server] = []
    odd: list[tuple[str, str]] = []
    tables = list(_tables(places))
    for path, table in tables:
        if not isinstance(table.value, dict):
            if table.value:  # an empty list, or null, holds nothing that could be missed
                odd.append(
                    (path[-1] if len(path) == 1 else " → ".join(path), "it must be an object with servers in it")
                )
            continue
        for one in places.members(table):
            if isinstance(one.place.value, dict):
                members = tuple(places.members(one.place))
                servers.append(Server(one.name, (*path, one.name), one.place, members))
            else:
                odd.append((one.name, "its entry must be an object"))
    return Found(_labelled(servers), tuple(odd), bool(tables))


def _labelled(servers: list[Server]) -> tuple[Server, ...]:
    often = Counter(one.name for one in servers)
    return tuple(
        Server(
            one.name,
            one.path,
            one.place,
            one.members,
            one.name if often[one.name] == 1 else f"{one.name} (in {' → '.join(one.path[:-1])})",
        )
        for one in servers
    )


def _tables(places: Places) -> Iterator[tuple[Path, Place]]:
    top = places.top()
    if not isinstance(top.value, dict):
        raise ValueError("it is not a JSON object")
    for one in places.members(top):
        if one.name in TABLES:
            yield (one.name,), one.place
        elif one.name == "projects" and isinstance(one.place.value, dict):
            for project in places.members(one.place):
                if isinstance(project.place.value, dict):
                    for inner in places.members(project.place):
                        if inner.name in TABLES:
                            yield (one.name, project.name, inner.name), inner.place
