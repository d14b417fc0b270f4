"""Who else can change a file or a folder, or put another one in its place: anybody but the user and root is too many.

For the store, and for files that say what is run; and which process a number means. It refuses and changes nothing.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator

from holdall.values.errors import UsageError

OWNER = "its owner"  # in place of who may write, where it belongs to somebody else
_ACL = "system.posix_acl_access"
_USER, _GROUP, _WRITE = 0x02, 0x08, 0x02  # of an entry: a user by name, a group by name; that it may write
_NOBODY = 65534  # what root looks like in a user namespace that does not have it
_UID_MAP = "/proc/self/uid_map"
_START_FIELD = 19  # of what follows the name in /proc/PID/stat
_MAX_LINKS = 40  # as the kernel has it


def other_writer(path: str, about: os.stat_result, owners: tuple[int, ...]) -> str:
    """Who can change what is at `path` besides its `owners`; empty if nobody can.

    In a folder with the sticky bit, like /tmp, others can add files but not replace ours; its owner still can.
    """
    if about.st_uid not in owners:
        return OWNER
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX:
        return ""
    if about.st_mode & stat.S_IWOTH:
        return "anybody"
    if not about.st_mode & stat.S_IWGRP:
        return ""
    if not _is_private_group(about.st_gid):
        return f"the group {about.st_gid}"
    return "another user, by its access list," if _is_open_by_acl(path, owners) else ""


def _is_open_by_acl(path: str, owners: tuple[int, ...]) -> bool:
    """Whether an access list lets anybody else write: with one, the bits of the group are the most that it gives."""
    try:
        data = os.getxattr(path, _ACL)
    except (AttributeError, OSError):  # macOS keeps its lists elsewhere; most files have none
        return False
    entries = list(struct.iter_unpack("<HHI", data[4 : len(data) - (len(data) - 4) % 8]))
    return any(
        rights & _WRITE and (tag == _GROUP or (tag == _USER and who not in owners)) for tag, rights, who in entries
    )


def process_mark(process: int) -> str:
    """Tells a process from all others that have its number: later, on another machine, in another container. Empty
    where there is none.
    """
    if process < 1:
        return ""
    try:
        with open(f"/proc/{process}/stat", "rb") as about, open("/proc/sys/kernel/random/boot_id", "rb") as boot:
            start = about.read().rpartition(b")")[2].split()[_START_FIELD].decode()
            told = f"{boot.read().decode().strip()} {os.readlink('/proc/self/ns/pid')} {start}"
            return hashlib.sha256(told.encode()).hexdigest()[:16]
    except (OSError, IndexError):  # macOS has no such files
        if os.path.isdir("/proc/self"):
            return ""
        import platform  # noqa: PLC0415 - seldom

        return platform.node()


def way_to(path: str) -> Iterator[tuple[str, str]]:
    """Each folder that is looked into on the way to the file, with the link that is found there, if it is one."""
    here, links = os.sep, 0
    # A whole path needs no working folder: that of an agent may have been removed.
    whole = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    names = whole.split(os.sep)[::-1]
    while names:
        name = names.pop()
        if name in ("", ".", ".."):
            here = os.path.dirname(here) if name == ".." else here
            continue
        at = os.path.join(here, name)
        is_link = os.path.islink(at)
        yield here, at if is_link else ""
        if not is_link:
            here = at
            continue
        links += 1
        if links > _MAX_LINKS:
            raise UsageError(f"{path!r:.200} goes through too many links.")
        target = os.readlink(at)
        names += target.split(os.sep)[::-1]
        here = os.sep if os.path.isabs(target) else here


def trusted_owners() -> tuple[int, ...]:
    return (os.geteuid(), 0, *_owners_like_root())


def _owners_like_root() -> tuple[int, ...]:
    """In a user namespace that has every user, `nobody` is a user like others."""
    try:
        with open(_UID_MAP, "rb") as file:
            return () if file.read().split() == [b"0", b"0", b"4294967295"] else (_NOBODY,)
    except OSError:
        return ()


def _is_private_group(group: int) -> bool:
    """Where the umask is 002, each user has a group of the same name that nobody else is in. Its members are the user,
    so that it may write; and root's group is root. A group like `users` or `staff` is everybody.
    """
    if group == 0:
        return True
    import grp  # noqa: PLC0415 - only where a group can write
    import pwd  # noqa: PLC0415

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    if found.gr_gid != user.pw_gid or found.gr_name != user.pw_name or not set(found.gr_mem) <= {user.pw_name}:
        return False
    return all(one.pw_gid != group or one.pw_uid == user.pw_uid for one in pwd.getpwall())  # whom no group lists
