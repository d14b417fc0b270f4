"""diff: how one output differs from another: by the paths of their JSON, by rows with a key, or by lines.

Where both begin and end alike is found first, piece by piece; only what is between that is looked at closer: lines
window by window, of at most `MOST_BYTES` and `MOST_ITEMS` of each side, so that the memory has a bound of about ten
times `MOST_BYTES` (texts, their parts, a number for each line, the keys of each row), and the time one that is linear
(see `text.align`). Where two windows have no line in common it ends, and what is told of the rest is that it was not
compared. What cannot be compared by its structure (too large, too deep, not what it looked like) is compared by
lines; where a line is too long, or the time is over before anything was found, the first place that differs is told.
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import accumulate, islice, pairwise
from typing import Any, cast

from holdall.formats.columns import column_names, has_header, separator_of
from holdall.store import deadline
from holdall.store.deadline import of_seconds, within
from holdall.store.protocol import OutputReader
from holdall.store.reader import byte_of_char, byte_of_line, line_of_byte, lines_of
from holdall.text.align import differences
from holdall.text.escape import ended_as, foreign, told_names
from holdall.text.excerpt import around, beginning
from holdall.text.json.path import normalized_step
from holdall.text.numbers import plural
from holdall.text.ranges import whole_number
from holdall.text.utf8 import decode
from holdall.values.answers import Change, Difference, Side
from holdall.values.errors import BadQuery, OutOfTime, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.values.spans import Span
from holdall.verbs.read import Bounds

MOST_BYTES = 32 << 20  # of a side that are looked at closer
MOST_ITEMS = 500_000  # lines or changes
_MOST_ROWS = 200_000  # rows, elements or members: each of them has several keys
_PIECE = 1 << 20
_MOST_COMMAS = 4 * MOST_ITEMS  # in JSON: about as many values, each of which takes memory while it is looked at
_DEPTH = 100  # levels of JSON that are compared member by member
_PATH = 1000  # characters of the path of a value that is opened; what is in it has a path of its own each
_PLAIN_CHARS = 1 << 16  # of a value that is held twice as objects to see whether it is the same, written in another way
_TEXT = 300  # bytes that are shown of a line or a value
_HEX = 100  # bytes that are shown of what is no text
_LINES = 6  # of a side of a change
_REACH = 100  # bytes on both sides of where two long lines begin to differ
_KEYS = ("id", "_id", "uuid", "key", "name", "path", "url", "email", "code")  # tried first
_TRIED = 6  # columns that are tried as the key
_SHARE = 0.6  # of the time of a call: then it ends with what it has
_LIMIT = 200
_SEEN = 200  # lines by which the separator of columns is told


def diff(
    reader: OutputReader,
    *,
    other: str = "",
    by: str | None = None,
    key: str | None = None,
    limit: int | None = None,
    skip: int = 0,
    bounds: Bounds,
) -> Difference:
    """From `reader` to the output `other`. At most `limit` changes are shown, after the first `skip`."""
    if not other or bounds.open is None:
        raise UsageError("name the other output.")
    if by not in (None, "", "lines", "rows", "json"):
        raise UsageError(f"by must be lines, rows or json, not {foreign(repr(by))}.")
    if key and by == "lines":
        raise UsageError("key tells rows or elements apart; by lines there are none.")
    first = whole_number(skip, name="skip")
    unsaid = sys.maxsize if bounds.whole else _LIMIT
    most = whole_number(unsaid if limit is None else limit, name="limit", least=1)
    seconds = (bounds.settings or Settings()).grep_seconds
    with within(seconds), bounds.open(other) as later:  # to open it is part of the call
        if (reader.facts.id, reader.facts.handle) == (later.facts.id, later.facts.handle):  # members share an id
            raise UsageError(f"these are the same output, {reader.facts.handle}: give two.")
        pair = _Pair(reader, later, whole=bounds.whole)
        room = bounds.most_bytes if bounds.counted_later else bounds.share(later.facts.measure)
        return _answer(pair, _compared(pair, by or "", key or "", seconds * _SHARE), first, most, room)


NEAR_BYTES = 16 << 20  # larger outputs are compared by their checksums alone where a notice is made
_CLOSE_BYTES = 1 << 20  # what is looked at closer then
_NEAR_SECONDS = 2.0  # a hundred times what that takes
_FEW, _FEW_PERCENT = 20, 5  # lines, values or rows that differ where two are nearly equal


def near_difference(reader: OutputReader, other: OutputReader) -> Difference | None:
    """How `other` differs from `reader` where that is little, and found at once; None where it is not."""
    pair = _Pair(reader, other, _CLOSE_BYTES, one_window=True)
    largest = max(reader.totals.bytes, other.totals.bytes)
    same_kind = reader.facts.measure.kind == other.facts.measure.kind
    if (largest > NEAR_BYTES or not same_kind) and not pair.same_bytes():
        return None
    try:
        with within(_NEAR_SECONDS):
            found = _compared(pair, "" if largest <= _CLOSE_BYTES else "lines", "", _NEAR_SECONDS)
            few = max(_FEW, (found.of or 0) * _FEW_PERCENT // 100)
            if not found.complete or found.changed + found.added + found.removed > few:
                return None
            sizes = reader.totals.bytes, other.totals.bytes
            if any(2 * part > size for part, size in zip(found.differing, sizes, strict=True)):
                return None  # one line, or one value, may be all of it
            return _answer(pair, found, 0, _FEW, _CLOSE_BYTES)
    except OutOfTime:
        return None


@record
class _Pair:
    before: OutputReader
    after: OutputReader
    most_bytes: int = MOST_BYTES
    whole: bool = False  # lines and values are shown to their end, however long
    one_window: bool = False  # what is behind it is not looked at

    def same_bytes(self) -> bool:
        one, other = self.before.facts, self.after.facts
        sums = one.measure.sha256, other.measure.sha256
        return "running" not in (one.state, other.state) and bool(sums[0]) and sums[0] == sums[1]


Place = tuple[int, int]  # where a part begins and ends


@record
class _Found:
    """Changes by where they are; `show` gives the one of this number."""

    unit: str
    number: int
    show: Callable[[int], Change]
    changed: int = 0
    added: int = 0
    removed: int = 0
    moved: int = 0
    of: int | None = None
    complete: bool = True
    same_bytes: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple[str, ...])
    differing: tuple[int, int] = (0, 0)  # of both sides: bytes, or characters, in all that is not the same


def _answer(pair: _Pair, found: _Found, skip: int, limit: int, room: int | None) -> Difference:
    changes: list[Change] = []
    used, following = 0, None
    for number in range(skip, found.number):
        try:
            change = found.show(number)
        except OutOfTime:
            if not changes:
                raise
            following = number  # what is ready is not lost
            break
        used += sum(len(side.text.encode()) for side in (change.before, change.after) if side) + len(change.name) + 48
        if len(changes) == limit or (changes and room is not None and used > room):
            following = number
            break
        changes.append(change)
    notes = found.notes
    if "running" in (pair.before.facts.state, pair.after.facts.state):
        notes = (*notes, "still running: compared what is there so far")
    for which, facts in (("earlier", pair.before.facts), ("later", pair.after.facts)):
        ended = ended_as(facts.state, facts.error)
        notes = (*notes, *(f"the call of the {which} one did not end well: {one}" for one in ended))
    return Difference(
        handle=pair.after.facts.handle, other=pair.before.facts.handle, unit=found.unit, changes=tuple(changes),
        totals=pair.after.totals, other_totals=pair.before.totals, total=found.number, changed=found.changed,
        added=found.added, removed=found.removed, moved=found.moved, of=found.of, same_bytes=found.same_bytes,
        complete=found.complete, next=following, notes=notes,
    )  # fmt: skip


def _compared(pair: _Pair, by: str, key: str, seconds: float) -> _Found:
    if pair.same_bytes():
        return _Found("line", 0, _nothing, same_bytes=True)
    notes: list[str] = []
    with within(of_seconds(seconds)) as soon:
        try:
            if by != "lines" and (found := _by_structure(pair, by, key, notes)) is not None:
                return replace(found, notes=(*notes, *found.notes))
            if by == "rows":
                raise BadQuery(f"these outputs cannot be compared by rows: {'; '.join(notes) or 'they have none'}.")
            if key:
                notes.append(
                    "key was not used" if notes else "key was not used: these are not two tables or JSON values"
                )
            found = _by_lines(pair)
            return replace(found, notes=(*notes, *found.notes))
        except OutOfTime as late:
            if soon.is_cancelled:
                raise
            notes.append(_stopped(late))
    return replace(_first_place(pair), notes=tuple(notes))  # outside of the block: a little time is left


def _stopped(late: OutOfTime, path: str = "") -> str:
    at = f" at {foreign(path)}" if path else ""
    return f"the comparison was stopped after {late.seconds:g} s{at}; it goes further with a higher grep_seconds"


def _nothing(_number: int) -> Change:
    raise LookupError("there are no changes")


# By lines.


@record
class _Middle:
    """What two outputs do not begin and end with alike, in whole lines; `at` is the first byte that differs."""

    at: int
    start: int
    before_end: int
    after_end: int


def _middle(pair: _Pair) -> _Middle:
    one, other = pair.before, pair.after
    sizes = one.totals.bytes, other.totals.bytes
    at, least = 0, min(sizes)
    while at < least:
        left, right = one.read(at, min(at + _PIECE, least)), other.read(at, min(at + _PIECE, least))
        if left != right:
            at += _alike(left, right)
            break
        at += len(left)
    start = at
    while start > 0:  # back to where the line begins
        piece = one.read(max(0, start - _PIECE), start)
        newline = piece.rfind(b"\n")
        start -= len(piece) - newline - 1
        if newline >= 0:
            break
    end, most = 0, least - start
    while end < most:
        size = min(_PIECE, most - end)
        left = one.read(sizes[0] - end - size, sizes[0] - end)
        right = other.read(sizes[1] - end - size, sizes[1] - end)
        if left != right:
            end += _alike(left[::-1], right[::-1])
            break
        end += size
    # On to where a line begins on both sides. One that begins where the common end does, too, is behind a newline.
    common = one.read(sizes[0] - end, sizes[0]) if end <= _PIECE else b""
    if end > _PIECE:
        line = line_of_byte(one, sizes[0] - end)
        end = sizes[0] - max(byte_of_line(one, line + 1), sizes[0] - end)
    else:
        newline = common.find(b"\n")
        end = end - newline - 1 if newline >= 0 else 0
    return _Middle(at, start, sizes[0] - end, sizes[1] - end)


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes at their beginning are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        half = (low + high + 1) // 2
        if one[low:half] == other[low:half]:
            low = half
        else:
            high = half - 1
    return low


def _by_lines(pair: _Pair) -> _Found:
    """A window of each side after the other: the next ones begin behind the last line that these two have in common."""
    middle = _middle(pair)
    ends = middle.before_end, middle.after_end
    line = (
        line_of_byte(pair.before, middle.start)
        if middle.start < pair.before.totals.bytes
        else pair.before.totals.lines + 1
    )
    found = _Windows((middle.start, middle.start), (line, line))
    stopped = ""
    while not stopped and found.at != ends:
        try:
            stopped = found.go_on(pair, ends)
        except OutOfTime as late:
            if not found.ranges:
                raise
            stopped = f"stopped after {late.seconds:g} s; it goes further with a higher grep_seconds"
    notes: list[str] = []
    ranges = found.ranges
    if stopped and not ranges:
        note = stopped if stopped.startswith("a line") else f"compared up to lines {found.told_lines()}: {stopped}"
        only = f"{note}: only where they begin to differ is shown" if note is stopped else note
        return replace(_first_place(pair, middle), notes=(only,))
    if stopped:
        notes.append(f"compared up to lines {found.told_lines()}: {stopped}")
    elif not ranges:
        notes.append("the same lines; only the end of the last differs")
    moved = found.in_both(0) if found.all_seen else 0
    if found.returns != (False, False):
        differ = found.in_both(1) - found.in_both(0)
        notes += [_told_ends(differ, not found.returns[0], not found.returns[1], not stopped)] if differ else []

    def show(number: int) -> Change:
        a, b, c, d = ranges[number]
        return _change(pair, Span(a, b) if b > a else None, Span(c, d) if d > c else None)

    return _Found(
        "line", len(ranges), show, of=pair.before.totals.lines, complete=not stopped, notes=tuple(notes),
        changed=found.changed, moved=moved, removed=found.removed, added=found.added, differing=(
            sum(b - a for a, b, _, _ in ranges), sum(d - c for _, _, c, d in ranges)
        ),
    )  # fmt: skip


class _Windows:
    """What was found so far: by bytes of both sides, and the lines that differ, by their numbers."""

    def __init__(self, at: Place, lines: Place) -> None:
        self.at = at
        self.lines = lines  # the first that were not compared
        self.ranges: list[tuple[int, int, int, int]] = []
        self.changed = self.removed = self.added = 0
        self.all_seen = True  # each line that differs has been read
        self.returns = (False, False)  # whether lines of a side end in a carriage return
        self._differ: list[tuple[Counter[int], Counter[int]]] = [(Counter(), Counter()), (Counter(), Counter())]

    def told_lines(self) -> str:
        return f"{self.lines[0]:,} and {self.lines[1]:,}"

    def in_both(self, which: int) -> int:
        """How many of the lines that differ are somewhere among those of the other side: as they are, or whatever
        their ends are (1)."""
        gone, come = self._differ[which]
        return (gone & come).total()

    def go_on(self, pair: _Pair, ends: Place) -> str:
        """Why it cannot go on behind this window, if it cannot."""
        (before, after), (one_at, other_at) = (pair.before, pair.after), self.at
        if one_at == ends[0] or other_at == ends[1]:
            return self._rest(pair, ends)
        sides = [
            _lines(reader, at, end, pair.most_bytes)
            for reader, at, end in zip((before, after), self.at, ends, strict=True)
        ]
        if any(side is None for side in sides):
            return f"a line there has over {pair.most_bytes >> 20} MB"
        (places, ones, texts, whole), (other_places, others, other_texts, other_whole) = filter(None, sides)
        ranges = differences(ones, others, deadline.check)
        last = (len(ones), len(ones), len(others), len(others))
        # Behind the last line that both have, the other half of a difference may be in what was not looked at.
        if not (whole and other_whole) and ranges and (ranges[-1][1] == len(ones) or ranges[-1][3] == len(others)):
            last = ranges.pop()
        for a, b, c, d in ranges:
            self._add((places[a], places[b], other_places[c], other_places[d]), (b - a, d - c))
            for counters, one, other in zip(self._differ, (ones, texts), (others, other_texts), strict=True):
                counters[0].update(one[a:b])
                counters[1].update(other[c:d])
        self.returns = self.returns[0] or texts is not ones, self.returns[1] or other_texts is not others
        self.at, self.lines = (
            (places[last[0]], other_places[last[2]]),
            (self.lines[0] + last[0], self.lines[1] + last[2]),
        )
        if self.at == ends:
            return ""
        is_stuck = last[0] == last[2] == 0 or pair.one_window
        return "the rest is too large" if is_stuck or len(self.ranges) > MOST_ITEMS or self._is_full() else ""

    def _is_full(self) -> bool:
        return sum(map(len, self._differ[0])) > MOST_ITEMS

    def _rest(self, pair: _Pair, ends: Place) -> str:
        """One side is at its end: all that the other still has was added, or removed, and nobody needs to hold it."""
        (a, c), (b, d) = self.at, ends
        gone, come = (_number_of_lines(*side) for side in ((pair.before, Span(a, b)), (pair.after, Span(c, d))))
        self._add((a, b, c, d), (gone, come))
        self.at, self.lines, self.all_seen = ends, (self.lines[0] + gone, self.lines[1] + come), False
        return ""

    def _add(self, places: tuple[int, int, int, int], lines: Place) -> None:
        self.ranges.append(places)
        self.changed += min(lines)
        self.removed += max(0, lines[0] - lines[1])
        self.added += max(0, lines[1] - lines[0])


def _number_of_lines(reader: OutputReader, span: Span) -> int:
    lines = lines_of(reader, span)
    return lines.end - lines.start + 1 if lines else 0


def _told_ends(number: int, no_returns: bool, none_in_other: bool, complete: bool) -> str:
    """An end of a line cannot be seen where the line is shown."""
    differ = "line differs only in its end" if number == 1 else "lines differ only in their ends"
    how = ": LF → CRLF" if no_returns else ": CRLF → LF" if none_in_other else " (LF or CRLF)"
    return f"{'' if complete else 'at least '}{number:,} {differ}{how}"


def _lines(
    reader: OutputReader, start: int, end: int, most: int
) -> tuple[list[int], list[int], list[int], bool] | None:
    """Where each line begins and the last ends, a number for each, one for each without the carriage return at its end,
    and whether these are all up to `end`. None where a single line is too long to be looked at."""
    data = reader.read(start, min(end, start + most))
    whole = start + len(data) == end
    if not whole:
        newline = data.rfind(b"\n")
        if newline < 0:
            return None
        data = data[: newline + 1]
    lines = data.split(b"\n", MOST_ITEMS)
    if len(lines) > MOST_ITEMS:
        lines, whole = lines[:MOST_ITEMS], False
    elif lines[-1] == b"":
        lines.pop()
    places = list(accumulate((len(line) + 1 for line in lines), initial=start))
    places[-1] = min(places[-1], start + len(data))
    numbers = list(map(hash, lines))
    texts = [hash(line.removesuffix(b"\r")) for line in lines] if b"\r\n" in data else numbers
    return places, numbers, texts, whole


def _change(pair: _Pair, before: Span | None, after: Span | None, name: str = "") -> Change:
    """What is in place of what. Where both are long, what is around the first byte that differs."""
    at = 0
    if not pair.whole and before and after and min(before.end - before.start, after.end - after.start) > _TEXT:
        most = min(before.end - before.start, after.end - after.start)
        while at < most:
            left = pair.before.read(before.start + at, before.start + min(at + _PIECE, most))
            right = pair.after.read(after.start + at, after.start + min(at + _PIECE, most))
            if left != right:
                at += _alike(left, right)
                break
            at += len(left)
    sides = [
        _side(reader, span, at, by_lines=not name, whole=pair.whole) if span else None
        for reader, span in ((pair.before, before), (pair.after, after))
    ]
    return Change(sides[0], sides[1], name)


def _side(reader: OutputReader, span: Span, at: int, *, by_lines: bool, whole: bool) -> Side:
    """The first lines, or the beginning of a value; of what is long, a window around byte `at` of it."""
    lines, size = lines_of(reader, span), span.end - span.start
    if whole:
        kept = reader.read(span.start, span.end).removesuffix(b"\n")
        text, exact = _text(kept.removesuffix(b"\r"), len(kept))
        return Side(span, lines, text, exact=exact)
    begin = max(0, at - _REACH)
    data = reader.read(span.start + begin, min(span.end, span.start + begin + _LINES * _TEXT))
    first = data.partition(b"\n")[0] if by_lines else data
    if len(first) > _TEXT or begin:
        here = min(at - begin, len(first))
        shown = around(first, here, here, reach=_REACH, limit=2 * _REACH)
        place = Span(span.start + begin + shown.start, span.start + begin + shown.end)
        text, exact = _text(shown.data)
        text = f"{'…' if begin or shown.start else ''}{text}…"
        return Side(place, lines, text, cut=True, exact=exact, left=size - len(shown.data))
    kept = (b"\n".join(data.split(b"\n", _LINES)[:_LINES]) if by_lines else data).removesuffix(b"\n")
    text, exact = _text(kept.removesuffix(b"\r"))
    seen = len(kept) if exact else min(len(kept), _HEX)
    left = 0 if seen + 1 >= size else size - seen
    return Side(span, lines, text, cut=left > 0, exact=exact, left=left)


def _text(data: bytes, most: int = _HEX) -> tuple[str, bool]:
    """As hexadecimal bytes where it is not text: others would look the same. And whether it is."""
    text, exact = decode(data)
    return (text, True) if exact else (data[:most].hex(" "), False)


def _first_place(pair: _Pair, middle: _Middle | None = None) -> _Found:
    """All that is told where there is no time, or where a line is too long: where the two begin to differ."""
    at = (middle or _middle(pair)).at

    def side(reader: OutputReader) -> Side | None:
        if at >= reader.totals.bytes:
            return None
        low, line = max(0, at - _REACH), line_of_byte(reader, at)
        data = reader.read(low, at + _REACH).replace(b"\n", b" ")
        shown = around(data, at - low, at - low, reach=_REACH, limit=2 * _REACH)
        return Side(Span(low + shown.start, low + shown.end), Span(line, line), f"…{shown.text}…", cut=True)

    def show(_number: int) -> Change:
        return Change(side(pair.before), side(pair.after))

    return _Found("line", 1, show, changed=1, of=pair.before.totals.lines, complete=False)


# By structure: JSON, NDJSON, CSV.


def _by_structure(pair: _Pair, by: str, key: str, notes: list[str]) -> _Found | None:
    kinds = {pair.before.facts.measure.kind, pair.after.facts.measure.kind}
    sizes = max(pair.before.totals.bytes, pair.after.totals.bytes)
    tables = kinds <= {"csv", "tsv"} or kinds == {"ndjson"}
    if not (kinds == {"json"} or tables) and not by:
        return None
    if sizes > MOST_BYTES:
        notes.append(f"over {MOST_BYTES >> 20} MB: compared by lines")
        return None
    try:
        texts = [reader.read(0, reader.totals.bytes).decode("utf-8") for reader in (pair.before, pair.after)]
        if kinds == {"json"} or by == "json":
            return _json(pair, texts, key)
        rows = _tables(texts) if kinds <= {"csv", "tsv"} else [_ndjson(text) for text in texts]
        return _by_key(pair, rows[0], rows[1], key, notes)
    except _NoRowsError as problem:
        notes.append(f"{problem}: compared by lines")
        return None
    except (ValueError, IndexError, StopIteration, RecursionError, csv.Error):
        notes.append("too deep, too large or not what it looks like: compared by lines")
        return None


class _NoRowsError(Exception):
    """Why a table has none that can be compared."""


@record
class _Rows:
    """Rows of a side: where each is, in characters, a number for it, and the values of columns that may be the key."""

    places: list[Place]
    numbers: list[int]
    columns: list[str]
    tried: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    is_table: bool  # all rows have the same columns
    fields: Callable[[int], dict[str, str]]  # of the row of this number: what is in each column, as it is written
    written: tuple[str, ...] = ()  # the names as they came; without a header, those that SQL gives


def _candidates(names: Sequence[str]) -> tuple[str, ...]:
    first = [name for wanted in _KEYS for name in names if name.lower() == wanted]
    return tuple(dict.fromkeys([*first, *names]))[:_TRIED]


def _tables(texts: Sequence[str]) -> list[_Rows]:
    tables = [_Lines.of(text) for text in texts]
    heads = [list(islice(csv.reader(table.ended(), delimiter=table.sign), _SEEN)) for table in tables]
    named = [has_header(first, body) for first, *body in heads]
    if heads[0][0] == heads[1][0]:  # one of the two may have too few rows to tell it by
        named = [any(named)] * 2
    return [_csv(table, first, names) for table, (first, *_), names in zip(tables, heads, named, strict=True)]


@record
class _Lines:
    """A table as text, by its lines."""

    text: str
    lines: list[str]
    sign: str

    @staticmethod
    def of(text: str) -> "_Lines":
        lines = text.removeprefix("\ufeff").split("\n")
        if lines[-1] == "":
            lines.pop()
        sign = separator_of("\n".join(lines[:_SEEN]), whole=len(lines) <= _SEEN)
        if sign is None or len(lines) > _MOST_ROWS:
            raise ValueError
        return _Lines(text, lines, sign)

    def ended(self) -> Iterator[str]:
        return (line + "\n" for line in self.lines)


def _csv(table: _Lines, first: list[str], named: bool) -> _Rows:
    text, sign = table.text, table.sign
    mark = text.startswith("\ufeff")
    begins = list(accumulate((len(line) + 1 for line in table.lines), initial=int(mark)))
    reader = csv.reader(table.ended(), delimiter=sign)
    if named:
        next(reader)
    header = first if named else column_names(None, len(first))
    written = tuple(header)
    if len(set(header)) < len(header) or "" in header:  # a name that is another's would hide one of the two
        header = column_names(header, len(header))
    tried = _candidates(header)
    columns = [header.index(name) for name in tried]
    places: list[Place] = []
    numbers: list[int] = []
    keys: list[tuple[Any, ...]] = []
    line = reader.line_num
    for row in reader:
        if not len(numbers) % 4096:
            deadline.check()
        if len(row) > len(header):  # what has no name would not be compared
            most = "header has names" if named else "first row"
            raise _NoRowsError(f"L{reader.line_num:,} has more cells than the {most}")
        if row:
            places.append((begins[line], begins[reader.line_num] - 1))
            numbers.append(hash(tuple(row)))
            keys.append(tuple(row[at] if at < len(row) else None for at in columns))
        line = reader.line_num

    def fields(number: int) -> dict[str, str]:
        begin, end = places[number]
        return dict(zip(header, next(csv.reader([text[begin:end]], delimiter=sign)), strict=False))

    return _Rows(places, numbers, header, tried, keys, True, fields, written)


def _ndjson(text: str) -> _Rows:
    spans: list[Place] = []
    begin = 0
    while begin < len(text):
        deadline.check()  # of nothing but blank lines there may be millions
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        if text[begin:end].strip():
            spans.append((begin, end))
        begin = end + 1
        if len(spans) > _MOST_ROWS:
            raise ValueError
    _check_values(text)
    return _json_rows(text, ((start, _alone(text, start, end), end) for start, end in spans))


def _alone(text: str, start: int, end: int) -> Any:
    value, at = _decoded(text, start)
    if text[at:end].strip():
        raise ValueError  # what stands behind it would not be compared
    return value


def _check_values(text: str) -> None:
    if text.count(",") > _MOST_COMMAS:
        raise ValueError


def _decoded(text: str, start: int) -> tuple[Any, int]:
    deadline.check()
    return _DECODER.raw_decode(text, start)


def _end(text: str, start: int) -> int:
    deadline.check()
    return _PASSER.raw_decode(text, start)[1]


class _Number(str):
    """As it is written: no number is too long, and none changes by being read."""


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False)
# Two values are the same, written in another way, where this makes the same of both: numbers and literals are not told
# from strings by their value alone, and names may occur again.
_PLAIN = json.JSONDecoder(
    parse_int=str.encode, parse_float=str.encode, parse_constant=str.encode, object_pairs_hook=tuple, strict=False
)
_SPACE = " \t\n\r"
_NUMBERED = lazy_pattern(r" \(\d+\)$")


def _none(_value: object) -> None:
    """For a decoder that only passes by: it makes nothing of what it reads."""


_PASSER = json.JSONDecoder(
    parse_int=_none, parse_float=_none, parse_constant=_none, object_pairs_hook=_none, strict=False
)


def _json_rows(text: str, rows: Iterable[tuple[int, Any, int]], key: str = "") -> _Rows:
    """`rows` are where each begins, what it is, and where it ends: of what it is, only keys are held."""
    names, tried = list[str](), tuple[str, ...]()
    places: list[Place] = []
    keys: list[tuple[Any, ...]] = []
    for start, value, end in rows:
        one = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if not places:
            names = [name for name, value in one.items() if not isinstance(value, dict | list)]
            tried = (key,) if key in names else _candidates(names)
        elif len(places) == _MOST_ROWS:
            raise ValueError
        places.append((start, end))
        keys.append(tuple(_scalar(one.get(name)) for name in tried))
    numbers = [hash(text[start:end]) for start, end in places]

    def fields(number: int) -> dict[str, str]:
        return {name: text[start:end] for name, start, end in _members(text, places[number][0])}

    return _Rows(places, numbers, names, tried, keys, False, fields)


def _scalar(value: object) -> object:
    """As a key: numbers come as texts, and strings are told from them."""
    return None if value is None or isinstance(value, dict | list) else (type(value).__name__, value)


def _space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each value in the object that begins at `at`; with a number behind a name that occurs
    again."""
    seen: Counter[str] = Counter()
    at = _space(text, at + 1)
    while text[at] == '"':
        name, at = _DECODER.raw_decode(text, at)
        at = _space(text, at)
        if text[at] != ":":
            raise ValueError
        at = _space(text, at + 1)
        end = _end(text, at)
        seen[name] += 1
        if max(len(seen), seen[name]) > _MOST_ROWS:
            raise ValueError
        # A name that occurs again stands with a number; so one that has such an end has to be told from that.
        number = f" ({seen[name]})" if seen[name] > 1 or _NUMBERED.search(name) else ""
        yield name + number, at, end
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)
        elif text[at] != "}":
            raise ValueError


