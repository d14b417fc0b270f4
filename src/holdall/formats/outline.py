"""What an outline is, how much it may say, and what is read of an output to make one: all of a small output; of a large
one its ends and windows spread evenly. Every cut is marked in the same way.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal, TypeVar

import stringzilla

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What is read of an output to outline it: all of a small one; of a large one its ends and windows spread evenly.
#
# The only module of the outline that calls `read`. What it reads is bounded, whatever the size of the output. Passes
# over all that was read run at the speed of memory; what costs time by its number is `thinned` first.


Read = Callable[[int, int], bytes]
LineAt = Callable[[int], int]

WHOLE = 8 * 1024 * 1024  # outputs up to this size are read whole, and what is said of them is exact
SCANNED = 16 * 1024 * 1024  # up to this size all of an output may be searched for a few words, piece by piece
_PIECE = 1024 * 1024
_END = 128 * 1024  # of a larger one, so much of both ends …
_WINDOW = 64 * 1024  # … and windows of this size between them
_WINDOWS = 12
_PARTS = 16  # windows into which an output is thinned that was read whole
_BLOCK = 64 * 1024  # by which lines are counted


class _Remembering:
    """Its objects have a place for cached properties, which those of a plain record have not."""


@record
class Sample(_Remembering):
    """Pieces of an output in their order, with the byte at which each starts. One piece is the whole where it fits."""

    pieces: tuple[tuple[int, bytes], ...]
    size: int
    lines: int  # of the whole
    read: Read | None = None
    line_at: LineAt | None = None  # the line that holds a byte, for places outside of what was read
    longest: int = 0  # bytes of the longest line of the whole

    @property
    def whole(self) -> bool:
        return len(self.pieces) <= 1

    @property
    def head(self) -> bytes:
        return self.pieces[0][1] if self.pieces else b""

    @property
    def tail(self) -> bytes:
        return self.pieces[-1][1] if self.pieces else b""

    @property
    def tail_start(self) -> int:
        return self.pieces[-1][0] if self.pieces else 0

    def count(self, sign: bytes) -> int:
        return sum(stringzilla.count(data, sign) for _, data in self.pieces)

    def line(self, offset: int) -> int | None:
        """The number of the line that holds the byte; None where lines cannot be counted."""
        if self.line_at is not None:
            return self.line_at(offset)
        if offset > len(self.head):
            return None
        block = min(offset // _BLOCK, len(self._lines_before) - 1)
        return self._lines_before[block] + self.head.count(b"\n", block * _BLOCK, offset) + 1

    def place(self, offset: int) -> str:
        """`L2,871` where lines can be counted, else the byte."""
        line = self.line(offset)
        return f"byte {offset:,}" if line is None else f"L{line:,}"

    @cached_property
    def _lines_before(self) -> list[int]:
        """Newlines before each block of the head."""
        before = [0]
        for start in range(0, len(self.head) - _BLOCK, _BLOCK):
            before.append(before[-1] + self.head.count(b"\n", start, start + _BLOCK))
        return before


def take(read: Read, size: int, lines: int, line_at: LineAt | None = None, longest: int = 0) -> Sample:
    if size <= WHOLE:
        return Sample(((0, read(0, size)),) if size else (), size, lines, read, line_at, longest)
    pieces = [(0, read(0, _END))]
    gap = (size - 2 * _END - _WINDOWS * _WINDOW) / (_WINDOWS + 1)
    for number in range(_WINDOWS):
        start = int(_END + gap + number * (_WINDOW + gap))
        pieces.append((start, read(start, start + _WINDOW)))
    pieces.append((size - _END, read(size - _END, size)))
    return Sample(tuple(pieces), size, lines, read, line_at, longest)


def thinned(sample: Sample, keep: float) -> Sample:
    """About that share of what was read, spread evenly and with both ends: for what costs time by its number."""
    pieces: list[tuple[int, bytes]] = []
    for start, data in sample.pieces:
        parts = _PARTS if sample.whole else 1
        length = max(1, int(len(data) * keep / parts))
        stride = (len(data) - length) // max(1, parts - 1)
        for number in range(parts):
            # The last one of all reaches to the end.
            is_last = number == parts - 1 and start + len(data) == sample.size
            at = len(data) - length if is_last else number * stride
            pieces.append((start + at, data[at : at + length]))
    return replace(sample, pieces=tuple(pieces))


def all_of(sample: Sample, overlap: int = 0) -> Iterator[tuple[int, bytes]]:
    """Every byte of the output in pieces, where it is not too large for that; else what was read.

    Pieces overlap by so many bytes, so that what is looked for is not cut between them.
    """
    if sample.whole or sample.read is None or sample.size > SCANNED:
        yield from sample.pieces
        return
    for start in range(0, sample.size, _PIECE):
        yield start, sample.read(start, min(sample.size, start + _PIECE + overlap))


# The whole lines of a sample, so many at most that they can be counted in time.


_ALL = 64_000  # up to so many lines all are looked at, …
_SOME = 6_000  # … of more so many, and where many of them have a shape of their own, …
_VARIED = 3_000  # … or nearly every one: more would tell no more
_PROBE = 64 * 1024


@record
class Lines(_Remembering):
    """Lines without their ends. `runs` are those of one piece each: its first line here, and where that starts."""

    texts: list[bytes]
    runs: list[tuple[int, int]]
    total: int  # lines of the whole output
    exact: bool

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.texts), initial=0))

    def start(self, index: int) -> int:
        """The byte at which a line starts."""
        first, at = self.runs[bisect_right(self.runs, (index, 1 << 62)) - 1]
        return at + self._ends[index] - self._ends[first] + index - first


def split(sample: Sample, *, every: bool = False) -> Lines:
    """Of a window the first and the last line are left out, for they may be cut. `every`: however they vary."""
    read = sum(len(data) for _, data in sample.pieces)
    expected = sample.lines * read / max(1, sample.size)
    most = _ALL if sample.whole and expected <= _ALL else _SOME
    if not every:
        most = min(most, max(_VARIED, _most_shapes(sample.head[:_PROBE])))
    if expected > most:
        sample = thinned(sample, most / expected)
    texts: list[bytes] = []
    runs: list[tuple[int, int]] = []
    for start, data in sample.pieces:
        if not data:
            continue
        parts = data.split(b"\n")
        if start + len(data) < sample.size or not parts[-1]:
            parts.pop()
        at = start
        if start and parts:
            at += len(parts[0]) + 1
            del parts[0]
        if parts:
            runs.append((len(texts), at))
            texts += parts
    return Lines(texts, runs, sample.lines, sample.whole)


def _most_shapes(start: bytes) -> int:
    """How many lines are worth grouping: fewer where more of these differ in more than their digits."""
    lines = start.translate(None, b"0123456789").split(b"\n")
    if len(lines) <= 100:
        return _ALL
    different = len(set(lines)) / len(lines)
    return _VARIED if different > 0.9 else _SOME if different > 0.3 else _ALL


_SCATTERED, _SCATTERED_BYTES = 16, 4096  # windows, and the bytes of each


def scattered(sample: Sample) -> list[str]:
    """Whole lines from all over the output, a few of each place, without blank ones: for what most of it is."""
    parts = sample.pieces if not sample.whole else [(0, sample.head)] * bool(sample.head)
    windows: list[bytes] = []
    for _, data in parts:
        number = max(1, _SCATTERED // len(parts))
        stride = max(1, (len(data) - _SCATTERED_BYTES) // max(1, number - 1))
        starts = range(0, max(1, len(data) - _SCATTERED_BYTES + 1), stride)
        windows += [data[at : at + _SCATTERED_BYTES] for at in starts]
    lines = [line for window in windows for line in window.split(b"\n")[1:-1]] or sample.head[:_PROBE].split(b"\n")
    return [text for line in lines if (text := line.decode("utf-8", "replace").rstrip())]


# What an outline is, how much it may say, and the one way in which its parts are cut: so that the cut can be seen.
#
# Nothing here reads. Text of the output that is shown in an outline stays on one line, whatever it holds.


_CONTROL = lazy_pattern("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
ERROR_BYTES = 200
MAX_ERRORS = 5
_GOLDEN = 0.6180339887498949
_T = TypeVar("_T")


@record
class Lead:
    """A question that is worth asking next: a verb, and arguments whose values are in the output."""

    verb: Literal["grep", "query", "read"]
    arguments: Mapping[str, str | int | bool]
    member: str = ""  # of what is packed in the output, as it is named behind its handle


@record
class Outline:
    """What is in an output and what is rare in it.

    `lines` stand most important first, each for itself: callers may drop the last ones. Figures are exact or say "at
    least"; only shares of a sample that is named have a `~`. `sampled` says that some are not exact. `errors` are lines
    that look like errors, as byte offset and text; `ranges` are bytes worth reading, as start, end and what they are;
    `leads` are what to ask.
    """

    label: str
    lines: tuple[str, ...]
    sampled: bool
    errors: tuple[tuple[int, str], ...]
    ranges: tuple[tuple[int, int, str], ...] = ()
    leads: tuple[Lead, ...] = field(default=())
    ends: bool = True  # whether the first and last lines of the output tell something besides


def _chars(line: str) -> int:
    return len(line)


@record
class Room:
    """How much may be said: so many characters, or of whatever `cost` counts. Each line costs one more, for its end."""

    size: float
    cost: Callable[[str], int] = _chars

    def of(self, line: str) -> int:
        return self.cost(line) + 1

    @property
    def is_small(self) -> bool:
        """Whether there is room for a few short lines only."""
        return self.size < self.cost("word " * 150)

    def after(self, lines: Sequence[str]) -> "Room":
        """What is left when these are said."""
        return Room(self.size - sum(map(self.of, lines)), self.cost)

    def less(self, share: float) -> "Room":
        return Room(self.size * share, self.cost)

    def cut(self, line: str, least: int = 40) -> str:
        """`line`, or as much of its beginning as fits; at least so many characters."""
        for _ in range(6):
            cost = self.of(line)
            if cost <= self.size or len(line) <= least:
                break
            line = cut(line, max(least, int(len(line) * max(0.05, self.size / cost) * 0.95)))
        return line


def spread(values: Sequence[_T], most: int) -> list[_T]:
    """At most so many of the values, spread over all of them. Not at equal distances: values that repeat at some
    distance would be seen in part only, again and again the same."""
    if len(values) <= most:
        return list(values)
    stride = len(values) / most
    return [values[int(place * stride)] for place in _places(most)]


@lru_cache(maxsize=16)
def _places(most: int) -> tuple[float, ...]:
    return tuple(number + number * _GOLDEN % 1 for number in range(most))


def flat(text: str) -> str:
    """`text` on one line: runs of control characters become one space."""
    return _CONTROL.sub(" ", text)


def cut(text: str, most: int) -> str:
    """`text` on one line and at most `most` characters, the last of which is `…` where something is left out."""
    text = flat(text[: most * 2 + 64]) if len(text) > most * 2 + 64 else flat(text)
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


def cut_bytes(line: bytes, most: int = ERROR_BYTES) -> str:
    """The same for a line of bytes: at most `most` bytes of it."""
    text = cut(line[: most + 4].decode("utf-8", "replace").strip(), most)
    while len(text.encode("utf-8", "replace")) > most:
        text = cut(text.removesuffix("…"), len(text) - 1 - (len(text.encode("utf-8", "replace")) - most) // 4)
    return text if len(line.strip()) <= most or text.endswith("…") else text[:-1] + "…"


def figure(number: int, exact: bool) -> str:
    """`1,204`, or `at least 1,204` where not all was looked at. There are no estimates in an outline."""
    return f"{number:,}" if exact else f"at least {number:,}"


def share(part: float, whole: float) -> str:
    """The only figure with a `~`: of a sample that is named beside it."""
    percent = 100 * part / whole if whole else 0
    return "<1 %" if 0 < percent < 1 else ">99 %" if 99 < percent < 100 else f"~{percent:.0f} %"


def fitted(lines: Sequence[str], room: Room) -> tuple[str, ...]:
    """The first lines that fit; the first one always, cut where it must be."""
    kept: list[str] = []
    for line in lines:
        if not kept:
            kept.append(room.cut(line, 80))
        elif room.of(line) <= room.size:
            kept.append(line)
        else:
            break
        room = room.after(kept[-1:])
    return tuple(kept)
