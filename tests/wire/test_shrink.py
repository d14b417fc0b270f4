"""The one loop that makes a text smaller until it fits: never over its budget, ever smaller, and honest."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from holdall.wire.clamp import Shrink, clamp_text, fitted

_WORDS = st.lists(st.sampled_from(["a", "word", "é", "漢字", "🎒", "\n", "{}", "0123456789"]), max_size=400).map(
    "".join
)


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.lists(st.floats(0.5, 1e6), min_size=8, max_size=8))
def test_sizes_get_smaller_and_end_with_one_that_fits_or_with_the_least(
    size: int, least: int, overs: list[float]
) -> None:
    shrink, sizes = Shrink(size, least=least), list[float]()
    for one in shrink:
        sizes.append(one)
        shrink.over = overs[len(sizes) - 1]
    assert all(after < before for before, after in itertools.pairwise(sizes))
    assert all(min(least, size) <= one <= size for one in sizes)
    assert shrink.fits or sizes[-1] == min(least, size)
    assert not any(over <= 1 for over in overs[: len(sizes) - 1]), "the first that fits is taken"


@given(_WORDS, st.integers(1, 400), st.integers(1, 300))
def test_what_is_shown_is_within_its_budget_and_says_what_it_left_out(text: str, budget: int, least: int) -> None:
    def tokens(shown: str) -> int:
        return len(re.findall(r"\w+|\S", shown))

    def cut(size: int) -> str:
        return clamp_text(text, max_bytes=size, max_lines=None, suffix="").text

    whole = len(text.encode())
    size, shown = fitted(max(1, whole), least=least, make=cut, over=lambda shown: tokens(shown) / budget)
    assert text.startswith(shown)
    assert tokens(shown) <= budget or size == min(least, max(1, whole))
    said = clamp_text(text, max_bytes=max(size, 200), max_lines=None)
    if said.text is not text:
        assert "truncated" in said.text


@given(_WORDS, st.integers(1, 200), st.integers(0, 200))
def test_most_of_a_budget_is_used_so_that_a_larger_one_shows_more(text: str, budget: int, more: int) -> None:
    def shown(most: int) -> str:
        return fitted(max(1, len(text)), least=1, make=lambda size: text[:size], over=lambda shown: len(shown) / most)[
            1
        ]

    small, large = shown(budget), shown(budget + more)
    assert len(small) <= budget
    assert len(large) <= budget + more
    assert text.startswith(large)
    assert len(large) >= min(len(text), int((budget + more) * 0.8) - 1)
