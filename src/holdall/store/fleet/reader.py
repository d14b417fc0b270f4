"""Outputs of the fleet, open for reading: blocks from this host's cache or, where they are not here, from the objects.

A block is compared with its checksum wherever it came from. One that is wrong in the cache is fetched again; one that
is wrong in its object is damage.
"""

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from holdall.policy.measure import checksum
from holdall.store import deadline
from holdall.store.fleet.cache import CachedFile
from holdall.store.fleet.objects import SMALL, Objects, in_parallel, name_of, segment_of
from holdall.store.reader import FileReader, RunningReader, damage_in
from holdall.values.errors import OutputDamaged, StoreFault, StoreFull
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable

_REMEMBERED = 32  # blocks, 2 MiB
_PIECE = SMALL // BLOCK  # blocks that are fetched by one request
_AHEAD = 3  # blocks behind those that are wanted: a request costs more than they do, and who reads lines goes on


class Segment(NamedTuple):
    number: int
    start: int
    length: int


class ObjectBytes:
    """The bytes of an output in the bucket: one object, or its segments one after the other."""

    def __init__(self, objects: Objects, object: str, segments: Sequence[Segment] = ()) -> None:
        self.object = object
        self._objects = objects
        self._segments = segments
        self.is_one = not segments

    def read(self, start: int, end: int) -> bytes | None:
        """Fewer where there are fewer; None if an object is not there."""
        if not self._segments:
            return self._objects.get(name_of(self.object), start, end)
        wanted = [one for one in self._segments if one.start < end and one.start + one.length > start]

        def get(one: Segment) -> bytes | None:
            first, last = max(start, one.start) - one.start, min(end, one.start + one.length) - one.start
            return self._objects.get(segment_of(self.object, one.number), first, last)

        parts: list[bytes] = []
        for part in in_parallel(get, wanted):
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)


class FleetReader(FileReader):
    """A finished output."""

    def __init__(
        self,
        file: CachedFile,
        source: ObjectBytes,
        facts: Facts,
        table: BlockTable,
        gone: Callable[[Facts], StoreFault],
    ) -> None:
        super().__init__(file.descriptor, facts, table)
        self._file = file
        self._source = source
        self._gone = gone

    def read(self, start: int, end: int) -> bytes:
        deadline.check()
        start, end = max(0, start), min(end, self.totals.bytes)
        if start >= end:
            return b""
        first, last = start // BLOCK, (end - 1) // BLOCK + 1
        known = self._blocks.get(first) if last - first == 1 else None
        data = known if known is not None else self._load(first, last)
        return data[start - first * BLOCK : end - first * BLOCK]

    @contextlib.contextmanager
    def local_file(self) -> Generator[int]:
        if not self._file.is_full or os.fstat(self._file.descriptor).st_size != self.totals.bytes:
            for _ in in_parallel(self._keep, range(0, len(self.table), _PIECE)):
                deadline.check()
            self._file.complete(self.totals.bytes)
        for span in damage_in(self, self._file.descriptor) or ():  # a copy that was whole once: others write here too
            self._keep(span.start // BLOCK)
        yield self._file.descriptor

    def close(self) -> None:
        self._file.close()
        self._descriptor = -1

    def _load(self, first: int, last: int) -> bytes:
        """These blocks, each checked; those that had to be fetched are in the cache afterwards, if it has room."""
        data = os.pread(self._file.descriptor, (last - first) * BLOCK, first * BLOCK)
        missing = [index for index in range(first, last) if not self._is_good(data, index, first)]
        if missing:
            view = bytearray(data.ljust(self._end(last) - first * BLOCK, b"\0"))
            for start, end in _runs(missing):
                begin, fetched = self._fetch_around(start, end)
                at = start * BLOCK - begin
                view[(start - first) * BLOCK : self._end(end) - first * BLOCK] = fetched[at : self._end(end) - begin]
                with contextlib.suppress(OSError):
                    self._file.write(fetched, begin)
            data = bytes(view)
        if last - first == 1:
            self._blocks[first] = data
            if len(self._blocks) > _REMEMBERED:
                self._blocks.popitem(last=False)
        return data

    def _keep(self, first: int) -> None:
        """A piece of the whole in the cache's file; only what is not there yet is fetched."""
        last = min(first + _PIECE, len(self.table))
        data = os.pread(self._file.descriptor, (last - first) * BLOCK, first * BLOCK)
        missing = [index for index in range(first, last) if not self._is_good(data, index, first)]
        for start, end in _runs(missing):
            fetched = self._fetch(start, end)
            try:
                self._file.write(fetched, start * BLOCK)
            except OSError as problem:
                raise StoreFull(
                    f"there is no room for a copy of {self.totals.bytes:,} bytes on this host ({problem.strerror}). "
                    "Free some, or choose another folder with the setting `cache_dir`."
                ) from None

    def _fetch_around(self, first: int, last: int) -> tuple[int, bytes]:
        """Where they begin, and these blocks with neighbours, by one request.

        A character may have begun in the block before. Neighbours are not checked here: who reads them compares them.
        """
        before, ahead = 0, 0
        if self._source.is_one:  # the neighbour of a segment would be another request
            ahead = max(0, min(_AHEAD, len(self.table) - last))
            if first:
                block = os.pread(self._file.descriptor, BLOCK, (first - 1) * BLOCK)
                before = 0 if self._is_good(block, first - 1, first - 1) else 1
        return (first - before) * BLOCK, self._fetch(first, last, before, ahead)

    def _fetch(self, first: int, last: int, before: int = 0, ahead: int = 0) -> bytes:
        begin, start, end = (first - before) * BLOCK, first * BLOCK, self._end(last)
        data = self._source.read(begin, self._end(last + ahead))
        if data is None:
            raise self._gone(self.facts)
        if len(data) < end - begin:
            raise OutputDamaged(
                self.facts.handle, f"its object ends at byte {begin + len(data):,} of {self.totals.bytes:,} (truncated)"
            )
        view = memoryview(data)
        for index in range(first, last):
            at = (index - first) * BLOCK + start - begin
            self._check(view[at : at + self._length(index)], index)
        return data

    def _is_good(self, data: bytes, index: int, first: int) -> bool:
        at = (index - first) * BLOCK
        block = memoryview(data)[at : at + self._length(index)]
        return len(block) == self._length(index) and checksum(block) == self.table.checksums[index]

    def _end(self, last: int) -> int:
        return min(last * BLOCK, self.totals.bytes)


class FleetRunningReader(RunningReader):
    """What a running output holds so far: each committed segment is fetched once, into a file without a name."""

    def __init__(
        self,
        file: CachedFile,
        objects: Objects,
        object: str,
        segments: Callable[[int], Sequence[Segment]],
        facts: Facts,
    ) -> None:
        self._scratch = file
        self._objects = objects
        self._object = object
        self._segments = segments
        self._number = 0
        self._end = 0
        super().__init__(file.descriptor, facts)

    def refresh(self) -> int:
        for one in self._segments(self._number):
            data = self._objects.get(segment_of(self._object, one.number), 0, one.length)
            if data is None or len(data) != one.length:
                break  # removed meanwhile: it has ended as a copy of another one
            self._scratch.write(data, self._end)
            self._end += len(data)
            self._number = one.number + 1
        return super().refresh()

    def close(self) -> None:
        self._scratch.close()
        self._descriptor = -1


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours as one range, at most so many blocks long that one request fetches them."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number and number - found[-1][0] < _PIECE:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found
