"""What a scan tells: where the values are that a path names, and how far the path came where it names none."""

from dataclasses import dataclass
from typing import Literal

from holdall.text.json_names import Step

Layout = Literal["one", "several", "lines"]
"""One value; several, one after the other; or one on each line. Several values count as the elements of an array."""


class SeveralValues(Exception):
    """The text was taken for one value, and something follows it: another value, or text that is not JSON."""

    def __init__(self, end: int, after: int) -> None:
        self.end = end  # of the first value
        self.after = after  # where what follows begins
        super().__init__(f"the first value ends at byte {end:,}, and something follows")


@dataclass(slots=True)
class Hit:
    """A value that the path names. `step` is its own name or index, None for the whole text.

    `end` is known when the next hit comes; for a value that holds further hits, at the end of the scan. It stays -1
    where the value turns out to be broken.
    """

    path: str
    step: Step | None
    start: int
    end: int = -1
    shortened: bool = False  # the path is too long to show and leaves something out


@dataclass(frozen=True, slots=True)
class Reached:
    """The value that the most segments of the path led to."""

    segments: int
    path: str
    start: int
