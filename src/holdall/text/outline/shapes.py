"""Lines grouped by shape: a small template miner of our own, linear in what it reads.

First by what is left of a line without its digits, which runs at machine speed over all lines; then by the masked
form of one line of each group; then positions where many different words stand are merged. Two or three words at a
position stay apart: `Accepted publickey` and `Accepted password` are not the same thing.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, chain

from holdall.text.outline.heads import Head
from holdall.text.outline.lines import Lines
from holdall.text.outline.masks import masked, unquoted
from holdall.text.outline.model import spread

_MOST = 500  # groups that are masked one by one; of more, these are spread evenly over the rare ones …
_MOST_OF_FEW, _FEW = 1200, 2500  # … and where there are few lines, more of them
_VARIES = 4  # so many words at one position make it vary
_ROUNDS = 3
_WORDS = 40  # a shape with more words is compared as a whole
_LINE = 400  # bytes of a line that are grouped by
_OF_A_WORD = 20  # rare lines with one of the telling words
_TELLING = (b"rror", b"ERROR", b"xception", b"atal", b"FATAL", b"CRIT", b"anic", b"raceback", b"ailed", b"FAIL")
_Groups = list[tuple[bytes, int]]
ANY = "<*>"
_DIGITS = b"0123456789"


@dataclass(slots=True)
class Shape:
    """`text` stands for `lines` lines of the sample; `first` is the index of the first one."""

    text: str
    lines: float
    first: int
    body: str  # the first line's own text, without its head
    program: str = ""  # the name of the program that `text` and `body` then begin with
    seen: int = 0  # lines that were looked at; `lines` is more where groups were left out

    @property
    def exact(self) -> bool:
        return self.lines == self.seen


@dataclass(frozen=True, slots=True)
class Shapes:
    shapes: list[Shape]  # most frequent first
    left_out: int  # groups of rare lines that were not looked at
    programs: Counter[str]  # lines of the sample by the program that they name …
    levels: Counter[str]  # … and by their level
    stride: float = 1.0  # how many groups each of the rare ones stands for


def mine(lines: Lines, take_head: Callable[[str], Head]) -> Shapes:
    """`take_head` takes the head (time, host, level) off a line."""
    groups, some, first, left_out = _by_letters(lines.texts)
    stride = 1 + left_out / max(1, len(some))  # how many groups each of `some` stands for
    shapes: dict[str, Shape] = {}
    programs: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for number, (key, times) in enumerate(groups + some):
        index = first[key]
        head = take_head(lines.texts[index][:_LINE].decode("utf-8", "replace"))
        programs[head.program] += times
        levels[head.level] += times
        body = f"{head.program}: {head.body}" if head.program else head.body
        text = masked(body)
        if not text:
            continue
        known = shapes.setdefault(text, Shape(text, 0.0, index, body, head.program))
        _join(known, times, index, body)
        known.lines += times * (stride if number >= len(groups) else 1.0)
    merged = _merge_quoted(list(shapes.values()))
    for _ in range(_ROUNDS):
        before = len(merged)
        merged = _merge_words(merged)
        if len(merged) == before:
            break
    merged.sort(key=lambda shape: (-shape.lines, shape.first))
    return Shapes(merged, left_out, programs, levels, stride)


def _join(shape: Shape, times: int, first: int, body: str) -> None:
    shape.seen += times
    if first < shape.first:
        shape.first, shape.body = first, body


def _by_letters(texts: list[bytes]) -> tuple[_Groups, _Groups, dict[bytes, int], int]:
    """How often each line without its digits occurs, and where first.

    Where there are too many, the second list has some of the rare ones, and the number tells how many are left out.
    """
    is_long = max(map(len, texts), default=0) > _LINE
    joined = b"\n".join([text[: 2 * _LINE] for text in texts] if is_long else texts)
    keys = joined.translate(None, _DIGITS).split(b"\n") if texts else []
    if is_long:
        keys = [key[:_LINE] for key in keys]
    times = Counter(keys)
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    groups = times.most_common()
    most = _MOST_OF_FEW if len(texts) <= _FEW else _MOST
    if len(groups) <= most:
        return groups, [], first, 0
    often, rare = groups[: most // 2], groups[most // 2 :]
    telling = _telling([key for key, _ in rare])
    often += [rare[at] for at in telling]
    rare = [group for at, group in enumerate(rare) if at not in telling]
    some = spread(rare, most // 2)
    return often, some, first, len(rare) - len(some)


def _telling(keys: list[bytes]) -> set[int]:
    """Which of the rare lines speak of errors: these are looked at in any case, up to a number."""
    text = b"\n".join(keys)
    starts = list(accumulate((len(key) + 1 for key in keys), initial=0))
    found: set[int] = set()
    for word in _TELLING:
        at = text.find(word)
        for _ in range(_OF_A_WORD):
            if at < 0:
                break
            found.add(bisect_right(starts, at) - 1)
            at = text.find(word, at + len(word))
    return found


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
    sums = [places(row) for row in rows]
    holes: Counter[int] = Counter(chain.from_iterable(sums))
    by_text: defaultdict[str, list[Shape]] = defaultdict(list)
    for shape, row, sums_of_row in zip(shapes, rows, sums, strict=True):
        text = shape.text
        most, at = max(((holes[place], -at) for at, place in enumerate(sums_of_row)), default=(0, 0))
        if most >= _VARIES and any(word != ANY for word in (*row[:-at], *row[1 - at :])):
            text = " ".join([*row[:-at], ANY, *row[1 - at :]])
        by_text[text].append(shape)
    return [_union(text, alike) if len(alike) > 1 else _renamed(alike[0], text) for text, alike in by_text.items()]


def places(row: list[str]) -> list[int]:
    """For each position a number that all rows share which differ only there."""
    if not 1 < len(row) <= _WORDS:
        return []
    hashes = [hash(each) for each in enumerate(row)]
    whole = sum(hashes)
    return [hash((at, whole - own, len(row))) for at, own in enumerate(hashes)]


def _union(text: str, alike: list[Shape]) -> Shape:
    earliest = min(alike, key=lambda shape: shape.first)
    lines, seen = sum(shape.lines for shape in alike), sum(shape.seen for shape in alike)
    return Shape(text, lines, earliest.first, earliest.body, earliest.program, seen)


def _renamed(shape: Shape, text: str) -> Shape:
    shape.text = text
    return shape
