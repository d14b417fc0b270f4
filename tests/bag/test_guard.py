"""guard on messages that the first tests of it do not have: the library's own, errors, contents that are no blocks."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall import Assistant, System, ToolResult, User
from holdall.values.chat import Message
from holdall.wire.clamp import clamp_messages
from holdall.wire.dialects import DIALECTS
from tests.bag.shapes import LOG, opened
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
        assert note["text"].endswith(f"handle: {facts.handle}]")


@requirement("way:nothing-lost-silently")
async def test_a_content_that_is_no_list_of_blocks_is_kept_as_a_value(tmp_path: Path) -> None:
    rows = list(range(20_000))
    async with opened(tmp_path) as bag:
        [guarded] = await bag.guard([{"role": "tool", "tool_call_id": "c1", "content": rows}])
        [facts] = await bag.outputs()
        assert f"handle: {facts.handle}" in guarded["content"]
        assert json.loads((await bag.read("c1", bytes=":", bounded=False)).text) == rows
