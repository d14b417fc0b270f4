"""Does a text fit, or must it be kept? The cheapest exact order of tests; the reason is a value.

Monotone: a longer text never fits where a shorter beginning of it did not. Bytes are counted without encoding, and
tokens are counted only where no bound settles it.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

import stringzilla

from holdall.policy.limits import Limits
from holdall.text.tokens import Tokenizer, count_in_pieces

Reason = Literal["bytes", "chars", "lines", "tokens", "room"]

# A token of the vocabularies in use is at most 128 bytes long, and never shorter than one byte.
LONGEST_TOKEN = 128


@dataclass(frozen=True, slots=True)
class Fits:
    """It fits as it is."""


@dataclass(frozen=True, slots=True)
class Keep:
    """It does not, and this limit was met first."""

    reason: Reason


Decision = Fits | Keep
_FITS = Fits()


def decide(text: str, *, limits: Limits, tokenizer: Tokenizer, tokens_left: int | None = None) -> Decision:
    """`tokens_left` is the room that the turn still has; None where nobody counts it."""
    length = len(text)
    most_bytes = inf if limits.bytes is None else limits.bytes
    if length > most_bytes:
        return Keep("bytes")
    if limits.chars is not None and length > limits.chars:
        return Keep("chars")
    size = length
    plain = text.isascii()
    if not plain:
        # At most four bytes a char: encode only where that bound does not settle it.
        size = 4 * length
        if size > most_bytes or _tokens_matter(size, limits, tokens_left):
            size = len(text.encode("utf-8", "surrogatepass"))
        if size > most_bytes:
            return Keep("bytes")
    if limits.lines is not None and length > limits.lines and _lines(text, plain) > limits.lines:
        return Keep("lines")
    return _by_tokens(text, size, limits, tokenizer, tokens_left)


def _by_tokens(text: str, size: int, limits: Limits, tokenizer: Tokenizer, tokens_left: int | None) -> Decision:
    if not _tokens_matter(size, limits, tokens_left):
        return _FITS
    if limits.tokens is not None and size > LONGEST_TOKEN * limits.tokens:
        return Keep("tokens")
    if tokens_left is not None and size > LONGEST_TOKEN * tokens_left:
        return Keep("room")
    tokens = count_in_pieces(tokenizer, text)
    if limits.tokens is not None and tokens > limits.tokens:
        return Keep("tokens")
    if tokens_left is not None and tokens > tokens_left:
        return Keep("room")
    return _FITS


def _tokens_matter(size: int, limits: Limits, tokens_left: int | None) -> bool:
    return (limits.tokens is not None and size > limits.tokens) or (tokens_left is not None and size > tokens_left)


def _lines(text: str, plain: bool) -> int:
    """A final newline does not start another line."""
    # Three times as fast, but only ASCII is in memory as the bytes that it counts in.
    newlines = stringzilla.count(text, "\n") if plain else text.count("\n")
    return newlines + (not text.endswith("\n"))
