"""The pattern language: the text of a pattern read into a small tree. What cannot run in linear time is refused with a
hint. Nothing here runs a pattern.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from typing import Literal, NoReturn, assert_never

from holdall.text.escape import one_line
from holdall.values.errors import BadPattern

# A place in the text of a pattern, and how a refusal is worded: what it is, where it stands, what to write instead.


class Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names_return = False  # \r is asked for by name, so it is not taken as part of the line's end

    @property
    def done(self) -> bool:
        return self.at >= len(self.text)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def ahead(self, beginning: str) -> bool:
        return self.text.startswith(beginning, self.at)

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def took(self, beginning: str) -> bool:
        """Step over `beginning` if it stands here."""
        if not self.ahead(beginning):
            return False
        self.at += len(beginning)
        return True

    def took_match(self, wanted: re.Pattern[str]) -> re.Match[str] | None:
        found = wanted.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def refusal(self, what: str, instead: str, *, start: int) -> BadPattern:
        """`what` is wrong with the part from `start` on to here; `instead` says what to write."""
        shown = one_line(self.text[start : self.at], 30)
        return BadPattern(f"{what}: '{shown}' at character {start + 1} of the pattern. {instead}")


def newline_refusal(at: int) -> BadPattern:
    return BadPattern(
        f"a pattern is matched within one line, and this one asks for a newline (at character {at + 1}). "
        "Search for a part that stands on one line, and ask for lines of context around the match."
    )


# Sets of characters, as sorted ranges of code points, and what the named ones hold.
#
# Every set here is one that both engines are given written out, so that neither's own idea of a class can differ. A
# newline and half of a character (a surrogate) are in no set: a pattern is matched within one line of text.


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


# The scripts that `\p{…}` knows, as Unicode 15.0 has them: the common ones, so that both engines read the same table.
#
# Neither engine is asked: they carry different versions of Unicode, and a script gains characters with each.


_TABLE = {
    "Latin": (
        "41-5a 61-7a aa ba c0-d6 d8-f6 f8-2b8 2e0-2e4 1d00-1d25 1d2c-1d5c 1d62-1d65 1d6b-1d77 1d79-1dbe "
        "1e00-1eff 2071 207f 2090-209c 212a-212b 2132 214e 2160-2188 2c60-2c7f a722-a787 a78b-a7ca "
        "a7d0-a7d1 a7d3 a7d5-a7d9 a7f2-a7ff ab30-ab5a ab5c-ab64 ab66-ab69 fb00-fb06 ff21-ff3a ff41-ff5a "
        "10780-10785 10787-107b0 107b2-107ba 1df00-1df1e 1df25-1df2a"
    ),
    "Greek": (
        "370-373 375-377 37a-37d 37f 384 386 388-38a 38c 38e-3a1 3a3-3e1 3f0-3ff 1d26-1d2a 1d5d-1d61 "
        "1d66-1d6a 1dbf 1f00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d "
        "1f80-1fb4 1fb6-1fc4 1fc6-1fd3 1fd6-1fdb 1fdd-1fef 1ff2-1ff4 1ff6-1ffe 2126 ab65 10140-1018e 101a0 "
        "1d200-1d245"
    ),
    "Cyrillic": "400-484 487-52f 1c80-1c88 1d2b 1d78 2de0-2dff a640-a69f fe2e-fe2f 1e030-1e06d 1e08f",
    "Armenian": "531-556 559-58a 58d-58f fb13-fb17",
    "Hebrew": "591-5c7 5d0-5ea 5ef-5f4 fb1d-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fb4f",
    "Arabic": (
        "600-604 606-60b 60d-61a 61c-61e 620-63f 641-64a 656-66f 671-6dc 6de-6ff 750-77f 870-88e 890-891 "
        "898-8e1 8e3-8ff fb50-fbc2 fbd3-fd3d fd40-fd8f fd92-fdc7 fdcf fdf0-fdff fe70-fe74 fe76-fefc "
        "10e60-10e7e 10efd-10eff 1ee00-1ee03 1ee05-1ee1f 1ee21-1ee22 1ee24 1ee27 1ee29-1ee32 1ee34-1ee37 "
        "1ee39 1ee3b 1ee42 1ee47 1ee49 1ee4b 1ee4d-1ee4f 1ee51-1ee52 1ee54 1ee57 1ee59 1ee5b 1ee5d 1ee5f "
        "1ee61-1ee62 1ee64 1ee67-1ee6a 1ee6c-1ee72 1ee74-1ee77 1ee79-1ee7c 1ee7e 1ee80-1ee89 1ee8b-1ee9b "
        "1eea1-1eea3 1eea5-1eea9 1eeab-1eebb 1eef0-1eef1"
    ),
    "Devanagari": "900-950 955-963 966-97f a8e0-a8ff 11b00-11b09",
    "Bengali": (
        "980-983 985-98c 98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bc-9c4 9c7-9c8 9cb-9ce 9d7 9dc-9dd 9df-9e3 9e6-9fe"
    ),
    "Thai": "e01-e3a e40-e5b",
    "Georgian": "10a0-10c5 10c7 10cd 10d0-10fa 10fc-10ff 1c90-1cba 1cbd-1cbf 2d00-2d25 2d27 2d2d",
    "Hangul": (
        "1100-11ff 302e-302f 3131-318e 3200-321e 3260-327e a960-a97c ac00-d7a3 d7b0-d7c6 d7cb-d7fb "
        "ffa0-ffbe ffc2-ffc7 ffca-ffcf ffd2-ffd7 ffda-ffdc"
    ),
    "Hiragana": "3041-3096 309d-309f 1b001-1b11f 1b132 1b150-1b152 1f200",
    "Katakana": (
        "30a1-30fa 30fd-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff6f ff71-ff9d 1aff0-1aff3 1aff5-1affb "
        "1affd-1affe 1b000 1b120-1b122 1b155 1b164-1b167"
    ),
    "Han": (
        "2e80-2e99 2e9b-2ef3 2f00-2fd5 3005 3007 3021-3029 3038-303b 3400-4dbf 4e00-9fff f900-fa6d "
        "fa70-fad9 16fe2-16fe3 16ff0-16ff1 20000-2a6df 2a700-2b739 2b740-2b81d 2b820-2cea1 2ceb0-2ebe0 "
        "2f800-2fa1d 30000-3134a 31350-323af"
    ),
}
SCRIPTS = tuple(_TABLE)


@cache
def script(name: str) -> Ranges | None:
    """The characters of a script; None where the table does not hold it."""
    if name not in _TABLE:
        return None
    ends = [part.split("-") for part in _TABLE[name].split()]
    return charset((int(part[0], 16), int(part[-1], 16)) for part in ends)


# What a pattern says, once it is read: a small tree that both engines are written from.
#
# The tree knows no syntax and no engine. What it can tell about itself (can it match nothing at all, how large does it
# become) is here, so that one answer holds for both engines.


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between two characters."""

    kind: Literal["line start", "line end", "word edge", "no word edge"]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: "Node"
    low: int
    high: int | None  # None: without an end
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Capture:
    item: "Node"


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple["Node", ...]


