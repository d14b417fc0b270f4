"""Slow calls: what the race costs a call that is not slow, ten thousand at once, and the end of one that still runs."""

import asyncio
import itertools
import math
import os
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from bench.jobs.reading import seconds_of_a_block
from bench.lab import Lab, file_of, stored_path
from bench.result import Gate, Measured, Row
from bench.rounds import percentile
from holdall.bag import Holdall
from holdall.text.tokens import Estimate
from holdall.values.events import Event
from holdall.values.outputs import Running
from holdall.values.settings import Settings

_RUN = "the event in the log takes 7 µs, the task and its turn of the loop 17, origin, sink and result 4, coroutines 3."
_BATCH = 500
_BATCHES = 20  # a batch is ten milliseconds: the best of many is one that nothing else disturbed
_MB = 1_000_000


async def slow(lab: Lab) -> Measured:
    rows = await _overhead(lab)
    rows += await _at_once(lab, 10_000 if lab.sizes.rounds > 1 else 200)
    rows.append(await _tail_of_a_running_one(lab))
    rows += await _streams(lab, 100_000 if lab.sizes.rounds > 1 else 2_000)
    return Measured(rows)


async def _streams(lab: Lab, number: int) -> list[Row]:
    """Processor seconds for many short strings of an asynchronous generator. The floor is the same of a plain one."""

    def plain() -> Iterator[str]:
        for row in range(number):
            yield f"row {row}\n"

    async def later() -> AsyncIterator[str]:
        for row in range(number):
            yield f"row {row}\n"

    async with lab.bag(Estimate()) as bag:
        ways: dict[str, tuple[Callable[[], Awaitable[object]], Callable[[], Awaitable[object]]]] = {
            "take": (lambda: bag.take(later()), lambda: bag.take(plain())),
            "run": (lambda: bag.run(later), lambda: bag.run(plain)),
        }
        rows: list[Row] = []
        for name, pair in ways.items():
            best = [math.inf, math.inf]
            for _, at in itertools.product(range(min(3, lab.sizes.rounds)), (0, 1)):
                started = time.process_time()
                await pair[at]()
                best[at] = min(best[at], time.process_time() - started)
            case = f"{number:,} short strings of an async generator, {name}()"
            rows.append(Row("slow", case, best[0], "s", best[1], Gate(3)))
    return rows


async def _overhead(lab: Lab) -> list[Row]:
    """`run` of a call that returns at once; the best of many batches. The floor is the same race with asyncio alone."""

    async def call() -> str:
        return "small"

    async def asyncio_alone() -> object:
        task = asyncio.create_task(call())
        await asyncio.wait({task}, timeout=5.0)
        return task.result()

    async with lab.bag(Estimate()) as bag:
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "floor": asyncio_alone,
            "race": lambda: bag.jobs.table.race(bag.jobs.table.dispatch("call", call, timeout=600.0), 5.0),
            "run": lambda: bag.run(call),
        }
        best = dict.fromkeys(ways, math.inf)
        for _, (name, way) in itertools.product(range(_BATCHES * lab.sizes.rounds), ways.items()):
            started = time.process_time()  # the clock would count what others do in the middle of a batch
            for _ in range(_BATCH):
                await way()
            best[name] = min(best[name], (time.process_time() - started) / _BATCH)
    floor = best["floor"]
    return [
        Row("slow", "the race alone, for a call that returns at once", best["race"], "µs", floor),
        Row("slow", "all of run() for it: raced, decided, logged", best["run"], "µs", floor, Gate(1.35, left=_RUN)),
    ]


async def _at_once(lab: Lab, number: int) -> list[Row]:
    """So many calls in the background together: what they take, and how soon anyone who listens hears of an end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # each running output is an open file
    settings = Settings(slow_after_seconds=0.0, max_background_calls=number, tokenizer="estimate")
    ended, heard = dict[str, float](), dict[str, float]()
    try:
        with lab.scratch() as home:
            async with Holdall.open(home=str(home / "home"), settings=settings) as bag:
                gate = asyncio.Event()

                async def call() -> str:
                    await gate.wait()
                    return "done"

                def note(event: Event) -> None:
                    if event.kind == "ended":
                        ended[event.handle] = time.perf_counter()

                await bag.run(call)
                before = _resident()
                for _ in range(number - 1):
                    if not isinstance(await bag.run(call, tool="t"), Running):
                        raise AssertionError("a call that does not end goes on in the background")
                grown = _resident() - before
                bag.journal.watchers[note] = lambda: False
                listening = asyncio.ensure_future(_hear(bag, number, heard))
                await asyncio.sleep(0)
                gate.set()
                await listening
                states = {facts.state for facts in await bag.outputs()}
                if len(ended) != number or states != {"ready"}:
                    raise AssertionError("a call was lost")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    late = [heard[handle] - ended[handle] for handle in ended]
    floor = await _plain_tasks(number)
    return [
        Row("slow", f"{number:,} calls at once, memory", grown, "bytes", gate=Gate(50 * _MB, "figure")),
        Row("slow", f"{number:,} ends, woken after, p99", percentile(late, 0.99), "ms", floor, Gate(0.5)),
    ]


async def _plain_tasks(number: int) -> float:
    """Seconds from the moment at which so many tasks may end to the end of the last of them."""
    gate = asyncio.Event()
    tasks = [asyncio.create_task(gate.wait()) for _ in range(number)]
    await asyncio.sleep(0)
    started = time.perf_counter()
    gate.set()
    await asyncio.gather(*tasks)
    return time.perf_counter() - started


async def _hear(bag: Holdall, number: int, heard: dict[str, float]) -> None:
    async for event in bag.jobs.events():
        if event.kind == "ended":
            heard[event.handle] = time.perf_counter()
            if len(heard) == number:
                return


async def _tail_of_a_running_one(lab: Lab) -> Row:
    """The last lines of an output that somebody still writes."""
    async with lab.bag(Estimate()) as bag:
        writer = await bag.jobs.begin(tool="t")
        line = b"2026-11-02T06:00:00Z INFO worker-3 GET /api/v2/orders/4711 status=200 took=12ms\n" * 12_500
        written = 0
        while written < lab.sizes.log:
            await asyncio.to_thread(writer.write, line)
            written += len(line)
        await bag.tail(writer.handle)
        best = floor = math.inf
        with file_of(Path(stored_path(bag, await bag.show(writer.handle)))) as file:
            for _ in range(20 * lab.sizes.rounds):
                started = time.perf_counter()
                await bag.tail(writer.handle)
                best = min(best, time.perf_counter() - started)
                floor = min(floor, await seconds_of_a_block(file.fileno(), written))
        writer.finish()
    size = f"{lab.sizes.log / _MB:,.0f} MB"
    return Row("slow", f"tail of a running output of {size}", best, "ms", floor, Gate(6.5))


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
