"""Files in memory that behave as those on disk do, for the threads of one process: names, links, locks.

A folder is a dict of names, a file an array of bytes or, where it is large, a file without a name. They go when nobody
has the tree or a handle any more. Used through `store.files`; nothing here touches a disk.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import stat as modes
import threading
import time
import weakref
from collections.abc import Callable

MEMORY = "memory"  # where they are, for messages; a folder on disk has an absolute path
SMALL = 1024 * 1024  # a program may have about a thousand descriptors: only what is larger than this holds one

_lock = threading.Condition()  # one for all of it: every change is short
_numbers = itertools.count(1 << 40)  # no descriptor is as large
_inodes = itertools.count(1)
_newest = 0


def _now() -> int:
    """In nanoseconds, and never the same twice: a change is always seen by its time."""
    global _newest  # noqa: PLW0603 - one clock for all files in memory
    _newest = max(time.time_ns(), _newest + 1)
    return _newest


class _Node:
    kind = 0

    def __init__(self) -> None:
        self.inode = next(_inodes)
        self.links = 1
        self.changed = _now()

    def size(self) -> int:
        return 0

    def stat(self) -> os.stat_result:
        seconds = self.changed / 1e9
        about = (self.kind | 0o600, self.inode, 0, self.links, 0, 0, self.size(), seconds, seconds, seconds)
        return os.stat_result(about, {"st_mtime": seconds, "st_mtime_ns": self.changed})


class _Folder(_Node):
    kind = modes.S_IFDIR

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, _Node] = {}

    def put(self, name: str, node: _Node) -> None:
        if not self.links:
            raise _refused(errno.ENOENT, name)
        self.names[name] = node
        self.changed = _now()

    def take(self, name: str) -> _Node:
        if name not in self.names:
            raise _refused(errno.ENOENT, name)
        self.changed = _now()
        return self.names.pop(name)


class _Data(_Node):
    """The bytes of one file: an array while there are few, else a file without a name."""

    kind = modes.S_IFREG

    def __init__(self) -> None:
        super().__init__()
        self.holder: int | None = None  # the handle that has it locked
        self.sharers: set[int] = set()  # handles that hold it together
        self.watches: set[Callable[[], None]] = set()  # called with every write, and when the holder lets go
        self._array = bytearray()
        self._descriptor: int | None = None

    def size(self) -> int:
        with _lock:
            return len(self._array) if self._descriptor is None else os.fstat(self._descriptor).st_size

    def read(self, length: int, start: int) -> bytes:
        with _lock:
            if self._descriptor is None:
                with memoryview(self._array) as view:
                    return bytes(view[start : start + length])
        return os.pread(self._descriptor, length, start)

    def write(self, data: bytes | memoryview, at: int) -> int:
        if self._descriptor is None and at + len(data) > SMALL:
            descriptor = _unnamed_file(self._array)
            weakref.finalize(self, os.close, descriptor)
            self._array, self._descriptor = bytearray(), descriptor
        self.changed = _now()
        if self._descriptor is not None:
            return os.pwrite(self._descriptor, data, at)
        self._array[at : at + len(data)] = data
        return len(data)

    def truncate(self, size: int) -> None:
        with _lock:
            del self._array[size:]
            if self._descriptor is not None:
                os.ftruncate(self._descriptor, size)
            self.changed = _now()

    def descriptor_to_read(self) -> int:
        """A new one, with a place of its own. What nobody writes any more is sealed: nobody can change it."""
        with _lock:
            if self._descriptor is None:
                copy = _unnamed_file(self._array)
                try:
                    _seal(copy)
                    return _reopened(copy)
                finally:
                    os.close(copy)
            if self.holder is None:
                _seal(self._descriptor)
            return _reopened(self._descriptor)

    def tell(self) -> None:
        for notify in tuple(self.watches):
            notify()


def _unnamed_file(data: bytearray) -> int:
    """A new file with these bytes: in memory where the system has such files, else one that no name leads to."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("holdall", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        import tempfile  # noqa: PLC0415 - not on Linux

        with tempfile.TemporaryFile(prefix="holdall-", buffering=0) as file:
            descriptor = os.dup(file.fileno())
    try:
        view = memoryview(bytes(data))
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _seal(descriptor: int) -> None:
    """From now on nobody changes the file: not a program that is given it for reading and opens it again, either."""
    with contextlib.suppress(OSError, AttributeError):  # sealed before; or a temporary file, which has no seals
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def _reopened(descriptor: int) -> int:
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    except FileNotFoundError:  # not on Linux
        return os.dup(descriptor)


