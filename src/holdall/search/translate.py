"""From the text of a pattern to a `Pattern` that the engines can run, or a refusal that says what to write."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from holdall.search.pattern import (
    ANY,
    MAX_REPEAT,
    Capture,
    Chars,
    Choice,
    Edge,
    Node,
    Ranges,
    Repeat,
    Sequence,
    can_be_empty,
    captures,
    parse,
    read_literal,
    repeats,
    single,
    size,
    steps,
)
from holdall.values.errors import BadPattern

# Lines that end in \r\n: there $ stands before the \r, though an engine finds it only before the \n.
#
# So $ is written as \r?$ and takes the \r into the match, from which it is cut off again where a match is shown. A
# pattern that asks for \r by name is left as it is.


_OPTIONAL_RETURN = Repeat(Chars(single(0x0D)), 0, 1)


def has_line_end(node: Node) -> bool:
    match node:
        case Edge(kind):
            return kind == "line end"
        case Capture(item) | Repeat(item):
            return has_line_end(item)
        case Sequence(parts) | Choice(parts):
            return any(has_line_end(part) for part in parts)
        case Chars():
            return False


def before_return(node: Node) -> Node:
    match node:
        case Edge("line end"):
            return Sequence((_OPTIONAL_RETURN, node))
        case Capture(item):
            return Capture(before_return(item))
        case Repeat(item, low, high, lazy):
            return Repeat(before_return(item), low, high, lazy)
        case Sequence(parts):
            return Sequence(tuple(before_return(part) for part in parts))
        case Choice(parts):
            return Choice(tuple(before_return(part) for part in parts))
        case _:
            return node


# Whether going from one occurrence of an inner literal to the next finds the leftmost match.
#
# ripgrep looks for a literal L that stands inside of a pattern, say after the parts A. Where it finds one, it looks
# back for the longest A, and that is its match. It is wrong if another match M begins further left and has an
# occurrence of L inside its own A, at which a match N that begins inside of M was found. So let the occurrence be in
# part j of M's A; then N's own A lies in the parts of M up to j. That cannot be, or does no harm, if - all of A has one
# length: then N would begin further left than M; or - L begins with no character that part j may have; or - part j is
# the first and repeats a class without end: then N reaches back to where M begins; or - part j is the last and repeats
# a class without end: then what M has before the occurrence is an A too; or - some part after j needs a character that
# no part up to j may have.


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


# Where ripgrep's own shortcuts can be trusted.
#
# ripgrep speeds a pattern up by looking for a literal inside of it first. Two of these ways are wrong for some patterns
# in the versions that exist: 14.1.0 misses lines (ripgrep issue 2884: `(?i)e.x|ex` on `e-x`), and all up to 15.1 report
# a match too far to the right (rust-lang/regex issue 1354: `.bb|b` on `zabb`). A pattern is trusted here if neither can
# touch it, and otherwise written so that ripgrep finds no literal: slower, and right.
#
# What is known of the two ways: - Neither is taken where every match begins with a literal of three bytes: that is
# looked for instead, correctly. - The second goes from one occurrence of an inner literal to the next; `leftmost` says
# where that is right. - The first needs alternatives or optional parts, and is not taken where the second is.


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


# A tree, written out for each engine in the narrowest syntax that it has.
#
# ripgrep gets characters and knows UTF-8. RE2 is run on bytes (Latin-1) and gets every character as the bytes of its
# UTF-8: its own UTF-8 mode lets over-long forms and surrogates pass as characters, and ripgrep's does not. Neither is
# ever given a flag, a class escape or a set operation of its own syntax.


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


# From the text of a pattern to a `Pattern` that both engines can run, or a refusal that says what to write.


MAX_CHARACTERS = 10_000
_MAX_STEPS = 100_000  # RE2 and ripgrep both compile this much in well under a second
_MAX_WRITTEN = 100_000  # bytes: an argument of a command may have 128 KiB


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern for both engines. ripgrep's is text and matches characters; RE2's is bytes and matches bytes."""

    ripgrep: str
    ripgrep_by_lines: str  # matches whole lines, the captures being those of the first match in each
    re2: bytes
    captures: int
    can_be_empty: bool  # such a pattern is answered line by line: every place between characters is no answer
    takes_return: bool  # a match that ends in \r at the end of its line has taken a part of the line's end


def translate(pattern: str, *, literal: bool = False, ignore_case: bool = False) -> Pattern:
    """Read `pattern`, or refuse it with BadPattern and a hint."""
    _refuse_unreadable(pattern)
    if literal:
        tree, names_return = read_literal(pattern, ignore_case=ignore_case), True
    else:
        tree, names_return = parse(pattern, ignore_case=ignore_case)
    if repeats(tree) > MAX_REPEAT:
        raise BadPattern(f"counts inside each other come to more than {MAX_REPEAT:,} repetitions. Write smaller ones.")
    takes_return = not names_return and has_line_end(tree)
    if takes_return:
        tree = before_return(tree)
    if steps(tree) > _MAX_STEPS:
        raise BadPattern("the pattern becomes too large to run. Write smaller counts or smaller classes.")
    # ripgrep gets the first match of a line as a capture where the pattern has none of its own.
    by_lines = tree if captures(tree) else Capture(tree)
    written = Pattern(
        ripgrep=for_ripgrep(tree, shortcuts=trusted(tree)),
        ripgrep_by_lines=by_lines_for_ripgrep(by_lines),
        re2=for_re2(tree),
        captures=captures(tree),
        can_be_empty=can_be_empty(tree),
        takes_return=takes_return,
    )
    if len(written.ripgrep_by_lines.encode()) > _MAX_WRITTEN:
        raise BadPattern("the pattern becomes too large to run. Write fewer or smaller classes.")
    return written


def _refuse_unreadable(pattern: object) -> None:
    if not isinstance(pattern, str):
        raise BadPattern(f"a pattern is text, not {pattern!r:.60}.")
    if not pattern:
        raise BadPattern("the pattern is empty and would match everywhere. To see the text itself, read it instead.")
    if len(pattern) > MAX_CHARACTERS:
        raise BadPattern(
            f"the pattern has {len(pattern):,} characters; at most {MAX_CHARACTERS:,} are run. "
            "Search for a few words at a time."
        )
    for at, char in enumerate(pattern):
        if "\ud800" <= char <= "\udfff":
            raise BadPattern(
                f"character {at + 1} of the pattern is half of one (the surrogate U+{ord(char):04X}), "
                "which no text has. Write the whole character."
            )
