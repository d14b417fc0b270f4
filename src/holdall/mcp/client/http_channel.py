"""The channel to a server behind a URL: the SDK's streamable HTTP over a client whose failures stay with their call.

In the SDK a connection that is refused, or a notification that is never acknowledged, ends or blocks every request of
the connection. Here the one request gets an error, and its call is told what happened; notifications are not waited
for. There is no deadline: a request may take as long as its caller allows. Answers may be of any size.
"""

import asyncio
import inspect
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from contextvars import Context
from types import TracebackType
from typing import Any, cast

from holdall.mcp.client import codec
from holdall.mcp.client.codec import Kept, Message
from holdall.mcp.client.protocol import INTERNAL_ERROR
from holdall.mcp.client.routes import CURRENT, Call, HttpFailure
from holdall.mcp.client.sdk import ClientMessageMetadata, SessionMessage, anyio, httpx2, streamable_http_client, types
from holdall.mcp.client.spec import HttpServer, without_secrets
from holdall.text.escape import one_line
from holdall.values.patterns import lazy_pattern

# The answer of an HTTP server to one call, on its way to the SDK: what is large in it goes to the call by its bytes.
#
# The SDK would hold a result of 30 MB six times over. Here its message is taken out of the body or the stream, and a
# result of nothing stands in its place, which the call replaces by the real one. All else passes as it came. A server
# may close the stream before it has answered, to be asked for the rest later: the call hears of that.


_BODY, _STREAM = "application/json", "text/event-stream"
_DATA = b"data:"
_AROUND = 20  # spaces, at most


