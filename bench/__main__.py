"""`python -m bench [NAME]`: run a benchmark, write what it found, and fail where a gate is broken."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import fleet, house, load, report, speed
from bench.answers import command as answers
from bench.extract import command as extract
from bench.lab import FULL, QUICK, ROOT, Lab, NotEnoughRoom
from bench.machine import Patience
from bench.peers import command as peers

_PATIENCE = 60.0  # seconds that a whole run waits for quiet at most


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.name == "answers":
        return answers.main(options)
    if options.name == "peers":
        return peers.main(options)
    if options.name == "extract":
        return extract.main(options)
    if options.name == "house":
        return house.main(options)
    if options.name == "load":
        return load.main(options)
    if options.name == "fleet":
        return fleet.main(options)
    quick: bool = options.quick
    names: list[str] = options.only or list(speed.JOBS)
    if options.publish and (quick or options.only):
        print("bench: only a full run is published: leave out --quick and --only.", file=sys.stderr)
        return 2
    lab = Lab(Path(options.out).absolute(), QUICK if quick else FULL, Patience(0 if quick else _PATIENCE))
    try:
        lab.check_room()
    except NotEnoughRoom as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 2
    outcome = asyncio.run(speed.run(lab, names, judged=not quick))
    report.write(outcome, lab.folder)
    if options.publish:
        report.publish(outcome, ROOT / "docs")
    for row in outcome.failed:
        report.say(f"FAILED {row.job}: {row.case}")
    return 1 if outcome.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    commands = parser.add_subparsers(dest="name", required=True)
    one = commands.add_parser("speed", help="every job of docs/benchmarks.md, each against its floor")
    one.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, judges nothing")
    one.add_argument("--only", action="append", choices=list(speed.JOBS), metavar="JOB", help=", ".join(speed.JOBS))
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for data and results")
    one.add_argument("--publish", action="store_true", help="write docs/benchmarks.md and its plot anew")
    peers.declare(commands.add_parser("peers", help=peers.HELP))
    answers.declare(commands.add_parser("answers", help=answers.HELP))
    extract.declare(commands.add_parser("extract", help=extract.HELP))
    fleet.declare(commands.add_parser("fleet", help=fleet.HELP))
    load.declare(commands.add_parser("load", help=load.HELP))
    house.declare(commands.add_parser("house", help=house.HELP))
    return parser


if __name__ == "__main__":
    sys.exit(main())
