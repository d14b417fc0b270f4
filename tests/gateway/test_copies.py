"""How many copies of its servers a gateway over HTTP runs, counted as processes, and who hears what of a shared one."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdall.mcp.client.connection import Connection
from holdall.mcp.client.routes import Callbacks, Declined
from holdall.mcp.client.spec import StdioServer
from holdall.mcp.gateway.known import Copy, KnownServer, Member
from tests.gateway.support import GOOD, SOON, gateway, plain
from tests.gateway.web import served
from tests.requirements import requirement
from tests.upstream.launch import sdk_server, unforked
from tests.upstream.support import lines_of, until

pytestmark = [pytest.mark.anyio, requirement("gateway:copies")]
ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"
MANY = 8


class Session:
    """A client of the older era, by hand: an official one takes as long to start as all servers together."""

    def __init__(self, http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> None:
        self._http, self._url, self._headers = http, url, headers
        self._numbers = itertools.count(1)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole answer."""
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        return answer_in(await self._http.post(self._url, json=message, headers=self._headers))

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.ask(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> str:
        return str((await self.result("tools/call", name=tool, arguments=arguments))["content"][0]["text"])

    async def tools(self) -> list[str]:
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self.result("tools/list", **cursor)
            found += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    async def lists(self) -> list[Any]:
        more = [await self.ask(method) for method in ("prompts/list", "resources/list", "resources/templates/list")]
        return [await self.tools(), *({**one, "id": 0} for one in more)]

    async def hears(self, method: str) -> None:
        """Wait for a notification in the stream for what belongs to no request."""
        async with (
            asyncio.timeout(SOON),
            self._http.stream("GET", self._url, headers=self._headers) as response,
        ):
            async for line in response.aiter_lines():
                if method in line:
                    return

    async def leave(self) -> None:
        await self._http.delete(self._url, headers=self._headers)


def answer_in(came: httpx2.Response) -> dict[str, Any]:
    """An answer that takes longer than five seconds, as on a busy machine, comes as a stream."""
    if came.headers["content-type"] == "application/json":
        return came.json()
    lines = [line.removeprefix("data: ") for line in came.text.splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1])


class Gateway:
    def __init__(self, url: str, pid: int, http: httpx2.AsyncClient) -> None:
        self.pid = pid
        self._url, self._http = url, http

    async def session(self, token: str = ALICE, name: str = "x") -> Session:
        both = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        info = {"name": name, "version": "1"}
        params: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        opened = await self._http.post(self._url, json=message, headers=both)
        assert "be kind" in answer_in(opened)["result"]["instructions"], opened.text
        return Session(self._http, self._url, both | {"Mcp-Session-Id": opened.headers["mcp-session-id"]})

    def processes(self, word: str = "") -> list[int]:
        """Of servers with this word in their command line."""
        found: list[int] = []
        for folder in Path("/proc").iterdir():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1] if folder.name.isdigit() else ""
                words = (folder / "cmdline").read_text().split("\0") if parent == str(self.pid) else []
            except OSError:
                continue
            if word in words or (words and not word):
                found.append(int(folder.name))
        return found