def _elements(text: str, at: int) -> Iterator[tuple[int, Any, int]]:
    """Where each element of the array begins, what it is, and where it ends."""
    at = _space(text, at + 1)
    while text[at] != "]":
        value, end = _decoded(text, at)
        yield at, value, end
        at = _space(text, end)
        if text[at] == ",":
            at = _space(text, at + 1)


def _key_of(one: _Rows, other: _Rows, wanted: str) -> list[tuple[list[Any], list[Any]]]:
    """The values of the first column by which rows can be told apart on both sides; none if there is no such column."""
    for name in [wanted] if wanted else one.tried:
        if name not in one.tried or name not in other.tried:
            continue
        left = [keys[one.tried.index(name)] for keys in one.keys]
        right = [keys[other.tried.index(name)] for keys in other.keys]
        if wanted or all(None not in side and len(set(side)) == len(side) for side in (left, right)):
            return [(left, right), ([name], [name])]
    return []


def _repeated_key(one: _Rows, other: _Rows) -> str:
    """A name of the usual ones that would tell the rows apart, if some did not share its value."""
    for name in one.tried:
        if name.lower() in _KEYS and name in other.tried:
            sides = [[keys[rows.tried.index(name)] for keys in rows.keys] for rows in (one, other)]
            if all(None not in side and len(set(side)) * 2 > len(side) for side in sides):
                return name
    return ""


