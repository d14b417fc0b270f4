"""The channel to a server behind a URL: streamable HTTP, one POST for each message, and what comes in its answer.

A failure is the error of the one request that met it; notifications are not waited for. There is no deadline: a request
may take as long as its caller allows. A message has a largest size, as on standard input and output, counted after it
was unpacked and while it comes. A stream that ends before its answer is asked for the rest where the server numbers its
events. A redirect is followed only to the same origin.
"""

import asyncio
import json
import math
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextvars import Context, copy_context
from types import TracebackType
from typing import Any, cast
from urllib.request import getproxies, proxy_bypass

import holdall
from holdall.mcp.client import codec
from holdall.mcp.client.codec import Kept, Message
from holdall.mcp.client.protocol import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN,
    VERSION_HEADER,
)
from holdall.mcp.client.routes import CURRENT, HttpFailure
from holdall.mcp.client.server_process import Bounds, LimitExceeded, too_large
from holdall.mcp.client.spec import HttpServer, without_secrets
from holdall.text.escape import foreign, one_line
from holdall.values.errors import MissingExtra
from holdall.values.patterns import lazy_pattern

try:
    import httpx2

    from holdall.mcp.client.plain_http import PlainHttp
except ModuleNotFoundError as problem:
    raise MissingExtra("httpx2", "mcp", "talking to MCP servers over HTTP") from problem

# Server-sent events: lines into events, and an event into its message.


_BODY, _STREAM = "application/json", "text/event-stream"


class Event:
    """`data` is None in one that only says where the stream is; `retry` is in milliseconds."""

    __slots__ = ("data", "id", "name", "retry")

    def __init__(self) -> None:
        self.data: bytearray | None = None
        self.id = ""
        self.name = b""
        self.retry: int | None = None

    @property
    def pause(self) -> float:
        """Seconds before the stream is asked for again: what the server says, but never at once, again and again."""
        return _RETRY_SECONDS if self.retry is None else max(_LEAST_PAUSE, self.retry / 1000)

    def take(self, line: bytearray) -> None:
        """One line of it, which is emptied or kept: it may be large."""
        if line.startswith(b"data:"):
            del line[: 6 if line.startswith(b" ", 5) else 5]
            if self.data is None:
                self.data = line
            else:
                self.data += b"\n" + line
            return
        name, _, value = bytes(line).partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and b"\0" not in value:
            self.id = value.decode("utf-8", "replace")
        elif name == b"event":
            self.name = value
        elif name == b"retry" and value.isdigit():
            self.retry = int(value[:9])


_EMPTY_LINES = lazy_pattern(rb"(\r\n|\n)(?:\r\n|\n){2,}")


