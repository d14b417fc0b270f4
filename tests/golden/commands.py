"""The program, run as a user runs it: arguments, streams, an exit code."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = str(Path(sys.executable).parent / "holdall")
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "LINES": "40",
    "HOLDALL_REAL_MODELS": "off",
    "HOLDALL_PROGRESS": "off",  # or a busy machine would say how far it is
    "PYTHONPYCACHEPREFIX": str(ROOT / ".dev" / "pycache"),  # compiled once, and not with every start
}
"""All that a run knows of this machine: no terminal, no language, no zone of whoever runs the tests."""


PATIENCE = 90.0  # seconds, for one run on a busy machine


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    err: bytes

    @property
    def json(self) -> Any:
        assert self.out, self.err.decode()
        return json.loads(self.out)


@dataclass
class Forked:
    """Seconds of processor of forks: not our children, so the system adds them to ours only when their parent ends."""

    seconds: float = 0.0


FORKED = Forked()


@dataclass(frozen=True)
class Commands:
    """Runs of the program, one after the other; each is a process of its own, forked from one that has imported it."""

    folder: Path  # for what the streams hold
    server: "subprocess.Popen[bytes]"
    requests: int
    answers: int
    spent: Forked

    def __call__(
        self,
        *arguments: str,
        home: Path,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Ran:
        return self.run(arguments, _surroundings(home, env), cwd or home.parent, stdin)

    def run(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: bytes) -> Ran:
        """One run. `env` is all of its environment."""
        streams = {name: str(self.folder / name) for name in ("stdin", "stdout", "stderr")}
        Path(streams["stdin"]).write_bytes(stdin)
        asked = {"argv": [PROGRAM, *arguments], "env": dict(env), "cwd": str(cwd), **streams}
        os.write(self.requests, json.dumps(asked).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            assert select.select([self.answers], [], [], PATIENCE)[0], f"{arguments} still runs"
            piece = os.read(self.answers, 100)
            assert piece, "the process that runs the commands has ended"
            answer += piece
        code, seconds = answer.split()
        FORKED.seconds += float(seconds)
        self.spent.seconds += float(seconds)
        return Ran(int(code), Path(streams["stdout"]).read_bytes(), Path(streams["stderr"]).read_bytes())


@contextlib.contextmanager
def commands() -> Generator[Commands]:
    with contextlib.ExitStack() as ends, tempfile.TemporaryDirectory(prefix="holdall-golden-") as folder:
        spent = Forked()
        theirs, ours = os.pipe()
        answers, their_answers = os.pipe()
        for one in (ours, answers):
            ends.callback(os.close, one)
        server = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "command_server.py"), str(theirs), str(their_answers)], cwd=ROOT, env=ENVIRONMENT | {"HOME": folder}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, pass_fds=(theirs, their_answers),
        )  # fmt: skip
        os.close(theirs)
        os.close(their_answers)
        try:
            yield Commands(Path(folder), server, ours, answers, spent)
        finally:
            server.terminate()
            server.wait(timeout=100)
            FORKED.seconds -= spent.seconds


def real(*arguments: str, home: Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """The same without the fork."""
    return started(arguments, _surroundings(home, env), home.parent, stdin)


def started(arguments: Sequence[str], env: Mapping[str, str], cwd: Path, stdin: bytes) -> Ran:
    """The installed command, with pipes."""
    ran = subprocess.run(
        [PROGRAM, *arguments], input=stdin, env=env, cwd=cwd, capture_output=True, timeout=PATIENCE, check=False
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def _surroundings(home: Path, env: Mapping[str, str] | None) -> dict[str, str]:
    return ENVIRONMENT | {"HOME": str(home.parent), "HOLDALL_HOME": str(home)} | dict(env or {})
