"""Finding the values that a path names, in one pass over a JSON text of any size; and where a path finds nothing, how
far it came and what there is instead.

Each value is a range of bytes, so that it can be given as it is stored: numbers that no float can hold, names that
occur twice, NaN. Values come in the order of the document, each once. Memory is flat except for one small frame for
each level of nesting that the path enters.

Two ways lead over a document. The exact one walks with a cursor into every container that the path enters; it finds
places, and it alone says where and why a text is not JSON. The quick one has whole children built by Python's JSON
scanner and only counts in them; it takes children that hold nothing to be shown, and leaves all that the scanner
refuses (cut off, broken, very deep) to the exact one. Both give the same answer.
"""

import difflib
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from json.scanner import make_scanner
from typing import Any, Literal, NamedTuple

from holdall.text.escape import foreign, foreign_names
from holdall.text.json.path import (
    SHOWN_STEPS,
    Filter,
    Index,
    JsonPath,
    Name,
    Segment,
    Slice,
    Step,
    Wildcard,
    decoded_name,
    normalized_path,
    shown_name,
)
from holdall.text.json.plan import Counter, Machine, Plan
from holdall.text.json.reader import (
    CHUNK,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    ENDED,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    SCALAR,
    SPACE,
    Cursor,
    JsonFault,
    Read,
    is_followed_by_text,
)
from holdall.text.numbers import plural
from holdall.values.errors import BadQuery
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

Layout = Literal["one", "several", "lines"]
"""One value; several, one after the other; or one on each line. Several values count as the elements of an array."""


class SeveralValues(Exception):
    """The text was taken for one value, and something follows it: another value, or text that is not JSON."""

    def __init__(self, end: int, after: int) -> None:
        self.end = end  # of the first value
        self.after = after  # where what follows begins
        super().__init__(f"the first value ends at byte {end:,}, and something follows")


@record(eq=False)
class Trail:
    """The steps that lead to a value, each held once for all that is below it.

    Written out, the paths of values inside of each other would take the square of their depth.
    """

    step: Step
    above: "Trail | None"
    depth: int  # how many steps there are
    first: "Trail | None"  # the last of those that are shown at the beginning, where there are so many

    def path(self) -> tuple[str, bool]:
        """As it is shown, and whether it is shortened."""
        last, first = self._up(SHOWN_STEPS), self.first
        if first is None:
            return normalized_path(last)
        left = self.depth - 2 * SHOWN_STEPS
        return normalized_path([*first._up(SHOWN_STEPS), *last[max(0, -left) :]], left_out=max(0, left))

    def _up(self, most: int) -> list[Step]:
        steps: list[Step] = []
        at: Trail | None = self
        while at is not None and len(steps) < most:
            steps.append(at.step)
            at = at.above
        return steps[::-1]


@record(frozen=False)
class Hit:
    """A value that the path names. `step` is its own name or index, None for the whole text.

    `end` is known when the next hit comes; for a value that holds further hits, when that is over. Until then it is
    -1, and below that where the value turns out to be broken.
    """

    trail: Trail | None
    start: int
    end: int = -1
    into: "Hit | None" = None  # it was found inside of this one, and its path goes on from there

    @property
    def step(self) -> Step | None:
        return self.trail.step if self.trail is not None else None

    @property
    def path(self) -> str:
        return self._shown()[0]

    @property
    def shortened(self) -> bool:
        """Whether the path is too long to show and leaves something out."""
        return self._shown()[1]

    def _shown(self) -> tuple[str, bool]:
        path, shortened = self.trail.path() if self.trail is not None else ("$", False)
        if self.into is None:
            return path, shortened
        return self.into.path + path[1:], self.into.shortened or shortened


@record
class Reached:
    """The first value that the most segments of the path led to; a container rather than a scalar."""

    segments: int
    path: str
    start: int
    is_scalar: bool


_BROKEN = -2  # the end of a value that has none
_BREATH = 512  # children that are looked at between two looks at the clock
_WAITING = 20_000  # hits that are held until one before them has its end
_DEEPEST = 1_000_000  # levels that a path may enter; stepping over has no limit
_LONGEST_NAME = 64 * 1024  # bytes; a longer name is neither compared nor shown
_TOO_LONG = "…".encode()
_numbers = lazy_pattern(b"(?:" + SCALAR + SPACE + b"," + SPACE + b")++")


