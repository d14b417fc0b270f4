"""What kind of thing an output is, told from its beginning and its end.

A guess from a sample, made once; the whole output is never read for it. The names are those of `values.facts.Kind`.
"""

import csv
import json
import re
from collections import Counter

import stringzilla

from holdall.values.outputs import Kind

SAMPLE = 64 * 1024  # bytes of the beginning that are looked at
TAIL = 1024  # bytes of the end that are looked at

_HTML = re.compile(r"<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE | re.ASCII)
_DIFF = re.compile(r"^(?:diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(?:,\d+)? \+\d+|Index: )", re.MULTILINE | re.ASCII)
_DIFF_MARKS = (b"diff --git ", b"+++ ", b"@@ -", b"Index: ")  # one of these is in whatever the pattern finds
_MARKDOWN = re.compile(
    # No run without a bound and none over newlines: blank lines or open brackets would make it quadratic.
    r"^(?:#{1,6} \S|[ \t]{0,16}[-*+] \S|[ \t]{0,16}\d{1,9}\. \S|```|\|.*\|[ \t]*$|> )"
    r"|\[[^\]\n]{1,100}\]\([^)\n]{1,200}\)",
    re.MULTILINE,
)
_HEADING = re.compile(r"^#{1,6} \S", re.MULTILINE)
_STAMP = re.compile(
    r"^\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d[:/.-]\d\d[:/.-]\d\d"
    r"|\[?\d+\.\d{3,}s?\]?[ \t\[]|\d{10,13}[ .,])",
    re.ASCII,
)
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE)\b", re.ASCII)
_FIRST_ELEMENT = re.compile(
    r'\s*(?:["{[]|\]\s*\Z|\Z|(?:-?[0-9][-+.0-9eE]*|true|false|null|NaN|-?Infinity)\s*(?:,|\]\s*\Z|\Z))', re.ASCII
)
_DELIMITERS = (",", "\t", ";", "|")


def kind_of(head: bytes, tail: bytes, *, whole: bool, valid: bool) -> Kind:
    """`head` and `tail` may overlap; `whole` says that `head` is all there is; `valid` that all of it is UTF-8."""
    if _looks_binary(head, valid):
        return "binary"
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    start = text.lstrip()
    if not start:
        return "text"
    *lines, last = text.split("\n")
    lines = list(filter(str.strip, lines))
    if last.strip() and (whole or not lines):  # cut off in the middle it is better than nothing, and no more
        lines.append(last)
    if start[0] in "{[":
        if _is_ndjson(lines, whole):
            return "ndjson"
        if tail.rstrip()[-1:] == (b"}" if start[0] == "{" else b"]") and begins_json(start):
            return "json"
    if "<" in start[:4096] and _HTML.search(start[:4096]):
        return "html"
    if _is_diff(head, text, lines):
        return "diff"
    sample = lines[:200]
    stamped = sum(map(bool, map(_STAMP.match, sample))) * 3 >= len(sample)
    # `2026-01-01 00:00:00,123 INFO up`: a log has the same sign on every line too, but no names above its lines.
    if not (stamped and _STAMP.match(lines[0])) and delimiter_of(lines) is not None:
        return "csv"
    if stamped:
        return "log"
    if len(sample) > 3 and sum(bool(_LEVEL.search(line[:200])) for line in sample) * 2 >= len(sample):
        return "log"
    if _HEADING.search(text) and len(_MARKDOWN.findall(text)) * 8 >= len(lines):
        return "markdown"
    return "text"


def _is_diff(head: bytes, text: str, lines: list[str]) -> bool:
    if not any(stringzilla.find(head, mark) >= 0 for mark in _DIFF_MARKS):
        return False
    return bool(_DIFF.search(text)) and sum(line[:1] in "+-@" for line in lines) * 5 > len(lines)


def delimiter_of(lines: list[str]) -> str | None:
    """The sign that parts the same number of columns (two or more) on nearly every line, or None."""
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


def begins_json(start: str) -> bool:
    """Cheap: what follows the opening bracket can follow one. `[12:00:01] up [ok]` is a log, not an array."""
    if start[0] == "[":
        return _FIRST_ELEMENT.match(start, 1) is not None
    return start[1:].lstrip()[:1] in ("", '"', "}")


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


def _looks_binary(head: bytes, valid: bool) -> bool:
    if not head:
        return False
    if b"\x00" in head[:8192]:
        return True
    if valid:
        return False
    # Text in another encoding, or with a few stray bytes, is still text: only a flood of them makes it binary.
    sample = head[:8192]
    stray = sample.decode("utf-8", "replace").count("\ufffd") + sum(byte < 9 or 13 < byte < 27 for byte in sample)
    return stray * 10 > len(sample)


def _is_ndjson(lines: list[str], whole: bool) -> bool:
    if len(lines) < 2:
        # One line says nothing of the rest, unless the rest is known to start anew.
        return False
    for line in lines[:20]:  # the first of them is an array or object, the others may be any value
        try:
            json.loads(line, parse_int=str)  # as text: Python refuses to read very long numbers
        except RecursionError:
            return False
        except ValueError:
            return False
    return whole or len(lines) > 1
