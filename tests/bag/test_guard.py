"""guard on messages that the first tests of it do not have: the library's own, errors, contents that are no blocks."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall import Assistant, Inline, Kept, System, ToolResult, User
from holdall.values.chat import Message, ToolCall
from holdall.values.settings import ToolPolicy
from holdall.wire.clamp import MAX_BYTES, MAX_LINES, clamp_messages, lines_shown
from holdall.wire.dialects import DIALECTS
from tests.bag.shapes import LOG, opened
from tests.bag.test_take_blocks import text
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("clamp:before-persisting", "clamp:stored-first")
async def test_the_librarys_own_messages_are_guarded_like_those_of_the_providers(tmp_path: Path) -> None:
    messages: list[Message] = [
        System(LOG),
        User(LOG),
        Assistant(LOG),
        ToolResult("c1", "f", LOG, is_error=True),
        ToolResult("c2", "f", "small"),
    ]
    async with opened(tmp_path) as bag:
        guarded = await bag.guard(messages)
        assert [new is old for new, old in zip(guarded, messages, strict=True)] == [True, True, True, False, True]
        [facts] = await bag.outputs()
        assert (facts.origin.tool, facts.origin.call_id, facts.origin.is_error) == ("f", "c1", True)
        new = guarded[3]
        assert isinstance(new, ToolResult)
        assert f"handle: {facts.handle}" in new.text
        assert new == ToolResult("c1", "f", new.text, is_error=True)
        assert (await bag.read("c1", bytes=":", bounded=False)).text == LOG
        assert await bag.guard(guarded) == guarded


GIVEN = {"u": 1}
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize(
    "call",
    [
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": json.dumps(GIVEN)}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "args": GIVEN}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": GIVEN}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": GIVEN}}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": json.dumps(GIVEN)},
        Assistant("", (ToolCall("c", "f", GIVEN),)),
    ],
)
async def test_tool_and_arguments_of_a_result_are_those_of_its_call(tmp_path: Path, call: Any) -> None:
    async with opened(tmp_path) as bag:
        await bag.guard([call, {"role": "tool", "tool_call_id": "c", "content": LOG}])
        [facts] = await bag.outputs()
        assert (facts.origin.tool, facts.origin.arguments) == ("f", GIVEN)


async def test_results_of_other_arguments_are_not_told_by_their_difference(tmp_path: Path) -> None:
    calls = [{"id": str(n), "function": {"name": "f", "arguments": f'{{"u": {n}}}'}} for n in range(2)]
    results = [{"role": "tool", "tool_call_id": str(n), "content": LOG} for n in range(2)]
    async with opened(tmp_path) as bag:
        guarded = await bag.guard([{"role": "assistant", "tool_calls": calls}, *results])
        assert "the same bytes" not in str(guarded[2])


def test_the_clamp_of_messages_knows_them_too() -> None:
    [new] = clamp_messages([ToolResult("c1", "f", "x" * 60_000)], DIALECTS["clamp"].limits)
    assert len(new.text) == 50 * 1024


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": LOG, "is_error": True}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "u", "content": [{"text": LOG}], "status": "error"}}]},
        {"role": "toolResult", "toolCallId": "u", "content": [{"type": "text", "text": LOG}], "isError": True},
    ],
)  # fmt: skip
async def test_what_was_an_error_is_kept_as_one(tmp_path: Path, message: Any) -> None:
    async with opened(tmp_path) as bag:
        await bag.guard([message])
        assert [facts.origin.is_error for facts in await bag.outputs()] == [True]


async def test_bedrocks_blocks_of_json_are_guarded_in_their_shape(tmp_path: Path) -> None:
    message: Any = {"role": "user", "content": [{"toolResult": {"toolUseId": "u", "content": [{"json": {"a": LOG}}]}}]}
    async with opened(tmp_path) as bag:
        [guarded] = await bag.guard([message])
        [facts] = await bag.outputs()
        [note] = guarded["content"][0]["toolResult"]["content"]
        assert list(note) == ["text"]
        assert f"\nhandle: {facts.handle}\n" in note["text"]


@requirement("way:nothing-lost-silently")
async def test_a_content_that_is_no_list_of_blocks_is_kept_as_a_value(tmp_path: Path) -> None:
    rows = list(range(20_000))
    async with opened(tmp_path) as bag:
        [guarded] = await bag.guard([{"role": "tool", "tool_call_id": "c1", "content": rows}])
        [facts] = await bag.outputs()
        assert f"handle: {facts.handle}" in guarded["content"]
        assert json.loads((await bag.read("c1", bytes=":", bounded=False)).text) == rows


@requirement("store:tool-redacts")
@pytest.mark.parametrize("content", [f"GITHUB_TOKEN={TOKEN}", [text(f"GITHUB_TOKEN={TOKEN}")], [{"password": TOKEN}]])
async def test_a_small_result_of_a_tool_that_redacts_is_masked(tmp_path: Path, content: Any) -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "env", "arguments": "{}"}}]}
    result: Any = {"role": "tool", "tool_call_id": "c1", "content": content}
    async with opened(tmp_path, tools={"env": ToolPolicy(redact=True)}) as bag:
        guarded = await bag.guard([call, result])
        assert TOKEN not in str(guarded)
        assert "*" * len(TOKEN) in str(guarded)
        plain: Any = {**result, "content": "nothing in it"}
        assert (await bag.guard([call, plain]))[1] is plain


@requirement("clamp:once")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("output", [LOG, "word " * 40_000, "x\n" * 2001, ["wörd " * 20_000, LOG]], ids=len)
async def test_what_the_model_got_is_not_shortened_or_kept_a_second_time(
    tmp_path: Path, dialect: str, output: Any
) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        taken = await bag.take(output if isinstance(output, str) else [text(one) for one in output], tool="fetch")
        kept = len(await bag.outputs())
        message: Any = {"role": "tool", "tool_call_id": "c1", "content": taken.content}
        assert (await bag.guard([message]))[0] is message
        assert len(await bag.outputs()) == kept


@requirement("clamp:updates-in-every-dialect")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_partial_update_is_clamped_in_every_dialect(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        limits = bag.core.limits
        for large in (LOG, "word " * 40_000, "漢" * 16_000, "x\n" * 2100):
            shown: Any = await bag.jobs.update({"content": [text(large)]}, tool="crawl")
            said = shown["content"][0]["text"]
            if not isinstance(await bag.take(large), Inline):
                assert "[tool output truncated: exceeded " in said
            assert len(said.encode()) <= (limits.bytes or MAX_BYTES)
            assert lines_shown(said) <= (limits.lines or MAX_LINES)
            assert limits.chars is None or len(said) <= limits.chars
            assert limits.tokens is None or bag.core.count(said) <= limits.tokens
        said = bag.jobs.messages("crawl").within_limits(LOG * 10)
        assert len(said.encode()) <= (limits.bytes or MAX_BYTES)
        assert len(str(await bag.jobs.update(LOG * 10)).encode()) <= (limits.bytes or MAX_BYTES)
        small = {"content": [text("so far")]}
        assert await bag.jobs.update(small) is small


def _chat(call_id: str, *tools: str) -> dict[str, Any]:
    calls = [{"id": call_id, "type": "function", "function": {"name": one, "arguments": "{}"}} for one in tools]
    return {"role": "assistant", "content": "", "tool_calls": calls}


@pytest.mark.parametrize("call_id", ["call_0", ""])
async def test_an_id_that_comes_again_is_that_of_the_call_before_its_result(tmp_path: Path, call_id: str) -> None:
    answer = {"role": "tool", "tool_call_id": call_id}
    async with opened(tmp_path, tools={"vault": ToolPolicy(store="never")}) as bag:
        guarded = await bag.guard([
            _chat(call_id, "list"), answer | {"content": "fine"}, _chat(call_id, "vault"), answer | {"content": LOG},
            _chat(call_id, "list", "vault"), answer | {"content": "fine"}, answer | {"content": LOG},
        ])  # fmt: skip
        assert await bag.outputs() == []
        assert [guarded[at] == answer | {"content": LOG} for at in (3, 6)] == [False, False]
        assert guarded[5] == answer | {"content": "fine"}


@pytest.mark.parametrize(
    "before",
    [
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "vault", "input": "x"}}],
            }
        ],
        [],  # the history was cut: it may be of any tool
    ],
)
async def test_what_may_be_of_a_tool_that_is_not_stored_is_not(tmp_path: Path, before: list[Any]) -> None:
    result = {"role": "tool", "tool_call_id": "c", "content": LOG}
    async with opened(tmp_path, tools={"vault": ToolPolicy(store="never")}) as bag:
        await bag.guard([*before, result])
        assert await bag.outputs() == []
    async with opened(tmp_path / "other", tools={"f": ToolPolicy(store="always")}) as bag:
        await bag.guard([*before, result])
        assert len(await bag.outputs()) == 1


ROWS = "row of text here\n" * 9_000
NUMBERS = {"a": list(range(9_000))}
PICTURE = {"type": "image", "data": "QUJD" * 500_000, "mimeType": "image/png"}


@pytest.mark.parametrize("dialect", ["holdall", "clamp", "legacy", "async", "extract", "refs"])
@pytest.mark.parametrize(
    "output",
    [
        {"content": [{"type": "text", "text": ROWS}], "structuredContent": NUMBERS},
        {"content": [{"type": "text", "text": ROWS}, PICTURE]},
        {"content": [{"type": "text", "text": ROWS}, {"type": "text", "text": ROWS}]},
        {"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": ROWS}}]},
    ],
    ids=["structure", "picture", "two texts", "resource"],
)
async def test_what_was_taken_is_not_cut_again_for_what_it_says_of_itself(
    tmp_path: Path, dialect: Any, output: Any
) -> None:
    """A second marker took the place of the first, and told of 155 bytes where 140,761 are gone."""
    async with opened(tmp_path, dialect=dialect) as bag:
        taken = await bag.take(output, tool="x")
        count = len(await bag.outputs())
        for content in (taken.text, taken.content["content"]):
            message = {"role": "tool", "tool_call_id": "c", "content": content}
            assert (await bag.guard([message]))[0] is message
        assert len(await bag.outputs()) == count


@pytest.mark.parametrize(
    "names", [{}, {"max_inline_tokens": 500}, {"max_inline_bytes": 2_000}, {"max_inline_lines": 20}]
)
@pytest.mark.parametrize(
    ("dialect", "tool", "named"), [("refs", "context.read", "refId"), ("holdall", "context_read", "handle")]
)
async def test_an_answer_of_ours_needs_no_handle_of_its_own(
    tmp_path: Path, dialect: Any, tool: str, named: str, names: dict[str, Any]
) -> None:
    async with opened(tmp_path, dialect=dialect, **names) as bag:
        taken = await bag.take(ROWS, tool="x")
        assert isinstance(taken, Kept)
        handle = taken.artifact.handle if dialect == "holdall" else bag.core.handle_of(taken.artifact)
        said = (await bag.call(tool, {named: handle})).text
        call = {"id": "k", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "k", "content": said}]
        assert (await bag.guard(messages))[1] is messages[1]
        assert (await bag.guard(messages[1:]))[0] is messages[1]
    async with opened(tmp_path, dialect=dialect, **names) as bag:  # by its name, in another process
        assert (await bag.guard(messages))[1] is messages[1]
