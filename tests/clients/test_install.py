"""The real client reads the file that `holdall install` wrote, and starts its servers through the gateway."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdall.mcp.install.config_text import document, same
from holdall.mcp.install.installer import install, uninstall
from tests.clients.agents import AGENTS, ROOT, Agent, Scene
from tests.clients.run import apart, environment_of
from tests.requirements import requirement

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]
_SERVER = [sys.executable, str(ROOT / "tests" / "clients" / "server.py")]
_WORDS = json.dumps(_SERVER[1:])
_COMMAND = json.dumps(_SERVER[0])


@dataclass(frozen=True)
class Case:
    """`words` list the servers; `shown` finds, in what they print, that the server `visits` is behind the gateway."""

    file: str
    text: str
    words: tuple[str, ...]
    shown: str


def _no_trial(_scene: Scene) -> tuple[list[str], dict[str, str]]:
    raise NotImplementedError("it signs in to its provider before it plays anything")


_COPILOT = Agent("Copilot CLI", "@github/copilot-*", "copilot", _no_trial)
_GATEWAY = r"holdall gateway --client=\S+ --name=visits -- \S*python\S* \S+server\.py"
CASES = {
    "claude": Case(
        "claude/.claude.json",
        f'{{"numStartups": 3, "mcpServers": {{"visits": {{"type": "stdio", "command": {_COMMAND}, "args": {_WORDS}, "env": {{}}}}}}}}',
        ("mcp", "list"),
        rf"visits: \S*{_GATEWAY} - ✔ Connected",
    ),
    "codex": Case(
        "codex/config.toml",
        f"# mine\n[mcp_servers.visits]\ncommand = {_COMMAND} # python\nargs = [\n  {_WORDS[1:-1]}, # the server\n]\n"
        'enabled = true\n[mcp_servers.visits.env]\nA = "b"\n\n[mcp_servers.web]\nurl = "https://x.example/mcp"\n'
        'bearer_token_env_var = "TOKEN"\n',
        ("mcp", "list"),
        rf"visits +\S*holdall +{_GATEWAY.removeprefix('holdall ').replace(' -- ', ' --for-server=A -- ')} +A=\*+ .*enabled",
    ),
    "opencode": Case(
        "config/opencode/opencode.jsonc",
        f'{{\n  // mine\n  "autoupdate": false,\n  "mcp": {{\n    "visits": {{"type": "local", "command": {json.dumps(_SERVER)}}},\n'
        '    "web": {"type": "remote", "url": "https://x.example/mcp", "enabled": false},\n  },\n}\n',
        ("mcp", "list"),
        rf"visits .*connected\s.*{_GATEWAY}",
    ),
    "gemini": Case(
        ".gemini/settings.json",
        '{\n  // mine\n  "security": {"folderTrust": {"enabled": false}},\n  "general": {"enableAutoUpdate": false},\n'
        f'  "mcpServers": {{"visits": {{"command": {_COMMAND}, "args": {_WORDS}, "trust": true}}}}\n}}\n',
        ("mcp", "list"),
        rf"✓ visits: \S*{_GATEWAY} \(stdio\) - Connected",
    ),
    "copilot": Case(
        ".copilot/mcp-config.json",
        f'{{"mcpServers": {{"visits": {{"type": "local", "command": {_COMMAND}, "args": {_WORDS}, "tools": ["*"]}}}}}}',
        ("mcp", "get", "visits"),
        rf"(?s)visits.*{_GATEWAY}",
    ),
}  # fmt: skip


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("name", CASES)
@requirement("install:real-clients")
def test_the_real_client_reads_what_install_wrote(name: str, tmp_path: Path) -> None:
    agent, case = (AGENTS | {"copilot": _COPILOT})[name], CASES[name]
    if agent.folder is None:
        pytest.skip(f"{agent.title} is missing: ./dev test clients installs it where there is one for the platform")
    file = tmp_path / case.file
    file.parent.mkdir(parents=True)
    file.write_text(case.text)
    (tmp_path / "work").mkdir()
    holdall = str(Path(sys.executable).parent / "holdall")
    done = install(str(file), holdall, config_folder=str(tmp_path / "own"))
    assert "visits" in done.edited.changed
    own = {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "CODEX_HOME": str(tmp_path / "codex"),
           "HOLDALL_HOME": str(tmp_path / "kept"), "TOKEN": "t"}  # fmt: skip
    told = subprocess.run(
        [*apart(), *agent.command(), *case.words], env=environment_of(tmp_path) | own, cwd=tmp_path / "work",
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    printed = re.sub(r"\x1b\[[0-9;]*m", "", told.stdout + told.stderr)
    assert re.search(case.shown, printed), printed
    untouched = file.read_text() == done.edited.text  # a client may write into its own file at any time
    uninstall(str(file), config_folder=str(tmp_path / "own"))
    assert not untouched or file.read_text() == case.text
    before, after = (document(text, case.file).value for text in (case.text, file.read_text()))
    assert same({key: after[key] for key in before if key != "numStartups"},
                {key: one for key, one in before.items() if key != "numStartups"})  # fmt: skip
