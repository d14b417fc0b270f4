"""A client's configuration as text: where its servers stand, which of them can go behind the gateway, and the text with
some of them put behind it or taken out again. Everything else stays as it is. Nothing here touches a file.
"""

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from holdall.mcp.client import spec
from holdall.mcp.client.spec import URLS, parse_servers, variables_in
from holdall.mcp.install.clients import COMMON, Shape, shape_of
from holdall.mcp.install.documents import Document, Found, JsonDocument, Path, Server, TomlDocument
from holdall.text.escape import foreign, shell_quoted
from holdall.text.json.jsonc import Edit, applied
from holdall.trust import Claims
from holdall.values.errors import BadServer
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The servers of a client's configuration: where they stand in its text, and which are behind the gateway.


GATEWAY = "gateway"
MODULE = ("-P", "-m", "holdall")  # -P: a client's working folder, a checkout perhaps, is no place for modules
_MODULES = (MODULE, MODULE[1:])  # the second as earlier versions wrote it
_HOLDALL = lazy_pattern(r"(^|[\\/])holdall(\.exe)?$")


@record
class GatewayTarget:
    """What the gateway of an entry is in front of: a file, or the command that its `args` hold at `command_at`."""

    config: str = ""
    command_at: int | None = None


def behind(entry: Mapping[str, object]) -> GatewayTarget | None:
    """Of an entry in the common form. By value, whatever its spacing; the user may have added options of ours."""
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


def document(text: str, file: str) -> Document:
    """By the ending of the file's name. Raises ValueError, RecursionError or MissingExtra."""
    if file.endswith(".toml"):
        return TomlDocument(text)
    if file.endswith((".yaml", ".yml")):
        from holdall.mcp.install.yaml_document import YamlDocument  # noqa: PLC0415 - an optional package

        return YamlDocument(text)
    return JsonDocument(text)


@record
class Configuration:
    """A client's file: its document, and how this client writes a server."""

    document: Document
    shape: Shape

    @classmethod
    def of(cls, text: str, file: str = "") -> "Configuration":
        """Raises ValueError, RecursionError or MissingExtra."""
        found = document(text, file)
        return cls(found, shape_of(file, found.format, found.value))

    def common(self, server: Server) -> dict[str, Any]:
        return self.shape.to_common(server.entry)

    def is_wrapped(self, server: Server) -> bool:
        return behind(self.common(server)) is not None

    def look(self) -> Found:
        servers: list[Server] = []
        odd: list[tuple[str, str]] = []
        tables = list(self.document.tables(self.shape.tables))
        for path, table, own in tables:
            if not isinstance(table, dict):
                if table:  # an empty list, or null, holds nothing that could be missed
                    where = path[-1] if len(path) == 1 else " → ".join(path)
                    odd.append((where, "it must be an object with servers in it"))
                continue
            servers += own
            known = {one.name for one in own}
            names = (str(name) for name in cast("dict[object, object]", table))
            odd += [(name, "its entry must be an object") for name in names if name not in known]
        return Found(_labelled(servers), tuple(odd), bool(tables))


def servers_in(text: str, file: str = "") -> list[Server]:
    """Every server, at the top and in tables of projects. Raises ValueError if the text is not in the file's format."""
    return list(Configuration.of(text, file).look().servers)


def _labelled(servers: list[Server]) -> tuple[Server, ...]:
    often = Counter(one.name for one in servers)
    return tuple(
        replace(one, label=one.name if often[one.name] == 1 else f"{one.name} (in {' → '.join(one.path[:-1])})")
        for one in servers
    )


# Which entries of a client can go behind the gateway, and why one cannot. No value is told: it may be a password.


_SIGNING_IN = ("oauth", "auth", "headersHelper", "authProviderType")
# Which tools of a server its client shows; where it is there, others are hidden.
_ALLOWED = ("includeTools", "include_tools", "enabledTools", "enabled_tools", "allowedTools", "tools")
_ALL_IF_EMPTY = ("available_tools",)
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


