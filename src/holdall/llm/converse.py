"""The loop of a model and its tools: ask, run the calls, ask again, until it answers or its turns are over.

It knows neither what is asked nor what the tools do: `build` says what a request holds, `run` runs the calls.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal

from holdall.llm.protocol import Model, Request
from holdall.values.chat import Assistant, Message, Reply, ToolCall, ToolResult, Usage
from holdall.values.record import record
from holdall.wire.actions import broken_arguments, too_many_calls, unknown_tool
from holdall.wire.tool import ToolSpec

Outcome = Literal["answered", "done", "out of turns"]  # it called nothing; `done` said so; there was no turn left


@record
class Turn:
    """`number` counts from 1. In the last one the model should be made to answer."""

    number: int
    last: bool


@record
class Conversation:
    outcome: Outcome
    reply: Reply
    turns: int
    usage: Usage


Build = Callable[[Turn], "Request | Awaitable[Request]"]
Run = Callable[[tuple[ToolCall, ...]], Awaitable[Sequence[ToolResult]]]
OnReply = Callable[[Turn, Request, Reply], object]
Done = Callable[[Reply, Sequence[ToolResult]], bool]


async def converse(
    model: Model,
    transcript: list[Message],
    *,
    build: Build,
    run: Run,
    max_turns: int,
    calls_per_turn: int = 10,
    on_reply: OnReply | None = None,
    done: Done | None = None,
) -> Conversation:
    """`transcript` grows in place by what the model says and what its calls give; `build` makes each request from it:
    messages that are not kept, tools of this turn, a forced end. `run` gets the calls of one reply that can be run,
    and gives what they return in the same order. Errors of the model, of `build` and of `run` go through.
    """
    usage = Usage()
    for number in range(1, max_turns + 1):
        turn = Turn(number, last=number == max_turns)
        built = build(turn)
        request = await built if inspect.isawaitable(built) else built
        reply = await model.ask(request)
        usage = usage + reply.usage
        if on_reply is not None:
            on_reply(turn, request, reply)
        transcript.append(Assistant(reply.text, reply.calls))  # before its calls run: they may end the process
        if not reply.calls:
            return Conversation("answered", reply, number, usage)
        returned = await _returned(request, reply, run, calls_per_turn)
        transcript += returned
        if done is not None and done(reply, returned):
            return Conversation("done", reply, number, usage)
        if turn.last:
            return Conversation("out of turns", reply, number, usage)
    raise ValueError(f"a conversation needs at least one turn, not {max_turns}")


def from_transcript(transcript: list[Message], tools: Sequence[ToolSpec], *, max_tokens: int | None = None) -> Build:
    """The plain way to build: all that was said, and the tools in every turn but the last."""

    def build(turn: Turn) -> Request:
        return Request(tuple(transcript), () if turn.last else tuple(tools), max_tokens=max_tokens)

    return build


def side_by_side(call: Callable[[ToolCall], Coroutine[Any, Any, ToolResult]]) -> Run:
    """The plain way to run: each call by itself, all at once. When one raises, the others are cancelled."""

    async def run(calls: tuple[ToolCall, ...]) -> Sequence[ToolResult]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(call(one)) for one in calls]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    return run


async def _returned(request: Request, reply: Reply, run: Run, most: int) -> list[ToolResult]:
    """What every call gives, in the order of the calls: each has an answer, also those that cannot be run."""
    refused = {at: why for at, one in enumerate(reply.calls) if (why := _refusal(one, at, request, reply, most))}
    rest = tuple(one for at, one in enumerate(reply.calls) if at not in refused)
    ran = iter(await run(rest) if rest else ())
    return [
        ToolResult(one.id, one.name, refused[at], is_error=True) if at in refused else next(ran)
        for at, one in enumerate(reply.calls)
    ]


def _refusal(call: ToolCall, at: int, request: Request, reply: Reply, most: int) -> str:
    names = [tool.name for tool in request.tools]
    if call.name not in names and call.name.replace(".", "_") not in names:  # S1's names, which have dots
        return unknown_tool(call.name, names)
    if not isinstance(call.arguments, Mapping):
        return broken_arguments(call.name, cut_off=reply.stop == "length")
    return too_many_calls(most) if at >= most else ""
