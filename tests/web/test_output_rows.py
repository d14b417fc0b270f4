"""Rows of an output: every byte is in one of them, none can do anything, and any window costs the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.policy.folds import Coverage
from holdall.text.escape import for_people
from holdall.values.errors import BadRange
from holdall.values.spans import Span
from holdall.web.output_rows import LINE_BYTES, STRIP, Reader, Row, Run, mark_of, runs_of, seen_of, strip_of, window
from tests.requirements import requirement
from tests.support import reader_of

_ANY = st.one_of(
    st.binary(max_size=400),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from([b"\n", b"\r\n", "ü".encode(), b"\xff", b"a", "\u202e".encode(), "😀".encode(), b"\0"]), max_size=300).map(b"".join),
)  # fmt: skip
_SHORT = {"↵": b"\n", "\\r": b"\r", "\\e": b"\x1b", "\\0": b"\0"}


def _bytes_of(run: Run) -> bytes:
    if isinstance(run, str):
        return run.encode()
    text, kind, size, length = run
    found: list[bytes] = []
    for at in range(0, len(text), length):
        one = text[at : at + length]
        code = one if one in _SHORT else int(one[2:], 16)
        data = _SHORT[code] if isinstance(code, str) else bytes([code]) if kind == "x" else chr(code).encode()
        assert len(data) == size
        found.append(data)
    return b"".join(found)


@given(_ANY)
def test_runs_are_all_of_the_bytes_and_plain_ones_hide_nothing(data: bytes) -> None:
    runs = runs_of(data)
    assert b"".join(map(_bytes_of, runs)) == data
    for run in runs:
        if isinstance(run, str):
            assert run == for_people(run)
            assert "\n" not in run
        else:
            assert re.fullmatch(r"[\x20-\x7e↵]+", run[0])


def test_what_is_no_text_is_marked_by_its_kind() -> None:
    assert runs_of(b"\x85\xc2\x85") == [("\\x85", "x", 1, 4), ("\\u0085", "c", 2, 6)]
    assert runs_of(b"a\x1b[31m\0\0\xff\xfe\xe2\x80\xaeb\n") == [
        "a",
        ("\\e", "c", 1, 2),
        "[31m",
        ("\\0\\0", "c", 1, 2),
        ("\\xff\\xfe", "x", 1, 4),
        ("\\u202e", "c", 3, 6),
        "b",
        ("↵", "n", 1, 1),
    ]


@requirement("viewer:pages")
@given(_ANY, st.integers(1, 40), st.integers(1, 7))
def test_rows_of_bytes_follow_on_one_another_and_split_no_character(data: bytes, width: int, count: int) -> None:
    reader = reader_of(data)
    rows: list[Row] = []
    while part := window(reader, "bytes", len(rows), count, width):
        rows += part
    assert len(rows) == -(-len(data) // width)
    assert [row.number for row in rows] == list(range(len(rows)))
    assert b"".join(_bytes_of(run) for row in rows for run in row.runs) == data
    whole = data.decode("utf-8", "replace")
    pieces = [data[row.start : row.end].decode("utf-8", "replace") for row in rows]
    assert "".join(pieces) == whole


@requirement("viewer:pages")
@given(_ANY, st.integers(1, 7))
def test_rows_of_lines_are_the_lines(data: bytes, count: int) -> None:
    reader = reader_of(data)
    rows: list[Row] = []
    while part := window(reader, "lines", len(rows) + 1, count, 1):
        rows += part
    lines = data.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    assert [b"".join(map(_bytes_of, row.runs)) for row in rows] == lines
    assert [row.number for row in rows] == list(range(1, len(lines) + 1))
    assert b"".join(data[row.start : row.end] for row in rows) == data


def test_hex_rows_hold_sixteen_bytes_each() -> None:
    rows = window(reader_of(bytes(range(40))), "hex", 1, 9, 16)
    assert [row.runs for row in rows] == [[bytes(range(16, 32)).hex(" ")], [bytes(range(32, 40)).hex(" ")]]


def test_a_long_line_is_shown_by_its_beginning_and_says_what_is_left() -> None:
    line = "ä" * 3000
    one, two = window(reader_of(f"{line}\nnext\n".encode()), "lines", 1, 10, 1)
    shown = b"".join(map(_bytes_of, one.runs))
    assert len(shown) == LINE_BYTES
    assert one.left == 6000 - LINE_BYTES
    assert (two.runs, two.left, two.start) == (["next"], 0, 6001)


class _Counted:
    """A reader that counts what is read of it."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner
        self.facts, self.table, self.totals = inner.facts, inner.table, inner.totals
        self.read_bytes = 0
        self.blocks: set[int] = set()

    def read(self, start: int, end: int) -> bytes:
        data = self._inner.read(start, end)
        self.read_bytes += len(data)
        self.blocks |= set(range(start // 65536, max(start, end - 1) // 65536 + 1))
        return data


@requirement("viewer:pages")
@pytest.mark.parametrize("data", [b"x" * 20_000_000, b"0123456789abcde\n" * 1_250_000], ids=["one line", "many lines"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_window_anywhere_reads_a_few_blocks(data: bytes, share: float) -> None:
    reader = reader_of(data)
    by_lines, by_bytes = _Counted(reader), _Counted(reader)
    lines = window(by_lines, "lines", max(1, int(reader.totals.lines * share)), 100, 1)
    assert lines
    assert window(by_bytes, "bytes", int(len(data) * share) // 128, 100, 128)
    assert len(by_lines.blocks) <= 6
    assert by_bytes.read_bytes <= 100 * 128 + 6


def test_a_window_of_very_long_lines_reads_their_beginnings_and_the_blocks_where_they_end() -> None:
    data = (b"y" * 999_999 + b"\n") * 30
    counted = _Counted(reader_of(data))
    rows = window(counted, "lines", 1, 100, 1)
    assert [row.start for row in rows] == [1_000_000 * at for at in range(30)]
    assert counted.read_bytes < 30 * 3 * 65_536


@pytest.mark.parametrize(
    ("first", "count", "width"), [(-1, 10, 10), (0, 0, 10), (0, 401, 10), (0, 10, 513), (0, 10, 0)]
)
def test_a_window_that_is_none_is_refused(first: int, count: int, width: int) -> None:
    with pytest.raises(BadRange):
        window(reader_of(b"abc"), "bytes", first, count, width)


# What the model has seen


def _coverage(shown: list[tuple[int, int]], searched: list[tuple[int, int]] = []) -> Coverage:  # noqa: B006 - only read
    coverage = Coverage()
    for way, spans in (("shown", shown), ("searched", searched)):
        for start, end in spans:
            coverage.ranges[way].add(Span(start, end))
    return coverage


@requirement("ledger:in-viewer")
def test_a_row_is_marked_by_how_much_of_it_was_shown() -> None:
    coverage = _coverage([(10, 20), (30, 40)], [(0, 100)])
    assert [mark_of(coverage, Span(a, b)) for a, b in ((10, 20), (12, 15), (15, 35), (20, 30), (95, 105), (100, 110))] == [
        "all", "all", "part", "searched", "searched", "",
    ]  # fmt: skip


@requirement("ledger:in-viewer")
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 900)), max_size=12), st.integers(1, 6000))
def test_the_strip_marks_every_step_that_was_touched_and_only_those(spans: list[tuple[int, int]], total: int) -> None:
    coverage = _coverage([(start, min(total, start + length)) for start, length in spans if start < total])
    levels = [0] * STRIP
    for first, steps, level in strip_of(coverage, total)["shown"]:
        assert level in (1, 2, 3, 4)
        levels[first : first + steps] = [level] * steps
    assert len(levels) == STRIP
    for step, level in enumerate(levels):
        low, high = step * total, (step + 1) * total
        covered = sum(max(0, min(high, b * STRIP) - max(low, a * STRIP)) for a, b in coverage.shown.as_lists())
        assert (level > 0) == (covered > 0)
        assert (level == 4) == (covered == total)


def test_what_was_seen_is_told_in_numbers_too() -> None:
    told = seen_of(_coverage([(0, 25)], [(0, 50)]), 100)
    assert (told["share"], told["bytes"]["shown"], told["bytes"]["searched"]) == (0.25, 25, 50)
