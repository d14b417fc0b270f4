"""Read a range of an output: by lines, bytes or characters, from its end, or around a text that is in it; and how large
an answer may be. Whatever the shape of the output, every byte can be reached.
"""

import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import stringzilla

from holdall.formats.registry import format_of
from holdall.store import deadline
from holdall.store.protocol import OutputReader
from holdall.store.reader import byte_of_char, byte_of_line, char_of_byte, chars_of, line_of_byte, lines_of
from holdall.text import ranges
from holdall.text.escape import ended_as, foreign
from holdall.text.excerpt import beginning, ending
from holdall.text.numbers import plural
from holdall.text.ranges import whole_number
from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.text.utf8 import decode, split_character
from holdall.values.answers import Found, Nodes, Passage, Table
from holdall.values.errors import AnchorNotFound, BadRange, OutputDamaged, UsageError
from holdall.values.outputs import Measure
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.values.spans import Ask, Span
from holdall.wire.verbs import DEFAULT_LINES, DEFAULT_WINDOW

if TYPE_CHECKING:
    from holdall.sql.worker import SqlWorker

# How large an answer may be, and how bytes are cut to fit: at a line end, or in a long line at a character.
#
# A cut is never silent: the answer says where to continue.


@record
class Bounds:
    """None means no bound. Tokens need a tokenizer to be counted with.

    `settings` bound the work itself, its seconds and its memory, by default with their defaults; `worker` is the
    session's process for SQL; `open` gives another output of the session. `each` gets all that grep and query find, in
    parts, as it is found: then there is no limit, and the answer has only the totals. With `counted_later` the caller
    counts the tokens of what is found and leaves out what is too much, so that only one match, value or row has to fit
    by the estimate. With `whole` what the caller sets no limit to has none.
    """

    most_bytes: int | None = 16 * 1024
    most_tokens: int | None = None
    tokenizer: Tokenizer | None = None
    settings: Settings | None = None
    worker: "Callable[[], SqlWorker] | None" = None
    counted_later: bool = False
    open: Callable[[str], AbstractContextManager[OutputReader]] | None = None
    each: "Callable[[Found | Table | Nodes], object] | None" = None
    whole: bool = False

    def fits(self, data: bytes) -> bool:
        return (self.most_bytes is None or len(data) <= self.most_bytes) and self._in_tokens(data) == len(data)

    def share(self, measure: Measure) -> int | None:
        """Bytes for an answer that is not counted token by token: by the mix of this very output."""
        if self.most_bytes is None or self.most_tokens is None:
            return self.most_bytes
        per_token = measure.bytes / measure.tokens if measure.tokens else 4.0
        return max(min(256, self.most_bytes), min(self.most_bytes, int(self.most_tokens * per_token)))

    def first(self, data: bytes) -> bytes:
        """The longest beginning that fits: whole lines where at least one fits, else whole characters."""
        kept = data if self.most_bytes is None else beginning(data, self.most_bytes).data
        while (size := self._in_tokens(kept)) < len(kept):
            kept = beginning(kept, size).data
        return (kept[: kept.rfind(b"\n") + 1] or kept) if len(kept) < len(data) else kept

    def last(self, data: bytes) -> bytes:
        """The longest ending that fits, likewise."""
        kept = data if self.most_bytes is None else ending(data, self.most_bytes).data
        while (size := self._in_tokens(kept)) < len(kept):
            kept = ending(kept, size).data
        is_inside = len(kept) < len(data) and data[len(data) - len(kept) - 1 :][:1] != b"\n"
        return (kept.partition(b"\n")[2] or kept) if is_inside else kept

    def _in_tokens(self, data: bytes) -> int:
        """How many of these bytes to show for their tokens: all where they fit, else a little under the proportional
        share, so that two or three rounds are enough.
        """
        if self.most_tokens is None or self.tokenizer is None or len(data) <= self.most_tokens:
            return len(data)
        tokens = count_in_pieces(self.tokenizer, data.decode("utf-8", "replace"))
        return len(data) if tokens <= self.most_tokens else max(1, int(len(data) * self.most_tokens / tokens * 0.97))


UNBOUNDED = Bounds(most_bytes=None)


# Read a range: by lines, bytes or characters, whatever the shape of the output.
#
# An answer that is bounded ends at a line end where it can; a line that is longer than the answer is continued by its
# byte offset. `Target` is the range found, before a byte of it is read: a command streams it, however large it is.


_HEX_LOOK = 128  # bytes


@record
class Target:
    """A range of one output in bytes, and how it was asked for."""

    span: Span
    unit: str
    end: str  # the end as it was asked for, in its own unit; empty if it was open
    past_end: bool


