"""The channel to a server behind a URL: the SDK's streamable HTTP over a client whose failures stay with their call.

In the SDK a connection that is refused, or a notification that is never acknowledged, ends or blocks every request of
the connection. Here the one request gets an error, and its call is told what happened; nobody waits for what needs no
answer. There is no deadline: a request may take as long as its caller allows. Answers may be of any size.
"""

import asyncio
import math
import re
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from holdall.text.escape import one_line
from holdall.upstream.codec import Kept
from holdall.upstream.http_answer import watched
from holdall.upstream.routes import CURRENT, Trouble
from holdall.upstream.sdk import httpx2, streamable_http_client
from holdall.upstream.spec import HttpServer, without_secrets

_CONNECT_SECONDS = 30.0
_KEEP_SECONDS = 4.0  # below the 5 seconds after which common servers close: else one is closed as it is used
_TELL_SECONDS = 5.0  # a notification, or an answer of ours to the server
_LAST_SECONDS = 0.5  # for those of them that are on their way at the end
_GOODBYE_SECONDS = 2.0
_SESSION = "mcp-session-id"
# The body of a message that is not a request, by the order in which the SDK writes its keys. Of these only the one
# that opens the session has to be there before what follows it.
_INITIALIZED = b'"notifications/initialized"'
_TOLD = re.compile(
    rb'\{"jsonrpc":\s*"2\.0",\s*(?:"method"|"id":\s*(?:"[^"]{0,80}"|-?[0-9]{1,20}),\s*"(?:result|error)")'
)


class HttpChannel:
    """`async with HttpChannel(spec) as channel`; `read` and `write` are there inside the block."""

    def __init__(self, spec: HttpServer) -> None:
        self._spec = spec
        self._stack = AsyncExitStack()
        self._client = _Client(spec)
        self.read: Any = None
        self.write: Any = None
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
            transport = streamable_http_client(self._spec.url, http_client=client, max_sse_event_size=None)
            self.read, self.write = await self._stack.enter_async_context(transport)
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

    async def why(self) -> tuple[str, str]:
        trouble = self._client.trouble
        return (trouble.what if trouble is not None else "broke off the connection"), ""

    def said(self) -> str:
        return ""


class _Client(httpx2.AsyncClient):
    def __init__(self, spec: HttpServer) -> None:
        self.answers = 0
        self.trouble: Trouble | None = None  # the last one
        self._told: set[asyncio.Task[None]] = set()
        self._spec = spec
        super().__init__(
            headers=dict(spec.headers),
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS, write=_CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEP_SECONDS),
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Never raises for the network: a fault is an answer of its own, 503, and a trouble of the call."""
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
            return self._failed(request, Trouble(what))
        except (httpx2.TransportError, TimeoutError) as fault:
            return self._failed(request, Trouble(f"broke off the connection ({self._words(fault)})", sent=True))
        self.answers += 1
        if response.status_code >= 400 and request.method == "POST":  # a server need not offer the other methods
            gone = response.status_code == 404 and _SESSION in request.headers
            what = f"answered with HTTP {response.status_code} ({one_line(response.reason_phrase, 60)})"
            self._note(Trouble(what, response.status_code, gone))
        call = CURRENT.get()
        return watched(response, call) if call is not None and response.status_code == 200 else response

    def _failed(self, request: httpx2.Request, trouble: Trouble) -> httpx2.Response:
        if request.method == "POST":
            self._note(trouble)
        return httpx2.Response(503, request=request)

    def _note(self, trouble: Trouble) -> None:
        self.trouble = trouble
        if (call := CURRENT.get()) is not None:
            call.trouble = trouble

    def _words(self, fault: Exception) -> str:
        return one_line(without_secrets(str(fault), self._spec), 120).rstrip(".") or type(fault).__name__
