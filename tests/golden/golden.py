"""Comparing with the files in `data/`, and writing them where that was asked for."""

import difflib
import os
import re
from pathlib import Path
from typing import Any, cast

import pytest

DATA = Path(__file__).parent / "data"
VARIABLE = "HOLDALL_GOLDEN_UPDATE"  # set by `python -m tests.golden.update`
_HOW = "Where this is meant: .venv/bin/python -m tests.golden.update, and read what git shows."
_LONG = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def compare(name: str, now: str) -> None:
    """`now` must be what the file of that name holds, byte for byte."""
    path = DATA / name
    data = now.encode("utf-8", "surrogatepass")
    if os.environ.get(VARIABLE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return
    before = path.read_bytes() if path.exists() else b""
    if before != data:
        pytest.fail(
            f"{name} is not what it was.\n{diff(before.decode('utf-8', 'replace'), now)}\n{_HOW}", pytrace=False
        )


def compare_folder(folder: str, now: dict[str, str]) -> None:
    """One file for each name, and no others."""
    there = {path.name for path in (DATA / folder).glob("*")}
    gone = there - now.keys()
    if os.environ.get(VARIABLE):
        for name in gone:
            (DATA / folder / name).unlink()
    elif gone:
        pytest.fail(f"{folder} has more than there is now: {', '.join(sorted(gone))}.\n{_HOW}", pytrace=False)
    for name, text in now.items():
        compare(f"{folder}/{name}", text)


def diff(before: str, now: str) -> str:
    """Lines that differ. Long ones are taken apart first: a message of JSON is a single line."""
    lines = difflib.unified_diff(_pieces(before), _pieces(now), "golden", "now", lineterm="", n=2)
    return "\n".join(lines)


def _pieces(text: str) -> list[str]:
    found: list[str] = []
    for line in text.split("\n"):
        if len(line) <= _LONG:
            found.append(line)
        else:
            found += (
                line.replace("\\n", "\\n\n    ").replace('", "', '", \n    "').replace('","', '",\n    "').split("\n")
            )
    return found


def readable(text: str) -> str:
    """The golden files are for people: no control characters, and no halves of pairs."""
    plain = text.encode("utf-8", "backslashreplace").decode()
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", plain)


def lacking(before: Any, now: Any, place: str = "") -> list[str]:
    """Where `now` does not hold what `before` held. More keys are no fault; more items of a list are."""
    if isinstance(before, dict) and isinstance(now, dict):
        known, found = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
        gone = [f"{place}.{key} is gone" for key in known if key not in found]
        return gone + [
            one for key in known if key in found for one in lacking(known[key], found[key], f"{place}.{key}")
        ]
    if isinstance(before, list) and isinstance(now, list):
        known_items, items = cast("list[Any]", before), cast("list[Any]", now)
        if len(known_items) != len(items):
            return [f"{place} has {len(items)} items instead of {len(known_items)}"]
        pairs = zip(known_items, items, strict=True)
        return [one for at, (was, found) in enumerate(pairs) for one in lacking(was, found, f"{place}[{at}]")]
    return (
        []
        if before == now
        else [f"{place} is {str(cast('object', now))[:300]!r} instead of {str(cast('object', before))[:300]!r}"]
    )
