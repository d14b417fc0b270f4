"""read: by lines, bytes and chars, bounded and whole, on any shape of output."""

import base64
import os
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.store.protocol import OutputReader
from holdall.store.sources import Source
from holdall.text.tokens import Tokenizer, default_tokenizer
from holdall.values.answers import Passage
from holdall.values.errors import BadRange, UsageError
from holdall.values.outputs import Measure
from holdall.values.spans import Span
from holdall.verbs.read import Bounds, read, tail
from tests.requirements import requirement
from tests.support import reader_of

ANSWER = Bounds(16 * 1024, 4000, default_tokenizer())
SHAPES = {
    "log": b"".join(b"2026-01-01 line %d of a log\n" % number for number in range(20_000)),
    "one line": base64.b64encode(os.urandom(300_000)),
    "chinese": "漢字と絵文字😀です。".encode() * 8000,
    "binary": os.urandom(200_000),
    "no final newline": b"a\n" * 30_000 + b"end",
    "crlf": b"windows line\r\n" * 20_000,
    "blank lines": b"\n" * 100_000,
}


def pages(reader: OutputReader, first: Passage) -> list[Passage]:
    """Follow `next` as it is given, to the end."""
    found = [first]
    while found[-1].next:
        unit, _, wanted = found[-1].next.partition("=")
        page = read(reader, bounds=ANSWER, **{unit: wanted})
        assert page.bytes.start == found[-1].bytes.end
        assert page.bytes.end > page.bytes.start
        found.append(page)
    return found


@requirement(
    "read:every-byte-reachable", "answer:how-to-go-on", "answer:max-bytes", "answer:max-tokens", "read:default-start"
)
@pytest.mark.parametrize("shape", SHAPES)
def test_paging_from_the_start_gives_every_byte_in_bounded_answers(shape: str) -> None:
    data = SHAPES[shape]
    reader = reader_of(data)
    found = pages(reader, read(reader, bounds=ANSWER))
    assert b"".join(page.data for page in found) == data
    assert max(len(page.data) for page in found) <= 16 * 1024
    assert all(default_tokenizer().count(page.text) <= 4000 for page in found[:3])


@requirement("read:long-single-line", "read:long-line-continued")
def test_a_single_line_of_ten_megabytes_is_paged_to_its_last_byte() -> None:
    data = base64.b64encode(os.urandom(10 * 1024 * 1024 * 3 // 4))
    reader = reader_of(data)
    bounds = Bounds(512 * 1024)
    page = read(reader, bounds=bounds)
    assert page.next.startswith("bytes=")
    got = bytearray(page.data)
    while page.next:
        page = read(reader, bytes=page.next.removeprefix("bytes="), bounds=bounds)
        got += page.data
    assert bytes(got) == data


@requirement("read:deep-json")
def test_json_of_a_hundred_thousand_levels_is_read_to_its_last_byte() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    data = b"".join(Source(deep))
    assert data == b"[" * 100_001 + b"]" * 100_001
    reader = reader_of(data)
    assert b"".join(page.data for page in pages(reader, read(reader, bounds=ANSWER))) == data


@requirement("read:large-log")
def test_lines_far_into_a_large_log_are_read_without_what_stands_before_them() -> None:
    reader = reader_of(b"".join(b"line number %d of many\n" % number for number in range(2_000_000)))
    touched: list[Span] = []
    real = reader.read

    def counting(start: int, end: int) -> bytes:
        touched.append(Span(start, end))
        return real(start, end)

    reader.read = counting
    passage = read(reader, lines=(1_900_001, 1_900_002))
    assert passage.text == "line number 1900000 of many\nline number 1900001 of many\n"
    assert sum(span.end - span.start for span in touched) < 12 * 64 * 1024
    assert min(span.start for span in touched if span.end > span.start) > 50_000_000


@requirement(
    "read:lines",
    "answer:line-range",
    "answer:byte-range",
    "answer:char-range",
    "answer:totals",
    "measure:line-ranges-inclusive",
)
def test_a_range_of_lines_includes_both_ends_and_states_all_three_ranges() -> None:
    passage = read(reader_of("eins\nzwölf\ndrei\nvier".encode()), lines=(2, 3))
    assert passage.text == "zwölf\ndrei\n"
    assert (passage.lines, passage.bytes, passage.chars) == (Span(2, 3), Span(5, 17), Span(5, 16))
    assert passage.total.as_dict() == {"bytes": 21, "chars": 20, "lines": 4}


@requirement("read:bytes", "read:chars", "measure:offset-ranges-half-open", "measure:offsets-from-zero")
def test_bytes_and_chars_count_from_zero_and_exclude_the_end() -> None:
    reader = reader_of("aé漢😀z".encode())
    assert read(reader, bytes=(1, 3)).text == "é"
    assert read(reader, chars=(1, 4)).text == "é漢😀"
    assert read(reader, chars="0:1").text == "a"


@requirement("read:open-ends", "read:negative-ends")
@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"lines": "2:"}, "2\n3\n"),
        ({"lines": ":2"}, "1\n2\n"),
        ({"lines": "-1:"}, "3\n"),
        ({"lines": "-2:-1"}, "2\n3\n"),
        ({"lines": ":-2"}, "1\n2\n"),
        ({"lines": "-100:1"}, "1\n"),
        ({"lines": "2"}, "2\n"),
        ({"lines": ":"}, "1\n2\n3\n"),
        ({"bytes": "-2:"}, "3\n"),
        ({"bytes": ":-2"}, "1\n2\n"),
        ({"bytes": "4"}, "3"),
        ({"chars": "-3:-1"}, "\n3"),
    ],
)
def test_open_and_negative_ends(wanted: dict[str, Any], text: str) -> None:
    assert read(reader_of(b"1\n2\n3\n"), **wanted).text == text


