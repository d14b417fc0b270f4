"""The gateway over HTTP: the same for both eras, and for nobody who has no token."""

import asyncio
import contextlib
import json
import signal
import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import types

from tests.gateway.support import GOOD, SOON, gateway, plain
from tests.gateway.test_keeping import handle_in
from tests.gateway.web import TOKEN, client_at, served
from tests.requirements import requirement
from tests.upstream.launch import sdk_server
from tests.upstream.support import lines_of, until

pytestmark = pytest.mark.anyio
ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@requirement("gateway:any-client", "cli:gateway-http")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_gets_all_over_http(tmp_path: Path, mode: str) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=[*sdk_server(GOOD)])
    seen: list[float] = []
    logged: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async with (
        served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _),
        client_at(url, TOKEN, mode, logging_callback=log, log_level="info") as client,
    ):
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"
        names = [tool.name for tool in (await client.list_tools(cursor="second")).tools]
        assert names[-6:] == [
            "context_read", "context_grep", "context_tail", "context_query", "context_diff", "wait_for_tool_output",
        ]  # fmt: skip
        await client.call_tool("slow", {"steps": 3}, progress_callback=progressed)
        assert seen == [1, 2, 3]
        await client.call_tool("chatty", {"text": "a word"})
        assert logged == ["a word"]
        notice = text_of(await client.call_tool("big", {"bytes": 300_000}))
        found = text_of(await client.call_tool("context_grep", {"handle": handle_in(notice), "pattern": "x+"}))
        assert "1 match on 1 of 1 line" in found
        with pytest.raises(Exception, match="Connection closed"):
            await client.call_tool("refuse", {})
        many = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(30)))
        assert [text_of(one) for one in many] == [str(n) for n in range(30)]


async def test_a_server_can_ask_its_client_over_http(tmp_path: Path) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=plain())

    async def elicited(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": params.message})

    async with (
        served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _),
        client_at(url, TOKEN, "legacy", elicitation_callback=elicited) as client,
    ):
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        params: dict[str, Any] = {"message": "who?", "requestedSchema": schema}
        result = await client.call_tool("ask", {"method": "elicitation/create", "params": params})
        answer = json.loads(text_of(result))["result"]
        assert (answer["action"], answer["content"]) == ("accept", {"name": "who?"})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_no_neighbour_gets_the_tokens_of_clients_that_come_by_the_name(tmp_path: Path, host: str) -> None:
    """`localhost` is two addresses: who had our port at the other one would be sent what is meant for us."""
    words = gateway(tmp_path, "--http", f"{host}:0", server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _):
        assert url.startswith(f"http://{host}:")
        port = int(url.split(":")[2].partition("/")[0])
        for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
            with pytest.raises(OSError, match=r"already in use|not available|Cannot assign|not supported"):
                socket.create_server((address, port), family=family)


@requirement("gateway:principal")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_handle_of_another_principal_is_as_unknown_as_any(tmp_path: Path, mode: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"# who\nalice {ALICE}\n\nbob {BOB}\n")
    tokens.chmod(0o600)
    # In the older era each connection starts a server of its own: one that starts fast.
    server = plain() if mode == "legacy" else [*sdk_server(GOOD)]
    words = gateway(tmp_path, "--http", "127.0.0.1:0", "--tokens", str(tokens), server=server)
    async with served(words, HOLDALL_GATEWAY_TOKEN="") as (url, _, _):
        async with client_at(url, ALICE, mode) as alice, client_at(url, BOB, mode) as bob:
            result = await alice.call_tool("big", {"bytes": 300_000, "lines": 60_000})
            begins = "lin" if mode == "legacy" else "xxx"
            handle = handle_in(text_of(result))
            link = next(block.uri for block in result.content if block.type == "resource_link")
            await bob.call_tool("big", {"bytes": 300_001, "lines": 60_001})
            foreign = text_of(await bob.call_tool("context_read", {"handle": handle}))
            unknown = text_of(await bob.call_tool("context_read", {"handle": "zzzz"}))
            assert foreign.replace(handle, "zzzz") == unknown
            with pytest.raises(Exception, match="Resource not found"):
                await bob.read_resource(str(link))
            assert (await alice.read_resource(f"{link}?bytes=0:3")).contents[0].text == begins  # type: ignore[union-attr]
        async with client_at(url, ALICE, mode) as again:  # another connection of the same principal
            assert begins in text_of(await again.call_tool("context_read", {"handle": handle}))


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_who_has_no_token_or_comes_by_another_name_is_refused(tmp_path: Path) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", "--allow-origin", "https://good.example", server=plain())
    async with served(words) as (url, _, said), httpx2.AsyncClient(timeout=SOON) as http:
        token = said.split("token: ")[1].split()[0]
        assert len(token) > 30
        good = {"Authorization": f"Bearer {token}", **ACCEPT}
        port = url.split(":")[2].split("/")[0]

        async def status(**headers: str) -> int:
            given = {key.replace("_", "-"): value for key, value in headers.items()}
            return (await http.post(url, json=INITIALIZE, headers=good | given)).status_code

        assert await status() == 200
        assert await status(Host=f"localhost:{port}") == 200
        assert await status(Origin="https://good.example") == 200
        assert await status(Origin=f"http://127.0.0.1:{port}") == 200
        for wrong in ("Bearer x", "", f"Basic {token}", f"Bearer {token}x"):
            assert await status(Authorization=wrong) == 401, wrong
        with socket.create_connection((httpx2.URL(url).host, httpx2.URL(url).port or 0), timeout=SOON) as line:
            line.sendall(b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 1000)
            answers = b""
            with contextlib.suppress(ConnectionError):  # what stood in line is not read
                while more := line.recv(65536):
                    answers += more
        assert answers.count(b"HTTP/1.1 4") <= 3, "nothing more is taken of who was refused"
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}"):
            assert await status(Host=host) == 421, host
        for origin in ("https://evil.example", "null", "https://good.example.evil", f"http://evil.example:{port}"):
            assert await status(Origin=origin) == 403, origin
        assert await status(Content_Type="text/plain") == 415
        assert (await http.get(url.replace("/mcp", "/other"), headers=good)).status_code == 404
        assert (await http.put(url, headers=good)).status_code == 405


