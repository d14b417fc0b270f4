"""A bundle as a stream, both ways: entries in, compressed bytes out, and back, with a few megabytes in memory.

The reader believes nothing: lengths are bounded before anything is read, every entry is compared with its hash, and
the whole with the hash at its end. It knows no store and writes nothing.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator

from holdall.store import bundle_format as form
from holdall.store import bundle_zstd as zstd
from holdall.store.bundle_format import Entry
from holdall.store.ingest import Beside
from holdall.store.sessions import check_name
from holdall.values.bundles import Bundle
from holdall.values.errors import BundleRefused, StoreFault, WrongUse

_PIECE = 1024 * 1024
_READ = 256 * 1024
_LARGE = 4 * 1024 * 1024
_OTHERS = {b"PK": "a ZIP archive", b"\x1f\x8b": "a gzip file", b"\xfd7zXZ": "an xz file", b"BZh": "a bzip2 file"}


class BundleWriter:
    """Compresses and writes in a thread of its own. `write` is called from there."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._compressor = zstd.compressor()
        self._digest = hashlib.sha256()
        self._entries = 0
        self.written = 0
        self._pressing = Beside(lambda chunk: self._out(self._compressor.compress(chunk)))

    def begin(self, bundle: Bundle) -> None:
        contents = form.contents_line(bundle)
        if len(contents) > form.MOST_CONTENTS:
            raise StoreFault(f"{len(bundle.sessions):,} sessions are too many for one bundle.")
        self._pressing.give(form.HEAD % form.VERSION + contents)

    def entry(self, entry: Entry, chunks: Iterable[bytes]) -> str:
        """The hash of its bytes. `chunks` must give as many as the entry says."""
        digest = hashlib.sha256()
        hashing = Beside(digest.update) if entry.length > _LARGE else None
        feed = hashing.give if hashing is not None else digest.update
        self._pressing.give(entry.line())
        left = entry.length
        try:
            for chunk in chunks:
                left -= len(chunk)
                feed(chunk)
                self._pressing.give(chunk)
        finally:
            if hashing is not None:
                hashing.stop()
        if left:
            raise StoreFault(f"{entry.name} has another length than when the export began.")
        found = digest.hexdigest()
        self._pressing.give(f"sha256 {found}\n".encode("ascii"))
        self._entries += 1
        return found

    def finish(self) -> int:
        """The number of bytes that were written in all."""
        self._pressing.give(b"end %d\n" % self._entries)
        self._pressing.finish()
        self._out(self._compressor.flush())
        self._out(form.trailer(self._digest.hexdigest()))
        return self.written

    def stop(self) -> None:
        """Whatever happened, nothing is written any more."""
        self._pressing.stop()

    def _out(self, data: bytes) -> None:
        if data:
            self._digest.update(data)
            self._write(data)
            self.written += len(data)


