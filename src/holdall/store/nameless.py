"""Files without a name: in memory where the system has such files, else temporary ones that nothing leads to.

What searches an output is given a descriptor, so its bytes must lie behind one even where nothing is on disk. They go
with the last descriptor. This module knows no outputs: it neither measures nor checks what it holds.
"""

import contextlib
import errno
import fcntl
import os
import tempfile
import weakref
from collections.abc import Callable, Generator

from holdall.store.disk import write_all
from holdall.text.numbers import size
from holdall.values.errors import StoreFault, StoreFull

SMALL = 1024 * 1024  # a program may have about a thousand descriptors: only what is larger than this holds one
_TOO_MANY = (
    f" Each output of more than {size(SMALL)} holds one: raise the limit (`ulimit -n`), or keep outputs in a folder."
)


class Blob:
    """Some bytes: first a file to write to, then, once it is settled, bytes that nobody can change any more."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._data: bytes | None = None
        self._descriptor = create()
        # Whoever drops the blob gives its bytes back, also where it was dropped because something failed.
        self._let_go = weakref.finalize(self, os.close, self._descriptor)

    @property
    def descriptor(self) -> int:
        """To write to, and until it is settled."""
        return self._descriptor

    def settle(self) -> None:
        length = os.fstat(self._descriptor).st_size
        if length > SMALL:
            seal(self._descriptor)
            return
        self._data = os.pread(self._descriptor, length, 0)
        self._let_go()

    def open(self) -> int:
        """A new descriptor to read from. It goes on after the blob is gone."""
        if self._data is None:
            return reopened(self._descriptor)
        copy = create()
        try:
            write_all(copy, self._data)
            seal(copy)
            return reopened(copy)
        finally:
            os.close(copy)


def create() -> int:
    """A new empty file, open for reading and writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("holdall", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile(prefix="holdall-", buffering=0) as file:
        return os.dup(file.fileno())


def seal(descriptor: int) -> None:
    """From now on nobody changes the file: not a program that is given it for reading and opens it anew, either."""
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    with contextlib.suppress(OSError):  # a temporary file has no seals; what is read is checked in any case
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def reopened(descriptor: int) -> int:
    """Another descriptor of the same file that can only read, with a place in it of its own."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # not on Linux
        return os.dup(descriptor)


@contextlib.contextmanager
def explained(doing: str, *, needed: Callable[[], int] | None = None) -> Generator[None]:
    """Turn what the system refuses into the StoreFault that says what to do about it.

    `needed` tells how many bytes were to be kept, all or nothing.
    """
    try:
        yield
    except (OSError, MemoryError) as problem:
        number = problem.errno if isinstance(problem, OSError) else errno.ENOMEM
        if number in (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            asked = f" of {size(needed())} or more. Nothing of it is kept" if needed else ""
            raise StoreFull(f"no memory left while {doing}{asked}. Keep outputs in a folder instead.") from problem
        reason = os.strerror(number) if number else str(problem)
        hint = _TOO_MANY if number == errno.EMFILE else ""
        raise StoreFault(f"{reason} while {doing} in memory.{hint}") from problem
