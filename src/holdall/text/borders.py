"""Where a text may be cut: between graphemes, after a line, between two elements of JSON, between two words.

It finds places and cuts nothing; only `text.excerpt` shows less than everything.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import stringzilla

from holdall.text.utf8 import straddling_bytes
from holdall.values.outputs import Kind
from holdall.values.patterns import lazy_pattern

# Where a text may be cut without cutting what a person takes for one character: a family emoji, a flag, CRLF.
#
# Only the surroundings of the cut are looked at, whatever the length of the text: to know a border, one needs the
# character after it and what is before it back to a border that is certain. Positions are those of `str`.


_REACH = 32  # how far before a cut a certain border is looked for at first; the reach doubles until there is one
_TRIES = 16
_FLAG_LETTERS = ("\U0001f1e6", "\U0001f1ff")
_surrogates = lazy_pattern("[\ud800-\udfff]")


def grapheme_border_before(text: str, at: int) -> int:
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
    """A border at or before `at` that needs no look at what is before it: the start, or one told by two neighbours.

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


# Where a large output is best cut in two: after a line, between two elements of JSON, between two words.
#
# Only a small stretch before the wanted place is read, whatever the size of the output. A line ends where a newline
# stands, so its border is certain. Whether a comma is between two elements or inside a string cannot be known without
# reading from the start: the border of an element is the most likely one, and nothing more is claimed of it. No cut is
# ever made inside a character.


Read = Callable[[int, int], bytes]

_FIRST_LOOK = 4 * 1024  # bytes; most borders lie so near that the rest need not be read
_WORD = 256  # a longer run without a blank is not a word
_AHEAD = 16  # bytes after the cut that tell whether an element begins there

_SPACE = rb"[ \t\r\n]*+"
# From the surest to the least: between two containers or their members, between two strings, between two numbers.
# The second may be the string "," itself, the third a comma in a sentence.
_ELEMENTS = (
    lazy_pattern(rb"[}\]]" + _SPACE + rb"(,)(?=" + _SPACE + rb'["\[{])'),
    lazy_pattern(rb'(?<!\\)"' + _SPACE + rb"(,)(?=" + _SPACE + rb'["\[{])'),
    lazy_pattern(rb"[0-9el}\]]" + _SPACE + rb"(,)(?=" + _SPACE + rb'[-0-9"tfn\[{])'),
)
_TAGS = (lazy_pattern(rb"(>)(?=<[a-zA-Z])"), lazy_pattern(rb"(>)"))
_BLANKS = (lazy_pattern(rb"([ \t]++)"),)
_PATTERNS: dict[Kind, Sequence[re.Pattern[bytes]]] = {"json": _ELEMENTS, "ndjson": _ELEMENTS, "html": _TAGS}


def border_before(read: Read, at: int, *, near: int, kind: Kind = "text") -> int:
    """The best place to cut, at `at` or at most `near` bytes before it; three bytes before where `near` is less."""
    looks = dict.fromkeys((min(near, _FIRST_LOOK), near))  # the second is no look of its own where it is no wider
    for reach in looks:
        newline = read(max(0, at - reach), at).rfind(b"\n") if reach else -1
        if newline >= 0:
            return max(0, at - reach) + newline + 1
    patterns = _PATTERNS.get(kind, ())
    for reach in looks if patterns else ():
        border = _last(patterns, read, at, reach)
        if border is not None:
            return border
    border = _last(_BLANKS, read, at, min(near, _WORD))
    return char_border(read, at) if border is None else border


def char_border(read: Read, at: int) -> int:
    """`at`, or the start of the character that it is inside of; and never between a carriage return and its newline."""
    before, after = read(max(0, at - 3), at), read(at, at + 3)
    if before.endswith(b"\r") and after.startswith(b"\n"):
        return at - 1
    return at - straddling_bytes(before, after)


def _last(patterns: Sequence[re.Pattern[bytes]], read: Read, at: int, reach: int) -> int | None:
    """The end of the last match of the first pattern that has one; it ends at or before `at`."""
    start = max(0, at - reach)
    window = read(start, at + _AHEAD)
    for pattern in patterns:
        ends = [match.end(1) for match in pattern.finditer(window) if match.end(1) <= at - start]
        if ends:
            return start + ends[-1]
    return None
