"""Servers behind a URL, beside programs, behind one gateway."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from tests.gateway.support import gateway, official, plain
from tests.upstream.support import http_server, lines_of, until

pytestmark = pytest.mark.anyio


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def elicited(_context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": params.message})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_behind_a_url_is_like_any_other(tmp_path: Path, mode: str) -> None:
    seen: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    journal = tmp_path / "journal"
    with http_server(tmp_path, "--journal", str(journal)) as (spec, _):
        web = {"type": "http", "url": spec.url, "headers": {"X-Key": "${SECRET_OF_TEST:-s3cret}"}}
        program = {"command": sys.executable, "args": plain("plain")[1:]}
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"web": web, "plain": program}}))
        words = gateway(tmp_path, "--config", str(config))
        async with official(words, mode, elicitation_callback=elicited) as client:
            assert client.protocol_version == "2025-11-25"  # one of the servers speaks nothing newer
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert {"web__echo", "plain__echo", "context_read"} <= set(names)
            assert text_of(await client.call_tool("web__environment", {"name": "x-key"})) == "s3cret"
            await client.call_tool("web__slow", {"steps": 3}, progress_callback=progressed)
            assert seen == [1, 2, 3]
            assert "handle: " in text_of(await client.call_tool("web__big", {"bytes": 3_000_000}))
            answer = json.loads(text_of(await client.call_tool("web__ask", {"text": "who?"})))
            assert answer["content"] == {"name": "who?"}
            call = asyncio.ensure_future(client.call_tool("web__hang", {"text": "c"}))
            await until(lambda: "begun c" in lines_of(journal))
            call.cancel()
            await until(lambda: "cancelled c" in lines_of(journal))
