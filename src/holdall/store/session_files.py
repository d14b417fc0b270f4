"""What a session's folder holds beside its outputs: the log, the transcript, the operation tree, notes, and a lease.

events.ndjson      everything that happened, appended by any process
transcript.ndjson  the messages of the agent that holds the session, appended by it alone
tree.json          the newest snapshot of the operation tree; replaced whole, never half
answers/           notes about outputs
.agent             held by the process whose agent runs in the session; says who it is
"""

import contextlib
import fcntl
import os
from collections.abc import Generator

from holdall.store import disk, events, remembered
from holdall.store.ids import new_tag
from holdall.store.protocol import SessionInfo
from holdall.store.root import Root
from holdall.values.errors import SessionHeld

TRANSCRIPT = "transcript.ndjson"
TREE = "tree.json"
LEASE = ".agent"
_WHO = 1000  # bytes that say who holds it


class SessionFiles:
    """The part of a directory store that is about these. What it needs of the rest is `_root` and `home`."""

    _root: Root

    @property
    def home(self) -> str:
        return self._root.home

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        with self._using("writing an event", make=True):
            events.append(lines, inside=self._inside(session, make=True))

    def events_from(self, session: SessionInfo, at: int) -> tuple[bytes, int]:
        with self._using("reading the events"):
            return events.read_from(at, inside=self._inside(session))

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        with self._using("writing the transcript", make=True):
            events.append(lines, inside=self._inside(session, make=True), name=TRANSCRIPT)

    def transcript(self, session: SessionInfo) -> bytes:
        with self._using("reading the transcript"):
            return events.read_from(0, inside=self._inside(session), name=TRANSCRIPT)[0]

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        with self._using("writing the operation tree", make=True):
            disk.write_new(TREE, data, inside=self._inside(session, make=True), token=new_tag(), replace=True)

    def tree(self, session: SessionInfo) -> bytes | None:
        with self._using("reading the operation tree"):
            try:
                return disk.read_file(TREE, inside=self._inside(session))
            except FileNotFoundError:
                return None

    @contextlib.contextmanager
    def lease(self, session: SessionInfo, holder: str) -> Generator[None]:
        with self._using("taking the session", make=True):
            descriptor = _take(self._inside(session, make=True), holder)
        try:
            yield
        finally:
            os.close(descriptor)  # with the lock

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        with self._using("reading a note"):
            return remembered.recall(remembered.name_of(content, key), inside=self._inside(session))

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes) -> None:
        with self._using("writing a note", make=True):
            name = remembered.name_of(content, key)
            remembered.remember(name, data, inside=self._inside(session, make=True))

    # Inside

    def _inside(self, session: SessionInfo, *, make: bool = False) -> int:
        return self._root.folder(session, make=make).descriptor

    @contextlib.contextmanager
    def _using(self, doing: str, *, make: bool = False) -> Generator[None]:
        with disk.explained(doing, self.home):
            self._root.check(make=make)
            yield


def _take(inside: int, holder: str) -> int:
    """The open file whose lock is the lease. The kernel lets go of it when the process ends, however it ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(LEASE, flags, 0o600, dir_fd=inside)
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        told = os.pread(descriptor, _WHO, 0).decode("utf-8", "replace").strip()
        os.close(descriptor)
        raise SessionHeld(told) from None
    except BaseException:
        os.close(descriptor)
        raise
    # Always of the same length, so that nothing is left of whoever held it before.
    disk.write_all(descriptor, holder.encode("utf-8", "replace")[:_WHO].ljust(_WHO))
    return descriptor
