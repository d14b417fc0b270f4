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

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from holdall.agent import files_text
from holdall.agent.files_keys import Checked, checked
from holdall.agent.files_text import Document, NotYaml
from holdall.text.escape import one_line
from holdall.values.errors import BadSetting, WrongUse

_MOST_AGENTS = 100  # in one tree: each is read, and offered to a model


@dataclass(frozen=True, slots=True)
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

    @property
    def folder(self) -> str:
        """Absolute; what the file names is found from here."""
        return os.path.dirname(os.path.abspath(self.path))


def load_agent(path: str | os.PathLike[str]) -> AgentFile:
    """The agent of that file, with the agents that it names. Raises WrongUse, mostly BadSetting."""
    return _Tree().load(os.fspath(path), ())


def parse_agent(text: str, *, path: str) -> AgentFile:
    """The same for a text that stands, or could stand, at that path."""
    return _Tree().parse(text.removeprefix("\ufeff").replace("\r\n", "\n"), path, (os.path.realpath(path),))


class _Tree:
    """An agent and its agents on their way from files: each file is read once, however many name it."""

    def __init__(self) -> None:
        self._loaded: dict[str, AgentFile] = {}

    def load(self, path: str, above: tuple[str, ...]) -> AgentFile:
        """`above` are the real paths of the agents that lead to it."""
        real = os.path.realpath(path) if "\0" not in path else path  # reading it says what is wrong with that
        if real not in self._loaded:
            self._loaded[real] = self.parse(files_text.read(path), path, (*above, real))
        return self._loaded[real]

    def parse(self, text: str, path: str, way: tuple[str, ...]) -> AgentFile:
        front, body = files_text.split(text, path)
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
        )

    def _agents(self, found: Checked, path: str, way: tuple[str, ...]) -> tuple[AgentFile, ...]:
        where = found.sources.get("agents", "")
        agents: dict[str, AgentFile] = {}
        for entry in cast("list[str]", found.own.get("agents", [])):
            file = os.path.join(os.path.dirname(path), entry)
            if not os.path.exists(file):
                raise WrongUse(f"{where}: there is no agent {one_line(entry)}.{files_text.similar(file)}")
            real = os.path.realpath(file)
            _refuse_a_circle(real, way, where)
            if real not in self._loaded and len(self._loaded) + len(way) >= _MOST_AGENTS:
                raise WrongUse(f"{where}: with {one_line(entry)} there would be more than {_MOST_AGENTS} agents.")
            agent = self.load(file, way)
            if other := agents.get(agent.name):
                both = f"{one_line(other.path)} and {one_line(agent.path)}"
                raise WrongUse(f"{where}: {both} are both named {agent.name}. Give one of them another `name`.")
            agents[agent.name] = agent
        return tuple(agents.values())


def _refuse_a_circle(real: str, way: tuple[str, ...], where: str) -> None:
    if real in way:
        folder = os.path.dirname(way[0])
        circle = [one_line(os.path.relpath(one, folder)) for one in (*way[way.index(real) :], real)]
        raise WrongUse(f"{where}: agents must not lead back to themselves: {' → '.join(circle)}.")


def _document(front: str, path: str) -> Document:
    parser: Any = importlib.import_module("holdall.agent.files_yaml")  # it needs an extra
    try:
        document: Document = parser.parse(f"\n{front}")  # the line before it is the opening ---
    except NotYaml as problem:
        where = f"{one_line(path)}, line {problem.line}, column {problem.column}"
        raise WrongUse(f"{where}: the front matter cannot be read as YAML: {problem.what}.") from problem
    if document.value is None:
        return Document({})
    if not isinstance(document.value, dict):
        raise WrongUse(f"{one_line(path)}: the front matter must be keys with values, as in `model: provider:name`.")
    return document


def _servers(found: Checked, path: str) -> str | Mapping[str, Any] | None:
    servers = found.own.get("servers")
    if isinstance(servers, str):
        file = os.path.join(os.path.dirname(os.path.abspath(path)), servers)
        if not os.path.isfile(file):
            rule = f"there is no such file.{files_text.similar(file)}"
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
