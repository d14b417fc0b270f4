"""What to ask next of JSON: its largest table by SQL, values of it by path, and a word of it by grep."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from holdall.text.outline.json_groups import Group, step
from holdall.text.outline.json_text import readable
from holdall.text.outline.leads import literal
from holdall.text.outline.model import Lead
from holdall.text.outline.sql_words import by_value, column

_DEEPEST = 3  # steps to a table
_KEYS = 16  # members of a record that are looked at
_VALUES = 2000  # values of each
_HIGH = 24  # a column with no more different values is counted by before others
_NAMES = ("name", "title", "id", "key", "path", "url", "message", "label", "code")
_LONGEST_NAME = 60
_WORD = re.compile(r"[^\W\d_]{3,20}")
_SOUGHT = re.compile(r"\w[\w .:/-]{2,28}\w")
_CAMEL = re.compile(r"[A-Z]?[a-z]{3,20}|[A-Z]{3,20}")
_SHOWN_KEY = re.compile(r"[\w$@./: {}-]{1,48}")

Counts = dict[int, tuple[float, bool]]
Sql = Literal["plain", "at", "none"]
"""Whether SQL can be asked of it: of the output as it is, only with `at`, or not."""


@dataclass(frozen=True, slots=True)
class _Table:
    """An array of records, or a map: something that SQL can be asked of."""

    group: Group  # of the one container
    rows: Group  # its elements, or the values of its members
    size: float


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    group: Group
    distinct: int
    is_text: bool
    repeats: bool  # so often that it is worth counting by


def json_leads(root: Group, counts: Counts, sql: Sql = "plain") -> tuple[Lead, ...]:
    tables = sorted(_tables(root, counts, _DEEPEST), key=lambda table: -table.size)
    if not tables:
        return _plain(root)
    largest = tables[0]
    leads = _of_map(largest) if largest.group.objects else _of_records(largest, sql)
    fit = (lead for lead in leads if all(len(str(value)) <= 160 for value in lead.arguments.values()))
    return tuple(lead for lead in fit if sql != "none" or "sql" not in lead.arguments)


def _tables(group: Group, counts: Counts, deep: int) -> Iterator[_Table]:
    if len(group.values) != 1:
        return
    value = group.values[0]
    size = counts.get(id(value), (max(map(len, [*group.objects, *group.arrays]), default=0), True))[0]
    if group.arrays and group.elements.values:
        yield _Table(group, group.elements, size if group.elements.objects else size / 1000)
    elif group.objects and group.is_map:
        yield _Table(group, group.entries, size)
    elif group.objects and deep:
        for key in list(group.keys)[:_KEYS]:
            if _SHOWN_KEY.fullmatch(readable(key)):
                yield from _tables(group.member(key), counts, deep - 1)


def _of_records(table: _Table, sql: Sql) -> Iterator[Lead]:
    at = {} if table.group.path == "$" and sql == "plain" else {"at": table.group.path}
    if not table.rows.objects:
        yield Lead("query", {"path": f"{table.group.path}[0:5]"})
        return
    fields = list(_fields(table.rows))
    counted = min((field for field in fields if field.repeats), key=_dullness, default=None)
    if counted is not None:
        yield Lead("query", {**at, "sql": by_value(column(counted.name))})
    elif fields:
        names = ", ".join(column(field.name) for field in fields[:3])
        yield Lead("query", {**at, "sql": f"select {names} from t limit 20"})  # noqa: S608 - a text to read
    named = min(_named(table.rows, fields), key=lambda each: each[0], default=None)
    chosen = named[1] if named else counted.group if counted else None
    if chosen is None and fields and sql == "none":
        chosen = fields[0].group
    if chosen is not None:
        yield Lead("query", {"path": chosen.path})
        yield from _word([value for value in chosen.values[1:50] if isinstance(value, str)])


def _named(rows: Group, fields: list[_Field]) -> Iterator[tuple[int, Group]]:
    """Texts by which records are told apart, with a rank; also those one step further in."""
    yield from ((_rank(field.name), field.group) for field in fields if field.is_text and not field.repeats)
    for key in list(rows.keys)[:_KEYS]:
        inner = rows.member(key) if _SHOWN_KEY.fullmatch(readable(key)) else None
        if inner is not None and inner.objects and not inner.arrays and not inner.is_map:
            for field in _fields(inner):
                if field.is_text and not field.repeats:
                    yield _rank(field.name) + 1, field.group


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


def _fields(rows: Group) -> Iterator[_Field]:
    """The scalar members that most records have, and whose name can be written down."""
    for key in list(rows.keys)[:_KEYS]:
        if not _SHOWN_KEY.fullmatch(readable(key)) or rows.keys[key] * 2 < len(rows.objects):
            continue
        member = rows.member(key)
        if member.objects or member.arrays:
            continue
        values = [value for value in member.values[:_VALUES] if value is not None]
        distinct = len(set(map(str, values)))
        repeats = distinct > 1 and distinct * (2 if distinct <= _HIGH else 4) <= len(values)
        yield _Field(readable(key), member, distinct, str in member.kinds, repeats)


def _dullness(field: _Field) -> tuple[bool, bool]:
    return field.distinct > _HIGH, not field.is_text


def _rank(key: str) -> int:
    return next((at for at, name in enumerate(_NAMES) if name in key.lower()), len(_NAMES))


def _plain(root: Group) -> tuple[Lead, ...]:
    keys = [key for key in list(root.keys)[:1] if _SHOWN_KEY.fullmatch(readable(key))]
    return tuple(Lead("query", {"path": root.path + step(key)}) for key in keys)


def _word(values: list[str]) -> Iterator[Lead]:
    for value in values:
        text = readable(value)
        words = _WORD.findall(text[:_LONGEST_NAME])
        if words:
            yield Lead("grep", {"pattern": literal(text if _SOUGHT.fullmatch(text) else max(words, key=len))})
            return
