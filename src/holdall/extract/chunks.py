"""A document in chunks that a model can read one at a time: of equal size, overlapping, together every byte.

Planning is arithmetic. The exact borders of a chunk are looked for when that chunk is asked for, in a few small reads,
so a plan for a gigabyte reads nothing and holds nothing. The tokens of the whole tell only how many a chunk has on
average: `parts_of` counts those of the chunk at hand, and divides it where they are too many for one call. A long text
is counted by samples where these leave no doubt.
"""

from collections.abc import Sequence
from math import ceil, sqrt
from statistics import fmean
from typing import overload

from holdall.text.borders import Read, border_before
from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.text.utf8 import decode
from holdall.values.errors import UsageError
from holdall.values.outputs import Kind, Measure
from holdall.values.record import record
from holdall.values.spans import Span

_NEAR = 0.05  # a border this near, as a share of the chunk, is worth a chunk that is so much shorter or longer
_NEAR_BYTES = 64 * 1024
_MAX_OVERLAP = 50.0  # percent: with more, neighbours could not be distinguished
_LEAST = 96  # bytes; below this a chunk is all border
_SAMPLES, _SAMPLE = (12, 32), 256  # few, and more where they leave doubt; of so many characters
_SAMPLED_FROM = 3 * max(_SAMPLES) * _SAMPLE  # so that they cost a fraction of what counting does
_DOUBT = 4  # standard errors, and this share at least
_MIN_DOUBT = 0.03
_WHOLE = 64  # bytes that are never divided: they fit 192 tokens, however strange they are


@record
class Chunk:
    """`span` are its exact bytes, of which `overlap` are those of the chunk before it too."""

    index: int  # from 0
    total: int
    span: Span
    overlap: int = 0


@record
class Part:
    """What one call gets to read: a chunk, or a part of one that has too many tokens."""

    span: Span
    text: str
    tokens: int  # of a long text that has fewer than it may, about so many


@record
class _Layout:
    """Chunk `i` ends near `start + size + i * stride`; the next begins near `overlap` bytes before that."""

    start: int
    end: int
    count: int
    size: float
    stride: float
    overlap: int
    near: int

    @staticmethod
    def of(span: Span, most: int, overlap_percent: float) -> "_Layout":
        """As few chunks of at most `most` bytes as cover `span`. Equal, not greedy: a greedy split leaves a tiny last
        chunk that costs a whole call."""
        length, share = span.end - span.start, overlap_percent / 100
        if length <= most:
            return _Layout(span.start, span.end, min(1, length), length, length, 0, 0)
        usable = (most - 8) / (1 + 2 * _NEAR)  # so that both its borders may move, and characters stay whole
        count = max(2, ceil((length - share * usable) / (usable * (1 - share))))
        size = length / (1 + (count - 1) * (1 - share))
        near = min(int(size * _NEAR), _NEAR_BYTES)
        return _Layout(span.start, span.end, count, size, size * (1 - share), int(size * share), near)

    def chunk(self, index: int, read: Read, kind: Kind) -> Chunk:
        end = self._end(index, read, kind)
        if index == 0:
            return Chunk(0, self.count, Span(self.start, end))
        before = self._end(index - 1, read, kind)
        start = before
        if self.overlap:
            # Whatever is no longer than the overlap stands whole in one of two neighbours, so it never gets shorter.
            start = border_before(read, before - self.overlap, near=self.near, kind=kind)
        return Chunk(index, self.count, Span(start, end), before - start)

    def _end(self, index: int, read: Read, kind: Kind) -> int:
        if index == self.count - 1:
            return self.end
        return border_before(read, self.start + round(self.size + index * self.stride), near=self.near, kind=kind)


class Chunks(Sequence[Chunk]):
    """The chunks of a document. Their number is known; each one is found when it is asked for."""

    def __init__(self, read: Read, layout: _Layout, kind: Kind) -> None:
        self._read = read
        self._layout = layout
        self._kind: Kind = kind

    def __len__(self) -> int:
        return self._layout.count

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chunk]: ...
    def __getitem__(self, index: int | slice) -> Chunk | list[Chunk]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self._layout.chunk(place, self._read, self._kind) for place in places]
        return self._layout.chunk(places, self._read, self._kind)


def plan_chunks(read: Read, *, measure: Measure, chunk_tokens: int, overlap_percent: float) -> Chunks:
    """The document that `read` reads, in as few equal chunks of about `chunk_tokens` at most as cover it.

    The overlap is counted inside the chunk. An empty document has no chunks.
    """
    _check(chunk_tokens, overlap_percent)
    most = measure.bytes
    if measure.tokens > chunk_tokens:
        most = max(_LEAST, int(measure.bytes * chunk_tokens / measure.tokens))
    return Chunks(read, _Layout.of(Span(0, measure.bytes), most, overlap_percent), measure.kind)


def parts_of(
    read: Read, chunk: Chunk, *, tokenizer: Tokenizer, chunk_tokens: int, overlap_percent: float, kind: Kind = "text"
) -> list[Part]:
    """The text of a chunk as it is sent: in one part, or in overlapping ones where it has more than `chunk_tokens`.

    No part has more tokens than that, from 192 on.
    """
    _check(chunk_tokens, overlap_percent)
    base = chunk.span.start
    data = read(base, chunk.span.end)

    def read_here(start: int, end: int) -> bytes:
        return data[max(0, start) : max(0, end)]

    parts: list[Part] = []
    waiting = [Span(0, len(data))] if data else []
    while waiting:
        span = waiting.pop()
        length = span.end - span.start
        text = decode(data[span.start : span.end])[0]
        tokens = _tokens(tokenizer, text, chunk_tokens)
        if tokens <= chunk_tokens or length <= _WHOLE:
            parts.append(Part(Span(base + span.start, base + span.end), text, tokens))
            continue
        most = min(length - 1, max(_WHOLE, int(length * chunk_tokens / tokens)))
        layout = _Layout.of(span, most, overlap_percent)
        smaller = [layout.chunk(index, read_here, kind).span for index in range(layout.count)]
        waiting += reversed(smaller)
    return parts


def _tokens(tokenizer: Tokenizer, text: str, limit: int) -> int:
    """How many the text has: by samples where they leave no doubt on which side of the limit that is, else counted."""
    for number in _SAMPLES if len(text) >= _SAMPLED_FROM else ():
        step = (len(text) - _SAMPLE) / (number - 1)
        starts = [int(step * index) for index in range(number)]
        shares = [count_in_pieces(tokenizer, text[start : start + _SAMPLE]) / _SAMPLE for start in starts]
        mean = fmean(shares)
        error = sqrt(sum((share - mean) ** 2 for share in shares) / (number - 1) / number)
        if abs(limit / len(text) - mean) > max(_DOUBT * error, _MIN_DOUBT * mean):
            return ceil(mean * len(text))
    return count_in_pieces(tokenizer, text)


def _check(chunk_tokens: int, overlap_percent: float) -> None:
    if chunk_tokens < 1:
        raise UsageError(f"a chunk has at least one token, not {chunk_tokens}.")
    if not 0 <= overlap_percent <= _MAX_OVERLAP:
        raise UsageError(f"chunks overlap by 0 to {_MAX_OVERLAP:g} %, not by {overlap_percent:g}.")
