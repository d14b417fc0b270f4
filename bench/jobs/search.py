"""grep against ripgrep with the same flags: over a gigabyte of lines, and inside one line of a gigabyte."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench import data
from bench.lab import Lab, stored_path
from bench.result import Gate, Measured, Row
from bench.rounds import MANY, compare, timed, timed_call
from holdall.bag import Care, Holdall
from holdall.text.tokens import Estimate
from holdall.values.outputs import Facts

# What `-o -b` prints is read and thrown away: anyone who searches has to take it.
_FLAGS = ("--no-config", "-a", "-o", "-b", "-N", "--no-heading", "--color", "never", "--encoding", "none", "--mmap")


@dataclass(frozen=True, slots=True)
class Search:
    name: str
    pattern: str
    literal: bool = False
    ignore_case: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        return ("-F",) * self.literal + ("-i",) * self.ignore_case


SEARCHES = (
    Search("rare literal", data.RARE, literal=True),
    Search("common literal", "ERROR", literal=True),
    Search("ignore case", "Connection Reset", ignore_case=True),
    Search("alternation", "timeout|refused|unreachable"),
    Search("class", r"took=[0-9]{4,}ms"),
)


async def grep(lab: Lab) -> Measured:
    async with lab.kept(lab.log(), Estimate()) as (bag, facts):
        return Measured([await _search(lab, bag, facts, search, "grep", Gate(1.15)) for search in SEARCHES])


async def grep_line(lab: Lab) -> Measured:
    search = Search("inside one line of 1 GB", data.NEEDLE, literal=True)
    async with lab.kept(lab.line(), Estimate()) as (bag, facts):
        return Measured([await _search(lab, bag, facts, search, "grep", Gate(1.5))])


async def _search(lab: Lab, bag: Holdall, facts: Facts, search: Search, job: str, gate: Gate) -> Row:
    path = stored_path(bag, facts)
    total = 0

    async def ours() -> None:
        nonlocal total
        found = await bag.grep(facts.handle, search.pattern, literal=search.literal, ignore_case=search.ignore_case)
        total = found.total

    contestants = {
        "ours": timed(ours),
        "floor": timed_call(lambda: ripgrep(*_FLAGS, *search.flags, "-e", search.pattern, "--", path)),
    }
    found = await compare(contestants, rounds=MANY * lab.sizes.rounds, patience=lab.patience, seconds=60)
    counting = timed_call(lambda: ripgrep("--no-config", "-a", "-c", *search.flags, "-e", search.pattern, "--", path))
    count = await compare({"count": counting}, rounds=min(3, lab.sizes.rounds), patience=lab.patience)
    return Row(
        job, search.name, found.median("ours"), "s", found.median("floor"), gate, others=found.others,
        notes=f"{total:,} matches", more={"rg_count_seconds": count.median("count"), "matches": total},
    )  # fmt: skip


def ripgrep(*arguments: str) -> None:
    program = Care.ripgrep()
    with subprocess.Popen([program, *arguments], stdout=subprocess.PIPE, bufsize=0, pipesize=1 << 20) as process:
        if process.stdout is not None:
            while process.stdout.read(1 << 20):
                pass
    if process.returncode not in (0, 1):
        raise subprocess.CalledProcessError(process.returncode, Path(program).name)
