"""Where a quote stands in one stretch of bytes: as it was written, then loosely, then the place most like it.

What a model says about places is not asked for. Searching is linear in the stretch for any quote; the loose form is
made only of those places where the quote can stand, and of the whole stretch at most once.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from holdall.extract.quotes_loose import Loose
from holdall.extract.quotes_near import LONGEST, nearest
from holdall.extract.quotes_places import Shown
from holdall.extract.quotes_seeds import Place, likely, possible, reach_of
from holdall.text.utf8 import REPLACEMENT
from holdall.values.spans import Span

_TRIES = 64  # occurrences that are looked at for one that is a word of its own
_LONGEST = 64 * 1024  # characters of a quote that is looked for loosely
_LEAST = 4  # characters of a loose form; fewer stand anywhere
_PART = 8  # characters of each part of a quote with something left out
_PARTS = 8
_WRAPS = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}

_ellipsis = re.compile(r"\s*(?:\[\s?(?:\.{3}|…)\s?\]|\(\s?(?:\.{3}|…)\s?\)|\.{3,}|…)\s*")


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
        char = self._shown.text.find(quote)  # it was shown for bytes that are no text
        return None if char < 0 else self._span((char, char + len(quote)))

    def loosely(self, quote: str) -> list[Span]:
        """But for white space, escapes and typography; one place, or one for each part of a quote with an ellipsis."""
        if len(quote) > _LONGEST:
            return []
        for wording in dict.fromkeys((quote, _unwrapped(quote))):
            form = Loose(wording).form
            places = list(islice(self._loose_places(form), _TRIES)) if len(form) >= _LEAST else []
            if places:
                return [self._span(next((place for place in places if self._is_a_word(place)), places[0]))]
        return self._in_parts(_unwrapped(quote))

    def nearly(self, quote: str) -> tuple[Span, int] | None:
        """The place most like it, and by how many characters it differs; None where there is none."""
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
        forms = [Loose(part).form for part in _ellipsis.split(quote)]
        if not 2 <= len(forms) <= _PARTS or min(map(len, forms)) < _PART:
            return []
        spans: list[Span] = []
        at = 0
        for form in forms:
            place = next((place for place in self._loose_places(form) if place[0] >= at), None)
            if place is None:
                return []
            spans.append(self._span(place))
            at = place[1]
        return spans

    def _loose_places(self, form: str) -> Iterator[Place]:
        """Where the shown text has this loose form, in order."""
        for start, end in possible(form, self._shown.text, reach_of(form)):
            whole = end - start == len(self._shown.text)
            loose = self._loose if whole else Loose(self._shown.text[start:end])
            at = loose.form.find(form)
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
