"""What SQL reads: the stored file itself where DuckDB takes it as it is, or a prepared copy of it in a file without a
name, which goes with its last descriptor.
"""

import codecs
import contextlib
import csv
import io
import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any, BinaryIO

from holdall.formats.columns import Table, column_names, table_of
from holdall.formats.kinds import PACKED, PACKED_STREAMS, SAMPLE, TAIL
from holdall.formats.outline import Sample, take
from holdall.formats.registry import format_of, kind_of
from holdall.store.members import scratch
from holdall.store.protocol import OutputReader
from holdall.store.reader import byte_of_line, damage_in, line_of_byte
from holdall.text.escape import foreign
from holdall.text.json.find import Hit, Scan, SeveralValues, explain_no_match, find
from holdall.text.json.path import JsonPath, Segment, Wildcard, parse_path
from holdall.text.numbers import plural
from holdall.values.answers import UNCHECKED
from holdall.values.errors import BadQuery, NotReady, OutputDamaged
from holdall.values.outputs import Kind
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# Prepared copies of an output for DuckDB, in files that have no name and vanish with their last descriptor.
#
# Copied from checked blocks, piece by piece. What cannot be copied as it is, is replaced in a way that the table undoes
# again; only bytes that are not UTF-8 are replaced for good, by U+FFFD, and the caller adds a note.


PIECE = 1024 * 1024

