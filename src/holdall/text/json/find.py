"""Finding the values that a path names, with their exact places, in one pass over a JSON text of any size; and where a
path finds nothing, how far it came and what there is instead. It holds no values in memory.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from holdall.text.json.path import (
    SHOWN_STEPS,
    Index,
    JsonPath,
    Name,
    Segment,
    Slice,
    Step,
    Wildcard,
    decoded_name,
    encoded_name,
    normalized_path,
    shown_name,
)
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
    STRING,
    Cursor,
    JsonFault,
    Read,
    container_pattern,
)
from holdall.text.numbers import plural
from holdall.values.errors import BadQuery

# What a scan tells: where the values are that a path names, and how far the path came where it names none.


Layout = Literal["one", "several", "lines"]
"""One value; several, one after the other; or one on each line. Several values count as the elements of an array."""


class SeveralValues(Exception):
    """The text was taken for one value, and something follows it: another value, or text that is not JSON."""

    def __init__(self, end: int, after: int) -> None:
        self.end = end  # of the first value
        self.after = after  # where what follows begins
        super().__init__(f"the first value ends at byte {end:,}, and something follows")


@dataclass(slots=True)
class Hit:
    """A value that the path names. `step` is its own name or index, None for the whole text.

    `end` is known when the next hit comes; for a value that holds further hits, at the end of the scan. It stays -1
    where the value turns out to be broken.
    """

    path: str
    step: Step | None
    start: int
    end: int = -1
    shortened: bool = False  # the path is too long to show and leaves something out


@dataclass(frozen=True, slots=True)
class Reached:
    """The value that the most segments of the path led to."""

    segments: int
    path: str
    start: int


# A path as a small machine: which members and elements of a container matter, given how far the path has come.
#
# A state is the number of segments that are already matched; a container is in several states at once where the path
# has `..`, so they are kept as the bits of one number. Nothing here reads a document.


_CACHED_PLANS = 4096
_COMMA = SPACE + b"," + SPACE
_COLON = SPACE + b":" + SPACE


class Machine:
    """The states of one path, and for each set of them a plan."""

    def __init__(self, path: JsonPath) -> None:
        self.segments = path.segments
        self.matched = 1 << len(path.segments)  # the bit of a value that the whole path names
        self._plans: dict[int, Plan] = {}

    def plan(self, states: int) -> "Plan":
        known = self._plans.get(states)
        if known is None:
            if len(self._plans) >= _CACHED_PLANS:
                self._plans.clear()
            known = self._plans[states] = Plan(self, states)
        return known


class Plan:
    """What matters among the children of a container. A child that gets no states (0) does not.

    `names`: the states of the members so named. `other`: those of every other member, and of every element unless
    `positions` adds to them. `last`: the elements after it do not matter. `boring`: a pattern for a run of members
    that do not, with a group for the last one and the end of the object; or None. `quiet`: a pattern for a whole
    container that holds nothing that does; or None.
    """

    def __init__(self, machine: Machine, states: int) -> None:
        active = [(bit, segment) for bit, segment in enumerate(machine.segments) if states >> bit & 1]
        self.other = 0
        for bit, segment in active:
            self.other |= (1 << bit) * segment.descendants | (2 << bit) * _has_wildcard(segment)
        self.names: dict[bytes, int] = {}
        self.positions: list[tuple[Index | Slice, int]] = []
        for bit, segment in active:
            for selector in segment.selectors:
                if isinstance(selector, Name):
                    name = encoded_name(selector.name)
                    self.names[name] = self.names.get(name, self.other) | 2 << bit
                elif isinstance(selector, Index | Slice):
                    self.positions.append((selector, 2 << bit))
        self.last = None if self.other else max(map(_last, self.positions), default=-1)
        self.enters_objects = bool(self.names or self.other)
        self.enters_arrays = bool(self.positions or self.other)
        self.scalars_matter = bool(self.other & machine.matched)
        hunts = self.other == states and not self.positions
        self.quiet = re.compile(container_pattern(_quiet_string(self.names), 3), re.DOTALL) if hunts else None
        self.boring = self._boring(hunts)

    def element(self, index: int) -> int:
        states = self.other
        for position, reached in self.positions:
            if _holds(position, index):
                states |= reached
        return states

    def _boring(self, hunts: bool) -> re.Pattern[bytes] | None:
        if self.scalars_matter:
            return None
        value = STRING + b"|" + SCALAR
        if not self.other:
            value += b"|" + container_pattern(levels=2)
        elif hunts:
            value += b"|" + container_pattern(_quiet_string(self.names), 2)
        member = rb'"' + _not_these(self.names) + rb'[^"\\]*+"' + _COLON + b"(?:" + value + b")"
        run = b"(?:" + member + _COMMA + b")*+"
        return re.compile(run + b"(" + member + SPACE + rb"\})?+", re.DOTALL)


def _has_wildcard(segment: Segment) -> bool:
    return any(isinstance(selector, Wildcard) for selector in segment.selectors)


def _holds(position: Index | Slice, index: int) -> bool:
    match position:
        case Index(wanted):
            return index == wanted
        case Slice(start, stop, step):
            inside = index >= start and (stop is None or index < stop)
            return inside and step > 0 and (index - start) % step == 0


def _last(entry: tuple[Index | Slice, int]) -> float:
    """The last index that the position can hold."""
    match entry[0]:
        case Index(index):
            return index
        case Slice(_, stop, _):
            return float("inf") if stop is None else stop - 1


def _not_these(names: dict[bytes, int]) -> bytes:
    """Looks ahead: none of these names stands here. One that is written with escapes does not match the run at all."""
    return rb"(?!(?:" + b"|".join(re.escape(name) for name in names) + rb')")' if names else b""


def _quiet_string(names: dict[bytes, int]) -> bytes:
    """A string that is none of the names; with escapes only where it is no name at all, since no colon follows."""
    return rb'(?:"' + _not_these(names) + rb'[^"\\]*+"|' + STRING + rb"(?!" + SPACE + rb":))"


# Finding the values that a path names, with their exact places, in one pass over a JSON text of any size.
#
# Each value is told as a range of bytes, so that it can be given as it is stored: numbers that no float can hold, names
# that occur twice, NaN. Memory is flat but for one small frame for each level of nesting that the path enters. Values
# come in the order of the document, each once. Only what the path enters is checked as JSON; what it steps over is
# checked for closed strings and balanced brackets.


_QUIET = 2048  # bytes; a container up to this size is searched for the names that matter by one pattern
_DEEPEST = 1_000_000  # levels that a path may enter; stepping over has no limit
_LONGEST_NAME = 64 * 1024  # bytes; a longer name is neither compared nor shown
_TOO_LONG = "…".encode()
_numbers = re.compile(b"(?:" + SCALAR + SPACE + b"," + SPACE + b")*+")


@dataclass(slots=True)
class Frame:
    """A container that the path has entered. `step` is the child at hand."""

    is_object: bool
    plan: Plan
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
        self.broken = 0  # lines that are not JSON, with layout "lines"; they count as elements all the same
        self.first_fault: JsonFault | None = None
        self.furthest = Reached(0, "$", start)
        self._machine = Machine(path)
        self._layout: Layout = layout
        self._size = size
        self._cursor = Cursor(read, size, start=start, lines=layout == "lines", chunk=chunk)
        self._stack: list[Frame] = []
        self._first = 0
        self._after = 0
        self._finished = False

    def hits(self, first: int = 0, limit: int | None = None) -> Iterator[Hit]:
        """The hits from number `first` on, at most `limit`; the scan goes on to the end to count all.

        Raises JsonFault where the text is not JSON, and SeveralValues where it is not one value but was taken for one.
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
                yield Hit("$", None, self._cursor.place, self._size)
            return
        root = Frame(is_object=False, plan=plan)
        self._stack.append(root)
        index = 0
        # Where no record can matter all are passed, so that it is known whether they are JSON.
        while self._next_record() and (plan.last is None or plan.last < 0 or index <= plan.last):
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
            self._cursor.pass_value(strictly=True)
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

    def _walk(self, depth: int) -> Iterator[Hit]:
        """Go on until the containers above `depth` are closed."""
        stack = self._stack
        while len(stack) > depth:
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
        """Pass or enter the value that stands here; the hit where the path names it and it is to be shown."""
        cursor = self._cursor
        sign = cursor.peek()
        matched = bool(states & self._machine.matched)
        hit = self._count() if matched else None
        further = states & ~self._machine.matched
        if further:
            self._note_how_far(further)
            if sign in (OPEN_OBJECT, OPEN_ARRAY) and self._enter(sign == OPEN_OBJECT, further, hit, matched):
                return hit
        cursor.pass_value(strictly=True)
        if hit:
            hit.end = cursor.place
        return hit

    def _enter(self, is_object: bool, states: int, hit: Hit | None, counted: bool) -> bool:
        plan = self._machine.plan(states)
        cursor = self._cursor
        if not (plan.enters_objects if is_object else plan.enters_arrays):
            return False
        if plan.quiet:
            match = plan.quiet.match(cursor.buf, cursor.at, min(cursor.end, cursor.at + _QUIET))
            if match:
                cursor.at = match.end()
                if hit:
                    hit.end = cursor.place
                return True
        if len(self._stack) >= _DEEPEST:
            raise BadQuery(f"the JSON is nested deeper than {_DEEPEST:,} levels; a path cannot be followed further.")
        cursor.at += 1
        self._stack.append(Frame(is_object, plan, hit=hit, counted=counted))
        return True

    def _next_member(self, frame: Frame) -> int:
        """Go to the next member that matters; 0 where the object is closed."""
        cursor, plan = self._cursor, frame.plan
        while self._another(frame, CLOSE_OBJECT):
            if plan.boring:
                match = plan.boring.match(cursor.buf, cursor.at, cursor.end)
                if match:
                    cursor.at = match.end()
                    if match.lastindex:
                        return 0
            if cursor.peek() != QUOTE:
                raise cursor.fault("a name in quotes")
            raw = cursor.key(longest=_LONGEST_NAME)
            name = _TOO_LONG if raw is None else decoded_name(raw)
            states = plan.names.get(name, plan.other)
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
            if not plan.scalars_matter and not plan.positions:
                match = _numbers.match(cursor.buf, cursor.at, cursor.end)
                if match and match.end() > cursor.at:
                    index += cursor.buf.count(b",", cursor.at, match.end())
                    cursor.at = match.end()
            states = plan.element(index) if plan.positions else plan.other
            if states:
                frame.step = index
                return states
            if plan.last is not None and index > plan.last:
                self._finished = len(self._stack) == 1 and self._layout == "one"
                if not self._finished:
                    cursor.pass_levels(1)
                return 0
            cursor.pass_value()
        return 0

    def _another(self, frame: Frame, closing: int) -> bool:
        """Whether a further child stands here; past the comma, or past the closing bracket."""
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

    def _count(self) -> Hit | None:
        number = self.total
        self.total += 1
        if not self._first <= number < self._after:
            return None
        step = self._stack[-1].step if self._stack else None
        path, shortened = self._path()
        return Hit(path, step, self._cursor.place, shortened=shortened)

    def _note_how_far(self, states: int) -> None:
        segments = states.bit_length() - 1
        if segments > self.furthest.segments:
            self.furthest = Reached(segments, self._path()[0], self._cursor.place)

    def _path(self) -> tuple[str, bool]:
        stack = self._stack
        if len(stack) <= 2 * SHOWN_STEPS:
            return normalized_path([frame.step for frame in stack])
        ends = [frame.step for frame in (*stack[:SHOWN_STEPS], *stack[-SHOWN_STEPS:])]
        return normalized_path(ends, left_out=len(stack) - 2 * SHOWN_STEPS)


