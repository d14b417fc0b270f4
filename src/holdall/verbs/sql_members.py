"""The members of objects as columns, where not all that stands beside them are objects.

DuckDB makes columns of records only where each value is one; else the table has the one column `value`, or the lines.
SQL that names members of those which are objects is answered all the same: the rest stays in the table as rows without
members, and how many those are is told in a note.
"""

import re
from typing import Any

from holdall.text.numbers import plural

NOTE = (
    "The members of objects are columns of t: texts, numbers and booleans as such, all else as JSON. Of a name that "
    "an object has twice the first one counts."
)
_MOST = 1000  # columns
_WHOLE, _SIGNED = frozenset({"UBIGINT"}), frozenset({"UBIGINT", "BIGINT"})
_NUMBERS = frozenset({"UBIGINT", "BIGINT", "DOUBLE"})
_NO_NAME = re.compile(r"[\x00]|\A\Z")  # no column is called so


def members_select(duck: Any, values: str, whole: str, notes: list[str]) -> str:
    """`values` is a SELECT with the column `json`, null where a row is no JSON; `whole` are columns of it to keep."""
    kept = {name.strip().casefold() for name in whole.split(",")}
    found = duck.execute(
        f"select key, list(distinct type) from (select json, row_number() over () as n from ({values})) as o, "  # noqa: S608 - of our own parts
        "json_each(case when json_type(o.json) = 'OBJECT' then o.json end) as e "
        "group by key order by min(n), min(e.rowid)"
    ).fetchall()
    others = duck.execute(
        f"select count(*) from ({values}) where json is null or json_type(json) <> 'OBJECT'"  # noqa: S608
    ).fetchone()[0]
    columns: list[str] = []
    for key, types in found[:_MOST]:
        name = _free_name(key, kept)
        if name:
            kept.add(name.casefold())
            columns.append(f"{_extracted(key, frozenset(types))} as {_identifier(name)}")
    if others:
        are = "is" if others == 1 else "are"
        notes.append(f"{plural(others, 'row')} of t {are} no object: null in all columns but {whole}.")
    if len(found) > _MOST:
        notes.append(f"Members with more than {_MOST:,} names: only the first ones are columns.")
    return f"select {', '.join([whole, *columns])} from ({values})"  # noqa: S608


def _free_name(key: str, taken: set[str]) -> str:
    """Names that differ only in case are told apart by a number, as DuckDB does it."""
    if _NO_NAME.search(key):
        return ""
    name, number = key, 0
    while name.casefold() in taken:
        number += 1
        name = f"{key}_{number}"
    return name


def _extracted(key: str, types: frozenset[str]) -> str:
    """The member as its own type where all have that one, else as JSON: nothing becomes null that is a value."""
    place = "'/" + key.replace("~", "~0").replace("/", "~1").replace("'", "''") + "'"
    types -= {"NULL"}
    text = f"json_extract_string(json, {place})"
    if types <= {"VARCHAR"}:
        return text
    if types <= {"BOOLEAN"}:
        return f"cast({text} as boolean)"
    if types <= _NUMBERS:
        return f"cast({text} as {'UBIGINT' if types <= _WHOLE else 'HUGEINT' if types <= _SIGNED else 'DOUBLE'})"
    return f"json_extract(json, {place})"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
