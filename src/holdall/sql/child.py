"""The process that runs SQL: one query at a time, each in a database of its own, until the parent goes away.

It gives up files, the network, outliving its parent and unbounded memory before it runs any SQL; statements are checked
on DuckDB's own parse; the output becomes the table `t` in the first way that works.
"""

import contextlib
import ctypes
import difflib
import importlib
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from holdall.sql.functions import FUNCTIONS, TABLE_FUNCTIONS
from holdall.sql.results import (
    MOST_TABLES,
    Blame,
    Read,
    Rows,
    blame,
    count_rows,
    first_rows,
    hint_for,
    in_few_words,
    is_hopeless,
    is_too_small,
    missing_name,
    next_rows,
)
from holdall.text.escape import foreign, foreign_names, told_names
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.sql.sqlite_tables import Database

# What the process that runs SQL gives up before it runs any: writing files, the network, outliving its parent; and a
# query besides: reading any file but one, and more memory than it may use.
#
# DuckDB is told to leave everything else alone; these are the limits that hold even where it does not. Each is taken as
# far as the system has it, and none is ever loosened again: each query has a process of its own.


Rights = Mapping[int, tuple[int, ...]]

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every Linux architecture
_BENEATH = 1
_NO_NEW_PRIVILEGES, _DIE_WITH_PARENT = 38, 1
# Bits of LANDLOCK_ACCESS_FS_*, by the version of Landlock that has brought them: write a file; remove, make and move
# anything; truncate. Then run or read a file, list a folder, talk to a device.
_WRITES = {1: (1, 4, 5, 6, 7, 8, 9, 10, 11, 12), 2: (13,), 3: (14,)}
_READS = {1: (0, 2, 3), 5: (15,)}
_READ_FILE = 1 << 2
_CONNECTS = {4: (0, 1)}  # LANDLOCK_ACCESS_NET_*: bind and connect over TCP
_REACHES = {6: (0, 1)}  # LANDLOCK_SCOPE_*: sockets without a file, signals
_CGROUPS = ("/proc/self/cgroup", "/sys/fs/cgroup")  # how much memory there is; DuckDB 2.0 dies if it cannot look
_HEADROOM = 256 << 20  # for libraries, stacks of threads and the rows on their way out, beside the limit of the query


def guard() -> None:
    """For good, in this process and all that it starts."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _restrict(_WRITES, _CONNECTS, _REACHES)


def guard_query(parent: int, descriptors: Sequence[int], memory_bytes: int) -> None:
    """`parent` is the connection to the parent: when that ends, so does this process. `descriptors` can be read."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = memory_bytes + _HEADROOM
        wanted = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, wanted))
        needed = list(descriptors)
        with contextlib.ExitStack() as opened:
            for path in filter(os.path.exists, _CGROUPS):
                needed.append(os.open(path, os.O_PATH | os.O_CLOEXEC))
                opened.callback(os.close, needed[-1])
            _restrict(_READS, readable=needed)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def landlock_version() -> int:
    """Of this system; below 1 where it has none. It closes files from 1 on (Linux 5.13), TCP from 4 on (6.7)."""
    if sys.platform != "linux":
        return 0
    return ctypes.CDLL(None).syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)


def confinement() -> str:
    """What keeps a query from files and the network, beside DuckDB's own settings."""
    match landlock_version():
        case version if version >= 4:
            return "SQL cannot reach files or the network (Landlock)"
        case version if version >= 1:
            return "SQL cannot reach files (Landlock); for the network DuckDB's own settings hold (Linux 6.7 has more)"
        case _:
            return "this system has no Landlock: only DuckDB's own settings keep SQL from files and the network"


def _restrict(
    files: Rights,
    network: Rights = MappingProxyType({}),
    scopes: Rights = MappingProxyType({}),
    *,
    readable: Sequence[int] = (),
) -> bool:
    """Give up these rights, whoever owns what they are about; `readable` can still be opened again to read it.

    The descriptor of an output is read-only, but a path that leads to it could be opened again for writing.
    """
    version = landlock_version()
    rights = [
        sum(1 << bit for since, bits in one.items() if since <= version for bit in bits)
        for one in (files, network, scopes)
    ]
    if version < 1:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    handled = struct.pack("QQQ", *rights)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset: int = libc.syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    try:
        for one in readable:  # refused for a file that is in memory alone, to which none of this applies
            libc.syscall(_LANDLOCK_ADD, ruleset, _BENEATH, struct.pack("=Qi", _READ_FILE, one), 0)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _end_with(parent: int) -> None:
    watch = select.poll()
    watch.register(parent, 0)  # only the end of the connection wakes it
    watch.poll()
    os._exit(0)


# The members of objects as columns, where not all that stands beside them are objects.
#
# DuckDB makes columns of records only where each value is one; else the table has the one column `value`, or the lines.
# SQL that names members of those which are objects is answered anyway: the rest stays in the table as rows without
# members, and how many those are is told in a note.


NOTE = (
    "The members of objects are columns of t: texts, numbers and booleans as such, all else as JSON. Of a name that "
    "an object has twice the last one counts."
)
_MOST = 1000  # columns
_WHOLE, _SIGNED = frozenset({"UBIGINT"}), frozenset({"UBIGINT", "BIGINT"})
_NUMBERS = frozenset({"UBIGINT", "BIGINT", "DOUBLE"})
_NO_NAME = lazy_pattern(r"[\x00]|\A\Z")  # no column is called so


def members_select(duck: Any, values: str, whole: str, notes: list[str]) -> str:
    """`values` is a SELECT with the column `json`, null where a row is not JSON; `whole` are its columns to keep."""
    kept = {name.strip().casefold() for name in whole.split(",")}
    text = "case when type in ('UBIGINT', 'BIGINT', 'DOUBLE') then value::varchar end"
    found = duck.execute(
        f"select key, list(distinct type), bool_or({_is_rounded(text)}), bool_or({_is_broken(text)}), "  # noqa: S608 - of our own parts
        "count(*) > count(distinct n) "
        f"from (select json, row_number() over () as n from ({values})) as o, "
        "json_each(case when json_type(o.json) = 'OBJECT' then o.json end) as e "
        "group by key order by min(n), min(e.rowid)"
    ).fetchall()
    others = duck.execute(
        f"select count(*) from ({values}) where json is null or json_type(json) <> 'OBJECT'"  # noqa: S608
    ).fetchone()[0]
    columns, rounded = [whole] if whole else [], list[str]()
    for key, types, is_rounded, is_broken, is_twice in found[:_MOST]:
        name = _free_name(key, kept)
        if not name:
            continue
        kept.add(name.casefold())
        known = frozenset[str](types) - {"NULL"}
        if is_rounded and not is_broken:
            known = known - {"DOUBLE"} | {"BIGINT"}  # whole numbers of more than 20 digits are DOUBLE for DuckDB
        elif is_rounded and "DOUBLE" in known <= _NUMBERS:
            rounded.append(name)
        columns.append(f"{_extracted(key, known, is_twice)} as {_identifier(name)}")
    if others:
        are, but = "is" if others == 1 else "are", f" but {whole}" if whole else ""
        notes.append(f"{plural(others, 'row')} of t {are} no object: null in all columns{but}.")
    if rounded:
        notes.append(_columns_note(_rounded, rounded))
    if len(found) > _MOST:
        notes.append(f"Members with more than {_MOST:,} names: only the first ones are columns.")
    return f"select {', '.join(columns)} from ({values})"  # noqa: S608


def _free_name(key: str, taken: set[str]) -> str:
    """Names that differ only in case are distinguished by a number, as DuckDB does it."""
    if _NO_NAME.search(key):
        return ""
    name, number = key, 0
    while name.casefold() in taken:
        number += 1
        name = f"{key}_{number}"
    return name


def _extracted(key: str, types: frozenset[str], is_twice: bool) -> str:
    """The member as its own type where all have that one, else as JSON: nothing becomes null that is a value.

    Where an object has it twice, the last one, as notices have it; DuckDB finds the first.
    """
    where, at = "json", quoted("/" + key.replace("~", "~0").replace("/", "~1"))
    if is_twice:
        place = f"len(json_keys(json)) + 1 - list_position(list_reverse(json_keys(json)), {quoted(key)})"
        where, at = f"json_extract(json, '$.*')[{place}]", "'$'"
    text = f"json_extract_string({where}, {at})"
    if types <= {"VARCHAR"}:
        return text
    if types <= {"BOOLEAN"}:
        return f"cast({text} as boolean)"
    if types <= _NUMBERS:
        return f"cast({text} as {'UBIGINT' if types <= _WHOLE else 'HUGEINT' if types <= _SIGNED else 'DOUBLE'})"
    return f"json_extract({where}, {at})"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# How the output becomes the table `t`: ways to read it, to be tried in order until one can.
#
# Each way is a SELECT over one of DuckDB's readers. A later way reads what an earlier one cannot, with less of it
# typed; it says so in a note. No way leaves out a row: what none can read is an error.


SAMPLE = 20480  # records that DuckDB looks at to tell the columns
_WHOLE_SAMPLE = 8 * 1024 * 1024  # bytes up to which it looks at all of them
_MOST_COMPARED = 512 * 1024 * 1024  # bytes up to which what it found is compared with all records; it takes seconds
_LIMITS = frozenset({"LIMIT", "STREAMING_LIMIT"})
_FIRST_ROWS = frozenset({"READ_JSON", "PROJECTION"}) | _LIMITS  # plans that read no others
_MIN_OBJECT = 16 * 1024 * 1024  # DuckDB's own limit for one JSON value; a higher one is allocated several times over
_MIN_LINE = 2_000_000  # DuckDB's own limit for one line
_LONGEST_TYPE = 8000  # characters; past this a type is slow to work with and helps nobody, and JSON serves as well
_MOST_KNOWN = 100
_SEARCHED_AT_ONCE = 4 * 1024 * 1024
_FORMATS = {"ndjson": "newline_delimited", "array": "array", "object": "unstructured", "members": "newline_delimited"}
_DEEPEST = 50  # levels of a type that are looked into
_CHANGED = lazy_pattern(r"\b(?:DATE|DOUBLE|TIME|UUID)\b")  # types in which DuckDB may write a value otherwise
_DEEPER = "deeper"  # in place of what is not looked into
# So that tables of JSON and of CSV can be joined, and 1:2:3 stays what it is.
_READ_AS = {"UUID": "VARCHAR", "TIME": "VARCHAR", _DEEPER: "JSON"}
_RENAMED = lazy_pattern(r"(.+)_[0-9]+", re.DOTALL)

