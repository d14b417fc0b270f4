"""Run by the Python that has drain3: the templates of the lines of one file, and how long it took to find them."""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    lines = Path(sys.argv[1]).read_text("utf-8").split("\n")
    drain3: Any = importlib.import_module("drain3")
    miner: Any = drain3.TemplateMiner()
    started = time.process_time()
    for line in lines:
        miner.add_log_message(line)
    seconds = time.process_time() - started
    print(json.dumps({"templates": len(miner.drain.clusters), "seconds": seconds}))


if __name__ == "__main__":
    main()
