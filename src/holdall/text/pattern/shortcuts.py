"""Where ripgrep's own shortcuts can be trusted.

ripgrep speeds a pattern up by looking for a literal inside of it first. Two of these ways are wrong for some
patterns in the versions that exist: 14.1.0 misses lines (ripgrep issue 2884: `(?i)e.x|ex` on `e-x`), and all up to
15.1 report a match too far to the right (rust-lang/regex issue 1354: `.bb|b` on `zabb`). A pattern is trusted here
if neither can touch it, and otherwise written so that ripgrep finds no literal: slower, and right.

What is known of the two ways:
- Neither is taken where every match begins with a literal of three bytes: that is looked for instead, correctly.
- The second goes from one occurrence of an inner literal to the next. It errs where an earlier match reaches over
  an occurrence at which a later match is found. It cannot if what stands before the literal has one length, or has
  no character in common with the literal's first.
- The first needs alternatives or optional parts, and is not taken where the second is.
"""

from math import prod

from holdall.text.pattern.charset import Ranges, has, size
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence

_RUN = 3  # a literal that is long enough to be looked for at once
_MAX_BEGINNINGS = 32  # of that length, all alternatives together
_MAX_LITERALS = 200
_SMALL_CLASS = 10  # a class of up to ten characters is taken as ten literals


def trusted(tree: Node) -> bool:
    options = tree.options if isinstance(tree, Choice) else (tree,)
    if sum(_beginnings(option) for option in options) <= _MAX_BEGINNINGS:
        return True
    if len(options) > 1:
        return len(options) <= _MAX_LITERALS and all(_is_literal(option) for option in options)
    items = _flat(tree)
    if not _finds_leftmost(items):
        return False
    return not any(_has_union(item) for item in items) or _longest_run(items) >= _RUN


def _flat(node: Node) -> list[Node]:
    """The parts of a sequence, groups opened, edges left out."""
    match node:
        case Sequence(items):
            return [part for item in items for part in _flat(item)]
        case Capture(item):
            return _flat(item)
        case Edge():
            return []
        case _:
            return [node]


def _beginnings(option: Node) -> int:
    """How many literals of three characters every match begins with one of; very many where that is not so."""
    beginning = _flat(option)[:_RUN]
    sizes = [size(item.ranges) for item in beginning if isinstance(item, Chars)]
    return prod(sizes) if len(sizes) == _RUN else _MAX_BEGINNINGS + 1


def _is_literal(option: Node) -> bool:
    parts = option.items if isinstance(option, Sequence) else (option,)
    return bool(parts) and all(isinstance(part, Chars) and size(part.ranges) == 1 for part in parts)


def _finds_leftmost(items: list[Node]) -> bool:
    """Whether no literal in `items` can also stand in the part before it, or that part always has one length."""
    seen: set[tuple[Node, ...]] = set()
    before: list[Ranges] = []
    one_length = True
    for at, item in enumerate(items):
        # A part that begins as an earlier one did is looked for in the same way, and the earlier one comes first.
        start = tuple(items[at : at + 2])
        last = at == len(items) - 1
        if not one_length and (last or start not in seen) and _gives_literal(item, items, at):
            first = _first(items[at:])
            if first is None or any(_overlap(first, ranges) for ranges in before):
                return False
        seen.add(start)
        one_length = one_length and _length(item) is not None
        before.extend(_alphabet(item))
    return True


def _gives_literal(item: Node, items: list[Node], at: int) -> bool:
    """Whether a literal may be looked for that begins with `item`."""
    if isinstance(item, Chars) and at and size(item.ranges) == 1:
        previous = items[at - 1]  # inside a run of single characters only its first counts
        return not (isinstance(previous, Chars) and size(previous.ranges) == 1)
    if isinstance(item, Chars):
        return size(item.ranges) <= _SMALL_CLASS
    if isinstance(item, Repeat) and isinstance(item.item, Chars) and item.low != item.high:
        # Of a class with a variable count one character is certain, and for more than three nobody looks.
        return size(item.item.ranges) <= 3 or any(high > 0x7F for _, high in item.item.ranges)
    return True


def _first(items: list[Node]) -> Ranges | None:
    """The characters that a match of `items` may begin with; None where that is not plain."""
    found: list[tuple[int, int]] = []
    for item in items:
        match item:
            case Chars(ranges):
                return (*found, *ranges)
            case Repeat(Chars(ranges), low):
                found.extend(ranges)
                if low:
                    return tuple(found)
            case _:
                return None
    return tuple(found)


def _alphabet(node: Node) -> list[Ranges]:
    match node:
        case Chars(ranges):
            return [ranges]
        case Edge():
            return []
        case Repeat(item) | Capture(item):
            return _alphabet(item)
        case Sequence(parts) | Choice(parts):
            return [ranges for part in parts for ranges in _alphabet(part)]


def _overlap(left: Ranges, right: Ranges) -> bool:
    """Outside of ASCII characters share bytes, and literals are bytes: there any two sets may overlap."""
    if any(high > 0x7F for _, high in left) and any(high > 0x7F for _, high in right):
        return True
    ordered = tuple(sorted(right))
    return any(has(ordered, code) for low, high in left for code in range(low, min(high, 0x7F) + 1))


def _length(node: Node) -> int | None:
    """The number of characters of every match; None where it varies."""
    match node:
        case Chars():
            return 1
        case Edge():
            return 0
        case Capture(item):
            return _length(item)
        case Repeat(item, low, high):
            inner = _length(item)
            return inner * low if inner is not None and low == high else None
        case Sequence(parts):
            lengths = [_length(part) for part in parts]
            return None if None in lengths else sum(length or 0 for length in lengths)
        case Choice(parts):
            alternatives = {_length(part) for part in parts}
            return alternatives.pop() if len(alternatives) == 1 else None


def _has_union(node: Node) -> bool:
    match node:
        case Choice():
            return True
        case Repeat(item, low):
            return low == 0 or _has_union(item)
        case Capture(item):
            return _has_union(item)
        case Sequence(parts):
            return any(_has_union(part) for part in parts)
        case _:
            return False


def _longest_run(items: list[Node]) -> int:
    longest = run = 0
    for item in items:
        run = run + 1 if isinstance(item, Chars) and size(item.ranges) == 1 else 0
        longest = max(longest, run)
    return longest
