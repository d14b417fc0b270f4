"""A program that keeps outputs of every kind and says on standard output what it was given a handle for.

Each act says what it got as soon as the call has returned, and not before: what is printed was acknowledged. It is
started once and reads tasks from standard input, one JSON line each. For each it forks a process of its own, which is
the one that is killed, and answers with that process's status. A task given as an argument is done by the process
itself.
"""

import dataclasses
import hashlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from holdall import Command, Kept
from holdall.blocking import Holdall
from holdall.store.bundle.export import export_session
from holdall.store.bundle.restore import import_bundle
from holdall.store.bundle.stream import new_file, open_bundle
from holdall.store.directory import live, upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.ids import new_tag
from holdall.store.protocol import OutputStore, OutputWriter, SessionInfo
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import Retention
from tests.faults import broken
from tests.faults.hooks import Fault, Hooks, say

Store = TypeVar("Store", bound=OutputStore)
Actor = TypeVar("Actor")
SESSION, SECOND = "a session", "another session"
LIVE_PARTS = (b"first line\nsecond l", b"ine\n" * 500, "…und Schluß\n".encode())

CONTENTS: dict[str, bytes] = {
    "small": b"a small text\nof two lines\n",
    "json": json.dumps([{"id": n, "name": f"naïve {n}", "on": n % 3 == 0} for n in range(7000)]).encode(),
    "terminal": b"\x1b[31mfailed\x1b[0m\r\n" * 40 + bytes(range(256)),
    "live": b"".join(LIVE_PARTS),
    "live twin": b"a small text\nof two lines\n",
    "unfinished": b"".join(LIVE_PARTS),
    "second": b"in the other session\n",
    "exec": b"".join(b"%d\n" % number for number in range(1, 20_001)),  # what a command says
    "afterwards": b"and there is room again\n",
}
SECONDS_AT_MOST = 60
BUNDLE = "bundle"


@dataclass(frozen=True, slots=True)
class Task:
    """One process to start: what it does, where, and what goes wrong."""

    home: str
    report: str  # the file that becomes its standard output
    acts: tuple[str, ...]
    fault: Fault | None = None
    broken: str = ""
    record: bool = False

    def to_line(self) -> str:
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @staticmethod
    def from_line(line: str) -> "Task":
        flat: dict[str, Any] = json.loads(line)
        flat["acts"] = tuple(flat["acts"])
        flat["fault"] = Fault(**flat["fault"]) if flat["fault"] else None
        return Task(**flat)


class Keeper(Generic[Store]):
    """What every such program does, on any store. Each method is an act; a session is opened when one first needs it."""

    def __init__(self) -> None:
        self._opened_store: Store | None = None
        self._sessions: dict[str, SessionInfo] = {}
        self._kept: dict[str, Facts] = {}
        self._open: list[OutputWriter] = []  # held until the process ends

    def open_store(self) -> Store:
        raise NotImplementedError

    def store(self) -> Store:
        if self._opened_store is None:
            self._opened_store = self.open_store()
        return self._opened_store

    def session(self, name: str = SESSION) -> SessionInfo:
        if name not in self._sessions:
            info = self.store().open_session(name)
            say("session", name=name, id=info.id)
            self._sessions[name] = info
        return self._sessions[name]

    def put(self, label: str, *, session: str = SESSION, terminal: bool = False, content: str = "") -> None:
        data = CONTENTS[content or label]
        origin = Origin(tool="a tool", call_id=f"call {label}", terminal=terminal)
        facts = self.store().put(self.session(session), _pieces(data), origin)
        self.keep(label, facts, content or label, session)

    def keep(self, label: str, facts: Facts, content: str, session: str = SESSION) -> None:
        digest = hashlib.sha256(CONTENTS[content]).hexdigest()
        say("kept", handle=facts.handle, label=content, session=session, sha256=digest)
        self._kept[label] = facts

    def begin(self, label: str, *, terminal: bool = False) -> OutputWriter:
        writer = self.store().begin(self.session(), Origin(tool="a tool", call_id=f"call {label}", terminal=terminal))
        self._open.append(writer)
        say("running", handle=writer.handle, label=label, session=SESSION)
        return writer

    def close(self) -> None:
        if self._opened_store is not None:
            self._opened_store.close()


