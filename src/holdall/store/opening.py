"""Which store a program uses: where it is, and what opens it. The only place that chooses an implementation.

The form of `home` says which store it is: a path is a folder, `postgresql://…` a store of many hosts.
"""

import os
import time
from collections.abc import Callable

from holdall.store.addresses import is_fleet, shown
from holdall.store.protocol import OutputStore, Quota
from holdall.store.read_only import read_only as read_only_store
from holdall.store.records import PREFIX
from holdall.text.tokens import Tokenizer
from holdall.values.errors import BadSetting
from holdall.values.retention import Retention
from holdall.values.settings import Settings

__all__ = [
    "OBJECTS_VARIABLE",
    "VARIABLE",
    "checked",
    "default_home",
    "empty_store",
    "has_sessions",
    "is_fleet",
    "is_store",
    "open_store",
    "shown",
]

VARIABLE = "HOLDALL_HOME"
OBJECTS_VARIABLE = "HOLDALL_OBJECTS"


def default_home() -> str:
    """HOLDALL_HOME, else the data folder that the system gives each user."""
    if named := os.environ.get(VARIABLE):
        return checked(named, key=VARIABLE)
    return local_home()


def local_home() -> str:
    """The data folder that the system gives each user."""
    home = os.path.expanduser("~")
    if not os.path.isdir(home) and "XDG_DATA_HOME" not in os.environ:
        raise BadSetting("HOME", home, "there is no such folder; set HOLDALL_HOME to the folder to keep outputs in")
    import platformdirs  # noqa: PLC0415 - only where no folder is named

    return platformdirs.user_data_dir("holdall", appauthor=False)


def checked(path: str, *, key: str, where: str = "") -> str:
    """An absolute path, as it was written: neither ~ nor variables are expanded. Or the address of a database."""
    if is_fleet(path):
        return path
    if "://" in path:
        rule = "it must be a folder, or a database as in postgresql://user@host/database"
        raise BadSetting(key, path.partition("://")[0] + "://…", rule, where=where)
    if "\x00" in path or not os.path.isabs(path):
        rule = "it must be an absolute path to a folder (~ and $VARIABLES are not expanded here)"
        # An address of a database that was written in another way: its password is not told.
        told = "…" if any(sign in path for sign in "=@") else path
        raise BadSetting(key, told, rule, where=where)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise BadSetting(key, path, "it must be a folder, and what is there is not one", where=where)
    if os.path.islink(path):
        raise BadSetting(key, path, "it must be a folder, not a link; name the folder that it leads to", where=where)
    return path


def open_store(
    home: str,
    *,
    tokenizer: Tokenizer | None = None,
    retention: Retention | None = None,
    quota: Quota | None = None,
    clock: Callable[[], float] = time.time,
    read_only: bool = False,
    settings: Settings | None = None,
) -> OutputStore:
    """The store in `home`, made if there is none. With `read_only` nothing is changed through it.

    `settings` say where objects and their copies are, of a store that has them.
    """
    if home.startswith(("~", "$")):  # a shell would have expanded it: a folder of this name is a trap
        rule = "~ and $VARIABLES are not expanded here: write a whole path, as os.path.expanduser gives it"
        raise BadSetting("home", home, rule)
    if is_fleet(home):
        fleet = _open_fleet(home, settings or Settings(), tokenizer, retention, quota, clock)
        return read_only_store(fleet) if read_only else fleet
    from holdall.store.directory.store import DirectoryStore  # noqa: PLC0415 - settings are read without a store

    store = DirectoryStore(home, tokenizer=tokenizer, retention=retention, quota=quota, clock=clock)
    return read_only_store(store) if read_only else store


def _open_fleet(
    home: str, settings: Settings, tokenizer: Tokenizer | None, retention: Retention | None, quota: Quota | None,
    clock: Callable[[], float],
) -> OutputStore:  # fmt: skip
    from holdall.store.fleet.store import FleetStore  # noqa: PLC0415 - an extra

    return FleetStore(
        home,
        objects=settings.objects or os.environ.get(OBJECTS_VARIABLE, ""),
        principal=settings.principal,
        cache_dir=settings.cache_dir or _default_cache(),
        cache_bytes=settings.cache_bytes,
        tokenizer=tokenizer,
        retention=retention,
        quota=quota,
        clock=None if clock is time.time else clock,  # hosts go by the clock that they share
    )


def _default_cache() -> str:
    import platformdirs  # noqa: PLC0415 - only for a store of many hosts

    return os.path.join(platformdirs.user_cache_dir("holdall", appauthor=False), "objects")


def is_store(home: str) -> bool:
    """Whether there is a store in `home`, with or without sessions. A database tells when it is opened."""
    return is_fleet(home) or os.path.isdir(home)


def has_sessions(home: str) -> bool:
    """Whether anything was ever kept in `home`. What cannot be looked into is for the store to explain."""
    if is_fleet(home):
        return True
    try:
        return any(name.startswith(PREFIX) for name in os.listdir(home))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def empty_store() -> OutputStore:
    """A store to look at in place of one in which nothing is kept yet; it leaves nothing on disk."""
    from holdall.store.memory import MemoryStore  # noqa: PLC0415 - few ask for it

    return MemoryStore()
