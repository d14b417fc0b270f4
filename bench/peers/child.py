"""python -m bench.peers.child LIBRARY WAY CASE FILE OUT READS: one run, in the environment of that library.

OUT is a folder; what came back and what it took are files in it. Nothing is printed.
"""

import asyncio
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from bench.peers import data, patient


async def main(library: str, way: str, case: str, file: str, out: str, reads: str) -> None:
    module: Any = import_module(f"bench.peers.libraries.{library}")
    output = data.load(Path(file), cast("data.Case", case))
    folder = Path(out)

    async def body(peer: patient.Peer) -> None:
        await patient.drive(peer, output, data.NEEDLE, folder, most_reads=int(reads))

    await module.session(way, folder, body)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
