"""An output as a page shows it: lines, hex, cells of a table, levels of a JSON tree, a window at a time, with what the
model has seen of each.
"""

import csv
import json
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from itertools import groupby, pairwise
from typing import Any, Literal, Protocol, get_args

from holdall.formats.columns import column_names, has_header, separator_of
from holdall.policy.folds import Coverage, Ranges
from holdall.text.json.find import find
from holdall.text.json.path import decoded_name, parse_path, shown_name
from holdall.text.json.reader import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    ENDED,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    Cursor,
    JsonFault,
    count_members,
)
from holdall.text.utf8 import straddling_bytes
from holdall.values.answers import Table
from holdall.values.errors import BadRange
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import BLOCK, BlockTable, Span, Totals

# Stored bytes as a page shows them: runs of plain text, and runs of escapes that a page marks as such.
#
# Nothing that could hide, reorder or run is left in a plain run: control characters, bidirectional and invisible ones,
# and bytes that are not UTF-8 become escapes. A page can tell which byte each character on it stands for. Nothing here
# leaves a byte out.


Run = str | tuple[str, str, int, int]
"""Plain text; or the text of escapes, their kind, and for each of them how many bytes and how many characters it has.

Kinds: `c` a control or invisible character, `n` a newline, `x` a byte that is not UTF-8.
"""

# What `text.escape` shows as escapes (a test compares them), and what has no width or the look of a space.
_MARKED = lazy_pattern(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_RUNS = lazy_pattern(f"{_MARKED.pattern}+")
_SHORT = {"\n": "↵", "\r": "\\r", "\x1b": "\\e", "\0": "\\0"}
_LOWEST_BYTE = 0xDC00  # of those that stand for bytes that are not UTF-8


def runs_of(data: bytes) -> list[Run]:
    """All of `data`, in order."""
    text = data.decode("utf-8", "surrogateescape")
    found: list[Run] = []
    at = 0
    for marked in _RUNS.finditer(text):
        if at < marked.start():
            found.append(text[at : marked.start()])
        for form, group in groupby(map(_escape, marked[0]), key=lambda one: (one[1], one[2], len(one[0]))):
            found.append(("".join(one[0] for one in group), *form))
        at = marked.end()
    if at < len(text):
        found.append(text[at:])
    return found


def _escape(char: str) -> tuple[str, str, int]:
    """Its text, its kind and how many bytes it has."""
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:  # a lone surrogate is not UTF-8: each of its bytes comes by itself
        return f"\\x{code - _LOWEST_BYTE:02x}", "x", 1
    length = len(char.encode("utf-8"))
    if char in _SHORT:
        return _SHORT[char], "n" if char == "\n" else "c", length
    if code < 0x80:  # above, that is how a byte looks that is not UTF-8
        return f"\\x{code:02x}", "c", length
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}", "c", length


# What the model has seen of an output, as a page marks it: beside each row, and along the whole.
#
# All of it comes from the ledger, which is a fold over the session's events; nothing here looks at an output.


STRIP = 400  # steps of the strip along the whole
_LEVELS = 4


def mark_of(coverage: Coverage, span: Span) -> str:
    """`all` or `part` of it was shown to the model; `searched` by one that extracted from it; or nothing."""
    if span.start < span.end and coverage.shown.covers(span):
        return "all"
    if _touches(coverage.shown, span):
        return "part"
    return "searched" if _touches(coverage.ranges["searched"], span) else ""


def strip_of(coverage: Coverage, total: int) -> dict[str, Any]:
    """How much of each step was shown and searched: runs of `[first step, number of steps, level]`."""
    return {
        "steps": STRIP,
        "shown": _levels(coverage.shown, total),
        "searched": _levels(coverage.ranges["searched"], total),
    }


def seen_of(coverage: Coverage, total: int) -> dict[str, Any]:
    """In numbers, with the strip."""
    bytes_by = {way: ranges.bytes(total) for way, ranges in coverage.ranges.items()}
    share = round(coverage.share(total), 6)
    return {"share": share, "retrievals": coverage.retrievals, "bytes": bytes_by, **strip_of(coverage, total)}


