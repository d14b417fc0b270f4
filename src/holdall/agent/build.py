"""From an agent's file to an agent: its functions loaded, its servers started, its model made, its agents built too.

Everything that is started here ends when the block is left. This module does not know where settings come from: the
caller passes them in.
"""

import contextlib
import importlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from holdall.agent.files import AgentFile, servers_of
from holdall.agent.toolbox import Agent, AgentTool, Toolbox
from holdall.bag import Holdall
from holdall.llm.model_names import MODEL_KEY, file_of, model_named, problem_with, url_of
from holdall.llm.protocol import Model
from holdall.llm.scripted import may_have_patterns
from holdall.mcp.client.spec import Configured, without_secrets
from holdall.text.escape import foreign
from holdall.trust import MOST_EFFORT, Claims, Module, file_hash, file_stamp, named_modules, origin_of, watched_files
from holdall.values.errors import MissingExtra, NoSuchModel, UpstreamFault, UpstreamRefused, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect
from holdall.wire.dialects import dialect_of
from holdall.wire.tool import ToolSpec

if TYPE_CHECKING:
    from holdall.mcp.client.connection import Connection, Servers

SettingsOf = Callable[[AgentFile], Settings]
_RUNTIME_TOOLS = ("final_report", "task_status", "batch", "spawn_agent")
_Files = tuple[tuple[str, str], ...]
_INVALID_IN_NAMES = lazy_pattern(r"[^A-Za-z0-9_-]")  # in the name of a tool, for one provider or another
_LONGEST_NAME = 64
_BETWEEN = "__"  # the name of a server and that of its tool


@record(frozen=False)
class _Build:
    """Builds one tree of agents."""

    home: str
    settings_of: SettingsOf
    warn: Callable[[str], None]
    stack: contextlib.AsyncExitStack
    servers: Mapping[str, Configured]
    modules: Mapping[str, Mapping[str, Module]]
    model_files: Mapping[str, _Files]  # as they were agreed to
    dialect_of: Callable[[Settings], Dialect]
    models: dict[str, Model] = field(default_factory=dict[str, Model])
    agents: dict[tuple[str, str], Agent] = field(default_factory=dict[tuple[str, str], Agent])

    async def agent(self, file: AgentFile, inherited: str = "") -> Agent:
        """Built once, however many name it."""
        if (file.path, inherited) not in self.agents:
            self.agents[file.path, inherited] = await self._agent(file, inherited)
        return self.agents[file.path, inherited]

    async def _agent(self, file: AgentFile, inherited: str) -> Agent:
        settings = self.settings_of(file)
        named = settings.model or inherited
        if not named:
            raise UsageError(
                f"{file.path}: no model. Name one with --model, `model:` in the front matter, HOLDALL_MODEL, or the "
                "setting `model` (provider:name, openai:NAME@URL, gguf:PATH or scripted:FILE)."
            )
        tools = _function_tools(file, self.modules[file.path]) + await self._server_tools(file, settings)
        _check_tool_names(file, tools, settings)
        agents = [await self.agent(child, named) for child in file.agents]
        extracting = await self._extraction_model(settings)

        def open_bag(session: str, parent: str, model: Model) -> Holdall:
            dialect = self.dialect_of(settings)
            bag = Holdall.open(
                home=self.home, session=session, parent=parent, settings=settings, dialect=dialect, model=model
            )
            bag.models.chosen = extracting or bag.models.chosen
            for tool in tools:
                bag.core.is_shown_as(tool.spec.plain_name, *tool.other_names)
            return bag

        return Agent(
            name=file.name, prompt=file.prompt.strip(), open_bag=open_bag,
            model=self._model(named, settings.window, settings.max_output),
            tools=Toolbox(tools), agents={one.name: one for one in agents}, description=file.description,
            max_turns=settings.max_turns, max_calls_per_turn=settings.max_calls_per_turn,
        )  # fmt: skip

    async def _extraction_model(self, settings: Settings) -> Model | None:
        """Said at the start, not in the middle of a run: without it a question about an output gets both its ends.

        A file that was agreed to is opened now, and not when the first question comes.
        """
        name = settings.extraction_model
        try:
            if name and not problem_with(name):  # which its session tells
                if name in self.model_files:
                    return self._model(name)
                await model_named(name).close()
        except (NoSuchModel, MissingExtra) as problem:
            self.warn(f"extraction_model cannot be used, so questions about outputs get both ends of them: {problem}")
        return None

    def _model(self, name: str, window: int | None = None, max_output: int | None = None) -> Model:
        key = f"{name}|{window}|{max_output}"
        if key not in self.models:
            if self.model_files.get(name, found := _model_files(name)) != found:
                raise UsageError(f"{file_of(name)} has changed since you were asked. Start this again.")
            model = model_named(name, window=window, max_output=max_output)
            self.models[key] = model
            self.stack.push_async_callback(model.close)
        return self.models[key]

    async def _server_tools(self, file: AgentFile, settings: Settings) -> list[AgentTool]:
        configured = self.servers[file.path]
        for warning in configured.warnings:
            self.warn(warning)
        if not configured.servers:
            return []
        upstream: Any = importlib.import_module(
            "holdall.mcp.client.connection"
        )  # it needs an extra, and takes its time
        server_process: Any = importlib.import_module("holdall.mcp.client.server_process")
        bounds = server_process.Bounds(message_bytes=settings.server_max_bytes)
        means = upstream.ConnectionOptions(bounds=bounds)
        servers: Servers = await self.stack.enter_async_context(upstream.Servers(configured.servers, means=means))
        tools: list[AgentTool] = []
        for name, listed in (await servers.tools()).items():
            if isinstance(listed, UpstreamFault):
                raise listed
            prefix = name if len(servers) > 1 else ""
            tools += [_server_tool(servers[name], one, prefix=prefix) for one in listed]
        return tools


