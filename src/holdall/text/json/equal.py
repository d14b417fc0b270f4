"""Whether two JSON texts say the same, whether one is an object around one text, and JSON with its characters as
themselves: all without reading values.

Told apart are texts that differ in more than the spaces between their tokens and the escapes in their strings: another
order of names, or another way to write a number, is another text. Memory is flat: pieces of a text are looked at one
after the other, each step one call that runs over all bytes at machine speed.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

from holdall.values.patterns import lazy_pattern

_PIECE = 256 * 1024
_MARK = b"\x03"  # where a string stands, or ends. No JSON has it, nor the two that stand for escapes below
_BACKSLASH, _QUOTE = b"\x01", b"\x02"
_SPACES = b" \t\r\n"

_apart = lazy_pattern(rb"[ \t\r\n](?<=[\w.+-].)[ \t\r\n]*+[\w.+-]", re.DOTALL)  # two words, without it they were one
_escapes = lazy_pattern(rb"(\\++)u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*+")  # behind an odd number of backslashes


_S, _STRING = rb"[ \t\r\n]*+", rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NAMED = _S + rb"\{" + _S + _STRING + _S + b":" + _S
_one_text_begins = lazy_pattern(_NAMED + b'"', re.DOTALL)
_one_text = lazy_pattern(_NAMED + _STRING + _S + rb"\}" + _S, re.DOTALL)
_QUOTES = 4  # around one name and one text


class _Odd(ValueError):
    """Not JSON, or none that can be told here."""


def is_same(one: str | bytes, other: str | bytes, *, piece: int = _PIECE) -> bool:
    """Whether both say the same. False also where one of them is obviously no JSON."""
    try:
        return _digest(one, piece) == _digest(other, piece)
    except _Odd:
        return False


def is_one_text(data: bytes | bytearray, start: int, end: int) -> bool:
    """Whether the JSON between these places is an object with one name, and a text under it."""
    if not _one_text_begins.match(data, start, end):
        return False
    if data.find(b'\\\\"', start, end) < 0:  # then each backslash before a quote escapes it: they need only be counted
        return data.count(b'"', start, end) - data.count(b'\\"', start, end) == _QUOTES
    return _one_text.fullmatch(data, start, end) is not None


def readable(data: bytes) -> Iterator[bytes]:
    r"""Pieces of the same JSON with a character for each `\u` escape that need not be one.

    Half of a surrogate pair stays an escape, and so do quotes, backslashes and control characters.
    """
    done = 0
    for found in _escapes.finditer(data) if b"\\u" in data else ():
        start = found.end(1) - 1
        if len(found[1]) % 2 and (new := _characters(data[start : found.end()])) is not None:
            yield data[done:start]
            yield new
            done = found.end()
    yield data[done:]


@lru_cache(4096)
def _characters(escapes: bytes) -> bytes | None:
    """None if they stay as they are: half of a pair, and what JSON itself writes so."""
    try:
        text = json.dumps(json.loads(b'"' + escapes + b'"'), ensure_ascii=False)[1:-1].encode()
    except ValueError:
        return None
    return text if text != escapes else None


def _digest(whole: str | bytes, size: int) -> tuple[bytes, bytes]:
    """Of what is outside the strings and of what is in them."""
    outside, strings = blake2b(), blake2b()
    inside = False
    for piece in _pieces(whole, size):
        if any(sign in piece for sign in (_MARK, _BACKSLASH, _QUOTE)):
            raise _Odd
        told = b"".join(readable(piece)).replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE).replace(b"\\/", b"/")
        parts = told.split(b'"')
        out, within = parts[inside::2], parts[not inside :: 2]
        ends_inside = inside ^ (len(parts) % 2 == 0)
        # A mark for each string that ends in this piece, whether it began in it or not.
        between = _MARK.join(out)
        if _apart.search(between):
            raise _Odd
        outside.update((_MARK if inside and out else b"") + between.translate(None, _SPACES))
        strings.update(_MARK.join(within) + (_MARK if within and not ends_inside else b""))
        inside = ends_inside
    return outside.digest(), strings.digest()


def _pieces(whole: str | bytes, size: int) -> Iterator[bytes]:
    """Pieces that end behind a quote or a comma: never in the middle of an escape, a number or a character."""
    at = 0
    while at < len(whole):
        stop = at + size
        if stop < len(whole):
            stop = _border(whole, at, stop)
        part = whole[at:stop]
        yield part.encode("utf-8", "replace") if isinstance(part, str) else part
        at = stop


def _border(whole: str | bytes, at: int, stop: int) -> int:
    def last(sign: str) -> int:
        return whole.rfind(sign, at, stop) if isinstance(whole, str) else whole.rfind(sign.encode(), at, stop)

    def first(sign: str) -> int:
        found = whole.find(sign, stop) if isinstance(whole, str) else whole.find(sign.encode(), stop)
        return found if found >= 0 else len(whole)

    return max(last('"'), last(",")) + 1 or min(first('"'), first(",")) + 1