def _occurrences(keys: list[Any]) -> tuple[dict[Any, int], int]:
    """Where each key is, the second of the same as another one; and how many keys occur more than once."""
    places: dict[Any, int] = {}
    seen: Counter[Any] = Counter()
    for at, value in enumerate(keys):
        seen[value] += 1
        places[value, seen[value]] = at
    return places, sum(number > 1 for number in seen.values())


def _by_key(pair: _Pair, one: _Rows, other: _Rows, wanted: str, notes: list[str]) -> _Found | None:
    if wanted:
        one, other = (replace(rows, tried=(wanted,), keys=_keys_of(rows, wanted)) for rows in (one, other))
        if not all(any(keys != (None,) for keys in rows.keys) for rows in (one, other)):
            known = told_names(one.columns, 20)
            raise BadQuery(f"there is no column {foreign(repr(wanted))} on both sides. Columns are: {known}.")
    chosen = _key_of(one, other, wanted)
    if not chosen:
        why = "no column tells the rows apart on both sides"
        notes.append(f"{why}: compared by lines (name a column as key to compare rows)")
        return None
    (left, right), (names, _) = chosen
    here, repeated = _occurrences(left)
    there, repeated_there = _occurrences(right)
    if repeated or repeated_there:
        notes.append(f"{plural(max(repeated, repeated_there), 'key')} on more than one row: paired in their order")
    columns = {name for name in one.columns if name in other.columns} if one.is_table else None
    in_order = columns is None or one.columns == other.columns
    notes += _columns_told(one, other)
    changes: list[tuple[int, int]] = []  # rows of both sides; -1 where there is none
    for value, at in there.items():
        was = here.get(value, -1)
        same = in_order and one.numbers[was] == other.numbers[at]  # where it is the same row
        if was < 0 or (not same and _changed_fields(one, other, was, at, columns)):
            changes.append((was, at))
        if not at % 1024:
            deadline.check()
    changes += [(at, -1) for value, at in here.items() if value not in there]
    order = [there[value] for value in here if value in there]
    if any(a > b for a, b in pairwise(order)):
        notes.append("rows in another order")
    notes += [] if changes or notes else ["the same rows, written in another way"]

    def show(number: int) -> Change:
        was, at = changes[number]
        value = left[was] if was >= 0 else right[at]
        name = f"{names[0]}={value[1] if isinstance(value, tuple) else value}"
        fields = _changed_fields(one, other, was, at, columns) if was >= 0 <= at else None
        before = _row_side(pair, one, was, None if fields is None else [(n, a) for n, a, _ in fields])
        after = _row_side(pair, other, at, None if fields is None else [(n, b) for n, _, b in fields], is_after=True)
        return Change(before, after, name)

    added, removed = sum(was < 0 for was, _ in changes), sum(at < 0 for _, at in changes)
    return _Found(
        "row", len(changes), show, changed=len(changes) - added - removed, added=added, removed=removed,
        of=len(one.places), differing=(
            _length(one.places[was] for was, _ in changes if was >= 0),
            _length(other.places[at] for _, at in changes if at >= 0),
        ),
    )  # fmt: skip