url_key = COMMON.url_key


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
    for key in (*_ALLOWED, *_ALL_IF_EMPTY):
        given = entry.get(key)
        if isinstance(given, list) and "*" not in given and (given or key not in _ALL_IF_EMPTY):
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


def private_text(name: str, entry: Mapping[str, Any]) -> str:
    """What the gateway is told of an entry with a URL, in a file of its own."""
    try:
        spec.check_name(name, spec.Place("", name))
    except BadServer:  # a client takes any name, and this one is seen in messages only
        name = "server"
    return json.dumps({"mcpServers": {name: moved(entry)}}, indent=2)


def claims_of(name: str, entry: Mapping[str, Any], source: str) -> Claims:
    """What the gateway would send where, of an entry with a URL."""
    text = private_text(name, entry)
    for value in _PLACEHOLDERS:
        with contextlib.suppress(BadServer):
            return parse_servers(text, source=source, environment=_Every(value)).claims
    return Claims(source)


# A client's configuration as text: its servers put behind the gateway in place, and taken out of it again.
#
# Nothing but the changed values is touched: comments, order, spacing and everything that is not known here stays as the
# user wrote it, which is proved on the new text before anybody gets it. Pure: it reads and writes no file.


_Change = tuple[list[Edit], dict[str, Any]]  # and what the entry is then


class UnsafeEdit(Exception):
    """The new text would not be the old one with our part changed."""


