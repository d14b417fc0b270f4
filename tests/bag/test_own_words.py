"""Each dialect in its own words: every tool, argument and handle that a text names is one that the model has."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import (
    Assistant,
    Holdall,
    Kept,
    MemoryStore,
    Running,
    Settings,
    ToolCall,
    ToolResult,
    UsageError,
    User,
)
from holdall.guard.recovery import compact
from holdall.values.chat import Message
from holdall.wire.dialects import DIALECTS
from tests.bag.shapes import LOG, opened
from tests.bag.test_background import Slow
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
_TOOL = re.compile(r"\b(context[._]\w+|(?:get_|wait_for_)?tool_output)\b")


@requirement("notice:system-final-turn")
@pytest.mark.parametrize("dialect", ["holdall", "async"])
async def test_the_notice_of_the_final_turn_names_nothing_that_cannot_be_called(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect, slow_after_seconds=0.0) as bag:
        slow = Slow("report")
        await bag.run(slow, tool="crawl")
        await bag.take(LOG, tool="fetch")
        told = bag.system_notice(turn=4, max_turns=9, final_turn=True)
        assert not _TOOL.search(told)
        assert "### Running (1)\n- crawl (id: " in told
        assert told.partition("---")[2].removesuffix(bag.core.mark_text).rstrip() == snapshot("""\


