"""Streamable HTTP towards clients, of both eras, as an ASGI application on one path: who may speak, one request and its
answer, and the server from its start to its end.
"""

import asyncio
import hmac
import importlib
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any, cast

from holdall.bag import Holdall
from holdall.mcp.client import protocol
from holdall.mcp.client.codec import MANY_VALUES, TOO_MANY, values_in
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.front import Front, GatewayState
from holdall.mcp.gateway.http_refusals import Refusals
from holdall.mcp.gateway.http_session import RETRY_MILLISECONDS, Event, HttpSession, Stream, event_id, place_of
from holdall.mcp.gateway.known import KnownServers
from holdall.mcp.gateway.messages import MODERN, Message, Refusal, is_id, is_request, table
from holdall.mcp.gateway.stdio_server import set_mmap_threshold, shut_down, shutdown_requested
from holdall.text.escape import one_line
from holdall.values.errors import MissingExtra, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# Who may speak to a gateway over HTTP: the exact host, no foreign origin, a token. Pure, except for the comparing.
#
# A page in a browser must not reach us by a name of its own that leads here, so the host is compared exactly. A session
# id says which session, never whose: that is for the token to say.


_LONGEST_HEAD = 16 * 1024
_ONCE = frozenset(
    ("host", "origin", "authorization", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name",
     "content-type", "last-event-id")
)  # fmt: skip
_PARAMS = "mcp-param-"
_SCHEME = "bearer "


class Denied(Exception):
    """`status` is HTTP's. `closes`: what else comes on this connection cannot be told apart."""

    def __init__(self, status: int, why: str, *, closes: bool = False) -> None:
        self.status = status
        self.closes = closes
        super().__init__(why)


