"""A client's configuration as text: where its servers stand, which of them can go behind the gateway, and the text with
some of them put behind it or taken out again. Everything else stays as it is. Nothing here touches a file.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from holdall.mcp.client import spec
from holdall.mcp.client.spec import TABLES, URLS, parse_servers
from holdall.text.json.jsonc import Edit, Member, Place, Places, applied, parse_jsonc
from holdall.trust import Claims
from holdall.values.errors import BadServer
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The servers of a client's configuration: where they stand in its text, and which are behind the gateway.


GATEWAY = "gateway"
MODULE = ("-P", "-m", "holdall")  # -P: a client's working folder, a checkout perhaps, is no place for modules
_MODULES = (MODULE, MODULE[1:])  # the second as earlier versions wrote it
_HOLDALL = lazy_pattern(r"(^|[\\/])holdall(\.exe)?$")

Path = tuple[str, ...]


@record
class GatewayTarget:
    """What the gateway of an entry is in front of: a file, or the command that its `args` hold at `command_at`."""

    config: str = ""
    command_at: int | None = None


@record
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


@record
class Found:
    """`odd` are places where a server, or servers, should be and something else is."""

    servers: tuple[Server, ...]
    odd: tuple[tuple[str, str], ...]
    has_table: bool


def behind(entry: Mapping[str, object]) -> GatewayTarget | None:
    """By value, whatever its spacing; the user may have added options of ours."""
    given = entry.get("args")
    words = cast("list[object]", given) if isinstance(given, list) else []
    if _HOLDALL.search(str(entry.get("command"))) is not None:
        start = 0
    elif found := [one for one in _MODULES if tuple(words[: len(one)]) == one]:
        start = len(found[0])
    else:
        return None
    end = words.index("--") if "--" in words else len(words)
    own = words[start:end]
    if GATEWAY not in own or not (own[0] == GATEWAY or str(own[0]).startswith("-")):
        return None
    return GatewayTarget(_config(own), end + 1 if end + 1 < len(words) and isinstance(words[end + 1], str) else None)


def _config(words: list[object]) -> str:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--config":
            return str(following)
        if str(word).startswith("--config="):
            return str(word).partition("=")[2]
    return ""


def servers_in(text: str) -> list[Server]:
    """Every server, at the top and in tables of projects. Raises ValueError if the text is not JSON object."""
    return list(look(text).servers)


def look(text: str) -> Found:
    parse_jsonc(text)  # what it cannot read is refused before anything is looked for
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


# Which entries of a client can go behind the gateway, and why one cannot. No value is told: it may be a password.


# What the gateway needs of an entry with a URL; all else belongs to the client.
MOVED = (*URLS, "type", "transport", "transportType", "headers")
_SIGNING_IN = ("oauth", "auth", "headersHelper", "authProviderType")
# Which tools of a server its client shows; where it is there, others are hidden.
_ALLOWED = ("includeTools", "include_tools", "enabledTools", "enabled_tools", "allowedTools", "tools")
# A variable is known where the client starts the gateway, not here. One of these fits wherever one may be in a URL.
_PLACEHOLDERS = ("x", "http://x", "1")


class _Every(dict[str, str]):
    """An environment in which every variable has this value."""

    def __init__(self, value: str) -> None:
        super().__init__()
        self._value = value

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> str:
        return self._value


def url_key(entry: Mapping[str, Any]) -> str:
    """Under which name its URL stands; empty if it has none, or more than one."""
    given = [key for key in URLS if key in entry]
    return given[0] if len(given) == 1 else ""


def skip_reason(entry: Mapping[str, Any]) -> str:
    """Empty if it can go behind the gateway."""
    key = url_key(entry)
    if behind(entry) is not None:
        return "it is behind the gateway already"
    if "command" in entry and any(one in entry for one in URLS):
        return "it has both a command and a url"
    if "command" in entry:
        return _not_started_reason(entry)
    if not key and any(one in entry for one in URLS):
        return "it has more than one url"
    return _unreachable_reason(entry) if key else "it has neither a command nor a url"


def allowed_lists(entry: Mapping[str, Any]) -> Iterator[tuple[str, list[object]]]:
    """Its lists of the tools that the client shows, where a tool that is not in them is hidden."""
    for key in _ALLOWED:
        given = entry.get(key)
        if isinstance(given, list) and "*" not in given:
            yield key, cast("list[object]", given)


def hiding_reason(entry: Mapping[str, Any], ours: Collection[str]) -> str:
    """Empty if the client would show our tools beside those of this server."""
    for key, given in allowed_lists(entry):
        if not set(ours) <= set(map(str, given)):
            return f"its list of tools ({key}) would hide ours; --add-tools adds them to it"
    return ""


def _not_started_reason(entry: Mapping[str, Any]) -> str:
    command = entry["command"]
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return "its command must be a text, and not empty"
    return "" if isinstance(entry.get("args", []), list) else "its args must be a list"


def _unreachable_reason(entry: Mapping[str, Any]) -> str:
    for key in _SIGNING_IN:
        if entry.get(key):
            return f"the client signs in for it ({key}), and the gateway cannot"
    if any(str(entry.get(key)).lower() == "sse" for key in ("type", "transport", "transportType")):
        entry = {**entry, "type": "sse"}
    reasons = [_complaint(entry, _Every(value)) for value in _PLACEHOLDERS]
    return "" if "" in reasons else f"the gateway could not serve it: {reasons[0]}"


def moved(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the gateway is told of an entry with a URL: nothing of what belongs to its client."""
    return {key: entry[key] for key in (*URLS, "type", "headers") if key in entry}


