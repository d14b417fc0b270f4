"""Reading stored bytes, each block checked against its checksum before a byte of it is given out.

Opened once, by descriptor: a file that is renamed, replaced or removed under our feet changes nothing. A reader
never writes and never repairs.
"""

import os
from collections import OrderedDict

from holdall.policy.measure import checksum
from holdall.values.errors import OutputDamaged
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable, Totals

_CACHED_BLOCKS = 32  # 2 MiB: neighbouring reads share blocks


class FileReader:
    """A finished output in a file."""

    def __init__(self, descriptor: int, facts: Facts, table: BlockTable) -> None:
        self.facts = facts
        self.table = table
        self._descriptor = descriptor
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        measure = facts.measure
        self.totals = Totals(bytes=measure.bytes, chars=measure.chars, lines=measure.lines)

    def read(self, start: int, end: int) -> bytes:
        start, end = max(0, start), min(end, self.totals.bytes)
        if start >= end:
            return b""
        first, last = start // BLOCK, (end - 1) // BLOCK
        if first == last:
            block = self._block(first)
            return block[start - first * BLOCK : end - first * BLOCK]
        if last - first >= _CACHED_BLOCKS:
            return self._read_long(start, end)
        joined = b"".join(self._block(index) for index in range(first, last + 1))
        return joined[start - first * BLOCK : end - first * BLOCK]

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _block(self, index: int) -> bytes:
        known = self._blocks.get(index)
        if known is not None:
            self._blocks.move_to_end(index)
            return known
        block = self._pread(index * BLOCK, self._length(index))
        self._check(block, index)
        self._blocks[index] = block
        if len(self._blocks) > _CACHED_BLOCKS:
            self._blocks.popitem(last=False)
        return block

    def _read_long(self, start: int, end: int) -> bytes:
        """Past the cache: one read, checked block by block."""
        first, last = start // BLOCK, (end - 1) // BLOCK
        length = (last - first) * BLOCK + self._length(last)
        data = self._pread(first * BLOCK, length)
        view = memoryview(data)
        for index in range(first, last + 1):
            at = (index - first) * BLOCK
            self._check(view[at : at + self._length(index)], index)
        return data[start - first * BLOCK : end - first * BLOCK]

    def _check(self, data: bytes | memoryview, index: int) -> None:
        if checksum(data) != self.table.checksums[index]:
            start = index * BLOCK
            raise OutputDamaged(
                self.facts.handle, f"checksum mismatch in bytes {start:,} to {start + self._length(index):,}"
            )

    def _length(self, index: int) -> int:
        return min(BLOCK, self.totals.bytes - index * BLOCK)

    def _pread(self, start: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            part = os.pread(self._descriptor, length, start)
            if not part:
                here = os.fstat(self._descriptor).st_size
                raise OutputDamaged(
                    self.facts.handle, f"its file ends at byte {here:,} of {self.totals.bytes:,} (truncated)"
                )
            parts.append(part)
            start += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
