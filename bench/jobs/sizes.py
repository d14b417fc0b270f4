"""Cost against size, from a megabyte to a gigabyte: linear for ingest and grep, flat for read."""

import itertools
import random
import statistics
import subprocess
import time
from pathlib import Path

from bench import data
from bench.lab import Lab
from bench.machine import Watch
from bench.result import Curve, Gate, Measured, Row
from bench.rounds import slope, timed
from holdall.text.tokens import Estimate

_READS = 50


async def cost_against_size(lab: Lab) -> Measured:
    sizes = lab.sizes.growing
    watch = Watch()
    costs: dict[str, dict[int, list[float]]] = {
        name: {size: [] for size in sizes} for name in ("ingest", "grep", "read")
    }
    # Whole passes over all sizes, so that a busy minute does not fall on one size alone.
    for _, size in itertools.product(range(min(3, lab.sizes.rounds)), sizes):
        lab.patience.wait()
        for name, seconds in (await _once(lab, size)).items():
            costs[name][size].append(seconds)
    curves = {
        name: [(size, statistics.median(times)) for size, times in by_size.items()] for name, by_size in costs.items()
    }
    others = watch.others()
    upper = len(sizes) // 2
    rows = [
        Row("size", f"{name}: power of size, upper half", slope(curves[name][upper:]), "power",
            gate=Gate(1.1, "figure"), others=others)
        for name in ("ingest", "grep")
    ]  # fmt: skip
    (_, least), (_, most) = curves["read"][0], curves["read"][-1]
    rows.append(Row("size", "read: largest against smallest", most, "ms", least, Gate(3.0), others=others))
    return Measured(rows, [Curve(name, points) for name, points in curves.items()])


def _beginning(file: Path, size: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["head", "-c", str(size), str(file)], stdout=subprocess.PIPE)


async def _once(lab: Lab, size: int) -> dict[str, float]:
    """Each in a store of its own: an output that is kept already would not be written again."""
    async with lab.bag(Estimate()) as bag:
        with _beginning(lab.log(), size) as head:
            started = time.perf_counter()
            facts = await bag.keep(head.stdout)
            ingest = time.perf_counter() - started
        search = timed(lambda: bag.grep(facts.handle, data.RARE, literal=True))
        await search()
        rng = random.Random(size)
        reads: list[float] = []
        for _ in range(_READS):
            start = rng.randint(1, facts.measure.lines - 200)
            reads.append(
                await timed(lambda start=start: bag.read(facts.handle, lines=(start, start + 199), bounded=False))()
            )
        return {"ingest": ingest, "grep": await search(), "read": statistics.median(reads)}
