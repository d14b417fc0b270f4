"""An agent of the chaos: a scripted model that fetches large and slow outputs, one turn after the other. It is killed
at any moment, and started again with the same words until it has reported.

python -m tests.faults.chaos_agent HOME SESSION SEED REPORT
"""

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from holdall import Holdall, Settings
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, Toolbox
from holdall.llm.protocol import Model, Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall
from holdall.values.errors import HoldallError
from tests.agent.shapes import returned, tool

CALLS = 8
REFUSED = 3  # the exit code where the store refused: it can be resumed
_SETTINGS = Settings(slow_after_seconds=0.2, grace_seconds=0.5)


def fetched(seed: int, number: int) -> tuple[str, int, float]:
    """A line, how often it comes, and after how many seconds: what call `number` fetches."""
    dice = random.Random(f"{seed} {number}")
    times = dice.choice((1, 500, 2_000, 10_000))
    return f"call {number} of agent {seed}\n", times, dice.choice((0.0, 0.0, 0.0, 0.5))


async def fetch(line: str, times: int, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return line * times


class Chosen:
    """The replies of the model. What it has been shown is written to the report before it says anything."""

    def __init__(self, seed: int, report: Path) -> None:
        self._seed = seed
        self._report = report

    def __call__(self, request: Request) -> Reply:
        results = returned(request)
        shown = [(one.call_id, one.text) for one in results if "handle: " in one.text]
        descriptor = os.open(self._report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for by, text in shown:
            os.write(descriptor, json.dumps([by, text.partition("handle: ")[2].split()[0]]).encode() + b"\n")
        os.close(descriptor)
        if len(results) >= CALLS:
            return Reply(calls=(ToolCall("end", "final_report", {"report": f"{len(results)} calls"}),))
        return Reply(calls=tuple(self._call(len(results) + more) for more in range(1 + len(results) % 2)))

    def _call(self, number: int) -> ToolCall:
        line, times, seconds = fetched(self._seed, number)
        return ToolCall(f"c{number}", "fetch", {"line": line, "times": times, "seconds": seconds})


async def _run(home: str, session: str, seed: int, report: Path) -> str:
    def open_bag(name: str, parent: str, model: Model) -> Holdall:
        return Holdall.open(home=home, session=name, parent=parent, settings=_SETTINGS, model=model)

    model = ScriptedModel(Chosen(seed, report), window=500_000)
    agent = Agent(name="chaos", prompt="Fetch.", model=model, open_bag=open_bag, tools=Toolbox([tool("fetch", fetch)]))
    async with agent.open_bag(session, "", model) as bag:
        begun = bool(bag.records.transcript())
        return (await run_agent(agent, bag, "" if begun else "Go.", resume=begun)).status


def main(home: str, session: str, seed: str, report: str) -> int:
    try:
        print(asyncio.run(_run(home, session, int(seed), Path(report))))
    except HoldallError as refused:
        print(f"{type(refused).__name__}: {refused}", file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