@record
class Edited:
    """The new text; which servers were changed; which were left, and why; `why`, where there was none at all.

    `paths` are where the changed ones stand; of these, `bare` had no arguments, and `added` have our tools in their
    lists now. Those `by_hand` were behind the gateway before. `originals` are the entries with a URL as they stood, by
    the file that is named in their place, and `entries` the same in the common form.
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
    entries: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@record
class Choices:
    """What the text of an entry does not tell. `asked` gets the name of one with a URL, and the entry, and says why it
    must be left, if so."""

    client: str = ""  # its id, which the gateways of one client share
    tools: tuple[str, ...] = ()  # the names of ours
    add_tools: bool = False  # to lists of tools that would hide them
    url_is_sse: bool = False  # `url` stands for the transport that MCP has given up, as in one client
    takes_urls: bool = True  # an entry with a URL may become one with a file of this machine
    is_own: bool = True  # the file is the user's own, and not that of a project
    asked: Callable[[str, Mapping[str, Any]], str] = lambda _name, _entry: ""

    def reason(self, found: Configuration, server: Server) -> str:
        """Why this entry is left as it is; empty if it goes behind the gateway."""
        entry = found.common(server)
        if self.url_is_sse and url_key(entry) == "url" and not any(
            key in entry for key in ("type", "transport", "transportType")
        ):  # fmt: skip
            entry = {**entry, "type": "sse"}
        if why := skip_reason(entry):
            return why
        if why := hiding_reason(entry, self.tools):
            if not self.add_tools:
                return why
            if any(found.document.has_comments(server.fields[key]) for key, _ in allowed_lists(entry)):
                return "there are comments in its list of tools; add ours by hand"
        if not url_key(entry):
            why = "" if self.is_own else _obeyed_reason(server.entry)
            return why if found.shape.command in server.fields else _NOT_PLAIN
        if not self.is_own and (key := _for_programs(found.shape, server.entry)):
            return f"it has a URL, and {key!r}, which is for programs"
        if not self.takes_urls:
            return "it has a URL, and what the gateway knows of that is a file of this machine"
        return server.unmoved or _filled_reason(found.shape, server) or self.asked(server.name, entry)


# Of an entry with a URL these mean nothing, until it is one with a program: us.
_OF_PROGRAMS = lazy_pattern(r"(?i)env|cwd|dir|args|command|cmd|shell|exec")
# What acts before our first line does: on the loader, on a shell that starts us, on Python, on where its packages are.
_OBEYED = lazy_pattern(
    r"(?is)(?:PYTHON|HOLDALL_|LD_|DYLD_|OPENSSL_|GLIBC_|MALLOC_|GCONV_|LC_|BASH|XDG_|__)\w*|HOME|PATH|LANG|LANGUAGE|LOCPATH|NLSPATH|"
    r"ENV|IFS|CDPATH|SHELLOPTS|.*[^A-Za-z0-9_].*|"
)


def _for_programs(shape: Shape, entry: Mapping[str, Any]) -> str:
    given = (key for key, one in entry.items() if one and key not in shape.taken)
    return next((key for key in given if _OF_PROGRAMS.search(key)), "")


def _environments(entry: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    return ((key, given) for key, given in entry.items() if given and "env" in key.casefold())


def _obeyed_reason(entry: Mapping[str, Any]) -> str:
    """A project gives its servers variables; we would get them too, and some of them make Python run other code."""
    for key, given in _environments(entry):
        names = cast("dict[object, object]", given) if isinstance(given, dict) else ()
        if obeyed := [str(name) for name in names if _OBEYED.fullmatch(str(name))]:
            return f"its {key} sets {foreign(obeyed[0])}, which Holdall itself would obey"
        if isinstance(given, str):
            return f"its {key} may set what Holdall itself would obey"
    return ""


def _for_server(entry: Mapping[str, Any]) -> list[str]:
    """The other variables that a project gives a server are for it alone: who knows what obeys them in our process."""
    given = [cast("dict[object, object]", one) for _, one in _environments(entry) if isinstance(one, dict)]
    names = sorted({str(name) for one in given for name in one})
    return [f"--for-server={','.join(names)}"] if names else []


_NOT_PLAIN = "it is written in a way that is not changed here"


def _filled_reason(shape: Shape, server: Server) -> str:
    given = json.dumps([server.entry.get(key) for key in shape.taken], ensure_ascii=False, default=str)
    if shape.other and re.search(shape.other, given):
        return "the client puts values into its URL or headers, and the gateway would put in others"
    return ""


def wrap(
    text: str,
    program: str,
    new_config: Callable[[str], str],
    leading: Sequence[str] = (),
    *,
    choices: Choices = Choices(),  # noqa: B008 - it cannot be changed
    file: str = "",
) -> Edited:
    """Every server behind the gateway. `new_config` names a file of its own for each that is reached by a URL.

    `leading` are the words between program and command, where the program is an interpreter. `client` is the id that
    the gateways of this client have in common. The name of the `file` tells how it is written.
    """
    read = Configuration.of(text, file)
    found = read.look()
    changes: dict[Path, _Change] = {}
    left = list(found.odd)
    originals: dict[str, str] = {}
    entries: dict[str, dict[str, Any]] = {}
    added: list[Path] = []
    words = (*leading, GATEWAY, *([f"--client={choices.client}"] if choices.client else ()))
    for server in found.servers:
        if why := choices.reason(read, server):
            left.append((server.label, why))
            continue
        entry = read.common(server)
        if read.shape.command in server.fields:
            apart = [] if choices.is_own else _for_server(server.entry)
            changes[server.path] = _started(read, server, program, [*words, *_naming(server.name), *apart, "--"])
        else:
            config = new_config(server.name)
            originals[config], entries[config] = read.document.raw(server.place), entry
            changes[server.path] = _reached(read, server, [program, *words, "--config", config])
        if hiding_reason(entry, choices.tools):
            added.append(server.path)
            changes[server.path] = _listing(read, server, changes[server.path], choices.tools, add=True)
    return Edited(
        _proved(read, changes),
        tuple(server.label for server in found.servers if server.path in changes),
        tuple(left),
        originals,
        tuple(changes),
        tuple(one.path for one in found.servers if one.path in changes and read.shape.args not in one.fields),
        tuple(server.path for server in found.servers if read.is_wrapped(server)),
        tuple(added),
        _why_unchanged(found, read.shape) if not (changes or left) else "",
        entries,
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
    *,
    file: str = "",
) -> Edited:
    """What `wrap` did, taken back, whatever else was changed meanwhile. `listed` have `tools` in their lists."""
    read = Configuration.of(text, file)
    found = read.look()
    changes: dict[Path, _Change] = {}
    left: list[tuple[str, str]] = []
    restored: dict[str, str] = {}
    for server in found.servers:
        stands = behind(read.common(server)) or GatewayTarget()
        added = [key for key in read.shape.taken if key in server.entry and not _says_program(read.shape, server, key)]
        if not read.is_wrapped(server):
            if any(named_in(read.document.raw(server.place), config) for config in originals):
                left.append((server.label, "it names a file of the gateway in a way that is not known here"))
        elif server.path in by_hand:
            left.append((server.label, "it was behind the gateway before `holdall install`"))
        elif stands.config in originals and added:
            left.append((server.label, f"it was given {added[0]!r} beside the gateway"))
        elif stands.config in originals and server.unmoved:
            left.append((server.label, server.unmoved))
        elif stands.config in originals:
            restored[stands.config] = originals[stands.config]
            changes[server.path] = _restored_entry(read, server, originals[stands.config])
        elif stands.command_at is not None:
            changes[server.path] = _freed(read, server, stands.command_at, bare=server.path in bare)
        else:
            home, folder = os.path.split(os.path.dirname(stands.config))
            elsewhere = f"; `holdall --home {shell_quoted(home)} uninstall` may know" if folder == "clients" else ""
            left.append((server.label, f"nothing here tells what it was before{elsewhere}"))
        if server.path in changes and server.path in listed:
            changes[server.path] = _listing(read, server, changes[server.path], tools, add=False)
    changed = tuple(server.label for server in found.servers if server.path in changes)
    why = "" if changed or left else "no server in it is behind the gateway"
    return Edited(_proved(read, changes), changed, tuple(left), restored, tuple(changes), why=why)


def _says_program(shape: Shape, server: Server, key: str) -> bool:
    return (key, server.entry[key]) in (("type", "stdio"), *shape.local)


def named_in(text: str, file: str) -> bool:
    """Whether the text names that file, in whatever way JSON writes it."""
    return file in text or json.dumps(file)[1:-1] in text


def same(one: object, other: object) -> bool:
    """As JSON: 1 is not true, and the order of keys does not matter."""
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)


def _started(read: Configuration, server: Server, program: str, words: Sequence[str]) -> _Change:
    """The command becomes an argument, as it was written; where there were no arguments, without a space."""
    doc, shape = read.document, read.shape
    command, args = server.fields[shape.command], server.fields.get(shape.args)
    before = [doc.quoted(word) for word in words]
    if not shape.args:
        value = {**server.entry, shape.command: [program, *words, *command.value]}
        return doc.prepended(command, [doc.quoted(program), *before]), value
    given = cast("list[object]", args.value) if args is not None else []
    value = {**server.entry, shape.command: program, shape.args: [*words, command.value, *given]}
    ours, raw = doc.quoted(program), doc.item_raw(command)
    if args is None:
        new = doc.pair(shape.args, f"[{', '.join(before)},{raw}]")
        return [(command.start, command.end, f"{ours}{doc.joint(server)}{new}")], value
    return [(command.start, command.end, ours), *doc.prepended(args, [*before, raw])], value


def _freed(read: Configuration, server: Server, at: int, *, bare: bool) -> _Change:
    doc, shape = read.document, read.shape
    command = server.fields[shape.command]
    if not shape.args:
        return doc.dropped(command, at + 1), {**server.entry, shape.command: command.value[at + 1 :]}
    args = server.fields[shape.args]
    raw, rest = doc.raw(doc.items(args)[at][0]), args.value[at + 1 :]
    value = {**server.entry, shape.command: args.value[at], shape.args: rest}
    if not rest and (bare or doc.is_glued(args, at)):
        del value[shape.args]
        joint = f"{doc.joint(server)}{doc.pair(shape.args, '')}"
        if doc.text[command.end : args.start] == joint and not doc.has_comments(args):
            return [(command.start, args.end, raw)], value
        return doc.swapped(server, shape.command, [(shape.command, raw)], {shape.args}), value
    return [(command.start, command.end, raw), *doc.dropped(args, at + 1)], value


def _listing(
    read: Configuration, server: Server, change: _Change, tools: Collection[str], *, add: bool
) -> _Change:  # fmt: skip
    """The same with our tools in the entry's lists, or without them."""
    edits, value = change
    if edits[0][:2] == (server.place.start, server.place.end):
        return change  # all of it is written anew, as it was
    for key, given in allowed_lists(server.entry):
        new = [*given, *(name for name in tools if name not in given)] if add else [
            name for name in given if name not in tools
        ]  # fmt: skip
        place = server.fields[key]
        edits, value = [*edits, (place.start, place.end, read.document.quoted(new))], {**value, key: new}
    return edits, value


