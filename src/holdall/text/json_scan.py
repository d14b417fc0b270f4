"""Finding the values that a path names, with their exact places, in one pass over a JSON text of any size.

Each value is told as a range of bytes, so that it can be given as it is stored: numbers that no float can hold, names
that occur twice, NaN. Memory is flat but for one small frame for each level of nesting that the path enters. Values
come in the order of the document, each once. Only what the path enters is checked as JSON; what it steps over is
checked for closed strings and balanced brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdall.text.json_cursor import (
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
)
from holdall.text.json_hits import Hit, Layout, Reached, SeveralValues
from holdall.text.json_names import SHOWN_STEPS, Step, decoded_name, normalized_path
from holdall.text.json_path import JsonPath
from holdall.text.json_plan import Machine, Plan
from holdall.values.errors import BadQuery

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