class EventReader:
    """The events of a stream, however it is cut. One whose end does not come is none.

    Raises LimitExceeded for one of more than `longest` bytes.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._line = bytearray()
        self._event = Event()
        self._after_return = False

    def feed(self, part: bytes) -> Iterator[Event]:
        given = part[1:] if self._after_return and part.startswith(b"\n") else part
        self._after_return = part.endswith(b"\r")
        given = _EMPTY_LINES.sub(rb"\1\1", given)  # the second of them ends an event, and the others end none
        for piece in given.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            self._line += text
            if len(self._line) + len(self._event.data or b"") > self._longest:
                raise LimitExceeded(too_large(self._longest))
            if len(text) == len(piece):
                continue  # the rest of this line is still to come
            line, self._line = self._line, bytearray()
            if line:
                self._event.take(line)
            else:
                event, self._event = self._event, Event()
                if event.data is not None or event.id or event.name or event.retry is not None:
                    yield event


class Answer:
    """The messages in the answer to one request. A reply with another id than the very one of that is left out."""

    def __init__(self, number: int, kept: Kept) -> None:
        self.number = number
        self.done = False  # whether there was a reply
        self._kept = kept

    async def messages(self, body: bytearray) -> list[Message]:
        """In a body, or in an event of a stream. A reply that cannot be read is an error."""
        found: list[Message] = []
        for one in await codec.decode_aside(body, self._kept):
            if "method" in one or self._is_reply(one):
                found.append(one)
            else:
                self._kept.large.discard(str(one["id"]))
        return found

    def error(self, code: int, words: str, data: object = None) -> Message:
        self.done = True
        return {"id": self.number, "error": {"code": code, "message": words, "data": data}}

    def garbled(self, what: str) -> Message:
        return self.error(INTERNAL_ERROR, what, codec.GARBLED)

    def _is_reply(self, message: Message) -> bool:
        number = message["id"]
        if self.done or type(number) is not int or number != self.number:
            return False
        self.done = True
        return True


def _with_id(body: bytearray, number: int) -> bytearray:
    """The same error as an answer to this request, where it has no id: it was refused before that was read. Such a one
    is short, and what is long is not read here, where everybody waits.
    """
    if len(body) > _LONGEST_NAMELESS:
        return body
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    is_nameless = isinstance(value, dict) and "error" in value and cast("dict[str, Any]", value).get("id") is None
    return bytearray(json.dumps({**cast("dict[str, Any]", value), "id": number}).encode()) if is_nameless else body


# The channel.


_CONNECT_SECONDS = 30.0
_KEEP_SECONDS = 4.0  # below the 5 seconds after which common servers close: else one is closed as it is used
_TELL_SECONDS = 5.0  # a notification, or an answer of ours to the server
_MOST_TOLD = 16  # answers and notifications on their way at once
_LAST_SECONDS = 0.5  # for those of them that are on their way at the end
_GOODBYE_SECONDS = 2.0
_UNREAD = 64 * 1024  # bytes of an answer in which nothing is for us
_LONGEST_NAMELESS = 1 << 20  # bytes of an error without an id
_BREATH = 1 << 20
_PACKED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PIECE = 64 * 1024  # bytes of a stream
_REST_SECONDS = 1.0  # for the end of a stream behind its answer: then its connection can be used again
_LEAST_PAUSE = 0.1
_RETRY_SECONDS = 1.0  # before the rest of a stream is asked for, where the server does not say
_MOST_RETRIES = 2
_MOST_REDIRECTS = 20
_SESSION, _LAST_EVENT = "mcp-session-id", "last-event-id"
_CANCELLED, _INITIALIZE, _INITIALIZED = "notifications/cancelled", "initialize", "notifications/initialized"
_SENT = {"accept": f"{_BODY}, {_STREAM}", "content-type": _BODY}
_ASKED = {"accept": _STREAM, "cache-control": "no-store"}


class HttpChannel:
    """`async with HttpChannel(spec) as channel`: usable inside the block."""

    def __init__(self, spec: HttpServer, *, bounds: Bounds | None = None) -> None:
        self.heard = 0
        bounds = bounds or Bounds()
        self._longest, self._noise = bounds.message_bytes, bounds.noise_bytes
        self.kept = Kept()
        self._spec = spec
        self._url = httpx2.URL(spec.url)
        self._plain = _plain(self._url, spec.headers)
        self._client: httpx2.AsyncClient | None = None
        self._session = ""
        self._version = ""
        self._trouble: HttpFailure | None = None  # the last one
        self._came: asyncio.Queue[tuple[Message, Context | None]] = asyncio.Queue()
        self._posts: dict[int, asyncio.Task[None]] = {}  # of requests, by their numbers
        self._told: set[asyncio.Task[None]] = set()
        self._connections = asyncio.Semaphore(_MOST_TOLD)
        self._standing: asyncio.Task[None] | None = None

    @property
    def pid(self) -> None:
        return None

    async def __aenter__(self) -> "HttpChannel":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._told:  # what is on its way to the server has a moment to arrive
                await asyncio.wait(self._told, timeout=_LAST_SECONDS)
            if self._session:
                await self._exchange("DELETE", b"", self._headers({}), _GOODBYE_SECONDS)
        finally:
            tasks = [*self._told, *self._posts.values(), *([self._standing] if self._standing else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            if self._plain is not None:
                self._plain.close()
            if self._client is not None:
                await self._client.aclose()

    async def receive(self) -> tuple[Message, Context | None]:
        return await self._came.get()

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        method, number = message.get("method"), message.get("id")
        if method == _INITIALIZE:
            self._version = ""  # it is what is agreed on now
        self._version = headers.get(VERSION_HEADER, self._version)
        sent = self._headers(headers)
        body = codec.encode(message)[:-1]
        if method is not None and number is not None:
            self._begin(number, body, sent, is_greeting=method == _INITIALIZE)
        elif method == _INITIALIZED:
            await self._exchange("POST", body, sent, _TELL_SECONDS)  # what follows has to come after it
            if self._session:
                self._standing = asyncio.get_running_loop().create_task(self._stand(), context=Context())
        elif method == _CANCELLED:
            post = self._posts.get(message["params"].get("requestId"))
            if self._version not in MODERN:
                self._tell(body, sent, post)
            elif post is not None:  # there the end of the connection says it
                post.cancel()
        else:
            # Each takes a connection. Answers wait, so that those who answer are counted; what nobody takes is dropped.
            if method is not None and self._connections.locked():
                return
            await self._connections.acquire()
            self._tell(body, sent).add_done_callback(lambda _: self._connections.release())

    async def why(self) -> tuple[str, str]:
        return (self._trouble.what if self._trouble is not None else "broke off the connection"), ""

    def said(self) -> str:
        return ""

    # Requests

    def _begin(self, number: int, body: bytes, headers: dict[str, str], *, is_greeting: bool) -> None:
        context = copy_context()  # what comes in the answer belongs to the call that this is sent for
        work = self._post(Answer(number, self.kept), body, headers, context, is_greeting=is_greeting)
        task = self._posts[number] = asyncio.get_running_loop().create_task(work, context=context)

        def forget(_: object) -> None:
            if self._posts.get(number) is task:
                del self._posts[number]

        task.add_done_callback(forget)

    async def _post(
        self, answer: Answer, body: bytes, headers: dict[str, str], context: Context, *, is_greeting: bool
    ) -> None:
        response = await self._exchange("POST", body, headers, math.inf)
        if response is None:
            self._put(answer.error(INTERNAL_ERROR, "Server returned an error response"), context)
            return
        try:
            if response.status_code >= 300 or response.status_code == 202:
                self._put(await self._refusal(answer, response), context)
                return
            if is_greeting:
                self._session = response.headers.get(_SESSION, self._session)
            kind = _kind(response)
            if kind == _BODY:
                await self._read_body(answer, response, context)
            elif kind == _STREAM:
                await self._read_stream(answer, response, context)
            else:
                self._put(answer.error(INVALID_REQUEST, f"Unexpected content type: {one_line(kind, 60)}"), context)
        except LimitExceeded as problem:
            self._note(HttpFailure(str(problem), sent=True))
            self._put(answer.error(INTERNAL_ERROR, "Server returned an error response"), context)
        finally:
            await response.aclose()

    async def _refusal(self, answer: Answer, response: httpx2.Response) -> Message:
        """A server may say in the body what the status only hints at."""
        if response.status_code == 202:
            return answer.error(INVALID_REQUEST, "server answered a request with 202 Accepted")
        if response.next_request is not None:
            return answer.error(INVALID_REQUEST, _not_followed(response.next_request.url))
        if _kind(response) == _BODY:
            try:
                whole = await self._whole(response)
                size = len(whole)
                found = await answer.messages(_with_id(whole, answer.number))
            except (httpx2.TransportError, httpx2.DecodingError):
                found, size = [], 0
            if found and "error" in found[0] and found[0]["error"]["data"] is not codec.GARBLED:
                return found[0]
            if size > _LONGEST_NAMELESS:
                return answer.error(INTERNAL_ERROR, f"Server returned an error of {size:,} bytes, which is not kept")
        if response.status_code != 404:
            return answer.error(INTERNAL_ERROR, "Server returned an error response")
        if not self._session:
            return answer.error(METHOD_NOT_FOUND, "Not Found")
        return answer.error(INVALID_REQUEST, "Session terminated")

    async def _read_body(self, answer: Answer, response: httpx2.Response, context: Context) -> None:
        try:
            whole = await self._whole(response)
        except (httpx2.TransportError, httpx2.DecodingError) as fault:
            self._note(HttpFailure(f"broke off the connection ({self._words(fault)})", sent=True))
            self._put(answer.error(INTERNAL_ERROR, "Server returned an error response"), context)
            return
        for message in await answer.messages(whole):
            self._put(message, context)
        if not answer.done:
            self._put(answer.garbled("a reply that is not valid JSON, or not to this request"), context)

    async def _whole(self, response: httpx2.Response) -> bytearray:
        """Its body. Raises LimitExceeded before more of it is held than a message may have."""
        whole = bytearray()
        async for part in _parts(response):
            if len(whole) + len(part) > self._longest:
                raise LimitExceeded(too_large(self._longest))
            whole += part
        return whole

    async def _read_stream(self, answer: Answer, response: httpx2.Response, context: Context) -> None:
        """Until there is an answer. Where the stream ends before, the rest is asked for, as long as the server gives
        streams.
        """
        place = await self._events(answer, response, context)
        failed = 0
        while not answer.done:
            if not place.id:
                self._put(answer.error(CONNECTION_CLOSED, "SSE stream ended without a response"), context)
            elif failed >= _MOST_RETRIES:
                words = "SSE stream ended and reconnection attempts were exhausted"
                self._put(answer.error(CONNECTION_CLOSED, words), context)
            else:
                await asyncio.sleep(place.pause)
                failed = 0 if await self._resume(answer, place, context) else failed + 1

    async def _resume(self, answer: Answer, place: Event, context: Context) -> bool:
        """Whether the server gave a stream. `place` is where it was left, and then where that is left."""
        response = await self._exchange("GET", b"", {**self._headers({}), **_ASKED, _LAST_EVENT: place.id}, math.inf)
        if response is None:
            return False
        try:
            if response.status_code != 200 or _kind(response) != _STREAM:
                return False
            new = await self._events(answer, response, context)
        finally:
            await response.aclose()
        place.id = new.id or place.id
        place.retry = place.retry if new.retry is None else new.retry
        return True

    async def _events(self, answer: Answer | None, response: httpx2.Response, context: Context | None) -> Event:
        """Messages up to the answer, and where the stream was left. Without a request there is no answer."""
        place, reader, parts = Event(), EventReader(self._longest), _in_pieces(_parts(response))
        since = 0  # the last message
        try:
            async for part in parts:
                since += len(part)
                for event in reader.feed(part):
                    since = 0 if event.data else since
                    await self._take(event, place, answer, context)
                if answer is not None and answer.done:
                    break
                if since > self._longest + self._noise:
                    raise LimitExceeded(f"sent more than {self._noise:,} bytes of a stream that are no message")
            else:
                self._pause(place, answer)
                return place
            async with asyncio.timeout(_REST_SECONDS):
                async for _ in parts:
                    pass
        except (httpx2.TransportError, httpx2.DecodingError, TimeoutError):
            self._pause(place, answer)
        return place

    async def _take(self, event: Event, place: Event, answer: Answer | None, context: Context | None) -> None:
        place.id = event.id or place.id
        place.retry = place.retry if event.retry is None else event.retry
        if event.data and event.name in (b"", b"message"):
            reading = codec.decode_aside(event.data) if answer is None else answer.messages(event.data)
            for message in await reading:
                self._put(message, context)

    def _pause(self, place: Event, answer: Answer | None) -> None:
        """A stream was left before its answer."""
        call = CURRENT.get() if answer is not None and not answer.done and place.id else None
        if call is not None and call.callbacks is not None and call.callbacks.paused is not None:
            call.callbacks.paused()

    # What belongs to no request

    async def _stand(self) -> None:
        """The stream for what the server says of its own accord, where it has one."""
        place, failed = Event(), 0
        while failed < _MOST_RETRIES:
            last = {_LAST_EVENT: place.id} if place.id else {}
            response = await self._exchange("GET", b"", {**self._headers({}), **_ASKED, **last}, math.inf)
            failed += 1
            if response is not None:
                try:
                    if response.next_request is not None or response.status_code == 405:
                        return
                    if response.status_code == 200 and _kind(response) == _STREAM:
                        new = await self._events(None, response, None)
                        place.id = new.id or place.id
                        place.retry = place.retry if new.retry is None else new.retry
                        failed = 0
                except LimitExceeded as problem:  # of what nobody asked for nothing more is wanted
                    self._note(HttpFailure(str(problem), sent=True))
                    return
                finally:
                    await response.aclose()
            await asyncio.sleep(place.pause)

    def _tell(
        self, body: bytes, headers: dict[str, str], post: "asyncio.Task[None] | None" = None
    ) -> asyncio.Task[None]:
        """`post` is what it ends."""

        async def tell() -> None:
            await self._exchange("POST", body, headers, _TELL_SECONDS)
            if post is not None:
                post.cancel()

        task = asyncio.get_running_loop().create_task(tell())
        self._told.add(task)
        task.add_done_callback(self._told.discard)
        return task

    # HTTP

    def _put(self, message: Message, context: Context | None) -> None:
        self._came.put_nowait((message, context))

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        session = {_SESSION: self._session} if self._session else {}
        version = {VERSION_HEADER: self._version} if self._version else {}
        return {**_SENT, **session, **version, **more}

    async def _exchange(
        self, method: str, body: bytes, headers: dict[str, str], seconds: float
    ) -> httpx2.Response | None:
        """The response, still to be read and closed where there is no deadline; None where none came.

        A failure is noted for the call that is under way.
        """
        try:
            if math.isinf(seconds):
                response = await self._sent(method, body, headers)
            else:
                async with asyncio.timeout(seconds):
                    response = await self._sent(method, body, headers)
                    try:
                        left = _UNREAD
                        async for part in _parts(response):  # nothing in it is for us
                            if (left := left - len(part)) < 0:
                                break  # else, read to its end, the connection can be used again
                    finally:
                        await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as fault:
            failure = HttpFailure(f"cannot be reached at {self._spec.shown} ({self._words(fault)})")
        except (httpx2.TransportError, httpx2.DecodingError, TimeoutError, LimitExceeded) as fault:
            failure = HttpFailure(f"broke off the connection ({self._words(fault)})", sent=True)
        else:
            self.heard += 1
            if response.status_code >= 400 and method == "POST":  # a server need not offer the other methods
                gone = response.status_code == 404 and _SESSION in headers
                what = f"answered with HTTP {response.status_code} ({foreign(response.reason_phrase)})"
                self._note(HttpFailure(what, response.status_code, gone))
            return response
        if method == "POST":
            self._note(failure)
        return None

    async def _sent(self, method: str, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        if self._plain is not None:
            response = await self._plain.send(method, headers, body)
            if not response.has_redirect_location and "set-cookie" not in response.headers:
                return response
            self._plain.close()
            self._plain = None  # from here on it takes more
            if not response.has_redirect_location:
                response.request = httpx2.Request(method, self._url)
                self._http().cookies.extract_cookies(response)
                return response
            await response.aclose()
        client = self._http()
        # As bytes: the id of an event, which a server chose, may be more than the ASCII that httpx2 takes.
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        request = client.build_request(method, self._url, content=body or None, headers=given)
        for _ in range(_MOST_REDIRECTS):
            response = await client.send(request, stream=True, follow_redirects=False)
            if (following := response.next_request) is None or not _same_origin(request, following):
                return response
            await response.aclose()
            request = following
        return await client.send(request, stream=True, follow_redirects=False)

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers=dict(self._spec.headers),
                timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_CONNECT_SECONDS),
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_SECONDS
                ),
            )
        return self._client

    def _note(self, trouble: HttpFailure) -> None:
        self._trouble = trouble
        if (call := CURRENT.get()) is not None:
            call.trouble = trouble

    def _words(self, fault: Exception) -> str:
        return foreign(without_secrets(str(fault), self._spec)).rstrip(".") or type(fault).__name__


def _plain(url: httpx2.URL, headers: Mapping[str, str]) -> PlainHttp | None:
    """For a place where a call costs little but HTTP: nothing is to be encrypted, and no proxy is between."""
    if url.scheme != "http" or (getproxies() and not proxy_bypass(url.host)):
        return None
    given = {"user-agent": f"holdall/{holdall.__version__}", **headers}
    return PlainHttp(url, given, write_seconds=_CONNECT_SECONDS, keep_seconds=_KEEP_SECONDS)


def _parts(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Of its body. Where nothing is to be decoded it is read past httpx2, which takes as long as all the rest."""
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        return response.aiter_bytes()
    packed = response.headers.get("content-encoding", "").strip().lower()
    return aiter(response.stream) if packed in ("", "identity") else _unpacked(response.stream, packed)


