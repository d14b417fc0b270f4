"""Calls that take long: the client hears in time that they go on, and fetches what they gave."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.support import gateway, plain, text_of, wire
from tests.gateway.test_keeping import handle_in
from tests.upstream.support import lines_of, until

pytestmark = pytest.mark.anyio
QUICK = ["--set", "slow_after_seconds=0.3"]


async def test_a_slow_call_goes_on_in_the_background_and_its_result_is_whole(tmp_path: Path) -> None:
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    more = {"content": [{"type": "text", "text": "done"}, picture], "structuredContent": {"a": 1}}
    async with wire(gateway(tmp_path, before=QUICK, server=plain())) as client:
        await client.greet()
        running = await client.call("sleep", seconds=2, more=more)
        assert "still running" in text_of(running)
        handle = handle_in(text_of(running))
        waited = text_of(await client.call("wait_for_tool_output", handle=handle))
        assert "Ended" in waited
        text = text_of(await client.call("context_read", handle=handle))
        assert "done" in text
        assert "image/png, 8 bytes: kept by itself" in text
        assert "structured content, 8 bytes: kept by itself" in text


async def test_a_call_that_its_server_refuses_in_the_background_fails_in_the_words_of_the_server(
    tmp_path: Path,
) -> None:
    async with wire(gateway(tmp_path, before=QUICK, server=plain())) as client:
        await client.greet()
        handle = handle_in(text_of(await client.call("refuse", seconds=1)))
        waited = text_of(await client.call("wait_for_tool_output", handle=handle))
        words = (
            'failed: MCP server "python" refused "refuse": not today (code -32123), with the data {"extra": [1, 2]}.'
        )
        assert words in waited
        large = handle_in(text_of(await client.call("refuse", seconds=1, bytes=100, data=100_000)))
        assert "failed" in text_of(await client.call("wait_for_tool_output", handle=large))
        begun = text_of(await client.call("context_read", handle=large, bytes="0:200"))
        assert "(code -32123) not today!!!" in begun
        found = text_of(await client.call("context_grep", handle=large, pattern="D{100000}", count=True))
        assert "1" in found


async def test_progress_is_told_while_the_call_is_open_and_not_after(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, before=["--set", "slow_after_seconds=1.5"], server=plain())) as client:
        await client.greet()
        arguments = {"steps": 20, "pause": 0.2}
        params = {"name": "steps", "arguments": arguments, "_meta": {"progressToken": 7}}
        running = await client.result("tools/call", params)
        assert "still running" in text_of(running)
        told = [one for one in client.heard if one["method"] == "notifications/progress"]
        assert told
        await client.call("wait_for_tool_output")
        after = [one for one in client.heard if one["method"] == "notifications/progress"]
        assert len(after) == len(told)
        assert sum(one["method"] == "notifications/message" for one in client.heard) == 20  # logs are for everybody


async def test_progress_keeps_a_call_alive_past_its_deadline_and_silence_does_not(tmp_path: Path) -> None:
    from tests.gateway.support import configured

    config = configured(tmp_path, {"plain": plain()}, call_timeout_seconds=1.0)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        assert text_of(await client.call("steps", steps=6, pause=0.4)) == "stepped"
        result = await client.call("sleep", seconds=30)
        assert result["isError"] is True
        assert "did not answer" in text_of(result)


async def test_a_call_that_waits_for_its_user_is_waited_for(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, before=QUICK, server=plain())) as client:
        await client.greet(elicitation={})
        params = {"name": "ask", "arguments": {"method": "elicitation/create", "params": {"message": "?"}}}
        _, call = client.begin("tools/call", params)
        asked = await client.asked.get()
        slow = text_of(await client.call("sleep", seconds=0))  # others go on meanwhile
        assert slow == "slept"
        done, _ = await asyncio.wait((call,), timeout=1.5)
        assert not done
        client.say({"id": asked["id"], "result": {"action": "accept"}})
        answer = (await call)["result"]
        assert json.loads(text_of(answer)) == {"result": {"action": "accept"}}


async def test_slow_calls_do_not_hold_up_others(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    server = plain("plain", str(journal))
    async with wire(gateway(tmp_path, before=["--set", "slow_after_seconds=60"], server=server)) as client:
        await client.greet()
        calls = [client.begin("tools/call", {"name": "sleep", "arguments": {"seconds": 600}}) for _ in range(20)]
        await until(lambda: sum(line.startswith("sleeps") for line in lines_of(journal)) == 20)
        assert text_of(await client.call("echo", text="quick")) == "quick"
        for number, _ in calls:
            client.say({"method": "notifications/cancelled", "params": {"requestId": number}})
        await until(lambda: sum("notifications/cancelled" in line for line in lines_of(journal)) == 20)
