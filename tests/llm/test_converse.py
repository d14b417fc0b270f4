"""The loop of a model and its tools: when it ends, what every call gets, what a request may hold."""

import asyncio
from collections.abc import Sequence

import pytest

from holdall.llm.converse import Turn, converse, from_transcript, side_by_side
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Assistant, Message, Reply, ToolCall, ToolResult, Usage, User
from holdall.values.errors import ModelBusy
from holdall.wire.actions import broken_arguments, too_many_calls, unknown_tool
from tests.llm.contract import GREP

pytestmark = pytest.mark.anyio


def calling(*patterns: str, name: str = "context.grep") -> Reply:
    calls = tuple(ToolCall(f"c-{pattern}", name, {"pattern": pattern}) for pattern in patterns)
    return Reply("", calls, Usage(10, 1))


async def search(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, f"found {call.arguments['pattern']}")


async def never(calls: tuple[ToolCall, ...]) -> Sequence[ToolResult]:
    raise AssertionError(f"nothing was to be run, not {calls}")


async def test_it_runs_calls_until_the_model_answers() -> None:
    model = ScriptedModel([calling("a"), calling("b", "c"), Reply("done", usage=Usage(5, 5))])
    transcript: list[Message] = [User("go")]
    ended = await converse(
        model, transcript, build=from_transcript(transcript, [GREP]), run=side_by_side(search), max_turns=9
    )
    assert (ended.outcome, ended.reply.text, ended.turns) == ("answered", "done", 3)
    assert ended.usage == Usage(25, 7, unpriced=3)
    assert transcript == [
        User("go"),
        Assistant("", calling("a").calls),
        ToolResult("c-a", "context.grep", "found a"),
        Assistant("", calling("b", "c").calls),
        ToolResult("c-b", "context.grep", "found b"),
        ToolResult("c-c", "context.grep", "found c"),
        Assistant("done"),
    ]
    assert [request.messages for request in model.requests] == [
        tuple(transcript[:1]), tuple(transcript[:3]), tuple(transcript[:6]),
    ]  # fmt: skip


async def test_in_the_last_turn_the_tools_are_withheld() -> None:
    model = ScriptedModel([calling("a"), calling("b"), "well"])
    transcript: list[Message] = [User("go")]
    ended = await converse(
        model, transcript, build=from_transcript(transcript, [GREP]), run=side_by_side(search), max_turns=3
    )
    assert ended.outcome == "answered"
    assert [request.tools for request in model.requests] == [(GREP,), (GREP,), ()]


async def test_a_model_that_only_calls_is_out_of_turns() -> None:
    model = ScriptedModel([calling("a"), calling("b")])
    transcript: list[Message] = [User("go")]
    ended = await converse(
        model, transcript, build=from_transcript(transcript, [GREP]), run=side_by_side(search), max_turns=2
    )
    assert (ended.outcome, ended.turns) == ("out of turns", 2)
    assert transcript[-1] == ToolResult("c-b", "context.grep", unknown_tool("context.grep", []), is_error=True)


async def test_calls_run_at_once_and_their_results_keep_their_order() -> None:
    waiting: dict[str, asyncio.Event] = {pattern: asyncio.Event() for pattern in "abc"}

    async def in_reverse(call: ToolCall) -> ToolResult:
        pattern = call.arguments["pattern"]
        if pattern != "c":
            await waiting[chr(ord(pattern) + 1)].wait()
        waiting[pattern].set()
        return await search(call)

    model = ScriptedModel([calling("a", "b", "c"), "done"])
    transcript: list[Message] = [User("go")]
    async with asyncio.timeout(100):
        await converse(
            model, transcript, build=from_transcript(transcript, [GREP]), run=side_by_side(in_reverse), max_turns=3
        )
    assert [one.text for one in transcript if isinstance(one, ToolResult)] == ["found a", "found b", "found c"]


