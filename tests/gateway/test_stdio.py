"""The pipe to a client: what is too much is refused aloud, and a client that does not read costs no memory."""

import asyncio
import contextlib
import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, Settings, ToolPolicy
from holdall.mcp.client.connection import Connection
from holdall.mcp.client.routes import Declined
from holdall.mcp.client.spec import StdioServer
from holdall.mcp.gateway import relay, stdio_server
from holdall.mcp.gateway.client_side import Client, ClientRequest
from holdall.mcp.gateway.front import Front, GatewayState
from holdall.mcp.gateway.listeners import Listeners
from holdall.mcp.gateway.messages import Refusal
from holdall.mcp.gateway.relay import _with_few_questions  # pyright: ignore[reportPrivateUsage]
from holdall.mcp.gateway.stdio_server import StdioClient
from holdall.store.opening import open_store
from holdall.text.marks import Mark
from holdall.values.errors import UpstreamRefused
from holdall.values.outputs import Facts
from tests.gateway.support import PLAIN, Wire, gateway, plain, text_of, wire
from tests.requirements import requirement
from tests.upstream.support import lines_of, until

pytestmark = pytest.mark.anyio
SOON = 100.0


class Echo:
    async def request(self, asked: ClientRequest) -> dict[str, Any]:
        return {"method": asked.method}

    async def notified(self, method: str, params: dict[str, Any]) -> None:
        pass


@pytest.fixture
def ends() -> Iterator[tuple[int, int, int, int]]:
    """Where the gateway reads, where we write to it, where we read, where it writes."""
    source, to_it = os.pipe()
    from_it, target = os.pipe()
    found = (source, to_it, from_it, target)
    yield found
    for descriptor in found:
        with contextlib.suppress(OSError):  # closed by the test
            os.close(descriptor)


def served(source: int, target: int) -> tuple[StdioClient, Client]:
    pipes = StdioClient(source, target)
    client = Client(pipes.send, Echo())
    pipes.serve(client, lambda: "2025-11-25")
    return pipes, client