@contextlib.asynccontextmanager
async def build_agent(
    file: AgentFile,
    *,
    home: str,
    settings_of: SettingsOf,
    agree: Callable[[Claims], bool | None],
    warn: Callable[[str], None] = lambda _: None,
    dialect_of: Callable[[Settings], Dialect] = dialect_of,
) -> AsyncGenerator[Agent]:
    """Raises UsageError or UpstreamFault, which say what to mend.

    Before anything is imported, started or sent, `agree` gets all that the file and its agents name, and raises
    NotTrusted where that may not be. Where it returns True, a server is started and a model opened only while their
    files are what they were then. A program that wrote the file itself passes a function that does nothing.
    """
    servers = _servers(file)
    modules = _modules(file)
    models = {name: _model_files(name) for one in _tree(file) for name in _chosen_models(one, settings_of(one))}
    if not agree(_claims(file, servers, modules, models, settings_of)):
        servers, models = {path: one.unwatched() for path, one in servers.items()}, {}
    async with contextlib.AsyncExitStack() as stack:
        yield await _Build(home, settings_of, warn, stack, servers, modules, models, dialect_of).agent(file)


# What the user has to agree to. Nothing is imported for it, and no variable's value is in it.


def _tree(agent: AgentFile) -> list[AgentFile]:
    """Each once, however many name it."""
    found = {agent.path: agent}
    waiting = [agent]
    for one in waiting:  # which grows
        new = [child for child in one.agents if child.path not in found]
        found |= {child.path: child for child in new}
        waiting += new
    return list(found.values())


def _claims(
    file: AgentFile,
    servers: Mapping[str, Configured],
    modules: Mapping[str, Mapping[str, Module]],
    models: Mapping[str, _Files],
    settings_of: SettingsOf,
) -> Claims:
    """An agent that has a prompt, a provider's model and nothing else claims nothing: its words go where the user's key
    is for. Not so where a prompt is a file from elsewhere, or of another kind: those are words of the user's own.
    """
    claims, agents = Claims(file.path), Claims(file.path)
    for one in _tree(file):
        agents += Claims(file.path, () if one is file else (("agent", one.path),))
        if not _is_beside(one, file):
            claims += Claims(file.path, (("sends", os.path.realpath(one.path)),))
        claims += Claims(file.path, files=(one.hashed,)) + servers[one.path].claims
        claims += _module_claims(one, modules[one.path], file.folder)
        claims += _models(one, settings_of(one), models)
    claims += _project_claims(file, modules)
    return agents + claims if claims.shown else claims


def _is_beside(one: AgentFile, file: AgentFile) -> bool:
    """Whether it is the file itself, and no link to another, or a page in its folder or below."""
    real, folder = os.path.realpath(one.path), os.path.realpath(os.path.dirname(file.path))
    if one is file and real == os.path.join(folder, os.path.basename(file.path)):
        return True
    return real.endswith(".md") and os.path.commonpath([real, folder]) == folder


def _servers(file: AgentFile) -> dict[str, Configured]:
    """By the path of each agent. A file that many name is read once."""
    known: dict[str, Configured] = {}
    found: dict[str, Configured] = {}
    effort = 0.0
    for one in _tree(file):
        key = one.servers if isinstance(one.servers, str) else f"in {one.path}"
        if key not in known:
            known[key] = servers_of(one)
            effort += known[key].claims.effort
        if effort > MOST_EFFORT:
            raise UsageError(f"the servers of {one.path} and of the agents before run more files than are looked at.")
        found[one.path] = known[key]
    return found


def _modules(file: AgentFile) -> dict[str, dict[str, Module]]:
    """By the path of each agent. What many functions and agents name is read once."""
    here = [os.getcwd()] if {"", os.getcwd()} & {*sys.path} else []
    known: dict[tuple[str, str], dict[str, Module]] = {}
    found: dict[str, dict[str, Module]] = {}
    left = _MOST_SOURCE
    for agent in _tree(file):
        found[agent.path] = {}
        for spec in agent.tools:
            key = (agent.folder, spec.partition(":")[0])
            if key not in known:
                known[key] = named_modules(spec, [agent.folder, *here])
                left -= sum(len(one.source or b"") for one in known[key].values())
                if left < 0:
                    raise UsageError(f"{agent.path} and the agents before it import more than {_MOST_SOURCE:,} bytes.")
            found[agent.path] |= known[key]
    return found