async def test_every_call_gets_an_answer_also_those_that_cannot_be_run() -> None:
    ran: list[str] = []

    async def noted(call: ToolCall) -> ToolResult:
        ran.append(call.id)
        return await search(call)

    calls = (
        ToolCall("1", "nosuch", {}),
        ToolCall("2", "context.grep", '{"pattern": "a'),
        ToolCall("3", "context.grep", {"pattern": "x"}),
        ToolCall("4", "context.grep", {"pattern": "y"}),
    )
    model = ScriptedModel([Reply("", calls), "done"])
    transcript: list[Message] = [User("go")]
    await converse(
        model,
        transcript,
        build=from_transcript(transcript, [GREP]),
        run=side_by_side(noted),
        max_turns=3,
        calls_per_turn=3,
    )
    assert ran == ["3"]
    assert [(one.call_id, one.text, one.is_error) for one in transcript if isinstance(one, ToolResult)] == [
        ("1", unknown_tool("nosuch", ["context.grep"]), True),
        ("2", broken_arguments("context.grep", cut_off=False), True),
        ("3", "found x", False),
        ("4", too_many_calls(3), True),
    ]


async def test_arguments_that_were_cut_off_are_told_so() -> None:
    model = ScriptedModel([Reply("", (ToolCall("1", "context.grep", "{"),), stop="length"), "done"])
    transcript: list[Message] = [User("go")]
    await converse(model, transcript, build=from_transcript(transcript, [GREP]), run=never, max_turns=2)
    assert transcript[2] == ToolResult(
        "1", "context.grep", broken_arguments("context.grep", cut_off=True), is_error=True
    )


async def test_a_request_may_hold_what_is_not_kept() -> None:
    model = ScriptedModel([calling("a"), "done"])
    transcript: list[Message] = [User("go")]

    async def build(turn: Turn) -> Request:
        await asyncio.sleep(0)
        return Request((*transcript, User(f"turn {turn.number}, last: {turn.last}")), (GREP,))

    told: list[tuple[int, str]] = []
    await converse(
        model,
        transcript,
        build=build,
        run=side_by_side(search),
        max_turns=2,
        on_reply=lambda turn, _, reply: told.append((turn.number, reply.text)),
    )
    assert [request.messages[-1].text for request in model.requests] == ["turn 1, last: False", "turn 2, last: True"]
    assert not any("turn" in one.text for one in transcript)
    assert told == [(1, ""), (2, "done")]


async def test_a_call_may_be_the_end() -> None:
    model = ScriptedModel([calling("a"), calling("report"), "never"])
    transcript: list[Message] = [User("go")]
    ended = await converse(
        model,
        transcript,
        build=from_transcript(transcript, [GREP]),
        run=side_by_side(search),
        max_turns=9,
        done=lambda _, returned: any("report" in one.text for one in returned),
    )
    assert (ended.outcome, ended.turns) == ("done", 2)


async def test_an_error_of_the_model_goes_through_and_what_was_said_stays() -> None:
    transcript: list[Message] = [User("go")]
    with pytest.raises(ModelBusy):
        await converse(
            ScriptedModel([calling("a"), ModelBusy("x")]),
            transcript,
            build=from_transcript(transcript, [GREP]),
            run=side_by_side(search),
            max_turns=9,
        )
    assert transcript[-1] == ToolResult("c-a", "context.grep", "found a")


async def test_a_call_that_raises_ends_the_others_and_goes_through() -> None:
    cancelled = asyncio.Event()

    async def one_fails(call: ToolCall) -> ToolResult:
        if call.arguments["pattern"] == "b":
            raise ZeroDivisionError("a bug")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        raise AssertionError

    transcript: list[Message] = [User("go")]
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await converse(
            ScriptedModel([calling("a", "b")]),
            transcript,
            build=from_transcript(transcript, [GREP]),
            run=side_by_side(one_fails),
            max_turns=9,
        )
    assert cancelled.is_set()


async def test_a_conversation_without_turns_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one turn"):
        await converse(ScriptedModel([]), [], build=from_transcript([], []), run=never, max_turns=0)
