"""Measuring: one pass over pieces of any size gives what a slow look at the whole gives."""

import codecs
import hashlib
from array import array

import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.policy.measure import Measurer
from holdall.text.tokens import PIECE, Estimate
from holdall.values.outputs import Measure
from holdall.values.spans import BLOCK, BlockTable, Totals
from tests.requirements import requirement
from tests.text.strategies import SEQUENCES, in_pieces, messy_bytes


class Letters:
    """A toy tokenizer: a token for each character."""

    name = "letters"

    def count(self, text: str) -> int:
        return len(text)


# Runs that bring what is messy to the border of a block, between messy bytes.
sizes = st.sampled_from([0, 1, BLOCK - 5, BLOCK - 3, BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1])
fillings = st.sampled_from([b"x", b"\n", b"long line \n", "é".encode(), "漢".encode(), "😀".encode(), b"\xff"])


def run_of(filling: bytes, size: int) -> bytes:
    return (filling * (size // len(filling) + 1))[:size]


runs = st.builds(run_of, fillings, sizes)
outputs = st.one_of(messy_bytes, st.lists(st.one_of(messy_bytes, runs), max_size=6).map(b"".join))
lengths_of_lines = st.sampled_from([0, 3, 511, 512, 1000]) | st.integers(min_value=0, max_value=3000)
far_cuts = st.lists(st.integers(min_value=0, max_value=8 * BLOCK), max_size=8)


def lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def totals_of(data: bytes) -> Totals:
    return Totals(bytes=len(data), chars=len(data.decode("utf-8", "replace")), lines=len(lines_of(data)))


def table_of(data: bytes) -> BlockTable:
    ends = [min(start + BLOCK, len(data)) for start in range(0, len(data), BLOCK)]
    chars = [len(codecs.utf_8_decode(data[:end], "replace", end == len(data))[0]) for end in ends]
    return BlockTable(
        newlines=array("Q", [data[:end].count(b"\n") for end in ends]),
        chars=array("Q", chars),
        checksums=array("Q", [xxhash.xxh3_64_intdigest(data[end - 1 - (end - 1) % BLOCK : end]) for end in ends]),
    )


def is_valid(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def measured(pieces: list[bytes]) -> tuple[Measure, BlockTable]:
    measurer = Measurer(Letters())
    for piece in pieces:
        measurer.feed(memoryview(piece))
    return measurer.finish(hashlib.sha256(b"".join(pieces)).hexdigest())


@requirement(
    "measure:bytes", "measure:chars", "measure:lines", "measure:longest-line", "measure:utf8-validity",
    "measure:block-newlines", "measure:block-chars", "measure:block-checksums",
)  # fmt: skip
@given(outputs, far_cuts)
@example(b"\xe2\x82", [1])
@example(b"x" * (BLOCK - 1) + "é".encode() + b"\n", [BLOCK])
@example(b"x" * (BLOCK - 2) + b"\xed\xa0\x80", [BLOCK])
def test_a_measure_is_what_a_slow_look_at_the_whole_gives(data: bytes, cuts: list[int]) -> None:
    measure, table = measured(in_pieces(data, cuts))
    assert Totals(measure.bytes, measure.chars, measure.lines) == totals_of(data)
    assert measure.longest_line == max(map(len, lines_of(data)), default=0)
    assert measure.utf8 == is_valid(data)
    assert table == table_of(data)
    assert measure.sha256 == hashlib.sha256(data).hexdigest()
    assert measure.tokenizer == "letters"
    if len(data) <= 1024 * 1024:
        assert measure.tokens == measure.chars
        assert measure.tokens_exact or measure.longest_line > PIECE // 2  # it may be cut within a token


@requirement("measure:one-pass")
@given(outputs, far_cuts)
def test_how_the_input_is_cut_changes_nothing(data: bytes, cuts: list[int]) -> None:
    assert measured(in_pieces(data, cuts)) == measured([data])


@given(outputs, far_cuts)
def test_so_far_is_the_measure_of_what_was_fed_and_ends_nothing(data: bytes, cuts: list[int]) -> None:
    measurer = Measurer(Letters())
    fed = b""
    assert measurer.so_far() == (totals_of(b""), table_of(b""))
    for piece in in_pieces(data, cuts):
        measurer.feed(piece)
        fed += piece
        assert measurer.so_far() == (totals_of(fed), table_of(fed))
        assert measurer.taken == len(fed)
    assert measurer.finish("")[1] == table_of(data)


@requirement("measure:longest-line")
@given(
    st.lists(st.tuples(lengths_of_lines, st.sampled_from([1, 1, 1, 400])), max_size=20),
    st.integers(min_value=1, max_value=200_000),
)
@example([(600, 4)], 200_000)
@example([(2000, 1), (3, 600), (2000, 1), (5, 1)], 200_000)
def test_the_longest_line_is_found_among_lines_of_any_length(runs: list[tuple[int, int]], piece: int) -> None:
    lengths = [length for length, times in runs for _ in range(times)]
    data = b"\n".join(b"x" * length for length in lengths)
    piece = max(piece, len(data) // 20_000)  # megabytes byte by byte would take minutes
    measure, _ = measured([data[start : start + piece] for start in range(0, len(data), piece)])
    assert measure.longest_line == max(lengths, default=0)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=bytes.hex)
def test_a_sequence_across_the_border_of_a_block_is_measured_as_one(sequence: bytes) -> None:
    for before in range(len(sequence) + 1):
        data = b"x" * (BLOCK - before) + sequence + b"y"
        assert measured([data])[1] == table_of(data)


@requirement("measure:bytes", "measure:chars")
def test_bytes_are_those_of_utf_8_and_chars_are_code_points() -> None:
    measure, _ = measured(["😀é漢a".encode()])
    assert (measure.bytes, measure.chars) == (10, 4)


@requirement("measure:lines")
@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"a\nb\n", 2), (b"\n\n", 2), (b"\na", 2)],
)
def test_a_last_line_without_a_newline_counts_and_nothing_has_no_lines(data: bytes, lines: int) -> None:
    assert measured([data])[0].lines == lines


@requirement("measure:newline-ends-line")
def test_nothing_but_a_newline_ends_a_line() -> None:
    # STORE-010: str.splitlines sees eight lines here.
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    assert len(text.splitlines()) == 8
    measure, table = measured([text.encode()])
    assert (measure.lines, measure.longest_line) == (1, len(text.encode()))
    assert list(table.newlines) == [0]


@requirement("measure:crlf-once")
def test_a_carriage_return_before_a_newline_is_no_line_end_of_its_own() -> None:
    measure, table = measured([b"a\r", b"\nb\r\n", b"c"])
    assert measure.lines == 3
    assert list(table.newlines) == [2]


@requirement("measure:session-tokenizer", "measure:token-estimate-marked")
def test_tokens_are_the_tokenizers_and_an_estimate_says_that_it_is_one() -> None:
    by_letters = Measurer(Letters())
    by_estimate = Measurer(Estimate())
    for measurer in (by_letters, by_estimate):
        measurer.feed(b"three plain words")
    exact, _ = by_letters.finish("")
    estimated, _ = by_estimate.finish("")
    assert (exact.tokens, exact.tokens_exact, exact.tokenizer) == (17, True, "letters")
    assert (estimated.tokens, estimated.tokens_exact, estimated.tokenizer) == (3, False, "estimate")


def test_nothing_measures_nothing() -> None:
    measure, table = measured([])
    assert measure == Measure(tokenizer="letters", sha256=hashlib.sha256(b"").hexdigest())
    assert table == BlockTable()
