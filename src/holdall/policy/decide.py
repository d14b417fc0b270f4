"""Does an output fit, or must it be kept? Limits, the room of a turn shared by its calls, and the
cheapest exact order of tests. The reason is a value; nothing here stores or shows anything.
"""

from collections.abc import Sequence
from math import inf
from typing import Literal

import stringzilla

from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.values.record import record
from holdall.values.settings import Settings, ToolPolicy


@record
class Limits:
    """None means that this number does not decide. An output exactly at a limit fits."""

    bytes: int | None = None
    chars: int | None = None
    lines: int | None = None
    tokens: int | None = None


def limits_of(settings: Settings, base: Limits, policy: ToolPolicy | None = None) -> Limits:
    """The limits of a dialect, each replaced by the setting that names another, and that by the tool's own."""
    own = policy or ToolPolicy()
    return Limits(
        bytes=own.max_inline_bytes or settings.max_inline_bytes or base.bytes,
        chars=own.max_inline_chars or settings.max_inline_chars or base.chars,
        lines=own.max_inline_lines or settings.max_inline_lines or base.lines,
        tokens=own.max_inline_tokens or settings.max_inline_tokens or base.tokens,
    )


# The room of a turn, shared by its parallel calls: max-min, so that a small output never pays for a large one.
#
# Sizes are known only when all calls have ended, so this is decided once, at the close of the turn. An output is shown
# whole or not at all; an answer of a verb can be made smaller.


_TURN_SHARE = 0.5  # the other half is for the model's own words and for the turns that follow


@record
class Want:
    """`size` tokens if it is shown whole, `least` for what stands in its place otherwise."""

    size: int
    least: int
    divisible: bool = False


def room_of_turn(window: int, used: int) -> int:
    """Tokens for the results of one turn, in a window of so many of which so many are used."""
    return max(0, int((window - used) * _TURN_SHARE))


def share(room: int, wants: Sequence[Want]) -> list[int]:
    """What each gets: its size where it is whole, `least` where it is replaced, anything between where divisible.

    The largest is replaced first, until the level of the water is above all that is left: calls under the fair share
    are shown whole. What is smaller than its own replacement always is.
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


# Does a text fit, or must it be kept? The cheapest exact order of tests; the reason is a value.
#
# Monotone: a longer text never fits where a shorter beginning of it did not. Bytes are counted without encoding, and
# tokens are counted only where no bound settles it.


Reason = Literal["bytes", "chars", "lines", "tokens", "room", "mark"]
"""`mark`: it holds the mark of the session, and could pass for a notice."""

# A token of the vocabularies in use is at most 128 bytes long, and never shorter than one byte.
LONGEST_TOKEN = 128


@record
class Fits:
    """It fits as it is."""


@record
class Keep:
    """It does not; this is why, the limit that was met first as a rule."""

    reason: Reason


Decision = Fits | Keep
_FITS = Fits()


def decide(text: str, *, limits: Limits, tokenizer: Tokenizer, tokens_left: int | None = None) -> Decision:
    """`tokens_left` is the room that the turn still has; None if nobody counts it."""
    length = len(text)
    most_bytes = inf if limits.bytes is None else limits.bytes
    if length > most_bytes:
        return Keep("bytes")
    if limits.chars is not None and length > limits.chars:
        return Keep("chars")
    size = length
    plain = text.isascii()
    if not plain:
        # At most four bytes a char: encode only where that bound does not settle it.
        size = 4 * length
        if size > most_bytes or _tokens_matter(size, limits, tokens_left):
            size = len(text.encode("utf-8", "surrogatepass"))
        if size > most_bytes:
            return Keep("bytes")
    if limits.lines is not None and length > limits.lines and _lines(text, plain) > limits.lines:
        return Keep("lines")
    return _by_tokens(text, size, limits, tokenizer, tokens_left)


def _by_tokens(text: str, size: int, limits: Limits, tokenizer: Tokenizer, tokens_left: int | None) -> Decision:
    if not _tokens_matter(size, limits, tokens_left):
        return _FITS
    if limits.tokens is not None and size > LONGEST_TOKEN * limits.tokens:
        return Keep("tokens")
    if tokens_left is not None and size > LONGEST_TOKEN * tokens_left:
        return Keep("room")
    tokens = count_in_pieces(tokenizer, text)
    if limits.tokens is not None and tokens > limits.tokens:
        return Keep("tokens")
    if tokens_left is not None and tokens > tokens_left:
        return Keep("room")
    return _FITS


def _tokens_matter(size: int, limits: Limits, tokens_left: int | None) -> bool:
    return (limits.tokens is not None and size > limits.tokens) or (tokens_left is not None and size > tokens_left)


def _lines(text: str, plain: bool) -> int:
    """A final newline does not start another line."""
    # Three times as fast, but only ASCII is in memory as the bytes that it counts in.
    newlines = stringzilla.count(text, "\n") if plain else text.count("\n")
    return newlines + (not text.endswith("\n"))
