"""Keeping: a gigabyte of log lines from a pipe, and many small outputs, by one process and by eight."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.lab import ROOT, Lab, holdall_command
from bench.machine import Watch
from bench.result import Gate, Measured, Row
from bench.rounds import Compared, Timed, compare, percentile
from holdall.bag import Holdall
from holdall.text.o200k import O200k
from holdall.text.tokens import Estimate

_MAX_GROWTH = 32_000_000
_PUT = (
    "0.4 s are the start of the command, 0.07 of it the vocabulary; of a gigabyte, sha256 takes 0.64 s, measuring "
    "0.67 s, pipe and write 1.4 s."
)
_SMALL = (
    "three fsyncs (bytes, record, folder) where the floor has two. Of 100 KB, measuring takes 1.0 ms (its kind 0.44, "
    "tokens 0.36, longest line 0.11), the index 0.25, record and link 0.16; of 2 KB, the index 0.24, the record 0.16, "
    "measuring 0.15. Where an fsync takes milliseconds, as on most disks, these are little beside it."
)
_EIGHT = "eight processes share two cores, and take turns at the lock of the session and at its index."


async def ingest(lab: Lab) -> Measured:
    """Wall clock, as a share of the speed of one thread that writes and hashes the same bytes, fsync on both sides."""
    log, equal = lab.log(), lab.equal()
    growth: dict[str, list[float]] = {}
    cpu: dict[str, list[float]] = {}

    def run(name: str, work: Callable[[Path], dict[str, float]]) -> Timed:
        async def once() -> float:
            with lab.scratch() as folder:
                found = work(folder)
            growth.setdefault(name, []).append(found["growth"])
            cpu.setdefault(name, []).append(found["cpu"])
            return found["seconds"]

        return once

    ours = {
        "keep": run("keep", lambda folder: _keep(folder, log, "estimate")),
        "floor": run("floor", lambda folder: _child("floor", str(folder), str(log))),
        "put": run("put", lambda folder: _put(folder, log)),
    }
    rare = {
        "o200k": run("o200k", lambda folder: _keep(folder, log, "o200k")),
        "equal": run("equal", lambda folder: _keep(folder, equal, "estimate")),
    }
    found = await compare(ours, rounds=lab.sizes.rounds, patience=lab.patience, seconds=70, warm=False)
    also = await compare(
        {"floor": ours["floor"], **rare}, rounds=min(3, lab.sizes.rounds), patience=lab.patience, warm=False
    )

    def row(case: str, name: str, measured: Compared, gate: Gate | None = None) -> Row:
        spent = {"cpu_seconds": min(cpu[name]), "floor_cpu_seconds": min(cpu["floor"])}
        return Row(
            "ingest", case, measured.median(name), "s", measured.median("floor"), gate,
            inverse=True, others=measured.others, more=spent,
        )  # fmt: skip

    def memory(case: str, name: str) -> Row:
        return Row("ingest", case, max(growth[name]), "bytes", gate=Gate(_MAX_GROWTH, "figure"))

    share = Gate(0.75, side="least")
    return Measured(
        [
            row("1 GB log from a pipe, keep()", "keep", found, share),
            row("the same, `holdall put`", "put", found, Gate(0.9, side="least", left=_PUT)),
            Row("ingest", "the same, processor time", min(cpu["put"]), "s", min(cpu["floor"]), Gate(2.0, left=_PUT)),
            row("the same, tokens by o200k", "o200k", also),
            row("1 GB of equal lines, keep()", "equal", also),
            memory("memory growth, estimate", "keep"),
            memory("memory growth, o200k", "o200k"),
        ]
    )


async def small(lab: Lab) -> Measured:
    """Each output durable before the next begins. The floor is what a careful script does for one: write, fsync,
    rename, fsync of the folder.
    """
    rows: list[Row] = []
    for size, label in ((100_000, "100 KB"), (2_000, "2 KB")):
        outputs = _outputs(lab.log(), size, lab.sizes.small_outputs)
        times: dict[str, list[float]] = {"estimate": [], "o200k": [], "plain": []}
        with lab.scratch() as plain:
            async with lab.bag(Estimate()) as estimate, lab.bag(O200k()) as o200k:
                await o200k.keep("the vocabulary is loaded and the folders are there")
                await estimate.keep("the same")
                watch = Watch()
                for number, output in enumerate(outputs):
                    times["estimate"].append(await _kept(estimate, output))
                    times["plain"].append(_plain(plain / str(number), output))
                    times["o200k"].append(await _kept(o200k, output))
                others = watch.others()
        for name, share in itertools.product(("estimate", "o200k"), (0.5, 0.99)):
            figure, floor = percentile(times[name], share), percentile(times["plain"], share)
            gate = Gate(2.5, left=_SMALL) if (name, share) == ("estimate", 0.5) else None
            case = f"{label}, fsync, {name}, p{share * 100:.0f}"
            rows.append(Row("small", case, figure, "ms", floor, gate, others=others))
    return Measured([*rows, *await _side_by_side(lab)])


_PROCESSES = 8


async def _side_by_side(lab: Lab) -> list[Row]:
    """2 KB each into one session, by one process and by eight: seconds for an output, by the clock."""
    number = lab.sizes.small_outputs

    def run(processes: int) -> Timed:
        async def once() -> float:
            with lab.scratch() as folder:
                return max(_children(processes, str(folder / "home"), number)) / (number * processes)

        return once

    contestants = {"one": run(1), "eight": run(_PROCESSES)}
    found = await compare(contestants, rounds=min(3, lab.sizes.rounds), patience=lab.patience, warm=False)
    case = f"2 KB by {_PROCESSES} processes into one session, an output"
    return [
        Row(
            "small", case, found.median("eight"), "ms", found.median("one"), Gate(1.0, left=_EIGHT), others=found.others
        )
    ]


def _children(processes: int, home: str, number: int) -> list[float]:
    """What each took for `number` outputs; they begin together, when all are ready."""
    command = [sys.executable, "-m", "bench.ingester", "many", home, str(number)]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for one in started:
        assert one.stdout is not None
        one.stdout.readline()
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return [float(json.loads(one.communicate()[0])["seconds"]) for one in started]


def _outputs(file: Path, size: int, number: int) -> list[bytes]:
    with open(file, "rb") as source:
        return [source.read(size) for _ in range(number)]


async def _kept(bag: Holdall, output: bytes) -> float:
    started = time.perf_counter()
    await bag.keep(output)
    return time.perf_counter() - started


def _plain(target: Path, output: bytes) -> float:
    started = time.perf_counter()
    with open(f"{target}.part", "xb", buffering=0) as file:
        file.write(output)
        os.fsync(file.fileno())
    os.rename(f"{target}.part", target)
    folder = os.open(target.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    return time.perf_counter() - started


def _keep(folder: Path, file: Path, tokenizer: str) -> dict[str, float]:
    found = _child("keep", str(folder / "home"), tokenizer, piped=file)
    if found["bytes"] != file.stat().st_size:
        raise AssertionError("what was kept is not what was piped")
    return found


def _child(*arguments: str, piped: Path | None = None) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.ingester", *arguments]
    found: dict[str, float] = json.loads(_run(command, piped))
    return found


def _put(folder: Path, file: Path) -> dict[str, float]:
    """The command as a person types it, from its start to its end."""
    command = [*holdall_command(), "put", "--json", "--home", str(folder / "home")]
    before, started = os.times(), time.perf_counter()
    _run(command, file)
    seconds, after = time.perf_counter() - started, os.times()
    # `cat` is among the children: its part is the same in every round.
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": seconds, "cpu": used, "growth": 0}


def _run(command: list[str], piped: Path | None) -> bytes:
    if piped is None:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with subprocess.Popen(["cat", str(piped)], stdout=subprocess.PIPE) as cat:
        return subprocess.run(command, cwd=ROOT, stdin=cat.stdout, stdout=subprocess.PIPE, check=True).stdout
