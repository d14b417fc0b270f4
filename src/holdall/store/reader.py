"""Reading stored bytes, each block checked against its checksum before a byte of it is given out; and from lines and
characters to bytes and back: one table look-up, then one block.
"""

import contextlib
import hashlib
import mmap
import os
from collections import OrderedDict
from contextlib import AbstractContextManager
from dataclasses import replace

from holdall.policy.measure import Measurer, checksum
from holdall.store import deadline, files
from holdall.store.memory_files import new_tree
from holdall.store.protocol import OutputReader
from holdall.text.tokens import Estimate
from holdall.text.utf8 import char_offset_to_byte, decode, pending_bytes, straddling_bytes
from holdall.values.errors import OutputDamaged, StoreFault
from holdall.values.handles import MEMBER
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable, Span, Totals

LIST_COLUMNS = ("number", "type", "bytes", "name")  # of the list of an archive's members, which `store.members` writes


def is_list(reader: OutputReader) -> bool:
    """Whether it is the list of an archive's members, and not one of them."""
    head = f"{','.join(LIST_COLUMNS)}\n".encode()
    return reader.facts.handle.endswith(MEMBER) and reader.read(0, min(len(head), reader.totals.bytes)) == head


# From lines and characters to bytes and back: one table look-up, then one block.
#
# Lines end at a newline and nothing else. Positions past the end come back as the end.


def byte_of_line(reader: OutputReader, line: int) -> int:
    """Where `line`, counted from 1, starts."""
    if line <= 1:
        return 0
    newline = line - 1  # the line starts after this newline
    block = reader.table.block_of_newline(newline)
    if block >= len(reader.table):
        return reader.totals.bytes
    start = block * BLOCK
    data = reader.read(start, start + BLOCK)
    return start + _nth_newline(data, newline - reader.table.newlines_before(block)) + 1


def line_of_byte(reader: OutputReader, byte: int) -> int:
    """The line that holds `byte`; the last line for the end of the output."""
    byte = min(byte, max(0, reader.totals.bytes - 1))
    block = byte // BLOCK
    return reader.table.newlines_before(block) + reader.read(block * BLOCK, byte).count(b"\n") + 1


def byte_of_char(reader: OutputReader, char: int) -> int:
    """Where `char`, counted from 0, starts."""
    if char <= 0:
        return 0
    block = reader.table.block_of_char(char)
    if block >= len(reader.table):
        return reader.totals.bytes
    # A character that ends in this block may have begun in the one before.
    start, ended = _char_border(reader, block * BLOCK)
    data = reader.read(start, (block + 1) * BLOCK)
    return start + char_offset_to_byte(data, max(0, char - reader.table.chars_before(block) - ended))


def char_of_byte(reader: OutputReader, byte: int) -> int:
    """How many characters end at or before `byte`: the index of the character that starts there."""
    if byte >= reader.totals.bytes:
        return reader.totals.chars
    block = byte // BLOCK
    start, ended = _char_border(reader, block * BLOCK)
    data = reader.read(start, byte)
    if data:
        try:
            straddling = straddling_bytes(data, reader.read(byte, byte + 3))
        except OutputDamaged:  # the block behind: in a text, a character that is not whole goes on there
            straddling = pending_bytes(data[-3:])
        data = data[: len(data) - straddling]
    return reader.table.chars_before(block) + ended + (len(data) if data.isascii() else len(decode(data)[0]))


def lines_of(reader: OutputReader, span: Span) -> Span | None:
    """The lines that a span of bytes touches; None if it is empty."""
    if span.start >= span.end:
        return None
    return Span(line_of_byte(reader, span.start), line_of_byte(reader, span.end - 1))


def chars_of(reader: OutputReader, span: Span) -> Span:
    return Span(char_of_byte(reader, span.start), char_of_byte(reader, span.end))


def _char_border(reader: OutputReader, byte: int) -> tuple[int, int]:
    """Where the first character begins that ends behind the beginning of a block; and how many end before there.

    That may be in the block before. Where that one is damaged, in a text, the bytes of this one tell as much: they
    begin with the rest of one character, or with a new one.
    """
    if not byte:
        return 0, 0
    try:
        return byte - pending_bytes(reader.read(byte - 3, byte)), 0
    except OutputDamaged:
        rest = reader.read(byte, byte + 3)
        length = next((at for at, one in enumerate(rest) if one & 0xC0 != 0x80), len(rest))
        return byte + length, 1 if length else 0


def _nth_newline(data: bytes, number: int) -> int:
    """Where newline `number` of `data`, counted from 1, stands."""
    return len(data) - len(data.split(b"\n", number)[-1]) - 1


MOST_CHECKED = 64 << 20  # bytes: beyond, to go over them a second time would be felt