def locate(reader: OutputReader, *, lines: object = None, bytes: object = None, chars: object = None) -> Target:
    """At most one of the three; none means everything, by lines."""
    given = [
        (unit, value) for unit, value in (("lines", lines), ("bytes", bytes), ("chars", chars)) if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"give one range, not {' and '.join(unit for unit, _ in given)}.")
    unit, value = given[0] if given else ("lines", ":")
    wanted = ranges.ask(value, unit=unit)
    totals = reader.totals
    asked_end = "" if wanted.end is None else str(wanted.end)
    if unit == "lines":
        found = ranges.resolve_lines(wanted, totals.lines)
        if found is None:
            return Target(Span(totals.bytes, totals.bytes), unit, asked_end, past_end=True)
        span = Span(byte_of_line(reader, found.start), byte_of_line(reader, found.end + 1))
        return Target(span, unit, asked_end, past_end=False)
    total = totals.bytes if unit == "bytes" else totals.chars
    span = ranges.resolve_offsets(wanted, total, unit=unit)
    past_end = (wanted.start or 0) >= total
    if unit == "chars":
        span = Span(byte_of_char(reader, span.start), byte_of_char(reader, span.end))
    return Target(span, unit, asked_end, past_end)


def read(
    reader: OutputReader,
    *,
    lines: object = None,
    bytes: object = None,
    chars: object = None,
    bounds: Bounds = UNBOUNDED,
) -> Passage:
    target = locate(reader, lines=lines, bytes=bytes, chars=chars)
    span = target.span
    is_binary = format_of(reader.facts.measure.kind).is_binary
    if is_look := target.unit == "lines" and bounds.most_tokens is not None and is_binary:
        # Lines of what is no text are none: a look at their bytes, which cost more tokens than they are.
        span = Span(span.start, min(span.end, span.start + _HEX_LOOK))
    data = beginning_of(reader, span, bounds)
    if span.end < target.span.end and len(data) == span.end - span.start:
        data = data[: len(data) - _split_end(reader, span.end)]
    shown = Span(span.start, span.start + len(data))
    going_on = ""
    if shown.end < target.span.end:
        going_on = f"bytes={shown.end}:{target.span.end}" if is_look else _next(reader, target, shown)
    return passage(reader, shown, data, going_on=going_on, past_end=target.past_end)


def beginning_of(reader: OutputReader, span: Span, bounds: Bounds) -> bytes:
    """As much of the span as an answer holds. Reads one byte more: that tells whether the cut is at its end."""
    end = span.end if bounds.most_bytes is None else min(span.end, span.start + bounds.most_bytes + 1)
    return bounds.first(reader.read(span.start, end))


def passage(
    reader: OutputReader,
    span: Span,
    data: bytes,
    *,
    going_on: str = "",
    past_end: bool = False,
    notes: tuple[str, ...] = (),
) -> Passage:
    """Bytes that were read, as an answer."""
    text, exact = decode(data)
    facts = reader.facts
    notes = (*notes, *ended_as(facts.state, facts.error))
    if facts.state == "running":
        notes = (*notes, f"still running; {reader.totals.bytes:,} bytes so far")
    return Passage(
        handle=facts.handle,
        data=data,
        text=text,
        bytes=span,
        chars=chars_of(reader, span),
        lines=lines_of(reader, span),
        total=reader.totals,
        state=facts.state,
        next=going_on,
        exact=exact,
        past_end=past_end,
        notes=notes,
        split=(0, 0) if exact else (_split_start(reader, span, data), _split_end(reader, span.end)),
    )


