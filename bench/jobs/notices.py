"""Building the notice: what is between a tool's answer and the model, for every kind of output.

And our miner of line templates beside drain3, which is what others take for it. It is installed into an environment of
its own and never depended on; where it cannot be had, its row is left out.
"""

import json
import math
import random
import subprocess
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from bench import data
from bench.lab import MB, QUICK, Lab
from bench.machine import Watch
from bench.peers.catalogue import Library
from bench.peers.install import NotInstalled, installed
from bench.report import say
from bench.result import Gate, Measured, Row
from holdall.formats.heads import head_of
from holdall.formats.outline import Lines
from holdall.formats.shapes import mine

_GATE = Gate(1.55)
_DRAIN = Library("drain3", "", {}, "0.9.11")
_CHILD = Path(__file__).with_name("drain_child.py")
_POOL = 2000  # different parts of which an output is made
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


async def notices(lab: Lab) -> Measured:
    """CPU time, and the best of many: whatever disturbs it only makes it longer.

    The floor of all is a log of the same size, cut into lines and words.
    """
    size = min(10 * MB, lab.sizes.log // 4)
    made = outputs(size)
    found: dict[str, tuple[float, float | None]] = {}
    floor = math.inf
    for kind, output in made.items():
        watch = Watch()
        async with lab.bag() as bag:
            handle = (await bag.keep(output)).handle
            best = math.inf
            for _ in range(3 * lab.sizes.rounds):
                started = time.process_time()
                await bag.preview.notice(handle)
                best = min(best, time.process_time() - started)
        found[kind] = best, watch.others()
        started = time.process_time()
        for line in made["log"].split(b"\n"):
            line.split()
        floor = min(floor, time.process_time() - started)
    rows = [
        Row("notice", f"{size // MB} MB, {kind}", best, "ms", floor, _GATE, others=others)
        for kind, (best, others) in found.items()
    ]
    return Measured([*rows, *_beside_drain(lab)])


# ── Templates ───────────────────────────────────────────────────────────────────────────────────────────────


def _beside_drain(lab: Lab) -> list[Row]:
    """The same lines without their heads for both: drain3 knows nothing of times and hosts."""
    size = min(4 * MB, lab.sizes.log)
    texts = _log(size).encode().split(b"\n")[:-1]
    ours, found = math.inf, 0
    for _ in range(lab.sizes.rounds):
        started = time.process_time()
        found = len(mine(Lines(texts, [(0, 0)], len(texts), exact=True), head_of).shapes)
        ours = min(ours, time.process_time() - started)
    more = {"templates": float(found), "MB/s": size / MB / ours}
    theirs = None if lab.sizes is QUICK else _drain(lab, texts)
    if theirs is None:
        return [Row("notice", f"templates of {size // MB} MB: {found}", ours, "ms", more=more)]
    more |= {"drain3 templates": theirs["templates"], "drain3 MB/s": size / MB / theirs["seconds"]}
    case = f"templates of {size // MB} MB: {found}, drain3 {theirs['templates']:.0f}"
    return [Row("notice", case, ours, "ms", theirs["seconds"], notes="the floor is drain3", more=more)]


def _drain(lab: Lab, texts: list[bytes]) -> Mapping[str, float] | None:
    try:
        python, _ = installed(_DRAIN, lab.folder / "drain3-venv", newest=False)
    except NotInstalled as problem:
        say(f"drain3 is left out: {problem}")
        return None
    with lab.scratch() as folder:
        bodies = folder / "bodies"
        bodies.write_text("\n".join(head_of(text.decode("utf-8", "replace")).body for text in texts), encoding="utf-8")
        done = subprocess.run([python, _CHILD, bodies], capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"drain3 is left out: it failed with {done.stderr.strip().splitlines()[-1:]}")
        return None
    return json.loads(done.stdout)


# ── Outputs ─────────────────────────────────────────────────────────────────────────────────────────────────


def outputs(size: int) -> dict[str, bytes]:
    """One of each kind, the same every time."""
    rng = random.Random(2026)
    words = ["".join(rng.choices(_LETTERS, k=rng.randrange(2, 11))) for _ in range(3000)]

    def say_(number: int) -> str:
        return " ".join(rng.choices(words, k=number))

    def filled(make: Callable[[int], str], between: str = "") -> str:
        pool = [make(n) for n in range(_POOL)]
        times = size // max(1, sum(map(len, pool)) + len(between) * _POOL) + 1
        return between.join(pool * times)[:size]

    def lines(make: Callable[[int], str]) -> str:
        return filled(make, "\n").rpartition("\n")[0] + "\n"

    records = [json.loads(line) for line in next(data.json_items()).split("\n")[:_POOL]]
    indented = ",\n".join("  " + json.dumps(one, indent=2).replace("\n", "\n  ") for one in records)
    compact = ",".join(json.dumps(one) for one in records)
    made = {
        "JSON, one line": '{"page":1,"items":[' + _times(compact, ",", size) + '],"total":1}',
        "JSON, a member a line": "[\n" + _times(indented, ",\n", size) + "\n]\n",
        "NDJSON": lines(lambda n: json.dumps(records[n])),
        "CSV": "id,name,city,price,day\n"
        + lines(lambda n: f"{n},{say_(2)},{rng.choice(words[:9])},{n * 1.5},2026-01-{n % 28 + 1:02}"),
        "log": _log(size),
        "text": lines(lambda n: say_(14) + "\n" * (n % 5 == 0)),
        "HTML": "<!DOCTYPE html><html><head><title>A page</title></head><body>\n"
        + lines(lambda n: f"<h2>{say_(3)}</h2><p class='a'>{say_(20)} <a href='/{n}'>x</a></p>")
        + "</body></html>",
        "XML": '<?xml version="1.0"?>\n<bugs>\n'
        + lines(lambda n: f'<bug type="T{n % 20}" line="{n}"><at name="{say_(1)}" sign="({n})"/></bug>')
        + "</bugs>\n",
        "Markdown": lines(lambda n: f"## {say_(3)}\n\n{say_(30)} [x](https://x.org/{n})\n\n- {say_(4)}"),
        "diff": lines(
            lambda n: (
                f"diff --git a/{words[n]}.py b/{words[n]}.py\n--- a/{words[n]}.py\n+++ b/{words[n]}.py\n"
                f"@@ -1,2 +1,3 @@\n {say_(4)}\n-{say_(4)}\n+{say_(4)}\n+{say_(4)}"
            )
        ),
        "test report": "= test session starts =\n"
        + lines(lambda n: f"test_{words[n]}.py::test_{n} PASSED")
        + "= short test summary info =\n"
        + "".join(f"FAILED a.py::test_{n} - {say_(4)}\n" for n in range(900))
        + "=== 900 failed in 3.00s ===\n",
        "stack traces": lines(
            lambda n: (
                f"2026-01-01 00:00:01 ERROR {say_(2)}\nTraceback (most recent call last):\n"
                f'  File "/a/{words[n]}.py", line {n}, in {words[-n]}\n    go()\n{words[n]}Error: {say_(3)}'
            )
        ),
        "one line": filled(lambda _: say_(12), " "),
    }
    return {kind: text.encode() for kind, text in made.items()} | {"binary": rng.randbytes(size)}


def _log(size: int) -> str:
    return "".join(islice(data.log_lines(), size // MB // 2 + 1))[:size]


def _times(text: str, between: str, size: int) -> str:
    return between.join([text] * max(1, size // len(text)))
