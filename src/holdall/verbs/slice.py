"""Cut a piece out by characters: from a position, or around a text that stands in it.

The anchor is a string, never a pattern. `window` is how many characters stand around it, half on each side.
"""

import mmap

import stringzilla

from holdall.store.protocol import OutputReader
from holdall.text.ranges import whole_number
from holdall.values.answers import Passage
from holdall.values.errors import AnchorNotFound, BadRange
from holdall.values.spans import Span
from holdall.verbs.bounds import UNBOUNDED, Bounds
from holdall.verbs.locate import byte_of_char, char_of_byte
from holdall.verbs.read import beginning_of, passage

DEFAULT_WINDOW = 1000


def slice(
    reader: OutputReader,
    *,
    start: int | None = None,
    length: int | None = None,
    anchor: str | None = None,
    window: int = DEFAULT_WINDOW,
    match_index: int = 0,
    bounds: Bounds = UNBOUNDED,
) -> Passage:
    if anchor is not None:
        if start is not None or length is not None:
            raise BadRange("give start and length, or anchor and window, not both.")
        chars = _around(reader, anchor, window, match_index)
    elif start is None and length is None:
        raise BadRange("say what to slice: start and length, or an anchor.")
    else:
        first = whole_number(0 if start is None else start, name="start")
        count = None if length is None else whole_number(length, name="length")
        total = reader.totals.chars
        last = total if count is None else min(first + count, total)
        chars = Span(min(first, total), max(last, min(first, total)))
    return _cut(reader, chars, bounds, past_end=anchor is None and chars.start >= reader.totals.chars)


def _cut(reader: OutputReader, chars: Span, bounds: Bounds, *, past_end: bool) -> Passage:
    span = Span(byte_of_char(reader, chars.start), byte_of_char(reader, chars.end))
    data = beginning_of(reader, span, bounds)
    shown = Span(span.start, span.start + len(data))
    going_on = ""
    if shown.end < span.end:
        at = char_of_byte(reader, shown.end)
        going_on = f"start={at} length={chars.end - at}"
    return passage(reader, shown, data, going_on=going_on, past_end=past_end)


def _around(reader: OutputReader, anchor: str, window: int, match_index: int) -> Span:
    around = whole_number(window, name="window")
    wanted = whole_number(match_index, name="match_index")
    if not anchor:
        raise BadRange("the anchor is empty: give the text to slice around.")
    needle = anchor.encode("utf-8", "surrogatepass")
    byte = _find(reader, needle, wanted)
    first = char_of_byte(reader, byte)
    half = around // 2
    return Span(max(0, first - half), min(reader.totals.chars, first + len(anchor) + half))


def _find(reader: OutputReader, needle: bytes, wanted: int) -> int:
    """Where occurrence `wanted` of `needle` starts, counted from 0 and without overlaps."""
    size = reader.totals.bytes
    if size == 0:
        raise AnchorNotFound
    seen = 0
    with mmap.mmap(reader.fileno(), size, prot=mmap.PROT_READ) as pages, memoryview(pages) as view:
        at = stringzilla.find(view, needle)
        while at >= 0:
            if seen == wanted:
                return at
            seen += 1
            further = stringzilla.find(view, needle, at + len(needle))
            at = further
    if seen:
        raise AnchorNotFound(f"Anchor not found in content: it occurs {seen:,} times (match_index 0 to {seen - 1}).")
    raise AnchorNotFound