async def test_a_session_id_is_no_authentication(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice {ALICE}\nbob {BOB}\n")
    tokens.chmod(0o600)
    words = gateway(tmp_path, "--http", "127.0.0.1:0", "--tokens", str(tokens), server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN="") as (url, _, _), httpx2.AsyncClient(timeout=SOON) as http:
        alice, bob = ({"Authorization": f"Bearer {token}", **ACCEPT} for token in (ALICE, BOB))
        opened = await http.post(url, json=INITIALIZE, headers=alice)
        own = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        assert len(own["Mcp-Session-Id"]) >= 32
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await http.post(url, json=ping, headers=alice | own)).json() == {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {},
        }
        assert (await http.post(url, json=ping, headers=bob | own)).status_code == 404
        assert (await http.post(url, json=ping, headers=own | ACCEPT)).status_code == 401
        assert (await http.post(url, json=ping, headers=alice | {"Mcp-Session-Id": "1"})).status_code == 404
        assert (await http.post(url, json=ping, headers=alice)).status_code == 400
        assert (await http.get(url, headers=bob | own)).status_code == 404
        assert (await http.delete(url, headers=bob | own)).status_code == 404
        assert (await http.delete(url, headers=alice | own)).status_code == 200
        assert (await http.post(url, json=ping, headers=alice | own)).status_code == 404
        host, port = url.split("/")[2].split(":")
        with socket.create_connection((host, int(port)), timeout=SOON) as raw:
            raw.sendall(
                f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {ALICE}\r\n"
                "Mcp-Session-Id: aaaa\nX: y\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".encode()
            )
            assert b" 40" in await asyncio.to_thread(raw.recv, 100)


async def test_what_is_too_large_or_no_message_is_refused_aloud(tmp_path: Path) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), httpx2.AsyncClient(timeout=SOON) as http:
        good = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **ACCEPT}
        large = await http.post(url, content=b"[" + b" " * (65 * 1024 * 1024), headers=good)
        assert large.status_code == 413
        assert "at most" in large.text
        for body in (b"{", b"[]", b"7", b"\xff", b"[" * 100_000):
            answer = await http.post(url, content=body, headers=good)
            assert answer.status_code == 400, body[:20]
            assert answer.json()["error"]["code"] in (-32700, -32600)


async def test_a_client_of_the_newer_era_that_hangs_up_cancels_its_call(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=[*sdk_server(GOOD), "--journal", str(journal)])
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), client_at(url, TOKEN, "auto") as client:
        call = asyncio.ensure_future(client.call_tool("hang", {"text": "a"}))
        await until(lambda: "begun a" in lines_of(journal))
        call.cancel()
        await until(lambda: "cancelled a" in lines_of(journal))
        assert text_of(await client.call_tool("echo", {"text": "on"})) == "on"


async def test_it_ends_on_a_signal_with_streams_open(tmp_path: Path) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, process, _):
        good = {"Authorization": f"Bearer {TOKEN}", **ACCEPT}
        async with httpx2.AsyncClient(timeout=SOON) as http:
            opened = await http.post(url, json=INITIALIZE, headers=good)
            own = good | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            async with http.stream("GET", url, headers=own) as standing:
                assert standing.status_code == 200
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(SOON):  # the stream alone would stay open for ever
                    assert await process.wait() == 0
