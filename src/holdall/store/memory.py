"""A store that leaves nothing on disk: for tests, and for programs that keep outputs only while they run."""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, cast
from weakref import WeakValueDictionary

from holdall.policy.measure import Measurer
from holdall.policy.retention import Retention
from holdall.store.directory import placement
from holdall.store.directory.live import RunningReader
from holdall.store.directory.upkeep import bad_lines
from holdall.store.ids import new_handle, new_uuid
from holdall.store.ingest import ingest, write_all
from holdall.store.protocol import (
    Log,
    LogLines,
    Note,
    OutputReader,
    Progress,
    Quota,
    Removal,
    SavedSummary,
    SessionInfo,
    Stamp,
    Stats,
    Sweep,
    Verdict,
)
from holdall.store.reader import FileReader
from holdall.store.records import (
    PREFIX,
    TERMINAL,
    check_name,
    erased,
    file_for,
    lines_in,
    note_name,
    sealed,
    tombstone,
    tree_without,
)
from holdall.store.totals import room_for, stats_of, taken, used_bytes_of
from holdall.text.numbers import size
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import (
    REMOVED,
    AmbiguousCallId,
    OutputDamaged,
    OutputExpired,
    OutputInUse,
    SessionExists,
    SessionLocked,
    StoreFault,
    StoreFull,
    StoreGone,
    UnknownHandle,
    UsageError,
)
from holdall.values.handles import Foreign, Long, Short, parse
from holdall.values.outputs import Facts, Measure, Origin, State
from holdall.values.record import record
from holdall.values.spans import BLOCK, BlockTable

# Files without a name: in memory where the system has such files, else temporary ones that nothing leads to.
#
# What searches an output is given a descriptor, so its bytes must lie behind one even where nothing is on disk. They go
# with the last descriptor. This module knows no outputs: it neither measures nor checks what it holds.


SMALL = 1024 * 1024  # a program may have about a thousand descriptors: only what is larger than this holds one
_TOO_MANY = (
    f" Each output of more than {size(SMALL)} holds one: raise the limit (`ulimit -n`), or keep outputs in a folder."
)


class Blob:
    """Some bytes: first a file to write to, then, once it is settled, bytes that nobody can change any more."""

    def __init__(self, name: str = "") -> None:
        self.name = name  # as it would be on disk
        self._data: bytes | None = None
        self._descriptor = create()
        # The bytes are freed with the blob, also after an error.
        self._release = weakref.finalize(self, os.close, self._descriptor)

    @property
    def descriptor(self) -> int:
        """To write to, and until it is settled."""
        return self._descriptor

    def settle(self) -> None:
        length = os.fstat(self._descriptor).st_size
        if length > SMALL:
            seal(self._descriptor)
            return
        self._data = os.pread(self._descriptor, length, 0)
        self._release()

    def open(self) -> int:
        """A new descriptor to read from. It continues after the blob is gone."""
        if self._data is None:
            return reopened(self._descriptor)
        copy = create()
        try:
            write_all(copy, self._data)
            seal(copy)
            return reopened(copy)
        finally:
            os.close(copy)


