"""Where the data folder is: what the user said, else a folder of the user's own."""

import os
import sys

import platformdirs

from holdall.values.errors import BadSetting

VARIABLE = "HOLDALL_HOME"


def default_home() -> str:
    """HOLDALL_HOME, else the data folder that the system gives each user."""
    if named := os.environ.get(VARIABLE):
        return checked(named, key=VARIABLE)
    home = os.path.expanduser("~")
    if not os.path.isdir(home) and "XDG_DATA_HOME" not in os.environ:
        raise BadSetting("HOME", home, "there is no such folder; set HOLDALL_HOME to the folder to keep outputs in")
    return platformdirs.user_data_dir("holdall", appauthor=False)


def checked(path: str, *, key: str, where: str = "") -> str:
    """An absolute path, as it was written: no ~ and no variable is expanded behind anybody's back."""
    if "\x00" in path or not os.path.isabs(path):
        rule = "it must be an absolute path to a folder (~ and $VARIABLES are not expanded here)"
        raise BadSetting(key, path, rule, where=where)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise BadSetting(key, path, "it must be a folder, and what is there is not one", where=where)
    if os.path.islink(path):
        raise BadSetting(key, path, "it must be a folder, not a link; name the folder that it leads to", where=where)
    return path


def is_supported() -> bool:
    """Linux and macOS: the store needs advisory locks, links and descriptors of folders."""
    return sys.platform != "win32"