VALUE, TEXT = "value", "VARCHAR"
Columns = list[tuple[str, str]]


@record
class Shape:
    """What is known of the data. `form`: lines, csv, ndjson, array (its elements are the rows), object (one row),
    members (one row for each, as key and value), parquet, arrow or sqlite."""

    form: str
    path: str
    tables: list[str]  # what SQL calls it
    identity: tuple[int, ...] = ()  # the same for the same bytes
    size: int = 0
    longest_line: int = 0
    object_size: int = 0
    delimiter: str = ","
    columns: Columns = field(default_factory=list[tuple[str, str]])  # of CSV
    header: bool = True
    rewritten: bool = False  # every row ends in \\n, whatever is in its cells
    checked: bool = True  # the types of the columns hold for every row
    nearly: list[str] = field(default_factory=list[str])  # columns of text in which nearly all values are numbers
    prefixed: bool = False  # each line begins with a letter that is not part of it, so that none is empty
    records: bool = False  # most of the lines are JSON
    inner: str = ""  # the table of a SQLite file
    escaped: bool = False  # \\r, \\x1f and \\x1e are written as \\x1er, \\x1eu and \\x1ee


@record
class Way:
    """`select` makes the SELECT; looking for the columns costs time, and may raise DuckDB's errors."""

    select: Callable[[], str]
    note: str = ""
    sampled: bool = False  # it may lack columns that a later way has
    guessed: bool = False  # its types are those of a sample: a value that is of another one raises
    whole_values: bool = False  # each value is in the one column VALUE
    members: bool = False  # only for SQL that names members which the other ways do not give
    odd_numbers: bool = False  # only for what no other way takes for JSON: NaN and Infinity as records


Known = dict[tuple[object, ...], Columns]
"""The columns of what was looked at before."""


def ways(duck: Any, shape: Shape, known: Known, notes: list[str]) -> Iterator[Way]:
    """What a way finds out while it makes its SELECT goes to the notes."""
    if shape.form == "lines":
        yield Way(partial(_lines, shape))
        if shape.records:
            json = "case when json_valid(text) then text::json end as json"
            values = f"select line_no, text, {json} from ({_lines(shape)})"  # noqa: S608 - of our own parts
            yield Way(partial(members_select, duck, values, "line_no, text", notes), NOTE, members=True)
    elif shape.form == "csv":
        yield from _csv_ways(duck, shape, known, notes)
    elif shape.form == "members":
        yield Way(partial(_members, shape))
    elif shape.form == "arrow":
        yield Way(partial(_arrow, duck, shape, notes))
    elif shape.form == "parquet":
        yield Way(partial(_parquet, duck, shape, notes))
    else:
        yield from _json_ways(duck, shape, known, notes)


def columns_of(duck: Any, select: str) -> Columns:
    return [(row[0], row[1]) for row in duck.execute(f"describe {select}").fetchall()]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(shape: Shape) -> str:
    """Read as CSV of one column, with a delimiter that does not occur. Lines are numbered as they are read."""
    longest = max(_MIN_LINE, shape.longest_line + 1024)
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


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────


def _parquet(duck: Any, shape: Shape, notes: list[str]) -> str:
    select = f"from read_parquet({quoted(shape.path)}, hive_partitioning=false)"
    if any("DOUBLE" in kind for _, kind in columns_of(duck, select)):
        wide = duck.execute(
            f"select distinct name from parquet_schema({quoted(shape.path)}) where precision > 38 order by 1"  # noqa: S608 - of our own parts
        ).fetchall()
        if wide:
            notes.append(f"Decimals of more than 38 digits are rounded in {told_names(name for (name,) in wide)}.")
    return select


# ── Arrow ───────────────────────────────────────────────────────────────────────────────────────────────────


def _arrow(duck: Any, shape: Shape, notes: list[str]) -> str:
    from holdall.sql.arrow_tables import CannotRead, scanned  # noqa: PLC0415 - loaded before rights were given up

    try:
        return scanned(duck, int(shape.path.rpartition("/")[2]), notes)
    except CannotRead as problem:
        raise Refused("source", str(problem), table=shape.tables[0]) from None


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────


_ODD_VALUE = "CSV Error: not all values of a column are of its type"
_REAL = r"-?(?:(?:0|[1-9]\d{0,17})(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_USUAL = {"DATE": "dates", "TIMESTAMP": "times", "TIMESTAMPTZ": "times"}
_IS = {
    "DOUBLE": f"regexp_full_match(trim({{0}}), '{_REAL}')",
    "BOOLEAN": "lower({0}) in ('true', 'false')",
    "TIMESTAMP": f"regexp_full_match({{0}}, '{_TIME}')",
    "TIMESTAMPTZ": f"regexp_full_match({{0}}, '{_TIME}(?:Z|[+-]\\d\\d(?::?\\d\\d)?)')",
}


def _csv_ways(duck: Any, shape: Shape, known: Known, notes: list[str]) -> Iterator[Way]:
    """With the columns that `formats.columns` has told. Where those come from a sample, each value that is read is
    checked: DuckDB itself takes 12.6 for the whole number 13 and 007 for 7."""
    key = (*shape.identity, "csv")
    columns = known.get(key, shape.columns)
    guessed = not shape.checked and key not in known
    yield Way(partial(_typed, shape, columns), guessed=guessed)
    if guessed:
        yield Way(partial(_as_found, duck, shape, known, key, notes))


def _typed(shape: Shape, columns: Sequence[tuple[str, str]]) -> str:
    if shape.checked:
        return f"from {_read_csv(shape, columns)}"
    values = ", ".join(_checked_value(name, kind) for name, kind in columns)
    return f"select {values} from {_read_csv(shape, [(name, TEXT) for name, _ in columns])}"  # noqa: S608


def _as_found(duck: Any, shape: Shape, known: Known, key: tuple[object, ...], notes: list[str]) -> str:
    """Look at every value once, and make columns with odd ones text."""
    asked = [(name, kind) for name, kind in shape.columns if kind != TEXT]
    odd = [f"count(*) filter (where not {_is_of(name, kind)}), min({_identifier(name)}) filter (where not "
           f"{_is_of(name, kind)})" for name, kind in asked]  # fmt: skip
    read = _read_csv(shape, [(name, TEXT) for name, _ in shape.columns])
    found = duck.execute(f"select {', '.join(odd) or '1'} from {read}").fetchone()  # noqa: S608 - of our own parts
    strays = {name: (found[2 * at], found[2 * at + 1]) for at, (name, _) in enumerate(asked) if found[2 * at]}
    for name, (times, value) in list(strays.items())[:1]:
        values = plural(times, "value") + (" is" if times == 1 else " are")
        notes.append(f"{foreign(name)} is text: {values} not of its usual type, such as {foreign(value)}.")
    if more := list(strays)[1:]:
        told = [name for name in foreign_names(more)[:10] if name.isidentifier()]
        named = f": {', '.join(map(foreign, told))}" if told else ""
        notes.append(f"So {'is' if len(more) == 1 else 'are'} {plural(len(more), 'further column')}{named}.")
    known[key] = [(name, TEXT if name in strays else kind) for name, kind in shape.columns]
    return _typed(shape, known[key])


def _checked_value(name: str, kind: str) -> str:
    column = _identifier(name)
    if kind == TEXT:
        return column
    return (
        f"case when {column} is null then null when {_is_of(name, kind)} then cast({column} as {kind}) "
        f"else cast(error({quoted(_ODD_VALUE)} || left({column}, 0)) as {kind}) end as {column}"
    )


def _is_of(name: str, kind: str) -> str:
    column = _identifier(name)
    if kind in _IS:
        return _IS[kind].replace("{0}", column)
    return f"coalesce(cast(try_cast({column} as {kind}) as varchar) = trim({column}), false)"  # as it is written


def _read_csv(shape: Shape, columns: Sequence[tuple[str, str]]) -> str:
    # Left to itself DuckDB leaves out lines that it takes for comments or for a preface; not strict, it leaves out what
    # is behind a quote or past the last column.
    listed = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns)
    ends = ", new_line='\\n'" * shape.rewritten
    return (
        f"read_csv({quoted(shape.path)}, columns={{{listed}}}, delim={quoted(shape.delimiter)}, quote='\"', "
        f"escape='\"', header={str(shape.header).lower()}, auto_detect=false, comment='', skip=0, "
        f"max_line_size={max(_MIN_LINE, 2 * shape.longest_line)}, strict_mode=true{ends})"
    )


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


def _json_ways(duck: Any, shape: Shape, known: Known, notes: list[str]) -> Iterator[Way]:
    if shape.size > _WHOLE_SAMPLE and (*shape.identity, shape.form, -1) not in known:
        yield Way(partial(_with_known_columns, duck, shape, SAMPLE, known, notes), sampled=True)
    yield Way(partial(_with_known_columns, duck, shape, -1, known, notes))
    yield Way(partial(_numbers, duck, shape, known, notes), whole_values=True, odd_numbers=True)
    yield Way(
        partial(_one_column, shape),
        "Here t has the one column value, of type JSON: value->>'$.name' is a member as text, value->'$.items' a "
        "part as JSON.",
        whole_values=True,
    )
    values = f"select *, value as json from ({_one_column(shape)})"  # noqa: S608 - of our own parts
    yield Way(partial(members_select, duck, values, VALUE, notes), NOTE, members=True)


def _read_json(shape: Shape, sample: int, more: str = "") -> str:
    return (
        f"read_json({quoted(shape.path)}, format='{_FORMATS[shape.form]}', sample_size={sample}, "
        "dateformat='iso', timestampformat='iso', "
        f"maximum_object_size={max(_MIN_OBJECT, shape.object_size)}{more})"
    )