@requirement("read:past-the-end")
@pytest.mark.parametrize(
    "wanted", [{"lines": "10:20"}, {"bytes": "6:"}, {"chars": "1000:2000"}, {"bytes": (10**30, None)}]
)
def test_a_range_past_the_end_is_empty_and_says_where_the_end_is(wanted: dict[str, Any]) -> None:
    passage = read(reader_of(b"1\n2\n3\n"), **wanted)
    assert (passage.text, passage.past_end, passage.next) == ("", True, "")
    assert passage.total.as_dict() == {"bytes": 6, "chars": 6, "lines": 3}
    assert passage.bytes == Span(6, 6)


def test_a_range_that_reaches_past_the_end_is_cut_there() -> None:
    passage = read(reader_of(b"1\n2\n3\n"), lines="3:99")
    assert (passage.text, passage.past_end) == ("3\n", False)


@requirement("read:bad-range")
@pytest.mark.parametrize(
    "wanted",
    ["", "a:b", "1:2:3", "1.5:2", "0:3", "5:2", "--3:", None.__class__, 3.0, [1], (1, 2, 3), (True, 2), ("1", 2)],
)
def test_what_is_not_a_range_is_refused_with_the_form_that_is_meant(wanted: object) -> None:
    with pytest.raises(BadRange, match=r"A:B|line 0|ends before"):
        read(reader_of(b"1\n2\n3\n"), lines=wanted)


def test_two_ranges_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="one range, not lines and bytes"):
        read(reader_of(b"x"), lines="1", bytes="0:1")


@requirement("read:binary", "measure:model-reads-utf8")
def test_binary_is_text_with_replacements_and_base64_of_the_exact_bytes() -> None:
    data = bytes(range(256))
    shown = read(reader_of(data), bytes="120:140").to_json()
    assert shown["exact"] is False
    assert base64.b64decode(shown["base64"]) == data[120:140]
    assert shown["bytes"] == [120, 140]
    shown["text"].encode("utf-8")


@requirement("read:bytes-inside-a-char")
def test_a_byte_range_inside_a_character_is_exact_in_data_and_valid_in_text() -> None:
    passage = read(reader_of("漢字".encode()), bytes="1:4")
    assert passage.data == "漢字".encode()[1:4]
    assert passage.exact is False
    assert "\ufffd" in passage.text


@requirement("answer:no-own-handle")
def test_a_bounded_answer_never_splits_a_character_and_needs_no_handle_of_its_own() -> None:
    data = "漢".encode() * 10_000
    reader = reader_of(data)
    for page in pages(reader, read(reader, bounds=Bounds(1000))):
        assert page.exact
        assert page.handle == "t3st"


