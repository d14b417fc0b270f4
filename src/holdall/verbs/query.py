"""`query`: SQL over an output as the table `t`, and the values that a JSONPath or a JSON Pointer names in it.

SQL runs on DuckDB in a process of its own, confined to the one output. A path is followed here, in one pass with flat
memory, and gives each value exactly as it is stored.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, TypedDict, Unpack

from holdall.formats.registry import format_of
from holdall.sql.results import MOST_TABLES, fair_cap
from holdall.sql.source import check_kind, kind_so_far, still_written
from holdall.sql.worker import Answer, Part, SqlRequest, SqlWorker
from holdall.store.deadline import renew, within
from holdall.store.protocol import OutputReader
from holdall.store.reader import line_of_byte, lines_of
from holdall.text.escape import ended_as
from holdall.text.excerpt import beginning, folded
from holdall.text.json.filters import find_filtered, is_plain, with_wildcard
from holdall.text.json.find import Finding, Hit, explain_no_match, find
from holdall.text.json.path import parse_path
from holdall.text.json.reader import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    Cursor,
    JsonFault,
)
from holdall.text.numbers import plural, size
from holdall.text.ranges import whole_number
from holdall.text.utf8 import decode
from holdall.values.answers import Node, Nodes, Table
from holdall.values.errors import BadQuery, HoldallError, MissingExtra, OutOfTime, WorkerFault
from holdall.values.patterns import lazy_pattern
from holdall.values.settings import Settings
from holdall.values.spans import Span
from holdall.verbs.read import Bounds

__all__ = ["SqlWorker", "query", "query_path", "query_sql"]

_LONGEST_SQL = 100_000  # characters
_LONGEST_NAME = 200  # of a table
_NODE_COST = 48  # bytes that a value costs besides its path and its text
_LATE = "As lines all of it can be read (kind: lines)."
_OTHER = " What also names is reached into with unnest, or is t itself where the two change places."
_NO_TABLE = lazy_pattern(r"there is no table ([\w.-]+) here;")
_AT_ONCE = 256  # values that are passed on together
_WINDOW = 1 << 20  # bytes that are read at once for values near each other
_FOLDED_OVER, _FOLDED, _FOLDABLE = 2000, 600, 256 * 1024  # bytes: longer ones are folded to so many, the longest cut
_OPEN = 40  # bytes of a value inside of a folded one that is never left out
_MIN_TEXT = 200  # bytes of a value that are worth showing; where they do not fit, the value is left for the next page


def query(  # noqa: PLR0913 - what the declaration has
    reader: OutputReader,
    *,
    sql: str | None = None,
    path: str | None = None,
    at: str | None = None,
    also: Sequence[str] | None = (),
    kind: str | None = None,
    limit: int | None = None,
    skip: int = 0,
    bounds: Bounds,
) -> Table | Nodes:
    """By the path where there is one, else by SQL, within what a session allows."""
    settings, most = bounds.settings or Settings(), bounds.share(reader.facts.measure)
    rows = limit or (sys.maxsize if bounds.whole else settings.query_max_rows)
    if path is not None:
        if sql:
            raise BadQuery("give sql or a path, not both; at is the path of the table that sql reads.")
        if at is not None:
            raise BadQuery("at chooses the table for sql; with a path write one path.")
        if also:
            raise BadQuery("also names further tables for sql; a path names values of one output.")
        if kind is not None:
            raise BadQuery("kind says how sql reads the output; a path reads JSON.")
        return query_path(
            reader, path, limit=rows, skip=skip, max_bytes=most, seconds=settings.query_seconds, each=bounds.each,
            folds=bounds.counted_later,
        )  # fmt: skip
    if skip:
        raise BadQuery(f"skip leaves out values of a path; in SQL write OFFSET {skip}.")
    with contextlib.ExitStack() as opened:
        others = [opened.enter_context(one) for one in _opened(also or (), bounds)]
        try:
            return query_sql(
                reader, sql or "", at=at, also=others, kind=kind,
                worker=bounds.worker() if bounds.worker is not None else None,
                max_rows=rows if bounds.each is None else None, max_bytes=most, seconds=settings.query_seconds,
                memory_bytes=settings.query_memory_bytes, each=bounds.each,
            )  # fmt: skip
        except BadQuery as fault:
            missing = _NO_TABLE.match(str(fault))
            if missing is None or not _is_output(missing[1], bounds):
                raise
            raise BadQuery(f"{fault} What also names is a table, too: {missing[1]} is an output.") from None


def _is_output(name: str, bounds: Bounds) -> bool:
    if bounds.open is None:
        return False
    try:
        with bounds.open(name):
            return True
    except HoldallError:
        return False


def _opened(also: Sequence[str], bounds: Bounds) -> Iterator[AbstractContextManager[OutputReader]]:
    named = list(dict.fromkeys(also))
    if len(named) >= MOST_TABLES:
        raise BadQuery(f"also names {len(named):,} outputs; a query reads at most {MOST_TABLES - 1} besides t.")
    if named and bounds.open is None:
        raise BadQuery("also names outputs of a session, and this query has none.")
    for handle in named:
        yield bounds.open(handle)  # type: ignore[misc]


class SqlBounds(TypedDict, total=False):
    max_rows: int | None  # 1,000 by default; None, with `each`, is all
    max_bytes: int | None  # 16 KiB
    seconds: float  # 60
    memory_bytes: int  # 1 GiB
    each: Callable[[Table], object] | None  # gets the rows in parts, as they come; the answer then has none


def query_sql(
    reader: OutputReader,
    sql: str,
    *,
    at: str | None = None,
    also: Sequence[OutputReader] = (),
    kind: str | None = None,
    worker: SqlWorker | None = None,
    **bounds: Unpack[SqlBounds],
) -> Table:
    """The rows of one SELECT over `t`, as many of its first ones as fit.

    JSON: an array's elements are the rows, an object is one row; NDJSON: a row a line; CSV with its columns; any other
    text as `line_no, text`. `at` is the path of the array or object inside the JSON that is the table instead.
    Each output is a table under its handle too, and those of `also` under theirs alone. `kind` says what t is read as.
    """
    if len(sql) > _LONGEST_SQL:
        raise BadQuery(f"the SQL has {len(sql):,} characters; at most {_LONGEST_SQL:,} are run.")
    max_rows, max_bytes = bounds.get("max_rows", 1000), bounds.get("max_bytes", 16384)
    seconds, memory_bytes = bounds.get("seconds", 60.0), bounds.get("memory_bytes", 2**30)
    request: dict[str, Any] = {
        "sql": sql,
        "max_rows": None if max_rows is None else whole_number(max_rows, name="max_rows", least=1),
        "max_bytes": None if max_bytes is None else whole_number(max_bytes, name="max_bytes", least=1),
        "memory_bytes": memory_bytes,
    }
    each, given = bounds.get("each"), 0

    def pass_on(answer: Answer) -> None:
        nonlocal given
        if each is not None:
            given += len(answer["rows"])
            each(_table(reader, {**answer, "total": 0, "more": False}, [], memory_bytes))

    with within(seconds) as deadline:
        parts = _parts(Part(reader, ["t", reader.facts.handle], at, check_kind(kind)), also)
        asked = SqlRequest(parts, request, worker or SqlWorker(), deadline, pass_on if each else None)
        try:
            table = _table(reader, *asked.answer(), memory_bytes)
        except OutOfTime as late:
            raise WorkerFault(
                f"the query was stopped after {late.seconds:g} s, its limit (query_seconds). Ask for less: fewer rows "
                f"(a WHERE, a LIMIT), a smaller table (at), or no join of t with itself.{_not_all(given)}"
            ) from None
        except (BadQuery, WorkerFault) as fault:
            other = _OTHER if also and str(fault).startswith("at chooses a part of t, and ") else ""
            raise type(fault)(f"{fault}{other}{_not_all(given)}") from None
        finally:
            if worker is None:
                asked.worker.close()
    scanned = tuple((part.reader.facts.handle, part.reader.totals.bytes) for part in parts[1:])
    return replace(table, also=scanned)


def _not_all(given: int, what: str = "row") -> str:
    return f" What was given before that, {plural(given, what)}, is not the whole answer." if given else ""


def _parts(first: Part, also: Sequence[OutputReader]) -> list[Part]:
    parts = {first.names[1]: first}
    for other in also:
        parts.setdefault(other.facts.handle, Part(other, [other.facts.handle]))
    taken = {"t", *(name.casefold() for name in parts)}
    for part in list(parts.values())[1:]:
        name = part.reader.facts.origin.call_id  # it may be what the output was asked for by
        if name and len(name) <= _LONGEST_NAME and name.isprintable() and name.casefold() not in taken:
            part.names.append(name)
            taken.add(name.casefold())
    return list(parts.values())


def _table(reader: OutputReader, answer: Answer, notes: list[str], memory_bytes: int) -> Table:
    message = answer.get("message", "")
    match answer.get("error"):
        case None:
            pass
        case "memory":
            raise WorkerFault(
                f"the query needs more than the {size(memory_bytes)} of memory that it may take. Ask for less: "
                "fewer columns or rows, at for a part of the JSON; query_memory_bytes allows it more."
            )
        case "missing" if "pyarrow" in message:
            raise MissingExtra("pyarrow", "arrow", "SQL over Arrow data")
        case "missing":
            raise WorkerFault(f"SQL needs the package duckdb, which cannot be loaded here: {message}")
        case "source":
            lines = ", or its lines: select line_no, text from t" * bool(answer.get("has_lines"))
            hint = _LATE if answer.get("late") else f"Try a path, grep or read{lines}."
            raise BadQuery(f"the output cannot be read as a table: {message.rstrip('.')}. {hint}")
        case _:
            columns = f" {answer['columns']}." if answer.get("columns") else ""
            raise BadQuery(f"{message.rstrip('.')}.{columns}")
    rows = tuple(tuple(row) for row in answer["rows"])
    shown, total = len(rows), answer["total"]
    notes = [*_ended(reader), *answer["notes"], *notes]
    if answer["cut_cells"]:
        notes.insert(
            0,
            "The row is longer than an answer may be: cells that end in … are cut. "
            "Fetch parts of them in SQL: substring(column, 1, 4000), then from 4001 on.",
        )
    if is_least := total is None:
        total = shown + 1
        why = (
            "the rest is not counted, because this SQL draws by chance and may give other rows each time"
            if answer.get("by_chance")
            else "the rest could not be counted within the limits of the query"
        )
        notes.insert(0, f"At least {total:,} rows: {why}.")
    offset = answer.get("offset", 0)
    return Table(
        handle=reader.facts.handle,
        columns=tuple(answer["columns"]),
        types=tuple(answer["types"]),
        rows=rows,
        total=total,
        totals=reader.totals,
        next=(offset or 0) + shown if answer["more"] else None,
        notes=tuple(notes),
        is_least=is_least,
        offset=offset,
        limit=answer.get("limit"),
    )


# ── Paths ───────────────────────────────────────────────────────────────────────────────────────────────────


def query_path(
    reader: OutputReader,
    path: str,
    *,
    limit: int = 100,
    skip: int = 0,
    max_bytes: int | None = 16384,
    seconds: float = 60.0,
    each: Callable[[Nodes], object] | None = None,
    folds: bool = False,
) -> Nodes:
    """The values that a JSONPath (the part of RFC 9535 that streams) or a JSON Pointer names, in their order.

    NDJSON counts as an array of its records: `$[3].name`, `$[*].name`, `/3/name`. `each` gets all of
    them, in parts; the answer then has none. With `folds` long objects and arrays are shown by their names and short
    values: what a model wants of them it asks for by a longer path.
    """
    passed = _Passed(reader, each) if each is not None else None
    with within(seconds):
        try:
            page = _query_path(reader, path, limit, skip, max_bytes, passed, folds=folds)
            while passed is not None and page.next is not None:  # one pass does, but for values inside of one another
                page = _query_path(reader, path, limit, page.next, max_bytes, passed)
        except OutOfTime as late:
            raise WorkerFault(
                f"the path was stopped after {late.seconds:g} s, its limit (query_seconds). Ask for less: a path "
                f"that names where its values are, or SQL.{_not_all(passed.number if passed else 0, 'value')}"
            ) from None
    return page


class _Passed:
    """Values on their way to the one who gets them in parts, as they are found."""

    def __init__(self, reader: OutputReader, each: Callable[[Nodes], object]) -> None:
        self.number = 0
        self.shortened = False
        self._reader, self._each = reader, each
        self._waiting: list[Hit] = []

    def take(self, hit: Hit) -> None:
        self.shortened = self.shortened or hit.shortened
        self._waiting.append(hit)
        if len(self._waiting) == _AT_ONCE:
            self.pass_on()

    def pass_on(self) -> None:
        if self._waiting:
            nodes = _nodes(self._reader, self._waiting, None)
            self._each(Nodes(self._reader.facts.handle, nodes, 0, self._reader.totals))
            self.number += len(nodes)
            self._waiting.clear()
            renew()


def _query_path(
    reader: OutputReader, path: str, limit: int, skip: int, max_bytes: int | None,
    passed: _Passed | None, *, folds: bool = False,
) -> Nodes:  # fmt: skip
    whole_number(limit, name="limit", least=1)
    whole_number(skip, name="skip")
    parsed = parse_path(path, filters=True)
    total_bytes, kind = reader.totals.bytes, kind_so_far(reader)
    if kind != "ndjson":
        _check_is_json(reader)
    most = limit if max_bytes is None else min(limit, max(1, max_bytes // _NODE_COST))
    look = find if is_plain(parsed) else find_filtered
    take = passed.take if passed is not None else None
    found = look(reader.read, total_bytes, parsed, lines=kind == "ndjson", first=skip, limit=most, take=take)
    if found.fault and not found.total:
        is_running = reader.facts.state == "running"
        what = "the output is still being written" if is_running else _described(reader, kind, found.fault)
        raise BadQuery(f"{what}: {found.fault}. No value of the path stands before that.")
    nodes: Sequence[Node] = ()
    if passed is None:
        nodes = _nodes(reader, found.hits, max_bytes, folds=folds)
    else:
        passed.pass_on()
    running = [still_written(reader)] if reader.facts.state == "running" else []
    notes = [
        *running,
        *_ended(reader),
        *_path_notes(found, nodes, skip, shortened=passed is not None and passed.shortened),
    ]
    if not found.total:
        told = found.looked_at and f"None of {plural(found.looked_at, 'value')} passes the filter."
        path_to = with_wildcard(parsed)
        notes.append(told or explain_no_match(reader.read, total_bytes, path_to, found.scan, layout=found.layout))
    shown = found.given or len(nodes)
    after = skip + shown
    return Nodes(
        handle=reader.facts.handle,
        nodes=tuple(nodes),
        total=found.total,
        totals=reader.totals,
        next=after if shown and after < found.total else None,
        notes=tuple(notes),
    )


def _check_is_json(reader: OutputReader) -> None:
    kind = kind_so_far(reader)
    start = reader.read(0, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if kind == "json" or (not format_of(kind).is_binary and start and start in b'{["-0123456789tfnNI'):
        return
    what = "empty" if not reader.totals.bytes else f"{kind}, not JSON"
    raise BadQuery(f"the output is {what}; a path names values in JSON. Use grep, or SQL over t (line_no, text).")


def _described(reader: OutputReader, kind: str, fault: JsonFault) -> str:
    if kind in ("json", "ndjson"):
        return "the JSON is broken"
    begins = reader.read(0, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    is_cut = fault.ended and begins in (b"{", b"[")
    return "the output is JSON that was cut off" if is_cut else f"the output is {kind}, not JSON"


def _nodes(
    reader: OutputReader, hits: Sequence[Hit], max_bytes: int | None, *, folds: bool = False
) -> tuple[Node, ...]:
    """Every value whole where that fits; otherwise the long ones cut to a fair share, the last ones left out. With
    `folds` those that can be folded are, where they are long: there may be room for them, but nobody asked for all.
    """
    if max_bytes is None:
        return tuple(_whole_nodes(reader, hits))
    room, sizes, long = max_bytes, list[int](), set[int]()
    for hit in hits:
        length = hit.end - hit.start
        if folds and _FOLDED_OVER < length <= _FOLDABLE and (parts := _folded(reader, hit, _FOLDED)):
            long.add(len(sizes))
            length = sum(end - start for start, end in parts)
        cost = _NODE_COST + len(hit.path.encode("utf-8", "replace"))
        if sizes and room < cost + min(length, _MIN_TEXT):
            break
        room -= cost + min(length, _MIN_TEXT)
        sizes.append(length)
    room += sum(min(length, _MIN_TEXT) for length in sizes)
    cap = fair_cap(sizes, max(_MIN_TEXT // 4, room))
    is_folded = [at in long or (folds and length > cap) for at, length in enumerate(sizes)]
    return tuple(_node(reader, hit, cap, folds=one) for hit, one in zip(hits, is_folded, strict=False))


def _whole_nodes(reader: OutputReader, hits: Sequence[Hit]) -> Iterator[Node]:
    """Those near each other are read at once, and their lines are counted on from one to the next."""
    begin, data, at, line = 0, b"", 0, 0  # a window, and a place in it with its line
    for hit in hits:
        if hit.start < at or hit.end > begin + len(data):
            begin = at = hit.start
            data = reader.read(begin, max(hit.end, min(begin + _WINDOW, hits[-1].end)))
            line = line_of_byte(reader, begin)
        line += data.count(b"\n", at - begin, hit.start - begin)
        at, span, value = hit.start, Span(hit.start, hit.end), data[hit.start - begin : hit.end - begin]
        yield Node(hit.path, span, Span(line, line + value.count(b"\n", 0, -1)), decode(value)[0], cut=False)


def _node(reader: OutputReader, hit: Hit, cap: int, *, folds: bool) -> Node:
    span = Span(hit.start, hit.end)
    if folds and (parts := _folded(reader, hit, min(cap, _FOLDED))):
        text = "…".join(decode(reader.read(hit.start + start, hit.start + end))[0] for start, end in parts)
        spans = tuple(Span(hit.start + start, hit.start + end) for start, end in parts)
        return Node(hit.path, span, lines_of(reader, span), text, cut=len(parts) > 1, parts=spans)
    data = reader.read(hit.start, min(hit.end, hit.start + cap + 1))  # one byte more tells whether it is cut
    kept = beginning(data, cap).data
    return Node(hit.path, span, lines_of(reader, span), decode(kept)[0], cut=len(kept) < hit.end - hit.start)


def _folded(reader: OutputReader, hit: Hit, limit: int) -> list[tuple[int, int]]:
    """What is shown of an object or array in about so many bytes, by its own bytes; nothing where it cannot be folded:
    where it is too long, or no JSON, or its names or numbers alone are more than that, its beginning says more.
    """
    if hit.end - hit.start > _FOLDABLE or reader.read(hit.start, hit.start + 1) not in (b"{", b"["):
        return []
    data = reader.read(hit.start, hit.end)
    try:
        parts = folded(_values_in(data), len(data), limit, least=_OPEN)
    except JsonFault:
        return []
    return parts if sum(end - start for start, end in parts) <= limit + 2 * _OPEN else []


def _values_in(data: bytes) -> list[tuple[int, int]]:
    """Where those values of a container begin and end that have an inside: strings, objects, arrays."""
    cursor = Cursor(lambda start, end: data[start:end], len(data))
    is_object = cursor.peek() == OPEN_OBJECT
    cursor.advance(1)
    found: list[tuple[int, int]] = []
    while cursor.peek() not in (CLOSE_OBJECT, CLOSE_ARRAY):
        if is_object:
            cursor.key(longest=0)
        start, sign = cursor.place, cursor.peek()
        cursor.pass_value()
        if sign in (QUOTE, OPEN_OBJECT, OPEN_ARRAY):
            found.append((start, cursor.place))
        if cursor.peek() == COMMA:
            cursor.advance(1)
    return found


def _ended(reader: OutputReader) -> list[str]:
    """A sentence on a call that did not end well: what was asked may be missing for that reason."""
    facts = reader.facts
    return [f"The call of this output did not end well: {one}." for one in ended_as(facts.state, facts.error)]


def _path_notes(found: Finding, nodes: Sequence[Node], skip: int, *, shortened: bool) -> list[str]:
    notes: list[str] = []
    if found.text_from is not None:
        notes.append(f"Other text follows the JSON from byte {found.text_from:,} on; it was not searched.")
    if found.fault:
        notes.append(
            f"The JSON is broken: {found.fault}. Only what stands before that was searched; there may be more."
        )
    if found.scan.broken:
        lines = f"Lines that are not JSON: {found.scan.broken:,}; of those only what stands before the fault is found."
        notes.append(f"{lines} The first: {found.scan.first_fault}.")
    if shortened or any(hit.shortened for hit in found.hits):
        notes.append("Some paths are too long to show and have … inside; read those values by their bytes.")
    if any(node.cut for node in nodes):
        notes.append("Some values are longer than shown (cut); read the rest by their bytes.")
    if found.total and not found.hits and not found.given and skip:
        notes.append(f"There are {plural(found.total, 'value')}; {skip:,} are skipped.")
    return notes