def _with_known_columns(duck: Any, shape: Shape, sample: int, known: Known, notes: list[str]) -> str:
    """Columns written out are not looked for again by every statement over t."""
    key = (*shape.identity, shape.form, sample)
    columns, rounded = known.get(key), known.setdefault((*key, "rounded"), [])
    if columns is None:
        columns = columns_of(duck, f"from {_read_json(shape, sample)}")
    more = ", records=false" if _is_one_value(duck, shape, sample, columns) else ""
    if _has_nameless(shape, columns):
        return _one_column(shape)
    if not more and _has_renamed(columns):
        known[key] = columns
        notes.append("Names that differ only in case are told apart by a number: see describe t.")
        values = f"select value as json from ({_one_column(shape)})"  # noqa: S608 - of our own parts
        return members_select(duck, values, "", notes)
    if key not in known:
        known[key] = columns = _exact(duck, shape, sample, columns, rounded, more)
    if rounded:
        notes.append(_columns_note(_rounded, (VALUE if more else name for name, _ in rounded)))
    untyped = [name for name, kind in columns if len(kind) > _LONGEST_TYPE]
    if untyped:
        notes.append(_columns_note(_untyped, untyped))
    listed = ", ".join(f"{quoted(name)}: {quoted(_bounded_type(kind))}" for name, kind in columns)
    select = f"from {_read_json(shape, sample, f', columns={{{listed}}}{more}')}"
    return f"{select} select json as {VALUE}" if more else select


class _ColumnsNote(str):
    """It matters to those who read one of these columns; `words` writes it for some of them."""

    __slots__ = ("names", "words")
    names: tuple[str, ...]
    words: Callable[[Sequence[str]], str]


def _columns_note(words: Callable[[Sequence[str]], str], names: Iterable[str]) -> _ColumnsNote:
    names = tuple(names)
    note = _ColumnsNote(words(names))
    note.names, note.words = names, words
    return note


def _rounded(names: Sequence[str]) -> str:
    return f"Whole numbers of 16 digits or more may be rounded in {told_names(names)}."


def _untyped(names: Sequence[str]) -> str:
    return (
        f"Too varied to be typed, so of type JSON: {told_names(names)}. "
        "Reach in with column->'$.name' and ->>, or make a table of it with at."
    )


_DATE = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-\d\d-\d\d"  # the year 0000 is 1 BC for DuckDB

# What is tested is the text of a value. A DOUBLE holds all whole numbers of 15 digits, and not all of 16; HUGEINT those
# of 38.


def _is_rounded(text: str) -> str:
    """A whole number that no DOUBLE is, or that is one only because it is so long."""
    return (  # the cheap questions first: most numbers are short or have a point
        f"case when length({text}) >= 16 and not contains({text}, '.') then regexp_full_match({text}, '-?\\d{{16,}}') "
        f"and (length({text}) > 20 or try_cast(try_cast({text} as double) as hugeint) is distinct from "
        f"try_cast({text} as hugeint)) end"
    )


def _is_broken(text: str) -> str:
    """A number that no HUGEINT is."""
    return f"not regexp_full_match({text}, '-?\\d{{1,38}}')"


def _is_no_date(text: str, quote: str = "") -> str:
    """DuckDB takes "infinity", "epoch", "2024-1-5" and " 2024-01-05" for dates, and makes others of them."""
    return f"not regexp_full_match({text}, '{quote}{_DATE}{quote}')"


def _exact(duck: Any, shape: Shape, sample: int, columns: Columns, rounded: Columns, more: str) -> Columns:
    """With types that leave each value what it is, also inside of others: a date only where all are written as one.

    DuckDB takes whole numbers of more than 20 digits for DOUBLE, and ids that differ become one: HUGEINT holds them.
    Where others are among them, the column goes to `rounded`.
    """
    kinds = {name: duck.type(kind) for name, kind in columns if len(kind) <= _LONGEST_TYPE and _CHANGED.search(kind)}
    leaves = {name: list(_leaves(kind, _identifier(name))) for name, kind in kinds.items()}
    tests: dict[str, tuple[Test, ...]] = {"DATE": (_is_no_date,)}
    has_doubles = any(leaf.kind == "DOUBLE" for each in leaves.values() for leaf in each)
    if has_doubles and (sample != -1 or _has_long_number(shape)):
        tests["DOUBLE"] = (_is_rounded, _is_broken)
    asked = [leaf.holds(test) for each in leaves.values() for leaf in each for test in tests.get(leaf.kind, ())]
    read_as = _READ_AS | dict.fromkeys(tests, TEXT)
    typed = ", ".join(
        f"{quoted(name)}: {quoted(_retyped(kinds[name], (read_as.get(leaf.kind, leaf.kind) for leaf in each)))}"
        for name, each in leaves.items()
        if any(leaf.kind in tests for leaf in each)
    )
    hold = set[str]()
    if asked:
        rows = f"from {_read_json(shape, sample, f', columns={{{typed}}}{more}')}" + f" limit {SAMPLE}" * (sample != -1)
        wanted = ", ".join(f"bool_or({test})" for test in asked)
        found = duck.execute(f"select {wanted} from ({rows})").fetchone()  # noqa: S608 - of our own parts
        hold.update(test for test, holds in zip(asked, found, strict=True) if holds)
    made = dict[str, str]()
    for name, each in leaves.items():
        ends = [_exact_leaf(leaf, hold) for leaf in each]
        if ends != [leaf.kind for leaf in each]:
            made[name] = _retyped(kinds[name], iter(ends))
        if any(end == "DOUBLE" and leaf.holds(_is_rounded) in hold for leaf, end in zip(each, ends, strict=True)):
            rounded.append((name, "DOUBLE"))
    return [(name, made.get(name, kind)) for name, kind in columns]


def _exact_leaf(leaf: "Leaf", hold: Collection[str]) -> str:
    if leaf.kind == "DATE" and leaf.holds(_is_no_date) in hold:
        return TEXT
    if leaf.kind == "DOUBLE" and leaf.holds(_is_rounded) in hold and leaf.holds(_is_broken) not in hold:
        return "HUGEINT"
    return _READ_AS.get(leaf.kind, leaf.kind)


Test = Callable[[str], str]
"""Makes a condition of an expression."""


@record
class Leaf:
    """A place in a type that is no struct, list or map. `holds` is a condition of the column: that a value there passes
    the test."""

    kind: str
    holds: Callable[[Test], str]


def _leaves(kind: Any, value: str, depth: int = 0) -> Iterator[Leaf]:
    """`kind` is DuckDB's own object; `value` the expression that has it."""
    if kind.id == "struct" and depth < _DEEPEST:
        for name, child in kind.children:
            yield from _leaves(child, f"struct_extract({value}, {quoted(name)})", depth + 1)
    elif kind.id in ("list", "map") and depth < _DEEPEST:
        values, one = value if kind.id == "list" else f"map_values({value})", f"x{depth}"
        for leaf in _leaves(kind.children[-1][1], one, depth + 1):
            yield Leaf(leaf.kind, partial(_in_list, values, one, leaf.holds))
    elif kind.id in ("struct", "list", "map"):
        yield Leaf(_DEEPER, lambda test: test(value))
    else:
        yield Leaf(str(kind), lambda test: test(value))


def _in_list(values: str, one: str, holds: Callable[[Test], str], test: Test) -> str:
    return f"len(list_filter({values}, lambda {one}: coalesce({holds(test)}, false))) > 0"


def _retyped(kind: Any, ends: Iterator[str], depth: int = 0) -> str:
    """The type with these at its leaves."""
    if kind.id == "struct" and depth < _DEEPEST:
        members = [f"{_identifier(name)} {_retyped(child, ends, depth + 1)}" for name, child in kind.children]
        return f"STRUCT({', '.join(members)})"
    if kind.id in ("list", "map") and depth < _DEEPEST:
        inner = _retyped(kind.children[-1][1], ends, depth + 1)
        return f"{inner}[]" if kind.id == "list" else f"MAP(VARCHAR, {inner})"
    return next(ends)


_SEPARATED = bytes.maketrans(b"123456789:,[-\t\n\r", b"000000000       ")


def _has_long_number(shape: Shape) -> bool:
    """Whether a whole number of 16 digits or more may be anywhere: to look at the bytes takes a tenth of the time."""
    descriptor, at, kept = int(shape.path.rpartition("/")[2]), 0, b" "
    while piece := os.pread(descriptor, _SEARCHED_AT_ONCE, at):
        at += len(piece)
        piece = kept + piece.translate(_SEPARATED)
        if b" 0000000000000000" in piece:
            return True
        kept = piece[-16:]
    return False


_MADE_UP = lazy_pattern(r"C\d+(?:_\d+)*")
_NAMELESS = lazy_pattern(rb'""[ \t\r\n]*+:')


def _has_nameless(shape: Shape, columns: Columns) -> bool:
    """DuckDB 1 calls a member without a name C0, and has no value for it."""
    if not any(_MADE_UP.fullmatch(name) for name, _ in columns):
        return False
    descriptor, at, kept = int(shape.path.rpartition("/")[2]), 0, b""
    while piece := os.pread(descriptor, _SEARCHED_AT_ONCE, at):
        at += len(piece)
        if _NAMELESS.search(kept + piece):
            return True
        kept = piece[-100:]
    return False


