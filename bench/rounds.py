"""How two things are compared on a machine that others use too: in turn, many times, and by the middle.

The rounds that others disturbed least decide. They are chosen by what others did, never by how long we took.
"""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.machine import QUIET_CORES, Patience, Watch

_ENOUGH = 3  # rounds, for a median
Timed = Callable[[], Awaitable[float]]  # does the work once; seconds


@dataclass(frozen=True, slots=True)
class Round:
    seconds: Mapping[str, float]
    others: float | None

    @property
    def is_quiet(self) -> bool:
        return (self.others or 0.0) <= QUIET_CORES


@dataclass(frozen=True, slots=True)
class Compared:
    rounds: Sequence[Round]

    @property
    def used(self) -> Sequence[Round]:
        """The quiet ones; where they are too few, the quieter half, and never fewer than three."""
        quiet = [one for one in self.rounds if one.is_quiet]
        if len(quiet) >= _ENOUGH:
            return quiet
        half = max(_ENOUGH, math.ceil(len(self.rounds) / 2))
        return sorted(self.rounds, key=lambda one: one.others or 0.0)[:half]

    def median(self, name: str) -> float:
        return statistics.median(one.seconds[name] for one in self.used)

    @property
    def others(self) -> float | None:
        known = [one.others for one in self.used if one.others is not None]
        return statistics.median(known) if known else None


async def compare(
    contestants: Mapping[str, Timed], *, rounds: int, patience: Patience, seconds: float = 25.0, warm: bool = True
) -> Compared:
    """A B A B …, after one turn of each that does not count, until `rounds` were quiet or `seconds` have passed."""
    if warm:
        for work in contestants.values():
            await work()
    started = time.perf_counter()
    done: list[Round] = []
    while sum(one.is_quiet or not patience.cares for one in done) < rounds:
        patience.wait()
        watch = Watch()
        taken = {name: await work() for name, work in contestants.items()}
        done.append(Round(taken, watch.others()))
        if len(done) >= min(rounds, _ENOUGH) and time.perf_counter() - started > seconds:
            break
    return Compared(done)


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
