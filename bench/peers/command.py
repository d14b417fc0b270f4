"""`./dev bench peers`: its options, and what it does with them."""

import argparse
import sys
from pathlib import Path

from bench.lab import QUICK as QUICK_LAB
from bench.lab import ROOT, Lab
from bench.machine import Patience
from bench.peers import report
from bench.peers.catalogue import LIBRARIES
from bench.peers.run import FULL, QUICK, run
from bench.report import say

HELP = "large results through other libraries and through us, as in docs/benchmarks.md"


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--quick", action="store_true", help="small outputs, one round: shows that it runs")
    one.add_argument("--only", action="append", choices=list(LIBRARIES), metavar="LIBRARY", help=", ".join(LIBRARIES))
    one.add_argument("--newest", action="store_true", help="not the versions that are named here, but the newest ones")
    one.add_argument("--out", default=str(ROOT / ".dev" / "bench"), metavar="DIR", help="for data and results")
    one.add_argument("--publish", action="store_true", help="write docs/benchmarks.md anew")


def main(options: argparse.Namespace) -> int:
    if options.publish and (options.quick or options.only):
        print("bench: only a full run is published: leave out --quick and --only.", file=sys.stderr)
        return 2
    lab = Lab(Path(options.out).absolute(), QUICK_LAB, Patience(0))
    lab.check_room()
    outcome = run(lab, options.only or list(LIBRARIES), QUICK if options.quick else FULL, newest=options.newest)
    print(report.table(outcome))
    report.write(outcome, lab.folder)
    failed = [row for row in outcome.rows if row.failed]
    if options.publish and not failed:
        report.publish(outcome, ROOT / "docs")
    for row in failed:
        say(f"FAILED {row.library}, {row.way}: {row.case}")
    return 1 if failed else 0
