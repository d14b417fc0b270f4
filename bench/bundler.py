"""The process that makes a bundle or restores one, so that its memory and its time are its own. Prints them as JSON.

python -m bench.bundler export HOME FILE    through the library
python -m bench.bundler import HOME FILE
python -m bench.bundler floor  SOURCE FILE  read, sha256, zstd -1 and write, a megabyte at a time, by one thread
"""

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable

from bench import machine
from holdall.bag.bundles import export_session, import_bundle
from holdall.store.bundle.stream import zstd

CHUNK = 1024 * 1024


def floor(source: str, file: str) -> None:
    compressor = zstd.ZstdCompressor(level=1)
    digest = hashlib.sha256()
    with open(source, "rb", buffering=0) as read, open(file, "xb", buffering=0) as write:
        while chunk := read.read(CHUNK):
            digest.update(chunk)
            write.write(compressor.compress(chunk))
        write.write(compressor.flush())
        os.fsync(write.fileno())


def measured(work: Callable[[], object]) -> dict[str, float]:
    machine.forget_highest()
    before = machine.resident_bytes()
    started, used = time.perf_counter(), time.process_time()
    work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    return {"seconds": seconds, "cpu": cpu, "growth": machine.highest_resident_bytes() - before}


def main(mode: str, first: str, file: str) -> dict[str, float]:
    match mode:
        case "export":
            return measured(lambda: asyncio.run(export_session("bench", file, home=first)))
        case "import":
            return measured(lambda: asyncio.run(import_bundle(file, home=first)))
        case _:
            return measured(lambda: floor(first, file))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