def _bounded_type(kind: str) -> str:
    """The type, or JSON for one of absurd length; a list stays a list, so that len and unnest mean what they say."""
    if len(kind) <= _LONGEST_TYPE:
        return kind
    return "JSON" + "[]" * ((len(kind) - len(kind.rstrip("[]"))) // 2)


def _one_column(shape: Shape) -> str:
    return (
        f"from read_json_objects({quoted(shape.path)}, format='{_FORMATS[shape.form]}', "
        f"maximum_object_size={max(_MIN_OBJECT, shape.object_size)}) select json as value"
    )


def _numbers(duck: Any, shape: Shape, known: Known, notes: list[str]) -> str:
    """Of records that are numbers, NaN and infinity too: `read_json` takes these inside of a record only. Others, among
    which such are, stay JSON."""
    values, key = f"({_one_column(shape)})", (*shape.identity, shape.form, "numbers")
    if key not in known:
        text = f"{VALUE}::varchar"
        number = f"coalesce(regexp_full_match({text}, '-?(?:\\d.*|Infinity)|NaN|null'), true)"
        tests = f"bool_or({_is_rounded(text)}), bool_or({text} <> 'null' and {_is_broken(text)})"
        asked = f"select bool_and({number}), {tests} from {values}"  # noqa: S608 - our own parts
        are_numbers, some_rounded, some_broken = duck.execute(asked).fetchone()
        kind = "HUGEINT" if some_rounded and not some_broken else "DOUBLE"
        known[key] = [("rounded" if some_rounded else "", kind)] if are_numbers else []
    if not known[key]:
        return _one_column(shape)
    rounded, kind = known[key][0]
    if rounded and kind == "DOUBLE":
        notes.append(_columns_note(_rounded, [VALUE]))
    return f"select nullif({VALUE}::varchar, 'null')::{kind} as {VALUE} from {values}"  # noqa: S608 - our own parts


def _members(shape: Shape) -> str:
    # Members of one object rarely share a type, and a type that fits all of them would hide what each one has.
    typed = ", columns={'key': 'VARCHAR', 'value': 'JSON'}"
    return f"from {_read_json(shape, 1, typed)}"


def _structures(duck: Any, shape: Shape, kinds: Mapping[str, str], limit: str = "") -> list[str]:
    """What all values of each of these columns are, as DuckDB tells it; numbers below zero are not told apart. And
    whether one is changed by the type that its column has."""
    typed = ", ".join(f"{quoted(name)}: 'JSON'" for name in kinds)
    asked = [f"json_group_structure({_identifier(name)})" for name in kinds]
    asked += [f"bool_or({_is_changed(_identifier(name), kind)})" for name, kind in kinds.items()]
    rows = f"from {_read_json(shape, 1, f', columns={{{typed}}}')}{limit}"
    found = duck.execute(f"select {', '.join(asked)} from ({rows})").fetchone()  # noqa: S608 - of our own parts
    return [str(one or False).replace("UBIGINT", "BIGINT") for one in found]


# What the text of a value is where its type surely is the column's, and leaves it as it is.
_PLAIN_VALUES = {
    "BIGINT": "-?\\d{1,18}",
    "DOUBLE": "-?\\d{1,15}(?:[.eE].*)?",
    "BOOLEAN": "true|false",
    "VARCHAR": '"(?s:.*)',
}


def _are_plain(duck: Any, shape: Shape, kinds: Mapping[str, str]) -> bool:
    """Whether all values of these columns are what their types say: two thirds of the time of `_structures`, which
    tells it of the others too."""
    if not kinds.keys() or not set(kinds.values()) <= _PLAIN_VALUES.keys():
        return False
    typed = ", ".join(f"{quoted(name)}: 'JSON'" for name in kinds)
    asked = [
        f"bool_and(regexp_full_match({_identifier(name)}::varchar, {quoted(_PLAIN_VALUES[kind])}))"
        for name, kind in kinds.items()
    ]
    rows = f"from {_read_json(shape, 1, f', columns={{{typed}}}')}"
    return False not in duck.execute(f"select {', '.join(asked)} {rows}").fetchone()


def _is_changed(column: str, kind: str) -> str:
    """By the type `kind`, of which it is by its structure. The column is one of JSON."""
    match kind:
        case "DATE":
            return _is_no_date(f"{column}::varchar", quote='"')
        case "DOUBLE":
            return _is_rounded(f"{column}::varchar")
        case "HUGEINT":
            return _is_broken(f"{column}::varchar")
        case _:
            return "false"


def _is_one_value(duck: Any, shape: Shape, sample: int, columns: Columns) -> bool:
    """DuckDB calls the column `json` where the values are no objects; unless they are, with a member of that name."""
    if [name for name, _ in columns] != ["json"]:
        return False
    try:
        return [name for name, _ in columns_of(duck, f"from {_read_json(shape, sample, ', records=true')}")] != ["json"]
    except Exception:  # whatever DuckDB says to this question: the values are not records
        return True


def _has_renamed(columns: Columns) -> bool:
    """Whether names that differ only in case may have been made different: such columns are found by no name.

    `a_1` beside `a` is a name of its own, `A_1` beside `a` was `A`.
    """
    return bool(_renamed([name for name, _ in columns]))


def _renamed(names: Sequence[str]) -> dict[str, str]:
    """By what they may have been before."""
    folded = {name.casefold() for name in names}
    stems = [(name, stem[1]) for name in names if (stem := _RENAMED.fullmatch(name)) is not None]
    return {stem: name for name, stem in stems if stem not in names and stem.casefold() in folded}


# Whether a piece of SQL is one that only reads the table. Decided on DuckDB's own parse of it, never on its words.
#
# DuckDB counts `with x as (copy … to …) select …` as a SELECT, and the one file that a query may read is one that it
# could write: so every node of the query must be of a kind that reads, every table t or a name of WITH, and every
# function one of a list.


_TEXT_FUNCTIONS = frozenset(
    (
        "~~", "!~~", "~~*", "!~~*", "~~~", "starts_with", "ends_with", "prefix", "suffix", "lower", "upper", "replace",
        "regexp_matches", "regexp_full_match", "regexp_extract", "substring", "substr", "left", "right", "split_part",
        "trim",
    )
)  # fmt: skip
_ORDERING = frozenset({"min", "max", "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "greatest", "least"})
_MORE_OR_LESS = lazy_pattern(r"COMPARE_(?:(?:LESS|GREATER)THAN(?:OREQUALTO)?|(?:NOT_)?BETWEEN)")
_READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_READING_TABLES = frozenset({"SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY", "EMPTY_FROM", "PIVOT", "SHOW_REF"})
_OWN_NAMES = 2  # t, and its handle
_LONGEST_NUMBER = 19  # digits
_OWN = frozenset({("", ""), ("", "main"), ("memory", "main"), ("", "memory")})  # catalog and schema of t
_END = lazy_pattern(r"(?:;|\s|--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)+\Z")
_EXAMPLE = "select count(*) from t"
_ONLY = "only one SELECT is run (also WITH, FROM, VALUES, DESCRIBE t or SUMMARIZE t)"


class NotOneSelect(Exception):
    """The message says what it is instead."""


class NoSuchTable(NotOneSelect):
    """Somebody who looks for another table is helped by the columns of the one that there is."""


@record
class Uses:
    """Names of columns, in lower case, by what a statement does with them: compares them with text, unnests them,
    reaches into them as JSON, puts them in order. And whether it takes whatever columns there are."""

    as_text: set[str] = field(default_factory=set[str])
    as_list: set[str] = field(default_factory=set[str])
    as_json: set[str] = field(default_factory=set[str])
    ordered: set[str] = field(default_factory=set[str])
    names: set[str] = field(default_factory=set[str])  # of all columns, as they are spelled
    whole_rows: bool = False
    describes: bool = False  # DESCRIBE tells types, and reads no value
    types: bool = False  # typeof() does as well, but its answer is about every value


def uses_of(duck: Any, statement: str) -> Uses:
    nodes = [node for node, _ in _objects(json.loads(_parsed(duck, statement)))]
    describes = any(node.get("type") == "SHOW_REF" and node.get("show_type") == "DESCRIBE" for node in nodes)
    types = any(str(node.get("function_name", "")).casefold() in ("typeof", "pg_typeof") for node in nodes)
    found = Uses(whole_rows=_takes_whole_rows(nodes), describes=describes, types=types)
    for node in nodes:
        if node.get("class") == "COLUMN_REF":
            found.names.update(map(str, node["column_names"]))
        found.names.update(map(str, node.get("using_columns") or ()))
        named, kind = str(node.get("function_name", "")).casefold(), str(node.get("type", ""))
        parts = list(_operands(node))
        columns = _columns_among(parts)
        if named in _ORDERING or _MORE_OR_LESS.fullmatch(kind):
            found.ordered.update(columns)
        found.ordered.update(_columns_among(_sorted_by(node)))
        is_compared = kind.startswith("COMPARE_") and (len(columns) > 1 or any(map(_is_text, parts)))
        if is_compared or named in _TEXT_FUNCTIONS:
            found.as_text.update(columns)
        elif named in ("unnest", "unlist"):
            found.as_list.update(columns)
        elif named.startswith(("json", "->", "array_extract")):
            found.as_json.update(columns)
    return found


def _columns_among(parts: Iterable[dict[str, Any]]) -> set[str]:
    return {str(part["column_names"][-1]).casefold() for part in parts if part.get("class") == "COLUMN_REF"}


def _sorted_by(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What ORDER BY names, also by its place in the SELECT."""
    if "null_order" in node:
        yield node["expression"]
    chosen: list[dict[str, Any]] = node.get("select_list") or []
    for modifier in node.get("modifiers") or () if chosen else ():
        for one in modifier.get("orders") or ():
            number = _whole_number(one["expression"]) or 0
            yield from chosen[number - 1 : number] if number else ()


_TAKES_NO_OFFSET = lazy_pattern(r"(?i)\s*+(?:describe|desc|summarize|show)\b")


def limits_of(duck: Any, statement: str) -> tuple[int | None, int | None]:
    """The OFFSET that it ends with, 0 for none and None for one that is no plain number, and the LIMIT."""
    node: dict[str, Any] = json.loads(_parsed(duck, statement))["statements"][0]["node"]
    if _TAKES_NO_OFFSET.match(statement):
        return None, None
    found = [one for one in node.get("modifiers") or () if str(one.get("type", "")).startswith("LIMIT")]
    if not found:
        return 0, None
    parts = [found[-1].get("offset"), found[-1].get("limit")]
    numbers = [_whole_number(part) for part in parts]
    is_plain = len(found) == 1 and found[0].get("type") == "LIMIT_MODIFIER"
    is_plain = is_plain and found[0].get("limit_type", "ROW_COUNT") == "ROW_COUNT"
    if not is_plain or any(part is not None and number is None for part, number in zip(parts, numbers, strict=True)):
        return None, None
    return numbers[0] or 0, numbers[1]


def _whole_number(part: dict[str, Any] | None) -> int | None:
    literal: dict[str, Any] = (part or {}).get("literal") or {}
    value: dict[str, Any] = (part or {}).get("value") or {}  # of DuckDB 1
    text = str(literal.get("text", value.get("value", "")))
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _LONGEST_NUMBER else None


def _takes_whole_rows(nodes: Sequence[dict[str, Any]]) -> bool:
    """By `*`, which FROM, DESCRIBE and PIVOT have too, by a table in place of a column, or by names that two share."""
    tables = {
        str(node.get(key, "")).casefold() for node in nodes if "table_name" in node for key in ("table_name", "alias")
    }
    return any(
        node.get("class") == "STAR"
        or node.get("ref_type") == "NATURAL"
        or (node.get("class") == "COLUMN_REF" and str(node["column_names"][-1]).casefold() in tables)
        for node in nodes
    )


def _operands(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The expressions that a comparison or a function is about."""
    for key in ("left", "right", "input", "lower", "upper", "child", "children", "arguments"):
        value = node.get(key)
        for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                part = cast("dict[str, Any]", one)
                yield part.get("expression") or part  # as DuckDB 2 has arguments


def _is_text(part: dict[str, Any]) -> bool:
    literal: dict[str, Any] = part.get("literal") or {}
    value: dict[str, Any] = part.get("value") or {}  # of DuckDB 1
    kind: dict[str, Any] = value.get("type") or {}
    return literal.get("kind") == "STRING" or kind.get("id") == "VARCHAR"


def one_select(duck: Any, sql: str, tables: Sequence[str] = ("t",)) -> str:
    """The statement without what is after it. Raises NotOneSelect, or DuckDB's error where it does not parse."""
    statements = duck.extract_statements(sql)
    if not statements:
        raise NotOneSelect(f"the SQL is empty; {_ONLY}, for example: {_EXAMPLE}")
    if len(statements) > 1:
        raise NotOneSelect(f"{_ONLY}; these are {len(statements)} statements")
    kind: str = statements[0].type.name
    if kind == "MULTI":
        raise NotOneSelect("PIVOT needs its values here: pivot t on x in ('a', 'b') using count(*)")
    if kind != "SELECT":
        raise NotOneSelect(f"{_ONLY}; this is {kind}")
    statement: str = statements[0].query
    tree = _parsed(duck, statement)
    # Both: DuckDB 1 has a SELECT in place of a PRAGMA here, and only what was written shows it.
    for parsed in (json.loads(_parsed(duck, sql)), json.loads(tree)):
        if parsed.get("error", True):
            raise NotOneSelect(f"{_ONLY}; {foreign(parsed.get('error_message', 'this is something else'), 200)}")
        for node, scope in _objects(parsed):
            _check(node, scope, tables)
    # What looks like the end may be the inside of a text in quotes: cut only where the meaning stays.
    shorter = _END.sub("", statement)
    return shorter if _parsed(duck, shorter) == tree else statement


@lru_cache(maxsize=4)  # the same statement is looked at five times
def _parsed(duck: Any, statement: str) -> str:
    return duck.execute("select json_serialize_sql(?)", [statement]).fetchone()[0]


def _check(node: dict[str, Any], scope: frozenset[str], tables: Sequence[str]) -> None:
    """`scope`: the names that WITH has given to tables here; `tables`: those of the outputs."""
    kind, function = node.get("type"), node.get("function_name")
    if isinstance(kind, str) and kind.endswith("_NODE"):
        if kind not in _READING_NODES:
            raise NotOneSelect(f"{_ONLY}; a part of this is {kind.removesuffix('_NODE').removesuffix('_QUERY')}")
    elif isinstance(kind, str) and "sample" in node and "class" not in node:
        _check_table(node, kind, scope, tables)
    if isinstance(function, str) and (name := function.casefold()) not in FUNCTIONS and name not in TABLE_FUNCTIONS:
        near = difflib.get_close_matches(name, FUNCTIONS, cutoff=0.8)
        hint = f"near it: {', '.join(near)}" if near else "the table is t"
        raise NotOneSelect(f"the function {foreign(function)} is not available here; {hint}")


def _check_table(node: dict[str, Any], kind: str, scope: frozenset[str], tables: Sequence[str]) -> None:
    name = str(node.get("table_name", ""))
    if kind == "TABLE_FUNCTION":
        name = str(cast("dict[str, Any]", node.get("function") or {}).get("function_name", ""))
        if name.casefold() not in TABLE_FUNCTIONS:
            raise NotOneSelect(f"the function {foreign(name)} is not available in FROM; the table is t")
    elif kind == "BASE_TABLE" or node.get("show_type") == "SHOW":
        place = (str(node.get("catalog_name", "")).casefold(), str(node.get("schema_name", "")).casefold())
        is_own = name.casefold() in map(str.casefold, tables) and place in _OWN
        if not is_own and not (name.casefold() in scope and place in (("", ""), ("", "recurring"))):
            known = (
                "the table is t"
                if len(tables) <= _OWN_NAMES
                else f"the tables are {', '.join(map(foreign, foreign_names(tables)))}"
            )
            raise NoSuchTable(f"there is no table {foreign(name)} here; {known}")
    elif kind not in _READING_TABLES or (kind == "SHOW_REF" and not node.get("query")):  # SHOW of the catalog
        raise NotOneSelect(f"{_ONLY}; a part of this is {kind}")


def _objects(parsed: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Every object in it and the names of WITH that hold there, without recursion: SQL nests as deep as it likes.

    A table of WITH is known in those after it and in the query behind them; in itself only where it is recursive. What
    it is called may also be the name of a system table, so this is exact.
    """
    waiting: list[tuple[Any, frozenset[str]]] = [(parsed, frozenset())]
    while waiting:
        value, scope = waiting.pop()
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            named: list[dict[str, Any]] = members["cte_map"]["map"] if members.get("cte_map") else []
            for one in named:
                name = str(one["key"]).casefold()
                waiting.append((one["value"], scope | {name} if _is_recursive(one["value"]) else scope))
                scope |= {name}
            yield members, scope
            waiting.extend((member, scope) for key, member in members.items() if key != "cte_map")
        elif isinstance(value, list):
            waiting.extend((one, scope) for one in cast("list[Any]", value))


def _is_recursive(defined: dict[str, Any]) -> bool:
    older: dict[str, Any] = defined.get("query") or {}  # of DuckDB 1
    query: dict[str, Any] = defined.get("query_node") or older.get("node") or {}
    return query.get("type") == "RECURSIVE_CTE_NODE"


# One query against one output or several, inside the process that runs SQL: check it, make the tables, fetch its first
# rows, count.
#
# Ways to read the output are tried in order; which one it was is told in the notes. Every fault of DuckDB leaves as
# Refused, told for the one who wrote the SQL.


_CAST = lazy_pattern(r"when casting from source column (\w+)")
_NO_NUMBER = lazy_pattern(r"Could not convert string")
# What DuckDB says where an object or a list is taken for a text.
_NOT_TEXT = lazy_pattern(
    r"can't be cast to the destination type|Could not convert string|Cannot compare values"
    r"|No function matches the given name and argument types '[^']*(?:STRUCT|MAP|\[\])"
)
_NESTED_MEMBER = lazy_pattern(r"[A-Za-z_]\w{0,39}")
_WORDS = lazy_pattern(r'"((?:[^"]|"")+)"|(\w+)')
_COLUMNS_TOLD = 40
_TABLES_TOLD = 5
_TYPE_TOLD = 60  # characters


class Refused(Exception):
    """`blamed` tells whose fault it is; `columns` those of the tables, where knowing them may help; `missing` one that
    they lack; `table` the one that cannot be read."""

    def __init__(self, blamed: Blame, message: str, columns: str = "", missing: str = "", table: str = "t") -> None:
        self.blamed: Blame = blamed
        self.columns = columns
        self.missing = missing
        self.table = table
        super().__init__(message)


class Table:
    """One output as a table: the ways to read it, which one is tried, and what the SQL needs of it."""

    def __init__(self, duck: Any, shape: Shape, descriptor: int, known: Known, fault: type[Exception]) -> None:
        self.name = shape.tables[0]
        self.path = shape.path
        self.notes: list[str] = []
        self.uses = Uses()
        self.reason = ""  # why the output could not be read as it was first taken for
        self._duck = duck
        self._shape = shape
        self._descriptor = descriptor
        self._fault = fault
        self._known = known
        self._too_small = False  # the limit for one JSON value has been met
        self._needs_whole_values = False  # the SQL names the column that only the last way has
        self._needs_all_columns = False  # the SQL names a member that the sample does not have
        self._is_odd = False  # for no way yet it is JSON
        self._needs_members = False  # the SQL names members, and the table has only whole values or lines
        self._texts: set[str] = set()  # columns that are to be text, in lower case
        self._is_looked_at = False  # all values of its columns are
        self._select = ""
        self._left = self._ways()
        self._way: Way | None = None

    def make(self) -> None:
        """The views. Ways that cannot be made are passed over; raises Refused where none is left."""
        while self._way is None:
            way = next(filter(self._is_called_for, self._left), None)
            if way is None:
                raise Refused("source", self.reason, table=self.name)
            self.notes.clear()
            try:
                self._select = way.select()
                self._create()
            except self._fault as fault:
                if not self._should_go_on(way, fault):
                    raise
            else:
                self._way = way

    def use(self, way: Way) -> None:
        """Read it in this way and no other."""
        self._left = iter((way,))

    def _create(self) -> None:
        select = self._as_used(self._select)
        for name in self._shape.tables:
            self._duck.execute(f"create or replace view {_identifier(name)} as {select}")

    @contextlib.contextmanager
    def first_records(self) -> Generator[None]:
        """Meanwhile it has no others than those by which its types were found."""
        select = self._select
        self._select = f"from ({select}) limit {SAMPLE}"
        self._create()
        try:
            yield
        finally:
            self._select = select
            self._create()

    def turns_to_text(self, name: str) -> bool:
        """Make that column one of text, if it is there and is none."""
        if all(one.casefold() != name or kind == TEXT for one, kind in self.columns()):
            return False
        self._texts.add(name)
        self._create()
        self.notes.append(f"{foreign(name)} is text here, as it is in another table: so they can be compared.")
        return True

    def reads_otherwise(self, fault: Exception) -> bool:
        """Whether another way of reading may help against that fault of a query; `make` then takes it."""
        if self._way is None or not self._should_go_on(self._way, fault):
            return False
        self._way = None
        return True

    @property
    def is_sampled(self) -> bool:
        return self._way is not None and self._way.sampled

    def is_as_sampled(self, used: Collection[str] | None, statement: str) -> bool:
        """Whether the types that the first records have are those of all values in the columns that are used.

        DuckDB makes every value fit its column: 1.5 becomes 2, members of later objects are dropped, and a text where
        all was null before is null. Where they are not, the table is to be made anew, by all records; and where the SQL
        may name a member of later ones that SQL takes for another, because the names differ only in case.
        """
        columns = columns_of(self._duck, self._select)
        if used != () and any(map(self._occurs, _other_spellings(columns, statement))):
            self._needs_all_columns, self._way = True, None
            return False
        kinds = {name: kind for name, kind in columns if kind != "JSON" and (used is None or name in used)}
        key = (*self._shape.identity, self._shape.form, "compared")
        compared = [same for one, same in self._known.items() if one[: len(key)] == key]
        wanted = kinds.keys() - {name for same in compared for name, _ in same}
        if not wanted:
            return True
        if self._shape.size > _MOST_COMPARED:
            self.notes.append(
                f"Types come from the first {SAMPLE:,} records: a value of a later one that does not fit is changed "
                f"in {told_names(wanted)}. A path gives values as they are."
            )
            return True
        names = sorted(wanted)
        # What is nested takes as long to compare as to find anew, and columns that were renamed are found by no name.
        if not _has_renamed(columns) and not any(set(kinds[name]) & set("([") for name in names):
            with contextlib.suppress(self._fault):
                asked = {name: kinds[name] for name in names}
                if _are_plain(self._duck, self._shape, asked) or (
                    _structures(self._duck, self._shape, asked, f" limit {SAMPLE}")
                    == _structures(self._duck, self._shape, asked)
                ):
                    self._known[(*key, *names)] = [(name, "") for name in names]
                    return True
        self._needs_all_columns, self._way = True, None
        return False

    def other_name(self) -> tuple[str, str]:
        """A member that the SQL names and that has another name here, for they differ only in case; and that one."""
        if self._shape.form not in _FORMATS:
            return "", ""
        names = [name for name, _ in self.columns()]
        for stem, name in _renamed(names).items():
            if stem in self.uses.names and self._occurs(stem):
                return stem, name
        return "", ""

    def columns(self) -> Columns:
        try:
            return columns_of(self._duck, _identifier(self.name))
        except self._fault:
            return []

    def all_notes(self) -> list[str]:
        notes, way = [note for one in self.notes if (note := self._as_read(one))], self._way
        if way is not None and way.note:
            # That of members is reason enough; DuckDB's words tell of records that cannot be typed, not of what to do.
            notes.append(f"{way.note} ({self.reason})" if self.reason and not way.members else way.note)
        if way is not None and way.sampled and self.uses.whole_rows and self._has_more():
            notes.append(
                f"The columns and types come from the first {SAMPLE:,} records; a member that only later ones have is "
                "found once the SQL names it."
            )
        if self.uses.describes and self._may_have_odd_values() and any(kind != TEXT for _, kind in self._shape.columns):
            notes.append(
                "The types come from a sample; a column with another value elsewhere is text where SQL reads it."
            )
        return notes

    def _as_read(self, note: str) -> str:
        """A note of columns is of those that the SQL reads; empty where it reads none."""
        if not isinstance(note, _ColumnsNote) or self.uses.whole_rows or self.uses.describes:
            return note
        read = {name.casefold() for name in self.uses.names}
        names = [name for name in note.names if name.casefold() in read]
        return note.words(names) if names else ""

    def _has_more(self) -> bool:
        """Than the records that DuckDB looked at: few of them may be many bytes."""
        key = (*self._shape.identity, self._shape.form, "more")
        if key not in self._known:
            records = _read_json(self._shape, 1, ", columns={'json': 'JSON'}")
            try:
                one = self._duck.execute(f"select 1 from {records} limit 1 offset {SAMPLE}").fetchone()  # noqa: S608
                self._known[key] = [] if one is None else [("more", "")]
            except self._fault:
                return True
        return bool(self._known[key])

    def order_notes(self) -> list[str]:
        """That a column which the SQL puts in order is text, though its values look like numbers or dates."""
        if not self.uses.ordered:
            return []
        usual: dict[str, str] = {}
        if self._shape.form in _FORMATS or (self._way is not None and self._way.members):
            texts = {name for name, kind in columns_of(self._duck, self._select) if kind == "JSON"}
        else:
            found = self._known.get((*self._shape.identity, "csv"), self._shape.columns)  # with all values looked at
            usual = {name: kind for name, kind in self._shape.columns if kind != TEXT}
            texts = {name for name, kind in found if kind == TEXT and (name in usual or name in self._shape.nearly)}
        for name in sorted(name for name in texts if name.casefold() in self.uses.ordered)[:1]:
            column = name if _NESTED_MEMBER.fullmatch(name) else _identifier(name)
            if foreign(column) == column:
                what = _USUAL.get(usual.get(name, ""), "numbers")
                kind = "double" if what == "numbers" else usual[name].lower()
                other = f"try_cast({column} as {kind}) has that of {what}"
                return [f"Not all of {column} is {what}, so its order is that of text: {other}."]
        return []

    def _as_used(self, select: str) -> str:
        """JSON that the SQL compares with text is text, and what it unnests is a list."""
        wanted = (self.uses.as_text | self.uses.as_list) - self.uses.as_json
        if not self._texts and (not wanted or self._shape.form in ("csv", "lines")):
            return select
        made: list[str] = []
        for name, kind in columns_of(self._duck, select):
            column = _identifier(name)
            if name.casefold() in self._texts:
                made.append(f"cast({column} as varchar) as {column}")
            elif kind != "JSON" or name.casefold() not in wanted:
                continue
            elif name.casefold() not in self.uses.as_list:
                made.append(f"{column}->>'$' as {column}")
            elif name.casefold() not in self.uses.as_text:
                made.append(
                    f"case when json_type({column}) = 'ARRAY' then cast({column} as json[]) "
                    f"when {column} is not null then [{column}] end as {column}"
                )
        return f"select * replace ({', '.join(made)}) from ({select})" if made else select  # noqa: S608

    def _is_called_for(self, way: Way) -> bool:
        if way.guessed and self.uses.types:
            return False
        if way.odd_numbers or self._is_odd:
            return way.odd_numbers and self._is_odd
        if way.members or self._needs_members:
            return way.members and self._needs_members
        return not (self._needs_all_columns and way.sampled) and (way.whole_values or not self._needs_whole_values)

    def _ways(self) -> Iterator[Way]:
        for way in ways(self._duck, self._shape, self._known, self.notes):
            if self._too_small:
                break
            yield way
        if self._too_small:
            self._shape = replace(self._shape, object_size=self._shape.size + 1024)
            yield from ways(self._duck, self._shape, self._known, self.notes)

    def _should_go_on(self, way: Way, fault: Exception) -> bool:
        name, message = type(fault).__name__, str(fault)
        if blame(name, message, self.path) == "source":
            was_odd, self._is_odd = self._is_odd, is_hopeless(message) and self._shape.form in ("ndjson", "array")
            self.reason = self.reason if was_odd else in_few_words(name, message, self.path)
            self._too_small = is_too_small(message) and not self._too_small
            return not is_hopeless(message) or (self._is_odd and not was_odd)
        if _NO_NUMBER.search(message) and self._may_have_odd_values():
            self._is_looked_at = True
            return True
        missing = missing_name(name, message)
        if missing == VALUE and not way.whole_values and self._shape.form in ("ndjson", "array", "object"):
            self._needs_whole_values = True
            return True
        if not missing or way.members or not (self._occurs(missing) or self._may_be_renamed(missing)):
            return False
        self._needs_members = self._has_no_members()
        self._needs_all_columns = way.sampled
        return self._needs_members or self._needs_all_columns

    def _may_have_odd_values(self) -> bool:
        """Whether a column that has a type by its sample may have texts further on: what the SQL looks for."""
        is_known = (*self._shape.identity, "csv") in self._known
        return self._shape.form == "csv" and not (self._shape.checked or is_known or self._is_looked_at)

    def _has_no_members(self) -> bool:
        """Whether it has whole values or lines instead of the members that objects in it may have."""
        names = [name for name, _ in self.columns()]
        return names == [VALUE] or (names == ["line_no", "text"] and self._shape.records)

    def _may_be_renamed(self, name: str) -> bool:
        """Whether a later member may be called so because it differs from a column only in case: A is A_1 beside a."""
        stem = _RENAMED.fullmatch(name.casefold())
        return stem is not None and stem[1] in {name.casefold() for name, _ in self.columns()}

    def _occurs(self, name: str) -> bool:
        """Whether the output has that name somewhere, in quotes: to look at every record for it takes far longer."""
        if not name:
            return False
        plain, escaped = json.dumps(name, ensure_ascii=False).encode("utf-8", "replace"), _with_escapes(name)
        at, kept = 0, b""
        while piece := os.pread(self._descriptor, _SEARCHED_AT_ONCE, at):
            at += len(piece)
            piece = kept + piece
            if plain in piece or (b"\\" in piece and escaped.search(piece)):
                return True
            kept = piece[-_MOST_ESCAPED * (len(name) + 1) :]
        return False


_MOST_ESCAPED = 12  # bytes for one character


def _with_escapes(name: str) -> re.Pattern[bytes]:
    """The name as JSON may have it: every character may be an escape."""
    return re.compile(f'"{"".join(map(_escaped_or_not, name))}"'.encode("utf-8", "surrogatepass"))


def _escaped_or_not(sign: str) -> str:
    short = re.escape(json.dumps(sign, ensure_ascii=False)[1:-1])
    code = re.escape(f"\\u{ord(sign):04x}" if sign.isascii() else json.dumps(sign)[1:-1])
    also = "|" + re.escape("\\/") if sign == "/" else ""
    return f"(?:{short}|(?i:{code}){also})"


# Where it runs again, to count, these give others.
_RANDOM = lazy_pattern(r"(?i)\b(?:(?:random|uuid\w*|gen_random_uuid|setseed)\s*\(|(?:tablesample|using\s+sample)\b)")


class Query:
    """One SELECT over one or several outputs: the first is t, and each is known by its handle."""

    def __init__(
        self, engine: Any, duck: Any, request: dict[str, Any], descriptors: Sequence[int], known: Known
    ) -> None:
        self._fault: type[Exception] = engine.Error
        self._unknown: type[Exception] = engine.BinderException
        self._duck = duck
        self._max_rows: int | None = request["max_rows"]
        self._max_bytes: int | None = request["max_bytes"]
        self._tables: list[Table] = []
        names: list[str] = []
        flats = [
            given | {"columns": [(name, kind) for name, kind in given.get("columns", ())]}
            for given in request["shapes"]
        ]
        outputs = {name.casefold() for flat in flats for name in flat["tables"]}
        for descriptor, flat in zip(descriptors, flats, strict=True):
            shape = Shape(path=path_of(descriptor), identity=_identity(descriptor), **flat)
            if shape.form == "sqlite":
                taken = (outputs - {name.casefold() for name in shape.tables}) | {name.casefold() for name in names}
                names += self._add_sqlite(shape, descriptor, request["sql"], taken)
                continue
            self._tables.append(Table(duck, shape, descriptor, known, self._fault))
            names += shape.tables
        self._no_table = ""  # why a table that the SQL names is refused
        self._reads: list[Read | None] = []  # how the cells of its answer are read
        self._told_notes: list[str] | None = None
        self.limits: tuple[int | None, int | None] = (0, None)  # its OFFSET and LIMIT
        self._statement = self._checked(request["sql"], names)
        if self._statement:
            uses = uses_of(duck, self._statement)
            self.limits = limits_of(duck, self._statement)
            for table in self._tables:
                table.uses = uses

    def _add_sqlite(self, shape: Shape, descriptor: int, sql: str, taken: Collection[str]) -> Sequence[str]:
        """Its tables under their names, and one of them, or their list, as t. Only those that the SQL may name.

        None takes a name that is `taken` by another output, or by a table of one that stands before it: who made the
        file would answer for that.
        """
        from holdall.sql import sqlite_tables  # noqa: PLC0415 - loaded before the process gave up its rights

        try:
            database = sqlite_tables.open_database(descriptor)
            whole = sqlite_tables.chosen(database, shape.inner)
        except sqlite_tables.CannotRead as problem:
            raise Refused("source", str(problem), table=shape.tables[0]) from None
        own = [name for name in database.names if name.casefold() not in taken]
        asked = {name: (name,) for name in own if _is_named(name, sql)}
        # A table that is called t is t, where that would be the list of tables.
        free = [name for name in shape.tables if whole or name not in map(str.casefold, asked)]
        if not asked or any(_is_named(name, sql) for name in free):
            also = () if whole.casefold() in shape.tables else asked.get(whole, ())
            others = {name: known for name, known in asked.items() if name != whole and name.casefold() not in free}
            asked = {whole: (*free, *also)} | others
        hidden = [name for name in database.names if name.casefold() in taken and _is_named(name, sql)]
        for inner, names in asked.items():
            table = Table(self._duck, replace(shape, tables=names, inner=inner), descriptor, {}, self._fault)
            table.use(Way(partial(self._copied, database, inner, table)))
            table.notes += [
                f"its table {foreign(name)} is another output's name here: query it by itself" for name in hidden[:1]
            ]
            self._tables.append(table)
        return (*shape.tables, *own)

    def _copied(self, database: "Database", inner: str, table: Table) -> str:
        from holdall.sql.sqlite_tables import CannotRead, copied  # noqa: PLC0415 - as above

        try:
            return copied(self._duck, database, inner, table.notes, called=table.name)
        except CannotRead as problem:
            raise Refused("source", str(problem), table=table.name) from None

    def first_rows(self) -> Rows:
        while True:
            try:
                for table in self._tables:
                    table.make()
                if self._no_table:
                    raise Refused("query", self._no_table, self._told())
                for table in self._tables:
                    if (other := table.other_name())[0]:
                        raise Refused("query", _other_name(*other), self._told())
                sampled = [table for table in self._tables if table.is_sampled]
                used = self._used() if sampled else ()
                if not all(table.is_as_sampled(used, self._statement) for table in sampled):
                    continue
                # Before the rows: what is asked for them of DuckDB would end an answer that is still coming.
                self._told_notes = self._notes() if self._max_rows is None else None
                found, self._reads = first_rows(
                    self._duck, self._statement, max_rows=self._max_rows, max_bytes=self._max_bytes
                )
                return found
            except self._fault as problem:
                own = _NAME_OF_DUCKDB.search(str(problem))
                told = f'Binder Error: Referenced column "{own[1]}" not found in FROM clause' if own else ""
                fault = self._unknown(told) if told else problem
                if not self._is_read_otherwise(fault):
                    raise self._refused(fault) from None

    def _used(self) -> Collection[str] | None:
        """The columns of JSON whose values the answer depends on, as DuckDB plans it; None for all of them."""
        if any(table.uses.types for table in self._tables):
            return None  # DuckDB plans a type without a look at values
        told = self._duck.execute(f"explain (format json) {self._statement}").fetchone()[1]
        # DuckDB 1 does not tell in its plan what the limit of UNNEST is.
        most = min((most for most in (self._max_rows, self.limits[1]) if most is not None), default=None)
        operators, names = list[str](), set[str]()
        waiting: list[Any] = json.loads(told)
        while waiting:
            node = waiting.pop()
            waiting += node["children"]
            operators.append(str(node["name"]).strip())
            if operators[-1] == "READ_JSON":
                listed = node["extra_info"].get("Projections")
                if listed is None:
                    return None
                names.update([listed] if isinstance(listed, str) else listed)
            limit = str(node["extra_info"].get("Limit", ""))
            most = min(int(limit), most or SAMPLE + 1) if limit.isdecimal() else most
        known = {name for one in self._tables for name, _ in one.columns()}
        if names - {""} - known:
            return None  # more than names is told
        skips = "offset" in self._statement.casefold()  # DuckDB 1 does not tell it in its plan
        if most is not None and most <= SAMPLE and not skips and self._reads_first_rows(operators, most):
            return ()
        return names

    def _reads_first_rows(self, operators: Sequence[str], most: int) -> bool:
        """Whether the first `most` rows of the answer are made of the first records alone. `operators`: outer first."""
        last = max((at for at, name in enumerate(operators) if name == "UNNEST"), default=-1)
        if not set(operators) - {"UNNEST"} <= _FIRST_ROWS:
            return False
        if last < 0 or _LIMITS & set(operators[last:]):
            return True
        if _LIMITS & set(operators[operators.index("UNNEST") :]):
            return False  # a limit between two of them: how many rows come to it is not told by those of the answer
        # Empty lists give no rows, so it reads on, until there are enough.
        with contextlib.ExitStack() as limited:
            for table in self._tables:
                limited.enter_context(table.first_records())
            return count_rows(self._duck, f"from (\n{self._statement}\n) limit {most}") >= most

    def next_rows(self) -> list[list[Any]]:
        try:
            return next_rows(self._duck, self._reads)
        except self._fault as fault:
            raise self._refused(fault) from None

    @property
    def is_by_chance(self) -> bool:
        return _RANDOM.search(self._statement) is not None

    def count(self) -> int | None:
        """All rows; None where counting them fails, or would count those of another run."""
        if self.is_by_chance:
            return None
        try:
            return count_rows(self._duck, self._statement)
        except self._fault:
            return None

    def notes(self) -> list[str]:
        return self._notes() if self._told_notes is None else self._told_notes

    def _notes(self) -> list[str]:
        found: list[str] = []
        for table in self._tables:
            prefix = "" if len(self._tables) == 1 else f"{table.name}: "
            found += [prefix + note for note in (*table.all_notes(), *table.order_notes())]
        return found

    def _is_read_otherwise(self, fault: Exception) -> bool:
        """One table at a time: the one whose file the fault names, else the first that can be read in another way."""
        message = str(fault)
        named = [table for table in self._tables if table.path in message]
        if any(table.reads_otherwise(fault) for table in named or self._tables):
            return True
        column = _CAST.search(message)
        if column is None or len(self._tables) == 1:
            return False
        turned = [table.turns_to_text(column[1].casefold()) for table in self._tables]
        return any(turned)

    def _checked(self, sql: str, names: Sequence[str]) -> str:
        try:
            return one_select(self._duck, sql, names)
        except NoSuchTable as refused:
            self._no_table = str(refused)
            return ""
        except NotOneSelect as refused:
            raise Refused("query", str(refused)) from None
        except self._fault as fault:
            raise self._refused(fault) from None

    def _refused(self, fault: Exception) -> Refused:
        name, message = type(fault).__name__, str(fault)
        is_binding = name in ("BinderException", "CatalogException")
        columns = [one for table in self._tables for one, _ in table.columns()] if is_binding else []
        table = next((table for table in self._tables if table.path in message), self._tables[0])
        said = in_few_words(name, message, table.path, names=columns)
        blamed = blame(name, message, table.path)
        if blamed == "query" and _NOT_TEXT.search(message) and (nested := self._nested_as_text()):
            said, columns = nested, columns or [VALUE]
        elif blamed == "query" and (hint := hint_for(message)):
            said = f"{said.rstrip('.')}. {hint}"
        if table.reason and blamed == "query":
            said = f"{said.rstrip('.')}. ({table.name} is not what the data look like, because: {table.reason})"
        return Refused(blamed, said, self._told() if columns else "", missing_name(name, message), table.name)

    def _nested_as_text(self) -> str:
        """That a column which the SQL compares with text is an object or a list, and what to write instead."""
        for table in self._tables:
            for name, kind in table.columns():
                column = name if _NESTED_MEMBER.fullmatch(name) else _identifier(name)
                if name.casefold() not in table.uses.as_text or foreign(column) != column:
                    continue
                if kind.startswith("STRUCT(") and not kind.endswith("]"):
                    told = f"an object, not text: write {column}.{self._member_of(table, name)} = 'x'"
                elif kind.startswith("MAP(") and not kind.endswith("]"):
                    told = f"a map, not text: write {column}['key'] = 'x'"
                elif kind.endswith("]") and "(" in kind:
                    told = f"a list, not text: unnest({column}), or name its path in at"
                elif kind.endswith("]"):
                    told = f"a list, not text: write list_contains({column}, 'x')"
                else:
                    continue
                return f"the column {column} is {told}. All of it as text is {column}::json::varchar"
        return ""

    def _member_of(self, table: Table, name: str) -> str:
        """One that can be compared with text, if there is one whose name can be told."""
        select = f"select unnest({_identifier(name)}) from {_identifier(table.name)}"  # noqa: S608 - of our own parts
        members = [(one, kind) for one, kind in columns_of(self._duck, select) if _NESTED_MEMBER.fullmatch(one)]
        texts = [one for one, kind in members if kind == TEXT] or [one for one, _ in members]
        return texts[0] if texts else '"member"'

    def _told(self) -> str:
        columns = [table.columns() for table in self._tables]
        # What may be told of all of them: one table behind the other, their names could be a text of their own.
        shown = set(foreign_names(dict.fromkeys(name for each in columns for name, _ in each)))
        told = [
            f"Columns of {foreign(table.name)}: {_told(each, shown)}"
            for table, each in zip(self._tables, columns, strict=True)
        ]
        return ". ".join(told[:_TABLES_TOLD])


def _other_name(name: str, column: str) -> str:
    told = f"the member {foreign(name)} is the column {foreign(column)} here"
    return f"{told}: in SQL, names that differ only in case are one"


def _is_named(table: str, sql: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(table)}(?!\w)", sql, re.IGNORECASE) is not None


def _other_spellings(columns: Columns, statement: str) -> set[str]:
    """Names in it that are those of columns, but for upper and lower case."""
    names = {name for name, _ in columns}
    folded = {name.casefold() for name in names}
    words = {quoted.replace('""', '"') or word for quoted, word in _WORDS.findall(statement)}
    return {word for word in words - names if word.casefold() in folded}


def _told(columns: Sequence[tuple[str, str]], allowed: Collection[str]) -> str:
    kinds = dict(columns)
    shown = [name for name in kinds if name in allowed][:_COLUMNS_TOLD]
    told = [f"{foreign(name)} {foreign(_short_type(kinds[name]), _TYPE_TOLD)}" for name in shown]
    if left := len(columns) - len(shown):
        told.append(f"… ({left:,} more: DESCRIBE t)")
    return ", ".join(told)


def _short_type(kind: str) -> str:
    """Without the names of members that are no single words: those of many columns could be a text of their own."""
    return f"{kind.partition('(')[0]}(…)" if '"' in kind else kind


def _identity(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


# Asked and answered over the socket that is its standard input: one byte with the descriptors of the data, then frames
# of a length and JSON. A query gets an empty frame when it has arrived, then one with its first rows or its error;
# where rows are left, one more with their number, or, where no number of rows is asked for, a frame for each further
# batch before that. It writes no file, prints nothing, and opens nothing but those
# descriptors.
#
# A query runs in a fork of this process: what it gave up and what it took is gone with it, and DuckDB is loaded once.


LENGTH_BYTES = 4  # that tell the length of a frame
_FORKS = sys.platform == "linux"  # elsewhere there is nothing that a fork could give up, and it is less safe


def main() -> None:
    connection = socket.socket(fileno=0)
    guard()
    if not _FORKS:
        guard_query(connection.fileno(), (), 0)
    engine: Any = None
    ready: Any = None
    known: Known = {}
    while descriptors := _receive_descriptors(connection):
        try:
            request = json.loads(_receive(connection))
            _send(connection, {})  # from here on, what goes wrong is the query's doing
            if engine is None:
                engine = load_engine()
                ready = _ready_database(engine)
            if "pdf" in request:
                importlib.import_module("holdall.sql.pdf").prepare()
            for form in {one["form"] for one in request.get("shapes", ())} & {"sqlite", "arrow"}:
                importlib.import_module(f"holdall.sql.{form}_tables").prepare(engine)
            serve = _fork if _FORKS else _serve
            serve(connection, engine, ready, request, descriptors, known)
        except ImportError as missing:
            _send(connection, {"error": "missing", "message": str(missing)})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _fork(
    connection: socket.socket,
    engine: Any,
    ready: Any,
    request: dict[str, Any],
    descriptors: Sequence[int],
    known: Known,
) -> None:
    """Serve the query in a process of its own, and learn from it which columns it found. It ends as that one ends."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            guard_query(connection.fileno(), descriptors, request["memory_bytes"])
            before = set(known)
            _serve(connection, engine, ready, request, descriptors, known)
            with os.fdopen(writing, "w") as pipe:
                json.dump([[key, columns] for key, columns in known.items() if key not in before], pipe)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    if code:
        os._exit(1)
    if len(known) > _MOST_KNOWN:
        known.clear()
    known.update({tuple(key): [(name, kind) for name, kind in columns] for key, columns in json.loads(told)})


def _serve(
    connection: socket.socket,
    engine: Any,
    ready: Any,
    request: dict[str, Any],
    descriptors: Sequence[int],
    known: Known,
) -> None:
    if "pdf" in request:
        _send(connection, importlib.import_module("holdall.sql.pdf").extracted(request, descriptors[0]))
        return
    # A connection of its own: its random numbers begin anew, where those of a copy would be the same in every query.
    duck = _new_database(engine) if ready is None else _settled(engine, ready.cursor())
    _confine(duck, request["memory_bytes"], *map(path_of, descriptors))
    try:
        query = Query(engine, duck, request, descriptors, known)
        found = query.first_rows()
        total = None if found.more else len(found.rows)
        offset, limit = query.limits
        told = {"total": total, "notes": query.notes(), "offset": offset, "limit": limit}
        _send(connection, {**asdict(found), **told})
        if found.more and request["max_rows"] is None:
            total = len(found.rows)
            while rows := query.next_rows():
                total += len(rows)
                _send(connection, {"rows": rows})
            _send(connection, {"total": total})
        elif found.more:
            _send(connection, {"total": query.count(), "by_chance": query.is_by_chance})
    except Refused as refused:
        told = {"columns": refused.columns, "missing": refused.missing, "table": refused.table}
        _send(connection, {"error": refused.blamed, "message": str(refused), **told})
    except MemoryError:
        _send(connection, {"error": "memory", "message": "", "columns": ""})
    finally:
        if not _FORKS:  # else the end of the process is faster
            duck.close()


def _ready_database(engine: Any) -> Any:
    """One that is used once: what is read and imported then, a query cannot read any more.

    Each query has a copy of it by the fork: to make one takes longer than most queries. None where there are no forks,
    and where it has threads, which would not be in the copy: then each query makes its own.
    """
    before = _threads()
    duck = _new_database(engine)
    duck.execute("select ?, 1, 1.5::double, true, [1], {'a': 1}, map {'a': 1}", ["x"]).fetchmany(1)
    if _FORKS and _threads() == before:
        return duck
    duck.close()
    return None


def _threads() -> int:
    return len(os.listdir("/proc/self/task")) if _FORKS else 0


def load_engine() -> Any:
    try:
        # The compiled module alone: the Python layer around it takes 0.2 s to import, and nothing of it is used here.
        return importlib.import_module("_duckdb")
    except ImportError:
        return importlib.import_module("duckdb")


def path_of(descriptor: int) -> str:
    return f"/dev/fd/{descriptor}"


_CONFIG: dict[str, Any] = {
    "threads": 1,  # and none that are its own
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}


def _new_database(engine: Any) -> Any:
    """An empty one without threads of its own."""
    try:
        duck = engine.connect(config=_CONFIG | {"async_threads": 0})
    except engine.Error:  # before 2.0 there are none
        duck = engine.connect(config=_CONFIG)
    for name in _NAMES_OF_DUCKDB:
        duck.execute(f"create macro {_identifier(name)}(missing) as missing")
    return _settled(engine, duck)


def _settled(engine: Any, duck: Any) -> Any:
    with contextlib.suppress(engine.Error):  # other versions may not know it, and not need it
        # It moves a cast into the reader, where try_cast fails on the first value that it should turn into null.
        duck.execute("set disabled_optimizers='type_pushdown'")
    duck.execute("set timezone='UTC'")
    return duck


# Of a column that is called so and that no table has, DuckDB would say something of its own: its user, its schema. In
# place of that it finds these, which want an argument, and says so.
_NAMES_OF_DUCKDB = ("user", "current_user", "session_user", "current_role", "current_catalog", "current_schema")
_NAME_OF_DUCKDB = lazy_pattern(rf"\ABinder Error: Macro [^\n]*?\b({'|'.join(_NAMES_OF_DUCKDB)})\b")


def _confine(duck: Any, memory_bytes: int, *paths: str) -> None:
    """From here on it can read `paths` and do nothing else."""
    duck.execute(f"set memory_limit='{memory_bytes}B'")
    duck.execute("set threads=2")
    duck.execute(f"set allowed_paths=[{', '.join(map(quoted, paths))}]")
    duck.execute("set enable_external_access=false")
    duck.execute("set lock_configuration=true")


def _receive_descriptors(connection: socket.socket) -> list[int]:
    """Those of the next query's data; none when the parent has gone."""
    return socket.recv_fds(connection, 1, MOST_TABLES)[1]


def _receive(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, LENGTH_BYTES), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            os._exit(0)  # the parent ended in the middle of a message
        received += piece
    return bytes(received)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")
    connection.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)
