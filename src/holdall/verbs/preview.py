"""What a notice is built from: the two ends of an output, its outline, whether all of it would fit, and lines that look
like errors with what is around them.
"""

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from holdall.formats import Outline, Room, outline
from holdall.formats.outline import ERROR_BYTES, cut
from holdall.policy.decide import Fits, Limits, decide
from holdall.store import deadline
from holdall.store.deadline import within
from holdall.store.protocol import OutputReader
from holdall.store.reader import byte_of_line, line_of_byte
from holdall.text.tokens import Tokenizer
from holdall.text.utf8 import decode
from holdall.values.errors import HoldallError, OutOfTime
from holdall.values.patterns import lazy_pattern
from holdall.values.settings import NOTICE_TOKENS
from holdall.values.spans import Span
from holdall.wire.answers import tag_for
from holdall.wire.dialect import PREVIEW_BYTES, View
from holdall.wire.notice import READ_TOKENS as _READ_TOKENS
from holdall.wire.notice import counter, overcount

# Lines that look like errors together with what is around them, for notices that show paragraphs.


_MAX_INDENT = 64  # bytes before the first sign of a line
_SEARCHED = 512 * 1024  # bytes of each end in which lines that look like errors are counted
_FIRST = 3  # of the errors in an outline
_JUDGED = 1000  # bytes of a line that tell whether it does
_QUOTES = lazy_pattern(r"L(?P<line>\d{1,3}(?:,\d{3})*)(?: × \d+)? +(?P<text>\S.*)")
_LEAST_QUOTED, _LONGEST_QUOTED = (
    8,
    2000,
)  # bytes: a figure may be in a line by chance; and of the line that are looked at
_BEFORE, _AFTER = 400, 800  # bytes of a paragraph before and after the line that looks like an error


def with_paragraphs(reader: OutputReader, view: View, new_tag: Callable[[], str]) -> View:
    """The view with errors as their paragraphs, each once, in their order, as many as there is room for in a snippet;
    how many lines more there are; and a tag that occurs in none of them.
    """
    outlined = view.outline.errors if view.outline is not None else ()
    lines = _error_lines(reader) if outlined else {}
    first = [byte for byte, _ in outlined[:_FIRST]]  # those that tell most: they are shown in any case
    for byte, _ in outlined:
        lines.setdefault(byte, 2)
    places: dict[tuple[int, str], Span] = {}
    room = view.snippet_bytes
    for at, byte in enumerate([*first, *sorted(lines, key=lambda one: (-lines[one], one))]):
        if at >= len(first) and room <= 0:
            break
        if not any(span.start <= byte < span.end for span in places.values()):
            paragraph, span = _paragraph(reader, byte)
            places |= {paragraph: span} if at < len(first) or len(paragraph[1]) <= room else {}
            room -= len(paragraph[1])
    places = dict(sorted(places.items()))
    more = sum(not any(span.start <= byte < span.end for span in places.values()) for byte in lines)
    paragraphs = tuple(places)
    tag = view.tag
    shown = "\n".join(text for _, text in paragraphs) + view.head.decode("utf-8", "replace")
    shown += view.tail.decode("utf-8", "replace")
    if tag in shown:
        tag = tag_for(shown, new_tag)
    at_least = reader.totals.bytes > 2 * _SEARCHED
    return replace(
        view, errors=paragraphs, error_spans=tuple(places.values()), more_errors=more, at_least=at_least, tag=tag
    )


def _error_lines(reader: OutputReader) -> dict[int, int]:
    """Where lines that look like errors begin, in the beginning and the end of the output, and how much they do."""
    from holdall.formats.lines import complaints  # noqa: PLC0415 - for the dialect `refs` only, and it takes its time

    total, found = reader.totals.bytes, dict[int, int]()
    ends = [(0, total)] if total <= 2 * _SEARCHED else [(0, _SEARCHED), (total - _SEARCHED, total)]
    for start, end in ends:
        data = reader.read(start, end).split(b"\n")
        starts = accumulate((len(line) + 1 for line in data), initial=start)
        grades = complaints([line[:_JUDGED].decode("utf-8", "replace") for line in data])
        found |= {at: grade for at, grade in zip(starts, grades, strict=False) if grade}
    return found


