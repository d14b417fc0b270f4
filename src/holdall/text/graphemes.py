"""Where a text may be cut without cutting what a person takes for one character: a family emoji, a flag, CRLF.

Only the surroundings of the cut are looked at, whatever the length of the text: to know a border, one needs the
character after it and what stands before it back to a border that is certain. Positions are those of `str`.
"""

import re
from collections.abc import Iterator

import stringzilla

_REACH = 32  # how far before a cut a certain border is looked for at first; the reach doubles until there is one
_TRIES = 16
_FLAG_LETTERS = ("\U0001f1e6", "\U0001f1ff")
_surrogates = re.compile("[\ud800-\udfff]")


def border_before(text: str, at: int) -> int:
    """`at`, or the next position before it that is a border between two grapheme clusters."""
    if at <= 0 or at >= len(text):
        return max(0, min(at, len(text)))
    if text[at - 1] < "\x7f" and text[at] < "\x7f":
        return at - (text[at - 1] == "\r" and text[at] == "\n")
    place = _certain_border(text, at)
    # The one character after the cut decides whether the cut is a border; further ones cannot change it.
    for length in _lengths(text[place : at + 1]):
        if place + length > at:
            break
        place += length
    return place


def cluster_end(text: str, start: int, most: int) -> int:
    """Where the cluster that begins at `start` ends, looking at no more than `most` characters of it."""
    return start + next(_lengths(text[start : start + most]), 0)


def _certain_border(text: str, at: int) -> int:
    """A border at or before `at` that needs no look at what stands before it: the start, or one told by two neighbours.

    Where nothing is found the reach doubles, so that a long run of flags or marks costs its own length and no more.
    """
    reach = _REACH
    while reach < at:
        start = at - reach
        for place in range(start + 1, min(at, start + _TRIES) + 1):
            if _parts(text[place - 1], text[place]):
                return place
        reach *= 2
    return 0


def _parts(left: str, right: str) -> bool:
    """Whether there is a border between these two, whatever came before.

    What came before matters only where `left` is a joiner, a mark (both stick to an "a" before them) or the letter
    of a flag.
    """
    if _FLAG_LETTERS[0] <= left <= _FLAG_LETTERS[1]:
        return False
    return list(_lengths(f"a{left}{right}")) == [1, 1, 1]


def _lengths(text: str) -> Iterator[int]:
    """The length of each cluster, in characters. Half a surrogate pair stands alone."""
    for cluster in stringzilla.utf8_graphemes(_surrogates.sub("\ufffd", text)):
        yield cluster.utf8_count()
