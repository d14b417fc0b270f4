"""What a call in the background gives is kept whole, also where it is more than text; and who waits is waited for."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, Settings
from holdall.llm.scripted import ScriptedModel
from holdall.values.outputs import Inline, Running

pytestmark = pytest.mark.anyio
QUICK = Settings(slow_after_seconds=0.05)


async def test_pictures_and_structured_content_have_handles_of_their_own(tmp_path: Path) -> None:
    picture = {"type": "image", "data": base64.b64encode(b"\x89PNG").decode(), "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "a://b", "name": "b"}
    result = {"content": [{"type": "text", "text": "seen"}, picture, link], "structuredContent": {"a": [1]}}
    async with Holdall.open(home=str(tmp_path), settings=QUICK) as bag:
        release = asyncio.Event()

        async def call() -> dict[str, Any]:
            await release.wait()
            return result

        running = await bag.run(call, tool="look")
        assert isinstance(running, Running)
        release.set()
        await bag.wait(running.handle)
        lines = (await bag.read(running.handle)).text.split("\n")
        assert lines[0] == "seen"
        assert lines[2] == '{"type": "resource_link", "uri": "a://b", "name": "b"}'
        kept = [line.partition("handle: ")[2].rstrip("]") for line in (lines[1], lines[3])]
        assert [b"".join([chunk async for chunk in bag.stream(handle)]) for handle in kept] == [
            b"\x89PNG",
            b'{"a": [1]}',
        ]


async def test_structured_content_that_says_the_same_is_not_kept_twice(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), settings=QUICK) as bag:
        release = asyncio.Event()

        async def call() -> dict[str, Any]:
            await release.wait()
            return {"content": [{"type": "text", "text": '{"a":1}'}], "structuredContent": {"a": 1}}

        running = await bag.run(call, tool="look")
        assert isinstance(running, Running)
        release.set()
        await bag.wait(running.handle)
        assert (await bag.read(running.handle)).text == '{"a":1}'
        assert len(await bag.outputs()) == 1


PAD = "p" * 143_000
MORE: dict[str, tuple[Any, str]] = {
    "a plain text": ({"type": "tool_result", "tool_use_id": "u", "content": "hello"}, "hello"),
    "a text in a message": ({"role": "tool", "tool_call_id": "c", "content": "hello"}, "hello"),
    "json of Bedrock": ({"toolResult": {"toolUseId": "u", "content": [{"json": {"a": 1}}]}}, '{"a": 1}'),
    "large fields": (
        [{"type": "text", "text": "hello", "annotations": {"a": PAD}}],
        "hello\n[fields of a text block, 143,042 bytes: kept by itself; handle: {handle}]",
    ),
}


@pytest.mark.parametrize("form", MORE)
async def test_nothing_of_a_result_is_lost_on_its_way_to_the_background(tmp_path: Path, form: str) -> None:
    result, expected = MORE[form]
    async with Holdall.open(home=str(tmp_path), settings=QUICK) as bag:
        release = asyncio.Event()

        async def call() -> Any:
            await release.wait()
            return result

        running = await bag.run(call, tool="look")
        assert isinstance(running, Running)
        release.set()
        await bag.wait(running.handle)
        others = [facts.handle for facts in await bag.outputs() if facts.handle != running.handle]
        expected = expected.replace("{handle}", "".join(others))
        assert (await bag.read(running.handle)).text == expected


async def test_a_call_that_waits_for_a_person_does_not_go_to_the_background(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), settings=QUICK) as bag:
        asked: list[int] = []
        answer = asyncio.Event()

        def waits() -> bool:
            asked.append(1)
            if len(asked) == 3:
                answer.set()
            return True

        async def call() -> str:
            await answer.wait()
            return "said"

        assert await bag.run(call, tool="ask", waits=waits) == Inline("said")
        assert len(asked) >= 3


async def test_an_offered_model_is_used_while_it_is_there(tmp_path: Path) -> None:
    first, second = ScriptedModel([]), ScriptedModel([])
    async with Holdall.open(home=str(tmp_path)) as bag:
        bag.models.offer(first)
        bag.models.offer(second)
        assert bag.models.chosen is second
        bag.models.withdraw(first)
        assert bag.models.chosen is second
        bag.models.withdraw(second)
        assert not bag.models.configured
    async with Holdall.open(home=str(tmp_path), model=first) as named:
        named.models.offer(second)
        assert named.models.chosen is first