_MOST_SOURCE = 64 * 1024 * 1024


def _module_claims(agent: AgentFile, modules: Mapping[str, Module], folder: str) -> Claims:
    """`folder` is that of the file which the user is asked about."""
    shown: list[tuple[str, str]] = []
    for spec in agent.tools:
        named = modules.get(spec.partition(":")[0])
        where = os.path.relpath(named.path, folder) if named is not None else "where Python looks"
        shown.append(("module", f"{spec}   ({where})"))
    hashes = [one.hashed for one in modules.values() if one.hashed is not None]
    return Claims(agent.path, tuple(shown), tuple(hashes))


def _project_claims(file: AgentFile, modules: Mapping[str, Mapping[str, Module]]) -> Claims:
    """A module may run any other file of its project, as a command may: these are watched, too."""
    found: dict[str, set[str]] = {}
    for one in _tree(file):
        if paths := {named.hashed[0] for named in modules[one.path].values() if named.hashed is not None}:
            found.setdefault(one.folder, set()).update(paths)
    claims = Claims(file.path)
    for folder, paths in found.items():
        watched = watched_files(["python", *sorted(paths)], {}, folder, folder)
        claims += Claims(file.path, files=watched.files, effort=watched.effort, whole=watched.whole)
        if claims.effort > MOST_EFFORT:
            raise UsageError(
                f"the tools of {file.path} and of its agents are in more projects than are looked through."
            )
    return claims


def _chosen_models(agent: AgentFile, settings: Settings) -> list[str]:
    """Those that the file itself has chosen, where nothing that goes before it says otherwise."""
    chosen = {name: str(agent.settings.get(name) or "") for name in ("model", "extraction_model")}
    return [one for name, one in chosen.items() if one and one == getattr(settings, name)]


def _model_files(name: str) -> _Files:
    """What is opened for it: the hash of a script, and of a model of gigabytes that it is the same file."""
    path = file_of(name)
    if path is None or not path.is_file():
        return ()
    return file_stamp(str(path)) if name.startswith("gguf:") else (file_hash(str(path)),)


def _models(agent: AgentFile, settings: Settings, files: Mapping[str, _Files]) -> Claims:
    claims = Claims(agent.path)
    for chosen in _chosen_models(agent, settings):
        path = file_of(chosen)
        if url := url_of(chosen):
            sends = ((MODEL_KEY, origin_of(url)),) if os.environ.get(MODEL_KEY) else ()
            claims += Claims(agent.path, (("url", f"{chosen}   (model)"),), sends=sends)
        # Native code reads a gguf; a script says what the tools are called with, by patterns that have no deadline.
        elif path is not None:
            is_shown = chosen.startswith("gguf:") or may_have_patterns(path)
            claims += Claims(agent.path, (("model", chosen),) if is_shown else (), files[chosen])
    return claims


def _function_tools(file: AgentFile, modules: Mapping[str, Module]) -> list[AgentTool]:
    if not file.tools:
        return []
    functions: Any = importlib.import_module("holdall.agent.functions")  # it needs an extra
    loaded = [functions.load_function_tool(spec, folder=file.folder, modules=modules) for spec in file.tools]
    return [AgentTool(one.spec, one.call) for one in loaded]


def _check_tool_names(file: AgentFile, tools: list[AgentTool], settings: Settings) -> None:
    """A tool with the name of a built-in one could never be called."""
    for tool in tools:
        name = tool.spec.name
        if name in _RUNTIME_TOOLS or dialect_of(settings).tool(name) is not None:
            where = f' of the server "{tool.server}"' if tool.server else ""
            raise UsageError(f"{file.path}: the tool {name}{where} has the name of one of Holdall's own. Rename it.")


def _refused(said: str, data: object) -> dict[str, Any]:
    told = [said] if data is None else [said, data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)]
    return {"content": [{"type": "text", "text": one} for one in told], "isError": True}


def _server_tool(connection: "Connection", described: Mapping[str, Any], *, prefix: str) -> AgentTool:
    name = str(described.get("name", ""))

    async def call(**arguments: Any) -> object:
        try:
            return (await connection.call(name, arguments)).typed()
        except UpstreamRefused as refusal:
            # The message has few words of the server. All that it says is the result, and kept like any other.
            said = without_secrets(refusal.reason, connection.spec)
            if refusal.data is None and foreign(said) == said:
                raise
            return _refused(f"(code {refusal.code}) {said}", refusal.data)

    given = described.get("inputSchema")
    schema = cast("Mapping[str, Any]", given) if given and isinstance(given, Mapping) else {"type": "object"}
    shown = _INVALID_IN_NAMES.sub("_", name)[:_LONGEST_NAME]
    # The name of a server is cut, not that of its tool, by which its policy is found.
    if prefix and (room := _LONGEST_NAME - len(shown) - len(_BETWEEN)) > 0:
        shown = f"{_INVALID_IN_NAMES.sub('_', prefix)[:room]}{_BETWEEN}{shown}"
    spec = ToolSpec(shown, str(described.get("description") or ""), schema)
    return AgentTool(spec, call, connection.name, name)
