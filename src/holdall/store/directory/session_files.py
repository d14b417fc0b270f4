"""What a session's folder holds beside its outputs: the log, the transcript, the operation tree, notes, and a lease.

Logs are one JSON object a line, appended by any process, never rewritten.
"""

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import partial

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.directory.root import Root
from holdall.store.files import write_all
from holdall.store.ids import new_tag
from holdall.store.logs import READ, joined, read_lines
from holdall.store.logs import whole_lines as lines_of
from holdall.store.protocol import Log, LogLines, Note, SessionInfo
from holdall.store.records import ANSWERS, LOGS, PREFIX, TREE, erased, note_name, sealed, tree_without
from holdall.values.errors import SessionLocked, StoreFault, StoreUnsafe
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import BLOCK

# The log of a session on disk: one JSON object a line, appended by any process, never rewritten.
#
# Anyone who appends holds the file's lock. A line that was not written to its end (a full disk, a kill) is taken back
# if that is possible, and otherwise ended before the next one begins: a reader passes over it, and no other line is
# lost.


NAME = LOGS["events"]


def append(lines: bytes, *, inside: int, name: str = NAME) -> None:
    """Add whole lines at the end. They survive the process; a crash of the machine may take the newest."""
    descriptor = files.open(
        name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=inside
    )
    try:
        files.flock(descriptor, fcntl.LOCK_EX)
        about = files.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise StoreUnsafe(f"{name} in the store is not a regular file; nothing is written to it.")
        if stat.S_IMODE(about.st_mode) != 0o600:  # whatever the umask
            files.fchmod(descriptor, 0o600)
        size = about.st_size
        if size and files.pread(descriptor, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        view = memoryview(lines)
        try:
            while view:
                view = view[files.write(descriptor, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                files.ftruncate(descriptor, size)
            raise
    finally:
        files.close(descriptor)


def read_from(at: int, *, inside: int, version: int, name: str = NAME) -> Iterator[LogLines]:
    """The whole lines from byte `at` on, each proven, about a megabyte of them at a time."""
    try:
        descriptor = disk.open_file(name, inside=inside)
    except FileNotFoundError:
        return
    try:
        yield from read_lines(partial(files.pread, descriptor), at, version)
    finally:
        files.close(descriptor)


def whole_lines(name: str, *, inside: int) -> int:
    """Up to where a log has whole lines; found from its end."""
    try:
        descriptor = disk.open_file(name, inside=inside)
    except FileNotFoundError:
        return 0
    try:
        end = files.fstat(descriptor).st_size
        while end:
            start = max(0, end - BLOCK)
            newline = files.pread(descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0
    finally:
        files.close(descriptor)


def read_between(start: int, end: int, *, inside: int, name: str) -> bytes:
    """These bytes of a log, as far as it goes."""
    try:
        descriptor = disk.open_file(name, inside=inside)
    except FileNotFoundError:
        return b""
    try:
        data = b""
        while more := files.pread(descriptor, end - start - len(data), start + len(data)):
            data += more
        return data
    finally:
        files.close(descriptor)


def erase(handles: Collection[str], *, inside: int, version: int) -> None:
    """Take what was in these outputs out of the events and the operation tree. Lines keep their places and lengths."""
    with contextlib.suppress(FileNotFoundError):
        descriptor = files.open(NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=inside)
        try:
            files.flock(descriptor, fcntl.LOCK_EX)
            end = 0
            for piece in lines_of(partial(files.pread, descriptor), 0):
                end = piece.end
                if piece.data is None:  # nobody can read it, so nobody needs it
                    _blank(descriptor, piece.start, piece.end - 1)
                    continue
                for start, line in erased(piece.data, handles, version):
                    files.lseek(descriptor, piece.start + start)
                    write_all(descriptor, line)
            files.ftruncate(descriptor, end)  # a line that was not written to its end may hold anything
            files.fsync(descriptor)
        finally:
            files.close(descriptor)
    with contextlib.suppress(FileNotFoundError):
        before = disk.read_file(TREE, inside=inside)
        after = tree_without(before, handles)
        if after != before:
            disk.write_new(TREE, after, inside=inside, token=new_tag(), replace=True)


def _blank(descriptor: int, start: int, end: int) -> None:
    files.lseek(descriptor, start)
    for at in range(start, end, READ):
        write_all(descriptor, b" " * min(READ, end - at))


def remove_all(inside: int) -> None:
    """Everything of the session that is no output. One who still appends begins again."""
    for name in (*LOGS.values(), TREE):
        with contextlib.suppress(FileNotFoundError):
            files.unlink(name, dir_fd=inside)


# Small notes about outputs: what a model was given in place of one, and answers that would be costly to ask for again.
#
# A note is named by the hash of the output's content and a key, both hexadecimal, and goes when the last output with
# that content does; where the id of an output is one of the two names, it goes with that. Nothing needs one.


FOLDER = ANSWERS
_NOTE = lazy_pattern(r"[0-9a-f]{16,64}-[0-9a-f]{16,64}")


def recall(name: str, *, inside: int) -> bytes | None:
    """`inside` is the open folder of a session."""
    with contextlib.suppress(FileNotFoundError):
        folder = disk.open_folder(FOLDER, inside=inside)
        try:
            return disk.read_file(name, inside=folder)
        finally:
            files.close(folder)
    return None


def remember(name: str, data: bytes, *, inside: int, durable: bool) -> None:
    folder = disk.make_folder(FOLDER, inside=inside)
    try:
        disk.write_new(name, data, inside=folder, token=new_tag(), replace=True, sync=durable)
    finally:
        files.close(folder)


def listed(*, inside: int) -> list[Note]:
    """Every note, in the order of their names. Other files are passed over."""
    found: list[Note] = []
    with contextlib.suppress(FileNotFoundError):
        folder = disk.open_folder(FOLDER, inside=inside)
        try:
            for name in sorted(disk.names_in(folder)):
                if _NOTE.fullmatch(name):
                    content, _, key = name.partition("-")
                    with contextlib.suppress(FileNotFoundError):
                        size = files.stat(name, dir_fd=folder).st_size
                        found.append(Note(content, key, size))
        finally:
            files.close(folder)
    return found


def forget(contents: Iterable[str], ids: Iterable[str], *, inside: int) -> None:
    """Remove the notes about outputs with these hashes, and those that name the outputs with these ids."""
    own = [id.replace("-", "") for id in ids]
    gone = tuple(f"{one}-" for one in (*contents, *own) if one)
    ends = tuple(f"-{one}" for one in own)
    with contextlib.suppress(FileNotFoundError):
        folder = disk.open_folder(FOLDER, inside=inside)
        try:
            for name in disk.names_in(folder):
                if name.startswith(gone) or name.endswith(ends):
                    with contextlib.suppress(FileNotFoundError):
                        files.unlink(name, dir_fd=folder)
        finally:
            files.close(folder)


# events.ndjson      everything that happened, appended by any process transcript.ndjson  the messages of the agent that
# holds the session, appended by it alone tree.json          the newest snapshot of the operation tree; replaced whole,
# never half answers/           notes about outputs .agent             held by the process whose agent runs in the
# session; says who it is .claim-…           a name that a process holds


TRANSCRIPT = LOGS["transcript"]
LEASE = ".agent"
_CLAIM = ".claim-"
_WHO = 1000  # bytes that say who holds it


class SessionFiles:
    """The part of a directory store that is about these. It uses `_root` and `home` of the store."""

    _root: Root

    @property
    def home(self) -> str:
        return self._root.home

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        with self._using("writing an event", make=True):
            self._append(session, lines, NAME)

    def events_from(self, session: SessionInfo, at: int) -> LogLines:
        return joined(self.log_lines(session, "events", at), at)

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        with self._using("writing the transcript", make=True):
            self._append(session, lines, TRANSCRIPT)

    def transcript(self, session: SessionInfo) -> LogLines:
        return joined(self.log_lines(session, "transcript"), 0)

    def log_lines(self, session: SessionInfo, log: Log, at: int = 0) -> Iterator[LogLines]:
        with self._using(f"reading the {log}"):
            yield from read_from(at, inside=self._inside(session), version=session.format, name=LOGS[log])

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
            files.close(descriptor)  # with the lock

    def claim(
        self, session: SessionInfo, name: str, *, shared: bool = False, wait: bool = False
    ) -> Callable[[], None] | None:
        file = _CLAIM + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        with self._using("claiming a name", make=True):
            descriptor = _claimed(file, self._inside(session, make=True), operation)
        if descriptor is None:
            return None

        def release() -> None:
            if not shared:  # nobody else holds it, and those who wait for it open it again
                with contextlib.suppress(OSError, StoreFault), self._using("releasing a name"):
                    files.unlink(file, dir_fd=self._inside(session))
            try:
                with contextlib.suppress(OSError):
                    files.flock(descriptor, fcntl.LOCK_UN)  # a process forked meanwhile has the file open, too
            finally:
                files.close(descriptor)

        return release

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        with self._using("reading a note"):
            return recall(note_name(content, key), inside=self._inside(session))

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes, *, durable: bool = True) -> None:
        with self._using("writing a note", make=True):
            name = note_name(content, key)
            remember(name, data, inside=self._inside(session, make=True), durable=durable)

    def notes(self, session: SessionInfo) -> Sequence[Note]:
        with self._using("listing notes"):
            return listed(inside=self._inside(session))

    def log_length(self, session: SessionInfo, log: Log) -> int:
        with self._using("reading a log"):
            return whole_lines(LOGS[log], inside=self._inside(session))

    def read_log(self, session: SessionInfo, log: Log, start: int, end: int) -> bytes:
        with self._using("reading a log"):
            return read_between(start, end, inside=self._inside(session), name=LOGS[log])

    def is_leased(self, session: str) -> bool:
        with contextlib.suppress(OSError, StoreFault), self._using("looking at a session"):
            folder = disk.open_folder(PREFIX + session, inside=self._root.descriptor)
            try:
                descriptor = disk.open_file(LEASE, inside=folder)
            finally:
                files.close(folder)
            try:
                return disk.is_held(descriptor)
            finally:
                files.close(descriptor)
        return False

    # Inside

    def _append(self, session: SessionInfo, lines: bytes, name: str) -> None:
        append(sealed(lines, session.format), inside=self._inside(session, make=True), name=name)

    def _inside(self, session: SessionInfo, *, make: bool = False) -> int:
        return self._root.folder(session, make=make).descriptor

    @contextlib.contextmanager
    def _using(self, doing: str, *, make: bool = False, needed: Callable[[], int] | None = None) -> Generator[None]:
        with disk.explained(doing, self.home, needed=needed):
            self._root.check(make=make)
            yield


def _take(inside: int, holder: str) -> int:
    """The open file whose lock is the lease. The kernel lets go of it when the process ends, however it ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = files.open(LEASE, flags, 0o600, dir_fd=inside)
    try:
        files.fchmod(descriptor, 0o600)
        files.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        told = files.pread(descriptor, _WHO, 0).decode("utf-8", "replace").strip()
        files.close(descriptor)
        raise SessionLocked(told) from None
    except BaseException:
        files.close(descriptor)
        raise
    with contextlib.suppress(OSError):  # the lock is what counts: a full disk must not keep anybody from making room
        # Fixed length, so that nothing is left of the previous holder.
        write_all(descriptor, holder.encode("utf-8", "replace")[:_WHO].ljust(_WHO))
    return descriptor


def _claimed(file: str, inside: int, operation: int) -> int | None:
    """The open file with its lock; None if somebody else has that."""
    while True:
        descriptor = files.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=inside)
        try:
            files.fchmod(descriptor, 0o600)
            files.flock(descriptor, operation)
            if files.fstat(descriptor).st_nlink:  # else it was removed while we waited, and the name is another file's
                return descriptor
        except BlockingIOError:
            files.close(descriptor)
            return None
        except BaseException:
            files.close(descriptor)
            raise
        files.close(descriptor)
