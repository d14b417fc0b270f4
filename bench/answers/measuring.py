"""Every task by every strategy: what the model has seen then, and the tokens that it read and wrote for it."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.answers import clamps, judge
from bench.answers.judge import How
from bench.answers.reading import Reply
from bench.answers.searcher import MAX_CALLS, search
from bench.answers.tasks import Collection, Output, Task
from holdall.bag import Holdall
from holdall.text.o200k import O200k
from holdall.values.outputs import Kept
from holdall.values.spans import Span

NOTICE, SEARCHED = "Holdall: the notice alone", "Holdall: the notice and at most three calls"
STRATEGIES = (*clamps.CLAMPS, NOTICE, SEARCHED)
BUDGET = 2500  # tokens of one task, the notice and the calls included


@dataclass(frozen=True, slots=True)
class Seen:
    """One task by one strategy."""

    task: str
    type: str
    strategy: str
    how: How
    tokens: int
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One strategy over many tasks."""

    strategy: str
    tasks: int
    seen: int
    by_bytes: int
    tokens: float  # of one task, on average
    most_tokens: int

    @property
    def share(self) -> float:
        return self.seen / self.tasks if self.tasks else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    seen: Sequence[Seen]
    notices: Mapping[str, int]  # tokens of each output's notice
    seconds: float
    tuned: bool = True  # whether the searcher was written with these questions at hand

    @property
    def mean_notice(self) -> float:
        return fmean(self.notices.values()) if self.notices else 0.0

    def line(self, strategy: str, types: Sequence[str]) -> Line:
        these = [one for one in self.seen if one.strategy == strategy and one.type in types]
        return Line(
            strategy, len(these), sum(bool(one.how) for one in these), sum(one.how == "bytes" for one in these),
            fmean(one.tokens for one in these) if these else 0.0, max((one.tokens for one in these), default=0),
        )  # fmt: skip

    @property
    def types(self) -> list[str]:
        return list(dict.fromkeys(one.type for one in self.seen))

    @property
    def missed(self) -> list[Seen]:
        return [one for one in self.seen if one.strategy == SEARCHED and not one.how]

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(one) for one in self.seen]


async def measure(collection: Collection, home: Path, say: Callable[[str], None]) -> Outcome:
    started = time.perf_counter()
    seen: list[Seen] = []
    notices: dict[str, int] = {}
    for output in collection.outputs.values():
        tasks = [task for task in collection.tasks if task.output == output.id]
        say(f"{output.id}: {len(tasks)} tasks")
        for name, clamp in clamps.CLAMPS.items():
            kept = clamp(output.data)
            tokens = clamps.cost(output.data, kept)
            shown = judge.ranges(kept)
            seen += [Seen(task.id, task.type, name, judge.verdict(task, output.data, shown), tokens) for task in tasks]
        for task in tasks:
            # A session of its own for each task: nothing that was seen for another one counts.
            async with Holdall.open(home=str(home), tokenizer=O200k()) as bag:
                alone, searched = await _with_holdall(bag, output, task)
            seen += [alone, searched]
            notices[output.id] = max(alone.tokens, notices.get(output.id, 0))
    return Outcome(seen, notices, time.perf_counter() - started)


async def _with_holdall(bag: Holdall, output: Output, task: Task) -> tuple[Seen, Seen]:
    taken = await bag.take(output.content, tool=output.tool)
    if not isinstance(taken, Kept):
        raise ValueError(f"{output.id} is not kept: there is nothing to measure")
    notice, handle = str(taken.content), taken.handle
    tokens = clamps.tokens_in(notice)
    at_first = (await bag.records.coverage(handle)).shown.copy()
    alone = judge.verdict(task, output.data, at_first, notice=notice)

    spent, calls_left = tokens, MAX_CALLS

    async def ask(tool: str, arguments: dict[str, object]) -> Reply:
        nonlocal spent, calls_left
        spent += clamps.tokens_in(f"{tool} {json.dumps(arguments, ensure_ascii=False)}")
        calls_left -= 1
        # Half of what is left, so that something remains for the next call; the last one may use it up.
        room = (BUDGET - spent) // (2 if calls_left else 1)
        answer = await bag.call(tool, arguments, tokens_left=max(1, room))
        spent += clamps.tokens_in(answer.text)
        return Reply(tool, arguments, answer.text, answer.is_error)

    replies = await search(task.question, notice, ask)
    coverage = await bag.records.coverage(handle)
    over_all = replies if coverage.ranges["scanned"].covers(Span(0, len(output.data))) else ()
    how = judge.verdict(task, output.data, coverage.shown, notice=notice, replies=over_all)
    calls = tuple(
        f"{reply.tool} {json.dumps({k: v for k, v in reply.arguments.items() if k != 'handle'}, ensure_ascii=False)}"
        for reply in replies
    )
    return Seen(task.id, task.type, NOTICE, alone, tokens), Seen(task.id, task.type, SEARCHED, how, spent, calls)