@record
class Guard:
    """`tokens` are by principal; `hosts` and `origins` are written as a client sends them."""

    tokens: Mapping[str, str] = field(repr=False)
    hosts: frozenset[str]
    origins: frozenset[str]

    def checked(self, raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
        """The headers by their names in lower case, of a request that came by a name of ours. Raises Denied."""
        headers: dict[str, str] = {}
        for name, value in raw:
            key = name.decode("latin-1").lower()
            if key in headers and (key in _ONCE or key.startswith(_PARAMS)):
                raise Denied(400, f"the header {key} stands twice")
            headers[key] = value.decode("latin-1")
        if sum(len(name) + len(value) for name, value in raw) > _LONGEST_HEAD:
            raise Denied(431, f"the head of a request has at most {_LONGEST_HEAD // 1024} KiB", closes=True)
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy may believe the other one
            raise Denied(400, "a body has a length, or is chunked", closes=True)
        if headers.get("host", "").lower() not in self.hosts:
            raise Denied(421, "this host is not served here; allow it with --allow-host")
        if "origin" in headers and headers["origin"].lower() not in self.origins:
            raise Denied(403, "this origin is not allowed; allow it with --allow-origin")
        return headers

    def principal(self, headers: Mapping[str, str]) -> str:
        """Who asks. Raises Denied."""
        given = headers.get("authorization", "")
        if not given.lower().startswith(_SCHEME):
            raise Denied(401, "a token is needed: Authorization: Bearer TOKEN")
        token = given[len(_SCHEME) :].strip().encode("latin-1", "replace")
        # All are compared, so that the time it takes says nothing about which of them is nearly right.
        found = [who for who, known in self.tokens.items() if hmac.compare_digest(known.encode(), token)]
        if not found:
            raise Denied(401, "this token is not known")
        return found[0]


PREFLIGHT = [
    (b"access-control-allow-methods", b"POST, GET, DELETE"),
    (b"access-control-allow-headers", b"*, authorization"),
    (b"access-control-max-age", b"3600"),
]


def cors(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """What lets a page of this origin, which was checked, read the answer."""
    if (origin := headers.get("origin")) is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]


def hosts_of(host: str, port: int, allowed: Sequence[str]) -> frozenset[str]:
    """How clients write this address."""
    own = f"[{host}]" if ":" in host else host
    names = {own.lower()} | ({"localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else set[str]())
    found = {f"{name}:{port}" for name in names} | (names if port == 80 else set[str]())
    return frozenset(found | {one.lower() for one in allowed})


def origins_of(hosts: frozenset[str], allowed: Sequence[str]) -> frozenset[str]:
    return frozenset({f"http://{host}" for host in hosts} | {one.lower().rstrip("/") for one in allowed})


def is_loopback(host: str) -> bool:
    return host.lower() in ("localhost", "127.0.0.1", "::1")


# Arguments of a call that its HTTP headers repeat, as the newer era has it: both must say the same.
#
# A proxy may decide by such a header, so one that contradicts the arguments is refused. Where the tool is not known
# nothing is checked: its server will say so.


_PREFIX = "mcp-param-"
_MOST_MARKS, _FEW_TABLES = 100, 300


async def mismatch(front: Front, body: Message, headers: Mapping[str, str]) -> Refusal | None:
    """Why this call is refused; None if it is not."""
    params = table(body.get("params"))
    name, arguments = params.get("name"), params.get("arguments")
    if body.get("method") != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict | None):
        return None
    if not arguments and not any(key.startswith(_PREFIX) for key in headers):
        return None
    schema = await front.input_schema(name, params)
    given = cast("dict[str, Any]", arguments or {})

    def check() -> Refusal | None:
        marks = sum(1 for _ in islice((one for one in _tables(schema) if protocol.PARAM_MARK in one), _MOST_MARKS + 1))
        if not marks:
            return None
        if marks > _MOST_MARKS:
            return Refusal(messages.INVALID_PARAMS, f"The tool wants more than {_MOST_MARKS} arguments as headers")
        sdk = importlib.import_module("holdall.mcp.client.sdk")  # few tools ask for this, and it takes over a second
        found: Any = sdk.validate_mcp_param_headers(schema, given, headers)
        return Refusal(found.code, found.message, found.data) if found is not None else None

    is_long = next(islice(_tables(schema), _FEW_TABLES, None), None) is not None
    return await asyncio.to_thread(check) if is_long else check()  # others do not wait for a schema of a server


def _tables(schema: object) -> Iterator[dict[str, object]]:
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield cast("dict[str, object]", one)
            waiting.extend(cast("dict[str, object]", one).values())
        elif isinstance(one, list):
            waiting.extend(cast("list[object]", one))


def misfit(body: Message, headers: Mapping[str, str]) -> Refusal | None:
    """Why this request of the newer era is refused: it has to say who asks, and its headers have to say the same."""
    params = table(body.get("params"))
    meta = table(params.get("_meta"))
    if not meta.keys() >= {protocol.VERSION_KEY, protocol.CAPABILITIES_KEY}:
        wanted = f"{protocol.VERSION_KEY} and {protocol.CAPABILITIES_KEY}"
        return Refusal(messages.INVALID_PARAMS, f"params._meta must hold {wanted}")
    version = meta[protocol.VERSION_KEY]
    method = body.get("method")
    named = params.get(protocol.NAMED_BY.get(str(method), ""))
    for header, fits in {
        protocol.VERSION_HEADER: isinstance(version, str) and headers.get(protocol.VERSION_HEADER) == version,
        protocol.METHOD_HEADER: headers.get(protocol.METHOD_HEADER) == method,
        protocol.NAME_HEADER: named is None or protocol.says(headers.get(protocol.NAME_HEADER), named),
    }.items():
        if not fits:
            return Refusal(protocol.HEADER_MISMATCH, f"the header {header} does not say what the request says")
    if version not in protocol.MODERN:
        data = {"supported": list(protocol.MODERN), "requested": version}
        return Refusal(protocol.UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return None


# One request of HTTP and its answer: plain JSON where the answer comes first, else a stream of events.
#
# A client that leaves ends the task that answers it. Nothing here knows who asks, or for what.


_DEFER_SECONDS = 5.0  # an answer that takes longer begins as a stream, which can be kept alive
_PING_SECONDS = 15.0
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

_BUFFERED = 64 * 1024  # bytes that a connection takes before it waits for its client

Headers = list[tuple[bytes, bytes]]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@record
class BodyBounds:
    """Of the body of a request: how many bytes it may have, and how long it may take to come."""

    most: int = 4 * 1024 * 1024
    seconds: float = 60.0


class Exchange:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._begun = False
        self._watching: asyncio.Task[None] | None = None
        self.gone = False
        self.extra: Headers = []  # of whatever is answered
        self.unread: Callable[[int], AbstractContextManager[None]] = lambda _: (
            nullcontext()
        )  # an answer until it is read

    def watch(self) -> None:
        """From here on a client that leaves ends the task that answers it."""
        self._watching = asyncio.ensure_future(self._watch(asyncio.current_task()))

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, answering: "asyncio.Task[Any] | None") -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if answering is not None:
            answering.cancel()

    async def body(self, bounds: "BodyBounds", headers: Mapping[str, str], hold: Callable[[int], None]) -> bytearray:
        """`hold` is told how many bytes came, and may raise Denied."""
        length = headers.get("content-length", "")
        announced = int(length) if length.isascii() and length.isdigit() else 0
        try:
            async with asyncio.timeout(bounds.seconds):
                return await self._body(bounds.most, announced, hold)
        except TimeoutError:
            raise Denied(408, f"the body took longer than {bounds.seconds:g} seconds") from None

    async def _body(self, most: int, announced: int, hold: Callable[[int], None]) -> bytearray:
        found = bytearray()
        while True:
            if max(announced, len(found)) > most:
                raise Denied(413, f"a message has at most {most:,} bytes; the setting http_max_body_bytes allows more")
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise Denied(400, "the body is not complete")
            hold(len(event.get("body", b"")))
            found += event.get("body", b"")
            if not event.get("more_body") and len(found) <= most:
                return found

    async def answer(self, status: int, value: object) -> None:
        """Plain JSON; None for a body of nothing."""
        await self._write(status, b"" if value is None else messages.encode(value)[:-1])  # type: ignore[arg-type]

    async def carry(
        self,
        stream: Stream,
        *,
        streams: bool,
        modern: bool,
        lasting: bool = False,
        primed: bool = False,
    ) -> Event | None:
        """Everything up to the answer, which is given; None if the stream ended without one.

        It is a stream only if something has to be told before the answer, or the answer takes long; `lasting` and
        `primed` are for that stream. Where the client takes no streams it is none.
        """
        first: Event | None = None
        stream.readers += 1  # what belongs to no request may be told here, too
        try:
            first = await stream.after(0, _DEFER_SECONDS if streams else None)
            position = 1
            while not streams and first is not None and not first.answers:
                first = await stream.after(position, None)
                position += 1
        except TimeoutError:
            first = await stream.after(0, None) if stream.answered else None  # it may have come in the last moment
        finally:
            stream.readers -= 1
        if first is None and not streams:
            raise Denied(503, "the request was cancelled, or the gateway ends")
        if first is None or not first.answers:
            return await self.pump(stream, lasting=lasting, primed=primed)
        # In the older era HTTP says nothing about an error of the protocol: 404 would mean the session.
        status = protocol.HTTP_STATUS.get(first.code, 200) if modern and first.code is not None else 200
        await self._write(status, first.data)
        return first

    async def pump(
        self, stream: Stream, position: int = 0, *, lasting: bool = False, primed: bool = False, again: bool = False
    ) -> Event | None:
        """Messages as events until the answer, which is given, until the end of the stream, or until its next pause.

        `lasting`: events have ids, by which a client that lost them can ask for them. `primed`: it gets one at once.
        `again`: it comes back, from the pause that comes first, where one does.
        """
        self._begun = stream.begun = True
        first = f"id: {event_id(stream, position)}\r\nretry: {RETRY_MILLISECONDS}\r\ndata: \r\n\r\n" if primed else ""
        answer = stream.answer_at(position)
        if answer is not None:  # nothing comes before or behind it: HTTP has less to do where the length is known
            data = first.encode() + _event(stream, position + 1, answer, lasting=lasting)
            size = (b"content-length", str(len(data)).encode())
            with self.unread(len(data)):
                start = {"type": "http.response.start", "status": 200, "headers": [*_STREAM, size, *self.extra]}
                await self._send(start)
                await self._more(data, last=True)
            return answer
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *self.extra]})
        if primed:
            await self._more(first.encode())
        stream.readers += 1
        try:
            while True:
                try:
                    event = await stream.after(position, _PING_SECONDS)
                except TimeoutError:
                    await self._more(b": ping\r\n\r\n")
                    continue
                if event is None or not (event.data or again):
                    await self._more(b"", last=True)
                    return None
                position += 1
                if not event.data:
                    continue
                again = False
                with self.unread(len(event.data)):
                    await self._more(_event(stream, position, event, lasting=lasting), last=event.answers)
                if event.answers:
                    return event
        finally:
            stream.readers -= 1

    async def _more(self, data: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not last or len(data) > _BUFFERED})
        if last and len(data) > _BUFFERED:  # what comes next waits until the client has read that
            await self._more(b"", last=True)

    async def _write(self, status: int, data: bytes) -> None:
        if self._begun:
            return
        with self.unread(len(data)):
            self._begun = True
            await self._write_now(status, data)

    async def _write_now(self, status: int, data: bytes) -> None:
        kind = [(b"content-type", b"application/json")] if data else []
        kind += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        size = (b"content-length", str(len(data)).encode())
        headers = [*kind, size, *self.extra]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._more(data, last=True)


