"""The figures for people: the table, the file, and the page in docs/."""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from bench.peers.data import MEANT
from bench.peers.judge import ANSWER_MOST, Judgement
from bench.peers.run import Outcome, Row
from bench.result import shown

_BEGIN, _END = "<!-- peers: begin -->", "<!-- peers: end -->"
_HEADS = (
    "library",
    "bytes reached",
    "needle found",
    "taken in",
    "reads",
    "a read",
    "search",
    "memory",
    "of it for this",
)
_WIDTHS = (46, 14, 15, 9, 6, 8, 8, 8, 15)


def table(outcome: Outcome) -> str:
    """For a terminal."""
    lines: list[str] = []
    for case, rows in _by_case(outcome):
        lines += ["", case, "  ".join(head.ljust(width) for head, width in zip(_HEADS, _WIDTHS, strict=True)).rstrip()]
        lines.append("  ".join("-" * width for width in _WIDTHS))
        for row in rows:
            cells = _cells(row, outcome)
            lines.append(
                "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=False))]).rstrip()
            )
    return "\n".join(lines[1:])


def write(outcome: Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(_json(outcome), encoding="utf-8")


def publish(outcome: Outcome, docs: Path) -> None:
    """Into the documentation: the tables between their marks, and the figures."""
    page = docs / "benchmarks.md"
    before = page.read_text(encoding="utf-8")
    new = f"{_BEGIN}\n{_markdown(outcome)}\n{_END}"
    after, found = re.subn(f"{_BEGIN}.*?{_END}", lambda _: new, before, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"{page.name} has no place for the table: {_BEGIN} … {_END}")
    write(outcome, docs / "benchmarks")
    page.write_text(after, encoding="utf-8")


def percent(judged: Judgement) -> str:
    """Never rounded up to all, nor down to nothing."""
    if judged.reached in (0, judged.stored):
        return "100 %" if judged.reached else "0 %"
    return f"{min(99.99, max(0.01, 100 * judged.share)):.2f} %"


def needle(judged: Judgement) -> str:
    if judged.found:
        return "yes"
    return f"in {judged.answer / 1000:,.0f} KB" if judged.answered else "no"


def _cells(row: Row, outcome: Outcome) -> list[str]:
    version = outcome.versions.get(row.library, "")
    name = " ".join(part for part in (row.library, version) if part)
    label = f"{name}, {row.way}"
    figures, judged = row.figures, row.judged
    if figures is None or judged is None:
        return [label, row.missing]
    more = "+" if figures.gave_up else ""
    return [
        label,
        percent(judged),
        needle(judged),
        shown(figures.take, "s"),
        f"{figures.reads:,}{more}",
        shown(figures.read, "ms"),
        shown(figures.search, "ms"),
        f"{figures.peak / 1e6:,.0f} MB",
        f"{max(0, figures.peak - figures.before) / 1e6:,.0f} MB",
    ]


def _by_case(outcome: Outcome) -> Iterable[tuple[str, list[Row]]]:
    size = outcome.effort.size
    said = f"{size / 2**20:g} MiB" if size % 2**20 == 0 else f"{size / 1000:,.0f} KB"
    for case in dict.fromkeys(row.case for row in outcome.rows):
        meant = MEANT[case].format(size=said)
        yield f"{meant[0].upper()}{meant[1:]}", [row for row in outcome.rows if row.case == case]


def _json(outcome: Outcome) -> str:
    """One row a line: a change of a figure is a change of a line."""
    whole = {
        "benchmark": "peers",
        "machine": dict(outcome.machine),
        "seconds": round(outcome.seconds, 1),
        "effort": asdict(outcome.effort),
        "answer_most": ANSWER_MOST,
        "versions": dict(outcome.versions),
    }
    rows = ",\n".join("    " + json.dumps(row.to_json(), ensure_ascii=False) for row in outcome.rows)
    return f'{json.dumps(whole, ensure_ascii=False, indent=2)[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n'


def _markdown(outcome: Outcome) -> str:
    here = outcome.machine
    memory = int(here["memory_bytes"]) / 1e9
    machine = f"{here['cores']} cores of {here['cpu']}, {memory:.0f} GB of memory, {here['system']}"
    lines = [f"Measured on {here['date']}: {machine}, Python {here['python']}."]
    for case, rows in _by_case(outcome):
        lines += ["", f"### {case}", "", f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
        for row in rows:
            cells = _cells(row, outcome)
            lines.append(f"| {' | '.join([*cells, *[''] * (len(_HEADS) - len(cells))])} |")
    return "\n".join(lines)
