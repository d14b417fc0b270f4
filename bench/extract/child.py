"""The process that asks about a large output, so that its memory is its own. Prints what it measured as JSON.

python -m bench.extract.child HOME FILE WINDOW
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench import machine
from bench.extract.reader import Reader
from bench.lab import file_of
from holdall.bag import Holdall
from holdall.policy.route import Ceiling
from holdall.text.tokens import Estimate


async def extract(home: str, file: str, window: int) -> dict[str, float]:
    asking: dict[str, Any] = {"mode": "full-chunked", "ceiling": Ceiling()}
    async with Holdall.open(home=home, session="bench", tokenizer=Estimate()) as bag:
        with file_of(Path(file)) as source:
            small = await bag.keep(source.read(64 * 1024))
            source.seek(0)
            facts = await bag.keep(source)
        # Every thread and every module is there before anything is measured.
        await bag.extract(small.handle, "What is there?", model=Reader(window=4_000).model, **asking)
        machine.forget_highest()
        before, started = machine.resident_bytes(), time.perf_counter()
        found = await bag.extract(facts.handle, "What is there?", model=Reader(window=window).model, **asking)
        seconds = time.perf_counter() - started
        growth = machine.highest_resident_bytes() - before
    if found.failed or found.chunks_searched == 0 or not all(one.verified for one in found.snippets):
        raise AssertionError("not every chunk was read and proved")
    return {"growth": growth, "seconds": seconds, "chunks": found.chunks_searched}


if __name__ == "__main__":
    _, home, file, window = sys.argv
    print(json.dumps(asyncio.run(extract(home, file, int(window)))))
