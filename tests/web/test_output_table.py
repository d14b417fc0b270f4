"""Lines of CSV as a table, and the answers of SQL."""

import csv
import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdall.web.output_rows import MAX_COLUMNS, Columns, cell_of, columns_of, table_rows
from tests.support import reader_of

_CELL = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=12)


def _texts(row: dict[str, Any]) -> list[str]:
    return ["".join(run if isinstance(run, str) else run[0] for run in cell["t"]) for cell in row["cells"]]


def test_the_first_line_names_the_columns() -> None:
    assert columns_of(reader_of(b"id;name\n1;a\n2;b\n3;c\n")) == Columns(("id", "name"), ";")
    assert columns_of(reader_of(b"1;/a\n2;/b\n3;/c\n")) == Columns(("column0", "column1"), ";", header=False)
    assert columns_of(reader_of(b"just text\nand more of it\n")) is None
    assert columns_of(reader_of(b"")) is None


@given(st.lists(st.tuples(_CELL, _CELL), min_size=1, max_size=40), st.integers(2, 45), st.integers(1, 10))
def test_any_window_has_the_cells_that_a_reader_of_the_whole_finds(
    rows: list[tuple[str, str]], first: int, count: int
) -> None:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([("one", "two"), *rows])
    reader = reader_of(written.getvalue().encode())
    found = table_rows(reader, Columns(("one", "two"), ","), first, count)
    wanted = rows[first - 2 : first - 2 + count]
    assert [row["n"] for row in found] == list(range(first, first + len(wanted)))
    plain = [one for one in wanted if all(cell.isprintable() and cell.isascii() for cell in one)]
    shown = [tuple(_texts(row)) for row in found if "cells" in row]
    assert len(shown) == len(wanted)
    assert [one for one in shown if one in plain] == [one for one in plain if one in shown]


def test_a_field_over_several_lines_is_one_cell_and_its_lines_say_so() -> None:
    reader = reader_of(b'a,b\n1,"one\ntwo\nthree"\n2,x\n')
    rows = table_rows(reader, Columns(("a", "b"), ","), 2, 10)
    assert [(row["n"], "cells" in row, row.get("goes_on", False)) for row in rows] == [
        (2, True, False), (3, False, True), (4, False, True), (5, True, False),
    ]  # fmt: skip
    assert _texts(rows[0]) == ["1", "one↵two↵three"]
    inside = table_rows(reader, Columns(("a", "b"), ","), 4, 10)
    assert [row.get("goes_on", False) for row in inside] == [True, False]


def test_a_line_with_another_number_of_columns_is_shown_as_it_stands() -> None:
    odd = table_rows(reader_of(b"a,b\n1,2,3\n"), Columns(("a", "b"), ","), 2, 10)[0]
    assert odd["odd"]["t"] == ["1,2,3", ("↵", "n", 1, 1)]
    assert "cells" not in odd


def test_a_field_that_no_reader_takes_costs_its_line_only() -> None:
    reader = reader_of(b'a,b\n"' + b"x" * 200_000 + b'",1\n2,3\n')
    rows = table_rows(reader, Columns(("a", "b"), ","), 2, 10)
    assert len(rows) == 2


def test_a_long_cell_says_how_much_is_left() -> None:
    assert cell_of("x" * 1000) == {"t": ["x" * 300], "k": "text", "left": 700}
    assert cell_of(None) == {"t": ["NULL"], "k": "null"}
    assert cell_of(1.5) == {"t": ["1.5"], "k": "number"}
    assert cell_of({"a": "\x1b"}) == {"t": ['{"a": "\\u001b"}'], "k": "text"}


def test_of_very_many_columns_the_first_are_shown() -> None:
    names = ",".join(f"c{at}" for at in range(1000))
    reader = reader_of(f"{names}\n{names}\n{names}\n".encode())
    columns = columns_of(reader)
    assert columns is not None
    assert len(columns.names) == 1000
    (row, _) = table_rows(reader, columns, 2, 10)
    assert _texts(row) == [f"c{at}" for at in range(MAX_COLUMNS)]