class BundleReader:
    """`read` gives at most so many bytes, and none at the end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.sha256 = ""  # of the entry that was read last
        self._source = read
        self._decompressor = zstd.decompressor()
        self._digest = hashlib.sha256()
        self._given = b""  # to be unpacked; not in the digest yet, because the end of it may be the trailer
        self._held = b""  # unpacked, and not asked for yet
        self._at = 0
        self._begun = False
        self._entries = 0

    def contents(self) -> Bundle:
        head = self._line(form.LINE)
        version = form.version_in(head)
        if version is None:
            raise BundleRefused(f"this is a zstd file, but no bundle of Holdall: it begins with {form.shown(head)}.")
        if version != form.VERSION:
            raise BundleRefused(
                f"this bundle has the format {version}, and this version of Holdall reads {form.VERSION}. "
                "Import it with the version that wrote it, or a newer one."
            )
        try:
            return form.contents_in(self._line(form.MOST_CONTENTS), check_name)
        except WrongUse as problem:
            raise BundleRefused(f"the list of contents of this bundle is damaged: {problem}") from problem

    def next_entry(self) -> Entry | None:
        """None at the end, which is checked: nothing may come after it."""
        line = self._line(form.LINE)
        if line.startswith(b"entry "):
            self._entries += 1
            return form.entry_in(line)
        if line != b"end %d\n" % self._entries:
            raise BundleRefused(f"this bundle is damaged: {form.shown(line)} stands where an entry should begin.")
        self._check_end()
        return None

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of the entry that was just read, compared with their hash after the last of them."""
        digest = hashlib.sha256()
        hashing = Beside(digest.update) if entry.length > _LARGE else None
        feed = hashing.give if hashing is not None else digest.update
        left = entry.length
        try:
            while left:
                chunk = self._piece(left)
                left -= len(chunk)
                feed(chunk)
                yield chunk
        finally:
            if hashing is not None:
                hashing.stop()
        self.sha256 = digest.hexdigest()
        if self._line(form.LINE) != f"sha256 {self.sha256}\n".encode("ascii"):
            raise BundleRefused(f"this bundle is damaged: the bytes of {entry.name} do not match their hash.")

    def whole(self, entry: Entry) -> bytes:
        if entry.length > form.MOST_IN_MEMORY:
            raise BundleRefused(f"{entry.name} in this bundle has {entry.length:,} bytes, which none of its kind has.")
        return b"".join(self.chunks(entry))

    def _line(self, most: int) -> bytes:
        parts: list[bytes] = []
        length = 0
        while True:
            part = self._piece(_PIECE, keep=True)
            end = part.find(b"\n") + 1
            taken = part[: end or len(part)]
            self._at += len(taken)
            length += len(taken)
            if length > most:
                raise BundleRefused("this bundle is damaged: a line of it is longer than any can be.")
            parts.append(taken)
            if end:
                return b"".join(parts)

    def _piece(self, most: int, *, keep: bool = False) -> bytes:
        """At least one byte of what is unpacked next; with `keep` it stays where it is."""
        while self._at >= len(self._held):
            self._held, self._at = self._unpacked(), 0
        piece = self._held[self._at : self._at + most] if self._at or most < len(self._held) else self._held
        if not keep:
            self._at += len(piece)
        return piece

    def _unpacked(self) -> bytes:
        if self._decompressor.eof:
            raise BundleRefused("this bundle is damaged: it ends before its last entry.")
        given = b""
        if self._decompressor.needs_input:
            self._digest.update(self._given)  # all of it was used up
            given = self._given = self._compressed()
        try:
            data = self._decompressor.decompress(given, _PIECE)
        except (zstd.Broken, ValueError) as problem:
            raise BundleRefused("this bundle is damaged: its compressed data cannot be unpacked.") from problem
        if self._decompressor.eof:
            rest = len(self._decompressor.unused_data)
            self._digest.update(memoryview(self._given)[: len(self._given) - rest])
        return data

    def _compressed(self) -> bytes:
        given = self._source(_READ)
        while not self._begun and 0 < len(given) < 512 and (more := self._source(_READ)):
            given += more
        if not self._begun:
            self._begun = True
            _check_beginning(given)
        if not given:
            raise BundleRefused("this bundle is cut short: its end is missing. Nothing was restored.")
        return given

    def _check_end(self) -> None:
        while not self._decompressor.eof:
            if self._at < len(self._held):
                break
            self._held, self._at = self._unpacked(), 0
        if self._at < len(self._held):
            raise BundleRefused("this bundle is damaged: something stands after its end.")
        rest = self._decompressor.unused_data
        while len(rest) <= form.TRAILER and (more := self._source(_READ)):
            rest += more
        if len(rest) < form.TRAILER:
            raise BundleRefused("this bundle is cut short: its end is missing. Nothing was restored.")
        if rest != form.trailer(self._digest.hexdigest()):
            raise BundleRefused("this bundle is damaged: it does not match the hash at its end.")


def _check_beginning(given: bytes) -> None:
    if given.startswith(zstd.MAGIC):
        return
    if not given:
        raise BundleRefused("this bundle is empty: it has no bytes at all.")
    if zstd.MAGIC.startswith(given):
        raise BundleRefused("this bundle is cut short: its end is missing. Nothing was restored.")
    what = next((name for magic, name in _OTHERS.items() if given.startswith(magic)), "")
    what = what or ("a tar archive" if given[257:262] == b"ustar" else "another kind of file")
    raise BundleRefused(f"this is no bundle of Holdall: it is {what}. Bundles are made by `holdall export`.")