def _columns_told(one: _Rows, other: _Rows) -> Iterator[str]:
    """How the names of the columns differ; the members of JSON are told one by one."""
    if not one.is_table or one.written == other.written:
        return
    if one.columns == other.columns:
        yield "columns with other names"
    elif set(one.columns) == set(other.columns):
        yield "columns in another order"
    for which, rows, others in (("removed", one, {*other.columns}), ("added", other, {*one.columns})):
        if alone := [name for name in rows.columns if name not in others]:
            named = told_names(alone)
            yield f"{plural(len(alone), 'column')} {which}{f': {named}' if named else ''}"


def _length(places: Iterable[Place]) -> int:
    return sum(end - begin for begin, end in places)


def _keys_of(rows: _Rows, name: str) -> list[tuple[Any, ...]]:
    if name in rows.tried:
        return [(keys[rows.tried.index(name)],) for keys in rows.keys]
    return [(rows.fields(at).get(name),) for at in range(len(rows.places))]


def _changed_fields(
    one: _Rows, other: _Rows, was: int, at: int, columns: set[str] | None
) -> list[tuple[str, str | None, str | None]]:
    left, right = one.fields(was), other.fields(at)
    names = [name for name in dict.fromkeys([*left, *right]) if columns is None or name in columns]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]


def _row_side(
    pair: _Pair, rows: _Rows, at: int, fields: Sequence[tuple[str, str | None]] | None, *, is_after: bool = False
) -> Side | None:
    if at < 0:
        return None
    reader = pair.after if is_after else pair.before
    place = _bytes(reader, rows.places[at])
    if fields is None:
        size = place.end - place.start
        most = size if pair.whole else _TEXT
        shown = beginning(reader.read(place.start, min(place.end, place.start + most + 1)), most)
        left = size - len(shown.data)
        return Side(place, lines_of(reader, place), shown.text, cut=left > 0, left=left)
    text = ", ".join(f"{name}: {'none' if value is None else value}" for name, value in fields)
    kept = text if pair.whole or len(text) <= _TEXT else text[:_TEXT] + "…"
    left = len(text[_TEXT:].encode()) if kept is not text else 0
    return Side(place, lines_of(reader, place), kept, cut=left > 0, exact=False, left=left)


