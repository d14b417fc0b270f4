"""A cache of the records in one SQLite file, so that listing and finding by call id do not open every record.

Each look compares it with the folder: an index that is missing, old or damaged costs time and never a handle.
"""

import contextlib
import json
import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from holdall.policy.measure import checksum
from holdall.store.directory.folder import SessionFolder
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts

# A cache in one SQLite file: a fault in it costs time and nothing else.
#
# A damaged file is removed and started again (a copy of it would keep text of outputs that are removed later), a busy
# one is done without. The journal is a rollback journal, not a write-ahead log: readers and writers of several
# processes then meet only in SQLite's oldest and best-tried code. Users of the cache store nothing only there.


T = TypeVar("T")

IN_MEMORY = ":memory:"  # SQLite's name for a database without a file
_PATIENCE_SECONDS = 0.5  # for other processes; a use of the cache that takes longer is done without


class CacheFile:
    """One connection. `path` is the file; a link in its place is removed like any other damage.

    Where `path` is IN_MEMORY there is no file, and what is in it goes with the connection.

    `tables` makes them if there are none. A file whose `version` is another one is cleared first by `clear`.
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

    def erase(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """The same, where nothing of the old rows may stay: a file that is busy then goes as a whole.

        Raises StoreFault where it cannot.
        """

        def change(database: sqlite3.Connection) -> bool:
            with database:
                database.executemany(statement, rows)
            return True

        if self.use(change, otherwise=False) or os.path.isdir(self._path):
            return
        try:
            self._remove()
        except OSError as problem:
            raise StoreFault(
                f"text of what was removed is still in {self._path}, which can be neither changed nor removed "
                f"({problem.strerror}). It is only a cache: remove it."
            ) from problem

    def use(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """An error costs this use of the cache and nothing else."""
        try:
            return work(self._connected())
        except (sqlite3.Error, ValueError) as problem:  # ValueError: an error text that is damaged itself
            self.close()
            if _is_damage(problem):
                with contextlib.suppress(OSError):
                    self._remove()
        except OSError:
            self.close()
        return otherwise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity == _identity(self._path):
            return self._connection
        if self._path == IN_MEMORY:
            self._connection = self._open()
            weakref.finalize(self, self._connection.close)
            return self._connection
        self.close()  # or never opened, or the file was removed by somebody else
        if os.path.islink(self._path):
            self._remove()
        # The file is made by us first: SQLite would make it with the mode that the umask leaves.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            os.chmod(self._path, 0o600)
        try:
            self._connection = self._open()
        except (sqlite3.Error, ValueError) as problem:
            if not _is_damage(problem):
                raise
            self._remove()
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        # Used from one thread at a time, though not always the same: the caller holds a lock.
        database = sqlite3.connect(self._path, timeout=_PATIENCE_SECONDS, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = TRUNCATE")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA secure_delete = ON")  # arguments of an output that was removed are gone here too
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

    def _remove(self) -> None:
        for path in () if self._path == IN_MEMORY else (self._path, f"{self._path}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


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
    if path == IN_MEMORY:
        return None
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return about.st_dev, about.st_ino


# Everything in it can be read again from the records, and every row carries a checksum of its own. So a failure here
# never reaches the user. It never holds anything that exists nowhere else.


NAME = "index.sqlite"
_VERSION = 2
_CLEAR = "DROP TABLE IF EXISTS outputs; DROP TABLE IF EXISTS complete; DROP TABLE IF EXISTS latest;"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS outputs (
    session TEXT NOT NULL, handle TEXT NOT NULL, stamp TEXT NOT NULL, id TEXT NOT NULL, call_id TEXT NOT NULL,
    sha256 TEXT NOT NULL, facts TEXT NOT NULL, proof INTEGER NOT NULL, PRIMARY KEY (session, handle)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS complete (session TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS latest (session TEXT PRIMARY KEY, place REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_id ON outputs (session, id);
CREATE INDEX IF NOT EXISTS by_call_id ON outputs (session, call_id) WHERE call_id <> '';
CREATE INDEX IF NOT EXISTS by_sha256 ON outputs (session, sha256);
"""


