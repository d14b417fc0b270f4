"""The test's side of `writer`: tasks out, reports in."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.faults.hooks import Fault
from tests.faults.writer import ALL, Task

ROOT = Path(__file__).parents[2]
FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
KILLED = -signal.SIGKILL

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a report: something that the writer was told, did, or had done to it."""

    kind: str
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        return str(self.fields[name])

    def number(self, name: str) -> int:
        return int(self.fields[name])


@dataclass(frozen=True, slots=True)
class Report:
    status: int  # as subprocess counts it: negative for a signal
    events: tuple[Event, ...]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    @property
    def steps(self) -> list[str]:
        """The steps that the acts took, by name. Only a writer that came to its end can tell."""
        done = self.of("done")
        assert self.status == 0, self
        return done[0].fields["steps"]

    @property
    def fired(self) -> Event | None:
        return next(iter(self.of("fired")), None)


class Writers:
    """Runs tasks one after the other, each in a process of its own that a waiting one forks."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._report = folder / "report"

    def run(
        self,
        home: Path,
        acts: tuple[str, ...] = ALL,
        *,
        fault: Fault | None = None,
        broken: str = "",
        record: bool = False,
    ) -> Report:
        task = Task(str(home), str(self._report), acts, fault, broken, record)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(task.to_line())
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return Report(status, events_in(self._report.read_bytes()))


@contextlib.contextmanager
def writers(folder: Path) -> Generator[Writers]:
    process = started("tests.faults.writer", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Writers(process, folder)
    finally:
        ended(process)


def started(
    module: str, *arguments: str, stdin: int | None = None, stdout: int | None = None
) -> "subprocess.Popen[str]":
    """A Python program of this folder, as a process."""
    return subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT, text=True, stdin=stdin, stdout=stdout)


def ended(process: "subprocess.Popen[str]") -> None:
    """Whatever it was doing, it is gone afterwards."""
    with process:  # closes its pipes, then waits
        process.kill()


def events_in(lines: bytes) -> tuple[Event, ...]:
    return tuple(Event(*json.loads(line)) for line in lines.splitlines())


def share(numbers: Sequence[T], every: int) -> Sequence[T]:
    """All of them when everything is to run, else each `every`-th."""
    return numbers if FULL else numbers[::every]
