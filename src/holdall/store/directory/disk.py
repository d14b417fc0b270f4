"""File operations of the store, each relative to an open folder and never through a link.

Every file is made 0600 and every folder 0700 whatever the umask says. An `OSError` leaves this package as a
`StoreFault` that says what was being done and what can be done about it.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Generator

from holdall.store import files
from holdall.store.files import write_all
from holdall.store.memory_files import MEMORY, SMALL
from holdall.store.owners import other_writer, trusted_owners, way_to
from holdall.text.numbers import size
from holdall.values.errors import MAKE_ROOM, StoreFault, StoreFull, StoreGone, StoreUnsafe

INCOMING = ".incoming-"  # how every unfinished file is named; gc removes the ones that nobody writes any more
_OTHER_HOME_HINT = "Choose another data folder: --home, HOLDALL_HOME or Holdall.open(home=…)."
_TOO_MANY = (
    f" Each output of more than {size(SMALL)} holds one: raise the limit (`ulimit -n`), or keep outputs in a folder."
)


def _make_private(path: str) -> None:
    """With the folders above it: one that others can write to is not trusted later, whatever the umask is now."""
    try:
        os.mkdir(path, 0o700)
    except FileNotFoundError:
        if (above := os.path.dirname(path)) in ("", path):
            raise
        with contextlib.suppress(FileExistsError):
            _make_private(above)
        os.mkdir(path, 0o700)
    os.chmod(path, 0o700)  # just made by us, so no link; the umask may have taken bits away


def open_root(path: str) -> int:
    """Open the data folder, made if it is missing. A link, or a folder of somebody else, is refused."""
    with explained("opening the data folder", path):
        try:
            _make_private(path)
        except FileExistsError:
            pass
        except FileNotFoundError as problem:  # on file systems without folders of users, such as /proc
            raise StoreFault(f"the data folder {path} cannot be made there. {_OTHER_HOME_HINT}") from problem
        root = open_folder(path, shown=path)
        try:
            _check_root(root, path)
            with os.scandir(root) as entries:
                if next(entries, None) is None:  # just made, maybe by somebody who died before its name was durable
                    sync_above(path)
        except BaseException:
            os.close(root)
            raise
    return root


def _check_root(root: int, path: str) -> None:
    """Nobody else can write to it, or put another one in its place."""
    about = os.fstat(root)
    other_home = f"Or: {_OTHER_HOME_HINT[0].lower()}{_OTHER_HOME_HINT[1:]}"
    if about.st_uid != os.geteuid():
        raise StoreUnsafe(f"the data folder {path} belongs to user {about.st_uid}, not to you. {_OTHER_HOME_HINT}")
    if about.st_mode & 0o022:
        mode = stat.S_IMODE(about.st_mode)
        raise StoreUnsafe(
            f"others can write to the data folder {path} (mode {mode:04o}). "
            f"Close it with: chmod 700 {path}. {other_home}"
        )
    if open_to_others := _open_to_others(path):
        import shlex  # noqa: PLC0415 - seldom

        way = f"Close it with: chmod go-w {shlex.quote(open_to_others)}. {other_home}"
        if (owner := os.lstat(open_to_others).st_uid) not in trusted_owners():  # and may open it again
            way = f"It belongs to user {owner}. {_OTHER_HOME_HINT}"
        raise StoreUnsafe(
            f"others own or can write to {open_to_others}, and could replace the data folder {path}. {way}"
        )


def _open_to_others(path: str) -> str:
    """The first folder, or link, on the way to it that others could put another one in the place of; else empty."""
    owners = trusted_owners()
    for folder, link in way_to(path):
        if other_writer(folder, os.stat(folder), owners):
            return folder
        if link and os.lstat(link).st_uid not in owners:
            return link
    return ""


def sync_above(path: str) -> None:
    """Make the names that lead to a new folder durable, as far up as the disk goes and we may look."""
    device = os.stat(path).st_dev
    while path != (above := os.path.dirname(path)) and os.stat(above).st_dev == device:
        with contextlib.suppress(PermissionError):
            folder = os.open(above, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        path = above


def open_folder(name: str, *, inside: int | None = None, shown: str = "") -> int:
    """Open a folder that is one: a link is refused, also one that leads to a folder."""
    try:
        return files.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    except OSError as problem:
        if problem.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        about = files.stat(name, dir_fd=inside)
        what = "a symbolic link" if stat.S_ISLNK(about.st_mode) else "not a folder"
        raise StoreUnsafe(
            f"{shown or name} is {what} (owner {about.st_uid}, mode {stat.S_IMODE(about.st_mode):04o}); "
            f"nothing is read or written through it. {_OTHER_HOME_HINT}"
        ) from problem


def make_folder(name: str, *, inside: int) -> int:
    """Make it 0700 if it is missing, and open it."""
    with contextlib.suppress(FileNotFoundError):
        return open_folder(name, inside=inside)
    try:
        files.mkdir(name, 0o700, dir_fd=inside)
    except FileExistsError:
        return open_folder(name, inside=inside)
    files.chmod(name, 0o700, dir_fd=inside)  # just made by us, so no link; without it the umask may keep us out
    folder = open_folder(name, inside=inside)
    try:
        files.fsync(inside)
    except OSError:
        files.close(folder)
        raise
    return folder


def names_in(folder: int) -> list[str]:
    """The names in an open folder, read through a descriptor of its own.

    A listing keeps its place in the open folder itself: two threads that list through one descriptor each miss what
    the other has read.
    """
    own = files.open(".", os.O_RDONLY, dir_fd=folder)  # Python closes it in programs that are started
    try:
        return files.listdir(own)
    finally:
        files.close(own)


def create(name: str, *, inside: int) -> int:
    """A new file that only we can read, open for reading and writing, and held for as long as it is open.

    Between its making and its holding gc may take it for abandoned; then it has no name any more, and another is made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        descriptor = files.open(name, flags, 0o600, dir_fd=inside)
        try:
            files.fchmod(descriptor, 0o600)
            files.flock(descriptor, fcntl.LOCK_EX)
            if files.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            files.close(descriptor)
            raise
        files.close(descriptor)