_LATER = "INSERT INTO latest VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET place = max(place, excluded.place)"
_LAST_YEAR = 1e11
# One statement each, so that the file is locked and looked at once. No row: the session is not complete.
_LATEST = "SELECT place FROM complete LEFT JOIN latest ON latest.session = complete.session WHERE complete.session = ?"
_HANDLES = "SELECT handle FROM complete LEFT JOIN outputs ON outputs.session = complete.session AND "
_LOOK_UP = {
    "id": _HANDLES + "id = ? WHERE complete.session = ?",
    "call_id": _HANDLES + "call_id = ? WHERE complete.session = ?",
    "sha256": _HANDLES + "sha256 = ? WHERE complete.session = ? LIMIT 16",
}


class Index:
    """One connection to the file at `path`."""

    def __init__(self, path: str) -> None:
        self._file = CacheFile(path, version=_VERSION, tables=_SCHEMA, clear=_CLEAR)

    def close(self) -> None:
        self._file.close()

    def rows(self, session: str) -> dict[str, tuple[str, Facts]]:
        """Handle to (stamp, facts) for every row that proves itself."""
        found: dict[str, tuple[str, Facts]] = {}

        def look(database: sqlite3.Connection) -> None:
            query = "SELECT handle, stamp, facts, proof FROM outputs WHERE session = ?"
            for handle, stamp, text, proof in database.execute(query, (session,)):
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    if proof == proof_of(text, stamp):
                        found[handle] = (stamp, Facts.from_json(json.loads(text)))

        self._file.use(look, None)
        return found

    def handles(self, session: str, *, column: str, value: str) -> list[str] | None:
        """The handles whose `id`, `call_id` or `sha256` is `value`. A hint: the caller reads the records.

        None until every record of the session was here once: before that a miss means nothing.
        """

        def look(database: sqlite3.Connection) -> list[str] | None:
            found = database.execute(_LOOK_UP[column], (_storable(value), session)).fetchall()
            # A damaged one may be anything.
            return [handle for (handle,) in found if isinstance(handle, str)] if found else None

        return self._file.use(look, None)

    def mark_complete(self, session: str) -> None:
        self._file.change("INSERT OR IGNORE INTO complete VALUES (?)", [(session,)])

    def save(self, entries: list[tuple[str, Facts]], text_of: Callable[[Facts], str]) -> None:
        """(stamp, facts) of records that were just written or read."""
        rows: list[tuple[object, ...]] = []
        for stamp, facts in entries:
            text = text_of(facts)
            rows.append((facts.session, facts.handle, stamp, facts.id, _storable(facts.origin.call_id),
                         facts.measure.sha256, text, proof_of(text, stamp)))  # fmt: skip

        def change(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
                database.executemany(_LATER, [(facts.session, facts.place) for _, facts in entries])

        self._file.use(change, None)

    def latest(self, session: str) -> float | None:
        """The last place in the lists of the session. None where it is not known, as before every record was here."""

        def look(database: sqlite3.Connection) -> float | None:
            (place,) = database.execute(_LATEST, (session,)).fetchone() or (None,)
            # A damaged one may be anything.
            return place if isinstance(place, float) and place < _LAST_YEAR else None

        return self._file.use(look, None)

    def forget(self, session: str, handles: list[str]) -> None:
        pairs = [(session, handle) for handle in handles]
        self._file.erase("DELETE FROM outputs WHERE session = ? AND handle = ?", pairs)


def _storable(value: str) -> str:
    """Text that SQLite can hold: a lone surrogate cannot be bound."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


# Which outputs a session has: the records on disk, read through the index where it is right.
#
# The folder is the truth. Each look compares the names and stamps in the folder with those in the index and reads only
# the records that differ, so an index that is missing, old or damaged costs time and never a handle.


class Catalogue:
    """One index for the whole store, used from any thread, one at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._latest: dict[str, float] = {}  # by session: an index that cannot be used remembers nothing

    def all(self, folder: SessionFolder) -> list[Facts]:
        """Every output whose record can be read, oldest first."""
        found, _ = self.survey(folder)
        return found

    def survey(self, folder: SessionFolder) -> tuple[list[Facts], dict[str, StoreFault]]:
        """The same, and beside it the handles whose records cannot be read, with the reason."""
        session = folder.session.id
        stamps = folder.stamps()
        with self._lock:
            known = self._index.rows(session)
        found: list[Facts] = []
        fresh: list[tuple[str, Facts]] = []
        faults: dict[str, StoreFault] = {}
        for handle, stamp in stamps.items():
            row = known.get(handle)
            if row is not None and row[0] == stamp and row[1].handle == handle:
                found.append(row[1])
                continue
            try:
                loaded = folder.load(handle)
            except StoreFault as fault:
                faults[handle] = fault
                continue
            if loaded is not None:
                found.append(loaded[0])
                fresh += [(stamp, loaded[0])] if stamp else []
        with self._lock:
            if fresh:
                self._index.save(fresh, folder.text_of)
            with contextlib.suppress(StoreFault, OSError):
                gone = [handle for handle in known if handle not in stamps]
                # What was removed while it was read must not come back.
                gone += [facts.handle for stamp, facts in fresh if folder.stamp(facts.handle) != stamp]
                if gone:
                    self._index.forget(session, gone)
            self._index.mark_complete(session)
        return sorted(found, key=lambda facts: (facts.place, facts.handle)), faults

    def find(self, folder: SessionFolder, *, column: str, value: str) -> list[Facts]:
        """The outputs whose `id` or `call_id` is `value`, each read from its record.

        The index answers where it can. Where it knows of none the folder is asked. Where a record that cannot be read
        may be the one, its fault is raised.
        """
        with self._lock:
            handles = self._index.handles(folder.session.id, column=column, value=value) or []
        hinted = [_loaded(folder, handle) for handle in handles]
        found = [facts for facts in hinted if facts is not None and _value(facts, column) == value]
        if column == "id" and found:
            return found
        every, faults = self.survey(folder)
        found = [facts for facts in every if _value(facts, column) == value]
        if not found and faults:  # it may be one of these: that it is unknown would be a guess
            raise next((faults[handle] for handle in handles if handle in faults), next(iter(faults.values())))
        return found

    def twins(self, folder: SessionFolder, sha256: str) -> Iterator[Facts]:
        """A few outputs with these bytes, read one by one: a session may have thousands of the same.

        A hash is looked up at every `put`, and what a miss costs is a second copy of the same bytes, not a lost handle.
        """
        with self._lock:
            handles = self._index.handles(folder.session.id, column="sha256", value=sha256)
        if handles is None:
            yield from (facts for facts in self.all(folder) if facts.measure.sha256 == sha256)
        for handle in handles or ():
            facts = _loaded(folder, handle)
            if facts is not None and facts.measure.sha256 == sha256:
                yield facts

    def placed(self, folder: SessionFolder, facts: Facts) -> Facts:
        """A new output, behind all others in lists: a clock that went back would put it before them."""
        with self._lock:
            known = self._index.latest(facts.session)
        if known is None:
            known = max((one.place for one in self.all(folder)), default=-math.inf)
        with self._lock:
            last = max(self._latest.get(facts.session, -math.inf), known)
            place = facts.created if facts.created >= last else math.nextafter(last, math.inf)
            self._latest[facts.session] = place
        return facts if place == facts.created else replace(facts, order=place)

    def note(self, folder: SessionFolder, facts: Facts) -> None:
        """A record that was just written. It is there, whether or not it can be noted."""
        try:
            stamp = folder.stamp(facts.handle)
        except OSError:
            return
        if stamp is not None:
            with self._lock:
                self._index.save([(stamp, facts)], folder.text_of)

    def bury(self, folder: SessionFolder, handles: Sequence[str], stones: Sequence[Facts]) -> None:
        """Nothing of what the records of `handles` said stays; `stones` were written in their place. The caller holds
        the lock of the folder."""
        entries = [(stamp, stone) for stone in stones if (stamp := folder.stamp(stone.handle)) is not None]
        with self._lock:
            self._index.forget(folder.session.id, list(handles))
            self._index.save(entries, folder.text_of)

    def close(self) -> None:
        with self._lock:
            self._index.close()


def _loaded(folder: SessionFolder, handle: str) -> Facts | None:
    try:
        loaded = folder.load(handle)
    except StoreFault:
        return None
    return loaded[0] if loaded else None


def _value(facts: Facts, column: str) -> str:
    match column:
        case "id":
            return facts.id
        case "call_id":
            return facts.origin.call_id
        case _:
            return facts.measure.sha256
