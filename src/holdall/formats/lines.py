"""Logs and other lines: the shapes that are frequent, with counts, those that are rare, with their places, and the
lines that look like errors.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

from holdall.formats.heads import Tally
from holdall.formats.outline import MAX_ERRORS, Lines, Room, Sample, cut, cut_bytes, figure, share
from holdall.formats.shapes import Shape, Shapes
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

# Lines that look like errors. A guess by words, which leaves out what says that there are none.


_WORDS = lazy_pattern(
    r"\b(?:[A-Za-z_.]{0,60}(?:Error|Exception)|errors?|exceptions?|traceback|fatal|panic(?:ked)?|fail(?:ed|ure|ures)?"
    r"|FAIL|critical|severe|segfault|segmentation fault|core dumped|abort(?:ed)?|denied|refused|unreachable"
    r"|timed out|out of memory|OOM|killed|cannot|could not|unable to)\b",
    re.IGNORECASE,
)
_STRONG = lazy_pattern(
    r"(?:^|[\[\s|:])(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|Traceback|panic:|FAILED|FAIL)\b|\b\w+(?:Error|Exception)\b: ?"
    r"|\b(?:fatal|error)(?:\[E\d+\])?: "
)
_NONE = lazy_pattern(
    r"\b(?:0|no|zero|without|ignored?|any) (?:\w+ ){0,2}(?:errors?|exceptions?|failures?|failed|fail)\b"
    r"|\b(?:errors?|exceptions?|failures?|failed|fail)s?[\"']?\s*[:=]?\s*(?:0|none|null|false|\[\])(?![\w.])"
    r"|\b(?:error|exception|fail)[_-]\w|\w[_/-](?:error|exception|fail)s?\b|\b(?:on|if) (?:error|failure|exception)\b",
    re.IGNORECASE,
)
# Every text that has one of the words above has one of these, in small letters. To look for them costs next to nothing.
_STEMS = (
    "rror", "xception", "traceback", "fatal", "panic", "fail", "critical", "severe", "segfault", "segmentation",
    "core dump", "abort", "denied", "refused", "unreachable", "timed out", "out of mem", "oom", "killed", "cannot",
    "could not", "unable to",
)  # fmt: skip


def complaints(lines: Sequence[str]) -> list[int]:
    """`complaint` of each line; only those that may be one are looked at."""
    text = "\n".join(lines).lower()
    if len(text) != sum(map(len, lines)) + max(0, len(lines) - 1):  # a letter whose small form is longer
        return [complaint(line) for line in lines]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found: set[int] = set()
    for stem in _STEMS:
        at = text.find(stem)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            found.add(line)
            at = text.find(stem, starts[line + 1])
    return [complaint(line) if number in found else 0 for number, line in enumerate(lines)]


def complaint(line: str) -> int:
    """0: no error. 1: it has the word. 2: it says so at its place, as errors do."""
    if not _WORDS.search(line):
        return 0
    if _STRONG.search(line):
        return 2
    return 1 if _WORDS.search(_NONE.sub(" ", line)) else 0


# Logs and other lines: the shapes that are frequent, with counts, and those that are rare, with their places.


_WIDTH, _NARROW = 110, 80  # characters of a shape that are shown, and where there is little room
_RARE = 2  # a shape with at most this many lines is rare
_GRADED = 120  # of the frequent shapes, so many are looked at for what went wrong
_WRONG = 3  # frequent shapes that speak of errors and are told before others that are more frequent


def parts(
    mined: Shapes,
    lines: Lines,
    sample: Sample,
    room: Room,
    *,
    known: Sequence[tuple[int, int]] = (),
    most: int = _GRADED,
    passed_over: re.Pattern[str] | None = None,
) -> tuple[list[str], list[str]]:
    """The lines of the frequent shapes and of the rare ones: more than half of the room for the first.

    Lines that start inside of what is `known` have been told already. At most `most` frequent ones are told, and none
    that begin like what is `passed_over`; these are only counted.
    """
    known_ranges = merged(known)
    shapes = [
        shape for shape in mined.shapes if shape.seen > _RARE or not is_in(lines.start(shape.first), known_ranges)
    ]
    rare = [shape for shape in shapes if shape.seen <= _RARE]
    said = [shape for shape in shapes if passed_over is None or not passed_over.match(shape.text)]
    often = [shape for shape in said if shape.seen > _RARE]
    small = room.is_small
    most_chars = _NARROW if small else _WIDTH
    told = [f"{_times(shape, mined, lines)} × {cut(shape.text, most_chars)}" for shape in often[:_GRADED]]
    room = room.after([_more(len(shapes), len(rare), mined, told=True)])
    chosen: list[int] = []
    left = room.less(1.0 if not rare else 0.75 if small else 0.58)
    for at in _order(often[:_GRADED], 1 if small else _WRONG):
        left = left.after([told[at]])
        if len(chosen) == most or (left.size < 0 and (chosen or room.after([told[at]]).size < 0)):
            break  # the first one is told before any that is rare
        chosen.append(at)
    shown = [told[at] for at in sorted(chosen)]
    seldom = [shape for shape in said if shape.seen <= _RARE]
    rare_shown = _rare(seldom, mined, lines, sample, room.after(shown), most_chars)
    more = _more(len(shapes) - len(shown), len(rare), mined, told=bool(rare_shown))
    return shown, ([more] if more else []) + rare_shown


def _order(often: list[Shape], first: int) -> list[int]:
    """Which are told first: so many of the most frequent, then some that speak of errors, then the others."""
    grades = complaints([shape.body for shape in often])
    wrong = [at for at, grade in enumerate(grades) if grade][:_WRONG]
    return list(dict.fromkeys([*range(min(first, len(often))), *wrong, *range(len(often))]))


def _times(shape: Shape, mined: Shapes, lines: Lines) -> str:
    return f"{shape.seen:,}" if mined.exact else share(shape.lines, len(lines.texts))


def sample_named(mined: Shapes, lines: Lines) -> list[str]:
    """What shares are of, where they are not of all lines."""
    sampled = len(lines.texts) if mined.looked_at is None else mined.looked_at
    return [] if mined.exact or not lines.texts else [f"of {plural(sampled, 'sampled line')}:"]


def _more(hidden: int, rare: int, mined: Shapes, *, told: bool) -> str:
    if not hidden:
        return ""
    end = ":" if told else ""
    if not mined.exact:  # in all of it they may be others, and not as many
        return f"… rare in the sample (≤{_RARE} lines){end}" if rare else ""
    more = f"… {plural(hidden, 'more shape')}"
    return f"{more}, {rare:,} rare (≤{_RARE} lines){end}" if rare else more


def _rare(rare: list[Shape], mined: Shapes, lines: Lines, sample: Sample, room: Room, most_chars: int) -> list[str]:
    grades = complaints([shape.body for shape in rare])
    order = sorted(range(len(rare)), key=lambda at: (-grades[at], rare[at].lines, rare[at].first))
    told: list[str] = []
    for at in order:
        shape = rare[at]
        if not grades[at] and shape.first in (0, len(lines.texts) - 1):
            continue  # the first and the last line are shown anyway
        where = f"L{shape.first + 1:,}" if lines.exact else sample.place(lines.start(shape.first))
        times = f" × {shape.seen}" if mined.exact else ""  # once in a sample is not once
        line = f"{where}{times}  {cut(' '.join(shape.body.split()), most_chars)}"
        room = room.after([line])
        if room.size < 0:
            break
        told.append(line)
    return told


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as ranges that are sorted and do not overlap."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def is_in(place: int, known: list[tuple[int, int]]) -> bool:
    """Whether one of the ranges, which `merged` gave, has that byte."""
    at = bisect_right(known, place, key=itemgetter(0)) - 1
    return at >= 0 and place < known[at][1]


def error_lines(mined: Shapes, lines: Lines) -> list[tuple[int, str]]:
    """One line for each shape that looks like an error, the clearest and rarest first."""
    grades = complaints([shape.body for shape in mined.shapes])
    graded = [each for each in zip(grades, mined.shapes, strict=True) if each[0]]
    weak = sum(shape.lines for grade, shape in graded if grade == 1)
    if weak > 0.05 * len(lines.texts):  # a word that stands everywhere says nothing
        graded = [each for each in graded if each[0] > 1]
    graded.sort(key=lambda each: (-each[0], each[1].lines, each[1].first))
    return [(lines.start(shape.first), cut_bytes(lines.texts[shape.first])) for _, shape in graded[:MAX_ERRORS]]


def summary(tally: Tally) -> list[str]:
    """From when to when, who speaks, and how."""
    told: list[str] = []
    exact = tally.exact
    about = "" if exact else "at least "
    if tally.first:
        told.append(about + (tally.first if tally.first == tally.last else f"{tally.first} → {_until(tally)}"))
    if tally.programs:
        told.append(f"{about}{plural(len(tally.programs), 'program')}")
        told[-1] += f": {_counted(tally.programs, tally, exact)}" if exact else ""
    if not exact and (tally.programs or tally.levels):
        shares = [_counted(counts, tally, exact) for counts in (tally.programs, tally.levels) if counts]
        told.append(f"of {plural(tally.lines, 'sampled line')}: {', '.join(shares)}")
    elif tally.levels:
        told.append(_counted(tally.levels, tally, exact))
    return [" · ".join(told)] if told else []


def _until(tally: Tally) -> str:
    """The last time, without its day where that is the day of the first, in the same zone."""
    first, last = _TIME.fullmatch(tally.first), _TIME.fullmatch(tally.last)
    is_brief = first is not None and last is not None and (first["day"], first["zone"]) == (last["day"], last["zone"])
    return tally.last[last.end("day") :] if is_brief and last else tally.last


_TIME = lazy_pattern(r"(?P<day>.+?[ T:])\d\d:\d\d:\d\d(?:[.,]\d+)?(?P<zone>.*)")
_NAMED, _PROGRAMS = 6, 4  # levels or statuses; programs


def _counted(counts: Counter[str], tally: Tally, exact: bool) -> str:
    most = _PROGRAMS if counts is tally.programs else _NAMED
    all_told = counts is not tally.levels or tally.levels_exact
    shown = [
        f"{name} {figure(number, all_told) if exact else share(number, tally.lines)}"
        for name, number in counts.most_common(most)
    ]
    return ", ".join(shown + (["…"] if len(counts) > most else []))
