"""CSV and its kin: columns with types, how far they are filled, and what is in them; rows where they can be counted.
Names of columns are written as SQL takes them.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator

from holdall.formats.kinds import delimiter_of
from holdall.formats.leads import literal
from holdall.formats.outline import Lead, Lines, Outline, Room, Sample, cut, figure, fitted, flat, split, spread
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

# Names of columns as SQL takes them: bare if that is possible, else in quotes.


_PLAIN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,40}", re.ASCII)
# What DuckDB reserves.
_WORDS = """
all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default
deferrable desc describe distinct do else end except false fetch for foreign from grant group having in initially
intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer pivot_wider placing
primary qualify references returning select show some summarize symmetric table then to trailing true union unique
unpivot using variadic when where window with
"""
_RESERVED = frozenset(_WORDS.split())


def column(name: str) -> str:
    """`name` in a statement."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def by_value(name: str, more: str = "") -> str:
    """How often each value of a column occurs."""
    return f"select {name}, count(*){more} from t group by 1 order by 2 desc"  # noqa: S608 - a text to read


_NAMES = {",": "comma", "\t": "tab", ";": "semicolon", "|": "pipe"}
_CELLS = 160_000  # cells that are looked at
_ROWS = 20_000
_VALUE = 32
_FEW = 5
_EXAMPLES = 3
_DATES = 500  # values by which a column of dates is told
_RUN = 5  # columns side by side with like names are told as one from this number on
_DATE = lazy_pattern(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d.{0,20})?")
_DIGITS = lazy_pattern(r"\d+")
_COLUMN = lazy_pattern(r"[\w/.:#%()-](?:[\w /.:#%()-]{0,38}[\w/.:#%()-])?")
_VALUE_SOUGHT = lazy_pattern(r"[^\W\d_][\w .-]{2,30}")
_LED_BY = 12  # columns at each end that are looked at for what to ask
_LOW = 2


def table_outline(sample: Sample, room: Room) -> Outline | None:
    """None if no header with columns can be told."""
    lines = split(sample)
    texts = [text.decode("utf-8", "replace").removeprefix("\ufeff") for text in lines.texts[:50]]
    sign = delimiter_of([text for text in texts if text.strip()])
    if sign is None:
        return None
    rows, whole = _rows(lines, sign)
    if len(rows) < 2:
        return None
    header, *body = rows
    width = len(header)
    named = not _numbers(header)
    if not named:
        header, body = [""] * width, rows
    body = [row for row in body if len(row) == width] or body
    columns = list(zip(*(row for row in body if len(row) == width), strict=True)) or [()] * width
    told = [_size(lines, sample, width, sign, named)]
    examples = 1 if room.is_small else _EXAMPLES
    told += [_run(header[start:end], columns[start:end], start, whole, examples) for start, end in _runs(header)]
    ragged = len(rows) - named - len(body)
    if ragged:
        told.insert(1, f"{'' if whole else 'at least '}{plural(ragged, 'row')} with another number of columns")
    leads = _leads(header, columns) if named else (Lead("query", {"sql": "select * from t limit 5"}),)
    return Outline("tsv" if sign == "\t" else "csv", _fit(told, header, room), not whole, (), leads=leads, ends=False)