def _event(stream: Stream, position: int, event: Event, *, lasting: bool) -> bytes:
    number = f"id: {event_id(stream, position)}\r\n".encode() if lasting else b""
    return number + b"event: message\r\ndata: " + event.data + b"\r\n\r\n"


# An answer is plain JSON where nothing else has to be told before it, else a stream of events. Requests without a valid
# token or host learn nothing else.


PATH = "/mcp"
_IDLE_SECONDS = 3600.0
_EXPIRE_SECONDS = 60.0  # between two looks for sessions that are idle for so long
_AT_ONCE = frozenset(("initialize", "ping"))  # answered before a connection could break
_MAX_SESSIONS = 50  # of one principal
_MIN_REQUESTS = 32  # that each of many principals may have under way
_MAX_BATCH = 100
_MOST_INCOMING = 64 * 1024 * 1024  # bytes of one principal
_MOST_OUTGOING = 128 * 1024 * 1024
_LARGE, _LARGE_AT_ONCE = "resources/read", 4  # of one principal: it may be large, and is held until it is sent
_MANY_VALUES, _VALUES_A_SECOND = 2_000, 125_000  # of the bodies of one principal
_BYTES_A_VALUE = 160  # that take as long as one
_FREE_CONNECTIONS = 64  # for those who have not said yet who they are
_SPARE_SECONDS = 60.0  # a session that was idle for so long makes room for a new one where there are too many

