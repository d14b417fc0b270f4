"""One trial for each agent, however many tests look at its record."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.agents import AGENTS, ROOT, Agent
from tests.clients.run import SECONDS, apart
from tests.clients.server import LARGE, MIDDLE
from tests.clients.trial import Record

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
SIZES = (MIDDLE, LARGE) if FULL else (MIDDLE,)


@pytest.fixture(params=AGENTS, scope="session")
def name(request: pytest.FixtureRequest) -> str:
    if AGENTS[request.param].folder is None:
        title = AGENTS[request.param].title
        pytest.skip(f"{title} is missing: ./dev test installs it into .dev/clients where there is one for the platform")
    return request.param


@pytest.fixture(scope="session")
def agent(name: str) -> Agent:
    return AGENTS[name]


@pytest.fixture(scope="session")
def record(name: str, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Of a trial that came to its end. Tests in several processes share it: the first of them plays it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (shared / f"trial-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / f"trial-{name}"
        if not folder.exists():
            play(name, folder)
    found = Record.read(folder / "record.json")
    printed = (folder / "printed.txt").read_text(errors="replace")[-2000:]
    assert (found.code, found.ended, found.problem) == (0, True, ""), printed
    return found


def play(name: str, folder: Path) -> None:
    command = [*apart(), sys.executable, "-m", "tests.clients.run", name, str(folder), *map(str, SIZES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