def remove_abandoned(name: str, *, inside: int) -> bool:
    """Remove a file that nobody holds, in such a way that nobody can come to hold it meanwhile."""
    try:
        descriptor = open_file(name, inside=inside)
    except (OSError, StoreUnsafe):
        return False
    try:
        files.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files.unlink(name, dir_fd=inside)
    except OSError:
        return False
    finally:
        files.close(descriptor)
    return True


def open_file(name: str, *, inside: int) -> int:
    """An existing regular file, for reading. A link, a pipe or a device in its place is refused."""
    descriptor = files.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=inside)
    try:
        if not stat.S_ISREG(files.fstat(descriptor).st_mode):
            raise StoreUnsafe(f"{name} in the store is not a regular file; it is not read.")
    except BaseException:
        files.close(descriptor)
        raise
    return descriptor


def read_file(name: str, *, inside: int) -> bytes:
    return files.read_all(open_file(name, inside=inside))


def write_new(name: str, data: bytes, *, inside: int, token: str, replace: bool, sync: bool = True) -> None:
    """All of `data` under `name`, durable, or nothing. Without `replace` an existing name raises FileExistsError.

    The caller syncs the folder: it may have more than one name to put there.
    """
    temporary = f"{INCOMING}{token}"
    descriptor = create(temporary, inside=inside)
    try:
        write_all(descriptor, data)
        if sync:
            files.fsync(descriptor)
        if replace:
            files.rename(temporary, name, src_dir_fd=inside, dst_dir_fd=inside)
            return
        # A hard link is the one way to give a name that fails where the name is taken, in one step.
        files.link(temporary, name, dir_fd=inside)
    finally:
        files.close(descriptor)
        with contextlib.suppress(OSError):  # gone with the rename; or left for gc, which is no reason to fail
            files.unlink(temporary, dir_fd=inside)


@contextlib.contextmanager
def locked(name: str, *, inside: int) -> Generator[None]:
    """Hold the lock file `name`. The kernel lets go of it when the process ends, however it ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = files.open(name, flags, 0o600, dir_fd=inside)
    try:
        files.fchmod(descriptor, 0o600)
        files.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        files.close(descriptor)


def is_held(descriptor: int) -> bool:
    """Whether some living process still holds the file as its writer."""
    try:
        files.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    files.flock(descriptor, fcntl.LOCK_UN)
    return False


@contextlib.contextmanager
def explained(doing: str, where: str, *, needed: Callable[[], int] | None = None) -> Generator[None]:
    """Turn an OSError into the StoreFault that says what to do about it.

    `needed` tells how many bytes were to be kept, all or nothing.
    """
    try:
        yield
    except OSError as problem:
        raise store_fault_from(problem, doing, where, needed=needed) from problem
    except MemoryError as problem:
        if where != MEMORY:
            raise
        raise store_fault_from(OSError(errno.ENOMEM, ""), doing, where, needed=needed) from problem


def store_fault_from(
    problem: OSError, doing: str, where: str, *, needed: Callable[[], int] | None = None
) -> StoreFault:
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    match problem.errno:
        case errno.ENOMEM | errno.ENOSPC | errno.EDQUOT | errno.EFBIG if where == MEMORY:
            asked = f" of {size(needed())} or more. Nothing of it is kept" if needed else ""
            return StoreFull(f"no memory left while {doing}{asked}. Keep outputs in a folder instead.")
        case errno.EMFILE if where == MEMORY:
            return StoreFault(f"{reason} while {doing} in {where}.{_TOO_MANY}")
        case errno.EFBIG:
            asked = f" of {size(needed())} or more. Nothing of it is kept" if needed else ""
            return StoreFull(
                f"a file may grow no further while {doing}{asked}: that is a limit of this process (ulimit -f) or of "
                f"the file system of {where}. {_OTHER_HOME_HINT}"
            )
        case errno.ENOSPC | errno.EDQUOT:
            asked = f" of {size(needed())} or more" if needed else ""
            kept = "Nothing of it is kept. " if needed else ""
            return StoreFull(
                f"no space left while {doing}{asked}: {_free(where)} free for {where}. {kept}"
                f"M{MAKE_ROOM[1:]}. {_OTHER_HOME_HINT}"
            )
        case errno.ENOENT | errno.ESTALE:
            return StoreGone(f"the folder {where} went away while {doing}. The next output creates it again.")
        case errno.ELOOP | errno.ENOTDIR:
            return StoreUnsafe(f"{where} is not a folder of its own ({reason}). {_OTHER_HOME_HINT}")
        case _:
            return StoreFault(f"{reason} while {doing} in {where}. {_OTHER_HOME_HINT}")


def _free(where: str) -> str:
    while where and not os.path.exists(where):
        where = os.path.dirname(where)
    try:
        about = os.statvfs(where or "/")
    except OSError:
        return "an unknown amount"
    return size(about.f_bavail * about.f_frsize)
