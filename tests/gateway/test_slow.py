"""Calls that take long: the client hears in time that they go on, and fetches what they gave."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from holdall import Holdall
from holdall.mcp.gateway.relay import PROGRESS_A_SECOND, PROGRESS_BURST
from holdall.store.opening import open_store
from tests.gateway.support import GOOD, SOON, configured, gateway, official, plain, text_of, wire
from tests.gateway.test_keeping import handle_in
from tests.gateway.web import TOKEN, client_at, served
from tests.requirements import requirement
from tests.upstream.launch import sdk_server
from tests.upstream.support import http_server, lines_of, until

pytestmark = pytest.mark.anyio
QUICK = ["--set", "slow_after_seconds=0.3"]
AT_ONCE = ["--set", "slow_after_seconds=0.01"]


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
        words = 'MCP server "python" refused "refuse": not today (code -32123), with the data {"extra": [1, 2]}.'
        for answer in (waited, text_of(await client.call("context_read", handle=handle))):
            assert 'failed: MCP server "python" refused "refuse": not today (code …' in answer
            assert f">\nerror: {words}\n</" in answer
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
    config = configured(tmp_path, {"plain": plain()}, call_timeout_seconds=1.0)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        assert text_of(await client.call("steps", steps=6, pause=0.4)) == "stepped"
        result = await client.call("sleep", seconds=30)
        assert result["isError"] is True
        assert "did not answer" in text_of(result)


async def test_a_call_that_waits_for_its_user_is_waited_for(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, before=["--set", "slow_after_seconds=2"], server=plain())) as client:
        await client.greet(elicitation={})
        params = {"name": "ask", "arguments": {"method": "elicitation/create", "params": {"message": "?"}}}
        _, call = client.begin("tools/call", params)
        asked = await client.asked.get()
        slow = text_of(await client.call("sleep", seconds=0))  # others go on meanwhile
        assert slow == "slept"
        done, _ = await asyncio.wait((call,), timeout=3.5)  # so that the answer comes late in the second time it has
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


def write_text(path: str, text: str) -> None:
    Path(path).write_text(text)


@contextmanager
def _nothing() -> Generator[None]:
    yield None


@asynccontextmanager
async def in_front_of(
    folder: Path, server: str, client: str, way: str, *, over_http: bool = False
) -> AsyncGenerator[Client]:
    """The official client of one era before the gateway before the official server of one era."""
    with http_server(folder) if over_http else _nothing() as web:
        config = configured(folder, {"good": [*sdk_server(GOOD)]}, revision=server)
        if web is not None:
            write_text(config, json.dumps({"mcpServers": {"good": {"type": "http", "url": web[0].url}}}))
        if way == "stdio":
            async with official(gateway(folder, "--config", config, before=AT_ONCE), client) as one:
                yield one
            return
        words = gateway(folder, "--config", config, "--http", "127.0.0.1:0", before=AT_ONCE)
        async with (
            served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _),
            client_at(url, TOKEN, client) as one,
        ):
            yield one


async def said(client: Client, tool: str, **arguments: Any) -> str:
    result: Any = await client.call_tool(tool, arguments)
    return str(result.content[0].text)


async def once(client: Client, words: str, tool: str, **arguments: Any) -> str:
    """The answer, once these words are in it."""
    async with asyncio.timeout(SOON):
        while words not in (text := await said(client, tool, **arguments)):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    return text


@pytest.mark.in_full(one_in=2)
@requirement("async:running-messages", "async:wait-brings-output", "async:messages-are-no-output")
@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize(("server", "client"), [("handshake", "legacy"), ("2026-07-28", "2026-07-28")])
async def test_what_a_running_call_says_can_be_read_and_its_output_comes_with_the_wait(
    tmp_path: Path, server: str, client: str, way: str
) -> None:
    async with in_front_of(tmp_path, server, client, way) as one:
        small = handle_in(await said(one, "speak", name="a", bytes=20))
        large = handle_in(await said(one, "speak", name="b", bytes=200_000))
        tail = await once(one, "progress 3 of 3", "context_tail", handle=small)
        assert "no output yet: these are its messages so far" in tail
        assert "seen" not in tail
        read = await once(one, "step 3", "context_read", handle=large)
        assert "progress 1 of 3: step 1 of b\n" in read
        assert ("server log, info: log 2\n" in read) == (client == "legacy")
        found = await said(one, "context_grep", handle=large, pattern="step [23]", count=True)
        assert "2 matches on" in found
        assert "these are its messages so far" in found
        await said(one, "open", name="a")
        waited = await said(one, "wait_for_tool_output", handle=small)
        assert f"(handle: {small}, 20 bytes, 1 line)" in waited
        assert "\n" + "z" * 20 + "\n" in waited
        again = await said(one, "wait_for_tool_output", handle=small)  # it has ended before
        assert "\n" + "z" * 20 + "\n" in again
        await said(one, "open", name="b")
        notice = await said(one, "wait_for_tool_output", handle=large)
        assert "\nhandle: " in notice
        assert f'(handle="{large}"' in notice
        # On a busy machine `open` is slow as well, and told of once.
        assert await once(one, "No async", "wait_for_tool_output") == "No async tools running."
        counted = await said(one, "context_grep", handle=large, pattern="^z+$", count=True)
        assert "1 match on 1 of 1 line" in counted  # the messages are no part of it
        nothing = await said(one, "context_grep", handle=large, pattern="step", count=True)
        assert "0 matches" in nothing


@requirement("async:running-messages")
async def test_the_same_of_a_server_over_http(tmp_path: Path) -> None:
    async with in_front_of(tmp_path, "auto", "auto", "stdio", over_http=True) as one:
        handle = handle_in(await said(one, "speak", name="a", bytes=20))
        assert "no output yet" in await once(one, "progress 3 of 3", "context_tail", handle=handle)
        await said(one, "open", name="a")
        assert "z" * 20 in await said(one, "wait_for_tool_output", handle=handle)


@requirement("async:running-messages")
async def test_another_process_reads_them_too_and_they_stay_where_the_call_fails(tmp_path: Path) -> None:
    async with in_front_of(tmp_path, "handshake", "legacy", "stdio") as one:
        handle = handle_in(await said(one, "speak", name="a", bytes=20, fails=True))
        await once(one, "progress 3 of 3", "context_read", handle=handle)

        session = open_store(str(tmp_path)).sessions()[0].name

        async def elsewhere() -> str:
            async with Holdall.open(session=session, home=str(tmp_path)) as bag:
                return (await bag.read(handle)).text

        async with asyncio.timeout(SOON):
            while "step 3" not in await elsewhere():  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        await said(one, "open", name="a")
        assert "it broke" in await said(one, "wait_for_tool_output", handle=handle)
        read = await said(one, "context_read", handle=handle)
        assert "it gave no output: these are its last messages" in read
        assert "step 3 of a" in read


@requirement("gateway:progress-bounded")
async def test_progress_is_an_update_and_obeys_the_limits_of_one(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, before=["--set", "slow_after_seconds=60"], server=plain())) as client:
        await client.greet()

        async def told(**arguments: Any) -> list[dict[str, Any]]:
            client.heard.clear()
            params = {"name": "progress", "arguments": arguments, "_meta": {"progressToken": 7}}
            await client.result("tools/call", params)
            return [one["params"] for one in client.heard if one["method"] == "notifications/progress"]

        (small,) = await told(count=1, bytes=1_000)
        assert small["message"] == "m" * 1_000
        assert small["later"] == ""
        (large,) = await told(count=1, bytes=3_000_000)
        assert len(large["message"]) <= 50 * 1024
        assert "[tool output truncated: " in large["message"]
        (odd,) = await told(count=1, bytes=5, later=3_000_000)
        assert odd == {"progressToken": 7, "progress": 1, "message": "m" * 5}
        begun = asyncio.get_running_loop().time()
        many = await told(count=20_000, bytes=5)
        took = asyncio.get_running_loop().time() - begun
        assert many[-1]["progress"] == 20_000
        assert len(many) <= PROGRESS_BURST + PROGRESS_A_SECOND * took + 2
        steps = [one["progress"] for one in many]
        assert steps == sorted(steps)
