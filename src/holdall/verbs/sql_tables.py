"""How the output becomes the table `t`: ways to read it, to be tried in order until one can.

Each way is a SELECT over one of DuckDB's readers. A later way reads what an earlier one cannot, with less of it typed;
it says so in a note. No way leaves out a row: what none can read is an error.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdall.verbs.sql_members import NOTE as MEMBERS
from holdall.verbs.sql_members import members_select

SAMPLE = 20480  # records that DuckDB looks at to tell the columns
_WHOLE_SAMPLE = 8 * 1024 * 1024  # bytes up to which it looks at all of them
_LEAST_OBJECT = 16 * 1024 * 1024  # DuckDB's own limit for one JSON value; a higher one is allocated several times over
_LEAST_LINE = 2_000_000  # DuckDB's own limit for one line
_LONGEST_TYPE = 8000  # characters; past this a type is slow to work with and helps nobody, and JSON serves as well
_FORMATS = {"ndjson": "newline_delimited", "array": "array", "object": "unstructured", "members": "newline_delimited"}
_RENAMED = re.compile(r"(.+)_[0-9]+", re.DOTALL)

VALUE = "value"
Columns = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of the data. `form`: lines, csv, ndjson, array (its elements are the rows), object (one row)
    or members (one row for each, as key and value)."""

    form: str
    path: str
    identity: tuple[int, ...] = ()  # the same for the same bytes
    size: int = 0
    longest_line: int = 0
    object_size: int = 0
    delimiter: str = ","
    prefixed: bool = False  # each line begins with a letter that is not part of it, so that none is empty
    records: bool = False  # most of the lines are JSON
    escaped: bool = False  # \\r, \\x1f and \\x1e are written as \\x1er, \\x1eu and \\x1ee


@dataclass(frozen=True, slots=True)
class Way:
    """`select` makes the SELECT; looking for the columns costs time, and may raise DuckDB's errors."""

    select: Callable[[], str]
    note: str = ""
    sampled: bool = False  # it may lack columns that a later way has
    whole_values: bool = False  # each value stands in the one column VALUE
    members: bool = False  # only for SQL that names members which the other ways do not give


Known = dict[tuple[object, ...], Columns]
"""The columns of what was looked at before."""


def ways(duck: Any, shape: Shape, known: Known, notes: list[str]) -> Iterator[Way]:
    """What a way finds out while it makes its SELECT goes to the notes."""
    if shape.form == "lines":
        yield Way(partial(_lines, shape))
        if shape.records:
            json = "case when json_valid(text) then text::json end as json"
            values = f"select line_no, text, {json} from ({_lines(shape)})"  # noqa: S608 - of our own parts
            yield Way(partial(members_select, duck, values, "line_no, text", notes), MEMBERS, members=True)
    elif shape.form == "csv":
        yield from _csv_ways(shape)
    elif shape.form == "members":
        yield Way(partial(_members, shape))
    else:
        yield from _json_ways(duck, shape, known, notes)


def columns_of(duck: Any, select: str) -> Columns:
    return [(row[0], row[1]) for row in duck.execute(f"describe {select}").fetchall()]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(shape: Shape) -> str:
    """Read as CSV of one column, with a delimiter that does not occur. Lines are numbered as they are read."""
    longest = max(_LEAST_LINE, shape.longest_line + 1024)
    text = "substring(text, 2)" if shape.prefixed else "text"
    if shape.escaped:
        # The escaped escape comes last: what it leaves must not be taken for an escape.
        for mark, code in (("r", 13), ("u", 31), ("e", 30)):
            text = f"replace({text}, chr(30) || '{mark}', chr({code}))"
    return (
        f"from read_csv({quoted(shape.path)}, "
        "columns={'text': 'VARCHAR'}, delim='\x1f', nullstr='\x1e', quote='', escape='', comment='', header=false, "
        f"auto_detect=false, strict_mode=true, max_line_size={longest}, buffer_size={max(2 * longest, 32_000_000)}) "
        f"select row_number() over () as line_no, {text} as text"
    )


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _csv_ways(shape: Shape) -> Iterator[Way]:
    # Left to itself DuckDB leaves out lines that it takes for comments or for a preface.
    longest = max(_LEAST_LINE, 2 * shape.longest_line)
    common = f"{quoted(shape.path)}, delim={quoted(shape.delimiter)}, comment='', skip=0, max_line_size={longest}"
    reads = "from read_csv({})".format
    quotes = "quote='\"', escape='\"'"
    yield Way(partial(reads, f"{common}, {quotes}"))
    yield Way(partial(reads, common), "Quotes are not used here as CSV has it; DuckDB's guess is followed.")
    yield Way(
        partial(reads, f"{common}, {quotes}, all_varchar=true, null_padding=true, parallel=false"),
        "Every column is text, because the types or the number of values differ between rows: "
        "use try_cast(column as double) and the like. Values that are missing at the end of a row are null.",
    )


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


