"""A session and every session below it, written as one bundle. See `bundle_format` for its form.

Every byte is compared with its checksum on the way: what is damaged is not exported as good. The same session gives
the same bytes each time. Nothing in the store is changed.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from holdall.policy.measure import Measurer, checksum
from holdall.store import bundle_format as form
from holdall.store import disk, record
from holdall.store.bundle_format import MASKS, Entry, Kind
from holdall.store.bundle_redact import Redactor
from holdall.store.bundle_snapshot import UNFINISHED, SessionSnapshot, Snapshot, Stored
from holdall.store.bundle_stream import BundleWriter
from holdall.store.directory import DirectoryStore
from holdall.store.events import NAME as EVENTS
from holdall.store.folder import SessionFolder
from holdall.store.protocol import Progress, SessionInfo
from holdall.store.remembered import FOLDER as ANSWERS
from holdall.store.session_files import TRANSCRIPT, TREE
from holdall.values.bundles import Bundle, Exported
from holdall.values.errors import OutputDamaged, StoreFault, StoreGone
from holdall.values.outputs import Facts, Measure
from holdall.values.spans import BLOCK, BlockTable

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
