"""A client's configuration as text: its servers are found by position, changed in place, and changed back.

Nothing but the changed values is touched: comments, order, spacing and everything that is not known here stays as the
user wrote it. Pure: it reads and writes no file.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.upstream import jsonc

TABLES = ("mcpServers", "servers")
_GATEWAY = "gateway"
_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = re.compile(r"[^\s,\]}]+")


@dataclass(frozen=True, slots=True)
class Place:
    """A value in the text: where it stands, and what it is."""

    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a client; `fields` are those of its entry."""

    name: str
    place: Place
    fields: Mapping[str, Place]

    @property
    def is_wrapped(self) -> bool:
        args = self.fields.get("args")
        value: object = args.value if args is not None else None
        given = cast("list[object]", value) if isinstance(value, list) else []
        command = self.fields.get("command")
        runs_us = command is not None and re.search(r"(^|[\\/])holdall(\.exe)?$", str(command.value)) is not None
        return runs_us and given[:1] == [_GATEWAY]


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text; which servers were changed; which were left, and why.

    `originals` are the entries of servers with a URL as they stood, by the file that is named in their place.
    """

    text: str
    changed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    originals: Mapping[str, str] = field(default_factory=dict[str, str])


def servers_in(text: str) -> list[Server]:
    """Every server, at the top and in tables of projects. Raises ValueError where the text is no JSON object."""
    jsonc.parse(text)  # what it cannot read is refused before anything is looked for
    plain = jsonc.blanked(text)
    found: list[Server] = []
    for table in _tables(plain, _value_at(plain, 0)):
        for name, entry in _members(plain, table):
            if isinstance(entry.value, dict):
                found.append(Server(name, entry, dict(_members(plain, entry))))
    return found


def wrap(text: str, program: str, new_config: Callable[[str], str]) -> Edited:
    """Every server behind the gateway. `new_config` names a file of its own for each that is reached by a URL."""
    changes: list[tuple[int, int, str]] = []
    changed: list[str] = []
    left: list[tuple[str, str]] = []
    originals: dict[str, str] = {}
    for server in servers_in(text):
        command, args, url = (server.fields.get(name) for name in ("command", "args", "url"))
        if server.is_wrapped:
            left.append((server.name, "it is behind the gateway already"))
        elif command is not None and isinstance(command.value, str):
            changes += _wrapped(text, program, command, args)
            changed.append(server.name)
        elif url is not None:
            file = new_config(server.name)
            originals[file] = text[server.place.start : server.place.end]
            entry = {"command": program, "args": [_GATEWAY, "--config", file]}
            changes.append((server.place.start, server.place.end, json.dumps(entry)))
            changed.append(server.name)
        else:
            left.append((server.name, "it has neither a command nor a url"))
    return Edited(_applied(text, changes), tuple(changed), tuple(left), originals)


def unwrap(text: str, originals: Mapping[str, str]) -> Edited:
    """What `wrap` did, taken back, whatever else was changed meanwhile."""
    changes: list[tuple[int, int, str]] = []
    changed: list[str] = []
    left: list[tuple[str, str]] = []
    for server in servers_in(text):
        if not server.is_wrapped:
            continue
        command, args = server.fields["command"], server.fields["args"]
        undone = _unwrapped(text, command, args)
        if undone:
            changes += undone
            changed.append(server.name)
        elif (file := str(args.value[-1])) in originals:
            changes.append((server.place.start, server.place.end, originals[file]))
            changed.append(server.name)
        else:
            left.append((server.name, "it was not put behind the gateway by `holdall install`"))
    return Edited(_applied(text, changes), tuple(changed), tuple(left))


def _wrapped(text: str, program: str, command: Place, args: Place | None) -> list[tuple[int, int, str]]:
    """The command becomes the third argument, as it was written; where there were no arguments, without a space."""
    raw = text[command.start : command.end]
    ours = json.dumps(program)
    if args is None:
        return [(command.start, command.end, f'{ours}, "args": ["{_GATEWAY}", "--",{raw}]')]
    comma = ", " if args.value else ""
    return [
        (command.start, command.end, ours),
        (args.start + 1, args.start + 1, f'"{_GATEWAY}", "--", {raw}{comma}'),
    ]


def _unwrapped(text: str, command: Place, args: Place) -> list[tuple[int, int, str]]:
    inside = text[args.start : args.end]
    match = re.match(rf'\["{_GATEWAY}", "--",( ?)({_STRING.pattern})(, )?', inside)
    if match is None:
        return []
    if not match[1]:  # there were no arguments
        return [(command.start, args.end, match[2])]
    return [
        (command.start, command.end, match[2]),
        (args.start + 1, args.start + match.end(), ""),
    ]


def _applied(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# Where values stand. The text has no comments any more, and is JSON but for commas too many.


def _tables(text: str, top: Place) -> Iterator[Place]:
    if not isinstance(top.value, dict):
        raise ValueError("it is not a JSON object")
    for name, member in _members(text, top):
        if name in TABLES and isinstance(member.value, dict):
            yield member
        elif name == "projects" and isinstance(member.value, dict):
            for _, project in _members(text, member):
                if isinstance(project.value, dict):
                    yield from (one for key, one in _members(text, project) if key in TABLES)


def _members(text: str, place: Place) -> Iterator[tuple[str, Place]]:
    at = place.start + 1
    while True:
        at = _after_space(text, at)
        while at < place.end and text[at] == ",":
            at = _after_space(text, at + 1)
        if at >= place.end - 1:
            return
        key = _value_at(text, at)
        colon = _after_space(text, key.end)
        value = _value_at(text, colon + 1)
        yield str(key.value), value
        at = value.end


def _value_at(text: str, at: int) -> Place:
    at = _after_space(text, at)
    if text[at] not in "{[":
        match = _STRING.match(text, at) or _PLAIN.match(text, at)
        if match is None:
            raise ValueError(f"no value at {at}")
        return Place(at, match.end(), json.loads(match[0]))
    end = _closing(text, at)
    return Place(at, end, cast("object", jsonc.parse(text[at:end])))


def _closing(text: str, at: int) -> int:
    """After the bracket that closes the one at `at`."""
    depth = 0
    for match in re.compile(rf"{_STRING.pattern}|[\[\]{{}}]").finditer(text, at):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
            if depth == 0:
                return match.end()
    raise ValueError("a bracket is not closed")


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at
