"""Test and build output: the failures are the outline. Totals first, then each failure with its place."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice

from holdall.text.numbers import plural
from holdall.text.outline.heads import Head
from holdall.text.outline.line_outline import error_lines, parts
from holdall.text.outline.model import MOST_ERRORS, Outline, count, cut, cut_bytes, fitted
from holdall.text.outline.reports import BUILD_SIGNS, DIAGNOSTIC, FORMATS, WARNING, Format
from holdall.text.outline.sample import Sample, split
from holdall.text.outline.shapes import mine

_MOST = 400  # failures that are collected
_SIGNS_IN = 192 * 1024
_STATUS = re.compile(rb"^(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|WARNING)(?= )", re.MULTILINE)
_SHOWN = 30
_FAILURE = 200  # characters of one
_DETAILS_END = re.compile(rb"^(?:_{3,} |={5,} |-{3,} |----)", re.MULTILINE)
_REST = 700  # characters for what else is in it: the failures are what matters
_DETAILS = 6000  # bytes of one failure's details, at most


@dataclass(slots=True)
class _Found:
    totals: list[str]
    failures: list[tuple[int, bytes]]  # place and name
    warnings: int = 0


def report_outline(sample: Sample, budget: int, *, only_known: bool = False) -> Outline | None:
    """None where it is neither test nor build output. `only_known`: what only looks like some runner does not count."""
    for form in FORMATS:
        if _has(sample, form.signs) and not (only_known and form.label == "tests"):
            found = _look(form, sample)
            if found.totals or found.failures:
                return _told(form.label, found, sample, budget, form.header)
    return None if only_known else _build(sample, budget)


def _has(sample: Sample, signs: tuple[bytes, ...]) -> bool:
    """Near one of the ends, where such output says what it is and what came of it."""
    head, tail = sample.head[:_SIGNS_IN], sample.tail[-_SIGNS_IN:]
    return any(sign in head or sign in tail for sign in signs)


def _build(sample: Sample, budget: int) -> Outline | None:
    if not _has(sample, BUILD_SIGNS):
        return None
    found = _Found([], [])
    kinds: set[str] = set()
    for start, data in sample.pieces:
        for match in DIAGNOSTIC.finditer(data):
            kinds.add(match.lastgroup or "")
            found.failures.append((start + match.start(), match[0].strip()))
        found.warnings += len(WARNING.findall(data))
    if not found.failures:
        return None
    mark = "" if sample.whole else "at least "
    found.totals = [f"{mark}{plural(len(found.failures), 'error')}, {plural(found.warnings, 'warning')}"]
    names = (("rust", "cargo build"), ("lint", "lint output"), ("place", "compiler output"), ("make", "make output"))
    label = next((label for kind, label in names if kind in kinds or (kind == "place" and "text" in kinds)), "build")
    return _told(label, found, sample, budget, b"")


def _look(form: Format, sample: Sample) -> _Found:
    found = _Found([], [])
    totals: list[bytes] = []
    last_section = sample.tail.rfind(form.after) if form.after else -1
    for start, data in sample.pieces:
        totals += [match["totals"] for match in form.totals.finditer(data)]
        since = last_section if last_section >= 0 and start == sample.tail_start else 0
        if form.after and last_section >= 0 and start != sample.tail_start:
            continue
        for match in form.failure.finditer(data, since):
            if len(found.failures) < _MOST:
                found.failures.append((start + match.start(), match[match.lastindex or 0]))
    chosen = totals[-3:] if form.several else totals[-1:]
    found.totals = [cut(" ".join(each.decode("utf-8", "replace").split()), 160) for each in chosen]
    return found


def _told(label: str, found: _Found, sample: Sample, budget: int, header: bytes) -> Outline:
    failures = {name.split(b" - ")[0].strip(): (place, name) for place, name in reversed(found.failures)}
    lines = [" · ".join(found.totals)] if found.totals else []
    ranges: list[tuple[int, int, str]] = []
    for key, (place, name) in islice(reversed(failures.items()), _SHOWN):
        text = cut(name.decode("utf-8", "replace").strip(), _FAILURE)
        details = _details(sample, key, header) if header and len(lines) <= 2 * MOST_ERRORS else None
        note = ""
        if details:
            ranges.append((*details, f"details of {cut(key.decode('utf-8', 'replace'), 80)}"))
            note = f" · its details: {_lines_of(sample, *details)}"
        lines.append(f"FAILED {text} · {sample.place(place)}{note}" if label != "compiler output" else text)
    kept = list(fitted(lines, budget - 80)) if lines else []
    left = len(failures) + bool(found.totals) - len(kept)
    if left > 0:
        kept.append(f"… {plural(left, 'more failure')}")
    errors = [(place, cut_bytes(_line_at(sample, place))) for place, _ in found.failures[:MOST_ERRORS]]
    lines_in = split(sample)
    mined = mine(lines_in, lambda line: Head(body=line))
    kept += _by_status(sample)
    room = budget - sum(map(len, kept)) - 40
    known = frozenset(place for place, _ in found.failures)
    if room > 150:
        frequent, rare = parts(mined, lines_in, sample, min(room, _REST), known=known)
        kept += frequent + rare
    return Outline(
        label,
        tuple(kept),
        not lines_in.exact or mined.stride > 1,
        tuple(errors or error_lines(mined, lines_in)),
        tuple(ranges),
    )


def _by_status(sample: Sample) -> list[str]:
    """How many lines begin with each of the words that say what became of a test."""
    words: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        words.update(_STATUS.findall(data))
    scale = 1.0 if sample.whole else sample.size / sum(len(data) for _, data in sample.pieces)
    told = [f"{word.decode()} {count(times * scale, sample.whole)}" for word, times in words.most_common()]
    return [f"lines that begin with {', '.join(told)}"] if told else []


def _details(sample: Sample, key: bytes, header: bytes) -> tuple[int, int] | None:
    """Where the traceback of a failure stands, told from the line above it."""
    name = key.split(b"::", 1)[1].replace(b"::", b".") if b"::" in key else key.split(b" ")[0]
    title = header.replace(b"%s", name)
    for start, data in sample.pieces:
        at = data.find(title)
        if at >= 0:
            begin = data.rfind(b"\n", 0, at) + 1
            after = data.find(b"\n", at) + 1 or len(data)
            end = _DETAILS_END.search(data, after, begin + _DETAILS)
            stop = end.start() if end else min(len(data), max(after, data.rfind(b"\n", after, begin + _DETAILS) + 1))
            return start + begin, start + stop
    return None


def _lines_of(sample: Sample, start: int, end: int) -> str:
    if not sample.whole:
        return f"bytes {start:,}–{end:,}"
    first = sample.head.count(b"\n", 0, start) + 1
    last = first + max(0, sample.head.count(b"\n", start, end) - 1)
    return f"L{first:,}–{last:,}"


def _line_at(sample: Sample, place: int) -> bytes:
    for start, data in reversed(sample.pieces):
        if place >= start:
            end = data.find(b"\n", place - start)
            return data[place - start : end if end >= 0 else len(data)][:400]
    return b""