def _bytes(reader: OutputReader, place: Place) -> Span:
    return Span(byte_of_char(reader, place[0]), byte_of_char(reader, place[1]))


# JSON as a tree: only what differs is opened.


@record
class _Node:
    path: str
    depth: int
    before: Place | None
    after: Place | None


def _json(pair: _Pair, texts: Sequence[str], key: str) -> _Found:
    one, other = texts
    roots: list[Place] = []
    for text in texts:
        begin = _space(text, 1 if text.startswith("\ufeff") else 0)
        _check_values(text)
        end = _end(text, begin)
        if text[end:].strip():
            raise ValueError
        roots.append((begin, end))
    found: list[_Node] = []
    orders: list[str] = []
    keyed: list[str] = []
    repeats: list[tuple[str, str]] = []
    node = _Node("$", 0, roots[0], roots[1])
    stack, ended = [node], ""
    try:
        while stack and len(found) < MOST_ITEMS:
            deadline.check()
            node = stack.pop()
            if (
                node.before is None
                or node.after is None
                or (opened := _opened(one, other, node, key, keyed, orders, repeats)) is None
            ):
                found.append(node)
            else:
                stack += reversed(opened)
        ended = f"the first {plural(len(found), 'change')}, up to {foreign(node.path)}" if stack else ""
    except OutOfTime as late:
        if not found:
            raise
        ended = _stopped(late, node.path)

    def show(number: int) -> Change:
        node = found[number]
        before = _bytes(pair.before, node.before) if node.before else None
        after = _bytes(pair.after, node.after) if node.after else None
        return _change(pair, before, after, node.path)

    added, removed = sum(node.before is None for node in found), sum(node.after is None for node in found)
    notes: tuple[str, ...] = () if found or orders else ("the same values, written in another way",)
    if orders:
        many = f" and {plural(len(orders) - 1, 'more array')}" if len(orders) > 1 else ""
        notes = (f"elements of {foreign(orders[0])}{many} in another order",)
    notes += (ended,) if ended else ()
    for path, name in repeats[:1]:
        notes += (
            f"several elements of {foreign(path)} have the same {name}: compared by place (with key={name} by it)",
        )
    if key and not keyed:
        notes += (f"no elements that differ have {foreign(repr(key))} on both sides",)
    return _Found(
        "value", len(found), show, changed=len(found) - added - removed, added=added, removed=removed,
        complete=not ended, notes=notes, differing=(
            _length(node.before for node in found if node.before), _length(node.after for node in found if node.after)
        ),
    )  # fmt: skip


