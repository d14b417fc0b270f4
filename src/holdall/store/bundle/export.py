"""A session and every session below it, written as one bundle. `store.bundle.stream` has its form.

Every byte is compared with its checksum on the way: what is damaged is not exported as good. The same session gives
the same bytes each time. Nothing in the store is changed.
"""

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Literal, Self

from holdall.formats.kinds import SAMPLE, TAIL
from holdall.formats.registry import kind_of
from holdall.policy.measure import Measurer, is_packed, of_origin
from holdall.store import records
from holdall.store.bundle import stream as form
from holdall.store.bundle.redact import Redactor
from holdall.store.bundle.stream import BundleWriter, Entry, Kind
from holdall.store.protocol import Log, Note, OutputReader, OutputStore, Progress, SessionInfo
from holdall.store.records import ANSWERS, LOGS, TREE
from holdall.text.escape import foreign
from holdall.text.secrets import is_no_word
from holdall.values.bundles import MAX_SESSIONS, Bundle, BundledSession, Exported
from holdall.values.errors import OutputDamaged, OutputExpired, StoreFault, StoreGone, UnknownHandle, UsageError
from holdall.values.outputs import Facts, Measure
from holdall.values.record import record
from holdall.values.spans import BLOCK, BlockTable

# What of a session goes into a bundle, as it is at one moment, while others may continue writing in it.
#
# Logs are looked at before outputs, and a parent before the agents that it started: whatever a log names was there
# before, so everything that it names is in the bundle. Outputs never change; of a running one, what is there now.
# Nothing is locked, and nothing is read here but small files.


UNFINISHED = ("running", "queued")


@record(frozen=False)
class Stored:
    """One file of bytes, and the outputs that share it."""

    file: str
    length: int
    outputs: list[Facts] = field(default_factory=list[Facts])
    reader: OutputReader | None = None  # of a running one: held, because it goes where its end is found to be known

    @property
    def is_unfinished(self) -> bool:
        return self.outputs[0].state in UNFINISHED


@record(frozen=False)
class SessionSnapshot:
    session: SessionInfo
    parent: int
    logs: dict[Log, int]  # the length of their whole lines
    tree: bytes | None
    stored: list[Stored]
    expired: list[Facts]
    notes: Sequence[Note]

    def to_bundle(self) -> BundledSession:
        return BundledSession(
            id=self.session.id,
            name=self.session.name,
            created=self.session.created,
            parent=self.parent,
            outputs=sum(len(one.outputs) for one in self.stored),
            expired=len(self.expired),
            bytes=sum(one.length * len(one.outputs) for one in self.stored),
            stored_bytes=sum(one.length for one in self.stored),
            files=len(self.stored),
            transcript_bytes=self.logs.get("transcript", 0),
            events_bytes=self.logs.get("events", 0),
            tree_bytes=len(self.tree or b""),
            notes=len(self.notes),
            note_bytes=sum(note.length for note in self.notes),
            format=self.session.format,
            was=self.session.was,
        )


