"""Excerpts: what is shown and what is left out are together the whole, and no character is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.excerpt import Excerpt, around, beginning, ending, folded
from tests.text.strategies import char_starts, messy_bytes

limits = st.integers(min_value=0, max_value=40)
valid_text = st.text("aé漢😀\n", max_size=30)


def check(excerpt: Excerpt, whole: bytes, limit: int) -> None:
    """What every excerpt promises."""
    assert 0 <= excerpt.start <= excerpt.end <= excerpt.total == len(whole)
    assert excerpt.data == whole[excerpt.start : excerpt.end]
    assert len(excerpt.data) <= limit
    assert len(excerpt.data) + excerpt.omitted == len(whole)
    assert (excerpt.cut_left, excerpt.cut_right) == (excerpt.start > 0, excerpt.end < len(whole))
    left, right = whole[: excerpt.start], whole[excerpt.end :]
    assert left + excerpt.data + right == whole
    assert len(left) + len(right) == excerpt.omitted


@given(messy_bytes, limits)
def test_a_beginning_and_what_it_leaves_out_are_the_whole(whole: bytes, limit: int) -> None:
    excerpt = beginning(whole, limit)
    check(excerpt, whole, limit)
    assert excerpt.start == 0
    assert excerpt.end in (*char_starts(whole), len(whole))


@given(messy_bytes, limits)
def test_an_ending_and_what_it_leaves_out_are_the_whole(whole: bytes, limit: int) -> None:
    excerpt = ending(whole, limit)
    check(excerpt, whole, limit)
    assert excerpt.end == len(whole)


@given(messy_bytes, st.data(), limits)
def test_a_window_and_what_it_leaves_out_are_the_whole(whole: bytes, data: st.DataObject, limit: int) -> None:
    start = data.draw(st.integers(min_value=0, max_value=len(whole)))
    end = data.draw(st.integers(min_value=start, max_value=len(whole)))
    check(around(whole, start, end, reach=data.draw(limits), limit=limit), whole, limit)


@given(valid_text, limits)
def test_an_excerpt_of_text_is_text_whose_characters_are_whole(text: str, limit: int) -> None:
    whole = text.encode()
    first, last = beginning(whole, limit), ending(whole, limit)
    assert text.startswith(first.text)
    assert text.endswith(last.text)
    for excerpt in (first, last):
        assert excerpt.text.encode() == excerpt.data
        # As much as fits: the next character would be over.
        assert excerpt.omitted == 0 or len(excerpt.data) + 4 > limit


@given(valid_text.filter(bool), st.data())
def test_a_window_shows_the_match_and_both_sides_of_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(min_value=0, max_value=len(text) - 1))
    end = data.draw(st.integers(min_value=start + 1, max_value=len(text)))
    reach = data.draw(st.integers(min_value=4, max_value=20))
    whole = text.encode()
    at, to = len(text[:start].encode()), len(text[:end].encode())
    excerpt = around(whole, at, to, reach=reach, limit=10_000)
    assert excerpt.start <= at < to <= excerpt.end
    assert text[start:end] in excerpt.text
    assert "\ufffd" not in excerpt.text
    assert excerpt.start == 0 or at - excerpt.start > reach - 4
    assert excerpt.end == len(whole) or excerpt.end - to > reach - 4


@pytest.mark.parametrize(
    ("excerpt", "shown"),
    [
        (beginning("aé漢😀".encode(), 9), "aé漢"),
        (ending("aé漢😀".encode(), 5), "😀"),
        (ending("aé漢😀".encode(), 3), ""),
        (beginning(b"", 5), ""),
        (around(b"0123456789", 4, 6, reach=2, limit=100), "234567"),
        (around(b"0123456789", 4, 6, reach=2, limit=3), "234"),
    ],
)
def test_examples_of_excerpts(excerpt: Excerpt, shown: str) -> None:
    assert excerpt.text == shown


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(2, 90)), max_size=12), st.integers(20, 300))
def test_what_is_shown_of_a_container_and_what_is_left_out_are_the_whole(
    sizes: list[tuple[int, int]], limit: int
) -> None:
    """A container of values, each behind so many other signs."""
    parts: list[tuple[int, int]] = []
    at = 1
    for gap, size in sizes:
        parts.append((at + gap, at + gap + size))
        at += gap + size
    total = at + 1
    shown = folded(parts, total, limit, least=40)
    borders = [border for span in shown for border in span]
    assert borders == sorted(borders)
    assert (borders[0], borders[-1]) == (0, total), "its brackets are always shown"
    holes = list(zip(borders[1:-1:2], borders[2:-1:2], strict=True))
    inside = [(start + 1, end - 1) for start, end in parts if end - start > 40]
    assert all(hole in inside or (hole[0] in {end for _, end in parts} and hole[1] == total - 1) for hole in holes)
    room = limit - sum(end - start for start, end in shown)
    assert all(end - start > room for start, end in holes if (start, end) in inside), "what fits is opened"