@requirement("measure:newline-ends-line", "measure:crlf-once", "measure:lines-from-one")
def test_only_a_newline_ends_a_line() -> None:
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh\r\nsecond"
    reader = reader_of(text.encode())
    assert reader.totals.lines == 2
    assert read(reader, lines="2").text == "second"
    assert read(reader, lines="1").text.endswith("h\r\n")


@given(st.binary(max_size=400), st.integers(-500, 500), st.integers(-500, 500))
def test_bytes_are_what_python_would_slice(data: bytes, start: int, end: int) -> None:
    expected = data[start:end]
    try:
        got = read(reader_of(data), bytes=(start, end)).data
    except BadRange:
        assert start > end
        assert (start < 0) == (end < 0)
        return
    assert got == expected


@given(st.text(max_size=300), st.integers(0, 320), st.integers(0, 320))
def test_chars_are_what_python_would_slice(text: str, start: int, end: int) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    start, end = min(start, end), max(start, end)
    assert read(reader_of(data.encode()), chars=(start, end)).text == data[start:end]


def test_an_answer_that_is_not_counted_gets_bytes_by_the_mix_of_the_output() -> None:
    dense, empty = Measure(bytes=1000, tokens=500), Measure()
    assert (Bounds().share(dense), Bounds(None, 100).share(dense)) == (16 * 1024, None)
    assert Bounds(5000, None).share(dense) == 5000
    assert Bounds(5000, 1000).share(dense) == 2000
    assert Bounds(5000, 1000).share(empty) == 4000
    assert Bounds(1500, 1000).share(dense) == 1500
    assert Bounds(5000, 10).share(dense) == 256
    assert Bounds(100, 10).share(dense) == 100


class Signs:
    """A tokenizer to which each character is a token."""

    name = "signs"

    def count(self, text: str) -> int:
        return len(text)


LINES = st.lists(st.text("aé漢😀", max_size=12), max_size=12).map("\n".join)
ENDS = st.none() | st.integers(1, 14)
ROOM = st.integers(4, 100)  # bytes: one character at least


def _first(text: str, most: int) -> str:
    """What of it is shown: all, or whole lines, or of a longer line whole characters."""
    lines = [line for line in accumulate(text.splitlines(keepends=True)) if len(line.encode()) <= most]
    return lines[-1] if lines else text.encode()[:most].decode(errors="ignore")


def _last(text: str, most: int) -> str:
    lines = text.splitlines(keepends=True)
    ends = ["".join(lines[at:]) for at in range(len(lines))]
    fitting = [end for end in ends if len(end.encode()) <= most]
    return fitting[0] if fitting else text.encode()[-most:].decode(errors="ignore")


@given(LINES, ENDS, ENDS, ROOM)
@example("aaa\nbbb\nccc", None, None, 8)
def test_an_answer_has_as_many_whole_lines_as_fit_and_says_what_follows(
    text: str, start: int | None, end: int | None, most: int
) -> None:
    wanted = "".join(text.splitlines(keepends=True)[(start or 1) - 1 : end])
    if not wanted:
        return
    reader = reader_of(text.encode())
    shown = read(reader, lines=(start, end), bounds=Bounds(most))
    assert shown.text == _first(wanted, most)
    assert shown.past_end is False
    unit, _, following = shown.next.partition("=")
    rest = wanted.removeprefix(shown.text)
    asked: dict[str, Any] = {unit: following}
    assert (read(reader, **asked).text if following else "") == rest
    if rest:
        assert unit == ("lines" if shown.text.endswith("\n") else "bytes")


@given(LINES, st.integers(1, 14), ROOM)
@example("aaaa\nbbb\nccc", 3, 7)
def test_a_tail_has_as_many_whole_lines_as_fit_and_says_what_is_before(text: str, lines: int, most: int) -> None:
    wanted = "".join(text.splitlines(keepends=True)[-lines:])
    reader = reader_of(text.encode())
    shown = tail(reader, lines, bounds=Bounds(most))
    assert shown.text == _last(wanted, most)
    before = shown.next.removeprefix("bytes=")
    assert (read(reader, bytes=before).text if before else "") == wanted.removesuffix(shown.text)
    assert shown.past_end is (not text)


