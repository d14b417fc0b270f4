"""`./dev bench answers`: its options, and what it does with them."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from bench.answers import report
from bench.answers.measuring import measure
from bench.answers.tasks import NoTasks, load
from bench.lab import ROOT
from bench.report import say

HELP = "what a model has seen of what a question needs, and the tokens that it cost, as in docs/benchmarks.md"
TASKS = ROOT.parent / "shared" / "bench"


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--tasks", default=str(TASKS), metavar="DIR", help="outputs and questions (../shared/bench)")
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for the results")
    one.add_argument("--publish", action="store_true", help="write docs/benchmarks.md, its plot and its figures anew")


def main(options: argparse.Namespace) -> int:
    folder = Path(options.tasks)
    try:
        collection = load(folder)
    except NoTasks as problem:
        print(f"bench: answers skipped: {problem}. They lie in ../shared/bench; --tasks DIR names another folder.")
        return 0
    with tempfile.TemporaryDirectory(prefix="holdall-answers-") as home:
        outcome = asyncio.run(measure(collection, Path(home), say))
    print(report.table(outcome))
    for one in outcome.missed:
        print(f"missed: {one.task} ({one.type}), {one.tokens} tokens", *one.calls, sep="\n  ", file=sys.stderr)
    report.write(outcome, Path(options.out).absolute())
    if options.publish:
        report.publish(outcome, ROOT / "docs")
    broken = [aim for aim in report.aims(outcome) if not aim.reached]
    for aim in broken:
        say(f"FAILED {aim.what}: {aim.measured}")
    return 1 if broken else 0
