"""A bundle: a session with a gigabyte of log exported and restored, against packing the same bytes once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

from bench.lab import MB, ROOT, Lab
from bench.result import Gate, Measured, Row
from bench.rounds import Timed, compare
from holdall.store.directory.store import DirectoryStore

_MAX_GROWTH = 32 * MB


async def bundle(lab: Lab) -> Measured:
    """One export and one import make a round trip; the floor packs the same bytes once, in one thread."""
    growth: dict[str, list[float]] = {"export": [], "import": []}
    parts: dict[str, list[float]] = {"export": [], "import": []}
    async with lab.kept(lab.log()) as (bag, facts):
        home = Path(cast("DirectoryStore", bag.store).home)
        if facts.measure.bytes != lab.log().stat().st_size:
            raise AssertionError("what was kept is not what was read")

        def part(mode: str, first: Path, file: Path) -> float:
            found = _child(mode, first, file)
            growth[mode].append(found["growth"])
            parts[mode].append(found["seconds"])
            return found["seconds"]

        async def there_and_back() -> float:
            with lab.scratch() as folder:
                out = part("export", home, folder / "bundle")
                return out + part("import", folder / "home", folder / "bundle")

        async def floor() -> float:
            with lab.scratch() as folder:
                return _child("floor", lab.log(), folder / "packed")["seconds"]

        contestants: dict[str, Timed] = {"ours": there_and_back, "floor": floor}
        found = await compare(
            contestants, rounds=min(3, lab.sizes.rounds), patience=lab.patience, seconds=120, warm=False
        )
    least = found.median("floor")
    return Measured([
        Row("bundle", "1 GB out and in again", found.median("ours"), "s", least, Gate(0.5, side="least"),
            inverse=True, others=found.others),
        Row("bundle", "out: `holdall export`", min(parts["export"]), "s", least, inverse=True),
        Row("bundle", "in: `holdall import`", min(parts["import"]), "s", least, inverse=True),
        Row("bundle", "memory growth, out", max(growth["export"]), "bytes", gate=Gate(_MAX_GROWTH, "figure")),
        Row("bundle", "memory growth, in", max(growth["import"]), "bytes", gate=Gate(_MAX_GROWTH, "figure")),
    ])  # fmt: skip


def _child(mode: str, first: Path, file: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.bundler", mode, str(first), str(file)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment, check=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found
