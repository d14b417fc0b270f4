"""Arrow data as a table of DuckDB, by pyarrow: only in the process that runs SQL, after it gave up its rights."""

import importlib
import mmap
import os
from typing import Any

from holdall.text.escape import foreign, told_names

os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others take much of the address space at once

pa: Any = importlib.import_module("pyarrow")
ipc: Any = importlib.import_module("pyarrow.ipc")
importlib.import_module("duckdb")  # its Python layer tells DuckDB what Arrow is

_NAME = "arrow data"


class CannotRead(Exception):
    """The data are damaged, or not Arrow."""


def prepare(engine: Any) -> None:
    """What is imported to read Arrow must be imported before this process gives up its rights."""
    pa.set_cpu_count(1)
    sink = pa.BufferOutputStream()
    table = pa.table({"x": ["y"], "n": [1], "half": pa.array([1.5], pa.float16())})
    with ipc.new_file(sink, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    duck = engine.connect()
    duck.register(_NAME, _known_types(ipc.open_file(sink.getvalue()).read_all(), []))
    duck.execute(f'from "{_NAME}"').fetchall()
    duck.close()


def scanned(duck: Any, descriptor: int, notes: list[str]) -> str:
    """The SELECT over it. Raises CannotRead, or MemoryError."""
    try:
        data = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        opened = ipc.open_file if data[:6] == b"ARROW1" else ipc.open_stream
        table = opened(pa.py_buffer(data), options=ipc.IpcReadOptions(use_threads=False)).read_all()
        table.validate(full=True)
        duck.execute("select 1").fetchall()  # it registers nothing while a result is not read to its end
        name = f"{_NAME} {descriptor}"
        duck.register(name, _known_types(table, notes))
    except (MemoryError, pa.ArrowMemoryError):
        raise MemoryError from None
    except (pa.ArrowException, ValueError, OSError, TypeError, NotImplementedError) as problem:
        raise CannotRead(foreign(str(problem).split("\n")[0])) from None
    return f'from "{name}"'


def _known_types(table: Any, notes: list[str]) -> Any:
    """Columns of types that DuckDB does not know become floats, or text where they can."""
    changed: list[str] = []
    for at, field in enumerate(table.schema):
        kind = field.type
        wanted = None
        if pa.types.is_float16(kind):
            wanted = pa.float32()
        elif pa.types.is_decimal256(kind) or pa.types.is_run_end_encoded(kind) or pa.types.is_union(kind):
            wanted = pa.string()
            changed.append(field.name)
        if wanted is not None:
            table = table.set_column(at, field.name, table.column(at).cast(wanted))
    if changed:
        notes.append(f"Columns as text: {told_names(changed)}.")
    return table
