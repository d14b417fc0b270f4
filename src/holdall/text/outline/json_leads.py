"""What to ask next of JSON: its largest table by SQL, values of it by path, and a word of it by grep."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from holdall.text.outline.json_groups import Group, step
from holdall.text.outline.json_text import readable
from holdall.text.outline.leads import literal
from holdall.text.outline.model import Lead
from holdall.text.outline.sql_words import by_value, column

_DEEPEST = 3  # steps to a table
_KEYS = 16  # members of a record that are looked at
_VALUES = 2000  # values of each
_LOW, _HIGH = 2, 24  # so many different values make a column worth counting by
_NAMES = ("name", "title", "id", "key", "path", "url", "message", "label", "code")
_LONGEST_NAME = 60
_WORD = re.compile(r"[^\W\d_]{3,20}")
_CAMEL = re.compile(r"[A-Z]?[a-z]{3,20}|[A-Z]{3,20}")
_SHOWN_KEY = re.compile(r"[\w$@./: {}-]{1,48}")

Counts = dict[int, tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class _Table:
    """An array of records, or a map: something that SQL can be asked of."""

    group: Group  # of the one container
    rows: Group  # its elements, or the values of its members
    size: float


def json_leads(root: Group, counts: Counts) -> tuple[Lead, ...]:
    tables = sorted(_tables(root, counts, _DEEPEST), key=lambda table: -table.size)
    if not tables:
        return _plain(root)
    largest = tables[0]
    leads = _of_map(largest) if largest.group.objects else _of_records(largest)
    return tuple(lead for lead in leads if all(len(str(value)) <= 160 for value in lead.arguments.values()))


def _tables(group: Group, counts: Counts, deep: int) -> Iterator[_Table]:
    if len(group.values) != 1:
        return
    value = group.values[0]
    size = counts.get(id(value), (len(value) if isinstance(value, dict | list) else 0, True))[0]
    if group.arrays and group.elements.values:
        yield _Table(group, group.elements, size if group.elements.objects else size / 1000)
    elif group.objects and group.is_map:
        yield _Table(group, group.entries, size)
    elif group.objects and deep:
        for key in list(group.keys)[:_KEYS]:
            if _SHOWN_KEY.fullmatch(readable(key)):
                yield from _tables(group.member(key), counts, deep - 1)


def _of_records(table: _Table) -> Iterator[Lead]:
    at = {} if table.group.path == "$" else {"at": table.group.path}
    if not table.rows.objects:
        yield Lead("query", {"path": f"{table.group.path}[0:5]"})
        return
    fields = list(_fields(table.rows))
    counted = next((key for key, _, few in fields if few), None)
    named = min((key for key, text, few in fields if text and not few), key=_rank, default=None)
    if counted is not None:
        yield Lead("query", {**at, "sql": by_value(column(counted))})
    elif fields:
        names = ", ".join(column(key) for key, _, _ in fields[:3])
        yield Lead("query", {**at, "sql": f"select {names} from t limit 20"})  # noqa: S608 - a text to read
    chosen = named if named is not None else counted
    if chosen is not None:
        yield Lead("query", {"path": f"{table.rows.path}{step(chosen)}"})
        yield from _word([value for value in table.rows.member(chosen).values[1:50] if isinstance(value, str)])


def _of_map(table: _Table) -> Iterator[Lead]:
    keys = [readable(key) for key in cast("dict[str, Any]", table.group.values[0])]
    short = [key for key in keys if _SHOWN_KEY.fullmatch(key)] or [""]
    key = short[len(short) // 2]
    words = _CAMEL.findall(key) or _WORD.findall(key)
    if words:
        sql = f"select key from t where key like '%{words[-1]}%'"  # noqa: S608 - a text to read
        at = {} if table.group.path == "$" else {"at": table.group.path}
        yield Lead("query", {"at": "$", "sql": sql, **at})
    if key:
        yield Lead("query", {"path": table.group.path + step(key.encode().decode("latin-1"))})
    yield from _word([key])


def _fields(rows: Group) -> Iterator[tuple[str, bool, bool]]:
    """The scalar members of the records that have a name to write down: whether they are text, and have few values."""
    for key in list(rows.keys)[:_KEYS]:
        if not _SHOWN_KEY.fullmatch(readable(key)) or rows.keys[key] * 2 < len(rows.objects):
            continue
        member = rows.member(key)
        if member.objects or member.arrays:
            continue
        values = [value for value in member.values[:_VALUES] if value is not None]
        distinct = len(set(map(str, values)))
        repeats = _LOW <= distinct <= _HIGH and distinct * 2 <= len(values)
        yield readable(key), str in member.kinds, repeats


def _rank(key: str) -> int:
    return next((at for at, name in enumerate(_NAMES) if name in key.lower()), len(_NAMES))


def _plain(root: Group) -> tuple[Lead, ...]:
    keys = [key for key in list(root.keys)[:1] if _SHOWN_KEY.fullmatch(readable(key))]
    return tuple(Lead("query", {"path": root.path + step(key)}) for key in keys)


def _word(values: list[str]) -> Iterator[Lead]:
    for value in values:
        words = _WORD.findall(readable(value)[:_LONGEST_NAME])
        if words:
            yield Lead("grep", {"pattern": literal(max(words, key=len))})
            return