async def said(descriptor: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(SOON):
        data = await asyncio.to_thread(os.read, descriptor, 1_000_000)
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize(
    ("limit", "sent", "told"),
    [
        ("_LONGEST", b'{"a":"' + b"x" * 5000, "one message of more than 1,000 bytes"),
        ("_NOISIEST", b"noise\n" * 1000, "more than 1,000 bytes"),
    ],
)
async def test_what_is_too_much_is_refused_aloud_and_ends_the_client(
    ends: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch, limit: str, sent: bytes, told: str
) -> None:
    source, to_it, from_it, target = ends
    monkeypatch.setattr(stdio_server, limit, 1000)
    pipes, _ = served(source, target)
    os.write(to_it, sent)
    async with asyncio.timeout(SOON):
        await pipes.over.wait()
    assert told in (await said(from_it))[0]["error"]["message"]
    os.close(to_it)
    await pipes.flushed(SOON)


async def test_notifications_for_a_client_that_does_not_read_are_dropped_and_answers_are_not(
    ends: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, to_it, from_it, target = ends
    monkeypatch.setattr(stdio_server, "_MAX_HELD", 1_000_000)
    pipes, client = served(source, target)
    for _ in range(100):
        client.notify("notifications/message", {"data": "x" * 100_000})
    assert "dropped until it does" in caplog.text
    with pytest.raises(Refusal, match="not reading"):  # else a server could ask and withdraw for ever
        await asyncio.wait_for(client.ask("roots/list", {}), SOON)
    os.write(to_it, b'{"jsonrpc":"2.0","id":7,"method":"later"}\n')
    found = b""
    async with asyncio.timeout(SOON):
        while b'"id":7' not in found:
            found += await asyncio.to_thread(os.read, from_it, 1_000_000)
    assert found.count(b"notifications/message") < 20
    os.close(to_it)
    await pipes.flushed(SOON)


@requirement("gateway:bounded-questions")
async def test_a_result_that_asks_more_than_a_client_can_answer_is_refused() -> None:
    def asking(count: int, size: int) -> dict[str, Any]:
        question = {"method": "elicitation/create", "params": {"message": "x" * size}}
        return {"resultType": "input_required", "inputRequests": {str(n): question for n in range(count)}}

    output = {"content": [{"type": "text", "text": "x" * 9_000_000}]}
    for fine in (asking(32, 1000), asking(1, 8_000_000), output):
        assert _with_few_questions(fine) is fine
    for wrong in (asking(33, 1), asking(2, 5_000_000), asking(1, 9_000_000)):
        with pytest.raises(Refusal, match="more than 32 requests of a server at once, or 8 MiB of them"):
            _with_few_questions(wrong)


async def test_a_client_that_has_closed_its_side_is_over(ends: tuple[int, int, int, int]) -> None:
    source, to_it, _, target = ends
    pipes, _ = served(source, target)
    os.close(to_it)
    async with asyncio.timeout(SOON):
        await pipes.over.wait()
    await pipes.flushed(SOON)


async def test_between_pipes_no_package_of_mcp_is_imported(tmp_path: Path) -> None:
    """The SDK takes over a second; an import of any of these fails here."""
    absent = ("mcp", "mcp_types", "pydantic", "anyio", "httpx2", "starlette", "uvicorn", "jsonschema", "opentelemetry")
    script = f"import sys; sys.modules.update(dict.fromkeys({absent})); from holdall.__main__ import main; main()"
    words = [sys.executable, "-c", script, "gateway", "--home", str(tmp_path), "--", *plain()]
    async with wire(words) as one:
        await one.greet()
        assert (await one.result("tools/list"))["tools"][0]["name"] == "echo"
        assert "hello" in text_of(await one.call("echo", text="hello"))
        assert "context_read" in text_of(await one.call("big", lines=50_000))


@requirement("gateway:ids-exact")
async def test_a_request_whose_id_is_in_use_or_is_none_disturbs_no_other(client: Wire) -> None:
    """JSON-RPC: where the id of a request cannot be used, its error has none. Else it would answer the first one."""
    wanted = {"method": "elicitation/create", "params": {"message": "?"}}
    number, call = client.begin("tools/call", {"name": "ask", "arguments": wanted})
    asked = await client.asked.get()
    for again in (number, float(number), True, None, [number]):
        client.say({"id": again, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "again"}}})
    client.say({"id": str(number), "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "text"}}})
    async with asyncio.timeout(SOON):
        while len([one for one in client.heard if "method" not in one]) < 6:
            await asyncio.wait_for(client.ask("ping"), SOON)
    answers = {json.dumps(one.get("id")): one for one in client.heard if "method" not in one}
    assert set(answers) == {"null", json.dumps(str(number))}
    assert answers["null"]["error"]["code"] == -32600
    assert text_of(answers[json.dumps(str(number))]["result"]) == "text"
    assert not call.done()
    client.say({"id": asked["id"], "result": {"action": "accept"}})
    client.say({"id": asked["id"], "result": {"action": "decline"}})
    assert json.loads(text_of((await call)["result"])) == {"result": {"action": "accept"}}


def kept_in(home: Path) -> list[Facts]:
    store = open_store(str(home))
    return [facts for session in store.sessions() for facts in store.outputs(session)]


@requirement("gateway:left-behind", "async:grace-keeps-output")
async def test_a_call_whose_client_has_gone_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with wire(gateway(tmp_path / "home", server=plain("plain", str(journal)))) as one:
        await one.greet()
        one.begin("tools/call", {"name": "sleep", "arguments": {"seconds": 600, "name": "left"}})
        await until(lambda: "sleeps left" in lines_of(journal))
        assert one.process.stdin is not None
        one.process.stdin.close()
        assert await one.ended() == 0
    (left,) = kept_in(tmp_path / "home")
    assert (left.origin.tool, left.origin.arguments) == ("sleep", {"seconds": 600, "name": "left"})
    assert (left.state, left.error) == ("cancelled", "the client was gone before the call ended")


@requirement("gateway:left-behind")
async def test_a_call_that_its_client_cancels_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with wire(gateway(tmp_path / "home", server=plain("plain", str(journal)))) as one:
        await one.greet()
        number, _ = one.begin("tools/call", {"name": "sleep", "arguments": {"seconds": 600, "name": "left"}})
        await until(lambda: "sleeps left" in lines_of(journal))
        one.say({"method": "notifications/cancelled", "params": {"requestId": number}})
        await until(lambda: any("notifications/cancelled" in line for line in lines_of(journal)))
        assert one.process.stdin is not None
        one.process.stdin.close()
        assert await one.ended() == 0
    (left,) = kept_in(tmp_path / "home")
    assert (left.state, left.error) == ("cancelled", "its caller cancelled it")


@requirement("gateway:left-behind")
async def test_a_result_that_comes_when_its_client_has_gone_is_kept_however_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_server, "GRACE_SECONDS", SOON)
    gate, journal, sent = tmp_path / "gate", tmp_path / "journal", list[Any]()
    os.mkfifo(gate)
    spec = StdioServer("plain", sys.executable, (PLAIN, "plain", str(journal)))
    bag = Holdall.open(home=str(tmp_path / "home"))
    front = Front(GatewayState([spec]), bag, lambda message, _: sent.append(message))
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    result = {"content": [{"type": "text", "text": "small"}, picture]}
    arguments = {"gate": str(gate), "result": result}
    front.client.hear({"id": 1, "method": "tools/call", "params": {"name": "fifo", "arguments": arguments}})
    await until(lambda: "opens" in lines_of(journal))
    ending = asyncio.ensure_future(stdio_server.shut_down(front, bag, why=stdio_server.CLIENT_GONE))
    await asyncio.sleep(0)  # it has begun
    await asyncio.to_thread(gate.write_text, "go")
    await ending
    assert sent[-1]["result"] == result  # as ever, if anybody reads it
    await asyncio.gather(bag.close(), front.close())
    texts = [facts for facts in kept_in(tmp_path / "home") if facts.origin.tool == "fifo"]
    assert [(facts.state, facts.measure.kind) for facts in texts] == [("ready", "png"), ("ready", "text")]
    assert texts[-1].measure.bytes > len("small")


async def test_calls_in_the_background_hold_only_so_much_of_what_came_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer was given for each, so nothing else counts them."""
    monkeypatch.setattr(relay, "MAX_UNDER_WAY_BYTES", 100_000)
    gate, journal, sent = tmp_path / "gate", tmp_path / "journal", list[Any]()
    os.mkfifo(gate)
    spec = StdioServer("plain", sys.executable, (PLAIN, "plain", str(journal)))
    settings = Settings(slow_after_seconds=0.01, tools={"echo": ToolPolicy(never_async=True)})
    async with Holdall.open(home=str(tmp_path / "home"), settings=settings) as bag:
        front = Front(GatewayState([spec]), bag, lambda message, _: sent.append(message))
        slow: dict[str, Any] = {"name": "fifo", "arguments": {"gate": str(gate), "result": {}, "more": "x" * 60_000}}
        echo = {"name": "echo", "arguments": {"text": "y" * 60_000}}
        front.client.hear({"id": 1, "method": "tools/call", "params": slow})
        await until(lambda: any(one.get("id") == 1 for one in sent))
        # The notice may be given before the call was weighed, where the machine is busy.
        await until(lambda: front._relay is not None and front._relay.held_bytes > 0)  # pyright: ignore[reportPrivateUsage]
        front.client.hear({"id": 2, "method": "tools/call", "params": echo})
        await until(lambda: any(one.get("id") == 2 for one in sent))
        assert "The requests under way would hold more than 64 MiB: wait until calls have ended" in str(sent[-1])
        await asyncio.to_thread(gate.write_text, "go")
        await until(lambda: front._relay is not None and not front._relay.held_bytes)  # pyright: ignore[reportPrivateUsage]
        front.client.hear({"id": 3, "method": "tools/call", "params": echo})
        await until(lambda: any(one.get("id") == 3 for one in sent))
        assert sent[-1]["result"]["content"]
        await front.close()


async def test_what_a_client_waits_for_with_our_own_tools_is_weighed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MAX_UNDER_WAY_BYTES", 100_000)
    gate, sent = tmp_path / "gate", list[Any]()
    os.mkfifo(gate)
    spec = StdioServer("plain", sys.executable, (PLAIN, "plain", str(tmp_path / "journal")))
    async with Holdall.open(home=str(tmp_path / "home"), settings=Settings(slow_after_seconds=0.01)) as bag:
        front = Front(GatewayState([spec]), bag, lambda message, _: sent.append(message))
        slow: dict[str, Any] = {"name": "fifo", "arguments": {"gate": str(gate), "result": {}}}
        front.client.hear({"id": 1, "method": "tools/call", "params": slow})
        await until(lambda: any(one.get("id") == 1 for one in sent))
        waits = {"name": "wait_for_tool_output", "arguments": {"timeout": 60}, "_meta": {"x": "y" * 60_000}}
        front.client.hear({"id": 2, "method": "tools/call", "params": waits})
        await until(lambda: front._relay is not None and front._relay.held_bytes > 60_000)  # pyright: ignore[reportPrivateUsage]
        front.client.hear({"id": 3, "method": "tools/call", "params": waits})
        await until(lambda: any(one.get("id") == 3 for one in sent))
        assert "The requests under way would hold more than 64 MiB" in str(sent[-1])
        await asyncio.to_thread(gate.write_text, "go")
        await until(lambda: any(one.get("id") == 2 for one in sent))
        await front.close()


MANY: list[dict[str, Any]] = [{}] * 20_000


@pytest.mark.parametrize("said", [{"clientInfo": {"name": "x" * 70_000}}, {"capabilities": {"x": MANY}}])
async def test_what_a_client_says_of_itself_has_a_bound(tmp_path: Path, said: dict[str, Any]) -> None:
    """It is held for as long as the session lives."""
    sent: list[Any] = []
    async with Holdall.open(home=str(tmp_path / "home")) as bag:
        front = Front(GatewayState([]), bag, lambda message, _: sent.append(message))
        front.client.hear({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", **said}})
        await until(lambda: bool(sent))
        assert sent[0]["error"]["message"] == "A client may say 64 KiB of itself at most"
        await front.close()


GREETS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        mark = sys.argv[1]
        info = {"name": "s" + mark, "version": "1"}
        result = {"protocolVersion": "2025-06-18", "serverInfo": info, "capabilities": {"experimental": {mark: {}}},
                  "instructions": "Read " + mark, "_meta": {"a": mark}, "more": [mark]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_the_greeting_of_a_server_does_not_bear_the_mark(tmp_path: Path) -> None:
    """One that knew it from a session that goes on."""
    sent: list[Any] = []
    async with Holdall.open(home=str(tmp_path / "home")) as bag:
        mark = bag.core.mark_text
        assert mark in bag.instructions()
        spec = StdioServer("greets", sys.executable, ("-c", GREETS, mark))
        front = Front(GatewayState([spec]), bag, lambda message, _: sent.append(message))
        params: dict[str, Any] = {"protocolVersion": "2025-06-18", "clientInfo": {}, "capabilities": {}}
        front.client.hear({"id": 1, "method": "initialize", "params": params})
        await until(lambda: bool(sent))
        result = sent[0]["result"]
        assert result.pop("instructions").count(mark) == bag.instructions().count(mark)
        assert mark not in json.dumps(result)
        assert result["serverInfo"]["name"] == "s[the mark of real notices stood here]"
        await front.close()


async def test_a_message_beside_any_request_does_not_bear_the_mark() -> None:
    sent: list[Any] = []
    client = Client(lambda message, _: sent.append(message), Echo())

    async def heard(*_: Any) -> None:
        raise AssertionError("it is for the client")

    one = relay.Relay([], client, relay.Caller(), heard, marks=Mark("m4rk"))
    connection = Connection(StdioServer("a", "b"))
    beside = one._callbacks_of(connection, ClientRequest(1, "prompts/get", {}))  # pyright: ignore[reportPrivateUsage]
    assert beside.notify is not None
    await beside.notify("notifications/message", {"level": "info", "data": "x m4rk"})
    assert "the mark of real notices stood here" in str(sent)
    assert "m4rk" not in str(sent)


def test_the_resources_that_a_client_subscribes_to_have_a_number() -> None:
    listeners = Listeners(Client(lambda _message, _related: None, Echo()))

    def asking(uris: int) -> ClientRequest:
        wanted = {"resourceSubscriptions": [f"x://{number}" for number in range(uris)]}
        return ClientRequest(1, "subscriptions/listen", {"notifications": wanted})

    listeners.check(asking(1000))
    with pytest.raises(Refusal, match="More than 1,000 resources of subscriptions"):
        listeners.check(asking(1001))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {"uri": "holdall://nobody/zzzz"}),
        ("resources/read", {"uri": "nobody://knows"}),
        ("logging/setLevel", {"level": 7}),
        ("nobody/knows", {}),
        ("tools/call", {"name": "one__refuse", "arguments": {}}),
    ],
)
async def test_what_was_refused_is_not_held_until_the_collector_looks_for_it(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    specs = [StdioServer(name, sys.executable, (PLAIN, name, str(tmp_path / name))) for name in ("one", "two")]
    async with Holdall.open(home=str(tmp_path / "home")) as bag:
        front = Front(GatewayState(specs), bag, lambda _message, _related: None)
        asked = ClientRequest(1, method, params)
        with contextlib.suppress(Refusal):
            await front.request(asked)  # what is made at the first
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(Refusal):
                await front.request(asked)
            refusals = (Refusal, Declined, UpstreamRefused)  # tasks that have ended are let go
            await until(lambda: not any(isinstance(one, refusals) for one in gc.get_objects()))
        finally:
            gc.enable()
            await front.close()
