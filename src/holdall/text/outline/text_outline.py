"""Logs and other text: traces where there are any, the shapes of lines where they repeat, else its paragraphs."""

import re

from holdall.text.numbers import plural
from holdall.text.outline.heads import Head, head_of
from holdall.text.outline.line_outline import error_lines, parts, summary
from holdall.text.outline.model import MOST_ERRORS, Outline, count, cut, cut_bytes, fitted
from holdall.text.outline.sample import Lines, Sample, split
from holdall.text.outline.shapes import Shapes, mine
from holdall.text.outline.traces import Trace, told, traces

_SECTION = re.compile(
    r"(?:(?:chapter|section|part|appendix|article|annex)\s+[\dIVXLC]+\b.{0,80}|\d{1,2}(?:\.\d{1,2}){0,3}\.?\s+[A-Z].{2,80}"
    r"|[A-Z][A-Z0-9 ,:'&/-]{5,80})",
)
_LINE = 160


def text_outline(sample: Sample, budget: int, *, kind: str) -> Outline:
    lines = split(sample)
    found = traces(sample)
    is_log = kind == "log"
    mined = mine(lines, head_of if is_log else _no_head)
    first = summary(lines, mined, sample) if is_log else []
    label = kind if kind != "text" or not found else f"{found[0].language} stack trace"
    thrown = [told(trace, sample) for trace in sorted(found, key=lambda trace: (trace.times, trace.start))[:4]]
    if kind != "log" and not _repeats(mined, lines):
        return _prose(sample, lines, mined, thrown, label, budget)
    room = budget - sum(map(len, first)) - sum(map(len, thrown))
    frequent, rare = parts(mined, lines, sample, room)
    body = (
        [*first, *thrown, *frequent, *rare]
        if label != "log"
        else [*first, *frequent[:4], *thrown, *frequent[4:], *rare]
    )
    return Outline(
        label, fitted(body or ["empty"], budget), not sample.whole, _errors(found, mined, lines), _ranges(found)
    )


def _no_head(line: str) -> Head:
    return Head(body=line)


def _repeats(mined: Shapes, lines: Lines) -> bool:
    """Whether a few shapes make up a good part of the lines."""
    filled = sum(shape.lines for shape in mined.shapes)
    top = sum(shape.lines for shape in mined.shapes[:8] if shape.lines > 2)
    return top * 5 >= filled and top >= 6 and len(lines.texts) > 5


def _prose(sample: Sample, lines: Lines, mined: Shapes, thrown: list[str], label: str, budget: int) -> Outline:
    texts = lines.texts
    blank = sum(1 for text in texts if not text.strip())
    paragraphs = sum(
        1 for before, text in zip([b"", *texts], texts, strict=False) if text.strip() and not before.strip()
    )
    first = [*thrown]
    if sample.size and not texts:
        first.append(f"no line ends in the sample: one line of {sample.size:,} bytes")
        first.append(_start(sample.head))
    elif texts:
        longest = max(map(len, texts))
        about = "" if lines.exact else "~"
        first.append(
            f"{about}{plural(round(paragraphs * lines.scale), 'paragraph')}, {count(blank * lines.scale, lines.exact)} "
            f"blank lines, longest line {longest:,} bytes"
        )
        sections = [(at, text) for at, text in enumerate(texts) if _is_section(text, texts, at)]
        first += [
            f"{sample.place(lines.starts[at])} {cut(text.decode('utf-8', 'replace').strip(), 100)}"
            for at, text in sections[:12]
        ]
        if not sections:
            first.append(_start(next((text for text in texts if text.strip()), b"")))
        repeated = [shape for shape in mined.shapes[:5] if shape.lines > 2]
        first += [f"{count(s.lines * lines.scale, lines.exact and s.exact)} × {cut(s.text, _LINE)}" for s in repeated]
    found = tuple(error_lines(mined, lines))
    return Outline(label, fitted(first or ["empty"], budget), not sample.whole, found)


def _start(text: bytes) -> str:
    return f"begins: {cut(text[:1000].decode('utf-8', 'replace').strip(), 200)}"


def _is_section(text: bytes, texts: list[bytes], at: int) -> bool:
    if not 3 < len(text) < 120:
        return False
    after = texts[at + 1].strip() if at + 1 < len(texts) else b""
    if len(after) > 3 and len(after) >= len(text) - 4 and not after.strip(b"=-~"):
        return True  # underlined
    alone = not (texts[at - 1].strip() if at else b"") and not after
    return alone and _SECTION.fullmatch(text.decode("utf-8", "replace").strip()) is not None


def _errors(found: list[Trace], mined: Shapes, lines: Lines) -> tuple[tuple[int, str], ...]:
    thrown = [(trace.start, cut_bytes(trace.message.encode())) for trace in found[:2]]
    others = error_lines(mined, lines)
    return tuple((thrown + [each for each in others if each[0] not in {at for at, _ in thrown}])[:MOST_ERRORS])


def _ranges(found: list[Trace]) -> tuple[tuple[int, int, str], ...]:
    return tuple((trace.start, trace.end, f"trace of {cut(trace.message, 60)}") for trace in found[:3])
