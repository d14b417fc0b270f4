"""One request of HTTP and its answer: plain JSON where the answer comes first, else a stream of events.

A client that leaves ends the task that answers it. Nothing here knows who asks, or for what.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from holdall.gateway import messages
from holdall.gateway.http_guard import Denied
from holdall.gateway.http_session import Stream
from holdall.gateway.messages import Message, table
from holdall.upstream.sdk import ERROR_CODE_HTTP_STATUS

_DEFER_SECONDS = 5.0  # an answer that takes longer begins as a stream, which can be kept alive
_PING_SECONDS = 15.0
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Exchange:
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._begun = False
        self._watching: asyncio.Task[None] | None = None
        self.gone = False

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

    async def body(self, most: int) -> bytearray:
        found = bytearray()
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise Denied(400, "the body is not complete")
            found += event.get("body", b"")
            if len(found) > most:
                raise Denied(413, f"a message has at most {most:,} bytes")
            if not event.get("more_body"):
                return found

    async def answer(self, status: int, value: object, extra: list[tuple[bytes, bytes]] | None = None) -> None:
        if self._begun:
            return
        self._begun = True
        data = b"" if value is None else messages.encode(value)[:-1]  # type: ignore[arg-type] - whatever is JSON
        kind = [(b"content-type", b"application/json")] if data else []
        kind += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        size = (b"content-length", str(len(data)).encode())
        await self._send({"type": "http.response.start", "status": status, "headers": [*kind, size, *(extra or [])]})
        await self._send({"type": "http.response.body", "body": data})

    async def begin_stream(self, extra: list[tuple[bytes, bytes]]) -> None:
        self._begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *extra]})

    async def carry(
        self, stream: Stream, extra: list[tuple[bytes, bytes]], *, streams: bool, modern: bool
    ) -> Message | None:
        """Everything up to the answer, which is given; None where the stream ended without one."""
        first: Message | None = None
        while True:
            try:
                first = await stream.next(_DEFER_SECONDS if streams else 7 * 24 * 3600.0)
            except TimeoutError:
                break
            if first is None or "method" not in first or streams:
                break
        if first is None and not streams:
            raise Denied(503, "the gateway ends")
        if first is not None and "method" not in first:
            code = table(first.get("error")).get("code")
            # In the older era HTTP says nothing about an error of the protocol: 404 would mean the session.
            status = ERROR_CODE_HTTP_STATUS.get(code, 200) if modern and isinstance(code, int) else 200
            await self.answer(status, first, extra)
            return first
        await self.begin_stream(extra)
        return await self.pump(stream, first)

    async def pump(self, stream: Stream, first: Message | None = None) -> Message | None:
        """Messages as events until the answer, which is given, or until the end of the stream."""
        message = first
        while True:
            if message is not None:
                data = messages.encode(message)[:-1]
                answered = "method" not in message
                event = b"event: message\r\ndata: " + data + b"\r\n\r\n"
                await self._send({"type": "http.response.body", "body": event, "more_body": not answered})
                if answered:
                    return message
            else:
                await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            try:
                message = await stream.next(_PING_SECONDS)
            except TimeoutError:
                message = None
                continue
            if message is None:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return None
