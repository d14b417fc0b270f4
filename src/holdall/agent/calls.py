"""The tool calls of one turn: all started at once through the bag, which decides what the model gets of each.

The members of a batch are calls like any other; what a batch returns is only their list. Nothing here knows a limit of
size: the bag does.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from holdall.agent.toolbox import AgentTool
from holdall.bag import Holdall, Pending
from holdall.bag import Turn as BagTurn
from holdall.bag.take import text_beside
from holdall.policy.lifecycle import Response
from holdall.values.answers import Answer
from holdall.values.chat import Returned, ToolCall
from holdall.values.outputs import Inline, Kept, Running, Unkept
from holdall.wire.actions import broken_arguments, unknown_tool
from holdall.wire.agent_texts import nested_too_deep
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.tool import ToolSpec

MOST_NESTED = 3  # a batch in a batch in a batch


class Runtime(Protocol):
    """What a session knows of the tools that are its own."""

    @property
    def bag(self) -> Holdall: ...

    def listed(self) -> Sequence[ToolSpec]: ...

    def external(self, name: str) -> AgentTool | None: ...

    def internal(self, call: ToolCall) -> "str | Spawn | None":
        """The answer of a tool of the runtime, an agent to start, or None where the name is none of them."""
        ...


@dataclass(frozen=True, slots=True)
class Spawn:
    """An agent that is to be started: a call like any other, which may go to the background at once."""

    call: Callable[[], object]
    name: str
    background: bool


class _Started:
    """One call on its way, and what became of it once the turn has closed."""

    def __init__(
        self, call: ToolCall, pending: Pending | None = None, text: str = "", *, is_error: bool = False
    ) -> None:
        self.call = call
        self.members: list[_Started] = []
        self._pending = pending
        self._text = text
        self._is_error = is_error
        self._began = time.perf_counter()
        self._ended = self._began
        if pending is not None:
            cast("Any", pending.work).add_done_callback(self._stamp)

    def _stamp(self, _: object) -> None:
        self._ended = time.perf_counter()

    def response(self) -> Response:
        if self.members:
            kinds = [member.response() for member in self.members]
            return "running notice" if set(kinds) == {"running notice"} else "output"
        match self._pending.result if self._pending is not None else None:
            case Running():
                return "running notice"
            case Answer():
                return "retrieval"
            case Kept():
                return "size notice"
            case _:
                return "failure" if self._is_error else "output"

    def returned(self) -> Returned:
        if self.members:
            told = [{"tool": one.call.name, **_told(one.returned())} for one in self.members]
            return Returned(self.call.id, self.call.name, json.dumps(told, ensure_ascii=False))
        if self._pending is None:
            return Returned(self.call.id, self.call.name, self._text, self._is_error)
        return Returned(self.call.id, self.call.name, text_beside(self._pending.content), self._pending.is_error)

    def record(self, bag: Holdall) -> None:
        for member in self.members:
            member.record(bag)
        if self._pending is None:
            return
        result = self._pending.result
        handle = result.handle if isinstance(result, Kept | Running | Answer) else ""
        outcome = {Inline: "inline", Kept: "kept", Running: "running", Unkept: "unkept", Answer: "answer"}[type(result)]
        bag.journal.record(
            "called", handle=handle, tool=self.call.name, call_id=self.call.id, seconds=self._ended - self._began,
            outcome=outcome, is_error=result.is_error, chars=len(text_beside(result.content)),
        )  # fmt: skip


def _told(returned: Returned) -> dict[str, Any]:
    return {"result": returned.text} | ({"is_error": True} if returned.is_error else {})


async def run_calls(
    runtime: Runtime, calls: Sequence[ToolCall], *, window: int, used: int
) -> tuple[list[Returned], dict[str, Response]]:
    """What each call gives, in their order, and of what kind it is."""
    async with runtime.bag.turn(window=window, tokens_used=used) as turn:
        started = [_start(runtime, turn, call, 0) for call in calls]
    for one in started:
        one.record(runtime.bag)
    return [one.returned() for one in started], {one.call.id: one.response() for one in started}


def _start(runtime: Runtime, turn: BagTurn, call: ToolCall, depth: int) -> _Started:
    name = call.name.replace(".", "_")
    tool = next((one for one in runtime.listed() if one.plain_name == name), None)
    if tool is None:
        known = [one.plain_name for one in runtime.listed()]
        return _Started(call, text=unknown_tool(call.name, known), is_error=True)
    given: object = call.arguments
    if not isinstance(given, Mapping):
        return _Started(call, text=broken_arguments(call.name, cut_off=False), is_error=True)
    if runtime.bag.owns(call.name):
        return _Started(call, turn.call(call.name, cast("object", given)))
    arguments = coerced(tool.schema, cast("Mapping[str, Any]", given))
    if call.name == "batch":
        return _batch(runtime, turn, call, arguments, depth)
    external = runtime.external(call.name)
    if external is None and (problem := schema_problem(tool.schema, arguments)):
        return _Started(call, text=problem, is_error=True)
    if external is not None:
        pending = turn.run(
            external.call, tool=call.name, arguments=dict(arguments), call_id=call.id, server=external.server,
            schema=external.spec.schema,
        )  # fmt: skip
        return _Started(call, pending)
    answer = runtime.internal(ToolCall(call.id, call.name, arguments))
    if isinstance(answer, Spawn):
        pending = turn.run(
            answer.call, tool=answer.name, call_id=call.id, background=answer.background
        )  # fmt: skip
        return _Started(call, pending)
    return _Started(call, text=answer or "", is_error=answer is None)


def _batch(runtime: Runtime, turn: BagTurn, call: ToolCall, arguments: Mapping[str, Any], depth: int) -> _Started:
    if depth >= MOST_NESTED:
        return _Started(call, text=nested_too_deep(MOST_NESTED), is_error=True)
    members = arguments.get("calls")
    if not isinstance(members, list) or not members:
        return _Started(call, text=broken_arguments(call.name, cut_off=False), is_error=True)
    started = _Started(call)
    for at, member in enumerate(cast("list[object]", members)):
        asked = cast("Mapping[str, Any]", member) if isinstance(member, Mapping) else {"arguments": member}
        name, given = str(asked.get("tool", "")), asked.get("arguments", {})
        started.members.append(_start(runtime, turn, ToolCall(f"{call.id}.{at}", name, given), depth + 1))
    return started