# ── The quick way ───────────────────────────────────────────────────────────────────────────────────────────
#
# The text at hand is read as Latin-1, so that an index into it is an index into the bytes. A name of ASCII is the same
# in both; another one is compared as the Latin-1 reading of its UTF-8, which a \u escape would not match: a window with
# one is left to the exact way then.

_FIRST_WINDOW, _LARGEST_WINDOW = 16 * 1024, 256 * 1024  # bytes
_LEAST = 64  # bytes; less is not worth a try
_LONGEST_PAUSE = 4 * 1024 * 1024
_LONGEST_WORD = 16  # bytes; one that is cut off is refused at its start
_DEEP = 2048  # bytes that the scanner may have read when it stops at too many levels
_ALL = 1 << 62
_REFUSALS = (ValueError, StopIteration, RecursionError, IndexError)


def _scanner(decoder: Any) -> Callable[[str, int], tuple[Any, int]]:
    """Builds the value that begins at an index, and says where it ends."""
    return make_scanner(decoder)


_scan_pairs = _scanner(json.JSONDecoder(strict=False, object_pairs_hook=tuple))
_scan_any = _scanner(json.JSONDecoder(strict=False))  # faster, for what is not counted
_colon = lazy_pattern(r"[ \t\r\n]*+:[ \t\r\n]*+")


_Then = Literal["closed", "cut", "stopped"]
"""All children are passed; the next one is cut off where the window ends; it is for the exact way."""


class _Series(NamedTuple):
    """Children of one kind. `sign` is what is mostly between two of them, `gap` all that may be; its group is what
    comes after the last one.
    """

    sign: str
    gap: re.Pattern[str]
    named: bool = False
    whole: bool = False  # each line is a text of its own, and the window goes over many


_MEMBERS = _Series(",", lazy_pattern(r"[ \t\r\n]*+(?:,[ \t\r\n]*+|(?=([\]}])))"), named=True)
_ELEMENTS = _Series(",", _MEMBERS.gap)
_VALUES = _Series("\n", lazy_pattern(r"""[ \t\r\n]++|(?<=[}\]])(?=[{["])"""))
_LINES = _Series("\n", lazy_pattern(r"[ \t\r]*+\n[ \t\r\n]*+"), whole=True)


