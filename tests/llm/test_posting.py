"""One JSON request over HTTP: what comes back, and what a broken answer is told as."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from holdall.llm.gguf import NoHttpAnswer, post_json
from tests.llm.openai_server import OpenAIServer, Scene

pytestmark = pytest.mark.anyio
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(talk: Talk) -> AsyncGenerator[int]:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def saying(answer: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    return talk


async def test_the_status_and_the_json_come_back() -> None:
    with OpenAIServer().running() as server:
        server.will(Scene(418, '{"tea": "é"}'))
        port = int(server.url.split(":")[2].split("/")[0])
        assert await post_json("127.0.0.1", port, "/v1/x", {"a": "ü" * 100_000}, key="k") == (418, {"tea": "é"})
        assert server.seen == [{"a": "ü" * 100_000}]
        assert server.headers[0]["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xff",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 1_000_000,
        b"SSH-2.0-OpenSSH_9.9\r\n",
    ],
)
async def test_what_is_no_answer_is_told_as_none(answer: bytes) -> None:
    async with listening(saying(answer)) as port:
        with pytest.raises(NoHttpAnswer):
            await asyncio.wait_for(post_json("127.0.0.1", port, "/", {}, key="k"), 20)


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async with listening(saying(b'HTTP/1.1 200 OK\r\nX: y\r\n\r\n{"a": 1}')) as port:
        assert await post_json("127.0.0.1", port, "/", {}, key="k") == (200, {"a": 1})


async def test_nobody_there_is_no_answer() -> None:
    with pytest.raises(NoHttpAnswer):
        await post_json("127.0.0.1", 9, "/", {}, key="k")


async def test_a_cancellation_closes_the_connection() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        begun.set()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        left.set()
        writer.close()

    async with listening(hang) as port, asyncio.timeout(100):
        task = asyncio.ensure_future(post_json("127.0.0.1", port, "/", {}, key="k"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await left.wait()
