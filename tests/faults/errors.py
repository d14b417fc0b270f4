"""Calls of the store that fail, in this process: at one call or from it on, with any error, and half done.

Every call that a directory store makes goes through `holdall.store.files`, or through the `os` of a few modules; both
are replaced while `failing` is in force. Nothing is on its way to the disk that is not counted here, but for SQLite,
whose file is a cache.
"""

import contextlib
import errno
import gc
import os
import random
import shutil
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdall.store import files
from holdall.store.bundle import stream
from holdall.store.bundle.export import export_session
from holdall.store.bundle.restore import import_bundle
from holdall.store.bundle.stream import new_file, open_bundle
from holdall.store.directory import disk, index, root
from holdall.store.directory import store as directory_store
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import HoldallError
from holdall.values.outputs import Origin
from tests.faults.kills import Fired

How = Literal["once", "from here", "short", "torn"]
"""`short`: a read or write does half of what it was asked. `torn`: a write does half, and then fails."""

ERRORS = tuple(
    getattr(errno, name)
    for name in (
        "EIO", "EMFILE", "ENFILE", "ENOMEM", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "ESTALE", "ENOLCK",
        "EFBIG", "ELOOP", "ENODEV", "EBUSY",
    )
)  # fmt: skip

_HOW: tuple[How, ...] = ("once", "once", "from here", "short", "torn")
_CALLS = (
    "open", "stat", "fstat", "listdir", "mkdir", "rmdir", "unlink", "link", "rename", "chmod", "fchmod", "utime",
    "fsync", "flock", "pread", "read_all", "write", "lseek", "ftruncate",
)  # fmt: skip
_OF_OS = (
    "open",
    "stat",
    "fstat",
    "lstat",
    "mkdir",
    "makedirs",
    "chmod",
    "scandir",
    "fsync",
    "statvfs",
    "read",
    "write",
)
_MODULES = (disk, index, root, directory_store, stream)


