"""The process that runs SQL: one query at a time, each in a database of its own, until the parent goes away.

Asked and answered over the socket that is its standard input: one byte with the descriptor of the data, then frames of
a length and JSON. A query gets one frame with its first rows or its error; where rows are left, a second frame with
their number. It writes no file, prints nothing, and opens nothing but that descriptor.
"""

import importlib
import json
import os
import socket
from typing import Any

from holdall.verbs.sql_check import NotOneSelect, one_select
from holdall.verbs.sql_faults import blame, in_few_words, misses_a_column
from holdall.verbs.sql_guard import guard, limit_memory
from holdall.verbs.sql_rows import Rows, count_rows, first_rows
from holdall.verbs.sql_tables import Columns, Shape, columns_of, ways

_LENGTH = 4  # bytes that tell the length of a frame
_COLUMNS_TOLD = 60
_TYPE_TOLD = 60


class Refused(Exception):
    """`answer` is what the parent gets."""

    def __init__(self, blamed: str, message: str, columns: str = "") -> None:
        self.answer = {"error": blamed, "message": message, "columns": columns}
        super().__init__(message)


def main() -> None:
    connection = socket.socket(fileno=0)
    guard(connection.fileno())
    known: dict[tuple[object, ...], Columns] = {}
    while True:
        descriptor = _receive_descriptor(connection)
        if descriptor is None:
            return
        try:
            request = json.loads(_receive(connection))
            _serve(connection, request, descriptor, known)
        finally:
            os.close(descriptor)


def _serve(connection: socket.socket, request: dict[str, Any], descriptor: int, known: dict[Any, Columns]) -> None:
    try:
        duck, engine = _open(request["memory_bytes"], f"/dev/fd/{descriptor}")
    except ImportError as missing:
        _send(connection, {"error": "missing", "message": str(missing)})
        return
    try:
        statement, found, notes = _run(duck, engine, request, descriptor, known)
        total = None if found.more else len(found.rows)
        _send(connection, {**_told(found), "total": total, "notes": notes})
        if found.more:
            _send(connection, {"total": _count(duck, engine, statement)})
    except Refused as refused:
        _send(connection, refused.answer)
    except MemoryError:
        _send(connection, {"error": "memory", "message": "out of memory"})
    finally:
        duck.close()


def _open(memory_bytes: int, path: str) -> tuple[Any, Any]:
    """An empty database that can read `path` and do nothing else."""
    try:
        # The compiled module alone: the Python layer around it takes 0.2 s to import, and nothing of it is used here.
        engine = importlib.import_module("_duckdb")
    except ImportError:
        engine = importlib.import_module("duckdb")
    limit_memory(memory_bytes)
    duck = engine.connect(
        config={
            "memory_limit": f"{memory_bytes}B",
            "threads": 2,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        }
    )
    for setting in (f"allowed_paths=['{path}']", "enable_external_access=false", "timezone='UTC'", "lock_configuration=true"):
        duck.execute(f"set {setting}")
    return duck, engine
