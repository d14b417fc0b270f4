"""From an agent's file to an agent: functions, servers over stdio and HTTP, other agents, models, and whose settings."""

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall import config
from holdall.agent.build import build_agent as really_build_agent
from holdall.agent.files import AgentFile, load_agent
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, Report
from holdall.llm.scripted import ScriptedModel
from holdall.values.errors import NoSuchModel, UpstreamFault, UsageError
from holdall.values.settings import Settings
from tests.agent.shapes import returned
from tests.requirements import requirement
from tests.upstream.launch import sdk_server
from tests.upstream.support import GOOD, http_server

pytestmark = pytest.mark.anyio
build_agent = functools.partial(really_build_agent, agree=lambda _: None)  # these files are the tests' own

TOOLS = '''
def search(query: str, limit: int = 3) -> str:
    """Finds lines."""
    return "\\n".join(f"{query} {n}" for n in range(limit))


def final_report(text: str) -> str:
    """Has a name that is taken."""
    return text


def context_read(text: str) -> str:
    """This one too."""
    return text
'''


REFUSING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    params, given = asked.get("params") or {}, {"tools": [{"name": "refuse", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "initialize":
        given = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                 "serverInfo": {"name": "x", "version": "1"}}
    answer = {"result": given}
    if asked["method"] == "tools/call":
        answer = {"error": {"code": -32000, "message": params["arguments"]["words"]}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def _outside_of_the_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of a folder that a server is started in all code is hashed, for each server."""
    with contextlib.chdir(tmp_path_factory.mktemp("started")):
        yield


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AgentFile]:
    """Writes an agent and the script of its model; gives the file as it was loaded."""
    (tmp_path / "building_tools.py").write_text(TOOLS)
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("HOLDALL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("building_tools", "other_tools"):  # of another test, from another folder
        monkeypatch.delitem(sys.modules, name, raising=False)

    def written(front: str, *replies: Any, name: str = "agent", body: str = "You find.") -> AgentFile:
        (tmp_path / f"{name}.json").write_text(json.dumps(list(replies)))
        model = f"model: scripted:{tmp_path / name}.json\n" if replies else ""
        (tmp_path / f"{name}.md").write_text(f"---\n{model}{front}\n---\n{body}\n")
        return load_agent(tmp_path / f"{name}.md")

    return written


def settings_of(environment: dict[str, str] | None = None, *flags: str) -> Callable[[AgentFile], Settings]:
    env = {"HOLDALL_CONFIG": os.environ["HOLDALL_CONFIG"]} | (environment or {})

    def of(file: AgentFile) -> Settings:
        return config.load(front_matter=file.settings, places=file.sources, flags=flags, environment=env).settings

    return of


def calling(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": given} for name, given in calls]}


REPORT = calling(("final_report", {"report": "done"}))


async def run(agent: Agent) -> Report:
    async with agent.open_bag("s1", "", agent.model) as bag:
        return await run_agent(agent, bag, "Go.")


def answers_of(agent: Agent) -> list[str]:
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return [one.text for one in returned(model.requests[-1])]


@requirement("runtime:tools-functions", "runtime:agent-files")
async def test_functions_are_tools_with_their_schema(write: Any, tmp_path: Path) -> None:
    file = write("tools: [building_tools:search]", calling(("search", {"query": "x", "limit": 2})), REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        assert (agent.name, agent.prompt) == ("agent", "You find.")
        (spec,) = agent.tools.specs
        assert (spec.name, spec.description) == ("search", "Finds lines.")
        assert spec.schema["required"] == ["query"]
        assert (await run(agent)).text == "done"
        assert answers_of(agent) == ["x 0\nx 1"]


def good_server() -> dict[str, Any]:
    command, *words = sdk_server(GOOD)
    return {"command": command, "args": words}


@requirement("runtime:tools-mcp-stdio")
async def test_the_tools_of_a_server_over_stdio(write: Any, tmp_path: Path) -> None:
    table = json.dumps({"good": good_server()})
    file = write(
        f"servers: {table}", calling(("echo", {"text": "over stdio"})), calling(("big", {"bytes": 300_000})), REPORT
    )
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        assert {"echo", "slow", "fail"} <= {spec.name for spec in agent.tools.specs}, "those of the second page too"
        await run(agent)
        echo, big = answers_of(agent)
    assert echo == "over stdio"
    assert big.startswith("good/big returned 300,000 bytes")


@requirement("way:nothing-lost-silently")
async def test_an_error_of_a_servers_protocol_that_is_no_short_line_is_the_result_and_kept_like_any_other(
    write: Any, tmp_path: Path
) -> None:
    (tmp_path / "refusing.py").write_text(REFUSING)
    server = {"command": sys.executable, "args": [str(tmp_path / "refusing.py")], "env": {"KEY": "sk-live-12345"}}
    words = "argument q is wrong:\n" + "a word " * 20
    calls = [calling(("refuse", {"words": one})) for one in ("not today", f"{words}sk-live-12345", "E" * 1_000_000)]
    file = write(f"servers: {json.dumps({'bad': server})}", *calls, REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        await run(agent)
        short, long, huge = answers_of(agent)
    assert short == 'UpstreamRefused: MCP server "bad" refused "refuse": not today (code -32000).'
    assert long == f"(code -32000) {words}***"
    assert huge.startswith("bad/refuse failed with 1,000,014 bytes")


@pytest.mark.in_full(one_in=3)
@requirement("store:tool-redacts")
@pytest.mark.parametrize("name", ["big", "my_vault__big", "mcp__my_vault__big", "my vault__big"])
async def test_a_policy_holds_under_every_name_that_a_servers_tool_has(write: Any, tmp_path: Path, name: str) -> None:
    """How many servers there are, and so what its tools are called, is up to a file that may be part of a checkout."""
    (tmp_path / "config.toml").write_text(f'[tools."{name}"]\nstore = "never"\n')
    file = write(f"servers: {json.dumps({'my vault': good_server()})}", calling(("big", {"bytes": 300_000})), REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        await run(agent)
        (big,) = answers_of(agent)
    assert "outputs of big are not to be stored" in big


@requirement("runtime:tools-mcp-http")
async def test_the_tools_of_a_server_over_http(write: Any, tmp_path: Path) -> None:
    with http_server(tmp_path) as (server, _):
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"web": {"url": server.url}}}))
        file = write(
            "servers: mcp.json", calling(("echo", {"text": "over HTTP"})), calling(("big", {"bytes": 300_000})), REPORT
        )
        async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
            await run(agent)
            echo, big = answers_of(agent)
    assert echo == "over HTTP"
    assert big.startswith("web/big returned 300,000 bytes")


async def test_tools_of_several_servers_cannot_be_mixed_up(write: Any, tmp_path: Path) -> None:
    server = good_server()
    file = write(f"servers: {json.dumps({'one': server, 'v' * 90: server})}", REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        assert {"one__echo", "v" * 58 + "__echo"} <= {spec.name for spec in agent.tools.specs}


async def test_a_server_that_does_not_start_stops_the_building_and_what_else_was_started_ends(
    write: Any, tmp_path: Path
) -> None:
    servers = {"good": good_server(), "gone": {"command": "/nowhere/at/all"}}
    file = write(f"servers: {json.dumps(servers)}", REPORT)
    with pytest.raises(UpstreamFault, match='MCP server "gone" cannot be started'):
        async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()):
            pass


async def test_what_is_not_known_of_a_server_is_warned_of(write: Any, tmp_path: Path) -> None:
    table = json.dumps({"good": {**good_server(), "iconPath": "x.png"}})
    warnings: list[str] = []
    file = write(f"servers: {table}", REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of(), warn=warnings.append):
        pass
    (warning,) = warnings
    assert warning.endswith("mcpServers.good.iconPath is not known to Holdall and is not used")


@requirement("runtime:tools-agents", "session:parent", "api:open-parent")
async def test_agents_are_built_with_it_and_have_its_model_where_they_name_none(write: Any, tmp_path: Path) -> None:
    write("description: silent", name="silent", body="You are silent.")
    write("description: says", {"text": "x"}, name="says", body="You say.")
    file = write("agents: [silent.md, says.md]", REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        silent, says = agent.agents["silent"], agent.agents["says"]
        assert silent.model is agent.model
        assert says.model is not agent.model
        assert (silent.description, says.prompt) == ("silent", "You say.")
        bag = agent.open_bag("parent", "", agent.model)
        async with bag, silent.open_bag("child", bag.session.id, agent.model) as child:
            assert child.session.parent == bag.session.id
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert model.closed


@requirement("settings:flag-over-front-matter", "settings:front-matter-over-environment")
async def test_settings_come_from_the_flags_the_file_the_environment_in_this_order(write: Any, tmp_path: Path) -> None:
    write("max_turns: 4", name="child")
    file = write("agents: [child.md]\nmaxTurns: 3\nmax_calls_per_turn: 5\nwindow: 9000", REPORT)
    environment = {"HOLDALL_MAX_TURNS": "7", "HOLDALL_MAX_CALLS_PER_TURN": "8", "HOLDALL_WINDOW": "7000"}
    home = str(tmp_path / "home")
    async with build_agent(file, home=home, settings_of=settings_of(environment)) as agent:
        assert (agent.max_turns, agent.max_calls_per_turn, agent.model.window) == (3, 5, 9000)
        child = agent.agents["child"]
        assert (child.max_turns, child.max_calls_per_turn, child.model.window) == (4, 8, 7000)
    async with build_agent(file, home=home, settings_of=settings_of(environment, "max_turns=2")) as agent:
        assert (agent.max_turns, agent.agents["child"].max_turns) == (2, 2), "flags hold for every agent of the run"
    (tmp_path / "config.toml").write_text("max_turns = 9\n")
    bare = write("", REPORT, name="bare")
    async with build_agent(bare, home=home, settings_of=settings_of()) as agent:
        assert agent.max_turns == 9
    async with build_agent(bare, home=home, settings_of=settings_of(environment)) as agent:
        assert agent.max_turns == 7


async def test_the_limits_and_the_dialect_of_the_file_are_those_of_its_bag(write: Any, tmp_path: Path) -> None:
    file = write("dialect: extract\ntoolResponseMaxBytes: 2 KiB\ntools_policy: {search: {store: never}}", REPORT)
    building = build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of())
    async with building as agent, agent.open_bag("s1", "", agent.model) as bag:
        assert (bag.dialect.name, bag.core.limits.bytes, bag.core.policy_of("search").store) == (
            "extract",
            2048,
            "never",
        )


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("tools: [building_tools:search]", ": no model. Name one with --model, `model:` in the front matter"),
        (
            "model: scripted:x\ntools: [building_tools:final_report]",
            "the tool final_report has the name of one of Holdall",
        ),
        (
            "model: scripted:x\ntools: [building_tools:context_read]",
            "the tool context_read has the name of one of Holdall",
        ),
    ],
)
async def test_an_agent_that_cannot_be_is_refused(write: Any, tmp_path: Path, front: str, said: str) -> None:
    with pytest.raises(UsageError) as problem:
        async with build_agent(write(front), home=str(tmp_path / "home"), settings_of=settings_of()):
            pass
    assert said in str(problem.value)


async def test_two_tools_of_one_name_are_refused(write: Any, tmp_path: Path) -> None:
    (tmp_path / "other_tools.py").write_text("def search(query: str) -> str:\n    return query\n")
    file = write("tools: [building_tools:search, other_tools:search]", REPORT)
    with pytest.raises(UsageError, match="two tools of this agent are called 'search'"):
        async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()):
            pass


async def test_a_model_that_is_none_is_refused_when_the_agent_is_built(write: Any, tmp_path: Path) -> None:
    with pytest.raises(NoSuchModel):
        async with build_agent(write("model: gpt-5"), home=str(tmp_path / "home"), settings_of=settings_of()):
            pass


async def test_an_agent_without_servers_needs_no_package_for_them(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mcp", "holdall.mcp.client.connection", "holdall.mcp.client.sdk"):
        monkeypatch.setitem(sys.modules, name, None)
    file = write("tools: [building_tools:search]", REPORT)
    async with build_agent(file, home=str(tmp_path / "home"), settings_of=settings_of()) as agent:
        assert (await run(agent)).text == "done"


@requirement("trust:tighten-only")
async def test_a_user_who_switched_references_off_has_them_off(write: Any, tmp_path: Path) -> None:
    file = write("description: x", REPORT)
    own = settings_of({"HOLDALL_BY_REFERENCE": "false"})
    async with (
        build_agent(file, home=str(tmp_path / "home"), settings_of=own) as agent,
        agent.open_bag("s1", "", agent.model) as bag,
    ):
        assert not bag.settings.by_reference


@requirement("extract:model-unusable")
@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY is not set"),
        ("foo:bar", 'no model is named "foo:bar"'),
        ("openai:m@http://127.0.0.1:9/v1?tools=maybe", 'tools is "maybe"; it must be yes or no'),
    ],
)
async def test_a_model_for_extraction_that_cannot_be_used_is_warned_of_once_before_the_run(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, model: str, why: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    warnings: list[str] = []
    file = write(f"extraction_model: {model}", REPORT)
    own = settings_of()
    async with (
        build_agent(file, home=str(tmp_path / "home"), settings_of=own, warn=warnings.append) as agent,
        agent.open_bag("s1", "", agent.model),
    ):
        warnings += [record.getMessage() for record in caplog.records]
    (warning,) = warnings
    assert "cannot be used" in warning
    assert why in warning
