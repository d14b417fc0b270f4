"""Cached summaries of sessions, so that a list of a thousand sessions opens none of them.

A summary is good for as long as the stamp of its session's folder stands: every output and every event changes it.
What a summary says is its maker's business (`bag.overview`); here it is JSON. The file is a cache, as the index is.
"""

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.directory.index import CacheFile, proof_of
from holdall.store.protocol import SavedSummary, Stamp
from holdall.store.records import LOGS, PREFIX
from holdall.values.handles import is_uuid

NAME = "summaries.sqlite"
_VERSION = 1
_CLEAR = "DROP TABLE IF EXISTS summaries;"
_TABLES = """
CREATE TABLE IF NOT EXISTS summaries (
    session TEXT PRIMARY KEY, stamp TEXT NOT NULL, summary TEXT NOT NULL, proof INTEGER NOT NULL
) WITHOUT ROWID;
"""
_SETTLED_SECONDS = 2.0


class Summaries:
    """One connection, used from any thread, one at a time."""

    def __init__(self, path: str) -> None:
        self._file = CacheFile(path, version=_VERSION, tables=_TABLES, clear=_CLEAR)
        self._lock = threading.Lock()

    def rows(self) -> list[SavedSummary]:
        """Every row that proves itself."""
        found: list[SavedSummary] = []

        def look(database: sqlite3.Connection) -> None:
            for session, stamp, text, proof in database.execute("SELECT * FROM summaries"):
                with contextlib.suppress(TypeError, ValueError):
                    if proof == proof_of(text, stamp):
                        found.append(SavedSummary(session, stamp, json.loads(text)))

        with self._lock:
            self._file.use(look, None)
        return found

    def save(self, entries: Sequence[SavedSummary]) -> None:
        rows: list[tuple[object, ...]] = []
        for session, stamp, summary in entries:
            text = json.dumps(summary, ensure_ascii=True)
            rows.append((session, stamp, text, proof_of(text, stamp)))
        with self._lock:
            self._file.change("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)", rows)

    def forget(self, sessions: Sequence[str]) -> None:
        with self._lock:
            self._file.erase("DELETE FROM summaries WHERE session = ?", [(one,) for one in sessions])

    def close(self) -> None:
        with self._lock:
            self._file.close()


def session_stamps(root: int, sessions: Iterable[str] | None) -> dict[str, Stamp]:
    """Of those that have a folder in the open folder `root`, by their ids; without `sessions`, of all."""
    if sessions is None:
        there = (name.removeprefix(PREFIX) for name in disk.names_in(root) if name.startswith(PREFIX))
        sessions = [id for id in there if is_uuid(id)]
    found: dict[str, Stamp] = {}
    now = time.time()
    for id in sessions:
        with contextlib.suppress(FileNotFoundError):
            found[id] = _stamp(PREFIX + id, root, now)
    return found


def _stamp(name: str, root: int, now: float) -> Stamp:
    folder = files.stat(name, dir_fd=root)
    newest, log = folder.st_mtime, ""
    with contextlib.suppress(OSError):
        about = files.stat(f"{name}/{LOGS['events']}", dir_fd=root)
        newest, log = max(newest, about.st_mtime), f"{about.st_mtime_ns}:{about.st_size}"
    return Stamp(f"{folder.st_mtime_ns}:{log}", now - newest > _SETTLED_SECONDS)
