"""tail and slice: the end of an output, and a piece cut out by characters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.store import deadline
from holdall.text.tokens import default_tokenizer
from holdall.values.errors import AnchorNotFound, BadRange, OutOfTime
from holdall.values.spans import Span
from holdall.verbs.read import Bounds, read, tail
from holdall.verbs.read import slice as cut
from tests.requirements import requirement
from tests.support import reader_of

LOG = b"".join(b"line %d\n" % number for number in range(1, 101))


@requirement("tail:last-lines")
def test_tail_gives_the_last_lines() -> None:
    passage = tail(reader_of(LOG), 3)
    assert passage.text == "line 98\nline 99\nline 100\n"
    assert passage.lines == Span(98, 100)


def test_tail_of_an_unfinished_last_line_counts_it() -> None:
    assert tail(reader_of(b"a\nb\nc"), 2).text == "b\nc"


@pytest.mark.parametrize(("lines", "text"), [(0, ""), (1000, LOG.decode())])
def test_tail_of_no_lines_and_of_more_than_there_are(lines: int, text: str) -> None:
    assert tail(reader_of(LOG), lines).text == text


def test_tail_of_an_empty_output_is_empty() -> None:
    assert tail(reader_of(b""), 5).text == ""


@pytest.mark.parametrize("lines", [-1, True, "3", 2.0])
def test_tail_refuses_what_is_not_a_number_of_lines(lines: int) -> None:
    with pytest.raises(BadRange):
        tail(reader_of(LOG), lines)


@requirement("tail:long-line")
def test_tail_of_one_very_long_line_gives_its_end_with_offsets() -> None:
    data = b"x" * 1_000_000 + b"THE END"
    reader = reader_of(data)
    passage = tail(reader, 10, bounds=Bounds(1000))
    assert passage.text.endswith("THE END")
    assert passage.bytes == Span(len(data) - len(passage.data), len(data))
    assert len(passage.data) <= 1000
    before = read(reader, bytes=passage.next.removeprefix("bytes="))
    assert before.data + passage.data == data


def test_a_bounded_tail_starts_at_a_line_where_it_can() -> None:
    passage = tail(reader_of(LOG), 50, bounds=Bounds(100))
    assert passage.text.startswith("line ")
    assert passage.text.endswith("line 100\n")


TEXT = "😀é漢a" * 1000


@requirement("slice:start-length", "slice:chars-not-bytes")
def test_slice_counts_characters() -> None:
    passage = cut(reader_of(TEXT.encode()), start=5, length=3)
    assert passage.text == "é漢a"
    assert (passage.chars, passage.bytes.start) == (Span(5, 8), len(TEXT[:5].encode()))


def test_a_start_or_a_length_alone_has_the_other_end_open() -> None:
    reader = reader_of("zwölf漢".encode())
    assert (cut(reader, start=3).text, cut(reader, length=3).text) == ("lf漢", "zwö")


@requirement("slice:anchor", "slice:window-default")
def test_an_anchor_comes_with_a_thousand_characters_around_it() -> None:
    passage = cut(reader_of(b"a" * 5000 + b"NEEDLE" + b"b" * 5000), anchor="NEEDLE")
    assert passage.text == "a" * 500 + "NEEDLE" + "b" * 500


@requirement("slice:match-index")
def test_match_index_chooses_among_several_places() -> None:
    reader = reader_of("é-1 é-2 é-3".encode())
    assert cut(reader, anchor="é-", window=2).text == "é-1"
    assert cut(reader, anchor="é-", window=2, match_index=2).text == " é-3"
    with pytest.raises(AnchorNotFound, match=r"occurs 3 times \(match_index 0 to 2\)"):
        cut(reader, anchor="é-", match_index=3)


@requirement("slice:no-regex")
def test_an_anchor_means_itself() -> None:
    reader = reader_of(b"xxax a.*b")
    assert cut(reader, anchor="a.*b", window=0).text == "a.*b"
    with pytest.raises(AnchorNotFound):
        cut(reader, anchor="x+")


@pytest.mark.parametrize("gap", [-1, 0, 1])
def test_an_anchor_is_found_at_every_border_of_what_is_looked_at_together(gap: int) -> None:
    piece = 1 << 20
    data = b"-" * (piece + gap) + b"abc" + b"-" * (2 * piece - 3) + b"abcabc"
    for number, byte in enumerate((piece + gap, 3 * piece + gap, 3 * piece + gap + 3)):
        assert cut(reader_of(data), anchor="abc", match_index=number, window=0).bytes == Span(byte, byte + 3)
    with pytest.raises(AnchorNotFound, match="it occurs 3 times"):
        cut(reader_of(data), anchor="abc", match_index=3)


def test_looking_for_an_anchor_ends_with_the_time_of_its_call() -> None:
    with deadline.within(0.01), pytest.raises(OutOfTime):
        cut(reader_of(b"a" * 3_000_000), anchor="a", match_index=10**30)
    with pytest.raises(BadRange, match="the anchor has 10,001 characters; at most 10,000 are looked for"):
        cut(reader_of(b"a" * 30_000), anchor="a" * 10_001)


@requirement("slice:anchor-not-found")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "output t3st is empty."),
        (
            b"something else",
            (
                '"no\\nwhere" does not occur in t3st. '
                "It is looked for as it is written; grep takes patterns and can ignore case."
            ),
        ),
    ],
)
def test_an_anchor_that_is_not_there_is_told_with_its_output_and_what_else_finds_it(data: bytes, said: str) -> None:
    with pytest.raises(AnchorNotFound) as raised:
        cut(reader_of(data), anchor="no\nwhere")
    assert str(raised.value) == f"Anchor not found in content: {said}"


@requirement("slice:past-the-end")
@pytest.mark.parametrize(("start", "length"), [(10**9, 1), (4000, 5), (10**30, 10**30)])
def test_a_start_past_the_end_is_empty_with_the_total(start: int, length: int) -> None:
    passage = cut(reader_of(TEXT.encode()), start=start, length=length)
    assert (passage.text, passage.past_end, passage.total.chars) == ("", True, 4000)


def test_a_length_of_nothing_is_nothing() -> None:
    passage = cut(reader_of(TEXT.encode()), start=0, length=0)
    assert (passage.text, passage.past_end) == ("", False)


@requirement("slice:bad-arguments")
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"start": None, "length": None},
        {"start": 0, "anchor": "a"},
        {"start": -1},
        {"start": float("inf"), "length": float("inf")},
        {"start": "0", "length": "0"},
        {"start": [], "length": []},
        {"start": True},
        {"anchor": ""},
        {"anchor": "a", "window": -1},
        {"anchor": "a", "match_index": "1"},
    ],
)
def test_wrong_arguments_of_slice_are_refused_with_the_rule(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRange):
        cut(reader_of(b"abc"), **wrong)


def test_a_bounded_slice_says_how_to_go_on() -> None:
    reader = reader_of(TEXT.encode())
    text, start, length = "", 0, 4000
    while length:
        passage = cut(reader, start=start, length=length, bounds=Bounds(3000))
        assert len(passage.data) <= 3000
        text += passage.text
        if not passage.next:
            break
        start, length = (int(part.partition("=")[2]) for part in passage.next.split(" "))
    assert text == TEXT


def test_a_tail_is_not_past_the_end() -> None:
    assert tail(reader_of(b"1\n2\n"), lines=1).past_end is False


def test_a_tail_that_is_cut_by_tokens_shows_most_of_what_fits() -> None:
    bounds = Bounds(16 * 1024, 300, default_tokenizer())
    shown = tail(reader_of(b"a line of words\n" * 500), lines=500, bounds=bounds)
    assert 200 < default_tokenizer().count(shown.text) <= 300


PIECES = st.text("aé漢\n", max_size=40)


@given(PIECES, PIECES, st.integers(0, 60), st.integers(4, 80))
def test_a_bounded_window_has_the_anchor_in_it_and_says_where_both_sides_are(
    before: str, after: str, window: int, most: int
) -> None:
    text, half = before + "!" + after, window // 2
    wanted = before[max(0, len(before) - half) :] + "!" + after[:half]
    reader = reader_of(text.encode())
    shown = cut(reader, anchor="!", window=window, bounds=Bounds(most))

    def of(told: str) -> str:
        start, length = (int(part.partition("=")[2]) for part in told.split(" "))
        return cut(reader, start=start, length=length).text

    left = "".join(of(note.removeprefix("the window begins before this: ")) for note in shown.notes)
    assert left + shown.text + (of(shown.next) if shown.next else "") == wanted
    assert "!" in shown.text
    assert (shown.text == wanted) == (len(wanted.encode()) <= most) == (not shown.next and not shown.notes)
    assert len(shown.data) <= most
    assert shown.scanned == Span(0, len(before.encode()) + 1)


def test_a_window_that_does_not_fit_is_nearly_as_large_as_what_fits() -> None:
    shown = cut(reader_of(b"a" * 5000 + b"!" + b"b" * 5000), anchor="!", window=4000, bounds=Bounds(1000))
    assert 900 < len(shown.text) <= 1000
    assert abs(shown.text.count("a") - shown.text.count("b")) <= 1
