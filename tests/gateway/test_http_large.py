"""Large answers over HTTP in the handshake era, whose official client reads no event over 1 MiB."""

import base64
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.gateway.support import gateway, plain
from tests.gateway.test_http_streams import Session, session
from tests.gateway.web import TOKEN, client_at, served
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
PICTURE = 1_000_000  # it passes, and is 1.3 MB as base64


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_reads_a_large_link_and_a_large_picture(tmp_path: Path, mode: str) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), client_at(url, TOKEN, mode) as client:
        picture: Any = (await client.call_tool("picture", {"bytes": PICTURE})).content[0]
        assert base64.b64decode(picture.data) == b"\x89PNG" + bytes(PICTURE)
        notice: Any = await client.call_tool("big", {"lines": 1_000_000})
        read: Any = await client.read_resource(notice.content[-1].uri)
        assert read.contents[0].text == "line\n" * 1_000_000


@requirement("gateway:http-weight")
async def test_an_answer_that_comes_first_is_plain_json_and_one_behind_a_word_is_a_stream_to_come_back_to(
    tmp_path: Path,
) -> None:
    async with session(tmp_path) as one:
        for size in (1000, PICTURE):
            params: dict[str, Any] = {"name": "picture", "arguments": {"bytes": size}}
            first = await one.post(id=1, method="tools/call", params=params)
            assert first.headers["content-type"] == "application/json"
            assert [block["type"] for block in first.json()["result"]["content"]] == ["image"]
        async with one.call(2, "picture", bytes=1000, log="a word") as events:
            assert events.response.headers["content-type"] == "text/event-stream"
            begun, nothing = await events.next()
            assert nothing is None
            _, word = await events.next()
            _, answer = await events.next()
        async with one.get(begun) as events:
            assert [(await events.next())[1] for _ in range(3)] == [None, word, answer]


async def test_a_picture_that_comes_after_a_word_of_its_server_is_kept_and_the_client_gets_the_link(
    tmp_path: Path,
) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), client_at(url, TOKEN, "legacy") as client:
        result: Any = await client.call_tool("picture", {"bytes": PICTURE, "log": "nearly there"})
        note, link = result.content
        assert note.text == f"[image/png, 1,000,004 bytes: too large to show, kept; handle: {link.name}]"
        assert (link.mime_type, link.size) == ("image/png", 1_000_004)
        read: Any = await client.read_resource(link.uri)
        assert base64.b64decode(read.contents[0].blob) == b"\x89PNG" + bytes(PICTURE)


async def test_a_link_that_is_too_large_for_an_event_says_how_to_read_it_in_ranges(tmp_path: Path) -> None:
    async with session(tmp_path) as one:
        params: dict[str, Any] = {"name": "big", "arguments": {"lines": 1_000_000}}
        answer = (await one.post(id=1, method="tools/call", params=params)).json()
        uri = answer["result"]["content"][-1]["uri"]
        error = (await _read(one, 2, uri))["error"]
        assert (error["code"], error["data"]) == (-32602, {"uri": uri, "size": 5_000_000})
        assert error["message"] == snapshot(
            "5,000,000 bytes are more than an event of this stream holds (131,072). Read it in ranges: ?bytes=0:131072"
        )
        part = (await _read(one, 3, f"{uri}?bytes=0:131072"))["result"]["contents"][0]
        assert part["text"] == ("line\n" * 1_000_000)[:131_072]


async def _read(one: Session, number: int, uri: str) -> dict[str, Any]:
    async with one.at_once(number, "resources/read", uri=uri) as events:
        assert (await events.next())[1] is None
        _, answer = await events.next()
    assert answer is not None
    return answer
