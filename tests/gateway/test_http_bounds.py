"""What strangers and clients can take from a gateway over HTTP: connections, time, bytes, sessions."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import uvicorn
from inline_snapshot import snapshot
from uvicorn.server import ServerState

from holdall.bag import Holdall
from holdall.mcp.client.codec import values_in
from holdall.mcp.client.routes import weight
from holdall.mcp.client.spec import from_command
from holdall.mcp.gateway import http_app, relay
from holdall.mcp.gateway.client_side import Client, ClientRequest
from holdall.mcp.gateway.front import GatewayState
from holdall.mcp.gateway.http_app import BodyBounds, Denied, Exchange, Guard, HttpApp, address_of
from holdall.mcp.gateway.http_connection import Connection
from holdall.mcp.gateway.http_session import Stream, Waiting
from holdall.mcp.gateway.messages import Refusal, decode
from holdall.values.errors import UsageError
from tests.gateway.support import SOON, plain
from tests.gateway.test_http import ACCEPT, INITIALIZE
from tests.requirements import requirement
from tests.upstream.support import until

pytestmark = pytest.mark.anyio
ALICE, BOB = "token-of-alice-0123456789", "token-of-bob-0123456789"
HEAD = b"GET / HTTP/1.1\r\nhost: here\r\n"

# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────


class Small(Connection):
    most = 3
    head_seconds = 0.2


@asynccontextmanager
async def listening(app: Any, kind: type[Connection] = Small) -> AsyncGenerator[Callable[[], Any]]:
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", http=kind)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        opened.append(writer)
        return reader, writer

    try:
        async with asyncio.timeout(SOON):
            yield connect
    finally:
        server.close()
        for writer in opened:
            writer.close()


async def answered(scope: Any, receive: Any, send: Any) -> None:
    """At once, whatever is still to come of the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def until_cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, more: bytes) -> None:
    """While more and more is sent, which never comes to an end."""
    ended = asyncio.ensure_future(reader.read())
    while not ended.done():
        writer.write(more)
        await asyncio.wait((ended,), timeout=0.01)
    if ended.exception() is None:
        assert ended.result() == b""
    else:
        assert isinstance(ended.exception(), ConnectionError)


@requirement("gateway:http-bounds")
@pytest.mark.parametrize("sent", [b"", b"GET", HEAD, HEAD + b"x: 1\r\n"])
async def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(sent: bytes) -> None:
    async with listening(answered) as connect:
        reader, writer = await connect()
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


@requirement("gateway:http-bounds")
@pytest.mark.parametrize("more", [b"x: " + b"y" * 2**19, b"x: y\r\n" * 2**16])
async def test_a_head_of_any_size_is_not_taken(more: bytes) -> None:
    async with listening(answered) as connect:
        reader, writer = await connect()
        writer.write(HEAD + more)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")


@requirement("gateway:http-bounds")
async def test_bytes_that_trickle_in_do_not_make_the_time_longer() -> None:
    async with listening(answered) as connect:
        reader, writer = await connect()
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        writer.write(HEAD)  # the next one on the same connection
        await until_cut_off(reader, writer, b"x: y\r\n")


@requirement("gateway:http-bounds")
async def test_the_rest_of_a_body_that_was_answered_is_not_taken_for_ever() -> None:
    async with listening(answered) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.readuntil(b"ok")
        await until_cut_off(reader, writer, b"1\r\nx\r\n")