@dataclass(slots=True)
class Errors:
    """Call `number`, counted from 1, fails; 0: none does. `calls` names those that were made."""

    number: int = 0
    error: int = errno.EIO
    how: How = "once"
    calls: list[str] = field(default_factory=list[str])
    fired: int = 0

    def wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            at = len(self.calls)
            if not self.number or at < self.number or (at > self.number and self.how != "from here"):
                return original(*args, **options)
            if self.how in ("short", "torn") and name not in ("write", "pread"):
                return original(*args, **options)
            self.fired += 1
            if name == "write" and self.how in ("short", "torn"):
                done = original(args[0], memoryview(args[1])[: (len(args[1]) + 1) // 2])
                if self.how == "short":
                    return done
            if name == "pread" and self.how == "short":
                return original(args[0], (args[1] + 1) // 2, args[2])
            if name == "read_all":  # which closes what it was given
                files.close(args[0])
            raise OSError(self.error, os.strerror(self.error))

        return call


@contextlib.contextmanager
def failing(errors: Errors) -> Generator[Errors]:
    kept = {name: getattr(files, name) for name in _CALLS}
    theirs = {name: errors.wrapped(name, getattr(os, name)) for name in _OF_OS}
    disturbed = types.SimpleNamespace(**{**vars(os), **theirs})
    try:
        for name, original in kept.items():
            setattr(files, name, errors.wrapped(name, original))
        for module in _MODULES:
            module.__dict__["os"] = disturbed
        yield errors
    finally:
        for name, original in kept.items():
            setattr(files, name, original)
        for module in _MODULES:
            module.__dict__["os"] = os


def descriptors() -> set[str]:
    """Which are open, each with what it leads to."""
    found: set[str] = set()
    for number in os.listdir("/dev/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add(f"{number}: {os.readlink(f'/dev/fd/{number}')}")
    return found


# What a store is asked for while its calls fail, and the judgement: what was kept is listed, or the answer is an error
# of ours; and once the disk works again, everything is as it was.

LARGE = b"".join(b"%07d\n" % number for number in range(9000))
KEPT = {"large": LARGE, "small": b"in a terminal\n"}
NEW = b"kept while calls fail\n"
NOTE = ("ab" * 16, "cd" * 16)


def fill(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        session = store.open_session("a session")
        for label, data in KEPT.items():
            store.put(session, [data], Origin(call_id=label, terminal=label == "small"))
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        store.append_transcript(session, b'{"role":"user"}\n')
        store.save_tree(session, b"{}")
        store.remember(session, *NOTE, b"a note")
        with (home.parent / "bundle").open("wb") as bundle:
            export_session(store, session, bundle.write)
    for path in home.glob("*.sqlite*"):
        path.unlink()  # so that every record is read


class Work:
    """On a store in `home`; each method is one thing that somebody asks for."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kept: list[str] = []  # handles of NEW
        self.going: set[str] = set()  # labels that were asked to go
        self.is_refused = False

    def outputs(self, store: DirectoryStore, session: SessionInfo) -> None:
        listed = store.outputs(session)
        assert len(listed) == len(KEPT), f"left out of the list: {[(one.handle, one.state) for one in listed]}"

    def read(self, store: DirectoryStore, session: SessionInfo) -> None:
        for label, data in KEPT.items():
            with closing(store.open(store.resolve(session, label))) as reader:
                assert reader.read(0, len(data)) == data
        with closing(store.open_named(session, "small")) as reader:
            assert reader.read(0, 5) == KEPT["small"][:5]

    def put(self, store: DirectoryStore, session: SessionInfo) -> None:
        self.kept.append(store.put(session, [NEW], Origin()).handle)
        self.kept.append(store.put(session, [NEW[:5], NEW[5:]], Origin(terminal=True)).handle)

    def live(self, store: DirectoryStore, session: SessionInfo) -> None:
        with closing(store.begin(session, Origin())) as writer:
            writer.write(NEW)
            writer.flush()
            writer.finish()
            self.kept.append(writer.handle)

    def beside(self, store: DirectoryStore, session: SessionInfo) -> None:
        store.append_events(session, b'{"at":2.0,"event":"turn"}\n')
        store.append_transcript(session, b'{"role":"model"}\n')
        assert store.transcript(session).lines.startswith(b'{"role":"user"}\n')
        assert store.events_from(session, 0).lines.startswith(b'{"at":1.0,"event":"turn"}\n')
        store.save_tree(session, b"{}")
        assert store.tree(session) == b"{}"
        store.remember(session, *NOTE, b"a note")
        assert store.recall(session, *NOTE) == b"a note"
        assert len(store.notes(session)) == 1
        with store.lease(session, "somebody"):
            store.is_leased(session.id)
        if release := store.claim(session, "a name"):
            release()
        store.log_length(session, "events")
        store.read_log(session, "events", 0, 10)

    def care(self, store: DirectoryStore, session: SessionInfo) -> None:
        for _ in store.verify():
            pass
        store.stats()
        store.used_bytes()
        store.free_bytes()
        store.sweep(dry_run=True)
        store.sweep()
        store.kept_by_session()
        store.session_stamps()
        store.unreadable_sessions()
        store.mark(session)

    def remove(self, store: DirectoryStore, session: SessionInfo) -> None:
        self.going.add("small")
        store.remove(session, [store.resolve(session, "small")])
        self.going.add("large")
        store.expire(session, [store.resolve(session, "large")], "for a test")
        store.remove_session(session)

    def export(self, store: DirectoryStore, session: SessionInfo) -> None:
        with new_file(str(self.home.parent / "exported"), force=True) as write:
            export_session(store, session, write)

    def restore(self, store: DirectoryStore, session: SessionInfo) -> None:
        with open_bundle(str(self.home.parent / "bundle")) as read:
            import_bundle(store, read, name="restored")

    # Inside

    def run(self, act: str, errors: Errors) -> list[str]:
        """Do it while a call fails; what is wrong with what came of it."""
        before = descriptors()
        try:
            with failing(errors), closing(DirectoryStore(str(self.home))) as store:
                session = store.find_session("a session")
                if session is None:
                    return ["its session is not found"]
                getattr(self, act)(store, session)
        except HoldallError:
            self.is_refused = True
        except Exception as problem:
            return [f"{type(problem).__name__} came out: {problem}"]
        if left := descriptors() - before:
            gc.collect()  # a fault that was listed holds the folder that it came from
            left &= descriptors()
        return [*(f"{one} was left open" for one in left), *self._complaints(errors)]

    def _complaints(self, errors: Errors) -> Iterator[str]:
        with closing(DirectoryStore(str(self.home))) as store:
            session = store.find_session("a session")
            if session is None:
                yield "afterwards the session is gone"
                return
            wanted = {label: data for label, data in KEPT.items() if label not in self.going}
            for reference, data in [*wanted.items(), *((handle, NEW) for handle in self.kept)]:
                with closing(store.open(store.resolve(session, reference))) as reader:
                    if reader.read(0, reader.totals.bytes) != data:
                        yield f"afterwards {reference} is another one"
            yield from (f"verify: {one.problem}" for one in store.verify() if one.problem)
            restored = store.find_session("restored")
            if restored is not None and len(store.outputs(restored)) != len(KEPT):
                yield "half of a bundle is there"
            if restored is not None and self.is_refused and errors.how == "once":  # else it could not be taken back
                yield "a bundle that was refused is there"


ACTS = ("outputs", "read", "put", "live", "beside", "care", "remove", "export", "restore")


def rounds(folder: Path, dice: random.Random) -> Iterator[Fired]:
    """Any error at any call of any act."""
    made, home = folder / "made", folder / "home"
    fill(made)
    calls: dict[str, int] = {}
    while True:
        act = dice.choice(ACTS)
        errors = Errors(dice.randint(1, calls.get(act, 40)), dice.choice(ERRORS), dice.choice(_HOW))
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(made, home)
        found = Work(home).run(act, errors)
        calls[act] = max(calls.get(act, 40), len(errors.calls))
        if errors.fired:
            at = errors.calls[errors.number - 1]
            yield Fired(f"{act}: {at} {errno.errorcode[errors.error]} {errors.how}", found)
