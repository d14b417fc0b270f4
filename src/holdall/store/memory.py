"""The store that leaves nothing on disk: for tests, and for programs whose outputs go when they do.

It keeps the promises of `store.protocol` for as long as the store object lives: a crash takes everything, and other
processes see nothing. `close` gives nothing back, so that one store serves one session after another.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace

from holdall.policy.retention import Retention
from holdall.store import keeping
from holdall.store.draft import Draft, MemoryWriter
from holdall.store.ids import new_uuid
from holdall.store.ingest import ingest
from holdall.store.keeping import Quota
from holdall.store.live import RunningReader
from holdall.store.nameless import Blob, explained
from holdall.store.protocol import OutputReader, Progress, SessionInfo
from holdall.store.reader import FileReader
from holdall.store.remembered import name_of
from holdall.store.sessions import check_name
from holdall.store.shelf import Entry, Shelf, Shelves
from holdall.store.sources import storable
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import OutputExpired, SessionHeld, StoreFault, StoreGone, UnknownHandle, WrongUse
from holdall.values.outputs import Facts, Origin, State
from holdall.values.spans import BlockTable


class MemoryStore:
    """Safe to use from several threads at once.

    `beside` is a store whose sessions and outputs this one shares, each with options of its own.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer | None = None,
        retention: Retention | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] = time.time,
        beside: "MemoryStore | None" = None,
    ) -> None:
        self.tokenizer = tokenizer or Estimate()
        self.clock = clock
        self._retention = retention or Retention()
        self._quota = quota or Quota()
        self._shelves: Shelves = beside._shelves if beside is not None else Shelves()

    def close(self) -> None:
        """Nothing: whoever has this store may use it further. When nobody has it any more, its outputs go."""

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        check_name(name)
        with self._shelves.lock:
            found = self._shelves.named(name)
            if found is None:
                info = SessionInfo(new_uuid(), name, self.clock(), retention or self._retention, parent)
                self._shelves.all[info.id] = Shelf(info)
                return info
            if retention is not None:
                found.info = replace(found.info, retention=retention)
            return found.info

    def sessions(self) -> Sequence[SessionInfo]:
        """Newest first."""
        with self._shelves.lock:
            found = [shelf.info for shelf in self._shelves.all.values()]
        return sorted(found, key=lambda one: (-one.created, one.id))

    def end_session(self, session: SessionInfo) -> None:
        if session.retention.session:
            for facts in self.outputs(session):
                self.expire(session, facts, "kept for its session, which has ended")

    # Outputs: in

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        progress: Progress | None = None,
    ) -> Facts:
        counted = keeping.Counted(chunks)
        with explained("keeping an output", needed=counted.bytes):
            room = self._room(session)
            blob = Blob(new_uuid())
            taken = ingest(counted, blob.descriptor, self.tokenizer, progress=progress, room=room)
            blob.settle()
            facts = keeping.facts_of(blob.name, session.id, origin, taken, notes(), self.clock())
            with self._shelves.lock:
                shelf = self._shelves.of(session.id)
                entry = Entry(facts, taken.table)
                shelf.hold(entry, blob, facts)
                return shelf.publish(entry)

    def begin(self, session: SessionInfo, origin: Origin) -> MemoryWriter:
        with explained("starting an output"):
            draft = Draft(new_uuid(), self.tokenizer, self._room(session))
        facts = Facts(
            handle="",
            id=draft.blob.name,
            session=session.id,
            created=self.clock(),
            origin=replace(origin, arguments=storable(origin.arguments)),
            state="running",
            file=draft.blob.name,
        )
        with self._shelves.lock:
            shelf = self._shelves.of(session.id)
            entry = Entry(facts, draft=draft)

            def end(state: State, error: str, exit_code: int | None) -> Facts:
                with self._shelves.lock, explained("ending a running output"):
                    if draft.is_over:
                        raise WrongUse(f"output {entry.facts.handle} has ended already.")
                    return self._end(
                        shelf, entry, draft, replace(entry.facts, state=state, error=error, exit_code=exit_code)
                    )

            return draft.writer(shelf.publish(entry), end)

    # Outputs: out

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        with self._shelves.lock:
            shelf = self._shelves.of(session.id)
            found = shelf.named(reference)
            if found is None and reference:
                found = shelf.called(reference)
            if found is None:
                known = [one.facts.handle for one in shelf.in_order() if one.facts.state != "expired"]
                raise UnknownHandle(reference, session=session.name, known=known[::-1])
            return self._current(shelf, found)

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        with self._shelves.lock:
            shelf = self._shelves.of(session.id)
            return [self._current(shelf, entry) for entry in shelf.in_order()]

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        """None, ever: there are no records that somebody else could have written."""
        with self._shelves.lock:
            self._shelves.of(session.id)
        return {}

    def open(self, facts: Facts) -> OutputReader:
        with self._shelves.lock, explained("opening an output"):
            shelf = self._shelves.of(facts.session)
            entry = shelf.entries.get(facts.handle)
            if entry is None:
                raise StoreGone(f"output {facts.handle} is not in this store.")
            current = self._current(shelf, entry)
            if entry.blob is not None:
                return FileReader(entry.blob.open(), current, entry.table)
            if entry.draft is None:
                when = time.strftime("%Y-%m-%d", time.gmtime(current.ended or current.created))
                raise OutputExpired(current.handle, when, current.error)
            descriptor = entry.draft.open()
        return RunningReader(descriptor, current)  # not under the lock: it reads all that is there

    def stamp(self, facts: Facts) -> str | None:
        with self._shelves.lock:
            entry = self._shelves.of(facts.session).entries.get(facts.handle)
            return str(entry.version) if entry is not None else None

    # The log

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        with self._shelves.lock, explained("writing an event"):
            log = self._shelves.of(session.id).log
            # In one step: where there is no memory for all of it, nothing of it is there.
            log += b"\n" + lines if log and not log.endswith(b"\n") else lines

    def events_from(self, session: SessionInfo, at: int) -> tuple[bytes, int]:
        with self._shelves.lock:
            log = self._shelves.of(session.id).log
            end = max(at, log.rfind(b"\n") + 1)
            return bytes(log[at:end]), end

    # What an agent leaves

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        with self._shelves.lock, explained("writing the transcript"):
            self._shelves.of(session.id).transcript += lines

    def transcript(self, session: SessionInfo) -> bytes:
        with self._shelves.lock:
            return bytes(self._shelves.of(session.id).transcript)

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        with self._shelves.lock:
            self._shelves.of(session.id).tree = data

    def tree(self, session: SessionInfo) -> bytes | None:
        with self._shelves.lock:
            return self._shelves.of(session.id).tree

    @contextlib.contextmanager
    def lease(self, session: SessionInfo, holder: str) -> Generator[None]:
        with self._shelves.lock:
            shelf = self._shelves.of(session.id)
            if shelf.holder is not None:
                raise SessionHeld(shelf.holder)
            shelf.holder = holder
        try:
            yield
        finally:
            with self._shelves.lock:
                shelf.holder = None

    # Notes

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        with self._shelves.lock:
            return self._shelves.of(session.id).notes.get(name_of(content, key))

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes) -> None:
        with self._shelves.lock:
            self._shelves.of(session.id).notes[name_of(content, key)] = data

    # Upkeep

    def expire(self, session: SessionInfo, facts: Facts, rule: str) -> int:
        """Leave a tombstone in place of an output. The number of bytes that this freed."""
        with self._shelves.lock:
            shelf = self._shelves.of(session.id)
            entry = shelf.entries.get(facts.handle)
            if entry is None or entry.blob is None:
                return 0
            current, blob = entry.facts, entry.blob
            entry.table, entry.blob = BlockTable(), None
            origin = replace(current.origin, arguments=None)
            entry.change(replace(current, state="expired", ended=self.clock(), error=rule, file="", origin=origin))
            if any(one.blob is blob for one in shelf.entries.values()):
                return 0
            shelf.forget(current.measure.sha256)
            return current.measure.bytes

    def used_bytes(self, session: SessionInfo) -> int:
        """What the session's outputs take: identical ones once."""
        return sum({facts.file: facts.measure.bytes for facts in self.outputs(session) if facts.file}.values())

    # Inside

    def _current(self, shelf: Shelf, entry: Entry) -> Facts:
        """A running output whose writer is gone becomes an interrupted one, once, by whoever looks first."""
        if entry.draft is None or not entry.draft.is_over:
            return entry.facts
        why = "its writer ended before it did; what had been written is kept"
        with explained("ending a running output"):
            return self._end(shelf, entry, entry.draft, replace(entry.facts, state="interrupted", error=why))

    def _end(self, shelf: Shelf, entry: Entry, draft: Draft, facts: Facts) -> Facts:
        measure, entry.table, blob = draft.settle()
        entry.draft = None
        return shelf.hold(entry, blob, replace(facts, measure=measure, ended=self.clock()))

    def _room(self, session: SessionInfo) -> Callable[[int], None] | None:
        """None where there is no quota: nothing is counted then."""
        with self._shelves.lock:
            self._shelves.of(session.id)  # a session that is not there is told before anything is taken in
            if self._quota == Quota():
                return None
            in_all = sum(map(self.used_bytes, self.sessions())) if self._quota.store_bytes is not None else 0
            return keeping.room_for(self._quota, self.used_bytes(session), in_all)
