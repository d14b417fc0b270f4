"""The log of a session on disk: one JSON object a line, appended by any process, never rewritten.

Whoever appends holds the file's lock. A line that was not written to its end (a full disk, a kill) is taken back where
that is possible, and otherwise ended before the next one begins: a reader passes over it, and no other line is lost.
"""

import contextlib
import fcntl
import os
import stat

from holdall.store import disk
from holdall.values.errors import StoreUnsafe

NAME = "events.ndjson"
_READ = 1 << 20


def append(lines: bytes, *, inside: int, name: str = NAME) -> None:
    """Add whole lines at the end. They survive the process; a crash of the machine may take the newest."""
    descriptor = os.open(
        name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=inside
    )
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreUnsafe(f"{name} in the store is not a regular file; nothing is written to it.")
        os.fchmod(descriptor, 0o600)  # whatever the umask
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        view = memoryview(lines)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def read_from(at: int, *, inside: int, name: str = NAME) -> tuple[bytes, int]:
    """The whole lines from byte `at` on, and where they end."""
    try:
        descriptor = disk.open_file(name, inside=inside)
    except FileNotFoundError:
        return b"", at
    try:
        parts: list[bytes] = []
        end = at
        while part := os.pread(descriptor, _READ, end):
            parts.append(part)
            end += len(part)
    finally:
        os.close(descriptor)
    data = b"".join(parts)
    whole = data.rfind(b"\n") + 1
    return data[:whole], at + whole
