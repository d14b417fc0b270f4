"""A search pattern, read once and written out for both engines so that they give the same answers.

The language is the part of regular expressions that runs in linear time and that people agree on; the rest is
refused with a hint. `parse` reads it into a `tree`, `spell` writes the tree for ripgrep and for RE2, `shortcuts`
knows where ripgrep can be trusted with its own. Nothing here runs a pattern.
"""

from dataclasses import dataclass

from holdall.text.pattern.charset import single
from holdall.text.pattern.parse import MAX_REPEAT, parse, read_literal
from holdall.text.pattern.shortcuts import trusted
from holdall.text.pattern.spell import by_lines_for_ripgrep, for_re2, for_ripgrep
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence, can_be_empty, captures, repeats, steps
from holdall.values.errors import BadPattern

__all__ = ["MAX_CHARACTERS", "Pattern", "translate"]

MAX_CHARACTERS = 10_000
_MAX_STEPS = 50_000  # RE2 and ripgrep both compile this much in well under a second
_MAX_WRITTEN = 100_000  # bytes: an argument of a command may have 128 KiB

_OPTIONAL_RETURN = Repeat(Chars(single(0x0D)), 0, 1)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern for both engines. ripgrep's is text and matches characters; RE2's is bytes and matches bytes."""

    ripgrep: str
    ripgrep_by_lines: str  # matches whole lines, the captures being those of the first match in each
    re2: bytes
    captures: int
    can_be_empty: bool  # such a pattern is answered line by line: every place between characters is no answer
    takes_return: bool  # where a match ends in \\r at the end of a line, that is the line's end and not the match's


def translate(pattern: str, *, literal: bool = False, ignore_case: bool = False) -> Pattern:
    """Read `pattern`, or refuse it with BadPattern and a hint."""
    _refuse_unreadable(pattern)
    if literal:
        tree, names_return = read_literal(pattern, ignore_case=ignore_case), True
    else:
        tree, names_return = parse(pattern, ignore_case=ignore_case)
    if repeats(tree) > MAX_REPEAT:
        raise BadPattern(f"counts inside each other come to more than {MAX_REPEAT:,} repetitions. Write smaller counts.")
    lenient = not names_return and _has_line_end(tree)
    if lenient:
        tree = _before_return(tree)
    # ripgrep gets the first match of a line as a capture where the pattern has none of its own.
    by_lines = tree if captures(tree) else Capture(tree)
    written = Pattern(
        ripgrep=for_ripgrep(tree, shortcuts=trusted(tree)),
        ripgrep_by_lines=by_lines_for_ripgrep(for_ripgrep(by_lines, shortcuts=True)),
        re2=for_re2(tree),
        captures=captures(tree),
        can_be_empty=can_be_empty(tree),
        takes_return=lenient,
    )
    if steps(tree) > _MAX_STEPS or len(written.ripgrep_by_lines.encode()) > _MAX_WRITTEN:
        raise BadPattern("the pattern becomes too large to run: write smaller counts or smaller classes.")
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


def _has_line_end(node: Node) -> bool:
    match node:
        case Edge(kind):
            return kind == "line end"
        case Capture(item) | Repeat(item):
            return _has_line_end(item)
        case Sequence(parts) | Choice(parts):
            return any(_has_line_end(part) for part in parts)
        case Chars():
            return False


def _before_return(node: Node) -> Node:
    """$ also stands before the \\r of a \\r\\n: it takes the \\r into the match, from which it is cut off again."""
    match node:
        case Edge("line end"):
            return Sequence((_OPTIONAL_RETURN, node))
        case Capture(item):
            return Capture(_before_return(item))
        case Repeat(item, low, high, lazy):
            return Repeat(_before_return(item), low, high, lazy)
        case Sequence(parts):
            return Sequence(tuple(_before_return(part) for part in parts))
        case Choice(parts):
            return Choice(tuple(_before_return(part) for part in parts))
        case _:
            return node
