"""Where a text may be cut: a look at the surroundings of a cut finds what a look at the whole finds."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.text.borders import cluster_end, grapheme_border_before
from holdall.text.excerpt import byte_count, first_bytes, first_lines, last_bytes, line_count
from tests.wire.texts import FAMILY, borders, broken_texts, lines, size, texts

limits = st.integers(min_value=0, max_value=120)


@given(texts, st.integers(min_value=0, max_value=400))
@example("\U0001f1e9\U0001f1ea" * 40 + "x", 63)
@example("\U0001f1e9" * 81, 80)
@example("e" + "\u0301" * 200 + "x", 150)
def test_the_border_before_a_cut_is_the_last_one_of_the_whole_text(text: str, at: int) -> None:
    assert grapheme_border_before(text, at) == max(place for place in borders(text) if place <= at)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(FAMILY, id="family emoji"),
        pytest.param("👍🏽", id="skin tone"),
        pytest.param("\U0001f1e9\U0001f1ea", id="flag"),
        pytest.param("1\ufe0f\u20e3", id="keycap"),
        pytest.param("e\u0301\u0302", id="combining marks"),
        pytest.param("\u1100\u1161\u11a8", id="hangul jamo"),
        pytest.param("\u0915\u094d\u0937\u093f", id="indic conjunct"),
        pytest.param("\u0e01\u0e33", id="thai vowel"),
        pytest.param("\u0600\u0661", id="prepended mark"),
        pytest.param("\r\n", id="crlf"),
    ],
)
@pytest.mark.parametrize("before", ["", "x", "漢" * 50, "\U0001f1e9\U0001f1ea" * 100, "text\n"])
def test_no_place_inside_a_cluster_is_a_border(cluster: str, before: str) -> None:
    text = f"{before}{cluster}{cluster}y"
    start, middle, end = len(before), len(before) + len(cluster), len(before) + 2 * len(cluster)
    assert {grapheme_border_before(text, at) for at in range(start, middle)} == {start}
    assert {grapheme_border_before(text, at) for at in range(middle, end)} == {middle}
    assert grapheme_border_before(text, end) == end
    assert (cluster_end(text, start, 100), cluster_end(text, middle, 100)) == (middle, end)


@given(broken_texts, limits)
def test_the_first_bytes_are_as_many_whole_clusters_as_fit(text: str, limit: int) -> None:
    passage = first_bytes(text, limit)
    assert text[passage.start : passage.end] == passage.text
    assert (passage.start, passage.total, passage.omitted) == (0, len(text), len(text) - passage.end)
    assert size(passage.text) <= limit
    whole = text.replace("\ud83d", "\ufffd").replace("\ude00", "\ufffd")
    places = sorted(borders(whole))
    fitting = max(place for place in places if size(whole[:place]) <= limit)
    following = next((place for place in places if place > fitting), fitting)
    if size(whole[fitting:following]) <= limit:
        pair = "\ud83d\ude00" in text[fitting - 1 : fitting + 1]
        assert passage.end == fitting - pair
    else:  # one cluster alone is over: it is cut between characters
        assert fitting <= passage.end < following


@given(broken_texts, limits)
def test_the_last_bytes_are_whole_clusters_that_fit(text: str, limit: int) -> None:
    passage = last_bytes(text, limit)
    assert text[passage.start :] == passage.text
    assert (passage.end, passage.total, passage.omitted) == (len(text), len(text), passage.start)
    assert size(passage.text) <= limit
    whole = text.replace("\ud83d", "\ufffd").replace("\ude00", "\ufffd")
    places = sorted(borders(whole))
    fitting = min(place for place in places if size(whole[place:]) <= limit)
    previous = max((place for place in places if place < fitting), default=fitting)
    if size(whole[previous:fitting]) <= limit:
        pair = "\ud83d\ude00" in text[fitting - 1 : fitting + 1]
        assert passage.start == fitting + pair
    else:
        assert previous < passage.start <= fitting


@given(texts, st.integers(min_value=0, max_value=12))
def test_the_first_lines_are_whole_and_end_with_their_newline(text: str, count: int) -> None:
    passage = first_lines(text, count)
    assert text.startswith(passage.text)
    assert lines(passage.text) == min(count, lines(text))
    assert passage.text == text or passage.text.endswith("\n") or count == 0


@given(broken_texts)
def test_bytes_and_lines_are_counted(text: str) -> None:
    assert (byte_count(text), line_count(text)) == (size(text), lines(text))
    assert line_count(text, len(text) // 2) == lines(text[: len(text) // 2])
