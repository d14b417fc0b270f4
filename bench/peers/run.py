"""The benchmark itself: every library, every case, each run in a process of its own, and what came out of it."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.lab import ROOT, Lab
from bench.peers import data, install
from bench.peers.catalogue import LIBRARIES, Library
from bench.peers.judge import Judgement, judge
from bench.peers.patient import Figures
from bench.report import say

_DEADLINE = 1800  # seconds for one run
_READS_AGAIN = 20  # all pages are read once; later rounds are for the time and the memory


@dataclass(frozen=True, slots=True)
class Effort:
    size: int
    rounds: int
    most_reads: int = 5000  # the patience of the model


FULL = Effort(10 * 1024 * 1024, rounds=3)
QUICK = Effort(300_000, rounds=1)


class Broken(Exception):
    """A run ended otherwise than it should. The text may be published."""


@dataclass(frozen=True, slots=True)
class Row:
    """One library, one way, one case: the medians of the rounds, or the reason why there are none."""

    library: str
    way: str
    case: data.Case
    figures: Figures | None = None
    judged: Judgement | None = None
    missing: str = ""
    failed: bool = False  # it was there and did not work: the fault may be ours

    def to_json(self) -> dict[str, Any]:
        judged = {} if self.judged is None else {**asdict(self.judged), "found": self.judged.found}
        figures = {} if self.figures is None else asdict(self.figures)
        share = {} if self.judged is None else {"share": self.judged.share}
        head = {"case": self.case, "library": self.library, "way": self.way}
        return {**head, **share, **judged, **figures, **({"missing": self.missing} if self.missing else {})}


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: Sequence[Row]
    versions: Mapping[str, str]
    effort: Effort
    machine: Mapping[str, str | int]
    seconds: float


def run(lab: Lab, names: Sequence[str], effort: Effort, *, newest: bool) -> Outcome:
    started = time.perf_counter()
    rows: list[Row] = []
    versions: dict[str, str] = {}
    for library in (LIBRARIES[name] for name in names):
        try:
            python, version = install.installed(library, lab.folder / "peers", newest=newest)
        except install.NotInstalled as problem:
            say(f"{library.name} is left out: {problem}")
            rows += [Row(library.name, way, case, missing=str(problem)) for case, way in library.work()]
            continue
        versions[library.name] = version or _own_version()
        rows += [measured(lab, python, library, way, case, effort) for case, way in library.work()]
    rows.sort(key=lambda row: data.CASES.index(row.case))  # the libraries stay in their order
    return Outcome(rows, versions, effort, machine.facts(), time.perf_counter() - started)


def measured(lab: Lab, python: Path, library: Library, way: str, case: data.Case, effort: Effort) -> Row:
    said = f"{library.name}, {way}: {case}"
    say(f"{said} …")
    started = time.perf_counter()
    file = data.make(lab.folder / "data", case, effort.size)
    figures: list[Figures] = []
    judged: Judgement | None = None
    try:
        for number in range(effort.rounds):
            with lab.scratch() as out:
                reads = _READS_AGAIN if number else effort.most_reads
                figures.append(_once(python, [library.module, way, case, str(file), str(out), str(reads)], out))
                judged = judged or judge(out)
    except Broken as problem:
        return Row(library.name, way, case, missing=str(problem), failed=True)
    say(f"{said}: {time.perf_counter() - started:.0f} s")
    return Row(library.name, way, case, _medians(figures), judged)


def _once(python: Path, arguments: Sequence[str], out: Path) -> Figures:
    """Nothing of this process's environment goes along: neither settings nor keys of any service."""
    here = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(out), "PYTHONPATH": here}
    command = [str(python), "-m", "bench.peers.child", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE
        )
    except subprocess.TimeoutExpired as slow:
        raise Broken(f"stopped after {_DEADLINE} seconds") from slow
    if done.returncode or not (out / "figures").exists():
        lines = done.stderr.strip().splitlines()
        say("\n".join(lines[-15:]))
        raise Broken("it failed: see what the run printed")
    return Figures(**json.loads((out / "figures").read_text(encoding="utf-8")))


def _medians(runs: Sequence[Figures]) -> Figures:
    """Of what every round does alike; how far reading came is known from the first."""
    first = runs[0]
    return Figures(
        take=median(one.take for one in runs), reads=first.reads, read=median(one.read for one in runs),
        read_all=first.read_all, search=median(one.search for one in runs),
        before=round(median(one.before for one in runs)), peak=round(median(one.peak for one in runs)),
        gave_up=first.gave_up,
    )  # fmt: skip


def _own_version() -> str:
    from holdall import __version__

    return __version__
