"""The speed benchmark: its jobs, run one after the other, and what came out of all of them."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import machine, report
from bench.jobs import (
    bundle,
    deciding,
    gateway,
    ingest,
    notices,
    reading,
    search,
    sizes,
    slow,
    sql,
    startup,
    turns,
    viewer,
    viewer_output,
)
from bench.lab import Lab
from bench.result import Curve, Measured, Row

Job = Callable[[Lab], Awaitable[Measured]]

JOBS: Mapping[str, Job] = {
    "ingest": ingest.ingest,
    "small": ingest.small,
    "read": reading.lines_anywhere,
    "grep": search.grep,
    "line": search.grep_line,
    "decide": deciding.decide,
    "notice": notices.notices,
    "query": sql.query,
    "size": sizes.cost_against_size,
    "slow": slow.slow,
    "turns": turns.turns,
    "startup": startup.startup,
    "gateway": gateway.gateway,
    "http": gateway.over_http,
    "viewer": viewer.viewer,
    "output": viewer_output.output,
    "bundle": bundle.bundle,
    "extra": reading.extra,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: Sequence[Row]
    curves: Sequence[Curve]
    machine: Mapping[str, str | int]
    seconds: float
    judged: bool  # tiny sizes say nothing about the gates

    @property
    def failed(self) -> Sequence[Row]:
        return [row for row in self.rows if row.verdict == "fail"] if self.judged else []

    def to_json(self) -> dict[str, Any]:
        return {
            "benchmark": "speed",
            "machine": dict(self.machine),
            "seconds": round(self.seconds, 1),
            "judged": self.judged,
            "failed": [f"{row.job}: {row.case}" for row in self.failed],
            "rows": [row.to_json() for row in self.rows],
            "curves": {curve.name: curve.points for curve in self.curves},
        }


async def run(lab: Lab, names: Sequence[str], *, judged: bool) -> Outcome:
    started = time.perf_counter()
    rows: list[Row] = []
    curves: list[Curve] = []
    print(report.header())
    for name in names:
        report.say(f"{name} …")
        began = time.perf_counter()
        measured = await JOBS[name](lab)
        rows += measured.rows
        curves += measured.curves
        for row in measured.rows:
            print(report.line(row, judged=judged), flush=True)
        report.say(f"{name}: {time.perf_counter() - began:.0f} s")
    return Outcome(rows, curves, machine.facts(), time.perf_counter() - started, judged)
