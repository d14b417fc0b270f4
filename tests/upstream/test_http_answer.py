"""What is large in an answer over HTTP reaches its call; all else is for the SDK, byte for byte, however it is cut."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.mcp.client import codec
from holdall.mcp.client.http_channel import watched
from holdall.mcp.client.routes import Call, Callbacks
from holdall.values.outputs import LargeJson, LargeText
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
NOTE = b": ping\r\n\r\nid: a-1\r\nretry: 10\r\ndata: \r\n\r\n"
TEXT = 'a line — \U0001f600 \\ "\n' * 100_000


class Parts(httpx2.AsyncByteStream):
    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part

    async def aclose(self) -> None:
        self.closed = True


def call(**options: Any) -> Call:
    return Call(7, "tools/call", seconds=1, **options)


def response(parts: list[bytes], kind: str = "text/event-stream", **headers: str) -> httpx2.Response:
    request = httpx2.Request("POST", "http://127.0.0.1/mcp")
    return httpx2.Response(200, headers={"content-type": kind, **headers}, stream=Parts(parts), request=request)


async def read(through: httpx2.Response) -> bytes:
    return b"".join([part async for part in through.aiter_bytes()])


def message(result: object, number: object = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


def in_parts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json; charset=utf-8"])
async def test_a_large_result_goes_to_its_call_and_nothing_stands_in_its_place(kind: str) -> None:
    rows = [{"n": number, "name": "é"} for number in range(60_000)]
    result = {"content": [{"type": "text", "text": TEXT}], "structuredContent": {"rows": rows}, "_meta": {"a": 1}}
    one = call()
    body = message(result)
    sent = NOTE + b"data:  " + body + b" \r\n\r\n" + NOTE if kind.startswith("text") else body
    came = await read(watched(response(in_parts(sent, 60_000), kind), one))
    stand_in = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}).encode()
    assert came == (NOTE + b"data:" + stand_in + b"\n\r\n" + NOTE if kind.startswith("text") else stand_in)
    assert one.large is not None
    assert isinstance(one.large["content"][0]["text"], LargeText)
    assert isinstance(one.large["structuredContent"], LargeJson)
    assert codec.plain(one.large) == result


@requirement("gateway:ids-exact")
@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_second_answer_and_one_with_an_id_of_another_type_do_not_reach_the_call(size: int) -> None:
    one = call(takes_large=True)

    def said(word: str, number: object) -> bytes:
        return b"data: " + message({"content": [{"type": "text", "text": word * size}]}, number) + b"\n\n"

    sent = [said("t", "7"), said("f", 7.0), said("r", 7), said("l", 7)]
    await read(watched(response(sent), one))
    assert codec.plain(one.large) == {"content": [{"type": "text", "text": "r" * size}]}


async def test_what_is_compressed_is_read_like_any_other() -> None:
    one = call()
    packed = gzip.compress(message({"content": [{"type": "text", "text": TEXT}]}))
    kind = "application/json"
    came = await read(watched(response(in_parts(packed, 1000), kind, **{"content-encoding": "gzip"}), one))
    assert json.loads(came)["result"] == {}
    assert codec.plain(one.large) == {"content": [{"type": "text", "text": TEXT}]}


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from([NOTE, b"data: {}\n\n", b"\n", b"data: a\rdata: b\r\r", b"event: x\r\n"])),
    st.integers(1, 40),
)
def test_what_is_not_large_passes_byte_for_byte(lines: list[bytes], size: int) -> None:
    sent = b"".join(lines)

    assert asyncio.run(read(watched(response(in_parts(sent, size)), call()))) == sent


@pytest.mark.parametrize(
    "body",
    [
        message({"content": [{"type": "text", "text": TEXT}]}, number=8),  # of another call
        json.dumps({"jsonrpc": "2.0", "method": "x", "params": {"text": TEXT}}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": TEXT}}).encode(),
        message([[number, number] for number in range(200_000)]),
        message(7),
    ],
)
async def test_a_large_message_that_is_no_result_of_this_call_says_the_same_afterwards(body: bytes) -> None:
    one = call()
    came = await read(watched(response([body], "application/json"), one))
    assert json.loads(came) == json.loads(body)
    assert one.large is None


async def test_a_message_in_several_lines_is_left_as_it_is() -> None:
    pretty = json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"text": TEXT}]}}, indent=1).encode()
    sent = b"".join(b"data: " + line + b"\n" for line in pretty.split(b"\n")) + b"\n"
    one = call()
    assert await read(watched(response(in_parts(sent, 65_536)), one)) == sent
    assert one.large is None


async def test_what_is_broken_around_a_large_text_is_an_error_of_this_call() -> None:
    body = message({"content": [{"type": "text", "text": TEXT}]}).replace(b'"jsonrpc": "2.0",', b'"jsonrpc": nothing,')
    came = json.loads(await read(watched(response([body], "application/json"), call())))
    assert came["id"] == 7
    assert came["error"]["message"] == "a reply that is not valid JSON"


async def test_a_stream_that_ends_is_a_pause_only_where_it_can_be_gone_on_with() -> None:
    paused: list[int] = []
    one = call(callbacks=Callbacks(paused=lambda: paused.append(1)))
    await read(watched(response([b"data: {}\n\n"]), one))
    assert paused == []
    whole = response([NOTE, b"data: {}\n\n"])
    through = watched(whole, one)
    await read(through)
    assert paused == [1]
    early = watched(response([NOTE, b"data: {}\n\n"]), one)
    async for _ in early.aiter_bytes():
        break
    await early.aclose()
    assert paused == [1]


async def test_what_is_closed_is_closed_and_other_kinds_are_not_touched() -> None:
    whole = response([NOTE])
    await watched(whole, call()).aclose()
    assert whole.is_closed
    page = response([b"<html>"], "text/html")
    assert watched(page, call()) is page
