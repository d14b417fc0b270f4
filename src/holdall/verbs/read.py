"""Read a range: by lines, bytes or characters, whatever the shape of the output.

An answer that is bounded ends at a line end where it can; a line that is longer than the answer is continued by its
byte offset. `Target` is the range found, before a byte of it is read: a command streams it, however large it is.
"""

from dataclasses import dataclass

from holdall.store.protocol import OutputReader
from holdall.text import ranges
from holdall.text.utf8 import decode
from holdall.values.answers import Passage
from holdall.values.errors import WrongUse
from holdall.values.spans import Span
from holdall.verbs.bounds import UNBOUNDED, Bounds
from holdall.verbs.locate import byte_of_char, byte_of_line, chars_of, line_of_byte, lines_of


@dataclass(frozen=True, slots=True)
class Target:
    """A range of one output in bytes, and how it was asked for."""

    span: Span
    unit: str
    end: str  # the end as it was asked for, in its own unit; empty where it was open
    past_end: bool


def locate(reader: OutputReader, *, lines: object = None, bytes: object = None, chars: object = None) -> Target:
    """At most one of the three; none means everything, by lines."""
    given = [
        (unit, value) for unit, value in (("lines", lines), ("bytes", bytes), ("chars", chars)) if value is not None
    ]
    if len(given) > 1:
        raise WrongUse(f"give one range, not {' and '.join(unit for unit, _ in given)}.")
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
    past_end = span.start == span.end == total and (wanted.start or 0) >= total
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
    data = beginning_of(reader, span, bounds)
    shown = Span(span.start, span.start + len(data))
    going_on = _next(reader, target, shown) if shown.end < span.end else ""
    return passage(reader, shown, data, going_on=going_on, past_end=target.past_end)


def beginning_of(reader: OutputReader, span: Span, bounds: Bounds) -> bytes:
    """As much of the span as an answer holds. Never reads more than that."""
    if bounds.most_bytes is not None and span.end - span.start > bounds.most_bytes:
        # One byte more than may be shown tells whether the cut falls on a line end.
        return bounds.first(reader.read(span.start, span.start + bounds.most_bytes + 1))
    data = reader.read(span.start, span.end)
    return data if bounds.fits(data) else bounds.first(data)


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
    if facts.state not in ("ready", "running"):
        notes = (*notes, f"{facts.state}: {facts.error}" if facts.error else facts.state)
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
    )


def _next(reader: OutputReader, target: Target, shown: Span) -> str:
    """The range that follows what is shown, as this verb takes it."""
    at = shown.end
    if target.unit == "lines" and at > 0 and reader.read(at - 1, at) == b"\n":
        return f"lines={line_of_byte(reader, at)}:{target.end}"
    if target.unit == "chars":
        return f"chars={chars_of(reader, Span(at, at)).start}:{target.end}"
    # Inside a long line there is no line number to go on from.
    return f"bytes={at}:{target.end if target.unit == 'bytes' else target.span.end}"
