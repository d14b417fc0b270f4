"""Lines grouped by shape: a small template miner of our own, linear in what it reads. What varies is masked, and what
is left is the shape.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, chain

from holdall.formats.heads import Head
from holdall.formats.outline import Lines, spread
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What varies from line to line, masked: times, addresses, numbers, hashes, paths. What is left is a line's shape.
#
# Words without a digit, a slash or an `@` are passed over at once. Which digits they are makes no difference, so words
# are masked with all of them as 0, and what is known of a word is remembered. Every pattern is bounded or possessive,
# so that no line makes them slow.


_LINKS = (
    ("url", r"\b(?:https?|ftp|file|git|ssh)://[^\s\"'<>)\]]++"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"),
)
_PATHS = (("path", r"(?<![\w.<])(?:~|\.{1,2})?/(?:[\w.@%+,:-]{1,128}/){1,}[\w.@%+,:-]{0,128}"),)
_NUMBERS = (
    ("uuid", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    ("time", (r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T,]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d\b)?)?"
             r"|\b\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b")),
    ("ip", (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?\b(?!\.)"
           r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::|[0-9a-fA-F]{1,4})(?::[0-9a-fA-F]{1,4}){0,4}(?![\w:])")),
    ("hash", r"\bSHA(?:1|256|512):[\w+/=]{20,}"),
    ("hex", (r"\b0x[0-9a-fA-F]++\b|\b(?=[a-fA-F]{0,64}\d)(?=\d{0,64}[a-fA-F])[0-9a-fA-F]{8,128}\b"
            r"|^(?=.{0,3}[a-f])(?=.{0,3}\d)[0-9a-f]{4}$")),
    ("n", r"(?<![A-Za-z_])[-+]?\d++(?:[.,]\d++)*(?![A-Za-z_]{4})|\d++"),
)  # fmt: skip


def _compiled(*masks: tuple[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in masks))


_plain = _compiled(*_NUMBERS)
_short = _compiled(*_NUMBERS[:4], *_PATHS, *_NUMBERS[4:])
_any = _compiled(*_LINKS, *_NUMBERS[:4], *_PATHS, *_NUMBERS[4:])
_ZEROS = str.maketrans("123456789", "000000000")
_DUMP = lazy_pattern(r"(?<!\S)(?:[0-9a-f]{2,8} {1,2}){3,}[0-9a-f]{2,8}(?!\S)")
_RUN = lazy_pattern(r"(?:(?:<n>|<hex>) ){4,}(?:<n>|<hex>)")
_QUOTED = lazy_pattern(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'(?!\w)|`[^`\n]{0,400}`")
_LONGEST = 320  # characters of a line that make its shape


def masked(line: str) -> str:
    """`line` with names in angle brackets for what varies; runs of white space as one space."""
    line = line[:_LONGEST].translate(_ZEROS)
    if "0" in line:
        line = _DUMP.sub(_hex, line)
    words = [_mask(word) if "0" in word or "/" in word or "@" in word else word for word in line.split()]
    text = " ".join(words)
    if "<" not in text:
        return text
    text = text.replace("<time> <time>", "<time>").replace(" ]", "]")
    return _RUN.sub("<n> …", text)


def unquoted(line: str) -> str:
    """The same with what is in quotes masked too."""
    if '"' not in line and "'" not in line and "`" not in line:
        return line
    return _QUOTED.sub(lambda found: f"{found[0][0]}<…>{found[0][-1]}", line)


@lru_cache(maxsize=8192)
def _mask(word: str) -> str:
    # Most words need only the shortest list: trying the others at every letter is what makes masking slow.
    masks = _any if "@" in word or "://" in word else _short if "/" in word else _plain
    return masks.sub(_name, word)


def _name(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"


def _hex(found: re.Match[str]) -> str:
    """Bytes as a dump writes them, all of one width."""
    words = found[0].split()
    same = len({len(word) for word in words[:-1]}) == 1
    return "<hex> …" if same and any(word.isdigit() for word in words) else found[0]


# First by what is left of a line without its digits, which runs at machine speed over all lines; then by the masked
# form of one line of each group; then positions where many different words stand are merged. Two or three words at a
# position stay apart: `Accepted publickey` and `Accepted password` are not the same thing.


_ALL, _MOST = 1200, 500  # up to so many groups all are masked, one by one; of more so many, some of them rare ones
_FEW = 5000  # lines with different numbers of digits that are compared without regard to how many
_VARIES = 4  # so many words at one position make it vary
_ROUNDS = 3
_WORDS = 40  # a shape with more words is compared as a whole
_LINE = 400  # bytes of a line that are grouped by
_OF_A_WORD = 20  # rare lines with one of the telling words
_TELLING = (b"rror", b"ERROR", b"xception", b"atal", b"FATAL", b"CRIT", b"anic", b"raceback", b"ailed", b"FAIL")
_Groups = list[tuple[int, int]]  # the first line of each, and how many there are
ANY = "<*>"
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_RUNS = lazy_pattern(rb"00+")
_COLOURS = lazy_pattern("\x1b\\[[0-9;]{0,20}[mK]")


@record(frozen=False)
class Shape:
    """`text` stands for `lines` lines of the sample; `first` is the index of the first one."""

    text: str
    lines: float
    first: int
    body: str  # the first line's own text, without its head
    program: str = ""  # the name of the program that `text` and `body` then begin with
    seen: int = 0  # lines that were looked at; `lines` is more where groups were left out


@record
class Shapes:
    shapes: list[Shape]  # most frequent first
    exact: bool = True  # every line was looked at
    looked_at: int | None = None  # lines, where some of those that were given were not


def mine(lines: Lines, take_head: Callable[[str], Head]) -> Shapes:
    """`take_head` takes the head (time, host, level) off a line."""
    groups, some, left_out = _by_letters(lines.texts, lines.exact)
    stride = 1 + left_out / max(1, len(some))  # how many groups each of `some` stands for
    shapes: dict[str, Shape] = {}
    for number, (index, times) in enumerate(groups + some):
        head = take_head(_COLOURS.sub("", lines.texts[index][:_LINE].decode("utf-8", "replace")))
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
    looked_at = sum(times for _, times in groups + some) if left_out else None
    return Shapes(merged, lines.exact and not left_out, looked_at)


def _join(shape: Shape, times: int, first: int, body: str) -> None:
    shape.seen += times
    if first < shape.first:
        shape.first, shape.body = first, body


def _by_letters(texts: list[bytes], exact: bool) -> tuple[_Groups, _Groups, int]:
    """How often each line occurs, whatever digits it has, and where first.

    Where there are too many, the second list has some of the rare ones, and the number tells how many are left out.
    """
    is_long = max(map(len, texts), default=0) > _LINE
    joined = b"\n".join([text[:_LINE] for text in texts] if is_long else texts)
    # Without its digits a line may be the same as one that has none there: near enough for a sample, and faster.
    keys = (joined.translate(_DIGITS) if exact else joined.translate(None, b"0123456789")).split(b"\n")[: len(texts)]
    times = Counter(keys)
    if exact and 0 < len(times) <= _FEW:
        short = dict(zip(times, _RUNS.sub(b"0", b"\n".join(times)).split(b"\n"), strict=True))
        alike: Counter[bytes] = Counter()
        for key, number in times.items():
            alike[short[key]] += number
        firsts = {short[key]: key for key in reversed(times)}
        times = Counter({firsts[key]: number for key, number in alike.items()})
    groups = times.most_common()
    some: list[tuple[bytes, int]] = []
    left_out = 0
    if len(groups) > _ALL:
        often, rare = groups[: _MOST // 2], groups[_MOST // 2 :]
        telling = _telling([key for key, _ in rare])
        groups = often + [rare[at] for at in telling]
        rare = [group for at, group in enumerate(rare) if at not in telling]
        some = spread(rare, _MOST // 2)
        left_out = len(rare) - len(some)
    first = _first_places(keys, {key for key, _ in groups + some})
    return [(first[key], number) for key, number in groups], [(first[key], number) for key, number in some], left_out


def _first_places(keys: list[bytes], sought: set[bytes]) -> dict[bytes, int]:
    first: dict[bytes, int] = {}
    for at, key in enumerate(keys):
        if key in sought:
            first[key] = at
            sought.discard(key)
            if not sought:
                break
    return first


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
    """Shapes that differ only in what is in quotes, where there are many of them."""
    by_text: defaultdict[str, list[Shape]] = defaultdict(list)
    for shape in shapes:
        by_text[unquoted(shape.text)].append(shape)
    merged: list[Shape] = []
    for text, alike in by_text.items():
        merged += [_union(text, alike)] if len(alike) >= _VARIES else alike
    return merged


def _merge_words(shapes: list[Shape]) -> list[Shape]:
    """Shapes that differ only in the word at one position, where many words are there."""
    rows = [shape.text.split(" ") for shape in shapes]
    known: dict[str, int] = {}
    sums = [places(row, known) for row in rows]
    holes: Counter[int] = Counter(chain.from_iterable(sums))
    by_text: defaultdict[str, list[Shape]] = defaultdict(list)
    for shape, row, sums_of_row in zip(shapes, rows, sums, strict=True):
        text = shape.text
        most, at = max(((holes[place], -at) for at, place in enumerate(sums_of_row)), default=(0, 0))
        if most >= _VARIES and any(word != ANY for word in (*row[:-at], *row[1 - at :])):
            text = " ".join([*row[:-at], ANY, *row[1 - at :]])
        by_text[text].append(shape)
    return [_union(text, alike) if len(alike) > 1 else _renamed(alike[0], text) for text, alike in by_text.items()]


def places(row: list[str], known: dict[str, int]) -> list[int]:
    """For each position a number that all rows share which differ only there.

    `known` numbers the words of all rows: the hashes of numbers are the same in every process, those of words are not.
    """
    if not 1 < len(row) <= _WORDS:
        return []
    hashes = [hash((at, known.setdefault(word, len(known)))) for at, word in enumerate(row)]
    whole = sum(hashes)
    return [hash((at, whole - own, len(row))) for at, own in enumerate(hashes)]


def _union(text: str, alike: list[Shape]) -> Shape:
    earliest = min(alike, key=lambda shape: shape.first)
    lines, seen = sum(shape.lines for shape in alike), sum(shape.seen for shape in alike)
    return Shape(text, lines, earliest.first, earliest.body, earliest.program, seen)


def _renamed(shape: Shape, text: str) -> Shape:
    shape.text = text
    return shape