Node = Chars | Edge | Repeat | Capture | Sequence | Choice


def can_be_empty(node: Node) -> bool:
    """Whether some match may have no characters. Edges are taken as if they always held."""
    match node:
        case Chars():
            return False
        case Edge():
            return True
        case Repeat(item, low):
            return low == 0 or can_be_empty(item)
        case Capture(item):
            return can_be_empty(item)
        case Sequence(items):
            return all(can_be_empty(item) for item in items)
        case Choice(options):
            return any(can_be_empty(option) for option in options)
        case _:
            assert_never(node)


def steps(node: Node) -> int:
    """About how many steps the compiled pattern has: repeated parts are compiled as often as they may occur."""
    match node:
        case Chars(ranges):
            return 1 + 3 * sum(high > 0x7F for _, high in ranges)
        case Edge():
            return 1
        case Repeat(item, low, high):
            return 1 + steps(item) * max(1, low, high or 0)
        case Capture(item):
            return 2 + steps(item)
        case Sequence(parts) | Choice(parts):
            return 1 + sum(steps(part) for part in parts)
        case _:
            assert_never(node)


def repeats(node: Node) -> int:
    """The largest product of counts that stand inside each other, as in (a{10}){20}: 200."""
    match node:
        case Chars() | Edge():
            return 1
        case Repeat(item, low, high):
            return max(1, low if high is None else high) * repeats(item)
        case Capture(item):
            return repeats(item)
        case Sequence(parts) | Choice(parts):
            return max((repeats(part) for part in parts), default=1)
        case _:
            assert_never(node)