class Handle(int):
    """An open file or folder in memory. It is closed, and lets go of its lock, at the latest when nobody has it."""

    node: _Node
    at: int | None

    def __new__(cls, node: _Node, flags: int = 0) -> "Handle":
        handle = super().__new__(cls, next(_numbers))
        handle.node = node
        handle.at = None if flags & os.O_APPEND else 0  # None is the end
        return handle

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        if isinstance(self.node, _Data) and (self.node.holder == self or self in self.node.sharers):
            with _lock:
                self.node.holder = None if self.node.holder == self else self.node.holder
                self.node.sharers.discard(int(self))
                _lock.notify_all()
            self.node.tell()

    @property
    def data(self) -> _Data:
        if not isinstance(self.node, _Data):
            raise _refused(errno.EISDIR)
        return self.node

    @property
    def names(self) -> dict[str, _Node]:
        return self._folder().names

    def _folder(self) -> _Folder:
        if not isinstance(self.node, _Folder):
            raise _refused(errno.ENOTDIR)
        return self.node

    def find(self, path: str) -> _Node:
        found: _Node | None = self.node
        for name in path.split("/"):
            if not isinstance(found, _Folder):
                raise _refused(errno.ENOTDIR, path)
            found = found if name == "." else found.names.get(name)
            if found is None:
                raise _refused(errno.ENOENT, path)
        return found

    def open(self, name: str, flags: int) -> "Handle":
        with _lock:
            if flags & os.O_CREAT and name not in self.names:
                self._folder().put(name, _Data())
            elif flags & os.O_CREAT and flags & os.O_EXCL:
                raise _refused(errno.EEXIST, name)
            found = self.find(name)
            if flags & os.O_DIRECTORY and not isinstance(found, _Folder):
                raise _refused(errno.ENOTDIR, name)
            return Handle(found, flags)

    def mkdir(self, name: str) -> None:
        with _lock:
            if name in self.names:
                raise _refused(errno.EEXIST, name)
            self._folder().put(name, _Folder())

    def rmdir(self, name: str) -> None:
        with _lock:
            found = self.find(name)
            if not isinstance(found, _Folder) or found.names:
                raise _refused(errno.ENOTEMPTY, name)
            self._folder().take(name).links = 0

    def unlink(self, name: str) -> None:
        with _lock:
            if isinstance(self.find(name), _Folder):
                raise _refused(errno.EISDIR, name)
            self._folder().take(name).links -= 1

    def link(self, name: str, new: str) -> None:
        with _lock:
            found = self.find(name)
            if new in self.names:
                raise _refused(errno.EEXIST, new)
            self._folder().put(new, found)
            found.links += 1

    def rename(self, name: str, new: str, folder: "Handle") -> None:
        with _lock:
            replaced = folder.names.get(new)
            if isinstance(replaced, _Folder):
                raise _refused(errno.ENOTEMPTY, new)
            folder._folder().put(new, self._folder().take(name))
            if replaced is not None:
                replaced.links -= 1

    def flock(self, operation: int) -> None:
        """As on disk: exclusive, or shared with others who share it."""
        data, alone = self.data, bool(operation & fcntl.LOCK_EX)
        with _lock:
            if self in data.sharers:
                data.sharers.discard(int(self))
                _lock.notify_all()
            while not operation & fcntl.LOCK_UN and (data.holder not in (None, self) or (alone and data.sharers)):
                if operation & fcntl.LOCK_NB:
                    raise _refused(errno.EWOULDBLOCK)
                _lock.wait()
            if alone:
                data.holder = int(self)
            elif operation & fcntl.LOCK_SH:
                data.sharers.add(int(self))

    def write(self, data: bytes | memoryview) -> int:
        with _lock:
            written = self.data.write(data, self.data.size() if self.at is None else self.at)
            self.at = None if self.at is None else self.at + written
        self.data.tell()
        return written


def new_tree() -> Handle:
    """An empty folder in memory."""
    return Handle(_Folder())


def _refused(number: int, name: str = "") -> OSError:
    return OSError(number, os.strerror(number), name)  # of the class that Python has for the number
