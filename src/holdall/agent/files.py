"""Agents as Markdown files: YAML front matter says what an agent is and has, the body is its prompt.

    ---
    model: openai:gpt-5
    description: finds things out
    tools: [my_tools:search]          # functions; a module beside this file is found too
    servers: mcp.json                 # or a table of servers, as `mcpServers` has it
    agents: [reader.md]               # by their paths from this file
    max_turns: 20                     # as every setting, by our names or the documents'
    tools_policy: {search: {store: always}}
    ---
    You are ...

Everything is optional, the front matter too. What the file says of settings goes before the environment and after the
flags: `config.load(front_matter=agent.settings, places=agent.sources)`. Loading an agent loads the agents that it
names; it imports no function, starts no server and asks no model.
"""

import difflib
import importlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, cast

from holdall.mcp.client import spec
from holdall.mcp.client.spec import Configured
from holdall.policy.setting_values import OF_A_TOOL, SETTINGS, TABLES, HiddenValue, nearest, shown, value_of
from holdall.text.escape import one_line
from holdall.trust import check_writers, text_hash
from holdall.values.errors import BadSetting, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_LARGEST_FILE = 1024 * 1024
_LARGEST_FRONT_MATTER = 64 * 1024
_FENCE = "---"

Path = tuple[str, ...]


class InvalidYaml(ValueError):
    """`line` and `column` count from 1, within the text that was given."""

    def __init__(self, what: str, line: int, column: int) -> None:
        self.what = what
        self.line = line
        self.column = column
        super().__init__(what)


