"""An agent of many turns: what a turn costs beside the model and the tools, and what stays in memory of it."""

import asyncio
import gc
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from bench.lab import Lab
from bench.result import Gate, Measured, Row
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, AgentTool, Toolbox
from holdall.bag import Holdall
from holdall.llm.protocol import Model, Request
from holdall.text.tokens import Estimate
from holdall.values.chat import Reply, ToolCall
from holdall.values.settings import Settings
from holdall.wire.tool import ToolSpec

_GATE = Gate(
    15.0,
    left="the notice of the one output in five that is too large is 30 % of a turn, keeping it 18 %, system notice and "
    "request 25 %, the transcript 7 %, reading its own events back 7 %.",
)
_MB = 1_000_000
_TOOLS = 20
_RUNS = 5
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
_LARGE = "2026-11-02T06:00:00Z INFO worker-3 GET /api/v2/orders/4711 status=200 took=12ms\n" * 650


class _Calling:
    """A model that calls one tool after another and costs nothing itself."""

    name, window, max_output, calls_tools, keeps_schema = "calling", 10**9, 1000, True, False

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.asked = 0

    async def ask(self, request: Request) -> Reply:  # noqa: ARG002 - it says the same to everything
        self.asked += 1
        if self.asked > self.turns:
            return Reply(calls=(ToolCall("end", "final_report", {"report": "done"}),))
        return Reply(calls=(ToolCall(f"c{self.asked}", f"tool{self.asked % _TOOLS}", {"n": self.asked}),))

    async def close(self) -> None:
        pass


async def turns(lab: Lab) -> Measured:
    many = 1000 if lab.sizes.rounds > 1 else 20
    rows: list[Row] = []
    runs: list[tuple[float, float, float]] = []
    floors: list[float] = []
    # Removed at the end, together: ext4 looks long for the place of a new file while others were removed just before.
    with lab.scratch() as scratch:
        for run in range(_RUNS if lab.sizes.rounds > 1 else 1):
            folder = scratch / str(run)
            folder.mkdir()
            runs.append(await _run(folder, many))
            # For about as long: of many short ones the luckiest says nothing.
            floors.append(await _bare(folder, 10 * many))
    processor, wall, _ = min(runs)  # what others do on the machine only adds to it
    case = f"one of {many:,} turns, 20 tools, one in five oversized"
    rows.append(Row("turns", case, processor, "ms", min(floors), _GATE))
    rows.append(Row("turns", "the same on the clock, disk included", wall, "ms"))
    with lab.scratch() as folder:
        longer = 10 * many
        _, _, grown = await _run(folder, longer)
        rows.append(
            Row(
                "turns",
                f"{longer:,} turns, memory beside the transcript",
                grown,
                "bytes",
                gate=Gate(30 * _MB, "figure"),
            )
        )
    return Measured(rows)


async def _bare(folder: Path, many: int) -> float:
    """The floor: a loop that does the same by hand. Processor time of one turn.

    Every call is a task, every message a line of JSON in a file, and a large result a file that is durable and hashed.
    """

    async def tool(n: int) -> str:
        return f"{n}\n{_LARGE}" if n % 5 == 0 else f"order {n} is fine"

    def keep(data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        with open(folder / f"{name}.part", "xb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
        os.rename(folder / f"{name}.part", folder / name)
        return f"{len(data)} bytes, kept as {name}"

    def note(message: dict[str, Any]) -> None:
        with open(folder / "transcript", "ab", buffering=0) as file:
            file.write(json.dumps(message).encode() + b"\n")

    started = time.process_time()
    for n in range(many):
        result = await asyncio.create_task(tool(n))
        if len(result) > len(_LARGE):
            result = keep(result.encode())
        note({"role": "assistant", "calls": [{"id": f"c{n}", "name": f"tool{n % _TOOLS}", "arguments": {"n": n}}]})
        note({"role": "tool", "id": f"c{n}", "content": result})
    return (time.process_time() - started) / many


async def _run(folder: Path, many: int) -> tuple[float, float, float]:
    """Processor time and time on the clock of one turn, and the bytes that the process has grown by in all."""

    async def small(n: int = 0) -> str:
        return f"order {n} is fine"

    async def large(n: int = 0) -> str:
        return f"{n}\n{_LARGE}"

    model: Model = _Calling(many)
    tools = [
        AgentTool(ToolSpec(f"tool{at}", f"the tool {at}", _SCHEMA), large if at % 5 == 0 else small)
        for at in range(_TOOLS)
    ]

    def open_bag(session: str, parent: str, model: Model) -> Holdall:
        settings = Settings(tokenizer="estimate")
        return Holdall.open(
            home=str(folder / "home"),
            session=session,
            parent=parent,
            settings=settings,
            model=model,
            tokenizer=Estimate(),
        )

    agent = Agent("bench", "You count.", model, open_bag, Toolbox(tools), max_turns=many + 10)
    async with open_bag("bench", "", model) as bag:
        gc.collect()
        before = _resident()
        processor, clock = time.process_time(), time.perf_counter()
        report = await run_agent(agent, bag, "Go.")
        processor, clock = time.process_time() - processor, time.perf_counter() - clock
        if report.synthetic or report.turns != many + 1:
            raise AssertionError("the run did not come to its report")
        transcript = len(bag.records.transcript())
        gc.collect()
        grown = max(0.0, _resident() - before - 3.0 * transcript)  # a message in memory is an object, not a line
    return processor / many, clock / many, grown


def _resident() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
