"""Columns of tables: whatever the bytes are, they are told without an error, and so are parts of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.formats import columns
from holdall.formats.columns import column_names, positions_of, separator_of, table_of, type_of
from holdall.formats.outline import Sample
from tests.requirements import requirement
from tests.support import in_effort
from tests.text.strategies import messy_bytes

signs = st.text(st.sampled_from('a1 ,;\t|"\n\r-.é%'), max_size=300)


def sample_of(data: bytes, window: int | None = None) -> Sample:
    """All of it, or its two ends and a window in the middle."""
    lines = data.count(b"\n") + (data[-1:] not in (b"\n", b""))
    if window is None or len(data) <= 3 * window:
        return Sample(((0, data),) if data else (), len(data), lines)
    starts = (0, len(data) // 2, len(data) - window)
    return Sample(tuple((start, data[start : start + window]) for start in starts), len(data), lines)


@requirement("query:same-table")
@pytest.mark.parametrize("forced", [True, False])
@pytest.mark.parametrize("kind", ["csv", "tsv", "table"])
@given(data=messy_bytes | signs.map(str.encode), window=st.none() | st.integers(5, 60))
def test_whatever_it_is_columns_and_values_belong_together(
    kind: str, forced: bool, data: bytes, window: int | None
) -> None:
    table = table_of(sample_of(data, window), kind=kind, forced=forced)
    if table is None:
        return
    assert len(table.columns) == len(table.values)
    assert len({one.name.casefold() for one in table.columns}) == len(table.columns)
    assert all(one.name.strip() and "\n" not in one.name for one in table.columns)
    for column, values in zip(table.columns, table.values, strict=True):
        if table.seen_all and column.type != "VARCHAR":
            assert all(type_of(value) != "VARCHAR" for value in values if value)


@given(st.lists(st.text(max_size=8), max_size=20), st.integers(0, 25))
def test_names_are_as_many_as_columns_and_no_two_alike(header: list[str], width: int) -> None:
    names = column_names(header, width)
    assert len({name.casefold() for name in names}) == len(names) == width


@pytest.mark.parametrize("make", [positions_of, separator_of])
@pytest.mark.parametrize(
    "text",
    ['"' * 65_000, "," * 65_000, " x" * 32_000, "A  B\n" * 13_000, "a,b\n" + '"\n' * 32_000, "A B" + " " * 65_000 + "C\n" * 9],
    ids=["quotes", "commas", "blanks", "header again", "open quotes", "a far name"],
)  # fmt: skip
@pytest.mark.timeout(5)
def test_no_beginning_takes_long(make: object, text: str) -> None:
    assert callable(make)
    make(text)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("0", "BIGINT"), ("-7", "BIGINT"), ("007", "VARCHAR"), ("+7", "VARCHAR"), ("1_000", "VARCHAR"), ("1.", "DOUBLE"),
        ("1e400", "VARCHAR"), ("1,5", "VARCHAR"), ("٣", "VARCHAR"), ("nan", "VARCHAR"), ("2026-02-30", "DATE"),
        ("2026-13-01", "VARCHAR"), ("2026-01-02T03:04", "VARCHAR"), ("2026-01-02 03:04:05.1234567", "VARCHAR"),
        ("9" * 18, "BIGINT"), ("9" * 19, "HUGEINT"), ("9" * 38, "VARCHAR"), ("", "VARCHAR"), ("True", "BOOLEAN"),
    ],
)  # fmt: skip
def test_types_of_values(value: str, kind: str) -> None:
    assert type_of(value) == kind


def test_a_window_in_the_middle_of_a_cell_is_read_from_where_the_cell_ends() -> None:
    dice = random.Random(1)
    rows = [f'{n},"{"line, with a comma" + chr(10)}{n}",{dice.random():.3f}' for n in range(400)]
    data = "\n".join(["id,note,share", *rows, ""]).encode()
    for window in range(300, 900, 37):
        table = table_of(sample_of(data, window))
        assert table is not None
        assert [one.type for one in table.columns] == ["BIGINT", "VARCHAR", "DOUBLE"]
        assert table.ragged == 0


def test_a_name_that_every_column_has_is_numbered_in_one_pass() -> None:
    # Where each begins at a_1: tens of thousands
    names = in_effort(200, lambda: column_names(["a"] * 30_000, 30_000))
    assert (len(set(names)), names[:3], names[-1]) == (30_000, ["a", "a_1", "a_2"], "a_29999")
    assert column_names(["a", "a_1", "a", "A"], 4) == ["a", "a_1", "a_2", "A_3"]


def test_a_line_of_nothing_but_separators_is_no_table() -> None:
    """A column for each of them took 2 GB, where somebody said that it is CSV."""
    for sign in ("\t", ",", ";"):
        assert table_of(sample_of(b"(((" + sign.encode() * 10_001, 64 * 1024), forced=True) is None
    table = table_of(sample_of(b"a" + b",b" * 9_999 + b"\n1" + b",2" * 9_999, 1 << 20), forced=True)
    assert table is not None
    assert len(table.columns) == 10_000


@pytest.mark.parametrize("cell", ["a\rb", '"' + "x" * 140_000 + '"'])
def test_what_ends_the_records_early_is_no_table_with_exact_figures(cell: str) -> None:
    """Whoever wrote one cell hid all rows after it: "12 rows", said as exact, of 20,000."""
    rows = [f"{number},{cell if number == 12 else 'n'},{number}.5" for number in range(3000)]
    table = table_of(sample_of(("id,name,price\n" + "\n".join(rows) + "\n").encode(), 1 << 20))
    assert table is None or not table.exact or table.rows == 3000


def test_no_column_starts_inside_a_word_of_a_row_that_is_out_of_line() -> None:
    numbers = [(number * 37 % 900, number * 53 % 900) for number in range(30)]
    numbers[3] = 14_761_489, 13_947_930
    header = f"{'':>4} {'CPU0':>10} {'CPU1':>10}       "
    rows = [f"{at:>3}: {one:>10} {two:>10}   GIC dev{at}" for at, (one, two) in enumerate(numbers)]
    positions = positions_of("\n".join([header, *rows, "Err:          0", ""]))
    assert positions is not None
    assert positions.cells(rows[3]) == ["3:", "14761489", "13947930   GIC dev3"]
    names = ["a", "bb", "an-unusually-long-name-here", *(f"n{at}" for at in range(60))]
    lines = [f"{name:<10} {at % 7:>3} {'up' if at % 2 else '':<4} x{at}" for at, name in enumerate(names)]
    left = positions_of("\n".join(["NAME       AGE STAT REST", *lines, ""]))
    assert left is not None
    assert left.cells(lines[2])[0] == names[2]
    assert left.cells("x" * 100_000) == ["x" * 100_000, "", "", ""]


def test_a_row_of_hashes_is_no_header() -> None:
    rows = "".join(
        f"10064{number % 2} {number:040x} 0\tfolder/file {'abcdefgh'[number % 8]}\n" for number in range(7, 60)
    )
    table = table_of(sample_of(rows.encode()), kind="tsv")
    assert table is not None
    assert [column.name for column in table.columns] == ["column0", "column1"]


@pytest.mark.parametrize(
    "row", [":100644 {0:08x} M\tbench/{0:x}.py", "{0}) SIG{0:X}\t{0}) x", "Key {0:x}:\tsome {0:x} of it"]
)
def test_a_row_with_the_signs_of_all_others_is_no_header(row: str) -> None:
    rows = "".join(row.format(number * 7919) + "\n" for number in range(7, 60))
    table = table_of(sample_of(rows.encode()), kind="tsv")
    assert table is not None
    assert (table.header, table.rows) == (False, 53)


@pytest.mark.parametrize("first", ["4096\t/usr", "2024-01-01\t/usr", "1,024\tusr"])
def test_a_row_of_values_as_they_are_below_is_no_header(first: str) -> None:
    """As `find -printf` begins: the first path has none of the signs that the others have."""
    value = first.partition("\t")[0]
    rows = "".join(f"{value}\t/usr/lib{number}/x\n" for number in range(50))
    table = table_of(sample_of(f"{first}\n{rows}".encode()), kind="tsv")
    assert table is not None
    assert (table.header, table.rows) == (False, 51)


@pytest.mark.parametrize("first", ["size\tpath", "2024\tpath", "4096\tweight"])
def test_a_row_with_a_name_above_numbers_or_a_year_is_a_header(first: str) -> None:
    low, high = (400, "{}") if first.endswith("weight") else (4096, "/usr/lib{}/x")
    rows = "".join(f"{low + number}\t{high.format(number)}\n" for number in range(50))
    table = table_of(sample_of(f"{first}\n{rows}".encode()), kind="tsv")
    assert table is not None
    assert (table.header, table.rows) == (True, 50)


def test_names_with_signs_that_no_row_has_are_a_header() -> None:
    rows = "".join(f"Ann {number:x} of it\t{number:x}/x y\n" for number in range(7, 60))
    table = table_of(sample_of(f"First name:\tCountry name\n{rows}".encode()), kind="tsv")
    assert table is not None
    assert (table.header, table.rows) == (True, 53)


@pytest.mark.in_full(one_in=3)
@requirement("notice:figures-true")
@pytest.mark.parametrize("width", range(1, 13))
@pytest.mark.parametrize("window", [None, 200_000])
def test_of_a_sample_no_row_is_cut(width: int, window: int | None) -> None:
    """A window ends anywhere, also inside of the last of the rows that are wanted."""
    rows = [f"{100_000 + at},{'abc'[at % 3] * width}" for at in range(70_000)]
    data = ("id,word\n" + "\n".join(rows) + "\n").encode()
    records, is_all = columns._sampled_records(sample_of(data, window), ",")  # pyright: ignore[reportPrivateUsage]
    assert not is_all
    assert len(records) > 100
    assert {",".join(one) for one in records[1:]} <= set(rows)
