"""Many calls at once over several servers: none is lost, none gets the answer of another."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdall.mcp.client.connection import Servers
from holdall.mcp.client.spec import HttpServer
from tests.upstream.support import bad, good, means, text_of

pytestmark = pytest.mark.anyio


async def test_two_hundred_calls_over_five_servers_none_lost_none_crossed(web: HttpServer) -> None:
    specs = [
        good("old", revision="handshake"),
        good("new", revision="2026-07-28"),
        replace(web, name="old web", revision="handshake"),
        replace(web, name="new web", revision="2026-07-28"),
        bad(name="by hand"),
    ]
    heard: dict[str, list[str]] = {}

    async with Servers(specs, means=means()) as servers:

        async def one(number: int) -> tuple[str, str]:
            server = servers[specs[number % 5].name]
            mark = f"{server.name} {number}"
            heard[mark] = []

            async def progress(params: dict[str, Any]) -> None:
                heard[mark].append(params["message"])

            if server.name == "by hand":
                return mark, text_of(await server.call("echo", {"text": mark}))
            arguments = {"steps": number % 4, "text": mark, "pause": 0.001 * (number % 7)}
            return mark, text_of(await server.call("slow", arguments, progress=progress))

        async with asyncio.timeout(60):
            answers = await asyncio.gather(*(one(number) for number in range(200)))
    assert len(answers) == 200
    assert [mark for mark, answer in answers if mark != answer] == []
    for number, (mark, _) in enumerate(answers):
        steps = 0 if mark.startswith("by hand") else number % 4
        assert heard[mark] == [f"step {step + 1}" for step in range(steps)]
