"""JSON as values, as far as an outline needs it: all of a small text; parts of one that is large, cut off, broken, or
followed by something else. What is a sample says so.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import field, replace
from itertools import islice
from typing import Any, cast

import stringzilla

from holdall.formats.outline import SCANNED, WHOLE, Sample, take
from holdall.text.json.reader import Cursor, Following, JsonFault, count_members, following
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# JSON as text: what it would cost to parse, parsed, and its strings as they are to be read.
#
# Bytes are read as Latin-1, where every byte is a character: decoding is free and brackets are where they were. Names
# and texts are turned back into UTF-8 by `readable` when they are shown.


_PROBES = 6  # places at which it is looked how dense a text is …
_PROBE = 8 * 1024  # … and so many bytes at each
# What the parser of Python takes for a million of each, in milliseconds, on the machine that this was measured on.
_PER_BYTE, _PER_COMMA, _PER_CONTAINER, _PER_STRING, _PER_NEW_KEY = 1.2, 60, 180, 60, 350
_KEY = lazy_pattern(rb'"([^"\\]{0,80})"\s?:')
_SEQUENCE = lazy_pattern("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_LONE = lazy_pattern("[\ud800-\udfff]")


def cost(data: bytes) -> float:
    """Milliseconds that it takes to parse it, judged by some of it."""
    starts = range(0, max(1, len(data) - _PROBE), max(1, len(data) // _PROBES))
    probes = [data[start : start + _PROBE] for start in starts]
    keys = [key for probe in probes for key in _KEY.findall(probe)]
    found = sum(
        _PER_COMMA * stringzilla.count(probe, b",")
        + _PER_CONTAINER * (stringzilla.count(probe, b"{") + stringzilla.count(probe, b"["))
        + _PER_STRING * stringzilla.count(probe, b'"') / 2
        for probe in probes
    )
    found += _PER_NEW_KEY * len(set(keys)) + _PER_BYTE * sum(map(len, probes))
    scale = len(data) / max(1, sum(map(len, probes)))
    return found * scale / 1e6


def loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python reads
        return json.loads(text, strict=False, parse_int=float)


def readable(text: str) -> str:
    """The text that a Latin-1 reading of UTF-8 stands for. What was an escape in the JSON stays as it is."""
    if text.isascii():
        return text
    return _LONE.sub("\ufffd", _SEQUENCE.sub(lambda found: found[0].encode("latin-1").decode("utf-8", "replace"), text))


# The value that the beginning of a JSON text stands for: containers that are open at its end are closed there.
#
# Then whole members are added, one after the other, as far as is wished. Nothing here raises on broken JSON.


_TRIES = 4
_TOKENS = 8_000  # of what is closed: more would take too long
_MEMBERS = 1_200  # that are added to one container
DEEPEST = 120  # levels; the parser of Python stops at about 1,000, and no outline shows more
_TOKEN = lazy_pattern(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_GAP = lazy_pattern(r"[\s,]*+")
_COLON = lazy_pattern(r"\s*+:\s*+")

Container = dict[str, Any] | list[Any]


@record(frozen=False)
class Prefix:
    value: Any
    open_at: list[int]  # where the containers start that are still open at the end, outermost first
    end: int
    deep: bool  # nested deeper than is looked at

    def spine(self) -> list[Container]:
        """The containers that are still open."""
        return list(_spine(self.value, len(self.open_at)))


def _spine(value: Any, depth: int) -> Iterator[Container]:
    for _ in range(depth):
        yield value
        children = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
        if not children:
            return
        value = children[-1]


def go_on(begun: Prefix, text: str) -> None:
    """Add the members that follow in `text`, as many as are whole; containers that end there are no longer open."""
    decoder = json.JSONDecoder(strict=False)
    for container in reversed(begun.spine()):
        begun.end, closed = _fill(container, text, begun.end, decoder)
        if not closed:
            return
        begun.open_at.pop()


def _fill(container: Container, text: str, at: int, decoder: json.JSONDecoder) -> tuple[int, bool]:
    """Where it comes to, and whether that is the end of the container."""
    for _ in range(_MEMBERS):
        gap = _GAP.match(text, at)
        start = gap.end() if gap else at
        if text[start : start + 1] in ("]", "}"):
            return start + 1, True
        try:
            if isinstance(container, dict):
                key, start = decoder.raw_decode(text, start)
                colon = _COLON.match(text, start)
                value, start = decoder.raw_decode(text, colon.end() if colon else start)
                container[str(key)] = value
            else:
                value, start = decoder.raw_decode(text, start)
                container.append(value)
        except (ValueError, RecursionError):
            break
        at = start
    return at, False


def prefix(text: str) -> Prefix | None:
    """The value that `text` begins, every container that is open at its end closed there."""
    for _ in range(_TRIES):
        closers, open_at, end, deep = _last_safe_place(text)
        try:
            value = loads(text[:end] + "".join(reversed(closers)))
        except json.JSONDecodeError as fault:
            if fault.pos >= len(text) or fault.pos < 2:
                return None
            text = text[: fault.pos]
            continue
        except RecursionError:
            return None
        return Prefix(value, open_at, end, deep)
    return None


def _last_safe_place(text: str) -> tuple[list[str], list[int], int, bool]:
    """Where `text` can be ended by closing brackets, with these and the places of those that they close."""
    closers: list[str] = []
    open_at: list[int] = []
    end = 0
    for match in islice(_TOKEN.finditer(text), _TOKENS):
        sign = text[match.start()]
        if sign == '"':
            continue
        if sign == ",":
            end = match.start()
        elif sign in "[{":
            if len(closers) >= DEEPEST:
                return closers, open_at, end, True
            closers.append("]" if sign == "[" else "}")
            open_at.append(match.start())
            end = match.end()
        elif not closers or closers.pop() != sign:
            break
        else:
            open_at.pop()
            end = match.end()
            if not closers:
                break
    return closers, open_at, end, False


# JSON that is written with a line for each member: a part of the members parsed, all of them counted.
#
# The members of a container are on lines of their own, indented one step further than it. So they can be counted, and
# some of them found, without reading what is inside. Only these are parsed; what is inside a large one is skimmed
# again.


_ROOT = lazy_pattern(rb"(?:\xef\xbb\xbf)?\s{0,100}(?P<open>[\[{])\r?\n(?P<unit>[ \t]{0,16})[^\s]")
_BYTES = 900 * 1024  # parsed in all
_ALL = 48  # members of a container that are all looked at; of more …
_SOME, _MOST = 48, 1200  # … at least and at most this many, spread evenly
_LEAST = 8 * 1024  # bytes that one member may always take
_DEEPEST = 8
_SKIM_COLON = lazy_pattern(rb'"\s{0,8}:\s{0,8}')

Counts = dict[int, int]


def can_be_skimmed(head: bytes, *, deep: bool = False) -> bool:
    """By how it begins. `deep`: what is inside of its members too, for that is indented further."""
    root = _ROOT.match(head)
    return root is not None and bool(root["unit"] or not deep)


def skim(data: bytes) -> tuple[Any, Counts] | None:
    """The value, and by their `id` how many members containers have that are not all there. None: not so written."""
    root = _ROOT.match(data)
    if root is None:
        return None
    found = _Skimmed(data, root["unit"])
    value = found.container(root.start("open"), len(data), 0, _BYTES)
    return (value, found.counts) if value else None


class _Skimmed:
    def __init__(self, data: bytes, unit: bytes) -> None:
        self.counts: Counts = {}
        self._data = data
        self._unit = unit
        self._decoder = json.JSONDecoder(strict=False)

    def container(self, start: int, end: int, level: int, budget: float) -> Any:
        """What is from `start` on, at most `budget` bytes of it parsed."""
        is_object = self._data[start : start + 1] == b"{"
        indent = b"\n" + self._unit * (level + 1)
        signs = [indent + b'"'] if is_object else [indent + sign for sign in (b"{", b"[", b'"')]
        numbers = {sign: stringzilla.count(self._data, sign, start, end) for sign in signs}
        number = sum(numbers.values())
        sign = max(numbers, key=lambda sign: numbers[sign])
        value: dict[str, Any] | list[Any] = {} if is_object else []
        some = int(min(_MOST, max(_SOME, budget * number / (end - start))))
        stride = 0.0 if number <= max(_ALL, some) else (end - start) / some
        places = list(self._places(sign, start, end, stride))
        for at, stop in places:
            self._add(value, at + len(sign) - 1, stop, level, max(_LEAST, budget / len(places)))
        if number > len(value):
            self.counts[id(value)] = number
        return value

    def _places(self, sign: bytes, start: int, end: int, stride: float) -> Iterator[tuple[int, int]]:
        """Where members begin, and where the next ones do: every one, or the first in each stride."""
        at = stringzilla.find(self._data, sign, start, end)
        while at >= 0:
            after = stringzilla.find(self._data, sign, at + 1, end)
            yield at, after if after >= 0 else end
            further = int(start + (int((at - start) / stride) + 1) * stride) if stride else 0
            at = stringzilla.find(self._data, sign, further, end) if 0 <= after < further else after

    def _add(self, value: dict[str, Any] | list[Any], at: int, stop: int, level: int, budget: float) -> None:
        key = ""
        if isinstance(value, dict):
            try:
                key, _ = self._decoder.raw_decode(self._data[at : min(stop, at + _LEAST)].decode("latin-1"))
            except (ValueError, RecursionError):
                return
            colon = _SKIM_COLON.search(self._data, at + 1, stop)
            if colon is None:
                return
            at = colon.end()
        member = self._member(at, stop, level, budget)
        if member is None:
            return
        if isinstance(value, dict):
            value[key] = member[0]
        else:
            value.append(member[0])

    def _member(self, at: int, stop: int, level: int, budget: float) -> tuple[Any] | None:
        if stop - at > budget and self._data[at : at + 1] in (b"{", b"["):
            inner = self._unit and level < _DEEPEST and self.container(at, stop, level + 1, budget)
            if inner:
                return (inner,)
            begun = prefix(self._data[at : at + int(budget)].decode("latin-1"))
            return (begun.value,) if begun else None
        try:
            return (self._decoder.raw_decode(self._data[at:stop].decode("latin-1"))[0],)
        except (ValueError, RecursionError):
            return None


# JSON as values, as far as it can be seen: all of it, or parts of it where it is large, cut off or broken.


_AFFORDABLE = 30.0  # milliseconds for which all of a text is parsed …
_AFFORDABLE_SKIMMED = 20.0  # … and of one whose members can be counted without that; of a dearer one …
_SPENT = 7.0  # … so much of its beginning as takes so long, …
_HEAD = 64 * 1024  # … from where it is known which containers are open
_BEGINNING = 2 * 1024 * 1024  # and never more than this
_MAP = 12  # an open object with fewer members is a record, not a map
_WINDOW = 64 * 1024
_FROM_WINDOW = 24  # records taken out of one window
_FIRST_KEY = lazy_pattern(r'\[(\s*\{\s*"[^"\\]{0,200}"\s*:)')


@record(frozen=False)
class Seen:
    """`counts` tells by their `id` how many members containers have that are not all there, and whether exactly."""

    value: Any
    note: str = ""
    whole: bool = True
    counts: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    several: bool = False  # `value` is a list of values that stand one after the other
    text_from: int | None = None  # where other text begins, after the value


def see(sample: Sample) -> Seen | None:
    """It is taken for one value. None if nothing can be made of it."""
    note = ""
    end = sample.tail[-100:].rstrip() or sample.tail.rstrip()  # blanks may follow, however many
    if not end.endswith((b"]", b"}")):
        note = f"cut off: it ends at byte {sample.size:,} without the closing bracket"
        if sample.size > SCANNED:  # too large to look for where the first value ends
            note = "it does not end as JSON does: cut off, or other text follows"
    elif sample.whole and cost(sample.head) <= _affordable(sample.head):
        try:
            return Seen(loads(_text(sample.head)))
        except json.JSONDecodeError as fault:
            note = f"not valid JSON from byte {fault.pos:,} on"
            return _begun(sample, _text(sample.head)[: fault.pos], note)
        except RecursionError:
            pass
    elif sample.size <= SCANNED and sample.read is not None and can_be_skimmed(sample.head):
        skimmed = skim(sample.head if sample.whole else sample.read(0, sample.size))
        if skimmed:
            return Seen(skimmed[0], whole=False, counts={at: (number, True) for at, number in skimmed[1].items()})
    return _begun(sample, _text(sample.head), note)


def _affordable(head: bytes) -> float:
    return _AFFORDABLE_SKIMMED if can_be_skimmed(head, deep=True) else _AFFORDABLE


def _text(data: bytes) -> str:
    return data.decode("latin-1").removeprefix("\xef\xbb\xbf")


def _begun(sample: Sample, text: str, note: str) -> Seen | None:
    """What the beginning tells, with records from the rest."""
    begun = prefix(text[:_HEAD])
    if begun is None:
        return None
    seen = Seen(begun.value, note=note, whole=False)
    if begun.deep:
        seen.note = f"nested more than {DEEPEST} levels deep"
    elif begun.open_at and begun.end:
        if not sample.whole and sample.read is not None:
            text = _text(sample.read(0, _BEGINNING))
        go_on(begun, text[: int(len(text) * min(1.0, _SPENT / cost(text[:_BEGINNING].encode("latin-1"))))])
    _read_further(seen, begun, text, sample)
    return seen


def _read_further(seen: Seen, begun: Prefix, text: str, sample: Sample) -> None:
    """Records and members from the rest of the sample; of open containers, how many members there are at least."""
    spine = begun.spine()
    for depth, container in enumerate(spine):
        size = len(container)
        if isinstance(container, list) and size == 1:
            seen.counts[id(container)] = 1, False  # there may be more: what it holds is not at its end
        if size < (2 if isinstance(container, list) else _MAP):
            continue
        start = begun.open_at[depth]
        if depth + 1 < len(spine):  # the last one is not whole
            _drop_last(container)
        lead = _FIRST_KEY.match(text, start) if isinstance(container, list) else None
        start_of_record = (lead[1] if lead[1].startswith("\n") else lead[1].lstrip()) if lead else ""
        # Where there are more of it than records it also begins something inside of them.
        if lead and text.count(start_of_record, start, begun.end) <= size + 1:
            _gather(cast("list[Any]", container), start_of_record, sample)
            _join_tail(spine[:depth], start_of_record, sample)
        number = count_members(sample.head[start + 1 :]) if sample.whole and not seen.note else None
        seen.counts[id(container)] = (size, False) if number is None else (number, True)
        return


def _drop_last(container: Any) -> None:
    if isinstance(container, dict):
        cast("dict[str, Any]", container).popitem()
    else:
        container.pop()


def _windows(sample: Sample) -> Iterator[str]:
    """What was read beside the beginning; of a text that was read whole, some of it."""
    if not sample.whole:
        yield from (data.decode("latin-1") for _, data in sample.pieces[1:])
        return
    for start in range(_HEAD, sample.size, max(_WINDOW, (sample.size - _HEAD) // 8)):
        yield sample.head[start : start + _WINDOW].decode("latin-1")


def _gather(records: list[Any], lead: str, sample: Sample) -> None:
    """Records of the windows, found by how the first one begins."""
    decoder = json.JSONDecoder(strict=False)
    for window in _windows(sample):
        at = window.find(lead)
        for _ in range(_FROM_WINDOW):
            if at < 0:
                break
            try:
                record, end = decoder.raw_decode(window, window.index("{", at))
            except (ValueError, RecursionError):
                break
            records.append(record)
            at = window.find(lead, end)


def _join_tail(spine: list[Any], lead: str, sample: Sample) -> None:
    """Members that are after the records, up to the end of the text."""
    tail = sample.tail[-_WINDOW:].decode("latin-1")
    at = tail.rfind(lead)
    if at < 0 or not spine:
        return
    openers = "".join('{"":' if isinstance(container, dict) else "[" for container in spine)
    try:
        found = loads(openers + "[" + tail[at:])
    except (ValueError, RecursionError):
        return
    for container in spine:
        if isinstance(container, dict) and isinstance(found, dict):
            members = cast("dict[str, Any]", found)
            inner = members.pop("", None)
            cast("dict[str, Any]", container).update(members)
            found = inner
        elif isinstance(found, list) and found:
            found = cast("list[Any]", found)[0]


# JSON that is not one value alone: values one after the other, or a value with other text after it.


# milliseconds for which values are parsed

_BOM = b"\xef\xbb\xbf"
_SPACE = lazy_pattern(r"[ \t\r\n]*+")


def see_all(sample: Sample) -> Seen | None:
    """None if nothing can be made of it."""
    ends_well = sample.tail[-100:].rstrip().endswith((b"]", b"}"))
    if sample.whole and ends_well:
        with contextlib.suppress(ValueError, RecursionError):
            if cost(sample.head) <= _affordable(sample.head):
                return Seen(loads(_text(sample.head)))  # fails where something follows its first value
    sample = _at_hand(sample)
    size = sample.size if sample.size <= (WHOLE if ends_well else SCANNED) else len(sample.head)
    # Of what is too large to be searched only the beginning is, for the end of a first value that is small.
    after = following(sample.read, size) if sample.read is not None else None
    if after is None or after.what == "nothing":
        return see(sample)
    if after.what == "values":
        return _several(sample, after)
    seen = see(_up_to(sample, after.end))
    return replace(seen, text_from=after.after) if seen is not None else None


def _at_hand(sample: Sample) -> Sample:
    """The same, with all that may be searched read at once: it is gone through more than once."""
    if sample.size > SCANNED or (sample.read is None and not sample.whole):
        return sample
    whole = sample.head if sample.whole or sample.read is None else sample.read(0, sample.size)

    def read(start: int, end: int) -> bytes:
        return whole[start:end]

    return replace(sample, read=read)


def _up_to(sample: Sample, end: int) -> Sample:
    if end <= len(sample.head):
        return Sample(((0, sample.head[:end]),), end, sample.lines, sample.read, sample.line_at)
    return take(sample.read, end, sample.lines, sample.line_at) if sample.read is not None else sample


def _several(sample: Sample, after: Following) -> Seen:
    before = len(_BOM) if sample.head.startswith(_BOM) else 0
    data = sample.head[before:]
    affordable = data[: int(len(data) * min(1.0, _AFFORDABLE / cost(data)))]
    values, end, fault = _values(affordable.decode("latin-1"))
    whole = sample.whole and before + end == sample.size
    seen = Seen(values, whole=whole, several=True)
    if fault is not None and sample.whole and len(affordable) == len(data):
        is_cut = _is_cut_off(data[end:])
        seen.note = (
            "cut off: its last value has no end" if is_cut else f"not valid JSON from byte {before + fault:,} on"
        )
    if not values:  # the first one is too large for that
        begun = prefix(data[:_HEAD].decode("latin-1"))
        values += [begun.value] if begun is not None else []
        end = after.end
    if not whole:
        seen.counts[id(values)] = len(values), False
    return seen


def _values(text: str) -> tuple[list[Any], int, int | None]:
    """The whole ones, where the last of them ends, and where that which follows is not JSON."""
    decoder = json.JSONDecoder(strict=False)
    values: list[Any] = []
    end = 0
    while True:
        gap = _SPACE.match(text, end)
        end = gap.end() if gap else end
        if end == len(text):
            return values, end, None
        try:
            value, end = decoder.raw_decode(text, end)
        except json.JSONDecodeError as fault:
            return values, end, fault.pos
        except (ValueError, RecursionError):  # a number too long for Python, or too many levels
            return values, end, None
        values.append(value)


def _is_cut_off(data: bytes) -> bool:
    """Whether it is only the end of the text that a value lacks."""
    try:
        Cursor(lambda start, end: data[start:end], len(data)).pass_value()
    except JsonFault as fault:
        return fault.ended
    return False
