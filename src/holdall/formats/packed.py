"""What is packed in an output: streams that unpack piece by piece, and the members of zip and tar archives.

Everything here works on `read(start, end)` and stops at its bounds: so many members, so many bytes, so many times what
was read. Names and sizes of members are what the archive says of them; bytes are given out only as far as they unpack.
Nothing is ever written, and no name of a member is a path.
"""

import bz2
import codecs
import difflib
import importlib
import lzma
import re
import struct
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, cast

from holdall.formats.outline import Read
from holdall.text.escape import foreign, named
from holdall.text.numbers import plural, size
from holdall.values.errors import BadMember, MissingExtra
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

RATIO = 200  # what unpacks to more than so many times its own size is not unpacked, …
UNSUSPICIOUS = 8 * 1024 * 1024  # … beyond so many bytes
MOST_MEMBERS = 100_000
PIECE = 256 * 1024  # bytes that are read at once
_PLAIN_NAME = lazy_pattern(r"[A-Za-z0-9_./@%+=,~:-]{1,60}", re.ASCII)
_STEP = 1024 * 1024  # bytes that are unpacked at once
_NAMES_COMPARED, _NAME_COMPARED = 2000, 60  # where a name is wrong: names, and characters of each

STREAMS = {
    "gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0", "utf-16": b"\xff\xfe",
}  # fmt: skip
ARCHIVES = ("zip", "tar")
_XZ_MEMORY = 128 * 1024 * 1024  # what a file may ask of our memory
_ZSTD_WINDOW_LOG = 27  # the same: 128 MiB, what the command zstd takes unless told otherwise
_SKIPPABLE = tuple(bytes([sign]) + b"\x2a\x4d\x18" for sign in range(0x50, 0x60))  # frames of zstd that hold no data


# Streams: gzip, zstd, bzip2, xz, what is deflated in a zip, and text in UTF-16, which is no less hidden from a search.


