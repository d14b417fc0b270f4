"""Both eras of the protocol on both sides, in all four combinations."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.client.subscriptions import ToolsListChanged

from tests.gateway.support import GOOD, configured, gateway, official, plain
from tests.upstream.launch import sdk_server
from tests.upstream.support import lines_of, until

pytestmark = pytest.mark.anyio
OLDER, NEWER = "handshake", "2026-07-28"


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def words(folder: Path, revision: str, *arguments: str) -> list[str]:
    config = configured(folder, {"good": [*sdk_server(GOOD), *arguments]}, revision=revision)
    return gateway(folder, "--config", config)


async def elicited(_context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": f"<{params.message}>"})


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("server", [OLDER, NEWER])
@pytest.mark.parametrize("client", ["legacy", "auto", "2026-07-28"])
async def test_any_client_works_with_any_server(tmp_path: Path, client: str, server: str) -> None:
    seen: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    journal = tmp_path / "journal"
    line = words(tmp_path, server, "--journal", str(journal))
    async with official(line, client, elicitation_callback=elicited) as one:
        # A client of both eras goes on in the server's.
        wanted = {
            "legacy": "2025-11-25",
            "2026-07-28": "2026-07-28",
            "auto": "2025-11-25" if server == OLDER else NEWER,
        }
        assert one.protocol_version == wanted[client]
        names = [tool.name for tool in (await one.list_tools()).tools]
        assert "echo" in names
        assert text_of(await one.call_tool("echo", {"text": "hi"})) == "hi"
        await one.call_tool("slow", {"steps": 3}, progress_callback=progressed)
        assert seen == [1, 2, 3]
        notice = text_of(await one.call_tool("big", {"bytes": 200_000}))
        assert "handle: " in notice
        assert (await one.call_tool("fail", {})).is_error is True
        with pytest.raises(Exception, match="Connection closed"):
            await one.call_tool("refuse", {})
        if server == NEWER:
            # Its question is a result; a client of the older era is asked by us.
            assert text_of(await one.call_tool("input", {})) == "<name?> state-1"
        else:
            answer = json.loads(text_of(await one.call_tool("ask", {"text": "sure?"})))
            assert answer["content"] == {"name": "<sure?>"}
        call = asyncio.ensure_future(one.call_tool("hang", {"text": "b"}))
        await until(lambda: "begun b" in lines_of(journal))
        call.cancel()
        await until(lambda: "cancelled b" in lines_of(journal))


async def test_a_client_of_the_older_era_is_told_at_once_that_tools_changed(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def handler(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    for server in (OLDER, NEWER):
        heard.clear()
        folder = tmp_path / server
        folder.mkdir()
        async with official(words(folder, server), "legacy", message_handler=handler) as client:
            await client.call_tool("grow", {"name": "later"})
            async with asyncio.timeout(100):
                await heard.wait()
            tools = (await client.list_tools(cursor="second")).tools
            assert "later" in [tool.name for tool in tools]


async def test_a_client_of_the_newer_era_hears_it_in_its_subscription(tmp_path: Path) -> None:
    async with official(words(tmp_path, NEWER), "auto") as client, client.listen(tools_list_changed=True) as events:
        await client.call_tool("grow", {"name": "later"})
        async with asyncio.timeout(100):
            async for event in events:
                assert isinstance(event, ToolsListChanged)
                break


async def test_our_own_model_is_the_clients_where_it_offers_one(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        asked.append(params)
        block = types.TextContent(type="text", text="no wrapper here")
        return types.CreateMessageResult(role="assistant", content=block, model="theirs", stop_reason="endTurn")

    async with official(gateway(tmp_path, server=plain()), "legacy", sampling_callback=sampled) as client:
        names = [tool.name for tool in (await client.list_tools(cursor="2")).tools]
        assert "tool_output" in names
        result = await client.call_tool("items", {"count": 2_000, "at": 77})
        handle = text_of(result).split("handle: ")[1].split()[0]
        answer = await client.call_tool("tool_output", {"handle": handle, "extract": "where is the needle?"})
        assert asked
        assert "needle" in str(asked[0].messages)
        assert text_of(answer)
    async with official(gateway(tmp_path, server=plain()), "legacy") as without:
        names = [tool.name for tool in (await without.list_tools(cursor="2")).tools]
        assert "tool_output" not in names
