"""From lines and characters to bytes and back: one table look-up, then one block.

Lines end at a newline and nothing else. Positions past the end come back as the end.
"""

from holdall.store.protocol import OutputReader
from holdall.text.utf8 import char_offset_to_byte, decode, pending_bytes, straddling_bytes
from holdall.values.spans import BLOCK, Span


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
    start = block * BLOCK
    if block >= len(reader.table):
        return 1
    return reader.table.newlines_before(block) + reader.read(start, byte).count(b"\n") + 1


def byte_of_char(reader: OutputReader, char: int) -> int:
    """Where `char`, counted from 0, starts."""
    if char <= 0:
        return 0
    block = reader.table.block_of_char(char)
    if block >= len(reader.table):
        return reader.totals.bytes
    # A character that ends in this block may have begun in the one before.
    start = _char_border(reader, block * BLOCK)
    data = reader.read(start, (block + 1) * BLOCK)
    return start + char_offset_to_byte(data, char - reader.table.chars_before(block))


def char_of_byte(reader: OutputReader, byte: int) -> int:
    """How many characters end at or before `byte`: the index of the character that starts there."""
    if byte >= reader.totals.bytes:
        return reader.totals.chars
    block = byte // BLOCK
    start = _char_border(reader, block * BLOCK)
    data = reader.read(start, byte)
    data = data[: len(data) - straddling_bytes(data, reader.read(byte, byte + 3))]
    return reader.table.chars_before(block) + (len(data) if data.isascii() else len(decode(data)[0]))


def lines_of(reader: OutputReader, span: Span) -> Span | None:
    """The lines that a span of bytes touches; None where it is empty."""
    if span.start >= span.end:
        return None
    return Span(line_of_byte(reader, span.start), line_of_byte(reader, span.end - 1))


def chars_of(reader: OutputReader, span: Span) -> Span:
    return Span(char_of_byte(reader, span.start), char_of_byte(reader, span.end))


def _char_border(reader: OutputReader, byte: int) -> int:
    return byte - pending_bytes(reader.read(byte - 3, byte)) if byte else 0


def _nth_newline(data: bytes, number: int) -> int:
    """Where newline `number` of `data`, counted from 1, stands."""
    return len(data) - len(data.split(b"\n", number)[-1]) - 1
