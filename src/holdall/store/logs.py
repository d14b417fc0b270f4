"""Logs as every store reads them: whole lines, each proven, about a megabyte of them at a time.

A store brings `pread`, which gives up to so many bytes of the log from a place on. Nothing here writes.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from holdall.store import records
from holdall.store.protocol import BadLine, LogLines
from holdall.store.records import lines_in

Pread = Callable[[int, int], bytes]  # length, start
READ = 1 << 20


def read_lines(pread: Pread, at: int, version: int) -> Iterator[LogLines]:
    """The whole lines from byte `at` on. What is after them is perhaps being written, unless it is a whole line too."""
    first = cache(lambda: _lines_before(pread, at))  # only asked for a line that is bad
    passed, end = 0, at
    for piece in whole_lines(pread, at):
        end = piece.end
        if piece.data is None:
            why = f"it is longer than {records.LONGEST_LINE:,} bytes, which no line is"
            yield LogLines(b"", piece.end, (BadLine(first() + passed + 1, piece.start, why),))
            passed += 1
        else:
            yield lines_in(piece.data, piece.start, version, lambda: first() + passed)  # noqa: B023 - called at once
            passed += piece.data.count(b"\n")
    if records.is_without_end(pread(READ, end), version):
        yield LogLines(b"", end, (BadLine(first() + passed + 1, end, "the end of the line is damaged"),))


def joined(pieces: Iterable[LogLines], at: int) -> LogLines:
    found = list(pieces)
    bad = tuple(one for piece in found for one in piece.bad)
    return LogLines(b"".join([piece.lines for piece in found]), found[-1].end if found else at, bad)


class Piece(NamedTuple):
    """Whole lines of a log; or, without data, one line that is too long to be read."""

    start: int
    end: int
    data: bytes | None


def whole_lines(pread: Pread, at: int) -> Iterator[Piece]:
    held: list[bytes] = []  # the beginning of a line
    start = end = at
    while part := pread(READ, end):
        end += len(part)
        cut = part.find(b"\n") + 1
        line_end = end - len(part) + (cut or len(part))  # at least
        if line_end - start > records.LONGEST_LINE:
            held.clear()
            if not cut:
                continue
            yield Piece(start, line_end, None)
            start, part = line_end, part[cut:]
        if cut := part.rfind(b"\n") + 1:
            data = b"".join((*held, part[:cut]))
            yield Piece(start, start + len(data), data)
            held.clear()
            start += len(data)
        if cut < len(part):
            held.append(part[cut:])


def _lines_before(pread: Pread, at: int) -> int:
    return sum(pread(min(READ, at - start), start).count(b"\n") for start in range(0, at, READ))
