"""Objects that were read, or written, on this host: plain files in a folder, shared by its processes.

    CACHE/<object>.part    blocks that were fetched, each at its place; elsewhere there are holes
    CACHE/<object>.full    all of it, compared and synced, so that tools can scan it
    CACHE/.incoming-<tag>  an output on its way into the store

There is no list of the blocks that are here: a reader compares every block with its checksum anyway, so a hole, damage
and half a write look alike, and are fetched. For the same reason nothing is locked, and only what tools scan unseen is
synced: its name must not outlive its bytes. The oldest files go when the folder takes more room than it may. A cache
that cannot be used costs time and never an output.
"""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Generator

from holdall.store.directory import disk
from holdall.store.ids import new_tag
from holdall.values.errors import StoreFault
from holdall.values.handles import is_uuid

PART, FULL = ".part", ".full"
MOST_BYTES = 4 * 1024**3
_LOOKED = ".looked"
_LOOK_SECONDS = 60.0
_STALE_SECONDS = 86_400.0
_SMALLEST = 4096  # bytes that any file takes
_TIDY_SHARE = 16  # it is tidied each time that a process has added this part of what it may hold


class CachedFile:
    """One object in the cache, open. `name` is empty where there is only a file without a name."""

    def __init__(self, cache: "BlockCache", descriptor: int, name: str) -> None:
        self._cache = cache
        self.descriptor = descriptor
        self.name = name

    @property
    def is_full(self) -> bool:
        return self.name.endswith(FULL)

    def write(self, data: bytes, start: int) -> None:
        """Raises OSError where there is no room."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self.descriptor, view, start)
            view, start = view[done:], start + done
        self._cache.added(len(data))

    def complete(self, length: int) -> None:
        """All of it is here."""
        os.ftruncate(self.descriptor, length)
        if self.name.endswith(PART):
            full = self.name.removesuffix(PART) + FULL
            with contextlib.suppress(OSError):
                os.fsync(self.descriptor)
                os.rename(self.name, full, src_dir_fd=self._cache.folder, dst_dir_fd=self._cache.folder)
            self.name = full

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class BlockCache:
    """A folder of its own, 0700. Safe to use from many threads and processes."""

    def __init__(self, path: str, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most = most_bytes
        self._added = 0
        self._lock = threading.Lock()
        self.folder = -1
        with contextlib.suppress(OSError, StoreFault):  # then every file is one without a name
            self.folder = disk.open_root(path)

    def open(self, object: str) -> CachedFile:
        """What is here of an object, open for reading and writing."""
        if self.folder >= 0 and is_uuid(object):
            for name, flags in ((object + FULL, 0), (object + PART, os.O_CREAT)):
                with contextlib.suppress(OSError):
                    descriptor = os.open(
                        name, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.folder
                    )
                    about = os.fstat(descriptor)
                    if time.time() - about.st_mtime > _LOOK_SECONDS:
                        os.utime(descriptor)  # used: it goes after those that were not
                    return CachedFile(self, descriptor, name)
        return self.unnamed()

    def unnamed(self) -> CachedFile:
        """A file that goes when it is closed."""
        return CachedFile(self, _unnamed(), "")

    @contextlib.contextmanager
    def incoming(self) -> Generator[CachedFile]:
        """A new file, which is gone after the block unless it was adopted."""
        name, descriptor = "", -1
        if self.folder >= 0:
            name = disk.INCOMING + new_tag(16)
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
            with contextlib.suppress(OSError):
                descriptor = os.open(name, flags, 0o600, dir_fd=self.folder)
        file = CachedFile(self, descriptor, name) if descriptor >= 0 else self.unnamed()
        try:
            yield file
        finally:
            file.close()
            if file.name and file.name == name:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self.folder)

    def adopt(self, file: CachedFile, object: str, length: int) -> None:
        """An incoming file with all the bytes of an object becomes its file here; who scans it compares them first."""
        if file.name:
            with contextlib.suppress(OSError):
                os.rename(file.name, object + PART, src_dir_fd=self.folder, dst_dir_fd=self.folder)
                file.name = object + PART
                self.added(length)

    def forget(self, objects: list[str]) -> None:
        for object in objects:
            for name in (object + PART, object + FULL):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self.folder)

    def objects_to_look_for(self, *, now: bool = False) -> list[str]:
        """The objects that are here, where nobody asked for a minute, or `now`: are they still anybody's?"""
        if self.folder < 0:
            return []
        with contextlib.suppress(OSError):
            if not now and time.time() - os.stat(_LOOKED, dir_fd=self.folder).st_mtime < _LOOK_SECONDS:
                return []
        with contextlib.suppress(OSError):
            flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(_LOOKED, flags, 0o600, dir_fd=self.folder)
            os.utime(descriptor)
            os.close(descriptor)
            return sorted({name[:36] for name in disk.names_in(self.folder) if is_uuid(name[:36])})
        return []

    def added(self, length: int) -> None:
        with self._lock:
            self._added += max(length, _SMALLEST)
            if self._added < self._most // _TIDY_SHARE:
                return
            self._added = 0
        self.tidy()

    def tidy(self) -> None:
        """The files that were used longest ago go, until there is room again."""
        if self.folder < 0:
            return
        found: list[tuple[float, int, str]] = []
        now = time.time()
        with contextlib.suppress(OSError):
            for name in disk.names_in(self.folder):
                with contextlib.suppress(OSError):
                    about = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
                    takes = max(about.st_blocks * 512, _SMALLEST)
                    if is_uuid(name[:36]):
                        found.append((about.st_mtime, takes, name))
                    elif name.startswith(disk.INCOMING) and now - about.st_mtime > _STALE_SECONDS:
                        os.unlink(name, dir_fd=self.folder)
        total = sum(takes for _, takes, _ in found)
        for _, takes, name in sorted(found):
            if total <= self._most - self._most // _TIDY_SHARE:
                return
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self.folder)
            total -= takes

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1


def _unnamed() -> int:
    with tempfile.TemporaryFile(prefix="holdall-") as file:
        return os.dup(file.fileno())
