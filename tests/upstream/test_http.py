"""Servers behind a URL that are not there, refuse, forget, break off or never acknowledge."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.mcp.client.connection import Connection, Servers
from holdall.mcp.client.spec import HttpServer, Revision
from holdall.values.errors import UpstreamFault, UpstreamTimeout
from tests.requirements import requirement
from tests.upstream.support import SOON, good, http_server, means, text_of, until

pytestmark = pytest.mark.anyio

Answer = Callable[[dict[str, Any], dict[str, str]], Awaitable[bytes | None]]


@asynccontextmanager
async def raw_server(answer: Answer) -> AsyncGenerator[HttpServer]:
    """HTTP by hand: `answer` gets the message and the headers, and gives the bytes to send; None breaks off."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                headers["method"] = first.split()[0]
                sent = await answer(json.loads(body) if body else {}, headers)
                if sent is None:
                    break
                writer.write(sent)
                await writer.drain()
                if b"connection: close" in sent:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield HttpServer("raw", f"http://user:hunter2@127.0.0.1:{port}/mcp?key=abcd1234", revision="handshake")
    finally:
        server.close()


def response(status: str, body: Any = None, **headers: str) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    fields = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    return "\r\n".join([f"HTTP/1.1 {status}", *(f"{k}: {v}" for k, v in fields.items()), "", ""]).encode() + data


def greeting(message: dict[str, Any], **headers: str) -> bytes | None:
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "raw", "version": "0"}}
        return response("200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": result}, **headers)
    if "id" not in message:
        return response("202 Accepted")
    return None


async def start_fault(spec: HttpServer) -> str:
    async with Servers([spec], means=means()) as servers:
        with pytest.raises(UpstreamFault) as caught:
            await servers[spec.name].start()
    return str(caught.value)


@pytest.mark.parametrize("revision", ["handshake", "auto"])
async def test_a_server_that_refuses_who_asks_says_so_and_no_secret_is_in_the_message(revision: Revision) -> None:
    statuses = iter(["401 Unauthorized", "403 Forbidden"])

    for _ in range(2):
        status = next(statuses)

        async def refuse(message: dict[str, Any], headers: dict[str, str], status: str = status) -> bytes:
            return response(status)

        async with raw_server(refuse) as spec:
            fault = await start_fault(
                replace(spec, revision=revision, source="mcp.json", headers={"Authorization": "Bearer abcd1234"})
            )
        assert (
            fault == f'MCP server "raw" answered with HTTP {status[:3]} ({status[4:]}). Check its headers in mcp.json.'
        )


async def test_a_url_where_nobody_listens_is_told_by_its_place_without_its_keys() -> None:
    async with raw_server(lambda message, headers: asyncio.sleep(0, None)) as spec:
        pass
    port = spec.url.partition("@127.0.0.1:")[2].partition("/")[0]
    for revision in ("auto", "handshake"):
        fault = await start_fault(replace(spec, revision=revision))
        assert fault.replace(port, "PORT") == snapshot(
            'MCP server "raw" cannot be reached at http://127.0.0.1:PORT/mcp (All connection attempts failed). Check that it runs, and its url.'
        )


async def test_a_server_with_an_error_of_its_own_is_told_with_its_status() -> None:
    async def fail(message: dict[str, Any], headers: dict[str, str]) -> bytes:
        return response("500 Internal Server Error")

    async with raw_server(fail) as spec:
        assert await start_fault(spec) == snapshot('MCP server "raw" answered with HTTP 500 (Internal Server Error).')


@requirement("gateway:slow-discovery")
@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_server_that_is_too_busy_for_discovery_is_not_taken_for_an_old_one(status: str) -> None:
    busy = [True]

    async def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") != "server/discover":
            return greeting(message)
        if busy.pop() if busy else False:
            return response(status)
        result: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
        return response("200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": result})

    async with raw_server(answer) as spec, Servers([replace(spec, revision="auto")], means=means()) as servers:
        with pytest.raises(UpstreamFault, match=f"HTTP {status[:3]}"):
            await servers["raw"].start()
        assert (await servers["raw"].start()).revision == "2026-07-28"  # the next one tries again


