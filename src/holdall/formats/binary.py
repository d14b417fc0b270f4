"""Bytes that are not text: what they are by their first bytes, and a few strings inside."""

import re
from collections.abc import Callable
from itertools import islice

from holdall.formats.outline import Lead, Outline, Room, Sample, cut, fitted
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

_STRINGS = lazy_pattern(rb"[\x20-\x7e]{12,200}+")
_STRINGS_IN = 64 * 1024
_WORD = lazy_pattern(r"[A-Za-z]\w{4,30}", re.ASCII)
_PDF_PAGES = lazy_pattern(rb"/Type\s{0,3}/Page\b(?!s)")
_ELF_KINDS = {1: "relocatable", 2: "executable", 3: "shared object", 4: "core dump"}
_ELF_MACHINES = {3: "x86", 40: "ARM", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}


def binary_outline(sample: Sample, room: Room) -> Outline:
    head = sample.head[:4096]
    label, detail = _type(head, sample)
    told = [f"{label}{': ' + detail if detail else ''}"]
    strings = list(dict.fromkeys(found[0].decode("ascii").strip() for found in _found(sample)))
    if strings:
        told.append("texts in it: " + " · ".join(f'"{cut(text, 60)}"' for text in strings[:4]))
    word = next((found[0] for found in map(_WORD.search, strings) if found), "")
    leads = (Lead("grep", {"pattern": word}),) if word else ()
    return Outline(label, fitted(told, room), not sample.whole, (), leads=leads)


def _found(sample: Sample) -> list[re.Match[bytes]]:
    return list(islice(_STRINGS.finditer(sample.head, 0, _STRINGS_IN), 12))


def _type(head: bytes, sample: Sample) -> tuple[str, str]:
    for magic, label, tell in _MAGIC:
        if head.startswith(magic):
            return label, tell(head, sample) if tell else ""
    if head[:4] == b"RIFF":
        form = {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(head[8:12], "RIFF file")
        return form, _webp(head) if head[8:12] == b"WEBP" else ""
    if head[4:8] == b"ftyp":
        brand = head[8:12].decode("latin-1").strip()
        return ("HEIF image" if brand in ("heic", "avif", "mif1") else "MP4 video"), f"brand {brand}"
    if head[257:262] == b"ustar":
        return "tar archive", f"first file {_text(head[:100])}"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        end = "little" if head[0] == 0xFF else "big"
        text = head[2:202].decode(f"utf-16-{end[0]}e", "ignore")
        return "UTF-16 text", f'{end} endian: "{cut(text, 60)}"'
    return "binary", f"begins {head[:8].hex(' ')}" if head else "empty"


def _text(data: bytes) -> str:
    return '"' + cut(data.split(b"\0\0\0")[0].rstrip(b"\0").decode("utf-8", "replace"), 60) + '"'


def _png(head: bytes, _: Sample) -> str:
    return f"{int.from_bytes(head[16:20], 'big')} × {int.from_bytes(head[20:24], 'big')} px"


def _gif(head: bytes, _: Sample) -> str:
    return f"{int.from_bytes(head[6:8], 'little')} × {int.from_bytes(head[8:10], 'little')} px"


def _bmp(head: bytes, _: Sample) -> str:
    return f"{int.from_bytes(head[18:22], 'little')} × {abs(int.from_bytes(head[22:26], 'little', signed=True))} px"


def _jpeg(_: bytes, sample: Sample) -> str:
    data, at = sample.head[:_STRINGS_IN], 2
    while at + 9 < len(data) and data[at] == 0xFF:
        if data[at + 1] in (0xC0, 0xC1, 0xC2):
            return f"{int.from_bytes(data[at + 7 : at + 9], 'big')} × {int.from_bytes(data[at + 5 : at + 7], 'big')} px"
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return ""


def _webp(head: bytes) -> str:
    match head[12:16]:
        case b"VP8X":
            wide, high = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            wide, high = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            wide, high = (int.from_bytes(head[at : at + 2], "little") & 0x3FFF for at in (26, 28))
        case _:
            return ""
    return f"{wide} × {high} px"


def _pdf(head: bytes, sample: Sample) -> str:
    version = head[5:8].decode("latin-1")
    pages = sum(len(_PDF_PAGES.findall(data)) for _, data in sample.pieces)
    return f"version {version}" + (f", {'' if sample.whole else 'at least '}{plural(pages, 'page')}" if pages else "")


def _zip(head: bytes, sample: Sample) -> str:
    end = sample.tail.rfind(b"PK\x05\x06")
    entries = int.from_bytes(sample.tail[end + 10 : end + 12], "little") if end >= 0 else 0
    length = int.from_bytes(head[26:28], "little")
    first = _text(head[30 : 30 + length])
    return f"{plural(entries, 'entry').replace('entrys', 'entries')}, first {first}" if entries else f"first {first}"


def _sqlite(head: bytes, _: Sample) -> str:
    page = int.from_bytes(head[16:18], "big") or 0
    pages = int.from_bytes(head[28:32], "big")
    return f"{pages:,} pages of {65536 if page == 1 else page:,} bytes"


def _elf(head: bytes, _: Sample) -> str:
    order = "little" if head[5:6] == b"\x01" else "big"
    kind, machine = (int.from_bytes(head[at : at + 2], order) for at in (16, 18))
    bits = "64" if head[4:5] == b"\x02" else "32"
    return f"{bits}-bit {_ELF_KINDS.get(kind, 'file')}, {_ELF_MACHINES.get(machine, f'machine {machine}')}"


def _gzip(head: bytes, _: Sample) -> str:
    if len(head) <= 10 or not head[3] & 8:
        return ""
    return "of " + _text(head[10:].split(b"\0")[0])


_Tell = Callable[[bytes, Sample], str]
_MAGIC: tuple[tuple[bytes, str, _Tell | None], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image", _png),
    (b"\xff\xd8\xff", "JPEG image", _jpeg),
    (b"GIF8", "GIF image", _gif),
    (b"BM", "BMP image", _bmp),
    (b"II*\0", "TIFF image", None),
    (b"MM\0*", "TIFF image", None),
    (b"%PDF-", "PDF", _pdf),
    (b"PK\x03\x04", "ZIP archive", _zip),
    (b"PK\x05\x06", "ZIP archive", None),
    (b"\x1f\x8b", "gzip data", _gzip),
    (b"\x28\xb5\x2f\xfd", "zstd data", None),
    (b"BZh", "bzip2 data", None),
    (b"\xfd7zXZ\0", "xz data", None),
    (b"7z\xbc\xaf\x27\x1c", "7z archive", None),
    (b"\x7fELF", "ELF", _elf),
    (b"SQLite format 3\0", "SQLite database", _sqlite),
    (b"\0asm", "WebAssembly module", None),
    (b"\xca\xfe\xba\xbe", "Java class", None),
    (b"PAR1", "Parquet file", None),
    (b"ID3", "MP3 audio", None),
    (b"\xff\xfb", "MP3 audio", None),
    (b"OggS", "Ogg media", None),
    (b"fLaC", "FLAC audio", None),
    (b"\x1aE\xdf\xa3", "Matroska video", None),
    (b"MZ", "Windows executable", None),
    (b"\x80\x04\x95", "Python pickle", None),
    (b"\x93NUMPY", "NumPy array", None),
    (b"wOFF", "WOFF font", None),
    (b"wOF2", "WOFF2 font", None),
)
