"""A cache in one SQLite file: whatever goes wrong with it costs time, and never more.

A damaged file is set aside and started anew, a busy one is done without. The journal is a rollback journal, not a
write-ahead log: readers and writers of several processes then meet only in SQLite's oldest and best-tried code.
Nothing in such a file exists nowhere else; that is for whoever uses it to see to.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from holdall.policy.measure import checksum

T = TypeVar("T")

_PATIENCE_SECONDS = 0.5  # for other processes; a use of the cache that takes longer is done without


class CacheFile:
    """One connection. `path` is the file; a link in its place is set aside like any other damage.

    `tables` makes them where there are none. A file whose `version` is another one is cleared first by `clear`.
    """

    def __init__(self, path: str, *, version: int, tables: str, clear: str) -> None:
        self._path = path
        self._version = version
        self._tables = tables
        self._clear = clear
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def change(database: sqlite3.Connection) -> None:
            with database:
                database.executemany(statement, rows)

        self.use(change, None)

    def use(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Whatever goes wrong costs this one use of the cache and nothing else."""
        try:
            return work(self._connected())
        except (sqlite3.Error, ValueError) as problem:  # ValueError: an error text that is damaged itself
            self.close()
            if _is_damage(problem):
                self._set_aside()
        except OSError:
            self.close()
        return otherwise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity == _identity(self._path):
            return self._connection
        self.close()  # or never opened, or the file was set aside or removed by somebody else
        if os.path.islink(self._path):
            self._set_aside()
        # The file is made by us first: SQLite would make it with the mode that the umask leaves.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            os.chmod(self._path, 0o600)
        try:
            self._connection = self._open()
        except (sqlite3.Error, ValueError) as problem:
            if not _is_damage(problem):
                raise
            self._set_aside()
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        # Used from one thread at a time, though not always the same: whoever has it holds a lock around it.
        database = sqlite3.connect(self._path, timeout=_PATIENCE_SECONDS, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = TRUNCATE")
            database.execute("PRAGMA synchronous = OFF")
            if database.execute("PRAGMA user_version").fetchone()[0] != self._version:
                # In one step: a second process must not meet a database without tables.
                database.executescript(
                    f"BEGIN IMMEDIATE; {self._clear} {self._tables} PRAGMA user_version = {self._version}; COMMIT;"
                )
        except BaseException:
            database.close()
            raise
        self._identity = _identity(self._path)
        return database

    def _set_aside(self) -> None:
        for number in range(100):
            aside = f"{self._path}.damaged-{number}"
            if not os.path.lexists(aside):
                with contextlib.suppress(OSError):
                    os.rename(self._path, aside)
                return
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def proof_of(text: str, stamp: str) -> int:
    """A checksum for one row: damage that SQLite does not see is seen here."""
    return checksum(f"{stamp}\n{text}".encode()) >> 1  # SQLite's integers are signed


def _is_damage(problem: Exception) -> bool:
    """Whether the file is wrong, rather than busy, read-only or on a disk without space: then it is done without."""
    if not isinstance(problem, sqlite3.OperationalError):
        return True
    code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # text that is none comes without a code
    return code == sqlite3.SQLITE_ERROR


def _identity(path: str) -> tuple[int, int] | None:
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return about.st_dev, about.st_ino