def captures(node: Node) -> int:
    match node:
        case Chars() | Edge():
            return 0
        case Repeat(item):
            return captures(item)
        case Capture(item):
            return 1 + captures(item)
        case Sequence(parts) | Choice(parts):
            return sum(captures(part) for part in parts)
        case _:
            assert_never(node)


# What stands after a backslash: a character, a class, an edge, or something that is refused with a hint.
#
# \d \w \s are ASCII. A number (\x41, \u{1F600}) is a character, never a byte.


_CONTROLS = {"t": 0x09, "v": 0x0B, "f": 0x0C, "r": 0x0D, "a": 0x07, "e": 0x1B, "n": NEWLINE}
_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
_NUMBER = re.compile(r"x([0-9A-Fa-f]{2})|[xu]\{([0-9A-Fa-f]{1,8})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})", re.ASCII)
_PROPERTY = re.compile(r"([pP])(?:\{([A-Za-z_]+)\}|([A-Z]))", re.ASCII)

_ONE_LINE = "a pattern is matched within one line"
_HINTS = {
    "A": f"{_ONE_LINE}; write ^ for its start",
    "z": f"{_ONE_LINE}; write $ for its end",
    "Z": f"{_ONE_LINE}; write $ for its end",
    "G": "write out what stands before the match",
    "K": r"capture what follows instead: 'key=(\w+)' with --group",
    "Q": "ask for a literal search, or put \\ before each special character",
    "E": "ask for a literal search, or put \\ before each special character",
    "C": "write . for one character",
    "N": "write . for one character",
    "X": "write . for one character",
    "R": f"{_ONE_LINE}; write $ for its end",
    "h": r"write [ \t]",
    "H": r"write [^ \t]",
    "V": "write .",
    "c": r"write the control character as a number, as in \x03",
    "<": r"write \b for the edge of a word, or < for the character",
    ">": r"write \b for the edge of a word, or > for the character",
}


def character_after_backslash(cursor: Cursor) -> int | None:
    """The code point of an escaped character, \\n included; None (and nothing taken) where it is no character."""
    if number := cursor.took_match(_NUMBER):
        return _checked(cursor, int(next(filter(None, number.groups())), 16), number.start() - 1)
    char = cursor.peek()
    if char in _CONTROLS and char:
        cursor.at += 1
        return _CONTROLS[char]
    if char == "0":
        cursor.at += 1
        if cursor.peek().isdecimal():
            cursor.at += 1
            raise cursor.refusal("octal numbers are not supported", r"Write \x0A, in hex.", start=cursor.at - 3)
        return 0
    if char and not (char.isascii() and char.isalnum()) and char not in "<>":
        cursor.at += 1
        return ord(char)
    return None


