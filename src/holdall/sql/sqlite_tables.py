"""A SQLite file as tables of DuckDB: opened only inside of the process that runs SQL, after it gave up its rights.

The file is in memory and nothing can be written; what its schema says is not trusted. Only tables that a query names
are copied, each column with the one type that all its values have, or as text.
"""

import mmap
import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from holdall.text.escape import foreign, told_names
from holdall.values.record import record

MOST_TABLES, MOST_COLUMNS = 1000, 1000
_ROWS = 5000  # that are copied at once
_WAL = (18, 20)  # bytes of the header that say that changes may be in a second file
_LONGEST = 64 * 1024 * 1024  # bytes of one value
_TYPES = {"integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR", "blob": "BLOB"}
_LISTED = (
    "select type, name, sql from sqlite_schema "
    "where type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
)


class CannotRead(Exception):
    """The file is no database, or a damaged one."""


@record
class Database:
    """`names` are those of its tables and views."""

    connection: sqlite3.Connection
    names: tuple[str, ...]
    has_log: bool  # changes may be in a second file, which is not here


def prepare(engine: Any) -> None:
    """What DuckDB imports to take values from Python, it must have imported before this process gives up its rights."""
    duck = engine.connect()
    _copy(duck, "x", [("x", "VARCHAR")], sqlite3.connect(":memory:").execute("select 'x' union select null"))
    duck.close()


def open_database(descriptor: int) -> Database:
    """Raises CannotRead."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = _text
    try:
        with mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ) as pages:
            data: Any = pages
            if has_log := pages[slice(*_WAL)] == b"\2\2":
                data = bytearray(pages)
                data[slice(*_WAL)] = b"\1\1"
            connection.deserialize(data)
        for limit, most in ((sqlite3.SQLITE_LIMIT_ATTACHED, 0), (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)):
            connection.setlimit(limit, most)
        for setting in ("trusted_schema=off", "cell_size_check=on", "query_only=on", "temp_store=memory"):
            connection.execute(f"pragma {setting}")
        found = connection.execute(f"{_LISTED} limit {MOST_TABLES}").fetchall()
    except (sqlite3.Error, ValueError) as problem:
        raise CannotRead(foreign(str(problem))) from None
    return Database(connection, tuple(str(name) for _, name, _ in found), has_log)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def chosen(database: Database, at: str) -> str:
    """The table that is t: the one that was asked for, or the only one; empty for the list of tables."""
    if at:
        found = [name for name in database.names if name.casefold() == at.casefold()]
        if not found:
            shown = told_names(database.names, 20)
            raise CannotRead(f"at names a table of it; there is no {foreign(at)}. Its tables: {shown}")
        return found[0]
    return database.names[0] if len(database.names) == 1 else ""


def copied(duck: Any, database: Database, name: str, notes: list[str], *, called: str) -> str:
    """The SELECT over a copy of that table, or of the list of tables where there is no name. Raises CannotRead.

    `called` is what SQL calls it: another file may have a table of the same name.
    """
    if database.has_log:
        notes.append("Its last changes may be in a second file, its -wal, which is not here.")
    try:
        if not name:
            notes.append("t is the list of its tables: query them by their names, or name one in at.")
            return _copy(duck, f"sqlite {called}", [("type", "VARCHAR"), ("name", "VARCHAR"), ("sql", "VARCHAR")],
                         database.connection.execute(_LISTED))  # fmt: skip
        return _table(duck, database.connection, name, notes, called)
    except sqlite3.Error as problem:
        raise CannotRead(f"its table {foreign(name)} cannot be read: {foreign(str(problem))}") from None


def _table(duck: Any, connection: sqlite3.Connection, name: str, notes: list[str], called: str) -> str:
    table = _quoted(name)
    columns = [str(row[0]) for row in connection.execute(f"select * from {table} limit 0").description]  # noqa: S608
    if len(columns) > MOST_COLUMNS:
        notes.append(f"Only its first {MOST_COLUMNS:,} columns are in the table.")
        columns = columns[:MOST_COLUMNS]
    kinds = connection.execute(
        f"select {', '.join(f'group_concat(distinct typeof({_quoted(one)}))' for one in columns)} from {table}"  # noqa: S608
    ).fetchone()
    typed, read, mixed = list[tuple[str, str]](), list[str](), list[str]()
    for column, found in zip(columns, kinds, strict=True):
        types = set((found or "").split(",")) - {"null", ""}
        kind = _TYPES[types.pop()] if len(types) == 1 else "DOUBLE" if types == {"integer", "real"} else "VARCHAR"
        if kind == "VARCHAR" and len(types) > 1:
            mixed.append(column)
        typed.append((column, kind))
        own = _quoted(column)
        as_text = f"case typeof({own}) when 'blob' then hex({own}) else cast({own} as text) end"
        read.append(as_text if column in mixed else own)
    if mixed:
        shown = told_names(mixed)
        notes.append(f"Columns with values of several types are text (blobs as hex): {shown}.")
    rows = connection.execute(f"select {', '.join(read)} from {table}")  # noqa: S608
    return _copy(duck, f"sqlite {called}", typed, rows)


def _copy(duck: Any, name: str, columns: Sequence[tuple[str, str]], rows: sqlite3.Cursor) -> str:
    table, names = _quoted(name), _unlike([column for column, _ in columns])
    kinds = [kind for _, kind in columns]
    told = ", ".join(f"{_quoted(one)} {kind}" for one, kind in zip(names, kinds, strict=True))
    duck.execute(f"create or replace table {table} ({told})")
    insert = f"insert into {table} select {', '.join(f'unnest(?::{kind}[])' for kind in kinds)}"
    while batch := rows.fetchmany(_ROWS):
        duck.execute(insert, [list(column) for column in zip(*batch, strict=True)])
    return f"from {table}"


def _unlike(names: Sequence[str]) -> Iterator[str]:
    """Names that differ by more than their case, which DuckDB does not tell apart."""
    taken = set[str]()
    for one in names:
        name, number = one, 0
        while name.casefold() in taken:
            number += 1
            name = f"{one}_{number}"
        taken.add(name.casefold())
        yield name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
