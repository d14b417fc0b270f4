"""JSON read for shortening: numbers as they are written, members in order and with names that occur twice.

Numbers are bytes, to be told from strings: no float holds every number, and NaN and the infinities are no JSON at all.
Nesting has no limit: what is too deep for Python's reader is read by a loop.
"""

import json
import re
from typing import Any, TypeAlias, cast


class Members(list["tuple[str, Json]"]):
    """An object."""

    __slots__ = ()


Json: TypeAlias = "str | bytes | bool | list[Json] | Members | None"

_string = json.JSONDecoder()  # called only where a quote stands
_space = re.compile(r"[ \t\r\n]*+")
_literal = re.compile(
    r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9.eE+-])|true|false|null|NaN|-?Infinity"
)


def parse(text: str) -> "Json":
    """The value, where all of `text` is one; None for null too, which nobody shortens."""
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(
            text, object_pairs_hook=Members, parse_int=str.encode, parse_float=str.encode, parse_constant=str.encode
        )
    except RecursionError:
        return parse_deep(text)
    except ValueError:
        return None


def parse_deep(text: str) -> "Json":
    """The same by a loop, at any depth; slower."""
    try:
        return _parse(text)
    except (ValueError, IndexError):  # not JSON, or it ends too early
        return None


def _parse(text: str) -> "Json":
    open_ones: list[list[Any]] = []
    names: list[str] = []
    at = _after_space(text, 0)
    while True:
        value: Any
        if text[at] in "[{":
            value = Members() if text[at] == "{" else []
            at = _after_space(text, at + 1)
            if text[at] not in "]}":
                open_ones.append(value)
                at = _name(text, at, value, names)
                continue
            at = _closed(text, at, value)
        elif text[at] == '"':
            value, at = _string.raw_decode(text, at)
        else:
            value, at = _literal_at(text, at)
        while True:
            at = _after_space(text, at)
            if not open_ones:
                if at < len(text):
                    raise ValueError(at)
                return cast("Json", value)
            holder = open_ones[-1]
            holder.append((names.pop(), value) if isinstance(holder, Members) else value)
            if text[at] == ",":
                at = _name(text, _after_space(text, at + 1), holder, names)
                break
            at = _closed(text, at, holder)
            value = open_ones.pop()


def _after_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def _closed(text: str, at: int, holder: list[Any]) -> int:
    if text[at] != ("}" if isinstance(holder, Members) else "]"):
        raise ValueError(at)
    return at + 1


def _name(text: str, at: int, holder: list[Any], names: list[str]) -> int:
    """Past the name of a member, where one has to stand here."""
    if not isinstance(holder, Members):
        return at
    if text[at] != '"':
        raise ValueError(at)
    name, at = _string.raw_decode(text, at)
    at = _after_space(text, at)
    if text[at] != ":":
        raise ValueError(at)
    names.append(name)
    return _after_space(text, at + 1)


def _literal_at(text: str, at: int) -> tuple[bytes, int]:
    match = _literal.match(text, at)
    if not match:
        raise ValueError(at)
    return match[0].encode(), match.end()
