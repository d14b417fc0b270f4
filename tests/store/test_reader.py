"""Reading by blocks gives the same as the whole in memory: bytes, lines and characters, finished or still written."""

import errno
import itertools
import os
import random
import re
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.store import deadline, files
from holdall.store import reader as module
from holdall.store.protocol import OutputReader
from holdall.store.reader import (
    FileReader,
    RunningReader,
    byte_of_char,
    byte_of_line,
    char_of_byte,
    chars_of,
    damage_in,
    line_of_byte,
    lines_of,
)
from holdall.values.errors import OutOfTime, OutputDamaged, StoreFault
from holdall.values.spans import BLOCK, Span, Totals
from tests.support import reader_of

# Not a number of blocks, so that characters of any length go over their borders.
PART, TIMES = "".join(random.Random(1).choices("ab é漢😀\n", k=30_001)), 44
STARTS = [0, *itertools.accumulate(len(sign.encode()) for sign in PART)]
DATA = PART.encode() * TIMES
CHARS = len(PART) * TIMES
BLOCKS = -(-len(DATA) // BLOCK)
NEWLINES = [match.end() for match in re.finditer(b"\n", DATA)]
SOME = reader_of(b"").facts


def running_reader(data: bytes) -> RunningReader:
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    files.write_all(descriptor, data)
    return RunningReader(descriptor, replace(SOME, state="running"))


@pytest.fixture(scope="module", params=["finished", "running"])
def reader(request: pytest.FixtureRequest) -> Iterator[OutputReader]:
    found = reader_of(DATA) if request.param == "finished" else running_reader(DATA)
    yield found
    descriptor = found.fileno()
    found.close()
    found.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)


