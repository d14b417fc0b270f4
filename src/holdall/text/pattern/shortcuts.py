"""Where ripgrep's own shortcuts can be trusted.

ripgrep speeds a pattern up by looking for a literal inside of it first. Two of these ways are wrong for some
patterns in the versions that exist: 14.1.0 misses lines (ripgrep issue 2884: `(?i)e.x|ex` on `e-x`), and all up to
15.1 report a match too far to the right (rust-lang/regex issue 1354: `.bb|b` on `zabb`). A pattern is trusted here
if neither can touch it, and otherwise written so that ripgrep finds no literal: slower, and right.

What is known of the two ways:
- Neither is taken where every match begins with a literal of three bytes: that is looked for instead, correctly.
- The second goes from one occurrence of an inner literal to the next; `leftmost` says where that is right.
- The first needs alternatives or optional parts, and is not taken where the second is.
"""

from holdall.text.pattern.charset import size
from holdall.text.pattern.leftmost import finds_leftmost, is_single
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence

_RUN = 3  # a literal that is long enough to be looked for at once
_MANY = 33  # so many of them are not looked for at once any more
_MAX_LITERALS = 200


def trusted(tree: Node) -> bool:
    options = tree.options if isinstance(tree, Choice) else (tree,)
    if _beginnings(_flat(tree)) < _MANY:
        return True
    if len(options) > 1:
        return len(options) <= _MAX_LITERALS and all(_is_literal(option) for option in options)
    items = _flat(tree)
    if not finds_leftmost(items):
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
            total = 0
            for option in options:
                total += _beginnings([*_flat(option), *rest], wanted)
                if total >= _MANY:  # enough is known; a product of alternatives is not walked through
                    break
            return total
        case [Repeat(item, low, high), *rest] if low == high:
            return _beginnings([*_flat(item) * min(low, _RUN), *rest], wanted)
        case _:
            return _MANY


def _is_literal(option: Node) -> bool:
    parts = option.items if isinstance(option, Sequence) else (option,)
    return bool(parts) and all(is_single(part) for part in parts)


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
        run = run + 1 if is_single(item) else 0
        longest = max(longest, run)
    return longest
