"""The file of a bundle: there whole or not at all, for its owner alone, and never in place of another unless asked."""

import contextlib
import errno
import hashlib
import importlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdall.store.directory import disk
from holdall.store.files import write_all
from holdall.store.ids import new_tag
from holdall.store.ingest import WorkThread
from holdall.store.records import ANSWERS, LOGS, READS, TREE, VERSIONS, check_name, loads
from holdall.text.numbers import size
from holdall.values.bundles import Bundle
from holdall.values.errors import BundleRefused, MissingExtra, StoreFault, StoreFull, UsageError, flat
from holdall.values.handles import LETTERS, LONGEST, SHORTEST, SIGNS
from holdall.values.patterns import lazy_pattern

# Compression of bundles: zstd of the language where it has one, else the same as a package.
#
# One thread, one level, a checksum at the end: the same bytes in give the same bytes out, with the same library.


if TYPE_CHECKING:
    from backports import zstd  # pyright: ignore[reportMissingTypeStubs] - beside other packages of that name
elif sys.version_info >= (3, 14):
    zstd = importlib.import_module("compression.zstd")
else:
    try:
        from backports import zstd
    except ModuleNotFoundError as problem:
        raise MissingExtra("backports.zstd", "bundle", "a session as one file") from problem

MAGIC = b"\x28\xb5\x2f\xfd"
Broken = zstd.ZstdError
_MADE_BY = "Nothing was restored: bundles are made by `holdall export`."
_LEVEL = 1  # a session is exported while somebody waits; the next levels take twice as long for a tenth less
_WINDOW_LOG = 23  # 8 MiB: what a file may ask of our memory


def compressor() -> "zstd.ZstdCompressor":
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={names.compression_level: _LEVEL, names.checksum_flag: 1})


def decompressor() -> "zstd.ZstdDecompressor":
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})


# The form of a bundle.
#
#     one zstd frame, with a checksum:
#         holdall bundle 2\n                    the version of this format: that of the newest session in it
#         {what is in it, as JSON on one line}\n
#         entry 0/k3f9.record 1234\n            the place of its session, its name there, its length
#         <1234 bytes>sha256 <64 hex digits>\n
#         … further entries …
#         end 17\n                              how many there were
#     one skippable zstd frame:
#         holdall bundle end <sha256 of everything before this frame>\n
#
# Any zstd program can unpack it. Of each session: files of bytes, each followed by the records of its outputs; records
# of expired outputs; notes; the transcript, the log, the tree, the list of masks. Names have the grammar below and no
# other: nothing in it can lead out of a session's folder.


HEAD = b"holdall bundle %d\n"
LINE = 400  # bytes that a line of ours has at most, the list of contents aside
MAX_CONTENTS = 32 * 1024 * 1024  # bytes of the list of contents
MAX_IN_MEMORY = 64 * 1024 * 1024  # bytes of one record, note or tree: these are read whole
_END = b"holdall bundle end "
_SKIPPABLE = b"\x5d\x2a\x4d\x18"
TRAILER = len(_SKIPPABLE) + 4 + len(_END) + 64 + 1

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMES: dict[str, str] = {
    "bytes": rf"(?:{_UUID}\.(?:txt|json)|terminal/{_UUID}\.log)",
    "record": rf"[{LETTERS}][{SIGNS}]{{{SHORTEST - 1},{LONGEST - 1}}}\.record",
    "note": rf"{ANSWERS}/[0-9a-f]{{16,64}}-[0-9a-f]{{16,64}}",
    "transcript": re.escape(LOGS["transcript"]),
    "events": re.escape(LOGS["events"]),
    "tree": re.escape(TREE),
    "masks": re.escape(LOGS["masks"]),
}
_ENTRY = lazy_pattern(
    r"entry (?P<session>0|[1-9][0-9]{0,5})/(?P<name>[!-~]{1,250}) (?P<length>0|[1-9][0-9]{0,17})\n", re.ASCII
)
_KINDS = {kind: lazy_pattern(pattern, re.ASCII) for kind, pattern in _NAMES.items()}
ORDER = {"bytes": 0, "record": 0, "note": 1, "transcript": 2, "events": 3, "tree": 4, "masks": 5}
Kind = Literal["bytes", "record", "note", "transcript", "events", "tree", "masks"]


class Entry(NamedTuple):
    session: int
    kind: Kind
    name: str
    length: int

    def line(self) -> bytes:
        return f"entry {self.session}/{self.name} {self.length}\n".encode("ascii")


def kind_of(name: str) -> Kind | None:
    """What a name inside a session stands for; None for every other name."""
    kinds: tuple[Kind, ...] = ("bytes", "record", "note", "transcript", "events", "tree", "masks")
    return next((kind for kind in kinds if _KINDS[kind].fullmatch(name)), None)


