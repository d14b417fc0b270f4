"""Arrow files and streams, for their notice: columns, types as DuckDB calls them, and rows, by their messages alone.

A message is a table of flatbuffers; the data behind it are stepped over and never read. Bounded: where there are more
messages than are looked at, or the end is missing, the rows are "at least".
"""

import importlib.util
from collections.abc import Iterator

from holdall.formats.columnar import Damaged, struct_type, table_outline
from holdall.formats.outline import Outline, Read, Room, Sample, fitted

_MAGIC = b"ARROW1\0\0"
_MOST_MESSAGES = 5000
_MOST_METADATA = 4 * 1024 * 1024
_MOST_FIELDS = 5000
_MOST_NAMES = 1 << 20  # characters of the names of all fields
_DEEPEST = 24
_SCHEMA, _BATCH = 1, 3
_PLAIN = {
    1: '"NULL"', 4: "BLOB", 5: "VARCHAR", 6: "BOOLEAN", 8: "DATE", 9: "TIME", 11: "INTERVAL", 15: "BLOB",
    18: "INTERVAL", 19: "BLOB", 20: "VARCHAR", 23: "BLOB", 24: "VARCHAR",
}  # fmt: skip
_INTEGERS = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
_STAMPS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS")


def arrow_outline(sample: Sample, room: Room) -> Outline | None:
    if sample.read is None:
        return None
    try:
        columns, rows, is_all = arrow_schema(sample.read, sample.size)
    except Damaged:
        return None
    if importlib.util.find_spec("pyarrow") is None:
        found = table_outline("Arrow data", columns, rows, room, is_all=is_all)
        missing = "SQL over it needs the package 'pyarrow': pip install 'holdall[arrow]'"
        return Outline(found.label, fitted([missing, *found.lines], room), found.sampled, ())
    return table_outline("Arrow data", columns, rows, room, is_all=is_all)


def arrow_schema(read: Read, total: int) -> tuple[list[tuple[str, str]], int, bool]:
    """Columns with their types, the rows, and whether these are all. Raises Damaged."""
    at = len(_MAGIC) if read(0, 8) == _MAGIC else 0
    columns: list[tuple[str, str]] | None = None
    rows = 0
    for _ in range(_MOST_MESSAGES):
        head = read(at, at + 8)
        length = int.from_bytes(head[4:8], "little")
        if len(head) < 8 or head[:4] != b"\xff\xff\xff\xff":
            is_end = at == total and at > 0  # a stream may end without its mark
            return _found(columns, rows, is_all=is_end)
        if not length:
            return _found(columns, rows, is_all=True)
        if length > _MOST_METADATA:
            return _found(columns, rows, is_all=False)
        try:
            message = _root(read(at + 8, at + 8 + length))
            kind, header, body = message.number(1, 1), message.table(2), message.number(3, 8)
            if kind == _SCHEMA and header is not None:
                left = [_MOST_FIELDS, _MOST_NAMES]
                columns = [_field(one, 1, left) for one in header.tables(1)]
            elif kind == _BATCH and header is not None:
                if body < 0 or at + 8 + length + body > total:
                    return _found(columns, rows, is_all=False)
                rows += header.number(0, 8)
        except (IndexError, KeyError, ValueError):
            return _found(columns, rows, is_all=False)
        at += 8 + length + max(0, body)
    return _found(columns, rows, is_all=False)


def _found(
    columns: list[tuple[str, str]] | None, rows: int, *, is_all: bool
) -> tuple[list[tuple[str, str]], int, bool]:
    if columns is None or rows < 0:
        raise Damaged
    return columns, rows, is_all


def _field(one: "_Table", deep: int, left: list[int]) -> tuple[str, str]:
    left[0] -= 1
    if deep > _DEEPEST or left[0] < 0:
        raise Damaged
    kind, told = one.number(2, 1), one.table(3)
    inside = [_field(child, deep + 1, left) for child in one.tables(5)]
    name = one.text(0)
    left[1] -= len(name)
    if left[1] < 0:  # fields may share the bytes of one name
        raise Damaged
    return name, _type(kind, told, inside)


def _type(kind: int, told: "_Table | None", inside: list[tuple[str, str]]) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if told is None:
        raise Damaged
    match kind:
        case 2:
            return ("" if told.number(1, 1) else "U") + _INTEGERS[told.number(0, 4)]
        case 3:
            return "DOUBLE" if told.number(0, 2) == 2 else "FLOAT"
        case 7:
            return f"DECIMAL({told.number(0, 4)},{told.number(1, 4)})"
        case 10:
            return "TIMESTAMP WITH TIME ZONE" if told.text(1) else _STAMPS[told.number(0, 2)]
        case 12 | 21 | 25:
            return f"{inside[0][1]}[]"
        case 13:
            return struct_type(inside)
        case 16:
            return f"{inside[0][1]}[{told.number(0, 4)}]"
        case 17:
            return f"MAP({inside[0][1].removeprefix('STRUCT(key ').removesuffix(')').replace(' value ', ' ', 1)})"
        case _:
            return "VARCHAR"  # it is read as text


class _Table:
    """A table of flatbuffers. Every offset is checked by the slice that it leads to."""

    def __init__(self, data: bytes, at: int) -> None:
        if not 0 <= at <= len(data) - 4:
            raise ValueError("outside")
        self._data, self._at = data, at
        self._fields = at - int.from_bytes(data[at : at + 4], "little", signed=True)
        if not 0 <= self._fields <= len(data) - 4:
            raise ValueError("outside")
        self._size = int.from_bytes(data[self._fields : self._fields + 2], "little")

    def _place(self, slot: int) -> int:
        """Where a field is; 0 if the table has none of that number."""
        at = 4 + 2 * slot
        if at + 2 > self._size:
            return 0
        offset = int.from_bytes(self._data[self._fields + at : self._fields + at + 2], "little")
        return self._at + offset if offset else 0

    def number(self, slot: int, width: int) -> int:
        at = self._place(slot)
        return int.from_bytes(self._data[at : at + width], "little", signed=True) if at else 0

    def _to(self, at: int) -> int:
        return at + int.from_bytes(self._data[at : at + 4], "little")

    def table(self, slot: int) -> "_Table | None":
        at = self._place(slot)
        return _Table(self._data, self._to(at)) if at else None

    def text(self, slot: int) -> str:
        at = self._place(slot)
        if not at:
            return ""
        start = self._to(at)
        length = int.from_bytes(self._data[start : start + 4], "little")
        return self._data[start + 4 : start + 4 + length].decode("utf-8", "replace")

    def tables(self, slot: int) -> "Iterator[_Table]":
        at = self._place(slot)
        if not at:
            return
        start = self._to(at)
        count = int.from_bytes(self._data[start : start + 4], "little")
        for number in range(min(count, _MOST_FIELDS + 1)):
            yield _Table(self._data, self._to(start + 4 + 4 * number))


def _root(data: bytes) -> _Table:
    return _Table(data, int.from_bytes(data[:4], "little"))
