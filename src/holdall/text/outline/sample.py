"""What is read of an output to outline it: all of a small one; of a large one its ends and windows spread evenly.

The only module of the outline that calls `read`. What it reads is bounded, whatever the size of the output.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

Read = Callable[[int, int], bytes]

WHOLE = 4 * 1024 * 1024 + 256 * 1024  # outputs up to this size are read whole
_END = 128 * 1024  # of a larger one, so much of both ends …
_WINDOW = 64 * 1024  # … and windows of this size between them
_WINDOWS = 12
_LINES = 40_000  # lines that are looked at …
_VARIED = 10_000  # … and where nearly every one has a shape of its own: more would tell no more
_PROBE = 64 * 1024
_PARTS = 16  # windows into which an output is thinned that was read whole


@dataclass(frozen=True, slots=True)
class Sample:
    """Pieces of an output in their order, with the byte at which each starts. One piece is the whole where it fits."""

    pieces: tuple[tuple[int, bytes], ...]
    size: int
    lines: int  # of the whole

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

    def place(self, offset: int) -> str:
        """`L2,871` where lines can be counted, else the byte."""
        if offset <= len(self.head):
            number = self.head.count(b"\n", 0, offset) + 1
            return f"L{number:,}"
        return f"byte {offset:,}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines of a sample, without their ends, and where each starts."""

    texts: list[bytes]
    starts: list[int]
    total: int  # lines of the whole output
    exact: bool

    @property
    def scale(self) -> float:
        """How many lines of the whole each of these stands for."""
        return 1.0 if self.exact or not self.texts else max(1.0, self.total / len(self.texts))

    def end(self, index: int) -> int:
        return self.starts[index] + len(self.texts[index])

    def index_at(self, offset: int) -> int:
        return max(0, bisect_right(self.starts, offset) - 1)


def take(read: Read, size: int, lines: int) -> Sample:
    if size <= WHOLE:
        return Sample(((0, read(0, size)),) if size else (), size, lines)
    pieces = [(0, read(0, _END))]
    gap = (size - 2 * _END - _WINDOWS * _WINDOW) / (_WINDOWS + 1)
    for number in range(_WINDOWS):
        start = int(_END + gap + number * (_WINDOW + gap))
        pieces.append((start, read(start, start + _WINDOW)))
    pieces.append((size - _END, read(size - _END, size)))
    return Sample(tuple(pieces), size, lines)


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
    return Sample(tuple(pieces), sample.size, sample.lines)


def _varied(start: bytes) -> bool:
    """Whether nearly all of these lines differ in more than their digits."""
    lines = start.translate(None, b"0123456789").split(b"\n")
    return len(lines) > 100 and len(set(lines)) * 10 > 9 * len(lines)


def split(sample: Sample) -> Lines:
    """The whole lines of a sample, so many at most that they can be counted in time.

    Of a window the first and the last line are left out, for they may be cut.
    """
    read = sum(len(data) for _, data in sample.pieces)
    expected = sample.lines * read / max(1, sample.size)
    most = _VARIED if _varied(sample.head[:_PROBE]) else _LINES
    if expected > most:
        sample = thinned(sample, most / expected)
    texts: list[bytes] = []
    starts: list[int] = []
    for start, data in sample.pieces:
        if not data:
            continue
        parts = data.split(b"\n")
        if start + len(data) < sample.size or not parts[-1]:
            parts.pop()
        ends = accumulate((len(part) + 1 for part in parts), initial=start)
        places = list(ends)[:-1]
        if start and parts:
            parts, places = parts[1:], places[1:]
        texts += parts
        starts += places
    return Lines(texts, starts, sample.lines, sample.whole)
