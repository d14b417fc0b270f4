"""What to ask next of a text: patterns and SQL made from what was found in it, and tried on the sample first.

A pattern is made of a few words of a frequent shape and captures the part that varies: grouped, it tells how often each
value occurs. Every value is short and is in the output.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdall.formats.heads import Tally
from holdall.formats.lines import complaints
from holdall.formats.outline import Lead, Lines, Sample
from holdall.formats.shapes import ANY, Shape, Shapes, places
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_TRIED_ON = 24 * 1024  # bytes of the sample
_OF_ERRORS = 4.0  # how much more a pattern is worth that is about errors
_GRAVE = ("FATAL", "CRITICAL", "ERROR")
_SHAPES = 5  # frequent ones, and as many that speak of errors
_OF_A_SHAPE = 3  # patterns
_BEFORE = 5  # words before what is captured
_CONTRASTED = 60  # shapes among which those are looked for that differ in one word
_LONGEST = 60  # characters of a pattern
_NUMBERS = 30  # different numbers that are still names
_META = lazy_pattern(r"([\\.^$*+?{}\[\]|()])")
_MASK = lazy_pattern(r"<(?:\*|n|ip|path|url|email|uuid|time|hex|hash|…)>")
_LITERAL = lazy_pattern(r"[\w.,:;=/()\[\]*+#@&%-]{1,24}", re.ASCII)
_NAMED = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]{1,20}[=:#-])\"?<(?:\*|n|ip|path|hex|…)>\"?[,;)\]]?", re.ASCII)
_NUMBER = lazy_pattern(r"<n>[,;.:)\]]?")
_WORD = lazy_pattern(r"[A-Za-z]{3,16}", re.ASCII)
HASH = lazy_pattern(r"[0-9a-fA-F][0-9a-fA-F-]{6,}+")  # or an id: one of them tells nothing of the others
_TELLING = 12  # letters before what is captured from which on it is clear what is counted
_SET = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]{1,20}[=:])\w{1,24}[,;)\]]?", re.ASCII)
_LETTERS = lazy_pattern(r"[A-Za-z]{3}", re.ASCII)
_STAMPS = (  # how a time begins a line, and how much of it names a day, an hour and a minute
    (lazy_pattern(r"\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d", re.ASCII), (10, 13, 16)),
    (lazy_pattern(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d", re.ASCII), (6, 9, 12)),
)
_WIDER = {r"(\d+)": r"([-+]?\d+(?:[.,]\d+)*)", r"(\w+)": r"(\w+(?:[.:@/-]\w+)*)"}
_SPANS = ("day", "hour", "minute")
_SHORT = 24  # characters of what SQL looks for
_STAMP_AT = 2  # a bracket may be before it


@record
class _Pattern:
    regex: str
    words: str  # what is before the captured part, as it is
    weight: float


def text_leads(mined: Shapes, lines: Lines, tally: Tally | None, sample: Sample) -> tuple[Lead, ...]:
    """For lines of which many are alike; `tally` is that of a log."""
    haystack = _haystack(mined, lines)
    best = _best(_patterns(mined), haystack)
    best = _padded(best, sample) if best else None
    leads = [Lead("grep", {"pattern": best.regex, "group": True})] if best else []
    if tally is not None:
        words = _short(best.words) if best and best.weight >= _OF_ERRORS / 2 else ""
        graves = [way for level in _GRAVE if tally.levels[level] for way in (level, level.lower())]
        level = next((level for level in graves if level.encode() in haystack), "")
        leads += _over_time(tally, words or level)
    return tuple(leads)


BRIEF = 120
"""Characters of a value of which an answer may hold several."""


def literal(text: str) -> str:
    """A pattern that matches `text` and nothing else."""
    return _META.sub(r"\\\1", text)


def word_lead(texts: Sequence[str], sample: Sample) -> tuple[Lead, ...]:
    """For a text without shapes: the longest word of the first of these that has one, as it is in the output."""
    for text in texts:
        found: list[str] = re.findall(r"\w{4,24}", _MASK.sub(" ", text))
        words = [word for word in found if not (word.isdigit() or HASH.fullmatch(word))]
        # What is told may be ours, or written in another way: `&eacute;` is a letter there.
        word = next((word for word in sorted(words, key=len, reverse=True) if _has(sample, word)), "")
        if word:
            return (Lead("grep", {"pattern": word, "ignore_case": True, "after": 2}),)
    return ()


def _has(sample: Sample, word: str) -> bool:
    return any(word.encode() in data for _, data in sample.pieces)


def _haystack(mined: Shapes, lines: Lines) -> bytes:
    size = sum(map(len, lines.texts[:1000])) / max(1, len(lines.texts[:1000])) + 1
    stride = max(1, int(len(lines.texts) * size / _TRIED_ON))
    firsts = [lines.texts[shape.first] for shape in mined.shapes[:_CONTRASTED]]
    return b"\n".join([*firsts, *lines.texts[::stride]])[: 2 * _TRIED_ON]


def _best(patterns: list[_Pattern], haystack: bytes) -> _Pattern | None:
    best, most = None, 0.0
    for narrow in patterns:
        pattern, values = _whole_values(narrow, haystack)
        distinct = len(set(values))
        # One value, or a new one on every line, is not worth counting.
        use = 1.0 if 2 <= distinct <= 0.6 * len(values) else 0.2 if distinct > 1 else 0.0
        if distinct > _NUMBERS and narrow.regex.endswith(r"(\d+)"):
            use *= 0.2  # it is a quantity, and not the name of something
        if len(values) ** 0.5 * pattern.weight * use > most:
            best, most = pattern, len(values) ** 0.5 * pattern.weight * use
    return best


def _whole_values(pattern: _Pattern, haystack: bytes) -> tuple[_Pattern, list[bytes]]:
    """The pattern and what it captures: all of `1.7` and `10.0.0.1`, which are one value in a shape."""
    values: list[bytes] = re.findall(pattern.regex.encode(), haystack)
    for group, wider in _WIDER.items():
        if pattern.regex.endswith(group):
            whole = replace(pattern, regex=pattern.regex.removesuffix(group) + wider)
            found: list[bytes] = re.findall(whole.regex.encode(), haystack)
            if found != values and len(whole.regex) <= _LONGEST:
                return whole, found
    return pattern, values


def _padded(pattern: _Pattern, sample: Sample) -> _Pattern:
    """The same for more than one blank between words, where a line has more: a shape has one for any number."""
    signs = [f"{word}  ".encode() for word in pattern.words.split(" ") if word]
    first, _, rest = pattern.regex.partition(" ")
    more = f"{first}(?! {rest}) +{rest.replace(' ', ' +')}".encode()
    # Words with two blanks after them are looked for first: that costs a tenth of what the pattern does.
    if not any(any(sign in data for sign in signs) and re.search(more, data) for _, data in sample.pieces):
        return pattern
    words = pattern.words if " " not in pattern.words else ""  # SQL would look for one blank
    return _Pattern(pattern.regex.replace(" ", " +"), words, pattern.weight)


def _patterns(mined: Shapes) -> list[_Pattern]:
    often = [shape for shape in mined.shapes[:_CONTRASTED] if shape.seen > 2]
    grades = complaints([shape.body for shape in often])
    wrong = [(shape, _OF_ERRORS) for shape, grade in zip(often, grades, strict=True) if grade][:_SHAPES]
    chosen = wrong + [(shape, 1.0) for shape in often[:_SHAPES]]
    found = {pattern.regex: pattern for pattern in _contrasts(often, grades)}
    for shape, weight in chosen:
        row = _row(shape)
        for number, pattern in enumerate(_of_row(row, weight)):
            if number < _OF_A_SHAPE:
                found.setdefault(pattern.regex, pattern)
    return list(found.values())


def _row(shape: Shape) -> list[str]:
    """The words of a shape as they are in a line: without the name of the program, which has a number there."""
    return shape.text.removeprefix(f"{shape.program}: ").split(" ")


def _of_row(row: list[str], weight: float) -> Iterator[_Pattern]:
    for at, word in enumerate(row):
        named = _NAMED.fullmatch(word)
        if named:
            weighed = weight * (0.1 if "<hex>" in word else 0.7)  # ids are rarely worth counting by
            yield _Pattern(f"{literal(named['name'])}(\\w+)", "", weighed)
        elif word in (ANY, "<ip>", "<path>", "<url>", "<email>"):
            pattern = _captured(row, at, r"(\S+)", weight * (2.0 if word == ANY else 1.0))
            if pattern:
                yield pattern
        elif _NUMBER.fullmatch(word):
            pattern = _captured(row, at, r"(\d+)", weight * 0.3)
            if pattern:
                yield pattern


def _contrasts(often: list[Shape], grades: list[int]) -> Iterator[_Pattern]:
    """Where shapes differ in one word only, that word is what to count by."""
    rows = [_row(shape) for shape in often]
    by_place: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    known: dict[str, int] = {}
    for number, row in enumerate(rows):
        for at, place in enumerate(places(row, known)):
            by_place[place].append((number, at))
    for alike in by_place.values():
        words = [rows[number][at] for number, at in alike]
        number, at = alike[0]
        weight = 1.5 * (_OF_ERRORS if any(grades[number] for number, _ in alike) else 1.0)
        named = [_SET.fullmatch(word) for word in words]
        pattern = None
        if len(words) > 1 and all(map(_WORD.fullmatch, words)):
            pattern = _captured(rows[number], at, r"(\w+)", weight)
        elif len(words) > 1 and named[0] and len({each["name"] if each else "" for each in named}) == 1:
            pattern = _Pattern(f"{literal(named[0]['name'])}(\\w+)", "", weight)
        if pattern:
            yield pattern


def _captured(row: list[str], at: int, group: str, weight: float) -> _Pattern | None:
    before: list[str] = []
    for word in reversed(row[max(0, at - _BEFORE) : at]):
        if _MASK.search(word) or not _LITERAL.fullmatch(word):
            break
        before.insert(0, word)
    words = " ".join(before)
    if not _LETTERS.search(words):
        return None
    regex = f"{literal(words)} {group}"
    weight *= min(1.0, len(words) / _TELLING)
    return _Pattern(regex, words, weight) if len(regex) <= _LONGEST else None


def _short(words: str) -> str:
    """The first words of it."""
    return words if len(words) <= _SHORT else words[: _SHORT + 1].rpartition(" ")[0] or words


def _over_time(tally: Tally, words: str) -> list[Lead]:
    """How many lines there are in each span of time, where lines begin with a time."""
    first, last = tally.first, tally.last
    for stamp, ends in _STAMPS:
        if not (stamp.match(first) and stamp.match(last)):
            continue
        at = tally.at
        if at > _STAMP_AT:
            return []
        span = next((number for number, end in enumerate(ends[:2]) if first[:end] != last[:end]), 2)
        part = f"left(text, {ends[span]})" if at == 0 else f"substr(text, {at + 1}, {ends[span]})"
        where = f" where text like '%{words}%'" if words and "'" not in words else ""
        sql = f"select {part} as {_SPANS[span]}, count(*) from t{where} group by 1 order by min(line_no)"  # noqa: S608
        return [Lead("query", {"sql": sql})]
    return []
