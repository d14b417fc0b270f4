"""The files of a store, on disk or in memory: the calls of `os` that the store makes on them.

A file or folder on disk is its descriptor, and each function is the system call of that name. One in memory is a
`Handle`: an integer that no descriptor has, and that knows its file (`store.memory_files`). Nothing here knows sessions
or outputs.
"""

import contextlib
import fcntl
import os
from collections.abc import Generator

from holdall.store.memory_files import Handle


def open(name: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    if isinstance(dir_fd, Handle):
        return dir_fd.open(name, flags)
    return os.open(name, flags, mode, dir_fd=dir_fd)


def close(file: int) -> None:
    file.close() if isinstance(file, Handle) else os.close(file)


def stat(name: str, *, dir_fd: int | None) -> os.stat_result:
    """Of the name itself: a link is not followed."""
    if isinstance(dir_fd, Handle):
        return dir_fd.find(name).stat()
    return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


def fstat(file: int) -> os.stat_result:
    return file.node.stat() if isinstance(file, Handle) else os.fstat(file)


def listdir(folder: int) -> list[str]:
    return list(folder.names) if isinstance(folder, Handle) else os.listdir(folder)


def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
    dir_fd.mkdir(name) if isinstance(dir_fd, Handle) else os.mkdir(name, mode, dir_fd=dir_fd)


def rmdir(name: str, *, dir_fd: int) -> None:
    dir_fd.rmdir(name) if isinstance(dir_fd, Handle) else os.rmdir(name, dir_fd=dir_fd)


def unlink(name: str, *, dir_fd: int) -> None:
    dir_fd.unlink(name) if isinstance(dir_fd, Handle) else os.unlink(name, dir_fd=dir_fd)


def link(name: str, new: str, *, dir_fd: int) -> None:
    """A second name in the same folder; fails where it is taken."""
    if isinstance(dir_fd, Handle):
        dir_fd.link(name, new)
    else:
        os.link(name, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)


def rename(name: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    if isinstance(src_dir_fd, Handle) and isinstance(dst_dir_fd, Handle):
        src_dir_fd.rename(name, new, dst_dir_fd)
    else:
        os.rename(name, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def chmod(name: str, mode: int, *, dir_fd: int) -> None:
    if not isinstance(dir_fd, Handle):
        os.chmod(name, mode, dir_fd=dir_fd)


def fchmod(file: int, mode: int) -> None:
    """Nothing where that is its mode already: a change of it, even to the same, is written to the disk."""
    if not isinstance(file, Handle) and os.fstat(file).st_mode & 0o7777 != mode:
        os.fchmod(file, mode)


def utime(file: int, now: float) -> None:
    if isinstance(file, Handle):
        file.node.changed = int(now * 1e9)
    else:
        os.utime(file, (now, now))


def fsync(file: int) -> None:
    if not isinstance(file, Handle):
        os.fsync(file)


def flock(file: int, operation: int) -> None:
    file.flock(operation) if isinstance(file, Handle) else fcntl.flock(file, operation)


def pread(file: int, length: int, start: int) -> bytes:
    return file.data.read(length, start) if isinstance(file, Handle) else os.pread(file, length, start)


def read_all(file: int) -> bytes:
    """Everything in it; then it is closed."""
    if isinstance(file, Handle):
        return file.data.read(file.data.size(), 0)
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def write(file: int, data: bytes | memoryview) -> int:
    return file.write(data) if isinstance(file, Handle) else os.write(file, data)


def write_all(file: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[write(file, view) :]


def lseek(file: int, start: int) -> None:
    if isinstance(file, Handle):
        file.at = start
    else:
        os.lseek(file, start, os.SEEK_SET)


def ftruncate(file: int, size: int) -> None:
    file.data.truncate(size) if isinstance(file, Handle) else os.ftruncate(file, size)


@contextlib.contextmanager
def local_file(file: int) -> Generator[int]:
    """The descriptor of a file with these bytes, for programs that need one. Nothing in memory is changed by it."""
    if not isinstance(file, Handle):
        yield file
        return
    descriptor = file.data.descriptor_to_read()
    try:
        yield descriptor
    finally:
        os.close(descriptor)
