"""What a search engine is asked to do, and the command that does it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from holdall.text.pattern import Pattern

# places: `BYTE:MATCH` a line; a pattern that can be empty gives `BYTE:…` with the start of each line that matches.
# values: what each match captured, a line each, several captures with tabs between them; or the match itself.
# count: one number.
Want = Literal["places", "values", "count"]


@dataclass(frozen=True, slots=True)
class Task:
    pattern: Pattern
    want: Want
    descriptor: int
    size: int  # how much of the file is the output
    growing: bool  # the file may be longer than that, and grow further


@dataclass(frozen=True, slots=True)
class Command:
    """A program, the descriptor that it inherits, and what it is fed on its standard input.

    Any code but a good one means that its output is not to be believed; then standard error says why, with the word
    `regex` in it where the pattern is to blame.
    """

    arguments: tuple[str | bytes, ...]
    environment: dict[str, str]
    descriptor: int
    good_codes: tuple[int, ...]
    feed: Iterable[bytes] = ()
