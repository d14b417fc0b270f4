"""A tool call as the model saw it.

An agent's transcript has the very text that went to the model. Where there is none, it is built again from the kept
output, in the viewer's dialect, and said to be built again: the tag of its fence is new each time.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from holdall.bag import Holdall
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts

_LONGEST = 64 * 1024  # characters on the page: what went to a model is seldom longer


@dataclass(frozen=True, slots=True)
class Notice:
    """`kept`: from the transcript. `rebuilt`: as it would be now. `whole`: the output fits, and is shown as it is."""

    text: str
    how: Literal["kept", "rebuilt", "whole", "running", "missing"]
    later: str = ""  # what stands in its place since messages were replaced
    left: int = 0  # characters that are not on the page


async def notice_of(bag: Holdall, facts: Facts) -> Notice:
    """Never raises for an output that cannot be read: then there is no notice, and it says why."""
    if facts.origin.call_id:
        told = await asyncio.to_thread(_in_transcript, bag, facts.origin.call_id)
        if told:
            last = told[-1] if told[-1] != told[0] else ""
            return Notice(told[0][:_LONGEST], "kept", last[:_LONGEST], max(0, len(told[0]) - _LONGEST))
    if facts.state in ("running", "queued"):
        return Notice("", "running")
    try:
        if await bag.fits(facts.handle):
            return Notice("", "whole")
        return Notice(await bag.notice(facts.handle), "rebuilt")
    except HoldallError as problem:
        return Notice(str(problem), "missing")


def _in_transcript(bag: Holdall, call_id: str) -> list[str]:
    """Every text that the model was given for this call, oldest first: recovery may have replaced the first one."""
    name = json.dumps(call_id).encode("ascii")
    told: list[str] = []
    for line in bag.transcript().split(b"\n"):
        if name not in line:
            continue
        try:
            flat: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(flat, Mapping):
            message = cast("Mapping[str, Any]", flat)
            if message.get("role") == "tool" and message.get("call_id") == call_id:
                text = str(message.get("text", ""))
                told += [text] if not told or told[-1] != text else []
    return told