def _reached(read: Configuration, server: Server, words: Sequence[str]) -> _Change:
    """What belongs to the client stays in its entry."""
    doc, shape = read.document, read.shape
    ours: dict[str, object] = dict(shape.local)
    ours |= {shape.command: words[0], shape.args: list(words[1:])} if shape.args else {shape.command: list(words)}
    if used := _variables(read, server):
        ours[shape.passes] = shape.passed(used)
    value = {key: one for key, one in server.entry.items() if key not in shape.taken} | ours
    pairs = [(key, doc.quoted(one)) for key, one in ours.items()]
    url = shape.url_key(server.entry)
    return doc.swapped(server, url, pairs, {key for key in shape.taken if key != url}), value


def _variables(read: Configuration, server: Server) -> list[str]:
    """Of a URL and its headers, where the client does not give them to a program, and the entry names no others."""
    if not read.shape.passes or read.shape.passes in server.entry:
        return []
    common = read.common(server)
    return list(dict.fromkeys(variables_in(json.dumps([common.get(key) for key in (*URLS, "headers")]))))


def _restored_entry(read: Configuration, server: Server, raw: str) -> _Change:
    """The very text where nothing in the entry was changed, or else what the client has changed in it stays."""
    doc, shape = read.document, read.shape
    alone = Configuration(doc.alone(server, raw, shape.tables[0]), shape)
    was = alone.document.servers_at(shape.tables[0], server.name)
    left = {key for key in ("type", shape.passes) if key in was.entry and key not in (*shape.taken, *dict(shape.local))}
    ours = {*shape.ours} - left  # which stayed as they were
    theirs = {key: one for key, one in server.entry.items() if key not in ours}
    value = {key: one for key, one in was.entry.items() if key in shape.taken} | theirs
    if same(theirs, {key: one for key, one in was.entry.items() if key not in shape.taken}):
        url = shape.url_key(was.entry)
        pairs = [(key, doc.raw_of(server, key)) for key in _in_order(shape, server) if key in ours]
        edits = alone.document.swapped(was, url, pairs, {key for key in shape.taken if key != url})
        now = doc.alone(server, doc.raw(server.place), shape.tables[0]).text
        if applied(alone.document.text, edits).rstrip() == now or not doc.has_comments(server.place):
            return [(server.place.start, server.place.end, raw)], value
    new = [(key, alone.document.raw_of(was, key)) for key in was.entry if key in shape.taken]
    return doc.swapped(server, shape.command, new, ours - {shape.command}), value


def _in_order(shape: Shape, server: Server) -> list[str]:
    """Of what we wrote, in the order in which we write it."""
    keys = [*(key for key, _ in shape.local), shape.command, shape.args, shape.passes]
    return [key for key in keys if key and key in server.entry]


def _proved(read: Configuration, changes: Mapping[Path, _Change]) -> str:
    new = applied(read.document.text, [edit for edits, _ in changes.values() for edit in edits])
    expected: object = read.document.parse(read.document.text)
    for path, (_, entry) in changes.items():
        table = cast("dict[str, Any]", expected)
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = entry
    try:
        proved = same(read.document.parse(new), expected)
    except ValueError:
        proved = False
    if not proved:
        raise UnsafeEdit
    return new


def _why_unchanged(found: Found, shape: Shape) -> str:
    if found.has_table:
        return "it names no server"
    names = [f"`{name}`" for name in shape.tables]
    return f"it has neither {' nor '.join(names)}" if len(names) > 1 else f"it has no {names[0]}"