You now need to decide your next move:
1. Provide your final report/answer\
""")
        last = bag.system_notice(turn=9, max_turns=9)
        assert "Call tools" not in last
        assert "Call tools" in bag.system_notice(turn=8, max_turns=9)
        slow.end.set()
        await bag.jobs.stop()
        assert "Call tools" not in bag.system_notice(turn=5)


@requirement("dialect:names-as-listed")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "refs", "async", "clamp"])
async def test_the_system_notice_names_only_tools_that_the_dialect_has(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        done, slow, failed = Slow("report"), Slow("later"), Slow(ValueError("gone"))
        for call in (done, slow, failed):
            assert isinstance(await bag.run(call, tool="crawl", background=True), Running)
        running = bag.system_notice(turn=1)
        done.end.set()
        failed.end.set()
        await bag.wait(timeout=60)
        ready = bag.system_notice(turn=2)
        listed = {spec.name for spec in bag.tools()}
        assert set(_TOOL.findall(running + ready)) <= listed
        assert ("2. Wait for running tools" in running) == ("wait_for_tool_output" in listed)
        slow.end.set()


@requirement("dialect:handles-in-own-form")
async def test_lists_and_errors_show_handles_as_the_dialect_writes_them(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async", slow_after_seconds=0.0) as bag:
        slow = Slow("report")
        taken = await bag.run(slow, tool="crawl", call_id="c1")
        other = await bag.run(Slow("never"), tool="crawl", call_id="c1")
        assert isinstance(taken, Running)
        assert isinstance(other, Running)
        mark = bag.core.signature
        slow.end.set()
        waited = await bag.call("wait_for_tool_output", {})
        assert waited.text == f"Completed tools:\n- crawl (id: {mark}{taken.handle}, size: 6B)"
        late = replace(await bag.wait(timeout=0), named={other.handle: bag.core.shown_handle(other.handle)})
        assert f"Still running:\n- crawl (id: {mark}{other.handle}, running " in bag.dialect.wait(late)
        both = await bag.call("get_tool_output", {"id": "c1", "mode": "raw"})
        assert sorted(re.findall(rf"{mark}\w+", both.text)) == sorted(f"{mark}{one.handle}" for one in (taken, other))
        await bag.jobs.abort()


@requirement("dialect:handles-in-own-form")
async def test_structured_content_that_is_kept_shows_its_handle_as_the_dialect_writes_it(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "see there"}], "structuredContent": {"rows": LOG.split("\n") * 2}}
    async with opened(tmp_path, dialect="async") as bag:
        content: Any = (await bag.take(result, tool="fetch")).content
        assert content["structuredContent"]["handle"].startswith(bag.core.signature)


@requirement("extract:failure-names-the-tool", "dialect:handles-in-own-form")
async def test_a_failure_in_s0s_words_names_the_tool_and_the_handle(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="extract") as bag:
        slow = Slow("x")
        taken = await bag.run(slow, tool="crawl", call_id="c1", background=True)
        assert isinstance(taken, Running)
        long = (await bag.show(taken.handle)).long_handle

        async def failed(handle: str, **more: Any) -> str:
            answer = await bag.call("tool_output", {"handle": handle, "extract": "errors", **more})
            assert answer.is_error
            return answer.text

        named = f"TOOL_OUTPUT FAILED FOR crawl WITH HANDLE {long}, STRATEGY:auto:\n\n"
        for given in (long, taken.handle, "c1"):  # however the model writes it
            assert await failed(given) == f"{named}Output {long} is still being written."
        slow.end.set()
        await bag.wait(timeout=60)
        assert (await failed(long, mode="quick")).startswith(
            f"TOOL_OUTPUT FAILED FOR crawl WITH HANDLE {long}, STRATEGY:quick:\n\nThe argument 'mode' must be one of "
        )
        assert await failed("zzzz") == (
            "TOOL_OUTPUT FAILED FOR UNKNOWN WITH HANDLE zzzz, STRATEGY:auto:\n\n"
            f'No output is kept under "zzzz". Kept: {long}.'
        )
        await bag.forget(taken.handle)
        gone = await failed(long)
        assert gone.startswith(f"{named}Output {long} was removed on request on ")


@requirement("dialect:names-as-listed")
async def test_refs_names_its_tools_as_they_are_listed(tmp_path: Path) -> None:
    async def texts(plain: bool) -> list[str]:
        async with opened(tmp_path / str(plain), dialect="refs", plain_tool_names=plain) as bag:
            taken = await bag.take(LOG, tool="fetch")
            assert isinstance(taken, Kept)
            found = await bag.call("context_grep", {"refId": taken.handle, "pattern": "ERROR", "limit": 1})
            return [taken.content, bag.instructions(), found.text, *(spec.name for spec in bag.tools())]

    dotted, plain = await texts(False), await texts(True)
    assert "first use `context.tail(refId, 200)`, or `context.grep(refId, 'Error|Exception', ...)`" in dotted[0]
    assert dotted[3:] == ["context.read", "context.tail", "context.grep"]
    assert "first use `context_tail(refId, 200)`, or `context_grep(refId, 'Error|Exception', ...)`" in plain[0]
    assert plain[3:] == ["context_read", "context_tail", "context_grep"]
    assert not re.search(r"context\.\w", "".join(plain))
    assert all("context_" not in text for text in (dotted[0], dotted[2]))  # instructions tell of both forms


@requirement("dialect:names-as-listed")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_advice_names_no_argument_that_the_schema_does_not_have(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        grep = next((tool for tool in bag.dialect.tools if tool.verb == "grep"), None)
        if grep is None:
            return
        name = "refId" if "refId" in grep.schema["properties"] else "handle"
        facts = await bag.keep(LOG, tool="fetch")
        for pattern in (r"(\w+) \1", r"key=\Kx", "(?<=job )x", "(?P<a>x)(?P=a)"):
            answer = await bag.call(grep.name, {name: facts.handle, "pattern": pattern})
            assert answer.is_error
            assert "--" not in answer.text
            assert ("group=true" in answer.text) == ("group" in grep.schema["properties"])


@requirement("dialect:names-as-listed")
async def test_a_name_that_is_no_tool_is_answered_with_those_that_are_listed(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await bag.take(LOG, tool="fetch")
        answer = await bag.call("context_find", {})
        listed = ", ".join(spec.name for spec in bag.tools())
        assert answer.text == f"There is no tool 'context_find'. Tools are: {listed}."


@requirement("dialect:names-as-listed")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_stands_for_a_compacted_conversation_says_how_to_read_it(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect, plain_tool_names=True) as bag:
        said: list[Message] = [User("go")]
        for n in range(8):
            call = ToolCall(f"c{n}", "look", {})
            said += [Assistant(f"step {n}", (call,)), ToolResult(call.id, "look", f"result {n}")]
        if not bag.dialect.stores:
            return
        assert await compact(bag, said)
        told = said[1].text
        handle = bag.core.handle_of((await bag.outputs())[0])
        assert f"kept under the handle {handle}." in told
        assert set(_TOOL.findall(told)) == {
            "holdall": {"context_read"},
            "refs": {"context_read"},
            "clamp": set[str](),
        }.get(dialect, {spec.name for spec in bag.tools()} - {"wait_for_tool_output"})


@requirement("dialect:names-as-listed")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "refs", "async", "clamp"])
async def test_a_running_notice_says_that_the_call_still_runs(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        slow = Slow("later")
        taken = await bag.run(slow, tool="crawl", background=True)
        assert isinstance(taken, Running)
        assert "running" in taken.content or "When the System Notice shows this tool is ready" in taken.content
        slow.end.set()


CALLS: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [{"id": "c9", "type": "function", "function": {"name": "search"}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c9", "name": "search", "input": {}}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c9", "name": "search", "arguments": "{}"},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c9", "name": "search", "input": {}}}]},
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_result_in_a_transcript_has_the_tool_of_its_call(call: dict[str, Any]) -> None:
    settings = Settings(dialect="refs", max_inline_bytes=1000)
    async with Holdall.open(store=MemoryStore(), settings=settings) as bag:
        messages = [call, {"role": "tool", "tool_call_id": "c9", "content": "line\n" * 50_000}]
        text = str((await bag.guard(messages))[1]["content"])
        assert "Tool: search" in text
        assert '"tool": "search"' in text


@requirement("answer:seen-while-written")
async def test_of_an_output_that_is_still_written_nobody_has_seen_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        writer = await bag.jobs.begin(tool="crawl")
        for said in (
            (await bag.call("context_read", {"handle": writer.handle})).text,
            (await bag.call("context_read", {})).text,
        ):
            assert "seen" not in said, "there is nothing to see yet"
        writer.write(b"one line\n")
        shown = (await bag.call("context_read", {"handle": writer.handle})).text.split("\n")[0]
        assert shown.endswith("still running; 9 bytes so far · all of it so far seen")
        writer.finish()
        assert (await bag.call("context_read", {})).text.endswith(" · all of it seen")


def test_a_dialect_that_ships_is_chosen_in_the_settings() -> None:
    given: Any = "refs"
    with pytest.raises(UsageError, match=r"chosen by its name in the settings: Settings\(dialect='refs'\)"):
        Holdall.open(store=MemoryStore(), dialect=given)


async def test_a_wait_where_nothing_runs_is_not_over_its_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        waited = await bag.wait(timeout=9)
        assert (waited.ended, waited.running, waited.timed_out) == ((), (), False)
