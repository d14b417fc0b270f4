"""The text of a pattern, read into a tree. What the engines would read differently, or not at all, is refused.

The language is the common part of Perl, Python, RE2 and Rust. Flags are used up here: no engine is told of them.
"""

import re
from dataclasses import dataclass, replace

from holdall.text.pattern import charset
from holdall.text.pattern.brackets import bracket_class
from holdall.text.pattern.charset import NEWLINE, Ranges
from holdall.text.pattern.cursor import Cursor, newline_refusal
from holdall.text.pattern.escapes import character_after_backslash, class_after_backslash, refuse_escape
from holdall.text.pattern.groups import FLAGS, group_opening
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence
from holdall.values.errors import BadPattern

MAX_REPEAT = 1000
MAX_NESTING = 50

_QUANTIFIER = re.compile(r"([*+?])|\{([0-9]+)(?:(,)([0-9]*))?\}", re.ASCII)
_PYTHONS_COUNT = re.compile(r"\{,[0-9]+\}", re.ASCII)
_RETURN = 0x0D


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
    return Chars(_folded(charset.single(code), flags))


def _folded(ranges: Ranges, flags: Flags) -> Ranges:
    return charset.fold(ranges) if flags.ignore_case else ranges


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
                return Chars(charset.ANY)
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
            return Chars(_folded(ranges, flags) if folds else ranges)
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
