"""A connection to servers that behave, over both transports and in both eras of the protocol."""

import asyncio
import math
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdall.mcp.client.connection import Connection, Servers
from holdall.mcp.client.handshake import Identity
from holdall.mcp.client.routes import Callbacks, Declined
from holdall.mcp.client.sdk import types
from holdall.mcp.client.spec import HttpServer, Revision, ServerSpec, StdioServer
from holdall.values.errors import UpstreamRefused, UpstreamTimeout, UsageError
from tests.upstream.support import GOOD, bad, good, lines_of, lives, means, pid_of, text_of, until

pytestmark = pytest.mark.anyio

ERAS: list[Revision] = ["handshake", "2026-07-28"]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for the module, so that tests can share connections: a start of the SDK takes a second."""
    return "asyncio"


@pytest.fixture(scope="module", params=["stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=ERAS)
def era(request: pytest.FixtureRequest) -> Revision:
    return request.param


@pytest.fixture(scope="module")
def journal(transport: str, web: HttpServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(web.source) if transport == "http" else tmp_path_factory.mktemp("journal") / "journal"


@pytest.fixture(scope="module")
def spec(transport: str, era: Revision, web: HttpServer, journal: Path) -> ServerSpec:
    if transport == "http":
        return replace(web, revision=era)
    return good("good", "--journal", str(journal), revision=era)


@pytest.fixture(scope="module")
async def one(spec: ServerSpec, anyio_backend: str) -> AsyncIterator[Connection]:
    connection = Connection(spec, means=means())
    yield connection
    await connection.aclose()


@pytest.mark.in_full(one_in=3)
async def test_tools_are_listed_and_called_and_results_come_as_they_are(one: Connection, era: Revision) -> None:
    greeting = await one.start()
    assert greeting.revision == ("2025-11-25" if era == "handshake" else era)
    assert (greeting.server["name"], greeting.instructions) == ("good", "be kind")
    names = [tool["name"] for tool in await one.tools()]
    assert {"echo", "pid"} <= set(names), "of both pages"
    reply = await one.call("echo", {"text": "grüße"})
    assert text_of(reply) == "grüße"
    typed = reply.typed()
    assert isinstance(typed, types.CallToolResult)
    assert not typed.is_error
    failed = (await one.call("fail")).typed()
    assert isinstance(failed, types.CallToolResult)
    assert failed.is_error, "an error of a tool is a result"
    odd = await one.call("odd")
    assert odd.result["structuredContent"] == {"number": "not a number"}, "nobody checks it on the way"


@pytest.mark.in_full(one_in=2)
async def test_a_result_of_thirty_megabytes_on_one_line_comes_whole_and_in_time(one: Connection) -> None:
    reply = await one.call("big", {"bytes": 30_000_000}, timeout=60)
    assert text_of(reply) == "x" * 30_000_000


async def test_an_error_of_the_protocol_has_its_code_and_data_whatever_its_words(one: Connection) -> None:
    with pytest.raises(UpstreamRefused) as caught:
        await one.call("refuse")
    # The same code and words with which the SDK tells of a connection that is closed.
    refusal = caught.value
    assert (refusal.code, refusal.reason, refusal.data) == (-32000, "Connection closed", {"extra": [1, 2]})
    assert text_of(await one.call("echo", {"text": "on"})) == "on"


async def test_progress_reaches_its_own_call_and_puts_its_deadline_off(one: Connection) -> None:
    heard: dict[str, list[str]] = {"a": [], "b": []}

    def hearing(name: str) -> Any:
        async def hear(params: dict[str, Any]) -> None:
            heard[name].append(params["message"])

        return hear

    await one.start()
    # Each takes longer than its deadline in all, and no step does.
    calls = [
        one.call("slow", {"steps": 12, "pause": 0.1, "text": name}, progress=hearing(name), timeout=0.8)
        for name in heard
    ]
    replies = await asyncio.gather(*calls)
    assert [text_of(reply) for reply in replies] == ["a", "b"]
    assert heard == {name: [f"step {step}" for step in range(1, 13)] for name in heard}


async def test_a_call_over_its_deadline_is_an_error_and_is_cancelled_at_the_server(
    one: Connection, journal: Path
) -> None:
    mark = f"deadline {uuid.uuid4()}"
    await one.start()
    with pytest.raises(UpstreamTimeout, match=r'did not answer "hang" within 0\.3 s'):
        await one.call("hang", {"text": mark}, timeout=0.3)
    await until(lambda: f"cancelled {mark}" in lines_of(journal))
    assert text_of(await one.call("echo", {"text": "on"})) == "on"


async def test_cancelling_the_task_that_waits_cancels_the_call_at_the_server(one: Connection, journal: Path) -> None:
    mark = f"task {uuid.uuid4()}"
    task = asyncio.create_task(one.call("hang", {"text": mark}))
    other = asyncio.create_task(one.call("slow", {"steps": 5, "text": "other"}))
    await until(lambda: f"begun {mark}" in lines_of(journal))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: f"cancelled {mark}" in lines_of(journal))
    assert text_of(await other) == "other", "nobody else is touched"


async def test_arguments_that_are_no_json_are_refused_before_anything_is_sent(one: Connection) -> None:
    bad_arguments: list[dict[str, Any]] = [{"x": object()}, {"x": math.nan}, {"x": "\ud83d"}, {"x": {1, 2}}]
    for arguments in bad_arguments:
        with pytest.raises(UsageError, match='the arguments of "echo" cannot be written as JSON'):
            await one.call("echo", arguments)
    assert text_of(await one.call("echo", {"text": "on"})) == "on"


async def test_any_request_and_notification_of_the_protocol_can_be_sent(one: Connection) -> None:
    await one.notify("notifications/roots/list_changed")  # dropped where nobody is there yet
    assert "tools" in (await one.request("tools/list", {"cursor": "second"})).result
    with pytest.raises(UpstreamRefused) as caught:
        await one.request("future/method", {"x": 1})
    assert caught.value.code == types.METHOD_NOT_FOUND
    await one.notify("notifications/roots/list_changed")


async def test_tools_are_listed_again_when_the_server_says_that_they_changed(spec: ServerSpec) -> None:
    told: list[str] = []

    async def notify(method: str, params: dict[str, Any]) -> None:
        told.append(method)

    async with Servers([spec], callbacks=Callbacks(notify=notify), means=means()) as servers:
        one = servers[spec.name]
        first = await one.tools()
        assert await one.tools() is first, "kept"
        new = f"new-{len(first)}"
        # Over HTTP the word about it comes on another stream than the answer, which may not be there yet.
        async with asyncio.timeout(100):
            while "notifications/tools/list_changed" not in told:
                await one.call("grow", {"name": new})
                await asyncio.sleep(0.05)
        await until(lambda: "notifications/tools/list_changed" in told)
        assert new in [tool["name"] for tool in await one.tools()]


async def test_a_server_may_ask_in_return_and_is_answered_by_whoever_called(
    transport: str, web: HttpServer, tmp_path: Path
) -> None:
    spec = replace(web, revision="handshake") if transport == "http" else good(revision="handshake")
    asked: list[tuple[str, str]] = []

    def asking(who: str) -> Any:
        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            asked.append((who, params["message"]))
            if params["message"] == "no":
                raise Declined(-1, "not now")
            return {"action": "accept", "content": {"who": who}}

        return ask

    async with Servers([spec], callbacks=Callbacks(ask=asking("all")), means=means()) as servers:
        one = servers[spec.name]
        first, second = await asyncio.gather(
            one.call("ask", {"text": "1"}, callbacks=Callbacks(ask=asking("one"))),
            one.call("ask", {"text": "2"}, callbacks=Callbacks(ask=asking("two"))),
        )
        # A server over stdio does not say for which of its calls it asks.
        own = transport == "http"
        assert sorted(asked) == ([("one", "1"), ("two", "2")] if own else [("all", "1"), ("all", "2")])
        assert ('"one"' in text_of(first), '"two"' in text_of(second)) == (own, own)
        refused = await one.call("ask", {"text": "no"})
        assert (text_of(refused), refused.result["isError"]) == ("-1 not now", True)


async def test_who_has_nobody_to_ask_says_so_to_the_server() -> None:
    async with Servers([good(revision="handshake")], means=means()) as servers:
        reply = await servers["good"].call("ask")
        assert text_of(reply).startswith(f"{types.METHOD_NOT_FOUND} ")


async def test_log_messages_go_to_the_call_that_they_were_sent_for(web: HttpServer, era: Revision) -> None:
    heard: dict[str, list[Any]] = {"one": [], "two": [], "all": []}

    def hearing(who: str) -> Callbacks:
        async def notify(method: str, params: dict[str, Any]) -> None:
            if method == "notifications/message":
                heard[who].append(params["data"])

        return Callbacks(notify=notify)

    meta = {"_meta": {types.LOG_LEVEL_META_KEY: "debug"}}  # in the newer era each request asks for its log
    async with Servers([replace(web, revision=era)], callbacks=hearing("all"), means=means()) as servers:
        one = servers["web"]
        await asyncio.gather(
            one.call("chatty", {"text": "1"}, callbacks=hearing("one"), more=meta),
            one.call("chatty", {"text": "2"}, callbacks=hearing("two"), more=meta),
            one.call("chatty", {"text": "3"}, more=meta),
        )
        await until(lambda: heard["all"] == ["3"])
        assert heard == {"one": ["1"], "two": ["2"], "all": ["3"]}


async def test_a_question_instead_of_a_result_is_handed_on_and_the_call_can_be_sent_again(
    transport: str, web: HttpServer
) -> None:
    spec = replace(web, revision="2026-07-28") if transport == "http" else good(revision="2026-07-28")
    can: dict[str, Any] = {"elicitation": {"form": {}}}
    who = means(identity=Identity("test", "1", can))
    async with Servers([spec], means=who) as servers:
        one = servers[spec.name]
        question = await one.call("input")
        assert isinstance(question.typed(), types.InputRequiredResult)
        assert question.result["inputRequests"]["name"]["params"]["message"] == "name?"
        answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        more = {"inputResponses": answers, "requestState": question.result["requestState"]}
        assert text_of(await one.call("input", more=more)) == "Ada state-1"


async def test_arguments_that_a_tool_wants_in_headers_are_there_also_where_its_tools_were_never_listed(
    web: HttpServer,
) -> None:
    async with Servers([replace(web, revision="2026-07-28")], means=means()) as servers:
        assert text_of(await servers["web"].call("headed", {"region": "eu-ost"})) == "eu-ost"
        assert text_of(await servers["web"].call("headed", {"region": "größer"})) == "=?base64?Z3LDtsOfZXI=?="


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
async def test_a_deadline_that_is_none_is_refused(seconds: float) -> None:
    connection = Connection(bad())
    with pytest.raises(UsageError, match="more than 0"):
        await connection.call("echo", timeout=seconds)
    assert connection.pid is None, "nothing was started for it"


async def test_headers_and_environment_reach_the_server_and_nothing_else_does(
    web: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_FOR_SERVERS", "hidden")
    monkeypatch.setenv("HOLDALL_MODEL_KEY", "secret")
    monkeypatch.setenv("HOLDALL_HOME", "postgresql://holdall:secret@db/holdall")
    monkeypatch.setenv("HOLDALL_STORE_DIR", "postgresql://holdall:secret@db/holdall")
    stdio = good(environment={"KEY": "value"}, cwd=str(tmp_path))
    http = replace(web, headers={"X-Key": "value"})
    async with Servers([stdio, http, replace(stdio, name="heir", inherits=True)], means=means()) as servers:
        assert text_of(await servers["web"].call("environment", {"name": "x-key"})) == "value"
        assert text_of(await servers["good"].call("environment", {"name": "KEY"})) == f"value|{tmp_path}"
        assert text_of(await servers["good"].call("environment", {"name": "NOT_FOR_SERVERS"})).startswith("|")
        assert text_of(await servers["heir"].call("environment", {"name": "NOT_FOR_SERVERS"})).startswith("hidden|")
        for name in ("HOLDALL_MODEL_KEY", "HOLDALL_HOME", "HOLDALL_STORE_DIR"):
            assert text_of(await servers["heir"].call("environment", {"name": name})).startswith("|")


async def test_a_server_is_started_once_by_its_first_use_and_kept(tmp_path: Path) -> None:
    one = Connection(StdioServer("good", sys.executable, (GOOD,)), means=means())
    assert (one.greeting, one.pid) == (None, None)
    try:
        pids = await asyncio.gather(*(pid_of(one) for _ in range(5)))
        assert set(pids) == {one.pid}
        assert lives(pids[0])
    finally:
        await one.aclose()
    assert not lives(pids[0])
    with pytest.raises(UsageError, match="was closed"):
        await one.call("echo")


async def test_with_auto_the_newer_era_is_preferred_and_the_older_one_found() -> None:
    async with Servers([good(), bad("-", revision="auto")], means=means()) as servers:
        assert (await servers["good"].start()).modern
        assert (await servers["bad"].start()).revision == "2025-06-18"


def test_only_a_server_behind_a_url_needs_the_package() -> None:
    script = (
        "import sys\nsys.modules['httpx2'] = None\n"
        "from holdall.mcp.client.connection import Connection\n"
        "from holdall.mcp.client.spec import HttpServer, StdioServer\n"
        "from holdall.values.errors import MissingExtra\n"
        "Connection(StdioServer('program', 'true'))\n"
        "try:\n    Connection(HttpServer('web', 'http://127.0.0.1:1/mcp'))\n"
        "except MissingExtra as problem:\n    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "talking to MCP servers over HTTP needs the package 'httpx2'. Install it with: pip install 'holdall[mcp]'\n"
    )
