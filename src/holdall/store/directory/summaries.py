"""What is known of each session in a few words, cached: so that a list of a thousand sessions opens none of them.

A summary is good for as long as the stamp of its session's folder stands: every output and every event changes it.
What a summary says is its maker's business (`bag.overview`); here it is JSON. The file is a cache, as the index is.
"""

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from holdall.store.directory import disk, session_files
from holdall.store.directory.index import CacheFile, proof_of
from holdall.store.directory.session_files import LEASE
from holdall.store.directory.sessions import PREFIX
from holdall.values.errors import StoreFault
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


class Stamp(NamedTuple):
    """`is_settled` is false where the folder has just changed: a second change might leave the same stamp."""

    text: str
    is_settled: bool


class Summaries:
    """Used from one thread at a time."""

    def __init__(self, home: str) -> None:
        self._home = os.path.abspath(home)
        self._file = CacheFile(os.path.join(self._home, NAME), version=_VERSION, tables=_TABLES, clear=_CLEAR)

    def sessions(self) -> set[str]:
        """The ids of all that have a folder."""
        with self._root() as root:
            found = {name.removeprefix(PREFIX) for name in disk.names_in(root) if name.startswith(PREFIX)}
        return {id for id in found if is_uuid(id)}

    def stamps(self, sessions: Iterable[str]) -> dict[str, Stamp]:
        """Of those that are still there, by their ids."""
        found: dict[str, Stamp] = {}
        now = time.time()
        with self._root() as root:
            for id in sessions:
                with contextlib.suppress(FileNotFoundError):
                    found[id] = _stamp(PREFIX + id, root, now)
        return found

    def rows(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Session to (stamp, summary) for every row that proves itself."""
        found: dict[str, tuple[str, Mapping[str, Any]]] = {}

        def look(database: sqlite3.Connection) -> None:
            for session, stamp, text, proof in database.execute("SELECT * FROM summaries"):
                with contextlib.suppress(TypeError, ValueError):
                    if proof == proof_of(text, stamp):
                        found[session] = (stamp, json.loads(text))

        self._file.use(look, None)
        return found

    def save(self, entries: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """(session, stamp, summary) of sessions that were just looked at."""
        rows: list[tuple[object, ...]] = []
        for session, stamp, summary in entries:
            text = json.dumps(summary, ensure_ascii=True)
            rows.append((session, stamp, text, proof_of(text, stamp)))
        self._file.change("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)", rows)

    def forget(self, sessions: Sequence[str]) -> None:
        self._file.change("DELETE FROM summaries WHERE session = ?", [(one,) for one in sessions])

    def is_led(self, session: str) -> bool:
        """Whether an agent runs in the session now: it holds the lease."""
        try:
            root = disk.open_root(self._home)
        except StoreFault:
            return False
        try:
            folder = disk.open_folder(PREFIX + session, inside=root)
        except (OSError, StoreFault):
            return False
        finally:
            os.close(root)
        try:
            descriptor = disk.open_file(LEASE, inside=folder)
        except (OSError, StoreFault):
            return False
        finally:
            os.close(folder)
        try:
            return disk.is_held(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _root(self) -> Generator[int]:
        with disk.explained("listing the sessions", self._home):
            root = disk.open_root(self._home)
            try:
                yield root
            finally:
                os.close(root)


def _stamp(name: str, root: int, now: float) -> Stamp:
    folder = os.stat(name, dir_fd=root, follow_symlinks=False)
    newest, log = folder.st_mtime, ""
    with contextlib.suppress(OSError):
        about = os.stat(f"{name}/{session_files.NAME}", dir_fd=root, follow_symlinks=False)
        newest, log = max(newest, about.st_mtime), f"{about.st_mtime_ns}:{about.st_size}"
    return Stamp(f"{folder.st_mtime_ns}:{log}", now - newest > _SETTLED_SECONDS)
