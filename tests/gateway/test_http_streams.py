"""Streams over HTTP: a client whose connection broke goes on where it was, and a page of an allowed origin may read."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.outside import REFERENCE
from tests.gateway.support import SOON, gateway, plain
from tests.gateway.web import TOKEN, client_at, served
from tests.requirements import requirement
from tests.upstream.support import http_server

pytestmark = pytest.mark.anyio
ORIGIN = "https://good.example"
BOTH = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}


class Session:
    """A session of the older era, spoken to by hand."""

    def __init__(self, http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._headers = headers

    async def post(self, **message: Any) -> httpx2.Response:
        return await self._http.post(self._url, json={"jsonrpc": "2.0", **message}, headers=self._headers)

    @asynccontextmanager
    async def call(self, number: int, tool: str, **arguments: Any) -> AsyncGenerator["Events"]:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        async with self._http.stream("POST", self._url, json=message, headers=self._headers) as response:
            yield Events(response)

    @asynccontextmanager
    async def at_once(self, number: int, method: str, **params: Any) -> AsyncGenerator["Events"]:
        """As a client that takes nothing but streams: it is one before there is an answer."""
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        headers = self._headers | {"Accept": "text/event-stream"}
        async with self._http.stream("POST", self._url, json=message, headers=headers) as response:
            yield Events(response)

    @asynccontextmanager
    async def get(self, last: str = "") -> AsyncGenerator["Events"]:
        more = {"Last-Event-ID": last} if last else {}
        async with self._http.stream("GET", self._url, headers=self._headers | more) as response:
            yield Events(response)


class Events:
    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def __aiter__(self) -> AsyncGenerator[str]:
        """What is left of it, line by line."""
        async with asyncio.timeout(SOON):
            async for line in self._lines:
                yield line

    async def next(self) -> tuple[str, dict[str, Any] | None]:
        """Id and message of the next event; no message in one that only says where the stream is."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(SOON):
            async for line in self._lines:
                if not line and fields:
                    return fields.get("id", ""), json.loads(fields["data"]) if fields["data"] else None
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.strip()
        raise AssertionError("the stream has ended")


@asynccontextmanager
async def session(folder: Path, revision: str = "2025-11-25", *words: str) -> AsyncGenerator[Session]:
    before = words or gateway(folder, "--http", "127.0.0.1:0", server=plain())
    async with (
        served(list(before), HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _),
        httpx2.AsyncClient(timeout=SOON) as http,
    ):
        info = {"name": "x", "version": "1"}
        roots: dict[str, Any] = {"roots": {}}
        params = {"protocolVersion": revision, "capabilities": roots, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        opened = await http.post(url, json=message, headers=BOTH)
        own = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Mcp-Protocol-Version": revision}
        one = Session(http, url, BOTH | own)
        assert (await one.post(method="notifications/initialized")).status_code == 202
        yield one


async def test_a_call_whose_connection_broke_goes_on_and_its_answer_is_there(tmp_path: Path) -> None:
    async with session(tmp_path) as one:
        async with one.call(1, "ask", method="roots/list", params={}) as events:
            assert events.response.headers["content-type"] == "text/event-stream"
            begun, nothing = await events.next()
            assert begun
            assert nothing is None
            asked, question = await events.next()
            assert question is not None
            assert question["method"] == "roots/list"
        # The connection is gone, and the server still waits for what it has asked.
        answered = await one.post(id=question["id"], result={"roots": [{"uri": "file:///a"}]})
        assert answered.status_code == 202
        async with one.get(asked) as events:
            assert (await events.next())[1] is None
            _, answer = await events.next()
            assert answer is not None
            assert answer["id"] == 1
            assert "file:///a" in answer["result"]["content"][0]["text"]
        async with one.get(begun) as events:  # all of it once more, as often as a client has to
            found = [(await events.next())[1] for _ in range(3)]
            assert found == [None, question, answer]


async def test_a_server_that_closes_its_stream_lets_the_client_go_too_until_it_asks_for_the_rest(
    tmp_path: Path,
) -> None:
    with http_server(tmp_path, program=REFERENCE) as (spec, _):
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"reference": {"type": "http", "url": spec.url}}}))
        words = gateway(tmp_path, "--http", "127.0.0.1:0", "--config", str(config))
        async with session(tmp_path, "2025-11-25", *words) as one:
            async with one.call(1, "test_reconnection") as events:
                begun, nothing = await events.next()
                assert nothing is None
                assert [line async for line in events] == []
            async with one.get(begun) as events:
                assert (await events.next())[1] is None
                _, answer = await events.next()
                assert answer is not None
                assert answer["result"]["content"][0]["text"] == "Reconnection test completed"
        async with session(tmp_path, "2025-06-18", *words) as one:  # one that could not come back is not let go
            params: dict[str, Any] = {"name": "test_reconnection", "arguments": {}}
            answer = (await one.post(id=1, method="tools/call", params=params)).json()
            assert answer["result"]["content"][0]["text"] == "Reconnection test completed"


