"""The figures for people: the tables, the page in docs/, and the same as JSON."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.answers.measuring import BUDGET, NOTICE, SEARCHED, STRATEGIES, Outcome
from bench.answers.models import Answered
from bench.answers.picture import picture
from bench.answers.tasks import LOOKUPS
from bench.machine import facts

_FURTHER = "answers-further"
# With the same searcher and judge, before notices were halved (commit d70c20d): seen, tokens a task, tokens a notice.
# The further outputs were those of 2026-11-19, on which the newer version was measured too.
_BEFORE = {"answers": (69, 722, 453), _FURTHER: (21, 741, 421)}
_NOTICE_TOKENS, _MEAN_NOTICE, _SHARE = 250, 230, 0.8
_WIDTHS = (46, 16, 12, 16, 12, 12)


@dataclass(frozen=True, slots=True)
class Aim:
    what: str
    reached: bool
    measured: str


def aims(outcome: Outcome) -> list[Aim]:
    searched = outcome.line(SEARCHED, LOOKUPS)
    longest, mean = max(outcome.notices.values(), default=0), outcome.mean_notice
    share = Aim(
        f"notice and calls show at least {_SHARE:.0%} of what is looked up", searched.share >= _SHARE,
        f"{searched.share:.1%}",
    )  # fmt: skip
    return [
        Aim(f"a notice has at most {_NOTICE_TOKENS} tokens", longest <= _NOTICE_TOKENS, f"the longest has {longest}"),
        Aim(f"at most {_MEAN_NOTICE} on average", mean <= _MEAN_NOTICE, f"{mean:.0f}"),
        *([share] if outcome.tuned else []),  # on questions that nobody has tuned it for, its share is a finding
        Aim(
            f"at most {BUDGET:,} tokens per task", searched.most_tokens <= BUDGET,
            f"{searched.tokens:,.0f} on average, {searched.most_tokens:,} at most",
        ),
    ]  # fmt: skip


def table(outcome: Outcome) -> str:
    rows = _rows(outcome)
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, _WIDTHS, strict=True)) for row in rows)


def bound(outcome: Outcome, folder: Path) -> str:
    """What the searcher's row is worth; beside it its figure on the further questions, where that was measured."""
    if not outcome.tuned:
        return f"{SEARCHED}: the searcher is not tuned on these questions, which ask in other words too."
    tasks = outcome.line(SEARCHED, outcome.types).tasks
    told = f"{SEARCHED}: an upper bound, since seen is not understood. The searcher is tuned on these {tasks} questions"
    file = folder / f"{_FURTHER}.json"
    if not file.exists():
        return f"{told}; `--tasks further` measures it on others."
    every = json.loads(file.read_text("utf-8"))["searched"]
    return f"{told}: on {every['tasks']} further ones it shows {every['seen']} for {every['tokens']:,} tokens each."


