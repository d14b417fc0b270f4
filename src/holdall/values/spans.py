"""Where something is in an output: spans and totals, and the block table that finds any line, char or byte with one
small read. Frozen data; nothing here reads an output.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import field

from holdall.values.record import record

# The block table: what lets any line, char or byte of a large output be found with one small read.
#
# For each block of 64 KiB it holds how many newlines and how many whole characters the output has up to the end of that
# block, and a checksum of the block's bytes. A character belongs to the block that holds its last byte. The table is
# built by `policy.measure` and stored with the record; this module only reads it.


BLOCK = 64 * 1024


def _numbers() -> "array[int]":
    return array("Q")


@record
class BlockTable:
    newlines: "array[int]" = field(default_factory=_numbers)
    chars: "array[int]" = field(default_factory=_numbers)
    checksums: "array[int]" = field(default_factory=_numbers)

    def __len__(self) -> int:
        return len(self.checksums)

    def newlines_before(self, block: int) -> int:
        return self.newlines[block - 1] if block else 0

    def chars_before(self, block: int) -> int:
        return self.chars[block - 1] if block else 0

    def block_of_newline(self, number: int) -> int:
        """The block that holds newline `number`, counted from 1. len(self) if there is none."""
        return bisect_left(self.newlines, number)

    def block_of_char(self, index: int) -> int:
        """The block in which char `index`, counted from 0, ends. len(self) if there is none."""
        return bisect_right(self.chars, index)

    def to_bytes(self) -> bytes:
        return b"".join(_little_endian(column).tobytes() for column in (self.newlines, self.chars, self.checksums))

    @staticmethod
    def from_bytes(data: bytes) -> "BlockTable":
        if len(data) % 24:
            raise ValueError("a block table has three columns of 8-byte numbers")
        third = len(data) // 3
        columns: list[array[int]] = []
        for start in (0, third, 2 * third):
            column = _numbers()
            column.frombytes(data[start : start + third])
            columns.append(_little_endian(column))
        return BlockTable(*columns)


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


# A span of bytes or chars counts from 0 and excludes its end. A span of lines counts from 1 and includes both ends.
# Which of the two a span is, is said by the name of the field that holds it.


@record
class Span:
    """A range of bytes or characters, from 0, the end not included; or of lines, from 1, the last one included."""

    start: int
    end: int

    def as_list(self) -> list[int]:
        return [self.start, self.end]


@record
class Ask:
    """A range as it was asked for: open ends are None, negative numbers count from the end."""

    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.start is None else self.start}:{'' if self.end is None else self.end}"


Range = str | Sequence[int | None] | Ask  # "10:20", (10, 20), (10, None)


@record
class Totals:
    """The whole that a span is a part of."""

    bytes: int
    chars: int
    lines: int

    def as_dict(self) -> dict[str, int]:
        return {"bytes": self.bytes, "chars": self.chars, "lines": self.lines}
