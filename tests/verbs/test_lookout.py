"""Waiting for a pattern: what is new is searched, from the last line that was not whole, and not all the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.values.errors import BadPattern
from holdall.verbs.grep import PatternWatch
from tests.requirements import requirement
from tests.support import reader_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@requirement("async:wait-pattern")
@given(st.lists(st.sampled_from(["er", "ror", ": ", "7", "\n", "e", "x"]), max_size=20))
def test_a_match_is_found_at_the_first_look_that_can_see_it_however_it_comes(parts: list[str]) -> None:
    pattern_watch, text = PatternWatch("^err[o]r: 7"), ""
    for part in parts:
        text += part
        found = pattern_watch.found(reader_of(text.encode()))
        assert found == any(line.startswith("error: 7") for line in text.split("\n"))
        if found:
            return


def test_what_was_looked_at_is_not_looked_at_again() -> None:
    pattern_watch = PatternWatch("hit")
    assert not pattern_watch.found(reader_of(b"a line\nhi"))
    assert not pattern_watch.found(reader_of(b"a line\nhi"))
    assert not pattern_watch.found(reader_of(b"a hit!\nhi"))  # of a whole line nothing changes
    assert pattern_watch.found(reader_of(b"a line\nhit"))


def test_of_a_line_of_megabytes_that_goes_on_only_the_end_is_looked_at_again() -> None:
    pattern_watch, start = PatternWatch("need+le"), b"x" * 3_000_000
    assert not pattern_watch.found(reader_of(start + b"nee"))
    assert pattern_watch.found(reader_of(start + b"needle"))


@requirement("async:wait-pattern")
def test_the_next_look_is_due_a_fifth_of_a_second_after_the_last() -> None:
    clock = Clock()
    pattern_watch = PatternWatch("hit", clock=clock)
    assert pattern_watch.rest == 0.0
    pattern_watch.found(reader_of(b"one\n"))
    assert pattern_watch.rest == pytest.approx(0.2)
    clock.now += 0.15
    assert pattern_watch.rest == pytest.approx(0.05)
    clock.now += 60.0
    assert pattern_watch.rest == 0.0


@pytest.mark.parametrize("pattern", ["(?=a)", "a\nb", "", r"\p{L}" * 90])
def test_what_grep_refuses_is_refused_before_the_first_look(pattern: str) -> None:
    with pytest.raises(BadPattern):
        PatternWatch(pattern)
