"""What the usual ways leave of an output: its beginning, or its beginning and its end. Each gives byte ranges.

These are the best case of each: no marker, no note, nothing else in the place of what is cut.
"""

from collections.abc import Callable, Mapping

from rs_bpe.bpe import openai

from holdall.values.spans import Span

Kept = tuple[Span, ...]

_CLAMP_BYTES, _CLAMP_LINES = 50 * 1024, 2000
_SIDE_LINES, _SIDE_BYTES = 20, 2048
# No token of o200k is longer than this, so so many bytes hold at least as many tokens as are asked for.
_LONGEST_TOKEN = 128
_ENCODER = openai.o200k_base()


def tokens_in(text: str) -> int:
    return _ENCODER.count(text)


def first(data: bytes) -> Kept:
    """The first 50 KB or 2,000 lines, whichever ends sooner."""
    at = 0
    for _ in range(_CLAMP_LINES):
        newline = data.find(b"\n", at)
        at = len(data) if newline < 0 else newline + 1
        if at >= min(len(data), _CLAMP_BYTES):
            break
    return (Span(0, min(at, _CLAMP_BYTES)),)


def both_ends(tokens: int) -> Callable[[bytes], Kept]:
    """Half of the tokens from each end; everything where it has no more."""

    def kept(data: bytes) -> Kept:
        side = tokens // 2
        start = _bytes_of_first(data, side)
        end = len(data) - _bytes_of_last(data, side)
        return (Span(0, start), Span(end, len(data))) if start < end else (Span(0, len(data)),)

    return kept


def few_lines(data: bytes) -> Kept:
    """20 lines from each end, at most 2 KB a side."""
    lines = data.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()  # what ends with a newline has no empty line after it
    head = min(_SIDE_BYTES, sum(len(line) + 1 for line in lines[:_SIDE_LINES]))
    tail = min(_SIDE_BYTES, sum(len(line) + 1 for line in lines[-_SIDE_LINES:]))
    return (Span(0, head), Span(len(data) - tail, len(data))) if head + tail < len(data) else (Span(0, len(data)),)


CLAMPS: Mapping[str, Callable[[bytes], Kept]] = {
    "first 50 KB / 2,000 lines": first,
    "head + tail of 4k tokens": both_ends(4_000),
    "head + tail of 10k tokens": both_ends(10_000),
    "head + tail of 25k tokens": both_ends(25_000),
    "20 + 20 lines": few_lines,
}


def cost(data: bytes, kept: Kept) -> int:
    return sum(tokens_in(data[span.start : span.end].decode("utf-8", "ignore")) for span in kept)


def _bytes_of_first(data: bytes, tokens: int) -> int:
    ids = _ENCODER.encode(data[: tokens * _LONGEST_TOKEN].decode("utf-8", "replace"))
    return _length(ids[:tokens], drop=-1)


def _bytes_of_last(data: bytes, tokens: int) -> int:
    ids = _ENCODER.encode(data[-tokens * _LONGEST_TOKEN :].decode("utf-8", "ignore"))
    return _length(ids[-tokens:], drop=0)


def _length(ids: list[int], *, drop: int) -> int:
    """Of their text in bytes. Tokens may split a character: then the one at the cut is left out."""
    while (text := _ENCODER.decode(ids)) is None:
        ids.pop(drop)
    return len(text.encode())
