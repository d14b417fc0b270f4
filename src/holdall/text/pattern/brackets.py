"""A class in brackets: single characters, ranges, \\d and the like, [:alpha:], all of it negated by ^.

A bracket or && inside a class has no meaning of its own, as in RE2, PCRE and Python; ripgrep never sees it.
"""

import re

from holdall.text.pattern import charset
from holdall.text.pattern.charset import NEWLINE, POSIX, Ranges
from holdall.text.pattern.cursor import Cursor, newline_refusal
from holdall.text.pattern.escapes import character_after_backslash, class_after_backslash, refuse_escape

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
    kept = charset.charset([*charset.fold(charset.charset(folding)), *fixed] if ignore_case else named)
    result = charset.complement(kept) if negated else kept
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
    return list(charset.complement(POSIX[name]) if negated else POSIX[name]), not negated


def _refuse_lone_posix(cursor: Cursor, start: int) -> None:
    """[:alpha:] alone would be the set of : a l p h. Nobody means that."""
    found = _POSIX.match(cursor.text, start)
    if found and found[2] in POSIX:
        cursor.at = found.end()
        raise cursor.refusal("a named class stands in brackets of its own", f"Write [{found[0]}].", start=start)