def class_after_backslash(cursor: Cursor) -> tuple[Ranges, bool] | None:
    """The characters of \\d \\W \\p{L} and the like, and whether case folding applies; None where it is no class."""
    if named := cursor.took_match(_PROPERTY):
        ranges = _property(cursor, named[2] or named[3], named.start() - 1)
        return (complement(ranges) if named[1] == "P" else ranges), named[1] == "p"
    char = cursor.peek()
    if char and char.lower() in _CLASSES:
        cursor.at += 1
        ranges = _CLASSES[char.lower()]
        return (complement(ranges) if char.isupper() else ranges), False
    return None


def refuse_escape(cursor: Cursor, *, in_class: bool) -> NoReturn:
    """Raise for what no other function here knows. The cursor stands after the backslash."""
    start = cursor.at - 1
    if cursor.done:
        raise cursor.refusal("the pattern ends in a backslash", r"Write \\ for a backslash.", start=start)
    char = cursor.take()
    if in_class and char in "bB":
        hint = r"\b in a class is no edge; write \x08 for a backspace"
    elif char in "123456789kg" and not in_class:
        raise cursor.refusal(
            "back-references are not supported (patterns run in linear time)",
            r"Capture each part and compare the values: '(\w+) (\w+)' with --group counts every pair.",
            start=start,
        )
    elif char in "pP":
        hint = rf"write \{char}{{L}} with a general category (L, Lu, Nd, P, …) or a script ({', '.join(SCRIPTS)})"
    elif char in "xuU":
        hint = r"write \x41, \x{1F600} or \u0041"
    else:
        hint = _HINTS.get(char, f"write {char} for the character itself")
    raise cursor.refusal("this escape is not supported", hint[0].upper() + hint[1:] + ".", start=start)


def _property(cursor: Cursor, name: str, start: int) -> Ranges:
    found = category(name) if len(name) <= 2 else script(name)
    if found is None:
        raise cursor.refusal(
            "no such property is known here",
            f"Known are the general categories (L, Lu, Nd, P, …) and these scripts: {', '.join(SCRIPTS)}.",
            start=start,
        )
    return found


def _checked(cursor: Cursor, code: int, start: int) -> int:
    if code > LAST or 0xD800 <= code <= 0xDFFF:
        raise cursor.refusal(
            "no text has this character", "Characters go up to \\x{10FFFF}, without surrogates.", start=start
        )
    return code


# A class in brackets: single characters, ranges, \d and the like, [:alpha:], all of it negated by ^.
#
# A bracket or && inside a class has no meaning of its own, as in RE2, PCRE and Python; ripgrep never sees it.


_POSIX = re.compile(r"\[:(\^?)([A-Za-z]*):\]", re.ASCII)
_RETURN = 0x0D


def bracket_class(cursor: Cursor, *, ignore_case: bool) -> Ranges:
    """The cursor stands after the opening bracket; after the closing one on return."""
    start = cursor.at - 1
    _refuse_lone_posix(cursor, start)
    negated = cursor.took("^")
    folding: list[tuple[int, int]] = []  # what case folding applies to
    fixed: list[tuple[int, int]] = []
    first = True  # a bracket that comes first is a character
    while first or not cursor.took("]"):
        if cursor.done:
            raise cursor.refusal("this class is not closed", r"Write \[ for the character [.", start=start)
        ranges, folds = _item(cursor)
        (folding if folds else fixed).extend(ranges)
        first = False
    named = [*folding, *fixed]
    if not negated and any(low <= _RETURN <= high for low, high in folding):
        cursor.names_return = True
    kept = charset([*fold(charset(folding)), *fixed] if ignore_case else named)
    result = complement(kept) if negated else kept
    if not result:
        if named == [(NEWLINE, NEWLINE)]:
            raise newline_refusal(start)
        raise cursor.refusal("this class has no character", "Leave it out, or write what it may be.", start=start)
    return result


