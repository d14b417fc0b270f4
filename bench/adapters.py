"""What an adapter costs: the CPU of a small call beside the bare framework, the tokens of a 10 MB result, the lines
that a user writes. And what all adapters stand on: results that fit, and many sessions in one process.

`./dev bench adapters [NAME...]` runs it in the environment of each framework, with the agents of tests/adapters. Only
CPU time is measured, and its smallest of several rounds: a busy machine changes little of it.
"""

import asyncio
import importlib
import inspect
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import resident_bytes
from holdall import Holdall, Sessions
from holdall.text.tokens import tokenizer_named
from tests.adapters.contract import Call, Contract, Request, Says, as_tool, big, fetch, finds_the_needle, small

ROUNDS, CALLS, SESSIONS = 7, 20, 1000
MOST_RATIO, MOST_TAKES = 1.15, 2.0  # either: of the bare framework's CPU, or of our own `take` on top of it
FORMS = {"dict": 2.0, "MCP result": 3.0, "message": 5.0}  # of what a text costs, at most
MOST_SESSIONS_BYTES, MOST_SESSIONS_FILES = 100_000_000, 64
_TEXT = "a small result of a tool, on a few lines\n" * 20


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    most: float | None = None
    note: str = ""
    holds: bool = True

    def __str__(self) -> str:
        bound = "" if self.most is None else f"  at most {self.most:,.2f}"
        return (
            f"  {self.name:44} {self.value:14,.2f} {self.unit:7}{bound}{'' if self.holds else '  BROKEN'}  {self.note}"
        )


def main(names: list[str]) -> int:
    failed = 0
    for name in names or ["ground"]:
        for title, figures in [("ground", [*forms(), *sessions()])] if name == "ground" else frameworks(name):
            print(title, *figures, sep="\n", flush=True)
            failed += sum(not one.holds for one in figures)
    return 1 if failed else 0


def frameworks(name: str) -> Iterator[tuple[str, list[Figure]]]:
    """Each of the ways in which the tests drive it."""
    module = importlib.import_module(f"tests.adapters.test_{name}")
    for one in vars(module).values():
        if inspect.isclass(one) and issubclass(one, Contract) and one is not Contract:
            yield (
                f"{name}: {one.__name__.removeprefix('Test')}",
                [*costs(one().framework), *tokens(one().framework, name)],
            )


def costs(framework: Any) -> Iterator[Figure]:
    """Rounds with and without the adapter take turns, so that both meet the same machine."""
    tools = [as_tool(small, is_async=framework.is_async)]
    framework.is_lean = True

    def calls(requests: list[Request]) -> Says:
        return [Call("small", id=f"call-{len(requests)}")] if len(requests) <= CALLS else "done"

    with tempfile.TemporaryDirectory() as home:
        adapter = framework.adapter(Path(home))
        # What the framework itself takes for calling hooks is not ours; where a driver knows how to tell, it is told.
        hooks = getattr(framework, "nothing", lambda: None)()
        trials = [None, hooks, adapter]
        best = [float("inf")] * len(trials)
        for at in range(ROUNDS + 1):  # the first is for what is imported and opened once
            for number, one in enumerate(trials):
                seconds = cpu(lambda one=one: framework.run(one, calls, tools)) / CALLS
                best[number] = min(best[number], seconds) if at else best[number]
        framework.close(adapter)
    framework.is_lean = False
    take, (bare, floor, ours) = take_seconds()[0], best
    bare, floor = (bare, floor) if hooks is not None else (min(bare, floor), min(bare, floor))
    yield Figure("a small call, bare", bare * 1e6, "µs CPU")
    if hooks is not None:
        yield Figure(
            "a small call, with hooks that do nothing", floor * 1e6, "µs CPU", note=f"{floor / bare:.2f} × bare"
        )
    yield Figure("a small call, with Holdall", ours * 1e6, "µs CPU", note=f"{ours / bare:.2f} × bare")
    holds = ours <= MOST_RATIO * floor or ours - floor <= MOST_TAKES * take
    note = f"or + {(ours - floor) / take:.1f} × take, at most {MOST_TAKES:g}"
    yield Figure("ratio to the framework's own", ours / floor, "×", MOST_RATIO, note, holds)


def tokens(framework: Any, name: str) -> Iterator[Figure]:
    count = tokenizer_named("auto").count
    with tempfile.TemporaryDirectory() as home:
        adapter = framework.adapter(Path(home))
        ran = framework.run(adapter, finds_the_needle(fetch), [as_tool(fetch, is_async=framework.is_async)])
        framework.close(adapter)
    yield Figure("10 MB: tokens of all requests together", sum(count(one.text) for one in ran.requests), "tokens")
    yield Figure("10 MB: tokens of the result itself", len(big()) / 4, "tokens", note="about")
    doc = importlib.import_module(f"holdall.adapters.{name.partition('_deepagents')[0]}").__doc__ or ""
    yield Figure("lines of user code", 1 + len(re.findall(r"^ {4}\S", doc, re.MULTILINE)), "lines")


def forms() -> Iterator[Figure]:
    text, *others = take_seconds()
    yield Figure("take of a text that fits", text * 1e6, "µs CPU")
    for (form, most), seconds in zip(FORMS.items(), others, strict=True):
        yield Figure(f"take of a {form}", seconds / text, "× text", most, holds=seconds <= most * text)


class Message:
    """With the fields of a `ToolMessage`."""

    def __init__(self) -> None:
        self.content, self.type, self.status, self.artifact = _TEXT, "tool", "success", None


def take_seconds(number: int = 500) -> list[float]:
    """Of a text, and of each of FORMS."""
    outputs: list[object] = [
        _TEXT,
        {"id": 17, "status": "ok", "name": "a shop", "total": 3.5, "open": True},
        {"content": [{"type": "text", "text": _TEXT}], "isError": False},
        Message(),
    ]
    best = [float("inf")] * len(outputs)

    async def measure() -> None:
        with tempfile.TemporaryDirectory() as home:
            async with Holdall.open(home=home, session="s") as bag:
                for _ in range(ROUNDS):
                    for at, output in enumerate(outputs):
                        before = time.process_time()
                        for _ in range(number):
                            await bag.take(output, tool="t", call_id="c")
                        best[at] = min(best[at], (time.process_time() - before) / number)

    asyncio.run(measure())
    return best


def sessions(number: int = SESSIONS) -> Iterator[Figure]:
    """Each has kept an output and searched it; all stay open."""
    log = "".join(f"line {n} of a log, {n * 7919 % 1009}\n" for n in range(4000))

    async def measure() -> tuple[int, int]:
        with tempfile.TemporaryDirectory() as home:
            async with Sessions.open(home=home, max_open=2 * number) as pool:
                before = (0, 0)
                for at in range(number):
                    async with pool.of(f"conversation {at}") as bag:
                        facts = await bag.keep(f"{log}{at}", tool="fetch")
                        await bag.grep(facts.handle, "line 17 ")
                    before = before if at else (resident_bytes(), _files())
                return resident_bytes() - before[0], _files() - before[1]

    memory, files = asyncio.run(measure())
    name = f"{number:,} open sessions, beyond the first"
    yield Figure(f"{name}: MB", memory / 1e6, "MB", MOST_SESSIONS_BYTES / 1e6, holds=memory <= MOST_SESSIONS_BYTES)
    yield Figure(f"{name}: files", files, "files", MOST_SESSIONS_FILES, holds=files <= MOST_SESSIONS_FILES)


def cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
