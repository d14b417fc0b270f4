"""Claude Code with the hook in its settings: `python -m tests.clients.hook_trial FOLDER` plays a script with the real
program, and writes what its model saw of each result into record.json.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.clients.agents import AGENTS, ASK
from tests.clients.model import Call, Model, Script, serving
from tests.clients.run import environment_of, set_loopback_up
from tests.clients.server import LARGE, NAME

SECONDS = 300
NEEDLE = "the needle is 7f3a"


def main(folder: Path) -> None:
    set_loopback_up()
    home, requests = folder / "home", folder / "requests"
    (home / "work").mkdir(parents=True)
    requests.mkdir()
    file = home / "work" / "long.txt"
    file.write_text("".join(f"{number} words on a line of a file\n" for number in range(1950)))
    config = home / "mcp.json"
    server = [sys.executable, str(Path(__file__).parent / "server.py")]
    config.write_text(json.dumps({"mcpServers": {"visits": {"command": server[0], "args": server[1:]}}}))
    own = environment_of(home) | {
        "CLAUDE_CONFIG_DIR": str(home / "claude"), "HOLDALL_HOME": str(folder / "kept"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    subprocess.run(["holdall", "install", "claude-code", "--hook"], env=own, cwd=home, check=True, timeout=60)
    steps: dict[str, str] = {}
    model = Model(_script(file, steps), ("", "visits"), requests)
    with serving(model) as url:
        words = [
            "-p",
            ASK,
            "--mcp-config",
            str(config),
            "--strict-mcp-config",
            "--allowedTools",
            "Bash,Read,mcp__visits",
        ]
        done = subprocess.run(
            [*AGENTS["claude"].command(), *words, "--output-format", "json", "--max-turns", "50"],
            env=own | {
                "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
            },
            cwd=home / "work", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    ended = {
        "code": done.returncode,
        "ended": model.ended,
        "problem": model.problem,
        "printed": done.stdout + done.stderr,
    }
    (folder / "record.json").write_text(json.dumps({**ended, "steps": steps}, indent=1, ensure_ascii=False))


def _script(file: Path, steps: dict[str, str]) -> Script:
    """Each result by a name; where a notice is shown, one line is looked for with the shell."""
    long = f"seq 1 200000; echo '{NEEDLE}'; seq 1 200000"
    calls = {
        "small": Call("", "Bash", {"command": "echo small"}),
        "middle": Call("", "Bash", {"command": "seq 1 6000"}),
        "saved": Call("", "Bash", {"command": long}),
        "failed": Call("", "Bash", {"command": f"{long}; exit 3"}),
        "read": Call("", "Read", {"file_path": str(file)}),
        "few": Call("", "Read", {"file_path": str(file), "limit": 20}),
        "server": Call("visits", "text", {"size": 900}),
        "server-saved": Call("visits", "text", {"size": LARGE}),
    }
    patterns = {"saved": "needle", "read": "^1234 ", "server": NAME, "server-saved": NAME}
    for name, call in calls.items():
        shown = yield call
        steps[name] = shown.text
        if name in patterns and "handle: " in shown.text:
            handle = shown.text.partition("handle: ")[2].split()[0]
            session = shown.text.rpartition(" -s ")[2].split()[0]
            found = yield Call("", "Bash", {"command": f"holdall grep {handle} '{patterns[name]}' -s {session}"})
            steps[f"{name}, searched"] = found.text


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
