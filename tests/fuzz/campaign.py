"""`./dev test fuzz --full [--minutes N] [TARGET...]`: inputs are changed at random, and kept where they reach new lines.

Executions add up in `.dev/fuzz.json` over all runs. A failure that is not declared is printed with its input, and makes
the run fail; what was kept goes to `tests/fuzz/corpus`.
"""

import argparse
import base64
import collections
import json
import random
import sys
import time
import traceback
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
STATE = ROOT / ".dev" / "fuzz.json"
_SLICE_SECONDS = 10.0
_TRACED = 0.25  # of all inputs: to look at each line takes several times as long
_MOST_KEPT, _LONGEST_KEPT = 30, 700  # of a target: the corpus is part of the repository
_WORDS = (
    b"\n", b"\r\n", b"\x00", b"\xff", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-1", b"1e999", b"null",
    b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"9" * 30, b"[" * 200, b"'", b"\t", b" ", b"$", b"..", b"*", b"?", b"(", b"|",
)  # fmt: skip


def load(target: str) -> list[bytes]:
    """The seeds of a target, and what was kept for it."""
    file = CORPUS / f"{target.replace(' ', '-')}.json"
    kept: list[str] = json.loads(file.read_text()) if file.exists() else []
    return [*TARGETS[target][1], *map(base64.b64decode, kept)]


def save(target: str, kept: list[bytes]) -> None:
    small = sorted({one for one in kept if len(one) <= _LONGEST_KEPT} - set(TARGETS[target][1]), key=len)
    lines = [base64.b64encode(one).decode() for one in small[:_MOST_KEPT]]
    (CORPUS / f"{target.replace(' ', '-')}.json").write_text(json.dumps(lines, indent=0) + "\n")


def changed(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    """A few changes at random: bits, words, parts left out, repeated or from another input."""
    new = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 8))):
        at, end = sorted((dice.randint(0, len(new)), dice.randint(0, len(new))))
        match dice.randrange(6):
            case 0 if new:
                new[min(at, len(new) - 1)] ^= 1 << dice.randrange(8)
            case 1:
                new[at:at] = dice.choice(_WORDS)
            case 2:
                del new[at : min(end, at + 16)]
            case 3:
                new[at:at] = new[at:end][:64]
            case 4:
                other = dice.choice(others)
                start = dice.randint(0, len(other))
                new[at:end] = other[start : start + dice.randint(1, 64)]
            case _ if new:
                new[min(at, len(new) - 1)] = dice.randrange(256)
            case _:
                pass
    return bytes(new[:4096])


class Lines:
    """Which lines of Holdall an input reaches."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] = set()
        self._new = False

    def run(self, target: Any, data: bytes) -> bool:
        """Whether it reached one that nothing reached before."""
        self._new = False
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            target(data)
        finally:
            sys.settrace(before)
        return self._new

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if "/holdall/" in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        place = (frame.f_code, frame.f_lineno)
        if place not in self.seen:
            self.seen.add(place)
            self._new = True
        return self._line


def run(name: str, lines: Lines, inputs: list[bytes], dice: random.Random, seconds: float) -> tuple[int, list[str]]:
    """One slice. How many executions, and the failures."""
    target, count, failures = TARGETS[name][0], 0, list[str]()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        data = changed(dice.choice(inputs), inputs, dice)
        count += 1
        try:
            if dice.random() < _TRACED:
                if lines.run(target, data):
                    inputs.append(data)
            else:
                target(data)
        except Exception as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            failures.append(f"{name}: {type(problem).__name__} in {where.filename}:{where.lineno}: {problem}: {data!r}")
            if len(failures) > 5:
                break
    return count, failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test fuzz --full")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    asked = parser.parse_args()
    counts: dict[str, dict[str, float]] = json.loads(STATE.read_text()) if STATE.exists() else {}
    names, failed = asked.targets or list(TARGETS), collections.Counter[str]()
    lines = {name: Lines() for name in names}
    inputs = {name: load(name) for name in names}
    for name in names:
        inputs[name] = [one for one in inputs[name] if lines[name].run(TARGETS[name][0], one)] or inputs[name]
    deadline = time.monotonic() + 60 * asked.minutes
    while time.monotonic() < deadline:
        for name in names:
            began = time.monotonic()
            slice_seconds = min(_SLICE_SECONDS, deadline - began)
            count, failures = run(name, lines[name], inputs[name], random.Random(), slice_seconds)
            known = counts.setdefault(name, {"executions": 0, "seconds": 0.0})
            known["executions"] += count
            known["seconds"] += time.monotonic() - began
            failed[name] += len(failures)
            print(*dict.fromkeys(failures), sep="\n", end="\n" if failures else "", flush=True)
            save(name, inputs[name])
            STATE.parent.mkdir(exist_ok=True)
            new = STATE.with_suffix(".new")
            new.write_text(json.dumps(counts, indent=1))
            new.rename(STATE)
    for name, known in counts.items():
        print(f"{name}: {known['executions']:,.0f} executions in {known['seconds'] / 60:.1f} minutes")
    print(f"all: {sum(one['executions'] for one in counts.values()):,.0f}; failures in this run: {failed.total()}")
    return 1 if failed.total() else 0


if __name__ == "__main__":
    sys.exit(main())