def _opened(
    one: str, other: str, node: _Node, key: str, keyed: list[str], orders: list[str], repeats: list[tuple[str, str]]
) -> list[_Node] | None:
    """What is inside of both; nothing where they are the same. None where the value itself has changed."""
    (a, b), (c, d) = node.before or (0, 0), node.after or (0, 0)
    left, right = one[a:b], other[c:d]
    if left == right or _same(one, a, b, other, c, d):
        return []
    signs = left[0] + right[0]
    if node.depth >= _DEPTH or len(node.path) > _PATH or signs not in ("{{", "[["):
        strings = signs == '""' and _decoded(one, a)[0] == _decoded(other, c)[0]
        return [] if strings else None
    if signs == "{{":
        here, there = ({name: (x, y) for name, x, y in _members(text, at)} for text, at in ((one, a), (other, c)))
        names = dict.fromkeys([*here, *there])
        return [_Node(node.path + _step(name), node.depth + 1, here.get(name), there.get(name)) for name in names]
    return _opened_arrays(one, other, node, key, keyed, orders, repeats)


def _same(one: str, a: int, b: int, other: str, c: int, d: int) -> bool:
    """Whether both are the same values in the same order; not said of large ones, which are opened."""
    deadline.check()
    if max(b - a, d - c) > _PLAIN_CHARS:
        return False
    return _PLAIN.raw_decode(one, a)[0] == _PLAIN.raw_decode(other, c)[0]