async def test_an_answer_that_breaks_off_is_the_error_of_its_own_call_only() -> None:
    release = asyncio.Event()

    async def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") != "tools/call":
            return greeting(message)
        match message["params"]["name"]:
            case "break":
                return None
            case "sse":
                return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\r\n\r\n"
            case _:
                await release.wait()
                return response("200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})

    async with raw_server(answer) as spec, Servers([spec], means=means()) as servers:
        one = servers["raw"]
        calm = asyncio.create_task(one.call("calm"))
        await one.start()
        with pytest.raises(UpstreamFault) as caught:
            await one.call("break")
        assert str(caught.value) == snapshot(
            'MCP server "raw" broke off the connection (Server disconnected without sending a response). What this call has done is not known.'
        )
        cut = asyncio.create_task(one.call("sse", timeout=2))
        with pytest.raises(UpstreamFault):
            await cut
        release.set()
        assert (await calm).result == {"content": []}


async def test_a_notification_that_is_never_acknowledged_blocks_no_later_call() -> None:
    waiting = asyncio.Event()

    async def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") == "notifications/cancelled":
            waiting.set()
            await asyncio.Event().wait()
        if message.get("method") == "tools/call" and message["params"]["name"] == "hang":
            await asyncio.Event().wait()
        if message.get("method") in ("tools/call", "ping"):
            return response("200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
        return greeting(message)

    async with raw_server(answer) as spec, Servers([spec], means=means()) as servers:
        one = servers["raw"]
        with pytest.raises(UpstreamTimeout):
            await one.call("hang", timeout=0.2)
        await waiting.wait()
        assert (await one.call("echo", timeout=100)).result == {"content": []}


async def test_a_session_that_the_server_has_forgotten_is_opened_again_and_the_call_sent_once_more() -> None:
    sessions: list[str] = []
    ran: list[str] = []

    async def answer(message: dict[str, Any], headers: dict[str, str]) -> bytes | None:
        if message.get("method") == "initialize":
            sessions.append(f"s{len(sessions)}")
            return greeting(message, **{"mcp-session-id": sessions[-1]})
        if message.get("method") == "tools/call":
            if headers.get("mcp-session-id") != sessions[-1] or (len(sessions) == 1 and ran):
                return response("404 Not Found")
            ran.append(message["params"]["name"])
            return response("200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
        return greeting(message) or response("405 Method Not Allowed")

    async with raw_server(answer) as spec, Servers([spec], means=means()) as servers:
        await servers["raw"].call("first")
        await servers["raw"].call("second")
        assert (sessions, ran) == (["s0", "s1"], ["first", "second"])


async def test_a_server_that_dies_in_the_middle_of_a_call_and_comes_back_serves_the_next_one(tmp_path: Path) -> None:
    with http_server(tmp_path, forked=False) as (spec, pid):
        one = Connection(replace(spec, revision="handshake"), means=means())
        try:
            await one.start()
            hanging = asyncio.create_task(one.call("hang", timeout=20))
            assert text_of(await one.call("pid")) == str(pid)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(UpstreamFault):
                await hanging
            with pytest.raises(UpstreamFault, match=r"cannot be reached|broke off the connection"):
                await one.call("echo")
        finally:
            await one.aclose()


async def test_a_server_that_answers_with_json_instead_of_streams_works_in_both_eras(tmp_path: Path) -> None:
    with http_server(tmp_path, "--json") as (spec, _):
        for revision in ("handshake", "2026-07-28"):
            async with Servers([replace(spec, revision=revision)], means=means()) as servers:
                replies = await asyncio.gather(*(servers["web"].call("echo", {"text": str(n)}) for n in range(150)))
                assert [text_of(reply) for reply in replies] == [str(n) for n in range(150)]


async def test_a_server_that_is_down_when_it_is_first_used_works_once_it_is_up(tmp_path: Path) -> None:
    with http_server(tmp_path, forked=False) as (spec, pid):
        os.kill(pid, signal.SIGSTOP)
        one = Connection(replace(spec, start_seconds=0.5), means=means())
        try:
            with pytest.raises(UpstreamTimeout, match="did not answer the greeting"):
                await one.start()
            os.kill(pid, signal.SIGCONT)
            said = ""
            async with asyncio.timeout(SOON):
                while not said:  # it may be slow to wake up
                    with contextlib.suppress(UpstreamTimeout):
                        said = text_of(await one.call("pid"))
            assert said == str(pid)
        finally:
            await one.aclose()


async def test_no_orphaned_stream_keeps_a_closed_connection_open(tmp_path: Path) -> None:
    with http_server(tmp_path) as (spec, pid):
        async with Servers([spec, good()], means=means()) as servers:
            await asyncio.gather(*(one.call("echo", {"text": "x"}) for one in servers))
        sockets = Path(f"/proc/{pid}/net/tcp")
        port = f":{int(spec.url.rpartition(':')[2].partition('/')[0]):04X}"
        await until(lambda: not [line for line in sockets.read_text().splitlines() if port in line and " 01 " in line])
