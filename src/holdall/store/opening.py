"""Which store a program uses: where it is, and what opens it. The only place that chooses an implementation.

The form of `home` says which store it is; today that is always a folder.
"""

import os
import time
from collections.abc import Callable

from holdall.policy.retention import Retention
from holdall.store.protocol import OutputStore, Quota
from holdall.store.read_only import read_only as read_only_store
from holdall.store.records import PREFIX
from holdall.text.tokens import Tokenizer
from holdall.values.errors import BadSetting

VARIABLE = "HOLDALL_HOME"


def default_home() -> str:
    """HOLDALL_HOME, else the data folder that the system gives each user."""
    if named := os.environ.get(VARIABLE):
        return checked(named, key=VARIABLE)
    home = os.path.expanduser("~")
    if not os.path.isdir(home) and "XDG_DATA_HOME" not in os.environ:
        raise BadSetting("HOME", home, "there is no such folder; set HOLDALL_HOME to the folder to keep outputs in")
    import platformdirs  # noqa: PLC0415 - only where no folder is named

    return platformdirs.user_data_dir("holdall", appauthor=False)


def checked(path: str, *, key: str, where: str = "") -> str:
    """An absolute path, as it was written: neither ~ nor variables are expanded."""
    if "\x00" in path or not os.path.isabs(path):
        rule = "it must be an absolute path to a folder (~ and $VARIABLES are not expanded here)"
        raise BadSetting(key, path, rule, where=where)
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
) -> OutputStore:
    """The store in `home`, made if there is none. With `read_only` nothing is changed through it."""
    from holdall.store.directory.store import DirectoryStore  # noqa: PLC0415 - settings are read without a store

    store = DirectoryStore(home, tokenizer=tokenizer, retention=retention, quota=quota, clock=clock)
    return read_only_store(store) if read_only else store


def is_store(home: str) -> bool:
    """Whether there is a store in `home`, with or without sessions."""
    return os.path.isdir(home)


def has_sessions(home: str) -> bool:
    """Whether anything was ever kept in `home`. What cannot be looked into is for the store to explain."""
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