def _opened_arrays(
    one: str, other: str, node: _Node, key: str, keyed: list[str], orders: list[str], repeats: list[tuple[str, str]]
) -> list[_Node]:
    """`keyed` gets the path of an array whose elements have the key, `orders` where they are in another order,
    `repeats` where several have the same of what could be the key, with its name.
    """
    sides = ((text, place[0]) for text, place in ((one, node.before), (other, node.after)) if place)
    left, right = (_json_rows(text, _elements(text, begin), key) for text, begin in sides)
    deeper = node.depth + 1
    has_key = key in left.tried and key in right.tried
    keyed += [node.path] if has_key else []
    if chosen := _key_of(left, right, key if has_key else ""):
        (keys, other_keys), (names, _) = chosen
        here, there = _occurrences(keys)[0], _occurrences(other_keys)[0]

        def path(value: Any) -> str:
            kind, text = value[0]
            shown = json.dumps(text, ensure_ascii=False) if kind == "str" else str(text).lower()
            return f"{node.path}[?@{_step(names[0])}=={shown}]"

        values = dict.fromkeys([*here, *there])
        order = [there[value] for value in here if value in there]
        if any(a > b for a, b in pairwise(order)):
            orders.append(node.path)
        return [
            _Node(
                path(value), deeper, left.places[here[value]] if value in here else None,
                right.places[there[value]] if value in there else None,
            )
            for value in values
            if value not in here or value not in there or left.numbers[here[value]] != right.numbers[there[value]]
        ]  # fmt: skip
    if not repeats and (name := _repeated_key(left, right)):
        repeats.append((node.path, name))
    nodes: list[_Node] = []
    for a, b, c, d in differences(left.numbers, right.numbers, deadline.check):
        for at in range(max(b - a, d - c)):
            was = left.places[a + at] if a + at < b else None
            now = right.places[c + at] if c + at < d else None
            nodes.append(_Node(f"{node.path}[{c + at if now else a + at}]", deeper, was, now))
    return nodes


def _step(name: str) -> str:
    return f".{name}" if name.isidentifier() and name.isascii() else normalized_step(name)