OpenBag = Callable[[str], Awaitable[Holdall]]
"""The bag of a principal: opened once for each."""


class HttpApp:
    def __init__(
        self,
        gateway_state: GatewayState,
        guard: Guard,
        bag_of: OpenBag,
        *,
        bounds: BodyBounds | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gateway_state = gateway_state
        self._guard = guard
        self._bag_of = bag_of
        self._bounds = bounds or BodyBounds()
        self._clock = clock
        self._sessions: dict[tuple[str, str], HttpSession] = {}
        self._shared: dict[str, HttpSession] = {}
        self._servers: dict[str, KnownServers] = {}
        self._refusals = Refusals()
        self._requests = Counter[str]()  # under way, by principal
        self._incoming = Counter[str]()  # bytes of bodies that have not come to their end
        self._outgoing = Counter[str]()  # bytes of large answers that have not been read
        self._large: dict[str, asyncio.Semaphore] = {}  # the same
        self._turns: dict[str, asyncio.Lock] = {}  # for bodies that are long, or have many values

    @property
    def sessions(self) -> list[HttpSession]:
        return [*self._sessions.values(), *self._shared.values()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(receive, send)
        try:
            if scope["type"] != "http":
                return
            headers = self._guard.checked(scope["headers"])
            exchange.extra = cors(headers)
            if scope["method"] == "OPTIONS" and "origin" in headers:
                exchange.extra += [*PREFLIGHT, *self._refusals.headers(scope)]  # a browser asks this without the token
                await exchange.answer(204, None)
                return
            who = self._guard.principal(headers)
            self._refusals.forget(scope)
            if scope["path"] != PATH:
                raise Denied(404, f"there is nothing here; MCP is at {PATH}")
            exchange.unread = partial(self._unread, who)
            with self._counted(who):
                match scope["method"]:
                    case "POST":
                        await self._post(who, headers, exchange)
                    case "GET":
                        await self._get(who, headers, exchange)
                    case "DELETE":
                        await self._delete(who, headers, exchange)
                    case _:
                        raise Denied(405, "only POST, GET and DELETE are answered")
        except asyncio.CancelledError:
            if not exchange.gone:  # else it was the client that left, and nobody has to be told
                raise
        except Denied as denied:
            closing = [(b"connection", b"close")] if denied.closes else self._refusals.headers(scope)
            exchange.extra = [*exchange.extra, *closing]
            await exchange.answer(denied.status, {"error": str(denied)})
        except Refusal as refusal:
            status = protocol.HTTP_STATUS.get(refusal.code, 400)
            await exchange.answer(status, messages.error(None, refusal))
        finally:
            exchange.close()

    @contextmanager
    def _counted(self, who: str, number: int = 1) -> Generator[None]:
        """Requests of this principal. Each has a connection, which is not idle, so nobody else gets that one; or it is
        one of a batch, and work all the same.
        """
        share = max(_MIN_REQUESTS, (Connection.most - _FREE_CONNECTIONS) // len(self._guard.tokens))
        if self._requests[who] + number > share:
            raise Denied(429, f"there are {share} requests with this token already; wait until one is answered")
        self._requests[who] += number
        try:
            yield
        finally:
            self._requests[who] -= number

    @contextmanager
    def _holding(self, who: str) -> Generator[Callable[[int], None]]:
        """While a body comes; without a bound for all of a principal, slow ones would fill the memory."""
        held, most = 0, max(_MOST_INCOMING, self._bounds.most)

        def hold(more: int) -> None:
            nonlocal held
            if self._incoming[who] + more > most:
                raise Denied(429, f"more than {most // 1024**2} MiB of bodies with this token are on their way")
            held += more
            self._incoming[who] += more

        try:
            yield hold
        finally:
            self._incoming[who] -= held

    @contextmanager
    def _unread(self, who: str, size: int) -> Generator[None]:
        """A principal who asks for large answers and reads none gets no more of them."""
        if size > _BUFFERED and self._outgoing[who] and self._outgoing[who] + size > _MOST_OUTGOING:
            raise Denied(503, f"more than {_MOST_OUTGOING // 1024**2} MiB of answers with this token are not read yet")
        self._outgoing[who] += size
        try:
            yield
        finally:
            self._outgoing[who] -= size

    @asynccontextmanager
    async def _sent_one_by_one(self, who: str, large: bool) -> AsyncGenerator[None]:
        """Answers that may be large: a principal who does not read them keeps only its own others waiting."""
        if not large:
            yield
            return
        async with self._large.setdefault(who, asyncio.Semaphore(_LARGE_AT_ONCE)):
            yield

    async def _in_turn(self, who: str, line: bytearray) -> None:
        """Long bodies, and those of many values, go on one after the other: to read, weigh and pass them on is the time
        of everybody. Raises Refusal for those that are not read at all.
        """
        length = len(line) // _BYTES_A_VALUE
        if length + sum(map(line.count, (b",", b"[", b"{"))) <= _MANY_VALUES:
            return
        turn = self._turns.setdefault(who, asyncio.Lock())
        await turn.acquire()
        work = 0
        try:
            values = await asyncio.to_thread(values_in, line)
            if values > MANY_VALUES:
                raise Refusal(messages.INVALID_REQUEST, f"{TOO_MANY[0].upper()}{TOO_MANY[1:]} in one message")
            work = length + values
        finally:
            asyncio.get_running_loop().call_later(work / _VALUES_A_SECOND, turn.release)

    # The methods

    async def _post(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Denied(415, "the body of a message is application/json")
        with self._holding(who) as hold:
            line = await exchange.body(self._bounds, headers, hold)
            await self._in_turn(who, line)
        body = messages.decode(line)
        several: list[Any] = body if isinstance(body, list) else [body]
        if len(several) > _MAX_BATCH:
            raise Refusal(messages.INVALID_REQUEST, f"A batch has at most {_MAX_BATCH} messages")
        if headers.get("mcp-protocol-version", "") in MODERN or "_meta" in table(table(several[0]).get("params")):
            if isinstance(body, list):
                raise Refusal(messages.INVALID_REQUEST, "A body is one message")
            if await self._modern(who, headers, body, exchange):
                return
        session, new = await self._session(who, headers, several)
        if new:
            exchange.extra.append((b"mcp-session-id", new.encode()))
        requests = [one for one in map(table, several) if is_request(one)]
        large = [one for one in requests if one["method"] == _LARGE]
        if len(large) > 1:  # a batch is answered at once, and all of it would be held until then
            raise Refusal(messages.INVALID_REQUEST, f"A batch has at most one {_LARGE}: send them one by one")
        if isinstance(body, list) and requests:
            with self._counted(who, len(requests) - 1):
                async with self._sent_one_by_one(who, bool(large)):
                    await exchange.answer(200, await session.front.client.answers(body))
        elif requests:
            async with self._sent_one_by_one(who, bool(large)):
                answer = await self._exchange(session, requests[0], headers, exchange)
            if new and (answer is None or answer.code is not None):  # a greeting that failed leaves no session
                self._sessions.pop((who, new), None)
                await session.close()
        else:
            for one in several:
                session.hear(table(one))
            await exchange.answer(202, None)

    async def _modern(self, who: str, headers: Mapping[str, str], body: Message, exchange: Exchange) -> bool:
        """Whether it was a message of the newer era, and is answered."""
        named = headers.get("mcp-protocol-version", "")
        meta = table(table(body.get("params")).get("_meta"))
        if named not in MODERN and not any(key.endswith("/protocolVersion") for key in meta):
            return False
        if "id" not in body or "method" not in body:
            await exchange.answer(202, None)  # this era has no such message from clients; it does no harm
            return True
        if (refusal := misfit(body, headers)) is not None:
            await self._refused(body, refusal, exchange)
            return True
        if body["method"] == "initialize":  # there is no handshake here, and who is served already keeps its era
            await self._refused(body, Refusal(messages.METHOD_NOT_FOUND, "Method not found", "initialize"), exchange)
            return True
        if who not in self._shared:
            bag = await self._bag_of(who)
            self._shared.setdefault(who, HttpSession(self._gateway_state, bag, shared=True, known=self._known_by(who)))
        session = self._shared[who]
        if (refusal := await mismatch(session.front, body, headers)) is not None:
            await self._refused(body, refusal, exchange)
            return True
        async with self._sent_one_by_one(who, body["method"] == _LARGE):
            await self._exchange(session, body, headers, exchange)
        return True

    async def _refused(self, body: Message, refusal: Refusal, exchange: Exchange) -> None:
        number = body["id"] if is_id(body["id"]) else None
        await exchange.answer(protocol.HTTP_STATUS.get(refusal.code, 400), messages.error(number, refusal))

    async def _get(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        session = self._known(who, headers)
        last = headers.get("last-event-id")
        stream, position = (session.stand(), 0) if last is None else self._resumed(session, last)
        try:
            exchange.watch()
            await exchange.pump(stream, position, lasting=True, primed=session.primes, again=last is not None)
        finally:
            session.left(stream)

    def _resumed(self, session: HttpSession, last_event_id: str) -> tuple[Stream, int]:
        try:
            name, position = place_of(last_event_id)
        except ValueError:
            name, position = "", 0
        stream = session.resumed(name)
        if stream is None or not stream.reaches_back_to(position):
            raise Denied(400, "what came after this event is not kept any more")
        return stream, position

    async def _delete(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        session = self._known(who, headers)
        del self._sessions[who, headers["mcp-session-id"]]
        await exchange.answer(200, {})
        await session.close()

    # Inside

    async def _session(self, who: str, headers: Mapping[str, str], several: list[Any]) -> tuple[HttpSession, str]:
        """The session, and its name where it is new."""
        if "mcp-session-id" in headers or not any(table(one).get("method") == "initialize" for one in several):
            named = headers.get("mcp-protocol-version")
            if named is not None and named not in messages.HANDSHAKES:
                raise Denied(400, "this revision of MCP is not known here")
            return self._known(who, headers), ""
        bag = await self._bag_of(who)
        await self._make_room(who)
        name = secrets.token_hex(16)
        session = HttpSession(self._gateway_state, bag, known=self._known_by(who), clock=self._clock)
        self._sessions[who, name] = session
        return session, name

    def _known_by(self, who: str) -> KnownServers:
        return self._servers.setdefault(who, KnownServers())

    def _known(self, who: str, headers: Mapping[str, str]) -> HttpSession:
        if "mcp-session-id" not in headers:
            raise Denied(400, "the header Mcp-Session-Id is missing: begin with initialize")
        session = self._sessions.get((who, headers["mcp-session-id"]))
        if session is None:
            raise Denied(404, "there is no such session")
        return session

    async def expire(self) -> None:
        """Close the sessions that nobody has used for an hour."""
        await self._close([key for key, one in self._sessions.items() if one.idle_seconds > _IDLE_SECONDS])

    async def _make_room(self, who: str) -> None:
        """For one more session of this principal. Clients that are told that theirs is gone begin a new one."""
        await self.expire()
        own = {key: one.idle_seconds for key, one in self._sessions.items() if key[0] == who}
        if len(own) < _MAX_SESSIONS:
            return
        oldest = max(own, key=lambda key: own[key])
        if own[oldest] < _SPARE_SECONDS:
            raise Denied(429, f"there are {_MAX_SESSIONS} sessions with this token already; end one with DELETE")
        await self._close([oldest])

    async def _close(self, keys: list[tuple[str, str]]) -> None:
        # All are taken out before the first is waited for: others come by meanwhile.
        for session in [self._sessions.pop(key) for key in keys]:
            await session.close()

    async def _exchange(
        self, session: HttpSession, request: Message, headers: Mapping[str, str], exchange: Exchange
    ) -> Event | None:
        accepts = headers.get("accept", "")
        streams = "text/event-stream" in accepts or "*/*" in accepts
        own, stream = session.begin(request)
        answer: Event | None = None
        try:
            exchange.watch()
            if streams and not session.shared and str(request["method"]) not in _AT_ONCE:
                # An answer that takes long is a stream, to which a client that loses its connection can come back.
                # For one that comes first it has nothing to come back with; clients then use their connection again.
                more = {"lasting": True, "primed": session.primes}
                if "application/json" in accepts or "*/*" in accepts:
                    answer = await exchange.carry(stream, streams=True, modern=False, **more)
                else:
                    answer = await exchange.pump(stream, **more)
            else:
                answer = await exchange.carry(stream, streams=streams, modern=session.shared)
        finally:
            session.finish(own, cancel=session.shared and answer is None)
        return answer


# A gateway over HTTP from its start to its end: bound to one address, each principal with a session of its own.


try:
    import uvicorn

    from holdall.mcp.gateway.http_connection import LOOPBACK, Connection, listen
except ModuleNotFoundError as problem:
    raise MissingExtra("uvicorn", "mcp", "serving MCP over HTTP") from problem

_ADDRESS = lazy_pattern(r"(?:\[([0-9A-Fa-f:]+)\]|([^:\[\]]+)):([0-9]{1,5})")


@record
class Address:
    """Where to listen, and who may come. `tokens` are by principal."""

    host: str
    port: int
    tokens: Mapping[str, str] = field(repr=False)
    hosts: Sequence[str] = ()  # allowed beside the address itself
    origins: Sequence[str] = ()
    max_body_bytes: int = BodyBounds().most


def address_of(text: str, *, plain: bool = False) -> tuple[str, int]:
    """`HOST:PORT`; an IPv6 address is in brackets. Port 0 is any that is free. `plain`: also for other machines."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found[3]) > 65_535:
        raise UsageError("an address is HOST:PORT, as in 127.0.0.1:8765 or [::1]:8765.")
    host = found[1] or found[2]
    if not plain and not is_loopback(host):
        raise UsageError(
            f"{one_line(text.strip(), 60)} can be reached from other machines, and plain HTTP shows tokens and outputs "
            "to everybody on the way. Listen on 127.0.0.1, behind a proxy that speaks HTTPS (its name with "
            "--allow-host) or a tunnel (ssh -L); --allow-plain-http listens there all the same."
        )
    return host, int(found[3])


async def serve_http(
    gateway_state: GatewayState, address: Address, bag_of: Callable[[str], Holdall], ready: Callable[[str], None]
) -> None:
    """Until a signal. `ready` is told the URL once it is served."""
    set_mmap_threshold()
    host = address.host.lower()
    # Under `localhost` a client may look at either first, and who had our port there would get its token.
    held = [host, *(LOOPBACK if is_loopback(host) else ())]
    listening = listen([one for one in dict.fromkeys(held) if one != "localhost"], address.port)
    port: int = listening[0].getsockname()[1]
    bags = _Bags(bag_of)
    hosts = hosts_of(address.host, port, address.hosts)
    guard = Guard(address.tokens, hosts, origins_of(hosts, address.origins))
    app = HttpApp(gateway_state, guard, bags.of, bounds=BodyBounds(address.max_body_bytes))
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", ws="none", http=Connection, server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=1, timeout_keep_alive=65,
    )  # fmt: skip
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=listening))
    stop = asyncio.ensure_future(shutdown_requested().wait())
    expiring = asyncio.ensure_future(_expire(app))
    shown = f"[{address.host}]" if ":" in address.host else address.host
    ready(f"http://{shown}:{port}{PATH}")
    try:
        await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        expiring.cancel()
        await asyncio.gather(*(shut_down(one.front, one.bag) for one in app.sessions))
        server.should_exit = True
        await asyncio.gather(*(one.close() for one in app.sessions), bags.close())
        await asyncio.wait((serving,), timeout=2)


async def _expire(app: HttpApp) -> None:
    while True:
        await asyncio.sleep(_EXPIRE_SECONDS)
        await app.expire()


class _Bags:
    """One for each principal, opened when it first comes."""

    def __init__(self, open_one: Callable[[str], Holdall]) -> None:
        self._open = open_one
        self._bags: dict[str, asyncio.Task[Holdall]] = {}

    async def of(self, principal: str) -> Holdall:
        if principal not in self._bags:
            self._bags[principal] = asyncio.ensure_future(asyncio.to_thread(self._open, principal))
        task = self._bags[principal]
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._bags.pop(principal, None)  # the next one may have more luck
            raise

    async def close(self) -> None:
        opened: list[Awaitable[None]] = [
            task.result().close() for task in self._bags.values() if task.done() and not task.exception()
        ]
        await asyncio.gather(*opened)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are handled by the gateway: running calls end first."""
        yield
