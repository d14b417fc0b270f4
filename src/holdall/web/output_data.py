"""What the output page asks the bag, as values for JSON: rows, places, matches, changes, trees, tables, SQL.

Every answer is bounded in bytes, rows and time. Nothing here is an event: what a person looks at has not been shown to
a model. Refusals are the verbs' own words.
"""

import asyncio
import contextlib
import csv
import io
import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, cast

from holdall.bag import Holdall
from holdall.formats.kinds import PACKED, PACKED_STREAMS
from holdall.formats.outline import Lead
from holdall.formats.registry import format_of
from holdall.formats.registry import outline as outline_of
from holdall.text.numbers import size, whole
from holdall.text.utf8 import REPLACEMENT, straddling_bytes
from holdall.values.answers import Difference, Fetched, Found, Match, Nodes, Table
from holdall.values.errors import BadPattern, BadQuery, HoldallError
from holdall.values.handles import MEMBER
from holdall.values.outputs import RUNNING, Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span, Totals
from holdall.web.output_rows import (
    MAX_COLUMNS,
    STRIP,
    By,
    Place,
    Reader,
    answer_of,
    children_of,
    columns_of,
    count_of,
    mark_of,
    records_of,
    root_of,
    runs_of,
    seen_of,
    table_rows,
    way_to,
    window,
)
from holdall.wire.tool import Ask

MATCHES = 200
_MATCH_BYTES = 256 * 1024
_CHANGES = 100
_BEFORE, _WITHIN, _AFTER = 40, 200, 160  # bytes of a match in the list: it is in the first of its rows
_SQL_ROWS, _SQL_BYTES = 100, 1024 * 1024  # of a page
_MOST_TABLES = 200
_ROW = "holdall_row"
_CSV_BYTES = 1024**3
_now = time.monotonic
_BLANKS = "[\\s\0-\x1f\u00ad\u180e\u200b-\u200f\u2060\ufeff]*"  # and what looks like nothing
_SIGNS = "[=+@\uff1d\uff0b\uff20\uff0d-]"
_FORMULA = lazy_pattern(f"{_BLANKS}{_SIGNS}|[\t\r\n]")
_LATER_FORMULA = lazy_pattern(f"([;\t\r\n]{_BLANKS})(?={_SIGNS})")
_NUMBER = lazy_pattern(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_WAIT_SECONDS = 20.0
_NOT_UTF8 = "bytes that are not UTF-8, shown as escapes, are not found"


async def rows(bag: Holdall, handle: str, by: By, first: int, count: int, width: int) -> dict[str, Any]:
    coverage = await bag.records.coverage(handle)

    def look(reader: Reader) -> dict[str, Any]:
        found = window(reader, by, first, count, width)
        shown = [row.to_json() | _marked(mark_of(coverage, row.content)) for row in found]
        return {"rows": shown, **_so_far(reader)}

    return await bag.core.on(handle, look)


async def place(bag: Holdall, handle: str, *, line: int | None, byte: int | None) -> dict[str, Any]:
    """Which line holds a byte, and where a line starts. Past the end is the end."""
    if line is not None:
        found = await bag.fetch.find(handle, lines=(max(1, line), max(1, line)))
        last = found.total.lines if found.past_end else line
        if found.past_end and last:
            found = await bag.fetch.find(handle, lines=(last, last))
        at = found.bytes.start
        return {"line": max(1, last), "begins": at, "byte": at, "past_end": last != line}
    total = (await bag.fetch.find(handle, bytes=(0, 0))).total
    at = max(0, min(byte or 0, total.bytes - 1))
    found = await bag.fetch.find(handle, bytes=(at, at + 1))
    number = found.lines.start if found.lines else 1
    begins = (await bag.fetch.find(handle, lines=(number, number))).bytes.start if found.lines else 0
    return {"line": number, "begins": begins, "byte": at, "past_end": (byte or 0) > at}


async def search(
    bag: Holdall, handle: str, pattern: str, *, ignore_case: bool, literal: bool, start: int, most: int = MATCHES
) -> dict[str, Any]:
    options = {
        "pattern": pattern, "ignore_case": ignore_case, "literal": literal, "limit": most, "start": start,
        "spread": STRIP,
    }  # fmt: skip
    bounds = replace(bag.core.bounds(), most_bytes=_MATCH_BYTES, most_tokens=None)
    try:
        found = cast("Found", await bag.fetch.carry_out(Ask("grep", handle, options), bounds))
    except BadPattern as problem:
        raise BadPattern(_for_people(str(problem), literal=literal)) from None
    every = [one for line in found.matches for one in _each(line)]

    def look(reader: Reader) -> list[dict[str, Any]]:
        return [_match(reader, one) for one in every[:most]]

    shown = await bag.core.on(handle, look)
    following = every[most].byte if len(every) > most else found.next
    return {
        "matches": shown, "total": found.total, "unit": found.unit, "next": following,
        "notes": [_note_for_people(note) for note in found.notes],
        "bytes": found.totals.bytes, "is_running": found.state in RUNNING, "spread": list(found.spread),
        "damage": _damage(found.damage),
    }  # fmt: skip


def _damage(spans: Sequence[Span]) -> str:
    if not spans:
        return ""
    more = f" and {len(spans) - 1:,} more places" if len(spans) > 1 else ""
    return f"Damaged, so that matches may be missing: bytes {spans[0].start:,} to {spans[0].end:,}{more}."


async def difference(bag: Holdall, earlier: str, later: str, skip: int) -> Difference:
    bounds = replace(bag.core.bounds(), most_bytes=_MATCH_BYTES, most_tokens=None)
    options = {"other": later, "limit": _CHANGES, "skip": skip}
    return cast("Difference", await bag.fetch.carry_out(Ask("diff", earlier, options), bounds))


async def changes(bag: Holdall, handle: str, known: int) -> dict[str, Any]:
    """When the output has more than `known` bytes, or has ended; or after a while."""
    facts = await bag.show(handle)
    if facts.state in RUNNING:
        watch = await bag.fetch.watch(handle)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_SECONDS):
                    while await _is_quiet(bag, handle, known):
                        await watch.changed()
        finally:
            watch.close()
    facts, coverage = await bag.show(handle), await bag.records.coverage(handle)
    known_now = await bag.core.on(handle, _so_far)
    return known_now | {
        "error": facts.error, "exit_code": facts.exit_code, "seen": seen_of(coverage, known_now["total"]["bytes"]),
    }  # fmt: skip