# Why a path found nothing: how far it came, and what there is in that place instead.
#
# A second, short pass from where the first one ended up. It names members, never values.


_NAMES_SHOWN = 20
_NAMES_COMPARED = 2000
_NAME_SHOWN = 60  # characters
_CHILDREN = JsonPath("$.*", (Segment((Wildcard(),)),))
_SCALARS = dict(zip(b'"tfn', ("a string", "true", "false", "null"), strict=True))


def why_nothing(read: Read, size: int, path: JsonPath, scan: Scan, *, layout: Layout) -> str:
    """One sentence or two for the path that `scan` has followed without a hit."""
    reached = scan.furthest
    wanted = path.segments[reached.segments]
    if wanted.descendants:
        return f"Nothing below {reached.path} is {_selectors(wanted)}."
    whole_sequence = reached.segments == 0 and layout != "one"
    names, total = _children(read, size, reached.start, layout if whole_sequence else "one")
    if whole_sequence:
        return _about_records(wanted, total)
    sign = Cursor(read, size, start=reached.start).peek()
    if sign == OPEN_OBJECT:
        return f"{reached.path} has no member {_selectors(wanted)}; it has {_members(wanted, names, total)}"
    if sign == OPEN_ARRAY:
        hint = "" if _wants_elements(wanted) else f" Go on with [*] or an index: {reached.path}[0]"
        return f"{reached.path} is an array of {plural(total, 'element')}, without {_selectors(wanted)}.{hint}"
    return f"{reached.path} is {_SCALARS.get(sign, 'a number')}; nothing is below it."


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
        pass  # what stands after it does not matter here, and what is broken in it has been told before
    return names, scan.total


def _members(wanted: Segment, names: Sequence[str], total: int) -> str:
    if not total:
        return "none."
    asked = [selector.name for selector in wanted.selectors if isinstance(selector, Name)]
    near = dict.fromkeys(close for name in asked for close in _near(name, names))
    first = [*near, *(name for name in names if name not in near)][:_NAMES_SHOWN]
    more = f", … ({total - len(first):,} more)" if total > len(first) else ""
    return f"{plural(total, 'member')}: {', '.join(map(_quoted, first))}{more}."


def _near(name: str, names: Sequence[str]) -> list[str]:
    same = [one for one in names if one.casefold() == name.casefold()]
    return same or difflib.get_close_matches(name[:200], names, n=3, cutoff=0.7)


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
    return " or ".join(texts)
