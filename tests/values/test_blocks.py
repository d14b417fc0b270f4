"""The block table: what it stores, and what it finds."""

from array import array
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.values.spans import BlockTable

numbers = st.integers(min_value=0, max_value=2**64 - 1)
rows = st.lists(st.tuples(numbers, numbers, numbers), max_size=40)
steps = st.lists(st.integers(min_value=0, max_value=5), max_size=40)


def column(values: list[int]) -> "array[int]":
    return array("Q", values)


def cumulative(parts: list[int]) -> list[int]:
    return [sum(parts[: index + 1]) for index in range(len(parts))]


@given(rows)
def test_a_table_reads_back_from_its_bytes_as_itself(found: list[tuple[int, int, int]]) -> None:
    table = BlockTable(*(column([row[place] for row in found]) for place in range(3)))
    data = table.to_bytes()
    assert len(data) == 24 * len(table) == 24 * len(found)
    assert BlockTable.from_bytes(data) == table


def test_a_table_is_stored_as_little_endian_columns() -> None:
    table = BlockTable(column([1, 2]), column([3, 4]), column([5, 6]))
    assert table.to_bytes() == b"".join(number.to_bytes(8, "little") for number in (1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize("size", [1, 8, 23, 25, 47])
def test_bytes_that_are_not_three_columns_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="three columns"):
        BlockTable.from_bytes(bytes(size))


@given(steps, st.integers(min_value=0, max_value=220))
def test_the_block_of_a_newline_is_the_first_that_has_counted_it(parts: list[int], number: int) -> None:
    totals = cumulative(parts)
    table = BlockTable(column(totals), column(totals), column(totals))
    found = next((block for block, total in enumerate(totals) if total >= number), len(totals))
    assert table.block_of_newline(number) == found
    assert number <= 0 or found == len(totals) or table.newlines_before(found) < number


@given(steps, st.integers(min_value=0, max_value=220))
def test_the_block_of_a_char_is_the_one_in_which_it_ends(parts: list[int], index: int) -> None:
    totals = cumulative(parts)
    table = BlockTable(column(totals), column(totals), column(totals))
    found = bisect_left(totals, index + 1)
    assert table.block_of_char(index) == found
    if found < len(totals):
        assert table.chars_before(found) <= index < totals[found]