@given(LINES, st.integers(1, 60))
def test_an_answer_has_no_more_tokens_than_it_may_and_most_of_what_fits(text: str, most: int) -> None:
    reader, bounds = reader_of(text.encode()), Bounds(None, most, Signs())
    for shown, is_end in ((read(reader, bounds=bounds), False), (tail(reader, 99, bounds=bounds), True)):
        assert len(shown.text) <= most
        assert (shown.text == text) == (not shown.next) == bounds.fits(text.encode()) == (len(text) <= most)
        assert text.endswith(shown.text) if is_end else text.startswith(shown.text)


def test_as_many_tokens_as_are_allowed_are_shown_and_little_less_of_a_long_line() -> None:
    def shown(text: str, most: int, tokenizer: Tokenizer | None = None) -> list[int]:
        reader, bounds = reader_of(text.encode()), Bounds(10_000, most, tokenizer or Signs())
        return [len(passage.text) for passage in (read(reader, bounds=bounds), tail(reader, 99, bounds=bounds))]

    assert [Bounds(most).fits(b"abc") for most in (2, 3)] == [False, True]
    assert shown("é" * 100, 100) == [100, 100]
    assert shown("é" * 1000, 100) == [97, 97]
    assert shown("a\n" * 50, 100) == [100, 100]
    assert shown("é" * 9, 1) == [0, 0]
    assert shown("a" * 9, 0) == [1, 1]  # an answer never stays where it is


@given(st.text("aé漢😀", min_size=1, max_size=12), st.data())
def test_what_a_range_of_bytes_has_of_characters_that_it_splits_is_told(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start + 1, len(whole)))
    borders = list(accumulate((len(char.encode()) for char in text), initial=0))
    before = min(one for one in borders if one >= start) - start
    behind = end - max(one for one in borders if one <= end)
    shown = read(reader_of(whole), bytes=(start, end))
    assert shown.exact is (before == behind == 0)
    assert shown.split == (before if before <= end - start else 0, behind)  # 0 inside of one character


def test_what_continues_no_character_is_no_part_of_one() -> None:
    assert read(reader_of(b"\x80\x80ab"), bytes="1:3").split == (0, 0)
    assert read(reader_of(b"a\xc3"), bytes="1:").split == (0, 0)


def test_lines_of_what_is_no_text_are_a_short_look_where_an_answer_has_tokens() -> None:
    reader = reader_of(b"\x7fELF\0\n" + b"\0" * 120 + "漢字".encode() * 100)
    assert reader.facts.measure.kind == "binary"
    look = read(reader, bounds=Bounds(None, 100_000, Signs()))
    assert (look.bytes, look.next) == (Span(0, 126), f"bytes=126:{reader.totals.bytes}")
    second = read(reader, lines="2:", bounds=Bounds(None, 100_000, Signs()))
    assert (second.bytes, second.next) == (Span(6, 132), f"bytes=132:{reader.totals.bytes}")
    assert read(reader, bytes=":", bounds=Bounds(None, 100_000, Signs())).next == ""
    assert read(reader).next == ""
    short = read(reader, bounds=Bounds(None, 100, Signs()))
    assert (short.bytes, short.next) == (Span(0, 6), f"bytes=6:{reader.totals.bytes}")


@pytest.mark.parametrize(
    ("wanted", "following"),
    [({"chars": ":"}, "chars=6:"), ({"chars": "1:8"}, "chars=6:8"), ({"bytes": "1:9"}, "bytes=6:9")],
)
def test_a_range_goes_on_in_its_own_unit_and_to_its_own_end(wanted: dict[str, Any], following: str) -> None:
    assert read(reader_of(b"a\nb\nc\nd\ne\nf"), bounds=Bounds(6), **wanted).next == following


@pytest.mark.parametrize("unit", ["bytes", "chars"])
def test_only_what_begins_at_the_end_or_behind_it_is_past_it(unit: str) -> None:
    def is_past(data: bytes, wanted: str) -> bool:
        asked: dict[str, Any] = {unit: wanted}
        return read(reader_of(data), **asked).past_end

    assert [is_past(b"1\n2\n3\n", wanted) for wanted in ("5:5", "-1:", "6:6", "7:")] == [False, False, True, True]
    assert not is_past(b"1", ":")


def test_the_answer_of_a_call_that_still_writes_says_so() -> None:
    reader = reader_of(b"1\n2\n")
    assert read(reader).notes == ()
    reader.facts = replace(reader.facts, state="running")
    assert read(reader, lines="1").notes == ("still running; 4 bytes so far",)
