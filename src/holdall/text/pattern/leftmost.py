r"""Whether going from one occurrence of an inner literal to the next finds the leftmost match.

ripgrep looks for a literal L that stands inside of a pattern, say after the parts A. Where it finds one, it looks
back for the longest A, and that is its match. It is wrong if another match M begins further left and has an
occurrence of L inside its own A, at which a match N that begins inside of M was found. So let the occurrence be in
part j of M's A; then N's own A lies in the parts of M up to j. That cannot be, or does no harm, if
- all of A has one length: then N would begin further left than M; or
- L begins with no character that part j may have; or
- part j is the first and repeats a class without end: then N reaches back to where M begins; or
- part j is the last and repeats a class without end: then what M has before the occurrence is an A too; or
- some part after j needs a character that no part up to j may have.
"""

from collections.abc import Iterable

from holdall.text.pattern.charset import ANY, Ranges, size
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence, can_be_empty

_MOST_PARTS = 100  # each is compared with those before it
_SMALL_CLASS = 10  # a class of up to ten characters is taken as ten literals


def finds_leftmost(parts: list[Node]) -> bool:
    """`parts` is a flat sequence without edges."""
    if len(parts) > _MOST_PARTS:
        return False
    if parts and _is_endless(parts[0]) and _alphabet(parts[0]) == [ANY]:
        return True
    seen: set[tuple[Node, Node]] = set()
    one_length = True
    for at, part in enumerate(parts):
        if not one_length and _gives_literal(parts, at) and not _came_before(parts, at, seen):
            first = _first(parts[at:])
            if not all(_is_harmless(parts, at, inside, first) for inside in range(at)):
                return False
        one_length = one_length and _length(part) is not None
    return one_length or _ends_plainly(parts)


def _is_harmless(parts: list[Node], at: int, inside: int, first: Ranges) -> bool:
    """Whether an occurrence of the literal at part `at` does no harm inside of an earlier part."""
    here = parts[inside]
    if not _overlap([first], _alphabet(here)):
        return True
    before = [ranges for part in parts[:inside] for ranges in _alphabet(part)]
    if _is_endless(here) and (inside == 0 or (inside == at - 1 and _may_begin_anywhere(here, before))):
        return True
    # An occurrence in a part of one character is at its start, so that part itself comes after it.
    single = isinstance(here, Chars)
    reach = before if single else before + _alphabet(here)
    needed = (part for part in parts[inside if single else inside + 1 : at] if not can_be_empty(part))
    return any(not _overlap(_alphabet(part), reach) for part in needed)


def _may_begin_anywhere(endless: Node, before: list[Ranges]) -> bool:
    """Whether an occurrence at its very start does no harm either, where it still needs a character of its own."""
    return isinstance(endless, Repeat) and (
        endless.low == 0 or (endless.low == 1 and not _overlap(_alphabet(endless), before))
    )


def _ends_plainly(parts: list[Node]) -> bool:
    """Whether no two matches of different length can end in one literal that begins inside of the last part."""
    match parts[-1]:
        case Chars(ranges) | Repeat(Chars(ranges)):
            before = (other for part in parts[:-1] for other in _alphabet(part))
            return not (_beyond_ascii(ranges) and any(_beyond_ascii(other) for other in before))
        case _:
            return False


def _came_before(parts: list[Node], at: int, seen: set[tuple[Node, Node]]) -> bool:
    """Whether an earlier part begins in the same way: ripgrep then looks for that one, or for neither.

    As in [0-9]+\\.[0-9]+\\.[0-9]+. Two parts are enough to tell where the second is a class with a variable count.
    """
    if at + 1 == len(parts) or not (is_single(parts[at]) and _is_variable_class(parts[at + 1])):
        return False
    pair = (parts[at], parts[at + 1])
    known = pair in seen
    seen.add(pair)
    return known


def _gives_literal(parts: list[Node], at: int) -> bool:
    """Whether a literal may be looked for that begins with part `at`."""
    part = parts[at]
    if is_single(part):
        return not (at and is_single(parts[at - 1]))  # of a run of single characters only the first counts
    if isinstance(part, Chars):
        return size(part.ranges) <= _SMALL_CLASS
    # Of a class with a variable count one character is certain, and for one out of four nobody looks.
    return not _is_variable_class(part)


def is_single(node: Node) -> bool:
    return isinstance(node, Chars) and size(node.ranges) == 1


def _is_variable_class(node: Node) -> bool:
    return (
        isinstance(node, Repeat)
        and node.low != node.high
        and isinstance(node.item, Chars)
        and size(node.item.ranges) > 3
    )


def _is_endless(node: Node) -> bool:
    return isinstance(node, Repeat) and node.high is None and isinstance(node.item, Chars)


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


def _overlap(left: list[Ranges], right: list[Ranges]) -> bool:
    """Outside of ASCII characters share bytes, and literals are bytes: there any two sets may overlap."""
    if any(map(_beyond_ascii, left)) and any(map(_beyond_ascii, right)):
        return True
    return any(
        low <= top and bottom <= high
        for some in left
        for others in right
        for low, high in some
        for bottom, top in others
    )


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