def _touches(ranges: Ranges, span: Span) -> bool:
    at = bisect_right(ranges.ends, span.start)
    return at < len(ranges.starts) and ranges.starts[at] < span.end


def _levels(ranges: Ranges, total: int) -> list[tuple[int, int, int]]:
    """The least that was shown is a mark, and only a step that was shown whole has the last level."""
    if not total:
        return []
    filled = [0] * STRIP  # in bytes times STRIP: a step is `total` of these, and no fraction is lost
    for start, end in zip(ranges.starts[:], ranges.ends[:], strict=False):
        low, high = start * STRIP, min(end, total) * STRIP
        for step in range(low // total, min(STRIP, -(-high // total))):
            filled[step] += min(high, (step + 1) * total) - max(low, step * total)
    return _runs([0 if part <= 0 else 1 + part * (_LEVELS - 1) // total for part in filled])


def _runs(levels: Sequence[int]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for step, level in enumerate(levels):
        if runs and runs[-1][2] == level and runs[-1][0] + runs[-1][1] == step:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, level)
        elif level:
            runs.append((step, 1, level))
    return runs


# A window into an output, as rows: lines, runs of so many bytes, or bytes in hex.
#
# Any window costs a few reads of 64 KiB, wherever it is and whatever the output is like: one of ten million lines, and
# one line of a gigabyte. A line that is long is shown by its beginning, and the row says how much is left; by bytes all
# of it can be seen. A window never splits a character.


By = Literal["lines", "bytes", "hex"]
WAYS: tuple[str, ...] = get_args(By)
MAX_ROWS = 400
LINE_BYTES = 1024  # of one line that are shown
MAX_WIDTH = 512
HEX_WIDTH = 16
_NEWLINE = lazy_pattern(b"\n")


class Reader(Protocol):
    """An open output, as the bag passes it to a function."""

    @property
    def facts(self) -> Facts: ...
    @property
    def table(self) -> BlockTable: ...
    @property
    def totals(self) -> Totals: ...
    def read(self, start: int, end: int) -> bytes: ...


@record
class Row:
    """`number` is the line, or which run of bytes it is, from 0. `end` is where the next row starts."""

    number: int
    start: int
    end: int
    runs: Sequence[Run]
    left: int = 0  # bytes of the line that are not in `runs`
    ended: bool = False  # the last of its bytes is the newline

    @property
    def content(self) -> Span:
        """Without the newline, which a verb that shows a line may leave out."""
        return Span(self.start, self.end - (self.ended and self.end - self.start > 1))

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"n": self.number, "at": self.start, "end": self.end, "t": self.runs}
        return flat | ({"left": self.left} if self.left else {})


def window(reader: Reader, by: By, first: int, count: int, width: int) -> list[Row]:
    """At most `count` rows from `first` on: a line from 1 on, or a run of `width` bytes from 0 on."""
    if first < 0 or not 0 < count <= MAX_ROWS or not 0 < width <= MAX_WIDTH:
        raise BadRange(f"a window has 1 to {MAX_ROWS} rows of 1 to {MAX_WIDTH} bytes and starts at 0 or later.")
    if by == "lines":
        return list(lines_from(reader, max(1, first), count))
    return list(_pieces(reader, first, count, width, in_hex=by == "hex"))


def lines_from(reader: Reader, first: int, count: int, *, most: int = LINE_BYTES) -> Iterator[Row]:
    total = reader.totals
    last = min(first + count - 1, total.lines)
    if first > last:
        return
    starts = [0] if first == 1 else []
    starts += [place + 1 for place in _newlines(reader, max(1, first - 1), last - 1)]
    starts += [place + 1 for place in _newlines(reader, last, last)] or [total.bytes]
    for number, (start, end) in enumerate(pairwise(starts), first):
        data = reader.read(start, min(end, start + most + 4))
        whole = data.removesuffix(b"\n") if start + len(data) == end else data
        shown = whole if len(whole) <= most else whole[: most - straddling_bytes(whole[:most], whole[most:])]
        ended = reader.read(end - 1, end) == b"\n"
        yield Row(number, start, end, runs_of(shown), max(0, end - ended - start - len(shown)), ended)


def _newlines(reader: Reader, first: int, last: int) -> Iterator[int]:
    """Where the newlines with these numbers stand, from 1 on; a block is read once, and only blocks that hold one."""
    table, wanted = reader.table, first
    while wanted <= last:
        block = table.block_of_newline(wanted)
        if block >= len(table):
            return
        before = table.newlines_before(block)
        places = [found.start() for found in _NEWLINE.finditer(reader.read(block * BLOCK, (block + 1) * BLOCK))]
        chosen = places[wanted - before - 1 : last - before]
        if not chosen:  # a running output that was cut short under our feet
            return
        yield from (block * BLOCK + place for place in chosen)
        wanted += len(chosen)


def _pieces(reader: Reader, first: int, count: int, width: int, *, in_hex: bool) -> Iterator[Row]:
    size = reader.totals.bytes
    begin, stop = first * width, min(size, (first + count) * width)
    if begin >= stop:
        return
    base = max(0, begin - 3)
    data = reader.read(base, min(size, stop + 3))

    def border(place: int) -> int:
        """Where the character starts that is at `place`."""
        if in_hex or place >= size:
            return min(place, size)
        at = place - base
        return place - straddling_bytes(data[max(0, at - 3) : at], data[at : at + 3])

    start = border(begin)
    for number in range(first, first + count):
        end = border((number + 1) * width)
        if start >= size:
            return
        piece = data[start - base : end - base]
        yield Row(number, start, end, [piece.hex(" ")] if in_hex else runs_of(piece))
        start = end


# A table as a page shows it: lines of CSV as cells, and the rows that SQL answers.
#
# CSV is cut at line ends, so that any part of it costs the same. A quoted field that goes on over several lines is put
# together from lines before the window; where that fails, or a line has another number of columns than the first one,
# it is marked and shown as it stands. `query` reads the whole and knows better. A long cell says how much of it is
# left, and a table with very many columns how many there are.


_BACK = 32  # lines before a window in which a quoted field may have begun
_LINE_BYTES = 16 * 1024
_CELL = 300  # characters
_SAMPLE = 50
MAX_COLUMNS = 200


@record
class Columns:
    names: tuple[str, ...]
    sign: str
    header: bool = True  # whether the first line has the names


def columns_of(reader: Reader) -> Columns | None:
    """By the first lines; None if they are no table."""
    texts = [_text(reader, start, end) for _, start, end in _lines(reader, 1, _SAMPLE)]
    if not texts:
        return None
    texts[0] = texts[0].removeprefix("\ufeff")
    sign = separator_of("\n".join(texts), whole=len(texts) < _SAMPLE)
    if sign is None:
        return None
    first, *rows = [fields for fields, _ in _records(texts, sign)]
    header = has_header(first, rows)
    return Columns(tuple(column_names(first if header else None, len(first))), sign, header)


def table_rows(reader: Reader, columns: Columns, first: int, count: int) -> list[dict[str, Any]]:
    """A row for each line from `first` on. A line that goes on a field of the one before has no cells of its own."""
    begin = max(1, first - _BACK)
    lines = list(_lines(reader, begin, count + first - begin))
    texts = [_text(reader, start, end) for _, start, end in lines]
    rows: list[dict[str, Any]] = []
    for fields, taken in _records(texts, columns.sign):
        for offset in range(taken):
            number, start, end = lines[len(rows)]
            row: dict[str, Any] = {"n": number, "at": start, "end": end}
            if offset:
                row["goes_on"] = True
            elif len(fields) == len(columns.names):
                row["cells"] = [cell_of(field) for field in fields[:MAX_COLUMNS]]
            else:
                row["odd"] = cell_of(texts[len(rows)])
            rows.append(row)
    return rows[first - begin :]


def answer_of(table: Table) -> dict[str, Any]:
    return {
        "columns": [runs_of(name.encode("utf-8", "surrogatepass")) for name in table.columns],
        "types": list(table.types),
        "rows": [[cell_of(value) for value in row] for row in table.rows],
        "shown": len(table.rows),
        "total": table.total,
        "more": table.next is not None,
        "notes": list(table.notes),
    }


def cell_of(value: object) -> dict[str, Any]:
    """What is in it, and of what kind it is."""
    match value:
        case None:
            return {"t": ["NULL"], "k": "null"}
        case bool() | int() | float():
            return {"t": [json.dumps(value)], "k": "number"}
        case str():
            text = value
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
    shown: list[Run] = runs_of(text[:_CELL].encode("utf-8", "surrogatepass"))
    left = len(text) - _CELL
    return {"t": shown, "k": "text", **({"left": left} if left > 0 else {})}


def _lines(reader: Reader, first: int, count: int) -> Iterator[tuple[int, int, int]]:
    for row in lines_from(reader, first, count, most=1):
        yield row.number, row.start, row.end


def _text(reader: Reader, start: int, end: int) -> str:
    return reader.read(start, min(end, start + _LINE_BYTES)).decode("utf-8", "replace")


def _records(texts: Sequence[str], sign: str) -> Iterator[tuple[list[str], int]]:
    """The fields of each record, and how many lines it takes."""
    at = 0
    while at < len(texts):
        reader = csv.reader((text.replace("\0", "\\0") for text in texts[at:]), delimiter=sign)
        taken = 0
        try:
            for fields in reader:
                yield fields, reader.line_num - taken
                taken = reader.line_num
            at = len(texts)
        except csv.Error:  # a field that is longer than the reader takes
            yield [], 1
            taken += 1
            at += taken


# JSON as a tree, one level at a time: the children of the value that is at a byte, a page of them.
#
# A value is named by its bytes, so opening one deep inside costs what it holds and nothing else. What is stepped over
# is never parsed and never held. A page that takes too long is given as far as it came: the value that was being
# stepped over then has no known end, and the page can be asked for again with more time.


NodeKind = Literal["object", "array", "string", "number", "word"]
PAGE = 100
_SHOWN = 160  # bytes of a value
_LONGEST_NAME = 4096
_CHUNK = 64 * 1024
_COUNTED = 8 * 1024 * 1024  # bytes of containers on one page whose members are counted


@record
class Child:
    index: int
    name: str | None  # None for an element
    kind: NodeKind
    start: int
    end: int | None  # None if it could not be found in time, or is not there
    runs: list[Run]
    count: int | None = None  # members or elements; None if it has none, or is too large to count

    def to_json(self) -> dict[str, Any]:
        name = None if self.name is None else runs_of(self.name.encode("utf-8", "surrogatepass"))
        return {
            "i": self.index, "name": name, "plain": self.name, "kind": self.kind, "at": self.start, "end": self.end,
            "t": self.runs, "count": self.count,
        }  # fmt: skip


@record
class Place:
    """Where a page of children continues: the byte, and the number of the child that is there."""

    byte: int
    index: int = 0


@record(frozen=False)
class Level:
    """`next` is where the next page starts. `fault` says why there is no more, where that is not the end."""

    children: list[Child] = field(default_factory=list[Child])
    next: Place | None = None
    fault: str = ""
    out_of_time: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "children": [child.to_json() for child in self.children],
            "next": [self.next.byte, self.next.index] if self.next else None,
            "fault": self.fault,
            "out_of_time": self.out_of_time,
        }


class _OutOfTime(Exception):
    pass


def root_of(reader: Reader, *, after: Place | None = None, seconds: float) -> Level:
    """The values of the whole text, which is mostly one."""
    return _paged(reader, lambda read: _values(read, reader.totals.bytes, after or Place(0)), seconds)


def records_of(reader: Reader, first: int, *, count: int = PAGE) -> Level:
    """The records of NDJSON, from line `first` on: a value a line. Any page costs the same."""
    level = Level()
    for row in lines_from(reader, first, count, most=_SHOWN):
        data = reader.read(row.start, min(row.end, row.start + 1))
        level.children.append(
            Child(row.number - 1, None, _kind(data[0] if data else 0), row.start, row.end, [*row.runs])
        )
    level.children = _counted(reader, level.children)
    after = first + len(level.children)
    level.next = Place(0, after) if level.children and after <= reader.totals.lines else None
    return level


def children_of(reader: Reader, at: int, *, after: Place | None = None, seconds: float) -> Level:
    """Of the object or array that starts at byte `at`, from `after` on."""
    size = reader.totals.bytes
    sign = reader.read(at, at + 1)
    if sign not in (b"{", b"["):
        return Level(fault=f"At byte {at:,} neither an object nor an array begins.")
    begin = after or Place(at + 1)
    return _paged(reader, lambda read: _members(read, size, begin, is_object=sign == b"{"), seconds)


_Found = tuple[int, str | None, int, int, int | None, Place | None]  # index, name, first byte, start, end, what follows


def _paged(reader: Reader, walk: Callable[[Callable[[int, int], bytes]], Iterator[_Found]], seconds: float) -> Level:
    until = time.monotonic() + seconds
    level = Level()

    def read(start: int, end: int) -> bytes:
        if time.monotonic() > until:
            raise _OutOfTime
        return reader.read(start, end)

    try:
        for index, name, sign, start, end, after in walk(read):
            stop = start + _SHOWN if end is None else min(end, start + _SHOWN)
            child = Child(index, name, _kind(sign), start, end, runs_of(_whole_chars(reader, start, stop)))
            if level.children and level.children[-1].start == start:
                level.children[-1] = child  # its end is known now
            else:
                level.children.append(child)
            if end is not None:
                level.next = after
                if len(level.children) >= PAGE:
                    break
    except _OutOfTime:
        level.out_of_time, level.next = True, None
    except JsonFault as fault:
        level.fault, level.next = f"The JSON is broken: {fault}.", None
    level.children = _counted(reader, level.children)
    return level


def _counted(reader: Reader, children: Sequence[Child]) -> list[Child]:
    """With how many values are in each, as far as that is read quickly: `count_of` counts the others."""
    room, found = _COUNTED, list[Child]()
    for child in children:
        size = 0 if child.end is None or child.kind not in ("object", "array") else child.end - child.start
        if 0 < size <= room:
            inside = reader.read(child.start + 1, child.start + size).lstrip()
            found.append(replace(child, count=count_members(inside) if inside[:1] not in (b"]", b"}") else 0))
            room -= size
        else:
            found.append(child)
    return found


def count_of(reader: Reader, span: Span, *, seconds: float) -> int | None:
    """How many values are in the object or array that has these bytes, however large. None if it takes too long."""
    until = time.monotonic() + seconds

    def read(start: int, end: int) -> bytes:
        if time.monotonic() > until:
            raise _OutOfTime
        return reader.read(span.start + start, span.start + end)

    try:
        found = find(read, span.end - span.start, parse_path("$.*"), lines=False, limit=1)
    except _OutOfTime:
        return None
    return found.total if found.fault is None else None


@record
class Step:
    """A value that holds a byte, and the page of its level that begins with it."""

    start: int
    page: Place


@record
class Way:
    """The values that hold a byte, the outermost first. Where the time was over before the last of them was found,
    `rest` is where to go on: among the values inside of the one that starts there, None for those of the whole text.
    """

    steps: list[Step]
    rest: tuple[int | None, Place] | None = None


def way_to(
    reader: Reader,
    byte: int,
    *,
    line: int | None = None,
    begin: tuple[int | None, Place] | None = None,
    seconds: float,
) -> Way:
    """Down to a scalar or a member's name. Of NDJSON, `line` is the one that holds the byte. Of broken JSON the way
    goes as far as it is JSON. `begin` is the `rest` of another answer: only the steps that it lacks are found.
    """
    until = time.monotonic() + seconds
    size = reader.totals.bytes

    def read(start: int, end: int) -> bytes:
        if time.monotonic() > until:
            raise _OutOfTime
        return reader.read(start, end)

    steps: list[Step] = []
    inside, page = begin or (None, Place(0))
    if line is not None and begin is None:
        inside = next(iter(lines_from(reader, line, 1, most=1))).start
        steps.append(Step(inside, Place(0, line)))
        page = Place(inside + 1)
    while True:
        walk = _values(read, size, page) if inside is None else _below(read, size, inside, page)
        found = _holding(walk, byte, page)
        if isinstance(found, Place):
            return Way(steps, (inside, found))
        if found is not None:
            steps.append(found)
        if found is None or byte < found.start:
            return Way(steps)
        inside, page = found.start, Place(found.start + 1)


def _below(read: Callable[[int, int], bytes], size: int, at: int, page: Place) -> "Iterator[_Found]":
    sign = read(at, at + 1)
    if sign in (b"{", b"["):
        yield from _members(read, size, page, is_object=sign == b"{")


def _holding(walk: "Iterator[_Found]", byte: int, page: Place) -> Step | Place | None:
    """The value of this level that holds the byte, or whose name does; the place in it where the time was over."""
    last: Step | None = None  # the one that is being stepped over
    try:
        for _, _, _, start, end, after in walk:
            if end is None:
                last = Step(start, page)
                if byte < start:
                    return last if byte >= page.byte else None
            elif byte < end:
                return last
            elif after is None:
                return None
            else:
                page = after
    except _OutOfTime:
        return page
    except JsonFault:
        return last if last is not None and last.start <= byte else None
    return None


def _values(read: Callable[[int, int], bytes], size: int, begin: Place) -> Iterator[_Found]:
    """Values one after the other. Each comes twice: when it begins, and when its end is known."""
    cursor = Cursor(read, size, start=begin.byte, chunk=_CHUNK)
    index = begin.index
    while (sign := cursor.peek()) != ENDED:
        start = cursor.place
        yield index, None, sign, start, None, None
        cursor.pass_value()
        end = cursor.place
        more = cursor.peek() != ENDED
        yield index, None, sign, start, end, Place(cursor.place, index + 1) if more else None
        index += 1


def _members(read: Callable[[int, int], bytes], size: int, begin: Place, *, is_object: bool) -> Iterator[_Found]:
    cursor = Cursor(read, size, start=begin.byte, chunk=_CHUNK)
    closing = CLOSE_OBJECT if is_object else CLOSE_ARRAY
    index = begin.index
    if index == 0 and cursor.peek() == closing:
        return
    while True:
        name = None
        if is_object:
            if cursor.peek() != QUOTE:
                raise cursor.fault("a member's name")
            raw = cursor.key(longest=_LONGEST_NAME)
            name = "…" if raw is None else shown_name(decoded_name(raw))
        sign, start = cursor.peek(), cursor.place
        yield index, name, sign, start, None, None
        cursor.pass_value()
        end, index = cursor.place, index + 1
        following = cursor.peek()
        if following == COMMA:
            cursor.at += 1
            yield index - 1, name, sign, start, end, Place(cursor.place, index)
        elif following == closing:
            yield index - 1, name, sign, start, end, None
            return
        else:
            yield index - 1, name, sign, start, end, None
            raise cursor.fault("a comma or the end")


def _kind(sign: int) -> NodeKind:
    if sign == OPEN_OBJECT:
        return "object"
    if sign == OPEN_ARRAY:
        return "array"
    if sign == QUOTE:
        return "string"
    return "word" if chr(max(sign, 0)) in "tfnNI" else "number"


def _whole_chars(reader: Reader, start: int, end: int) -> bytes:
    """These bytes, without the half of a character at their end."""
    data = reader.read(start, end)
    return data[: len(data) - straddling_bytes(data, reader.read(end, end + 3))]