def _json_ways(duck: Any, shape: Shape, known: Known, notes: list[str]) -> Iterator[Way]:
    whole = shape.size <= _WHOLE_SAMPLE
    sample = -1 if whole else SAMPLE
    yield Way(partial(_with_known_columns, duck, shape, sample, known, notes), sampled=not whole)
    yield Way(partial(_with_found_columns, duck, shape, sample), sampled=not whole)
    if not whole:
        yield Way(partial(_with_found_columns, duck, shape, -1))
    yield Way(
        partial(_one_column, shape),
        "Here t has the one column value, of type JSON: value->>'$.name' is a member as text, value->'$.items' a "
        "part as JSON.",
        whole_values=True,
    )
    values = f"select *, value as json from ({_one_column(shape)})"  # noqa: S608 - of our own parts
    yield Way(partial(members_select, duck, values, VALUE, notes), MEMBERS, members=True)


def _read_json(shape: Shape, sample: int, more: str = "") -> str:
    return (
        f"read_json({quoted(shape.path)}, format='{_FORMATS[shape.form]}', sample_size={sample}, "
        f"maximum_object_size={max(_LEAST_OBJECT, shape.object_size)}{more})"
    )


def _with_known_columns(duck: Any, shape: Shape, sample: int, known: Known, notes: list[str]) -> str:
    """Columns written out are not looked for again by every statement over t."""
    key = (*shape.identity, shape.form, sample)
    columns = known.get(key)
    if columns is None:
        if len(known) > 100:
            known.clear()
        columns = known[key] = columns_of(duck, f"from {_read_json(shape, sample)}")
    if _is_one_value(duck, shape, sample, columns):
        return f"from {_read_json(shape, sample)} select json as value"
    if _has_renamed(columns):
        notes.append("Names that differ only in case are told apart by a number: see describe t.")
        return f"from {_read_json(shape, sample)}"
    untyped = [name for name, kind in columns if len(kind) > _LONGEST_TYPE]
    if untyped:
        notes.append(
            f"Too varied to be typed, so of type JSON: {', '.join(untyped[:10])}. Reach in with column->'$.name' and "
            "->>, or make a table of it with at."
        )
    listed = ", ".join(f"{quoted(name)}: {quoted(_bearable(kind))}" for name, kind in columns)
    return f"from {_read_json(shape, sample, f', columns={{{listed}}}')}"


def _bearable(kind: str) -> str:
    """The type, or JSON for one of absurd length; a list stays a list, so that len and unnest mean what they say."""
    if len(kind) <= _LONGEST_TYPE:
        return kind
    return "JSON" + "[]" * ((len(kind) - len(kind.rstrip("[]"))) // 2)


def _with_found_columns(duck: Any, shape: Shape, sample: int) -> str:
    """Where the types alone do not tell how to read them, such as dates that begin with the day."""
    reader = _read_json(shape, sample)
    one_value = _is_one_value(duck, shape, sample, columns_of(duck, f"from {reader}"))
    return f"from {reader} select {'json as value' if one_value else '*'}"


def _one_column(shape: Shape) -> str:
    return (
        f"from read_json_objects({quoted(shape.path)}, format='{_FORMATS[shape.form]}', "
        f"maximum_object_size={max(_LEAST_OBJECT, shape.object_size)}) select json as value"
    )


def _members(shape: Shape) -> str:
    # Members of one object rarely share a type, and a type that fits all of them would hide what each one has.
    typed = ", columns={'key': 'VARCHAR', 'value': 'JSON'}"
    return f"from {_read_json(shape, 1, typed)}"


def _is_one_value(duck: Any, shape: Shape, sample: int, columns: Columns) -> bool:
    """DuckDB calls the column `json` where the values are no objects; unless they are, with a member of that name."""
    if [name for name, _ in columns] != ["json"]:
        return False
    try:
        return [name for name, _ in columns_of(duck, f"from {_read_json(shape, sample, ', records=true')}")] != ["json"]
    except Exception:  # whatever DuckDB says to this question: the values are not records
        return True


def _has_renamed(columns: Columns) -> bool:
    """Whether names that differ only in case were made different: such columns are found by position alone."""
    folded = {name.casefold() for name, _ in columns}
    stems = (_RENAMED.fullmatch(name.casefold()) for name, _ in columns)
    return any(stem is not None and stem[1] in folded for stem in stems)
