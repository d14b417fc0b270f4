"""A coding agent with our hook: `python -m tests.clients.hook_trial AGENT FOLDER` plays a script with the real program,
and writes what its model saw of each result into record.json.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.clients.agents import AGENTS, Scene
from tests.clients.model import Call, Model, Script, serving
from tests.clients.run import environment_of, set_loopback_up
from tests.clients.server import LARGE, NAME

SECONDS = 300
NEEDLE = "the needle is 7f3a"


@dataclass(frozen=True)
class Tools:
    """How an agent calls its own tools for a shell and for files, and what the notices of its results name as session."""

    client: str
    shell: str
    read: str
    path: str
    session: str


TOOLS = {
    "claude": Tools("claude-code", "Bash", "Read", "file_path", "cc"),
    "gemini": Tools("gemini", "run_shell_command", "read_file", "file_path", "gc"),
    "opencode": Tools("opencode", "bash", "read", "filePath", "oc"),
}


def main(name: str, folder: Path) -> None:
    set_loopback_up()
    home, requests, tools = folder / "home", folder / "requests", TOOLS[name]
    (home / "work").mkdir(parents=True)
    requests.mkdir()
    file = home / "work" / "long.txt"
    file.write_text("".join(f"{number} words on a line of a file\n" for number in range(1950)))
    steps: dict[str, str] = {}
    model = Model(_script(tools, file, steps), ("", "visits"), requests)
    with serving(model) as url:
        server = [sys.executable, str(Path(__file__).parent / "server.py")]
        words, more = AGENTS[name].start(Scene(home, url, {"visits": server}))
        if name == "claude":
            words[words.index("--allowedTools") + 1] += ",Bash,Read"
        own = environment_of(home) | more | {
            "HOLDALL_HOME": str(folder / "kept"), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        subprocess.run(["holdall", "install", tools.client, "--hook"], env=own, cwd=home, check=True, timeout=60)
        done = subprocess.run(
            [*AGENTS[name].command(), *words], env=own, cwd=home / "work", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    ended = {
        "code": done.returncode,
        "ended": model.ended,
        "problem": model.problem,
        "printed": done.stdout + done.stderr,
    }
    (folder / "record.json").write_text(json.dumps({**ended, "steps": steps}, indent=1, ensure_ascii=False))


def _script(tools: Tools, file: Path, steps: dict[str, str]) -> Script:
    """Each result by a name; where a notice is shown, one line is looked for with the shell."""

    def shell(command: str) -> Call:
        return Call("", tools.shell, {"command": command, "description": "a step of the trial"})

    long = f"seq 1 200000; echo '{NEEDLE}'; seq 1 200000"
    calls = {
        "small": shell("echo small"),
        "middle": shell("seq 1 6000"),
        "saved": shell(long),
        "failed": shell(f"{long}; exit 3"),
        "read": Call("", tools.read, {tools.path: str(file)}),
        "server": Call("visits", "text", {"size": 900}),
        "server-saved": Call("visits", "text", {"size": LARGE}),
    }
    patterns = {"saved": "needle", "read": "^1234 ", "server": NAME, "server-saved": NAME}
    for name, call in calls.items():
        shown = yield call
        steps[name] = shown.text
        if name in patterns and "handle: " in (text := shown.text.replace("\\n", "\n")):
            handle = text.partition("handle: ")[2].split()[0]
            session = text.rpartition(" -s ")[2].split()[0].rstrip('"}')
            found = yield shell(f"holdall grep {handle} '{patterns[name]}' -s {session}")
            steps[f"{name}, searched"] = found.text


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