@asynccontextmanager
async def running(folder: Path, **servers: dict[str, Any]) -> AsyncGenerator[Gateway]:
    (folder / "config").mkdir()
    (folder / "config" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    tokens = folder / "tokens"
    tokens.write_text(f"alice {ALICE}\nbob {BOB}\n")
    tokens.chmod(0o600)
    options = ["--http", "127.0.0.1:0", "--tokens", str(tokens), "--config", str(folder / "config" / "mcp.json")]
    words = gateway(folder, *options, before=["--set", "slow_after_seconds=600"])  # however busy the machine is
    limits = httpx2.Limits(max_connections=None)
    async with (
        served(unforked(words), HOLDALL_GATEWAY_TOKEN="") as (url, process, _),
        httpx2.AsyncClient(timeout=SOON, limits=limits) as http,
    ):
        yield Gateway(url, process.pid, http)


def program(name: str, *more: str, **keys: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [*plain(name)[1:], *more], **keys}


def good(*arguments: str, **keys: Any) -> dict[str, Any]:
    command, *words = sdk_server(GOOD)
    return {"command": command, "args": [*words, *arguments], **keys}


@pytest.mark.in_full
async def test_sessions_that_only_list_share_one_process_of_each_server(tmp_path: Path) -> None:
    async with running(tmp_path, one=program("one"), two=program("two")) as it:
        sessions = await asyncio.gather(*(it.session() for _ in range(MANY)))
        found = await asyncio.gather(*(session.lists() for session in sessions))
        assert "one__echo" in found[0][0]
        assert "two__echo" in found[0][0]
        assert all(lists == found[0] for lists in found)
        assert (len(it.processes("one")), len(it.processes("two"))) == (1, 1)


async def test_a_session_that_calls_one_server_gets_a_copy_of_that_one(tmp_path: Path) -> None:
    journal = tmp_path / "journal.txt"
    async with running(tmp_path, one=program("one", str(journal)), two=program("two")) as it:
        sessions = await asyncio.gather(*(it.session() for _ in range(MANY)))
        await asyncio.gather(*(session.lists() for session in sessions))
        await sessions[0].result("logging/setLevel", level="debug")
        await sessions[1].result("logging/setLevel", level="error")
        pids = await asyncio.gather(*(session.call("one__pid") for session in sessions))
        assert sorted(map(int, pids)) == sorted(it.processes("one"))
        assert len(set(pids)) == MANY
        assert len(it.processes("two")) == 1
        assert await sessions[3].call("one__pid") == pids[3]
        assert [line for line in lines_of(journal) if "error" in line]  # said to a copy that was started later
        await asyncio.gather(*(session.leave() for session in sessions))
        await until(lambda: it.processes() == [])


async def test_a_server_of_the_newer_era_is_one_process_for_all(tmp_path: Path) -> None:
    itself = {"command": sys.executable, "args": [GOOD], "revision": "2026-07-28"}
    async with running(tmp_path, new=itself) as it:
        sessions = await asyncio.gather(*(it.session() for _ in range(MANY)))
        pids = set(await asyncio.gather(*(session.call("pid") for session in sessions)))
        assert [str(pid) for pid in it.processes()] == list(pids)
        texts = await asyncio.gather(*(one.call("echo", text=str(n)) for n, one in enumerate(sessions)))
        assert texts == [str(number) for number in range(MANY)]
        for session in sessions[:-1]:
            await session.leave()
        assert await sessions[-1].call("pid") in pids
        await sessions[-1].leave()
        await until(lambda: it.processes() == [])


async def test_a_shared_server_is_for_one_principal_and_is_started_again_when_it_was_killed(tmp_path: Path) -> None:
    journal = tmp_path / "journal.txt"
    async with running(tmp_path, both=program("both", str(journal), shared=True)) as it:
        first, second, other = await it.session(), await it.session(), await it.session(BOB)
        alices = {await first.call("pid"), await second.call("pid")}
        bobs = await other.call("pid")
        assert len(alices) == 1
        assert bobs not in alices
        hanging = [
            asyncio.ensure_future(one.ask("tools/call", name="sleep", arguments={"seconds": 600}))
            for one in (first, second)
        ]
        await until(lambda: sum(line.startswith("sleeps") for line in lines_of(journal)) == 2)
        os.kill(int(alices.pop()), signal.SIGKILL)
        async with asyncio.timeout(SOON):
            for answer in await asyncio.gather(*hanging):
                assert "while" in json.dumps(answer)
                assert "What this call has done is not known" in json.dumps(answer)
        third = await it.session()
        again = {await one.call("pid") for one in (third, first, second)}
        assert len(again) == 1
        assert await other.call("pid") == bobs


@pytest.mark.in_full
async def test_a_list_that_changes_at_one_copy_is_asked_for_again_by_sessions_without_one(tmp_path: Path) -> None:
    async with running(tmp_path, old=good(revision="handshake")) as it:
        first, second, third = await it.session(), await it.session(), await it.session()
        before = await first.tools()
        assert await second.tools() == before
        assert len(it.processes()) == 1
        told = asyncio.ensure_future(second.hears("notifications/tools/list_changed"))
        await first.call("grow", name="grown")
        await told
        assert "grown" in await first.tools()
        assert await second.tools() == before  # of a copy of its own: the other one has a session with `first`
        assert await third.tools() == before
        assert len(it.processes()) == 2


@pytest.mark.in_full
async def test_clients_that_introduce_themselves_differently_do_not_share_what_a_server_says(tmp_path: Path) -> None:
    journal = tmp_path / "journal.txt"
    async with running(tmp_path, one=program("one", str(journal))) as it:
        await (await it.session(name="cat")).tools()
        await (await it.session(name="cat")).tools()
        await (await it.session(name="dog")).tools()
        said = [json.loads(line.partition(" ")[2]) for line in lines_of(journal) if line.startswith("initialize")]
        assert [one["clientInfo"]["name"] for one in said] == ["cat", "dog"]


# What belongs to no call


class Ear:
    def __init__(self) -> None:
        self.busy = False
        self.heard: list[str] = []
        self.member = Member(Callbacks(self._notify, self._ask), lambda: self.busy)

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        self.heard.append(method)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.heard.append(method)
        return {}


async def test_a_question_and_a_log_message_reach_the_session_that_they_are_for_or_none() -> None:
    given: list[Callbacks] = []

    def connect(callbacks: Callbacks) -> Connection:
        given.append(callbacks)
        return Connection(StdioServer("x", "true"))

    one, two = Ear(), Ear()
    copy = Copy(KnownServer(), connect, one.member)
    notify, ask = given[0].notify, given[0].ask
    assert notify is not None
    assert ask is not None
    await notify("notifications/message", {})
    await ask("roots/list", {})
    assert one.heard == ["notifications/message", "roots/list"]
    copy.members.append(two.member)
    two.busy = True
    await notify("notifications/message", {})
    await ask("roots/list", {})
    assert two.heard == ["notifications/message", "roots/list"]
    one.busy = True
    await notify("notifications/message", {})
    with pytest.raises(Declined):
        await ask("roots/list", {})
    await notify("notifications/tools/list_changed", {})
    assert one.heard == two.heard == ["notifications/message", "roots/list", "notifications/tools/list_changed"]


def test_pages_of_lists_are_remembered_only_where_there_is_room() -> None:
    known = KnownServer()
    copy = Copy(known, lambda _: Connection(StdioServer("x", "true")), Ear().member)
    for number in range(100):
        known.keep(copy, "tools/list", {"cursor": f"{number}{'x' * 1_000_000}"}, {"tools": []}, known.age)
    for number in range(2000):
        known.keep(copy, "prompts/list", {"cursor": str(number)}, {"prompts": ["x" * 1_000]}, known.age)
    held = known._pages  # pyright: ignore[reportPrivateUsage]
    assert sum(method == "tools/list" for method, _ in held) == 33
    assert len(held) == 565
