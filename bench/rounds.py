"""How things are compared on a machine that others use too: in turn, many times, and by the middle.

The turns that others disturbed least decide. They are chosen by what others did, never by how long we took.
"""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.machine import QUIET_CORES, Patience, Watch

_ENOUGH = 3  # turns, for a median
# One turn of half a second differs from the next by a quarter: of 7 turns the middle is known to a tenth only, which is
# more than some gates leave. Those jobs take this many times as many turns.
MANY = 4
Timed = Callable[[], Awaitable[float]]  # does the work once; seconds


@dataclass(frozen=True, slots=True)
class Turn:
    seconds: float
    others: float | None

    @property
    def is_quiet(self) -> bool:
        return (self.others or 0.0) <= QUIET_CORES


@dataclass(frozen=True, slots=True)
class Compared:
    turns: Mapping[str, Sequence[Turn]]

    def used(self, name: str) -> Sequence[Turn]:
        """The quiet ones; where they are too few, the quieter half, and never fewer than three."""
        turns = self.turns[name]
        quiet = [turn for turn in turns if turn.is_quiet]
        if len(quiet) >= _ENOUGH:
            return quiet
        half = max(_ENOUGH, math.ceil(len(turns) / 2))
        return sorted(turns, key=lambda turn: turn.others or 0.0)[:half]

    def median(self, name: str) -> float:
        return statistics.median(turn.seconds for turn in self.used(name))

    def least(self, name: str) -> float:
        """For processor time, to which others only add."""
        return min(turn.seconds for turn in self.turns[name])

    @property
    def others(self) -> float | None:
        """Of the contestant that was disturbed most."""
        known = [[turn.others for turn in self.used(name) if turn.others is not None] for name in self.turns]
        return max((statistics.median(some) for some in known if some), default=None)


async def compare(
    contestants: Mapping[str, Timed], *, rounds: int, patience: Patience, seconds: float = 25.0, warm: bool = True
) -> Compared:
    """A B A B …, after one turn of each that does not count, until each had `rounds` quiet ones or time is up."""
    if warm:
        for work in contestants.values():
            await work()
    started = time.perf_counter()
    turns: dict[str, list[Turn]] = {name: [] for name in contestants}

    def wanting() -> bool:
        done = [sum(turn.is_quiet or not patience.cares for turn in some) for some in turns.values()]
        if len(turns[next(iter(turns))]) >= min(rounds, _ENOUGH) and time.perf_counter() - started > seconds:
            return False
        return min(done) < rounds

    while wanting():
        patience.wait()
        for name, work in contestants.items():
            watch = Watch()
            taken = await work()
            turns[name].append(Turn(taken, watch.others()))
    return Compared(turns)


def timed(work: Callable[[], Awaitable[object]]) -> Timed:
    async def run() -> float:
        started = time.perf_counter()
        await work()
        return time.perf_counter() - started

    return run


def timed_call(work: Callable[[], object]) -> Timed:
    async def run() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return run


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The power of size that cost grows with, by least squares over logarithms."""
    fit = statistics.linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points])
    return fit.slope
