"""Tools for a model without calls of its own: what reaches it, and what its words become."""

import pytest

from holdall.llm.converse import converse, from_transcript, side_by_side
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.llm.wrappers import JsonToolCalls, with_tools
from holdall.values.chat import Assistant, Message, Reply, System, ToolCall, ToolResult, User
from holdall.wire.actions import action_schema, instructions
from holdall.wire.agent_texts import FINAL_REPORT, TASK_STATUS
from tests.llm.contract import COLOUR, GREP, asking

pytestmark = pytest.mark.anyio
SEARCH = '{"tool": "context.grep", "arguments": {"pattern": "E"}}'


def test_a_model_that_calls_tools_is_left_as_it_is() -> None:
    able = ScriptedModel([])
    assert with_tools(able) is able
    unable = with_tools(ScriptedModel([], calls_tools=False, name="small", window=99))
    assert isinstance(unable, JsonToolCalls)
    assert (unable.calls_tools, unable.name, unable.window) == (True, "small", 99)


async def test_a_model_that_keeps_a_schema_is_held_to_the_actions() -> None:
    model = ScriptedModel([SEARCH], calls_tools=False, keeps_schema=True)
    reply = await with_tools(model).ask(asking("Search.", tools=(GREP,), max_tokens=9))
    assert reply.calls == (ToolCall("action-1", "context.grep", {"pattern": "E"}),)
    assert (reply.text, reply.stop) == ("", "calls")
    (sent,) = model.requests
    assert (sent.tools, sent.schema, sent.max_tokens) == ((), action_schema([GREP]), 9)
    assert sent.messages == (System(f"You are terse.\n\n{instructions([GREP])}"), User("Search."))


async def test_the_answer_of_a_model_that_is_held_to_the_actions_is_its_report() -> None:
    tools = (GREP, TASK_STATUS, FINAL_REPORT)
    model = ScriptedModel(['{"answer": "Disk 7."}', '{"answer": "Disk 7."}'], calls_tools=False, keeps_schema=True)
    reply = await with_tools(model).ask(asking("Search.", tools=tools))
    assert reply.calls == (ToolCall("action-1", "final_report", {"report": "Disk 7."}),)
    last = await with_tools(model).ask(asking("Search.", tools=(FINAL_REPORT,)))
    assert last.calls[0].name == "final_report"
    assert [sent.schema for sent in model.requests] == [action_schema([GREP]), action_schema([])]
    assert "task_status" not in str(model.requests[0].messages)
    free = ScriptedModel(['{"answer": "Disk 7."}'], calls_tools=False)
    assert (await with_tools(free).ask(asking("Search.", tools=tools))).text == "Disk 7.", (
        "it has its own form to report"
    )


async def test_what_is_asked_is_the_last_that_such_a_model_reads() -> None:
    """A small model goes on from there: a notice about its turn would be repeated as its answer."""
    model = ScriptedModel(["x"], calls_tools=False)
    said = (*asking("Search.").messages, System("This is turn 1 of 9."))
    await with_tools(model).ask(Request(said, (GREP,)))
    assert model.requests[0].messages[-1] == User("This is turn 1 of 9.\n\nSearch.")


async def test_a_model_that_keeps_none_is_only_told() -> None:
    model = ScriptedModel([f"Let me look.\n{SEARCH}"], calls_tools=False)
    reply = await with_tools(model).ask(asking("Search.", tools=(GREP,)))
    assert [call.name for call in reply.calls] == ["context.grep"]
    assert model.requests[0].schema is None


async def test_each_call_of_a_conversation_has_an_id_of_its_own() -> None:
    model = with_tools(ScriptedModel([SEARCH, SEARCH], calls_tools=False))
    first = await model.ask(asking("Search.", tools=(GREP,)))
    said = (*asking("Search.").messages, Assistant("", first.calls), ToolResult("action-1", "context.grep", "nothing"))
    second = await model.ask(Request(said, (GREP,)))
    assert (first.calls[0].id, second.calls[0].id) == ("action-1", "action-2")


async def test_an_answer_ends_the_calls_and_what_was_cut_off_stays_cut_off() -> None:
    model = with_tools(
        ScriptedModel(['{"answer": "Disk 7."}', Reply('{"answer": "Disk', stop="length")], calls_tools=False)
    )
    assert (await model.ask(asking("a", tools=(GREP,)))).text == "Disk 7."
    cut = await model.ask(asking("a", tools=(GREP,)))
    assert (cut.text, cut.stop, cut.calls) == ("Disk", "length", ())


async def test_without_tools_a_request_passes_as_it_is_but_for_earlier_calls() -> None:
    model = ScriptedModel(["x", "y"], calls_tools=False, keeps_schema=True)
    plain = asking("a", schema=COLOUR)
    await with_tools(model).ask(plain)
    later = Request(
        (User("a"), Assistant("", (ToolCall("1", "context.grep", {}),)), ToolResult("1", "context.grep", "r"))
    )
    await with_tools(model).ask(later)
    assert model.requests[0] == plain
    assert model.requests[1].messages == (
        User("a"),
        Assistant('{"tool": "context.grep", "arguments": {}}'),
        User("context.grep returned:\n<result>\nr\n</result>"),
    )


async def test_half_a_call_is_told_to_the_model_and_not_taken_for_its_answer() -> None:
    half = Reply('{"tool": "context.grep", "arguments": {"pattern": "dis', stop="length")
    model = with_tools(ScriptedModel([half, '{"answer": "disk 7"}'], calls_tools=False))
    transcript: list[Message] = [User("which disk?")]
    talk = await converse(
        model, transcript, build=from_transcript(transcript, [GREP]), run=side_by_side(no_call), max_turns=3
    )
    assert talk.reply.text == "disk 7"
    told = [message.text for message in transcript if isinstance(message, ToolResult)]
    assert told == [
        "The arguments of context.grep are not valid JSON, so it was not called. They were cut off: write less."
    ]


async def no_call(call: ToolCall) -> ToolResult:
    raise AssertionError(call)
