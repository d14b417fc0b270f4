"""How the room of a turn is shared."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.policy.decide import Want, room_of_turn, share
from tests.requirements import requirement

wants = st.lists(st.builds(Want, st.integers(0, 50_000), st.integers(0, 500), st.booleans()), max_size=12)


@requirement("budget:max-min")
def test_the_small_ones_are_whole_and_the_largest_is_replaced_first() -> None:
    sizes = [Want(size, 500) for size in (200, 3000, 9000, 4000)]
    assert share(20_000, sizes) == [200, 3000, 9000, 4000]
    assert share(10_000, sizes) == [200, 3000, 500, 4000]
    assert share(5000, sizes) == [200, 3000, 500, 500]
    assert share(1000, sizes) == [200, 500, 500, 500]


@requirement("budget:max-min")
def test_what_one_does_not_need_goes_to_the_others() -> None:
    answers = [Want(100, 100, divisible=True), Want(4000, 256, divisible=True), Want(4000, 256, divisible=True)]
    assert share(3100, answers) == [100, 1500, 1500]
    assert share(9000, answers) == [100, 4000, 4000]


def test_what_is_smaller_than_its_own_notice_is_always_shown() -> None:
    assert share(0, [Want(80, 500), Want(90, 500)]) == [80, 90]


@given(st.integers(0, 100_000), wants)
def test_nobody_gets_more_than_it_wants_or_less_than_its_place(room: int, asked: list[Want]) -> None:
    shares = share(room, asked)
    for got, want in zip(shares, asked, strict=True):
        assert min(want.size, want.least) <= got <= max(want.size, want.least)
    least = sum(min(want.size, want.least) for want in asked)
    assert sum(shares) <= max(room, least)


@given(st.integers(0, 50_000), st.integers(0, 50_000), wants)
def test_more_room_never_shows_less(room: int, more: int, asked: list[Want]) -> None:
    def whole(shares: list[int]) -> set[int]:
        return {at for at, (got, want) in enumerate(zip(shares, asked, strict=True)) if got >= want.size}

    assert whole(share(room, asked)) <= whole(share(room + more, asked))


@given(st.integers(0, 50_000), wants)
def test_whoever_is_replaced_is_at_least_as_large_as_whoever_is_not(room: int, asked: list[Want]) -> None:
    shares = share(room, asked)
    fixed = [(want.size, got >= want.size) for got, want in zip(shares, asked, strict=True) if not want.divisible]
    shown = [size for size, whole in fixed if whole]
    assert all(size >= max((s for s in shown if s > 500), default=0) for size, whole in fixed if not whole)


@requirement("budget:scales-with-window")
@given(st.integers(0, 2_000_000), st.integers(0, 2_000_000))
def test_the_room_of_a_turn_scales_with_what_is_left_of_the_window(window: int, used: int) -> None:
    room = room_of_turn(window, used)
    assert 0 <= room <= max(0, window - used)
    assert room_of_turn(2 * window, 2 * used) >= room
