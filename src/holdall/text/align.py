"""Which items of two sequences belong together: what is left between them is what was removed, added or changed.

Items are given by numbers that are equal where the items are. The time is linear in the items, up to a logarithm,
whatever they are: first items that occur once on both sides are matched, then those that occur once between two
matches, and so on for a few rounds; what is then still open is compared item by item where it is small, else nearby.
So the way from one side to the other that this finds is always right, and not always the shortest. It reads no clock:
`tick` is called now and then and may raise.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

_ROUNDS = 4
_SMALL = 64  # items of a side of what is compared item by item
_NEAR = 64  # how far one that belongs to another is looked for where it is not
_TICK = 4096

Range = tuple[int, int, int, int]  # items of the one side, from and to, and of the other


def differences(one: Sequence[int], other: Sequence[int], tick: Callable[[], object] = lambda: None) -> list[Range]:
    """The ranges that do not belong together, in order; at least one of the two sides of each is not empty."""
    matched: list[tuple[int, int, int]] = []  # where a run begins on both sides, and how long it is
    gaps: list[Range] = [(0, len(one), 0, len(other))]
    for left in reversed(range(_ROUNDS)):
        open_gaps: list[Range] = []
        for gap in gaps:
            tick()
            runs, rest = _trimmed(one, other, gap)
            matched += runs
            if rest[0] == rest[1] or rest[2] == rest[3]:
                continue
            anchors = _anchors(one, other, rest, tick)
            if anchors and left:
                open_gaps += _between(rest, anchors)
                matched += [(i, j, 1) for i, j in anchors]
            else:
                matched += [(i, j, 1) for i, j in anchors or _nearby(one, other, rest, tick)]
        gaps = open_gaps
    return _unmatched(sorted(matched), len(one), len(other))


def _trimmed(one: Sequence[int], other: Sequence[int], gap: Range) -> tuple[list[tuple[int, int, int]], Range]:
    """Runs at both ends that are equal, and what is between them."""
    a, b, c, d = gap
    start, most = 0, min(b - a, d - c)
    while start < most and one[a + start] == other[c + start]:
        start += 1
    end = 0
    while end < most - start and one[b - 1 - end] == other[d - 1 - end]:
        end += 1
    runs = [(a, c, start)] if start else []
    runs += [(b - end, d - end, end)] if end else []
    return runs, (a + start, b - end, c + start, d - end)


def _anchors(one: Sequence[int], other: Sequence[int], gap: Range, tick: Callable[[], object]) -> list[tuple[int, int]]:
    """Items that occur once on both sides, as many as follow each other in the same order on both."""
    a, b, c, d = gap
    here, there = _once(one, a, b, tick), _once(other, c, d, tick)
    pairs = [(i, j) for item, i in here.items() if i >= 0 and (j := there.get(item, -1)) >= 0]
    pairs.sort()
    # The longest run of ascending places on the other side, by the piles of patience.
    tops: list[int] = []
    owners: list[int] = []
    before = [-1] * len(pairs)
    for at, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before[at] = owners[pile - 1] if pile else -1
        if pile == len(tops):
            tops.append(j)
            owners.append(at)
        else:
            tops[pile], owners[pile] = j, at
    found: list[tuple[int, int]] = []
    at = owners[-1] if owners else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _once(items: Sequence[int], start: int, end: int, tick: Callable[[], object]) -> dict[int, int]:
    """Where each item is; -1 if it occurs more than once."""
    places: dict[int, int] = {}
    for at in range(start, end):
        if not at % _TICK:
            tick()
        places[items[at]] = -1 if items[at] in places else at
    return places


def _between(gap: Range, anchors: list[tuple[int, int]]) -> list[Range]:
    a, b, c, d = gap
    gaps: list[Range] = []
    for i, j in [*anchors, (b, d)]:
        if i > a or j > c:
            gaps.append((a, i, c, j))
        a, c = i + 1, j + 1
    return gaps


def _nearby(one: Sequence[int], other: Sequence[int], gap: Range, tick: Callable[[], object]) -> list[tuple[int, int]]:
    """Items in the same order on both sides where none of them occurs once."""
    a, b, c, d = gap
    if b - a <= _SMALL and d - c <= _SMALL:
        return [(a + i, c + j) for i, j in _common(one[a:b], other[c:d])]
    places: dict[int, list[int]] = {}
    for at in range(a, b):
        places.setdefault(one[at], []).append(at)
    found: list[tuple[int, int]] = []
    at = a
    for j in range(c, d):
        if not j % _TICK:
            tick()
        known = places.get(other[j], ())
        nearest = bisect_left(known, at)
        if nearest < len(known) and known[nearest] < at + _NEAR:
            found.append((known[nearest], j))
            at = known[nearest] + 1
    return found


def _common(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """The longest common subsequence of two short ones."""
    width = len(other) + 1
    longest = [0] * ((len(one) + 1) * width)
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            cell = i * width + j
            if one[i] == other[j]:
                longest[cell] = longest[cell + width + 1] + 1
            else:
                longest[cell] = max(longest[cell + width], longest[cell + 1])
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        cell = i * width + j
        if one[i] == other[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif longest[cell + width] >= longest[cell + 1]:
            i += 1
        else:
            j += 1
    return found


def _unmatched(matched: list[tuple[int, int, int]], ones: int, others: int) -> list[Range]:
    ranges: list[Range] = []
    a = c = 0
    for i, j, length in [*matched, (ones, others, 0)]:
        if i > a or j > c:
            ranges.append((a, i, c, j))
        a, c = i + length, j + length
    return ranges