def _paragraph(reader: OutputReader, byte: int) -> tuple[tuple[int, str], Span]:
    """The lines around an error up to the next blank ones, at most this many bytes of them; their first line, and where
    they are.
    """
    before, after = reader.read(max(0, byte - _BEFORE), byte), reader.read(byte, byte + _AFTER)
    blank = before.rfind(b"\n\n")
    if blank >= 0:
        start = byte - len(before) + blank + 2
    else:
        start = 0 if byte <= _BEFORE else byte - len(before) + before.find(b"\n") + 1
    blank = after.find(b"\n\n")
    if blank < 0:
        blank = after.rfind(b"\n") if len(after) == _AFTER and b"\n" in after else len(after)
    data = reader.read(start, byte + blank).rstrip(b"\n")
    ends = len(after) < _AFTER or b"\n" in after
    return (line_of_byte(reader, start), decode(data)[0] + ("" if ends else "…")), Span(start, start + len(data))


def _place_of(reader: OutputReader, byte: int, text: str) -> Span:
    """Where a line that looks like an error is, as far as it is shown; empty if it is not shown as it is stored."""
    shown = text.removesuffix("…").encode("utf-8", "replace")
    at = reader.read(byte, byte + len(shown) + _MAX_INDENT).find(shown)
    return Span(byte + at, byte + at + len(shown)) if at >= 0 else Span(byte, byte)


def _quoted(reader: OutputReader, told: str) -> Span:
    """What a line of an outline shows of the line that it names; empty if that is not as it is stored.

    Of a line of a log its time is left out, and blanks are one: where the words begin and end is what counts.
    """
    found = _QUOTES.fullmatch(told)
    words = [re.escape(word.encode()) for word in found["text"].removesuffix("…").split()] if found else []
    if found is None or sum(map(len, words)) < _LEAST_QUOTED:
        return Span(0, 0)
    start = byte_of_line(reader, int(found["line"].replace(",", "")))
    line = reader.read(start, start + _LONGEST_QUOTED).partition(b"\n")[0]
    place = re.search(rb"\s+".join(words), line)
    return Span(start + place.start(), start + place.end()) if place else Span(start, start)


# The two ends of an output, its outline, and whether all of it would fit: what a notice is built from.


# Of the tokens of a notice, what its outline gets: a share of what the frame and a call leave. The rest is for what is
# rare: an error, a reason, a long name. What has a shape needs all of it for a path or a column to be named.
_FRAME, _CALL = 60, 0.12
_OUTLINE = 0.48
_SHAPE = {
    "json": 0.8,
    "ndjson": 0.8,
    "csv": 0.65,
    "tsv": 0.65,
    "table": 0.65,
    "yaml": 0.6,
    "toml": 0.6,
    "log": 0.55,
    "access log": 0.62,
}
_LEAST = 0.25
_NEAR, _AROUND = 4096, 5  # bytes that are read of what is worth reading, and lines on either side of an error
_ERROR, _ROOMY = 88, 400  # characters of a line that looks like an error, where fewer tokens may be said
# A hundred times what the largest outline takes of the processor: on a busy machine others have it most of the time.
_OUTLINE_SECONDS, _OUTLINE_WAIT = 5.0, 60.0


def notice_view(
    reader: OutputReader,
    new_tag: Callable[[], str],
    *,
    tokenizer: Tokenizer,
    outlined: bool = True,
    most_tokens: int = NOTICE_TOKENS,
    long_handle: bool = False,
    extracts: bool = False,
    ends: int = PREVIEW_BYTES,
) -> View:
    """At most `ends` bytes of each end, the outline, and a tag that occurs in nothing that is shown."""
    facts, total = reader.facts, reader.totals.bytes
    head, tail = reader.read(0, ends), reader.read(max(0, total - ends), total)
    found = _outline(reader, tokenizer, most_tokens) if outlined else None
    wrong = (
        [(byte, cut(text, _ERROR if most_tokens < _ROOMY else ERROR_BYTES)) for byte, text in found.errors]
        if found
        else []
    )
    errors = tuple((line_of_byte(reader, byte), text) for byte, text in wrong)
    places = tuple(_place_of(reader, byte, text) for byte, text in wrong)
    quoted = tuple(_quoted(reader, line) for line in found.lines) if found else ()
    near = _near(reader, found, counter(tokenizer)) if found else None
    shown = [head, tail, facts.origin.tool.encode("utf-8", "replace"), facts.error.encode("utf-8", "replace")]
    if found:
        said = [*found.lines, *(text for _, text in errors), *(str(lead.arguments) for lead in found.leads)]
        shown.append("\n".join(said).encode("utf-8", "replace"))
    tag = tag_for(b"\n".join(shown).decode("latin-1"), new_tag)
    return View(
        facts, head, tail, tag, found, errors, tokenizer, most_tokens, long_handle, extracts, near, error_spans=places,
        outline_spans=quoted,
    )  # fmt: skip