def _item(cursor: Cursor) -> tuple[list[tuple[int, int]], bool]:
    """One member, or one range, and whether case folding applies to it."""
    start = cursor.at
    if posix := cursor.took_match(_POSIX):
        return _posix(cursor, posix[2], negated=bool(posix[1]), start=start)
    if cursor.took("&&["):
        raise cursor.refusal("sets cannot be combined", "Write the characters out.", start=start)
    if cursor.took("\\"):
        if found := class_after_backslash(cursor):
            return list(found[0]), found[1]
        low = _escaped(cursor)
    else:
        low = ord(cursor.take())
    if not cursor.ahead("-") or cursor.ahead("-]") or cursor.at + 1 >= len(cursor.text):
        return [(low, low)], True
    cursor.take()
    high = _range_end(cursor, start)
    if high < low:
        raise cursor.refusal("this range runs backwards", "Write the smaller character first.", start=start)
    return [(low, high)], True


def _range_end(cursor: Cursor, start: int) -> int:
    if not cursor.took("\\"):
        return ord(cursor.take())
    if class_after_backslash(cursor):
        raise cursor.refusal("a range cannot end in a class", r"Write \- for the character -.", start=start)
    return _escaped(cursor)


def _escaped(cursor: Cursor) -> int:
    code = character_after_backslash(cursor)
    if code is None:
        refuse_escape(cursor, in_class=True)
    return code


def _posix(cursor: Cursor, name: str, *, negated: bool, start: int) -> tuple[list[tuple[int, int]], bool]:
    if name not in POSIX:
        raise cursor.refusal("no such class is known", f"Known are: {', '.join(POSIX)}.", start=start)
    return list(complement(POSIX[name]) if negated else POSIX[name]), not negated


def _refuse_lone_posix(cursor: Cursor, start: int) -> None:
    """[:alpha:] alone would be the set of : a l p h. Nobody means that."""
    found = _POSIX.match(cursor.text, start)
    if found and found[2] in POSIX:
        cursor.at = found.end()
        raise cursor.refusal("a named class stands in brackets of its own", f"Write [{found[0]}].", start=start)


# What stands after an opening bracket: a plain group, a name, flags, or something that is refused with a hint.


FLAGS = re.compile(r"\(\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?\)", re.ASCII)
_SCOPED_FLAGS = re.compile(r"\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?:", re.ASCII)
_NAME = re.compile(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)

