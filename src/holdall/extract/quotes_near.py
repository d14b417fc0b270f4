"""The place in a text that is most like a quote which does not stand in it.

Short pieces of the quote that do stand in the text vote for where it could begin; the edit distance, exact, decides
between the few best places. Both cost a fixed amount of work, whatever the texts are: a common piece has a bounded
number of votes, and the distance is computed for whole rows at once, as the bits of one number.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from holdall.extract.quotes_seeds import occurrences

ALIKE = 0.75  # at least this share of the quote's characters must be as they were, or it is no place of the quote
LONGEST = 8_000  # characters of a quote that are compared; of a longer one its beginning is looked for
SHORTEST = 8  # fewer characters are like anything

_SEEDS = 32
_VOTES = 32  # of one piece
_PLACES = 4
_LONG = 1_000  # from here on only two places are compared


class Nearest(NamedTuple):
    """`text[start:end]` is the quote but for `distance` characters inserted, left out or replaced."""

    start: int
    end: int
    distance: int


def nearest(quote: str, text: str) -> Nearest | None:
    """The place that is most like `quote`; None where none is `ALIKE` enough, or it is too short to tell."""
    quote = quote[:LONGEST]
    size = len(quote)
    if size < SHORTEST:
        return None
    allowed = int(size * (1 - ALIKE))
    best: Nearest | None = None
    for guess in _guesses(quote, text):
        reach = allowed + max(8, size // 8)  # what was inserted or left out moves the end, the vote is a rough one
        low, high = max(0, guess - reach), min(len(text), guess + size + reach)
        end, distance = _best_end(quote, text[low:high])
        if distance <= allowed and (best is None or distance < best.distance):
            best = Nearest(low, low + end, distance)
    if best is None:
        return None
    length = _best_length(quote[::-1], text[best.start : best.end][::-1])
    return Nearest(best.end - length, best.end, best.distance)


def _guesses(quote: str, text: str) -> list[int]:
    """Where the quote could begin, the most likely first: a piece that is rare in the text counts for more."""
    size = len(quote)
    width = max(8, size // 8)
    length = 8 if size >= 48 else 5 if size >= 16 else 4
    votes: defaultdict[int, float] = defaultdict(float)
    for offset in range(0, size - length + 1, max(1, (size - length) // (_SEEDS - 1))):
        places = occurrences(quote[offset : offset + length], text, _VOTES)
        for place in places:
            votes[(place - offset) // width] += 1 / len(places)
    scores = {bucket: weight + votes.get(bucket + 1, 0.0) for bucket, weight in votes.items()}
    best = sorted(scores, key=lambda bucket: (-scores[bucket], bucket))
    return [bucket * width for bucket in best[: _PLACES if size < _LONG else 2]]


def _best_end(quote: str, text: str) -> tuple[int, int]:
    """Where the stretch of `text` that is most like `quote` ends, and its distance."""
    distances = _distances(quote, text, anchored=False)
    distance, end = min((distance, end) for end, distance in enumerate(distances))
    return end, distance


def _best_length(quote: str, text: str) -> int:
    """How much of the beginning of `text` is most like `quote`; of several lengths the one nearest to the quote's."""
    size = len(quote)
    distances = _distances(quote, text, anchored=True)
    return min(enumerate(distances), key=lambda found: (found[1], abs(found[0] - size)))[0]


def _distances(quote: str, text: str, *, anchored: bool) -> Iterable[int]:
    """For each end in `text`, from 0 on: the edit distance of `quote` to the stretch that ends there and is most like
    it; or, `anchored`, to all of the text before.

    The bit-parallel method of Myers (1999): a row of the table is two numbers whose bits say where the distance goes
    up and where it goes down.
    """
    size = len(quote)
    masks: defaultdict[str, int] = defaultdict(int)
    for index, char in enumerate(quote):
        masks[char] |= 1 << index
    full, top = (1 << size) - 1, 1 << (size - 1)
    up, down, distance = full, 0, size
    yield distance
    for char in text:
        same = masks.get(char, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        rises, falls = down | (full & ~(horizontal | up)), up & horizontal
        if rises & top:
            distance += 1
        elif falls & top:
            distance -= 1
        rises = (rises << 1 | anchored) & full
        falls = (falls << 1) & full
        up = falls | (full & ~(vertical | rises))
        down = rises & vertical
        yield distance