def entry_in(line: bytes) -> Entry:
    try:
        match = _ENTRY.fullmatch(line.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise BundleRefused(f"this bundle is damaged: {shown(line)} is not the line of an entry.")
    kind = kind_of(match["name"])
    if kind is None:
        raise BundleRefused(f"this bundle has a file of the name {shown(line[6:])}, which no session has.")
    return Entry(int(match["session"]), kind, match["name"], int(match["length"]))


def contents_line(bundle: Bundle) -> bytes:
    return json.dumps(bundle.to_json(), ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def contents_in(line: bytes, version: int, check_name: Callable[[str], None]) -> Bundle:
    try:
        found = Bundle.from_json(loads(line), version)
        for session in found.sessions:
            check_name(session.name)
    except (ValueError, RecursionError) as problem:
        why = "it cannot be read as JSON" if isinstance(problem, json.JSONDecodeError | RecursionError) else problem
        raise BundleRefused(f"the list of contents of this bundle is damaged: {why}.") from problem
    return found


def trailer(digest: str) -> bytes:
    text = _END + digest.encode("ascii") + b"\n"
    return _SKIPPABLE + len(text).to_bytes(4, "little") + text


def version_in(line: bytes) -> int | None:
    """None if this is no bundle at all."""
    match = re.fullmatch(rb"holdall bundle ([0-9]{1,9})\n", line)
    return int(match[1]) if match else None


def shown(line: bytes) -> str:
    """A piece of a bad bundle as a message may show it."""
    return ascii(line[:60].decode("ascii", "replace").rstrip("\n"))


# A bundle as a stream, both ways: entries in, compressed bytes out, and back, with a few megabytes in memory.
#
# The reader believes nothing: lengths are bounded before anything is read, every entry is compared with its hash, and
# the whole with the hash at its end. It knows no store and writes nothing.


_PIECE = 1024 * 1024
_READ = 256 * 1024
_LARGE = 4 * 1024 * 1024
_OTHERS = {b"PK": "a ZIP archive", b"\x1f\x8b": "a gzip file", b"\xfd7zXZ": "an xz file", b"BZh": "a bzip2 file"}


class BundleWriter:
    """Compresses and writes in a thread of its own. `write` is called from there."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._compressor = compressor()
        self._digest = hashlib.sha256()
        self._entries = 0
        self.written = 0
        self._pressing = WorkThread(lambda chunk: self._out(self._compressor.compress(chunk)))

    def begin(self, bundle: Bundle) -> None:
        contents = contents_line(bundle)
        if len(contents) > MAX_CONTENTS:
            raise StoreFault(f"{len(bundle.sessions):,} sessions are too many for one bundle.")
        self._pressing.give(HEAD % bundle.version + contents)

    def entry(self, entry: Entry, chunks: Iterable[bytes]) -> str:
        """The hash of its bytes. `chunks` must give as many as the entry says."""
        digest = hashlib.sha256()
        hashing = WorkThread(digest.update) if entry.length > _LARGE else None
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
        self._out(trailer(self._digest.hexdigest()))
        return self.written

    def stop(self) -> None:
        """Stop writing, also after an error."""
        self._pressing.stop()

    def _out(self, data: bytes) -> None:
        if data:
            self._digest.update(data)
            self._write(data)
            self.written += len(data)


class BundleReader:
    """`read` gives at most this many bytes, and none at the end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.sha256 = ""  # of the entry that was read last
        self._source = read
        self._decompressor = decompressor()
        self._digest = hashlib.sha256()
        self._given = b""  # to be unpacked; not in the digest yet, because the end of it may be the trailer
        self._held = b""  # unpacked, and not asked for yet
        self._at = 0
        self._begun = False
        self._entries = 0
        self.packed = 0  # bytes that were read so far

    def contents(self) -> Bundle:
        head = self._line(LINE)
        version = version_in(head)
        if version is None:
            raise BundleRefused(
                f"this is a zstd file, but no bundle of Holdall: it begins with {shown(head)}.", _MADE_BY
            )
        if version not in VERSIONS:
            raise BundleRefused(
                f"this bundle has the format {version}, and this version of Holdall reads {READS}.",
                "Nothing was restored: import it with the version that wrote it, or a newer one.",
            )
        try:
            return contents_in(self._line(MAX_CONTENTS), version, check_name)
        except UsageError as problem:
            raise BundleRefused(f"the list of contents of this bundle is damaged: {problem}") from problem

    def next_entry(self) -> Entry | None:
        """None at the end, which is checked: nothing may come after it."""
        line = self._line(LINE)
        if line.startswith(b"entry "):
            self._entries += 1
            return entry_in(line)
        if line != b"end %d\n" % self._entries:
            raise BundleRefused(f"this bundle is damaged: {shown(line)} stands where an entry should begin.")
        self._check_end()
        return None

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of the entry that was just read, compared with their hash after the last of them."""
        digest = hashlib.sha256()
        hashing = WorkThread(digest.update) if entry.length > _LARGE else None
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
        if self._line(LINE) != f"sha256 {self.sha256}\n".encode("ascii"):
            raise BundleRefused(f"this bundle is damaged: the bytes of {entry.name} do not match their hash.")

    def whole(self, entry: Entry) -> bytes:
        if entry.length > MAX_IN_MEMORY:
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
        piece = self._held[self._at : self._at + most]
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
        except (Broken, ValueError) as problem:
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
            raise BundleRefused("this bundle is cut short: its end is missing.")
        self.packed += len(given)
        return given

    def _check_end(self) -> None:
        while not self._decompressor.eof:
            if self._at < len(self._held):
                break
            self._held, self._at = self._unpacked(), 0
        if self._at < len(self._held):
            raise BundleRefused("this bundle is damaged: something stands after its end.")
        rest = self._decompressor.unused_data
        while len(rest) <= TRAILER and (more := self._source(_READ)):
            rest += more
        if len(rest) < TRAILER:
            raise BundleRefused("this bundle is cut short: its end is missing.")
        if rest != trailer(self._digest.hexdigest()):
            raise BundleRefused("this bundle is damaged: it does not match the hash at its end.")


def _check_beginning(given: bytes) -> None:
    if given.startswith(MAGIC):
        return
    if not given:
        raise BundleRefused("this bundle is empty: it has no bytes at all.")
    if MAGIC.startswith(given):
        raise BundleRefused("this bundle is cut short: its end is missing.")
    what = next((name for magic, name in _OTHERS.items() if given.startswith(magic)), "")
    what = what or ("a tar archive" if given[257:262] == b"ustar" else "another kind of file")
    raise BundleRefused(f"this is no bundle of Holdall: it is {what}.", _MADE_BY)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def new_file(path: str, *, force: bool) -> Generator[Callable[[bytes], None]]:
    """Gives a function that appends. The file has its name when the block ends well; else nothing of it is left."""
    folder_path, name = os.path.split(os.path.abspath(path))
    _check(path, force=force)
    with _explained(path, folder_path):
        folder = os.open(folder_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    temporary = f".holdall-{new_tag(16)}.part"
    try:
        with _explained(path, folder_path):
            descriptor = disk.create(temporary, inside=folder)

        def write(data: bytes) -> None:
            with _explained(path, folder_path):
                write_all(descriptor, data)

        try:
            yield write
            with _explained(path, folder_path):
                os.fsync(descriptor)
                _name(temporary, name, folder, path, force=force)
                os.fsync(folder)
        finally:
            os.close(descriptor)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


@contextlib.contextmanager
def open_bundle(path: str) -> Generator[Callable[[int], bytes]]:
    """Gives a function that reads at most this many bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as problem:
        reason = os.strerror(problem.errno) if isinstance(problem, OSError) and problem.errno else str(problem)
        raise UsageError(f"the bundle {flat(path[:300])} cannot be opened: {reason}.") from problem
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with _explained(path, folder, doing="reading"):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise UsageError(f"{flat(path[:300])} is a folder, not a bundle.")

        def read(most: int) -> bytes:
            with _explained(path, folder, doing="reading"):
                return os.read(descriptor, most)

        yield read
    finally:
        os.close(descriptor)


def _check(path: str, *, force: bool) -> None:
    """Checked before anything is read, so that errors come early."""
    if not path or "\0" in path:
        raise UsageError(f"{flat(path[:300])!r} is not the name of a file.")
    try:
        about = os.stat(path, follow_symlinks=False)
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode):
        raise UsageError(f"{flat(path[:300])} is a folder; name the file that the bundle is to be written to.")
    if not stat.S_ISREG(about.st_mode):  # a file would take its place
        what = "a link" if stat.S_ISLNK(about.st_mode) else "not a regular file"
        raise UsageError(f"{flat(path[:300])} is {what}. Name another file, or write to standard output: -o -")
    if not force:
        raise _exists(path)


def _name(temporary: str, name: str, folder: int, path: str, *, force: bool) -> None:
    if force:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:  # since we looked
        raise _exists(path) from None
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)  # a disk without links


def _exists(path: str) -> UsageError:
    return UsageError(f"{flat(path[:300])} exists, and is not overwritten. Name another file, or pass force=True.")


@contextlib.contextmanager
def _explained(path: str, folder: str, *, doing: str = "writing") -> Generator[None]:
    try:
        yield
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        if problem.errno in _FULL:
            raise StoreFull(
                f"no space left while writing the bundle {flat(path[:300])}: {_free(folder)} free in {folder}. "
                "Nothing of it is left there."
            ) from problem
        raise StoreFault(f"{reason} while {doing} the bundle {flat(path[:300])}.") from problem


def _free(folder: str) -> str:
    try:
        about = os.statvfs(folder)
    except OSError:
        return "an unknown amount"
    return size(about.f_bavail * about.f_frsize)
