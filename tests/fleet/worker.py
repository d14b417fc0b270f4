"""A program on a host of the fleet: keeps outputs of every kind and says what it was given a handle for.

As `tests.faults.writer`, on the fleet's store: each act says what it got as soon as the call has returned, and not
before. It is started once and reads tasks from standard input; for each it forks the process that is disturbed, says
its id, waits for a line, lets it go, and says its status.
"""

import dataclasses
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdall.store.fleet.store import FleetStore
from holdall.values.errors import HoldallError, StoreGone
from holdall.values.outputs import Origin
from tests.faults.hooks import say
from tests.faults.writer import CONTENTS, LIVE_PARTS, SECOND, SESSION, Keeper, become, perform, refused
from tests.fleet import broken

SECONDS_AT_MOST = 110
LINE = b'{"a line":%d}\n'


@dataclass(frozen=True, slots=True)
class Task:
    """One process: what it does, where, and what is wrong with it."""

    home: str
    objects: str
    principal: str
    cache: str
    report: str
    acts: tuple[str, ...]
    broken: str = ""
    clock_ahead: float = 0.0
    lease_seconds: float = 30.0

    def to_line(self) -> str:
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @staticmethod
    def from_line(line: str) -> "Task":
        flat: dict[str, Any] = json.loads(line)
        flat["acts"] = tuple(flat["acts"])
        return Task(**flat)


class Worker(Keeper[FleetStore]):
    """Each method is an act."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    def open_store(self) -> FleetStore:
        return self._opened("cache")

    def _opened(self, cache: str) -> FleetStore:
        task = self._task
        return FleetStore(
            task.home,
            objects=task.objects,
            principal=task.principal,
            cache_dir=f"{task.cache}/{cache}",
            cache_bytes=1 << 28,
            lease_seconds=task.lease_seconds,
        )

    def live(self, label: str, *, finish: bool = True) -> None:
        writer = self.begin(label, terminal=not finish)
        done = 0
        for part in LIVE_PARTS:
            writer.write(part)
            writer.flush()  # type: ignore[attr-defined]
            done += len(part)
            say("wrote", handle=writer.handle, bytes=done)
        if finish:
            self.keep(label, writer.finish(), label)

    def note(self) -> None:
        data = b"what a model said"
        content, key = hashlib.sha256(CONTENTS["small"]).hexdigest(), hashlib.sha256(b"question").hexdigest()
        self.store().remember(self.session(), content, key, data)
        say("noted", content=content, key=key, data=data.decode())

    def events(self) -> None:
        for number in range(3):
            say("logging", log="events", number=number)
            self.store().append_events(self.session(), LINE % number)
            say("logged", log="events", number=number)

    def transcript(self) -> None:
        with self.store().lease(self.session(), "a worker"):
            for number in range(2):
                say("logging", log="transcript", number=number)
                self.store().append_transcript(self.session(), LINE % number)
                say("logged", log="transcript", number=number)

    def read(self) -> None:
        """What was kept, on a host that has none of it in its cache."""
        other = self._opened("other cache")
        try:
            for label, facts in self._kept.items():
                reader = other.open_named(self._sessions[SESSION], facts.handle)
                try:
                    data = reader.read(0, reader.totals.bytes)
                finally:
                    reader.close()
                if data != CONTENTS["small" if label == "twin" else label]:
                    say("wrong", handle=facts.handle, bytes=len(data))
        finally:
            other.close()

    def end(self, label: str, how: str) -> None:
        if facts := self._kept.pop(label, None):
            say("expiring", handle=facts.handle)
            if how == "expire":
                self.store().expire(self.session(), [facts], "for a test")
            else:
                self.store().remove(self.session(), [facts])
            say("expired", handle=facts.handle)

    def sweep(self) -> None:
        self.store().sweep()

    def dawdle(self) -> None:
        """Puts an object, and commits its record when it is told to go on."""
        publish: Callable[..., Any] = FleetStore.__dict__["_publish"]

        def later(*args: Any) -> Any:
            say("put")
            sys.stdin.readline()
            return publish(*args)

        setattr(FleetStore, "_publish", later)  # noqa: B010 - its name is its own
        self.put("json")

    def live_slowly(self) -> None:
        """Writes one part each time that it is told to go on, and ends."""
        writer = self.begin("live")
        done = 0
        for part in LIVE_PARTS:
            sys.stdin.readline()
            writer.write(part)
            try:
                writer.flush()  # type: ignore[attr-defined]
            except HoldallError as problem:
                if isinstance(problem, StoreGone):
                    raise
                refused("flush", problem)
                continue
            finally:
                done += len(part)
            say("wrote", handle=writer.handle, bytes=done)
        sys.stdin.readline()
        self.keep("live", writer.finish(), "live")

    def load(self) -> None:
        """Keeps small outputs, each different, until a line comes; says each that was kept or refused."""
        told = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()
        session, number = self.session(), 0
        while not told.is_set():
            number += 1
            data = f"{self._task.cache} {number}\n".encode() * (1 + number % 50)
            try:
                facts = self.store().put(session, [data], Origin())
            except HoldallError as problem:
                refused("load", problem)
            else:
                say("loaded", handle=facts.handle, sha256=hashlib.sha256(data).hexdigest(), id=facts.id)

    def ten(self) -> None:
        """Ten outputs, of which half are the same for all workers."""
        session = self.session()
        for number in range(10):
            data = f"number {number} of {self._task.cache if number % 2 else 'all'}\n".encode() * 100
            facts = self.store().put(session, [data], Origin())
            say("loaded", handle=facts.handle, sha256=hashlib.sha256(data).hexdigest(), id=facts.id)

    def sweeps(self) -> None:
        for _ in range(10):
            self.store().sweep()


ACTS: dict[str, Callable[[Worker], object]] = {
    "session": lambda worker: worker.session(),
    "small": lambda worker: worker.put("small"),
    "json": lambda worker: worker.put("json"),
    "twin": lambda worker: worker.put("twin", content="small"),
    "note": lambda worker: worker.note(),
    "events": lambda worker: worker.events(),
    "live": lambda worker: worker.live("live"),
    "read": lambda worker: worker.read(),
    "transcript": lambda worker: worker.transcript(),
    "expire json": lambda worker: worker.end("json", "expire"),
    "remove live": lambda worker: worker.end("live", "remove"),
    "second": lambda worker: worker.put("second", session=SECOND),
    "sweep": lambda worker: worker.sweep(),
    "unfinished": lambda worker: worker.live("unfinished", finish=False),
    "afterwards": lambda worker: worker.put("afterwards"),
    "dawdle": lambda worker: worker.dawdle(),
    "live slowly": lambda worker: worker.live_slowly(),
    "load": lambda worker: worker.load(),
    "ten": lambda worker: worker.ten(),
    "sweeps": lambda worker: worker.sweeps(),
}
ALL = tuple(ACTS)[: tuple(ACTS).index("afterwards")]


def run(task: Task) -> None:
    """All acts of a task, in this process."""
    broken.VARIANTS[task.broken]()
    if task.clock_ahead:
        right = time.time
        time.time = lambda: right() + task.clock_ahead
    worker = Worker(task)
    perform(worker, ACTS, task.acts)
    say("done")
    worker.close()


def serve() -> None:
    for line in sys.stdin:
        task = Task.from_line(line)
        gate, opener = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)
            become(task.report, SECONDS_AT_MOST, lambda task=task: run(task))
        print(child, flush=True)
        sys.stdin.readline()
        os.close(gate)
        os.close(opener)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    run(Task.from_line(sys.argv[1])) if len(sys.argv) > 1 else serve()
