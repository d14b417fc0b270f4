"""A tree, written out for each engine in the narrowest syntax that it has.

ripgrep gets characters and knows UTF-8. RE2 is run on bytes (Latin-1) and gets every character as the bytes of
its UTF-8: its own UTF-8 mode lets over-long forms and surrogates pass as characters, and ripgrep's does not.
Neither is ever given a flag, a class escape or a set operation of its own syntax.
"""

from collections.abc import Callable, Iterator
from typing import assert_never

from holdall.text.pattern.charset import Ranges
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence

ByteRanges = tuple[tuple[int, int], ...]  # one range for each byte of a character

# ripgrep matches lines: there ^ and $ are about lines, and RE2 is told so by (?m). The \b of ripgrep knows Unicode.
_RIPGREP_EDGES = {
    "line start": "^",
    "line end": "$",
    "word edge": r"(?-u:\b)",
    "no word edge": r"(?-u:\B)",
}
_RE2_EDGES = {"line start": "^", "line end": "$", "word edge": r"\b", "no word edge": r"\B"}

# Matches nothing, anywhere; but no literal can be drawn from it, so ripgrep takes no shortcut. See `shortcuts`.
_NEVER = r"\z."


def for_ripgrep(tree: Node, *, shortcuts: bool) -> str:
    written = _written(tree, _in_characters, _RIPGREP_EDGES)
    return written if shortcuts else f"(?:{written}|{_NEVER})"


def for_re2(tree: Node) -> bytes:
    return b"(?m)" + _written(tree, _in_bytes, _RE2_EDGES).encode("ascii")


def by_lines_for_ripgrep(tree: Node) -> str:
    """The whole of each line that holds a match, the captures being those of the first match in it."""
    rest = r"(?-u:[^\n])"
    return f"(?:^{rest}*?(?:{for_ripgrep(tree, shortcuts=True)}){rest}*$|{_NEVER})"


def _written(node: Node, chars: Callable[[Ranges], str], edges: dict[str, str]) -> str:
    match node:
        case Chars(ranges):
            return chars(ranges)
        case Edge(kind):
            return edges[kind]
        case Capture(item):
            return f"({_written(item, chars, edges)})"
        case Repeat(item, low, high, lazy):
            inner = _written(item, chars, edges)
            whole = inner if isinstance(item, Chars | Capture) else f"(?:{inner})"
            return whole + _count(low, high) + ("?" if lazy else "")
        case Sequence(items):
            return "".join(_written(item, chars, edges) for item in items) or "(?:)"
        case Choice(options):
            return f"(?:{'|'.join(_written(option, chars, edges) for option in options)})"
        case _:
            assert_never(node)


def _count(low: int, high: int | None) -> str:
    match low, high:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{low},}}"
        case _:
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def _in_characters(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _character(ranges[0][0])
    return "[" + "".join(_range(low, high, _character) for low, high in ranges) + "]"


def _character(code: int) -> str:
    """Itself where that is safe in a pattern and in a class; ASCII punctuation and controls as a number."""
    char = chr(code)
    return char if code > 0x9F or (char.isascii() and char.isalnum()) else f"\\x{code:02X}"


def _range(low: int, high: int, one: Callable[[int], str]) -> str:
    return one(low) if low == high else f"{one(low)}-{one(high)}"


def _in_bytes(ranges: Ranges) -> str:
    """Alternatives of byte classes, those that differ in their last byte only being one."""
    endings: dict[ByteRanges, list[tuple[int, int]]] = {}
    for low, high in ranges:
        for sequence in byte_ranges(low, high):
            endings.setdefault(sequence[:-1], []).append(sequence[-1])
    written = ["".join(_byte_class([part]) for part in lead) + _byte_class(last) for lead, last in endings.items()]
    return written[0] if len(endings) == 1 and () in endings else f"(?:{'|'.join(written)})"


def _byte_class(ranges: list[tuple[int, int]]) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _byte(ranges[0][0])
    return "[" + "".join(_range(low, high, _byte) for low, high in ranges) + "]"


def _byte(value: int) -> str:
    char = chr(value)
    return char if char.isascii() and char.isalnum() else f"\\x{value:02x}"


def byte_ranges(low: int, high: int) -> Iterator[ByteRanges]:
    """The UTF-8 of all characters from `low` to `high`, as sequences of byte ranges, in order."""
    for top in (0x7F, 0x7FF, 0xFFFF):  # where the number of bytes changes
        if low <= top < high:
            yield from byte_ranges(low, top)
            yield from byte_ranges(top + 1, high)
            return
    for bits in (6, 12, 18) if high > 0x7F else ():
        # All but the first differing byte must run over all of 80 to BF, or the product would hold too much.
        tail = (1 << bits) - 1
        if low & ~tail != high & ~tail:
            if low & tail:
                yield from byte_ranges(low, low | tail)
                yield from byte_ranges((low | tail) + 1, high)
                return
            if high & tail != tail:
                yield from byte_ranges(low, (high & ~tail) - 1)
                yield from byte_ranges(high & ~tail, high)
                return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))