_PAIR = 12  # bytes of two escapes
# Every escape, so that the second backslash of `\\ud83d` is not taken for the start of one.
_ESCAPE = lazy_pattern(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CONTROL = bytes(sign for sign in range(32) if sign != 10)
_NO_CONTROL = bytes.maketrans(_CONTROL, b" " * len(_CONTROL))  # in JSON a space is as good, but within texts

Check = Callable[[], None]  # raises where there is no time left


def pieces(reader: OutputReader, start: int, end: int, check: Check) -> Iterator[bytes]:
    """The bytes from `start` to `end`, each block checked."""
    for at in range(start, end, PIECE):
        check()
        yield reader.read(at, min(at + PIECE, end))


def mended(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same text with U+FFFD for what is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for part in parts:
        yield decoder.decode(part).encode()
    yield decoder.decode(b"", final=True).encode()


def json_mended(parts: Iterable[bytes], *, lines: bool) -> Iterator[bytes]:
    """The same JSON as strict readers take it: U+FFFD for each half of a surrogate pair, spaces for raw control signs.

    Nothing becomes longer or shorter. `lines`: newlines stay. Parts are cut behind a sign that is in no escape.
    """
    held = b""
    for part in parts:
        text = held + (part if lines else part.replace(b"\n", b" "))
        end = max(text.rfind(sign) for sign in (b'"', b",", b" ")) + 1
        if not end and b"\\" not in text[-_PAIR:]:
            end = len(text)
        held = text[end:]
        yield _json_mended(text[:end])
    yield _json_mended(held)


def _json_mended(text: bytes) -> bytes:
    text = text.translate(_NO_CONTROL)
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found["half"] else found[0], text)


def marked_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that DuckDB's CSV reader takes as they are: none empty, no sign in them that it would act on.

    Each gets an x in front and loses the \\r of its \\r\\n. A \\r elsewhere, and the signs that delimit columns and
    escapes here, are written with the escape \\x1e in front.
    """
    at_start, held = True, b""
    for part in parts:
        text = held + part
        held = b"\r" if text.endswith(b"\r") else b""  # the next part tells whether a newline follows
        text = text[: len(text) - len(held)]
        if not text:
            continue
        text = text.replace(b"\x1e", b"\x1ee").replace(b"\x1f", b"\x1eu")
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\x1er")
        yield b"x" * at_start + text[:-1].replace(b"\n", b"\nx") + text[-1:]
        at_start = text.endswith(b"\n")
    if held:
        yield b"x" * at_start + b"\x1er"


def are_plain_lines(parts: Iterable[bytes]) -> bool:
    """Whether DuckDB's CSV reader takes the lines as they are, so that no copy is needed."""
    last = b"\n"  # so that a newline at the very start counts as an empty line
    for part in parts:
        if last + part[:1] == b"\n\n" or any(sign in part for sign in (b"\r", b"\x1e", b"\x1f", b"\n\n")):
            return False
        if last == b"\n" and part.startswith(codecs.BOM_UTF8):
            return False  # it would be taken off
        last = part[-1:]
    return True


# What SQL reads: the stored file itself where DuckDB takes it as it is, or a prepared copy of it.
#
# Chosen by the kind of the output and by `at`. The file is handed over as an open descriptor, never as a name.


_UNCHECKED = f"scanned {UNCHECKED}"
_CHILDREN = JsonPath("$.*", (Segment((Wildcard(),)),))
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")  # in JSON they stand only between values
_FORCED = ("csv", "tsv", "table", "json", "ndjson", "lines")
_MOST_EXTRA = 100  # cells that a row may have beside those of the columns
_LARGEST_KEPT = 256 * 1024 * 1024
_LONGEST_LIVE_LINE = 16 * 1024 * 1024  # of an output that is still being written, and not yet measured


@record(frozen=False)
class Source:
    """`shape` has the fields of `sql.child.Shape`. `copy` is None if the stored file itself is read."""

    descriptor: int
    shape: dict[str, Any]
    copy: BinaryIO | None = None
    notes: list[str] = field(default_factory=list[str])

    local: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # the stored file, while it is read
    why: str = ""  # it is read otherwise than as what it is

    def close(self) -> None:
        self.local.close()
        if self.copy:
            self.copy.close()


class LastSources:
    """What the query before this one read: a model often asks twice of the same outputs.

    Only its own copies are kept open, and no very large ones. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[object, ...], Source] = {}

    def take(self, key: tuple[object, ...], reader: OutputReader) -> Source | None:
        """The same source once more, with a descriptor of its own; None if it was another."""
        with self._lock:
            known = self._kept.get(key)
            if known is None:
                return None
            if known.copy is None:
                source = _stored(reader, known.shape)
            else:
                copy = os.fdopen(os.dup(known.copy.fileno()), "rb")
                source = Source(copy.fileno(), known.shape, copy, list(known.notes))
            source.why = known.why
            return source

    def keep(self, sources: Mapping[tuple[object, ...], Source]) -> None:
        """Closes those before, and of these what is not kept. The stored files are let go of in any case."""
        left, kept = _LARGEST_KEPT, dict[tuple[object, ...], Source]()
        for key, source in sources.items():
            source.local.close()
            size = 0 if source.copy is None else source.shape["size"]
            if size <= left:
                kept[key] = source
                left -= size
            else:
                source.close()
        with self._lock:
            before, self._kept = self._kept, kept
        for source in before.values():
            source.close()

    def close(self) -> None:
        self.keep({})


def kind_so_far(reader: OutputReader) -> Kind:
    """The kind of the output; of one that is still being written, as its bytes look now."""
    measure, end = reader.facts.measure, reader.totals.bytes
    if _is_settled(reader):
        return measure.kind
    kind = kind_of(reader.read(0, SAMPLE), reader.read(end - TAIL, end), whole=False, valid=True)
    return "binary" if format_of(kind).is_opened and reader.facts.origin.masked else kind


def check_kind(kind: str | None) -> str | None:
    """One that SQL can be told to read an output as."""
    if kind is not None and kind not in _FORCED:
        raise BadQuery(f"kind says how sql reads the output: {', '.join(_FORCED)}; not '{foreign(kind)}'.")
    return kind


def source_of(
    reader: OutputReader,
    at: str | None,
    check: Check,
    *,
    forced: str | None = None,
    mend: bool = False,
    rewrite: bool = False,
) -> Source:
    """`forced`: the kind that it is read as. `mend`: a copy in which strict readers of JSON find nothing that they do
    not take; `rewrite`: of CSV."""
    kind = kind_so_far(reader)
    if kind in PACKED_STREAMS:
        raise BadQuery(f"the output is packed ({kind}): query what it holds, HANDLE!, or HANDLE!NAME of a tar in it.")
    if kind in PACKED:
        raise BadQuery(f"the output is packed ({kind}): query what is in it, HANDLE!NAME; HANDLE! is the list of that.")
    if format_of(kind).is_opened and not _is_settled(reader):
        raise NotReady(reader.facts.handle)
    match format_of(kind).table:
        case "sqlite":
            return _stored(reader, {"form": "sqlite", "inner": at or ""})
        case ("parquet" | "arrow") as form if at is None:
            return _stored(reader, {"form": form})
        case _:
            pass
    if format_of(kind).is_binary:
        raise BadQuery("the output is binary data, not a table; `read` shows its bytes, `grep` searches them.")
    if at is not None:
        return _source_at(reader, at, check, mend)
    match forced or format_of(kind).table:
        case "ndjson":
            return _records(reader, {"form": "ndjson", "object_size": _longest_line(reader) + 1024}, check, mend)
        case "json":
            return _records(reader, _json_shape(reader), check, mend)
        case "csv" | "tsv" | "table" as form:
            return _table(reader, form, check, forced=bool(forced or reader.facts.origin.read_as), rewrite=rewrite)
        case _:
            return lines_of(reader, check)


def lines_of(reader: OutputReader, check: Check) -> Source:
    """Any text as lines. They are numbered as `read` and `grep` number them."""
    measure, end = reader.facts.measure, reader.totals.bytes
    records = kind_so_far(reader) == "ndjson"
    if _is_settled(reader) and measure.utf8 and are_plain_lines(pieces(reader, 0, end, check)):
        return _stored(reader, {"form": "lines", "longest_line": measure.longest_line, "records": records})
    parts = marked_lines(_valid(reader, pieces(reader, 0, end, check)))
    # An escape takes two bytes for one, a replacement three.
    longest = 3 * _longest_line(reader) + 16
    shape = {"form": "lines", "longest_line": longest, "records": records, "prefixed": True, "escaped": True}
    return _copied(reader, shape, scratch(parts))


def _records(reader: OutputReader, shape: dict[str, Any], check: Check, mend: bool = False) -> Source:
    """JSON, NDJSON or CSV, as it is stored wherever that can be."""
    start = len(codecs.BOM_UTF8) if reader.read(0, 3) == codecs.BOM_UTF8 else 0
    shape |= {"size": reader.totals.bytes, "longest_line": _longest_line(reader)}
    if not mend and _is_settled(reader) and reader.facts.measure.utf8 and not (start and shape["form"] == "ndjson"):
        return _stored(reader, shape)
    end = _end_of_lines(reader)
    parts = _valid(reader, pieces(reader, start, end, check))
    parts = json_mended(parts, lines=shape["form"] == "ndjson") if mend else parts
    return _copied(reader, shape, scratch(parts))


def _json_shape(reader: OutputReader) -> dict[str, Any]:
    head = reader.read(0, SAMPLE).removeprefix(codecs.BOM_UTF8).lstrip()
    if head.startswith(b"["):
        return {"form": "array"}
    return {"form": "object", "object_size": reader.totals.bytes + 1024}


def _table(reader: OutputReader, form: str, check: Check, *, forced: bool = False, rewrite: bool = False) -> Source:
    """Separated or aligned columns, with the names and types that the notice has.

    `rewrite`, and for what DuckDB's strict reader does not take: a copy with every row as the notice's reader has it.
    """
    sample = take(reader.read, _end_of_lines(reader), reader.totals.lines)
    table = table_of(sample, kind=form, forced=forced)
    check()
    if table is None:
        too_long = f"a cell has more than {csv.field_size_limit():,} characters"
        why = "no columns line up" if form == "table" else f"no sign parts its lines, or {too_long}"
        lines = lines_of(reader, check)
        return _not_all(form, why, lines) if forced else lines
    rewrite = rewrite or bool(table.open_line)
    if not (rewrite or table.positions or table.ragged or _has_odd_ends(sample) or _has_odd_header(reader, table)):
        return _records(reader, {"form": "csv", "delimiter": table.separator, **table.shape()}, check)
    widest, wider = len(table.columns), 0
    try:
        copy = scratch(_as_csv(_rows(reader, table, check), widest))
    except _WiderRow:  # than all of the sample
        try:
            widest, wider = _widths(_rows(reader, table, check), widest)
            copy = scratch(_as_csv(_rows(reader, table, check), widest))
        except (_WiderRow, csv.Error):
            return _not_all(form, "a row has far more cells than the first ones", lines_of(reader, check))
    except csv.Error as problem:
        return _not_all(form, _why_not(problem), lines_of(reader, check))
    names = column_names([one.name for one in table.columns], widest)
    types = [one.type for one in table.columns] + ["VARCHAR"] * (widest - len(table.columns))
    shape = {"form": "csv", "header": False, "columns": list(zip(names, types, strict=True)), "checked": table.exact}
    shape |= {"nearly": table.nearly}
    notes = [f"In the output, {table.told_quote}."] if table.open_line else []
    made = _copied(reader, shape | {"rewritten": True, "longest_line": 3 * _longest_line(reader)}, copy)
    made.notes.extend(notes)
    if table.positions and table.ragged:
        least, is_one = "" if table.exact else "At least ", table.ragged == 1
        what = "is out of line: its" if is_one else "are out of line: their"
        made.notes.append(f"{least}{plural(table.ragged, 'row')} {what} cells may be in other columns.")
    if wider:
        has = "has" if wider == 1 else "have"
        made.notes.append(
            f"{plural(wider, 'row')} {has} more cells than the others: columns {names[len(table.columns)]} on."
        )
    return made


def _why_not(problem: csv.Error) -> str:
    match str(problem).split(" ", 1)[0]:
        case "field":  # of a limit that is the whole program's: rather an open quote
            return f"a cell has more than {csv.field_size_limit():,} characters, or a quote stays open"
        case "new-line":
            return "a carriage return is inside of a row"
        case _:
            return f"a line has more than {_LONGEST_ROW:,} characters"


def _widths(rows: Iterator[list[str]], usual: int) -> tuple[int, int]:
    """How many cells the widest row has, and how many rows have more than the usual ones."""
    widest = wider = 0
    for row in rows:
        if len(row) > usual:
            widest, wider = max(widest, len(row)), wider + 1
    if widest > usual + _MOST_EXTRA:
        raise _WiderRow
    return widest, wider


def _not_all(form: str, why: str, lines: Source) -> Source:
    lines.why = (
        f"Not all of it is {'a table' if form == 'table' else form}, so t has its lines, as line_no, text. ({why})"
    )
    return lines


def _has_odd_header(reader: OutputReader, table: Table) -> bool:
    """Whether anything follows a closing quote in it: DuckDB, which refuses that in rows, then finds none at all. Or
    whether a blank line is before it, which DuckDB would take for it."""
    if reader.read(0, min(5, reader.totals.bytes)).removeprefix(b"\xef\xbb\xbf")[:1] in (b"\n", b"\r"):
        return table.header
    try:
        next(csv.reader(_lines_in([reader.read(0, SAMPLE)]), delimiter=table.separator, strict=True), None)
    except csv.Error:
        return table.header
    return False


def _has_odd_ends(sample: Sample) -> bool:
    """Whether lines end in more than one way, or something else does as they do."""
    returns, pairs, ends = (sample.count(sign) for sign in (b"\r", b"\r\n", b"\n"))
    return bool(returns) and not returns == pairs == ends


def _lines_in(parts: Iterable[bytes]) -> Iterator[str]:
    """Lines with their ends, without a byte order mark. Raises csv.Error where one is so long that it is none."""
    decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
    held = ""
    for text in map(decode, parts):
        *lines, held = (held + text).split("\n")
        if len(held) > _LONGEST_ROW:
            raise csv.Error
        for line in lines:
            yield line + "\n"
    if held:
        yield held


def _rows(reader: OutputReader, table: Table, check: Check) -> Iterator[list[str]]:
    """The cells of each row, without the names of the columns."""
    parts = iter([table.mended]) if table.mended else pieces(reader, 0, _end_of_lines(reader), check)
    lines = _lines_in(_valid(reader, parts))
    if table.positions:
        cells = table.positions.cells
        return (cells(line.rstrip("\r\n")) for line in islice(lines, table.positions.first, None) if line.strip())
    return islice(filter(None, csv.reader(lines, delimiter=table.separator)), int(table.header), None)


_LONGEST_ROW = 4 << 20  # characters
_CELLS = 50_000  # that are held at once: each is an object of its own


class _WiderRow(Exception):
    """One has more cells than there are columns."""


def _as_csv(rows: Iterator[list[str]], width: int) -> Iterator[bytes]:
    while batch := list(islice(rows, max(1, min(2000, _CELLS // width)))):
        if list(map(len, batch)).count(width) < len(batch):
            if max(map(len, batch)) > width:
                raise _WiderRow
            batch = [row + [""] * (width - len(row)) for row in batch]
        written = io.StringIO(newline="")
        csv.writer(written, lineterminator="\n").writerows(batch)
        yield written.getvalue().encode()


def _end_of_lines(reader: OutputReader) -> int:
    """Where the last line that is whole ends; of an output that has ended, the last line is."""
    end = reader.totals.bytes
    if _is_settled(reader) or reader.read(end - 1, end) == b"\n":
        return end
    return byte_of_line(reader, line_of_byte(reader, end))


# ── At ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _source_at(reader: OutputReader, at: str, check: Check, mend: bool) -> Source:
    """The value that `at` names: an array's elements are the rows; an object's members are, as key and value."""
    path = parse_path(at)
    if not path.is_singular:
        raise BadQuery(
            f"at names one array or object, without *, .., slices or lists; '{foreign(at)}' may name several."
        )
    lines = kind_so_far(reader) == "ndjson"
    if not path.segments and lines:
        return source_of(reader, None, check, mend=mend)  # the records themselves
    hit = _the_value(reader, path, lines)
    first = reader.read(hit.start, hit.start + 1)
    if first == b"[":
        parts = _valid(reader, pieces(reader, hit.start, hit.end, check))
        parts = json_mended(parts, lines=False) if mend else parts
        return _copied(reader, {"form": "array", "size": hit.end - hit.start}, scratch(parts))
    if first == b"{":
        parts = _valid(reader, _members(reader, hit, check))
        parts = json_mended(parts, lines=True) if mend else parts
        return _copied(reader, {"form": "members", "object_size": hit.end - hit.start}, scratch(parts))
    raise BadQuery(
        f"{foreign(hit.path)} is neither an array nor an object, so it is no table. Query it with a path instead."
    )


def _the_value(reader: OutputReader, path: JsonPath, lines: bool) -> Hit:
    size = reader.totals.bytes
    found = find(reader.read, size, path, lines=lines, limit=2)
    if found.total == 1 and found.hits:
        return found.hits[0]
    if found.total > 1:
        raise BadQuery(f"at names one array or object, but {found.total} members are called so.")
    if found.fault:
        raise BadQuery(f"at chooses a part of t, and {reader.facts.handle} is not JSON: {found.fault}.")
    raise BadQuery("at names nothing. " + explain_no_match(reader.read, size, path, found.scan, layout=found.layout))


def _members(reader: OutputReader, hit: Hit, check: Check) -> Iterator[bytes]:
    """One line for each member: its key, and its value as it is stored."""
    scan = Scan(reader.read, reader.totals.bytes, _CHILDREN, start=hit.start)
    try:
        for member in scan.hits():
            key = member.step.decode("utf-8", "replace") if isinstance(member.step, bytes) else ""
            yield b'{"key":' + json.dumps(key).encode() + b',"value":'
            for part in pieces(reader, member.start, member.end, check):
                yield part.translate(_ONE_LINE)
            yield b"}\n"
    except SeveralValues:
        pass  # what is after the object


# ── Stored or copied ────────────────────────────────────────────────────────────────────────────────────────


def _stored(reader: OutputReader, shape: dict[str, Any]) -> Source:
    with contextlib.ExitStack() as opened:
        descriptor = opened.enter_context(reader.local_file())
        here, whole = os.fstat(descriptor).st_size, reader.totals.bytes
        if here != whole:
            raise OutputDamaged(reader.facts.handle, f"its file has {here:,} bytes instead of {whole:,}")
        damage = damage_in(reader, descriptor)
        if damage:
            start, end = damage[0].start, damage[0].end
            raise OutputDamaged(reader.facts.handle, f"checksum mismatch in bytes {start:,} to {end:,}", end)
        notes = [_UNCHECKED] if damage is None else []
        return Source(descriptor, {"size": whole} | shape, None, notes, opened.pop_all())


def still_written(reader: OutputReader) -> str:
    return f"The output is still being written; these are its first {reader.totals.bytes:,} bytes."


def _copied(reader: OutputReader, shape: dict[str, Any], copy: BinaryIO) -> Source:
    notes: list[str] = []
    if not reader.facts.measure.utf8:
        notes.append("Bytes that are not UTF-8 stand as U+FFFD (\ufffd) in the table.")
    if not _is_settled(reader):
        notes.append(still_written(reader))
    return Source(copy.fileno(), {"size": os.fstat(copy.fileno()).st_size} | shape, copy, notes)


def _valid(reader: OutputReader, parts: Iterator[bytes]) -> Iterator[bytes]:
    return parts if reader.facts.measure.utf8 and _is_settled(reader) else mended(parts)


def _longest_line(reader: OutputReader) -> int:
    return reader.facts.measure.longest_line if _is_settled(reader) else min(reader.totals.bytes, _LONGEST_LIVE_LINE)


def _is_settled(reader: OutputReader) -> bool:
    return reader.facts.state not in ("queued", "running")
