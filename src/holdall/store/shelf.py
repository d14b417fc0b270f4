"""What a memory store holds, as plain data: sessions, their outputs, and the one copy that identical outputs share.

Whoever looks at it or changes it holds the lock of the shelves. Nothing here reads a clock or ends an output.
"""

import threading
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from holdall.store.draft import Draft
from holdall.store.ids import new_handle
from holdall.store.nameless import Blob
from holdall.store.protocol import SessionInfo
from holdall.store.sessions import PREFIX
from holdall.values.errors import AmbiguousCallId, StoreFault, StoreGone
from holdall.values.handles import Foreign, Long, Short, parse
from holdall.values.outputs import Facts
from holdall.values.spans import BlockTable


@dataclass(slots=True)
class Entry:
    """One output: a draft while it runs, a blob once it has ended, neither when it has expired."""

    facts: Facts
    table: BlockTable = field(default_factory=BlockTable)
    blob: Blob | None = None
    draft: Draft | None = None
    version: int = 0

    def change(self, facts: Facts) -> Facts:
        self.facts = facts
        self.version += 1
        return facts


@dataclass(slots=True)
class Shelf:
    """One session."""

    info: SessionInfo
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])  # by handle
    log: bytearray = field(default_factory=bytearray)
    transcript: bytearray = field(default_factory=bytearray)
    tree: bytes | None = None
    holder: str | None = None  # of the lease
    notes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    # By sha256. It goes with the last output that holds it.
    _blobs: WeakValueDictionary[str, Blob] = field(default_factory=WeakValueDictionary[str, Blob])

    def in_order(self) -> list[Entry]:
        """Oldest first."""
        return sorted(self.entries.values(), key=lambda one: (one.facts.created, one.facts.handle))

    def forget(self, sha256: str) -> None:
        """The notes about a content that no output has any more."""
        for name in [name for name in self.notes if name.startswith(f"{sha256}-")]:
            del self.notes[name]

    def publish(self, entry: Entry) -> Facts:
        """Put it under a handle that nobody has."""
        for attempt in range(64):
            handle = new_handle(attempt)
            if handle not in self.entries:
                self.entries[handle] = entry
                return entry.change(replace(entry.facts, handle=handle))
        raise StoreFault("no free handle was found in 64 tries.")

    def hold(self, entry: Entry, blob: Blob, facts: Facts) -> Facts:
        """Its final facts and bytes: those of another output where they are the same, else its own."""
        entry.blob = self._blobs.setdefault(facts.measure.sha256, blob)
        return entry.change(replace(facts, file=entry.blob.name))

    def named(self, reference: str) -> Entry | None:
        match parse(reference, session=self.info.id):
            case Short(handle):
                return self.entries.get(handle)
            case Long(session, id):
                of_it = (one for one in self.entries.values() if one.facts.id == id)
                return next(of_it, None) if session == self.info.id else None
            case Foreign():
                return None

    def called(self, call_id: str) -> Entry | None:
        found = [one for one in self.in_order() if one.facts.origin.call_id == call_id]
        if len(found) > 1:
            raise AmbiguousCallId(call_id, [one.facts.handle for one in found])
        return found[0] if found else None


class Shelves:
    """All sessions."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.all: dict[str, Shelf] = {}  # by the id of the session

    def of(self, session_id: str) -> Shelf:
        if session_id not in self.all:
            raise StoreGone(f"the session {session_id} is not in this store: what is in memory goes with its store.")
        return self.all[session_id]

    def named(self, name: str) -> Shelf | None:
        """By name, or by the name that its folder would have."""
        by_id = self.all.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        return by_id or next((one for one in self.all.values() if one.info.name == name), None)
