"""The answer of an HTTP server to one request, as its call gets it: large or not, in whatever parts and framing."""

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.mcp.client import codec, http_channel
from holdall.mcp.client.http_channel import EventReader, HttpChannel
from holdall.mcp.client.routes import CURRENT, Call, Callbacks
from holdall.mcp.client.server_process import Bounds
from holdall.mcp.client.spec import HttpServer
from holdall.values.outputs import LargeJson, LargeText
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
NOTE = b": ping\r\n\r\nid: a-1\r\nretry: 10\r\ndata: \r\n\r\n"
TEXT = 'a line — \U0001f600 \\ "\n' * 100_000
STREAM, BODY = "text/event-stream", "application/json; charset=utf-8"
SOON = 100.0


class Web:
    """HTTP by hand: for each request the next of `responses`, in its parts. `requests` are the heads that came."""

    def __init__(self, *responses: list[bytes]) -> None:
        self._responses = iter(responses)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                await reader.readexactly(int(fields.get(b"content-length", 0)))
                self.requests.append(head)
                response = next(self._responses)
                for part in response:
                    writer.write(part)
                    await writer.drain()
                if b"connection: close" in response[0]:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def channel_to(web: Web, *, bounds: Bounds | None = None, **fields: Any) -> AsyncGenerator[HttpChannel]:
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        spec = HttpServer("web", f"http://127.0.0.1:{port}/mcp", **fields)
        async with HttpChannel(spec, bounds=bounds) as channel:
            yield channel
    finally:
        server.close()


