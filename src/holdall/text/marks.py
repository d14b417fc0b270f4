"""A mark that only texts of ours may bear, found in whatever a model would read as that mark.

A text is looked at in a few readings: as it is, as a terminal shows it, with its escapes written out. In each of them
hidden signs go, and signs that are written alike become the usual ones. Each step takes time in proportion to the text:
one sign is never looked at together with all that follow it, as the normal forms of Unicode would for accents.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator

from holdall.values.patterns import lazy_pattern

_PIECE = 1 << 16  # signs that are looked at in one go: between them other threads may run
_TAIL = 4096  # signs at the end of a piece that as a rule have enough letters
_ROUNDS = 4

# Also what ends no line and no word: two blocks of a result follow each other, and a mark may be in both.
_NO_SIGN = r"[^\w\[\]-]"
_BETWEEN = lazy_pattern(f"{_NO_SIGN}+")
_COLOURS = lazy_pattern(r"(?:\x1b\[|\x9b)[0-9:;]*+m")
# Both begin with one set of signs: where none of them is, a search takes a tenth of the time.
_SEQUENCES = lazy_pattern(
    r"[\x1b\x90\x98\x9b\x9d-\x9f](?:(?:(?<=\x1b)\[|(?<=\x9b))[0-?]*+[ -/]*+[@-~]"
    r"|(?:(?<=\x1b)[\]PX^_]|(?<=[\x90\x98\x9d-\x9f]))[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|(?<=\x1b)[ -/]*+[0-~])"
)
_ESCAPES = lazy_pattern(
    r"[&\\%](?:(?<=&)(?:#0{0,20}([0-9]{1,7})|#[xX]0{0,20}([0-9a-fA-F]{1,6})|[A-Za-z]{2,20});?"
    r"|(?<=\\)u([0-9a-fA-F]{4})|(?:(?<=\\)x|(?<=%))([0-9a-fA-F]{2}))"
)
_TAGS = lazy_pattern("[\U000e0020-\U000e007e]")  # of each a model can tell which letter it stands for

# Of Cyrillic, Greek, Armenian, Coptic, Cherokee, Lisu and phonetic letters those that look like one of ours. The others
# have our letter in their Unicode name, or as their decomposition.
_LOOK = {
    "a": "\u0430\u03b1\u0251\u13aa\ua4ee\u2c81", "b": "\u0432\u044c\u03b2\u13f4\ua4d0\u2c83",
    "c": "\u0441\u03f2\u13df\ua4da\u2ca5", "d": "\u0501\u13a0\ua4d3", "e": "\u0435\u03b5\u0454\u13ac\ua4f0\u2c89",
    "f": "\u0493\u0584\ua4dd", "g": "\u0261\u050d\u0581\u13c0\u13b6\ua4d6",
    "h": "\u04bb\u043d\u0570\u13bb\u13c2\ua4e7\u2c8f", "i": "\u0456\u03b9\u0131\u13a5\ua4f2\u2c93",
    "j": "\u0458\u03f3\u0237\u13ab\ua4d9", "k": "\u043a\u03ba\u13e6\ua4d7\u2c95", "l": "\u04cf\u13de\ua4e1",
    "m": "\u043c\u03bc\u13b7\ua4df\u2c99", "n": "\u043f\u03b7\u0578\ua4e0\u2c9b",
    "o": "\u043e\u03bf\u0585\ua4f3\u2c9f", "p": "\u0440\u03c1\u13e2\ua4d1\u2ca3", "q": "\u051b\u0566",
    "r": "\u0433\u13a1\u13d2\ua4e3\u2c85", "s": "\u0455\u13da\u13d5\ua4e2", "t": "\u0442\u03c4\u13a2\ua4d4\u2ca7",
    "u": "\u03c5\u057d\ua4f4", "v": "\u0475\u03bd\u13d9\ua4e6", "w": "\u051d\u03c9\u0461\u13b3\u13d4\ua4ea\u2cb1",
    "x": "\u0445\u03c7\ua4eb\u2cad", "y": "\u0443\u03b3\u04af\u13a9\u13bd\ua4ec\u2ca9",
    "z": "\u03b6\u0290\u13c3\ua4dc\u2c8d", "3": "\u0437\u0292\u04e1", "4": "\u0447\u13ce", "6": "\u0431\u13ee\u2c8b",
}  # fmt: skip
_ALIKE = {sign.lower(): letter for letter, signs in _LOOK.items() for sign in signs} | {"\u2212": "-"}
_CATEGORIES = {"Ps": "[", "Pe": "]", "Pd": "-", "Lm": " "}  # brackets, dashes, and letters that look like punctuation
_NAMED = lazy_pattern(r".*(?:LATIN|INDICATOR)\b.* LETTER(?: SMALL CAPITAL)? ([A-Z])(?: WITH .*)?")
_HIDDEN = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters of which nothing is seen


def read_alike(text: str) -> str:
    """In the usual signs for those that are written alike, without what is not seen; no sign becomes a phrase."""
    if text.isascii():
        return text
    signs = set(text)
    alike = {ord(sign): sign if sign.isascii() else _alike(sign) for sign in signs}  # all: one that lacks takes longer
    return text if all(map(str.__eq__, signs, alike.values())) else text.translate(alike)


@functools.lru_cache(4096)
def _alike(sign: str) -> str:
    if sign in _HIDDEN or unicodedata.category(sign) in ("Cf", "Mn", "Me"):
        return ""
    if sign.isdigit():  # in a circle too
        return str(unicodedata.digit(sign))
    plain = unicodedata.normalize("NFKD", sign)
    if len(plain) > 4:
        return " "
    if plain != sign:
        return "".join(_alike(one) if not one.isascii() else one for one in plain)
    lower = sign.lower()
    if len(lower) == 1 and (like := _ALIKE.get(lower)):
        return like
    named = _NAMED.fullmatch(unicodedata.name(sign, ""))
    return named[1].lower() if named else _CATEGORIES.get(unicodedata.category(sign), sign)


class Mark:
    """`signature` is the mark as it is announced. Nothing bears an empty one."""

    def __init__(self, signature: str) -> None:
        self._signature = signature
        self._signs = [sign for sign in signature if not sign.isalnum()]

    def is_in(self, text: str) -> bool:
        return bool(self._signature) and any(map(self._is_read_in, _readings(text)))

    def replaced(self, text: str, words: str) -> str:
        """`words` in the place of each mark. Where one shows only in another reading, all of it is told in that."""
        if not self.is_in(text):
            return text
        for _ in range(_ROUNDS):
            forms = (form for reading in _readings(text) for form in (reading, read_alike(reading)))
            if (found := next((form for form in forms if self._pattern.search(form)), None)) is None:
                return text
            text = self._pattern.sub(words, found)
        return words  # written so that each reading gives the next one

    def _is_read_in(self, text: str) -> bool:
        if len(text) <= _PIECE:
            return self._is_borne_by(read_alike(text))
        end = ""
        for start in range(0, len(text), _PIECE):
            piece = end + read_alike(text[start : start + _PIECE])
            if self._is_borne_by(piece):
                return True
            end = self._end_of(piece)
        return False

    def _is_borne_by(self, text: str) -> bool:
        # Most texts lack a sign of it, and to make the pattern takes half as long as to open a session.
        return all(sign in text for sign in self._signs) and self._pattern.search(text) is not None

    def _end_of(self, piece: str) -> str:
        """What of a mark that goes on in the next piece may be in this one, whatever is hidden in it."""
        most = len(self._signature) - 1
        end = _BETWEEN.sub("", piece[-_TAIL:])
        return (end if len(end) >= most else _BETWEEN.sub("", piece))[-most:]

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        # Nothing that is skipped may be a sign of the mark, so that a search never goes back.
        return re.compile(f"{_NO_SIGN}*+".join(map(re.escape, self._signature)), re.IGNORECASE)


def _readings(text: str) -> Iterator[str]:
    yield from _seen(text)
    if "&" in text or "\\" in text or "%" in text:
        plain = _ESCAPES.sub(_unescaped, text)
        if plain != text:
            yield from _seen(plain)


def _seen(text: str) -> Iterator[str]:
    """As it is; without its colours; without all that steers a terminal, which may take a sign that a model reads."""
    yield text
    if "\x1b" in text or not text.isascii():
        coloured, text = text, _SEQUENCES.sub("", text)
        if text != coloured:
            yield text
            if (plain := _COLOURS.sub("", coloured)) not in (coloured, text):
                yield plain
    if "\b" in text:
        yield _overstruck(text)
    if not text.isascii() and _TAGS.search(text):
        yield _TAGS.sub(lambda found: chr(ord(found[0]) - 0xE0000), text)


def _overstruck(text: str) -> str:
    """Without what a backspace takes back. Copied only at the end: there may be as many of them as signs."""
    pieces, ends = list[str](), list[int]()
    for number, piece in enumerate(text.split("\b")):
        while number and ends and not ends[-1]:
            pieces.pop()
            ends.pop()
        if number and ends:
            ends[-1] -= 1
        pieces.append(piece)
        ends.append(len(piece))
    return "".join(piece[:end] for piece, end in zip(pieces, ends, strict=True))


def _unescaped(found: re.Match[str]) -> str:
    if found.lastindex is not None:
        code = int(found[found.lastindex], 10 if found.lastindex == 1 else 16)
        return chr(code) if code < 0x110000 else " "
    from html import unescape  # noqa: PLC0415 - most texts have none of them, and its table of names is large

    return unescape(found[0])
