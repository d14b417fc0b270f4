"""Reading back: any 200 lines, the whole, the end, and a value of a large JSON document."""

import asyncio
import json
import os
import random
import statistics
import zlib
from collections.abc import Awaitable, Callable

from bench.lab import Lab, stored_path
from bench.machine import Watch
from bench.result import Gate, Measured, Row
from bench.rounds import compare, timed, timed_call
from holdall.bag import Holdall
from holdall.text.tokens import Estimate
from holdall.values.outputs import Facts

_LINES = 200
_BLOCK = 64 * 1024


async def lines_anywhere(lab: Lab) -> Measured:
    """Warm: the file is in the page cache and the output is open."""
    async with lab.kept(lab.log()) as (bag, facts):
        handle, last = facts.handle, facts.measure.lines - _LINES
        rng = random.Random(5)
        starts = [rng.randint(1, last) for _ in range(lab.sizes.reads)]
        await bag.read(handle, lines=(1, 1))
        descriptor = os.open(stored_path(bag, facts), os.O_RDONLY)
        try:
            watch = Watch()
            whole: list[float] = []
            bounded: list[float] = []
            floor: list[float] = []
            for start in starts:
                at = (await bag.fetch.find(handle, lines=(start, start))).bytes.start
                floor.append(await seconds_of_a_block(descriptor, at))
                asked = (start, start + _LINES - 1)
                whole.append(await _seconds(lambda asked=asked: bag.read(handle, lines=asked, bounded=False)))
            for start in starts[: len(starts) // 3]:
                asked = (start, start + _LINES - 1)
                bounded.append(await _seconds(lambda asked=asked: bag.read(handle, lines=asked)))
            others = watch.others()
        finally:
            os.close(descriptor)
    base = statistics.median(floor)
    return Measured(
        [
            Row(
                "read", "200 lines anywhere in 1 GB", statistics.median(whole), "ms", base,
                Gate(3.5), others=others, more={"p99_seconds": statistics.quantiles(whole, n=100)[98]},
            ),
            Row("read", "the same, cut to an answer", statistics.median(bounded), "ms", base, Gate(50.0),
                others=others),
        ]
    )  # fmt: skip


async def extra(lab: Lab) -> Measured:
    """Without a gate: what else is asked of a large output."""
    rows: list[Row] = []
    async with lab.kept(lab.log(), Estimate()) as (bag, facts):
        path = stored_path(bag, facts)
        contestants = {"ours": timed(lambda: _drain(bag, facts)), "floor": timed_call(lambda: _drain_file(path))}
        found = await compare(contestants, rounds=min(3, lab.sizes.rounds), patience=lab.patience, warm=False)
        case = "cat, all of 1 GB, checked"
        rows.append(
            Row("extra", case, found.median("ours"), "s", found.median("floor"), others=found.others,
                notes="floor: read() in pieces of a megabyte")
        )  # fmt: skip
        tail = [await _seconds(lambda: bag.tail(facts.handle)) for _ in range(lab.sizes.reads)]
        rows.append(Row("extra", "tail of 1 GB", statistics.median(tail), "ms"))
    async with lab.kept(lab.document(), Estimate()) as (bag, facts):
        every = await _seconds(lambda: bag.query(facts.handle, path="$[*].user.name"))
        loads = await _seconds(lambda: asyncio.to_thread(lambda: json.loads(lab.document().read_bytes())))
        rows.append(
            Row("extra", "JSONPath $[*].user.name over 100 MB", every, "s", loads, Gate(3.0), notes="floor: json.loads")
        )
    return Measured(rows)


async def seconds_of_a_block(descriptor: int, at: int) -> float:
    """The floor: 64 KiB read in a thread, so that the loop is not held up, checked, decoded and cut into lines."""

    def block() -> list[str]:
        data = os.pread(descriptor, _BLOCK, at - at % _BLOCK)
        zlib.crc32(data)
        return data.decode("utf-8", "replace").split("\n")

    return await _seconds(lambda: asyncio.to_thread(block))


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    return await timed(work)()


async def _drain(bag: Holdall, facts: Facts) -> None:
    async for _ in bag.fetch.stream(facts.handle):
        pass


def _drain_file(path: str) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(1024 * 1024):
            pass
