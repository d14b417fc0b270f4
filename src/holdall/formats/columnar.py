"""Tables in files of their own form, for their notice: Parquet by its footer, SQLite by its pages.

Only what the files say of themselves is read, a few thousand small pieces at most; where there is more, a count says
"at least". SQL reads the rows, in a process of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holdall.formats.outline import Lead, Outline, Read, Room, Sample, fitted
from holdall.formats.table import by_value, column
from holdall.text.escape import foreign, foreign_names
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_SHOWN = 12  # columns of a table, tables of a database


# ── Parquet ─────────────────────────────────────────────────────────────────────────────────────────────────────


_MOST_FOOTER = 4 * 1024 * 1024
_MOST_ELEMENTS = 5000  # of a schema
_MOST_VALUES = 20 * _MOST_ELEMENTS  # in all that is read of a footer
_DEEPEST = 24
_LONGEST_TYPE = 10_000  # characters: those of a column stand in those of the one around it
_PHYSICAL = ("BOOLEAN", "INTEGER", "BIGINT", "TIMESTAMP", "FLOAT", "DOUBLE", "BLOB", "BLOB")
_CONVERTED = {
    0: "VARCHAR", 4: "VARCHAR", 6: "DATE", 7: "TIME", 8: "TIME", 9: "TIMESTAMP", 10: "TIMESTAMP", 11: "UTINYINT",
    12: "USMALLINT", 13: "UINTEGER", 14: "UBIGINT", 15: "TINYINT", 16: "SMALLINT", 17: "INTEGER", 18: "BIGINT",
    19: "JSON", 21: "INTERVAL",
}  # fmt: skip
_LOGICAL = {1: "VARCHAR", 4: "VARCHAR", 6: "DATE", 12: "JSON", 14: "UUID", 15: "FLOAT"}
_REPEATED = 2
_LONGEST_NAME = 40
_IDENTIFIER = lazy_pattern(r"[a-z_][a-z0-9_]*")


class Damaged(Exception):
    """It is not what it seems, and is told as binary data."""


def parquet_outline(sample: Sample, room: Room) -> Outline | None:
    if sample.read is None:
        return None
    try:
        columns, rows = parquet_schema(sample.read, sample.size)
    except Damaged:
        return None
    return table_outline("Parquet file", columns, rows, room, by=", as it says itself")


def table_outline(
    label: str, columns: Sequence[tuple[str, str]], rows: int, room: Room, *, is_all: bool = True, by: str = ""
) -> Outline:
    """`by`: whose word the number of rows is, where they were not counted."""
    least = "" if is_all else "at least "
    lines = [f"{least}{plural(rows, 'row')}{by} · {plural(len(columns), 'column')}:"]
    lines += _told(columns, room.after(lines))
    plain = _short(name for name, kind in columns if not kind.endswith(("]", ")", "BLOB")))
    leads = [Lead("query", {"sql": f"select {', '.join(map(column, plain[:6])) or 'count(*)'} from t limit 3"})]  # noqa: S608
    if texts := [name for name, kind in columns if kind == "VARCHAR" and name in plain]:
        leads.append(Lead("query", {"sql": f"{by_value(column(texts[0]))} limit 10"}))
    return Outline(label, fitted(lines, room), not is_all, (), leads=tuple(leads))


def _short(names: Iterable[str]) -> list[str]:
    """Those that a call to copy may have, with quotes around those that need them."""
    return foreign_names(name for name in names if name and '"' not in name and foreign(name, _LONGEST_NAME) == name)


def _told(columns: Sequence[tuple[str, str]], room: Room) -> list[str]:
    """As many as there is room for, on one line."""
    parts = [f"{foreign(name)} {foreign(kind)}" for name, kind in columns[:_SHOWN]]
    for shown in range(len(parts), 0, -1):
        left = len(columns) - shown
        line = ", ".join(parts[:shown]) + (f", … ({left:,} more)" if left else "")
        if room.of(line) <= room.size:
            return [line]
    return []


def parquet_schema(read: Read, total: int) -> tuple[list[tuple[str, str]], int]:
    """Columns with their types as DuckDB calls them, and the rows."""
    end = read(total - 8, total)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or not 0 < length <= min(total - 8, _MOST_FOOTER):
        raise Damaged
    footer = _Thrift(read(total - 8 - length, total - 8))
    try:
        found = footer.fields_up_to(3)
        elements, rows = found[2], found[3]
        if not isinstance(rows, int) or rows < 0:
            raise Damaged
        at = iter(elements)
        root = next(at)
        columns = [_column(at, 1) for _ in range(root.get(5, 0))]
    except (IndexError, KeyError, StopIteration, TypeError, ValueError, OverflowError, AttributeError):
        raise Damaged from None
    return columns, rows


def _column(elements: Iterator[dict[int, Any]], deep: int, within: str = "") -> tuple[str, str]:
    """`within` a list or a map there is one more group, repeated, which is no type of its own."""
    one = next(elements)
    name, children = one[4].decode("utf-8", "replace"), one.get(5, 0)
    if deep > _DEEPEST:
        raise Damaged
    logical: dict[int, Any] = one.get(10) or {}
    converted: int | None = one.get(6)
    form = "list" if 3 in logical or converted == 3 else "map" if 2 in logical or converted in (1, 2) else ""
    inside = [_column(elements, deep + 1, form) for _ in range(min(children, _MOST_ELEMENTS))]
    kinds = [kind for _, kind in inside]
    if not children:
        kind = _leaf(one)
    elif form:
        kind = f"{kinds[0]}[]" if form == "list" else f"MAP({kinds[0]})"
    elif within == "map" or (within == "list" and len(inside) == 1):
        return name, ", ".join(kinds)
    else:
        kind = struct_type(inside)
    return name, f"{kind}[]" if one.get(3) == _REPEATED and not within else kind


def struct_type(inside: Sequence[tuple[str, str]]) -> str:
    """Of a column with columns in it; where that is very long, without them."""
    if sum(len(name) + len(kind) for name, kind in inside) > _LONGEST_TYPE:
        return "STRUCT(…)"
    return f"STRUCT({', '.join(f'{_name_in_type(name)} {kind}' for name, kind in inside)})"


def _name_in_type(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _leaf(one: dict[int, Any]) -> str:
    logical: dict[int, Any] = one.get(10) or {}
    converted: int | None = one.get(6)
    stored: int = one[1]
    physical = _PHYSICAL[stored]
    if converted == 5 or 5 in logical:
        decimal: dict[int, Any] = logical.get(5) or {}
        return f"DECIMAL({one.get(8, decimal.get(2))},{one.get(7, decimal.get(1, 0))})"
    if 8 in logical:
        unit: dict[int, Any] = logical[8].get(2) or {}
        zoned = logical[8].get(1)
        return "TIMESTAMP_NS" if 3 in unit and not zoned else "TIMESTAMP WITH TIME ZONE" if zoned else "TIMESTAMP"
    if 7 in logical:
        return "TIME WITH TIME ZONE" if logical[7].get(1) else "TIME"
    if 10 in logical:
        width, signed = logical[10].get(1, 32), logical[10].get(2, True)
        return ("" if signed else "U") + {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[width]
    for kind in logical:
        if kind in _LOGICAL:
            return _LOGICAL[kind]
    return _CONVERTED.get(converted, physical) if converted is not None else physical


class _Thrift:
    """The compact protocol, as far as a footer needs it: structs as dictionaries by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._left = _MOST_VALUES

    def fields_up_to(self, last: int) -> dict[int, Any]:
        """Of the outermost struct; what comes behind may be long."""
        found: dict[int, Any] = {}
        for number, kind in self._fields():
            found[number] = self._value(kind, 1)
            if number >= last:
                break
        return found

    def _fields(self) -> Iterator[tuple[int, int]]:
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._signed()
            yield number, kind

    def _value(self, kind: int, deep: int) -> Any:
        self._left -= 1
        if deep > _DEEPEST or self._left < 0:
            raise Damaged
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._unsigned())
            case 9 | 10:
                count, inner = self._list_header()
                if count > _MOST_ELEMENTS:
                    raise Damaged
                return [self._in_list(inner, deep + 1) for _ in range(count)]
            case 12:
                return {number: self._value(one, deep + 1) for number, one in self._fields()}
            case _:
                raise Damaged

    def _in_list(self, kind: int, deep: int) -> Any:
        return self._byte() == 1 if kind in (1, 2) else self._value(kind, deep)

    def _list_header(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return (self._unsigned() if count == 15 else count), head & 15

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise Damaged
        self._at += length
        return self._data[self._at - length : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise Damaged

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


# ── SQLite ──────────────────────────────────────────────────────────────────────────────────────────────────────


_MOST_PAGES = 6000  # that are looked at
_MOST_TABLES = 1000
_LONGEST_RECORD = 64 * 1024
_MOST_COLUMNS = 2000
_LEAF, _INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 13, 5, 10, 2
_COLUMN = lazy_pattern(  # a name of at most 300 signs, as SQLite takes it in quotes of four kinds
    r'\s{0,300}(?:"((?:[^"]|""){0,300}+)"|`((?:[^`]|``){0,300}+)`|\[([^\]]{0,300})\]|\'((?:[^\']|\'\'){0,300}+)\''
    r"|([^\s,()]{1,300}))"
)
_CONSTRAINTS = frozenset({"constraint", "primary", "unique", "check", "foreign"})


@record
class SqliteTable:
    """`rows` is None for what has no pages of its own; `is_all` says that all of them were counted."""

    kind: str
    name: str
    columns: tuple[str, ...]
    rows: int | None
    is_all: bool = True


def sqlite_outline(sample: Sample, room: Room) -> Outline | None:
    if sample.read is None:
        return None
    try:
        tables, is_all = sqlite_schema(sample.read, sample.size)
    except Damaged:
        return None
    with_rows = sorted((one for one in tables if one.rows is not None), key=lambda one: -(one.rows or 0))
    others = [one for one in tables if one.rows is None]
    least = "" if is_all else "at least "
    views = sum(one.kind == "view" for one in others)
    counted = ((views, "view"), (len(others) - views, "virtual table"))
    more = "".join(f", {plural(number, noun)}" for number, noun in counted if number)
    head = f"SQLite database: {least}{plural(len(with_rows), 'table')}{more}"
    named = _short(one.name for one in with_rows if one.rows)
    leads = [Lead("query", {"sql": f"select * from {column(named[0])} limit 2"})] if named else []  # noqa: S608
    if len(tables) > 1:
        leads.append(Lead("query", {"sql": "select type, name, left(sql, 200) as sql from t limit 5"}))
    return Outline("SQLite database", _tables_told(head, with_rows, room), not is_all, (), leads=tuple(leads))


def _tables_told(head: str, tables: Sequence[SqliteTable], room: Room) -> tuple[str, ...]:
    """As many tables as there is room for, and then of each, the largest first, as many names of its columns."""
    bare = [head, *(_table_told(one, 0) for one in tables[:_SHOWN])]
    lines = list(fitted(bare, room.after(["… and 12,345 more tables"] if len(tables) > _SHOWN else [])))
    if len(lines) < len(bare):
        lines = list(fitted(bare, room.after(["… and 12,345 more tables"])))
    left = len(tables) - len(lines) + 1
    more = [f"… and {plural(left, 'more table')}"] if left else []
    spare = room.size - sum(map(room.of, [*lines, *more]))
    for at, one in enumerate(tables[: len(lines) - 1], start=1):
        for most in (_SHOWN, _SHOWN // 2, _SHOWN // 4):
            line = _table_told(one, most)
            cost = room.of(line) - room.of(lines[at])
            if cost <= spare:
                lines[at], spare = line, spare - cost
                break
    return (*lines, *more)


def _table_told(one: SqliteTable, most: int) -> str:
    left = ["…"] if 0 < most < len(one.columns) else []
    names = ", ".join([*(foreign(name, 40) for name in one.columns[:most]), *left])
    counted = f"{'' if one.is_all else 'at least '}{plural(one.rows or 0, 'row')}"
    return f"{foreign(one.name)}  {counted}" + (f"  ({names})" if names else "")


def sqlite_schema(read: Read, total: int) -> tuple[list[SqliteTable], bool]:
    """Tables and views, and whether these are all."""
    head = read(0, 100)
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if len(head) < 100 or size < 512 or size & (size - 1):
        raise Damaged
    pages = _Pages(read, total, size, size - head[20])
    found: list[SqliteTable] = []
    for kind, name, root, sql in pages.schema():
        if kind not in ("table", "view") or name.startswith("sqlite_"):
            continue
        if len(found) == _MOST_TABLES:
            return found, False
        if kind == "view" or not root:
            found.append(SqliteTable(kind, name, (), None))
            continue
        rows, is_all = pages.rows(root)
        found.append(SqliteTable(kind, name, columns_in(sql), rows, is_all))
    return found, pages.schema_is_all


class _Pages:
    """Trees of pages. Each page is looked at once, and no more than so many: trees of a damaged file may be circles."""

    def __init__(self, read: Read, total: int, size: int, usable: int) -> None:
        self._read, self._total, self._size, self._usable = read, total, size, usable
        self._seen: set[int] = set()
        self.schema_is_all = True

    def schema(self) -> Iterator[tuple[str, str, int, str]]:
        for page, cells in self._leaves(1):
            for cell in cells:
                record = self._record(page, cell)
                if record is None:
                    self.schema_is_all = False
                    continue
                kind, name, _, root, sql = (*record, *[""] * 5)[:5]
                if isinstance(kind, str) and isinstance(name, str):
                    yield kind, name, root if isinstance(root, int) else 0, sql if isinstance(sql, str) else ""

    def rows(self, root: int) -> tuple[int, bool]:
        """How many the tree has, and whether that is all."""
        count, waiting = 0, [root]
        while waiting:
            page = waiting.pop()
            head = self._page(page, 12)
            if head is None:
                return count, False
            kind, cells = head[0], int.from_bytes(head[3:5], "big")
            if kind in (_LEAF, _INDEX_LEAF):
                count += cells
            elif kind in (_INTERIOR, _INDEX_INTERIOR):
                count += cells if kind == _INDEX_INTERIOR else 0
                waiting += self._children(page, head, cells)
            else:
                return count, False
        return count, True

    def _leaves(self, root: int) -> Iterator[tuple[int, list[int]]]:
        waiting = [root]
        while waiting:
            page = waiting.pop()
            head = self._page(page, 12)
            if head is None or head[0] not in (_LEAF, _INTERIOR):
                self.schema_is_all = False
                if head is not None and page == root:
                    raise Damaged
                continue
            cells = int.from_bytes(head[3:5], "big")
            if head[0] == _INTERIOR:
                waiting += reversed(self._children(page, head, cells))
            else:
                yield page, self._pointers(page, 8, cells)

    def _page(self, number: int, length: int) -> bytes | None:
        """The first bytes of a page that was not looked at before; None at the bounds."""
        if number in self._seen or len(self._seen) >= _MOST_PAGES or not 1 <= number <= -(-self._total // self._size):
            return None
        self._seen.add(number)
        start = self._start(number)
        found = self._read(start, start + length)
        return found if len(found) == length else None

    def _start(self, number: int) -> int:
        return (number - 1) * self._size + (100 if number == 1 else 0)

    def _children(self, page: int, head: bytes, cells: int) -> list[int]:
        base = (page - 1) * self._size
        whole = self._read(base, base + self._size)
        children = [int.from_bytes(whole[at : at + 4], "big") for at in self._pointers(page, 12, cells)]
        return [*children, int.from_bytes(head[8:12], "big")]

    def _pointers(self, page: int, header: int, cells: int) -> list[int]:
        start = self._start(page) + header
        data = self._read(start, min(start + 2 * cells, page * self._size))
        return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data) - 1, 2)]

    def _record(self, page: int, cell: int) -> list[Any] | None:
        """The values of a record; None where it is damaged or very long."""
        base = (page - 1) * self._size
        data = self._read(base + cell, base + self._size)
        try:
            length, at = _varint(data, 0)
            _, at = _varint(data, at)
            payload = self._payload(data, at, length)
            return _values(payload) if payload is not None else None
        except (IndexError, ValueError):
            return None

    def _payload(self, data: bytes, at: int, length: int) -> bytes | None:
        if length > _LONGEST_RECORD:
            return None
        if length <= self._usable - 35:
            return data[at : at + length]
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (self._usable - 4)
        local = local if local <= self._usable - 35 else least
        parts, following = [data[at : at + local]], int.from_bytes(data[at + local : at + local + 4], "big")
        left = length - local
        while left > 0:
            part = self._page(following, min(self._size, 4 + left))
            if part is None or following == 1:
                return None
            parts.append(part[4 : self._usable])
            left -= len(parts[-1])
            following = int.from_bytes(part[:4], "big")
        return b"".join(parts)[:length]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 127
        if byte < 128:
            return value, at + place + 1
    return value << 8 | data[at + 8], at + 9


def _values(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    body, values = end, list[Any]()
    while at < end:
        kind, at = _varint(payload, at)
        length = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)[kind] if kind < 12 else (kind - 12) // 2
        part, body = payload[body : body + length], body + length
        if 1 <= kind <= 6:
            values.append(int.from_bytes(part, "big", signed=True))
        else:
            values.append(
                {8: 0, 9: 1}.get(kind) if kind < 12 else part.decode("utf-8", "replace") if kind % 2 else part
            )
    return values


def columns_in(sql: str) -> tuple[str, ...]:
    """The names that a CREATE TABLE gives to its columns; none where it cannot be told."""
    opening = sql.find("(")
    if opening < 0:
        return ()
    found: list[str] = []
    at = opening + 1
    while at < len(sql) and len(found) < _MOST_COLUMNS:
        match = _COLUMN.match(sql, at)
        if match is None:
            break
        name = next((one for one in match.groups() if one is not None), "")
        if match[5] is not None and name.lower() in _CONSTRAINTS:
            break
        found.append(name)
        at = _after_comma(sql, match.end())
        if at < 0:
            break
    return tuple(found)


def _after_comma(sql: str, at: int) -> int:
    """Behind the next comma that is in no bracket or quote; -1 if there is none before the end of the list."""
    depth, quote = 0, ""
    while at < len(sql):
        sign = sql[at]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'`":
            quote = sign
        elif sign == "[":
            quote = "]"
        elif sql.startswith("--", at):
            at = sql.find("\n", at)
            if at < 0:
                return -1
        elif sql.startswith("/*", at):
            at = sql.find("*/", at)
            if at < 0:
                return -1
        elif sign == "(":
            depth += 1
        elif sign == ")":
            if not depth:
                return -1
            depth -= 1
        elif sign == "," and not depth:
            return at + 1
        at += 1
    return -1
