"""What DuckDB answers, rows and complaints: rows that JSON can hold, no more of them than asked for; complaints for the
one who wrote the SQL, in few words, without paths.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Literal, cast

from holdall.text.escape import foreign, foreign_names, one_line
from holdall.text.excerpt import beginning
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What DuckDB complains about, told for the one who wrote the SQL: whose fault it is, in few words, without paths.
#
# This module never decides what to do about a fault.


Blame = Literal["query", "source", "memory"]
"""The SQL; the data, which cannot be read as the table that it was taken for; or the limit on memory."""

MOST_TABLES = 9  # outputs that one query reads
_LONGEST, _LONGEST_READ = 700, 20_000
_MEMORY = frozenset({"OutOfMemoryException", "MemoryError"})
_SOURCE = lazy_pattern(
    r"CSV Error|sniffing file|CSV Parser|max_line_size|buffer_size|Invalid unicode|not utf-8|in file \""
    r"|JSON transform error|Malformed JSON in file|maximum_object_size|in struct auto-detected|JSON exceeds maximum"
)
# Advice that cannot be followed here, echoes of our own statement, and where to read on in the web.
_ADVICE = lazy_pattern(
    r"(?<!\n)\n++(?:LINE \d+:|\* |Possible |Try |See also|Database is launched|Unused blocks|The search space"
    r"|Column .* is being|Stack Trace:|  file = |Original Line|\tCandidate functions).*",
    re.DOTALL,
)
# What DuckDB 1 puts before a fault in rows that are not the first.
_LATE = "Invalid Input Error: Attempting to execute an unsuccessful or closed pending query result\nError: "
_MACHINE = lazy_pattern(r"""(?:in |of )?(?:file )?["']?/(?:dev/fd|proc|memfd:)[^\s"',)]*["']?""")
_MISSING = lazy_pattern(
    r"""Referenced (?:column|table) "(.+?)" not found|Could not find key "(.+?)" in struct"""
    r"""|does not have a column named "((?s:.+?))"(?=\n\n|\n(?:Candidate|LINE) |\Z)"""
    r"""|Column "(.+?)" does not exist on (?:left|right) side"""
    r"""|Column (?:"[^"]*"\.)?"((?:[^"]|"")+)" in (?:EXCLUDE|REPLACE) list not found"""
)
_NEAR = lazy_pattern(r"(?s)(?<= at or near \").*(?=\")")  # a part of the SQL, up to its end where a name has none
_OPENING = lazy_pattern(r"(?<!\w)[\"']")
_QUOTED = lazy_pattern(r"(?s)(?<!\w)([\"'])(.*?)\1")  # what is quoted is a name, a cell, or the SQL
# Where cells or odd names are in a message, only a text of DuckDB's own around them, up to its known words, is kept.
_PREFIX = lazy_pattern(r"[A-Z][A-Za-z]{2,20}(?: [A-Z][a-z]{1,20}){0,3} Error: ")
_TEMPLATES = (
    lazy_pattern(r"(?s)Could not convert string '(.*)' to [A-Z0-9_]{1,30}(?: when casting from source column (.*))?"),
    lazy_pattern(r"(?s)Could not parse string \"(.*)\" according to format specifier \"([^\"]*)\"(?:\n.*)?"),
    lazy_pattern(r"(?s)invalid \w{1,20} field format: \"(.*)\", expected format is \([^\"]{1,80}"),
    lazy_pattern(
        r"(?s)Malformed JSON (?:at byte \d{1,15} of input|in file \"the output\", at byte \d{1,15} in "
        r"record \d{1,15}): [A-Za-z ,-]{1,60}\.(.*)"
    ),
)
_PLACE = lazy_pattern(r"(Invalid Input Error: Malformed JSON in file \"[^\"]*\", at byte \d+ in )[a-z/]+ (\d{1,15})")
_NESTED = lazy_pattern(r"\b(?:STRUCT|MAP|UNION|ENUM)\(")
_ENTRIES = lazy_pattern(r"(?s)Candidate Entries:(.*)")  # the members of a struct, whose names are in `names` nowhere
_PLAIN_NAMES = lazy_pattern(r'\s*+"[^"\n]*+"(?:,\s*+"[^"\n]*+")*+\s*+')
_OF_THE_SQL = frozenset({"ParserException", "BinderException", "CatalogException"})
_HOPELESS = lazy_pattern(r"Malformed JSON|Invalid unicode|not utf-8")

_MENDABLE = lazy_pattern(r"Malformed JSON.*(?:surrogate|control character)", re.DOTALL)


_NUMBER = "(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT|UBIGINT|DOUBLE|DECIMAL|FLOAT)"
_COMPARED = "JSON is compared as text: write (column->>'$') = 'x', of a member (column->>'$.name') = 'x'."
_HINTS = (
    (lazy_pattern(r"syntax error at or near"), 'A name that is a word of SQL needs quotes: "order", "at", "end".'),
    (lazy_pattern(r"UNNEST\(\) can only be applied"), "Of JSON, write unnest(cast(column as json[]))."),
    (lazy_pattern(r"Malformed JSON at byte \d+ of input"), f"{_COMPARED} Of text that is not all: json_valid(column)."),
    (lazy_pattern(r"'json_extract\w*\(\w+, BOOLEAN\)'"), _COMPARED),
    (lazy_pattern(r"Failed to cast value to numerical"), "Write try_cast(column->>'$' as double)."),
    (lazy_pattern(rf"'[!~]~{{1,2}}\*?\((?:DATE|TIME|{_NUMBER})"), "LIKE takes text: cast(column as varchar)."),
    (lazy_pattern(r"'(?:sum|avg|mean|median|round|abs|stddev|quantile_cont|[-+*/])\([^']*VARCHAR"),
     "The column is text: write try_cast(column as double)."),
    (lazy_pattern(r"'(?:year|month|day|hour|week|quarter|dayofweek|date_\w+|strftime|epoch|time_bucket)\([^']*VARCHAR"),
     "The column is text: write cast(column as timestamp), or strptime(column, '%d/%m/%Y') as it is written."),
    (lazy_pattern(r"Cannot compare values of type (?=.*\bVARCHAR\b).*\b(?:DATE|TIMESTAMP)\b"),
     "Cast one side: try_cast(column as date), or as timestamp, or cast(column as varchar)."),
    (lazy_pattern(r"Cannot compare values of type"),
     "Cast one side: try_cast(column as double), or cast(column as varchar)."),
    (lazy_pattern(r"Could not convert string '(?s:.*)' to (?:U?INT|DOUBLE|DECIMAL|FLOAT)"),
     "Not every value is a number: try_cast(column as double) is null there; cast(column as varchar) compares text."),
    (lazy_pattern(r"invalid (?:date|timestamp) field format"), "Write try_cast, or strptime(column, '%d/%m/%Y')."),
)  # fmt: skip


def hint_for(message: str) -> str:
    """What to write instead; empty where nothing is known."""
    return next((hint for pattern, hint in _HINTS if pattern.search(message[:_LONGEST_READ])), "")


def blame(name: str, message: str, path: str) -> Blame:
    """`name` is that of the exception, `path` the one by which DuckDB knows the data."""
    if name in _MEMORY:
        return "memory"
    if name in ("ParserException", "BinderException", "CatalogException", "PermissionException"):
        return "query" if name != "BinderException" or not _SOURCE.search(message) else "source"
    return "source" if path in message or _SOURCE.search(message) else "query"


def missing_name(name: str, message: str) -> str:
    """The column or member that the SQL names and the table does not have; empty if the fault is another."""
    match = _MISSING.search(message[:_LONGEST_READ]) if name == "BinderException" else None
    plain, *escaped = match.groups("") if match else ("",)
    return plain or "".join(escaped).replace('""', '"')


def is_too_small(message: str) -> bool:
    return "maximum_object_size" in message


def is_hopeless(message: str) -> bool:
    """No way of reading helps: the data are not what they were taken for."""
    return bool(_HOPELESS.search(message))


def is_mendable(message: str) -> bool:
    """It is JSON except for signs in texts that strict readers do not take."""
    return bool(_MENDABLE.search(message))


def in_few_words(name: str, message: str, path: str, *, names: Sequence[str] = ()) -> str:
    """The message on one line, without paths, advice and echoes, and with short quotes of the data and the SQL.

    `names` are those of the columns. A quote sign in them, or in a cell, would let the data end their own quotes.
    """
    if name == "PermissionException":
        return "the SQL may read t and nothing else: no other file, no network, no extension, no setting"
    message = message.removeprefix(_LATE)
    message = message if len(message) <= _LONGEST_READ else _without_open_quote(message[:_LONGEST_READ])
    message = _MACHINE.sub("the output", _ADVICE.sub("", message).replace(path, "the output")).strip()
    if place := _PLACE.match(message):  # DuckDB counts the values, not empty lines, and the faulty one as two
        message = f"{place[1]}record {int(place[2]) - 1}{message[place.end() :]}"
    odd = _NESTED.search(message) or any(sign in one for one in names for sign in "\"'\n")
    if (members := _ENTRIES.search(message)) and _PLAIN_NAMES.fullmatch(members[1]) is None:
        odd = True
    if near := _NEAR.search(message):
        return one_line(_joined(message[: near.start()]) + foreign(near[0]) + message[near.end() :], _LONGEST)
    if name not in _OF_THE_SQL or (odd and name != "ParserException"):
        return _around_data(message)
    shown = set(foreign_names(found[2] for found in _QUOTED.finditer(message)))
    message = _QUOTED.sub(
        lambda found: found[1] + (foreign(found[2]) if found[2] in shown else "…") + found[1], message
    )
    return one_line(_joined(message), _LONGEST)


def _without_open_quote(message: str) -> str:
    """Without the quote that it was cut off in, which has no end of its own."""
    end = max((found.end() for found in _QUOTED.finditer(message)), default=0)
    begun = _OPENING.search(message, end)
    return message if begun is None else f'{message[: begun.start()]}"…"'


def _around_data(message: str) -> str:
    prefix = found[0] if (found := _PREFIX.match(message)) else ""
    rest = message[len(prefix) :]
    for template in _TEMPLATES:
        if match := template.fullmatch(rest):
            for number in reversed(range(1, match.re.groups + 1)):
                start, end = match.span(number)
                rest = rest[:start] + foreign(match[number]) + rest[end:] if start >= 0 else rest
            return one_line(prefix + rest.split("\n")[0], _LONGEST)
    return prefix + foreign(_joined(rest))


def _joined(message: str) -> str:
    """Its lines in one."""
    return "; ".join(line.strip() for line in message.split("\n") if line.strip())


# From a result of DuckDB to rows that JSON can hold, no more of them than asked for.
#
# Whole numbers, floats, text, truth values, null, lists and objects stay what they are. Everything else becomes text,
# in DuckDB's own spelling: decimals, dates, times (in UTC), intervals, UUIDs, blobs (`\xAA`). A float that is not a
# number becomes "NaN", "Infinity" or "-Infinity". A JSON column is given as its text, exactly; JSON inside of lists and
# objects as its values.


_BATCH = 256
_PLAIN = frozenset(
    {
        "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger",
        "ubigint", "uhugeint", "float", "double", "varchar", "enum", "null",
    }
)  # fmt: skip
_NOT_NUMBERS = {math.inf: "Infinity", -math.inf: "-Infinity"}
QUOTE = '"'
_SHOWN_TYPE = 300  # characters
_MIN_ROOM = 128  # bytes for rows, however long the names of the columns are
_MIN_CELL = 16  # bytes of a cell that stay when a row is cut


@record(frozen=False)
class Rows:
    columns: list[str]
    types: list[str]
    rows: list[list[Any]] = field(default_factory=list[list[Any]])
    more: bool = False  # there are further rows
    cut_cells: int = 0  # of the one row, which was longer than the answer may be


Read = Callable[[Any], Any]
"""Makes of what DuckDB gives as text, inside of a cell, the JSON value that it is."""


def first_rows(
    duck: Any, statement: str, *, max_rows: int | None, max_bytes: int | None
) -> tuple[Rows, list[Read | None]]:
    """Run the statement, and fetch from its beginning. Without `max_rows`: one batch, and `next_rows` goes on, with
    how the cells of each column are read.
    """
    described = _described(duck, statement)
    found = Rows([row[0] for row in described], [_shown_type(row[1]) for row in described])
    kinds = _kinds(duck, statement, [row[1] for row in described])
    reads = [None if _is_json(kind) else _read(kind) for kind in kinds]
    duck.execute(_castable(statement, kinds))
    if max_rows is None:
        found.rows = next_rows(duck, reads)
        found.more = len(found.rows) == _BATCH
        return found, reads
    room = math.inf if max_bytes is None else max(_MIN_ROOM, max_bytes - _size(found.columns))
    while True:
        batch: list[tuple[Any, ...]] = duck.fetchmany(min(_BATCH, max_rows + 1 - len(found.rows)))
        if not batch:
            return found, reads
        for values in batch:
            if len(found.rows) == max_rows:
                found.more = True
                return found, reads
            row = _row(values, reads)
            size = _size(row)
            if size > room and not found.rows:
                row, found.cut_cells = _cut(row, int(room))
                size = _size(row)
            elif size > room:
                found.more = True
                return found, reads
            found.rows.append(row)
            room -= size


def next_rows(duck: Any, reads: Sequence[Read | None]) -> list[list[Any]]:
    """The next batch of what was executed; none at the end."""
    return [_row(values, reads) for values in duck.fetchmany(_BATCH)]


def _row(values: Sequence[Any], reads: Sequence[Read | None]) -> list[Any]:
    return [_plain(value if read is None else read(value)) for value, read in zip(values, reads, strict=True)]


def _read(kind: Any) -> Read | None:
    """None where nothing of this type is JSON."""
    if kind.id in ("list", "array"):
        one = _read(kind.children[0][1])
        return None if one is None else lambda values: values and [one(value) for value in values]
    if kind.id == "struct":
        members = {name: read for name, kind in kind.children if name and (read := _read(kind)) is not None}
        return (
            (lambda value: value and {**value, **{name: read(value[name]) for name, read in members.items()}})
            if (members)
            else None
        )
    if kind.id == "map":
        inner = _read(kind.children[1][1])
        return None if inner is None else lambda value: value and {name: inner(one) for name, one in value.items()}
    return _json_value if _is_json(kind) else None


def _is_json(kind: Any) -> bool:
    return kind.id == "varchar" and str(kind) == "JSON"


def _json_value(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):  # more digits, or deeper, than Python reads; a name twice
        return text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name that comes twice")
    return made


def count_rows(duck: Any, statement: str) -> int:
    return duck.execute(f"from (\n{statement}\n) select count(*)").fetchone()[0]


def fair_cap(sizes: Sequence[int], room: int) -> int:
    """The largest cap with which things of these sizes fit into the room, when each longer one is cut to it."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return room // left
        room -= size
        left -= 1
    return max(sizes, default=0)


def _described(duck: Any, statement: str) -> list[tuple[Any, ...]]:
    """Name and type of each column."""
    try:
        return duck.execute(f"describe {statement}").fetchall()
    except Exception as fault:
        if type(fault).__name__ != "ParserException":
            raise
        # DuckDB 1 has no DESCRIBE of a DESCRIBE or a SUMMARIZE. Only then inside a FROM, which renames equal columns.
        return duck.execute(f"describe from (\n{statement}\n)").fetchall()


def _kinds(duck: Any, statement: str, types: Sequence[str]) -> list[Any]:
    """DuckDB's own objects for them."""
    try:
        return [duck.dtype(one) for one in types]
    except Exception as fault:
        if type(fault).__name__ != "InvalidInputException":
            raise
        # DuckDB 1 cannot read how it writes the type of a row without names.
        return [kind for _, kind, *_ in duck.execute(f"from (\n{statement}\n) limit 0").description]


def _shown_type(kind: str) -> str:
    return kind if len(kind) <= _SHOWN_TYPE else kind[: _SHOWN_TYPE - 1] + "…"


def _castable(statement: str, kinds: Sequence[Any]) -> str:
    """The statement, or around it one that turns into text what Python or JSON has no place for."""
    if all(map(_is_plain, kinds)):
        return statement
    names = [f"c{number}" for number in range(len(kinds))]
    casts = ", ".join(f"{name}::{_plain_type(kind)}" for name, kind in zip(names, kinds, strict=True))
    return f"from (\n{statement}\n) as result({', '.join(names)}) select {casts}"


def _is_plain(kind: Any) -> bool:
    """Whether Python gets from a value of this type what JSON can hold."""
    if kind.id in ("list", "array"):
        return _is_plain(kind.children[0][1])
    if kind.id in ("struct", "map"):
        return all(name and _is_plain(member) for name, member in kind.children)
    return kind.id in _PLAIN


def _plain_type(kind: Any) -> str:
    """The nearest type that is plain."""
    if kind.id == "list":
        return f"{_plain_type(kind.children[0][1])}[]"
    if kind.id == "array":
        return f"{_plain_type(kind.children[0][1])}[{kind.children[1][1]}]"
    if kind.id == "struct" and all(name for name, _ in kind.children):
        members = (f'"{name.replace(QUOTE, QUOTE * 2)}" {_plain_type(member)}' for name, member in kind.children)
        return f"STRUCT({', '.join(members)})"
    if kind.id == "map":
        return f"MAP({_plain_type(kind.children[0][1])}, {_plain_type(kind.children[1][1])})"
    return str(kind) if kind.id in _PLAIN and kind.id != "null" else "VARCHAR"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else _NOT_NUMBERS.get(value, "NaN")
    if isinstance(value, list | tuple):
        return [_plain(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        return {_name(name): _plain(one) for name, one in cast("dict[Any, Any]", value).items()}
    return value


def _name(key: Any) -> str:
    """JSON knows only text as names; a MAP may have any value."""
    return key if isinstance(key, str) else json.dumps(_plain(key), ensure_ascii=False, default=str)


def _size(row: Sequence[Any]) -> int:
    return len(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _cut(row: list[Any], room: int) -> tuple[list[Any], int]:
    """The row with its long cells shortened to fit, each ending in `…`; and how many those are. Numbers stay."""
    texts = [cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in row]
    data = [text.encode("utf-8", "surrogatepass") for text in texts]
    sizes = [len(cell) + 8 for cell in data]  # quotes, comma, mark
    cap = max(_MIN_CELL, fair_cap(sizes, room * 3 // 4) - 8)  # the rest is for signs that JSON escapes
    long = [
        len(cell) > cap and not isinstance(value, int | float | None) for value, cell in zip(row, data, strict=True)
    ]
    cells = [
        beginning(cell, cap).text + "…" if is_long else value
        for value, cell, is_long in zip(row, data, long, strict=True)
    ]
    return cells, sum(long)