async def _in_pieces(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Small enough that what others wait for comes in between."""
    async for part in parts:
        for at in range(0, len(part), _PIECE):
            yield part[at : at + _PIECE]
            if at:
                await asyncio.sleep(0)


async def _unpacked(stream: AsyncIterable[bytes], packed: str) -> AsyncIterator[bytes]:
    """As it was asked for, and once. By hand: the decoders of httpx2 take any form, hold what follows the end, and
    have no bound on what unpacks to nothing.
    """
    if packed not in _PACKED:
        raise LimitExceeded(f"sent an answer that is packed as {foreign(packed, 30)}, which was not asked for")
    unpack = zlib.decompressobj(_PACKED[packed])
    came = given = since = 0
    async for piece in _in_pieces(stream):
        came += len(piece)
        left = piece
        while left:
            if unpack.eof:
                raise LimitExceeded("sent more behind the end of what it packed")
            try:
                part = unpack.decompress(left, _PIECE)
            except zlib.error as problem:
                if given or came > len(piece) or packed != "deflate":
                    raise httpx2.DecodingError(str(problem)) from problem
                unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # without a head, as some servers send it
                packed = ""
                continue
            left = unpack.unconsumed_tail or unpack.unused_data
            given += len(part)
            if part:
                yield part
            if (since := since + _PIECE) >= _BREATH:  # what is unpacked comes without waiting, and others want to
                since = 0
                await asyncio.sleep(0)
        if came > _BREATH + 2 * given:
            raise LimitExceeded("sent packed bytes that unpack to nothing")


def _kind(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _same_origin(sent: httpx2.Request, following: httpx2.Request) -> bool:
    """The same message to the same server: headers and body were meant for that one. HTTPS in place of HTTP is it."""
    old, new = sent.url, following.url
    if following.method != sent.method or (new.userinfo and new.userinfo != old.userinfo) or new.host != old.host:
        return False
    is_upgrade = (old.scheme, old.port, new.scheme, new.port) == ("http", None, "https", None)
    return is_upgrade or (old.scheme, old.port) == (new.scheme, new.port)


def _not_followed(url: httpx2.URL) -> str:
    shown = one_line(str(url.copy_with(userinfo=b"", query=None, fragment=None)), 200)
    return f"Redirect to {shown} not followed; use that URL as the endpoint if it is the intended server"
