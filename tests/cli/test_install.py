"""`holdall install` and `uninstall` with the real program."""

from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.requirements import requirement

TEXT = '{\n  // mine\n  "mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}\n}\n'


@pytest.fixture
def file(holdall: Program) -> Path:
    path = holdall.home.parent / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


@requirement("cli:install", "cli:uninstall")
def test_a_clients_servers_go_behind_the_gateway_and_back(holdall: Program, file: Path) -> None:
    dry = holdall("install", "cursor", "--dry-run")
    assert (dry.code, file.read_text()) == (0, TEXT)
    assert "time would be put behind the gateway" in dry.text
    ran = holdall("install", "cursor")
    assert ran.code == 0
    assert '"args": ["gateway", "--", "uvx", "mcp-server-time"]' in file.read_text()
    again = holdall("install", "cursor", "--json")
    assert (again.code, again.json["files"][0]["changed"]) == (1, [])
    back = holdall("uninstall", "--file", str(file))
    assert (back.code, file.read_text()) == (0, TEXT)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["install"], "name a client (claude-code, vscode, cursor) or a --file, one of the two."),
        (["install", "emacs"], "there is no client 'emacs' here"),
        (["install", "vscode"], "no configuration of vscode was found"),
        (["install", "--file", "/nowhere/mcp.json"], "/nowhere/mcp.json cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_with_a_way_out(holdall: Program, arguments: list[str], says: str) -> None:
    ran = holdall(*arguments)
    assert ran.code == 2
    assert says in ran.err
