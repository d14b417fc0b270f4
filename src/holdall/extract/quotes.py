"""Where a quote is in one stretch of bytes: as it was written, then loosely (white space, escapes and typography
aside), then the place most like it. What a model says about places is never used.

The work is bounded for any quote: searching is linear in the stretch, the loose form is made only of places where the
quote can be (and of the whole stretch at most once), and edit distances are computed for a few places.
"""

import html
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from holdall.text.utf8 import REPLACEMENT, decode
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import Span

# The units that Python's decoder makes one character of; `whole` is a run of valid ones, anything else a broken unit.
_UNITS = lazy_pattern(
    rb"(?P<whole>(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2})++)"
    rb"|\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]?|\xf4[\x80-\x8f][\x80-\xbf]?|[\xf1-\xf3][\x80-\xbf]{1,2}|.",
    re.DOTALL,
)


class Shown:
    """The text that a model was shown of some bytes: `byte_of` finds a character of `text` in `data`.

    Bytes that are not UTF-8 are shown as a replacement character, which does not have their length.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.text, self.exact = decode(data)
        self._plain = len(self.text) == len(data) and self.exact
        self._chars: array[int] | None = None  # where each run of whole characters, or broken unit, starts in `text` …
        self._bytes: array[int] | None = None  # … and in `data`

    def byte_of(self, char: int) -> int:
        """The byte at which character number `char` starts; the end of the data for the end of the text."""
        if self._plain:
            return min(char, len(self.data))
        if char >= len(self.text):
            return len(self.data)
        if self.exact:
            return len(self.text[:char].encode())
        chars, places = self._runs()
        run = bisect_right(chars, char) - 1
        return places[run] + len(self.text[chars[run] : char].encode())

    def _runs(self) -> tuple["array[int]", "array[int]"]:
        if self._chars is None or self._bytes is None:
            self._chars, self._bytes = array("Q"), array("Q")
            char = 0
            for unit in _UNITS.finditer(self.data):
                self._chars.append(char)
                self._bytes.append(unit.start())
                char += len(str(unit["whole"], "utf-8")) if unit.lastgroup else 1
        return self._chars, self._bytes


# The loose form of a text: what is left of it when white space, escapes and typography are taken away.
#
# Two texts that say the same, one of them escaped for JSON or HTML, wrapped at other columns, coloured for a terminal
# or set with typographic quotes, have the same loose form. In it
#
# - white space, written out or as `\n`, `\t`, `\r` or `&nbsp;`, is one blank between two words and nothing elsewhere:
#   `{"a": 1}` is `{"a":1}`, but `now here` is not `nowhere`;
# - `\"`, `\/`, `\u00e9` and `&lt;` are what they stand for, however often they were escaped; other runs of backslashes
#   are one backslash;
# - curly quotes and long dashes are the plain ones, `…` is three dots, a letter and its accent are one character;
# - what cannot be seen (zero-width and direction marks, colours of a terminal) is not there.
#
# Letters, digits, case and every other sign stay. Every character of the form knows where it is in the text.


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
_spot = lazy_pattern(_SPOT)
_spot_or_accents = lazy_pattern(r"(?P<accents>\w[\u0300-\u036f]+)|" + _SPOT)
# Where a spot can begin. One set of signs is looked for several times as fast as the patterns of all spots.
_first_sign = lazy_pattern(r"[\s\\&\x1b" + _INVISIBLE + _TYPOGRAPHIC + r"](?<!\w (?=\w))(?<!\s\s)")
_invisible = lazy_pattern("[" + _INVISIBLE + "]")
_SIGNS = str.maketrans(dict.fromkeys("‘’‚‛", "'") | dict.fromkeys("“”„‟", '"') | dict.fromkeys("‐‑‒–—―−", "-"))
_SIGNS[ord("…")] = "..."


class Loose:
    """`form` is the loose form of a text; `place` tells where a stretch of it is in that text."""

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
    """What stands for the spot in the form; white space where it means some, nothing if it cannot be seen."""
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


# Where in a large text a quote could be, by its words, so that only these places are compared closely. White space,
# escapes and typography do not change the words between them: a word that is nowhere rules the quote out, and a rare
# one says where to look. Only where no word helps is the whole text searched.


Place = tuple[int, int]  # from, to

_SEEDS = 24
_COMMON = 64  # a word with more occurrences does not say where to look
_RARE = 4
_STRETCHED = 16  # how many times as long a quote may be in the text, for escapes and indentation
_MARGIN = 256
_LIKELY = 4  # places that are compared where a quote is nowhere
_LONG = 1_000  # characters; of such a quote only two

_words = lazy_pattern(r"[A-Za-z0-9]{3,12}|[^\x00-\x7f\s]{2,4}")
# What can be inside a word of the text, or for a letter of it: then a word that is not there proves nothing.
_hidden = lazy_pattern("\\\\u00[2-7]|&#|[\x1b\xad\u200b-\u200f\u2060-\u2064\ufeff]")
_escaped = lazy_pattern("\\\\u|&|[\u0300-\u036f\x1b\xad\u200b-\u200f\u2060-\u2064\ufe0e\ufe0f\ufeff]")


def possible(form: str, text: str, reach: int) -> list[Place]:
    """Every place of `text` in which a quote with this loose form can stand, in order."""
    whole = [(0, len(text))]
    best: list[int] | None = None
    size = 0
    for word in sorted(_seeds(form), key=len, reverse=True):
        found = occurrences(word, text, _COMMON)
        if not found:
            return whole if (_hidden if word.isascii() else _escaped).search(text) else []
        if len(found) < _COMMON and (best is None or len(found) < len(best)):
            best, size = found, len(word)
        if best is not None and len(best) <= _RARE:
            break
    if best is None:
        return whole
    places = _joined([(max(0, at - reach), min(len(text), at + size + reach)) for at in best])
    return places if sum(end - start for start, end in places) * 2 < len(text) else whole


def likely(form: str, text: str, reach: int) -> list[Place]:
    """The few places of `text` that have the most words of a quote in common, a rare word counting for more."""
    width = max(128, 2 * len(form))
    seeds = [_as_words(word, text, occurrences(word, text, _COMMON)) for word in _seeds(form)]
    votes: defaultdict[int, float] = defaultdict(float)
    # Of a common word only the first places are known: they would speak for the beginning of the text.
    for found in [places for places in seeds if 0 < len(places) < _COMMON] or seeds:
        for bucket in {at // width for at in found}:
            votes[bucket] += 1 / len(found)
    scores = {bucket: weight + votes.get(bucket + 1, 0.0) for bucket, weight in votes.items()}
    best = sorted(scores, key=lambda bucket: (-scores[bucket], bucket))[: _LIKELY if len(form) < _LONG else 2]
    ends = [(bucket * width - reach // 8, (bucket + 2) * width + reach // 8) for bucket in sorted(best)]
    return _joined([(max(0, start), min(len(text), end)) for start, end in ends])


def _as_words(word: str, text: str, places: list[int]) -> list[int]:
    """Those where it is no part of a longer word, if there are any: 268 is in 2680 to 2689, too."""
    if len(places) == _COMMON:
        return places
    size = len(word)
    alone = [
        at
        for at in places
        if not (_one_word(text[max(0, at - 1) : at + 1]) or _one_word(text[at + size - 1 : at + size + 1]))
    ]
    return alone or places


def reach_of(form: str) -> int:
    """How far from any of its words a quote can end."""
    return _STRETCHED * len(form) + _MARGIN


def occurrences(piece: str, text: str, most: int) -> list[int]:
    """Where `piece` is in `text`, the first `most` times."""
    places: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(places) < most:
        places.append(at)
        at = text.find(piece, at + 1)
    return places


def _seeds(form: str) -> Sequence[str]:
    words = list(dict.fromkeys(_words.findall(form)))
    return words[:: len(words) // _SEEDS + 1]


def _joined(places: list[Place]) -> list[Place]:
    joined: list[Place] = []
    for start, end in places:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


# The place in a text that is most like a quote which is not in it. Short pieces of the quote vote for where it could
# begin, a common piece with a bounded number of votes; the exact edit distance decides between the few best places.
# Not rapidfuzz: its partial_ratio_alignment compares windows of the quote's length, so of 331 edited quotes it found
# the nearest stretch for 121 (this: 330), and it takes 2 to 12 times as long for quotes of 2,000 characters.


ALIKE = 0.75  # at least this share of the quote's characters must be as they were, or it is not a place of the quote
LONGEST = 8_000  # characters of a quote that are compared; of a longer one its beginning is looked for
SHORTEST = 8  # fewer characters are like anything

_NEAR_SEEDS = 32
_VOTES = 32  # of one piece
_PLACES = 4  # that are compared; of a quote of _LONG characters only two


class Nearest(NamedTuple):
    """`text[start:end]` is the quote but for `distance` characters inserted, left out or replaced."""

    start: int
    end: int
    distance: int


def nearest(quote: str, text: str) -> Nearest | None:
    """The place that is most like `quote`; None if none is `ALIKE` enough, or it is too short to tell."""
    quote = quote[:LONGEST]
    size = len(quote)
    if size < SHORTEST:
        return None
    allowed = int(size * (1 - ALIKE))
    best: Nearest | None = None
    for guess in _guesses(quote, text):
        reach = allowed + max(8, size // 8)  # what was inserted or left out moves the end, the vote is a rough one
        low, high = max(0, guess - reach), min(len(text), guess + size + reach)
        end, distance = _best_end(quote, text[low:high])
        if distance <= allowed and (best is None or distance < best.distance):
            best = Nearest(low, low + end, distance)
    if best is None:
        return None
    length = _best_length(quote[::-1], text[best.start : best.end][::-1])
    return Nearest(best.end - length, best.end, best.distance)


def _guesses(quote: str, text: str) -> list[int]:
    """Where the quote could begin, the most likely first: a piece that is rare in the text counts for more."""
    size = len(quote)
    width = max(8, size // 8)
    length = 8 if size >= 48 else 5 if size >= 16 else 4
    offsets = range(0, size - length + 1, max(1, (size - length) // (_NEAR_SEEDS - 1)))
    pieces = [(offset, occurrences(quote[offset : offset + length], text, _VOTES)) for offset in offsets]
    # Of a piece that is in every line only the first places are known: together they would speak for the first line.
    rare = [(offset, places) for offset, places in pieces if 0 < len(places) < _VOTES]
    votes: defaultdict[int, float] = defaultdict(float)
    for offset, places in rare or pieces:
        for place in places:
            votes[(place - offset) // width] += 1 / len(places)
    scores = {bucket: weight + votes.get(bucket + 1, 0.0) for bucket, weight in votes.items()}
    best = sorted(scores, key=lambda bucket: (-scores[bucket], bucket))
    return [bucket * width for bucket in best[: _PLACES if size < _LONG else 2]]


def _best_end(quote: str, text: str) -> tuple[int, int]:
    """Where the stretch of `text` that is most like `quote` ends, and its distance."""
    distances = _distances(quote, text, anchored=False)
    distance, end = min((distance, end) for end, distance in enumerate(distances))
    return end, distance


def _best_length(quote: str, text: str) -> int:
    """How much of the beginning of `text` is most like `quote`; of several lengths the one nearest to the quote's."""
    size = len(quote)
    distances = _distances(quote, text, anchored=True)
    return min(enumerate(distances), key=lambda found: (found[1], abs(found[0] - size)))[0]