def _split_start(reader: OutputReader, span: Span, data: bytes) -> int:
    """How many bytes at the beginning of a range continue a character that begins before it."""
    if data[0] & 0xC0 != 0x80:
        return 0
    try:
        return min(len(data), split_character(reader.read(span.start - 3, span.start), data[:3])[1])
    except OutputDamaged:  # the block before: as `chars_of` takes it
        return next((at for at, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(3, len(data)))


def _split_end(reader: OutputReader, end: int) -> int:
    """How many bytes before this one are of a character that goes on behind it."""
    try:
        return split_character(reader.read(end - 3, end), reader.read(end, end + 3))[0]
    except OutputDamaged:  # of a block that is beside what was read
        return 0


def _next(reader: OutputReader, target: Target, shown: Span) -> str:
    """The range that follows what is shown, as this verb takes it."""
    at = shown.end
    if target.unit == "lines" and at > 0 and reader.read(at - 1, at) == b"\n":
        return f"lines={line_of_byte(reader, at)}:{target.end}"
    if target.unit == "chars":
        return f"chars={chars_of(reader, Span(at, at)).start}:{target.end}"
    # Inside a long line there is no line number to continue from.
    return f"bytes={at}:{target.end if target.unit == 'bytes' else target.span.end}"


# The end of an output: its last lines, or as much of them as an answer holds.
#
# Where not all of it fits, the end wins; `next` is the range just before it.


def tail(reader: OutputReader, lines: int = DEFAULT_LINES, *, bounds: Bounds = UNBOUNDED) -> Passage:
    count = whole_number(lines, name="the number of lines")
    if count == 0 or reader.totals.bytes == 0:
        end = reader.totals.bytes
        return passage(reader, Span(end, end), b"", past_end=True)
    span = locate(reader, lines=Ask(-count, None)).span
    start = span.start
    if bounds.most_bytes is not None:
        start = max(start, span.end - bounds.most_bytes - 1)
    data = bounds.last(reader.read(start, span.end))
    shown = Span(span.end - len(data), span.end)
    before = f"bytes={span.start}:{shown.start}" if shown.start > span.start else ""
    return passage(reader, shown, data, going_on=before)


# Cut a piece out by characters: from a position, or around a text that is in it.
#
# The anchor is a string, never a pattern. `window` is how many characters stand around it, half on each side.


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
        return _around(reader, anchor, window, match_index, bounds)
    if start is None and length is None:
        raise BadRange("say what to slice: start and length, or an anchor.")
    first = whole_number(0 if start is None else start, name="start")
    count = None if length is None else whole_number(length, name="length")
    total = reader.totals.chars
    last = total if count is None else min(first + count, total)
    chars = Span(min(first, total), max(last, min(first, total)))
    return _cut(reader, chars, chars, bounds, past_end=chars.start >= total)


def _cut(reader: OutputReader, wanted: Span, chars: Span, bounds: Bounds, *, past_end: bool = False) -> Passage:
    """`chars` as far as they fit, and where the rest of what is `wanted` is."""
    span = _bytes_of(reader, chars)
    data = beginning_of(reader, span, bounds)
    shown = Span(span.start, span.start + len(data))
    at = char_of_byte(reader, shown.end)
    going_on = f"start={at} length={wanted.end - at}" if at < wanted.end else ""
    before = chars.start - wanted.start
    notes = (f"the window begins before this: start={wanted.start} length={before}",) if before else ()
    return passage(reader, shown, data, going_on=going_on, past_end=past_end, notes=notes)


def _bytes_of(reader: OutputReader, chars: Span) -> Span:
    return Span(byte_of_char(reader, chars.start), byte_of_char(reader, chars.end))


def _around(reader: OutputReader, anchor: str, window: int, match_index: int, bounds: Bounds) -> Passage:
    """What does not fit is left out on both sides, so that the anchor is in it."""
    around = whole_number(window, name="window")
    wanted = whole_number(match_index, name="match_index")
    if not anchor:
        raise BadRange("the anchor is empty: give the text to slice around.")
    if len(anchor) > _LONGEST_ANCHOR:
        raise BadRange(f"the anchor has {len(anchor):,} characters; at most {_LONGEST_ANCHOR:,} are looked for.")
    needle = anchor.encode("utf-8", "surrogatepass")
    byte = _find(reader, needle, wanted, anchor)
    first = char_of_byte(reader, byte)
    half = around // 2

    def spread() -> Span:
        return Span(max(0, first - half), min(reader.totals.chars, first + len(anchor) + half))

    wanted = chars = spread()
    while half:
        span = _bytes_of(reader, chars)
        fits = len(beginning_of(reader, span, bounds))
        if fits == span.end - span.start:
            break
        half = int(half * min(0.9, fits / (span.end - span.start)))
        chars = spread()
    return replace(_cut(reader, wanted, chars, bounds), scanned=Span(0, byte + len(needle)))


_LONGEST_ANCHOR = 10_000  # characters: to look for one takes its length times that of the output, at the worst
_PIECE = 1 << 20


def _find(reader: OutputReader, needle: bytes, wanted: int, anchor: str) -> int:
    """Where occurrence `wanted` of `needle`, which is `anchor`, starts, counted from 0 and without overlaps."""
    size, seen, handle = reader.totals.bytes, 0, reader.facts.handle
    if size == 0:
        raise AnchorNotFound(f"Anchor not found in content: output {handle} is empty.", handle=handle)
    with (
        reader.local_file() as descriptor,
        mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as pages,
        memoryview(pages) as view,
    ):
        at = 0
        while at + len(needle) <= size:
            deadline.check()
            with view[at : at + _PIECE + len(needle) - 1] as piece:  # in one call everybody else would stand still
                place = stringzilla.find(piece, needle)
            if place < 0:
                at += _PIECE
                continue
            if seen == wanted:
                return at + place
            seen += 1
            at += place + len(needle)
    if seen:
        which = f"0 to {seen - 1}" if seen > 1 else "0"
        message = f"Anchor not found in content: it occurs {plural(seen, 'time')} (match_index {which})."
        raise AnchorNotFound(message, handle=handle, scanned=size)
    raise AnchorNotFound(
        f'Anchor not found in content: "{foreign(anchor)}" does not occur in {handle}. It is looked for as it is '
        "written; grep takes patterns and can ignore case.",
        handle=handle, scanned=size,
    )  # fmt: skip
