"""Ranges: what may be written, what it means, and what is refused instead of being read as something else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.store.reader import byte_of_char, byte_of_line
from holdall.text.ranges import ask, parse, resolve_lines, resolve_offsets, whole_number
from holdall.values.errors import BadRange
from holdall.values.spans import Ask, Span
from tests.requirements import requirement
from tests.support import reader_of

UNITS = ["lines", "bytes", "chars"]
ends = st.none() | st.integers(min_value=-12, max_value=12) | st.sampled_from([10**30, -(10**30)])


def complaint_of(value: object, unit: str = "lines") -> str:
    with pytest.raises(BadRange) as refused:
        ask(value, unit=unit)
    return str(refused.value)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("10:20", 10, 20),
        ("10:", 10, None),
        (":20", None, 20),
        (":", None, None),
        ("-5:", -5, None),
        (":-5", None, -5),
        ("-5:-2", -5, -2),
        (" 10 : 20 ", 10, 20),
        ("0010:20", 10, 20),
        ("1" * 40 + ":", int("1" * 40), None),
    ],
)
def test_a_range_is_two_ends_of_which_each_may_be_open(
    unit: str, text: str, start: int | None, end: int | None
) -> None:
    assert parse(text, unit=unit) == ask(text, unit=unit) == ask((start, end), unit=unit) == Ask(start, end)
    assert ask([start, end], unit=unit) == ask(Ask(start, end), unit=unit) == Ask(start, end)


def test_a_single_number_is_one_line_byte_or_char() -> None:
    assert parse("7", unit="lines") == Ask(7, 7)
    assert parse("-1", unit="lines") == Ask(-1, -1)
    assert parse("7", unit="bytes") == Ask(7, 8)
    assert parse("-2", unit="chars") == Ask(-2, -1)
    assert parse("-1", unit="chars") == Ask(-1, None)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("85,311–85,313", 85_311, 85_313), ("lines 999–1,001", 999, 1001), ("1,000:2,000", 1000, 2000),
        ("1,234,567:", 1_234_567, None), (":1,000", None, 1000), ("-1,000:", -1000, None), ("5–7", 5, 7),
    ],
)  # fmt: skip
def test_a_range_is_taken_as_it_is_told_to_people(text: str, start: int | None, end: int | None) -> None:
    assert parse(text, unit="lines") == Ask(start, end)


def test_the_range_that_a_passage_names_is_taken_as_it_is() -> None:
    assert parse("lines=185:", unit="lines") == Ask(185, None)
    assert parse("bytes=5:9", unit="bytes") == Ask(5, 9)
    with pytest.raises(BadRange, match="'lines=185:' is not a range of bytes"):
        parse("lines=185:", unit="bytes")


@pytest.mark.parametrize(
    "text",
    ["", " ", "a", "1:b", "1:2:3", "1..2", "10-20", "1 2", "12 -5", "1,2", "1,200", "1,20:1,300", "1,2000:", "1000,000:", "1,,000:", "–5", "5–", "1,000-2,000", "1.5", "1e3", "+5:", "--5:", "0x10", "½", "१:२",
     "１:２", "1:\x00", "1" * 41, "1" * 60, "L10-L20", "None", "inf", "nan", "$(id)"],
)  # fmt: skip
def test_what_is_not_a_range_is_refused_and_never_read_as_another(text: str) -> None:
    for unit in UNITS:
        assert complaint_of(text, unit).startswith(f"{text[:60]!r} is not a range of {unit}; write A:B, A:, :B or -N: ")


@pytest.mark.parametrize(
    "value",
    [5, 5.0, None, True, (1,), (1, 2, 3), [], {}, (1.0, 2), ("1", "2"), (True, 2), (float("inf"), 2), ([], []), b"1:2"],
    ids=repr,
)
def test_a_value_that_is_no_pair_of_whole_numbers_is_refused(value: object) -> None:
    for unit in UNITS:
        assert f"range of {unit}" in complaint_of(value, unit)


def test_a_refusal_shows_what_was_given_and_the_form_that_is_meant() -> None:
    assert complaint_of("10-20") == snapshot("'10-20' is not a range of lines; write A:B, A:, :B or -N: (the last N).")
    assert complaint_of(5, "bytes") == snapshot(
        "a range of bytes is a pair or text, not 5; write A:B, A:, :B or -N: (the last N)."
    )
    assert complaint_of((float("nan"), 2), "chars") == snapshot(
        "the ends of a range of chars are whole numbers or None, not nan; write A:B, A:, :B or -N: (the last N)."
    )
    assert len(complaint_of("x" * 10_000)) < 200
    assert len(complaint_of({"x" * 10_000}, "bytes")) < 200
    with pytest.raises(BadRange) as zero:
        resolve_lines(Ask(0, 5), 10)
    assert str(zero.value) == snapshot(
        "lines are numbered from 1, and 0:5 has line 0; write A:B, A:, :B or -N: (the last N)."
    )
    with pytest.raises(BadRange) as backwards:
        resolve_offsets(Ask(9, 3), 10, unit="bytes")
    assert str(backwards.value) == snapshot(
        "the range 9:3 of bytes ends before it starts; write A:B, A:, :B or -N: (the last N)."
    )


# The values of the area "slice" in the collection of bad inputs, for `start` and for `length`.
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("inf"), id="SLICE-004"),
        pytest.param("0", id="SLICE-005"),
        pytest.param(None, id="SLICE-006"),
        pytest.param([], id="SLICE-010"),
        float("nan"),
        1.0,
        True,
        b"1",
        -1,
        -(10**30),
    ],
)
def test_a_whole_number_from_0_on_is_one_or_is_refused_by_name(value: Any) -> None:
    with pytest.raises(BadRange) as refused:
        whole_number(value, name="start")
    assert str(refused.value).startswith(("start must be a whole number, not ", "start must be 0 or more, not "))


@pytest.mark.parametrize("value", [0, 1, pytest.param(10**30, id="SLICE-002")])
def test_a_whole_number_is_not_bounded_from_above(value: int) -> None:
    assert whole_number(value, name="start") == value


@given(ends, ends, st.integers(min_value=0, max_value=9))
def test_lines_of_a_range_are_those_between_its_ends_both_included(
    start: int | None, end: int | None, total: int
) -> None:
    wanted = Ask(start, end)
    if 0 in (start, end):
        with pytest.raises(BadRange):
            resolve_lines(wanted, total)
        return
    first = 1 if start is None else start if start > 0 else total + 1 + start
    last = total if end is None else end if end > 0 else total + 1 + end
    lines = [line for line in range(1, total + 1) if first <= line <= last]
    if start is not None and end is not None and start > end and (start > 0) == (end > 0):
        with pytest.raises(BadRange):
            resolve_lines(wanted, total)
        assert not lines
        return
    assert resolve_lines(wanted, total) == (Span(lines[0], lines[-1]) if lines else None)


@given(ends, ends, st.integers(min_value=0, max_value=9))
def test_offsets_of_a_range_are_a_slice_of_the_whole(start: int | None, end: int | None, total: int) -> None:
    chosen = list(range(total))[start:end]
    try:
        span = resolve_offsets(Ask(start, end), total, unit="bytes")
    except BadRange:
        assert not chosen  # refused only where it ends before it starts
        assert start is not None
        assert end is not None
        assert start > end
        return
    assert 0 <= span.start <= span.end <= total
    assert list(range(span.start, span.end)) == chosen


@requirement("measure:lines-from-one", "measure:line-ranges-inclusive")
@given(st.lists(st.text("ab\r\x0b\u2028é", max_size=4), min_size=1, max_size=8), st.booleans(), st.data())
def test_lines_are_numbered_from_1_and_a_range_of_them_includes_both_ends(
    lines: list[str], ended: bool, data: st.DataObject
) -> None:
    text = "\n".join(lines) + ("\n" if ended or not lines[-1] else "")
    kept = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    reader = reader_of(text.encode())
    first = data.draw(st.integers(min_value=1, max_value=len(kept)))
    last = data.draw(st.integers(min_value=first, max_value=len(kept)))
    span = resolve_lines(parse(f"{first}:{last}", unit="lines"), reader.totals.lines)
    assert span is not None
    assert span == Span(first, last)
    found = reader.read(byte_of_line(reader, span.start), byte_of_line(reader, span.end + 1))
    reader.close()
    assert found.decode().removesuffix("\n") == "\n".join(kept[first - 1 : last])


@requirement("measure:offsets-from-zero", "measure:offset-ranges-half-open")
@given(st.text("ab\né漢😀", min_size=1, max_size=20), st.data())
def test_bytes_and_chars_are_numbered_from_0_and_a_range_of_them_excludes_its_end(
    text: str, data: st.DataObject
) -> None:
    raw = text.encode()
    reader = reader_of(raw)
    start = data.draw(st.integers(min_value=0, max_value=len(text)))
    end = data.draw(st.integers(min_value=start, max_value=len(text)))
    chars = resolve_offsets(parse(f"{start}:{end}", unit="chars"), reader.totals.chars, unit="chars")
    assert reader.read(byte_of_char(reader, chars.start), byte_of_char(reader, chars.end)).decode() == text[start:end]
    bytes_ = resolve_offsets(parse(f"{start}:{end}", unit="bytes"), reader.totals.bytes, unit="bytes")
    assert reader.read(bytes_.start, bytes_.end) == raw[start:end]
    reader.close()
