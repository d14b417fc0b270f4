"""Numbers as people read and write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.numbers import age, grouped, money, parse_size, plural, roughly, size
from holdall.values.errors import BadRange


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1049, "1.0 kB"), (1050, "1.1 kB"), (797_600, "797.6 kB"),
        (999_949, "999.9 kB"), (999_950, "1.0 MB"), (51_200, "51.2 kB"), (10**9, "1.0 GB"), (10**12, "1.0 TB"),
        (10**15, "1000.0 TB"),
    ],
)  # fmt: skip
def test_a_size_has_one_decimal_and_powers_of_ten(number: int, shown: str) -> None:
    assert size(number) == shown


@given(st.integers(min_value=0, max_value=10**15))
def test_a_size_is_within_half_of_its_last_digit(number: int) -> None:
    text, unit = size(number).split()
    factor = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}[unit]
    assert abs(float(text) * factor - number) <= 0.0501 * factor
    assert unit == "TB" or float(text) < 1000


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"), (999, "999"), (1000, "1k"), (1234, "1.23k"), (45_000, "45k"), (303_456, "303k"), (999_499, "999k"),
        (999_500, "1M"), (1_234_567, "1.23M"), (999_500_000, "1G"), (12_300_000_000, "12.3G"), (10**12, "1000G"),
    ],
)  # fmt: skip
def test_an_estimate_has_three_digits(number: int, shown: str) -> None:
    assert roughly(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (86_400, "1d"),
        (31 * 86_400, "31d"),
    ],
)  # fmt: skip
def test_an_age_is_told_in_its_largest_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_counted_things_are_grouped_and_plural() -> None:
    assert grouped(1234567) == "1,234,567"
    assert [plural(number, "line") for number in (0, 1, 2, 1000)] == ["0 lines", "1 line", "2 lines", "1,000 lines"]
    assert [plural(2, noun) for noun in ("match", "byte", "address", "box")] == [
        "2 matches", "2 bytes", "2 addresses", "2 boxes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("1024", 1024), ("1024 B", 1024), ("50 KiB", 51_200), ("50KiB", 51_200), ("50k", 51_200),
        ("50 kb", 50_000), ("2GB", 2 * 10**9), ("2 gib", 2 * 1024**3), ("1.5 MiB", 1_572_864), (" 7 mb ", 7_000_000),
        ("1 TB", 10**12), ("1TiB", 1024**4),
    ],
)  # fmt: skip
def test_a_size_is_read_in_powers_of_ten_or_of_two(text: str, number: int) -> None:
    assert parse_size(text) == number


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "1 2", "1 xb", "KiB", "1e3", "1.2.3", "٣", "1 KiB x", "inf", "nan", "1" * 16]
)
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(BadRange, match="is not a size; write bytes, or a number with kB, MB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0.5", "1.5 B", "1000.25"])
def test_a_part_of_a_byte_is_no_size(text: str) -> None:
    assert parse_size(f"{text.removesuffix(' B')} MB")
    assert parse_size("1000.0") == 1000
    with pytest.raises(BadRange, match=f"'{text}' is no whole number of bytes; with a unit it could be one"):
        parse_size(text)


@pytest.mark.parametrize(
    ("cost", "unpriced", "told"),
    [
        (None, 0, "price unknown"), (None, 3, "price unknown"), (0.0, 2, "price unknown"), (0.0, 0, "$0.00"),
        (0.00001, 0, "<$0.0001"), (0.0031, 0, "$0.0031"), (12.4, 0, "$12.40"),
        (0.0031, 1, "at least $0.0031 (1 call of unknown price)"),
    ],
)  # fmt: skip
def test_a_sum_of_money_says_what_is_not_in_it(cost: float | None, unpriced: int, told: str) -> None:
    assert money(cost, unpriced) == told