def create() -> int:
    """A new empty file, open for reading and writing."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("holdall", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile(prefix="holdall-", buffering=0) as file:
        return os.dup(file.fileno())


def seal(descriptor: int) -> None:
    """From now on nobody changes the file: not a program that is given it for reading and opens it again, either."""
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    with contextlib.suppress(OSError):  # a temporary file has no seals; what is read is checked in any case
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def reopened(descriptor: int) -> int:
    """Another descriptor of the same file that can only read, with a place in it of its own."""
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # not on Linux
        return os.dup(descriptor)


@contextlib.contextmanager
def explained(doing: str, *, needed: Callable[[], int] | None = None) -> Generator[None]:
    """Turn what the system refuses into the StoreFault that says what to do about it.

    `needed` tells how many bytes were to be kept, all or nothing.
    """
    try:
        yield
    except (OSError, MemoryError) as problem:
        number = problem.errno if isinstance(problem, OSError) else errno.ENOMEM
        if number in (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            asked = f" of {size(needed())} or more. Nothing of it is kept" if needed else ""
            raise StoreFull(f"no memory left while {doing}{asked}. Keep outputs in a folder instead.") from problem
        reason = os.strerror(number) if number else str(problem)
        hint = _TOO_MANY if number == errno.EMFILE else ""
        raise StoreFault(f"{reason} while {doing} in memory.{hint}") from problem


# Outputs in memory that are still being written.
#
# The store holds the draft, the caller holds the writer. An output runs while its writer is referenced; without one, it
# is interrupted. No draft outlives the program.


class Ending(Protocol):
    """How the store ends a running output."""

    def __call__(
        self, state: State, error: str, exit_code: int | None, notes: Sequence[str], surrogates: str
    ) -> Facts: ...


class MemoryWatch:
    """Told by the draft that it watches. Without one (the output has ended) there is nothing to be told of."""

    def __init__(self, draft: "Draft | None") -> None:
        self._draft = draft
        self._lock = threading.Lock()
        self._told = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        if draft is not None:
            draft.watches.add(self)

    def notify(self) -> None:
        """From any thread."""
        with self._lock:
            self._told = True
            if self._waiting is not None:
                loop, future = self._waiting
                with contextlib.suppress(RuntimeError):  # a loop that is closed waits for nothing
                    loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

    async def changed(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._told:
                self._told = False
                return
            self._waiting = (loop, future)
        try:
            await future
        finally:
            with self._lock:
                self._waiting, self._told = None, False

    def close(self) -> None:
        if self._draft is not None:
            self._draft.watches.discard(self)


class Draft:
    """What was written so far. One thread writes, any number may look."""

    def __init__(self, file: str, tokenizer: Tokenizer, room: Callable[[int], None] | None) -> None:
        self.blob = Blob(file)
        self._measurer = Measurer(tokenizer)
        self._digest = hashlib.sha256()
        self._room = room
        self._lock = threading.Lock()
        self._is_over = False
        self.watches: set[MemoryWatch] = set()
        self._writer: weakref.ref[MemoryWriter] | None = None

    def writer(self, facts: Facts, end: Ending) -> "MemoryWriter":
        writer = MemoryWriter(self, facts, end)
        self._writer = weakref.ref(writer, lambda _: self._tell())
        return writer

    @property
    def is_over(self) -> bool:
        """Whether nobody can write to it any more."""
        return self._is_over or self._writer is None or self._writer() is None

    def write(self, chunk: bytes) -> None:
        with self._lock, explained("writing a running output"):
            if self._is_over:
                raise UsageError("this output has ended; nothing more can be written to it.")
            if self._room is not None:
                self._room(self._measurer.taken + len(chunk))
            view = memoryview(chunk)
            while view:
                taken = view[: os.write(self.blob.descriptor, view)]
                # Measured as it is taken: the part of a chunk for which there was memory is part of the output.
                self._digest.update(taken)
                self._measurer.feed(taken)
                view = view[len(taken) :]
        self._tell()

    def give_up(self) -> None:
        with self._lock:
            self._is_over = True
        self._tell()

    def _tell(self) -> None:
        for watch in tuple(self.watches):
            watch.notify()

    def open(self) -> int:
        """A descriptor to read from: what was written so far, and what will be."""
        return reopened(self.blob.descriptor)

    def settle(self) -> tuple[Measure, BlockTable, Blob]:
        """All that was written, measured and final. Asked once, by the store."""
        with self._lock:
            self._is_over = True
            blob = self.blob
            blob.settle()
            measure, table = self._measurer.finish(self._digest.hexdigest())
            del self.blob  # the bytes are the store's: anyone who keeps the writer does not keep them too
        self._tell()
        return measure, table, blob


class MemoryWriter:
    """Appends to a running output. Made by the store, which has its facts already."""

    def __init__(self, draft: Draft, facts: Facts, end: Ending) -> None:
        self._draft = draft
        self._facts = facts
        self._end = end

    @property
    def handle(self) -> str:
        return self._facts.handle

    @property
    def facts(self) -> Facts:
        return self._facts

    def write(self, chunk: bytes) -> None:
        self._draft.write(chunk)

    def finish(
        self,
        state: State = "ready",
        *,
        error: str = "",
        exit_code: int | None = None,
        notes: Sequence[str] = (),
        surrogates: str = "",
    ) -> Facts:
        self._facts = self._end(state, error, exit_code, notes, surrogates)
        return self._facts

    def close(self) -> None:
        """Give up. Without `finish`, the output then counts as interrupted."""
        self._draft.give_up()


# What a memory store holds, as plain data: sessions, their outputs, and the one copy that identical outputs share.
#
# Anyone who looks at it or changes it holds the lock of the shelves. Nothing here reads a clock or ends an output.


@record(frozen=False)
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


@record(frozen=False)
class MemorySession:
    """One session."""

    info: SessionInfo
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])  # by handle
    logs: dict[Log, bytearray] = field(
        default_factory=lambda: {"events": bytearray(), "transcript": bytearray(), "masks": bytearray()}
    )
    tree: bytes | None = None
    holder: str | None = None  # of the lease
    notes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    # By sha256. It goes with the last output that holds it.
    _blobs: WeakValueDictionary[str, Blob] = field(default_factory=WeakValueDictionary[str, Blob])

    def in_order(self) -> list[Entry]:
        """Oldest first."""
        return sorted(self.entries.values(), key=lambda one: (one.facts.created, one.facts.handle))

    def stamp(self) -> str:
        """Changes with every output and event."""
        versions = sum(entry.version for entry in self.entries.values())
        return f"{len(self.entries)}-{versions}-{len(self.logs['events'])}"

    def forget(self, beginning: str, end: str) -> None:
        """The notes about a content that no output has any more, or about one output."""
        for name in [name for name in self.notes if name.startswith(beginning) and name.endswith(end)]:
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


class MemorySessions:
    """All sessions."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.all: dict[str, MemorySession] = {}  # by the id of the session
        self.summaries: dict[str, SavedSummary] = {}

    def of(self, session_id: str) -> MemorySession:
        if session_id not in self.all:
            raise StoreGone(f"the session {session_id} is not in this store: what is in memory goes with its store.")
        return self.all[session_id]

    def named(self, name: str) -> MemorySession | None:
        """By name, or by the name that its folder would have."""
        by_id = self.all.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
        return by_id or next((one for one in self.all.values() if one.info.name == name), None)