def damage_in(reader: OutputReader, descriptor: int) -> list[Span] | None:
    """Where the bytes of a local file of it are not as they came, before a tool scans them; None: not looked at, for
    it is large or grows. They are compared as fast as memory is read."""
    size = reader.totals.bytes
    if size > MOST_CHECKED or reader.facts.state == "running" or os.fstat(descriptor).st_size < size:
        return None
    found: list[Span] = []
    if size:
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as pages, memoryview(pages) as view:
            for index, proof in enumerate(reader.table.checksums):
                start, end = index * BLOCK, min(size, (index + 1) * BLOCK)
                if checksum(view[start:end]) != proof:
                    found.append(Span(start, end))
    return found


# Opened once, by descriptor: a file that is renamed, replaced or removed under our feet changes nothing. A reader never
# writes and never repairs.


_CACHED_BLOCKS = 32  # 2 MiB: neighbouring reads share blocks


def _pread(descriptor: int, length: int, start: int, facts: Facts) -> bytes:
    try:
        return files.pread(descriptor, length, start)
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise StoreFault(f"output {facts.handle} cannot be read at byte {start:,}: {reason}.") from problem


class FileReader:
    """A finished output in a file."""

    stamp: str | None = None

    def __init__(self, descriptor: int, facts: Facts, table: BlockTable) -> None:
        self.facts = facts
        self.table = table
        self._descriptor = descriptor
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        measure = facts.measure
        self.totals = Totals(bytes=measure.bytes, chars=measure.chars, lines=measure.lines)

    def read(self, start: int, end: int) -> bytes:
        deadline.check()
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

    def refresh(self) -> int:
        return 0

    def local_file(self) -> AbstractContextManager[int]:
        return files.local_file(self._descriptor)

    def fileno(self) -> int:
        """Only of readers of local files; others ask for a `local_file`."""
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            files.close(self._descriptor)
            self._descriptor = -1

    @classmethod
    def of_bytes(cls, data: bytes, facts: Facts) -> "FileReader":
        """The same for a few bytes that are in no store; `facts` with their measure."""
        descriptor = new_tree().open("bytes", os.O_CREAT | os.O_RDWR)
        files.write_all(descriptor, data)
        measurer = Measurer(Estimate())
        measurer.feed(data)
        measure, table = measurer.finish(hashlib.sha256(data).hexdigest())
        return cls(descriptor, replace(facts, measure=measure), table)

    def _block(self, index: int) -> bytes:
        known = self._blocks.get(index)
        if known is not None:
            with contextlib.suppress(KeyError):  # another thread, which reads the same output, has put it away
                self._blocks.move_to_end(index)
            return known
        block = self._pread(index * BLOCK, self._length(index))
        self._check(block, index)
        self._blocks[index] = block
        if len(self._blocks) > _CACHED_BLOCKS:
            with contextlib.suppress(KeyError):
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
            start, end = index * BLOCK, index * BLOCK + self._length(index)
            raise OutputDamaged(self.facts.handle, f"checksum mismatch in bytes {start:,} to {end:,}", end)

    def _length(self, index: int) -> int:
        return min(BLOCK, self.totals.bytes - index * BLOCK)

    def _pread(self, start: int, length: int) -> bytes:
        parts: list[bytes] = []
        while length > 0:
            part = _pread(self._descriptor, length, start, self.facts)
            if not part:
                here = files.fstat(self._descriptor).st_size
                raise OutputDamaged(
                    self.facts.handle, f"its file ends at byte {here:,} of {self.totals.bytes:,} (truncated)"
                )
            parts.append(part)
            start += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class RunningReader:
    """What a running output holds so far. The part that was measured once never changes; `refresh` adds to it."""

    stamp: str | None = None

    def __init__(self, descriptor: int, facts: Facts) -> None:
        self.facts = facts
        self._descriptor = descriptor
        self._measurer = Measurer(Estimate())
        self._partial: tuple[Totals, BlockTable] | None = None
        self.refresh()

    @property
    def table(self) -> BlockTable:
        return self._state()[1]

    @property
    def totals(self) -> Totals:
        return self._state()[0]

    def refresh(self) -> int:
        """Take in what was written since. The number of new bytes."""
        before = self._taken()
        while chunk := _pread(self._descriptor, 16 * BLOCK, self._taken(), self.facts):
            self._measurer.feed(chunk)
        self._partial = None
        return self._taken() - before

    def read(self, start: int, end: int) -> bytes:
        deadline.check()
        start, end = max(0, start), min(end, self.totals.bytes)
        return _pread(self._descriptor, end - start, start, self.facts) if start < end else b""

    def local_file(self) -> AbstractContextManager[int]:
        return files.local_file(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if self._descriptor >= 0:
            files.close(self._descriptor)
            self._descriptor = -1

    def _taken(self) -> int:
        return self._measurer.taken

    def _state(self) -> tuple[Totals, BlockTable]:
        if self._partial is None:
            self._partial = self._measurer.so_far()
        return self._partial
