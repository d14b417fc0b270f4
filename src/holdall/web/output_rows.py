"""A window into an output, as rows: lines, runs of so many bytes, or bytes in hex.

Any window costs a few reads of 64 KiB, wherever it is and whatever the output is like: one of ten million lines, and
one line of a gigabyte. A line that is long is shown by its beginning, and the row says how much is left; by bytes all
of it can be seen. A window never splits a character.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol, get_args

from holdall.text.utf8 import straddling_bytes
from holdall.values.errors import BadRange
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable, Span, Totals
from holdall.web.output_text import Run, runs_of

By = Literal["lines", "bytes", "hex"]
WAYS: tuple[str, ...] = get_args(By)
MOST_ROWS = 400
LINE_BYTES = 1024  # of one line that are shown
MOST_WIDTH = 512
HEX_WIDTH = 16
_NEWLINE = re.compile(b"\n")


class Reader(Protocol):
    """What the bag hands to whoever looks into an open output."""

    @property
    def facts(self) -> Facts: ...
    @property
    def table(self) -> BlockTable: ...
    @property
    def totals(self) -> Totals: ...
    def read(self, start: int, end: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Row:
    """`number` is the line, or which run of bytes it is, from 0. `end` is where the next row starts."""

    number: int
    start: int
    end: int
    runs: Sequence[Run]
    left: int = 0  # bytes of the line that are not in `runs`
    ended: bool = False  # the last of its bytes is the newline

    @property
    def content(self) -> Span:
        """Without the newline, which a verb that shows a line may leave out."""
        return Span(self.start, self.end - (self.ended and self.end - self.start > 1))

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"n": self.number, "at": self.start, "end": self.end, "t": self.runs}
        return flat | ({"left": self.left} if self.left else {})


def window(reader: Reader, by: By, first: int, count: int, width: int) -> list[Row]:
    """At most `count` rows from `first` on: a line from 1 on, or a run of `width` bytes from 0 on."""
    if first < 0 or not 0 < count <= MOST_ROWS or not 0 < width <= MOST_WIDTH:
        raise BadRange(f"a window has 1 to {MOST_ROWS} rows of 1 to {MOST_WIDTH} bytes and starts at 0 or later.")
    if by == "lines":
        return list(lines_from(reader, max(1, first), count))
    return list(_pieces(reader, first, count, width, in_hex=by == "hex"))


def lines_from(reader: Reader, first: int, count: int, *, most: int = LINE_BYTES) -> Iterator[Row]:
    total = reader.totals
    last = min(first + count - 1, total.lines)
    if first > last:
        return
    starts = [0] if first == 1 else []
    starts += [place + 1 for place in _newlines(reader, max(1, first - 1), last - 1)]
    starts += [place + 1 for place in _newlines(reader, last, last)] or [total.bytes]
    for number, (start, end) in enumerate(pairwise(starts), first):
        data = reader.read(start, min(end, start + most + 4))
        whole = data.removesuffix(b"\n") if start + len(data) == end else data
        shown = whole if len(whole) <= most else whole[: most - straddling_bytes(whole[:most], whole[most:])]
        ended = reader.read(end - 1, end) == b"\n"
        yield Row(number, start, end, runs_of(shown), max(0, end - ended - start - len(shown)), ended)


def _newlines(reader: Reader, first: int, last: int) -> Iterator[int]:
    """Where the newlines with these numbers stand, from 1 on; a block is read once, and only blocks that hold one."""
    table, wanted = reader.table, first
    while wanted <= last:
        block = table.block_of_newline(wanted)
        if block >= len(table):
            return
        before = table.newlines_before(block)
        places = [found.start() for found in _NEWLINE.finditer(reader.read(block * BLOCK, (block + 1) * BLOCK))]
        chosen = places[wanted - before - 1 : last - before]
        if not chosen:  # a running output that was cut short under our feet
            return
        yield from (block * BLOCK + place for place in chosen)
        wanted += len(chosen)


def _pieces(reader: Reader, first: int, count: int, width: int, *, in_hex: bool) -> Iterator[Row]:
    size = reader.totals.bytes
    begin, stop = first * width, min(size, (first + count) * width)
    if begin >= stop:
        return
    base = max(0, begin - 3)
    data = reader.read(base, min(size, stop + 3))

    def border(place: int) -> int:
        """Where the character starts that stands at `place`."""
        if in_hex or place >= size:
            return min(place, size)
        at = place - base
        return place - straddling_bytes(data[max(0, at - 3) : at], data[at : at + 3])

    start = border(begin)
    for number in range(first, first + count):
        end = border((number + 1) * width)
        if start >= size:
            return
        piece = data[start - base : end - base]
        yield Row(number, start, end, [piece.hex(" ")] if in_hex else runs_of(piece))
        start = end
