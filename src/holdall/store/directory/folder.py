"""One session's folder: its records and files, and the one lock under which they change.

A record is named by its handle, the bytes by a UUID. Writers hold the session's lock; readers need none, because every
change is atomic.
"""

import contextlib
import errno
import os
import weakref
from collections.abc import Generator
from dataclasses import replace

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.ids import new_handle, new_tag
from holdall.store.protocol import SessionInfo
from holdall.store.records import SUFFIX, TERMINAL, decode, encode, text_of
from holdall.values.errors import OutputDamaged, OutputMissing, StoreFault, StoreUnsafe
from holdall.values.handles import is_short, is_uuid
from holdall.values.outputs import Facts
from holdall.values.spans import BlockTable

_LOCK = ".lock"
_ENDINGS = (".txt", ".json", ".log")


class SessionFolder:
    """Holds the folder open by descriptor, so that nothing can be put in its place."""

    def __init__(self, descriptor: int, session: SessionInfo) -> None:
        self.session = session
        self.descriptor = descriptor
        self._terminal: int | None = None
        self._opened = [descriptor]
        self._last: tuple[Facts | None, str] = None, ""  # the facts of the record that was written last, and their text
        # Where nobody uses it any more, and not before: its number would be that of another folder by then.
        weakref.finalize(self, _close_all, self._opened)

    def inside(self, file: str) -> tuple[int, str]:
        """The open folder and the plain name of a stored file."""
        sub, _, name = file.rpartition("/")
        if sub == TERMINAL:
            return self.terminal(), name
        if sub or not name or name.startswith("."):
            raise StoreFault(f"{file[:80]!r} is not the name of a stored file.")
        return self.descriptor, name

    def terminal(self) -> int:
        if self._terminal is not None and files.fstat(self._terminal).st_nlink == 0:  # removed by hand
            files.close(self._terminal)
            self._opened.remove(self._terminal)
            self._terminal = None
        if self._terminal is None:
            self._terminal = disk.make_folder(TERMINAL, inside=self.descriptor)
            self._opened.append(self._terminal)
        return self._terminal

    def places(self) -> list[tuple[str, int]]:
        """The open folders that hold bytes, each with what is before the names in it."""
        own = [("", self.descriptor)]
        return [*own, (f"{TERMINAL}/", self.terminal())] if TERMINAL in disk.names_in(self.descriptor) else own

    @contextlib.contextmanager
    def lock(self) -> Generator[None]:
        with disk.locked(_LOCK, inside=self.descriptor):
            yield

    def publish(self, facts: Facts, table: BlockTable) -> Facts:
        """A record under a handle that nobody has; then the folder is synced. The caller holds the lock."""
        for attempt in range(64):
            named = replace(facts, handle=new_handle(attempt))
            data = self._encoded(named, table)
            with contextlib.suppress(FileExistsError):
                name = named.handle + SUFFIX
                disk.write_new(name, data, inside=self.descriptor, token=new_tag(), replace=False)
                try:
                    files.fsync(self.descriptor)
                except OSError:  # this handle is never returned, so its record must not be visible
                    files.unlink(name, dir_fd=self.descriptor)
                    raise
                return named
        raise StoreFault("no free handle was found in 64 tries.")

    def rewrite(self, facts: Facts, table: BlockTable) -> None:
        """Another record under the same handle, in one step. The caller holds the lock."""
        data = self._encoded(facts, table)
        disk.write_new(facts.handle + SUFFIX, data, inside=self.descriptor, token=new_tag(), replace=True)
        files.fsync(self.descriptor)

    def _encoded(self, facts: Facts, table: BlockTable) -> bytes:
        self._last = facts, text_of(facts)
        return encode(facts, table, self.session.format, self._last[1])

    def text_of(self, facts: Facts) -> str:
        """What the record has of these: it was most often written a moment ago."""
        last, text = self._last
        return text if last is facts else text_of(facts)

    def load(self, handle: str) -> tuple[Facts, BlockTable] | None:
        """The record of `handle`, or None if there is none."""
        try:
            data = disk.read_file(handle + SUFFIX, inside=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as problem:  # one unreadable record is no reason to refuse the others
            reason = os.strerror(problem.errno) if problem.errno else str(problem)
            raise StoreFault(f"the record of output {handle} cannot be read: {reason}.") from problem
        facts, table = decode(data, handle=handle)
        if facts.session != self.session.id:
            raise StoreFault(f"the record of {handle} belongs to another session; it is not read.")
        return facts, table

    def stamps(self) -> dict[str, str]:
        """Every handle with a record, and what tells one version of that record from another."""
        found: dict[str, str] = {}
        for name in disk.names_in(self.descriptor):
            handle = name.removesuffix(SUFFIX)
            if handle != name and is_short(handle):
                try:
                    stamp = self.stamp(handle)
                except OSError:  # it is there: who reads it is told the reason
                    stamp = ""
                if stamp is not None:
                    found[handle] = stamp
        return found

    def stamp(self, handle: str) -> str | None:
        try:
            about = files.stat(handle + SUFFIX, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        return f"{about.st_mtime_ns}-{about.st_size}-{about.st_ino}"

    def changed(self, handle: str) -> float:
        """When its record was written; 0 where that cannot be said."""
        with contextlib.suppress(OSError):
            return files.stat(handle + SUFFIX, dir_fd=self.descriptor).st_mtime
        return 0.0

    def open_bytes(self, facts: Facts) -> int:
        """The stored bytes of an output, open for reading."""
        folder, name = self.inside(facts.file)
        try:
            return disk.open_file(name, inside=folder)
        except FileNotFoundError as problem:
            raise OutputMissing(facts.handle) from problem
        except OSError as problem:
            if problem.errno != errno.ELOOP:
                raise
            raise OutputDamaged(facts.handle, "a link stands in the place of its file (integrity)") from problem
        except StoreUnsafe as problem:
            raise OutputDamaged(facts.handle, "its file is no regular file any more (integrity)") from problem

    def remove_bytes(self, file: str) -> int:
        """How many these were."""
        folder, name = self.inside(file)
        with contextlib.suppress(FileNotFoundError):
            size = files.stat(name, dir_fd=folder).st_size
            files.unlink(name, dir_fd=folder)
            return size
        return 0


def holds_bytes(name: str) -> bool:
    """Whether a file of this name in a session's folder is one of ours, with the bytes of an output."""
    return is_uuid(name[:36]) and name[36:] in _ENDINGS


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        files.close(descriptors.pop())
