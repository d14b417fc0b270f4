"""Sessions on disk: one folder each, found by name.

    names/<sha256 of the name>     which session has that name; made under a lock, by one maker at a time
    names/.lock                    that lock; it says the times of `root` and `names` when every session had its name
    session-<uuid>/session.json    what the session is; the folder holds its outputs

A session's name comes from outside and is only ever hashed, never part of a path.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.ids import new_mark, new_tag, new_uuid
from holdall.store.protocol import SessionInfo
from holdall.store.records import (
    PREFIX,
    SUFFIX,
    VERSION,
    VERSIONS,
    check_name,
    decode_session,
    encode_session,
    version_in,
)
from holdall.values.errors import StoreFault
from holdall.values.handles import is_uuid
from holdall.values.retention import Retention

NAMES = "names"
_FILE = "session.json"
_LOCK = ".lock"


class Sessions:
    """Reads and makes the session folders inside `root`, an open folder."""

    def __init__(self, root: int, clock: Callable[[], float]) -> None:
        self._root = root
        self._clock = clock
        self._names_folder = -1
        self._lock = threading.RLock()

    def find(self, name: str) -> SessionInfo | None:
        """By name, or by the name of its folder."""
        check_name(name)
        if _is_session(name):
            named = self._load(name.removeprefix(PREFIX))
            if named is not None:
                return named
        id = self._claimed(name)
        if id is None and self._all_claimed():
            return None
        found = self._load(id) if id and is_uuid(id) else None
        # The claim is a second witness of the name: it finds a session that has lost its own file.
        return replace(found, name=name) if found is not None else self._search(name)

    def _claimed(self, name: str) -> str | None:
        """The id of the session that claims the name; nothing where the claim is damaged, None where there is none."""
        try:
            return str(json.loads(disk.read_file(_claim(name), inside=self._names()))["session"])
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError):
            return ""

    def _all_claimed(self) -> bool:
        """Whether no session and no claim came or went since each had its own: then none is searched for by its name.

        A folder that is copied here by hand changes the times, unless that happens in the same tick of the clock.
        """
        with contextlib.suppress(OSError, StoreFault):
            return disk.read_file(_LOCK, inside=self._names()) == self._times()
        return False

    def _times(self) -> bytes:
        return b"%d %d\n" % tuple(files.fstat(folder).st_mtime_ns for folder in (self._root, self._names()))

    def _claim_all(self) -> None:
        """Give back the names that were lost. The caller holds the names."""
        lost = [one for one in self.all() if one.name != PREFIX + one.id and self._claimed(one.name) is None]
        for info in lost:  # the newest first: of two with one name, the oldest has it at the end
            self.claim(info)
        if lost:
            files.fsync(self._names())
        self._say_all_claimed()

    def _say_all_claimed(self) -> None:
        """Not synced: where it is lost, all of them are read once more."""
        with contextlib.suppress(OSError):
            lock = files.open(_LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._names())
            try:
                files.ftruncate(lock, 0)
                files.write_all(lock, self._times())
            finally:
                files.close(lock)

    def make(self, name: str, retention: Retention, parent: str) -> SessionInfo:
        """A new session, or the one that somebody else made in the meantime.

        One creator at a time: a session is visible as soon as its file exists, so the name must be claimed before.
        """
        with self.naming(mend=True) as names:
            found = self.find(name)
            if found is not None:
                return found
            info = SessionInfo(
                id=new_uuid(), name=name, created=self._clock(), retention=retention, parent=parent, mark=new_mark()
            )
            self._make_folder(info)
            # What is claimed already is a session that is gone.
            disk.write_new(_claim(name), _claiming(info), inside=names, token=new_tag(), replace=True)
            files.fsync(names)
            return info

    def _make_folder(self, info: SessionInfo) -> None:
        try:
            folder = disk.make_folder(PREFIX + info.id, inside=self._root)
            try:
                self._save(folder, info)
                files.fsync(folder)
            finally:
                files.close(folder)
        except OSError:
            with contextlib.suppress(OSError):  # a folder with a file in it is a session, and stays
                files.rmdir(PREFIX + info.id, dir_fd=self._root)
            raise

    def keep_for(self, info: SessionInfo, retention: Retention) -> SessionInfo:
        return self._changed(replace(info, retention=retention))

    def mark(self, info: SessionInfo) -> str:
        """Of a session that was made without one. One process at a time, so that all have the same."""
        with disk.locked(_LOCK, inside=self._names()):
            found = self._load(info.id) or info
            return found.mark or self._changed(replace(found, mark=new_mark())).mark

    def _changed(self, info: SessionInfo) -> SessionInfo:
        folder = self.folder(info)
        try:
            self._save(folder, info)
            files.fsync(folder)
        finally:
            files.close(folder)
        return info

    def all(self) -> list[SessionInfo]:
        """Every session that can be read, newest first."""
        found: list[SessionInfo] = []
        for id in self._ids():
            with contextlib.suppress(StoreFault):
                if (one := self._load(id)) is not None:
                    found.append(one)
        return sorted(found, key=lambda one: (-one.created, one.id))

    def unreadable(self) -> dict[str, StoreFault]:
        """Folders of sessions that this version cannot read, and why."""
        found: dict[str, StoreFault] = {}
        for id in self._ids():
            try:
                self._load(id)
            except StoreFault as fault:
                found[PREFIX + id] = fault
        return found

    def _ids(self) -> list[str]:
        return [name.removeprefix(PREFIX) for name in disk.names_in(self._root) if _is_session(name)]

    def folder(self, info: SessionInfo) -> int:
        return disk.open_folder(PREFIX + info.id, inside=self._root)

    def restore(self, info: SessionInfo) -> int:
        """The folder of a session that was removed by hand, made again and open."""
        folder = disk.make_folder(PREFIX + info.id, inside=self._root)
        try:
            self._save(folder, info)
            files.fsync(folder)
        except BaseException:
            files.close(folder)
            raise
        return folder

    @contextlib.contextmanager
    def naming(self, *, mend: bool = False) -> Generator[int]:
        """Hold the names: nobody makes a session meanwhile. Gives the open folder of names.

        `mend` gives back those that were lost.
        """
        names = self._names()
        with disk.locked(_LOCK, inside=names):
            all_claimed = self._all_claimed()
            if mend and not all_claimed:
                self._claim_all()
            yield names
            if (mend or all_claimed) and not self._all_claimed():  # what came meanwhile is: its maker holds the names
                self._say_all_claimed()

    def claim(self, info: SessionInfo) -> None:
        """Say whose the name is. The caller holds the names, and syncs them. Not the file: a claim that a power cut
        leaves empty is found out and made anew, and thousands of syncs would hold up all who open the store.
        """
        names = self._names()
        disk.write_new(_claim(info.name), _claiming(info), inside=names, token=new_tag(), replace=True, sync=False)

    def forget(self, name: str) -> None:
        """Take back a claim. The caller holds the names."""
        with contextlib.suppress(FileNotFoundError):
            files.unlink(_claim(name), dir_fd=self._names())

    def _names(self) -> int:
        with self._lock:  # two threads that both open it would leave one open for ever
            if self._names_folder >= 0 and files.fstat(self._names_folder).st_nlink == 0:  # removed by hand
                self.close()
            if self._names_folder < 0:
                self._names_folder = disk.make_folder(NAMES, inside=self._root)
            return self._names_folder

    def close(self) -> None:
        if self._names_folder >= 0:
            files.close(self._names_folder)
            self._names_folder = -1

    def _load(self, id: str) -> SessionInfo | None:
        try:
            folder = disk.open_folder(PREFIX + id, inside=self._root)
        except (FileNotFoundError, StoreFault):
            return None
        try:
            return decode_session(disk.read_file(_FILE, inside=folder), id)
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return self._without_file(id, folder)
        finally:
            files.close(folder)

    def _without_file(self, id: str, folder: int) -> SessionInfo | None:
        """The outputs describe themselves: a session whose own file is lost still opens, under its folder's name."""
        records = [name for name in disk.names_in(folder) if name.endswith(SUFFIX)]
        if not records:
            return None
        created = files.fstat(folder).st_mtime
        return SessionInfo(id, PREFIX + id, created, Retention(days=None), format=_format(records, folder))

    def _search(self, name: str) -> SessionInfo | None:
        """The slow way, for where the claim was lost: the oldest session of that name."""
        return next((one for one in reversed(self.all()) if one.name == name), None)

    def _save(self, folder: int, info: SessionInfo) -> None:
        data = encode_session(info)
        disk.write_new(_FILE, data, inside=folder, token=new_tag(), replace=True)


def _format(records: Sequence[str], folder: int) -> int:
    """What the session's records say; the newest format where none of them can be read."""
    for name in records:
        with contextlib.suppress(OSError, StoreFault):
            if (version := version_in(disk.read_file(name, inside=folder))) in VERSIONS:
                return version
    return VERSION


def _is_session(folder: str) -> bool:
    return folder.startswith(PREFIX) and is_uuid(folder.removeprefix(PREFIX))


def _claim(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _claiming(info: SessionInfo) -> bytes:
    return json.dumps({"session": info.id, "name": info.name}).encode()
