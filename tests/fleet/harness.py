"""The test's side of `worker`: tasks out, reports in, proxies in between, and the count of what was done to them."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from tests.faults.harness import Event, Report, events_in
from tests.fleet.checker import complaints
from tests.fleet.fixtures import ROOT, Place, Tally, new_place
from tests.fleet.proxy import Fault, Protocol, Proxy, proxied
from tests.fleet.servers import Address
from tests.fleet.worker import ALL, Task

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
KILLED = -signal.SIGKILL
RUNS_IN_A_PLACE = 40  # then a new database: lists of objects stay short

T = TypeVar("T")


class Crew:
    """Runs tasks one after the other, each in a process that a waiting one forks."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, task: Task, before: Callable[[int], None] = lambda pid: None) -> Report:
        """`before` is called with the id of its process, before that does anything."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._say(task.to_line())
        before(int(self._process.stdout.readline()))
        self._say("go\n")
        status = int(self._process.stdout.readline())
        return Report(status, events_in(Path(task.report).read_bytes()))

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()


@contextlib.contextmanager
def crew(folder: Path, environment: Mapping[str, str], inside: Sequence[str] = ()) -> Generator[Crew]:
    with started("tests.fleet.worker", environment=environment, inside=inside) as process:
        yield Crew(process, folder)


class Member:
    """A worker in a process of its own, to which the test talks while it works."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[Event] = []

    def until(self, *kinds: str) -> Event:
        """Read what it says until it says one of these."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(Event(*json.loads(line)))
            if self.events[-1].kind in kinds:
                return self.events[-1]
        raise AssertionError(f"it ended without saying {kinds}: {self.events}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()

    def rest(self) -> list[Event]:
        """All that it said; it must end well."""
        self.until("done")
        assert self.process.wait(60) == 0
        return self.events

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.events += [Event(*json.loads(line)) for line in self.process.stdout]


@contextlib.contextmanager
def member(task: Task, environment: Mapping[str, str], inside: Sequence[str] = ()) -> Generator[Member]:
    with started("tests.fleet.worker", task.to_line(), environment=environment, inside=inside) as process:
        yield Member(process)


def task_at(place: Place, folder: Path, *acts: str, principal: str = "", **options: Any) -> Task:
    """A task that reaches the servers directly."""
    name = f"host-{secrets.token_hex(4)}"
    whose = principal or f"p{secrets.token_hex(4)}"
    return Task(place.home, place.objects, whose, str(folder / name), str(folder / f"{name}-report"), acts, **options)


@contextlib.contextmanager
def started(
    module: str, *arguments: str, environment: Mapping[str, str], inside: Sequence[str] = ()
) -> Generator["subprocess.Popen[str]"]:
    """A Python program of this folder, as a process that is gone afterwards."""
    process = subprocess.Popen(
        [*inside, sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(slots=True)
class Stage:
    """One host behind two proxies, and the servers that are looked at without them."""

    address: Address
    crew: Crew
    proxies: dict[Protocol, Proxy]
    folder: Path
    place: Place
    tally: Tally = field(default_factory=Tally)
    runs: int = 0
    rounds: dict[Protocol, list[str]] = field(default_factory=dict[Protocol, list[str]])  # of the last run, by name
    last_fired: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def task(self, acts: Iterable[str] = ALL, *, broken: str = "") -> Task:
        """A new principal for each: runs do not see each other."""
        if self.runs >= RUNS_IN_A_PLACE:
            self.place, self.runs = new_place(self.address), 0
        self.runs += 1
        principal = f"p{secrets.token_hex(4)}"
        through = self.address._replace(database_host="127.0.0.1", database_port=self.proxies["postgres"].port)
        return Task(
            home=through.home(self.place.database),
            objects=self.place.objects,
            principal=principal,
            cache=str(self.folder / principal),
            report=str(self.folder / "report"),
            acts=tuple(acts),
            broken=broken,
        )

    def run(self, task: Task, where: Protocol | None = None, fault: Fault | None = None) -> Report:
        """The task, with this fault; counted if it fired."""
        for protocol, proxy in self.proxies.items():
            proxy.arm(fault if protocol == where else None)

        def arm(pid: int) -> None:
            if where is not None:
                self.proxies[where].arm(fault, lambda: os.kill(pid, signal.SIGKILL))

        report = self.crew.run(task, arm)
        self.last_fired = []
        for protocol, proxy in self.proxies.items():
            self.rounds[protocol] = list(proxy.rounds)
            for name, mode in proxy.fired:
                self.last_fired.append((name, mode))
                self.tally.add(f"{mode} ({protocol})", name)
            proxy.arm(None)
        return report

    def complaints(self, task: Task, events: Iterable[Event]) -> list[str]:
        return complaints(self.place, task.principal, events, self.folder / f"{task.principal}-looks")


@contextlib.contextmanager
def stage(address: Address, folder: Path) -> Generator[Stage]:
    host, _, port = address.endpoint.removeprefix("http://").partition(":")
    with (
        proxied((address.database_host, address.database_port), "postgres") as database,
        proxied((host, int(port)), "http") as bucket,
    ):
        near = address._replace(endpoint=f"http://127.0.0.1:{bucket.port}")
        with crew(folder, near.environment()) as waiting:
            yield Stage(address, waiting, {"postgres": database, "http": bucket}, folder, new_place(address))


def share(numbers: Sequence[T], every: int, first: int = 0) -> Sequence[T]:
    """All of them when everything is to run, else each `every`-th."""
    return numbers if FULL else numbers[first::every]


@contextlib.contextmanager
def admin(address: Address, database: str) -> Generator["psycopg.Connection[tuple[object, ...]]"]:
    """The superuser's connection, for what only it may do."""
    home = f"host={address.database_host} port={address.database_port} dbname={database} user=admin"
    with psycopg.connect(home, password=address.admin_password, autocommit=True) as connection:
        yield connection