class Snapshot:
    """The session that is exported, and every session below it. Holds running outputs open until it is closed."""

    def __init__(self, store: OutputStore, session: SessionInfo) -> None:
        self.sessions: list[SessionSnapshot] = []
        self._held: list[OutputReader] = []
        try:
            self._take(store, session)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._held:
            self._held.pop().close()

    def bundle(self, *, redacted: bool) -> Bundle:
        masked = redacted or any("masks" in one.logs for one in self.sessions)
        return Bundle(tuple(one.to_bundle() for one in self.sessions), masked)

    def _take(self, store: OutputStore, session: SessionInfo) -> None:
        waiting, places = deque([(session, -1)]), dict[str, int]()
        while waiting:
            below: dict[str, list[SessionInfo]] = {}
            for one in sorted(store.sessions(), key=lambda one: (one.created, one.id)):
                below.setdefault(one.parent, []).append(one)
            while waiting:
                one, parent = waiting.popleft()
                if one.id in places:
                    continue
                if len(places) >= MAX_SESSIONS:
                    raise StoreFault(f"more than {MAX_SESSIONS:,} sessions are too many for one bundle.")
                places[one.id] = len(places)
                self.sessions.append(self._one(store, one, parent))
                waiting += [(child, places[one.id]) for child in below.get(one.id, ())]
            # Again, for those that a log names which was read after they were listed.
            new = [one for one in store.sessions() if one.parent in places and one.id not in places]
            waiting += [(one, places[one.parent]) for one in sorted(new, key=lambda one: (one.created, one.id))]

    def _one(self, store: OutputStore, session: SessionInfo, parent: int) -> SessionSnapshot:
        tree = store.tree(session)
        if tree is not None and len(tree) > form.MAX_IN_MEMORY:
            raise StoreFault(f"{TREE} has {len(tree):,} bytes, which is more than a bundle takes.")
        logs: dict[Log, int] = {}
        for log in _LOGS:
            if length := store.log_length(session, log):
                logs[log] = length
        outputs = store.outputs(session)
        for facts in outputs:
            if facts.state == "unreadable":  # not left out without a word
                raise StoreFault(facts.error)
        notes = [note for note in store.notes(session) if not records.is_answer(note.key)]  # nobody would believe them
        stored, expired = self._stored(store, outputs)
        return SessionSnapshot(session, parent, logs, tree, stored, expired, notes)

    def _stored(self, store: OutputStore, outputs: Sequence[Facts]) -> tuple[list[Stored], list[Facts]]:
        stored: dict[str, Stored] = {}
        expired: list[Facts] = []
        for listed in outputs:
            reader = store.open(listed) if listed.state in UNFINISHED else None
            facts = reader.facts if reader is not None else listed  # it may have ended since it was listed
            if facts.state == "expired":
                expired.append(records.expired(facts, facts.error, facts.ended or 0.0) if facts.file else facts)
            elif reader is not None and facts.state in UNFINISHED:
                self._held.append(reader)
                facts = replace(facts, measure=replace(facts.measure, kind=_kind_so_far(reader)))
                stored[facts.file] = Stored(facts.file, reader.totals.bytes, [facts], reader)
            else:
                stored.setdefault(facts.file, Stored(facts.file, facts.measure.bytes)).outputs.append(facts)
                if reader is not None:
                    reader.close()
        return list(stored.values()), expired


_LOGS: tuple[Log, ...] = ("transcript", "events", "masks")
_CHUNK = 16 * BLOCK
_CUT = "it was still being written when its session was exported; what had been written is in the bundle"


_NAMED = 5


def _kind_so_far(reader: OutputReader) -> str:
    """Its record does not say it yet."""
    length = reader.totals.bytes
    head, tail = reader.read(0, min(SAMPLE, length)), reader.read(max(0, length - TAIL), length)
    return kind_of(head, tail, whole=length <= SAMPLE, valid=False)


# What is packed in ways that we do not open: 7z, RAR, LZ4, LZMA, compress, cabinet, lzip, zlib.
_CLOSED = (
    b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x04\x22\x4d\x18", b"\x5d\0\0", b"\x1f\x9d", b"MSCF\0", b"LZIP",
    b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda",
)  # fmt: skip


def _packed(store: OutputStore, sessions: Iterable[SessionSnapshot]) -> list[tuple[str, Facts]]:
    """With the names of their sessions."""

    def is_closed(stored: Stored) -> bool:
        if stored.outputs[0].measure.kind != "binary" or not stored.length:
            return False
        if stored.reader is not None:
            return stored.reader.read(0, _LONGEST).startswith(_CLOSED)
        with contextlib.closing(store.open(stored.outputs[0])) as reader:
            return reader.read(0, _LONGEST).startswith(_CLOSED)

    return [
        (one.session.name, facts)
        for one in sessions for stored in one.stored for facts in stored.outputs
        if is_packed(facts.measure) or is_closed(stored)
    ]  # fmt: skip


_LONGEST = max(map(len, _CLOSED))


def _refuse_packed(packed: Sequence[tuple[str, Facts]]) -> None:
    if packed:
        shown = ", ".join(
            f"{facts.handle} ({facts.measure.kind}, in {foreign(name)})" for name, facts in packed[:_NAMED]
        )
        more = f" and {len(packed) - _NAMED:,} more" if len(packed) > _NAMED else ""
        raise UsageError(
            f"secrets in packed outputs cannot be masked: {shown}{more}. Remove them (bag.forget), or export them as "
            "they are with with_packed=True."
        )


class SessionChanged(StoreFault):
    """Something changed or disappeared during the export: try again."""