async def test_what_belongs_to_no_call_waits_for_a_client_that_comes_back(tmp_path: Path) -> None:
    async with session(tmp_path) as one:
        async with one.get() as events:
            begun, _ = await events.next()
            await one.post(method="notifications/later", params={"n": 1})
            first, message = await events.next()
            assert message is not None
            assert message["params"] == {"n": 1}
        await one.post(method="notifications/later", params={"n": 2})
        async with one.get(first) as events:
            assert (await events.next())[1] is None
            _, message = await events.next()
            assert message is not None
            assert message["params"] == {"n": 2}
        assert begun != first


async def test_an_event_that_is_not_known_is_refused(tmp_path: Path) -> None:
    async with session(tmp_path) as one:
        for last in ("a999-1", "s1-5", "x", "-", "a1-", "a1-99999999999999999999", "a1-1e3"):
            async with one.get(last) as events:
                assert events.response.status_code == 400, last


async def test_an_older_client_gets_no_event_without_a_message(tmp_path: Path) -> None:
    async with session(tmp_path, "2025-06-18") as one, one.call(1, "steps", steps=1) as events:
        number, word = await events.next()
        assert number
        assert word is not None
        assert word["params"]["data"] == "log 1"
        _, answer = await events.next()
        assert answer is not None
        assert answer["result"]["content"][0]["text"] == "stepped"


@requirement("gateway:ids-exact")
async def test_an_id_that_is_in_use_is_refused_and_its_first_call_is_answered(tmp_path: Path) -> None:
    async with session(tmp_path) as one, one.call(1, "ask", method="roots/list", params={}) as first:
        await first.next()
        _, question = await first.next()
        params: dict[str, Any] = {"name": "echo", "arguments": {"text": "again"}}
        refusal = (await one.post(id=1, method="tools/call", params=params)).json()
        assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)  # else it would answer the first
        assert question is not None
        await one.post(id=question["id"], result={"roots": []})
        _, answer = await first.next()
        assert answer is not None
        assert "roots" in answer["result"]["content"][0]["text"]


async def test_a_cancelled_call_ends_its_stream(tmp_path: Path) -> None:
    async with session(tmp_path) as one, one.call(1, "ask", method="roots/list", params={}) as events:
        await events.next()
        await events.next()
        await one.post(method="notifications/cancelled", params={"requestId": 1})
        assert [event async for event in events] == []


async def test_a_page_of_an_allowed_origin_may_ask_and_read(tmp_path: Path) -> None:
    words = gateway(tmp_path, "--http", "127.0.0.1:0", "--allow-origin", ORIGIN, server=plain())
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), httpx2.AsyncClient(timeout=SOON) as http:
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-method"}
        may = await http.options(url, headers={"Origin": ORIGIN, **asks})  # a browser asks without the token
        assert may.status_code == 204
        assert may.headers["access-control-allow-origin"] == ORIGIN
        assert "POST" in may.headers["access-control-allow-methods"]
        assert "authorization" in may.headers["access-control-allow-headers"]
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        refused = await http.post(url, json=ping, headers={"Origin": ORIGIN})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
        info = {"name": "x", "version": "1"}
        params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        opened = await http.post(
            url, json={**ping, "method": "initialize", "params": params}, headers=BOTH | {"Origin": ORIGIN}
        )
        assert opened.headers["access-control-allow-origin"] == ORIGIN
        assert "mcp-session-id" in opened.headers["access-control-expose-headers"]
        assert opened.headers["vary"] == "origin"
        evil = await http.options(url, headers={"Origin": "https://evil.example", **asks})
        assert evil.status_code == 403
        assert "access-control-allow-origin" not in evil.headers
        assert "access-control-allow-origin" not in (await http.post(url, json=ping, headers=BOTH)).headers
        assert (await http.options(url)).status_code == 401


@requirement("gateway:any-client")
async def test_a_handshake_in_the_newer_era_is_refused_and_changes_nothing_for_others(tmp_path: Path) -> None:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    words = gateway(tmp_path, "--http", "127.0.0.1:0", server=[*plain()])
    async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _), httpx2.AsyncClient(timeout=SOON) as http:

        async def ask(method: str, **params: Any) -> httpx2.Response:
            named = {"Mcp-Name": params["name"]} if "name" in params else {}
            headers = BOTH | {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method} | named
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
            return await http.post(url, json=message, headers=headers)

        before = (await ask("tools/call", name="echo", arguments={"text": "a"})).json()
        assert before["result"]["resultType"] == "complete"
        for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe"):
            refused = await ask(method, protocolVersion="2025-11-25")
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, -32601), method
        assert (await ask("tools/call", name="echo", arguments={"text": "a"})).json() == before
        async with client_at(url, TOKEN, "legacy") as other:
            assert other.protocol_version == "2025-11-25"