def _rows(lines: Lines, sign: str) -> tuple[list[list[str]], bool]:
    """The header and rows, spread evenly where there are too many; and whether they are all."""
    texts = lines.texts
    wide = max(1, texts[0].count(sign.encode()) + 1)
    most = min(_ROWS, max(50, _CELLS // wide))
    whole = lines.exact and len(texts) <= most
    texts = spread(texts, most)
    decoded = [text.decode("utf-8", "replace").replace("\0", "") for text in texts]
    decoded[0] = decoded[0].removeprefix("\ufeff")
    try:
        rows = list(csv.reader(decoded, delimiter=sign))
    except csv.Error:
        rows = [text.split(sign) for text in decoded]
    return [row for row in rows if row], whole


def _size(lines: Lines, sample: Sample, width: int, sign: str, named: bool) -> str:
    quotes = any(data.count(b'"') for _, data in sample.pieces)
    odd = quotes and any(text.count(b'"') % 2 for text in lines.texts[:5000])
    rows = max(0, sample.lines - named)
    header = "" if named else ", no header"
    noun = "line" if odd else "row"  # a cell goes over several of them
    return f"{plural(rows, noun)} × {plural(width, 'column')} ({_NAMES[sign]}-separated{header})"


def _runs(header: list[str]) -> Iterator[tuple[int, int]]:
    """Columns one by one, or many side by side whose names differ only in digits."""
    start = 0
    while start < len(header):
        shape = _DIGITS.sub("#", header[start])
        end = start + 1
        while "#" in shape and end < len(header) and _DIGITS.sub("#", header[end]) == shape:
            end += 1
        if end - start >= _RUN:
            yield start, end
        else:
            yield from ((each, each + 1) for each in range(start, end))
        start = end


def _run(names: list[str], columns: list[tuple[str, ...]], start: int, whole: bool, examples: int) -> str:
    if len(names) == 1:
        return f"{_name(names[0], start)}: {_column(columns[0], whole, examples)}"
    ends = _column(columns[0] + columns[-1], False, examples)
    return f"{len(names):,} columns {_name(names[0], start)} … {_name(names[-1], start)}: {ends}"


def _name(name: str, position: int) -> str:
    return cut(name.strip(), 60) or f"(column {position + 1})"


def _column(values: tuple[str, ...], whole: bool, examples: int) -> str:
    filled = [value for value in values if value.strip()]
    if not filled:
        return "empty"
    about = "" if whole else "at least "
    empty = len(values) - len(filled)
    note = f" · {figure(empty, whole)} empty" if empty else ""
    numbers = _numbers(filled)
    if numbers:
        kind = "int" if isinstance(numbers[0], int) else "float"
        return f"{kind} {about}{min(numbers):.12g}…{max(numbers):.12g}{note}"
    if all(map(_DATE.fullmatch, filled[:_DATES])):
        return f"date {about}{cut(min(filled), 32)}…{cut(max(filled), 32)}{note}"
    return _words(filled, about, whole, examples) + note


def _numbers(filled: list[str]) -> list[int] | list[float]:
    """All of them as numbers, or none."""
    for kind in (int, float):
        try:
            return [kind(value) for value in filled]
        except ValueError:
            continue
    return []


def _words(filled: list[str], about: str, whole: bool, most: int) -> str:
    distinct = Counter(filled)
    if len(distinct) == 1:
        return f"always {_quoted(filled[0])}" if whole else f"{_quoted(filled[0])}|…"
    if len(distinct) <= _FEW:
        values = [_quoted(value) + (f" ×{n:,}" if whole else "") for value, n in distinct.most_common()]
        return "|".join(values if whole else [*values, "…"])
    examples = ", ".join(_quoted(value) for value, _ in distinct.most_common(most))
    unique = "all distinct" if whole and len(distinct) == len(filled) else f"{about}{len(distinct):,} distinct"
    return f"str, {unique}, e.g. {examples}"


def _leads(header: list[str], columns: list[tuple[str, ...]]) -> tuple[Lead, ...]:
    """How often each value of a column occurs, with the greatest of a column of numbers; and one value to look for."""
    times = Counter(name.strip().lower() for name in header)
    named = [
        (name, values)
        for name, values in zip(header, columns, strict=True)
        if _COLUMN.fullmatch(name) and times[name.lower()] == 1
    ]
    texts = [(name, Counter(filter(None, values)), len(values)) for name, values in named[:_LED_BY]]
    texts = [each for each in texts if each[1] and not _numbers(list(each[1]))]
    counted = [
        (len(found), name)
        for name, found, rows in texts
        if _LOW <= len(found) <= 0.8 * rows and found.total() * 2 > rows
    ]
    numbers = [
        name for name, values in reversed(named[-_LED_BY:]) if values and _numbers(list(filter(None, values[:500])))
    ]
    more = f", max({column(numbers[0])})" if numbers else ""
    if counted:
        sql = by_value(column(min(counted)[1]), more)
    else:
        shown = ", ".join(column(name) for name, _ in named[:3]) or "*"
        sql = f"select {shown} from t limit 20"  # noqa: S608 - a text to read
    values = [value for _, found, _ in texts for value, _ in found.most_common(5) if _VALUE_SOUGHT.fullmatch(value)]
    sought = [Lead("grep", {"pattern": literal(values[0]), "limit": 5})] if values else []
    return (Lead("query", {"sql": sql}), *sought)


def _quoted(value: str) -> str:
    return '"' + cut(value.strip(), _VALUE) + '"'


def _fit(told: list[str], header: list[str], room: Room) -> tuple[str, ...]:
    """What fits, and the names of the columns that do not."""
    kept = fitted(told, room)
    if len(kept) == len(told):
        return kept
    kept = fitted(told, room.less(0.6 if room.is_small else 0.8))
    names = ", ".join(flat(name) for name in header[len(kept) - 1 :])
    more = cut(f"… and {len(told) - len(kept)} more: {names}", 240)
    return (*kept, room.after(kept).cut(more, 20))
