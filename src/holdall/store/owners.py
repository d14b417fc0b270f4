"""Whose files and folders are safe: those that only the user and root can change."""

import os

_NOBODY = 65534  # what root looks like in a user namespace that does not have it
_UID_MAP = "/proc/self/uid_map"


def trusted_owners() -> tuple[int, ...]:
    return (os.geteuid(), 0, *_owners_like_root())


def _owners_like_root() -> tuple[int, ...]:
    """In a user namespace that has every user, `nobody` is a user like others."""
    try:
        with open(_UID_MAP, "rb") as file:
            return () if file.read().split() == [b"0", b"0", b"4294967295"] else (_NOBODY,)
    except OSError:
        return ()


def is_private_group(group: int) -> bool:
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
    return found.gr_gid == user.pw_gid and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
