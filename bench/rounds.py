"""How two things are compared on a machine that others use too: in turn, many times, and by the middle.

The rounds that others disturbed least decide. They are chosen by what others did, never by how long we took.
"""

import math
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.machine import Patience, Watch

Timed = Callable[[], Awaitable[float]]  # does the work once; seconds


@dataclass(frozen=True, slots=True)
class Round:
    seconds: Mapping[str, float]
    others: float | None


@dataclass(frozen=True, slots=True)
class Compared:
    rounds: Sequence[Round]

    @property
    def quiet(self) -> Sequence[Round]:
        """The quieter half, and never fewer than three."""
        enough = max(3, math.ceil(len(self.rounds) / 2))
        return sorted(self.rounds, key=lambda one: one.others or 0.0)[:enough]

    def median(self, name: str) -> float:
        return statistics.median(one.seconds[name] for one in self.quiet)

    @property
    def others(self) -> float | None:
        known = [one.others for one in self.quiet if one.others is not None]
        return statistics.median(known) if known else None


async def compare(
    contestants: Mapping[str, Timed], *, rounds: int, patience: Patience, seconds: float = 30.0, warm: bool = True
) -> Compared:
    """A B A B …, after one turn of each that does not count. Past `seconds`, three rounds have to do."""
    started = time.perf_counter()
    if warm:
        for work in contestants.values():
            await work()
    done: list[Round] = []
    for _ in range(rounds):
        patience.wait()
        watch = Watch()
        taken = {name: await work() for name, work in contestants.items()}
        done.append(Round(taken, watch.others()))
        if len(done) >= 3 and time.perf_counter() - started > seconds:
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