def _distances(quote: str, text: str, *, anchored: bool) -> Iterable[int]:
    """For each end in `text`, from 0 on: the edit distance of `quote` to the stretch that ends there and is most like
    it; or, `anchored`, to all of the text before.

    The bit-parallel method of Myers (1999): a row of the table is two numbers whose bits say where the distance goes
    up and where it goes down.
    """
    size = len(quote)
    masks: defaultdict[str, int] = defaultdict(int)
    for index, char in enumerate(quote):
        masks[char] |= 1 << index
    full, top = (1 << size) - 1, 1 << (size - 1)
    up, down, distance = full, 0, size
    yield distance
    for char in text:
        same = masks.get(char, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        rises, falls = down | (full & ~(horizontal | up)), up & horizontal
        if rises & top:
            distance += 1
        elif falls & top:
            distance -= 1
        rises = (rises << 1 | anchored) & full
        falls = (falls << 1) & full
        up = falls | (full & ~(vertical | rises))
        down = rises & vertical
        yield distance


_TRIES = 64  # occurrences that are looked at for one that is a word of its own
_LONGEST = 64 * 1024  # characters of a quote that is looked for loosely
_LEAST = 4  # characters of a loose form; fewer are anywhere
_PART = 8  # characters of each part of a quote with something left out
_PARTS = 8
_WRAPS = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}