@requirement("gateway:http-bounds")
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_body_in_chunks_of_a_few_bytes_is_cut_off(at_once: bool) -> None:
    async def reads(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await answered(scope, receive, send)

    head = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
    async with listening(reads) as connect:
        reader, writer = await connect()
        writer.write(head + (b"1\r\n \r\n" * 600 if at_once else b""))
        with contextlib.suppress(ConnectionError):
            for _ in range(600 if not at_once else 0):
                writer.write(b"4\r\n    \r\n")
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.read() == b""
        reader, writer = await connect()  # those of any client are longer
        writer.write(head + (b"180\r\n" + b"{\r\n" * 128 + b"\r\n") * 2 + b"0\r\n\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")


@requirement("gateway:http-bounds")
async def test_a_request_that_is_worked_on_may_take_as_long_as_it_likes() -> None:
    go_on = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await go_on.wait()
        await answered(scope, receive, send)

    async with listening(slow) as connect:
        reader, writer = await connect()
        writer.write(HEAD + b"\r\n")
        silent, _ = await connect()
        assert (await silent.read()).startswith(b"HTTP/1.1 408 ")  # the time of a head has passed
        go_on.set()
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")


@requirement("gateway:http-bounds")
async def test_connections_have_a_number_and_the_one_idle_for_longest_makes_room() -> None:
    assert (Connection.most, Connection.head_seconds) == (512, 10.0)

    class Patient(Small):
        head_seconds = 60.0

    async with listening(answered, Patient) as connect:
        first, *_others = [await connect() for _ in range(4)]
        assert await first[0].read() == b""
        reader, writer = await connect()
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")


async def answered_at_length(scope: Any, receive: Any, send: Any) -> None:
    """With more than lies between a server and a client."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(50_000_000)})


class Watched(Small):
    """With a word when more waits to be read than is held."""

    head_seconds = 60.0
    full: asyncio.Queue[None]

    def pause_writing(self) -> None:
        super().pause_writing()
        self.full.put_nowait(None)


async def asks_and_never_reads(connect: Callable[[], Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await connect()
    writer.transport.pause_reading()
    writer.write(HEAD + b"\r\n")
    await Watched.full.get()
    return reader, writer


@requirement("gateway:http-bounds")
async def test_who_asks_and_never_reads_keeps_nobody_out() -> None:
    Watched.full = asyncio.Queue()
    async with listening(answered_at_length, Watched) as connect:
        for _ in range(3):
            await asks_and_never_reads(connect)
        reader, writer = await connect()
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"\n")).startswith(b"HTTP/1.1 200 ")


@requirement("gateway:http-bounds")
async def test_an_answer_that_nobody_reads_is_not_held_for_ever() -> None:
    assert Connection.unread_seconds == 60.0

    class Hasty(Watched):
        unread_seconds = 0.2
        lost: asyncio.Queue[None] = asyncio.Queue()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.lost.put_nowait(None)

    Watched.full = asyncio.Queue()
    async with listening(answered_at_length, Hasty) as connect:
        await asks_and_never_reads(connect)
        await Hasty.lost.get()


@requirement("gateway:http-bounds")
async def test_large_answers_that_nobody_reads_have_a_bound_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_app, "_MOST_OUTGOING", 100_000)
    large, reads = b'"' + b"x" * 80_000 + b'"', asyncio.Event()
    sent: list[int] = []

    async def slow(event: Any) -> None:
        """As the server's: each part waits until the one before has been read."""
        if event["type"] == "http.response.body" and len(sent) > 0:
            await reads.wait()
        sent.extend([len(event["body"])] if "body" in event else [])

    async def at_once(event: Any) -> None:
        assert event

    async with application(tmp_path) as (app, _):

        def exchange(who: str, send: Any) -> Exchange:
            one = Exchange(cast("Any", None), send)
            one.unread = partial(app._unread, who)  # pyright: ignore[reportPrivateUsage]
            return one

        first = asyncio.ensure_future(exchange("alice", slow).answer(200, large.decode()))
        await until(lambda: bool(sent))
        assert not first.done()
        with pytest.raises(Denied, match="more than 0 MiB of answers with this token are not read yet"):
            await exchange("alice", at_once).answer(200, large.decode())
        await exchange("alice", at_once).answer(200, "small")
        await exchange("bob", at_once).answer(200, large.decode())
        reads.set()
        await first
        await exchange("alice", at_once).answer(200, large.decode())


# ── Bodies and sessions ─────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def application(tmp_path: Path, **more: Any) -> AsyncGenerator[tuple[HttpApp, Callable[..., Any]]]:
    async with Holdall.open(home=str(tmp_path)) as bag:

        async def bag_of(_principal: str) -> Holdall:
            return bag

        guard = Guard({"alice": ALICE, "bob": BOB}, frozenset(("here",)), frozenset())
        app = HttpApp(GatewayState([from_command(plain())]), guard, bag_of, **more)
        transport = httpx2.ASGITransport(app=cast("Any", app))
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:

            async def ask(token: str, method: str = "POST", **given: Any) -> httpx2.Response:
                headers = {"authorization": f"Bearer {token}", **ACCEPT, **given.pop("headers", {})}
                async with asyncio.timeout(SOON):
                    return await client.request(method, "/mcp", headers=headers, **given)

            try:
                yield app, ask
            finally:
                await asyncio.gather(*(one.close() for one in app.sessions))


@requirement("gateway:http-bounds")
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_refused_with_the_setting(tmp_path: Path, chunked: bool) -> None:
    read = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield b" " * 1000

    async with application(tmp_path, bounds=BodyBounds(most=5000)) as (_, ask):
        headers = {"content-type": "application/json"}
        answer = await ask(ALICE, headers=headers, content=parts() if chunked else b" " * 5001)
        assert (answer.status_code, answer.json()) == snapshot(
            (413, {"error": "a message has at most 5,000 bytes; the setting http_max_body_bytes allows more"})
        )
    assert read < 20
    assert BodyBounds().most == 4 * 2**20


async def endless(app: HttpApp, begun: bytes = b"{") -> tuple[int, Any]:
    """The answer to a request of Alice's whose body never ends."""
    told: list[Any] = []

    async def receive() -> Any:
        if told:
            await asyncio.Event().wait()
        told.append("begun")
        return {"type": "http.request", "body": begun, "more_body": True}

    async def send(event: Any) -> None:
        told.append(event)

    raw = {"host": "here", "authorization": f"Bearer {ALICE}", "content-type": "application/json"}
    headers = [(name.encode(), value.encode()) for name, value in raw.items()]
    async with asyncio.timeout(SOON):
        await app({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    return told[-2]["status"], json.loads(told[-1]["body"])


@requirement("gateway:http-bounds")
async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with application(tmp_path, bounds=BodyBounds(seconds=0.05)) as (app, _):
        assert await endless(app) == (408, {"error": "the body took longer than 0.05 seconds"})


@requirement("gateway:http-bounds", "gateway:principal")
async def test_one_principal_cannot_take_the_connections_of_the_others(tmp_path: Path) -> None:
    async with application(tmp_path) as (app, ask):
        tasks = [asyncio.ensure_future(endless(app)) for _ in range(Connection.most)]
        refused, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert refused.pop().result() == snapshot(
            (429, {"error": "there are 224 requests with this token already; wait until one is answered"})
        )
        assert len(waiting) * 2 < Connection.most
        assert (await ask(BOB, json=INITIALIZE)).status_code == 200
        assert (await ask(ALICE, json=INITIALIZE)).status_code == 429
        for one in tasks:
            one.cancel()
        await asyncio.wait(tasks)
        assert (await ask(ALICE, json=INITIALIZE)).status_code == 200


@requirement("gateway:http-bounds", "gateway:principal")
async def test_bodies_that_do_not_come_to_their_end_have_a_bound_together(tmp_path: Path) -> None:
    async with application(tmp_path) as (app, ask):
        tasks = [asyncio.ensure_future(endless(app, b" " * 4 * 2**20)) for _ in range(17)]
        [refused], _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result() == (429, {"error": "more than 64 MiB of bodies with this token are on their way"})
        assert (await ask(BOB, json=INITIALIZE)).status_code == 200
        assert (await ask(ALICE, json=INITIALIZE)).status_code == 429
        for one in tasks:
            one.cancel()
        await asyncio.wait(tasks)
        assert (await ask(ALICE, json=INITIALIZE)).status_code == 200


@requirement("gateway:http-bounds", "gateway:principal")
async def test_a_principal_has_fifty_sessions_and_those_that_are_idle_end(tmp_path: Path) -> None:
    now = 0.0
    async with application(tmp_path, clock=lambda: now) as (app, ask):
        first = await ask(ALICE, json=INITIALIZE)
        for _ in range(49):
            assert (await ask(ALICE, json=INITIALIZE)).status_code == 200
        refused = await ask(ALICE, json=INITIALIZE)
        assert (refused.status_code, refused.json()) == snapshot(
            (429, {"error": "there are 50 sessions with this token already; end one with DELETE"})
        )
        assert (await ask(BOB, json=INITIALIZE)).status_code == 200
        now = 61.0  # the one that was idle for longest makes room
        assert (await ask(ALICE, json=INITIALIZE)).status_code == 200
        assert len(app.sessions) == 51
        gone = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert (await ask(ALICE, headers=gone, json={"jsonrpc": "2.0", "id": 2, "method": "ping"})).status_code == 404
        now = 3661.5
        await app.expire()
        assert len(app.sessions) == 0


@requirement("gateway:http-bounds")
async def test_a_body_of_very_many_values_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with application(tmp_path) as (_, ask):
        given = {"headers": {"content-type": "application/json"}}
        many = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + b"[]," * 300_000 + b"[]]}}"
        refused = await ask(ALICE, content=many, **given)
        assert (refused.status_code, refused.json()["error"]["message"]) == (
            400,
            "More than 250,000 values in one message",
        )
        text = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + b"[]," * 300_000 + b'"}}'
        assert "250,000" not in (await ask(ALICE, content=text, **given)).text


@requirement("gateway:http-bounds")
async def test_the_values_of_a_body_are_counted_where_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_app, "_VALUES_A_SECOND", 1.0)
    threads = list[int]()

    def counted(line: bytearray) -> int:
        threads.append(threading.get_ident())
        return values_in(line)

    monkeypatch.setattr(http_app, "values_in", counted)
    async with application(tmp_path) as (_, ask):
        members = b",".join(b'"k%d":1' % number for number in range(300_000))
        many = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{' + members + b"}}"
        for _ in range(2):  # what is not read does not take the time of the next
            refused = await ask(ALICE, content=many, headers={"content-type": "application/json"})
            assert refused.json()["error"]["message"] == "More than 250,000 values in one message"
    assert len(threads) == 2
    assert threading.get_ident() not in threads


@requirement("gateway:http-bounds")
def test_integers_of_many_digits_are_read_as_long_as_they_are_few() -> None:
    """To read and write them takes the square of their digits, in which nobody else is served."""

    def message(*integers: str) -> bytearray:
        return bytearray(b'{"a":[' + ",".join(integers).encode() + b"]}")

    long = "-" + "7" * 4200
    assert decode(message(*[long] * 20)) == {"a": [int(long)] * 20}
    assert decode(message(*[f'"{long}"'] * 900)) == {"a": [long] * 900}
    assert decode(message(*["7" * 99] * 2000)) == {"a": [int("7" * 99)] * 2000}
    for many in ([long] * 998, ["7" * 100] * 1001):
        with pytest.raises(Refusal, match=r"^Parse error: its long integers have more than 100,000 digits$"):
            decode(message(*many))


@requirement("gateway:http-bounds")
async def test_a_name_of_any_length_is_no_tools(tmp_path: Path) -> None:
    async with application(tmp_path) as (_, ask):
        session = {"mcp-session-id": (await ask(ALICE, json=INITIALIZE)).headers["mcp-session-id"]}
        for method, what in (("tools/call", "tool"), ("prompts/get", "prompt")):
            request = {"jsonrpc": "2.0", "id": 2, "method": method, "params": {"name": "x__" * 4000}}
            error = (await ask(ALICE, headers=session, json=request)).json()["error"]
            assert error == {"code": -32602, "message": f"Unknown {what}: {'x__' * 19}x_…"}


@requirement("gateway:http-bounds")
async def test_a_long_request_is_weighed_where_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed = list[tuple[bool, int]]()

    def watched(value: object, most: int) -> int:
        weighed.append((threading.current_thread() is threading.main_thread(), most))
        return weight(value, most)

    monkeypatch.setattr(relay, "weight", watched)
    async with application(tmp_path) as (_, ask):
        session = {"mcp-session-id": (await ask(ALICE, json=INITIALIZE)).headers["mcp-session-id"]}
        params = {"name": "echo", "arguments": {"numbers": [1] * 100_000}}
        request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        assert (await ask(ALICE, headers=session, json=request)).status_code == 200
    assert [one for one in weighed if one[1] != 2**20] == [(True, 64 * 1024), (False, relay.MAX_UNDER_WAY_BYTES)]


@requirement("gateway:http-bounds")
@pytest.mark.parametrize(
    "value", [b"[" + b"1," * 6_000 + b"1]", b'"' + b"x" * 400_000 + b'"', b"[" + b"[]," * 1_500 + b"1]"]
)
async def test_long_bodies_and_those_of_many_values_of_one_principal_go_on_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: bytes
) -> None:
    monkeypatch.setattr(http_app, "_VALUES_A_SECOND", 1.0)  # the turn of the first takes hours
    async with application(tmp_path) as (_, ask):
        given: dict[str, Any] = {"headers": {"content-type": "application/json"}}
        many = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + value + b"}}"
        few = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}'
        first = await ask(BOB, content=many, **given)
        second = asyncio.create_task(ask(BOB, content=many, **given))
        for token, content in ((ALICE, many), (ALICE, few), (BOB, few)):
            assert (await ask(token, content=content, **given)).status_code == first.status_code
        assert not second.done()
        second.cancel()


class Listed:
    """A front whose tools have this schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    async def input_schema(self, _name: str, _params: object) -> dict[str, Any]:
        return self.schema


@requirement("gateway:http-bounds")
async def test_a_schema_of_a_server_is_looked_through_where_it_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = {"method": "tools/call", "params": {"name": "t", "arguments": {"p0": "x"}}}
    marked = {f"p{n}": {"type": "string", "x-mcp-header": f"H{n}"} for n in range(101)}
    refused = await http_app.mismatch(cast("Any", Listed({"type": "object", "properties": marked})), call, {})
    assert refused is not None
    assert refused.message == "The tool wants more than 100 arguments as headers"
    threads = list[int]()

    def validate(*_: object) -> None:
        threads.append(threading.get_ident())

    monkeypatch.setattr("holdall.mcp.client.sdk.validate_mcp_param_headers", validate)
    for plain_ones in (10, 1000):
        properties = {"p0": marked["p0"]} | {f"q{n}": {"type": "string"} for n in range(plain_ones)}
        schema = {"type": "object", "properties": properties}
        assert await http_app.mismatch(cast("Any", Listed(schema)), call, {}) is None
    assert [one == threading.get_ident() for one in threads] == [True, False]


@requirement("gateway:http-bounds")
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"transfer-encoding": "chunked", "content-length": "10"}, 400), ({"x": "y" * 20_000}, 431)],
)
async def test_a_request_whose_end_or_head_others_may_see_elsewhere_is_refused_and_its_connection_closed(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with application(tmp_path) as (_, ask):
        refused = await ask(ALICE, content=b'{"a": "b"}', headers={"content-type": "application/json", **headers})
        assert (refused.status_code, refused.headers["connection"]) == (status, "close")


@requirement("gateway:http-bounds", "gateway:principal")
async def test_a_batch_has_a_bound(tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    older = {**INITIALIZE, "params": params}
    async with application(tmp_path) as (_, ask):
        session = {"mcp-session-id": (await ask(ALICE, json=older)).headers["mcp-session-id"]}
        pings = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(101)]
        refused = await ask(ALICE, headers=session, json=pings)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, "A batch has at most 100 messages")
        assert len((await ask(ALICE, headers=session, json=pings[:100])).json()) == 100
        reads = [{**one, "method": "resources/read", "params": {"uri": "holdall:x"}} for one in pings]
        refused = await ask(ALICE, headers=session, json=reads[:2])
        told = "A batch has at most one resources/read: send them one by one"  # all of it is held until it is sent
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, told)
        assert len((await ask(ALICE, headers=session, json=[*pings[:2], reads[2]])).json()) == 3


@requirement("gateway:http-bounds")
async def test_the_answers_to_a_batch_have_a_bound_together() -> None:
    """Whatever the method: all of them are held until the last is there, and written in the time of everybody."""

    class Large:
        async def request(self, asked: ClientRequest) -> dict[str, Any]:
            return {"text": "x" * asked.params["size"]}

        async def notified(self, method: str, params: dict[str, Any]) -> None: ...

    client = Client(lambda _message, _related: None, Large())

    async def sizes(*wanted: int) -> list[int | str]:
        asked = [{"jsonrpc": "2.0", "id": n, "method": "x", "params": {"size": size}} for n, size in enumerate(wanted)]
        answers = await client.answers(asked)
        assert [one["id"] for one in answers] == [*range(len(wanted))]
        return [len(one["result"]["text"]) if "result" in one else one["error"]["message"] for one in answers]

    refused = "The answers to this batch have more than 8 MiB: send its requests one by one"
    assert await sizes(3_000_000, 3_000_000, 3_000_000, 2_000_000, 50_000) == [
        3_000_000, 3_000_000, refused, 2_000_000, 50_000
    ]  # fmt: skip
    assert await sizes(10, 20_000_000, 10) == [10, 20_000_000, 10], "one may be as large as it likes"


@requirement("gateway:principal")
async def test_nobody_reads_or_ends_a_session_of_another_principal(tmp_path: Path) -> None:
    async with application(tmp_path) as (_, ask):
        session = {"mcp-session-id": (await ask(ALICE, json=INITIALIZE)).headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for method, given in (("DELETE", {}), ("GET", {}), ("POST", {"json": ping})):
            foreign = await ask(BOB, method, headers=session, **given)
            unknown = await ask(BOB, method, headers={"mcp-session-id": "0" * 32}, **given)
            assert foreign.status_code == 404
            assert foreign.content == unknown.content
        assert (await ask(ALICE, headers=session, json=ping)).json()["result"] == {}


async def test_a_reader_that_is_too_slow_loses_notifications_and_never_its_answer() -> None:
    stream = Stream("s1")
    text = "x" * 2**20
    for number in range(40):
        stream.put({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text, "n": number}})
    stream.put({"jsonrpc": "2.0", "id": 1, "result": {}})
    assert stream.size < 34 * 2**20
    assert stream.answered


async def test_a_reader_that_has_read_everything_loses_nothing_however_large_it_was() -> None:
    stream = Stream("s1")
    for number in range(40):
        stream.put({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 2**20, "n": number}})
        assert await stream.after(number, 1) is not None
    assert stream.size < 34 * 2**20


@requirement("gateway:bounded-questions")
@pytest.mark.parametrize("make", [Stream, Waiting], ids=["stream", "waiting"])
async def test_a_client_that_does_not_read_is_asked_no_more_and_told_no_more_than_it_can_hold(
    make: type[Stream] | type[Waiting],
) -> None:
    place = make()
    notification = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 2**20}}
    question = {"jsonrpc": "2.0", "id": "1", "method": "roots/list", "params": {"data": "x" * 2**20}}
    place.put(question)
    for _ in range(50):
        place.put(notification)
    place.put({**notification, "params": {"data": "x" * 40 * 2**20}})
    questions = 1
    with suppress(Refusal):
        while questions < 50:
            place.put(question)
            questions += 1
    assert questions < 50
    if isinstance(place, Waiting):
        held = place.taken()
        assert [one for one in held if "id" in one] == [question] * questions
        assert place.taken() == []
        assert sum(len(one["params"]["data"]) for one in held) < 4 * 2**20
    else:
        assert place.size < 33 * 2**20


# ── Addresses ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement("gateway:plain-http")
@pytest.mark.parametrize("address", ["0.0.0.0:8765", "[::]:8765", "192.0.2.1:80", "example.org:8765"])
async def test_plain_http_for_other_machines_needs_a_flag(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        address_of(address)
    assert str(refused.value).replace(address, "ADDRESS") == snapshot(
        "ADDRESS can be reached from other machines, and plain HTTP shows tokens and outputs to everybody on the way. Listen on 127.0.0.1, behind a proxy that speaks HTTPS (its name with --allow-host) or a tunnel (ssh -L); --allow-plain-http listens there all the same."
    )
    assert address_of(address, plain=True)[1] in (80, 8765)


async def test_an_address_of_this_machine_needs_none() -> None:
    assert [address_of(one)[0] for one in ("127.0.0.1:0", "localhost:1", "[::1]:2")] == [
        "127.0.0.1",
        "localhost",
        "::1",
    ]


@requirement("gateway:http-bounds")
@pytest.mark.parametrize("method", [5, None, "", [], {}])
async def test_a_request_that_names_no_method_is_answered_at_once_and_its_id_is_free(
    tmp_path: Path, method: object
) -> None:
    now = 0.0
    async with application(tmp_path, clock=lambda: now) as (app, ask):
        session = {"mcp-session-id": (await ask(ALICE, json=INITIALIZE)).headers["mcp-session-id"]}
        request = {"jsonrpc": "2.0", "id": 2, "method": method}
        refused = {
            "jsonrpc": "2.0", "id": 2, "error": {"code": -32600, "message": "Invalid request: it names no method"},
        }  # fmt: skip
        answer = await ask(ALICE, headers=session, json=request)
        assert (answer.status_code, answer.json()) == (200, refused)
        assert (await ask(ALICE, headers=session, json=[request])).json() == [refused]
        request["method"] = "ping"
        assert (await ask(ALICE, headers=session, json=request)).json() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        odd = (await ask(ALICE, headers=session, json={**request, "params": {"_meta": True}})).json()["error"]
        assert odd == {"code": -32602, "message": "Invalid params: _meta is not an object"}
        now = 5.0
        assert [one.idle_seconds for one in app.sessions] == [5.0]
        answer = await ask(ALICE, headers=session, json={"jsonrpc": "2.0", "id": "x", "method": None, "result": {}})
        assert answer.status_code == 202, "as some write a reply"
