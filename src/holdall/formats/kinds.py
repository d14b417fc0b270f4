"""How kinds of outputs are recognised, from their beginning and their end.

A guess from a sample, made once; the whole output is never read for it. `formats.registry` says in which order these
are asked, and what else belongs to a kind.
"""

import json
import re
from collections import Counter
from functools import cached_property

import stringzilla

from holdall.formats.heads import begins_with_time, has_level, request
from holdall.formats.outline import spread
from holdall.text.json.reader import begins_json
from holdall.values.patterns import lazy_pattern

SAMPLE = 64 * 1024  # bytes of the beginning that are looked at
TAIL = 1024  # bytes of the end that are looked at

_HTML = lazy_pattern(r"<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE | re.ASCII)
_DIFF = lazy_pattern(r"^(?:diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(?:,\d+)? \+\d+|Index: )", re.MULTILINE | re.ASCII)
_DIFF_MARKS = (b"diff --git ", b"+++ ", b"@@ -", b"Index: ")  # one of these is in whatever the pattern finds
_MARKDOWN = lazy_pattern(
    # No run without a bound and none over newlines: blank lines or open brackets would make it quadratic.
    r"^(?:#{1,6} \S|[ \t]{0,16}[-*+] \S|[ \t]{0,16}\d{1,9}\. \S|```|\|.*\|[ \t]*$|> )"
    r"|\[[^\]\n]{1,100}\]\([^)\n]{1,200}\)",
    re.MULTILINE,
)
_HEADING = lazy_pattern(r"^#{1,6} \S", re.MULTILINE)
_LOOKED_AT = 200  # lines by which logs are told
_LINE = 300  # characters of each
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PAR1", "parquet"),
    (b"ARROW1\0\0", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"SQLite format 3\0", "sqlite"),
    (b"%PDF-", "pdf"),
)
PACKED = ("gzip", "zstd", "bzip2", "xz", "zip", "tar")
_DELIMITERS = (",", "\t", ";", "|")


