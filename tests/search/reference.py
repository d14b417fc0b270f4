"""What a pattern matches, worked out from its tree without any shortcut: ripgrep is compared with it.

`Reference` tries every byte and follows every way at most once, so that no pattern is too slow for it; it knows captures
and bytes that are no text. `for_python` hands the tree to Python's own `re`: nothing of ours decides what it matches,
but some patterns take for ever on a long line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdall.search.charset import Ranges, has, single
from holdall.search.pattern import Capture, Chars, Choice, Edge, Node, Pattern, Repeat, Sequence, can_be_empty, captures


@dataclass(frozen=True, slots=True)
class Char:
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class At:
    edge: str


@dataclass(frozen=True, slots=True)
class Save:
    slot: int


@dataclass(slots=True)
class Split:
    first: int
    second: int


Step = Char | At | Save | Split
Slots = tuple[int, ...]  # start and end of the match, then of each capture; -1 where it took no part


class Reference:
    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._steps: list[Step] = []
        self._write(Capture(pattern.tree), 0)

    def places(self, data: bytes) -> bytes:
        if self._pattern.can_be_empty:
            return b"".join(b"%d:\n" % at for at, _, _ in self._first_of_lines(data))
        return b"".join(b"%d:%s\n" % (at + slots[0], line[slots[0] : slots[1]]) for at, line, slots in self._all(data))

    def values(self, data: bytes) -> bytes:
        found = self._first_of_lines(data) if self._pattern.can_be_empty else self._all(data)
        first = 2 if self._pattern.captures else 0
        return b"".join(
            b"\t".join(line[slots[at] : slots[at + 1]] for at in range(first, len(slots), 2)) + b"\n"
            for _, line, slots in found
        )

    def count(self, data: bytes) -> int:
        return self.places(data).count(b"\n")

    def _all(self, data: bytes) -> Iterator[tuple[int, bytes, Slots]]:
        for at, line in lines_of(data):
            end = 0
            while slots := self._search(line, end):
                yield at, line, slots
                end = slots[1]

    def _first_of_lines(self, data: bytes) -> Iterator[tuple[int, bytes, Slots]]:
        for at, line in lines_of(data):
            if slots := self._search(line, 0):
                yield at, line, slots

    def _search(self, line: bytes, start: int) -> Slots | None:
        seen: set[tuple[int, int]] = set()  # what failed once fails again, from whichever start
        chars = dict(_characters(line))
        for at in range(start, len(line) + 1):
            if slots := self._match(line, at, chars, seen):
                return slots
        return None

    def _match(
        self, line: bytes, at: int, chars: dict[int, tuple[int, int]], seen: set[tuple[int, int]]
    ) -> Slots | None:
        ways: list[tuple[int, int, Slots]] = [(0, at, (-1,) * (2 + 2 * self._pattern.captures))]
        while ways:
            number, at, slots = ways.pop()
            if number == len(self._steps):
                return slots
            if (number, at) in seen:
                continue
            seen.add((number, at))
            match self._steps[number]:
                case Char(ranges):
                    code, after = chars.get(at, (-1, at))
                    if has(ranges, code):
                        ways.append((number + 1, after, slots))
                case At(edge):
                    if _holds(edge, line, at):
                        ways.append((number + 1, at, slots))
                case Save(slot):
                    ways.append((number + 1, at, (*slots[:slot], at, *slots[slot + 1 :])))
                case Split(first, second):
                    ways += [(second, at, slots), (first, at, slots)]
        return None

    def _write(self, node: Node, group: int) -> None:
        match node:
            case Chars(ranges):
                self._steps.append(Char(ranges))
            case Edge(kind):
                if kind == "line end" and self._pattern.takes_return:
                    self._write(Repeat(Chars(single(0x0D)), 0, 1), group)
                self._steps.append(At(kind))
            case Capture(item):
                self._steps.append(Save(2 * group))
                self._write(item, group + 1)
                self._steps.append(Save(2 * group + 1))
            case Sequence(items):
                for item in items:
                    self._write(item, group)
                    group += captures(item)
            case Choice(options):
                self._write_choice(options, group)
            case Repeat():
                self._write_repeat(node, group)

    def _write_choice(self, options: tuple[Node, ...], group: int) -> None:
        ends: list[Split] = []
        for option in options[:-1]:
            split = self._split()
            split.first = len(self._steps)
            self._write(option, group)
            ends.append(self._split())
            split.second = len(self._steps)
            group += captures(option)
        self._write(options[-1], group)
        for end in ends:
            end.first = end.second = len(self._steps)

    def _write_repeat(self, node: Repeat, group: int) -> None:
        for _ in range(node.low - (node.high is None and node.low > 0)):
            self._write(node.item, group)
        if node.high is not None:
            splits = list[Split]()
            for _ in range(node.high - node.low):
                splits.append(self._split())
                splits[-1].first = len(self._steps)
                self._write(node.item, group)
            self._end(splits, node)
        elif node.low == 0 and not can_be_empty(node.item):
            start = len(self._steps)
            split = self._split()
            split.first = start + 1
            self._write(node.item, group)
            back = self._split()
            back.first = back.second = start
            self._end([split], node)
        else:  # x*, of something that may be empty, is (?:x+)?
            splits = [self._split()] if node.low == 0 else []
            start = len(self._steps)
            self._write(node.item, group)
            splits.append(self._split())
            for split in splits:
                split.first = start
            self._end(splits, node)

    def _end(self, splits: list[Split], node: Repeat) -> None:
        for split in splits:
            split.second = len(self._steps)
            if node.lazy:
                split.first, split.second = split.second, split.first

    def _split(self) -> Split:
        split = Split(0, 0)
        self._steps.append(split)
        return split


def lines_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in data.removesuffix(b"\n").split(b"\n"):
        yield at, line
        at += len(line) + 1


def _characters(line: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """Where each character begins, which one it is, and where it ends. Bytes that are no text are none."""
    at = 0
    for char in line.decode("utf-8", "surrogateescape"):
        after = at + len(char.encode("utf-8", "surrogateescape"))
        if not "\ud800" <= char <= "\udfff":
            yield at, (ord(char), after)
        at = after


def _holds(edge: str, line: bytes, at: int) -> bool:
    match edge:
        case "line start":
            return at == 0
        case "line end":
            return at == len(line)
        case _:
            before, after = re.fullmatch(rb"\w", line[at - 1 : at]), re.fullmatch(rb"\w", line[at : at + 1])
            return (bool(before) != bool(after)) == (edge == "word edge")


def for_python(pattern: Pattern) -> re.Pattern[str]:
    return re.compile(_for_python(pattern.tree, r"\r?\Z" if pattern.takes_return else r"\Z"), re.ASCII)


def _for_python(node: Node, line_end: str) -> str:
    match node:
        case Chars(ranges):
            return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
        case Edge(kind):
            return {"line start": r"\A", "line end": line_end, "word edge": r"\b", "no word edge": r"\B"}[kind]
        case Capture(item):
            return f"({_for_python(item, line_end)})"
        case Repeat(item, low, high, lazy):
            count = f"{{{low},{'' if high is None else high}}}"
            return f"(?:{_for_python(item, line_end)}){count}{'?' if lazy else ''}"
        case Sequence(items):
            return "".join(_for_python(item, line_end) for item in items)
        case Choice(options):
            return f"(?:{'|'.join(_for_python(option, line_end) for option in options)})"