def _complaint(entry: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    used = {**moved(entry), **({"args": entry["args"]} if "args" in entry else {})}
    try:
        parse_servers(json.dumps({"mcpServers": {"server": used}}), source="", environment=environment)
    except BadServer as problem:
        return f"{problem.key.removeprefix('mcpServers.server.')} {problem.rule}"
    return ""


def claims_of(name: str, entry: Mapping[str, Any], source: str) -> Claims:
    """What the gateway would send where, of an entry with a URL."""
    text = json.dumps({"mcpServers": {name: moved(entry)}}, indent=2)
    for value in _PLACEHOLDERS:
        with contextlib.suppress(BadServer):
            return parse_servers(text, source=source, environment=_Every(value)).claims
    return Claims(source)


# A client's configuration as text: its servers put behind the gateway in place, and taken out of it again.
#
# Nothing but the changed values is touched: comments, order, spacing and everything that is not known here stays as the
# user wrote it, which is proved on the new text before anybody gets it. Pure: it reads and writes no file.


_ARGS = ', "args": '
# As `wrap` writes it: without a space before the command where there were no arguments.
_WRITTEN = lazy_pattern(
    r'\[(?:(?:"-P", )?"-m", "holdall", )?"gateway", '
    r'(?:"--(?:client|name)=(?:[^"\\\n]|\\.)*", )*"--",( ?)"(?:[^"\\\n]|\\.)*"(, )?'
)

_Change = tuple[list[Edit], dict[str, Any]]  # and what the entry is then


class UnsafeEdit(Exception):
    """The new text would not be the old one with our part changed."""


@record
class Edited:
    """The new text; which servers were changed; which were left, and why; `why`, where there was none at all.

    `paths` are where the changed ones stand; of these, `bare` had no arguments, and `added` have our tools in their
    lists now. Those `by_hand` were behind the gateway before. `originals` are the entries with a URL as they stood, by
    the file that is named in their place.
    """

    text: str
    changed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    paths: tuple[Path, ...] = ()
    bare: tuple[Path, ...] = ()
    by_hand: tuple[Path, ...] = ()
    added: tuple[Path, ...] = ()
    why: str = ""


@record
class Choices:
    """What the text of an entry does not tell. `asked` gets one with a URL and says why it must be left, if so."""

    client: str = ""  # its id, which the gateways of one client share
    tools: tuple[str, ...] = ()  # the names of ours
    add_tools: bool = False  # to lists of tools that would hide them
    url_is_sse: bool = False  # `url` stands for the transport that MCP has given up, as in one client
    takes_urls: bool = True  # an entry with a URL may become one with a file of this machine
    asked: Callable[[Mapping[str, Any]], str] = lambda _entry: ""

    def reason(self, places: Places, server: Server) -> str:
        """Why this entry is left as it is; empty if it goes behind the gateway."""
        entry = server.entry
        if self.url_is_sse and url_key(entry) == "url" and "type" not in entry:
            entry = {**entry, "type": "sse"}
        if why := skip_reason(entry):
            return why
        if why := hiding_reason(entry, self.tools):
            if not self.add_tools:
                return why
            if any(places.has_comments(server.fields[key]) for key, _ in allowed_lists(entry)):
                return "there are comments in its list of tools; add ours by hand"
        if not url_key(entry):
            return ""
        if not self.takes_urls:
            return "it has a URL, and what the gateway knows of that is a file of this machine"
        return self.asked(entry)


def wrap(
    text: str,
    program: str,
    new_config: Callable[[str], str],
    leading: Sequence[str] = (),
    *,
    choices: Choices = Choices(),  # noqa: B008 - it cannot be changed
) -> Edited:
    """Every server behind the gateway. `new_config` names a file of its own for each that is reached by a URL.

    `leading` are the words between program and command, where the program is an interpreter. `client` is the id that
    the gateways of this client have in common.
    """
    found, places = look(text), Places(text)
    changes: dict[Path, _Change] = {}
    left = list(found.odd)
    originals: dict[str, str] = {}
    added: list[Path] = []
    words = (*leading, GATEWAY, *([f"--client={choices.client}"] if choices.client else ()))
    for server in found.servers:
        if why := choices.reason(places, server):
            left.append((server.label, why))
            continue
        if "command" in server.fields:
            changes[server.path] = _started(places, server, program, [*words, *_naming(server.name), "--"])
        else:
            file = new_config(server.name)
            originals[file] = places.raw(server.place)
            changes[server.path] = _reached(places, server, program, [*words, "--config", file])
        if hiding_reason(server.entry, choices.tools):
            added.append(server.path)
            changes[server.path] = _listing(server, changes[server.path], choices.tools, add=True)
    return Edited(
        _proved(text, changes),
        tuple(server.label for server in found.servers if server.path in changes),
        tuple(left),
        originals,
        tuple(changes),
        tuple(server.path for server in found.servers if server.path in changes and "args" not in server.fields),
        tuple(server.path for server in found.servers if server.is_wrapped),
        tuple(added),
        _why_unchanged(found) if not (changes or left) else "",
    )


def _naming(name: str) -> list[str]:
    """In one word: a name may look like an option. One that the gateway would refuse is left out."""
    try:
        spec.check_name(name, spec.Place("", ""))
    except BadServer:
        return []
    return [f"--name={name}"]


def unwrap(
    text: str,
    originals: Mapping[str, str],
    bare: Collection[Path] = (),
    by_hand: Collection[Path] = (),
    listed: Collection[Path] = (),
    tools: Collection[str] = (),
) -> Edited:
    """What `wrap` did, taken back, whatever else was changed meanwhile. `listed` have `tools` in their lists."""
    found, places = look(text), Places(text)
    changes: dict[Path, _Change] = {}
    left: list[tuple[str, str]] = []
    restored: dict[str, str] = {}
    for server in found.servers:
        stands = behind(server.entry) or GatewayTarget()
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
            changes[server.path] = _restored_entry(places, server, originals[stands.config])
        elif stands.command_at is not None:
            changes[server.path] = _freed(places, server, stands.command_at, bare=server.path in bare)
        else:
            left.append((server.label, "nothing here tells what it was before"))
        if server.path in changes and server.path in listed:
            changes[server.path] = _listing(server, changes[server.path], tools, add=False)
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


def _listing(server: Server, change: _Change, tools: Collection[str], *, add: bool) -> _Change:
    """The same with our tools in the entry's lists, or without them."""
    edits, value = change
    if edits[0][:2] == (server.place.start, server.place.end):
        return change  # all of it is written anew, as it was
    for key, given in allowed_lists(server.entry):
        new = [*given, *(name for name in tools if name not in given)] if add else [
            name for name in given if name not in tools
        ]  # fmt: skip
        place = server.fields[key]
        edits, value = [*edits, (place.start, place.end, json.dumps(new))], {**value, key: new}
    return edits, value


def _reached(places: Places, server: Server, program: str, words: Sequence[str]) -> _Change:
    """What belongs to the client stays in its entry."""
    value = {key: one for key, one in server.entry.items() if key not in MOVED}
    value |= {"command": program, "args": list(words)}
    new = f'"command": {json.dumps(program)}{_ARGS}{json.dumps(words)}'
    return places.swapped(server.members, url_key(server.entry), new, _besides(server.entry)), value


def _besides(entry: Mapping[str, Any]) -> set[str]:
    return {key for key in MOVED if key != url_key(entry)}


def _restored_entry(places: Places, server: Server, raw: str) -> _Change:
    """The very text where nothing in the entry was changed, or else what the client has changed in it stays."""
    was = Places(raw)
    members = list(was.members(was.top()))
    old = {one.name: one.place.value for one in members}
    url = url_key(old)
    theirs = {key: one for key, one in server.entry.items() if key not in ("command", "args", "type")}
    value = {key: one for key, one in old.items() if key in MOVED} | theirs
    if same(theirs, {key: one for key, one in old.items() if key not in MOVED}):
        ours = (f'"{key}": {places.raw(server.fields[key])}' for key in ("command", "args"))
        written = applied(raw, was.swapped(members, url, ", ".join(ours), _besides(old)))
        if written == places.raw(server.place) or not places.has_comments(server.place):
            return [(server.place.start, server.place.end, raw)], value
    new = ", ".join(f'"{one.name}": {was.raw(one.place)}' for one in members if one.name in MOVED)
    return places.swapped(server.members, "command", new, {"args", "type"}), value


def _proved(text: str, changes: Mapping[Path, _Change]) -> str:
    new = applied(text, [edit for edits, _ in changes.values() for edit in edits])
    expected: object = parse_jsonc(text)
    for path, (_, entry) in changes.items():
        table = cast("dict[str, Any]", expected)
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = entry
    try:
        proved = same(parse_jsonc(new), expected)
    except ValueError:
        proved = False
    if not proved:
        raise UnsafeEdit
    return new


def _why_unchanged(found: Found) -> str:
    return "it names no server" if found.has_table else "it has neither `mcpServers` nor `servers`"
