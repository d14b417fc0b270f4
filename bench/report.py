"""The figures for people: the table while it grows, and the page in docs/."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.plot import plot
from bench.result import Curve, Row, shown, shown_gate

_WIDTHS = (8, 37, 10, 10, 8, 10, 8, 7)
_HEADS = ("job", "case", "ours", "floor", "ratio", "gate", "", "others")
_BEGIN, _END = "<!-- speed: begin -->", "<!-- speed: end -->"


class Told(Protocol):
    """What is told of: an outcome."""

    @property
    def rows(self) -> Sequence[Row]: ...
    @property
    def curves(self) -> Sequence[Curve]: ...
    @property
    def machine(self) -> Mapping[str, str | int]: ...
    @property
    def seconds(self) -> float: ...
    def to_json(self) -> dict[str, Any]: ...


def say(text: str) -> None:
    """How it goes; not part of the table."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def header() -> str:
    heads = "  ".join(head.ljust(width) for head, width in zip(_HEADS, _WIDTHS, strict=True))
    return f"{heads}\n{'  '.join('-' * width for width in _WIDTHS)}"


def line(row: Row, *, judged: bool = True) -> str:
    cells = _cells(row)
    if not judged:
        cells[6] = "–"
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def write(told: Told, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.json").write_text(_json(told), encoding="utf-8")
    (folder / "speed.svg").write_text(plot(told.rows, told.curves), encoding="utf-8")


def publish(told: Told, docs: Path) -> None:
    """Into the documentation: the table between its marks, the plot, the figures."""
    write(told, docs / "benchmarks")
    page = docs / "benchmarks.md"
    before = page.read_text(encoding="utf-8")
    after, found = re.subn(
        f"{_BEGIN}.*?{_END}", lambda _: f"{_BEGIN}\n{_markdown(told)}\n{_END}", before, flags=re.DOTALL
    )
    if found != 1:
        raise ValueError(f"{page.name} has no place for the table: {_BEGIN} … {_END}")
    page.write_text(after, encoding="utf-8")


def _cells(row: Row) -> list[str]:
    return [
        row.job,
        row.case,
        shown(row.figure, row.unit),
        "–" if row.floor is None else shown(row.floor, row.unit),
        "–" if row.ratio is None else f"{row.ratio:.2f} ×",
        shown_gate(row),
        row.verdict,
        "–" if row.others is None else f"{row.others:.2f}",
    ]


def _json(told: Told) -> str:
    """One row a line: a change of a figure is a change of a line."""
    whole = told.to_json()
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in whole.pop("rows"))
    rest = json.dumps(whole, ensure_ascii=False, indent=2)
    return f'{rest[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n'


def _markdown(told: Told) -> str:
    here = told.machine
    memory = int(here["memory_bytes"]) / 1e9
    heads = ["job", "case", "ours", "floor", "ratio", "gate", "verdict", "others"]
    machine = f"{here['cores']} cores of {here['cpu']}, {memory:.0f} GB of memory, {here['system']}"
    lines = [
        f"Measured on {here['date']}: {machine}, Python {here['python']}. The run took {told.seconds:.0f} s.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in _cells(row))} |" for row in told.rows]
    missed = [row for row in told.rows if row.verdict == "fail" and row.gate is not None and row.gate.left]
    why = {row.gate.left: row.job for row in missed if row.gate is not None}
    lines += ["", "Where the time is in what misses its gate, by profiles:", ""] if why else []
    lines += [f"- **{job}**: {left}" for left, job in why.items()]
    return "\n".join(lines)