# Sessions from elsewhere, put together before anybody sees them.


class StagedMemorySession:
    """One session on its way in."""

    def __init__(self, held_session: MemorySession) -> None:
        self._session_data = held_session
        self._blobs: dict[str, Blob] = {}

    def write_bytes(self, file: str, chunks: Iterable[bytes], length: int) -> None:  # noqa: ARG002 - nothing to plan
        blob = Blob(file)
        for chunk in chunks:
            write_all(blob.descriptor, chunk)
        blob.settle()
        self._blobs[file] = blob

    def write_record(self, facts: Facts, table: BlockTable) -> None:
        entry = self._session_data.entries[facts.handle] = Entry(facts, table)
        if facts.state != "expired":
            self._session_data.hold(entry, self._blobs[facts.file], facts)

    def write_note(self, content: str, key: str, data: bytes) -> None:
        self._session_data.notes[note_name(content, key)] = data

    def write_log(self, log: Log, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self._session_data.logs[log] += chunk

    def write_tree(self, data: bytes) -> None:
        self._session_data.tree = data

    def finish(self) -> None:
        pass

    def close(self) -> None:
        self._blobs.clear()


class MemoryStaging:
    def __init__(self, held_sessions: MemorySessions) -> None:
        self._sessions_data = held_sessions
        self._staged: dict[str, MemorySession] = {}

    def session(self, info: SessionInfo) -> StagedMemorySession:
        self._staged[info.id] = MemorySession(info)
        return StagedMemorySession(self._staged[info.id])

    def publish(self, sessions: Sequence[SessionInfo]) -> None:
        with self._sessions_data.lock:
            for info in sessions:
                if self._sessions_data.named(info.name) is not None:
                    raise SessionExists(taken(info.name))
            self._sessions_data.all |= {info.id: self._staged[info.id] for info in sessions}


# It keeps the promises of `store.protocol` for as long as the store object lives: a crash takes everything, and other
# processes see nothing. `close` gives nothing back, so that one store serves one session after another.


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
        self._sessions_data: MemorySessions = beside._sessions_data if beside is not None else MemorySessions()

    @property
    def home(self) -> str:
        return "memory"

    def close(self) -> None:
        """Does nothing: the store stays usable, and its outputs are freed with it."""

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        check_name(name)
        with self._sessions_data.lock:
            found = self._sessions_data.named(name)
            if found is None:
                info = SessionInfo(new_uuid(), name, self.clock(), retention or self._retention, parent)
                self._sessions_data.all[info.id] = MemorySession(info)
                return info
            if retention is not None:
                found.info = replace(found.info, retention=retention)
            return found.info

    def find_session(self, name: str) -> SessionInfo | None:
        check_name(name)
        with self._sessions_data.lock:
            found = self._sessions_data.named(name)
            return found.info if found is not None else None

    def unreadable_sessions(self) -> Mapping[str, StoreFault]:
        return {}

    def sessions(self) -> Sequence[SessionInfo]:
        """Newest first."""
        with self._sessions_data.lock:
            found = [held_session.info for held_session in self._sessions_data.all.values()]
        return sorted(found, key=lambda one: (-one.created, one.id))

    def end_session(self, session: SessionInfo) -> None:
        if session.retention.session:
            self.expire(session, self.outputs(session), "kept for its session, which has ended")

    def leave_session(self, session: SessionInfo) -> None:
        """Nothing is held open for a session."""

    # Outputs: in

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        surrogates: Callable[[], str] = str,
        tokenizer: Tokenizer | None = None,
        progress: Progress | None = None,
    ) -> Facts:
        counted = placement.Counted(chunks)
        with explained("keeping an output", needed=counted.bytes):
            room = self._room(session)
            blob = Blob()
            taken = ingest(counted, blob.descriptor, tokenizer or self.tokenizer, progress=progress, room=room)
            blob.settle()
            facts = placement.facts_of(new_uuid(), session.id, origin, taken, notes(), surrogates(), self.clock())
            blob.name = file_for(facts)
            with self._sessions_data.lock:
                held_session = self._sessions_data.of(session.id)
                entry = Entry(facts, taken.table)
                held_session.hold(entry, blob, facts)
                return held_session.publish(entry)

    def begin(self, session: SessionInfo, origin: Origin, *, tokenizer: Tokenizer | None = None) -> MemoryWriter:
        id = new_uuid()
        file = f"{TERMINAL}/{id}.log" if origin.terminal else f"{id}.txt"
        with explained("starting an output"):
            draft = Draft(file, tokenizer or self.tokenizer, self._room(session))
        facts = placement.running_facts(id, session.id, origin, file, self.clock())
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            entry = Entry(facts, draft=draft)

            def end(state: State, error: str, exit_code: int | None, notes: Sequence[str], surrogates: str) -> Facts:
                with self._sessions_data.lock, explained("ending a running output"):
                    if draft.is_over:
                        raise UsageError(f"output {entry.facts.handle} has ended already.")
                    facts = replace(entry.facts, state=state, error=error, exit_code=exit_code)
                    return self._end(held_session, entry, draft, facts, notes, surrogates)

            return draft.writer(held_session.publish(entry), end)

    # Outputs: out

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            found = held_session.named(reference)
            if found is None and reference:
                found = held_session.called(reference)
            if found is None:
                known = [one.facts.handle for one in held_session.in_order() if one.facts.state != "expired"]
                raise UnknownHandle(reference, session=session.name, known=known[::-1])
            return self._current(held_session, found)

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            return [self._current(held_session, entry) for entry in held_session.in_order()]

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        """None, ever: there are no records that somebody else could have written."""
        with self._sessions_data.lock:
            self._sessions_data.of(session.id)
        return {}

    def open(self, facts: Facts) -> OutputReader:
        with self._sessions_data.lock, explained("opening an output"):
            entry = self._readable(facts)
            if entry.blob is not None:
                return FileReader(entry.blob.open(), entry.facts, entry.table)
            current = entry.facts
            descriptor = cast("Draft", entry.draft).open()
        return RunningReader(descriptor, current)  # not under the lock: it reads everything

    def open_named(self, session: SessionInfo, reference: str) -> OutputReader:
        return self.open(self.resolve(session, reference))

    def _readable(self, facts: Facts) -> Entry:
        """As it is now. Raises where there is nothing to read."""
        held_session = self._sessions_data.of(facts.session)
        entry = held_session.entries.get(facts.handle)
        if entry is None:
            raise StoreGone(f"output {facts.handle} is not in this store.")
        current = self._current(held_session, entry)
        if entry.blob is None and entry.draft is None:
            when = time.strftime("%Y-%m-%d", time.gmtime(current.ended or current.created))
            raise OutputExpired(current.handle, when, current.error)
        return entry

    def stamp(self, facts: Facts) -> str | None:
        with self._sessions_data.lock:
            entry = self._sessions_data.of(facts.session).entries.get(facts.handle)
            return str(entry.version) if entry is not None else None

    def watch(self, facts: Facts) -> MemoryWatch:
        with self._sessions_data.lock:
            return MemoryWatch(self._readable(facts).draft)

    # The log

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        with self._sessions_data.lock, explained("writing an event"):
            held_session = self._sessions_data.of(session.id)
            log, lines = held_session.logs["events"], sealed(lines, held_session.info.format)
            # In one step: where there is no memory for all of it, nothing of it is there.
            log += b"\n" + lines if log and not log.endswith(b"\n") else lines

    def log_length(self, session: SessionInfo, log: Log) -> int:
        with self._sessions_data.lock:
            return self._sessions_data.of(session.id).logs[log].rfind(b"\n") + 1

    def read_log(self, session: SessionInfo, log: Log, start: int, end: int) -> bytes:
        with self._sessions_data.lock:
            return bytes(self._sessions_data.of(session.id).logs[log][start:end])

    def events_from(self, session: SessionInfo, at: int) -> LogLines:
        return self._lines(session, "events", at)

    def _lines(self, session: SessionInfo, name: Log, at: int) -> LogLines:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            log = bytes(held_session.logs[name])
        return lines_in(log[at:], at, held_session.info.format, lambda: log.count(b"\n", 0, at))

    # What an agent leaves

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        with self._sessions_data.lock, explained("writing the transcript"):
            held_session = self._sessions_data.of(session.id)
            held_session.logs["transcript"] += sealed(lines, held_session.info.format)

    def transcript(self, session: SessionInfo) -> LogLines:
        return self._lines(session, "transcript", 0)

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        with self._sessions_data.lock:
            self._sessions_data.of(session.id).tree = data

    def tree(self, session: SessionInfo) -> bytes | None:
        with self._sessions_data.lock:
            return self._sessions_data.of(session.id).tree

    @contextlib.contextmanager
    def lease(self, session: SessionInfo, holder: str) -> Generator[None]:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            if held_session.holder is not None:
                raise SessionLocked(held_session.holder)
            held_session.holder = holder
        try:
            yield
        finally:
            with self._sessions_data.lock:
                held_session.holder = None

    def is_leased(self, session: str) -> bool:
        with self._sessions_data.lock:
            return session in self._sessions_data.all and self._sessions_data.all[session].holder is not None

    # Notes

    def notes(self, session: SessionInfo) -> Sequence[Note]:
        with self._sessions_data.lock:
            notes = self._sessions_data.of(session.id).notes
            named = [(*name.partition("-"), len(data)) for name, data in sorted(notes.items())]
            return [Note(content, key, length) for content, _, key, length in named]

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        with self._sessions_data.lock:
            return self._sessions_data.of(session.id).notes.get(note_name(content, key))

    def remember(
        self,
        session: SessionInfo,
        content: str,
        key: str,
        data: bytes,
        *,
        durable: bool = True,  # noqa: ARG002
    ) -> None:
        with self._sessions_data.lock:
            self._sessions_data.of(session.id).notes[note_name(content, key)] = data

    # Upkeep

    def expire(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        return sum(self._expire(session, facts, rule) for facts in outputs)

    def _expire(self, session: SessionInfo, facts: Facts, rule: str) -> int:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            entry = held_session.entries.get(facts.handle)
            if entry is None or entry.blob is None:
                return 0
            current, blob = entry.facts, entry.blob
            entry.table, entry.blob = BlockTable(), None
            origin = replace(current.origin, arguments=None)
            measure = replace(current.measure, surrogates="")
            gone = replace(current, state="expired", ended=self.clock(), error=rule, file="", measure=measure)
            entry.change(replace(gone, origin=origin))
            held_session.forget("", f"-{current.id.replace('-', '')}")
            if any(one.blob is blob for one in held_session.entries.values()):
                return 0
            held_session.forget(f"{current.measure.sha256}-", "")
            return current.measure.bytes

    def remove(self, session: SessionInfo, outputs: Sequence[Facts]) -> Removal:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            handles = {facts.handle for facts in outputs}
            removed = self._remove(
                held_session, [one for handle, one in held_session.entries.items() if handle in handles]
            )
            log = held_session.logs["events"]
            for start, line in erased(bytes(log), handles, held_session.info.format):
                log[start : start + len(line)] = line
            if held_session.tree is not None:
                with contextlib.suppress(ValueError, RecursionError):
                    held_session.tree = tree_without(held_session.tree, handles)
            return removed

    def remove_session(self, session: SessionInfo) -> Removal:
        with self._sessions_data.lock:
            held_session = self._sessions_data.of(session.id)
            removed = self._remove(held_session, held_session.in_order())
            for log in held_session.logs.values():
                log.clear()
            held_session.notes.clear()
            held_session.tree = None
            self.forget_summaries([session.id])
            return removed

    def _remove(self, held_session: MemorySession, going: Sequence[Entry]) -> Removal:
        for entry in going:
            if self._current(held_session, entry).state == "running":
                raise OutputInUse(entry.facts.handle)
        files = {entry.facts.handle: entry.facts.file for entry in going}
        freed = sum(self._expire(held_session.info, entry.facts, REMOVED) for entry in going)
        for entry in going:
            entry.change(tombstone(entry.facts, self.clock()))
        holders = {
            handle: tuple(one.facts.handle for one in held_session.in_order() if file and one.facts.file == file)
            for handle, file in files.items()
        }
        stones = tuple(entry.facts for entry in going)
        return Removal(stones, freed, {handle: found for handle, found in holders.items() if found})

    def sweep_due(self) -> bool:
        """Never: a store in memory is swept on request only."""
        return False

    def sweep(self, *, dry_run: bool = False) -> Sweep:
        return sweep(self, dry_run=dry_run)

    def verify(
        self, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
    ) -> Iterator[Verdict]:
        return verify(self, sessions, progress=progress)

    def stats(self, sessions: Sequence[SessionInfo] | None = None) -> Stats:
        return stats_of(self, sessions)

    def used_bytes(self, session: SessionInfo | None = None) -> int:
        return used_bytes_of(self, session)

    def free_bytes(self) -> int | None:
        return None

    @contextlib.contextmanager
    def staging(self) -> Generator["MemoryStaging"]:
        with explained("importing a bundle"):
            yield MemoryStaging(self._sessions_data)

    # All sessions at a glance

    def session_stamps(self, sessions: Iterable[str] | None = None) -> Mapping[str, Stamp]:
        with self._sessions_data.lock:
            chosen = list(self._sessions_data.all) if sessions is None else sessions
            return {
                id: Stamp(self._sessions_data.all[id].stamp(), True) for id in chosen if id in self._sessions_data.all
            }

    def summaries(self) -> Sequence[SavedSummary]:
        with self._sessions_data.lock:
            return list(self._sessions_data.summaries.values())

    def save_summaries(self, summaries: Sequence[SavedSummary]) -> None:
        with self._sessions_data.lock:
            self._sessions_data.summaries |= {one.session: one for one in summaries}

    def forget_summaries(self, sessions: Sequence[str]) -> None:
        with self._sessions_data.lock:
            for id in sessions:
                self._sessions_data.summaries.pop(id, None)

    # Inside

    def _current(self, held_session: MemorySession, entry: Entry) -> Facts:
        """A running output whose writer is gone becomes interrupted when it is next read."""
        if entry.draft is None or not entry.draft.is_over:
            return entry.facts
        why = "its writer ended before it did; what had been written is kept"
        with explained("ending a running output"):
            return self._end(held_session, entry, entry.draft, replace(entry.facts, state="interrupted", error=why))

    def _end(
        self,
        held_session: MemorySession,
        entry: Entry,
        draft: Draft,
        facts: Facts,
        notes: Sequence[str] = (),
        surrogates: str = "",
    ) -> Facts:
        measure, entry.table, blob = draft.settle()
        measure = replace(measure, notes=(*measure.notes, *notes), surrogates=surrogates)
        entry.draft = None
        return held_session.hold(entry, blob, replace(facts, measure=measure, ended=self.clock()))

    def _room(self, session: SessionInfo) -> Callable[[int], None] | None:
        """None if there is no quota: nothing is counted then."""
        with self._sessions_data.lock:
            self._sessions_data.of(session.id)  # a session that is not there is told before anything is taken in
            if self._quota == Quota():
                return None
            in_all = self.used_bytes() if self._quota.store_bytes is not None else 0
            return room_for(self._quota, self.used_bytes(session), in_all)


# The same care as `upkeep` takes, of a store in memory: expiry, and proof of every byte.
#
# There is no left-over to look for: what nobody holds is gone. Nothing here runs by itself.


_READ = 16 * BLOCK


def sweep(store: MemoryStore, *, dry_run: bool = False) -> Sweep:
    """Carry out retention."""
    now = store.clock()
    expired: list[tuple[str, Facts]] = []
    freed = 0
    for session in store.sessions():
        outputs = store.outputs(session)
        ended = [facts for facts in outputs if facts.state not in ("expired", "running")]
        over = [facts for facts in ended if session.retention.expires_at(facts.created) <= now]
        expired += [(session.name, facts) for facts in over]
        if dry_run:
            staying = {facts.file for facts in outputs if facts not in over}
            freed += sum({facts.file: facts.measure.bytes for facts in over if facts.file not in staying}.values())
        else:
            freed += store.expire(session, over, f"kept for {session.retention}")
    return Sweep(tuple(expired), (), freed, dry_run)


def verify(
    store: MemoryStore, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
) -> Iterator[Verdict]:
    """Read every byte again and compare every hash."""
    done = 0
    for session in store.sessions() if sessions is None else sessions:
        for facts in store.outputs(session):
            if facts.state in ("expired", "running"):
                continue
            try:
                _prove(store, facts, progress, done)
            except OutputExpired:  # since it was listed
                continue
            except StoreFault as fault:
                yield Verdict(session.name, facts.handle, facts.measure.bytes, str(fault))
            else:
                yield Verdict(session.name, facts.handle, facts.measure.bytes)
            done += facts.measure.bytes
        yield from bad_lines(store, session)


def _prove(store: MemoryStore, facts: Facts, progress: Progress | None, done: int) -> None:
    """Raises where one byte is not as it came. `done` bytes of other outputs were read before."""
    reader = store.open(facts)
    digest = hashlib.sha256()
    try:
        for start in range(0, facts.measure.bytes, _READ):
            part = reader.read(start, start + _READ)
            digest.update(part)
            done += len(part)
            if progress is not None:
                progress(done)
    finally:
        reader.close()
    if digest.hexdigest() != facts.measure.sha256:
        raise OutputDamaged(facts.handle, "sha256 mismatch")
