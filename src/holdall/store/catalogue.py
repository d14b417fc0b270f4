"""Which outputs a session has: the records on disk, read through the index where it is right.

The folder is the truth. Each look compares the names and stamps in the folder with those in the index and reads only
the records that differ, so an index that is missing, old or damaged costs time and never a handle.
"""

import threading
from collections.abc import Iterator

from holdall.store.folder import SessionFolder
from holdall.store.index import Index
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts


class Catalogue:
    """One index for the whole store, used from any thread, one at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.Lock()

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
                fresh.append((stamp, loaded[0]))
        with self._lock:
            if fresh:
                self._index.save(fresh)
            if gone := [handle for handle in known if handle not in stamps]:
                self._index.forget(session, gone)
            self._index.mark_complete(session)
        return sorted(found, key=lambda facts: (facts.created, facts.handle)), faults

    def find(self, folder: SessionFolder, *, column: str, value: str) -> list[Facts]:
        """The outputs whose `id` or `call_id` is `value`, each read from its record.

        The index answers where it can. Where it knows of none the folder is asked.
        """
        with self._lock:
            complete = self._index.is_complete(folder.session.id)
            handles = self._index.handles(folder.session.id, column=column, value=value) if complete else []
        hinted = [_loaded(folder, handle) for handle in handles]
        found = [facts for facts in hinted if facts is not None and _value(facts, column) == value]
        if column == "id" and found:
            return found
        return [facts for facts in self.all(folder) if _value(facts, column) == value]

    def twins(self, folder: SessionFolder, sha256: str) -> Iterator[Facts]:
        """A few outputs with these bytes, read one by one: a session may have thousands of the same.

        A hash is looked up at every `put`, and what a miss costs is a second copy of the same bytes, not a lost handle.
        """
        with self._lock:
            complete = self._index.is_complete(folder.session.id)
            handles = self._index.handles(folder.session.id, column="sha256", value=sha256) if complete else []
        if not complete:
            yield from (facts for facts in self.all(folder) if facts.measure.sha256 == sha256)
        for handle in handles:
            facts = _loaded(folder, handle)
            if facts is not None and facts.measure.sha256 == sha256:
                yield facts

    def note(self, folder: SessionFolder, facts: Facts) -> None:
        """A record that was just written."""
        stamp = folder.stamp(facts.handle)
        if stamp is not None:
            with self._lock:
                self._index.save([(stamp, facts)])

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
