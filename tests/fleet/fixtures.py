"""Real servers for tests, started once per run and shared by its workers.

- `fleet_servers` (session): the `Address` of a PostgreSQL and an S3 server. The test is skipped, with the packages to
  install, where they are not there (`./dev test` installs them as root).
- `fleet_place` (function): a `Place` with a new database and a prefix of the bucket that no other test has. The
  environment has the keys to the bucket, for the test and for the processes that it starts.
- `tally` (function): a `Tally`, in which a test counts the faults that fired.
- `own_servers` (module): `Servers` that only this module uses, to kill and start again; their data survives that.

The servers are held by a process of their own (`servers.hold`), which ends them when the run is over, also where it
crashed.
"""

import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fleet import servers
from tests.fleet.servers import Address, Servers

ROOT = Path(__file__).parents[2]
FIRED = "faults of the fleet"  # a property of reports: a kind, and how often it fired


class Tally:
    """Which faults fired, by kind and place."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, place: str = "", times: int = 1) -> None:
        self._counts[kind, place] += times

    def kinds(self) -> Counter[str]:
        kinds: Counter[str] = Counter()
        for (kind, _), times in self._counts.items():
            kinds[kind] += times
        return kinds


class Place(NamedTuple):
    """Where one store is."""

    home: str
    objects: str
    servers: Address
    database: str

    def environment(self) -> dict[str, str]:
        """For another process that uses this store by default."""
        return {"HOLDALL_HOME": self.home, "HOLDALL_OBJECTS": self.objects, **self.servers.environment()}


@pytest.fixture(scope="session")
def fleet_servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Address:
    if problem := servers.missing():
        pytest.skip(problem)
    shared = hasattr(request.config, "workerinput")
    folder = tmp_path_factory.getbasetemp().parent if shared else tmp_path_factory.getbasetemp()
    file = folder / "fleet-servers.json"
    with (folder / "fleet-servers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            _start_holder(os.getppid() if shared else os.getpid(), file)
    found = json.loads(file.read_text())
    assert isinstance(found, dict), found
    return Address.from_json(file.read_text())


def _start_holder(owner: int, file: Path) -> None:
    with file.with_suffix(".log").open("wb") as log:
        holder = subprocess.Popen(
            [sys.executable, "-m", "tests.fleet.servers", "hold", str(owner), str(file)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + servers.START_SECONDS
    while not file.exists():
        assert holder.poll() is None, file.with_suffix(".log").read_text()
        assert time.monotonic() < deadline, "the servers did not start in time"
        time.sleep(0.05)
    holder.returncode = 0  # nobody waits for it: it outlives us


@pytest.fixture
def fleet_place(fleet_servers: Address, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in fleet_servers.environment().items():
        monkeypatch.setenv(name, value)
    return new_place(fleet_servers)


def new_place(address: Address) -> Place:
    name = "t" + secrets.token_hex(6)
    return Place(address.make_database(name), address.objects(name), address, name)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Counts the faults of this test; they are told at the end of the run."""
    counts = Tally()
    yield counts
    for kind, times in counts.kinds().items():
        request.node.user_properties.append((FIRED, f"{kind}: {times}"))


@pytest.fixture(scope="module")
def own_servers() -> Iterator[Servers]:
    if problem := servers.missing():
        pytest.skip(problem)
    with servers.started(durable=True) as ours:
        yield ours
