"""What Holdall adds to the time of a model: the wait of many calls side by side, processor time, memory."""

import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench import data, report
from bench.extract.reader import Reader
from bench.lab import MB, ROOT, Lab
from bench.machine import Watch
from bench.result import Gate, Measured, Row
from bench.rounds import Compared, Turn
from holdall.bag import Holdall
from holdall.extract.model_calls import Progress
from holdall.llm.scripted import ScriptedModel
from holdall.policy.route import Ceiling
from holdall.text.tokens import Estimate
from holdall.values.extraction import Extraction
from holdall.values.outputs import Facts

AT_ONCE = 8  # calls side by side: the setting's default
_CHUNK_BYTES = 51_000  # of the log: 25,000 tokens with what neighbours share
_OVERLAP = 0.1
_WINDOW = 1_000_000  # tokens, where memory is measured
_MAX_WAIT, _MAX_CPU, _MAX_GROWTH = 1.2, 5e-3, 1.5


@dataclass(frozen=True, slots=True)
class Sizes:
    chunks: int
    latency: float  # seconds
    rounds: int


FULL = Sizes(chunks=64, latency=0.2, rounds=7)
QUICK = Sizes(chunks=16, latency=0.02, rounds=1)


@dataclass(frozen=True, slots=True)
class _Run:
    read: Turn  # until the last chunk was read
    whole: Turn
    cpu: float  # seconds of processor, the model's own left out
    reduced: int
    found: Extraction


async def work(lab: Lab, sizes: Sizes) -> Measured:
    rows = await _asked(lab, sizes)
    report.say(f"extract: {lab.sizes.log / MB:,.0f} MB …")
    return Measured([*rows, *_memory(lab)])


async def _asked(lab: Lab, sizes: Sizes) -> list[Row]:
    """The waits as everything is compared, by the quiet turns; the least processor time, for whatever disturbs that
    only makes it longer."""
    # Of equal lines: where some are much denser than others a chunk is divided, and there is one more.
    text = data.make(lab.folder / "data", "equal", data.equal_lines, _CHUNK_BYTES * sizes.chunks).read_bytes()
    runs: dict[int, list[_Run]] = {0: [], 1: []}
    async with lab.bag(Estimate()) as bag:
        facts = await bag.keep(text)
        window = await _window(bag, facts, sizes.chunks)
        await _once(bag, facts, Reader(window=window), "warm")
        for round_ in range(sizes.rounds):
            lab.patience.wait()
            for changed, done in runs.items():
                reader = Reader(window=window, latency=sizes.latency, changed=changed)
                done.append(await _once(bag, facts, reader, f"{round_}, {changed} changed"))
    _check(runs, sizes.chunks)
    same = runs[0]
    waits = Compared({"read": [run.read for run in same], "whole": [run.whole for run in same]})
    waves = math.ceil(sizes.chunks / AT_ONCE) * sizes.latency
    summed = waves + sizes.latency * min(2, same[0].reduced)  # one call, or a tree of two steps

    def cpu(changed: int) -> float:
        return min(run.cpu for run in runs[changed]) / sizes.chunks

    case = f"{sizes.chunks} chunks, {AT_ONCE} at once"
    tokens = round(facts.measure.tokens / sizes.chunks / (1 - _OVERLAP) / 1000)
    others = waits.others
    return [
        Row("extract", f"{case}, all read", waits.median("read"), "s", waves, Gate(_MAX_WAIT), others=others),
        Row("extract", "the same, summed up", waits.median("whole"), "s", summed, others=others),
        Row("extract", f"CPU, chunk of {tokens}k tokens, 5 quotes", cpu(0), "ms", gate=Gate(_MAX_CPU, "figure"),
            others=others),
        Row("extract", "the same, one quote changed", cpu(1), "ms", others=others),
    ]  # fmt: skip


async def _window(bag: Holdall, facts: Facts, chunks: int) -> int:
    """The least window with which the output is so many chunks, and a little more for questions of other lengths."""
    low, high = 3_000, 1_000_000
    while low < high:
        middle = (low + high) // 2
        model = ScriptedModel([], window=middle, max_output=2_000, keeps_schema=True)
        plan = await bag.preview.forecast(facts.handle, "Which?", mode="full-chunked", model=model)
        low, high = (middle + 1, high) if plan.chunks > chunks else (low, middle)
    return low + 200


async def _once(bag: Holdall, facts: Facts, reader: Reader, question: str) -> _Run:
    """A question that was not asked before: nothing is answered from what is known."""
    busy, started, used = Watch(), time.perf_counter(), time.process_time()
    read = started

    def watch(progress: Progress) -> None:
        nonlocal read
        if progress.done == progress.total:
            read = time.perf_counter()

    found = await bag.extract(
        facts.handle, f"What is there? ({question})", mode="full-chunked", model=reader.model, ceiling=Ceiling(),
        watch=watch,
    )  # fmt: skip
    cpu, seconds, others = time.process_time() - used - reader.own, time.perf_counter() - started, busy.others()
    return _Run(Turn(read - started, others), Turn(seconds, others), cpu, reader.reduced, found)


def _check(runs: dict[int, list[_Run]], chunks: int) -> None:
    """A benchmark of something that does not work says nothing."""
    for changed, done in runs.items():
        for run in done:
            verified = [snippet.verified for snippet in run.found.snippets]
            if run.found.chunks_searched != chunks or all(verified) != (not changed) or len(verified) < 3 * chunks:
                raise AssertionError(f"{run.found.chunks_searched} chunks, {sum(verified)} of {len(verified)} verified")


def _memory(lab: Lab) -> list[Row]:
    """The growth over an output, beside that over a tenth of it: what is held is a few chunks, and what was found."""
    size = lab.sizes.log
    tenth = _child(lab, data.make(lab.folder / "data", "log", data.log_lines, size // 10))
    whole = _child(lab, lab.log())
    case = f"{size / MB:,.0f} MB in {whole['chunks']:.0f} chunks"
    gate = Gate(_MAX_GROWTH)
    return [
        Row("extract", f"memory growth, {case}", whole["growth"], "bytes", tenth["growth"], gate),
        Row("extract", "time of ours for that", whole["seconds"], "s"),
    ]


def _child(lab: Lab, file: Path) -> dict[str, float]:
    with lab.scratch() as home:
        command = [sys.executable, "-m", "bench.extract.child", str(home / "home"), str(file), str(_WINDOW)]
        printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(printed)
    return found
