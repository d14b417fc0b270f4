"""`./dev bench answers`: its options, and what it does with them."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.answers import models, report, shell
from bench.answers.further import make
from bench.answers.further.outputs import RECIPES
from bench.answers.measuring import measure
from bench.answers.models import ARMS, Metered, Way
from bench.answers.tasks import Collection, NoTasks, load
from bench.lab import ROOT
from bench.report import say
from holdall.llm.catalogue import price_of
from holdall.llm.model_names import model_named
from holdall.values.errors import HoldallError

HELP = "what a model has seen of what a question needs, and the tokens that it cost, as in docs/benchmarks.md"
TASKS = ROOT.parent / "shared" / "bench"
FURTHER = ROOT / ".dev" / "bench" / "further"


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--tasks", default=str(TASKS), metavar="DIR",
        help="outputs and questions (../shared/bench); `further` makes the further ones, in .dev/bench/further",
    )  # fmt: skip
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for the results")
    one.add_argument("--publish", action="store_true", help="write docs/benchmarks.md, its plot and its figures anew")
    real = one.add_argument_group("a real model in place of the scripted searcher")
    real.add_argument("--model", metavar="NAME", help="as in the settings: provider:name, openai:NAME@URL, gguf:PATH")
    real.add_argument("--arm", choices=ARMS, default="holdall", help="what it gets of an output (holdall)")
    real.add_argument("--notice", type=int, metavar="N", help="the most tokens of a notice")
    real.add_argument("--questions", type=int, metavar="N", help="only so many, evenly spread")
    real.add_argument(
        "--max-turns", type=int, default=models.MAX_TURNS, metavar="N", help=f"of a question ({models.MAX_TURNS})"
    )
    real.add_argument("--window", type=int, metavar="TOKENS", help="of the model")
    real.add_argument("--max-tokens", type=int, default=models.TOKENS, metavar="N", help=f"ceiling ({models.TOKENS:,})")
    real.add_argument(
        "--max-cost", type=float, default=models.DOLLARS, metavar="USD", help="ceiling, where a price is known ($1)"
    )
    real.add_argument("--forecast", action="store_true", help="say what it would take, and ask nothing")
    real.add_argument("--unconfined", action="store_true", help="the arm shell: run it where it cannot be confined")


def main(options: argparse.Namespace) -> int:
    try:
        collection = _collection(options.tasks)
    except NoTasks as problem:
        print(f"bench: answers skipped: {problem}. They lie in ../shared/bench; --tasks DIR names another folder.")
        return 0
    if options.model is None:
        return _searched(collection, options)
    try:
        return asyncio.run(_asked(collection, options, Path(options.out).absolute()))
    except HoldallError as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 2


def _collection(named: str) -> Collection:
    """The further outputs are made once: what a machine's tools say differs from run to run."""
    if named != FURTHER.name:
        return load(Path(named))
    if not (FURTHER / "tasks.jsonl").exists():
        say("making the further outputs, which takes some minutes and packages of the registry")
        make.make(FURTHER, RECIPES)
    return load(FURTHER)


def _searched(collection: Collection, options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="holdall-answers-") as home:
        outcome = asyncio.run(measure(collection, Path(home), say))
    outcome = replace(outcome, tuned=Path(options.tasks).name != FURTHER.name)
    print(report.table(outcome))
    print(report.bound(outcome, Path(options.out)))
    for one in outcome.missed:
        print(f"missed: {one.task} ({one.type}), {one.tokens} tokens", *one.calls, sep="\n  ", file=sys.stderr)
    report.write(outcome, Path(options.out).absolute())
    if options.publish:
        report.publish(outcome, ROOT / "docs")
    broken = [aim for aim in report.aims(outcome) if not aim.reached]
    for aim in broken:
        say(f"FAILED {aim.what}: {aim.measured}")
    return 1 if broken else 0


async def _asked(collection: Collection, options: argparse.Namespace, out: Path) -> int:
    way = Way(
        options.model, options.arm, Path(options.tasks).name, options.notice, not options.unconfined, options.max_turns
    )
    if way.arm == "shell" and (refused := await _refused(way)):
        print(f"bench: {refused}", file=sys.stderr)
        return 2
    file = out / way.file_name
    done, tasks = models.read_results(file), models.share(collection.tasks, options.questions)
    left = [task for task in tasks if not models.is_answered(task, done)]
    model = Metered(model_named(options.model, window=options.window), tokens=options.max_tokens, cost=options.max_cost)
    try:
        expected = models.forecast(way, len(left), done, price_of(model))
        say(f"{len(tasks) - len(left)} answered before; {expected}; results in {file}")
        if problem := expected.problem(options.max_tokens, options.max_cost):
            print(f"bench: {problem}", file=sys.stderr)
            return 2
        if not options.forecast:
            await models.ask_all(way, model, left, collection.outputs, file, say)
    except models.CeilingReached as reached:
        print(f"bench: stopped at the ceiling: {reached}. The same command goes on from here.", file=sys.stderr)
    finally:
        await model.close()
    print(report.models_table(models.read_results(file)))
    if options.publish:
        report.publish_models(models.all_results(out), ROOT / "docs")
    return 0


async def _refused(way: Way) -> str:
    """Why the shell may not run. Told to run it unconfined, it says what that means."""
    if not way.confined:
        say("WARNING: the shell is not confined: what the model writes runs with your rights, files and network")
        return ""
    with tempfile.TemporaryDirectory(prefix="holdall-probe-") as folder:
        problem = await shell.problem(Path(folder))
    return f"the shell cannot be confined here: {problem}. --unconfined runs it all the same" if problem else ""
