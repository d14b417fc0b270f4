"""Sessions for the pages to show, made through the bag as an agent would make them, with a scripted model."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdall.bag import Holdall
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.outputs import Kept

LOG = "".join(
    f"2026-11-15 10:{at // 60 % 60:02}:{at % 60:02} INFO request {at} took {at % 97} ms\n" for at in range(6000)
)
NEEDLE = "2026-11-15 11:41:07 ERROR E1234 disk /dev/sda3 is full\n"
REAL_QUOTE = "ERROR E1234 disk /dev/sda3 is full"
FALSE_QUOTE = "ERROR E9999 the moon has fallen down"


@dataclass(frozen=True, slots=True)
class Told:
    """The ids of a story's session and of its outputs."""

    session: str
    handles: Sequence[str]


def model_that_quotes() -> ScriptedModel:
    def answer(_request: Request) -> str:
        found = {"quotes": [REAL_QUOTE, FALSE_QUOTE], "answer": "The disk is full.", "found": True, "confidence": 0.9}
        return json.dumps(found)

    return ScriptedModel(answer, keeps_schema=True, window=400_000, price=Price(1.0, 4.0))


async def investigation(home: Path, name: str = "investigation", *, ends: bool = True, tool: str = "fetch_log") -> Told:
    """An agent that keeps a log, searches it, asks a model about it, has a sub-agent, and reports."""
    text = LOG[:200_000] + NEEDLE + LOG[200_000:]
    async with Holdall.open(home=str(home), session=name, model=model_that_quotes()) as bag:
        said: list[dict[str, Any]] = [{"role": "user", "text": "Why do the requests fail?"}]
        _turn(bag, 1, 900)
        _asked(bag, 1200, 40)
        kept = await bag.take(text, tool=tool, arguments={"path": "/var/log/app.log"}, call_id="c1")
        assert isinstance(kept, Kept)
        handle = kept.artifact.handle
        _called(bag, tool, "c1", handle, "kept")
        said.append(_call("c1", tool, {"path": "/var/log/app.log"}))
        _turn(bag, 2, 1700)
        _asked(bag, 2300, 35)
        await bag.call("context_grep", {"handle": handle, "pattern": "ERROR"})
        _called(bag, "context_grep", "c2", handle, "answer")
        said.append(_call("c2", "context_grep", {"handle": handle, "pattern": "ERROR"}))
        await bag.extract(handle, "which disk?", mode="full-chunked")
        await _child(home, bag)
        if ends:
            _turn(bag, 3, 2100)
            _asked(bag, 2600, 80)
            report = f"The disk is full: {REAL_QUOTE}. The whole log is in {handle}."
            said.append(_call("c3", "final_report", {"report": report}))
            share = (await bag.coverage(handle)).share(len(text))
            bag.journal.record("reported", status="success", synthetic=False, why="", chars=len(report), turns=3,
                               seen={handle: share})  # fmt: skip
        bag.append_transcript(b"".join(json.dumps(line).encode() + b"\n" for line in said))
        return Told(bag.session.id, [handle])


async def plain(home: Path, name: str, outputs: Sequence[tuple[str, str]]) -> Told:
    """Outputs that were only kept: (tool, text) each."""
    async with Holdall.open(home=str(home), session=name) as bag:
        kept = [await bag.keep(text, tool=tool) for tool, text in outputs]
        return Told(bag.session.id, [one.handle for one in kept])


async def _child(home: Path, bag: Holdall) -> None:
    async with Holdall.open(home=str(home), session=f"{bag.session.name}/helper-1", parent=bag.session.id) as child:
        bag.journal.record("spawned", tool="helper", session=child.session.id, task_bytes=20)
        _turn(child, 1, 500)
        _asked(child, 600, 10)
        child.journal.record("reported", status="success", synthetic=False, why="", chars=2, turns=1, seen={})
        bag.journal.record("joined", tool="helper", session=child.session.id, input_tokens=600, output_tokens=10,
                           cost=0.001, calls=1, turns=1)  # fmt: skip


def _turn(bag: Holdall, number: int, tokens: int) -> None:
    bag.journal.record("turn", number=number, final=False, tokens=tokens, why="")


def _asked(bag: Holdall, given: int, got: int) -> None:
    bag.journal.record("asked", seconds=0.8, purpose="turn", model="scripted:test", messages=3, request_bytes=given * 4,
                       reply_bytes=got * 4, preview="", calls=1, input_tokens=given, output_tokens=got, cost=given / 1e6,
                       why="")  # fmt: skip


def _called(bag: Holdall, tool: str, call_id: str, handle: str, outcome: str) -> None:
    bag.journal.record("called", handle=handle, tool=tool, call_id=call_id, seconds=0.2, outcome=outcome,
                       is_error=False, chars=700)  # fmt: skip


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "text": "", "calls": [{"id": id, "name": name, "arguments": arguments}]}
