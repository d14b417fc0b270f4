"""How much of each output a model has seen: a fold over the events of a session.

`shown` are bytes that stood in an answer or a notice, `scanned` those that a verb went over on the model's behalf,
`passed` those that went to another tool by reference, `searched` those that a model extracted from. Ranges are merged
as they come: a thousand answers about one output cost little more than one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdall.values.events import Event
from holdall.values.spans import Span

_OF_OUTPUTS = ("kept", "retrieved", "passed", "extracted")
WAYS = ("shown", "scanned", "searched", "passed")


@dataclass(slots=True)
class Ranges:
    """A set of bytes as ranges that neither touch nor overlap, in order."""

    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def add(self, span: Span) -> None:
        if span.start >= span.end:
            return
        first = bisect_left(self.ends, span.start)
        last = bisect_right(self.starts, span.end)
        if first < last:
            span = Span(min(span.start, self.starts[first]), max(span.end, self.ends[last - 1]))
        self.starts[first:last] = [span.start]
        self.ends[first:last] = [span.end]

    def covers(self, span: Span) -> bool:
        at = bisect_right(self.starts, span.start) - 1
        return span.start >= span.end or (at >= 0 and self.ends[at] >= span.end)

    def bytes(self, total: int | None = None) -> int:
        end = float("inf") if total is None else total
        return int(sum(min(b, end) - a for a, b in zip(self.starts, self.ends, strict=True) if a < end))

    def copy(self) -> "Ranges":
        return Ranges(self.starts[:], self.ends[:])

    def as_lists(self) -> list[list[int]]:
        return [[start, end] for start, end in zip(self.starts, self.ends, strict=True)]


@dataclass(slots=True)
class Coverage:
    """One output: its ranges by the way in which they were used, and how often it was asked."""

    ranges: dict[str, Ranges] = field(default_factory=lambda: {way: Ranges() for way in WAYS})
    retrievals: int = 0

    @property
    def shown(self) -> Ranges:
        return self.ranges["shown"]

    def share(self, total: int, plus: Iterable[Span] = ()) -> float:
        """The part of `total` bytes that was shown, with these ranges too."""
        shown = self.shown
        if plus := tuple(plus):
            shown = shown.copy()
            for span in plus:
                shown.add(span)
        return shown.bytes(total) / total if total else 1.0

    def to_json(self, total: int) -> dict[str, Any]:
        ways = {way: ranges.as_lists() for way, ranges in self.ranges.items() if ranges.starts}
        return {"seen": round(self.share(total), 6), "retrievals": self.retrievals, **ways}


@dataclass(slots=True)
class Ledger:
    by_handle: dict[str, Coverage] = field(default_factory=dict[str, Coverage])

    def of(self, handle: str) -> Coverage:
        return self.by_handle.get(handle) or Coverage()

    def add(self, event: Event) -> None:
        if not event.handle or event.kind not in _OF_OUTPUTS:
            return
        coverage = self.by_handle.setdefault(event.handle, Coverage())
        for way in WAYS:
            for span in event.spans(way):
                coverage.ranges[way].add(span)
        coverage.retrievals += event.kind == "retrieved"
