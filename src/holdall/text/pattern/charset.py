"""Sets of characters, as sorted ranges of code points, and what the named ones hold.

Every set here is one that both engines are given written out, so that neither's own idea of a class can differ.
A newline and half of a character (a surrogate) are in no set: a pattern is matched within one line of text.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import chain, pairwise

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
NEWLINE = 0x0A
ANY: Ranges = ((0, NEWLINE - 1), (NEWLINE + 1, 0xD7FF), (0xE000, LAST))


def charset(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, merged, without newline and surrogates."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(
        (max(low, first), min(high, last))
        for low, high in merged
        for first, last in ANY
        if max(low, first) <= min(high, last)
    )


def complement(ranges: Ranges) -> Ranges:
    """Every character of a line that is not in `ranges`."""
    edges = [(-1, -1), *sorted(ranges), (LAST + 1, LAST + 1)]
    return charset((left[1] + 1, right[0] - 1) for left, right in pairwise(edges) if left[1] + 1 < right[0])


def single(code: int) -> Ranges:
    return ((code, code),)


def size(ranges: Ranges) -> int:
    return sum(high - low + 1 for low, high in ranges)


def has(ranges: Ranges, code: int) -> bool:
    at = bisect_right(ranges, (code, LAST)) - 1
    return at >= 0 and code <= ranges[at][1]


def _of(characters: str) -> Ranges:
    return charset((ord(char), ord(char)) for char in characters)


def _span(*pairs: str) -> Ranges:
    return charset((ord(pair[0]), ord(pair[1])) for pair in pairs)


DIGIT = _span("09")
WORD = _span("09", "AZ", "az", "__")
SPACE = _of("\t\v\f\r ")

POSIX: dict[str, Ranges] = {
    "alnum": _span("09", "AZ", "az"),
    "alpha": _span("AZ", "az"),
    "ascii": charset([(0, 0x7F)]),
    "blank": _of("\t "),
    "cntrl": charset([(0, 0x1F), (0x7F, 0x7F)]),
    "digit": DIGIT,
    "graph": _span("!~"),
    "lower": _span("az"),
    "print": _span(" ~"),
    "punct": _span("!/", ":@", "[`", "{~"),
    "space": SPACE,
    "upper": _span("AZ"),
    "word": WORD,
    "xdigit": _span("09", "AF", "af"),
}


@cache
def category(name: str) -> Ranges | None:
    """A general category of Unicode, of one letter or two; None where there is no such category."""
    found = charset(run for kind, runs in _categories().items() if kind == name or kind[0] == name for run in runs)
    return found or None


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    runs: dict[str, list[tuple[int, int]]] = {}
    start, kind = 0, unicodedata.category("\0")
    for code, found in enumerate(map(unicodedata.category, map(chr, range(LAST + 1)))):
        if found != kind:
            runs.setdefault(kind, []).append((start, code - 1))
            start, kind = code, found
    runs.setdefault(kind, []).append((start, LAST))
    return runs


@cache
def fold(ranges: Ranges) -> Ranges:
    """`ranges` and all that differs from it by case alone: Unicode's simple folding, one character for one.

    So k is also the Kelvin sign and s the long s, but ß is not ss and İ is not i.
    """
    families = _families(ascii_only=not ranges or ranges[-1][1] < 0x80)
    added = [(code, code) for family in families if any(has(ranges, code) for code in family) for code in family]
    return charset([*ranges, *added])


@cache
def _families(*, ascii_only: bool) -> list[tuple[int, ...]]:
    """The characters that fold to the same one."""
    # The two that fold into ASCII from outside are named, or ignoring the case of a plain word would cost the walk
    # over all cased scripts (Latin to Georgian, Cherokee, Latin and Cyrillic supplements, full width, and above).
    cased = (
        chain(range(0x80), (0x17F, 0x212A))
        if ascii_only
        else chain(range(0x2E80), range(0xA640, 0xAC00), range(0xFB00, 0x10000), range(0x10400, 0x1F000))
    )
    families: dict[str, list[int]] = {}
    for code in cased:
        families.setdefault(_folded(chr(code)), []).append(code)
    return [tuple(family) for family in families.values() if len(family) > 1]


def _folded(char: str) -> str:
    for candidate in (char.casefold(), char.lower()):
        if len(candidate) == 1:
            return candidate
    return char
