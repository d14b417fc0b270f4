"""JSON as a tree, one level at a time: the children of the value that stands at a byte, a page of them.

A value is named by its bytes, so opening one deep inside costs what it holds and nothing else. What is stepped over is
never parsed and never held. A page that takes too long is given as far as it came: the value that was being stepped
over then has no known end, and the page can be asked for again with more time.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from holdall.text.json.path import decoded_name, shown_name
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
)
from holdall.text.utf8 import straddling_bytes
from holdall.web.output_rows import Reader, lines_from
from holdall.web.output_text import Run, runs_of

NodeKind = Literal["object", "array", "string", "number", "word"]
PAGE = 100
_SHOWN = 160  # bytes of a value
_LONGEST_NAME = 4096
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Child:
    index: int
    name: str | None  # None for an element
    kind: NodeKind
    start: int
    end: int | None  # None where it could not be found in time, or is not there
    runs: list[Run]

    def to_json(self) -> dict[str, Any]:
        name = None if self.name is None else runs_of(self.name.encode("utf-8", "surrogatepass"))
        return {
            "i": self.index, "name": name, "plain": self.name, "kind": self.kind, "at": self.start, "end": self.end,
            "t": self.runs,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of children goes on: the byte, and the number of the child that stands there."""

    byte: int
    index: int = 0


@dataclass(slots=True)
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


def root_of(reader: Reader, *, seconds: float) -> Level:
    """The values of the whole text, which is one."""
    place = Cursor(reader.read, reader.totals.bytes, chunk=_CHUNK)
    place.peek()
    return _paged(reader, lambda read: _values(read, reader.totals.bytes, place.place), seconds)


def records_of(reader: Reader, first: int, *, count: int = PAGE) -> Level:
    """The records of NDJSON, from line `first` on: a value a line. Any page costs the same."""
    level = Level()
    for row in lines_from(reader, first, count, most=_SHOWN):
        data = reader.read(row.start, min(row.end, row.start + 1))
        level.children.append(
            Child(row.number - 1, None, _kind(data[0] if data else 0), row.start, row.end, [*row.runs])
        )
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
    return level


def _values(read: Callable[[int, int], bytes], size: int, at: int) -> Iterator[_Found]:
    """Values one after the other. Each comes twice: when it begins, and when its end is known."""
    cursor = Cursor(read, size, start=at, chunk=_CHUNK)
    index = 0
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