class Ends:
    """The two ends of an output, as the recognisers look at them. What several of them need is made once."""

    def __init__(self, head: bytes, tail: bytes, *, whole: bool, valid: bool) -> None:
        """`head` and `tail` may overlap; `whole`: `head` is all there is; `valid`: all of the output is UTF-8."""
        self.head, self.tail, self.whole, self.valid = head, tail, whole, valid

    @cached_property
    def text(self) -> str:
        return self.head.decode("utf-8", "replace").removeprefix("\ufeff")

    @cached_property
    def magic(self) -> str:
        """The kind that its first bytes are the mark of, if any; of some also the end must be as it should."""
        return next((kind for sign, kind in _MAGIC if self.head.startswith(sign) and self._ends_as(kind)), "") or (
            "tar" if is_tar(self.head) else ""
        )

    def _ends_as(self, kind: str) -> bool:
        end = self.tail or self.head
        match kind:
            case "parquet":
                return end.endswith(b"PAR1")
            case "pdf":
                return b"%%EOF" in end
            case "gzip":
                return self.head[2:3] == b"\x08"
            case "bzip2":
                return self.head[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
            case "arrow":
                return self.head.startswith(b"ARROW1\0\0") or _is_arrow_stream(self.head)
            case _:
                return True

    @cached_property
    def start(self) -> str:
        return self.text.lstrip()

    @cached_property
    def lines(self) -> list[str]:
        """Those that are not blank. A last line that is cut off is left out where there is another."""
        *lines, last = self.text.split("\n")
        lines = list(filter(str.strip, lines))
        return [*lines, last] if last.strip() and (self.whole or not lines) else lines

    @cached_property
    def stamped(self) -> bool:
        """Whether a third of the lines begin with a time."""
        return sum(map(begins_with_time, self.sampled)) * 3 >= len(self.sampled)

    @cached_property
    def sampled(self) -> list[str]:
        """Some of the lines, spread evenly over the beginning."""
        return [line[:_LINE] for line in spread(self.lines, _LOOKED_AT)]


def _is_arrow_stream(head: bytes) -> bool:
    """Whether the first message, a table of flatbuffers, says that it is a schema."""
    if len(head) < 64 or int.from_bytes(head[4:8], "little") % 8:
        return False
    table = 8 + int.from_bytes(head[8:12], "little")
    fields = table - int.from_bytes(head[table : table + 4], "little", signed=True)
    at = int.from_bytes(head[fields + 6 : fields + 8], "little") if 8 <= fields < len(head) else 0
    return at > 0 and head[table + at : table + at + 1] == b"\1"


def is_tar(head: bytes) -> bool:
    """By the checksum of its first header, which also the oldest tars have."""
    block = head[:512]
    told = block[148:156].strip(b" \0")
    if len(block) < 512 or not block[0] or not (told.isdigit() and told.isascii()):
        return False
    rest = block[:148] + b" " * 8 + block[156:]
    return told.lstrip(b"0") in (b"%o" % sum(rest), b"%o" % max(0, sum(byte - 256 * (byte > 127) for byte in rest)))


def is_binary(ends: Ends) -> bool:
    head = ends.head
    if not head:
        return False
    if b"\x00" in head[:8192]:
        return True
    if ends.valid:
        return False
    # Text in another encoding, or with a few stray bytes, is still text: only a flood of them makes it binary.
    sample = head[:8192]
    stray = sample.decode("utf-8", "replace").count("\ufffd") + sum(byte < 9 or 13 < byte < 27 for byte in sample)
    return stray * 10 > len(sample)


def is_blank(ends: Ends) -> bool:
    return not ends.start


def is_ndjson(ends: Ends) -> bool:
    lines = ends.lines
    if ends.start[0] not in "{[" or len(lines) < 2:  # one line says nothing of the rest
        return False
    for line in lines[:20]:  # the first of them is an array or object, the others may be any value
        try:
            json.loads(line, parse_int=str)  # as text: Python refuses to read very long numbers
        except (ValueError, RecursionError):
            return False
    return True


def is_json(ends: Ends) -> bool:
    start = ends.start
    closing = {"{": b"}", "[": b"]"}.get(start[0])
    return closing is not None and ends.tail.rstrip()[-1:] == closing and begins_json(start)


def is_html(ends: Ends) -> bool:
    return "<" in ends.start[:4096] and _HTML.search(ends.start[:4096]) is not None


def is_diff(ends: Ends) -> bool:
    if not any(stringzilla.find(ends.head, mark) >= 0 for mark in _DIFF_MARKS):
        return False
    lines = ends.lines
    return bool(_DIFF.search(ends.text)) and sum(line[:1] in "+-@" for line in lines) * 5 > len(lines)


def is_csv(ends: Ends) -> bool:
    # `2026-01-01 00:00:00,123 INFO up`: a log has the same sign on every line too, but no names above its lines.
    return not (ends.stamped and begins_with_time(ends.lines[0][:_LINE])) and delimiter_of(ends.lines) is not None


def is_access_log(ends: Ends) -> bool:
    """Of a web server."""
    if '] "' not in ends.start[:4096]:  # between the time and the request
        return False
    return sum(request(line.encode()) is not None for line in ends.sampled) * 2 > len(ends.sampled)


def is_log(ends: Ends) -> bool:
    if ends.stamped:
        return True
    sample = ends.sampled
    return len(sample) > 3 and sum(map(has_level, sample)) * 2 >= len(sample)


def is_markdown(ends: Ends) -> bool:
    return bool(_HEADING.search(ends.text)) and len(_MARKDOWN.findall(ends.text)) * 8 >= len(ends.lines)


def delimiter_of(lines: list[str]) -> str | None:
    """The sign that parts the same number of columns (two or more) on nearly every line, or None."""
    import csv  # noqa: PLC0415 - what is asked most is whether a short text fits

    rows = lines[:50]
    if len(rows) < 2:
        return None
    for sign in _DELIMITERS:
        header = rows[0].split(sign)
        if len(header) < 2 or not all(0 < len(name.strip()) <= 64 and len(name.split()) <= 5 for name in header):
            continue
        try:
            widths = Counter(map(len, csv.reader(rows, delimiter=sign, strict=False)))
        except csv.Error:
            continue
        width, hits = widths.most_common(1)[0]
        if width >= 2 and hits * 10 >= len(rows) * 9 and len(header) == width:
            return sign
    return None


def json_complaint(text: str) -> str | None:
    """Why `text` is not strict JSON though most readers take it, or None."""
    try:
        json.loads(text, parse_constant=_refuse_constant, parse_int=str)
    except _NotStrictError as constant:
        return f"not strict JSON: it has {constant}"
    except RecursionError:
        return None
    except ValueError as problem:
        return f"not valid JSON: {problem}"
    return None


class _NotStrictError(Exception):
    pass


def _refuse_constant(name: str) -> float:
    raise _NotStrictError(name)
