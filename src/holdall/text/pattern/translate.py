"""From the text of a pattern to a `Pattern` that both engines can run, or a refusal that says what to write."""

from dataclasses import dataclass

from holdall.text.pattern.line_ends import before_return, has_line_end
from holdall.text.pattern.parse import MAX_REPEAT, parse, read_literal
from holdall.text.pattern.shortcuts import trusted
from holdall.text.pattern.spell import by_lines_for_ripgrep, for_re2, for_ripgrep
from holdall.text.pattern.tree import Capture, can_be_empty, captures, repeats, steps
from holdall.values.errors import BadPattern

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
