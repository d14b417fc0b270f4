"""The file of a bundle: there whole or not at all, for its owner alone, and never in place of another unless asked."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Generator

from holdall.store import disk
from holdall.store.ids import new_tag
from holdall.text.numbers import size
from holdall.values.errors import StoreFault, StoreFull, WrongUse, flat

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def new_file(path: str, *, force: bool) -> Generator[Callable[[bytes], None]]:
    """Gives a function that appends. The file has its name when the block ends well; else nothing of it is left."""
    folder_path, name = os.path.split(os.path.abspath(path))
    _check(path, name, force=force)
    with _explained(path, folder_path):
        folder = os.open(folder_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    temporary = f".holdall-{new_tag(16)}.part"
    descriptor = -1
    try:
        with _explained(path, folder_path):
            descriptor = disk.create(temporary, inside=folder)

        def write(data: bytes) -> None:
            with _explained(path, folder_path):
                disk.write_all(descriptor, data)

        yield write
        with _explained(path, folder_path):
            os.fsync(descriptor)
            _name(temporary, name, folder, path, force=force)
            os.fsync(folder)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


@contextlib.contextmanager
def open_bundle(path: str) -> Generator[Callable[[int], bytes]]:
    """Gives a function that reads at most so many bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as problem:
        reason = os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno else str(problem)
        raise WrongUse(f"the bundle {flat(path[:300])} cannot be opened: {reason}.") from problem
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise WrongUse(f"{flat(path[:300])} is a folder, not a bundle.")

        def read(most: int) -> bytes:
            with _explained(path, os.path.dirname(os.path.abspath(path)), doing="reading"):
                return os.read(descriptor, most)

        yield read
    finally:
        os.close(descriptor)


def _check(path: str, name: str, *, force: bool) -> None:
    """Before anything is read: whoever waits for a gigabyte wants to know this first."""
    if not name or "\0" in path:
        raise WrongUse(f"{flat(path[:300])!r} is not the name of a file.")
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode):
        raise WrongUse(f"{flat(path[:300])} is a folder; name the file that the bundle is to be written to.")
    if not force:
        raise _exists(path)


def _name(temporary: str, name: str, folder: int, path: str, *, force: bool) -> None:
    if force:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:  # since we looked
        raise _exists(path) from None
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # a disk without links


def _exists(path: str) -> WrongUse:
    return WrongUse(f"{flat(path[:300])} exists, and is not overwritten. Name another file, or add --force.")


@contextlib.contextmanager
def _explained(path: str, folder: str, *, doing: str = "writing") -> Generator[None]:
    try:
        yield
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        if problem.errno in _FULL:
            raise StoreFull(
                f"no space left while writing the bundle {flat(path[:300])}: {_free(folder)} free in {folder}. "
                "Nothing of it is left there."
            ) from problem
        raise StoreFault(f"{reason} while {doing} the bundle {flat(path[:300])}.") from problem


def _free(folder: str) -> str:
    try:
        about = os.statvfs(folder)
    except OSError:
        return "an unknown amount"
    return size(about.f_bavail * about.f_frsize)
