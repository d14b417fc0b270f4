"""The figures for people: the tables, the page in docs/, and the same as JSON."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import machine
from bench.extract.asking import BUDGET, Asked, Outcome
from bench.extract.rivals import RIVALS
from bench.result import Row, shown, shown_gate

PAGE = "benchmarks.md"
WORK, ANSWERS = "extract", "extract-answers"  # the marks in the page, and the names of the files
_VERIFIED = ("exact", "loose")


def write_work(rows: Sequence[Row], seconds: float, folder: Path, *, judged: bool) -> None:
    whole = {
        "benchmark": WORK,
        "machine": machine.facts(),
        "seconds": round(seconds, 1),
        "judged": judged,
        "failed": [row.case for row in rows if judged and row.verdict == "fail"],
    }
    _write(folder / f"{WORK}.json", whole, {"rows": [row.to_json() for row in rows]})


def publish_work(rows: Sequence[Row], seconds: float, docs: Path) -> None:
    write_work(rows, seconds, docs / "benchmarks", judged=True)
    heads = ["case", "ours", "floor", "ratio", "gate", "verdict", "others"]
    lines = [f"Measured on {_here()}. The run took {seconds:.0f} s.", "", *_table([heads, *map(_cells, rows)])]
    _put(docs / PAGE, WORK, lines)


def write_answers(outcome: Outcome, folder: Path) -> None:
    whole = outcome.to_json()
    lists = {name: whole.pop(name) for name in ("asked", "others")}
    _write(folder / f"{ANSWERS}.json", {"benchmark": ANSWERS, "machine": machine.facts(), **whole}, lists)


def publish_answers(outcome: Outcome, docs: Path) -> None:
    write_answers(outcome, docs / "benchmarks")
    _put(docs / PAGE, ANSWERS, answers_page(outcome))


def answers_page(outcome: Outcome) -> list[str]:
    asked = outcome.asked
    read, seconds = sum(one.read - one.cached for one in asked), sum(one.seconds for one in asked)
    speed = read / seconds if seconds else 0.0
    hours = outcome.tokens_whole / speed / 3600 if speed else 0.0
    busy = "" if outcome.busy is None else f" Others kept {outcome.busy:.1f} cores busy meanwhile."
    left_out = ", ".join(outcome.left_out) or "none"
    measured = (
        f"Measured on {_here()}, with {outcome.model}, a window of {outcome.window:,} tokens: {len(asked)} questions, "
        f"in {outcome.seconds / 60:.0f} minutes.{busy}"
    )
    what_was_cut = (
        f"**What was cut.** The outputs of these questions have {outcome.bytes_whole:,} bytes, "
        f"{outcome.tokens_whole:,} tokens; the model read {outcome.bytes_cut:,} bytes of them, about "
        f"{outcome.size:,} of each. It took in {speed:.0f} new tokens a second, the time that it wrote included: all "
        f"of them, once, would take {hours:,.0f} hours here. Left out because the evidence alone is more than a "
        f"quarter of a cut: {left_out}."
    )
    ours = [*_table(ways(outcome)), "", *_table(spent(asked))]
    return [measured, "", *ours, "", what_was_cut, "", "Every question:", "", *_table(each(outcome))]


def ways(outcome: Outcome) -> list[list[str]]:
    """What anyone who asked gets to see, by each way."""
    asked = outcome.asked
    number = len(asked)
    rows = [["what whoever asked gets", "of the cut", "of the whole output", "tokens"]]
    tokens = _mean(one.tokens for one in asked if one.tokens)
    ours = [
        ("Holdall: the answer states it", [one.answered for one in asked]),
        ("Holdall: a verified quote shows it", [one.shown for one in asked]),
        ("Holdall: one of the two", [one.answered or one.shown for one in asked]),
    ]
    rows += [[name, _share(sum(hits), number), "–", f"{tokens:,.0f}"] for name, hits in ours]
    for way in RIVALS:
        cut, whole = outcome.of(way, whole=False), outcome.of(way, whole=True)
        seen = [_share(sum(one.shown for one in some), len(some)) for some in (cut, whole)]
        rows.append([f"{way}, {BUDGET} tokens", *seen, f"{_mean(one.tokens for one in cut):,.0f}"])
    return rows


def spent(asked: Sequence[Asked]) -> list[list[str]]:
    """What the model took for it."""
    checks = [check for one in asked for check in one.checks]
    verified = sum(check in _VERIFIED for check in checks)
    found, calls = [one for one in asked if one.found], _mean(one.calls for one in asked)
    return [
        ["of the extraction", ""],
        ["quotes, and how many are verified", f"{len(checks)}, {_share(verified, len(checks))}"],
        ["near: changed by the model, and marked", str(checks.count("near"))],
        ["nowhere: invented, and marked", str(checks.count("none"))],
        ["questions that it says it found something for", _share(len(found), len(asked))],
        ["of these, answers that state what is right", _share(sum(one.answered for one in found), len(found))],
        ["chunks a question", f"{_mean(one.chunks for one in asked):.1f}"],
        ["calls, and how many of them repeated", f"{calls:.1f}, {_mean(one.retries for one in asked):.1f}"],
        ["tokens that the model read for a question", f"{_mean(one.read for one in asked):,.0f}"],
        ["of these, read for an earlier question", f"{_mean(one.cached for one in asked):,.0f}"],
        ["tokens that it wrote", f"{_mean(one.written for one in asked):,.0f}"],
        ["seconds a question", f"{_mean(one.seconds for one in asked):,.0f}"],
    ]  # fmt: skip


def each(outcome: Outcome) -> list[list[str]]:
    rows = [["question", "right", "the model's answer", "states it", "verified quote shows it", "quotes verified"]]
    for one in outcome.asked:
        verified = sum(check in _VERIFIED for check in one.checks)
        answer = one.warning or (one.answer if one.found else "(nothing found)")
        quotes = f"{verified} of {len(one.checks)}"
        rows.append([one.task, one.gold, _short(answer), _yes(one.answered), _yes(one.shown), quotes])
    return rows


def terminal(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    return [
        row.case,
        shown(row.figure, row.unit),
        "–" if row.floor is None else shown(row.floor, row.unit),
        "–" if row.ratio is None else f"{row.ratio:.2f} ×",
        shown_gate(row),
        row.verdict,
        "–" if row.others is None else f"{row.others:.2f}",
    ]


def _put(page: Path, mark: str, lines: Sequence[str]) -> None:
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    between = "\n".join([begin, *lines, end])
    after, found = re.subn(f"{begin}.*?{end}", lambda _: between, page.read_text("utf-8"), flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"{page.name} has no place for the tables: {begin} … {end}")
    page.write_text(after, encoding="utf-8")


def _write(file: Path, whole: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> None:
    """One entry a line: a change of a figure is a change of a line."""
    parts = [json.dumps(whole, ensure_ascii=False, indent=2)[:-2]]
    for name, entries in lists.items():
        lines = ",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in entries)
        parts.append(f'  "{name}": [\n{lines}\n  ]')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(",\n".join(parts) + "\n}\n", encoding="utf-8")


def _here() -> str:
    here = machine.facts()
    memory = int(here["memory_bytes"]) / 1e9
    return (
        f"{here['date']}: {here['cores']} cores of {here['cpu']}, {memory:.0f} GB of memory, {here['system']}, "
        f"Python {here['python']}"
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return [lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]


def _share(hits: int, of: int) -> str:
    return f"{hits} of {of} ({hits / of:.0%})" if of else "–"


def _mean(values: Any) -> float:
    some = list(values)
    return sum(some) / len(some) if some else 0.0


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 120 else f"{flat[:119]}…"
