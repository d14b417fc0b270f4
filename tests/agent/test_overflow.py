"""What becomes of results that are too large after all: recovery from a provider's refusal, the guard before saving."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall.agent.loop import run_agent
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall, ToolResult
from holdall.values.errors import ModelFault, TooLongForModel
from tests.agent.shapes import acting, agent, report, returned, tool
from tests.agent.test_loop import big, run, small
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("budget:overflow-words-of-s4")
@pytest.mark.parametrize(
    "words",
    [
        "tool output too large", "tool_result too large", "Context length exceeded", "Input exceeds model context window",
        "prompt too long", "Request too large: 413",
    ],
)  # fmt: skip
async def test_a_refusal_in_the_words_of_s4_is_recovered_from(tmp_path: Path, words: str) -> None:
    async def wide() -> str:
        return "word " * 11_000  # under these limits, over 50 KiB

    def model(request: Request) -> Reply:
        if sum(len(message.text) for message in request.messages) > 60_000:
            raise ModelFault(f"some:model: {words}")
        if not returned(request):
            return Reply(calls=(ToolCall("a", "wide", {}), ToolCall("b", "wide", {})))
        return Reply(calls=(ToolCall("r", "final_report", {"report": returned(request)[0].text}),))

    settings = {"max_inline_tokens": 20_000, "max_inline_bytes": 200_000}
    scripted = ScriptedModel(model, window=100_000, max_output=1000)
    found = await run(agent(tmp_path, scripted, tool("wide", wide), settings=settings))
    assert found.text.startswith("wide returned 55,000 bytes"), "its result became a notice, and it was asked again"


@requirement("budget:recovery-rounds")
async def test_the_rounds_of_recovery_begin_anew_when_the_model_has_taken_a_request(tmp_path: Path) -> None:
    refused: list[int] = []

    async def some(n: int) -> str:
        return f"{n} some words of a result\n" * 500

    def model(request: Request) -> Reply | str:
        size = sum(len(message.text) for message in request.messages)
        if size > 40_000:
            refused.append(size)
            raise ModelFault("some:model: prompt is too long")
        number = len({one.call_id for one in returned(request)})
        asked = len(scripted.requests) - len(refused)
        if asked > 30:
            return Reply(calls=(ToolCall("r", "final_report", {"report": f"done after {number}"}),))
        return Reply(calls=(ToolCall(f"t{asked}", "some", {"n": asked}),))

    scripted = ScriptedModel(model, window=200_000, max_output=1000)
    found = await run(agent(tmp_path, scripted, tool("some", some)))
    assert found.text.startswith("done after"), found
    assert len(refused) > 3


@requirement("budget:recovery-notices-first", "budget:recovery-smaller")
@pytest.mark.parametrize(
    ("words", "most", "left"),
    [
        ("Request too large: 413", 100_000, 1),  # at least half of it goes where no number is named
        ("This model's maximum context length is 8192 tokens, however you requested 32000 tokens", 40_000, 0),
    ],
)
@pytest.mark.parametrize("dialect", ["holdall", "async"])
async def test_results_under_the_limits_become_notices_where_the_provider_still_finds_it_too_long(
    tmp_path: Path, dialect: str, words: str, most: int, left: int
) -> None:
    """In a short conversation there is nothing to compact. The largest go first."""
    whole = "word " * 8_000

    async def wide() -> str:
        return whole

    def model(request: Request) -> Reply:
        if sum(len(message.text) for message in request.messages) > most:
            raise ModelFault(f"some:model: {words}")
        if not returned(request):
            return Reply(calls=tuple(ToolCall(f"c{at}", "wide", {}) for at in range(4)))
        return Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),))

    settings = {"max_inline_tokens": 20_000, "max_inline_bytes": 200_000, "dialect": dialect}
    scripted = ScriptedModel(model, window=200_000, max_output=1000)
    one = agent(tmp_path, scripted, tool("wide", wide), settings=settings)
    async with one.open_bag("s1", "", scripted) as bag:
        assert (await run_agent(one, bag, "go")).text == "done"
        assert (await bag.counters()).recoveries == 1
        texts = [one.text for one in returned(scripted.requests[-1])]
        assert sum(text == whole for text in texts) == left
        for facts in bag.core.kept.values():
            assert (await bag.read(facts.handle, chars=":10")).total.bytes == len(whole)


@requirement("budget:recovery-rounds", "budget:recovery-clear-error")
async def test_a_conversation_in_which_nothing_can_be_shortened_says_so(tmp_path: Path) -> None:
    def model(_: Request) -> Reply:
        raise ModelFault("prompt too long")

    scripted = ScriptedModel(model, window=100_000, max_output=1000)
    one = agent(tmp_path, scripted)
    async with one.open_bag("s1", "", scripted) as bag:
        with pytest.raises(TooLongForModel, match="nothing in it can be made shorter: prompt too long"):
            await run_agent(one, bag, "go")
        assert (await bag.counters()).recoveries == 0


@requirement("clamp:2001-lines")
async def test_2001_lines_without_a_final_newline_are_over(tmp_path: Path) -> None:
    lines = "\n".join("x" for _ in range(2001))

    async def many() -> str:
        return lines

    def model(request: Request) -> Reply:
        if any(message.text == lines for message in request.messages):
            raise ModelFault("prompt too long")
        if not returned(request):
            return Reply(calls=(ToolCall("a", "many", {}),))
        return Reply(calls=(ToolCall("r", "final_report", {"report": returned(request)[0].text}),))

    scripted = ScriptedModel(model, window=100_000, max_output=1000)
    found = await run(agent(tmp_path, scripted, tool("many", many), settings={"max_inline_lines": 5000}))
    assert "2,001 lines" in found.text


@requirement("clamp:runtime-guards")
async def test_an_oversized_result_of_an_earlier_conversation_is_kept_before_it_is_saved_again(tmp_path: Path) -> None:
    """By another program, or with other limits: the model gets a notice, and so does the transcript."""
    model = acting([("big", {})], report("first"), window=2_000_000)
    wide = {"max_inline_bytes": 10_000_000, "max_inline_lines": 100_000, "max_inline_tokens": 1_000_000}
    await run(agent(tmp_path, model, tool("big", big), settings=wide))
    assert len(returned(model.requests[-1])[0].text) > 400_000
    again = acting(report("second"), window=2_000_000)
    one = agent(tmp_path, again, tool("big", big))
    await run(one, "And now?", resume=True)
    notice = returned(again.requests[0])[0].text
    assert notice.startswith("big returned ")
    async with one.open_bag("s1", "", again) as bag:
        lines = [json.loads(line) for line in bag.records.transcript().split(b"\n") if line]
        since = lines[max(at for at, line in enumerate(lines) if line == {"again": True}) :]
        assert next(line["text"] for line in since if line.get("role") == "tool") == notice
        assert list(bag.records.seen().values()) == [1.0], "the model had all of it, and answered"


@requirement("clamp:runtime-guards")
async def test_every_result_of_a_tool_is_guarded_before_it_is_saved_and_no_answer_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    model = acting(
        [("big", {}), ("small", {})],
        [("context_tail", {"handle": "$"}), ("batch", {"calls": [{"tool": "small", "arguments": {}}]})],
        report(),
    )
    one = agent(tmp_path, model, tool("big", big), tool("small", small))
    async with one.open_bag("s1", "", model) as bag:
        guard = bag.guard

        async def noted(messages: Any) -> Any:
            seen.extend(message for message in messages if isinstance(message, ToolResult))
            return await guard(messages)

        monkeypatch.setattr(bag, "guard", noted)
        await run_agent(one, bag, "Do it.")
        assert len(await bag.outputs()) == 1, "a notice is no output"
    assert [message.name for message in seen] == ["big", "small"]


@requirement("async:no-background-without-tools")
async def test_a_model_that_could_not_fetch_a_report_later_waits_for_it(tmp_path: Path) -> None:
    helper = agent(tmp_path, acting(report("found it")), name="helper")
    task = {"agent": "helper", "task": "look"}
    model = acting([("spawn_agent", {**task, "async": True}), ("spawn_agent", task)], report())
    main = agent(tmp_path, model, agents={"helper": helper}, settings={"dialect": "clamp"})
    await run(main)
    refused, found = (one.text for one in returned(model.requests[-1]))
    assert refused == "There is no argument 'async'. Arguments are: task, agent."
    assert found == "found it"
    spawn = next(tool for tool in model.requests[0].tools if tool.name == "spawn_agent")
    assert "async" not in spawn.schema["properties"]
