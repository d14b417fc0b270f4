"""The process that runs SQL: one query at a time, each in a database of its own, until the parent goes away.

Asked and answered over the socket that is its standard input: one byte with the descriptor of the data, then frames of
a length and JSON. A query gets an empty frame when it has arrived, then one with its first rows or its error; where
rows are left, one more with their number. It writes no file, prints nothing, and opens nothing but that descriptor.
"""

import contextlib
import importlib
import json
import os
import socket
from dataclasses import asdict
from typing import Any

from holdall.verbs.sql_guard import guard, limit_memory
from holdall.verbs.sql_run import Query, Refused
from holdall.verbs.sql_tables import Known

LENGTH_BYTES = 4  # that tell the length of a frame


def main() -> None:
    connection = socket.socket(fileno=0)
    guard(connection.fileno())
    known: Known = {}
    while (descriptor := _receive_descriptor(connection)) is not None:
        try:
            request = json.loads(_receive(connection))
            _send(connection, {})  # from here on, what goes wrong is the query's doing
            _serve(connection, request, descriptor, known)
        finally:
            os.close(descriptor)


def _serve(connection: socket.socket, request: dict[str, Any], descriptor: int, known: Known) -> None:
    try:
        engine = load_engine()
    except ImportError as missing:
        _send(connection, {"error": "missing", "message": str(missing)})
        return
    limit_memory(request["memory_bytes"])
    duck = open_database(engine, request["memory_bytes"], f"/dev/fd/{descriptor}")
    try:
        query = Query(engine, duck, request, descriptor, known)
        found = query.first_rows()
        total = None if found.more else len(found.rows)
        _send(connection, {**asdict(found), "total": total, "notes": query.notes})
        if found.more:
            _send(connection, {"total": query.count()})
    except Refused as refused:
        told = {"message": str(refused), "columns": refused.columns, "missing": refused.missing}
        _send(connection, {"error": refused.blamed, **told})
    except MemoryError:
        _send(connection, {"error": "memory", "message": "", "columns": ""})
    finally:
        duck.close()


def load_engine() -> Any:
    try:
        # The compiled module alone: the Python layer around it takes 0.2 s to import, and nothing of it is used here.
        return importlib.import_module("_duckdb")
    except ImportError:
        return importlib.import_module("duckdb")


def open_database(engine: Any, memory_bytes: int, path: str) -> Any:
    """An empty database that can read `path` and do nothing else."""
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
    with contextlib.suppress(engine.Error):  # other versions may not know it, and not need it
        # It moves a cast into the reader, where try_cast fails on the first value that it should turn into null.
        duck.execute("set disabled_optimizers='type_pushdown'")
    duck.execute(f"set allowed_paths=['{path}']")
    duck.execute("set enable_external_access=false")
    duck.execute("set timezone='UTC'")
    duck.execute("set lock_configuration=true")
    return duck


def _receive_descriptor(connection: socket.socket) -> int | None:
    """The descriptor of the next query's data; None when the parent has gone."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    return descriptors[0] if descriptors else None


def _receive(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, LENGTH_BYTES), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            os._exit(0)  # the parent has gone in the middle of a sentence
        received += piece
    return bytes(received)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    data = json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass")
    connection.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)
