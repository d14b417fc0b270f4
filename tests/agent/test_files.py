"""Agents as Markdown files: what the front matter says, what the body is, and which place of settings wins."""

import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall import config
from holdall.agent.files import OWN, TABLES_KEY, AgentFile, load_agent, parse_agent, servers_of
from holdall.mcp.client.spec import StdioServer
from holdall.values.errors import BadServer, BadSetting
from holdall.values.settings import Settings, ToolPolicy, by_name
from tests.requirements import requirement

WHOLE = """\
---
# what this agent is
name: finder
description: >
  Finds things
  out.
model: openai:gpt-5
tools:
  - my_tools:search
  - my_tools.more:Store.fetch
servers:
  files: {command: npx, args: [-y, server-files], env: {KEY: "${KEY}"}}
agents: [sub/reader.md]
dialect: extract
max_turns: 20
max_depth: 2
async: false
extraction_model: openai:gpt-5-nano
window: 128_000
max_output: 4000
toolResponseMaxBytes: 12 KiB
asyncTokenThreshold: 50000
asyncToolTTL: 3600
tools_policy:
  fetch:
    store: never
    maxInlineBytes: 4 KiB
  mcp.approve: {never_async: true}
---

You find things.

---

Always say where.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "reader.md").write_text("---\ndescription: reads\n---\nYou read.")
    return tmp_path


def write(folder: Path, text: str | bytes, name: str = "agent.md") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@requirement("runtime:agent-files")
def test_an_agent_is_a_markdown_file_with_front_matter(folder: Path) -> None:
    path = write(folder, WHOLE)
    agent = load_agent(path)
    reader = AgentFile(
        path=str(folder / "sub" / "reader.md"),
        name="reader",
        prompt="You read.",
        description="reads",
        sources={"description": f"{folder}/sub/reader.md, line 2"},
    )
    assert agent == AgentFile(
        path=str(path),
        name="finder",
        prompt="You find things.\n\n---\n\nAlways say where.",
        description="Finds things out.",
        tools=("my_tools:search", "my_tools.more:Store.fetch"),
        servers={"files": {"command": "npx", "args": ["-y", "server-files"], "env": {"KEY": "${KEY}"}}},
        agents=(reader,),
        settings={
            "model": "openai:gpt-5",
            "dialect": "extract",
            "max_turns": 20,
            "max_agent_depth": 2,
            "async_enabled": False,
            "extraction_model": "openai:gpt-5-nano",
            "window": 128_000,
            "max_output": 4000,
            "max_inline_bytes": 12_288,
            "max_inline_tokens": 50_000,
            "retention": "1 hour",
            "tools": {"fetch": {"store": "never", "max_inline_bytes": 4096}, "mcp.approve": {"never_async": True}},
        },
        sources=agent.sources,
    )
    assert agent.folder == str(folder)
    assert {name: place.replace(str(path), "FILE") for name, place in agent.sources.items()} == snapshot(
        {
            "name": "FILE, line 3",
            "description": "FILE, line 4",
            "model": "FILE, line 7",
            "tools": "FILE, line 8",
            "servers": "FILE, line 11",
            "agents": "FILE, line 13",
            "dialect": "FILE, line 14",
            "max_turns": "FILE, line 15",
            "max_agent_depth": "FILE, line 16",
            "async_enabled": "FILE, line 17",
            "extraction_model": "FILE, line 18",
            "window": "FILE, line 19",
            "max_output": "FILE, line 20",
            "max_inline_bytes": "FILE, line 21",
            "max_inline_tokens": "FILE, line 22",
            "retention": "FILE, line 23",
            "tools.fetch.store": "FILE, line 26",
            "tools.fetch.max_inline_bytes": "FILE, line 27",
            "tools.mcp.approve.never_async": "FILE, line 28",
        }
    )


@requirement("runtime:agent-files")
@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("You help.", "You help."),
        ("", ""),
        ("# Title\n\n---\n\nmodel: x\n---\n", "# Title\n\n---\n\nmodel: x\n---"),
        ("\n---\nmodel: x\n---\nYou help.", "---\nmodel: x\n---\nYou help."),
        ("----\nYou help.", "----\nYou help."),
        ("---\n---\nYou help.", "You help."),
        ("---\n# only a comment\n---\n\n    code first\n\n", "    code first"),
        ("--- \t\nname:\ndescription: ~\ntools:\n---  \nYou help.  \n\n", "You help."),
        ("---\n---", ""),
    ],
)
def test_everything_is_optional_the_front_matter_too(tmp_path: Path, text: str, prompt: str) -> None:
    path = write(tmp_path, text, "helper.md")
    assert load_agent(path) == AgentFile(str(path), "helper", prompt)


@pytest.mark.parametrize(
    "written", [b"\xef\xbb\xbf%s", b"%s"], ids=["with a mark at its beginning", "without"]
)  # fmt: skip
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_mark_at_the_beginning_and_line_ends_of_windows_are_no_matter(
    tmp_path: Path, written: bytes, ends: str
) -> None:
    text = "---\nmodel: x:y\ndescription: |\n  a\n  b\n---\nOne.\nTwo.\n".replace("\n", ends)
    path = write(tmp_path, written.replace(b"%s", text.encode()))
    agent = load_agent(path)
    assert (agent.settings, agent.description, agent.prompt) == ({"model": "x:y"}, "a\nb", "One.\nTwo.")
    assert agent.sources["description"] == f"{path}, line 3"
    assert parse_agent(written.replace(b"%s", text.encode()).decode(), path=str(path)) == agent


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("researcher.md", "researcher"),
        ("web search v2.md", "web-search-v2"),
        ("läser.md", "l-ser"),
        ("研究.md", "agent"),
        (f"{'x' * 100}.md", "x" * 64),
        ("no_end", "no_end"),
    ],
)
def test_an_agent_without_a_name_has_that_of_its_file(file: str, name: str) -> None:
    assert parse_agent("", path=f"somewhere/{file}").name == name


def test_values_are_what_they_look_like_and_nothing_else() -> None:
    text = "---\nname: no\ndescription: 12:30\nmodel: 2026-01-01\nslow_after_seconds: 1e1\ngrep_seconds: .5\n---"
    agent = parse_agent(text, path="a.md")
    assert (agent.name, agent.description) == ("no", "12:30")
    assert agent.settings == {"model": "2026-01-01", "slow_after_seconds": 10.0, "grep_seconds": 0.5}


def test_no_key_of_an_agent_hides_a_setting_but_tools() -> None:
    assert by_name().keys() & {*OWN, TABLES_KEY} == {"tools"}, "a new setting of that name could not be written"


# Where settings come from


# A file may not set where things are kept, nor where keys go.
USERS_OWN = {"storeDir", "store_dir", "objects", "principal", "cache_dir", "cache_bytes", "key_urls"}


@requirement("settings:document-names-front-matter")
@pytest.mark.parametrize("name", sorted(set(by_name()) - {"tools", *USERS_OWN}))
def test_every_setting_is_accepted_under_all_of_its_names(name: str) -> None:
    one = by_name()[name]
    known = {"dialect": "refs", "tokenizer": "estimate", "tools_listed": "always", "extraction_cache": "off"}
    value: object = known.get(one.name, "session" if one.name == "retention" else one.default)
    if value is None:
        value = one.metadata["least"]
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    agent = parse_agent(f"---\n{name}: {shown}\n---", path="a.md")
    assert agent.settings == {one.name: value}
    assert agent.sources == {one.name: "a.md, line 2"}
    found = config.load(environment={}, front_matter=agent.settings, places=agent.sources, home="/tmp")
    assert getattr(found.settings, one.name) == value
    assert found.sources[one.name] == "a.md, line 2"


@requirement("settings:front-matter-over-environment", "settings:flag-over-front-matter")
def test_front_matter_goes_before_the_environment_and_after_the_flags(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "query_max_rows = 5\nslow_after_seconds = 5\nanswer_max_tokens = 500\n[tools.fetch]\nstore = 'always'"
    )
    file.chmod(0o600)
    agent = parse_agent(
        "---\nquery_max_rows: 7\nslow_after_seconds: 7\ntools_policy: {fetch: {store: never, max_inline_lines: 7}}\n---",
        path="agents/a.md",
    )
    found = config.load(
        environment={
            "HOLDALL_CONFIG": str(file),
            "HOLDALL_QUERY_MAX_ROWS": "6",
            "HOLDALL_SLOW_AFTER_SECONDS": "6",
            "HOLDALL_ANSWER_MAX_TOKENS": "600",
        },
        front_matter=agent.settings,
        places=agent.sources,
        flags=("query_max_rows=8", "tools.fetch.max_inline_lines=8"),
        home=str(tmp_path),
    )
    assert found.settings == Settings(
        query_max_rows=8,
        slow_after_seconds=7,
        answer_max_tokens=600,
        tools={"fetch": ToolPolicy(store="never", max_inline_lines=8)},
    )
    assert found.sources == {
        "query_max_rows": "--set",
        "slow_after_seconds": "agents/a.md, line 3",
        "answer_max_tokens": "the environment",
        "tools.fetch.store": "agents/a.md, line 4",
        "tools.fetch.max_inline_lines": "--set",
        "home": "--home",
        "session": "default",
    }


@requirement("trust:no-file-moves-the-store")
@pytest.mark.parametrize(
    "front",
    ["store_dir: /tmp", "storeDir: /tmp", "objects: s3://evil", "principal: other", "key_urls: https://evil.example"],
)
def test_no_file_moves_the_store_or_says_where_keys_go(tmp_path: Path, front: str) -> None:
    agent = parse_agent(f"---\n{front}\n---", path="a.md")
    with pytest.raises(
        BadSetting, match=r"in a\.md, line 2 is .*; a file may not set it; it is yours, in /.*config\.toml"
    ):
        config.load(front_matter=agent.settings, places=agent.sources, home=str(tmp_path))


# What it names


def test_an_agent_that_two_others_name_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "---\nagents: [c.md]\n---\nA", "a.md")
    write(tmp_path, "---\nagents: [./c.md]\n---\nB", "b.md")
    write(tmp_path, "C", "c.md")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    top = load_agent(write(tmp_path, "---\nagents: [link.md, b.md]\n---\nTop", "top.md"))
    first, second = top.agents
    assert [one.name for one in top.agents] == ["link", "b"]
    assert first.agents[0] is second.agents[0]


def test_what_a_file_names_is_found_from_its_folder_wherever_the_program_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sub" / "mcp.json").write_text('{"mcpServers": {"time": {"command": "mcp-server-time"}}}')
    write(folder / "sub", "---\nagents: [../sub/reader.md]\nservers: ./mcp.json\n---\nHi", "agent.md")
    monkeypatch.chdir(folder)
    agent = load_agent("sub/agent.md")
    assert [one.name for one in agent.agents] == ["reader"]
    monkeypatch.chdir("/")
    assert servers_of(agent).servers == (
        StdioServer("time", "mcp-server-time", source=f"{folder}/sub/./mcp.json"),
    )  # fmt: skip


@pytest.mark.parametrize("servers", ["{time: {command: x, env: {KEY: '${KEY}'}}}", "{mcpServers: {time: {command: x, env: {KEY: '${KEY}'}}}}"])  # fmt: skip
def test_servers_may_stand_in_the_front_matter_itself(servers: str) -> None:
    agent = parse_agent(f"---\nservers: {servers}\n---", path="a.md")
    (found,) = servers_of(agent, environment={"KEY": "sk-secret"}).servers
    assert isinstance(found, StdioServer)
    assert (found.name, found.command, found.environment) == ("time", "x", {"KEY": "sk-secret"})
    assert "secret" not in repr(agent)
    assert servers_of(parse_agent("Hi", path="a.md")).servers == ()


def test_a_server_that_cannot_be_one_is_refused_with_the_agents_file_as_its_place() -> None:
    agent = parse_agent("---\nservers: {time: {comand: x}}\n---", path="a.md")
    with pytest.raises(BadServer) as refused:
        servers_of(agent)
    assert str(refused.value).startswith("a.md, line 2: mcpServers.time")


def test_nothing_of_yaml_is_imported_for_an_agent_without_front_matter() -> None:
    code = "import sys; from holdall.agent.files import parse_agent; parse_agent('Hi', path='a.md'); sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_extra_the_install_line_is_named() -> None:
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from holdall.agent.files import parse_agent\n"
        "try: parse_agent('---\\nmodel: x\\n---', path='a.md')\n"
        "except Exception as problem: print(type(problem).__name__, problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == snapshot(
        "MissingExtra reading the front matter of an agent needs the package 'pyyaml'. Install it with: pip install 'holdall[agent]'\n"
    )
