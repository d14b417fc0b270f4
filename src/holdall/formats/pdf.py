"""PDF files, for their notice: the version and how many pages the file says it has. The text is read elsewhere."""

import importlib.util
import zlib
from collections import deque
from itertools import islice

from holdall.formats.outline import Lead, Outline, Room, Sample, fitted
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

_MOST_UNPACKED = 4 * 1024 * 1024  # bytes, of all that is compressed
_OBJECTS = lazy_pattern(rb"/Type\s{0,3}/ObjStm\b[^>]{0,300}>>\s{0,5}stream\r?\n")
_TREE = lazy_pattern(rb"/Type\s{0,3}/Pages\b")
_VERSION = lazy_pattern(rb"%PDF-(\d\.\d)")
_COUNT = lazy_pattern(rb"/Count\s{1,3}(\d{1,9})\b")
_AROUND = 4 * 1024  # bytes of a dictionary
_MOST = 200  # places that are looked at; of trees the last ones count


def pdf_outline(sample: Sample, room: Room) -> Outline:
    found = _VERSION.match(sample.head)
    version = f" {found[1].decode()}" if found else ""
    count = _pages(sample.head) if sample.whole else None
    told = f"PDF{version}" + (f", {plural(count, 'page')} as it says itself" if count is not None else "")
    if importlib.util.find_spec("pypdf") is None:
        told += "; its text needs the package 'pypdf': pip install 'holdall[pdf]'"
        return Outline("PDF", fitted([told], room), sampled=False, errors=())
    leads = (Lead("read", {"bytes": "0:800"}, "!page-1"), Lead("read", {"bytes": "0:800"}, "!"))
    return Outline("PDF", fitted([told], room), sampled=False, errors=(), leads=leads)


def _pages(data: bytes) -> int | None:
    """Of the last tree of pages that has no tree above it; None where none is found."""
    parts, left = [data], _MOST_UNPACKED
    for match in islice(_OBJECTS.finditer(data), _MOST):
        try:
            packed = memoryview(data)[match.end() : match.end() + _MOST_UNPACKED]
            parts.append(zlib.decompressobj().decompress(packed, left))
        except zlib.error:
            continue
        left -= len(parts[-1])
        if left <= 0:
            break
    count = None
    for part in parts:
        for match in deque(_TREE.finditer(part), _MOST):
            start = max(part.rfind(b"<<", max(0, match.start() - _AROUND), match.start()), 0)
            end = part.find(b">>", match.end(), match.end() + _AROUND)
            inside = part[start : end if end >= 0 else match.end()]
            found = _COUNT.search(inside)
            if found and b"/Parent" not in inside:
                count = int(found[1])
    return count
