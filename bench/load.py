"""One store that grows, one process with very many conversations, one output that grows: what more of it costs.

A tenth of the outputs is in one session, the others are in sessions of ninety. Times are of the processor, which others
on the machine disturb least; memory is what one such action adds to a fresh process.

python -m bench.load fill HOME FIRST SESSIONS LARGE   a process that keeps outputs
python -m bench.load act HOME NAME                    a process that does one thing to the store
python -m bench.load talk HOME COUNT OPEN             a process with so many conversations, of which OPEN may stay open
python -m bench.load large HOME FILE TIMES NAME       a process that keeps a file so many times over as one output, or
                                                      does one thing to that output
    the last three print JSON
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from bench import data, machine
from bench.jobs.viewer import running
from bench.lab import ROOT

if TYPE_CHECKING:
    from holdall import Holdall

HELP = "one store from a thousand outputs on, one process with 10,000 conversations, one output of up to 10 GB"
PARTS = ("store", "conversations", "output")
STEPS = (1_000, 10_000, 100_000, 1_000_000)
CONVERSATIONS = 10_000
BLOCK, REPEATED = 10_000_000, (1, 10, 100, 1_000)  # bytes of the output that grows
PROCESSES = 2
SMALL = 90  # outputs of a usual session: a million are in 10,000
ROUNDS = {"keep one": 15, "read one": 15, "grep one": 15, "gc": 1, "gc, dry": 1}
OFTEN = 3  # of all others
LARGE_READS = 50
_BEGIN, _END = "<!-- load: begin -->", "<!-- load: end -->"
_LARGE = "the large session"


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    one.add_argument("--steps", default="", metavar="N,N", help="outputs in the store (1000,10000,100000,1000000)")
    one.add_argument("--only", action="append", choices=PARTS, help="a part of it; the others stay as published")
    one.add_argument("--conversations", type=int, default=CONVERSATIONS, metavar="N", help="in one process (10,000)")
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for the store and the figures")
    one.add_argument("--publish", action="store_true", help="write the tables in docs/benchmarks.md anew")


def main(options: argparse.Namespace) -> int:
    steps = [20, 40] if options.quick else [int(one) for one in options.steps.split(",") if one] or list(STEPS)
    talks = 30 if options.quick else options.conversations
    block, repeated = (100_000, (1, 3)) if options.quick else (BLOCK, REPEATED)
    parts = options.only or PARTS
    out, published = Path(options.out), ROOT / "docs" / "benchmarks" / "load.json"
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(published.read_text("utf-8")) if options.only else {}
    found["machine"] = machine.facts()
    with tempfile.TemporaryDirectory(dir=out, prefix="load-") as folder:
        if "store" in parts:
            found |= {"steps": steps, "store": _grown(Path(folder) / "home", steps)}
        if "conversations" in parts:
            found["conversations"] = [
                _said("talk", f"{folder}/talk-{count}", str(count), str(most))
                for count, most in ((talks, 64), (talks // 10, talks // 10))
            ]
        if "output" in parts:
            found["output"] = _larger(Path(folder), block, repeated)
    (out / "load.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    text = markdown(found)
    print(text)
    if options.publish:
        page = ROOT / "docs" / "benchmarks.md"
        after, count = re.subn(
            f"{_BEGIN}.*?{_END}", lambda _: f"{_BEGIN}\n{text}\n{_END}", page.read_text("utf-8"), flags=re.DOTALL
        )
        assert count == 1, f"{page.name} has no place for the tables"
        page.write_text(after, encoding="utf-8")
        published.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def markdown(found: Mapping[str, Any]) -> str:
    """Seconds and bytes of the first step, and of the others how many times as much."""
    here = found["machine"]
    lines = [
        f"Measured on {here['date']}: {here['cores']} cores of {here['cpu']}, Python {here['python']}.", "",
        *_table("outputs", [f"{step:,}" for step in found["steps"]], found["store"]),
    ]  # fmt: skip
    heads = "conversations | may stay open | each | first tenth | last tenth | memory of each | descriptors"
    lines += ["", f"| {heads} |", f"|{'---:|' * len(heads.split(' | '))}"]
    lines += [
        f"| {one['count']:,} | {one['open']:,} | {1000 * one['each']:.2f} ms | {1000 * one['first']:.2f} ms | "
        f"{1000 * one['last']:.2f} ms | {one['bytes'] / 1000:.1f} kB | {one['descriptors']:,} |"
        for one in found["conversations"]
    ]
    lines += ["", *_table("one output", [f"{size / 1e6:,.0f} MB" for size in found["output"]["sizes"]],
                          found["output"]["acts"])]  # fmt: skip
    return "\n".join(lines)


def _table(what: str, heads: Sequence[str], rows: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    lines = [f"| {what} |" + "".join(f" {head} | memory |" for head in heads), "|---|" + "---:|---:|" * len(heads)]
    for name, figures in rows.items():
        first = figures[0]
        cells = f"| {name} | {1000 * first['seconds']:.3g} ms | {first['growth'] / 1e6:.1f} MB |"
        for one in figures[1:]:
            times = one["seconds"] / max(1e-9, first["seconds"])
            cells += f" {times:.1f} × | {one['growth'] / 1e6:.1f} MB |"
        lines.append(cells)
    return lines


def _grown(home: Path, steps: Sequence[int]) -> dict[str, list[dict[str, float]]]:
    figures: dict[str, list[dict[str, float]]] = {}
    sessions = large = 0
    for step in steps:
        began = time.perf_counter()
        more_sessions, more_large = (step - step // 10) // SMALL - sessions, step // 10 - large
        share = -(-more_sessions // PROCESSES)
        workers = [
            _started("fill", str(home), str(sessions + at * share), str(min(share, more_sessions - at * share)),
                     str(more_large if at == 0 else 0))
            for at in range(PROCESSES)
        ]  # fmt: skip
        for worker in workers:
            worker.communicate()
            assert worker.returncode == 0
        sessions, large = sessions + more_sessions, large + more_large
        print(f"bench: {step:,} outputs, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        for name in ACTS:
            one = _said("act", str(home), name)
            figures.setdefault(name, []).append(one)
            print(f"bench: {name}: {one['seconds']:.6f} s, {one['growth'] / 1e6:.1f} MB", file=sys.stderr, flush=True)
        figures.setdefault("first page of the viewer", []).append(_page(home))
    return figures


def _larger(folder: Path, block: int, repeated: Sequence[int]) -> dict[str, Any]:
    """One output of JSON lines: the same block, again and again."""
    file = data.make(folder, "records", data.json_items, block)
    acts: dict[str, list[dict[str, float]]] = {}
    for times in repeated:
        for name in LARGE:
            one = _said("large", str(folder / f"large-{times}"), str(file), str(times), name)
            acts.setdefault(name, []).append(one)
            told = f"{file.stat().st_size * times / 1e6:,.0f} MB, {name}: {one['seconds']:.4f} s"
            print(f"bench: {told}, {one['growth'] / 1e6:.1f} MB", file=sys.stderr, flush=True)
        shutil.rmtree(folder / f"large-{times}")
    return {"sizes": [file.stat().st_size * times for times in repeated], "acts": acts}


def _started(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-m", "bench.load", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _said(*words: str) -> dict[str, float]:
    process = _started(*words)
    told, _ = process.communicate()
    assert process.returncode == 0, words
    return json.loads(told)


def _page(home: Path) -> dict[str, float]:
    """Of a viewer that has just started, until its first page is there."""
    with running(home) as page:
        before, used = machine.resident_bytes(page.pid), machine.used_seconds(page.pid)
        page("/")
        return {
            "seconds": machine.used_seconds(page.pid) - used,
            "growth": machine.highest_resident_bytes(page.pid) - before,
        }


# The processes


def _at_once(_descriptor: int) -> None:
    """In place of the wait for the disk: what is measured is what comes after."""


def _text(name: str) -> str:
    return "".join(f"{name} line {number}\n" for number in range(40))


async def fill(home: str, first: int, sessions: int, large: int) -> None:
    """As programs do it, but without waiting for the disk."""
    from holdall import Sessions

    with mock.patch("os.fsync", new=_at_once):
        async with Sessions.open(home=home) as pool:
            for number in range(first, first + sessions):
                async with pool.of(f"conversation {number}") as bag:
                    for at in range(SMALL):
                        await bag.keep(_text(f"{number} {at}"), tool=f"tool_{at}")
            async with pool.of(_LARGE) as bag:
                for at in range(large):
                    await bag.keep(_text(f"{_LARGE} {first} {at}"), tool="fetch")


Act = Callable[[], Awaitable[object]]


class _Acts:
    """What is done to a store: each once in a process of its own, `ROUNDS` times in a row."""

    def __init__(self, home: str) -> None:
        self._home = home

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[Act]:
        async def one() -> None:
            async with self.bag():
                pass

        yield one

    @contextlib.asynccontextmanager
    async def sessions_page(self) -> AsyncGenerator[Act]:
        from holdall.bag.overview import Overview

        overview = Overview(self._home)

        async def one() -> None:
            overview.page()

        yield one
        overview.close()

    @contextlib.asynccontextmanager
    async def sessions_all(self) -> AsyncGenerator[Act]:
        async with self.bag() as bag:
            yield bag.care.sessions

    @contextlib.asynccontextmanager
    async def outputs(self) -> AsyncGenerator[Act]:
        async with self.bag() as bag:
            yield bag.outputs

    @contextlib.asynccontextmanager
    async def keep(self) -> AsyncGenerator[Act]:
        async with self.bag() as bag:
            yield lambda: bag.keep(_text(str(time.time_ns())), tool="fetch")

    @contextlib.asynccontextmanager
    async def read(self) -> AsyncGenerator[Act]:
        async with self.bag() as bag:
            kept = await bag.keep(_text(str(time.time_ns())))
            yield lambda: bag.read(kept.handle)

    @contextlib.asynccontextmanager
    async def grep(self) -> AsyncGenerator[Act]:
        async with self.bag() as bag:
            kept = await bag.keep(_text(str(time.time_ns())))
            yield lambda: bag.grep(kept.handle, "line 1.")

    @contextlib.asynccontextmanager
    async def dry(self) -> AsyncGenerator[Act]:
        from holdall.bag import Care
        from holdall.values.settings import Settings

        with Care.of(self._home, Settings()) as care:
            yield lambda: care.sweep(dry_run=True)

    @contextlib.asynccontextmanager
    async def sweep(self) -> AsyncGenerator[Act]:
        from holdall.bag import Care
        from holdall.values.settings import Settings

        with Care.of(self._home, Settings()) as care:
            yield care.sweep

    def bag(self) -> "Holdall":
        from holdall import Holdall

        return Holdall.open(home=self._home, session=_LARGE)


ACTS: dict[str, Callable[[_Acts], contextlib.AbstractAsyncContextManager[Act]]] = {
    "open the store and a session": _Acts.open, "keep one": _Acts.keep, "read one": _Acts.read, "grep one": _Acts.grep,
    "a page of the sessions": _Acts.sessions_page, "all sessions": _Acts.sessions_all,
    "all outputs of a session with a tenth": _Acts.outputs, "gc, dry": _Acts.dry, "gc": _Acts.sweep,
}  # fmt: skip


async def act(home: str, name: str) -> dict[str, float]:
    from holdall.text.tokens import tokenizer_named
    from holdall.values.settings import Settings

    tokenizer_named(Settings().tokenizer).count("The vocabulary and imports are none of it.")
    async with _Acts(home).bag() as bag:
        await bag.read((await bag.keep("so are they")).handle)
    seconds: list[float] = []
    machine.forget_highest()
    before = machine.resident_bytes()
    async with ACTS[name](_Acts(home)) as one:
        for _ in range(ROUNDS.get(name, OFTEN)):
            used = time.process_time()
            await one()
            seconds.append(time.process_time() - used)
    return {"seconds": statistics.median(seconds), "growth": machine.highest_resident_bytes() - before}


async def _keep_large(bag: "Holdall", file: str, times: int) -> int:
    def chunks() -> Iterator[bytes]:
        for _ in range(times):
            with open(file, "rb") as source:
                yield from iter(lambda: source.read(1 << 20), b"")

    await bag.keep(chunks(), tool="fetch")
    return 1


async def _grep_large(bag: "Holdall", _file: str, _times: int) -> int:
    found = await bag.grep((await bag.outputs())[0].handle, '"id":77,', count=True)
    assert found
    return 1


async def _query_large(bag: "Holdall", _file: str, _times: int) -> int:
    query = "SELECT status, count(*), avg(took_ms) FROM t GROUP BY status"
    assert await bag.query((await bag.outputs())[0].handle, query)
    return 1


async def _read_large(bag: "Holdall", _file: str, _times: int) -> int:
    facts = (await bag.outputs())[0]
    rng = random.Random(1)
    for _ in range(LARGE_READS):
        start = rng.randint(1, facts.measure.lines - 200)
        await bag.read(facts.handle, lines=(start, start + 199), bounded=False)
    return LARGE_READS


LARGE: dict[str, Callable[["Holdall", str, int], Awaitable[int]]] = {
    "keep it, the disk included": _keep_large, "count the matches in it": _grep_large,
    "SQL over all of it": _query_large, "200 lines anywhere in it": _read_large,
}  # fmt: skip


async def large(home: str, file: str, times: int, name: str) -> dict[str, float]:
    """By the clock. The memory of the processes that it starts is part of it, their view of files is not."""
    from holdall import Holdall
    from holdall.text.tokens import Estimate
    from holdall.values.settings import Settings

    settings = Settings(query_seconds=3600)
    async with Holdall.open(home=home, session=_LARGE, settings=settings, tokenizer=Estimate()) as bag:
        with machine.memory_of_family() as taken:
            began = time.perf_counter()
            count = await LARGE[name](bag, file, times)
            seconds = time.perf_counter() - began
    return {"seconds": seconds / count, "growth": taken.growth}


async def talk(home: str, count: int, most: int) -> dict[str, float]:
    """Each conversation keeps an output and reads it."""
    from holdall import Sessions

    times: list[float] = []
    tenth = max(1, count // 10)
    before = 0
    with mock.patch("os.fsync", new=_at_once):
        async with Sessions.open(home=home, max_open=most) as pool:
            for number in range(count):
                began = time.process_time()
                async with pool.of(f"conversation {number}") as bag:
                    kept = await bag.keep(_text(str(number)))
                    await bag.read(kept.handle)
                times.append(time.process_time() - began)
                if number + 1 == tenth:
                    before = machine.resident_bytes()
            grown, descriptors = machine.resident_bytes() - before, len(os.listdir("/proc/self/fd"))
    return {
        "count": count, "open": most, "each": statistics.mean(times), "first": statistics.mean(times[:tenth]),
        "last": statistics.mean(times[-tenth:]), "bytes": grown / max(1, count - tenth), "descriptors": descriptors,
    }  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", home, *numbers]:
            asyncio.run(fill(home, *map(int, numbers)))
        case ["act", home, name]:
            print(json.dumps(asyncio.run(act(home, name))))
        case ["large", home, file, times, name]:
            print(json.dumps(asyncio.run(large(home, file, int(times), name))))
        case ["talk", home, count, most]:
            print(json.dumps(asyncio.run(talk(home, int(count), int(most)))))
        case _:
            sys.exit(__doc__)
