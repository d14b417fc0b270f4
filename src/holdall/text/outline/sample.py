"""What is read of an output to outline it: all of a small one; of a large one its ends and windows spread evenly.

The only module of the outline that calls `read`. What it reads is bounded, whatever the size of the output. Passes
over all that was read run at the speed of memory; what costs time by its number is `thinned` first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import stringzilla

Read = Callable[[int, int], bytes]
LineAt = Callable[[int], int]

WHOLE = 4 * 1024 * 1024 + 256 * 1024  # outputs up to this size are read whole
SCANNED = 16 * 1024 * 1024  # up to this size all of an output may be searched for a few words, piece by piece
_PIECE = 1024 * 1024
_END = 128 * 1024  # of a larger one, so much of both ends …
_WINDOW = 64 * 1024  # … and windows of this size between them
_WINDOWS = 12
_PARTS = 16  # windows into which an output is thinned that was read whole
_BLOCK = 64 * 1024  # by which lines are counted


@dataclass(frozen=True)
class Sample:
    """Pieces of an output in their order, with the byte at which each starts. One piece is the whole where it fits."""

    pieces: tuple[tuple[int, bytes], ...]
    size: int
    lines: int  # of the whole
    read: Read | None = None
    line_at: LineAt | None = None  # the line that holds a byte, for places outside of what was read

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

    @property
    def scale(self) -> float:
        """How many bytes of the whole each one that was read stands for."""
        return 1.0 if self.whole else self.size / max(1, sum(len(data) for _, data in self.pieces))

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


def take(read: Read, size: int, lines: int, line_at: LineAt | None = None) -> Sample:
    if size <= WHOLE:
        return Sample(((0, read(0, size)),) if size else (), size, lines, read, line_at)
    pieces = [(0, read(0, _END))]
    gap = (size - 2 * _END - _WINDOWS * _WINDOW) / (_WINDOWS + 1)
    for number in range(_WINDOWS):
        start = int(_END + gap + number * (_WINDOW + gap))
        pieces.append((start, read(start, start + _WINDOW)))
    pieces.append((size - _END, read(size - _END, size)))
    return Sample(tuple(pieces), size, lines, read, line_at)


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
    return Sample(tuple(pieces), sample.size, sample.lines, sample.read, sample.line_at)


def all_of(sample: Sample, overlap: int = 0) -> Iterator[tuple[int, bytes]]:
    """Every byte of the output in pieces, where it is not too large for that; else what was read.

    Pieces overlap by so many bytes, so that what is looked for is not cut between them.
    """
    if sample.whole or sample.read is None or sample.size > SCANNED:
        yield from sample.pieces
        return
    for start in range(0, sample.size, _PIECE):
        yield start, sample.read(start, min(sample.size, start + _PIECE + overlap))
