"""Every question put to a real model about its cut, and beside it what the other ways show with the same tokens."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.answers import judge
from bench.answers.clamps import tokens_in
from bench.answers.tasks import Collection, Task
from bench.extract.cuts import Cut
from bench.extract.rivals import RIVALS
from holdall.bag import Holdall
from holdall.llm.protocol import Model
from holdall.text.o200k import O200k
from holdall.values.extraction import Extraction, Mode
from holdall.values.settings import Settings

_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=。)|\n")
BUDGET = 300  # tokens that anyone who asked reads, by every way


@dataclass(frozen=True, slots=True)
class Asked:
    """One question by a model. `answered`: its words state the right answer. `shown`: its verified quotes hold the
    evidence. `read` and `written` are the tokens that the model took, `cached` those that it had read before."""

    task: str
    question: str
    gold: str
    found: bool
    answered: bool
    shown: bool
    answer: str
    quotes: tuple[str, ...]
    checks: tuple[str, ...]
    strategy: str
    warning: str
    chunks: int
    failed: int
    calls: int
    retries: int
    read: int
    cached: int
    written: int
    seconds: float
    tokens: int  # of the answer, as anyone who asked reads it


@dataclass(frozen=True, slots=True)
class Shown:
    """What one of the other ways showed for one task: of the cut, or of the whole output."""

    task: str
    way: str
    whole: bool
    shown: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class Outcome:
    model: str
    window: int
    size: int  # bytes of a cut, about
    asked: Sequence[Asked]
    others: Sequence[Shown]
    left_out: Sequence[str]  # tasks whose evidence is too long
    bytes_cut: int
    bytes_whole: int
    tokens_whole: int
    seconds: float
    busy: float | None = None  # cores that others used meanwhile

    def of(self, way: str, *, whole: bool) -> list[Shown]:
        return [one for one in self.others if one.way == way and one.whole == whole]

    def to_json(self) -> dict[str, Any]:
        flat = {name: getattr(self, name) for name in ("model", "window", "size", "bytes_cut", "bytes_whole")}
        flat |= {"tokens_whole": self.tokens_whole, "seconds": round(self.seconds, 1), "busy": self.busy}
        flat["left_out"] = list(self.left_out)
        return flat | {"asked": [asdict(one) for one in self.asked], "others": [asdict(one) for one in self.others]}


@dataclass(slots=True)
class Asking:
    collection: Collection
    model: Model
    mode: Mode
    home: Path
    say: Callable[[str], None]
    asked: list[Asked] = field(default_factory=list[Asked])
    others: list[Shown] = field(default_factory=list[Shown])

    async def all(self, parts: Sequence[Cut], most: int | None) -> None:
        """At most so many questions."""
        left = most if most is not None else sum(len(part.tasks) for part in parts)
        settings = Settings(answer_max_tokens=BUDGET)
        for part in parts:
            if not (tasks := part.tasks[:left]):
                break
            left -= len(tasks)
            async with Holdall.open(home=str(self.home), settings=settings, tokenizer=O200k(), model=self.model) as bag:
                kept = await bag.keep(part.output.data, tool=part.output.tool)
                for task in tasks:
                    self.asked.append(await self._ask(bag, kept.handle, task, part))
                    self._by_others(task, part)
                    self.say(_told(self.asked[-1]))

    async def _ask(self, bag: Holdall, handle: str, task: Task, part: Cut) -> Asked:
        started = time.perf_counter()
        found = await bag.extract(handle, task.question, mode=self.mode)
        seconds = time.perf_counter() - started
        # The same question again, as a tool: what was answered is remembered, and this costs no call.
        asking = {"handle": handle, "extract": task.question, "mode": self.mode}
        told = "" if found.warning or found.failed else (await bag.call("tool_output", asking)).text
        proved = judge.ranges(one.span for one in found.snippets if one.verified)
        usage = found.spent.usage
        return Asked(
            task.id, task.question, "; ".join(task.gold), bool(found.found), answered(task, found),
            bool(judge.verdict(task, part.output.data, proved)), found.answer[:500],
            tuple(one.said or one.text for one in found.snippets), tuple(one.check for one in found.snippets),
            found.strategy, found.warning, found.chunks_total, len(found.failed), found.spent.calls,
            found.spent.retries, usage.input_tokens, usage.cached_tokens, usage.output_tokens, round(seconds, 1),
            tokens_in(told),
        )  # fmt: skip

    def _by_others(self, task: Task, part: Cut) -> None:
        original = next(one for one in self.collection.tasks if one.id == task.id)
        everything = self.collection.outputs[task.output].data
        for way, show in RIVALS.items():
            for whole, data, one in ((False, part.output.data, task), (True, everything, original)):
                shown = show(data, task.question, BUDGET)
                tokens = sum(tokens_in(data[a:b].decode("utf-8", "replace")) for a, b in shown.as_lists())
                self.others.append(Shown(task.id, way, whole, bool(judge.verdict(one, data, shown)), tokens))


def answered(task: Task, found: Extraction) -> bool:
    """Whether the model's own words state the right answer."""
    return bool(found.found) and found.strategy != "truncate" and all(states(found.answer, gold) for gold in task.gold)


def states(text: str, gold: str) -> bool:
    """In the first sentence: one that goes on talking says everything in the end."""
    return judge.stated(_SENTENCE_END.split(text.strip(), maxsplit=1)[0], gold)


def _told(one: Asked) -> str:
    how = "answered" if one.answered else "shown" if one.shown else "missed"
    verified = sum(check in ("exact", "loose") for check in one.checks)
    spent = f"{one.calls} calls, {one.read} tokens read, {one.cached} of them cached, {one.seconds:.0f} s"
    return f"{one.task}: {how}, {verified} of {len(one.checks)} quotes verified, {spent}"
