"""A cache of the records in one SQLite file, so that listing and finding by call id do not open every record.

Everything in it can be read again from the records, and every row carries a checksum of its own. So no failure here
is ever the user's (`store.cache_file`). It never holds anything that exists nowhere else.
"""

import contextlib
import json
import sqlite3

from holdall.store.cache_file import CacheFile, proof_of
from holdall.values.outputs import Facts

NAME = "index.sqlite"
_VERSION = 1
_CLEAR = "DROP TABLE IF EXISTS outputs; DROP TABLE IF EXISTS complete;"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS outputs (
    session TEXT NOT NULL, handle TEXT NOT NULL, stamp TEXT NOT NULL, id TEXT NOT NULL, call_id TEXT NOT NULL,
    sha256 TEXT NOT NULL, facts TEXT NOT NULL, proof INTEGER NOT NULL, PRIMARY KEY (session, handle)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS complete (session TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_id ON outputs (session, id);
CREATE INDEX IF NOT EXISTS by_call_id ON outputs (session, call_id) WHERE call_id <> '';
CREATE INDEX IF NOT EXISTS by_sha256 ON outputs (session, sha256);
"""


_LOOK_UP = {
    "id": "SELECT handle FROM outputs WHERE session = ? AND id = ?",
    "call_id": "SELECT handle FROM outputs WHERE session = ? AND call_id = ?",
    "sha256": "SELECT handle FROM outputs WHERE session = ? AND sha256 = ? LIMIT 16",
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

    def handles(self, session: str, *, column: str, value: str) -> list[str]:
        """The handles whose `id`, `call_id` or `sha256` is `value`. A hint: the caller reads the records."""

        def look(database: sqlite3.Connection) -> list[str]:
            found = database.execute(_LOOK_UP[column], (session, _storable(value)))
            return [handle for (handle,) in found if isinstance(handle, str)]  # a damaged one may be anything

        return self._file.use(look, [])

    def is_complete(self, session: str) -> bool:
        """Whether every record of the session was here once; until then a miss means nothing."""
        query = "SELECT 1 FROM complete WHERE session = ?"
        return self._file.use(lambda database: database.execute(query, (session,)).fetchone() is not None, False)

    def mark_complete(self, session: str) -> None:
        self._file.change("INSERT OR IGNORE INTO complete VALUES (?)", [(session,)])

    def save(self, entries: list[tuple[str, Facts]]) -> None:
        """(stamp, facts) of records that were just written or read."""
        rows: list[tuple[object, ...]] = []
        for stamp, facts in entries:
            text = json.dumps(facts.to_json(), default=str)
            rows.append((facts.session, facts.handle, stamp, facts.id, _storable(facts.origin.call_id),
                         facts.measure.sha256, text, proof_of(text, stamp)))  # fmt: skip
        self._file.change("INSERT OR REPLACE INTO outputs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, session: str, handles: list[str]) -> None:
        pairs = [(session, handle) for handle in handles]
        self._file.change("DELETE FROM outputs WHERE session = ? AND handle = ?", pairs)


def _storable(value: str) -> str:
    """Text that SQLite can hold: a lone surrogate cannot be bound."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
