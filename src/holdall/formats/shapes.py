"""Lines grouped by shape: a small template miner of our own, linear in what it reads. Times and programs at the head
of a line are set apart, what varies is masked, and what is left is the shape.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, chain

from holdall.formats.outline import Lines, spread
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The head of a log line: its time, and the program or level that it names. What follows is the body.


_ISO = r"\d{4}[-/.]\d\d[-/.]\d\d[T ,]{1,2}\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
_DATED = (
    rf"{_ISO}|(?:[A-Z][a-z]{{2}},? )?[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?: \d{{4}})?"
    r"|\d\d[/.]\d\d[/.]\d\d(?:\d\d)?[ ,]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?"
)
_STAMP = rf"(?:{_DATED}|\d{{1,10}}\.\d{{3,9}}s?\b|\d{{10,13}}\b)"  # bare numbers only where a line begins
_LEVELS = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRIT(?:ICAL)?|SEVERE|ALERT|EMERG|PANIC"
_TIME = lazy_pattern(_DATED, re.ASCII)
_LEAD = lazy_pattern(
    rf"\s{{0,8}}(?:\d{{1,7}} {{1,4}})?(?:<\d{{1,3}}>)?[\[(]?({_STAMP})[\])]?[ \t:,|-]{{0,4}}", re.ASCII
)
_PROGRAM = lazy_pattern(r"(?P<host>[\w.:-]{1,80}) (?P<program>[A-Za-z][\w./@-]{0,60}?)(?:\[\d{1,9}\])?: ", re.ASCII)
_LEVEL = lazy_pattern(rf"\b(?:{_LEVELS})\b", re.ASCII)
_BRACKETED = lazy_pattern(rf"(?:\[|\blevel=\"?|\bseverity=\"?|^)({_LEVELS})\b *\]?\"?:?", re.ASCII | re.IGNORECASE)
_ACCESS = lazy_pattern(
    r"(\S{1,100}) \S{1,60} \S{1,60} \[([^\]]{1,60})\] \"([A-Z]{3,10}) [^\"]{0,2000}\" (\d{3})\b", re.ASCII
)


@record
class Head:
    time: str = ""
    program: str = ""
    level: str = ""
    body: str = ""


def time_of(line: str) -> str:
    """The time at which a line begins, or one that is in it; empty if there is none."""
    lead = _LEAD.match(line)
    found = lead[1] if lead else _TIME.search(line)
    return (found if isinstance(found, str) else found[0]).strip() if found else ""


def head_of(line: str) -> Head:
    lead = _LEAD.match(line)
    rest = line[lead.end() :] if lead else line
    time = lead[1] if lead else ""
    program = _PROGRAM.match(rest) if lead else None
    name = ""
    if program and not _LEVEL.fullmatch(program["host"]):
        name, rest = program["program"], rest[program.end() :]
    level = _LEVEL.search(rest, 0, 80) or _BRACKETED.search(rest, 0, 80)
    return Head(time, name, (level[level.lastindex or 0].upper() if level else ""), rest)


def access(line: str) -> tuple[str, str, str] | None:
    """Time, method and status of a line of a web server's access log."""
    found = _ACCESS.match(line)
    return (found[2], found[3], found[4]) if found else None


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


_MOST = 500  # groups that are masked one by one; of more, these are spread evenly over the rare ones …
_MAX_OF_FEW, _FEW = 1200, 2500  # … and where there are few lines, more of them
_VARIES = 4  # so many words at one position make it vary
_ROUNDS = 3
_WORDS = 40  # a shape with more words is compared as a whole
_LINE = 400  # bytes of a line that are grouped by
_OF_A_WORD = 20  # rare lines with one of the telling words
_TELLING = (b"rror", b"ERROR", b"xception", b"atal", b"FATAL", b"CRIT", b"anic", b"raceback", b"ailed", b"FAIL")
_Groups = list[tuple[bytes, int]]
ANY = "<*>"
_DIGITS = b"0123456789"


@record(frozen=False)
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


@record
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
    most = _MAX_OF_FEW if len(texts) <= _FEW else _MOST
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
