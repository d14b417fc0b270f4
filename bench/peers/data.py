"""What every library is given: a log of many lines and a JSON array on one line, each with a needle in its middle.

The record of the needle holds an answer too. Only who is shown the answer has found the needle: that a text is there
somewhere is of no use to a model.
"""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from bench import data

Case = Literal["log", "json", "value"]
CASES: tuple[Case, ...] = get_args(Case)
MEANT = {
    "log": "a log of {size}",
    "json": "JSON of {size} on one line, as text",
    "value": "the same JSON as a value",
}
NEEDLE = "order-b7e151628aed2a6a"
ANSWER = "quokka-4471"


def make(folder: Path, case: Case, size: int) -> Path:
    """The file of at most `size` bytes, cut after a whole record; made only if it is missing."""
    kind = "log" if case == "log" else "json"  # a value is the same file, parsed
    path = folder / f"peers-{kind}-v{data.VERSION}-{size}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(_log(size) if kind == "log" else _array(size), encoding="utf-8")
        part.rename(path)
    return path


def load(path: Path, case: Case) -> object:
    """As a tool would return it."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if case == "value" else text


def _log(size: int) -> str:
    needle = f"2026-11-02T06:00:00.999Z ERROR worker-7 {NEEDLE} is stuck, released by {ANSWER}"
    return "\n".join(_with_needle(_lines(data.log_lines()), needle, size)) + "\n"


def _array(size: int) -> str:
    """The needle's record has the shape of all others: nothing but its values is rare."""
    needle: dict[str, object] = {"id": 0, "trace": NEEDLE, "status": 500, "took_ms": 30.5}
    needle |= {"user": {"name": ANSWER, "plan": "team"}, "tags": ["a", "b"]}
    records = _with_needle(_lines(data.json_items()), json.dumps(needle, separators=(",", ":")), size - 1)
    return f"[{','.join(records)}]"


def _lines(batches: Iterator[str]) -> Iterator[str]:
    return chain.from_iterable(batch.splitlines() for batch in batches)


def _with_needle(records: Iterator[str], needle: str, size: int) -> list[str]:
    """Records of at most `size` bytes in all, each with the one byte that follows it."""
    taken: list[str] = []
    used, middle = len(needle) + 1, -1
    for record in records:
        if used + len(record) + 1 > size:
            break
        used += len(record) + 1
        taken.append(record)
        if middle < 0 and used >= size / 2:
            middle = len(taken)
    taken.insert(middle, needle)
    return taken
