"""Servers that fail in the middle of things, as their client sees it: one answer for each call, and soon."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.support import SOON, configured, gateway, plain, text_of, wire
from tests.gateway.test_keeping import handle_in
from tests.gateway.test_large_results import odd
from tests.gateway.test_several import HANDSHAKE, bad
from tests.upstream.support import lines_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("tool", "told"),
    [("break off", "in the middle of a message"), ("crash", "killed by signal 11"), ("die", "it is all over")],
)
async def test_all_calls_under_way_fail_at_once_with_the_end_of_their_server(
    tmp_path: Path, tool: str, told: str
) -> None:
    config = configured(tmp_path, {"good": plain("good"), "bad": bad()}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        before = text_of(await client.call("bad__pid"))
        waiting = [client.begin("tools/call", {"name": "bad__silence", "arguments": {}})[1] for _ in range(5)]
        ending = client.begin("tools/call", {"name": f"bad__{tool}", "arguments": {}})[1]
        async with asyncio.timeout(SOON):
            answers = [(await one)["result"] for one in (*waiting, ending)]
        for answer in answers:
            assert answer["isError"] is True
            assert told in text_of(answer)
            assert "What this call has done is not known" in text_of(answer)
        assert text_of(await client.call("bad__pid")) != before
        assert text_of(await client.call("good__echo", text="calm")) == "calm"


async def test_a_call_without_an_answer_goes_to_the_background_until_its_deadline_and_its_server_stays(
    tmp_path: Path,
) -> None:
    config = configured(tmp_path, {"bad": bad()}, **HANDSHAKE, call_timeout_seconds=1)
    async with wire(gateway(tmp_path, "--config", config, before=["--set", "slow_after_seconds=0.2"])) as client:
        await client.greet()
        await client.result("tools/list")
        pid = text_of(await client.call("pid"))
        handle = handle_in(text_of(await client.call("silence")))
        assert text_of(await client.call("echo", text="others go on")) == "others go on"
        waited = text_of(await client.call("wait_for_tool_output", handle=handle))
        assert "did not answer" in waited
        assert text_of(await client.call("pid")) == pid


async def test_a_reply_byte_by_byte_ends_at_its_deadline_and_holds_up_nobody(tmp_path: Path) -> None:
    config = configured(tmp_path, {"good": plain("good"), "bad": bad()}, **HANDSHAKE, call_timeout_seconds=1)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        await client.call("bad__pid")
        drip = client.begin("tools/call", {"name": "bad__drip", "arguments": {"pause": 1}})[1]
        for number in range(10):
            assert text_of(await client.call("good__echo", text=str(number))) == str(number)
        async with asyncio.timeout(SOON):
            answer = (await drip)["result"]
        assert answer["isError"] is True
        assert "did not answer" in text_of(answer)


async def test_a_server_that_comes_back_with_other_tools_is_listed_anew_and_told_about(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, server=odd(tmp_path))) as client:
        await client.greet()
        first = (await client.result("tools/list"))["tools"]
        assert first[0]["description"] == "start 1 \u202e"  # passed on as it is: it is data
        ended = await client.call("end of it")
        assert ended["isError"] is True
        assert "ended with exit code 0" in text_of(ended)
        second = (await client.result("tools/list"))["tools"]
        assert [tool["name"] for tool in second[:2]] == ["text", "added"]
        assert client.process.stderr is not None
        async with asyncio.timeout(SOON):
            line = (await client.process.stderr.readline()).decode()
        assert 'tool "text" of MCP server' in line
        assert "has changed its description" in line
        assert len(lines_of(tmp_path / "starts")) == 2


ADDRESSES = ["file:///etc/passwd", "ui://page", "handle://other/x", "holdall://other/x", "HOLDALL://../../etc/passwd"]


async def test_no_address_leads_to_a_file_or_to_another_session(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, server=odd(tmp_path))) as client:
        await client.greet()
        for uri in ADDRESSES:
            answer = await client.ask("resources/read", {"uri": uri})
            assert answer["error"]["code"] == -32002, (uri, answer)
            assert "root:" not in str(answer)
