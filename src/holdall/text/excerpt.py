"""The only module that shows less than everything. Its value always states what was left out.

Only `wire`, `verbs` and the truncating strategy may import it: the layers test proves that. What it leaves out can be
told as an exact range: of bytes for stored data, which are never cut inside a character, and of characters for text
that is not stored, which is never cut inside a grapheme cluster.
"""

from collections.abc import Sequence

from holdall.text.borders import cluster_end, grapheme_border_before
from holdall.text.utf8 import pending_bytes
from holdall.values.record import record

_PIECE = 1024 * 1024  # characters that are encoded at a time where only their length is wanted


@record
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


def folded(parts: Sequence[tuple[int, int]], end: int, limit: int, *, least: int) -> list[tuple[int, int]]:
    """The ranges of a container that are shown, in at most about `limit` bytes.

    `parts` are where its values begin and end, one after the other, and it ends at `end`. Of those that are longer
    than `least` only the brackets or quotes stay; the shortest are opened again as long as they fit, and where all of
    that is too much, what is behind the last part that fits is left out too.
    """
    inner = [(start + 1, stop - 1) if stop - start > least else None for start, stop in parts]
    used, last = 1, len(parts)
    for number, ((_, stop), hole) in enumerate(zip(parts, inner, strict=True)):
        begun = parts[number - 1][1] if number else 0
        used += stop - begun - (hole[1] - hole[0] if hole else 0)
        if used > limit and number:
            last = number
            break
    room = limit - used
    for number in sorted(range(last), key=lambda at: parts[at][1] - parts[at][0]):
        if (hole := inner[number]) is not None:
            room -= hole[1] - hole[0]
            if room < 0:
                break
            inner[number] = None
    holes = [hole for hole in inner[:last] if hole is not None]
    if last < len(parts):
        holes.append((parts[last - 1][1], end - 1))
    borders = [0, *(at for hole in holes for at in hole), end]
    return list(zip(borders[::2], borders[1::2], strict=True))


def _char_start(data: bytes, at: int) -> int:
    """`at`, or the next byte after it that starts a character."""
    for step in range(4):
        if at + step >= len(data) or data[at + step] & 0xC0 != 0x80:
            return at + step
    return at


@record
class Passage:
    """`text` is characters `start` to `end` of a whole of `total` characters."""

    text: str
    start: int
    end: int
    total: int

    @property
    def omitted(self) -> int:
        return self.total - len(self.text)


def first_lines(text: str, count: int) -> Passage:
    """At most `count` lines from the start, the last one with its newline."""
    end = 0
    for _ in range(count):
        end = text.find("\n", end) + 1
        if not end:
            end = len(text)
            break
    return Passage(text[:end], 0, end, len(text))


def first_bytes(text: str, limit: int) -> Passage:
    """At most `limit` bytes of UTF-8 from the start; no cluster is split, unless it alone is longer than that."""
    limit = max(0, limit)
    data = _encoded(text[:limit])
    cut = min(limit, len(data))
    while cut < len(data) and data[cut] & 0xC0 == 0x80:
        cut -= 1
    end = len(_decoded(data[:cut]))
    if end < len(text):
        start = grapheme_border_before(text, end)
        end = start if start < end and not _over(text, start, limit) else _between_pairs(text, end)
    return Passage(text[:end], 0, end, len(text))


def last_bytes(text: str, limit: int) -> Passage:
    """At most `limit` bytes of UTF-8 from the end; no cluster is split, unless it alone is longer than that."""
    limit = max(0, limit)
    data = _encoded(text[max(0, len(text) - limit) :])
    start = len(text) - len(_decoded(data[_char_start(data, max(0, len(data) - limit)) :]))
    if start:
        border = grapheme_border_before(text, start)
        if border < start and not _over(text, border, limit):
            start = cluster_end(text, border, limit + 1)
        else:
            start += _between_pairs(text, start) < start
    return Passage(text[start:], start, len(text), len(text))


def byte_count(text: str) -> int:
    """The length of `text` in UTF-8; half a surrogate pair counts as the U+FFFD that will replace it."""
    if text.isascii():
        return len(text)
    return sum(len(_encoded(text[at : at + _PIECE])) for at in range(0, len(text), _PIECE))


def line_count(text: str, end: int | None = None) -> int:
    """The lines of `text`, or of its first `end` characters; a final newline does not begin another one."""
    end = len(text) if end is None else end
    return text.count("\n", 0, end) + (end > 0 and text[end - 1] != "\n")


def _over(text: str, start: int, limit: int) -> bool:
    """Whether the cluster at `start` alone is longer than `limit` bytes."""
    return byte_count(text[start : cluster_end(text, start, limit + 1)]) > limit


def _between_pairs(text: str, at: int) -> int:
    """`at`, or one less where it is between the two halves of a surrogate pair."""
    if 0 < at < len(text) and "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at] <= "\udfff":
        return at - 1
    return at


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