def _near(reader: OutputReader, found: Outline, count: Callable[[str], int]) -> tuple[int, int] | None:
    """The first and the last line of what is worth reading: as many as one short answer holds."""
    before = list[bytes]()
    if found.ranges:
        start, end, _ = found.ranges[0]
    elif found.errors:
        start, end = found.errors[0][0], found.errors[0][0] + _NEAR
        lines = reader.read(max(0, start - _NEAR), start).split(b"\n")[:-1]
        cut_off = start > _NEAR
        before = _fitting(lines[: cut_off - 1 : -1] if cut_off else lines[::-1], _READ_TOKENS // 2, count)[:_AROUND]
    else:
        return None
    lines = reader.read(start, min(end, start + _NEAR)).removesuffix(b"\n").split(b"\n")
    after = _fitting(lines, _READ_TOKENS - sum(count(decode(line)[0]) for line in before), count)
    line = line_of_byte(reader, start)
    most = len(after) if found.ranges else min(len(after), _AROUND + 1)
    first, last = line - len(before), line + most - 1
    # Of a long line the place that is worth reading may be anywhere.
    is_short = bool(after) and byte_of_line(reader, last + 1) - byte_of_line(reader, first) <= _NEAR
    return (first, last) if is_short else None


def _fitting(lines: list[bytes], most: int, count: Callable[[str], int]) -> list[bytes]:
    """The first lines that have at most so many tokens."""
    sums = accumulate(count(decode(line)[0]) + 1 for line in lines)
    return [line for line, tokens in zip(lines, sums, strict=True) if tokens <= most]


def _outline(reader: OutputReader, tokenizer: Tokenizer, most_tokens: int) -> Outline | None:
    """None if none can be made: then the notice has the two ends. The tests make an error of the warning."""
    share = _SHAPE.get(reader.facts.measure.kind, _OUTLINE)
    left = (most_tokens - _FRAME - _CALL * most_tokens) * share * overcount(tokenizer)
    counted = counter(tokenizer)

    began = time.thread_time()

    def in_time() -> None:
        deadline.check()
        if time.thread_time() - began > _OUTLINE_SECONDS:
            raise OutOfTime(_OUTLINE_SECONDS)

    def tokens(text: str) -> int:
        in_time()
        return counted(text)

    def read(start: int, end: int) -> bytes:
        in_time()
        return reader.read(start, end)

    room = Room(max(_LEAST * most_tokens, left), tokens)
    try:
        with within(_OUTLINE_WAIT):
            return outline(
                read,
                reader.facts.measure,
                tool=reader.facts.origin.tool,
                room=room,
                line_at=lambda byte: line_of_byte(reader, byte),
                forced=bool(reader.facts.origin.read_as),
            )
    except OutOfTime:
        return None
    except (HoldallError, OSError):  # stored bytes cannot be read: the caller gets that error
        raise
    except Exception as problem:
        warnings.warn(f"Holdall could not outline an output: {problem!r}. Please report it.", stacklevel=2)
        return None


def whole_text(reader: OutputReader, limits: Limits, tokenizer: Tokenizer, *, in_part: bool = False) -> str | None:
    """All of the output where it would have been shown as it is: valid text, inside the limits, and whole; `in_part`,
    also what a call has written that did not end well.
    """
    facts, size = reader.facts, reader.totals.bytes
    most = limits.bytes if limits.bytes is not None else 128 * (limits.tokens or limits.chars or 1 << 40)
    if size > most or not facts.measure.utf8 or not (in_part or facts.is_whole):
        return None
    text = reader.read(0, size).decode("utf-8")
    return text if isinstance(decide(text, limits=limits, tokenizer=tokenizer), Fits) else None
