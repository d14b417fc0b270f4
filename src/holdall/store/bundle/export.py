"""A session and every session below it, written as one bundle. See `bundle_format` for its form.

Every byte is compared with its checksum on the way: what is damaged is not exported as good. The same session gives
the same bytes each time. Nothing in the store is changed.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from holdall.policy.measure import Measurer, checksum
from holdall.store.bundle import stream as form
from holdall.store.bundle.redact import Redactor
from holdall.store.bundle.stream import MASKS, BundleWriter, Entry, Kind
from holdall.store.directory import disk
from holdall.store.directory import folder as record
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.session_files import FOLDER as ANSWERS
from holdall.store.directory.session_files import NAME as EVENTS
from holdall.store.directory.session_files import TRANSCRIPT, TREE
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import Progress, SessionInfo
from holdall.values.bundles import MOST_SESSIONS, Bundle, BundledSession, Exported
from holdall.values.errors import OutputDamaged, StoreFault, StoreGone
from holdall.values.outputs import Facts, Measure
from holdall.values.spans import BLOCK, BlockTable

# What of a session goes into a bundle, as it is at one moment, while others may go on writing in it.
#
# Logs are looked at before outputs, and a parent before the agents that it started: whatever a log names was there
# before, so everything that it names is in the bundle. Outputs never change; of a running one, what is there now.
# Nothing is locked, and nothing is read here but small files.


UNFINISHED = ("running", "queued")
_BACK = 64 * 1024


@dataclass(slots=True)
class Stored:
    """One file of bytes, and the outputs that share it."""

    file: str
    length: int
    outputs: list[Facts] = field(default_factory=list[Facts])
    descriptor: int = -1  # of a running one: held, because its file goes where its end is found to be known already

    @property
    def is_unfinished(self) -> bool:
        return self.outputs[0].state in UNFINISHED


@dataclass(slots=True)
class SessionSnapshot:
    session: SessionInfo
    folder: SessionFolder
    parent: int
    logs: dict[str, int]  # by name: the length of their whole lines
    tree: bytes | None
    stored: list[Stored]
    expired: list[Facts]
    notes: list[tuple[str, int]]  # name and length

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
            transcript_bytes=self.logs.get(TRANSCRIPT, 0),
            events_bytes=self.logs.get(EVENTS, 0),
            tree_bytes=len(self.tree or b""),
            notes=len(self.notes),
            note_bytes=sum(length for _, length in self.notes),
        )


class Snapshot:
    """The session that is exported, and every session below it. Holds running outputs open until it is closed."""

    def __init__(self, store: DirectoryStore, session: SessionInfo) -> None:
        self.sessions: list[SessionSnapshot] = []
        self._held: list[int] = []
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
            os.close(self._held.pop())

    def bundle(self, *, redacted: bool) -> Bundle:
        masked = redacted or any(MASKS in one.logs for one in self.sessions)
        return Bundle(tuple(one.to_bundle() for one in self.sessions), masked)

    def _take(self, store: DirectoryStore, session: SessionInfo) -> None:
        waiting = [(session, -1)]
        while waiting:
            one, parent = waiting.pop(0)
            place = len(self.sessions)
            if place >= MOST_SESSIONS:
                raise StoreFault(f"more than {MOST_SESSIONS:,} sessions are too many for one bundle.")
            self.sessions.append(self._one(store, one, parent))
            # Only now: whoever is named in the log that was just looked at is there.
            known = {taken.session.id for taken in self.sessions} | {other.id for other, _ in waiting}
            below = [child for child in store.sessions() if child.parent == one.id and child.id not in known]
            waiting += [(child, place) for child in sorted(below, key=lambda child: (child.created, child.id))]

    def _one(self, store: DirectoryStore, session: SessionInfo, parent: int) -> SessionSnapshot:
        logs, tree = _logs(store, session)
        folder, outputs, faults = store.survey(session)
        for fault in faults.values():  # what cannot be read cannot be exported, and is not left out in silence
            raise fault
        notes = list(_notes(folder))
        stored, expired = self._stored(folder, outputs)
        return SessionSnapshot(session, folder, parent, logs, tree, stored, expired, notes)

    def _stored(self, folder: SessionFolder, outputs: Sequence[Facts]) -> tuple[list[Stored], list[Facts]]:
        stored: dict[str, Stored] = {}
        expired: list[Facts] = []
        for facts in outputs:
            if facts.state == "expired":
                expired.append(facts)
            elif facts.state in UNFINISHED:
                descriptor = folder.open_bytes(facts)
                self._held.append(descriptor)
                stored[facts.file] = Stored(facts.file, os.fstat(descriptor).st_size, [facts], descriptor)
            else:
                stored.setdefault(facts.file, Stored(facts.file, facts.measure.bytes)).outputs.append(facts)
        return list(stored.values()), expired


def _logs(store: DirectoryStore, session: SessionInfo) -> tuple[dict[str, int], bytes | None]:
    tree = store.tree(session)
    folder, _, _ = store.survey(session)
    found: dict[str, int] = {}
    for name in (TRANSCRIPT, EVENTS, MASKS):
        with contextlib.suppress(FileNotFoundError):
            if length := whole_lines(name, inside=folder.descriptor):
                found[name] = length
    if tree is not None and len(tree) > form.MOST_IN_MEMORY:
        raise StoreFault(f"{TREE} has {len(tree):,} bytes, which is more than a bundle takes.")
    return found, tree


def whole_lines(name: str, *, inside: int) -> int:
    """Up to where a file that others append to has whole lines."""
    descriptor = disk.open_file(name, inside=inside)
    try:
        end = os.fstat(descriptor).st_size
        while end:
            start = max(0, end - _BACK)
            newline = os.pread(descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0
    finally:
        os.close(descriptor)


def _notes(folder: SessionFolder) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(FileNotFoundError):
        inside = disk.open_folder(ANSWERS, inside=folder.descriptor)
        try:
            for name in sorted(disk.names_in(inside)):
                if form.kind_of(f"{ANSWERS}/{name}") == "note":
                    with contextlib.suppress(FileNotFoundError):
                        yield name, os.stat(name, dir_fd=inside, follow_symlinks=False).st_size
        finally:
            os.close(inside)


_CHUNK = 16 * BLOCK
_CUT = "it was still being written when its session was exported; what had been written is in the bundle"


class SessionChanged(StoreFault):
    """Something that was to be exported went away or was replaced meanwhile: another try sees it as it is now."""


def export_session(
    store: DirectoryStore,
    session: SessionInfo,
    write: Callable[[bytes], object],
    *,
    redactor: Redactor | None = None,
    listed: Callable[[Bundle], None] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """`listed` is told what the bundle will hold before its first byte is written."""
    with Snapshot(store, session) as snapshot:
        bundle = snapshot.bundle(redacted=redactor is not None)
        if listed is not None:
            listed(bundle)
        writer = BundleWriter(write)
        try:
            writer.begin(bundle)
            export = _Export(store, writer, redactor, progress)
            for place, one in enumerate(snapshot.sessions):
                export.session(place, one)
            written = writer.finish()
        finally:
            writer.stop()
    if redactor is None:
        return Exported(bundle, written)
    return Exported(bundle, written, dict(redactor.counts), tuple(redactor.places))


class _Export:
    def __init__(
        self, store: DirectoryStore, writer: BundleWriter, redactor: Redactor | None, progress: Progress | None
    ) -> None:
        self._store = store
        self._writer = writer
        self._redactor = redactor
        self._progress = progress
        self._done = 0
        self._place = 0

    def session(self, place: int, one: SessionSnapshot) -> None:
        self._place = place
        if self._redactor is not None:
            self._redactor.begin()
        for stored in one.stored:
            self._stored(one.folder, stored)
        for facts in one.expired:
            self._record(self._loaded(one.folder, facts), BlockTable())
        for name, length in one.notes:
            self._note(one.folder, name, length)
        self._lines(one, TRANSCRIPT, "transcript")
        self._lines(one, EVENTS, "events")
        if one.tree is not None:
            tree = one.tree if self._redactor is None else self._redactor.json(one.tree, TREE)
            self._whole("tree", TREE, tree)
        self._masks(one)

    def _stored(self, folder: SessionFolder, stored: Stored) -> None:
        """The bytes of a file, then the record of each output that has them."""
        first, table = stored.outputs[0], BlockTable()
        descriptor = stored.descriptor
        if not stored.is_unfinished:
            loaded = folder.load(first.handle)
            if loaded is None or loaded[0] != first:
                raise SessionChanged(f"output {first.handle} was changed while it was exported.")
            table = loaded[1]
            descriptor = folder.open_bytes(first)
        measuring = _Measuring(self._store) if stored.is_unfinished or self._redactor is not None else None
        chunks = self._read(descriptor, stored, table)
        if self._redactor is not None:
            chunks = self._redactor.stream(chunks, stored.file, first.handle)
        try:
            sha256 = self._writer.entry(
                Entry(self._place, "bytes", stored.file, stored.length), measuring.seen(chunks) if measuring else chunks
            )
        finally:
            if descriptor != stored.descriptor:
                os.close(descriptor)
        measure, new_table = measuring.finish(sha256) if measuring else (first.measure, table)
        masked = self._redactor.masked(first.measure.sha256, sha256) if self._redactor is not None else 0
        changed = masked or stored.is_unfinished
        for facts in stored.outputs:
            if not changed and sha256 != facts.measure.sha256:
                raise OutputDamaged(facts.handle, "sha256 mismatch")
            self._record(_now(facts, measure, masked), new_table if changed else table)

    def _read(self, descriptor: int, stored: Stored, table: BlockTable) -> Iterator[bytes]:
        at = 0
        while at < stored.length:
            chunk = _pread(descriptor, min(_CHUNK, stored.length - at), at)
            if len(chunk) < min(_CHUNK, stored.length - at):
                detail = f"its file ends at byte {at + len(chunk):,} of {stored.length:,} (truncated)"
                raise OutputDamaged(stored.outputs[0].handle, detail)
            if len(table):
                _check(chunk, at, stored, table)
            at += len(chunk)
            self._done += len(chunk)
            if self._progress is not None:
                self._progress(self._done)
            yield chunk

    def _record(self, facts: Facts, table: BlockTable) -> None:
        if facts.origin.process:  # of this machine: elsewhere the number is somebody else's
            facts = replace(facts, origin=replace(facts.origin, process=0))
        if self._redactor is not None:
            facts = self._redactor.facts(facts)
        self._whole("record", facts.handle + record.SUFFIX, record.encode(facts, table))

    def _loaded(self, folder: SessionFolder, facts: Facts) -> Facts:
        loaded = folder.load(facts.handle)
        if loaded is None:
            raise StoreGone(f"the record of output {facts.handle} was removed from the store by hand.")
        return loaded[0]

    def _note(self, folder: SessionFolder, name: str, length: int) -> None:
        try:
            inside = disk.open_folder(ANSWERS, inside=folder.descriptor)
            try:
                data = disk.read_file(name, inside=inside)
            finally:
                os.close(inside)
        except FileNotFoundError:
            raise SessionChanged("a note was removed while its session was exported.") from None
        if len(data) != length:
            raise SessionChanged("a note was replaced while its session was exported.")
        if self._redactor is not None:
            name = self._redactor.renamed(name)
            data = self._redactor.json(data, f"{ANSWERS}/{name}")
        self._whole("note", f"{ANSWERS}/{name}", data)

    def _lines(self, one: SessionSnapshot, name: str, kind: Kind) -> None:
        length = one.logs.get(name, 0)
        if not length:
            return
        descriptor = disk.open_file(name, inside=one.folder.descriptor)
        try:
            chunks = _lines_of(descriptor, length)
            if self._redactor is not None:
                chunks = self._redactor.lines(chunks, name)
            self._writer.entry(Entry(self._place, kind, name, length), chunks)
        finally:
            os.close(descriptor)

    def _masks(self, one: SessionSnapshot) -> None:
        """What was masked now, after what an earlier export had masked."""
        data = b""
        if MASKS in one.logs:
            data = disk.read_file(MASKS, inside=one.folder.descriptor)[: one.logs[MASKS]]
        if self._redactor is not None:
            data += self._redactor.list()
        if data:
            self._whole("masks", MASKS, data)

    def _whole(self, kind: Kind, name: str, data: bytes) -> None:
        if kind != "masks" and len(data) > form.MOST_IN_MEMORY:
            raise StoreFault(f"{name} has {len(data):,} bytes, which is more than a bundle takes.")
        self._writer.entry(Entry(self._place, kind, name, len(data)), [data] if data else [])


class _Measuring:
    """What the bytes that pass by measure."""

    def __init__(self, store: DirectoryStore) -> None:
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
        kept = facts.measure if masked else measure
        facts = replace(facts, measure=kept, state="interrupted", ended=None, error=_CUT)
    return facts


def _check(chunk: bytes, at: int, stored: Stored, table: BlockTable) -> None:
    view = memoryview(chunk)
    for start in range(0, len(chunk), BLOCK):
        if checksum(view[start : start + BLOCK]) != table.checksums[(at + start) // BLOCK]:
            where = f"checksum mismatch in bytes {at + start:,} to {min(at + start + BLOCK, stored.length):,}"
            raise OutputDamaged(stored.outputs[0].handle, where)


def _pread(descriptor: int, length: int, at: int) -> bytes:
    """As many bytes, unless the file ends before."""
    data = os.pread(descriptor, length, at)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), at + len(data))):
        data += more
    return data


def _lines_of(descriptor: int, length: int) -> Iterator[bytes]:
    at = 0
    while at < length:
        chunk = os.pread(descriptor, min(_CHUNK, length - at), at)
        if not chunk:
            raise SessionChanged("a log became shorter while its session was exported.")
        at += len(chunk)
        yield chunk
