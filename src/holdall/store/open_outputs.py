"""Outputs that are open, and members of packed ones: opened once, used by many calls, closed when nobody uses them.

An open output is used again only while its record is the one that it was opened with; a running one is brought up to
date first. What was unpacked is bounded: the last few members stay open, and no more than so many bytes of them. Safe
to use from several threads.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Generator
from typing import TYPE_CHECKING

from holdall.store.protocol import OutputReader, OutputStore, SessionInfo
from holdall.text.numbers import size
from holdall.values.errors import BadMember, UnknownHandle, WorkerFault
from holdall.values.handles import MEMBER, Foreign, parse
from holdall.values.outputs import Facts
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.store.members import Pages

_OPEN = 16
_OPEN_MEMBERS = 8
_LONGEST = 4096  # characters of a handle and the members behind it
_MOST_SIGNS = 16  # of a call id and members
_UNPACKED_BYTES = 1 << 30  # of members that are open, at most
MOST_UNPACKED = 256 << 20  # bytes of one member, where no setting says otherwise
Key = tuple[str, str]  # the session's id, and a handle


@record(frozen=False)
class _Entry:
    reader: OutputReader
    stamp: str | None
    users: int = 1  # who has opened it
    dropped: bool = False
    of: Facts | None = None  # the output that it is a member of


class Readers:
    """Of any number of sessions of one store."""

    def __init__(self, store: OutputStore) -> None:
        self._store = store
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._members: OrderedDict[Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lease(
        self, session: SessionInfo, reference: str, facts: Facts | None = None, *, most_unpacked: int = MOST_UNPACKED,
        pages: "Pages | None" = None,
    ) -> Generator[OutputReader]:  # fmt: skip
        """The output under a handle or call id, or a member of it, open for as long as the block lasts.

        `facts` where they are new. A member is unpacked to at most so many bytes; `pages` gives the text of a PDF.
        """
        if MEMBER in reference and len(reference) > _LONGEST:
            raise BadMember(f"what is behind a handle has at most {_LONGEST:,} characters: HANDLE!#3 is the third.")
        base, member = (reference, None) if MEMBER not in reference else self._split(session, reference, facts)
        if facts is None and isinstance(parse(base, session=session.id), Foreign):
            facts = self._store.resolve(session, base)  # each time: another output may have the same call id since
            base = facts.handle
        if member is None:
            entry = self._take(session, base, facts)
        else:
            entry = self._take_member(session, base, member, most_unpacked, pages)
        try:
            yield entry.reader
        finally:
            with self._lock:
                entry.users -= 1
                self._tidy(entry)

    def close(self, session: SessionInfo | None = None) -> None:
        """Those of one session, or all."""
        with self._lock:
            for entries in (self._entries, self._members):
                for key in [key for key in entries if session is None or key[0] == session.id]:
                    self._drop(key, entries)

    def drop(self, session: SessionInfo, handle: str) -> None:
        """Close it, under whatever it was asked for; anyone who uses it at this moment continues."""
        with self._lock:
            for entries in (self._entries, self._members):
                for key, entry in list(entries.items()):
                    if key[0] == session.id and (entry.of or entry.reader.facts).handle == handle:
                        self._drop(key, entries)

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
        entry = _Entry(reader, reader.stamp or self._store.stamp(reader.facts))
        with self._lock:
            self._drop(key)
            self._entries[key] = entry
            while len(self._entries) > _OPEN:
                self._drop(next(iter(self._entries)))
        return entry

    def _split(self, session: SessionInfo, reference: str, facts: Facts | None) -> tuple[str, str | None]:
        """The output and what is asked for inside of it, if anything: a call id may have a `!` of its own."""
        base, _, member = reference.partition(MEMBER)
        if not isinstance(parse(base, session=session.id), Foreign):
            return base, member
        if facts is not None and facts.packed is None:
            return reference, None
        ends = [at for at, sign in enumerate(reference) if sign == MEMBER][:_MOST_SIGNS]
        for end in (None, *reversed(ends)):
            with contextlib.suppress(UnknownHandle):
                self._store.resolve(session, reference[:end])
                return (reference, None) if end is None else (reference[:end], reference[end + 1 :])
        return reference, None

    def _take_member(self, session: SessionInfo, base: str, member: str, most: int, pages: "Pages | None") -> _Entry:
        from holdall.store.members import open_member  # noqa: PLC0415 - few outputs are packed

        key = (session.id, f"{base}{MEMBER}{member}")
        with self._lock:
            known = self._members.get(key)
            if known is not None and known.of is not None and known.stamp == self._store.stamp(known.of):
                known.users += 1
                self._members.move_to_end(key)
                return known
        with self.lease(session, base) as packed:
            stamp = self._store.stamp(packed.facts)
            entry = _Entry(open_member(packed, member, most=most, pages=pages), stamp, of=packed.facts)
        with self._lock:
            self._drop(key, self._members)
            self._members[key] = entry
            while len(self._members) > 1 and (len(self._members) > _OPEN_MEMBERS or self._unpacked() > _UNPACKED_BYTES):
                unused = next((one for one, other in self._members.items() if not other.users), None)
                if unused is None:
                    break
                self._drop(unused, self._members)
            if len(self._members) > 1 and self._unpacked() > _UNPACKED_BYTES:  # by others, who are still at it
                entry.users = 0
                self._drop(key, self._members)
                raise WorkerFault(f"more than {size(_UNPACKED_BYTES)} are unpacked at this moment. Try again.")
        return entry

    def _unpacked(self) -> int:
        return sum(entry.reader.totals.bytes for entry in self._members.values())

    def _drop(self, key: Key, entries: OrderedDict[Key, _Entry] | None = None) -> None:
        entry = (self._entries if entries is None else entries).pop(key, None)
        if entry is not None:
            entry.dropped = True
            self._tidy(entry)

    def _tidy(self, entry: _Entry) -> None:
        if entry.dropped and entry.users == 0:
            entry.reader.close()