def write(outcome: Outcome, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{_name(outcome)}.json").write_text(_json(outcome), encoding="utf-8")
    if outcome.tuned:
        (folder / "answers.svg").write_text(picture(_lines(outcome)), encoding="utf-8")


def _name(outcome: Outcome) -> str:
    return "answers" if outcome.tuned else _FURTHER


def publish(outcome: Outcome, docs: Path) -> None:
    """Into the documentation: the tables between their marks, the plot, the figures."""
    write(outcome, docs / "benchmarks")
    _put(docs / "benchmarks.md", _name(outcome), _markdown(outcome, bound(outcome, docs / "benchmarks")))


def _put(page: Path, mark: str, text: str) -> None:
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    after, found = re.subn(
        f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", page.read_text("utf-8"), flags=re.DOTALL
    )
    if found != 1:
        raise ValueError(f"{page.name} has no place for the tables: {begin} … {end}")
    page.write_text(after, encoding="utf-8")


def _lines(outcome: Outcome) -> list[tuple[str, float, float]]:
    lines = [outcome.line(strategy, LOOKUPS) for strategy in STRATEGIES]
    return [(line.strategy, line.share, line.tokens) for line in lines]


def _rows(outcome: Outcome) -> list[list[str]]:
    rows = [["what the model gets", "looked up: seen", "tokens", "all tasks: seen", "tokens", "most tokens"]]
    for strategy in STRATEGIES:
        lookups, every = outcome.line(strategy, LOOKUPS), outcome.line(strategy, outcome.types)
        rows.append(
            [strategy, f"{lookups.share:.1%}", f"{lookups.tokens:,.0f}", f"{every.share:.1%}", f"{every.tokens:,.0f}",
             f"{every.most_tokens:,}"]
        )  # fmt: skip
    return rows


def _by_type(outcome: Outcome) -> list[list[str]]:
    clamp = "head + tail of 25k tokens"
    rows = [["type", "tasks", clamp, "the notice alone", "notice and calls", "of these, by bytes", "tokens", "calls"]]
    for kind in [*LOOKUPS, *(kind for kind in outcome.types if kind not in LOOKUPS)]:
        by = outcome.line(SEARCHED, [kind])
        calls = [len(one.calls) for one in outcome.seen if one.strategy == SEARCHED and one.type == kind]
        if by.tasks:
            rows.append(
                [kind, str(by.tasks), str(outcome.line(clamp, [kind]).seen), str(outcome.line(NOTICE, [kind]).seen),
                 str(by.seen), str(by.by_bytes), f"{by.tokens:,.0f}", f"{sum(calls) / len(calls):.1f}"]
            )  # fmt: skip
    return rows


def _markdown(outcome: Outcome, bound: str) -> str:
    tasks = outcome.line(SEARCHED, outcome.types).tasks
    by_bytes, lookups = outcome.line(SEARCHED, LOOKUPS).by_bytes, outcome.line(SEARCHED, LOOKUPS).tasks
    missed = ", ".join(f"{one.task} ({one.type})" for one in outcome.missed) or "none"
    notices = ", ".join(f"{output} {tokens}" for output, tokens in outcome.notices.items())
    return "\n".join([
        f"Measured on {facts()['date']}: {tasks} tasks over {len(outcome.notices)} outputs.",
        "",
        *_markdown_table(_rows(outcome)),
        "",
        bound,
        "",
        _compared(outcome),
        "",
        "By type, in tasks:",
        "",
        *_markdown_table(_by_type(outcome)),
        "",
        f"Of the {lookups} tasks that look something up, {by_bytes} were seen by bytes alone.",
        f"Missed with notice and calls: {missed}.",
        "",
        *_markdown_table([["aim", "reached", "measured"]]
                         + [[aim.what, "yes" if aim.reached else "no", aim.measured] for aim in aims(outcome)]),
        "",
        f"Tokens of each notice: {notices}; on average {outcome.mean_notice:.0f}.",
    ])  # fmt: skip


def _compared(outcome: Outcome) -> str:
    every, (seen, tokens, notice) = outcome.line(SEARCHED, outcome.types), _BEFORE[_name(outcome)]
    now = f"{every.seen} tasks seen, {every.tokens:,.0f} tokens a task, {outcome.mean_notice:.0f} a notice"
    return (
        f"Now: {now}. Before notices were halved (d70c20d), by the same searcher and judge: {seen}, {tokens}, {notice}."
    )


def _markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]


def _json(outcome: Outcome) -> str:
    """One task a line: a change of a figure is a change of a line."""
    by_task: dict[str, dict[str, Any]] = {}
    for one in outcome.seen:
        task = by_task.setdefault(one.task, {"task": one.task, "type": one.type, "seen": {}, "tokens": {}, "calls": []})
        task["seen"][one.strategy] = one.how
        task["tokens"][one.strategy] = one.tokens
        task["calls"] = list(one.calls) or task["calls"]
    every = outcome.line(SEARCHED, outcome.types)
    whole = {
        "benchmark": "answers",
        "date": facts()["date"],
        "seconds": round(outcome.seconds, 1),
        "aims": {aim.what: aim.reached for aim in aims(outcome)},
        "notices": dict(outcome.notices),
        "searched": {"tasks": every.tasks, "seen": every.seen, "tokens": round(every.tokens)},
        "lookups": {
            name: {"share": round(share, 4), "tokens": round(tokens)} for name, share, tokens in _lines(outcome)
        },
    }
    tasks = ",\n".join("    " + json.dumps(task, ensure_ascii=False) for task in by_task.values())
    return f'{json.dumps(whole, ensure_ascii=False, indent=2)[:-2]},\n  "tasks": [\n{tasks}\n  ]\n}}\n'


# A real model


def models_table(results: Sequence[Answered]) -> str:
    rows = _model_rows(results)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def publish_models(results: Sequence[Answered], docs: Path) -> None:
    """Every run in the folder of results, a row each."""
    _put(docs / "benchmarks.md", "answers-models", "\n".join([
        f"Measured on {facts()['date']}.", "", *_markdown_table(_model_rows(results)),
    ]))  # fmt: skip


def _model_rows(results: Sequence[Answered]) -> list[list[str]]:
    rows = [["model", "what it gets", "questions", "right", "tokens read", "written", "requests", "cost"]]
    ways = dict.fromkeys((one.model, one.arm, one.notice, one.collection) for one in results)
    for model, arm, notice, collection in ways:
        these = [
            one
            for one in results
            if (one.model, one.arm, one.notice, one.collection) == (model, arm, notice, collection)
        ]
        right, costs = sum(one.right for one in these), [one.cost for one in these if one.cost is not None]
        rows.append([
            Path(model.partition("?")[0].rpartition(":")[2]).name,
            arm + (f", notice of {notice}" if notice else ""), f"{len(these)} of {collection}",
            f"{right} ({right / len(these):.0%})", f"{fmean(one.input_tokens for one in these):,.0f}",
            f"{fmean(one.output_tokens for one in these):,.0f}", f"{fmean(one.requests for one in these):.1f}",
            f"${sum(costs):.2f}" if len(costs) == len(these) else "not known",
        ])  # fmt: skip
    return rows