def watched(response: httpx2.Response, call: Call) -> httpx2.Response:
    """The same response, read through here."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_BODY, _STREAM):
        return response
    # What is read here is decoded, and may be of another length.
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BYTES]
    return httpx2.Response(
        response.status_code, headers=headers, stream=_Answer(response, call, is_stream=kind == _STREAM),
        request=response.request, extensions=response.extensions, history=response.history,
    )  # fmt: skip


_OF_THE_BYTES = ("content-encoding", "content-length", "transfer-encoding")


class _Answer(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, call: Call, *, is_stream: bool) -> None:
        self._response = response
        self._call = call
        self._is_stream = is_stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events() if self._is_stream else self._body()

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _body(self) -> AsyncIterator[bytes]:
        whole = bytearray()
        async for part in self._response.aiter_bytes():
            whole += part
        yield self._smaller(whole)

    async def _events(self) -> AsyncIterator[bytes]:
        numbered = False  # else it cannot be gone on with
        begun = bytearray()  # of a line whose end is still to come
        async for part in self._response.aiter_bytes():
            numbered = numbered or b"id:" in part
            end = part.rfind(b"\n") + 1
            if not end and b"\r" not in part[:-1]:  # JSON has none: it would be the end of a line, too
                begun += part
                continue
            begun += part[: end or len(part)]
            yield self._lines(begun)
            begun = bytearray(part[end or len(part) :])
        if begun:
            yield bytes(begun)
        # Anyone who has the answer reads no further: it ends here only where there was none.
        callbacks = self._call.callbacks
        if numbered and callbacks is not None and callbacks.paused is not None:
            callbacks.paused()

    def _lines(self, lines: bytearray) -> bytes:
        """The same lines, where the first one is large without what is large in it. The others came in one piece."""
        if len(lines) < codec.MUCH_STRUCTURE:
            return self._raw_reply(lines) if self._call.takes_large and b'"result"' in lines else bytes(lines)
        end = lines.find(b"\n") + 1
        if end < codec.MUCH_STRUCTURE or not lines.startswith(_DATA):
            return bytes(lines)
        rest = bytes(lines[end:])
        del lines[end:], lines[: len(_DATA)]  # in place: it may be large
        return _DATA + self._smaller(lines).removesuffix(b"\n") + b"\n" + rest

    def _raw_reply(self, lines: bytearray) -> bytes:
        """The same lines without the result of this call, which it gets with its bytes."""
        told = bytes(lines).split(b"\n")
        return b"\n".join(
            [_DATA + self._reply(line[len(_DATA) :]) if line.startswith(_DATA) else line for line in told]
        )

    def _reply(self, body: bytes) -> bytes:
        found = codec.reply_in(body.strip()) if self._call.takes_large and len(body) < codec.LARGE else None
        if found is None or found[0] != self._call.number or self._call.large is not None:  # the first one counts
            return body
        self._call.large = found[1]
        return _written({"jsonrpc": "2.0", "id": found[0], "result": {}})

    def _smaller(self, body: bytearray) -> bytes:
        # A message in several lines comes in parts that are none.
        if len(body) < codec.MUCH_STRUCTURE or not _is_object(body):
            return self._reply(bytes(body))
        try:
            value = codec.taken_out(body)
        except (ValueError, RecursionError):
            error = {"code": INTERNAL_ERROR, "message": "a reply that is not valid JSON"}
            return _written({"jsonrpc": "2.0", "id": self._call.number, "error": error})
        if value is None:
            return self._reply(bytes(body))
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        result = message.get("result")
        number = message.get("id")
        is_answer = type(number) is int and number == self._call.number and self._call.large is None
        if not is_answer or not isinstance(result, dict):
            return _written(codec.plain(value))
        self._call.large = cast("dict[str, Any]", result)
        return _written({**message, "result": {}})


def _is_object(body: bytearray) -> bool:
    return body[:_AROUND].lstrip().startswith(b"{") and body[-_AROUND:].rstrip().endswith(b"}")


def _written(message: object) -> bytes:
    return json.dumps(message).encode()


_CONNECT_SECONDS = 30.0
_KEEP_SECONDS = 4.0  # below the 5 seconds after which common servers close: else one is closed as it is used
_TELL_SECONDS = 5.0  # a notification, or an answer of ours to the server
_LAST_SECONDS = 0.5  # for those of them that are on their way at the end
_GOODBYE_SECONDS = 2.0
_SESSION = "mcp-session-id"
# Answers of any size. Before 2.3 the SDK has no limit, and no parameter to lift it.
_KNOWN = inspect.signature(streamable_http_client).parameters
_UNLIMITED: dict[str, Any] = {"max_sse_event_size": None} if "max_sse_event_size" in _KNOWN else {}
# The body of a message that is not a request, by the order in which the SDK writes its keys. Of these only the one
# that opens the session has to be there before what follows it.
_INITIALIZED = b'"notifications/initialized"'
_TOLD = lazy_pattern(
    rb'\{"jsonrpc":\s*"2\.0",\s*(?:"method"|"id":\s*(?:"[^"]{0,80}"|-?[0-9]{1,20}),\s*"(?:result|error)")'
)


class HttpChannel:
    """`async with HttpChannel(spec) as channel`: connected inside the block."""

    def __init__(self, spec: HttpServer) -> None:
        self._spec = spec
        self._stack = AsyncExitStack()
        self._client = _Client(spec)
        self._read: Any = None
        self._write: Any = None
        self.kept = Kept()  # nothing: what is large goes to its call by itself

    @property
    def pid(self) -> None:
        return None

    @property
    def heard(self) -> int:
        return self._client.answers

    async def __aenter__(self) -> "HttpChannel":
        try:
            client = await self._stack.enter_async_context(self._client)
            transport = streamable_http_client(self._spec.url, http_client=client, **_UNLIMITED)
            self._read, self._write = await self._stack.enter_async_context(transport)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.finish()
        if isinstance(problem, asyncio.CancelledError):  # perhaps the SDK's own, which it must see
            await self._stack.__aexit__(kind, problem, trace)
        else:
            await self._stack.aclose()

    async def receive(self) -> tuple[Message, Context] | None:
        while True:
            try:
                item: SessionMessage | Exception = await self._read.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                return None
            if not isinstance(item, Exception):
                return _plain(item.message), self._read.last_context

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        metadata = ClientMessageMetadata(headers=dict(headers)) if headers else None
        try:
            await self._write.send(SessionMessage(_typed(message), metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as problem:
            raise BrokenPipeError from problem

    async def why(self) -> tuple[str, str]:
        trouble = self._client.trouble
        return (trouble.what if trouble is not None else "broke off the connection"), ""

    def said(self) -> str:
        return ""


def _plain(message: types.JSONRPCMessage) -> Message:
    """As the codec reads it from a line."""
    fields: Message = {name: value for name, value in message if value is not None}
    if isinstance(message, types.JSONRPCError):
        fields["error"] = dict(message.error)
    elif isinstance(message, types.JSONRPCResponse):
        # The SDK holds on to a message until the next one comes; this may be a large one.
        fields["result"] = dict(message.result)
        message.result.clear()
    return fields


def _typed(message: Message) -> types.JSONRPCMessage:
    if "method" in message:
        return types.JSONRPCRequest(**message) if "id" in message else types.JSONRPCNotification(**message)
    return types.JSONRPCResponse(**message) if "result" in message else types.JSONRPCError(**message)


class _Client(httpx2.AsyncClient):
    def __init__(self, spec: HttpServer) -> None:
        self.answers = 0
        self.trouble: HttpFailure | None = None  # the last one
        self._told: set[asyncio.Task[None]] = set()
        self._spec = spec
        super().__init__(
            headers=dict(spec.headers),
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_SECONDS),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Never raises because of the network: a failure becomes an answer with status 503 and is noted for its
        call.
        """
        head = request.content[:200] if request.method == "POST" else b""
        if not _TOLD.match(head):
            return await self._send(request, math.inf if request.method != "DELETE" else _GOODBYE_SECONDS, options)
        if _INITIALIZED in head:
            return await self._send(request, _TELL_SECONDS, options)
        task = asyncio.get_running_loop().create_task(self._tell(request, options))
        self._told.add(task)
        task.add_done_callback(self._told.discard)
        return httpx2.Response(202, request=request)

    async def finish(self) -> None:
        """What is on its way to the server has a moment to arrive."""
        if self._told:
            await asyncio.wait(self._told, timeout=_LAST_SECONDS)
        for task in self._told:
            task.cancel()

    async def _tell(self, request: httpx2.Request, options: dict[str, Any]) -> None:
        response = await self._send(request, _TELL_SECONDS, options)
        await response.aclose()

    async def _send(self, request: httpx2.Request, seconds: float, options: dict[str, Any]) -> httpx2.Response:
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as fault:
            what = f"cannot be reached at {self._spec.shown} ({self._words(fault)})"
            return self._failed(request, HttpFailure(what))
        except (httpx2.TransportError, TimeoutError) as fault:
            return self._failed(request, HttpFailure(f"broke off the connection ({self._words(fault)})", sent=True))
        self.answers += 1
        if response.status_code >= 400 and request.method == "POST":  # a server need not offer the other methods
            gone = response.status_code == 404 and _SESSION in request.headers
            what = f"answered with HTTP {response.status_code} ({one_line(response.reason_phrase, 60)})"
            self._note(HttpFailure(what, response.status_code, gone))
        call = CURRENT.get()
        return watched(response, call) if call is not None and response.status_code == 200 else response

    def _failed(self, request: httpx2.Request, trouble: HttpFailure) -> httpx2.Response:
        if request.method == "POST":
            self._note(trouble)
        return httpx2.Response(503, request=request)

    def _note(self, trouble: HttpFailure) -> None:
        self.trouble = trouble
        if (call := CURRENT.get()) is not None:
            call.trouble = trouble

    def _words(self, fault: Exception) -> str:
        return one_line(without_secrets(str(fault), self._spec), 120).rstrip(".") or type(fault).__name__