class _Window:
    """What the quick way has at hand, and when to try it: after a refusal it pauses, for longer each time."""

    def __init__(self, path: JsonPath) -> None:
        self.text = ""
        self.is_last = False  # nothing more is at hand
        self._start = 0  # the byte that `text` begins at
        self._size = _FIRST_WINDOW
        self._not_before = 0  # the byte from which the next try is worth it
        self._pause = 0
        self._judged: dict[Counter, bool] = {}
        self._is_ascii = all(
            selector.name.isascii()
            for segment in path.segments
            for selector in segment.selectors
            if isinstance(selector, Name)
        )

    def at(self, cursor: Cursor, *, whole: bool) -> int:
        """The index in `text` of the cursor's place, or -1. `whole`: it may continue after the end of the line."""
        place = cursor.place
        end = len(cursor.buf) if whole else cursor.end
        if place < self._not_before or end - cursor.at < _LEAST:
            return -1
        index = place - self._start
        if 0 <= index <= len(self.text) - _LEAST and self._start + len(self.text) <= cursor.base + end:
            return index
        self.text = cursor.buf[cursor.at : min(end, cursor.at + self._size)].decode("latin-1")
        self._start = place
        self.is_last = cursor.at + len(self.text) == end
        self._judged.clear()
        if not self._is_ascii and "\\u" in self.text:
            self._not_before = place + len(self.text) // 4
            self.text = ""
            return -1
        return 0

    def can_hold(self, counter: Counter) -> bool:
        """Whether the text can hold a hit."""
        known = self._judged.get(counter)
        if known is None:
            names = counter.names
            known = names is None or "\\u" in self.text or any(name in self.text for name in names)
            self._judged[counter] = known
        return known

    def stopped(self, begin: int, index: int, end: int) -> bool:
        """Children were passed from `begin` up to the one at `index`, which was looked at up to `end` in vain.

        Whether it is only the end of the text that it needs.
        """
        passed, lost = index - begin, max(1, end - index)
        is_cut = end > len(self.text) - _LONGEST_WORD
        if is_cut:
            self._size = min(2 * self._size, _LARGEST_WINDOW)
        if is_cut and passed >= lost:
            self._pause = self._not_before = 0
            self.text = ""
            return True
        if passed > 4 * lost:
            self._pause, self._not_before = 0, self._start + end
        else:
            self._pause = min(max(2 * self._pause, lost // 8 + 1), _LONGEST_PAUSE)
            self._not_before = self._start + index + self._pause
        return False

    def resume(self) -> None:
        self._pause = self._not_before = 0


def _name(text: str, at: int) -> tuple[str, int]:
    """A member's name, and where its value begins. Refuses as the scanner does."""
    if text[at] != '"':
        raise StopIteration(at)
    name, end = _scan_any(text, at)
    if text[end] == ":" and text[end + 1] > " ":
        return name, end + 1
    return name, _after(_colon, text, end)


def _after(gap: re.Pattern[str], text: str, at: int) -> int:
    """Where what follows the gap begins, which must be at hand; as ~place where that is the end of the container.

    Refuses as the scanner does.
    """
    found = gap.match(text, at)
    if found is None:
        raise StopIteration(at)
    if found.end() == len(text):
        raise IndexError
    return ~found.end() if found.lastindex else found.end()


def _stop_of(refusal: Exception, index: int, text: str) -> int:
    """How far the scanner came before it refused the child at `index`."""
    if isinstance(refusal, json.JSONDecodeError):
        return len(text) if refusal.msg.startswith("Unterminated") else max(index, refusal.pos)
    if isinstance(refusal, StopIteration):
        return max(index, refusal.value)
    return len(text) if isinstance(refusal, IndexError) else min(len(text), index + _DEEP)


# ── The scan ────────────────────────────────────────────────────────────────────────────────────────────────


@record(frozen=False)
class Frame:
    """A container that the path has entered. `step` is the child at hand."""

    is_object: bool
    plan: Plan
    trail: Trail | None = None  # its own place
    step: Step = -1
    fresh: bool = True  # no child has been passed yet
    hit: Hit | None = None
    counted: bool = False  # it is a value that the path names, shown or not


class Scan:
    """One pass for one path. `total` counts all hits when it is over."""

    def __init__(
        self, read: Read, size: int, path: JsonPath, *, layout: Layout = "one", start: int = 0, chunk: int = CHUNK
    ) -> None:
        self.total = 0
        self.broken = 0  # lines that are not JSON, with layout "lines"; they count as elements anyway
        self.first_fault: JsonFault | None = None
        self.furthest = Reached(0, "$", start, is_scalar=False)
        self._machine = Machine(path.segments)
        self._window = _Window(path)
        self._counters: dict[tuple[int, bool], Counter] = {}
        self._layout: Layout = layout
        self._size = self.size = size
        self._cursor = Cursor(read, size, start=start, lines=layout == "lines", chunk=chunk)
        self._stack: list[Frame] = []
        self._read = read
        self._passed = 0
        self._first = 0
        self._after = 0
        self._finished = False

    def hits(self, first: int = 0, limit: int | None = None) -> Iterator[Hit]:
        """The hits from number `first` on, at most `limit`; the scan goes on to the end to count all.

        Raises JsonFault if the text is not JSON, and SeveralValues where it is not one value but was taken for one.
        """
        self._first, self._after = first, self._size + 1 if limit is None else first + limit
        try:
            yield from self._single() if self._layout == "one" else self._sequence()
        except JsonFault:
            self._forget_open_values()
            raise

    def _single(self) -> Iterator[Hit]:
        hit = self._value(1)
        if hit:
            yield hit
        yield from self._walk(0)
        end = self._cursor.place
        if not self._finished and self._cursor.peek() != ENDED:
            raise SeveralValues(end, self._cursor.place)

    def _sequence(self) -> Iterator[Hit]:
        plan = self._machine.plan(1)
        if self._machine.matched == 1:  # the path is $: all of it
            self.total = 1
            if self._first == 0 < self._after:
                yield Hit(None, self._cursor.place, self._size)
            return
        root = Frame(is_object=False, plan=plan)
        self._stack.append(root)
        index = 0
        # Where no record can matter all are passed, so that it is known whether they are JSON.
        while self._next_record() and (plan.last is None or plan.last < 0 or index <= plan.last):
            index, _ = self._pass_whole(plan, index, _LINES if self._layout == "lines" else _VALUES)
            if plan.last is not None and 0 <= plan.last < index:
                break
            root.step = index
            try:
                yield from self._record(plan.element(index))
            except JsonFault as fault:
                if self._layout != "lines":
                    raise
                self._give_line_up(fault)
            index += 1

    def _next_record(self) -> bool:
        return self._cursor.next_line() if self._layout == "lines" else self._cursor.peek() != ENDED

    def _record(self, states: int) -> Iterator[Hit]:
        if not states:
            self._cursor.pass_value()
        else:
            hit = self._value(states)
            if hit:
                yield hit
            yield from self._walk(1)
        if self._layout == "lines" and self._cursor.peek() != ENDED:
            raise self._cursor.fault("the end of the line")

    def _give_line_up(self, fault: JsonFault) -> None:
        self.broken += 1
        self.first_fault = self.first_fault or fault
        self._forget_open_values()
        del self._stack[1:]

    def _forget_open_values(self) -> None:
        """They were counted when they began, and have no end."""
        self.total -= sum(frame.counted for frame in self._stack)
        for frame in self._stack:
            if frame.hit:
                frame.hit.end = _BROKEN

    def stop_showing(self) -> None:
        """From here on hits are only counted."""
        self._after = self.total
        self._window.resume()

    def _walk(self, depth: int) -> Iterator[Hit]:
        """Go on until the containers above `depth` are closed."""
        stack = self._stack
        while len(stack) > depth:
            self._passed += 1
            if not self._passed % _BREATH:
                self._read(0, 0)  # it is at a read that a call which takes too long is ended
            frame = stack[-1]
            states = self._next_member(frame) if frame.is_object else self._next_element(frame)
            if self._finished:
                return
            if states:
                hit = self._value(states)
                if hit:
                    yield hit
            else:
                stack.pop()
                if frame.hit:
                    frame.hit.end = self._cursor.place

    def _value(self, states: int) -> Hit | None:
        """Pass or enter the value that is here; the hit where the path names it and it is to be shown."""
        cursor = self._cursor
        sign = cursor.peek()
        matched = bool(states & self._machine.matched)
        hit = self._count() if matched else None
        further = states & ~self._machine.matched
        if further:
            is_container = sign in (OPEN_OBJECT, OPEN_ARRAY)
            self._note_how_far(further, is_scalar=not is_container)
            if is_container and self._enter(sign == OPEN_OBJECT, further, hit, matched):
                return hit
        try:
            cursor.pass_value()
        except JsonFault:
            self.total -= matched  # it was counted, and has no end
            raise
        if hit:
            hit.end = cursor.place
        return hit

    def _enter(self, is_object: bool, states: int, hit: Hit | None, counted: bool) -> bool:
        plan = self._machine.plan(states)
        cursor = self._cursor
        if not (plan.enters_objects if is_object else plan.enters_arrays):
            return False
        if len(self._stack) >= _DEEPEST:
            raise BadQuery(f"the JSON is nested deeper than {_DEEPEST:,} levels; a path cannot be followed further.")
        cursor.at += 1
        trail = hit.trail if hit is not None else self._trail()
        self._stack.append(Frame(is_object, plan, trail, hit=hit, counted=counted))
        return True

    def _next_member(self, frame: Frame) -> int:
        """Go to the next member that matters; 0 where the object is closed."""
        cursor, plan = self._cursor, frame.plan
        while self._another(frame, CLOSE_OBJECT):
            if plan.run and self._is_noted(plan.other):
                match = plan.run.match(cursor.buf, cursor.at, cursor.end)
                if match:
                    cursor.at = match.end()
                    if match.lastindex:
                        return 0
            if not self._pass_whole(plan, 0, _MEMBERS)[1]:
                continue
            if cursor.peek() != QUOTE:
                raise cursor.fault("a name in quotes")
            raw = cursor.key(longest=_LONGEST_NAME)
            name = _TOO_LONG if raw is None else decoded_name(raw)
            states = plan.other if raw is None else plan.names.get(name, plan.other)
            if states:
                frame.step = name
                return states
            cursor.pass_value()
        return 0

    def _next_element(self, frame: Frame) -> int:
        """Go to the next element that matters; 0 where the array is closed."""
        cursor, plan = self._cursor, frame.plan
        index = frame.step if isinstance(frame.step, int) else 0
        while self._another(frame, CLOSE_ARRAY):
            index += 1
            if plan.last is None or index <= plan.last:
                index = self._pass_numbers(plan, index)
                index, is_there = self._pass_whole(plan, index, _ELEMENTS)
                if not is_there:
                    continue
            states = plan.element(index) if plan.positions else plan.other
            if states:
                frame.step = index
                return states
            if plan.last is not None and index > plan.last:
                self._finished = len(self._stack) == 1 and self._layout == "one"
                if not self._finished:
                    cursor.pass_rest(CLOSE_ARRAY)
                return 0
            cursor.pass_value()
        return 0

    def _another(self, frame: Frame, closing: int) -> bool:
        """Whether a further child is here; past the comma, or past the closing bracket."""
        cursor = self._cursor
        sign = cursor.peek()
        if sign == closing:
            cursor.at += 1
            return False
        if frame.fresh:
            frame.fresh = False
            return True
        if sign != COMMA:
            raise cursor.fault("a comma or a closing bracket")
        cursor.at += 1
        cursor.peek()
        return True

    def _pass_whole(self, plan: Plan, index: int, series: _Series) -> tuple[int, bool]:
        """Pass children that hold nothing to be shown, the quick way, from the one on that the cursor is at.

        `index` is its number. The number of the child that the cursor is at then, and True; or of the last one, and
        False, where the cursor is at the bracket behind it.
        """
        cursor, window = self._cursor, self._window
        while True:
            begin = window.at(cursor, whole=series.whole)
            if begin < 0:
                return index, True
            index, then = self._pass_window(plan, index, series, begin)
            if then == "closed":
                return index - 1, False
            if then == "stopped" or (window.is_last and not cursor.more()):
                return index, True

    def _pass_window(self, plan: Plan, index: int, series: _Series, begin: int) -> tuple[int, _Then]:
        """The same for one window: the number of the next child, and how it ended."""
        cursor, window, at = self._cursor, self._window, begin
        text, (sign, gap, named, whole) = window.text, series
        counter, room = self._counting()
        counting = window.can_hold(counter)
        scan = _scan_pairs if counting else _scan_any
        names, other, positions = (plan.latin, plan.other, plan.positions) if counting else ({}, 0, False)
        states, count = other, counter.of(other)
        last = _ALL if plan.last is None or plan.last < 0 or named else plan.last
        total = end = 0
        then: _Then = "stopped"
        try:
            while index <= last:
                start = at
                if named:
                    name, start = _name(text, at)
                    if names and (states := names.get(name, other)):
                        count = counter.of(states)
                elif positions:
                    states = plan.element(index)
                    count = counter.of(states)
                value, end = scan(text, start)
                after = end + 1 if text[end] == sign and text[end + 1] > " " else _after(gap, text, end)
                hits = count(value) if states else 0
                if total + hits > room or (whole and text.find("\n", at, end) >= 0):
                    break
                total += hits
                index += 1
                at = after if after >= 0 else ~after
                if after < 0:
                    then = "closed"
                    break
        except _REFUSALS as refusal:
            end = _stop_of(refusal, at, text)
        self.total += total
        cursor.advance(at - begin)
        if then != "closed" and window.stopped(begin, at, end):
            then = "cut"
        return index, then

    def _pass_numbers(self, plan: Plan, index: int) -> int:
        """The same for numbers and words, many at once, where all elements are hits or none of these can be."""
        cursor = self._cursor
        are_hits = plan.other == self._machine.matched
        room = self._counting()[1] if are_hits else _ALL
        if plan.positions or not room or (not are_hits and (plan.scalars_matter or not self._is_noted(plan.other))):
            return index
        match = _numbers.match(cursor.buf, cursor.at, min(cursor.end, cursor.at + _LARGEST_WINDOW))
        if match is None:
            return index
        passed = match[0]
        count = passed.count(b",")
        if count > room:
            count = room
            passed = passed[: len(passed) - len(passed.split(b",", room)[-1])]
        self.total += count if are_hits else 0
        cursor.at += len(passed)
        cursor.peek()
        return index + count

    def _counting(self) -> tuple[Counter, int]:
        """What counts in children that are passed the quick way, and how many of that they may hold.

        Before the first hit it is the values that the path reaches further with than before, and there may be none.
        """
        if self.total:
            room = _ALL if self.total >= self._after else max(0, self._first - self.total)
            key, segments = (-1, False), self._machine.segments
        else:
            reached, room = self.furthest, 0
            key = (reached.segments if reached.is_scalar else reached.segments + 1, reached.is_scalar)
            segments = self._machine.segments[: key[0]]
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = Counter(segments, containers_only=key[1])
        return counter, room

    def _is_noted(self, states: int) -> bool:
        """Whether a scalar with these states changes nothing about how far the path came."""
        return self.total > 0 or states.bit_length() - 1 <= self.furthest.segments

    def _count(self) -> Hit | None:
        number = self.total
        self.total += 1
        if self.total == self._after:
            self._window.resume()
        if not self._first <= number < self._after:
            return None
        return Hit(self._trail(), self._cursor.place)

    def _note_how_far(self, states: int, *, is_scalar: bool) -> None:
        segments, known = states.bit_length() - 1, self.furthest
        if segments > known.segments or (segments == known.segments and known.is_scalar and not is_scalar):
            trail = self._trail()
            path = trail.path()[0] if trail is not None else "$"
            self.furthest = Reached(segments, path, self._cursor.place, is_scalar)

    def _trail(self) -> Trail | None:
        """Of the value that is here."""
        if not self._stack:
            return None
        frame = self._stack[-1]
        above = frame.trail
        if above is None:
            return Trail(frame.step, None, 1, None)
        first = above.first or (above if above.depth == SHOWN_STEPS else None)
        return Trail(frame.step, above, above.depth + 1, first)


# ── One value, several, or one on each line ─────────────────────────────────────────────────────────────────


@record
class Finding:
    """A fault in the text is part of it, with what was found before; whether that is an error the caller says."""

    hits: tuple[Hit, ...]
    total: int  # of all values, asked for or not
    layout: Layout
    scan: Scan
    fault: JsonFault | None = None  # where the text stops being JSON; nothing after it was searched
    text_from: int | None = None  # where other text begins after the one value; it was not searched
    looked_at: int = 0  # values that a filter was tried on
    given: int = 0  # hits that were passed on one by one, and are not among `hits`


Take = Callable[[Hit], object]
"""Gets hits as they are found, in their order."""


def find(
    read: Read, size: int, path: JsonPath, *, lines: bool, first: int = 0, limit: int | None = None,
    take: Take | None = None,
) -> Finding:  # fmt: skip
    """The hits from number `first` on, at most `limit`. `lines`: each line is a value, and all of them an array.

    A text that turns out to be several values is searched again as such; one value with other text after it, without
    that text. `take` gets the hits, with flat memory: all of them, or, where too many stand inside of one another, the
    first ones; `limit` does not count then.
    """
    if lines:
        return _find(read, size, path, "lines", first, limit, take)
    if take is not None:  # what kind of text it is must be known before the first one is passed on
        sized = find(read, size, path, lines=False, limit=1)
        if sized.total <= first:
            return replace(sized, hits=())
        found = _find(read, sized.scan.size, path, sized.layout, first, None, take)
        return replace(found, text_from=sized.text_from)
    try:
        return _find(read, size, path, "one", first, limit)
    except SeveralValues as more:
        if not is_followed_by_text(read, size, more.end, more.after):
            return _find(read, size, path, "several", first, limit)
        found = _find(read, more.end, path, "one", first, limit)
        return replace(found, text_from=more.after)


def _find(
    read: Read, size: int, path: JsonPath, layout: Layout, first: int, limit: int | None, take: Take | None = None
) -> Finding:
    scan = Scan(read, size, path, layout=layout)
    hits: deque[Hit] = deque()
    given = 0
    fault: JsonFault | None = None
    try:
        for hit in scan.hits(first, None if take else limit):
            hits.append(hit)  # one by one: what came before a fault stays
            while take is not None and hits and hits[0].end != -1:
                given += _given(hits.popleft(), take)
            if take is not None and len(hits) == _WAITING:
                scan.stop_showing()
    except JsonFault as found:
        fault = found
    if take is not None:
        given += sum(_given(hit, take) for hit in hits)
        hits.clear()
    whole = tuple(hit for hit in hits if hit.end >= 0)
    return Finding(whole, scan.total, layout, scan, fault, given=given)


def _given(hit: Hit, take: Take) -> bool:
    if hit.end < 0:
        return False
    take(hit)
    return True


# ── Why a path found nothing ────────────────────────────────────────────────────────────────────────────────
#
# A second, short pass from where the first one ended up. It names members, never values.

_NAMES_SHOWN = 20
_NAMES_COMPARED, _NAME_COMPARED, _ASKED_COMPARED = 2000, 60, 3  # names, characters of each, those of one step
_NAME_SHOWN = 60  # characters
_CHILDREN = JsonPath("$.*", (Segment((Wildcard(),)),))
_SCALARS = dict(zip(b'"tfn', ("a string", "true", "false", "null"), strict=True))


def explain_no_match(read: Read, size: int, path: JsonPath, scan: Scan, *, layout: Layout) -> str:
    """One sentence or two for the path that `scan` has followed without a hit."""
    reached = scan.furthest
    place = foreign(reached.path)
    wanted = path.segments[reached.segments]
    if wanted.descendants:
        return f"Nothing below {place} is {_selectors(wanted)}."
    whole_sequence = reached.segments == 0 and layout != "one"
    names, total = _children(read, size, reached.start, layout if whole_sequence else "one")
    if whole_sequence:
        return _about_records(wanted, total)
    sign = Cursor(read, size, start=reached.start).peek()
    if sign == OPEN_OBJECT:
        return f"{place} has no member {_selectors(wanted)}; it has {_members(wanted, names, total)}"
    if sign == OPEN_ARRAY:
        hint = "" if _wants_elements(wanted) else f" Go on with [*] or an index: {place}[0]"
        return f"{place} is an array of {plural(total, 'element')}, without {_selectors(wanted)}.{hint}"
    return f"{place} is {_SCALARS.get(sign, 'a number')}; nothing is below it."


def _about_records(wanted: Segment, total: int) -> str:
    if _wants_elements(wanted):
        return f"There are {plural(total, 'record')}, counted from 0; none is {_selectors(wanted)}."
    return (
        f"The output is a sequence of {plural(total, 'record')}, which a path sees as one array: "
        f"begin with $[*] for all of them, or $[0] for the first."
    )


def _children(read: Read, size: int, start: int, layout: Layout) -> tuple[list[str], int]:
    """The first names in the container at `start`, and how many children it has."""
    scan = Scan(read, size, _CHILDREN, layout=layout, start=start)
    names: list[str] = []
    try:
        for hit in scan.hits(0, _NAMES_COMPARED):
            if isinstance(hit.step, bytes):
                names.append(shown_name(hit.step))
    except (SeveralValues, JsonFault):
        pass  # what is after it does not matter here, and what is broken in it has been told before
    return names, scan.total


def _members(wanted: Segment, names: Sequence[str], total: int) -> str:
    if not total:
        return "none."
    asked = [selector.name for selector in wanted.selectors if isinstance(selector, Name)][:_ASKED_COMPARED]
    near = dict.fromkeys(close for name in asked for close in _near(name, names))
    first = foreign_names([*near, *(name for name in names if name not in near)])[:_NAMES_SHOWN]
    more = [f"… ({total - len(first):,} more)"] if total > len(first) else []
    return f"{plural(total, 'member')}: {', '.join([*map(_quoted, first), *more])}."


def _near(name: str, names: Sequence[str]) -> list[str]:
    same = [one for one in names if one.casefold() == name.casefold()]
    if same:
        return same
    # Comparing takes a power of the length, and nothing stops it: both ends of a name are enough to find a slip.
    short = {_ends(one): one for one in reversed(names)}
    return [short[one] for one in difflib.get_close_matches(_ends(name), short, n=3, cutoff=0.7)]


def _ends(name: str) -> str:
    return name if len(name) <= _NAME_COMPARED else name[: _NAME_COMPARED // 2] + name[-_NAME_COMPARED // 2 :]


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 1] + "…")


def _wants_elements(segment: Segment) -> bool:
    return any(isinstance(selector, Index | Slice | Wildcard) for selector in segment.selectors)


def _selectors(segment: Segment) -> str:
    """The selectors of a segment as they would be written."""
    texts: list[str] = []
    for selector in segment.selectors:
        match selector:
            case Name(name):
                texts.append(_quoted(name))
            case Index(index):
                texts.append(f"[{index}]")
            case Slice(start, stop, step):
                texts.append(f"[{start}:{'' if stop is None else stop}:{step}]")
            case Wildcard():
                texts.append("[*]")
            case Filter(_, text):
                texts.append(f"[{text}]")
    return " or ".join(texts)
