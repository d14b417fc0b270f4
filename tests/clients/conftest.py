"""One trial for each agent, however many tests look at its record; by default of two agents that differ most."""

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
# The one loads tools when its model asks for them and speaks the API of Anthropic, the other that of OpenAI. Whether each
# of the four reads what `install` wrote is always tried.
PLAYED = [*AGENTS] if FULL else ["claude", "codex"]


@pytest.fixture(params=PLAYED, scope="session")
def name(request: pytest.FixtureRequest) -> str:
    if AGENTS[request.param].folder is None:
        title = AGENTS[request.param].title
        pytest.skip(f"{title} is missing: ./dev test installs it into .dev/clients where there is one for the platform")
    return request.param


@pytest.fixture(scope="session")
def agent(name: str) -> Agent:
    return AGENTS[name]


@pytest.fixture(scope="session")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a trial. Tests in several processes share it: the first of them plays it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with (shared / f"trial-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shared / f"trial-{name}"
        if not found.exists():
            play(name, found)
    return found


@pytest.fixture(scope="session")
def record(folder: Path) -> Record:
    """Of a trial that came to its end."""
    found = Record.read(folder / "record.json")
    if not found.ended or found.problem:
        pytest.fail(f"the trial did not come to its end; what there is of it is in {folder}", pytrace=False)
    return found


def play(name: str, folder: Path) -> None:
    command = [*apart(), sys.executable, "-m", "tests.clients.run", name, str(folder), *map(str, SIZES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
