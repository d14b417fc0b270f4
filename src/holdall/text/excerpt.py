"""The only module that shows less than everything. Its value always states what was left out.

Only `wire`, `verbs` and the truncating strategy may import it: the layers test proves that. It works on bytes, so
that what it leaves out can be told as an exact range, and never cuts inside a character.
"""

from dataclasses import dataclass

from holdall.text.utf8 import pending_bytes


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`data` is bytes `start` to `end` of a whole of `total` bytes."""

    data: bytes
    start: int
    end: int
    total: int

    @property
    def cut_left(self) -> bool:
        return self.start > 0

    @property
    def cut_right(self) -> bool:
        return self.end < self.total

    @property
    def omitted(self) -> int:
        return self.total - (self.end - self.start)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def beginning(data: bytes, limit: int) -> Excerpt:
    """At most `limit` bytes from the start."""
    end = min(limit, len(data))
    if end < len(data):
        end -= pending_bytes(data[max(0, end - 3) : end])
    return Excerpt(data[:end], 0, end, len(data))


def ending(data: bytes, limit: int) -> Excerpt:
    """At most `limit` bytes from the end."""
    start = _char_start(data, max(0, len(data) - limit))
    return Excerpt(data[start:], start, len(data), len(data))


def around(data: bytes, start: int, end: int, *, reach: int, limit: int) -> Excerpt:
    """Bytes `start` to `end` with `reach` bytes on both sides, at most `limit` of them, cut at the right where over."""
    left = min(start, _char_start(data, max(0, start - reach)))
    right = min(len(data), end + reach, left + limit)
    if right < len(data):
        right -= pending_bytes(data[max(left, right - 3) : right])
    return Excerpt(data[left:right], left, right, len(data))


def _char_start(data: bytes, at: int) -> int:
    """`at`, or the next byte after it that starts a character."""
    for step in range(4):
        if at + step >= len(data) or data[at + step] & 0xC0 != 0x80:
            return at + step
    return at
