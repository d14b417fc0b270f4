"""The room of a turn, shared by its parallel calls: max-min, so that a small output never pays for a large one.

Sizes are known only when all calls have ended, so this is decided once, at the close of the turn. An output is shown
whole or not at all; an answer of a verb can be made smaller.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_SHARE_OF_WHAT_IS_LEFT = 0.5  # the other half is for the model's own words and for the turns that follow


@dataclass(frozen=True, slots=True)
class Want:
    """`size` tokens if it is shown whole, `least` for what stands in its place otherwise."""

    size: int
    least: int
    divisible: bool = False


def room_of_turn(window: int, used: int) -> int:
    """Tokens for the results of one turn, in a window of so many of which so many are used."""
    return max(0, int((window - used) * _SHARE_OF_WHAT_IS_LEFT))


def share(room: int, wants: Sequence[Want]) -> list[int]:
    """What each gets: its size where it is whole, `least` where it is replaced, anything between where divisible.

    The largest is replaced first, until the level of the water is above all that is left: whoever is under the fair
    share is whole. What is smaller than its own replacement always is.
    """
    replaced: set[int] = set()
    while True:
        left = {at: want for at, want in enumerate(wants) if at not in replaced}
        level = _level(room - sum(wants[at].least for at in replaced), list(left.values()))
        over = [at for at, want in left.items() if not want.divisible and want.size > max(level, want.least)]
        if not over:
            return [want.least if at in replaced else _gets(want, level) for at, want in enumerate(wants)]
        replaced.add(max(over, key=lambda at: wants[at].size))


def _gets(want: Want, level: int) -> int:
    return min(want.size, max(level, want.least)) if want.divisible else want.size


def _floor(want: Want) -> int:
    """What it gets however little room there is."""
    return min(want.size, want.least) if want.divisible or want.size <= want.least else 0


def _level(room: int, wants: Sequence[Want]) -> int:
    """The height of the water: each gets at most this much, and all of the room is used or nobody wants more."""
    while True:
        level = _filled(room, sorted(want.size for want in wants))
        above = [want for want in wants if _floor(want) > level]
        if not above:
            return level
        # Those stand out of the water, and the others share what they leave.
        room -= sum(_floor(want) for want in above)
        wants = [want for want in wants if _floor(want) <= level]


def _filled(room: int, sizes: Sequence[int]) -> int:
    for number, size in enumerate(sizes):
        level = room // (len(sizes) - number)
        if size > level:
            return max(0, level)
        room -= size
    return sizes[-1] if sizes else max(0, room)
