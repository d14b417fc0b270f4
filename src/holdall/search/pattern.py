"""The pattern language: the text of a pattern read into a small tree. What cannot run in linear time is refused with a
hint. Nothing here runs a pattern, and nothing here knows the syntax of the program that does.
"""

import re
from dataclasses import replace
from typing import Literal, NoReturn, assert_never

from holdall.search.charset import (
    ANY,
    DIGIT,
    LAST,
    NEWLINE,
    POSIX,
    SCRIPTS,
    SPACE,
    WORD,
    Ranges,
    category,
    charset,
    complement,
    fold,
    script,
    single,
)
from holdall.text.escape import one_line
from holdall.values.errors import BadPattern
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record


@record
class Chars:
    """One character out of a set."""

    ranges: Ranges


@record
class Edge:
    """A place between two characters."""

    kind: Literal["line start", "line end", "word edge", "no word edge"]


@record
class Repeat:
    item: "Node"
    low: int
    high: int | None  # None: without an end
    lazy: bool = False


@record
class Capture:
    item: "Node"


@record
class Sequence:
    items: tuple["Node", ...]


@record
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
    """The largest product of counts that are inside each other, as in (a{10}){20}: 200."""
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


class Cursor:
    """A place in the text of a pattern, what was noticed up to it, and how a refusal is worded."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names_return = False  # \r is asked for by name, so it is not taken as part of the line's end
        self.has_line_end = False

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
        """Step over `beginning` if it is here."""
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


# What is after a backslash: a character, a class, an edge, or something that is refused with a hint.
#
# \d \w \s are ASCII. A number (\x41, \u{1F600}) is a character, never a byte.


_CONTROLS = {"t": 0x09, "v": 0x0B, "f": 0x0C, "r": 0x0D, "a": 0x07, "e": 0x1B, "n": NEWLINE}
_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
_NUMBER = lazy_pattern(r"x([0-9A-Fa-f]{2})|[xu]\{([0-9A-Fa-f]{1,8})\}|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})", re.ASCII)
_PROPERTY = lazy_pattern(r"([pP])(?:\{([A-Za-z_]+)\}|([A-Z]))", re.ASCII)

_ONE_LINE = "a pattern is matched within one line"
_HINTS = {
    "A": f"{_ONE_LINE}; write ^ for its start",
    "z": f"{_ONE_LINE}; write $ for its end",
    "Z": f"{_ONE_LINE}; write $ for its end",
    "G": "write out what stands before the match",
    "K": r"capture what follows instead: 'key=(\w+)' with group=True",
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
    """The code point of an escaped character, \\n included; None (and nothing taken) where it is not a character."""
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
    """The characters of \\d \\W \\p{L} and the like, and whether case folding applies; None if it is no class."""
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
    """Raise for what no other function here knows. The cursor is after the backslash."""
    start = cursor.at - 1
    if cursor.done:
        raise cursor.refusal("the pattern ends in a backslash", r"Write \\ for a backslash.", start=start)
    char = cursor.take()
    if in_class and char in "bB":
        hint = r"\b in a class is no edge; write \x08 for a backspace"
    elif char in "123456789kg" and not in_class:
        raise cursor.refusal(
            "back-references are not supported (patterns run in linear time)",
            r"Capture each part and compare the values: '(\w+) (\w+)' with group=True counts every pair.",
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
# A bracket or && inside a class has no meaning of its own, as in PCRE and Python; ripgrep never sees it.


_POSIX = lazy_pattern(r"\[:(\^?)([A-Za-z]*):\]", re.ASCII)
_RETURN = 0x0D


def bracket_class(cursor: Cursor, *, ignore_case: bool) -> Ranges:
    """The cursor is after the opening bracket; after the closing one on return."""
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
    """[:alpha:] alone would be the set of : a l p h, which is never intended."""
    found = _POSIX.match(cursor.text, start)
    if found and found[2] in POSIX:
        cursor.at = found.end()
        raise cursor.refusal("a named class stands in brackets of its own", f"Write [{found[0]}].", start=start)


# What is after an opening bracket: a plain group, a name, flags, or something that is refused with a hint.


FLAGS = lazy_pattern(r"\(\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?\)", re.ASCII)
_SCOPED_FLAGS = lazy_pattern(r"\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?:", re.ASCII)
_NAME = lazy_pattern(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)

_LINEAR = "is not supported (patterns run in linear time)"
_REFUSED = {
    "?P=": f"a back-reference {_LINEAR}. Capture each part and compare the values: '(\\w+) (\\w+)' with group=True.",
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
_RECURSION = lazy_pattern(r"\?[+-]?[0-9]")
_BEHIND = lazy_pattern(r"\(\?<=([^()]+)\)([^()]+)")
_AHEAD = lazy_pattern(r"([^()]+)\(\?=([^()]+)\)")


@record
class Opening:
    captures: bool
    flags: re.Match[str] | None = None


def group_opening(cursor: Cursor, names: set[str], start: int) -> Opening:
    """The cursor is after the bracket, and after the whole opening on return. `names` gains a new name."""
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
            raise BadPattern(f"look-around {_LINEAR}. {_lookaround_hint(cursor, look)}")
    for opening, why in _REFUSED.items():
        if cursor.ahead(opening):
            raise BadPattern(why)
    if cursor.took_match(_RECURSION):
        raise BadPattern(_REFUSED["?R"])


def _lookaround_hint(cursor: Cursor, look: str) -> str:
    if look.endswith("!"):
        return "Write what may stand there, or capture it: 'user (\\w+)' with group=True, and skip what is not wanted."
    instead = r"key=(\w+)"
    if behind := _BEHIND.fullmatch(cursor.text):
        instead = f"{behind[1]}({behind[2]})"
    elif ahead := _AHEAD.fullmatch(cursor.text):
        instead = f"({ahead[1]}){ahead[2]}"
    return f"Write the context into the pattern and capture: '{instead}' with group=True."


MAX_CHARACTERS = 10_000
MAX_REPEAT = 1000
MAX_NESTING = 50
_MAX_STEPS = 100_000  # ripgrep compiles this much in well under a second


@record
class Pattern:
    """A pattern that was read."""

    tree: Node
    captures: int
    can_be_empty: bool  # such a pattern is answered line by line: every place between characters is not an answer
    takes_return: bool  # $ also is before the \r of a line that ends in \r\n, and a match may hold that \r
    names_return: bool = False  # it says \r itself

    def without_return(self) -> "Pattern":
        """For lines that end in \\r\\n: the \\r is part of their end, and no class of the pattern takes it."""
        return self if self.names_return else replace(self, tree=_without_return(self.tree))


def _without_return(node: Node) -> Node:
    match node:
        case Chars(ranges):
            parts = ((low, high) for low, high in ranges for low, high in ((low, min(high, 12)), (max(low, 14), high)))
            return Chars(tuple((low, high) for low, high in parts if low <= high))
        case Edge():
            return node
        case Repeat(item):
            return replace(node, item=_without_return(item))
        case Capture(item):
            return Capture(_without_return(item))
        case Sequence(items):
            return Sequence(tuple(map(_without_return, items)))
        case Choice(options):
            return Choice(tuple(map(_without_return, options)))
        case _:
            assert_never(node)


def read_pattern(text: str, *, literal: bool = False, ignore_case: bool = False) -> Pattern:
    """Read a pattern, or refuse it with BadPattern and a hint. In a literal every character means itself."""
    _check_readable(text)
    cursor = Cursor(text)
    tree = _literal(text, ignore_case=ignore_case) if literal else _Parser(cursor).whole(Flags(ignore_case=ignore_case))
    if repeats(tree) > MAX_REPEAT:
        raise BadPattern(f"counts inside each other come to more than {MAX_REPEAT:,} repetitions. Write smaller ones.")
    if steps(tree) > _MAX_STEPS:
        raise BadPattern("the pattern becomes too large to run. Write smaller counts or smaller classes.")
    takes_return = cursor.has_line_end and not cursor.names_return
    return Pattern(tree, captures(tree), can_be_empty(tree), takes_return, cursor.names_return)


def _check_readable(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise BadPattern(f"a pattern is text, not {pattern!r:.60}.")
    if not pattern:
        raise BadPattern("the pattern is empty and would match everywhere. To see the text itself, read it instead.")
    if len(pattern) > MAX_CHARACTERS:
        raise BadPattern(
            f"the pattern has {len(pattern):,} characters; at most {MAX_CHARACTERS:,} are run. "
            "Search for a few words at a time."
        )
    for at, char in enumerate(pattern):
        if "\ud800" <= char <= "\udfff":
            raise BadPattern(
                f"character {at + 1} of the pattern is half of one (the surrogate U+{ord(char):04X}), "
                "which no text has. Write the whole character."
            )


# The language is the common part of Perl, Python, RE2 and Rust. Flags are used up here: the tree has none.


_QUANTIFIER = lazy_pattern(r"([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_PYTHONS_COUNT = lazy_pattern(r"\{,[0-9]+\}", re.ASCII)


@record
class Flags:
    ignore_case: bool
    lazy: bool = False  # U: plain quantifiers are lazy, and those with ? are not


def _literal(text: str, *, ignore_case: bool) -> Node:
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

    def whole(self, flags: Flags) -> Node:
        tree = self.choice(flags, depth=0)
        if not self.cursor.done:
            self.cursor.at += 1
            raise self.cursor.refusal(
                "this bracket closes nothing", r"Write \) for the character ).", start=self.cursor.at - 1
            )
        return tree

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
                cursor.has_line_end = True
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
