"""What a pattern says, once it is read: a small tree that both engines are written from.

The tree knows no syntax and no engine. What it can tell about itself (can it match nothing at all, how large does
it become) is here, so that one answer holds for both engines.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

from holdall.text.pattern.charset import Ranges


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between two characters."""

    kind: Literal["line start", "line end", "word edge", "no word edge"]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: "Node"
    low: int
    high: int | None  # None: without an end
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Capture:
    item: "Node"


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple["Node", ...]


Node = Chars | Edge | Repeat | Capture | Sequence | Choice


def can_be_empty(node: Node) -> bool:
    """Whether some match may have no characters. Edges are taken as if they always held."""
    match node:
        case Chars():
            return False
        case Edge():
            return True
        case Repeat(item, low):
            return low == 0 or can_be_empty(item)
        case Capture(item):
            return can_be_empty(item)
        case Sequence(items):
            return all(can_be_empty(item) for item in items)
        case Choice(options):
            return any(can_be_empty(option) for option in options)
        case _:
            assert_never(node)


def steps(node: Node) -> int:
    """About how many steps the compiled pattern has: repeated parts are compiled as often as they may occur."""
    match node:
        case Chars(ranges):
            return 1 + 3 * sum(high > 0x7F for _, high in ranges)
        case Edge():
            return 1
        case Repeat(item, low, high):
            return 1 + steps(item) * max(1, low, high or 0)
        case Capture(item):
            return 2 + steps(item)
        case Sequence(parts) | Choice(parts):
            return 1 + sum(steps(part) for part in parts)
        case _:
            assert_never(node)


def repeats(node: Node) -> int:
    """The largest product of counts that stand inside each other, as in (a{10}){20}: 200."""
    match node:
        case Chars() | Edge():
            return 1
        case Repeat(item, low, high):
            return max(1, low if high is None else high) * repeats(item)
        case Capture(item):
            return repeats(item)
        case Sequence(parts) | Choice(parts):
            return max((repeats(part) for part in parts), default=1)
        case _:
            assert_never(node)


def captures(node: Node) -> int:
    match node:
        case Chars() | Edge():
            return 0
        case Repeat(item):
            return captures(item)
        case Capture(item):
            return 1 + captures(item)
        case Sequence(parts) | Choice(parts):
            return sum(captures(part) for part in parts)
        case _:
            assert_never(node)
