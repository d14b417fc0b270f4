"""Logs and other lines: the shapes that are frequent, with counts, and those that are rare, with their places."""

from collections import Counter

from holdall.text.numbers import plural
from holdall.text.outline.complaints import complaint
from holdall.text.outline.heads import TIME, access
from holdall.text.outline.model import MOST_ERRORS, count, cut, cut_bytes, share
from holdall.text.outline.sample import Lines, Sample
from holdall.text.outline.shapes import Shape, Shapes

_WIDTH = 150  # characters of a shape that are shown
_RARE = 2  # a shape with at most so many lines is rare
_TIME_IN = 160  # bytes of a line in which its time is looked for
_NEAR = 200  # lines from both ends in which a time is looked for


def parts(
    mined: Shapes, lines: Lines, sample: Sample, budget: int, *, known: frozenset[int] = frozenset()
) -> tuple[list[str], list[str]]:
    """The lines of the frequent shapes and of the rare ones: about two thirds of the room for the first.

    Lines that start at one of `known` have been told already.
    """
    shapes = [shape for shape in mined.shapes if shape.seen > _RARE or lines.starts[shape.first] not in known]
    rare = [shape for shape in shapes if shape.seen <= _RARE]
    often = [shape for shape in shapes if shape.seen > _RARE]
    shown: list[str] = []
    room = budget * (0.62 if rare else 1.0) - 60
    width = len(count(often[0].lines * lines.scale, lines.exact)) if often else 0
    for shape in often:
        line = f"{count(shape.lines * lines.scale, lines.exact and shape.exact):>{width}} × {cut(shape.text, _WIDTH)}"
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    told = _rare(rare, lines, sample, budget - sum(map(len, shown)) - 80)
    more = _more(len(shapes) - len(shown), len(rare), mined, exact=lines.exact, told=bool(told))
    return shown, ([more] if more else []) + told


def _more(hidden: int, rare: int, mined: Shapes, *, exact: bool, told: bool) -> str:
    if not hidden:
        return ""
    about = "" if exact and mined.stride == 1 else "~"
    unseen = round(rare * (mined.stride - 1))
    more = f"… {about}{plural(hidden + unseen, 'more shape')}"
    if not rare:
        return more
    return f"{more}, {about}{rare + unseen:,} of them rare (≤ {_RARE} lines{'' if exact else ' of the sample'})" + (
        ":" if told else ""
    )


def _rare(rare: list[Shape], lines: Lines, sample: Sample, room: int) -> list[str]:
    ranked = sorted(rare, key=lambda shape: (-complaint(shape.body), shape.lines, shape.first))
    told: list[str] = []
    for shape in ranked:
        where = f"L{shape.first + 1:,}" if lines.exact else sample.place(lines.starts[shape.first])
        times = f" × {shape.seen}" if lines.exact else ""  # once in a sample is not once
        line = f"{where}{times}  {cut(' '.join(shape.body.split()), _WIDTH)}"
        room -= len(line) + 1
        if room < 0:
            break
        told.append(line)
    return told


def error_lines(mined: Shapes, lines: Lines) -> list[tuple[int, str]]:
    """One line for each shape that looks like an error, the clearest and rarest first."""
    graded = [(complaint(shape.body), shape) for shape in mined.shapes]
    graded = [each for each in graded if each[0]]
    weak = sum(shape.lines for grade, shape in graded if grade == 1)
    if weak > 0.05 * len(lines.texts):  # a word that stands everywhere says nothing
        graded = [each for each in graded if each[0] > 1]
    graded.sort(key=lambda each: (-each[0], each[1].lines, each[1].first))
    return [(lines.starts[shape.first], cut_bytes(lines.texts[shape.first])) for _, shape in graded[:MOST_ERRORS]]


def summary(lines: Lines, mined: Shapes, sample: Sample) -> list[str]:
    """From when to when, and who speaks."""
    told: list[str] = []
    first, last = _time(lines.texts[:_NEAR]), _time(lines.texts[: -_NEAR - 1 : -1])
    if first and last:
        told.append(first if first == last else f"{first} → {last}")
    programs = Counter({name: times for name, times in mined.programs.items() if name})
    if programs.total() * 2 > mined.programs.total():
        told.append(f"{plural(len(programs), 'program')}: {_shares(programs, mined.programs.total(), 4)}")
    levels = Counter({name: times for name, times in mined.levels.items() if name})
    if levels.total() * 3 > mined.levels.total():
        told.append(_shares(levels, mined.levels.total(), 6))
    statuses = _statuses(sample)
    if statuses:
        told.append(f"status {_shares(statuses, statuses.total(), 6)}")
    return [" · ".join(told)] if told else []


def _shares(counts: Counter[str], total: int, most: int) -> str:
    shown = ", ".join(f"{name} {share(times, total)}" for name, times in counts.most_common(most))
    return shown + (", …" if len(counts) > most else "")


def _time(texts: list[bytes]) -> str:
    for text in texts:
        found = TIME.search(text[:_TIME_IN].decode("utf-8", "replace"))
        if found:
            return found[0].strip()
    return ""


def _statuses(sample: Sample) -> Counter[str]:
    """Of a web server's access log, from its first lines: a share, not a count."""
    found = [access(line.decode("utf-8", "replace")) for line in sample.head[:65536].split(b"\n")[:400]]
    hits = [each for each in found if each]
    return Counter(status for _, _, status in hits) if len(hits) * 2 > len(found) else Counter()
