"""Numbers, times and charts as the pages show them. Pure, except for the time zone of this machine."""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote, urlencode

from holdall.formats.registry import format_of
from holdall.policy.folds import Coverage, Ranges
from holdall.text.escape import as_written, one_line
from holdall.text.numbers import age, grouped, money, number, plural, roughly, size, whole
from holdall.values.events import Event
from holdall.values.record import record
from holdall.wire.extraction import CHECKS

# Numbers and times as the pages show them.


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `2 min 05 s`, `1 h 12 min`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def percent(share: float | None) -> str:
    """Never 0 for what is a little, never 100 for what is not all."""
    if share is None:
        return "–"
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %"
    if share < 0.001:
        return "<0.1 %"
    return f"{min(share * 100, 99.9):.1f} %"


def moment(at: float) -> str:
    """`2026-11-15 11:28:03`, in the zone of this machine."""
    return _when(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def machine_time(at: float) -> str:
    """For the attribute `datetime`."""
    return _when(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def _when(at: float) -> datetime:
    """A time that a damaged log claims may be none."""
    try:
        return datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)


def in_address(value: object) -> str:
    """A text, or names with values, as a part of an address. A lone surrogate, which none can have, is its escape."""
    if isinstance(value, Mapping):
        return urlencode(cast("Mapping[str, object]", value), errors="backslashreplace")
    return quote(str(value), errors="backslashreplace")


def words_in(text: str) -> re.Pattern[str]:
    """What was typed into a search, whatever its case; in the arguments of a call too, which are shown as JSON."""
    return re.compile("|".join(map(re.escape, as_written(text))), re.IGNORECASE)


def marked(text: str, words: str) -> list[tuple[str, bool]]:
    """In pieces, each with whether it is what was searched for."""
    pieces, end = list[tuple[str, bool]](), 0
    for hit in words_in(words).finditer(text) if words else ():
        pieces += [(text[end : hit.start()], False), (hit[0], True)]
        end = hit.end()
    return [one for one in (*pieces, (text[end:], False)) if one[0]]


def is_text(kind: str) -> bool:
    """Whether lines and tokens say something of it."""
    return not format_of(kind).is_binary


FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": age,
    "checked": CHECKS.__getitem__,
    "duration": duration,
    "grouped": grouped,
    "is_text": is_text,
    "machine_time": machine_time,
    "marked": marked,
    "moment": moment,
    "money": money,
    "number": number,
    "one_line": one_line,
    "percent": percent,
    "plural": plural,
    "roughly": roughly,
    "shell": shlex.quote,
    "size": size,
    "urlencode": in_address,
    "whole": whole,
}


# The two charts: the context turn by turn, and what of an output was seen. Pure: numbers in, coordinates out.


WIDTH, HEIGHT = 720.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 80.0, 704.0, 18.0, 186.0
_LANE = 1000.0
_LEAST = 2.0
_MAX_BARS = 400
_MAX_TURNS = 400


@record
class Turn:
    """What the context held at the start of a turn, and what it would have held with every output in it."""

    number: str
    tokens: int
    without: int


@record
class Point:
    x: float
    y: float


@record
class ContextChart:
    turns: Sequence[Turn]  # those that are drawn
    most: int
    least: int  # the power of ten below the smallest value, at the ground
    every: int = 1  # so many turns for each that is drawn; the last one is

    def points(self, *, without: bool) -> list[Point]:
        step = (RIGHT - LEFT) / max(1, len(self.turns) - 1)
        values = [turn.without if without else turn.tokens for turn in self.turns]
        return [Point(round(LEFT + at * step, 1), self.y(value)) for at, value in enumerate(values)]

    def line(self, *, without: bool) -> str:
        return " ".join(f"{point.x},{point.y}" for point in self.points(without=without))

    def area(self, *, without: bool) -> str:
        """The line, closed along the ground."""
        points = self.points(without=without)
        return f"{points[0].x},{BOTTOM} {self.line(without=without)} {points[-1].x},{BOTTOM}"

    def y(self, tokens: float) -> float:
        """Each power of ten as high as the one before: a context of thousands is seen beside one of millions."""
        low, high = math.log10(self.least), math.log10(max(self.most, self.least * 10))
        share = (math.log10(max(tokens, self.least)) - low) / (high - low)
        return round(BOTTOM - (BOTTOM - TOP) * min(1.0, share), 1)

    @property
    def ticks(self) -> list[int]:
        found = [self.least]
        while found[-1] * 10 <= self.most and len(found) < 20:
            found.append(found[-1] * 10)
        return found

    @property
    def labelled(self) -> list[tuple[float, str]]:
        """A few turns, with their place."""
        every = max(1, -(-len(self.turns) // 12))
        points = self.points(without=False)
        return [(points[at].x, turn.number) for at, turn in enumerate(self.turns) if at % every == 0]


def context_chart(events: Iterable[Event]) -> ContextChart | None:
    """From the log; None if there are no two turns to compare."""
    turns: list[Turn] = []
    kept_out = 0
    for event in events:
        data = event.data
        match event.kind:
            case "turn":
                tokens = whole(data.get("tokens"))
                turns.append(Turn(str(data.get("number", len(turns) + 1))[:9], tokens, tokens + max(0, kept_out)))
            case "kept" if data.get("replaced"):
                kept_out += max(0, whole(data.get("tokens")) - whole(data.get("content_tokens")))
            case "ended":
                kept_out += whole(data.get("tokens"))
            case "retrieved" if event.handle:
                kept_out -= whole(data.get("tokens"))
            case _:
                pass
    if len(turns) < 2:
        return None
    most = max(max(turn.tokens, turn.without) for turn in turns)
    smallest = min((turn.tokens for turn in turns if turn.tokens > 0), default=1)
    every = -(-len(turns) // _MAX_TURNS)
    drawn = turns[::every] if (len(turns) - 1) % every == 0 else [*turns[::every], turns[-1]]
    return ContextChart(drawn, most, int(10 ** math.floor(math.log10(max(1, smallest)))), every)


@record
class CoverageBar:
    """Where an output was shown, searched and scanned, as pieces (x, width) of a lane of 1,000."""

    shown: Sequence[tuple[float, float]]
    searched: Sequence[tuple[float, float]]
    scanned: Sequence[tuple[float, float]]
    share: float | None  # None where there is nothing that could be seen
    retrievals: int


def coverage_bar(coverage: Coverage, total: int) -> CoverageBar:
    ways: dict[str, Any] = {way: _pieces(coverage.ranges[way], total) for way in ("shown", "searched", "scanned")}
    return CoverageBar(share=seen_share(coverage, total), retrievals=coverage.retrievals, **ways)


def seen_share(coverage: Coverage, total: int) -> float | None:
    """Of nothing there is no share: an empty output was not seen, and one that has yet to be written was not either."""
    return coverage.share(total) if total else None


def _pieces(ranges: Ranges, total: int) -> list[tuple[float, float]]:
    """Ranges that would be drawn on the same spot become one, so that there are never more than a few hundred."""
    if total <= 0:
        return []
    found: list[list[float]] = []
    for start, end in zip(ranges.starts, ranges.ends, strict=True):
        if start >= total:
            break
        x = min(_LANE - _LEAST, start / total * _LANE)
        right = max(x + _LEAST, min(end, total) / total * _LANE)
        if found and x - found[-1][1] < _LANE / _MAX_BARS:
            found[-1][1] = max(found[-1][1], right)
        else:
            found.append([x, right])
    return [(round(x, 2), round(right - x, 2)) for x, right in found]
