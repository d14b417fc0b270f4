"""A path as a small machine: which members and elements of a container matter, given how far the path has come; and the
hits of a path counted in values that are already built.

A state is the number of segments that are already matched; a container is in several states at once where the path has
`..`, so they are kept as the bits of one number. Nothing here reads a document.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from holdall.text.json.path import Index, Name, Segment, Slice, Wildcard, encoded_name
from holdall.text.json.reader import SCALAR, SPACE, STRING, container_pattern
from holdall.values.patterns import lazy_pattern

_CACHED = 4096  # plans, and ways to count
_COMMA = SPACE + b"," + SPACE
_COLON = SPACE + b":" + SPACE
_PLAIN = lazy_pattern(r'[^"\\/\x00-\x1f]*+')  # a name that is written in one way, but for \u


class Machine:
    """The states of one path, and for each set of them a plan."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = segments
        self.matched = 1 << len(segments)  # the bit of a value that the whole path names
        self._plans: dict[int, Plan] = {}

    def plan(self, states: int) -> "Plan":
        known = self._plans.get(states)
        if known is None:
            if len(self._plans) >= _CACHED:
                self._plans.clear()
            known = self._plans[states] = Plan(self, states)
        return known


class Plan:
    """What matters among the children of a container. A child that gets no states (0) does not.

    `names`: the states of the members so named; `latin` the same, for names that were read as Latin-1. `other`: those
    of every other member, and of every element unless its place adds to them: `indexes`, as many as a path names, and
    the few `slices`. `last`: the elements after it do not matter. `run`: a pattern for members that are no hits and can
    hold none, with a group for the last one and the end of the object; None where scalars can be hits.
    """

    def __init__(self, machine: Machine, states: int) -> None:
        active = [(bit, segment) for bit, segment in enumerate(machine.segments) if states >> bit & 1]
        self.other = 0
        for bit, segment in active:
            self.other |= (1 << bit) * segment.descendants | (2 << bit) * _has_wildcard(segment)
        self.names: dict[bytes, int] = {}
        self.indexes: dict[int, int] = {}
        self.slices: list[tuple[Slice, int]] = []
        for bit, segment in active:
            for selector in segment.selectors:
                if isinstance(selector, Name):
                    name = encoded_name(selector.name)
                    self.names[name] = self.names.get(name, self.other) | 2 << bit
                elif isinstance(selector, Index):
                    self.indexes[selector.index] = self.indexes.get(selector.index, 0) | 2 << bit
                elif isinstance(selector, Slice):
                    self.slices.append((selector, 2 << bit))
        self.positions = bool(self.indexes or self.slices)
        self.latin = {name.decode("latin-1"): states for name, states in self.names.items()}
        self.last = None if self.other else max([*self.indexes, *map(_last, self.slices)], default=-1)
        self.enters_objects = bool(self.names or self.other)
        self.enters_arrays = bool(self.positions or self.other)
        self.scalars_matter = bool(self.other & machine.matched)
        self.run = None if self.scalars_matter else self._run(hunts=self.other == states and not self.positions)

    def element(self, index: int) -> int:
        states = self.other | self.indexes.get(index, 0)
        for part, reached in self.slices:
            if _holds(part, index):
                states |= reached
        return states

    def _run(self, hunts: bool) -> re.Pattern[bytes]:
        # None of the names is here; one that is written with escapes does not match the run at all.
        others = rb"(?!(?:" + b"|".join(map(re.escape, self.names)) + rb')")' if self.names else b""
        name = rb'"' + others + rb'[^"\\]*+"' + _COLON
        value = STRING + b"|" + SCALAR
        if not self.other:
            value += b"|" + container_pattern(levels=2)
        elif hunts:  # what is inside has the same plan
            inner = b"(?:" + value + b")"
            value += rb"|\[" + _listed(inner) + rb"\]|\{" + _listed(name + inner) + rb"\}"
        member = name + b"(?:" + value + b")"
        run = b"(?:" + member + _COMMA + b")*+"
        return re.compile(run + b"(" + member + SPACE + rb"\})?+", re.DOTALL)


def _listed(one: bytes) -> bytes:
    """A pattern for any number of these with commas between them."""
    return SPACE + b"(?:" + one + SPACE + b"(?:," + SPACE + one + SPACE + b")*+)?+"


