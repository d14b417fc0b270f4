"""JSON as people write it by hand, with comments and trailing commas (JSONC): its value, where each part is, and
the text with some parts changed and everything else as it was.

Comments are replaced by spaces before the text is parsed, so the line and column of an error stay true. Nothing here
touches a file.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# A string is matched first: what looks like a comment inside it is none. One that never ends is matched too, as is such
# a comment: otherwise everything after it would be read again from each quote in it.
_QUOTED = r'"(?:[^"\\\n]|\\.)*+"?'
_STRING = lazy_pattern(_QUOTED)
_PIECES = lazy_pattern(_QUOTED + r"|//[^\n]*|/\*.*?(?:\*/|(?P<open>\Z))", re.DOTALL)
_COMMAS = lazy_pattern(_QUOTED + r"|,(?=\s*[}\]])")
_VISIBLE = lazy_pattern(r"[^\n]")
_MARK = "\ufeff"  # some editors put it before everything else


class DuplicateKey(ValueError):
    """The same key twice in one object: one of them would be lost silently."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key[:100]!r} stands twice in the same object")


def parse_jsonc(text: str) -> Any:
    """Raises DuplicateKey, json.JSONDecodeError or RecursionError."""
    text = _unmarked(text)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        return json.loads(_COMMAS.sub(_blank, _PIECES.sub(_blank, text)), object_pairs_hook=_once)


def blanked(text: str) -> str:
    """The same text with spaces in place of comments and of a mark at its start: every position stays."""
    return _PIECES.sub(_blank, _unmarked(text))


def _unmarked(text: str) -> str:
    return f" {text[1:]}" if text.startswith(_MARK) else text


def _blank(match: re.Match[str]) -> str:
    piece = match[0]
    return piece if piece.startswith('"') or match.lastgroup == "open" else _VISIBLE.sub(" ", piece)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKey(key)
        found[key] = value
    return found


Edit = tuple[int, int, str]

_SPACE = lazy_pattern(r"\s*")
_PLAIN = lazy_pattern(r"[^\s,\]}]+")
_PIECE = lazy_pattern(_QUOTED + r"|[\[\]{}]")


@record
class Place:
    """A value in the text: where it stands, and what it is."""

    start: int
    end: int
    value: Any


@record
class Member:
    """One key of an object and its value. `comma` is after the comma that follows, or 0 where none does."""

    name: str
    start: int
    place: Place
    comma: int


class Places:
    """The places of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._plain = blanked(text)

    def top(self) -> Place:
        return self._value_at(0)

    def members(self, place: Place) -> Iterator[Member]:
        """Of an object."""
        at = self._first(place)
        while at < place.end - 1:
            key = self._value_at(at)
            colon = self._after_space(key.end)
            value = self._value_at(colon + 1)
            comma = self._comma_after(value.end)
            yield Member(str(key.value), key.start, value, comma)
            at = self._after_space(comma or value.end)

    def items(self, place: Place) -> Iterator[tuple[Place, int]]:
        """Of a list, each with the end of the comma after it, or 0."""
        at = self._first(place)
        while at < place.end - 1:
            value = self._value_at(at)
            comma = self._comma_after(value.end)
            yield value, comma
            at = self._after_space(comma or value.end)

    def raw(self, place: Place) -> str:
        return self.text[place.start : place.end]

    def has_comments(self, place: Place) -> bool:
        return self.raw(place) != self._plain[place.start : place.end]

    def swapped(self, members: Sequence[Member], first: str, new: str, gone: Collection[str]) -> list[Edit]:
        """An object with `new` in place of its member `first`, and without those that are `gone`."""
        edits = [(one.start, one.place.end, new) for one in members if one.name == first]
        for one in members:
            if one.name in gone:
                edits.append((one.start, self.end_of_gap(one.comma) if one.comma else one.place.end, ""))
        last = [one for one in members if one.name not in gone][-1]
        if last is not members[-1] and not members[-1].comma:  # a comma would be before the end
            edits.append((last.comma - 1, last.comma, ""))
        return edits

    def end_of_gap(self, at: int) -> int:
        """After the space there: a comment in it stays."""
        match = _SPACE.match(self.text, at)
        return match.end() if match is not None else at

    def _first(self, place: Place) -> int:
        at = self._after_space(place.start + 1)
        return self._after_space(at + 1) if self._plain[at] == "," else at

    def _comma_after(self, at: int) -> int:
        at = self._after_space(at)
        return at + 1 if self._plain[at] == "," else 0

    def _value_at(self, at: int) -> Place:
        at = self._after_space(at)
        if self._plain[at] not in "{[":
            match = _STRING.match(self._plain, at) or _PLAIN.match(self._plain, at)
            if match is None:
                raise ValueError(f"no value at {at}")
            return Place(at, match.end(), cast("object", json.loads(match[0])))
        end = self._closing(at)
        return Place(at, end, cast("object", parse_jsonc(self._plain[at:end])))

    def _closing(self, at: int) -> int:
        """After the bracket that closes the one at `at`."""
        depth = 0
        for match in _PIECE.finditer(self._plain, at):
            if match[0] in "[{":
                depth += 1
            elif match[0] in "]}":
                depth -= 1
                if depth == 0:
                    return match.end()
        raise ValueError("a bracket is not closed")

    def _after_space(self, at: int) -> int:
        match = _SPACE.match(self._plain, at)
        return match.end() if match is not None else at


def applied(text: str, edits: Sequence[Edit]) -> str:
    """The edits touch different parts of the text."""
    pieces: list[str] = []
    at = 0
    for start, end, new in sorted(edits):
        pieces += (text[at:start], new)
        at = end
    return "".join([*pieces, text[at:]])