_LINEAR = "is not supported (patterns run in linear time)"
_REFUSED = {
    "?P=": f"a back-reference {_LINEAR}. Capture each part and compare the values: '(\\w+) (\\w+)' with --group.",
    "?>": f"an atomic group {_LINEAR}, and not needed: nothing here backtracks. Write (?: instead.",
    "?|": "a branch reset is not supported. Write (?: and a group in each branch.",
    "?#": "a comment is not supported. Leave it out.",
    "?(": f"a condition {_LINEAR}. Write both ways as alternatives: (?:a|b).",
    "?&": f"recursion {_LINEAR}. Write the part out again.",
    "?P>": f"recursion {_LINEAR}. Write the part out again.",
    "?R": f"recursion {_LINEAR}. Write the part out again.",
    "?'": "a name in quotes is not supported. Write (?P<name>…).",
    "*": "verbs like (*SKIP) are not supported. Leave it out.",
}
_RECURSION = re.compile(r"\?[+-]?[0-9]")
_BEHIND = re.compile(r"\(\?<=([^()]+)\)([^()]+)")
_AHEAD = re.compile(r"([^()]+)\(\?=([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Opening:
    captures: bool
    flags: re.Match[str] | None = None


def group_opening(cursor: Cursor, names: set[str], start: int) -> Opening:
    """The cursor stands after the bracket, and after the whole opening on return. `names` gains a new name."""
    _refuse(cursor)
    if name := cursor.took_match(_NAME):
        if name[1] in names:
            raise cursor.refusal("this name is taken already", "Give each group its own.", start=start)
        names.add(name[1])
        return Opening(captures=True)
    if flags := cursor.took_match(_SCOPED_FLAGS):
        return Opening(captures=False, flags=flags)
    if cursor.took("?"):
        cursor.at += not cursor.done
        raise cursor.refusal("there is no such group", "Known are (…), (?:…), (?P<name>…), (?i:…).", start=start)
    return Opening(captures=True)


def _refuse(cursor: Cursor) -> None:
    for look in ("?=", "?!", "?<=", "?<!"):
        if cursor.ahead(look):
            raise BadPattern(f"look-around {_LINEAR}. {_without_looking(cursor, look)}")
    for opening, why in _REFUSED.items():
        if cursor.ahead(opening):
            raise BadPattern(why)
    if cursor.took_match(_RECURSION):
        raise BadPattern(_REFUSED["?R"])


def _without_looking(cursor: Cursor, look: str) -> str:
    if look.endswith("!"):
        return "Write what may stand there, or capture it: 'user (\\w+)' with --group, and skip what is not wanted."
    instead = r"key=(\w+)"
    if behind := _BEHIND.fullmatch(cursor.text):
        instead = f"{behind[1]}({behind[2]})"
    elif ahead := _AHEAD.fullmatch(cursor.text):
        instead = f"({ahead[1]}){ahead[2]}"
    return f"Write the context into the pattern and capture: '{instead}' with --group."


# The text of a pattern, read into a tree. What the engines would read differently, or not at all, is refused.
#
# The language is the common part of Perl, Python, RE2 and Rust. Flags are used up here: no engine is told of them.


MAX_REPEAT = 1000
MAX_NESTING = 50

_QUANTIFIER = re.compile(r"([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_PYTHONS_COUNT = re.compile(r"\{,[0-9]+\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Flags:
    ignore_case: bool
    lazy: bool = False  # U: plain quantifiers are lazy, and those with ? are not


def parse(text: str, *, ignore_case: bool) -> tuple[Node, bool]:
    """The tree, and whether \\r was asked for by name."""
    parser = _Parser(Cursor(text))
    tree = parser.choice(Flags(ignore_case), depth=0)
    if not parser.cursor.done:
        parser.cursor.at += 1
        raise parser.cursor.refusal(
            "this bracket closes nothing", r"Write \) for the character ).", start=parser.cursor.at - 1
        )
    return tree, parser.cursor.names_return


def read_literal(text: str, *, ignore_case: bool) -> Node:
    """Every character means itself."""
    if "\n" in text:
        raise newline_refusal(text.index("\n"))
    return Sequence(tuple(_char(ord(char), Flags(ignore_case)) for char in text))


def _char(code: int, flags: Flags) -> Chars:
    return Chars(_folded_literal(single(code), flags))


def _folded_literal(ranges: Ranges, flags: Flags) -> Ranges:
    return fold(ranges) if flags.ignore_case else ranges


class _Parser:
    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._names: set[str] = set()

    def choice(self, flags: Flags, *, depth: int) -> Node:
        """Alternatives up to the end of the group or of the pattern."""
        options: list[Node] = []
        items: list[Node] = []
        while not self.cursor.done and self.cursor.peek() != ")":
            if self.cursor.took("|"):
                options.append(_sequence(items))
                items = []
            elif flag := self.cursor.took_match(FLAGS):
                flags = self._flags(flag, flags)  # they hold up to the end of the group
            else:
                items.append(self._repeated(self._atom(flags, depth), flags))
        options.append(_sequence(items))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _atom(self, flags: Flags, depth: int) -> Node:
        cursor = self.cursor
        start = cursor.at
        match char := cursor.take():
            case ".":
                return Chars(ANY)
            case "^":
                return Edge("line start")
            case "$":
                return Edge("line end")
            case "[":
                return Chars(bracket_class(cursor, ignore_case=flags.ignore_case))
            case "(":
                return self._group(flags, depth, start)
            case "\\":
                return self._escape(flags, start)
            case "*" | "+" | "?":
                raise cursor.refusal("there is nothing to repeat", f"Write \\{char} for the character.", start=start)
            case "{" if _QUANTIFIER.match(cursor.text, start):
                raise cursor.refusal("there is nothing to repeat", r"Write \{ for the character.", start=start)
            case _:
                return self._plain(ord(char), flags, start)

    def _plain(self, code: int, flags: Flags, start: int) -> Chars:
        if code == NEWLINE:
            raise newline_refusal(start)
        self.cursor.names_return |= code == _RETURN
        return _char(code, flags)

    def _escape(self, flags: Flags, start: int) -> Node:
        cursor = self.cursor
        if cursor.peek() in ("b", "B"):
            return Edge("word edge" if cursor.take() == "b" else "no word edge")
        if found := class_after_backslash(cursor):
            ranges, folds = found
            return Chars(_folded_literal(ranges, flags) if folds else ranges)
        code = character_after_backslash(cursor)
        if code is None:
            refuse_escape(cursor, in_class=False)
        return self._plain(code, flags, start)

    def _group(self, flags: Flags, depth: int, start: int) -> Node:
        if depth >= MAX_NESTING:
            raise BadPattern(f"groups may stand at most {MAX_NESTING} deep in each other. Write a flatter pattern.")
        opening = group_opening(self.cursor, self._names, start)
        inner = self.choice(self._flags(opening.flags, flags) if opening.flags else flags, depth=depth + 1)
        if not self.cursor.took(")"):
            self.cursor.at = start + 1
            raise self.cursor.refusal("this bracket is not closed", r"Write \( for the character (.", start=start)
        return Capture(inner) if opening.captures else inner

    def _flags(self, found: re.Match[str], flags: Flags) -> Flags:
        on, off = found["on"], found["off"] or ""
        for unknown in re.sub("[imsU]", "", on) + re.sub("[isU]", "", off):
            hint = {
                "x": "Write the pattern without spaces and comments.",
                "m": "^ and $ are always about the line.",
                "R": "Write the part out again.",
            }.get(unknown, "Known are i (ignore case), U (lazy first), and m and s, which change nothing here.")
            raise self.cursor.refusal(f"the flag {unknown} is not supported", hint, start=found.start())
        return replace(
            flags,
            ignore_case=(flags.ignore_case or "i" in on) and "i" not in off,
            lazy=(flags.lazy or "U" in on) and "U" not in off,
        )

    def _repeated(self, atom: Node, flags: Flags) -> Node:
        cursor = self.cursor
        start = cursor.at
        if wrong := cursor.took_match(_PYTHONS_COUNT):
            raise cursor.refusal("a count without a start", f"Write {{0{wrong[0][1:]}.", start=start)
        found = cursor.took_match(_QUANTIFIER)
        if not found:
            return atom
        if isinstance(atom, Edge):
            raise cursor.refusal("a place between characters cannot be repeated", "Leave the count out.", start=start)
        low, high = _counts(cursor, found)
        lazy = cursor.took("?") != flags.lazy
        if cursor.took("+"):
            raise cursor.refusal(
                "possessive quantifiers are not supported (nothing here backtracks, so nothing is gained by them)",
                "Leave the last + out.",
                start=start,
            )
        if cursor.took_match(_QUANTIFIER):
            raise cursor.refusal("a count of a count", "Put the first in a group: (?:a+){2}.", start=start)
        return Repeat(atom, low, high, lazy)


def _counts(cursor: Cursor, found: re.Match[str]) -> tuple[int, int | None]:
    if found[1]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[1]]
    first, comma, last = found[2], found[3], found[4]
    if max(len(first), len(last or "")) > 5 or max(int(first), int(last or 0)) > MAX_REPEAT:
        raise cursor.refusal(
            f"a count is at most {MAX_REPEAT:,}", "Write + or * for more, or a smaller count.", start=found.start()
        )
    low = int(first)
    high = low if comma is None else int(last) if last else None
    if high is not None and high < low:
        raise cursor.refusal("this count runs backwards", "Write the smaller number first.", start=found.start())
    return low, high


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Sequence(tuple(items))