class Writer(Keeper[DirectoryStore]):
    def __init__(self, home: str) -> None:
        super().__init__()
        self._home = home

    def open_store(self) -> DirectoryStore:
        return DirectoryStore(self._home)

    def live(self, label: str, *, finish: bool = True, terminal: bool = False) -> None:
        data = CONTENTS[label]
        writer = self.begin(label, terminal=terminal)
        try:
            done = 0
            for part in LIVE_PARTS if data == CONTENTS["live"] else (data,):
                writer.write(part)
                done += len(part)
                say("wrote", handle=writer.handle, bytes=done)
        except HoldallError as problem:
            refused(label, problem)
            writer.finish("failed", error="the disk refused")
            return
        if finish:
            self.keep(label, writer.finish(), label)

    def expire(self, label: str) -> None:
        if facts := self._kept.get(label):
            say("expiring", handle=facts.handle)
            self.store().expire(self.session(), [facts], "for a test")
            say("expired", handle=facts.handle)

    def remove(self, label: str) -> None:
        if facts := self._kept.pop(label, None):
            say("expiring", handle=facts.handle)
            self.store().remove(self.session(), [facts])
            say("expired", handle=facts.handle)

    def log(self) -> None:
        line = b'{"at":1.0,"event":"turn","tag":"%s"}' % new_tag().encode()
        self.store().append_events(self.session(), line + b"\n")
        self.store().append_transcript(self.session(), line + b"\n")
        say("logged", line=line.decode())
        self.store().save_tree(self.session(), line)
        self.store().remember(self.session(), "ab" * 16, "cd" * 16, line)

    def export(self) -> None:
        path = f"{self._home}.{new_tag()}.bundle"
        with new_file(path, force=False) as write:
            export_session(self.store(), self.session(), write)
        say("exported", path=path)

    def restore(self) -> None:
        """Of the bundle beside the data folder."""
        name = f"restored {new_tag()}"
        say("restoring", name=name)
        with open_bundle(os.path.join(os.path.dirname(self._home), BUNDLE)) as read:
            import_bundle(self.store(), read, name=name)
        say("restored", name=name)

    def bag(self) -> None:
        """As a program of a user does it: an output, and what a command says."""
        with Holdall.open(session=SESSION, home=self._home) as bag:
            say("session", name=SESSION, id=bag.inner.session.id)
            self.keep("bag", bag.keep(CONTENTS["json"], call_id="call bag"), "json")
            ran = bag.run(Command(["sh", "-c", f"seq {len(CONTENTS['exec'].splitlines())}"]), tool="sh")
            if isinstance(ran, Kept):
                self.keep("exec", ran.artifact, "exec")

    def retention(self) -> None:
        info = self.store().open_session(SESSION, retention=Retention(days=7))
        say("session", name=SESSION, id=info.id)

    def sweep(self) -> None:
        upkeep.sweep(self.store())


ACTS: dict[str, Callable[[Writer], None]] = {
    "session": lambda writer: void(writer.session()),
    "small": lambda writer: writer.put("small"),
    "json": lambda writer: writer.put("json"),
    "terminal": lambda writer: writer.put("terminal", terminal=True),
    "twin": lambda writer: writer.put("twin", content="small"),
    "live": lambda writer: writer.live("live"),
    "live twin": lambda writer: writer.live("live twin"),
    "expire json": lambda writer: writer.expire("json"),
    "expire twin": lambda writer: writer.expire("twin"),
    "second": lambda writer: writer.put("second", session=SECOND),
    "retention": lambda writer: writer.retention(),
    "sweep": lambda writer: writer.sweep(),
    "unfinished": lambda writer: writer.live("unfinished", finish=False, terminal=True),
}
ALL = tuple(ACTS)
ACTS.update(
    {
        "remove small": lambda writer: writer.remove("small"),
        "remove twin": lambda writer: writer.remove("twin"),
        "log": lambda writer: writer.log(),
        "export": lambda writer: writer.export(),
        "restore": lambda writer: writer.restore(),
        "bag": lambda writer: writer.bag(),
    }
)
EVERY = tuple(ACTS)  # what the campaign chooses from


def void(_: object) -> None:
    """For acts whose result says itself what it is."""


def run(task: Task) -> None:
    """All acts of a task, in this process."""
    live.__dict__["_SYNC_SECONDS"] = math.inf  # a slow machine must not add a step to those that were counted
    hooks = Hooks(task.fault, record=task.record)
    hooks.install()
    broken.WRITERS[task.broken]()
    writer = Writer(task.home)
    perform(writer, ACTS, task.acts)
    steps = tuple(hooks.taken)
    if task.fault is not None and task.fault.mode in ("full once", "short once", "full from here"):
        hooks.lift()
        writer.put("afterwards")
    writer.close()
    say("done", steps=steps)


def perform(actor: Actor, acts: Mapping[str, Callable[[Actor], object]], wanted: Iterable[str]) -> None:
    """A refused act is told and the next one is tried."""
    for act in wanted:
        say("acts", act=act)
        try:
            acts[act](actor)
        except HoldallError as problem:
            refused(act, problem)


def serve() -> None:
    for line in sys.stdin:
        task = Task.from_line(line)
        child = os.fork()
        if child == 0:
            become(task.report, SECONDS_AT_MOST, lambda task=task: run(task))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(report: str, seconds: int, work: Callable[[], object]) -> NoReturn:
    """The process that does this, says it in the file `report`, and ends."""
    signal.alarm(seconds)
    try:
        said = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 1)
        os.close(said)
        work()
    except BaseException as problem:
        say("crashed", error=type(problem).__name__, message=str(problem))
        sys.excepthook(type(problem), problem, problem.__traceback__)
        os._exit(70)
    os._exit(0)


def refused(act: str, problem: HoldallError) -> None:
    say("refused", act=act, error=type(problem).__name__, message=str(problem))


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 128 * 1024):
        yield data[start : start + 128 * 1024]


if __name__ == "__main__":
    run(Task.from_line(sys.argv[1])) if len(sys.argv) > 1 else serve()
