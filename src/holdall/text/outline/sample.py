"""What is read of an output to outline it: all of a small one; of a large one its ends and windows spread evenly.

The only module of the outline that calls `read`. What it reads is bounded, whatever the size of the output. Passes
over all that was read run at the speed of memory; what costs time by its number is `thinned` first.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import stringzilla

Read = Callable[[int, int], bytes]

WHOLE = 4 * 1024 * 1024 + 256 * 1024  # outputs up to this size are read whole
SCANNED = 16 * 1024 * 1024  # up to this size all of an output may be searched for a few words, piece by piece
_SCAN = 1024 * 1024
_END = 128 * 1024  # of a larger one, so much of both ends …
_WINDOW = 64 * 1024  # … and windows of this size between them
_WINDOWS = 12
_LINES = 32_000  # lines that are looked at …
_VARIED = 6_000  # … and where nearly every one has a shape of its own: more would tell no more
_PROBE = 64 * 1024
_PARTS = 16  # windows into which an output is thinned that was read whole


@dataclass(frozen=True, slots=True)
class Sample:
    """Pieces of an output in their order, with the byte at which each starts. One piece is the whole where it fits."""

    pieces: tuple[tuple[int, bytes], ...]
    size: int
    lines: int  # of the whole
    read: Read | None = field(default=None, compare=False, repr=False)

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
        """How much of the whole each byte that was read stands for."""
        return 1.0 if self.whole else self.size / max(1, sum(len(data) for _, data in self.pieces))

    def count(self, sign: bytes) -> int:
        return sum(stringzilla.count(data, sign) for _, data in self.pieces if data)

    def place(self, offset: int) -> str:
        """`L2,871` where lines can be counted, else the byte."""
        if offset <= len(self.head):
            number = stringzilla.count(self.head, b"\n", 0, offset) + 1 if offset else 1
            return f"L{number:,}"
        return f"byte {offset:,}"
