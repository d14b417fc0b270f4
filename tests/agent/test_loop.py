"""The loop: a model and its tools until it reports, whatever the model does."""

import ast
import asyncio
import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from inline_snapshot import snapshot

from holdall.agent import loop
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, Report
from holdall.agent.transcript import Beside, entry_in
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Assistant, Reply, ToolCall
from holdall.values.errors import ModelFault, UsageError
from tests.agent.shapes import acting, agent, notice_of, report, returned, tool
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
BIG = "".join(f"line {n} of the output\n" for n in range(20_000))


async def small() -> str:
    return "a small result"


async def big() -> str:
    return BIG


async def run(one: Agent, prompt: str = "Do it.", *, session: str = "s1", resume: bool = False) -> Report:
    async with one.open_bag(session, "", one.model) as bag:
        return await run_agent(one, bag, prompt, resume=resume)


@requirement("runtime:loop-size")
def test_the_loop_is_under_150_lines_and_knows_no_limit() -> None:
    source = Path(loop.__file__).read_text("utf-8")
    assert len(source.splitlines()) < 150
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    assert not {name for name in names if "max_inline" in name or "notice" in name.lower() or "strategy" in name}


@requirement(
    "runtime:loop", "runtime:final-report", "runtime:tools-functions", "notice:system-at-the-end",
    "notice:system-not-kept", "notice:system-every-turn-counts", "ledger:in-final-report",
)  # fmt: skip
async def test_a_task_from_prompt_to_report(tmp_path: Path) -> None:
    model = acting(
        [("small", {}), ("big", {})], [("context_grep", {"handle": "$", "pattern": "line 777 "})], report("line 777")
    )
    found = await run(agent(tmp_path, model, tool("small", small), tool("big", big)))
    assert (found.text, found.status, found.synthetic, found.turns, found.calls) == ("line 777", "success", False, 3, 3)
    first, second, third = model.requests
    assert first.messages[0].text.startswith("You are a tester.\n\nA large tool output is kept whole;")
    assert notice_of(first).startswith("# System Notice\n\nThis is turn 1 of 30.")
    assert returned(second)[0].text == "a small result"
    assert f"big returned {len(BIG):,} bytes · 20,000 lines" in returned(second)[1].text
    assert "line 777 of the output" in returned(third)[-1].text
    assert all("# System Notice" not in message.text for message in third.messages[:-1]), "it is never kept"
    assert "context_read" not in {spec.name for spec in first.tools}
    assert "context_read" in {spec.name for spec in second.tools}
    ((handle, share),) = found.coverage.items()
    assert 0 < share < 0.1
    assert found.used[handle] == {"shown": round(share, 6), "scanned": 1.0, "searched": 0.0}
    assert found.to_json()["coverage"] == found.used, "a total over all of it is told from one over unread data"


@requirement("runtime:loop")
async def test_calls_with_the_ids_of_earlier_ones_get_others(tmp_path: Path) -> None:
    def again(name: str) -> Callable[[Request], Reply]:
        return lambda _: Reply(calls=(ToolCall("call_0", name, {}), ToolCall("call_1", "small", {})))

    model = acting(again("small"), again("big"), again("small"), report("once"))
    one = agent(tmp_path, model, tool("small", small), tool("big", big))
    await run(one)
    await run(replace(one, model=(second := acting(again("small"), report("twice")))), resume=True)
    ids = ["call_0", "call_1", "call_0-2", "call_1-2", "call_0-3", "call_1-3", "call_0-4", "call_1-4"]
    said = [
        call.id for message in second.requests[-1].messages if isinstance(message, Assistant) for call in message.calls
    ]
    assert [id for id in said if id.startswith("call_")] == ids
    assert [one.call_id for one in returned(second.requests[-1]) if one.call_id.startswith("call_")][-8:] == ids
    async with one.open_bag("s1", "", model) as bag:
        kept = await bag.show("call_0-2")
        assert (kept.origin.tool, kept.measure.bytes) == ("big", len(BIG))