async def totals(bag: Holdall, facts: Facts) -> tuple[Totals, str]:
    """Of a running output, so far; of one that cannot be opened, what is known of it, and why that is."""
    try:
        return await so_far(bag, facts.handle), ""
    except HoldallError as problem:
        return Totals(facts.measure.bytes, facts.measure.chars, facts.measure.lines), str(problem)


async def views(bag: Holdall, facts: Facts) -> list[str]:
    """The ways to look at it, beside its text."""

    def look(reader: Reader) -> bool:
        return reader.read(0, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    format = format_of(facts.measure.kind)
    try:
        has_tree = format.has_tree or await bag.core.on(facts.handle, look)
    except HoldallError:
        return []
    has_sql = format.is_opened or not format.is_binary
    return ["tree"] * has_tree + ["table"] * (format.table in ("csv", "tsv")) + ["sql"] * has_sql


async def seen(bag: Holdall, handle: str) -> dict[str, Any]:
    return seen_of(await bag.records.coverage(handle), (await so_far(bag, handle)).bytes)


async def tree(bag: Holdall, handle: str, at: int | None, after: Place | None, seconds: float) -> dict[str, Any]:
    """The children of the value at byte `at`; without one, the values of the whole."""

    def look(reader: Reader) -> dict[str, Any]:
        if at is not None:
            return children_of(reader, at, after=after, seconds=seconds).to_json()
        if reader.facts.measure.kind == "ndjson":
            return records_of(reader, after.index if after else 1).to_json()
        return root_of(reader, after=after, seconds=seconds).to_json()

    return await bag.core.on(handle, look)


async def count(bag: Holdall, handle: str, at: int, end: int, seconds: float) -> dict[str, Any]:
    """How many values are in the object or array that has the bytes from `at` to `end`."""
    span = Span(at, max(at, min(end, (await so_far(bag, handle)).bytes)))
    return {"count": await bag.core.on(handle, lambda reader: count_of(reader, span, seconds=seconds))}


async def way(
    bag: Holdall, handle: str, byte: int, begin: tuple[int | None, Place] | None, seconds: float
) -> dict[str, Any]:
    """The values of the tree that hold a byte, the outermost first: where each starts, and the page that shows it. With
    `next` they are not all: these are what to ask with for the others.
    """
    line: int | None = None
    if begin is None and (await bag.show(handle)).measure.kind == "ndjson":
        line = int((await place(bag, handle, line=None, byte=byte))["line"])

    def look(reader: Reader) -> dict[str, Any]:
        found = way_to(reader, byte, line=line, begin=begin, seconds=seconds)
        steps = [{"at": step.start, "after": [step.page.byte, step.page.index]} for step in found.steps]
        inside, page = found.rest or (None, None)
        return {"way": steps, "next": page and {"at": inside, "after": page.byte, "index": page.index}}

    return await bag.core.on(handle, look)


async def table(bag: Holdall, handle: str, first: int, count: int) -> dict[str, Any]:
    coverage = await bag.records.coverage(handle)

    def look(reader: Reader) -> dict[str, Any]:
        columns = columns_of(reader)
        if columns is None:
            return {"rows": [], "columns": [], "of_columns": 0, "header": True, **_so_far(reader)}
        found = table_rows(reader, columns, first, count)
        shown = [row | _marked(mark_of(coverage, Span(row["at"], max(row["at"] + 1, row["end"] - 1)))) for row in found]
        names = [runs_of(name.encode("utf-8", "surrogatepass")) for name in columns.names[:MAX_COLUMNS]]
        about = {"columns": names, "of_columns": len(columns.names), "header": columns.header}
        return {"rows": shown, **about, **_so_far(reader)}

    return await bag.core.on(handle, look)


# SQL. `at` is what a person chooses as the table: a path into JSON, a table of SQLite, or `!NAME` of what is packed.


@record
class TableQuery:
    """`sort` is the number of the column by which the rows are sorted, from 1 on; 0: as they come."""

    sql: str
    at: str = ""
    sort: int = 0
    down: bool = False
    skip: int = 0

    @property
    def is_path(self) -> bool:
        """No SQL starts so."""
        return self.sql.lstrip()[:1] in ("$", "/")

    def statement(self) -> str:
        """The SQL, sorted and from `skip` on. Rows that sort alike keep their order: no page repeats one of another."""
        sql = self.sql.strip().rstrip(";")
        if not self.sort:
            return f"select * from (\n{sql}\n) offset {self.skip}" if self.skip else self.sql  # noqa: S608
        way = "desc" if self.down else "asc"
        return (
            f"select * from (select *, row_number() over () as {_ROW} from (\n{sql}\n)) "  # noqa: S608 - it is checked
            f"order by {self.sort} {way} nulls last, {_ROW} offset {self.skip}"
        )

    def ask(self, handle: str, limit: int) -> Ask:
        if self.is_path:
            return Ask("query", handle, {"path": self.sql.strip(), "limit": limit, "skip": self.skip})
        member = self.at if self.at.startswith(MEMBER) else ""
        options = {"sql": self.statement(), "at": None if member else self.at or None, "limit": limit}
        return Ask("query", handle + member, options)


async def query(bag: Holdall, handle: str, question: TableQuery) -> dict[str, Any]:
    """A page of what SQL, or a path, answers, each row with its number in the whole answer before it was sorted."""
    bounds = replace(bag.core.bounds(), most_bytes=_SQL_BYTES, most_tokens=None)
    found = await bag.fetch.carry_out(question.ask(handle, _SQL_ROWS), bounds)
    if isinstance(found, Nodes):
        numbers: Sequence[object] = range(question.skip + 1, question.skip + len(found.nodes) + 1)
        return _nodes(found) | {"numbers": list(numbers), "skip": question.skip}
    table = cast("Table", found)
    table = replace(table, total=table.total + question.skip)
    numbers = range(question.skip + 1, question.skip + len(table.rows) + 1)
    if question.sort:
        numbers = [row[-1] for row in table.rows]
        rows = tuple(row[:-1] for row in table.rows)
        table = replace(table, columns=table.columns[:-1], types=table.types[:-1], rows=rows)
    return answer_of(table) | {"numbers": list(numbers), "skip": question.skip, "sortable": True}


async def columns(bag: Holdall, handle: str, at: str | None) -> dict[str, Any]:
    """What can be asked with SQL: the tables there are, the one at `at` or else the likeliest, and its columns."""
    tables = await _tables(bag, handle)
    chosen = at if at is not None else tables[0] if tables else ""
    told: dict[str, Any] = {"at": chosen, "tables": tables, "columns": [], "of_columns": 0, "problem": ""}
    bounds = replace(bag.core.bounds(), most_bytes=_SQL_BYTES, most_tokens=None)
    try:
        asked = TableQuery("describe t", chosen).ask(handle, MAX_COLUMNS)
        table = cast("Table", await bag.fetch.carry_out(asked, bounds))
    except HoldallError as problem:
        return told | {"problem": str(problem)}
    found = [
        {"name": runs_of(str(row[0]).encode("utf-8", "surrogatepass")), "plain": str(row[0]), "type": str(row[1])[:80]}
        for row in table.rows
    ]
    return told | {"columns": found, "of_columns": table.total}


async def _tables(bag: Holdall, handle: str) -> list[str]:
    """What `at` may be, the likeliest first; nothing where the output is one table."""
    kind = (await bag.show(handle)).measure.kind
    format = format_of(kind)
    bounds = replace(bag.core.bounds(), most_bytes=_SQL_BYTES, most_tokens=None)
    with contextlib.suppress(HoldallError):
        if format.table == "sqlite":
            asked = Ask("query", handle, {"sql": "select name from t where sql is not null", "limit": _MOST_TABLES})
            table = cast("Table", await bag.fetch.carry_out(asked, bounds))
            return [str(name) for (name,) in table.rows]
        if kind in PACKED_STREAMS:
            return [MEMBER]
        if kind in PACKED:
            asked = Ask("query", handle + MEMBER, {"sql": "select name from t", "limit": _MOST_TABLES})
            table = cast("Table", await bag.fetch.carry_out(asked, bounds))
            likeliest = (lead.member for lead in await _leads(bag, handle) if lead.member != MEMBER)
            return list(dict.fromkeys((*likeliest, *(f"{MEMBER}{name}" for (name,) in table.rows))))
        if "tree" in await views(bag, await bag.show(handle)):
            named = (str(lead.arguments["at"]) for lead in await _leads(bag, handle) if "at" in lead.arguments)
            return list(dict.fromkeys(named))
    return []


class Part(NamedTuple):
    member: str  # by its number: names may come twice, or be shown as escapes
    name: str
    bytes: int | None


async def members(bag: Holdall, facts: Facts) -> tuple[list[Part], int, str]:
    """What is packed in it; how many those are, and what is wrong with it if they cannot be told."""
    if facts.measure.kind in PACKED_STREAMS:
        leads: Sequence[Lead] = ()
        with contextlib.suppress(HoldallError):
            leads = await _leads(bag, facts.handle)
        if all(lead.member in ("", MEMBER) for lead in leads):  # else it holds a tar, whose files are its members
            return [Part("", "", None)], 1, ""
    bounds = replace(bag.core.bounds(), most_bytes=_SQL_BYTES, most_tokens=None)
    asked = {"sql": "select number, name, bytes from t where type <> 'folder'", "limit": _MOST_TABLES}
    try:
        table = cast("Table", await bag.fetch.carry_out(Ask("query", f"{facts.handle}{MEMBER}", asked), bounds))
    except HoldallError as problem:
        return [], 0, str(problem)
    found = [Part(f"#{number}", str(name or ""), whole(size)) for number, name, size in table.rows]
    return found, table.total or len(found), ""


async def _leads(bag: Holdall, handle: str) -> Sequence[Lead]:
    """What the notice says to ask next."""
    return (await bag.core.on(handle, lambda reader: outline_of(reader.read, reader.facts.measure))).leads


# The whole answer as CSV. It is written to a file without a name first: SQL is bounded in seconds, a download is not.


async def csv_of(bag: Holdall, handle: str, question: TableQuery) -> BinaryIO:
    """Whole, however many rows; close it. Refused where it takes longer or is larger than it may be."""
    if question.is_path:
        raise BadQuery("CSV is made of what SQL answers; a path answers values.")
    written = _Csv(bag.core.settings.query_seconds, has_row=bool(question.sort))
    try:
        bounds = replace(bag.core.bounds(), most_bytes=None, most_tokens=None, each=written.add)
        await bag.fetch.carry_out(question.ask(handle, 1), bounds)
        return written.ended()
    except BaseException:
        written.file.close()
        raise


class _Csv:
    def __init__(self, seconds: float, *, has_row: bool) -> None:
        """`has_row`: the last column is the number of the row, and is left out."""
        self.file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the download closes it
        self._seconds = seconds
        self._until = _now() + seconds
        self._has_row = has_row

    def add(self, part: Fetched) -> None:
        table = cast("Table", part)
        rows = table.rows if self.file.tell() else (table.columns, *table.rows)
        text = io.StringIO(newline="")
        # Text is always in quotes: elsewhere commas are semicolons.
        written = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
        written.writerows([_csv_cell(value) for value in (row[:-1] if self._has_row else row)] for row in rows)
        self.file.write(text.getvalue().encode("utf-8", "replace"))
        if self.file.tell() > _CSV_BYTES:
            raise BadQuery(f"the CSV is larger than {size(_CSV_BYTES)}. Ask for less: a WHERE, fewer columns.")
        if _now() > self._until:
            raise BadQuery(f"the CSV takes more than {self._seconds:g} s. Ask for less: a WHERE, fewer columns.")

    def ended(self) -> BinaryIO:
        self.file.seek(0)
        return self.file


def _csv_cell(value: object) -> str | float:
    """Never a formula: spreadsheets run what begins like one, and the text is a tool's."""
    match value:
        case bool():
            return json.dumps(value)
        case int() | float():
            return value
        case None:
            return ""
        case str():
            text = value
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
    if _NUMBER.fullmatch(text):
        return text
    # Where a list is separated by semicolons, what is behind one, or in the next line, is a cell of its own.
    text = _LATER_FORMULA.sub(r"\1'", text)
    return f"'{text}" if _FORMULA.match(text) else text


def _nodes(nodes: Nodes) -> dict[str, Any]:
    """The values of a path as a table, each with its place."""
    found = Table(
        handle=nodes.handle, columns=("path", "bytes", "value"), types=("path", "bytes", "json"),
        rows=tuple((one.path, f"{one.bytes.start}:{one.bytes.end}", one.text) for one in nodes.nodes),
        total=nodes.total, totals=nodes.totals, next=nodes.next, notes=nodes.notes,
    )  # fmt: skip
    return answer_of(found) | {"places": [one.bytes.as_list() for one in nodes.nodes]}


def _each(match: Match) -> list[Match]:
    """Every match of a line: a person goes from one to the next."""
    return [match, *(replace(match, byte=span.start, end=span.end) for span in match.others)]


def _match(reader: Reader, match: Match) -> dict[str, Any]:
    """Where it is and the text around it, read again: each part is shown as every row is."""
    starts = max(match.text_byte, match.byte - _BEFORE)
    left = reader.read(starts, match.byte)
    is_cut = reader.read(starts - 1, starts) not in (b"", b"\n") if starts else False
    left = left.lstrip(bytes(range(0x80, 0xC0)))  # the rest of a character that began before
    within = reader.read(match.byte, min(match.end, match.byte + _WITHIN))
    right = reader.read(match.end, match.end + _AFTER).partition(b"\n")[0]
    parts = (left, _whole(reader, within, match.byte), _whole(reader, right, match.end))
    shown = {"line": match.line, "at": match.byte, "end": match.end, "t": [runs_of(part) for part in parts]}
    return shown | ({"cut": True} if is_cut else {})


def _for_people(refusal: str, *, literal: bool) -> str:
    """Why a pattern is refused, for who typed it into a field: a page has no flags."""
    words = refusal.replace(" with group=True", "")
    hint = "" if literal else " Without .* the characters are searched for as they are."
    return f"This cannot be searched for. {words[:1].upper()}{words[1:]}{hint}"


def _note_for_people(note: str) -> str:
    """What the verb says beside its matches, on a page: it shows bytes as escapes, and has links to what is packed."""
    if "HANDLE!" in note:
        return f"{re.split('[:,]', note)[0]}: search what is inside, by its link above"
    return note.replace(f"no pattern matches bytes that are not UTF-8, shown as {REPLACEMENT}", _NOT_UTF8)


def _whole(reader: Reader, data: bytes, start: int) -> bytes:
    end = start + len(data)
    return data[: len(data) - straddling_bytes(data, reader.read(end, end + 3))]


def _marked(mark: str) -> dict[str, str]:
    return {"seen": mark} if mark else {}


def _so_far(reader: Reader) -> dict[str, Any]:
    return {"total": reader.totals.as_dict(), "state": reader.facts.state}


async def _is_quiet(bag: Holdall, handle: str, known: int) -> bool:
    """Whether it still runs and has written nothing since."""
    running = (await bag.show(handle)).state in RUNNING
    return running and (await so_far(bag, handle)).bytes <= known


async def so_far(bag: Holdall, handle: str) -> Totals:
    def look(reader: Reader) -> Totals:
        return reader.totals

    return await bag.core.on(handle, look)
