"""Start-up: the processor time of an import and of short commands against that of importing typer, which they use.

Each is a fresh process, and the least of its turns counts: what others do on the machine only adds to it.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence

from bench import fresh
from bench.lab import Lab, holdall_command
from bench.result import Gate, Measured, Row
from bench.rounds import Timed, compare

_LEFT = "asyncio alone is as much as typer, half of our import; no module of ours takes more than 2.8 ms, of 83."
_HELP, _LIBRARY, _COMMAND = Gate(1.5, left=_LEFT), Gate(1.7, left=_LEFT), Gate(2.5, left=_LEFT)
_LOG = b"2026-11-02T06:00:00Z ERROR worker-3 GET /api/v2/orders/4711 status=500 took=12ms\n" * 12_500


async def startup(lab: Lab) -> Measured:
    with lab.scratch() as folder, fresh.processes(folder) as cpu:
        program, store = holdall_command(), ["--home", str(folder / "home")]
        handle = _put([*program, "put", "--json", *store], fresh.environment(folder))
        cases: Mapping[str, tuple[Sequence[str], Gate]] = {
            "`holdall --help`": ([*program, "--help"], _HELP),
            "`holdall run --help`": ([*program, "run", "--help"], _HELP),
            "`from holdall import Holdall`": (fresh.HOLDALL, _LIBRARY),
            "`holdall ls`": ([*program, "ls", *store], _COMMAND),
            "`holdall read`": ([*program, "read", handle, "--lines", "1:200", *store], _COMMAND),
            "`holdall grep --count`": ([*program, "grep", handle, "ERROR", "--count", *store], _COMMAND),
        }

        def used(command: Sequence[str]) -> Timed:
            async def once() -> float:
                return cpu(command)

            return once

        contestants = {"floor": used(fresh.TYPER), **{name: used(command) for name, (command, _) in cases.items()}}
        found = await compare(
            contestants, rounds=lab.sizes.rounds + 4 if lab.sizes.rounds > 1 else 1, patience=lab.patience
        )
    floor = found.least("floor")
    rows = [
        Row("startup", f"{name}, processor time", found.least(name), "ms", floor, gate, others=found.others)
        for name, (_, gate) in cases.items()
    ]
    return Measured(rows)


def _put(command: Sequence[str], environment: Mapping[str, str]) -> str:
    kept = subprocess.run(command, input=_LOG, stdout=subprocess.PIPE, env=environment, check=True)
    return str(json.loads(kept.stdout)["handle"])
