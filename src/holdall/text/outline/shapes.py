"""Lines grouped by shape: a small template miner of our own, linear in what it reads.

First by what is left of a line without its digits, which runs at machine speed over all lines; then by the masked
form of one line of each group; then positions where many different words stand are merged. Two or three words at a
position stay apart: `Accepted publickey` and `Accepted password` are not the same thing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from holdall.text.outline.heads import Head
from holdall.text.outline.masks import masked, unquoted
from holdall.text.outline.sample import Lines

_MOST = 1200  # groups that are masked one by one; of more, these are spread evenly over the rare ones
_VARIES = 4  # so many words at one position make it vary
_ROUNDS = 3
_WORDS = 40  # a shape with more words is compared as a whole
_LINE = 400  # bytes of a line that are grouped by
ANY = "<*>"
_DIGITS = b"0123456789"


@dataclass(slots=True)
class Shape:
    """`text` stands for `lines` lines of the sample; `first` is the index of the first one."""

    text: str
    lines: float
    first: int
    body: str = ""  # the first line's own text, without its head
    exact: bool = True  # no group of lines that this one may stand for was left out


@dataclass(frozen=True, slots=True)
class Shapes:
    shapes: list[Shape]  # most frequent first
    left_out: int  # groups of rare lines that were not looked at
    programs: Counter[str]  # lines of the sample by the program that they name …
    levels: Counter[str]  # … and by their level
    stride: float = 1.0  # how many groups each of the rare ones stands for


def mine(lines: Lines, take_head: Callable[[str], Head]) -> Shapes:
    """`take_head` takes the head (time, host, level) off a line."""
    groups, first, left_out = _by_letters(lines.texts)
    stride = 1 + left_out / (_MOST - _MOST // 2)  # what each group stands for that was chosen among the rare ones
    shapes: dict[str, Shape] = {}
    programs: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for number, (key, times) in enumerate(groups):
        index = first[key]
        head = take_head(lines.texts[index][:_LINE].decode("utf-8", "replace"))
        programs[head.program] += times
        levels[head.level] += times
        body = f"{head.program}: {head.body}" if head.program else head.body
        text = masked(body)
        if not text:
            continue
        known = shapes.setdefault(text, Shape(text, 0, index, body))
        _join(known, times * (stride if number >= _MOST // 2 else 1.0), index, body)
        known.exact &= stride == 1 or number < _MOST // 2
    merged = _merge_quoted(list(shapes.values()))
    for _ in range(_ROUNDS):
        before = len(merged)
        merged = _merge_words(merged)
        if len(merged) == before:
            break
    merged.sort(key=lambda shape: (-shape.lines, shape.first))
    return Shapes(merged, left_out, programs, levels, stride)


def _join(shape: Shape, times: float, first: int, body: str) -> None:
    shape.lines += times
    if first < shape.first:
        shape.first, shape.body = first, body


def _by_letters(texts: list[bytes]) -> tuple[list[tuple[bytes, int]], dict[bytes, int], int]:
    """How often each line without its digits occurs, and where first; how many of these had to be left out."""
    keys = [text[:_LINE] for text in b"\n".join(texts).translate(None, _DIGITS).split(b"\n")] if texts else []
    times = Counter(keys)
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    groups = times.most_common()
    if len(groups) <= _MOST:
        return groups, first, 0
    often, rare = groups[: _MOST // 2], groups[_MOST // 2 :]
    stride = len(rare) / (_MOST - len(often))
    some = [rare[int(number * stride)] for number in range(_MOST - len(often))]
    return often + some, first, len(rare) - len(some)


def _merge_quoted(shapes: list[Shape]) -> list[Shape]:
    """Shapes that differ only in what stands in quotes, where there are many of them."""
    by_text: defaultdict[str, list[Shape]] = defaultdict(list)
    for shape in shapes:
        by_text[unquoted(shape.text)].append(shape)
    merged: list[Shape] = []
    for text, alike in by_text.items():
        merged += [_union(text, alike)] if len(alike) >= _VARIES else alike
    return merged


def _merge_words(shapes: list[Shape]) -> list[Shape]:
    """Shapes that differ only in the word at one position, where many words stand there."""
    rows = [shape.text.split(" ") for shape in shapes]
    sums = [_places(row) for row in rows]
    holes: Counter[int] = Counter(chain.from_iterable(sums))
    by_text: defaultdict[str, list[Shape]] = defaultdict(list)
    for shape, row, places in zip(shapes, rows, sums, strict=True):
        text = shape.text
        most, at = max(((holes[place], -at) for at, place in enumerate(places)), default=(0, 0))
        if most >= _VARIES and any(word != ANY for word in (*row[:-at], *row[1 - at :])):
            text = " ".join([*row[:-at], ANY, *row[1 - at :]])
        by_text[text].append(shape)
    return [_union(text, alike) if len(alike) > 1 else _renamed(alike[0], text) for text, alike in by_text.items()]


def _places(row: list[str]) -> list[int]:
    """For each position a number that all rows share which differ only there."""
    if not 1 < len(row) <= _WORDS:
        return []
    hashes = [hash(each) for each in enumerate(row)]
    whole = sum(hashes)
    return [hash((at, whole - own, len(row))) for at, own in enumerate(hashes)]


def _union(text: str, alike: list[Shape]) -> Shape:
    earliest = min(alike, key=lambda shape: shape.first)
    exact = all(shape.exact for shape in alike)
    return Shape(text, sum(shape.lines for shape in alike), earliest.first, earliest.body, exact)


def _renamed(shape: Shape, text: str) -> Shape:
    shape.text = text
    return shape