async def test_a_session_holds_one_conversation(tmp_path: Path) -> None:
    one = agent(tmp_path, acting(report("once")))
    await run(one)
    again = replace(one, model=(second := acting(report("twice"))))
    said = 'an agent has run in session "s1": go on with resume=True, or open another session.'
    with pytest.raises(UsageError, match=re.escape(said)):
        await run(again)
    assert second.requests == []
    assert (await run(again, resume=True)).text == "twice"


async def test_what_is_no_text_in_a_small_result_is_kept_and_told(tmp_path: Path) -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    results: dict[str, tuple[Any, str]] = {
        "picture": ({"content": [picture]}, r"\[image/png, 8 bytes: kept by itself; handle: (\w+)\]"),
        "both": (
            {"content": [{"type": "text", "text": "see"}, picture]},
            r"see\n\[image/png, 8 bytes: kept by itself; handle: (\w+)\]",
        ),
        "link": ({"content": [{"type": "resource_link", "uri": "x://y", "name": "n"}]}, r".*\"uri\": \"x://y\".*"),
        "data": ({"content": [], "structuredContent": {"answer": 42}}, r"\{\"answer\": 42\}"),
        "more": (
            {"content": [{"type": "text", "text": "done"}], "structuredContent": {"answer": 42}},
            r"done\n\[structured content, 14 bytes: kept by itself; handle: (\w+)\]",
        ),
    }

    def giving(result: Any) -> Any:
        async def give() -> Any:
            return result

        return give

    model = acting(
        [(name, {}) for name in results], [("batch", {"calls": [{"tool": "picture", "arguments": {}}]})], report()
    )
    one = agent(tmp_path, model, *(tool(name, giving(result)) for name, (result, _) in results.items()))
    await run(one)
    texts = [message.text for message in returned(model.requests[1])]
    for text, (_, expected) in zip(texts, results.values(), strict=True):
        assert re.fullmatch(expected, text), text
    assert "kept by itself; handle: " in returned(model.requests[2])[-1].text
    async with one.open_bag("s1", "", one.model) as bag:
        for text in texts:
            for handle in re.findall(r"handle: (\w+)", text):
                data = (await bag.read(handle, bytes=":", bounded=False)).data
                assert data in (base64.b64decode("iVBORw0KGgo="), b'{"answer": 42}')


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("a\ud800b", r"a\ufffdb\n\[1 lone surrogate was replaced by U\+FFFD\]"),
        ({"k": "a\udfffb"}, r'\{"k": "a\ufffdb"\}\n\[1 lone surrogate was replaced by U\+FFFD\]'),
        (b"\x00\xff\x01", r"(?s)give returned 3 bytes .*?\)\nhandle: (\w+)\n.*"),
        ("größe".encode(), "größe"),
    ],
)
@requirement("measure:model-reads-utf8")
async def test_a_model_is_sent_valid_text_whatever_a_tool_a_person_or_itself_wrote(
    tmp_path: Path, result: Any, expected: str
) -> None:
    async def give(x: str) -> Any:
        assert x == "q\ud800w", "the tool gets what the model wrote"
        return result

    model = acting([("give", {"x": "q\ud800w"})], report())
    one = agent(tmp_path, model, tool("give", give))
    await run(one, "Do \udc00 it.")
    (text,) = [message.text for message in returned(model.requests[1])]
    found = re.fullmatch(expected, text)
    assert found, text
    for request in model.requests:
        assert "\\ud" not in repr(request.messages)
    async with one.open_bag("s1", "", one.model) as bag:
        for handle in found.groups():
            assert (await bag.read(handle, bytes=":", bounded=False)).data == result


@requirement("runtime:max-turns", "runtime:final-turn", "notice:system-final-turn")
async def test_in_the_last_turn_only_the_report_is_offered(tmp_path: Path) -> None:
    model = acting([("big", {})], [("small", {})], [("small", {})], report("that is all"))
    found = await run(agent(tmp_path, model, tool("small", small), tool("big", big), max_turns=4))
    assert [spec.name for spec in model.requests[-1].tools] == ["final_report"]
    last = notice_of(model.requests[-1])
    assert "This is your final turn: 4 turns are over. Only final_report can be called now." in last
    assert "Call tools" not in last
    assert "context_" not in last
    assert (found.text, found.synthetic) == ("that is all", False)


