"""What a search program prints, read as a stream: where matches are, how often values occur, how many there are.

A billion matches and a match of a gigabyte both come through here, so nothing is kept but what was asked for.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import stringzilla

from holdall.values.spans import Span

LONG_VALUE = 200  # bytes of a value that are kept; the rest goes into a digest, so that values stay distinct
MOST_VALUES = 100_000

_HEAD = 24  # bytes that are enough for an offset and its colon


class Places:
    """The first matches from `start` on, and how many there are in all."""

    def __init__(self, *, start: int, most: int) -> None:
        self.found: list[Span] = []
        self.total = 0
        self._start = start
        self._most = most
        self._head = b""  # the beginning of a record that is not finished, and its length so far
        self._length = 0

    def feed(self, piece: bytes) -> None:
        at = 0
        if self._length:
            newline = piece.find(b"\n")
            at = len(piece) if newline < 0 else newline
            self._head = (self._head + piece[: min(at, _HEAD)])[:_HEAD]
            self._length += at
            if newline < 0:
                return
            self.total += 1
            self._keep(self._head, self._length)
            at += 1
        end = piece.rfind(b"\n", at) + 1 or at
        if end > at:
            self._records(piece, at, end)
        self._head, self._length = piece[end : end + _HEAD], len(piece) - end

    def _records(self, piece: bytes, at: int, end: int) -> None:
        self.total += stringzilla.count(piece, b"\n", at, end)
        last = piece.rfind(b"\n", at, end - 1) + 1 or at
        if len(self.found) == self._most or _offset(piece[last : last + _HEAD])[0] < self._start:
            return  # matches come in order, so none of these is to be shown
        while at < end and len(self.found) < self._most:
            newline = piece.find(b"\n", at)
            self._keep(piece[at : at + _HEAD], newline - at)
            at = newline + 1

    def _keep(self, head: bytes, length: int) -> None:
        byte, digits = _offset(head)
        if byte >= self._start and len(self.found) < self._most:
            self.found.append(Span(byte, byte + length - digits - 1))


def _offset(head: bytes) -> tuple[int, int]:
    digits = head.index(b":")
    return int(head[:digits]), digits


class Tally:
    """How often each value occurs. Past `MOST_VALUES` different ones no new value is taken in, and `full` says so."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.total = 0
        self.full = False

    def add(self, values: list[bytes]) -> None:
        self.total += len(values)
        if len(self.counts) + len(values) <= MOST_VALUES:
            self.counts.update(values)
            return
        for value in values:
            if value in self.counts or len(self.counts) < MOST_VALUES:
                self.counts[value] += 1
            else:
                self.full = True

    def most_frequent(self) -> list[tuple[bytes, int]]:
        """Those that occur equally often in the order in which they first came."""
        return sorted(self.counts.items(), key=lambda pair: -pair[1])


def values_in(pieces: Iterable[bytes], *, without_return: bool) -> Iterator[list[bytes]]:
    """One value a line. Those over `LONG_VALUE` come as that much and a digest of the whole: longer than any other."""
    open_value = _Value()
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        open_value.add(first)
        if not rest:
            continue
        *whole, last = rest
        if max(map(len, whole), default=0) > LONG_VALUE:
            whole = [_Value(value).key() for value in whole]
        batch = [open_value.key(), *whole]
        yield [value.removesuffix(b"\r") for value in batch] if without_return else batch
        open_value = _Value(last)


class _Value:
    """A value that comes in pieces."""

    def __init__(self, part: bytes = b"") -> None:
        self._kept = b""
        self._digest = hashlib.blake2b(digest_size=16)
        self._length = 0
        self.add(part)

    def add(self, part: bytes) -> None:
        self._length += len(part)
        self._digest.update(part)
        self._kept += part[: LONG_VALUE - len(self._kept)]

    def key(self) -> bytes:
        return self._kept if self._length <= LONG_VALUE else self._kept + self._digest.digest()


def number_in(pieces: Iterable[bytes]) -> int:
    """A count; nothing at all means none."""
    return int(b"".join(pieces) or 0)