@pytest.fixture
def preads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the file was read."""
    found: list[int] = []
    pread = files.pread

    def noted(file: int, length: int, start: int) -> bytes:
        found.append(start)
        return pread(file, length, start)

    monkeypatch.setattr(files, "pread", noted)
    return found


def near(block: int, by: int) -> int:
    return min(block * BLOCK, len(DATA)) + by


places = st.builds(near, st.integers(0, BLOCKS), st.integers(-4, 4)) | st.integers(0, len(DATA))


@given(start=places, end=places)
def test_any_range_of_bytes_is_as_it_came(reader: OutputReader, start: int, end: int) -> None:
    expected = DATA[max(0, start) : max(0, end)]
    assert reader.read(start, end) == expected
    assert lines_of(reader, Span(max(0, start), max(0, end))) == (
        None if max(0, start) >= max(0, end) else Span(line_at(max(0, start)), line_at(max(0, end) - 1))
    )


def line_at(byte: int) -> int:
    return bisect_right(NEWLINES, min(byte, len(DATA) - 1)) + 1


def chars_before(byte: int) -> int:
    times, rest = divmod(min(max(0, byte), len(DATA)), STARTS[-1])
    return times * len(PART) + bisect_right(STARTS, rest) - 1


@given(byte=places)
def test_a_byte_is_in_the_line_and_the_character_that_hold_it(reader: OutputReader, byte: int) -> None:
    byte = max(0, byte)
    assert line_of_byte(reader, byte) == line_at(byte)
    assert char_of_byte(reader, byte) == chars_before(byte)
    assert chars_of(reader, Span(byte, byte + 9)) == Span(chars_before(byte), chars_before(byte + 9))


@given(place=places)
@example(1)
@example(2)
def test_a_line_and_a_character_begin_where_they_do(reader: OutputReader, place: int) -> None:
    char = chars_before(place) - (place < 0)
    times, rest = divmod(max(0, char), len(PART))
    assert byte_of_char(reader, char) == times * STARTS[-1] + STARTS[rest]
    line = bisect_left(NEWLINES, place) + (1 if place % 2 else 2) - 2 * (place < 0)
    assert byte_of_line(reader, line) == (
        0 if line <= 1 else NEWLINES[line - 2] if line - 2 < len(NEWLINES) else len(DATA)
    )


def test_behind_the_end_is_the_end(reader: OutputReader) -> None:
    assert byte_of_line(reader, len(NEWLINES) + 2) == byte_of_char(reader, CHARS) == len(DATA)
    assert reader.totals == Totals(len(DATA), CHARS, len(NEWLINES) + (not PART.endswith("\n")))
    assert len(reader.table) == BLOCKS
    assert reader.refresh() == 0


@pytest.mark.parametrize("empty", [reader_of(b""), running_reader(b"")])
def test_an_empty_output_has_its_first_line_and_nothing_in_it(empty: OutputReader) -> None:
    assert [byte_of_line(empty, 5), byte_of_char(empty, 5), char_of_byte(empty, 5), line_of_byte(empty, 5)] == [
        0,
        0,
        0,
        1,
    ]
    assert lines_of(empty, Span(0, 0)) is None
    assert empty.read(0, 9) == b""


def test_the_smallest_outputs_have_lines_too() -> None:
    assert line_of_byte(reader_of(b"\n"), 9) == 1
    assert line_of_byte(reader_of(b"a\nb"), 9) == 2
    assert reader_of(b"x" * BLOCK + b"y").read(BLOCK, 2 * BLOCK) == b"y"


def test_characters_are_counted_beside_a_damaged_block_that_has_the_beginning_of_one() -> None:
    reader = reader_of(b"a" * (BLOCK - 1) + "\u2601 and more".encode())
    os.pwrite(reader.fileno(), b"?", 0)
    assert char_of_byte(reader, BLOCK + 2) == BLOCK
    assert byte_of_char(reader, BLOCK) == BLOCK + 2


def test_a_read_that_comes_too_late_reads_nothing(reader: OutputReader) -> None:
    with deadline.within(0.0), pytest.raises(OutOfTime):
        reader.read(0, 1)


def test_a_program_has_the_same_bytes_by_descriptor(reader: FileReader) -> None:
    assert os.pread(reader.fileno(), 100, BLOCK) == DATA[BLOCK : BLOCK + 100]
    with reader.local_file() as descriptor:
        assert os.pread(descriptor, 100, BLOCK) == DATA[BLOCK : BLOCK + 100]


def test_a_few_bytes_are_read_without_a_store() -> None:
    few = FileReader.of_bytes(b"some\nmore", SOME)
    assert (few.read(0, 99), few.totals, line_of_byte(few, 6)) == (b"some\nmore", Totals(9, 9, 2), 2)
    assert few.facts == replace(SOME, measure=few.facts.measure)


def test_blocks_that_were_just_read_are_not_read_again(preads: list[int]) -> None:
    reader = reader_of(DATA)

    def read(*blocks: int) -> list[int]:
        """Of these, those that are read from the file."""
        preads.clear()
        for block in blocks:
            reader.read(block * BLOCK, block * BLOCK + 9)
        return [start // BLOCK for start in preads]

    assert read(*range(32)) == list(range(32))
    assert read(0, 31) == []
    assert read(32) == [32], "for which 1 goes"
    assert read(0, 2, 1) == [1], "for which 3 goes"
    assert read(3) == [3]
    reader.read(33 * BLOCK - 1, 34 * BLOCK)
    assert read(33) == []
    preads.clear()
    assert reader.read(5, 33 * BLOCK) == DATA[5 : 33 * BLOCK]
    assert preads == [0], "a long range is one read"


@pytest.mark.parametrize("last", [3, BLOCKS])
def test_a_file_that_gives_less_than_was_asked_is_asked_again(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    pread = files.pread
    monkeypatch.setattr(files, "pread", lambda file, length, start: pread(file, min(length, 50_000), start))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert reader_of(DATA).read(1, last * BLOCK) == DATA[1 : last * BLOCK]


def test_a_disk_that_fails_is_told_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, growing = reader_of(DATA), running_reader(DATA)

    def fails(_file: int, _length: int, _start: int) -> bytes:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(files, "pread", fails)
    for one in (reader, growing):
        with pytest.raises(StoreFault) as failed:
            one.read(BLOCK, BLOCK + 9)
        assert str(failed.value) == f"output t3st cannot be read at byte 65,536: {os.strerror(errno.EIO)}."


@pytest.mark.parametrize("end", [2, 40])
def test_a_byte_that_is_not_as_it_came_is_never_given_out(end: int) -> None:
    reader = reader_of(DATA)
    os.pwrite(reader.fileno(), b"?", len(DATA) - 1)
    before = (BLOCKS - 1) * BLOCK
    assert reader.read(before - end * BLOCK, before) == DATA[max(0, before - end * BLOCK) : before]
    os.pwrite(reader.fileno(), b"?", BLOCK + 7)
    reader = FileReader(os.dup(reader.fileno()), reader.facts, reader.table)
    with pytest.raises(OutputDamaged, match="checksum mismatch in bytes 65,536 to 131,072"):
        reader.read(0, end * BLOCK)
    with pytest.raises(OutputDamaged, match=f"checksum mismatch in bytes {(BLOCKS - 1) * BLOCK:,} to {len(DATA):,}"):
        reader.read((3 if end > 2 else BLOCKS - 2) * BLOCK, len(DATA))
    assert reader.read(2 * BLOCK, 4 * BLOCK) == DATA[2 * BLOCK : 4 * BLOCK]
    reader.close()


@pytest.mark.parametrize("start", [1, BLOCKS - 2])
def test_a_file_that_was_cut_off_is_told_with_where_it_ends(start: int) -> None:
    reader = reader_of(DATA)
    os.ftruncate(reader.fileno(), len(DATA) - 10)
    with pytest.raises(
        OutputDamaged, match=rf"its file ends at byte {len(DATA) - 10:,} of {len(DATA):,} \(truncated\)"
    ):
        reader.read(start * BLOCK, len(DATA))
    assert damage_in(reader, reader.fileno()) is None


def test_damage_is_found_before_a_tool_scans_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(DATA)
    assert damage_in(reader, reader.fileno()) == []
    empty, growing = reader_of(b""), running_reader(DATA)
    assert damage_in(empty, empty.fileno()) == []
    assert damage_in(growing, growing.fileno()) is None
    os.pwrite(reader.fileno(), b"?", BLOCK + 7)
    os.pwrite(reader.fileno(), b"?", len(DATA) - 1)
    places = [Span(BLOCK, 2 * BLOCK), Span((BLOCKS - 1) * BLOCK, len(DATA))]
    for most, found in ((len(DATA), places), (len(DATA) - 1, None)):
        monkeypatch.setattr(module, "MOST_CHECKED", most)
        assert damage_in(reader, reader.fileno()) == found


def test_what_was_written_since_is_taken_in_and_counted() -> None:
    growing = running_reader(b"")
    os.pwrite(growing.fileno(), DATA[: 3 * BLOCK + 5], 0)
    assert growing.read(0, 9) == b""
    assert growing.refresh() == 3 * BLOCK + 5
    assert growing.read(BLOCK - 1, len(DATA)) == DATA[BLOCK - 1 : 3 * BLOCK + 5]
    os.pwrite(growing.fileno(), DATA[3 * BLOCK + 5 :], 3 * BLOCK + 5)
    assert growing.refresh() == len(DATA) - 3 * BLOCK - 5
    assert growing.totals.bytes == len(DATA)