_ellipsis = lazy_pattern(r"\[\s?(?:\.{3}|…)\s?\]|\(\s?(?:\.{3}|…)\s?\)|\.{3,}|…")


class Stretch:
    """Bytes of the source from `start` on, and what can be found in them. All places are those of the source."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start

    def exactly(self, quote: str) -> Span | None:
        """As it stands; of several places the first where it is not part of a longer word, else the first."""
        try:
            needle = quote.encode()
        except UnicodeEncodeError:
            return None  # half a character: no text has it
        place = _as_a_word(self._data, needle)
        if place is not None:
            return Span(self._start + place, self._start + place + len(needle))
        if REPLACEMENT not in quote or self._shown.exact or not quote.strip(REPLACEMENT + " \t\r\n"):
            return None
        char = self._shown.text.find(quote)  # it was shown for bytes that are not text
        return None if char < 0 else self._span((char, char + len(quote)))

    def loosely(self, quote: str) -> list[Span]:
        """Ignoring white space, escapes and typography; one place, or one for each part of a quote with an ellipsis."""
        if len(quote) > _LONGEST:
            return []
        for wording in dict.fromkeys((quote, _unwrapped(quote))):
            form = Loose(wording).form
            places = list(islice(self._loose_places(form), _TRIES)) if len(form) >= _LEAST else []
            if places:
                return [self._span(next((place for place in places if self._is_a_word(place)), places[0]))]
        return self._in_parts(_unwrapped(quote))

    def nearly(self, quote: str) -> tuple[Span, int] | None:
        """The place most like it, and by how many characters it differs; None if there is none."""
        form = folded(quote)
        best: tuple[Place, int] | None = None
        for start, end in likely(form, self._small, reach_of(form)):
            window = Loose(self._shown.text[start:end])
            found = nearest(form, _small(window.form))
            if found is not None and (best is None or found.distance < best[1]):
                first, last = window.place(found.start, found.end)
                best = (start + first, start + last), found.distance
        return None if best is None else (self._span(best[0]), best[1])

    def _in_parts(self, quote: str) -> list[Span]:
        """Where all parts stand, one after the other. One that does not makes the quote another one."""
        forms = [Loose(part.strip()).form for part in _ellipsis.split(quote)]
        if not 2 <= len(forms) <= _PARTS or min(map(len, forms)) < _PART:
            return []
        spans: list[Span] = []
        at = 0
        for form in forms:
            place = next(self._loose_places(form, at), None)
            if place is None:
                return []
            spans.append(self._span(place))
            at = place[1]
        return spans

    def _loose_places(self, form: str, since: int = 0) -> Iterator[Place]:
        """Where the shown text has this loose form, in order, from the character `since` on."""
        for start, end in possible(form, self._shown.text, reach_of(form)):
            if end <= since:
                continue
            whole = end - start == len(self._shown.text)
            loose = self._loose if whole else Loose(self._shown.text[start:end])
            first = 0  # what came before is not walked through: a part may stand in a million places
            if since > start:
                first = bisect_left(range(len(loose.form)), since - start, key=lambda at: loose.place(at, at + 1)[0])
            at = loose.form.find(form, first)
            while at >= 0:
                first, last = loose.place(at, at + len(form))
                yield start + first, start + last
                at = loose.form.find(form, at + 1)

    def _is_a_word(self, place: Place) -> bool:
        text = self._shown.text
        start, end = place
        return not (_one_word(text[max(0, start - 1) : start + 1]) or _one_word(text[end - 1 : end + 1]))

    @cached_property
    def _shown(self) -> Shown:
        return Shown(self._data)

    @cached_property
    def _loose(self) -> Loose:
        return Loose(self._shown.text)

    @cached_property
    def _small(self) -> str:
        return _small(self._shown.text)

    def _span(self, place: Place) -> Span:
        return Span(self._start + self._shown.byte_of(place[0]), self._start + self._shown.byte_of(place[1]))


def folded(quote: str) -> str:
    """What is compared of a quote where the nearest place is looked for."""
    return _small(Loose(quote[: 2 * LONGEST]).form)[:LONGEST]


def _small(text: str) -> str:
    small = text.lower()
    return small if len(small) == len(text) else text  # places in it must stay those of the text


def _unwrapped(quote: str) -> str:
    """Without the quotation marks and the ellipses that a model has put around it."""
    text = quote.strip()
    for _ in range(2):
        if len(text) > 2 and _WRAPS.get(text[0]) == text[-1]:
            text = text[1:-1].strip()
        text = text.removeprefix("…").removeprefix("...").removesuffix("…").removesuffix("...").strip()
    return text


def _as_a_word(data: bytes, needle: bytes) -> int | None:
    first = at = data.find(needle)
    for _ in range(_TRIES):
        if at < 0:
            break
        end = at + len(needle)
        # A sign that is not ASCII is taken for a letter.
        if not (_one_word(_signs(data[max(0, at - 1) : at + 1])) or _one_word(_signs(data[end - 1 : end + 1]))):
            return at
        at = data.find(needle, at + 1)
    return None if first < 0 else first


def _signs(pair: bytes) -> str:
    return pair.decode("ascii", "replace").replace(REPLACEMENT, "x")


def _one_word(pair: str) -> bool:
    """Whether two neighbours are letters or digits of one word."""
    return len(pair) == 2 and all(char.isalnum() or char == "_" for char in pair)
