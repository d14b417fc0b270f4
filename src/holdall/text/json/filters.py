"""JSONPath with simple filters, `$.items[?@.state=="open" && @.n>=3].name`, in a pass for each of them.

What is before the first filter is followed as any path, with a wildcard in place of the filter; each value that this
names is tried, and what is behind the filter is followed inside of those that pass. A value is read whole where it is
small; of a large one, or one that is nested too deeply, only what the filter names. Comparisons are those of RFC 9535:
values of different types are never equal nor in an order, and what is missing equals only what is missing.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from typing import Any, cast

from holdall.text.json.find import Finding, Hit, Scan, Take, find
from holdall.text.json.path import (
    AllOf,
    AnyOf,
    Compare,
    Exists,
    Filter,
    Index,
    JsonPath,
    Literal,
    Missing,
    Name,
    Not,
    Segment,
    Test,
    Wildcard,
)
from holdall.text.json.reader import JsonFault, Read
from holdall.values.errors import BadQuery

_SMALL = 256 * 1024  # bytes of a value that is read whole
_MISSING = Missing()
_ANY = Wildcard()

Look = Callable[[tuple[Name | Index, ...]], Any]


def is_plain(path: JsonPath) -> bool:
    return not any(map(_filter_of, path.segments))


def with_wildcard(path: JsonPath) -> JsonPath:
    """What leads to the values that the first filter is tried on; the path itself where it has none."""
    for at, segment in enumerate(path.segments):
        if _filter_of(segment):
            return JsonPath(path.text, (*path.segments[:at], replace(segment, selectors=(_ANY,))))
    return path


_WAITING = 100_000  # values that pass and wait for the end of one that they are in
_HELD, _OF_HIT = 1 << 25, 100  # bytes of those and of their names; of one without its name
_BREATH = 512  # values that are tried between two reads, at most


def find_filtered(
    read: Read, size: int, path: JsonPath, *, lines: bool, first: int = 0, limit: int | None = None,
    take: Take | None = None,
) -> Finding:  # fmt: skip
    """As `find`."""
    at = next(at for at, segment in enumerate(path.segments) if _filter_of(segment))
    chosen, rest = cast("Filter", _filter_of(path.segments[at])), path.segments[at + 1 :]
    lead = with_wildcard(path)
    sized = find(read, size, lead, lines=lines, limit=1)  # tells what kind of text it is, and where it ends
    if sized.text_from is not None:
        size = sized.scan.size
    scan = Scan(read, size, lead, layout=sized.layout)
    far, read = read, _near(read)
    behind = JsonPath(path.text, rest) if rest else None
    kept: list[Hit] = []
    keep = take or kept.append
    total = looked_at = given = 0
    last = None if limit is None or take else first + limit
    fault: JsonFault | None = None

    def is_meant(hit: Hit) -> bool:
        nonlocal looked_at
        looked_at += 1
        if not looked_at % _BREATH:
            far(0, 1)  # it is at a read that a call which takes too long is ended
        return passes(chosen.test, _look(_Part(read, hit.start, hit.end)))

    nested = any(segment.descendants for segment in lead.segments)
    most = _WAITING if behind is not None or last is None else min(last, _WAITING)
    try:
        for hit in _of_nested(scan, is_meant, most) if nested else filter(is_meant, _whole(scan)):
            if hit is None and (behind is not None or (last is not None and total < last)):
                raise BadQuery(
                    "too many values inside of each other pass the filter: name the place of those that are meant, "
                    "without `..`."
                )
            if hit is None or behind is None:
                if hit is not None and first <= total and (last is None or total < last):
                    keep(hit)
                    given += 1
                total += 1
                continue
            inside = _Part(read, hit.start, hit.end)
            skipped = max(0, first - total)
            room = None if last is None else max(0, last - max(total, first))
            look = find if is_plain(behind) else find_filtered
            found = look(inside, inside.size, behind, lines=False, first=skipped, limit=room)
            for one in found.hits:
                keep(_moved(one, hit))
                given += 1
            total += found.total
    except JsonFault as broken:
        fault = broken
    return replace(
        sized, hits=tuple(kept), total=total, scan=scan, fault=fault or sized.fault, looked_at=looked_at,
        given=given if take else 0,
    )  # fmt: skip


def _filter_of(segment: Segment) -> Filter | None:
    return next((one for one in segment.selectors if isinstance(one, Filter)), None)


def _of_nested(scan: Scan, is_meant: Callable[[Hit], bool], most: int) -> Iterator[Hit | None]:
    """Those that are meant, in their order, of hits inside of each other. The outer one ends last, so the others wait;
    where too many do, the first ones, at most `most`, and None for each of the others.
    """
    opened: list[tuple[int, Hit]] = []
    waiting: list[tuple[int, Hit]] = []
    over, held, last = 0, 0, math.inf  # `last`: the place behind which all are over

    def end(*, all: bool) -> None:
        nonlocal over, held, last
        while opened and (all or opened[-1][1].end != -1):
            place, hit = opened.pop()
            if hit.end < 0 or not is_meant(hit):
                continue
            if place > last:
                over += 1
                continue
            waiting.append((place, hit))
            held += _weight(hit)
        if len(waiting) > 2 * most or held > _HELD:
            waiting.sort(key=itemgetter(0))
            number = min(most, len(waiting) // 2 if held > _HELD else most)
            over += len(waiting) - number
            del waiting[number:]
            last = waiting[-1][0]
            held = sum(_weight(hit) for _, hit in waiting)

    def passed() -> Iterator[Hit | None]:
        nonlocal over, held, last
        waiting.sort(key=itemgetter(0))
        yield from (hit for _, hit in waiting[:most])
        yield from repeat(None, len(waiting[most:]) + over)
        waiting.clear()
        over, held, last = 0, 0, math.inf

    for place, hit in enumerate(scan.hits()):
        end(all=False)
        if waiting and not opened:
            yield from passed()
        opened.append((place, hit))
    end(all=True)
    yield from passed()


def _weight(hit: Hit) -> int:
    return _OF_HIT + (len(hit.step) if isinstance(hit.step, bytes) else 0)


def _whole(scan: Scan) -> Iterator[Hit]:
    """The hits, each once its end is known, where none is inside of another."""
    before: Hit | None = None
    for hit in scan.hits():
        if before is not None and before.end >= 0:
            yield before
        before = hit
    if before is not None and before.end >= 0:
        yield before


def _near(read: Read) -> Read:
    """The same for many small parts, one behind the other: what is near them is read with them."""
    begin, held = 0, b""

    def near(start: int, end: int) -> bytes:
        nonlocal begin, held
        if end - start > _SMALL:
            return read(start, end)
        if start < begin or end > begin + len(held):
            begin, held = start, read(start, start + 2 * _SMALL)
        return held[start - begin : end - begin]

    return near


class _Part:
    """The bytes of one value, read as if they were all."""

    def __init__(self, read: Read, start: int, end: int) -> None:
        self._read, self._start, self.size = read, start, end - start

    def __call__(self, start: int, end: int) -> bytes:
        return self._read(self._start + max(0, start), self._start + min(end, self.size))


def _moved(hit: Hit, into: Hit) -> Hit:
    within = into if hit.into is None else _moved(hit.into, into)
    return replace(hit, start=hit.start + into.start, end=hit.end + into.start, into=within)


def _look(part: _Part) -> Look:
    if part(0, 1) not in (b"{", b"["):  # nothing is below it, which costs less to know
        return lambda path: _MISSING if path else _far_below(part, path)
    if part.size <= _SMALL:
        try:
            value: Any = _DECODER.decode(part(0, part.size).decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return lambda path: _far_below(part, path)
        return lambda path: _below(value, path)
    return lambda path: _far_below(part, path)


def _number(digits: str) -> float:
    return int(digits) if len(digits) < 400 else float(digits)


_DECODER = json.JSONDecoder(parse_int=_number, strict=False)


def _below(value: Any, path: tuple[Name | Index, ...]) -> Any:
    for step in path:
        match step:
            case Name(name) if isinstance(value, dict) and name in value:
                value = cast("dict[str, Any]", value)[name]
            case Index(index) if isinstance(value, list) and index < len(cast("list[Any]", value)):
                value = cast("list[Any]", value)[index]
            case _:
                return _MISSING
    return value


def _far_below(part: _Part, path: tuple[Name | Index, ...]) -> Any:
    """The same without reading all of the value. What is itself too large to read is there, and equals nothing."""
    found = find(part, part.size, JsonPath("$", tuple(Segment((step,)) for step in path)), lines=False, limit=1)
    if not found.hits:
        return _MISSING
    hit = found.hits[-1]
    try:
        if hit.end - hit.start > _SMALL:
            return object()
        return _DECODER.decode(part(hit.start, hit.end).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return object()


def passes(test: Test, look: Look) -> bool:
    match test:
        case Exists(path):
            return look(path) is not _MISSING
        case Not(inner):
            return not passes(inner, look)
        case AllOf(tests):
            return all(passes(one, look) for one in tests)
        case AnyOf(tests):
            return any(passes(one, look) for one in tests)
        case Compare(left, sign, right):
            return _compares(_value(left, look), sign, _value(right, look))


def _value(side: tuple[Name | Index, ...] | Literal, look: Look) -> Any:
    return side.value if isinstance(side, Literal) else look(side)


def _compares(left: Any, sign: str, right: Any) -> bool:
    match sign:
        case "==":
            return _equal(left, right)
        case "!=":
            return not _equal(left, right)
        case "<":
            return _less(left, right)
        case ">":
            return _less(right, left)
        case "<=":
            return _less(left, right) or _equal(left, right)
        case _:
            return _less(right, left) or _equal(left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _less(left: Any, right: Any) -> bool:
    if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
        return bool(left < right)
    return False


def _equal(left: Any, right: Any) -> bool:
    """As JSON: true is not 1. Two values are compared as far down as these are."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        ones, others = cast("list[Any]", left), cast("list[Any]", right)
        return len(ones) == len(others) and all(map(_equal, ones, others))
    if isinstance(left, dict) and isinstance(right, dict):
        one, other = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
        return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())
    return bool(left == right)
