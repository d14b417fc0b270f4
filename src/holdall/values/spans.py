"""Where something stands in an output.

A span of bytes or chars counts from 0 and excludes its end. A span of lines counts from 1 and includes
both ends. Which of the two a span is, is said by the name of the field that holds it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range of bytes, the end not included."""

    start: int
    end: int

    def as_list(self) -> list[int]:
        return [self.start, self.end]


@dataclass(frozen=True, slots=True)
class Ask:
    """A range as it was asked for: open ends are None, negative numbers count from the end."""

    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.start is None else self.start}:{'' if self.end is None else self.end}"


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole that a span is a part of."""

    bytes: int
    chars: int
    lines: int

    def as_dict(self) -> dict[str, int]:
        return {"bytes": self.bytes, "chars": self.chars, "lines": self.lines}
