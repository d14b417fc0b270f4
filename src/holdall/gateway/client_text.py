"""A client's configuration as text: its servers put behind the gateway in place, and taken out of it again.

Nothing but the changed values is touched: comments, order, spacing and everything that is not known here stays as the
user wrote it, which is proved on the new text before anybody gets it. Pure: it reads and writes no file.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.gateway.client_fit import MOVED, why_left
from holdall.gateway.client_servers import GATEWAY, Behind, Found, Path, Server, behind, look
from holdall.gateway.json_places import Edit, Places, applied
from holdall.upstream import jsonc

_ARGS = ', "args": '
# As `wrap` writes it: without a space before the command where there were no arguments.
_WRITTEN = re.compile(r'\[(?:"-m", "holdall", )?"gateway", "--",( ?)"(?:[^"\\\n]|\\.)*"(, )?')

_Change = tuple[list[Edit], dict[str, Any]]  # and what the entry is then


class Uncertain(Exception):
    """The new text would not be the old one with our part changed."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text; which servers were changed; which were left, and why; `why`, where there was none at all.

    `paths` are where the changed ones stand; of these, `bare` had no arguments. Those `by_hand` were behind the gateway
    before. `originals` are the entries with a URL as they stood, by the file that is named in their place.
    """

    text: str
    changed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    paths: tuple[Path, ...] = ()
    bare: tuple[Path, ...] = ()
    by_hand: tuple[Path, ...] = ()
    why: str = ""


def wrap(text: str, program: str, new_config: Callable[[str], str], leading: Sequence[str] = ()) -> Edited:
    """Every server behind the gateway. `new_config` names a file of its own for each that is reached by a URL.

    `leading` are the words between program and command, where the program is an interpreter.
    """
    found, places = look(text), Places(text)
    changes: dict[Path, _Change] = {}
    left = list(found.odd)
    originals: dict[str, str] = {}
    words = (*leading, GATEWAY)
    for server in found.servers:
        if why := why_left(server.entry):
            left.append((server.label, why))
        elif "command" in server.fields:
            changes[server.path] = _started(places, server, program, [*words, "--"])
        else:
            file = new_config(server.name)
            originals[file] = places.raw(server.place)
            changes[server.path] = _reached(places, server, program, [*words, "--config", file])
    return Edited(
        _proved(text, changes),
        tuple(server.label for server in found.servers if server.path in changes),
        tuple(left),
        originals,
        tuple(changes),
        tuple(server.path for server in found.servers if server.path in changes and "args" not in server.fields),
        tuple(server.path for server in found.servers if server.is_wrapped),
        _why_nothing(found) if not (changes or left) else "",
    )


def unwrap(
    text: str, originals: Mapping[str, str], bare: Collection[Path] = (), by_hand: Collection[Path] = ()
) -> Edited:
    """What `wrap` did, taken back, whatever else was changed meanwhile."""
    found, places = look(text), Places(text)
    changes: dict[Path, _Change] = {}
    left: list[tuple[str, str]] = []
    restored: dict[str, str] = {}
    for server in found.servers:
        stands = behind(server.entry) or Behind()
        added = [key for key in MOVED if key in server.fields and server.entry[key] != "stdio"]
        if not server.is_wrapped:
            if any(named_in(places.raw(server.place), file) for file in originals):
                left.append((server.label, "it names a file of the gateway in a way that is not known here"))
        elif server.path in by_hand:
            left.append((server.label, "it was behind the gateway before `holdall install`"))
        elif stands.config in originals and added:
            left.append((server.label, f"it was given {added[0]!r} beside the gateway"))
        elif stands.config in originals:
            restored[stands.config] = originals[stands.config]
            changes[server.path] = _moved_back(places, server, originals[stands.config])
        elif stands.command_at is not None:
            changes[server.path] = _freed(places, server, stands.command_at, bare=server.path in bare)
        else:
            left.append((server.label, "nothing here tells what it was before"))
    changed = tuple(server.label for server in found.servers if server.path in changes)
    why = "" if changed or left else "no server in it is behind the gateway"
    return Edited(_proved(text, changes), changed, tuple(left), restored, tuple(changes), why=why)


def named_in(text: str, file: str) -> bool:
    """Whether the text names that file, in whatever way JSON writes it."""
    return file in text or json.dumps(file)[1:-1] in text


def same(one: object, other: object) -> bool:
    """As JSON: 1 is not true, and the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _started(places: Places, server: Server, program: str, words: Sequence[str]) -> _Change:
    """The command becomes an argument, as it was written; where there were no arguments, without a space."""
    command, args = server.fields["command"], server.fields.get("args")
    ours, raw, before = json.dumps(program), places.raw(command), ", ".join(map(json.dumps, words))
    given = cast("list[object]", args.value) if args is not None else []
    value = {**server.entry, "command": program, "args": [*words, command.value, *given]}
    if args is None:
        return [(command.start, command.end, f"{ours}{_ARGS}[{before},{raw}]")], value
    comma = ", " if given else ""
    return [
        (command.start, command.end, ours),
        (args.start + 1, args.start + 1, f"{before}, {raw}{comma}"),
    ], value


