"""A path as a small machine: which members and elements of a container matter, given how far the path has come.

A state is the number of segments that are already matched; a container is in several states at once where the path has
`..`, so they are kept as the bits of one number. Nothing here reads a document.
"""

import re

from holdall.text.json_cursor import SCALAR, SPACE, STRING, container_pattern
from holdall.text.json_names import encoded_name
from holdall.text.json_path import Index, JsonPath, Name, Segment, Slice, Wildcard

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
