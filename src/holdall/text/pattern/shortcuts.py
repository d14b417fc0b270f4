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

from collections.abc import Iterable

from holdall.text.pattern.charset import Ranges, size
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence, can_be_empty

_RUN = 3  # a literal that is long enough to be looked for at once
_MANY = 33  # so many of them are not looked for at once any more
_MAX_LITERALS = 200
_SMALL_CLASS = 10  # a class of up to ten characters is taken as ten literals


def trusted(tree: Node) -> bool:
    options = tree.options if isinstance(tree, Choice) else (tree,)
    if _beginnings(_flat(tree)) < _MANY:
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


def _beginnings(items: list[Node], wanted: int = _RUN) -> int:
    """How many literals of three characters every match begins with one of; very many where that is not so."""
    if not wanted:
        return 1
    match items:
        case [Chars(ranges), *rest]:
            return size(ranges) * _beginnings(rest, wanted - 1) if size(ranges) < _MANY else _MANY
        case [Choice(options), *rest]:
            return sum(_beginnings([*_flat(option), *rest], wanted) for option in options[:_MANY])
        case [Repeat(item, low, high), *rest] if low == high:
            return _beginnings([*_flat(item) * min(low, _RUN), *rest], wanted)
        case _:
            return _MANY


def _is_literal(option: Node) -> bool:
    parts = option.items if isinstance(option, Sequence) else (option,)
    return bool(parts) and all(_is_single(part) for part in parts)


def _finds_leftmost(items: list[Node]) -> bool:
    """Whether no literal in `items` can also stand in the part before it, or that part always has one length."""
    seen: set[tuple[Node, Node]] = set()
    before: list[Ranges] = []
    one_length = True
    for at, item in enumerate(items):
        if not one_length and _gives_literal(items, at) and not _came_before(items, at, seen):
            first = _first(items[at:])
            if any(_overlap(first, ranges) for ranges in before):
                return False
        one_length = one_length and _length(item) is not None
        if at == len(items) - 1 and not one_length and not _ends_plainly(item, before):
            return False
        before.extend(_alphabet(item))
    return True


def _ends_plainly(last: Node, before: list[Ranges]) -> bool:
    """Whether no two matches of different length can end in one literal that begins inside of `last`."""
    match last:
        case Chars(ranges) | Repeat(Chars(ranges)):
            return not any(_beyond_ascii(ranges) and _beyond_ascii(other) for other in before)
        case _:
            return False


def _came_before(items: list[Node], at: int, seen: set[tuple[Node, Node]]) -> bool:
    """Whether an earlier part begins in the same way: ripgrep then looks for that one, or for neither.

    As in [0-9]+\\.[0-9]+\\.[0-9]+. Two parts are enough to tell where the second is a class with a variable count.
    """
    if at + 1 == len(items) or not (_is_single(items[at]) and _is_variable_class(items[at + 1])):
        return False
    pair = (items[at], items[at + 1])
    known = pair in seen
    seen.add(pair)
    return known


def _gives_literal(items: list[Node], at: int) -> bool:
    """Whether a literal may be looked for that begins with part `at`."""
    item = items[at]
    if _is_single(item):
        return not (at and _is_single(items[at - 1]))  # of a run of single characters only the first counts
    if isinstance(item, Chars):
        return size(item.ranges) <= _SMALL_CLASS
    # Of a class with a variable count one character is certain, and for one out of four nobody looks.
    return not _is_variable_class(item)


def _is_single(node: Node) -> bool:
    return isinstance(node, Chars) and size(node.ranges) == 1


def _is_variable_class(node: Node) -> bool:
    return (
        isinstance(node, Repeat)
        and node.low != node.high
        and isinstance(node.item, Chars)
        and size(node.item.ranges) > 3
    )


def _first(items: Iterable[Node]) -> Ranges:
    """The characters that a match of `items` may begin with."""
    found: list[tuple[int, int]] = []
    for item in items:
        match item:
            case Chars(ranges):
                found.extend(ranges)
            case Repeat(inner) | Capture(inner):
                found.extend(_first([inner]))
            case Sequence(parts):
                found.extend(_first(parts))
            case Choice(options):
                found.extend(pair for option in options for pair in _first([option]))
            case Edge():
                pass
        if not can_be_empty(item):
            break
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
    if _beyond_ascii(left) and _beyond_ascii(right):
        return True
    return any(low <= top and bottom <= high for low, high in left for bottom, top in right)


def _beyond_ascii(ranges: Ranges) -> bool:
    return any(high > 0x7F for _, high in ranges)


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
        run = run + 1 if _is_single(item) else 0
        longest = max(longest, run)
    return longest