async def ask(
    channel: HttpChannel, call: Call | None = None, headers: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The messages that come for one request, up to its reply."""
    one = call or Call(7, "tools/call", seconds=1)
    token = CURRENT.set(one)
    try:
        await channel.send({"jsonrpc": "2.0", "id": one.number, "method": one.method, "params": {}}, headers or {})
        found: list[dict[str, Any]] = []
        async with asyncio.timeout(SOON):
            while not found or "method" in found[-1]:
                message, context = await channel.receive()
                assert context is not None
                assert context[CURRENT] is one
                found.append(message)
        return found
    finally:
        CURRENT.reset(token)


async def answered(*parts: bytes, kind: str = STREAM, **headers: str) -> tuple[list[dict[str, Any]], HttpChannel]:
    """The same for a response of these parts, whose end is that of the connection."""
    lines = {"content-type": kind, "connection": "close", **headers}
    head = "HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    async with channel_to(Web([head.encode(), *parts])) as channel:
        channel.kept.outputs.add(7)  # as for a call of a tool
        return await ask(channel), channel


def message(result: object, number: object = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


def whole(body: bytes, kind: str = BODY, status: str = "200 OK", **headers: str) -> list[bytes]:
    lines = {"content-type": kind, "content-length": str(len(body)), **headers}
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    return [head.encode(), body]


def in_parts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("kind", [STREAM, BODY])
async def test_what_is_large_in_a_result_is_its_bytes(kind: str) -> None:
    rows = [{"n": number, "name": "é"} for number in range(60_000)]
    result = {"content": [{"type": "text", "text": TEXT}], "structuredContent": {"rows": rows}, "_meta": {"a": 1}}
    body = message(result)
    sent = NOTE + b"data:  " + body + b" \r\n\r\n" + NOTE if kind == STREAM else body
    (came,), channel = await answered(*in_parts(sent, 60_000), kind=kind)
    assert channel.kept.large == {"7"}
    assert isinstance(came["result"]["content"][0]["text"], LargeText)
    assert isinstance(came["result"]["structuredContent"], LargeJson)
    assert codec.plain(came["result"]) == result


@requirement("gateway:ids-exact")
@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_second_answer_and_one_with_an_id_of_another_type_do_not_reach_the_call(size: int) -> None:
    def said(word: str, number: object) -> bytes:
        return b"data: " + message({"content": [{"type": "text", "text": word * size}]}, number) + b"\n\n"

    came, _ = await answered(said("t", "7"), said("f", 7.0), said("o", 8), said("r", 7), said("l", 7))
    assert codec.plain([one["result"] for one in came]) == [{"content": [{"type": "text", "text": "r" * size}]}]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "DEFLATE without a head", "identity"])
async def test_what_is_compressed_is_read_like_any_other(encoding: str) -> None:
    sent = message({"content": [{"type": "text", "text": TEXT}]})
    packed = gzip.compress(sent) if encoding == "gzip" else zlib.compress(sent)
    packed = packed[2:-4] if encoding.startswith("D") else sent if encoding == "identity" else packed
    (came,), _ = await answered(
        *in_parts(packed, 1000), kind=BODY, **{"content-encoding": encoding.split(maxsplit=1)[0]}
    )
    assert codec.plain(came["result"]) == {"content": [{"type": "text", "text": TEXT}]}
    (came,), _ = await answered(b"not packed", kind=BODY, **{"content-encoding": "gzip"})
    assert came["error"]["message"] == "Server returned an error response"


def listed(parts: list[bytes]) -> list[tuple[Any, str, bytes, int | None]]:
    reader = EventReader(2**30)
    return [(one.data, one.id, one.name, one.retry) for part in parts for one in reader.feed(part)]


@settings(max_examples=max(100, settings().max_examples))
@given(
    st.lists(
        st.sampled_from(
            [NOTE, b"data: {}\n\n", b"\n", b"data: a\rdata: b\r\r", b"event: x\r\n", b"data:\r\ndata:  c\r"]
        )
    ),
    st.integers(1, 40),
)
def test_events_are_the_same_however_they_are_cut(lines: list[bytes], size: int) -> None:
    sent = b"".join(lines)
    assert listed(in_parts(sent, size)) == listed([sent])


def test_the_fields_of_an_event() -> None:
    found = listed([NOTE + b"event: x\r\nid:b\r\ndata: 1\r\ndata:  2\r\n\r\ndata: without an end\r\n"])
    assert found == [
        (b"", "a-1", b"", 10),
        (b"1\n 2", "b", b"x", None),
    ]


@pytest.mark.parametrize("kind", [STREAM, BODY])
async def test_a_large_message_that_is_no_result_says_the_same_afterwards(kind: str) -> None:
    text = TEXT[: len(TEXT) // 2]
    note = {"jsonrpc": "2.0", "method": "x", "params": {"text": text}}
    error = {"code": 1, "message": text, "data": None}
    refusal = {"jsonrpc": "2.0", "id": 7, "error": error}
    several = [note, refusal]
    sent = (
        [b"data: " + json.dumps(one).encode() + b"\n\n" for one in several]
        if kind == STREAM
        else [json.dumps(several).encode()]
    )
    came, channel = await answered(*sent, kind=kind)
    assert came == [{"method": "x", "params": {"text": text}}, {"id": 7, "error": error}]
    assert channel.kept.large == set()


@pytest.mark.parametrize(
    "body",
    [
        lambda: message([[number, number] for number in range(200_000)]),  # made where it is used
        message(7),
        message({"content": []}, number=8),
        b"",
        b"<html>",
        message({"content": [{"type": "text", "text": TEXT}]}).replace(b'"jsonrpc": "2.0",', b'"jsonrpc": nothing,'),
    ],
)
async def test_a_body_that_is_no_answer_is_an_error_of_this_call(body: bytes | Callable[[], bytes]) -> None:
    (came,), channel = await answered(body if isinstance(body, bytes) else body(), kind=BODY)
    assert (came["id"], came["error"]["data"]) == (7, codec.GARBLED)
    assert channel.kept.large == set()


async def test_a_message_in_several_lines_is_read() -> None:
    result = {"content": [{"text": TEXT}]}
    pretty = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}, indent=1).encode()
    sent = b"".join(b"data: " + line + b"\n" for line in pretty.split(b"\n")) + b"\n"
    (came,), _ = await answered(*in_parts(sent, 65_536))
    assert codec.plain(came["result"]) == result


async def test_a_stream_that_ends_is_a_pause_only_where_it_can_be_gone_on_with() -> None:
    paused: list[int] = []
    one = Call(7, "tools/call", seconds=1, callbacks=Callbacks(paused=lambda: paused.append(1)))
    end = {"connection": "close"}
    async with channel_to(Web(whole(b"data: {}\n\n", STREAM, **end))) as channel:
        (came,) = await ask(channel, one)
        assert came["error"]["message"] == "SSE stream ended without a response"
    assert paused == []
    rest = whole(b"id: a-2\ndata: " + message({}) + b"\n\n", STREAM, **end)
    web = Web(whole(NOTE, STREAM, **end), whole(b"id: a-1\n\n", STREAM, **end), rest)
    async with channel_to(web) as channel:
        (came,) = await ask(channel, one)
        assert came["result"] == {}
    assert paused == [1, 1]
    assert [b"last-event-id: a-1" in head for head in web.requests] == [False, True, True]


@pytest.mark.parametrize("cookie", [{}, {"set-cookie": "place=3; Path=/"}], ids=["plain", "httpx2"])
async def test_the_id_of_an_event_comes_back_as_the_server_wrote_it(cookie: dict[str, str]) -> None:
    begun = whole("id: é☃\nretry: 1\ndata: \n\n".encode(), STREAM, connection="close")
    rest = whole(b"data: " + message({}) + b"\n\n", STREAM)
    web = Web(whole(message({}), **cookie), begun, rest)
    async with channel_to(web) as channel:
        for _ in range(2):
            assert [one["result"] for one in await ask(channel)] == [{}]
    assert b"last-event-id: \xc3\xa9\xe2\x98\x83\r\n" in web.requests[2].lower()


async def test_a_stream_that_nobody_goes_on_with_is_an_error() -> None:
    web = Web(whole(NOTE, STREAM), whole(b"", status="404 Not Found"), whole(b"{}"))
    async with channel_to(web) as channel:
        (came,) = await ask(channel)
    assert came["error"]["message"] == "SSE stream ended and reconnection attempts were exhausted"


async def test_a_page_in_place_of_an_answer_is_an_error_of_the_call() -> None:
    (came,), _ = await answered(b"<html>", kind="text/html")
    assert came["error"]["message"] == "Unexpected content type: text/html"


# The connection below


@requirement("gateway:http-weight")
async def test_calls_after_each_other_use_one_connection() -> None:
    chunked = [
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        b"6;x=y\r\ndata: \r\n", f"{len(message({})):x}\r\n".encode(), message({}), b"\r\n2\r\n\n\n\r\n0\r\n", b"trailer: 1\r\n\r\n",
    ]  # fmt: skip
    web = Web(whole(message({})), chunked, whole(b"data: " + message({}) + b"\n\n", STREAM), whole(message({})))
    async with channel_to(web, headers={"X-Key": "s3cret", "Accept": "x/y"}) as channel:
        for _ in range(4):
            assert [one["result"] for one in await ask(channel, headers={"mcp-method": "tools/call"})] == [{}]
    assert web.connections == 1
    head = web.requests[0].lower()
    assert head.startswith(b"post /mcp http/1.1\r\n")
    assert b"\r\nx-key: s3cret\r\n" in head
    assert b"\r\nmcp-method: tools/call\r\n" in head
    assert head.count(b"\r\naccept:") == 1


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "parts",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\ncontent-type: application/json\r\n\r\n", b'{"jsonrpc"'],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n", b"ff\r\n{"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n", b"-1\r\n"],
        [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n",
            b"1\r\n \r\n" * 300_000,  # far more around the data than data
        ],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n"],
        [b"HTTP/1.1 2000 OK\r\n\r\n"],
        [b"HTTP/2 200 OK\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000],
        [b"hello\r\n\r\n"],
        [b""],
    ],
)
async def test_what_is_not_http_is_the_trouble_of_its_call_and_the_next_one_has_a_connection(
    parts: list[bytes],
) -> None:
    closes = [parts[0].replace(b"\r\n", b"\r\nconnection: close\r\n", 1) or b"connection: close", *parts[1:]]
    web = Web(closes, whole(message({}, number=8)))
    async with channel_to(web) as channel:
        one = Call(7, "tools/call", seconds=1)
        (came,) = await ask(channel, one)
        assert came["error"]["message"] == "Server returned an error response"
        assert one.trouble is not None
        assert one.trouble.sent
        (came,) = await ask(channel, Call(8, "tools/call", seconds=1))
        assert came["result"] == {}
    assert web.connections == 2


async def test_a_header_with_a_line_break_is_never_sent() -> None:
    web = Web(whole(message({})))
    async with channel_to(web) as channel:
        (came,) = await ask(channel, headers={"mcp-name": "a\r\nx-evil: 1"})
        assert "error" in came
    assert web.requests == []


async def test_a_redirect_is_followed_to_the_same_place_and_to_no_other() -> None:
    there = whole(b"", status="307 Temporary Redirect", location="/mcp/")
    away = whole(b"", status="307 Temporary Redirect", location="http://127.0.0.2:1/mcp?key=1")
    lost = whole(b"", status="302 Found", location="/mcp/")  # which would be asked for without the message
    web = Web(there, there, whole(message({})), away, lost)
    async with channel_to(web, headers={"X-Key": "s3cret"}) as channel:
        assert [one["result"] for one in await ask(channel)] == [{}]
        assert [head.split(b" ")[1] for head in web.requests] == [b"/mcp", b"/mcp", b"/mcp/"]
        (came,) = await ask(channel)
        words = (
            "Redirect to http://127.0.0.2:1/mcp not followed; use that URL as the endpoint if it is the intended server"
        )
        assert came["error"]["message"] == words
        (came,) = await ask(channel)
        assert "not followed" in came["error"]["message"]


async def test_a_cookie_of_the_server_comes_back_to_it() -> None:
    web = Web(whole(message({}), **{"set-cookie": "place=3; Path=/"}), whole(message({})))
    async with channel_to(web) as channel:
        for _ in range(2):
            assert [one["result"] for one in await ask(channel)] == [{}]
    assert [b"place=3" in head for head in web.requests] == [False, True]


async def test_an_error_in_the_body_of_a_refusal_is_the_answer_also_without_an_id() -> None:
    error = {"code": -32602, "message": "no such tool"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    web = Web(whole(body, status="400 Bad Request"), whole(b"{}", status="400 Bad Request"))
    async with channel_to(web) as channel:
        (came,) = await ask(channel)
        assert came == {"id": 7, "error": {**error, "data": None}}
        (came,) = await ask(channel)
        assert came["error"]["message"] == "Server returned an error response"


@requirement("gateway:server-bounds")
async def test_a_long_error_without_an_id_is_told_and_not_read() -> None:
    body = b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m", "data": [' + b"{}," * 350_000 + b"1]}}"
    async with channel_to(Web(whole(body, status="400 Bad Request"))) as channel:
        (came,) = await ask(channel)
    told = f"Server returned an error of {len(body):,} bytes, which is not kept"
    assert came == {"id": 7, "error": {"code": -32603, "message": told, "data": None}}


# ── Too large ───────────────────────────────────────────────────────────────────────────────────────────────

MOST = 2 * 2**20


def bomb(encoding: str, plain: int) -> bytes:
    """Zeros, packed into about a thousandth."""
    if encoding == "gzip":
        return gzip.compress(b"0" * plain)
    if encoding == "deflate":
        return zlib.compress(b"0" * plain)
    return gzip.compress(gzip.compress(b"0" * plain))  # twice


def endless(kind: str) -> Iterator[bytes]:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    yield head.encode()
    yield b"6\r\ndata: \r\n" if kind == STREAM else b"1\r\n{\r\n"
    while True:
        yield b"10000\r\n" + b"0" * 2**16 + b"\r\n"


class Endless(Web):
    """One response that does not end."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            for part in endless(self._kind):
                writer.write(part)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


async def refused(web: Web) -> str:
    """What the call is told; and the memory that it took in the meantime is flat."""
    call = Call(7, "tools/call", seconds=SOON)
    async with channel_to(web, bounds=Bounds(message_bytes=MOST)) as channel:
        tracemalloc.start()
        try:
            found = await ask(channel, call)
            assert tracemalloc.get_traced_memory()[1] < 3 * MOST
        finally:
            tracemalloc.stop()
    assert found[-1]["error"]["message"] == "Server returned an error response"
    assert call.trouble is not None
    return call.trouble.what


TOO_LARGE = "sent one message of more than 2,097,152 bytes (the setting server_max_bytes allows more)"


@pytest.mark.in_full(one_in=3)
@requirement("gateway:server-bounds")
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip"])
@pytest.mark.parametrize(
    ("kind", "status"), [(BODY, "200 OK"), (STREAM, "200 OK"), (BODY, "500 Oh")]
)  # that of an error is looked at only as a body
async def test_an_answer_that_unpacks_to_too_much_is_refused(encoding: str, kind: str, status: str) -> None:
    data = bomb(encoding, 20 * MOST)
    assert len(data) < MOST
    web = Web(whole(data, kind, status, **{"content-encoding": encoding, "connection": "close"}))
    twice = "sent an answer that is packed as gzip, gzip, which was not asked for"
    assert await refused(web) == (twice if "," in encoding else TOO_LARGE)


@requirement("gateway:server-bounds")
@pytest.mark.parametrize(
    ("encoding", "data", "told"),
    [
        ("zstd", b"\x50\x2a\x4d\x18\0\0\0\0" * 1000, "sent an answer that is packed as zstd, which was not asked for"),
        ("gzip", gzip.compress(b"{") + bytes(1000), "sent more behind the end of what it packed"),
        ("deflate", zlib.compress(b"{") + bytes(2**18), "sent more behind the end of what it packed"),
        ("gzip", gzip.compress(b"")[:10] + b"\0\0\0\xff\xff" * 2**19, "sent packed bytes that unpack to nothing"),
    ],
    ids=["not asked for", "more, soon", "more, later", "nothing"],
)  # fmt: skip
async def test_what_is_packed_as_nobody_would_is_refused(encoding: str, data: bytes, told: str) -> None:
    web = Web(whole(data, BODY, "200 OK", **{"content-encoding": encoding, "connection": "close"}))
    assert await refused(web) == told


@requirement("gateway:server-bounds")
@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip"])
async def test_what_answers_a_notification_is_not_unpacked_to_its_end(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = 0
    real = http_channel._parts  # pyright: ignore[reportPrivateUsage]

    async def counted(response: httpx2.Response) -> AsyncIterator[bytes]:
        nonlocal unpacked
        async for part in real(response):
            unpacked += len(part)
            yield part

    monkeypatch.setattr(http_channel, "_parts", counted)
    web = Web(whole(bomb(encoding, 40 * MOST), BODY, "202 Accepted", **{"content-encoding": encoding}))
    async with channel_to(web) as channel:
        await channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
    assert unpacked < MOST


@requirement("gateway:server-bounds")
@pytest.mark.parametrize("kind", [BODY, STREAM])
async def test_an_answer_that_does_not_end_is_refused_while_it_comes(kind: str) -> None:
    assert await refused(Endless(kind)) == TOO_LARGE


async def test_many_small_events_are_not_too_large_together() -> None:
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 2**16}}).encode()
    events = [b"data: " + note + b"\n\n" for _ in range(3 * MOST // 2**16)]
    head = [f"HTTP/1.1 200 OK\r\ncontent-type: {STREAM}\r\nconnection: close\r\n\r\n".encode()]
    async with channel_to(
        Web([*head, *events, b"data: " + message({}) + b"\n\n"]), bounds=Bounds(message_bytes=MOST)
    ) as one:
        found = await ask(one)
    assert len(found) == len(events) + 1
    assert found[-1]["result"] == {}


def test_a_stream_is_not_asked_for_again_without_a_pause() -> None:
    [event] = EventReader(1000).feed(b"id: a\nretry: 0\n\n")
    assert event.pause >= 0.1


def test_empty_lines_are_no_events_however_many() -> None:
    assert listed([b"data: 1\n" + b"\n" * 100_000, b"\r\n" * 100_000, b": ping\n\n" * 3, b"data: 2\n\n"]) == [
        (b"1", "", b"", None),
        (b"2", "", b"", None),
    ]


@requirement("gateway:server-bounds")
async def test_a_stream_of_noise_has_an_end() -> None:
    noise = [b": " + b"x" * 60_000 + b"\n\n"] * 80
    head = [f"HTTP/1.1 200 OK\r\ncontent-type: {STREAM}\r\nconnection: close\r\n\r\n".encode()]
    call = Call(7, "tools/call", seconds=SOON)
    async with channel_to(Web([*head, *noise]), bounds=Bounds(message_bytes=MOST, noise_bytes=MOST)) as one:
        found = await ask(one, call)
    assert found[-1]["error"]["message"] == "Server returned an error response"
    assert call.trouble is not None
    assert call.trouble.what == "sent more than 2,097,152 bytes of a stream that are no message"
