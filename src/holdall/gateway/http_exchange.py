"""One request of HTTP and its answer: plain JSON where the answer comes first, else a stream of events.

A client that leaves ends the task that answers it. Nothing here knows who asks, or for what.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from holdall.gateway import messages
from holdall.gateway.http_guard import Denied
from holdall.gateway.http_stream import RETRY_MILLISECONDS, Event, Stream, event_id
from holdall.upstream.sdk import ERROR_CODE_HTTP_STATUS

_DEFER_SECONDS = 5.0  # an answer that takes longer begins as a stream, which can be kept alive
_PING_SECONDS = 15.0
_STREAM = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

Headers = list[tuple[bytes, bytes]]
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
        self.extra: Headers = []  # of whatever is answered

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

    async def answer(self, status: int, value: object) -> None:
        """Plain JSON; None for a body of nothing."""
        await self._write(status, b"" if value is None else messages.encode(value)[:-1])  # type: ignore[arg-type]

    async def carry(
        self,
        stream: Stream,
        *,
        streams: bool,
        modern: bool,
        plain_from: int = 0,
        lasting: bool = False,
        primed: bool = False,
    ) -> Event | None:
        """Everything up to the answer, which is given; None where the stream ended without one.

        It is a stream only if something has to be told before the answer, the answer takes long, or has less than
        `plain_from` bytes; `lasting` and `primed` are for that stream. Where the client takes no streams it is none.
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
        if first is None or not first.answers or len(first.data) < plain_from:
            return await self.pump(stream, lasting=lasting, primed=primed)
        # In the older era HTTP says nothing about an error of the protocol: 404 would mean the session.
        status = ERROR_CODE_HTTP_STATUS.get(first.code, 200) if modern and first.code is not None else 200
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
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *self.extra]})
        if primed:
            first = f"id: {event_id(stream, position)}\r\nretry: {RETRY_MILLISECONDS}\r\ndata: \r\n\r\n"
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
                number = f"id: {event_id(stream, position)}\r\n".encode() if lasting else b""
                await self._more(number + b"event: message\r\ndata: " + event.data + b"\r\n\r\n", last=event.answers)
                if event.answers:
                    return event
        finally:
            stream.readers -= 1

    async def _more(self, data: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def _write(self, status: int, data: bytes) -> None:
        if self._begun:
            return
        self._begun = True
        kind = [(b"content-type", b"application/json")] if data else []
        kind += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        size = (b"content-length", str(len(data)).encode())
        headers = [*kind, size, *self.extra]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._more(data, last=True)
