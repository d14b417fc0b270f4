"""Outputs that are open: opened once, used by many calls, closed when nobody uses them.

An open output is used again only while its record is the one that it was opened with; a running one is brought up to
date first. Safe to use from several threads.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Generator

from holdall.store.protocol import OutputReader, OutputStore, SessionInfo
from holdall.values.outputs import Facts
from holdall.values.record import record

_OPEN = 16
Key = tuple[str, str]  # the session's id, and a handle or call id


@record(frozen=False)
class _Entry:
    reader: OutputReader
    stamp: str | None
    users: int = 0
    dropped: bool = False


class Readers:
    """Of any number of sessions of one store."""

    def __init__(self, store: OutputStore) -> None:
        self._store = store
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lease(self, session: SessionInfo, reference: str, facts: Facts | None = None) -> Generator[OutputReader]:
        """The output under a handle or call id, open for as long as the block lasts. `facts` where they are new."""
        entry = self._take(session, reference, facts)
        try:
            yield entry.reader
        finally:
            with self._lock:
                entry.users -= 1
                self._tidy(entry)

    def close(self, session: SessionInfo | None = None) -> None:
        """Those of one session, or all."""
        with self._lock:
            for key in [key for key in self._entries if session is None or key[0] == session.id]:
                self._drop(key)

    def drop(self, session: SessionInfo, handle: str) -> None:
        """Close it, under whatever it was asked for; anyone who uses it at this moment continues."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if key[0] == session.id and entry.reader.facts.handle == handle:
                    self._drop(key)

    def _take(self, session: SessionInfo, reference: str, facts: Facts | None = None) -> _Entry:
        key = (session.id, reference)
        with self._lock:
            known = self._entries.get(key)
            if known is not None and known.stamp == self._store.stamp(known.reader.facts):
                if known.reader.facts.state != "running":
                    known.users += 1
                    self._entries.move_to_end(key)
                    return known
                if known.users == 0 and (facts or self._store.resolve(session, reference)).state == "running":
                    known.reader.refresh()
                    known.users += 1
                    return known
        reader = self._store.open(facts) if facts is not None else self._store.open_named(session, reference)
        entry = _Entry(reader, self._store.stamp(reader.facts), users=1)
        with self._lock:
            self._drop(key)
            self._entries[key] = entry
            while len(self._entries) > _OPEN:
                self._drop(next(iter(self._entries)))
        return entry

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            entry.dropped = True
            self._tidy(entry)

    def _tidy(self, entry: _Entry) -> None:
        if entry.dropped and entry.users == 0:
            entry.reader.close()
