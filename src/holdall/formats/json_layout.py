"""The values that a path names in a JSON text, whether it is one value, several, or one on each line.

A text that turns out to be several values is searched again as such; one value with other text after it is searched
without that text. A fault in the text is part of the answer, with what was found before it; whether that is an answer
or an error is for the caller to say.
"""

import json
from dataclasses import dataclass, replace
from typing import Literal

from holdall.formats.kinds import begins_json
from holdall.text.json.find import Hit, Layout, Scan, SeveralValues
from holdall.text.json.path import JsonPath
from holdall.text.json.reader import ENDED, OPEN_ARRAY, OPEN_OBJECT, Cursor, JsonFault, Read

# What follows the first value of a JSON text: nothing, further values, or text that is not JSON.
#
# Programs print a value and then a word about it, and records are written one after the other. A path counts the first
# as one value, and the second as an array: both who follows paths and who tells of them ask here, so that they agree.


_OPENING = (OPEN_OBJECT, OPEN_ARRAY)
_PARSED = 64 * 1024  # bytes; a longer value is judged by how it begins


@dataclass(frozen=True, slots=True)
class Following:
    """What stands after the first value, which ends at `end`; `after` is where it begins."""

    what: Literal["nothing", "values", "text"]
    end: int
    after: int


def following(read: Read, size: int) -> Following | None:
    """None where the first value is no array or object, or not a whole one."""
    cursor = Cursor(read, size)
    if cursor.peek() not in _OPENING:
        return None
    start = cursor.place
    try:
        cursor.pass_value()
    except JsonFault:
        return None
    end = cursor.place
    if cursor.peek() == ENDED:
        return Following("nothing", end, cursor.place)
    if not _is_json(read, start, end):
        return None
    after = cursor.place
    return Following("values" if _goes_on(read, size, after) else "text", end, after)


def is_followed_by_text(read: Read, size: int, end: int, after: int) -> bool:
    """Whether what ends at `end` is an array or object, and what stands from `after` on is not JSON."""
    cursor = Cursor(read, size)
    is_container = cursor.peek() in _OPENING and _is_json(read, cursor.place, end)
    return is_container and not _goes_on(read, size, after)


def _goes_on(read: Read, size: int, after: int) -> bool:
    """Whether what stands from `after` on are values too: up to the first array or object, or else up to the end.

    A number may begin a sentence (`3 files written`), and a bracket a line of a log (`[ok] done`). A value that only
    the end of the text cuts off is one.
    """
    cursor = Cursor(read, size, start=after)
    while (sign := cursor.peek()) != ENDED:
        start = cursor.place
        try:
            cursor.pass_value(strictly=True)
        except JsonFault as fault:
            return fault.ended and sign in _OPENING and begins_json(_text(read, start, size))
        if sign in _OPENING:
            return _is_json(read, start, cursor.place)
    return True


def _text(read: Read, start: int, end: int) -> str:
    return read(start, min(end, start + _PARSED)).decode("utf-8", "replace")


def _is_json(read: Read, start: int, end: int) -> bool:
    """Its brackets are known to be balanced, which those of `[12:00:01]` are too."""
    text = _text(read, start, end)
    if end - start > _PARSED:
        return begins_json(text)
    try:
        json.loads(text, strict=False, parse_int=str)  # as text: Python refuses to read very long numbers
    except RecursionError:
        return begins_json(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Finding:
    hits: tuple[Hit, ...]
    total: int  # of all values, asked for or not
    layout: Layout
    scan: Scan
    fault: JsonFault | None = None  # where the text stops being JSON; nothing after it was searched
    text_from: int | None = None  # where other text begins after the one value; it was not searched


def find(read: Read, size: int, path: JsonPath, *, lines: bool, first: int = 0, limit: int | None = None) -> Finding:
    """The hits from number `first` on, at most `limit`. `lines`: each line is a value, and all of them an array."""
    if lines:
        return _find(read, size, path, "lines", first, limit)
    try:
        return _find(read, size, path, "one", first, limit)
    except SeveralValues as more:
        if not is_followed_by_text(read, size, more.end, more.after):
            return _find(read, size, path, "several", first, limit)
        found = _find(read, more.end, path, "one", first, limit)
        return replace(found, text_from=more.after)


def _find(read: Read, size: int, path: JsonPath, layout: Layout, first: int, limit: int | None) -> Finding:
    scan = Scan(read, size, path, layout=layout)
    hits: list[Hit] = []
    fault: JsonFault | None = None
    try:
        for hit in scan.hits(first, limit):
            hits.append(hit)  # one by one: what came before a fault stays
    except JsonFault as found:
        fault = found
    whole = tuple(hit for hit in hits if hit.end >= 0)
    return Finding(whole, scan.total, layout, scan, fault)
