"""One session of a bundle on its way into its folder: each entry is checked as it comes, and written.

The folder is not in the store yet, so nothing here has to be undone.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdall.policy.measure import Measurer
from holdall.store import bundle_format as form
from holdall.store import disk, record
from holdall.store.bundle_format import Entry
from holdall.store.bundle_records import check_against, check_tombstone, check_tree, facts_in
from holdall.store.bundle_stream import BundleReader
from holdall.store.folder import TERMINAL
from holdall.store.ingest import Beside
from holdall.store.protocol import Progress, SessionInfo
from holdall.store.remembered import FOLDER as ANSWERS
from holdall.text.tokens import Estimate
from holdall.values.bundles import BundledSession
from holdall.values.errors import BundleRefused
from holdall.values.outputs import Measure
from holdall.values.spans import BlockTable

_LARGE = 4 * 1024 * 1024
_UUID = 36
_COUNTED = (
    "outputs", "expired", "bytes", "stored_bytes", "files", "notes", "note_bytes", "transcript_bytes", "events_bytes",
    "tree_bytes",
)  # fmt: skip
_MOST_MASKS = 256 * 1024 * 1024


class IncomingSession:
    """`told` is what the bundle says that the session has; what comes must be that, no more and no less."""

    def __init__(
        self,
        folder: int,
        told: BundledSession,
        info: SessionInfo,
        renamed: dict[str, str],
        progress: Progress | None,
        done: int,
    ) -> None:
        self.done = done  # bytes of outputs so far, over all sessions
        self._folders = {"": folder}
        self._told = told
        self._info = info
        self._renamed = renamed
        self._progress = progress
        self._names: set[str] = set()
        self._ids: set[str] = set()
        self._stage = 0
        self._file = ""  # whose bytes came last
        self._measured: tuple[Measure, BlockTable] | None = None
        self._is_named = True  # a record has named those bytes
        self._came: dict[str, int] = dict.fromkeys(_COUNTED, 0)

    def take(self, entry: Entry, reader: BundleReader) -> None:
        if entry.name in self._names:
            raise BundleRefused(f"this bundle has {entry.name} twice.")
        if form.ORDER[entry.kind] < self._stage:
            raise BundleRefused(f"this bundle is damaged: {entry.name} stands in the wrong place.")
        self._names.add(entry.name)
        self._stage = form.ORDER[entry.kind]
        match entry.kind:
            case "bytes":
                self._take_bytes(entry, reader)
            case "record":
                self._take_record(entry, reader)
            case "note":
                self._count("notes", 1, entry)
                self._count("note_bytes", entry.length, entry)
                self._write(entry.name, [self._with_ids(reader.whole(entry))])
            case "tree":
                self._count("tree_bytes", entry.length, entry)
                data = self._with_ids(reader.whole(entry))
                check_tree(data)
                self._write(entry.name, [data])
            case "transcript" | "events" | "masks":
                self._take_lines(entry, reader)

    def finish(self) -> None:
        """Everything came that was told; all of it is durable."""
        self._check_named()
        told = self._told
        for name, number in self._came.items():
            if number != getattr(told, name):
                raise BundleRefused(
                    f"this bundle says that it has {getattr(told, name):,} {name.replace('_', ' ')} in the session "
                    f'"{told.name}", and has {number:,}.'
                )
        for folder in self._folders.values():
            os.fsync(folder)

    def close(self) -> None:
        while self._folders:
            os.close(self._folders.popitem()[1])

    # Outputs

    def _take_bytes(self, entry: Entry, reader: BundleReader) -> None:
        self._check_named()
        self._count("files", 1, entry)
        self._count("stored_bytes", entry.length, entry)
        measurer = Measurer(Estimate())  # how many tokens it has is not compared: whoever kept it counted

        def measured() -> Iterator[bytes]:
            for chunk in reader.chunks(entry):
                measurer.feed(chunk)
                self.done += len(chunk)
                if self._progress is not None:
                    self._progress(self.done)
                yield chunk

        self._write(entry.name, measured(), is_large=entry.length > _LARGE)
        self._measured = measurer.finish(reader.sha256)
        self._file, self._is_named = entry.name, False

    def _take_record(self, entry: Entry, reader: BundleReader) -> None:
        facts, table = facts_in(reader.whole(entry), entry, self._told.id)
        if facts.id in self._ids:
            raise BundleRefused(f"two outputs of this bundle have the same id ({entry.name}).")
        self._ids.add(facts.id)
        if facts.state == "expired":
            check_tombstone(facts, table)
            self._count("expired", 1, entry)
        else:
            if self._measured is None:
                raise BundleRefused(f"the record {facts.handle} of this bundle is refused: its bytes are missing.")
            check_against(facts, table, self._file, *self._measured)
            self._is_named = True
            self._count("outputs", 1, entry)
            self._count("bytes", facts.measure.bytes, entry)
        self._write(entry.name, [record.encode(replace(facts, session=self._info.id), table)])

    def _check_named(self) -> None:
        if not self._is_named:
            raise BundleRefused(f"this bundle has the bytes {self._file}, and no record that names them.")

    # Files

    def _take_lines(self, entry: Entry, reader: BundleReader) -> None:
        """Whole lines. What is in them is looked at line by line by whoever reads them, and passed over where bad."""
        if entry.kind != "masks":
            self._count(f"{entry.kind}_bytes", entry.length, entry)
        elif entry.length > _MOST_MASKS:
            raise BundleRefused(f"{entry.name} in this bundle has {entry.length:,} bytes, which none of its kind has.")
        last = b"\n"

        def checked() -> Iterator[bytes]:
            nonlocal last
            for chunk in reader.chunks(entry):
                last = chunk[-1:]
                yield chunk

        self._write(entry.name, _replaced(checked(), self._renamed))
        if last != b"\n":
            raise BundleRefused(f"{entry.name} of this bundle ends in the middle of a line.")

    def _write(self, name: str, chunks: Iterable[bytes], *, is_large: bool = False) -> None:
        sub, _, plain = name.rpartition("/")
        descriptor = disk.create(plain, inside=self._inside(sub))
        writing = Beside(lambda data: disk.write_all(descriptor, data)) if is_large else None
        try:
            for chunk in chunks:
                writing.give(chunk) if writing is not None else disk.write_all(descriptor, chunk)
            if writing is not None:
                writing.finish()
            os.fsync(descriptor)
        finally:
            if writing is not None:
                writing.stop()
            os.close(descriptor)

    def _inside(self, sub: str) -> int:
        if sub not in ("", TERMINAL, ANSWERS):
            raise BundleRefused(f"this bundle has a file in {sub!r}, which no session has.")
        if sub not in self._folders:
            self._folders[sub] = disk.make_folder(sub, inside=self._folders[""])
        return self._folders[sub]

    def _count(self, name: str, number: int, entry: Entry) -> None:
        """More than was told is refused as soon as it comes: what was told is what there is room for."""
        self._came[name] += number
        if self._came[name] > getattr(self._told, name):
            raise BundleRefused(f"this bundle has more than it says: {entry.name} is not in its list of contents.")

    def _with_ids(self, data: bytes) -> bytes:
        return b"".join(_replaced([data], self._renamed))


def _replaced(chunks: Iterable[bytes], renamed: dict[str, str]) -> Iterator[bytes]:
    """The ids of sessions that have other ones here, wherever they stand. They are all of one length."""
    if not renamed:
        yield from chunks
        return
    table = {old.encode("ascii"): new.encode("ascii") for old, new in renamed.items()}
    pattern = re.compile(b"|".join(map(re.escape, table)))
    held = b""
    for chunk in chunks:
        held = pattern.sub(lambda match: table[match[0]], held + chunk)
        if len(held) > _UUID:
            yield held[: 1 - _UUID]
            held = held[1 - _UUID :]
    yield held