@requirement("dialect:names-as-listed")
async def test_every_text_names_the_tools_as_they_are_listed_to_the_model(tmp_path: Path) -> None:
    model = acting([("big", {})], report())
    await run(agent(tmp_path, model, tool("big", big), settings={"dialect": "refs"}))
    told = "\n".join(message.text for message in model.requests[-1].messages)
    assert {"context_read", "context_tail", "context_grep"} <= {spec.name for spec in model.requests[-1].tools}
    assert "first use `context_tail(refId, 200)`" in told
    assert not re.search(r"context\.\w", told)


@requirement("dialect:names-as-listed")
async def test_a_dotted_name_of_s1_is_taken_alone_as_in_a_batch(tmp_path: Path) -> None:
    asked = {"refId": "c1.0", "lines": 1}
    unknown_one: dict[str, Any] = {"tool": "final.report", "arguments": {}}
    batch = {"calls": [{"tool": "context.tail", "arguments": asked}, unknown_one]}
    model = acting([("big", {})], [("context.tail", asked), ("final.report", {}), ("batch", batch)], report())
    await run(agent(tmp_path, model, tool("big", big), settings={"dialect": "refs"}))
    alone, unknown, both = returned(model.requests[-1])[-3:]
    assert not alone.is_error
    assert unknown.text.startswith('There is no tool "final.report". ')
    first, second = json.loads(both.text)
    assert first["result"].split("\n")[0].startswith("line ")
    assert second["result"].startswith('There is no tool "final.report". ')


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    ("steps", "turns", "why"),
    cast("list[Any]", [
        ([[("small", {})]], 3, "3 turns are over, and it did not report"),
        ([[("rm", {}), ("rf", {"/": 1})]], 3, "3 turns are over, and it did not report"),
        (["I would say that it is done."], 3, "it answered 3 times without a report"),
        ([""], 3, "it answered 3 times without a report"),
        (["x" * 10_000_000], 3, "it answered 3 times without a report"),
    ]),
)  # fmt: skip
async def test_a_model_that_never_reports_is_told_and_ended(
    tmp_path: Path, steps: list[Any], turns: int, why: str
) -> None:
    most = turns if why.startswith("3 turns") else 10
    found = await run(agent(tmp_path, acting(*steps, window=10_000_000), tool("small", small), max_turns=most))
    assert (found.synthetic, found.status, found.turns, found.why) == (True, "failure", turns, why)
    assert found.text.startswith("[This report was not written by the model: ")
    assert len(found.text) < 3000


async def test_a_report_may_come_as_text_in_the_wrapper(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        nonce = request.messages[0].text.split("<ai-agent-")[1].split("-FINAL")[0]
        return f'Well.\n<ai-agent-{nonce}-FINAL format="text">the answer'

    found = await run(agent(tmp_path, acting(answer)))
    assert (found.text, found.synthetic) == ("the answer", False)


def _calls(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for file in folder.rglob("events.ndjson") for line in file.read_text().splitlines()]
    return [one for one in lines if one["event"] == "called"]


async def test_unknown_tools_and_broken_arguments_are_answered(tmp_path: Path) -> None:
    broken = Reply(
        calls=(ToolCall("a", "small", '{"x": '), ToolCall("b", "invented", {}), ToolCall("c", "final_report", {}))
    )

    def answer(_: Request) -> Reply:
        return broken

    model = acting(answer, report())
    await run(agent(tmp_path, model, tool("small", small)))
    answers = returned(model.requests[-1])
    assert [one.is_error for one in answers] == [True, True, True]
    assert "invented" in answers[1].text
    assert "report" in answers[2].text
    calls = _calls(tmp_path)
    assert [(one["tool"], one["outcome"]) for one in calls] == [
        ("small", "refused"), ("invented", "refused"),
    ]  # fmt: skip
    assert all(one["why"] for one in calls)


async def test_a_model_that_repeats_itself_is_told_and_then_ended(tmp_path: Path) -> None:
    model = acting([("small", {})], max_output=200)
    found = await run(agent(tmp_path, model, tool("small", small)))
    assert "You have made the same 3 calls in a row" in model.requests[3].messages[-1].text
    assert all("calls in a row" not in one.text for one in returned(model.requests[-1]))  # no output of the tool
    assert found.synthetic
    assert found.why == "you repeat yourself, and it did not report"
    assert found.turns == 7


@requirement("async:wait-any")
async def test_a_wait_of_the_model_tells_of_what_the_loop_itself_has_waited_for(tmp_path: Path) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.3)
        return "slow result"

    model = acting([("slow", {})], [("wait_for_tool_output", {})], report())
    await run(agent(tmp_path, model, tool("slow", slow), settings={"slow_after_seconds": 0.0}))
    assert "slow result" in returned(model.requests[-1])[-1].text


