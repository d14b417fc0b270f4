"""CSV and its kin: rows, and columns with their types, how far they are filled, and what is in them.

What is said comes from `formats.columns`, as what SQL reads does. Names of columns are written as SQL takes them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from holdall.formats.columns import NUMBERS, SEPARATORS, TEXT, Column, Table, Values, records_of, table_of
from holdall.formats.leads import BRIEF, HASH, literal
from holdall.formats.outline import Lead, Outline, Room, Sample, cut, figure, fitted
from holdall.text.escape import foreign_names
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

# Names of columns as SQL takes them: bare if that is possible, else in quotes.


_PLAIN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,40}", re.ASCII)
# What DuckDB reserves.
_WORDS = """
all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate
collation column concurrently constraint create cross default deferrable desc describe distinct do else end except
false fetch for foreign freeze from full glob grant group having ilike in initially inner intersect into is isnull
join lambda lateral leading left like limit natural not notnull null offset on only or order outer overlaps pivot
pivot_longer pivot_wider placing positional primary qualify references returning right select semi show similar some
summarize symmetric table tablesample then to trailing true union unique unpack unpivot using variadic verbose when
where window with
"""
_RESERVED = frozenset(_WORDS.split())


def column(name: str) -> str:
    """`name` in a statement."""
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _told(name: str) -> str:
    """`name` as the header has it. What a statement needs around it stands in the calls; here it would be one more
    thing to take for a part of the name. Only where one could not tell where it ends it is as in a statement.
    """
    return column(name) if ":" in name or '"' in name or name != name.strip() else name


def by_value(name: str, more: str = "") -> str:
    """How often each value of a column occurs."""
    return f"select {name}, count(*){more} from t group by 1 order by 2 desc"  # noqa: S608 - a text to read


_VALUE = 32
_FEW = 5
_EXAMPLES = 3
_CELLS = 50_000  # of columns side by side, whose range is told
_RUN = 5  # columns side by side with like names are told as one from this number on
_WORDS_FOR = {"BIGINT": "int", "HUGEINT": "int", "DOUBLE": "float", "BOOLEAN": "bool", "DATE": "date"}
_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMPTZ"})
_DIGITS = lazy_pattern(r"\d+")
_VALUE_SOUGHT = lazy_pattern(r"[^\W\d_][\w .-]{2,30}")
_BRIEF_OF = 200  # values of a column by which it is told whether they are long
_LED_BY = 12  # columns at each end that are looked at for what to ask
_LOW = 2
_EXACT = 2**53  # whole numbers below it are the same as floats


def table_outline(sample: Sample, room: Room, kind: str = "csv", *, forced: bool = False) -> Outline | None:
    """None if no columns can be told. `forced`: it is to be read as a table."""
    table = table_of(sample, kind=kind, forced=forced)
    if table is None or not table.rows:
        return None
    told = [_size(sample, table)]
    examples = 1 if room.is_small else _EXAMPLES
    runs = list(_runs([one.name for one in table.columns]))
    told += [_run(table, start, end, examples) for start, end in runs]
    if table.ragged:
        least = "" if table.exact else "at least "
        out = "out of line" if table.positions else f"with more or fewer than {_first_row(sample, table)}"
        told.insert(1, f"{least}{plural(table.ragged, 'row')} {out}")
    told[1:1] = filter(None, [table.told_quote])
    label = "table" if table.positions else "tsv" if table.separator == "\t" else "csv"
    leads = _leads(table) if table.header else (Lead("query", {"sql": "select * from t limit 5"}),)
    return Outline(label, _fit(told, runs, table, room), not table.seen_all, (), leads=leads, ends=False)


def aligned_outline(sample: Sample, room: Room) -> Outline | None:
    return table_outline(sample, room, kind="table")


def _first_row(sample: Sample, table: Table) -> str:
    """How many columns it has: others may have more, which then has the table, too."""
    head = sample.head[: 64 * 1024].decode("utf-8", "replace")
    return plural(len(records_of(head, table.separator, 1)[0]), "column")


def _size(sample: Sample, table: Table) -> str:
    usual = table.separator == "," and table.header  # what CSV is, if nothing else is said
    parted = f"{SEPARATORS[table.separator]}-separated" if table.separator else "aligned"
    header = "" if table.header else ", no header"
    columns = plural(len(table.columns), "column") + ("" if usual else f" ({parted}{header})")
    if table.exact:
        return f"{plural(table.rows, 'row')} × {columns}"
    rows = plural(sample.lines, "line") if table.all_rows is None else plural(table.all_rows, "row")
    return f"{rows} × {columns}; types of {table.rows:,} rows spread over it"


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


def _run(table: Table, start: int, end: int, examples: int) -> str:
    """Without examples: only names and types, and how many are empty."""
    first, last = table.columns[start], table.columns[end - 1]
    if end - start == 1:
        return f"{_told(first.name)}: {_column(first, table.values[start], table.seen_all, examples)}"
    kinds = {one.type for one in table.columns[start:end]}
    joined = next(iter(kinds)) if len(kinds) == 1 else "DOUBLE" if kinds <= NUMBERS else TEXT
    about = "of several types" if len(kinds) > 1 else "str" if joined == TEXT else _WORDS_FOR.get(joined, "time")
    if kinds <= NUMBERS:
        all_seen = table.seen_all and (end - start) * table.rows <= _CELLS
        values = table.values[start:end] if all_seen else (table.values[start], table.values[end - 1])
        ends = [each for one in values if (each := _ends(one, joined))]
        about = _range(joined, ends, sum(map(_empty, values)), all_seen)
    return f"{end - start:,} columns {_told(first.name)} … {_told(last.name)}: {about}"


def _empty(values: Values) -> int:
    return values[""] if isinstance(values, Counter) else values.count("")


def _ends(values: Values, kind: str) -> tuple[Any, Any] | None:
    """The least and the greatest of numbers or times."""
    filled = list(filter(None, values))
    found = filled if kind in _TIMES else list(map(float if kind == "DOUBLE" else int, filled))
    return (min(found), max(found)) if found else None


def _range(kind: str, ends: list[tuple[Any, Any]], empty: int, seen_all: bool) -> str:
    if not ends:
        return "empty" if seen_all else "no value seen"
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    note = f" · {figure(empty, seen_all)} empty" if empty else ""
    name, least = _WORDS_FOR.get(kind, "time"), "" if seen_all else "at least "
    if kind in _TIMES:
        return f"{name} {least}{low}…{high}{note}"
    if low == high and seen_all:
        return f"{name}, always {_number(low)}{note}"
    return f"{name} {least}{_number(low)}…{_number(high)}{note}"


def _number(value: float) -> str:
    """All of its digits, as SQL tells them: ids and times are looked up by them."""
    is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < _EXACT)
    return str(int(value)) if is_whole else repr(value)


def _column(one: Column, values: Values, seen_all: bool, examples: int) -> str:
    empty = _empty(values)
    if one.type in NUMBERS or one.type in _TIMES or not any(values):
        ends = _ends(values, one.type)
        return _range(one.type, [ends] if ends else [], empty, seen_all)
    filled = Counter(values)
    del filled[""]
    note = f" · {figure(empty, seen_all)} empty" if empty else ""
    if not examples and not one.nearly:
        return _WORDS_FOR.get(one.type, "time" if one.type in _TIMES else "str") + note
    least = "" if seen_all else "at least "
    if one.nearly:
        odd = ", ".join(_quoted(value) + (f" ×{times:,}" if seen_all else "") for value, times in one.odd)
        but = f"{least}{plural(one.odd_count, 'value')}"
        return f"str, {_WORDS_FOR[one.nearly]} but for {but}: {odd}{note}"
    return _words(filled, seen_all, "bool " if one.type == "BOOLEAN" else "", examples) + note


def _words(distinct: Counter[str], seen_all: bool, kind: str, most: int) -> str:
    if len(distinct) == 1 and seen_all:
        return f"{kind}always {_quoted(*distinct)}"
    if len(distinct) <= _FEW:
        found = [_quoted(value) + (f" ×{times:,}" if seen_all else "") for value, times in distinct.most_common()]
        return kind + ("" if seen_all else "e.g. ") + "|".join(found)
    examples = ", ".join(_quoted(value) for value, _ in distinct.most_common(most))
    unique = "all distinct" if len(distinct) == distinct.total() and seen_all else f"{len(distinct):,} distinct"
    return f"str, {'' if seen_all else 'at least '}{unique}, e.g. {examples}"


def _leads(table: Table) -> tuple[Lead, ...]:
    """How often each value of a column occurs, with the greatest of a column of numbers; and one value to look for."""
    named = list(zip(table.columns, table.values, strict=True))
    brief = [(one, values) for one, values in named if max(map(len, islice(values, _BRIEF_OF)), default=0) <= BRIEF]
    texts = [
        (one.name, Counter(values)) for one, values in brief[:_LED_BY] if not one.nearly and one.type not in NUMBERS
    ]
    numbers = [one.name for one, _ in reversed(named[-_LED_BY:]) if one.type in NUMBERS]
    more = f", max({column(numbers[0])})" if numbers else ""
    told = _FEW if table.seen_all and not more else 0  # so many values are told with their counts
    counted = [
        (len(found) - ("" in found), name)
        for name, found in texts
        if max(_LOW, told + 1) <= len(found) - ("" in found) <= 0.8 * table.rows and found[""] * 2 < table.rows
    ]
    if counted:
        sql = by_value(column(min(counted)[1]), more)
    else:
        short = foreign_names(one.name for one, _ in brief[:3])
        shown = ", ".join(map(column, short)) or f"left({column(named[0][0].name)}, {BRIEF})"
        sql = f"select {shown} from t limit 5"  # noqa: S608 - a text to read
    values = [
        value
        for _, found in texts
        for value, _ in found.most_common(6)
        if _VALUE_SOUGHT.fullmatch(value) and not HASH.fullmatch(value)
    ]
    sought = [Lead("grep", {"pattern": literal(values[0]), "limit": 5})] if values else []
    return (Lead("query", {"sql": sql}), *sought)


def _quoted(value: str) -> str:
    """With the blanks around it: SQL finds it only with them."""
    return '"' + cut(value, _VALUE) + '"'


def _fit(told: list[str], runs: list[tuple[int, int]], table: Table, room: Room) -> tuple[str, ...]:
    """What fits: all of each column, or of the last ones only their types, or of some only their names."""
    kept = fitted(told, room)
    if len(kept) == len(told):
        return kept
    brief = [_run(table, start, end, 0) for start, end in runs]
    before = len(told) - len(brief)
    for whole in range(len(brief) - 1, -1, -1):
        shorter = [*told[: before + whole], *brief[whole:]]
        if sum(map(room.of, shorter)) <= room.size:
            return tuple(shorter)
    told = [*told[:before], *brief]
    kept = fitted(told, room.less(0.6 if room.is_small else 0.8))
    if len(kept) == len(told):
        return kept
    left = table.columns[runs[max(0, len(kept) - before)][0] :]
    more = cut(f"… and {len(left)} more: {', '.join(column(one.name) for one in left)}", 240)
    return (*kept, room.after(kept).cut(more, 20))
