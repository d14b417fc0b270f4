"""What is shown of a match: its line where that is short, else a window around it; lines of context likewise.

Every byte that is shown was read through the reader, which checks it. Nothing here searches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from holdall.store.protocol import OutputReader
from holdall.text.excerpt import around, beginning
from holdall.text.utf8 import decode
from holdall.values.answers import Match
from holdall.values.spans import BLOCK, Span
from holdall.verbs.locate import byte_of_line, char_of_byte, line_of_byte

_NEAR = 512  # most lines end within this


@dataclass(frozen=True, slots=True)
class Size:
    """In bytes: a line up to this is shown whole, a longer one as so much on both sides; so much of a match."""

    line: int = 400
    reach: int = 160
    match: int = 400

    @staticmethod
    def for_room(room: int | None) -> "Size":
        """So that one match fits into `room`, even where each byte becomes a replacement character of three."""
        usual = Size()
        if room is None or room >= 4 * (usual.match + 2 * usual.reach + usual.match):
            return usual
        return Size(line=room // 8, reach=room // 32, match=room // 16)


class Windows:
    """Matches of one output, shown in ascending order."""

    def __init__(self, reader: OutputReader, *, size: Size, whole_lines: bool, takes_return: bool) -> None:
        self._reader = reader
        self._size = size
        self._whole_lines = whole_lines
        self._takes_return = takes_return
        self._place = (0, 1, 0)  # a byte, its line and its char

    def show(self, place: Span) -> Match:
        """The match without lines of context."""
        end = self._line_end(place.start) if self._whole_lines else self._end(place)
        found = 0 if self._whole_lines else min(end - place.start, self._size.match)
        line, begins, ends = self._around(place.start, place.start + found)
        at = place.start - line.start
        data = self._reader.read(line.start, line.end)
        line_number, char = self._locate(place.start)
        if begins and ends and len(data) <= self._size.line:
            shown = around(data, at, at, reach=len(data), limit=len(data))
        else:
            reach = 2 * self._size.reach if self._whole_lines else self._size.reach
            shown = around(data, at, at + found, reach=reach, limit=found + 2 * reach)
        return Match(
            line=line_number,
            byte=place.start,
            end=end,
            char=char,
            text=shown.text,
            text_byte=line.start + shown.start,
            match=beginning(data[at : at + found + 3], found).text,
            cut_left=shown.cut_left or not begins,
            cut_right=shown.cut_right or not ends,
        )

    def with_context(self, match: Match, number: int, room: int | None) -> tuple[Match, bool]:
        """`match` with up to `number` lines on both sides, the nearest first, in `room` bytes a side.

        And whether all of them are there and whole.
        """
        before, above, whole_before = self._lines(self._lines_before(match.byte), number, room)
        after, below, whole_after = self._lines(self._lines_after(match.end), number, room)
        shown = replace(match, before=tuple(reversed(before)), after=tuple(after), context=(*reversed(above), *below))
        return shown, whole_before and whole_after

    def _lines(self, lines: Iterator[Span], number: int, room: int | None) -> tuple[list[str], list[Span], bool]:
        """The lines, where what is shown of them stands, and whether all of them are there and whole."""
        texts: list[str] = []
        spans: list[Span] = []
        whole = True
        for line in islice(lines, number):
            text = self._line(line)
            if room is not None:
                room -= len(text.encode())
                if room < 0:
                    return texts, spans, False
            whole = whole and line.end - line.start <= self._size.line
            texts.append(text)
            spans.append(Span(line.start, min(line.end, line.start + len(text.encode()))))
        return texts, spans, whole

    def _line(self, line: Span) -> str:
        if line.end - line.start <= self._size.line:
            return decode(self._reader.read(line.start, line.end).removesuffix(b"\r"))[0]
        most = 2 * self._size.reach
        return beginning(self._reader.read(line.start, line.start + most + 1), most).text

    def _lines_before(self, byte: int) -> Iterator[Span]:
        end = self._line_start(byte) - 1
        while end >= 0:
            start = self._line_start(end)
            yield Span(start, end)
            end = start - 1

    def _lines_after(self, byte: int) -> Iterator[Span]:
        start = self._line_end(byte) + 1
        while start < self._reader.totals.bytes:
            end = self._line_end(start)
            yield Span(start, end)
            start = end + 1

    def _around(self, start: int, end: int) -> tuple[Span, bool, bool]:
        """The line of a match as far as it is near; whether it begins and ends there."""
        low = max(0, start - self._size.line - 1)
        before = self._reader.read(low, start)
        newline = before.rfind(b"\n")
        line_start, begins = low + newline + 1, newline >= 0 or low == 0
        after = self._reader.read(end, end + self._size.line + 1)
        newline = after.find(b"\n")
        line_end = end + (len(after) if newline < 0 else newline)
        ends = newline >= 0 or line_end == self._reader.totals.bytes
        if newline > 0 and after[newline - 1 : newline] == b"\r":
            line_end -= 1
        return Span(line_start, line_end), begins, ends

    def _end(self, place: Span) -> int:
        """Without the \\r that `$` took along: it ends the line."""
        if not self._takes_return or place.end - place.start < 2:
            return place.end
        tail = self._reader.read(place.end - 1, place.end + 1)
        return place.end - 1 if tail in (b"\r", b"\r\n") else place.end

    def _locate(self, byte: int) -> tuple[int, int]:
        """Line and char of `byte`, counted on from the last one where both are in the same block."""
        known, line, char = self._place
        between = self._reader.read(known, byte) if known // BLOCK == byte // BLOCK and known <= byte else None
        if between is not None and between.isascii() and self._reader.read(byte, byte + 1).isascii():
            line, char = line + between.count(b"\n"), char + len(between)
        else:
            line, char = line_of_byte(self._reader, byte), char_of_byte(self._reader, byte)
        self._place = (byte, line, char)
        return line, char

    def _line_start(self, byte: int) -> int:
        """Where the line that holds `byte` starts; a newline is in the line that it ends."""
        near = self._reader.read(byte - _NEAR, byte)
        newline = near.rfind(b"\n")
        if newline >= 0 or byte <= _NEAR:
            return byte - len(near) + newline + 1
        return byte_of_line(self._reader, line_of_byte(self._reader, byte))

    def _line_end(self, byte: int) -> int:
        """Where the newline that ends the line of `byte` stands; the end of the output where there is none."""
        total = self._reader.totals.bytes
        newline = self._reader.read(byte, byte + _NEAR).find(b"\n")
        if newline >= 0:
            return byte + newline
        line = line_of_byte(self._reader, byte)
        if byte + _NEAR >= total or line > self._reader.table.newlines[-1]:
            return total
        return byte_of_line(self._reader, line + 1) - 1