async def test_a_hundred_calls_at_once_are_bounded(tmp_path: Path) -> None:
    model = acting([("small", {})] * 100, report())
    await run(agent(tmp_path, model, tool("small", small)))
    answers = returned(model.requests[-1])
    assert len(answers) == 100
    assert sum(one.is_error for one in answers) == 68


@requirement("runtime:batch", "way:batch-members", "way:batch-envelope-not-stored")
async def test_a_batch_holds_any_tool_and_each_member_is_judged_by_itself(tmp_path: Path) -> None:
    calls: list[Any] = [
        {"tool": "small", "arguments": {}},
        {"tool": "big", "arguments": {}},
        {"tool": "nope", "arguments": {}},
    ]
    again = [
        {"tool": "context_tail", "arguments": {"handle": "$", "lines": 1}},
        {"tool": "task_status", "arguments": {"status": "x"}},
    ]
    model = acting([("batch", {"calls": calls})], [("batch", {"calls": again})], report())
    await run(agent(tmp_path, model, tool("small", small), tool("big", big)))
    first = json.loads(returned(model.requests[1])[0].text)
    assert [one["tool"] for one in first] == ["small", "big", "nope"]
    assert first[0]["result"] == "a small result"
    assert "\nhandle: " in first[1]["result"]
    assert first[2]["is_error"]
    second = json.loads(returned(model.requests[2])[-1].text)
    assert "line 19999 of the output" in second[0]["result"]
    schema = next(spec for spec in model.requests[1].tools if spec.name == "batch").schema
    names = schema["properties"]["calls"]["items"]["properties"]["tool"]["enum"]
    assert names == [
        "small",
        "big",
        "context_read",
        "context_grep",
        "context_tail",
        "context_query",
        "tool_output",
        "task_status",
    ]


async def test_members_of_batches_count_as_calls_of_the_message(tmp_path: Path) -> None:
    member: dict[str, Any] = {"tool": "small", "arguments": {}}
    many: tuple[str, dict[str, Any]] = ("batch", {"calls": [member] * 33})
    model = acting([many], [("batch", {"calls": [member] * 20}), ("batch", {"calls": [member] * 20})], report())
    await run(agent(tmp_path, model, tool("small", small)))
    refusal = "Not called: one message may hold at most 32 calls."
    assert returned(model.requests[1])[0].text.startswith(refusal)
    told = [json.loads(one.text) for one in returned(model.requests[2])[-2:]]
    assert [sum(refusal in one["result"] for one in part) for part in told] == [0, 8]


@requirement("runtime:batch")
async def test_a_batch_without_calls_is_told_what_is_missing(tmp_path: Path) -> None:
    model = acting([("batch", {}), ("batch", {"calls": []}), ("batch", {"calls": "x"})], report())
    await run(agent(tmp_path, model, tool("small", small)))
    assert [one.text for one in returned(model.requests[1])] == snapshot(
        [
            "The argument 'calls' is missing.",
            "The argument 'calls' must not be empty.",
            "The argument 'calls' must be an array.",
        ]
    )