@record
class Document:
    """`lines` has the line of every key, under the keys that lead to it; lists have no lines of their own."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict[Path, int])


def read(path: str) -> str:
    """All of it, as UTF-8 without a mark at its beginning, with plain line ends.

    The file names code to import and commands to start, so one that others can write to is refused.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UsageError(f"there is no agent's file {one_line(path)}.{similar(path)}") from None
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "there is a null byte in its path"
        raise UsageError(f"the agent's file {one_line(path)} cannot be read: {why}.") from problem
    try:
        _check_permissions(path, os.fstat(descriptor))
        data = os.read(descriptor, _LARGEST_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST_FILE:
        raise UsageError(f"the agent's file {one_line(path)} is larger than {_LARGEST_FILE:,} bytes.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise UsageError(f"the agent's file {one_line(path)} is not UTF-8 (byte {problem.start}).") from problem


def _check_permissions(path: str, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"the agent's file {one_line(path)} is not a regular file.")
    check_writers(path, about, "the agent's file")


def similar(path: str) -> str:
    """A hint that names a file with a similar name; empty if there is none."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f" Did you mean {one_line(os.path.join(folder, near[0]))}?" if near else ""


def split(text: str, path: str) -> tuple[str | None, str]:
    """The front matter, None if there is none, and the body.

    Front matter is between two lines `---`, the first of which is the first of the file. Later ones are the body's.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None, _body(text)
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            front = "\n".join(lines[1:number])
            if len(front) > _LARGEST_FRONT_MATTER:
                rule = f"it may have {_LARGEST_FRONT_MATTER:,} characters"
                raise UsageError(f"{one_line(path)}: the front matter has {len(front):,} characters; {rule}.")
            return front, _body("\n".join(lines[number + 1 :]))
    raise UsageError(
        f"{one_line(path)}: the front matter begins on line 1 and does not end; a second line {_FENCE} ends it. A file "
        f"without front matter does not begin with {_FENCE}."
    )


def _body(text: str) -> str:
    return text.strip("\n").rstrip()


TABLES_KEY = "tools_policy"  # Settings calls it `tools`, which lists functions here
KNOWN = {**SETTINGS, "max_depth": SETTINGS["max_agent_depth"]}  # in its own file the agent needs no prefix
_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@record
class Rule:
    """A rule for a value: its wording and its check."""

    words: str
    holds: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_function_name(value: object) -> bool:
    """Whether it is `module:name`, both of which may have dots."""
    if not isinstance(value, str) or len(value) > 500:
        return False
    module, colon, name = value.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


OWN: Mapping[str, Rule] = {
    "name": Rule("it must be 1 to 64 letters, digits, - and _", _is_name),
    "description": Rule("it must be a text", _is_text),
    "tools": Rule("it must be a list of functions, each as module:name", _is_list),
    "servers": Rule(
        "it must be the path of an mcp.json or a table of servers", lambda value: _is_text(value) or _is_table(value)
    ),
    "agents": Rule("it must be a list of agents' files, by their paths from this file", _is_list),
}
# What each entry of a list must be.
_ENTRIES = {
    "tools": Rule("it must be a function as module:name", is_function_name),
    "agents": Rule("it must be the path of an agent's file", _is_text),
}


@record
class Checked:
    """`own` has the agent's own keys, `settings` all others by our names, `sources` the place of each."""

    own: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    sources: dict[str, str] = field(default_factory=dict[str, str])


def checked(document: Document, path: str) -> Checked:
    """Raises BadSetting at the first thing that is wrong."""

    def place(*keys: str) -> str:
        return f"{one_line(path)}, line {document.lines[keys]}"

    found, written = Checked(), dict[str, str]()
    for key, value in cast("Mapping[str, Any]", document.value).items():
        if key in OWN:
            _check_agent_keys(key, value, place(key))
            if value is not None:
                found.own[key], found.sources[key] = value, place(key)
        elif key == TABLES_KEY:
            _add_tables(found, value, place)
        elif key not in KNOWN:
            raise _unknown(key, value, place(key))
        else:
            name, given = value_of(key, value, place(key), known=KNOWN)
            if (first := written.setdefault(name, key)) != key:
                rule = f"it is the same setting as {first!r} ({place(first)}); one of them is enough"
                raise BadSetting(key, given, rule, where=place(key))
            found.settings[name], found.sources[name] = given, place(key)
    _check_room(found)
    return found


def _check_agent_keys(key: str, value: object, where: str) -> None:
    rule = OWN[key]
    if value is None:
        return
    if not rule.holds(value):
        words = rule.words
        if key == "tools" and _is_table(value):
            words += f"; what is different for a tool stands under {TABLES_KEY}"
        given = HiddenValue(value) if key == "servers" else shown(value) if not isinstance(value, str) else value
        raise BadSetting(key, given, words, where=where)
    seen = set[str]()
    for number, entry in enumerate(cast("list[object]", value) if key in _ENTRIES else [], 1):
        if not _ENTRIES[key].holds(entry):
            raise BadSetting(f"{key}[{number}]", entry, _ENTRIES[key].words, where=where)
        if str(entry) in seen:
            raise BadSetting(f"{key}[{number}]", entry, "it stands twice", where=where)
        seen.add(str(entry))


def _add_tables(found: Checked, tables: object, place: Callable[..., str]) -> None:
    tools: dict[str, dict[str, Any]] = {}
    for tool, table in _items(tables, TABLES_KEY, "it must be a table with a table for each tool", place(TABLES_KEY)):
        where: Path = (TABLES_KEY, tool)
        rule = f"it must be a table, as in {TABLES_KEY}: {{{tool[:60]}: {{store: never}}}}"
        for key, value in _items(table, ".".join(where), rule, place(*where)):
            at = place(*where, key)
            if key not in OF_A_TOOL:
                raise _unknown_tool_setting(".".join((*where, key[:60])), key, value, at)
            name, given = value_of(key, value, at, known=OF_A_TOOL, inside=f"{TABLES_KEY}.{tool}.")
            tools.setdefault(tool, {})[name] = given
            found.sources[f"{TABLES}.{tool}.{name}"] = at
    if tools:
        found.settings[TABLES] = tools


def _items(value: object, key: str, rule: str, where: str) -> Iterator[tuple[str, object]]:
    if value is None:
        return
    if not _is_table(value):
        raise BadSetting(key, shown(value), rule, where=where)
    yield from cast("Mapping[str, object]", value).items()


def _check_room(found: Checked) -> None:
    window, reply = found.settings.get("window"), found.settings.get("max_output")
    if window is not None and reply is not None and reply >= window:
        rule = f"it must be less than the window, {window:,}: the request needs room too"
        raise BadSetting("max_output", reply, rule, where=found.sources["max_output"])


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _unknown(key: str, value: object, where: str) -> BadSetting:
    near = nearest(key, (*OWN, TABLES_KEY, *KNOWN))
    meant = f"; did you mean {near}?" if near else f". The keys are {', '.join((*OWN, TABLES_KEY))} and every setting."
    return BadSetting(key[:60], shown(value), f"an agent has no such key{meant}", where=where)


def _unknown_tool_setting(full: str, key: str, value: object, where: str) -> BadSetting:
    near = nearest(key, OF_A_TOOL)
    meant = f"did you mean {near}?" if near else f"there are {', '.join(OF_A_TOOL)}"
    return BadSetting(full, shown(value), f"there is no such setting of a tool; {meant}", where=where)


_MAX_AGENTS = 100  # in one tree: each is read, and offered to a model


@record
class AgentFile:
    """Empty means that the file does not say. `sources` has the place of every key that it does say.

    `settings` is by our names: the model and the limits of the agent, every other setting, and `tools` for the tables
    of single tools. `sources` names those as a Configuration does, `tools.fetch.store`. `servers` is the path of a file
    or a table as `mcpServers` has it.
    """

    path: str
    name: str
    prompt: str
    description: str = ""
    tools: tuple[str, ...] = ()
    servers: str | Mapping[str, Any] | None = field(default=None, hash=False, repr=False)  # it may hold secrets
    agents: "tuple[AgentFile, ...]" = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    sources: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    hashed: tuple[str, str] = field(default=("", ""), compare=False)  # its real path, and the hash of its text

    @property
    def folder(self) -> str:
        """Absolute; what the file names is found from here."""
        return os.path.dirname(os.path.abspath(self.path))


def load_agent(path: str | os.PathLike[str]) -> AgentFile:
    """The agent of that file, with the agents that it names. Raises UsageError, mostly BadSetting."""
    return _Tree().load(os.fspath(path), ())


def parse_agent(text: str, *, path: str) -> AgentFile:
    """The same for a text, as if it were at that path."""
    return _Tree().parse(text.removeprefix("\ufeff").replace("\r\n", "\n"), path, (os.path.realpath(path),))


class _Tree:
    """Loads an agent and its sub-agents: each file is read once, even if several name it."""

    def __init__(self) -> None:
        self._loaded: dict[str, AgentFile] = {}

    def load(self, path: str, above: tuple[str, ...]) -> AgentFile:
        """`above` are the real paths of the agents that lead to it."""
        real = os.path.realpath(path) if "\0" not in path else path  # reading it says what is wrong with that
        if real not in self._loaded:
            self._loaded[real] = self.parse(read(path), path, (*above, real))
        return self._loaded[real]

    def parse(self, text: str, path: str, way: tuple[str, ...]) -> AgentFile:
        front, body = split(text, path)
        found = checked(_document(front, path), path) if front is not None else Checked()
        own = found.own
        return AgentFile(
            path=path,
            name=own.get("name") or _name_from(path),
            prompt=body,
            description=own.get("description", "").strip(),
            tools=tuple(own.get("tools", ())),
            servers=_servers(found, path),
            agents=self._agents(found, path, way),
            settings=MappingProxyType(found.settings),
            sources=MappingProxyType(found.sources),
            hashed=text_hash(path, text),
        )

    def _agents(self, found: Checked, path: str, way: tuple[str, ...]) -> tuple[AgentFile, ...]:
        where = found.sources.get("agents", "")
        agents: dict[str, AgentFile] = {}
        for entry in cast("list[str]", found.own.get("agents", [])):
            file = os.path.join(os.path.dirname(path), entry)
            if not os.path.exists(file):
                raise UsageError(f"{where}: there is no agent {one_line(entry)}.{similar(file)}")
            real = os.path.realpath(file)
            _check_cycle(real, way, where)
            if real not in self._loaded and len(self._loaded) + len(way) >= _MAX_AGENTS:
                raise UsageError(f"{where}: with {one_line(entry)} there would be more than {_MAX_AGENTS} agents.")
            agent = self.load(file, way)
            if other := agents.get(agent.name):
                both = f"{one_line(other.path)} and {one_line(agent.path)}"
                raise UsageError(f"{where}: {both} are both named {agent.name}. Give one of them another `name`.")
            agents[agent.name] = agent
        return tuple(agents.values())


def _check_cycle(real: str, way: tuple[str, ...], where: str) -> None:
    if real in way:
        folder = os.path.dirname(way[0])
        circle = [one_line(os.path.relpath(one, folder)) for one in (*way[way.index(real) :], real)]
        raise UsageError(f"{where}: agents must not lead back to themselves: {' → '.join(circle)}.")


def _document(front: str, path: str) -> Document:
    parser: Any = importlib.import_module("holdall.agent.front_matter")  # it needs an extra
    try:
        document: Document = parser.parse(f"\n{front}")  # the line before it is the opening ---
    except InvalidYaml as problem:
        where = f"{one_line(path)}, line {problem.line}, column {problem.column}"
        raise UsageError(f"{where}: the front matter cannot be read as YAML: {problem.what}.") from problem
    if document.value is None:
        return Document({})
    if not isinstance(document.value, dict):
        raise UsageError(f"{one_line(path)}: the front matter must be keys with values, as in `model: provider:name`.")
    return document


def _servers(found: Checked, path: str) -> str | Mapping[str, Any] | None:
    servers = found.own.get("servers")
    if isinstance(servers, str):
        file = os.path.join(os.path.dirname(os.path.abspath(path)), servers)
        if not os.path.isfile(file):
            rule = f"there is no such file.{similar(file)}"
            raise BadSetting("servers", servers, rule, where=found.sources["servers"])
        return file
    if isinstance(servers, Mapping):
        table = cast("Mapping[str, Any]", servers)
        inner = table.get("mcpServers") if len(table) == 1 else None  # a whole mcp.json, pasted
        return MappingProxyType(dict(cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else table))
    return None


def _name_from(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:64] or "agent"


def servers_of(agent: AgentFile, *, environment: Mapping[str, str] | None = None, inherits: bool = False) -> Configured:
    """The MCP servers that the file names; none is started. Raises BadServer, which names the agent's file as the place
    of a table in it.
    """
    if agent.servers is None:
        return Configured(())
    if isinstance(agent.servers, str):
        return spec.load(agent.servers, environment=environment, inherits=inherits)
    text = json.dumps({"mcpServers": dict(agent.servers)})
    return spec.parse_servers(text, source=agent.sources["servers"], environment=environment, inherits=inherits)
