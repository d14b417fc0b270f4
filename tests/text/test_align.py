"""Which items of two sequences belong together: always a right way from one to the other, in linear time."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.text.align import differences


def applied(one: list[int], other: list[int]) -> int:
    """How many items are changed; and what is between the differences is the same on both sides."""
    a = c = size = 0
    for begin, end, start, stop in differences(one, other):
        assert one[a:begin] == other[c:start]
        assert end > begin or stop > start
        size += max(end - begin, stop - start)
        a, c = end, stop
    assert one[a:] == other[c:]
    return size


@given(st.lists(st.integers(0, 6), max_size=200), st.lists(st.integers(0, 6), max_size=200))
def test_any_two_sequences_lead_from_one_to_the_other(one: list[int], other: list[int]) -> None:
    applied(one, other)


@given(st.lists(st.integers(0, 1000), max_size=300, unique=True), st.data())
def test_a_few_changes_among_items_that_occur_once_are_found_exactly(items: list[int], data: st.DataObject) -> None:
    at = data.draw(st.lists(st.integers(0, max(0, len(items) - 1)), max_size=5, unique=True)) if items else []
    other = [-1 - place if place in at else item for place, item in enumerate(items)]
    assert applied(items, other) == len(at)


def test_items_that_all_differ_are_equal_or_are_turned_round_cost_linear_time() -> None:
    """Counted by the calls of `tick`, not by a clock: each stands for so many items."""
    for one, other in (
        (list(range(60_000)), list(range(60_000, 120_000))),
        ([1] * 60_000, [1] * 59_000),
        (list(range(60_000)), list(range(60_000))[::-1]),
        ([item // 2 for item in range(60_000)], [item // 2 for item in range(60_000)][::-1]),
        ([item * 7 % 3 for item in range(60_000)], [item * 11 % 3 for item in range(1, 60_001)][::-1]),
    ):
        ticks: list[int] = []
        differences(one, other, lambda ticks=ticks: ticks.append(1))
        assert len(ticks) < 60_000
        applied(one, other)
