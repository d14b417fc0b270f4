"""The rules that one value of a server's configuration must keep.

A complaint names file, key and rule, never the value.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from holdall.upstream.expand import Unexpanded, expand
from holdall.values.errors import BadServer

_NEAR = 0.85
_LONGEST_NAME = 100
_MOST_SECONDS = 7 * 24 * 3600.0
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a header's name, as HTTP has it
_VISIBLE = re.compile(r"[\x20-\x7e]*")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Place:
    """A key in a file."""

    source: str
    key: str

    @property
    def last(self) -> str:
        return self.key.rpartition(".")[2]

    def at(self, key: str) -> "Place":
        return Place(self.source, f"{self.key}.{key}")

    def wrong(self, rule: str) -> BadServer:
        return BadServer(self.source, self.key, rule)

    def table(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong("must be an object")
        return cast("dict[str, Any]", value)

    def items(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self.wrong("must be a list of texts")
        return cast("list[Any]", value)

    def switch(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.wrong("must be true or false")
        return value

    def seconds(self, about: Mapping[str, Any], default: float) -> float:
        value = about.get(self.last, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_SECONDS:
            raise self.wrong(f"must be a number of seconds, more than 0 and at most {_MOST_SECONDS:,.0f}")
        return float(value)

    def one_of(self, about: Mapping[str, Any], known: Sequence[_T]) -> _T:
        value = about.get(self.last, known[0])
        if value not in known:
            raise self.wrong(f"must be one of {', '.join(map(repr, known))}")
        return value

    def expanded(self, value: object, environment: Mapping[str, str]) -> str:
        if not isinstance(value, str):
            raise self.wrong("must be a text")
        try:
            text = expand(value, environment)
        except Unexpanded as problem:
            raise BadServer(self.source, self.key, problem.rule, near=problem.near) from None
        if "\0" in text:
            raise self.wrong("holds the character NUL")
        return text


def nearest(given: Iterable[str], known: Iterable[str]) -> str:
    """The known key that one of the given ones nearly is."""
    by_case = {key.lower(): key for key in known}
    for key in given:
        if match := difflib.get_close_matches(str(key).lower(), by_case, n=1, cutoff=_NEAR):
            return by_case[match[0]]
    return ""


def name(text: str, place: Place) -> None:
    if not text.strip() or len(text) > _LONGEST_NAME or not text.isprintable():
        raise place.wrong(f"is no name: it must have 1 to {_LONGEST_NAME} visible characters")


def variable(key: str, _value: str, place: Place) -> None:
    if not key or "=" in key or "\0" in key:
        raise place.wrong("is no name of a variable")


def header(key: str, value: str, place: Place) -> None:
    if not _TOKEN.fullmatch(key):
        raise place.wrong("is no name of a header")
    if not _VISIBLE.fullmatch(value):
        raise place.wrong("may hold visible ASCII characters only")


def url(text: str, place: Place) -> None:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not fit, or a port that is no number
        valid = False
    if not valid or not text.isprintable() or " " in text:
        raise place.wrong("must be a URL that begins with http:// or https://")