@requirement("runtime:batch")
async def test_a_member_of_a_batch_whose_arguments_have_another_name_is_not_called(tmp_path: Path) -> None:
    async def delete(older_than: str = "1d") -> str:
        return f"deleted what is older than {older_than}"

    calls: list[Any] = [
        {"id": "1", "tool": "delete", "parameters": {"older_than": "9d"}},
        {"tool": "delete", "older_than": "9d"},
        {"id": "3", "tool": "delete", "arguments": {"older_than": "9d"}, "why": "old"},
        {"id": "4", "tool": "delete"},
    ]
    model = acting([("batch", {"calls": calls})], report())
    await run(agent(tmp_path, model, tool("delete", delete)))
    told = json.loads(returned(model.requests[1])[0].text)
    assert [(one["result"], one.get("is_error", False)) for one in told] == snapshot(
        [
            ("Not called: a call of a batch has its arguments in 'arguments', not in 'parameters'.", True),
            ("Not called: a call of a batch has its arguments in 'arguments', not in 'older_than'.", True),
            ("deleted what is older than 9d", False),
            ("deleted what is older than 1d", False),
        ]
    )


@requirement("ledger:in-final-report")
@pytest.mark.parametrize("dialect", ["holdall", "async"])
async def test_of_a_call_that_still_runs_nothing_was_seen(tmp_path: Path, dialect: str) -> None:
    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    model = acting([("forever", {}), ("small", {})], report())
    settings = {"slow_after_seconds": 0.0, "grace_seconds": 0.0, "dialect": dialect}
    found = await run(agent(tmp_path, model, tool("forever", forever), tool("small", small), settings=settings))
    assert next(iter(found.coverage.values())) == 0.0


async def test_a_batch_in_a_batch_is_bounded(tmp_path: Path) -> None:
    nested: dict[str, Any] = {"tool": "small", "arguments": {}}
    for _ in range(50):
        nested = {"tool": "batch", "arguments": {"calls": [nested]}}
    model = acting([("batch", {"calls": [nested]})], report())
    await run(agent(tmp_path, model, tool("small", small)))
    assert "A batch may hold a batch 3 deep at most." in returned(model.requests[1])[0].text


@requirement("runtime:task-status")
async def test_a_status_is_noted(tmp_path: Path) -> None:
    model = acting([("task_status", {"status": "half way", "done": 50})], report())
    await run(agent(tmp_path, model))
    assert returned(model.requests[1])[0].text == "Noted."


async def test_a_tool_that_raises_is_an_error_that_the_model_reads(tmp_path: Path) -> None:
    async def bad() -> str:
        raise ValueError("no such city")

    model = acting([("bad", {})], report())
    await run(agent(tmp_path, model, tool("bad", bad)))
    (answer,) = returned(model.requests[1])
    assert (answer.is_error, "no such city" in answer.text) == (True, True)


async def test_an_invented_handle_is_answered(tmp_path: Path) -> None:
    model = acting([("big", {})], [("context_read", {"handle": "zzzz"})], report())
    await run(agent(tmp_path, model, tool("big", big)))
    assert 'No output is kept under "zzzz".' in returned(model.requests[2])[-1].text


async def test_a_model_that_cannot_be_asked_ends_the_run_with_its_error_and_the_transcript_is_kept(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([Reply(calls=(ToolCall("a", "small", {}),)), ModelFault("401: bad key")])
    one = agent(tmp_path, model, tool("small", small))
    with pytest.raises(ModelFault, match="401"):
        await run(one)
    again = acting(report("went on"))
    found = await run(agent(tmp_path, again, tool("small", small)), "", resume=True)
    assert found.text == "went on"
    assert returned(again.requests[0])[0].text == "a small result"
    assert found.turns == 3, "every turn counts, also those before"
    assert "This is turn 3 of 32." in again.requests[0].messages[-1].text


def test_tools_of_a_request_that_are_no_list_are_none() -> None:
    assert entry_in(b'{"role":"request","notice":"n","tools":["a","b"]}') == Beside("n", ("a", "b"))
    assert entry_in(b'{"role":"request","notice":"n","tools":"aaaa"}') == Beside("n")
