"""Plays one trial: `python -m tests.clients.run AGENT FOLDER [ROWS ...]`, with results of so many rows.

The folder then has the agent's home, its requests, what it printed, and record.json. `apart` is what to put in front of
that command: a network that has only loopback, and an end to everything that was started, where the system has both.
"""

import fcntl
import functools
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.clients.agents import AGENTS, ROOT, Scene
from tests.clients.model import Model, serving
from tests.clients.server import LARGE
from tests.clients.trial import BEHIND, DIRECT, SLOW, Record, Trial

SECONDS = 540  # that an agent has for a trial: over ten times what it needs


def main(name: str, folder: Path, sizes: Sequence[int]) -> None:
    set_loopback_up()
    trial = Trial(folder / "gate", sizes)
    (folder / "requests").mkdir(parents=True)
    (folder / "home" / "work").mkdir(parents=True)
    model = Model(trial.script(), (BEHIND, SLOW), folder / "requests")
    with serving(model) as url:
        code = play(name, Scene(folder / "home", url, servers(folder / "kept")))
    Record(code, model.ended, model.problem, model.tools, model.loaded, trial.steps).write(folder / "record.json")


def servers(kept: Path) -> dict[str, list[str]]:
    server = [sys.executable, str(Path(__file__).parent / "server.py")]
    # However busy the machine is, only the slow tool is slow.
    settings = {BEHIND: "slow_after_seconds=600", SLOW: "slow_after_seconds=1"}
    holdall = str(Path(sys.executable).parent / "holdall")
    behind = {
        name: [holdall, "--set", setting, "gateway", "--home", str(kept), "--name", name, "--", *server]
        for name, setting in settings.items()
    }
    return {**behind, DIRECT: server}


def play(name: str, scene: Scene) -> int | None:
    """The agent's exit code; None where it had to be killed."""
    agent = AGENTS[name]
    words, environment = agent.start(scene)
    home = scene.home
    with (home.parent / "printed.txt").open("wb") as printed:
        process = subprocess.Popen(
            [*agent.command(), *words], env=environment_of(home) | environment, cwd=home / "work", stdin=subprocess.DEVNULL,
            stdout=printed, stderr=printed, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def environment_of(home: Path) -> dict[str, str]:
    """What an agent is started with whose home this is."""
    clean = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR")}
    return clean | {
        "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"), "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPYCACHEPREFIX": str(ROOT / ".dev" / "pycache"),
        # Where there is a network after all: nothing but loopback.
        "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip


@functools.cache
def apart() -> list[str]:
    """The command that starts another one in namespaces of its own; nothing where the system has or permits none."""
    namespaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for way in (["unshare", *namespaces], ["unshare", "--map-root-user", *namespaces]):
        try:
            done = subprocess.run([*way, "true"], capture_output=True, timeout=60, check=False)
        except FileNotFoundError:
            return []
        if done.returncode == 0:
            return way
    return []


def set_loopback_up() -> None:
    """In a new network namespace even loopback is down."""
    if sys.platform != "linux":
        return
    get, put, up = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    with socket.socket() as any_socket:
        name, flags = struct.unpack("16sH", fcntl.ioctl(any_socket, get, struct.pack("16sH", b"lo", 0)))
        if not flags & up:
            fcntl.ioctl(any_socket, put, struct.pack("16sH", name, flags | up))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), [int(word) for word in sys.argv[3:]] or [LARGE])