def export_session(
    store: OutputStore,
    session: SessionInfo,
    write: Callable[[bytes], object],
    *,
    redactor: Redactor | None = None,
    with_packed: bool = False,
    listed: Callable[[Bundle], None] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """`listed` is told what the bundle will hold before its first byte is written.

    What is packed cannot be masked: with a redactor it is refused, unless it may go as it is.
    """
    with Snapshot(store, session) as snapshot:
        packed = _packed(store, snapshot.sessions) if redactor is not None else []
        if not with_packed:
            _refuse_packed(packed)
        bundle = snapshot.bundle(redacted=redactor is not None)
        if listed is not None:
            listed(bundle)
        writer = BundleWriter(write)
        try:
            export = _Export(store, writer, redactor, progress, {facts.id for _, facts in packed})
            export.read_once(snapshot.sessions)
            bundle = bundle if redactor is None else redactor.contents(bundle)
            writer.begin(bundle)
            for place, one in enumerate(snapshot.sessions):
                export.session(place, one)
            written = writer.finish()
        finally:
            writer.stop()
    if redactor is None:
        return Exported(bundle, written)
    as_they_are = tuple(facts.handle for _, facts in packed)
    return Exported(bundle, written, dict(redactor.counts), tuple(redactor.places), as_they_are)


class _Export:
    def __init__(
        self,
        store: OutputStore,
        writer: BundleWriter,
        redactor: Redactor | None,
        progress: Progress | None,
        as_they_are: Collection[str],
    ) -> None:
        self._store = store
        self._writer = writer
        self._redactor = redactor
        self._progress = progress
        self._as_they_are = as_they_are  # ids of outputs
        self._done = 0
        self._share = 1  # of the work of a byte that one reading of it is
        self._place = 0
        self._format = records.VERSION

    def read_once(self, sessions: Sequence[SessionSnapshot]) -> None:
        """Before anything is written: what is a secret somewhere is masked everywhere. Half of the work."""
        redactor = self._redactor
        if redactor is None:
            return
        self._share = 2
        ours: set[str] = set()
        for one in sessions:
            ours.add(one.session.id)
            for stored in one.stored:
                with contextlib.ExitStack() as opened:
                    reader = stored.reader
                    if reader is None:
                        reader = opened.enter_context(contextlib.closing(self._open(one.session, stored.outputs[0])))
                    for _ in redactor.learn(self._read(reader, stored)):
                        pass
            for facts in (*one.expired, *(facts for stored in one.stored for facts in stored.outputs)):
                redactor.learn_facts(facts)
                ours |= {facts.handle, facts.file, facts.measure.sha256}
                if not is_no_word(facts.origin.tool.encode("utf-8", "replace")):  # else a tool was named by a secret
                    ours.add(facts.origin.tool)
            for note in one.notes:
                redactor.learn_json(self._store.recall(one.session, note.content, note.key) or b"")
            for log in ("transcript", "events"):
                for line in records.whole_lines(self._lines_of(one.session, log, one.logs.get(log, 0))):
                    redactor.learn_json(line)
            redactor.learn_json(one.tree or b"")
        redactor.learned(ours)

    def session(self, place: int, one: SessionSnapshot) -> None:
        self._place = place
        self._format = one.session.format
        if self._redactor is not None:
            self._redactor.begin()
        for stored in one.stored:
            self._stored(one.session, stored)
        for facts in one.expired:
            self._record(self._store.resolve(one.session, facts.handle), BlockTable())
        for note in one.notes:
            self._note(one.session, note)
        self._lines(one, "transcript")
        self._lines(one, "events")
        if one.tree is not None:
            tree = one.tree if self._redactor is None else self._redactor.json(one.tree, TREE)
            self._whole("tree", TREE, tree)
        self._masks(one)

    def _stored(self, session: SessionInfo, stored: Stored) -> None:
        """The bytes of a file, then the record of each output that has them."""
        first = stored.outputs[0]
        # With a mask in it what is packed could not be opened any more, and most of its secrets would be there still.
        redactor = None if any(facts.id in self._as_they_are for facts in stored.outputs) else self._redactor
        with contextlib.ExitStack() as opened:
            reader = stored.reader
            if reader is None:
                reader = opened.enter_context(contextlib.closing(self._open(session, first)))
            measuring = _Measuring(self._store) if stored.is_unfinished or redactor is not None else None
            chunks = self._read(reader, stored)
            if redactor is not None:
                chunks = redactor.stream(chunks, stored.file, first.handle)
            entry = Entry(self._place, "bytes", stored.file, stored.length)
            sha256 = self._writer.entry(entry, measuring.seen(chunks) if measuring else chunks)
            table = BlockTable() if stored.is_unfinished else reader.table
        measure, new_table = measuring.finish(sha256) if measuring else (first.measure, table)
        masked = redactor.masked(first.measure.sha256, sha256) if redactor is not None else 0
        changed = masked or stored.is_unfinished
        for facts in stored.outputs:
            if not changed and sha256 != facts.measure.sha256:
                raise OutputDamaged(facts.handle, "sha256 mismatch")
            self._record(_now(facts, measure, masked), new_table if changed else table)

    def _open(self, session: SessionInfo, facts: Facts) -> OutputReader:
        changed = f"output {facts.handle} was changed while it was exported."
        try:
            current = self._store.resolve(session, facts.handle)
            if current.state == "interrupted":  # found anew with each look where its record cannot be written
                current = replace(current, ended=facts.ended)
            if current != facts:
                raise SessionChanged(changed)
            return self._store.open(facts)
        except (OutputExpired, UnknownHandle, StoreGone):
            raise SessionChanged(changed) from None

    def _read(self, reader: OutputReader, stored: Stored) -> Iterator[bytes]:
        at = 0
        while at < stored.length:
            chunk = reader.read(at, min(at + _CHUNK, stored.length))
            if len(chunk) < min(_CHUNK, stored.length - at):
                detail = f"its file ends at byte {at + len(chunk):,} of {stored.length:,} (truncated)"
                raise OutputDamaged(stored.outputs[0].handle, detail)
            at += len(chunk)
            self._done += len(chunk)
            if self._progress is not None:
                self._progress(self._done // self._share)
            yield chunk

    def _record(self, facts: Facts, table: BlockTable) -> None:
        if facts.origin.process:  # of this machine: elsewhere the number is somebody else's
            facts = replace(facts, origin=replace(facts.origin, process=0, process_mark=""))
        if self._redactor is not None:
            facts = self._redactor.facts(facts)
        self._whole("record", facts.handle + records.SUFFIX, records.encode(facts, table, self._format))

    def _note(self, session: SessionInfo, note: Note) -> None:
        data = self._store.recall(session, note.content, note.key)
        if data is None:
            raise SessionChanged("a note was removed while its session was exported.")
        if len(data) != note.length:
            raise SessionChanged("a note was replaced while its session was exported.")
        name = records.note_name(note.content, note.key)
        if self._redactor is not None:
            name = self._redactor.renamed(name)
            data = records.resealed(data, partial(self._redactor.json, file=f"{ANSWERS}/{name}"), records.VERSION)
        self._whole("note", f"{ANSWERS}/{name}", data)

    def _lines(self, one: SessionSnapshot, log: Literal["transcript", "events"]) -> None:
        length, name = one.logs.get(log, 0), LOGS[log]
        if not length:
            return
        chunks = self._lines_of(one.session, log, length)
        if self._redactor is not None:
            chunks = self._redactor.lines(chunks, name, self._format)
        self._writer.entry(Entry(self._place, log, name, length), chunks)

    def _lines_of(self, session: SessionInfo, log: Log, length: int) -> Iterator[bytes]:
        at = 0
        while at < length:
            chunk = self._store.read_log(session, log, at, min(at + _CHUNK, length))
            if not chunk:
                raise SessionChanged("a log became shorter while its session was exported.")
            at += len(chunk)
            yield chunk

    def _masks(self, one: SessionSnapshot) -> None:
        """What was masked now, after what an earlier export had masked."""
        before = one.logs.get("masks", 0)
        new = self._redactor.list() if self._redactor is not None else b""
        if length := before + len(new):
            entry = Entry(self._place, "masks", LOGS["masks"], length)
            self._writer.entry(entry, itertools.chain(self._lines_of(one.session, "masks", before), [new]))

    def _whole(self, kind: Kind, name: str, data: bytes) -> None:
        if len(data) > form.MAX_IN_MEMORY:
            raise StoreFault(f"{name} has {len(data):,} bytes, which is more than a bundle takes.")
        self._writer.entry(Entry(self._place, kind, name, len(data)), [data] if data else [])


class _Measuring:
    """What the bytes that pass by measure."""

    def __init__(self, store: OutputStore) -> None:
        self._measurer = Measurer(store.tokenizer)

    def seen(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._measurer.feed(chunk)
            yield chunk

    def finish(self, sha256: str) -> tuple[Measure, BlockTable]:
        return self._measurer.finish(sha256)


def _now(facts: Facts, measure: Measure, masked: int) -> Facts:
    """The facts as they are in the bundle."""
    if masked:
        what = "a secret was" if masked == 1 else f"{masked:,} secrets were"
        notes = (*facts.measure.notes, f"{what} masked when it was exported")
        facts = replace(facts, measure=replace(measure, notes=notes))
    if facts.state in UNFINISHED:
        kept = facts.measure if masked else of_origin(measure, facts.origin)
        facts = replace(facts, measure=kept, state="interrupted", ended=None, error=_CUT)
    return facts