def _has_wildcard(segment: Segment) -> bool:
    return any(isinstance(selector, Wildcard) for selector in segment.selectors)


def _holds(part: Slice, index: int) -> bool:
    inside = index >= part.start and (part.stop is None or index < part.stop)
    return inside and part.step > 0 and (index - part.start) % part.step == 0


def _last(entry: tuple[Slice, int]) -> float:
    """The last index that it can hold."""
    stop = entry[0].stop
    return float("inf") if stop is None else stop - 1


# ── Counting in values ──────────────────────────────────────────────────────────────────────────────────────

Count = Callable[[Any], int]
Pairs = tuple[tuple[str, Any], ...]
_kind: Callable[[object], object] = type


class Counter:
    """Counts the values in a value, itself included, that a path names.

    Objects are tuples of pairs, so that a name may occur twice; their names, as all text, are read as Latin-1.
    `containers_only`: arrays and objects are counted, and nothing else.
    """

    def __init__(self, segments: Sequence[Segment], *, containers_only: bool = False) -> None:
        self._machine = Machine(segments)
        self._only = containers_only
        self._known: dict[int, Count] = {}
        self.names = _last_names(segments)
        """A text without any of these, in quotes, and without \\u holds no hit. None: that cannot be said."""

    def of(self, states: int) -> Count:
        """The way to count in a value that has these states."""
        known = self._known.get(states)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[states] = self._made(states)
        return known

    def _made(self, states: int) -> Count:
        own = 1 if states & self._machine.matched else 0
        scalar = 0 if self._only else own
        further = states & ~self._machine.matched
        if not further and not self._only:
            return _one
        plan = self._machine.plan(further)
        if list(plan.names.values()) == [self._machine.matched] and not (plan.other or plan.positions or self._only):
            (wanted,) = plan.latin
            return _members(wanted, own)
        in_object, in_array = self._in_object(plan, own), self._in_array(plan, own)

        def count(value: Any) -> int:
            kind = _kind(value)
            if kind is tuple:
                return in_object(value)
            if kind is list:
                return in_array(value)
            return scalar

        return count

    def _in_object(self, plan: Plan, own: int) -> Callable[[Pairs], int]:
        known, of, matched = self._known, self.of, self._machine.matched
        names, other = plan.latin, plan.other
        scalar = 1 if other & matched and not self._only else 0
        scalars = {name: 1 if states & matched and not self._only else 0 for name, states in names.items()}

        def named(pairs: Pairs) -> int:
            total = own
            for name, child in pairs:
                if name in names:
                    states = names[name]
                    total += (known.get(states) or of(states))(child)
            return total

        def every(pairs: Pairs) -> int:
            total = own
            for name, child in pairs:
                kind = _kind(child)
                if kind is tuple or kind is list:
                    states = names.get(name, other)
                    total += (known.get(states) or of(states))(child)
                elif name in scalars:
                    total += scalars[name]
                else:
                    total += scalar
            return total

        return every if other else named if names else lambda _: own

    def _in_array(self, plan: Plan, own: int) -> Callable[[list[Any]], int]:
        of, element, other = self.of, plan.element, plan.other

        def placed(values: list[Any]) -> int:
            total = own
            for index, child in enumerate(values):
                states = element(index)
                if states:
                    total += of(states)(child)
            return total

        def alike(values: list[Any]) -> int:
            return sum(map(of(other), values), own)

        if not plan.positions:
            if other == self._machine.matched and not self._only:
                return lambda values: own + len(values)
            return alike if other else lambda _: own
        if len(plan.indexes) == 1 and not plan.slices and not other:
            ((at, states),) = plan.indexes.items()
            return lambda values: own + of(states)(values[at]) if at < len(values) else own
        return placed


def _one(_: Any) -> int:
    return 1


def _members(wanted: str, own: int) -> Count:
    """The members of one name: what is asked for most."""

    def count(value: Any) -> int:
        total = own
        if _kind(value) is tuple:
            for name, _ in value:
                if name == wanted:
                    total += 1
        return total

    return count


def _last_names(segments: Sequence[Segment]) -> tuple[str, ...] | None:
    selectors = segments[-1].selectors if segments else (Wildcard(),)
    if not all(isinstance(selector, Name) and _PLAIN.fullmatch(selector.name) for selector in selectors):
        return None
    return tuple(f'"{encoded_name(cast("Name", selector).name).decode("latin-1")}"' for selector in selectors)
