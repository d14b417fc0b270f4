"""The process that takes an output in, so that its memory and its time are its own. Prints what it measured as JSON.

python -m bench.ingester keep HOME TOKENIZER < pipe     through the library, from the pipe
python -m bench.ingester floor FOLDER FILE              write and sha256 of bytes that are in memory already
python -m bench.ingester many HOME NUMBER               outputs of 2 KB; says "ready", and begins when it reads a line
"""

import asyncio
import hashlib
import json
import os
import sys
import time
from pathlib import Path

from bench import machine

CHUNK = 1024 * 1024


async def keep(home: str, tokenizer_name: str) -> dict[str, float]:
    from holdall.bag import Holdall
    from holdall.text.o200k import O200k
    from holdall.text.tokens import Estimate

    tokenizer = O200k() if tokenizer_name == "o200k" else Estimate()
    tokenizer.count("The vocabulary is loaded before anything is measured.")
    async with Holdall.open(home=home, session="bench", tokenizer=tokenizer) as bag:
        await bag.keep(b"A session that has kept something before.")
        machine.forget_highest()
        before = machine.resident_bytes()
        started, used = time.perf_counter(), time.process_time()
        facts = await bag.keep(sys.stdin.buffer)
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
        growth = machine.highest_resident_bytes() - before
    return {"seconds": seconds, "cpu": cpu, "growth": growth, "bytes": facts.measure.bytes}


async def many(home: str, number: str) -> dict[str, float]:
    from holdall.bag import Holdall
    from holdall.text.tokens import Estimate

    async with Holdall.open(home=home, session="bench", tokenizer=Estimate()) as bag:
        await bag.keep(f"process {os.getpid()} has kept something before")
        outputs = [f"process {os.getpid()} keeps output {at}\n" * 50 for at in range(int(number))]
        print("ready", flush=True)
        sys.stdin.readline()
        started, used = time.perf_counter(), time.process_time()
        for output in outputs:
            await bag.keep(output)
        return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}


def floor(folder: str, file: str) -> dict[str, float]:
    """One thread, one pass: what storing and hashing cost with nothing around them."""
    with open(file, "rb", buffering=0) as source:
        chunks = list(iter(lambda: source.read(CHUNK), b""))
    descriptor = os.open(Path(folder) / "floor", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    digest = hashlib.sha256()
    started, used = time.perf_counter(), time.process_time()
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            at += os.write(descriptor, chunk[at:] if at else chunk)
        digest.update(chunk)
    os.fsync(descriptor)
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    os.close(descriptor)
    return {"seconds": seconds, "cpu": cpu, "growth": 0, "bytes": sum(map(len, chunks))}


if __name__ == "__main__":
    _, mode, *arguments = sys.argv
    modes = {"floor": lambda: floor(*arguments), "many": lambda: asyncio.run(many(*arguments))}
    print(json.dumps(modes.get(mode, lambda: asyncio.run(keep(*arguments)))()))
