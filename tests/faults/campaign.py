"""`./dev test faults --full [--minutes N] [KIND...]`: faults at random for as long as there is time, one kind after the
other, a slice of time each. What fired is added up below `.dev/faults` over all runs, by kind and place; whatever
was lost is there in words, and makes the run fail.
"""

import argparse
import collections
import contextlib
import fcntl
import gc
import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.faults import chaos, errors, flips, kills, power
from tests.faults.conftest import MEMORY
from tests.faults.harness import ROOT
from tests.faults.kills import Fired


def _of_fleet(folder: Path, dice: random.Random) -> Iterator[Fired]:
    from tests.fleet.rounds import rounds

    return rounds(folder, dice)


KINDS: dict[str, Callable[[Path, random.Random], Iterator[Fired]]] = {
    "kills": kills.rounds, "power cuts": power.rounds, "bit flips": flips.rounds, "I/O errors": errors.rounds,
    "chaos": chaos.rounds,
}  # fmt: skip
BY_NAME = {"fleet": _of_fleet}  # only where it is asked for: its servers take their time to start
AIMS = {"kills": 100_000, "power cuts": 5_000, "bit flips": 100_000}
STATE = ROOT / ".dev" / "faults"
_SLICE_SECONDS = 20.0
# Alone these have all the time in one slice: whether something grows shows only then, and servers are started once.
_IN_ONE = ("chaos", "fleet")
_MOST_LOST = 100  # told in words


class Counts:
    """What fired of one kind so far, in a file of its own, to which each slice is added: several runs can go on at once."""

    def __init__(self, kind: str, folder: Path = STATE) -> None:
        self.kind = kind
        self._path = folder / f"{kind.replace(' ', '-').replace('/', '')}.json"
        self._read()

    def _read(self) -> None:
        known: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.seconds: float = known.get("seconds", 0.0)
        self.places = collections.Counter[str](known.get("places", {}))
        self.lost: list[str] = known.get("lost", [])

    def run(self, folder: Path, seed: int, seconds: float) -> int:
        """One slice. How many faults of it lost something."""
        began, places, lost = time.monotonic(), collections.Counter[str](), list[str]()
        try:
            for fired in (KINDS | BY_NAME)[self.kind](folder, random.Random(seed)):
                places[fired.place] += 1
                for one in fired.found[:3]:
                    lost.append(f"{self.kind}, seed {seed}, {fired.place}: {one}")
                    print(lost[-1], file=sys.stderr)
                if not fired.more and time.monotonic() - began > seconds:
                    break
        finally:
            self._add(folder, time.monotonic() - began, places, lost)
        return len(lost)

    def _add(self, folder: Path, seconds: float, places: collections.Counter[str], lost: list[str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            self.seconds += seconds
            self.places += places
            self.lost = [*self.lost, *lost][:_MOST_LOST]
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps({"seconds": self.seconds, "places": self.places, "lost": self.lost}, indent=1))
            new.rename(self._path)
        if (samples := folder / chaos.SAMPLES).exists():
            shutil.copy(samples, self._path.with_name(f"{self.kind}-{samples.name}"))
            self._path.with_suffix(".svg").write_text(chaos.plotted(samples))

    def report(self) -> Iterator[str]:
        minutes = self.seconds / 60
        fired, aim = self.places.total(), AIMS.get(self.kind)
        yield (
            f"{self.kind}: {fired:,} fired at {len(self.places):,} places in {minutes:,.1f} minutes, "
            f"{fired / minutes if minutes else 0:,.0f} a minute{f'; the aim is {aim:,}' if aim else ''}; "
            f"lost: {len(self.lost) or 'nothing'}"
        )
        acts = collections.Counter[str]()
        for place, count in self.places.items():
            acts[place.partition(":")[0]] += count
        yield "    " + ", ".join(f"{act} {count:,}" for act, count in acts.most_common())
        yield from self.lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test faults --full")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, help="of the first slice, as an earlier run has printed it")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)} (all of these), fleet")
    asked = parser.parse_args()
    if unknown := [kind for kind in asked.kinds if kind not in KINDS | BY_NAME]:
        parser.error(f"there is no kind {unknown[0]!r}")
    every = [Counts(kind) for kind in asked.kinds or KINDS]
    lost, seed = 0, random.getrandbits(32) if asked.seed is None else asked.seed
    print(f"seed {seed}", file=sys.stderr)
    slice_seconds = math.inf if len(asked.kinds) == 1 and asked.kinds[0] in _IN_ONE else _SLICE_SECONDS
    gc.freeze()  # a fork then shares what is there, instead of copying it to count references in it
    deadline = time.monotonic() + 60 * asked.minutes
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < deadline:
            for counts in every:
                with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
                    left = deadline - time.monotonic()
                    if left > 0:
                        lost += counts.run(Path(folder), seed, min(slice_seconds, left))
                        seed = random.getrandbits(32)
    for counts in every:
        print(*counts.report(), sep="\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
