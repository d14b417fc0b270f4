"""Logs and other text: traces where there are any, the shapes of lines where they repeat, else its paragraphs."""

import re

from holdall.text.numbers import plural
from holdall.text.outline.far import far_errors
from holdall.text.outline.heads import Head, head_of
from holdall.text.outline.leads import text_leads, word_lead
from holdall.text.outline.line_outline import error_lines, is_access_log, is_in, merged, parts, summary
from holdall.text.outline.lines import Lines, split
from holdall.text.outline.model import MOST_ERRORS, Lead, Outline, Room, count, cut, cut_bytes, fitted
from holdall.text.outline.sample import Sample
from holdall.text.outline.shapes import Shapes, mine
from holdall.text.outline.traces import Trace, told, traces

_SECTION = re.compile(
    r"(?:(?:chapter|section|part|appendix|article|annex)\s+[\dIVXLC]+\b.{0,80}|\d{1,2}(?:\.\d{1,2}){0,3}\.?\s+[A-Z].{2,80}"
    r"|[A-Z][A-Z0-9 ,:'&/-]{5,80})",
)
_THROWN = re.compile(r"\w(Error|Exception)\b")
_BEGINNING = 1000  # bytes in which a word is looked for
_LINE = 160
_LOOKED_AT = 4_000  # lines among which headings are looked for


def text_outline(sample: Sample, room: Room, *, kind: str) -> Outline:
    lines = split(sample)
    found = traces(sample)
    is_access = kind == "text" and is_access_log(sample)
    is_log = kind == "log" or is_access
    mined = mine(lines, head_of if is_log else _no_head)
    first = summary(lines, mined, sample) if is_log else []
    label = "access log" if is_access else kind
    if kind == "text" and found and not is_access:
        label = f"{found[0].language} stack trace"
    thrown = [told(trace, sample) for trace in sorted(found, key=lambda trace: (trace.times, trace.start))[:4]]
    if is_log or _repeats(mined, lines):
        known = [(trace.start, trace.end + 1) for trace in found]
        frequent, rare = parts(mined, lines, sample, room.after(first + thrown), known=known)
        before = 4 if is_log else 0  # a log is told by what it is full of, then by what went wrong in it
        told_lines = [*first, *frequent[:before], *thrown, *frequent[before:], *rare]
        leads = (*_first_leads(found, is_access), *text_leads(mined, lines, log=is_log))
    else:
        prose = _prose(sample, lines, mined)
        told_lines = thrown + prose
        words = [line.split(" ", 1)[-1] for line in prose[1:]] or [_text(sample.head[:_BEGINNING])]
        leads = _first_leads(found, is_access) or word_lead(words)
    shown = fitted(told_lines or ["only blank lines" if sample.size else "empty"], room)
    errors = _errors(found, mined, lines, [] if lines.exact else far_errors(sample))
    return Outline(label, shown, not lines.exact or mined.stride > 1, errors, _ranges(found), leads)


def _first_leads(found: list[Trace], is_access: bool) -> tuple[Lead, ...]:
    """How often each exception was thrown, or each status returned."""
    if is_access:
        return (Lead("grep", {"pattern": r'HTTP/[\d.]+" (\d+)', "group": True}),)
    thrown = next((name for name in map(_THROWN.search, (trace.message for trace in found)) if name), None)
    return (Lead("grep", {"pattern": rf"([\w.]+{thrown[1]})\b", "group": True}),) if thrown else ()


def _no_head(line: str) -> Head:
    return Head(body=line)


def _repeats(mined: Shapes, lines: Lines) -> bool:
    """Whether a few shapes make up a good part of the lines."""
    filled = sum(shape.lines for shape in mined.shapes)
    top = sum(shape.lines for shape in mined.shapes[:8] if shape.seen > 2)
    return top * 5 >= filled and top >= 6 and len(lines.texts) > 5


def _prose(sample: Sample, lines: Lines, mined: Shapes) -> list[str]:
    if not lines.texts or not (lines.exact or any(map(bytes.strip, lines.texts))):  # what has no end is not among them
        line = f"no end of a line in what was read; {plural(sample.lines, 'line')}"
        return [line] if sample.size else []
    often = [shape for shape in mined.shapes[:5] if shape.seen > 2]
    repeated = [f"{count(s.lines * lines.scale, lines.exact and s.exact)} × {cut(s.text, _LINE)}" for s in often]
    return [_measures(lines), *_sections(sample, lines), *repeated]


def _measures(lines: Lines) -> str:
    filled = b"\0" + bytes(map(bool, map(bytes.strip, lines.texts)))  # a byte for each line: 1 where it has text
    blank = filled.count(b"\0", 1) * lines.scale
    starts = filled.count(b"\0\1") * lines.scale
    longest = max(map(len, lines.texts))
    paragraphs = f"{count(starts, lines.exact) if starts else 'no'} paragraph{'' if starts == 1 else 's'}"
    about = "" if lines.exact else "at least "
    blanks = f"{count(blank, lines.exact) if blank else 'no'} blank line{'' if blank == 1 else 's'}"
    return f"{paragraphs}, {blanks}, longest line {about}{longest:,} bytes"


def _sections(sample: Sample, lines: Lines) -> list[str]:
    """Lines that stand as headings do."""
    texts = [b"", *(text.strip() for text in lines.texts[:_LOOKED_AT]), b""]
    places = [
        at
        for at, (before, text, after) in enumerate(zip(texts, texts[1:], texts[2:], strict=False))
        if 3 < len(text) < 120 and not before and _is_section(text, after)
    ]
    if not places:
        return []
    shown = [f"{sample.place(lines.start(at))} {cut_bytes(lines.texts[at], 100)}" for at in places[:12]]
    left = len(places) - len(shown)
    about = "" if lines.exact and len(lines.texts) <= _LOOKED_AT else "at least "
    return shown + ([f"… {about}{plural(left, 'more heading')}"] if left else [])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _is_section(text: bytes, after: bytes) -> bool:
    if len(after) > 3 and len(after) >= len(text) - 4 and not after.strip(b"=-~"):
        return True  # underlined
    return not after and _SECTION.fullmatch(_text(text)) is not None


def _errors(found: list[Trace], mined: Shapes, lines: Lines, far: list[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """What was thrown, what stands outside of the sample, and the lines of the sample that look like errors."""
    thrown = [(trace.start, cut_bytes(trace.message.encode())) for trace in found[:2]]
    errors: dict[int, str] = {}
    known = merged([(trace.start, trace.end + 1) for trace in found])
    others = [each for each in error_lines(mined, lines) if not is_in(each[0], known)]
    for at, text in [*thrown, *far[:2], *others]:
        errors.setdefault(at, text)
    return tuple(errors.items())[:MOST_ERRORS]


def _ranges(found: list[Trace]) -> tuple[tuple[int, int, str], ...]:
    return tuple((trace.start, trace.end, f"trace of {cut(trace.message, 60)}") for trace in found[:3])
