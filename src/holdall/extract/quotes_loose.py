r"""The loose form of a text: what is left of it when white space, escapes and typography are taken away.

Two texts that say the same, one of them escaped for JSON or HTML, wrapped at other columns, coloured for a terminal or
set with typographic quotes, have the same loose form. In it

- white space, written out or as `\n`, `\t`, `\r` or `&nbsp;`, is one blank between two words and nothing elsewhere, so
  `{"a": 1}` is `{"a":1}`, but `now here` is not `nowhere`;
- `\"`, `\/`, `\u00e9` and `&lt;` are what they stand for, however often they were escaped; other runs of backslashes
  are one backslash;
- curly quotes and long dashes are the plain ones, `…` is three dots, a letter and its accent are one character;
- what cannot be seen (zero-width and direction marks, colours of a terminal) is not there.

Letters, digits, case and every other sign stay. Every character of the form knows where it stands in the text.
"""

import html
import re
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator

_INVISIBLE = "\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe0e\ufe0f\ufeff"
_TYPOGRAPHIC = "‘’‚‛“”„‟‐‑‒–—―−…"
_SPOT = (
    r"(?P<space>(?!(?<=\w) (?=\w))(?:\s|\\+[nrt]|&nbsp;)+)"  # a lone blank between two words is as it should be
    r"|(?P<hidden>\\+(?=[\"'/])|(?:\x1b|\\+u001[bB])\[[0-9;?]{0,20}[A-Za-z]|[" + _INVISIBLE + "]+)"
    r"|(?P<pair>\\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))"
    r"|(?P<code>\\+u[0-9a-fA-F]{4})"
    r"|(?P<slashes>\\{2,})"
    r"|(?P<entity>&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,7});)"
    "|(?P<sign>[" + _TYPOGRAPHIC + "])"
)
_spot = re.compile(_SPOT)
_spot_or_accents = re.compile(r"(?P<accents>\w[\u0300-\u036f]+)|" + _SPOT)
# Where a spot can begin. One set of signs is looked for several times as fast as the patterns of all spots.
_first_sign = re.compile(r"[\s\\&\x1b" + _INVISIBLE + _TYPOGRAPHIC + r"](?<!\w (?=\w))(?<!\s\s)")
_invisible = re.compile("[" + _INVISIBLE + "]")
_SIGNS = str.maketrans(dict.fromkeys("‘’‚‛", "'") | dict.fromkeys("“”„‟", '"') | dict.fromkeys("‐‑‒–—―−", "-"))
_SIGNS[ord("…")] = "..."


class Loose:
    """`form` is the loose form of a text; `place` tells where a stretch of it stands in that text."""

    def __init__(self, text: str) -> None:
        self._pieces: list[str] = []
        self._forms, self._starts, self._ends = array("Q"), array("Q"), array("Q")  # of each piece
        self._length = 0
        self._last = ""  # the character that the form ends with so far
        self._space: tuple[int, int] | None = None  # white space of which it is not known yet what follows
        at = 0
        for spot in _spots(text):
            start, end = spot.span()
            if start > at:
                self._copy(text[at:start], at)
            if spot.lastgroup == "space":
                self._blank(start, end)
            elif spot.lastgroup != "hidden":
                self._replace(_meaning(spot), start, end)
            at = end
        if at < len(text):
            self._copy(text[at:], at)
        self.form = "".join(self._pieces)
        self._pieces.clear()

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where the text has what the form has from `start` to `end`, which is not empty."""
        first = bisect_right(self._forms, start) - 1
        last = bisect_right(self._forms, end - 1) - 1
        return self._source(first, start)[0], self._source(last, end - 1)[1]

    def _source(self, piece: int, at: int) -> tuple[int, int]:
        start, end = self._starts[piece], self._ends[piece]
        if end == 0:  # copied as it was
            start += at - self._forms[piece]
            return start, start + 1
        return start, end

    def _copy(self, piece: str, start: int) -> None:
        if piece[0] == " ":  # a blank between what looked like two words before its neighbour was unescaped
            self._blank(start, start + 1)
            piece, start = piece[1:], start + 1
        self._settle(piece[0])
        self._add(piece, start, 0)

    def _replace(self, piece: str, start: int, end: int) -> None:
        if piece.isspace():
            self._blank(start, end)
        elif piece:
            self._settle(piece[0])
            self._add(piece, start, end)

    def _blank(self, start: int, end: int) -> None:
        self._space = (self._space[0] if self._space else start, end)

    def _settle(self, following: str) -> None:
        """Before what follows: the white space that came, where it parts two words."""
        if self._space and _in_word(self._last) and _in_word(following):
            self._add(" ", *self._space)
        self._space = None

    def _add(self, piece: str, start: int, end: int) -> None:
        self._pieces.append(piece)
        self._forms.append(self._length)
        self._starts.append(start)
        self._ends.append(end)
        self._length += len(piece)
        self._last = piece[-1]


def _spots(text: str) -> Iterator[re.Match[str]]:
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        yield from _spot_or_accents.finditer(text)
        return
    end = 0
    for sign in _first_sign.finditer(text):
        if sign.start() >= end and (spot := _spot.match(text, sign.start())):
            end = spot.end()
            yield spot


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _meaning(spot: re.Match[str]) -> str:
    """What stands for the spot in the form; white space where it means some, nothing where it cannot be seen."""
    text = spot[0]
    match spot.lastgroup:
        case "pair":
            return bytes.fromhex(spot["high"] + spot["low"]).decode("utf-16-be")
        case "code":
            meant = chr(int(text[-4:], 16))
        case "slashes":
            return "\\"
        case "entity":
            meant = html.unescape(text)
        case "accents":
            return unicodedata.normalize("NFC", text)
        case _:
            return text.translate(_SIGNS)
    if "\ud800" <= meant <= "\udfff":
        return text
    return _invisible.sub("", meant.translate(_SIGNS))