def _freed(places: Places, server: Server, at: int, *, bare: bool) -> _Change:
    command, args = server.fields["command"], server.fields["args"]
    items = list(places.items(args))
    raw, rest = places.raw(items[at][0]), args.value[at + 1 :]
    value = {**server.entry, "command": args.value[at], "args": rest}
    written = _WRITTEN.match(places.raw(args))
    if not rest and (bare or (written is not None and not written[1])):
        del value["args"]
        if places.text[command.end : args.start] == _ARGS and not places.has_comments(args):
            return [(command.start, args.end, raw)], value
        return places.swapped(server.members, "command", f'"command": {raw}', {"args"}), value
    edits = [(command.start, command.end, raw)]
    if written is not None and written[1]:
        return [*edits, (args.start + 1, args.start + written.end(), "")], value
    for item, comma in items[: at + 1]:
        edits.append((item.start, places.end_of_gap(comma) if comma else item.end, ""))
    return edits, value


def _reached(places: Places, server: Server, program: str, words: Sequence[str]) -> _Change:
    """What belongs to the client stays in its entry."""
    value = {key: one for key, one in server.entry.items() if key not in MOVED}
    value |= {"command": program, "args": list(words)}
    new = f'"command": {json.dumps(program)}{_ARGS}{json.dumps(words)}'
    return places.swapped(server.members, "url", new, MOVED[1:]), value


def _moved_back(places: Places, server: Server, raw: str) -> _Change:
    """The very text where nothing in the entry was changed, or else what the client has changed in it stays."""
    was = Places(raw)
    members = list(was.members(was.top()))
    old = {one.name: one.place.value for one in members}
    theirs = {key: one for key, one in server.entry.items() if key not in ("command", "args", "type")}
    value = {key: one for key, one in old.items() if key in MOVED} | theirs
    if same(theirs, {key: one for key, one in old.items() if key not in MOVED}):
        ours = (f'"{key}": {places.raw(server.fields[key])}' for key in ("command", "args"))
        written = applied(raw, was.swapped(members, "url", ", ".join(ours), MOVED[1:]))
        if written == places.raw(server.place) or not places.has_comments(server.place):
            return [(server.place.start, server.place.end, raw)], value
    new = ", ".join(f'"{one.name}": {was.raw(one.place)}' for one in members if one.name in MOVED)
    return places.swapped(server.members, "command", new, {"args", "type"}), value


def _proved(text: str, changes: Mapping[Path, _Change]) -> str:
    new = applied(text, [edit for edits, _ in changes.values() for edit in edits])
    expected: object = jsonc.parse(text)
    for path, (_, entry) in changes.items():
        table = cast("dict[str, Any]", expected)
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = entry
    try:
        proved = same(jsonc.parse(new), expected)
    except ValueError:
        proved = False
    if not proved:
        raise Uncertain
    return new


def _why_nothing(found: Found) -> str:
    return "it names no server" if found.has_table else "it has neither `mcpServers` nor `servers`"
