r"""What stands after a backslash: a character, a class, an edge, or something that is refused with a hint.

\d \w \s are ASCII. A number (\x41, \u{1F600}) is a character, never a byte.
"""

import re
from typing import NoReturn

from holdall.text.pattern import charset
from holdall.text.pattern.charset import NEWLINE, Ranges
from holdall.text.pattern.cursor import Cursor
from holdall.text.pattern.scripts import SCRIPTS, script

_CONTROLS = {"t": 0x09, "v": 0x0B, "f": 0x0C, "r": 0x0D, "a": 0x07, "e": 0x1B, "n": NEWLINE}
_CLASSES = {"d": charset.DIGIT, "w": charset.WORD, "s": charset.SPACE}
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
        return (charset.complement(ranges) if named[1] == "P" else ranges), named[1] == "p"
    char = cursor.peek()
    if char and char.lower() in _CLASSES:
        cursor.at += 1
        ranges = _CLASSES[char.lower()]
        return (charset.complement(ranges) if char.isupper() else ranges), False
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
    found = charset.category(name) if len(name) <= 2 else script(name)
    if found is None:
        raise cursor.refusal(
            "no such property is known here",
            f"Known are the general categories (L, Lu, Nd, P, …) and these scripts: {', '.join(SCRIPTS)}.",
            start=start,
        )
    return found


def _checked(cursor: Cursor, code: int, start: int) -> int:
    if code > charset.LAST or 0xD800 <= code <= 0xDFFF:
        raise cursor.refusal(
            "no text has this character", "Characters go up to \\x{10FFFF}, without surrogates.", start=start
        )
    return code
