"""`./dev bench extract`: its options, and what it does with them."""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.answers.clamps import tokens_in
from bench.answers.command import TASKS
from bench.answers.tasks import Collection, NoTasks, load
from bench.extract import report, work
from bench.extract.asking import Asking, Outcome
from bench.extract.cuts import cuts
from bench.lab import FULL, QUICK, ROOT, Lab, NotEnoughRoom
from bench.machine import Patience, Watch
from bench.report import header, line, say
from holdall.llm.model_names import model_named
from holdall.llm.protocol import Model
from holdall.values.errors import HoldallError

HELP = "what a question about an output costs, and what a real model answers, as in docs/benchmarks.md"
KIND = "needle"
SIZE, WINDOW = 4_000, 2_048  # bytes of a cut, tokens of a small model's window
_PATIENCE = 60.0  # seconds that a run waits for quiet at most
_BEST_FIRST = ("0.5b", "1.5b", "135m")  # of those on the disk: good enough to answer, fast enough to wait for


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--only", choices=["work", "answers"], help="one half: without a real model, or with one")
    one.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, judges nothing")
    one.add_argument("--model", metavar="NAME", help="as in the settings; else a GGUF file of .dev/models")
    one.add_argument("--window", type=int, metavar="TOKENS", help=f"of the model; {WINDOW} for a file")
    one.add_argument("--mode", default="full-chunked", choices=["auto", "full-chunked", "read-grep"])
    one.add_argument("--tasks", type=int, metavar="N", help="at most so many questions")
    one.add_argument("--size", type=int, default=SIZE, metavar="BYTES", help=f"that it reads of an output ({SIZE})")
    one.add_argument("--data", default=str(TASKS), metavar="DIR", help="outputs and questions (../shared/bench)")
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for data and results")
    one.add_argument("--publish", action="store_true", help=f"write the tables of docs/{report.PAGE} anew")


def main(options: argparse.Namespace) -> int:
    if options.publish and (options.quick or options.tasks is not None):
        print("bench: only a full run is published: leave out --quick and --tasks.", file=sys.stderr)
        return 2
    try:
        failed = _work(options) if options.only != "answers" else 0
        return (_answers(options) if options.only != "work" else 0) or failed
    except (NotEnoughRoom, HoldallError) as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 2


def _work(options: argparse.Namespace) -> int:
    quick: bool = options.quick
    sizes = replace(QUICK if quick else FULL, line=0, records=0, document=0)
    lab = Lab(Path(options.out).absolute(), sizes, Patience(0 if quick else _PATIENCE))
    lab.check_room()
    started = time.perf_counter()
    rows = asyncio.run(work.work(lab, work.QUICK if quick else work.FULL)).rows
    seconds = time.perf_counter() - started
    print(header())
    for row in rows:
        print(line(row, judged=not quick))
    report.write_work(rows, seconds, lab.folder, judged=not quick)
    if options.publish:
        report.publish_work(rows, seconds, ROOT / "docs")
    broken = [row for row in rows if not quick and row.verdict == "fail"]
    for row in broken:
        say(f"FAILED {row.case}")
    return 1 if broken else 0


def _answers(options: argparse.Namespace) -> int:
    try:
        collection = load(Path(options.data))
    except NoTasks as problem:
        print(f"bench: answers skipped: {problem}. They lie in ../shared/bench; --data DIR names another folder.")
        return 0
    model = chosen(options.model, options.window)
    if model is None:
        print("bench: answers skipped: no model in .dev/models ($HOLDALL_MODELS); --model NAME names one.")
        return 0
    with tempfile.TemporaryDirectory(prefix="holdall-extract-") as home:
        outcome = asyncio.run(_asked(collection, model, Path(home), options))
    print(report.terminal(report.ways(outcome)))
    print(report.terminal(report.spent(outcome.asked)))
    report.write_answers(outcome, Path(options.out).absolute())
    if options.publish:
        report.publish_answers(outcome, ROOT / "docs")
    return 0


async def _asked(collection: Collection, model: Model, home: Path, options: argparse.Namespace) -> Outcome:
    parts = cuts(collection, KIND, options.size)
    watch, started = Watch(), time.perf_counter()
    asking = Asking(collection, model, options.mode, home, say)
    try:
        await asking.all(parts, options.tasks)
    finally:
        await model.close()
    asked = {one.task for one in asking.asked}
    used = [part for part in parts if any(task.id in asked for task in part.tasks)]
    there = {task.id for part in parts for task in part.tasks}
    return Outcome(
        model=Path(model.name.partition("?")[0]).name, window=model.window, size=options.size, asked=asking.asked,
        others=asking.others,
        left_out=[one.id for one in collection.tasks if one.type == KIND and one.id not in there],
        bytes_cut=sum(len(part.output.data) for part in used), bytes_whole=sum(part.whole for part in used),
        tokens_whole=sum(tokens_in(collection.outputs[part.output.id].text) for part in used),
        seconds=time.perf_counter() - started, busy=watch.others(),
    )  # fmt: skip


def chosen(name: str | None, window: int | None) -> Model | None:
    """The one that is named, else the best file that is there."""
    if name is not None:
        return model_named(name, window=window)
    folder = Path(os.environ.get("HOLDALL_MODELS") or ROOT / ".dev" / "models")
    files = sorted(folder.glob("*.gguf"))
    best = next((file for size in _BEST_FIRST for file in files if size in file.name.lower()), None)
    best = best or (files[0] if files else None)
    return None if best is None else model_named(f"gguf:{best}", window=window or WINDOW)