class _Engine(Protocol):
    """As the decompressors of the standard library are."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Inflate:
    def __init__(self, window: int) -> None:
        self._zlib = zlib.decompressobj(window)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._is_full and not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        found = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self._is_full = len(found) == max_length  # there may be more without further input
        return found


class _Stored:
    """What is not compressed."""

    eof, needs_input, unused_data = False, True, b""

    def decompress(self, data: bytes, max_length: int) -> bytes:  # noqa: ARG002 - a piece is never longer
        return data


class _Utf16:
    """By its byte order mark. Its end is that of the bytes: `is_whole` is asked for there."""

    eof, needs_input, unused_data = False, True, b""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16")()

    @property
    def is_whole(self) -> bool:
        return not self._decoder.getstate()[0]

    def decompress(self, data: bytes, max_length: int) -> bytes:  # noqa: ARG002 - a piece is never that long
        return self._decoder.decode(data).encode()


def _zstd() -> Any:
    """That of the language where it has one, else the same as a package. Raises MissingExtra."""
    try:
        return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ModuleNotFoundError as problem:
        raise MissingExtra("backports.zstd", "packed", "what is packed with zstd") from problem


def _new_zstd() -> _Engine:
    zstd = _zstd()
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


def _faults(form: str) -> tuple[type[Exception], ...]:
    own = (_zstd().ZstdError,) if form == "zstd" else ()
    return (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, *own)


_ENGINES: dict[str, Callable[[], _Engine]] = {
    "stored": _Stored,
    "deflate": lambda: _Inflate(-15),
    "gzip": lambda: _Inflate(31),
    "zstd": _new_zstd,
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY),
    "utf-16": _Utf16,
}


@record(frozen=False)
class Stream:
    """One packed stream. What `pieces` has found is in the other fields when it has ended."""

    form: str
    packed: Iterable[bytes]
    most: int  # bytes that it may unpack to
    joined: bool = True  # several streams one behind the other are one, as `cat a.gz b.gz` makes them
    given: int = 0
    is_cut: bool = False  # its end is missing
    rest: int = 0  # bytes behind its end that are no part of it, at least

    def pieces(self) -> Iterator[bytes]:
        """Raises BadMember where it is damaged, and at its bounds."""
        faults = _faults(self.form)
        starts = (STREAMS.get(self.form, b""), *(_SKIPPABLE if self.form == "zstd" else ()))
        engine, taken, held, is_between = _ENGINES[self.form](), 0, b"", False
        for piece in self.packed:
            taken += len(piece)
            data, held = held + piece, b""
            while True:
                if is_between:
                    data = data.lstrip(b"\0")  # padding
                    held = data
                    if len(data) < len(starts[0]):
                        break
                    if not (self.joined and data.startswith(starts)):
                        self.rest = len(data)
                        return
                    engine, held, is_between = _ENGINES[self.form](), b"", False
                try:
                    found = engine.decompress(data, _STEP)
                except faults as problem:
                    # The engine keeps what it had unpacked of this piece.
                    behind = f" after at least {self.given:,} unpacked bytes" if self.given else ""
                    raise BadMember(f"it is damaged{behind} ({_said(problem)}).") from None
                if found:
                    self._bound(len(found), taken)
                    yield found
                data = b""
                if engine.eof:
                    data, is_between = engine.unused_data, True
                elif engine.needs_input:
                    break
        self.rest = len(held)
        has_end = engine.is_whole if isinstance(engine, _Utf16) else is_between
        self.is_cut = self.form != "stored" and not has_end

    def _bound(self, further: int, taken: int) -> None:
        self.given += further
        if self.given > max(UNSUSPICIOUS, RATIO * taken):
            raise BadMember(
                f"it unpacks to more than {RATIO} times its size, as a bomb does ({self.given:,} bytes from the first "
                f"{taken:,}): it is not unpacked."
            )
        if self.given > self.most:
            raise BadMember(
                f"it unpacks to more than the {size(self.most)} that may be unpacked (setting unpack_max_bytes)."
            )


def _said(problem: Exception) -> str:
    return foreign(str(problem) or type(problem).__name__)


def name_in_gzip(head: bytes) -> str:
    """What the file was called that was packed, where that is told."""
    if len(head) < 12 or not head[3] & 8 or head[3] & 4:
        return ""
    return head[10:].split(b"\0")[0].decode("latin-1") if b"\0" in head[10:] else ""


# Members.


class Member(NamedTuple):
    """One entry of an archive, as that describes it."""

    number: int  # from 1, in the archive's order
    name: str
    size: int
    packed: int  # bytes that it takes in the archive
    at: int  # of its header
    kind: str = "file"  # file, folder, link, device …: only files have bytes
    form: str = "stored"
    crc: int = -1
    target: str = ""  # of a link
    why: str = ""  # it cannot be unpacked

    def may_be_opened(self, most: int) -> bool:
        """By what the archive says of it: a file of at most so many bytes, and no bomb."""
        bound = min(most, max(UNSUSPICIOUS, RATIO * self.packed))
        return self.kind == "file" and not self.why and self.size <= bound


@record
class Listing:
    """`problem` says why there may be more members than these; empty if these are all."""

    members: list[Member]
    problem: str = ""
    directory: tuple[int, int] = (0, 0)  # the bytes that list them, where these stand together

    @property
    def files(self) -> list[Member]:
        return [one for one in self.members if one.kind == "file"]


def members_of(form: str, read: Read, total: int, most: int = MOST_MEMBERS) -> Listing:
    """Of a zip or a tar. Raises BadMember where it is none."""
    return _zip_members(read, total, most) if form == "zip" else _tar_members(read, total, most)


def bytes_of(form: str, read: Read, member: Member, most: int) -> tuple[Stream, tuple[int, int]]:
    """The bytes of a member, and which bytes of the archive they are made from."""
    if member.kind != "file" and not (form == "zip" and member.size):  # in a zip, a link's bytes are where it leads
        to = f" to {named(member.target)}: read that one" if member.target else ""
        raise BadMember(f"it is a {member.kind}{to}, and has no bytes of its own.")
    if member.why:
        raise BadMember(member.why)
    if member.size > most:
        raise BadMember(
            f"it has {member.size:,} bytes; at most {size(most)} may be unpacked (setting unpack_max_bytes)."
        )
    return _zip_bytes(read, member, most) if form == "zip" else _tar_bytes(read, member, most)


# ── zip: the directory at its end is the truth, as it is for everybody else ─────────────────────────────────────


_END, _END64, _LOCATOR, _ENTRY, _LOCAL = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2", b"PK\3\4"
_ENTRY_FIELDS = struct.Struct("<4x6H3L5H2L")
_LOCAL_FIELDS = struct.Struct("<4x5H3L2H")
_METHODS = {0: "stored", 8: "deflate", 12: "bzip2", 93: "zstd", 95: "xz"}
_LONGEST_COMMENT = 65_535
_IN_EXTRA = 0xFFFFFFFF  # the number is in a field of its own
_KINDS = {0o12: "link", 0o04: "folder", 0o02: "device", 0o06: "device", 0o01: "pipe", 0o14: "socket"}


def _zip_members(read: Read, total: int, most: int) -> Listing:
    start, length, shift = _zip_directory(read, total)
    if start < 0:
        return _zip_walked(read, most)
    members: list[Member] = []
    room = _MOST_OF_NAMES
    data, at, begins = b"", 0, start
    end = start + length
    while True:
        if len(data) - at < 46 + 3 * 65_535 and begins + len(data) < end:
            begins, data, at = (
                begins + at,
                data[at:] + read(begins + len(data), min(end, begins + len(data) + _STEP)),
                0,
            )
        if begins + at >= end:
            return Listing(members, directory=(start, end))
        if data[at : at + 4] != _ENTRY or len(data) - at < 46:
            return Listing(members, "its directory is damaged")
        fields = _ENTRY_FIELDS.unpack_from(data, at)
        names, extra, comment = fields[9:12]
        room -= names
        if len(members) == most or room < 0:
            return Listing(members, f"only the first {len(members):,} are listed", (start, begins + at))
        name, more = data[at + 46 : at + 46 + names], data[at + 46 + names : at + 46 + names + extra]
        if len(name) + len(more) < names + extra:
            return Listing(members, "its directory is damaged")
        members.append(_zip_member(len(members) + 1, fields, name, more, shift))
        at += 46 + names + extra + comment


def _zip_directory(read: Read, total: int) -> tuple[int, int, int]:
    """Where the directory begins, its length, and how far offsets in it are off; -1 if there is none."""
    begins = max(0, total - _LONGEST_COMMENT - 22)
    tail = read(begins, total)
    at = tail.rfind(_END)
    while at >= 0 and len(tail) - at < 22:
        at = tail.rfind(_END, 0, at)
    if at < 0:
        return -1, 0, 0
    length, offset = struct.unpack_from("<2L", tail, at + 12)
    ends = begins + at  # of the directory
    locator = read(ends - 20, ends) if ends >= 20 else b""
    if locator.startswith(_LOCATOR):
        where = struct.unpack_from("<Q", locator, 8)[0]
        # What was put in front of an archive moves its parts, and not what they say.
        for place in (where, ends - 20 - 56):
            record64 = read(place, place + 56) if 0 <= place < ends else b""
            if len(record64) == 56 and record64.startswith(_END64):
                length, offset = struct.unpack_from("<2Q", record64, 40)
                ends = place
                break
    start = ends - length
    return (start, length, start - offset) if start >= 0 and length <= total else (-1, 0, 0)


def _zip_member(number: int, fields: tuple[int, ...], name: bytes, extra: bytes, shift: int) -> Member:
    made_by, _, flags, method, _, _, crc, packed, length, _, _, _, _, _, mode, at = fields
    if _IN_EXTRA in (packed, length, at):
        length, packed, at = _zip64(extra, length, packed, at)
    text = _zip_name(name, flags)
    kind = "folder" if text.endswith("/") else "file"
    if made_by >> 8 == 3:  # Unix: the high half has the mode
        kind = _KINDS.get(mode >> 28, kind) if mode >> 28 != 0o10 else kind
    form, why = _METHODS.get(method, ""), ""
    if flags & 1:
        why = "it is encrypted, and there is no password for it here."
    elif not form:
        why = f"it is compressed by method {method}, which is not known here."
    return Member(number, text, length, packed, at + shift, kind, form, crc, "", why)


def _zip_name(name: bytes, flags: int) -> str:
    """Programs on Unix write names as they find them, and do not say that these are UTF-8. What the book has in this
    case, the letters of DOS, looks like UTF-8 in no name that anybody gave.
    """
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("utf-8" if flags & 0x800 else "cp437", "replace")


def _zip64(extra: bytes, length: int, packed: int, at: int) -> tuple[int, int, int]:
    place = 0
    while place + 4 <= len(extra):
        tag, count = struct.unpack_from("<2H", extra, place)
        if tag == 1:
            values = iter(
                struct.unpack_from("<Q", extra, one)[0]
                for one in range(place + 4, min(place + 4 + count, len(extra)) - 7, 8)
            )
            return (
                next(values, length) if length == _IN_EXTRA else length,
                next(values, packed) if packed == _IN_EXTRA else packed,
                next(values, at) if at == _IN_EXTRA else at,
            )
        place += 4 + count
    return length, packed, at


def _zip_walked(read: Read, most: int) -> Listing:
    """Without a directory: from header to header, for as long as each tells its size."""
    members: list[Member] = []
    at = 0
    room = _MOST_OF_NAMES
    while len(members) < most and room > 0:
        head = read(at, at + 30)
        if len(head) < 30 or not head.startswith(_LOCAL):
            break
        version, flags, method, time, date, crc, packed, length, names, extra = _LOCAL_FIELDS.unpack(head)
        room -= names
        name, more = read(at + 30, at + 30 + names), read(at + 30 + names, at + 30 + names + extra)
        fields = (0, version, flags, method, time, date, crc, packed, length, names, extra, 0, 0, 0, 0, at)
        one = _zip_member(len(members) + 1, fields, name, more, 0)
        if flags & 8:
            one = one._replace(why="its size is told behind it, and the archive's directory is missing.")
        members.append(one)
        at += 30 + names + extra + one.packed
        if flags & 8:
            break
    if not members and not read(0, 4).startswith(_LOCAL):
        raise BadMember("it is no zip archive: it has no directory at its end.")
    return Listing(members, "its directory is missing, so it was cut off")


def _zip_bytes(read: Read, member: Member, most: int) -> tuple[Stream, tuple[int, int]]:
    head = read(member.at, member.at + 30)
    if len(head) < 30 or not head.startswith(_LOCAL):
        raise BadMember("there is no member where the directory says.")
    fields = _LOCAL_FIELDS.unpack(head)
    start = member.at + 30 + fields[8] + fields[9]
    local = read(member.at + 30, member.at + 30 + fields[8])
    if _zip_name(local, fields[1]) != member.name:
        raise BadMember("the directory and the member itself name it differently.")
    end = start + member.packed
    stream = Stream(member.form, _read_pieces(read, start, end), most, joined=False)
    return stream, (member.at, end)


def checked(stream: Stream, member: Member) -> Iterator[bytes]:
    """The same pieces; at their end, BadMember where they are not what the archive says of them."""
    crc = 0
    for piece in stream.pieces():
        crc = zlib.crc32(piece, crc)
        if stream.given > member.size:
            raise BadMember(f"it is damaged: it has more than the {plural(member.size, 'byte')} that the archive says.")
        yield piece
    if stream.given < member.size and (stream.is_cut or stream.form == "stored"):
        stream.is_cut = True  # what is missing is told
    elif stream.given < member.size or (member.crc >= 0 and crc != member.crc):
        raise BadMember("it is damaged: its size or its checksum is not what the archive says.")


# ── tar: read by the standard library, a header at a time ───────────────────────────────────────────────────────


_MOST_IN_HEADER = 32 * 1024  # bytes of one extended header; the library takes quadratic time for what is in it
_MOST_OF_HEADERS = 1024 * 1024  # of all that belong to one member
_MOST_OF_NAMES = 16 * 1024 * 1024  # characters of all names that are listed
_NUMBERED = lazy_pattern(r"(#[0-9]+)(!|\Z)")
_MOST_GLOBAL = 100  # entries of headers that hold for all members
_MANY_DIGITS = lazy_pattern(rb"[0-9]{257}")


class _Window:
    """A file, as far as `tarfile` needs one."""

    def __init__(self, read: Read, total: int) -> None:
        self._read = read
        self._total = total
        self._at = 0
        self._left = _MOST_OF_HEADERS

    def begin(self, most: int = _MOST_OF_HEADERS) -> None:
        """So many bytes may be read until this is called again."""
        self._left = most

    def read(self, count: int = -1) -> bytes:
        count = max(0, self._total - self._at) if count < 0 else count
        if count > min(_MOST_IN_HEADER, self._left) and self._left <= _MOST_OF_HEADERS:
            raise BadMember("a header of it is too large.")
        self._left -= count
        data = self._read(self._at, min(self._total, self._at + count))
        self._at += len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        self._at = max(0, place + (self._at if whence == 1 else self._total if whence == 2 else 0))
        return self._at

    def tell(self) -> int:
        return self._at


def _tar_walk(
    read: Read, total: int, problems: list[str]
) -> Iterator[tuple[tarfile.TarFile, _Window, tarfile.TarInfo]]:
    window = _Window(read, total)
    at = 0
    try:
        _check_extended(read, 0)
        tar = tarfile.TarFile(fileobj=window, errorlevel=2)  # type: ignore[arg-type]
        while True:
            window.begin()
            if at:  # the first one is read already
                _check_extended(read, tar.offset)
            info = tar.next()
            if info is None:
                break
            cast("Any", tar).members.clear()  # else it keeps all of them
            if len(tar.pax_headers) > _MOST_GLOBAL:  # they are copied for each member
                raise tarfile.ReadError("more global headers than are read")
            if info.size < 0 or tar.offset <= max(at, info.offset):
                raise tarfile.ReadError("a size that is negative")
            at = tar.offset
            yield tar, window, info
        last = read(tar.offset, tar.offset + 512)
    except (
        tarfile.TarError, BadMember, ValueError, OverflowError, EOFError, IndexError, UnicodeError, RecursionError,
    ) as problem:  # fmt: skip
        problems.append(f"it is cut off or damaged ({_said(problem)})")
        return
    if len(last) < 512:
        problems.append("its end is missing, so it was cut off")
    elif last.strip(b"\0"):
        problems.append(f"what is at byte {tar.offset:,} is no header")


def _check_extended(read: Read, at: int) -> None:
    """The extended headers before the next entry. `tarfile` of some versions looks through their digits in quadratic
    time, holding the interpreter's lock all the while; and it reads each one inside of the one before.
    """
    end, number = at + _MOST_OF_HEADERS, 0
    while at < end and len(head := read(at, at + 512)) == 512 and head[156:157] in (b"x", b"g", b"X", b"L", b"K"):
        if (number := number + 1) > _MOST_EXTENDED:
            raise tarfile.ReadError("more extended headers than are read")
        try:
            written = head[124:136]
            size = int.from_bytes(written[1:]) if written[0] & 0x80 else int(written.strip(b" \0") or b"0", 8)
        except ValueError:  # that is no size, as `tarfile` will say
            return
        is_name = head[156:157] in (b"L", b"K")
        if not 0 <= size <= _MOST_OF_HEADERS or (not is_name and _MANY_DIGITS.search(read(at + 512, at + 512 + size))):
            raise tarfile.ReadError("an extended header that is too long")
        at += 512 + -(-size // 512) * 512


_PLAIN_KINDS = {b"0": "file", b"\0": "file", b"5": "folder", b"2": "link", b"1": "hard link"}
_OCTAL = lazy_pattern(rb"[ 0]{0,12}([0-7]{0,12})[ \0]{1,12}")
_AHEAD = 64 * 1024
_MOST_EXTENDED = 32  # headers of one entry


def _plain_tar_members(read: Read, most: int) -> Listing | None:
    """Those of a tar whose headers are all of the plain form, in a tenth of the time; None for any other."""
    members: list[Member] = []
    data, begins, at = b"", 0, 0
    while len(members) <= most:
        if not begins <= at <= begins + len(data) - 512:
            data, begins = read(at, at + _AHEAD), at
        block = data[at - begins : at - begins + 512]
        if len(block) < 512:
            return None
        if not block.strip(b"\0"):
            return Listing(members) if members else None
        kind, told, length = _PLAIN_KINDS.get(block[156:157]), *map(_OCTAL.fullmatch, (block[148:156], block[124:136]))
        if kind is None or told is None or length is None or block[257:262] != b"ustar" or block[345]:
            return None
        # The sum of all bytes but those of the sum itself: Adler-32 has it, modulo 65,521, in a thirtieth of the time.
        expected = int(told[1] or b"0", 8) - 256 + sum(block[148:156])
        if zlib.adler32(block) & 0xFFFF != (expected + 1) % 65521 or not block[0]:
            return None
        try:
            name = block[:100].partition(b"\0")[0].decode("utf-8")
            target = block[157:257].partition(b"\0")[0].decode("utf-8") if kind.endswith("link") else ""
        except UnicodeDecodeError:
            return None
        if kind == "file" and name.endswith("/"):
            return None
        size = int(length[1] or b"0", 8) if kind == "file" else 0
        if len(members) == most:
            return Listing(members, f"only the first {most:,} are listed")
        name = name.rstrip("/") if kind == "folder" else name
        members.append(Member(len(members) + 1, name, size, 0, at, kind, target=target))
        at += 512 + -(-size // 512) * 512
    return None


def _tar_members(read: Read, total: int, most: int) -> Listing:
    plain = _plain_tar_members(read, most)
    if plain is not None:
        return plain
    problems: list[str] = []
    members: list[Member] = []
    room = _MOST_OF_NAMES
    for _, _, info in _tar_walk(read, total, problems):
        room -= len(info.name) + len(info.linkname)
        if len(members) == most or room < 0:
            return Listing(members, f"only the first {len(members):,} are listed")
        members.append(_tar_member(len(members) + 1, info))
    if not members and problems:
        raise BadMember(f"{problems[0]}.")
    return Listing(members, problems[0] if problems else "")


def _tar_member(number: int, info: tarfile.TarInfo) -> Member:
    kind = (
        "file" if info.isreg() else "folder" if info.isdir() else "link" if info.issym() else "hard link"
        if info.islnk() else "pipe" if info.isfifo() else "device" if info.isdev() else "special entry"
    )  # fmt: skip
    name = info.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    target = (
        info.linkname.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if kind.endswith("link") else ""
    )
    return Member(number, name, info.size if kind == "file" else 0, 0, info.offset, kind, target=target)


def _tar_bytes(read: Read, member: Member, most: int) -> tuple[Stream, tuple[int, int]]:
    """Found again from the beginning: a header may say something about all that follow it."""
    # As far as its own end: what comes behind does not matter.
    for tar, window, info in _tar_walk(read, 1 << 62, []):
        if info.offset == member.at:
            window.begin(1 << 62)
            span = (info.offset, tar.offset)
            sparse = cast("list[tuple[int, int]] | None", info.sparse)
            there = tar.offset - info.offset_data  # its map may claim more
            stored = info.size if sparse is None else min(there, sum(length for _, length in sparse))
            if info.size > max(UNSUSPICIOUS, RATIO * max(1, stored)):
                raise BadMember(
                    f"it is sparse: {info.size:,} bytes, of which {stored:,} are stored. It is not unpacked."
                )
            at = info.offset_data
            whole = _read_pieces(read, at, at + info.size) if info.sparse is None else _sparse_pieces(tar, info)
            return Stream("stored", whole, most), span
        if info.offset > member.at:
            break
    raise BadMember("it cannot be found again.")


def _sparse_pieces(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    file = tar.extractfile(info)
    while file is not None:
        try:
            piece = file.read(PIECE)
        except tarfile.ReadError:  # its end is missing, and that is told
            return
        if not piece:
            return
        yield piece


def _read_pieces(read: Read, start: int, end: int) -> Iterator[bytes]:
    while start < end and (piece := read(start, min(end, start + PIECE))):
        yield piece
        start += len(piece)


def stream_of(form: str, read: Read, total: int, most: int) -> Stream:
    """The content of a gzip, zstd, bzip2 or xz, or of UTF-16 as UTF-8."""
    return Stream(form, _read_pieces(read, 0, total), most)


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────


def member_named(listing: Listing, wanted: str) -> tuple[Member, str | None]:
    """The member that `wanted` begins with, and what is behind the `!` after its name, if there is one.

    `#3` is the third, whatever it is called. Raises BadMember where there is none, or several.
    """
    # A name may have a `!` of its own: the longest one that there is.
    begun = [one for one in listing.members if one.name and wanted.startswith(one.name)]
    begun = [one for one in begun if wanted[len(one.name) : len(one.name) + 1] in ("", "!")]
    longest = max((len(one.name) for one in begun), default=0)
    numbered = _NUMBERED.match(wanted)
    if numbered is not None and numbered.end(1) >= longest:
        number = int(numbered[1][1:12])
        if not 1 <= number <= len(listing.members):
            raise BadMember(f"there is no member {numbered[1][:12]}: {_how_many(listing)}.")
        return listing.members[number - 1], wanted[numbered.end(1) + 1 :] if numbered[2] else None
    found = [one for one in begun if len(one.name) == longest]
    if len(found) > 1:
        numbers = ", ".join(f"#{one.number}" for one in found[:10])
        raise BadMember(
            f"{len(found):,} members are called {named(found[0].name)}: name one by its number ({numbers})."
        )
    if found:
        return found[0], wanted[longest + 1 :] if len(wanted) > longest else None
    name = wanted.partition("!")[0]
    names = [one.name for one in listing.members if one.name]
    near = [one for one in names if name and one.endswith("/" + name)]
    if not near:  # comparing takes a power of the length
        short = {one[-_NAME_COMPARED:]: one for one in names[:_NAMES_COMPARED]}
        near = [short[one] for one in difflib.get_close_matches(name[-_NAME_COMPARED:], short, n=1)]
    hint = f" There is {named(near[0])}." if len(near) == 1 else ""
    raise BadMember(f"no member is called {named(name)}: {_how_many(listing)}, and HANDLE! is the list of them.{hint}")


def _how_many(listing: Listing) -> str:
    least = "at least " if listing.problem else ""
    return f"it has {least}{plural(len(listing.members), 'member')}"


def spelled(listing: Listing, member: Member) -> str:
    """How a member is named behind a handle: by its name where that is short, plain and its own, else by its number."""
    if _PLAIN_NAME.fullmatch(member.name) and sum(one.name == member.name for one in listing.members) == 1:
        return member.name
    return f"#{member.number}"
