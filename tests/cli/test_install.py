"""`holdall install` and `uninstall` with the real program."""

import asyncio
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdall.cli.options import Options
from holdall.cli.servers import install
from tests.cli.program import PROGRAM, Program
from tests.requirements import requirement

TEXT = '{\n  // mine\n  "mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}\n}\n'


@pytest.fixture
def file(holdall: Program) -> Path:
    path = holdall.home.parent / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


@requirement("cli:install", "cli:uninstall", "install:list")
def test_a_clients_servers_go_behind_the_gateway_and_back(holdall: Program, file: Path) -> None:
    dry = holdall("install", "cursor", "--dry-run")
    assert (dry.code, file.read_text()) == (0, TEXT)
    assert "time would be put behind the gateway" in dry.text
    ran = holdall("install", "cursor")
    assert ran.code == 0
    assert ran.err.splitlines() == [
        "Restart cursor: it reads its configuration when it starts.",
        "HOLDALL_HOME of this shell is not the client's: --home FOLDER writes one into its file.",
    ]
    assert '"args": ["gateway", "--client=cursor", "--name=time", "--", "uvx", "mcp-server-time"]' in file.read_text()
    again = holdall("install", "cursor", "--json")
    assert (again.code, again.json["files"][0]["changed"]) == (1, [])
    listed = holdall("install", "--list")
    assert (listed.code, listed.text) == (0, f"cursor  {file}\n  time: behind the gateway\n")
    back = holdall("uninstall", "--file", str(file))
    assert (back.code, file.read_text()) == (0, TEXT)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["install"], "name a client (claude-code, claude-desktop, vscode, cursor, codex, opencode, gemini,"),
        (["install", "emacs"], "there is no client 'emacs' here"),
        (["install", "vscode"], "no configuration of vscode was found"),
        (["install", "--file", "/nowhere/mcp.json"], "/nowhere/mcp.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_way_out(holdall: Program, arguments: list[str], says: str) -> None:
    ran = holdall(*arguments)
    assert ran.code == 2
    assert says in ran.err


def test_each_line_says_what_became_of_the_file(holdall: Program, file: Path) -> None:
    copy = holdall.home / "clients" / f"{hashlib.sha256(str(file).encode()).hexdigest()[:32]}.before"
    first = holdall("install", "cursor")
    assert first.text == f"{file}: time put behind the gateway\n  the file as it was: {copy}\n"
    added = '"mcpServers": {"z": {"command": "zed"}, "old": {"type": "sse", "url": "https://x"}, '
    file.write_text(file.read_text().replace('"mcpServers": {', added))
    assert holdall("install", "cursor").text == (
        f"{file}: z put behind the gateway\n"
        "  old is left as it is: the gateway could not serve it: type is 'sse', a transport that MCP has given up; use "
        "the server's streamable URL\n"
        "  time is left as it is: it is behind the gateway already\n"
        f"  the file as it was before the first install: {copy}\n"
    )
    back = holdall("uninstall", "cursor")
    assert back.text == (
        f"{file}: z, time taken out of the gateway\n  the file as it was before the first install: {copy}\n"
    )
    assert file.read_text() == TEXT.replace('"mcpServers": {', added)
    again = holdall("uninstall", "cursor")
    assert (again.code, again.text) == (
        1, f"{file}: nothing taken out of the gateway: no server in it is behind the gateway\n",
    )  # fmt: skip


def test_a_client_without_the_path_of_a_shell_can_start_what_was_written(holdall: Program, file: Path) -> None:
    environment = {**holdall.environment(), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "holdall", "install", "--file", str(file)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60)
    assert f'"command": {json.dumps(PROGRAM)}' in file.read_text()


def test_where_there_is_no_program_the_interpreter_is_written(
    holdall: Program, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/holdall/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(install(Options(home=str(holdall.home)), file=str(file))) == 0
    ours = f'"-P", "-m", "holdall", "--home={holdall.home}", "gateway", "--client=cursor", "--name=time", "--"'
    assert f'"command": "{tmp_path}/python", "args": [{ours}, "uvx"' in file.read_text()


@requirement("install:hook")
def test_a_hook_goes_into_the_settings_of_its_agent_and_out_again(holdall: Program) -> None:
    settings = holdall.home.parent / ".claude" / "settings.json"
    assert "would be put in" in holdall("install", "claude-code", "--hook", "--dry-run").text
    assert not settings.exists()
    assert holdall("install", "claude-code", "--hook").text == f"{settings}: hook put in\n"
    (group,) = json.loads(settings.read_text())["hooks"]["PostToolUse"]
    assert group["hooks"][0]["command"].endswith("holdall hook claude-code")
    assert f"claude-code  {settings}\n  hook: on\n" in holdall("install", "--list").text
    assert holdall("install", "claude-code", "--hook").code == 1
    assert holdall("uninstall", "claude-code").text == f"{settings}: hook taken out\n"
    assert not settings.exists()
    for words, left in ((("--hook", "--dry-run"), True), (("--hook",), False)):
        holdall("install", "claude-code", "--hook")
        assert holdall("uninstall", "claude-code", *words).code == 0
        assert settings.exists() == left
    assert holdall("uninstall", "claude-code", "--hook").code == 1
    assert holdall("uninstall", "--hook").code == 2
    assert holdall("install", "cursor", "--hook").err == (
        "holdall: cursor has no hook that Holdall can use; --hook is for claude-code, gemini, opencode.\n"
    )


@requirement("install:hook")
def test_the_list_says_of_each_agent_with_settings_whether_the_hook_is_on(holdall: Program) -> None:
    """Of a file once, though it may hold servers and a hook."""
    claude, gemini = (holdall.home.parent / folder / "settings.json" for folder in (".claude", ".gemini"))
    for file in (claude, gemini):
        file.parent.mkdir()
        file.write_text("{}")
    assert holdall("install", "gemini", "--hook").code == 0
    listed = holdall("install", "--list")
    assert listed.text == f"gemini  {gemini}\n  no servers\n  hook: on\nclaude-code  {claude}\n  hook: off\n"
    assert "claude-code" not in listed.err
    told = holdall("install", "--list", "--json").json
    assert [(one["client"], one["hook"]) for one in told["files"]] == [("gemini", True), ("claude-code", False)]
