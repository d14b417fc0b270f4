"""Requests over HTTP/1.1 without TLS, proxy, redirects or cookies, in a fifth of the time that httpx2 needs.

A connection is used again only after a response that came whole. Nothing is sent twice.
"""

import asyncio
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import cast

import httpx2

_LARGEST_HEAD = 64 * 1024
_MOST_FRAMING = 1024 * 1024  # bytes around chunks, where that is more than they have in them
_BREATH = 64  # chunks
_PIECE = 256 * 1024
_MOST_IDLE = 20
_QUICK = getattr(socket, "TCP_QUICKACK", None)
_EMPTY = frozenset((204, 304))
_CUT = "peer closed connection without sending complete message body"


class PlainHttp:
    """One place that is spoken to. `write_seconds` is also for connecting; an unused connection is closed after
    `keep_seconds`.
    """

    def __init__(
        self, url: httpx2.URL, headers: Mapping[str, str], *, write_seconds: float, keep_seconds: float
    ) -> None:
        """`headers` are sent with every request."""
        self._target = url.raw_path
        self._place = url.host, url.port or 80
        own = {"host": url.netloc.decode(), "accept-encoding": "gzip, deflate", "connection": "keep-alive"}
        if url.userinfo:
            own["authorization"] = "Basic " + b64encode(f"{url.username}:{url.password}".encode()).decode()
        self._headers = own | {name.lower(): value for name, value in headers.items()}
        self._write_seconds = write_seconds
        self._keep_seconds = keep_seconds
        self._idle: list[tuple[float, _Connection]] = []  # the one used last at the end

    async def send(self, method: str, headers: Mapping[str, str], body: bytes) -> httpx2.Response:
        """The response, to be read through `stream` and closed. Raises what httpx2 raises."""
        data = self._head(method, headers, body) + body
        connection = self._used_before() or await self._connect()
        try:
            await connection.write(data, self._write_seconds)
            status, reason, given = await connection.head()
            framing = _framing(status, given)
        except BaseException:
            connection.close()
            raise
        stream = _Body(connection, framing, self._keep)
        return httpx2.Response(status, headers=given, stream=stream, extensions={"reason_phrase": reason})

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def _head(self, method: str, headers: Mapping[str, str], body: bytes) -> bytes:
        lines = [f"{name}: {value}" for name, value in {**self._headers, **headers}.items()]
        if method == "POST":
            lines.append(f"content-length: {len(body)}")
        text = "\r\n".join(("", *lines, "", ""))
        if text.count("\n") != len(lines) + 2 or text.count("\r") != len(lines) + 2 or "\0" in text:
            raise httpx2.LocalProtocolError("a header has a line break in it")
        return method.encode() + b" " + self._target + b" HTTP/1.1" + text.encode("utf-8")

    def _used_before(self) -> "_Connection | None":
        self._close_old()
        return self._idle.pop()[1] if self._idle else None

    def _keep(self, connection: "_Connection") -> None:
        self._idle.append((asyncio.get_running_loop().time(), connection))
        self._close_old()

    def _close_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - self._keep_seconds
        for entry in list(self._idle):
            if entry[0] < oldest or entry[1].is_closed or len(self._idle) > _MOST_IDLE:
                self._idle.remove(entry)
                entry[1].close()

    async def _connect(self) -> "_Connection":
        try:
            async with asyncio.timeout(self._write_seconds):
                loop = asyncio.get_running_loop()
                return (await loop.create_connection(_Connection, *self._place, happy_eyeballs_delay=0.25))[1]
        except TimeoutError as problem:
            raise httpx2.ConnectTimeout("no connection in time") from problem
        except OSError as problem:
            raise httpx2.ConnectError("All connection attempts failed") from problem


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._came = bytearray()
        self._is_over = False
        self._waiting: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_closed(self) -> bool:
        """Whether no other request can be sent: also where there is something that nobody asked for."""
        return self._is_over or bool(self._came) or self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket: socket.socket | None = transport.get_extra_info("socket")

    def data_received(self, data: bytes) -> None:
        self._came += data
        if len(self._came) > _PIECE:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._is_over = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it ended is not told apart
        self._is_over = True
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # Requests and responses

    async def write(self, data: bytes, seconds: float) -> None:
        """All of it is on its way, or will be: the server may have answered before it had read all."""
        self._transport.write(data)
        if self._writable.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._writable.wait()
        except TimeoutError as problem:
            raise httpx2.WriteTimeout("the server does not take the request") from problem

    async def head(self) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        while True:
            head = await self._until(b"\r\n\r\n", "Server disconnected without sending a response.")
            first, *lines = head.split(b"\r\n")[:-2]
            version, _, rest = first.partition(b" ")
            code, _, reason = rest.partition(b" ")
            pairs = [(name, value.strip()) for name, colon, value in (line.partition(b":") for line in lines) if colon]
            is_valid = version.startswith(b"HTTP/1.") and len(code) == 3 and code.isdigit() and len(pairs) == len(lines)
            if not is_valid:
                raise httpx2.RemoteProtocolError("the response is not HTTP/1.1")
            if not code.startswith(b"1"):  # else it only announces the response
                closes = [] if version == b"HTTP/1.1" else [(b"connection", b"close")]
                return int(code), reason, [*pairs, *closes]

    async def body(self, size: int | None) -> AsyncIterator[bytes]:
        """So many bytes; None is in chunks, and below zero until the end of the connection."""
        if size is not None:
            async for piece in self._bytes(size):
                yield piece
            return
        chunks = data = framing = 0
        while True:
            line = await self._until(b"\r\n", f"{_CUT} (incomplete chunked read)")
            chunks, framing = chunks + 1, framing + len(line) + 2
            if framing > _MOST_FRAMING and framing > data:
                raise httpx2.RemoteProtocolError("more sizes of chunks than data in them")
            if not chunks % _BREATH:
                await asyncio.sleep(0)  # all of them may be here already, and others have to get their turn
            try:
                length = int(line.partition(b";")[0].strip(), 16)
            except ValueError:
                length = -1
            if length < 0:
                raise httpx2.RemoteProtocolError("a chunk without its size")
            async for piece in self._bytes(length):
                data += len(piece)
                yield piece
            while await self._until(b"\r\n", f"{_CUT} (incomplete chunked read)") != b"\r\n" and not length:
                pass  # behind the last one there may be headers
            if not length:
                return

    async def _bytes(self, size: int) -> AsyncIterator[bytes]:
        left = size
        while left:
            if not self._came and not await self._more():
                if left < 0:
                    return
                raise httpx2.RemoteProtocolError(_CUT)
            if left < 0 or len(self._came) <= left:
                piece, self._came = bytes(self._came), bytearray()
            else:
                piece = bytes(self._came[:left])
                del self._came[:left]
            left -= len(piece) if left > 0 else 0
            yield piece

    async def _until(self, end: bytes, cut: str) -> bytes:
        looked = 0
        while (at := self._came.find(end, looked)) < 0:
            looked = max(0, len(self._came) - len(end) + 1)
            if len(self._came) > _LARGEST_HEAD:
                raise httpx2.RemoteProtocolError("a header of the response is too long")
            if not await self._more():
                raise httpx2.RemoteProtocolError(cut)
        found = bytes(self._came[: at + len(end)])
        del self._came[: at + len(end)]
        return found

    async def _more(self) -> bool:
        """Wait until something came; False at the end."""
        before = len(self._came)
        while len(self._came) == before:
            if self._is_over:
                return False
            if _QUICK is not None and self._socket is not None:
                # A server that writes an answer in parts may hold the next one back until then, for 40 ms.
                with suppress(OSError):
                    self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)
            self._transport.resume_reading()
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return True


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self, connection: _Connection, framing: tuple[int | None, bool], keep: Callable[[_Connection], None]
    ) -> None:
        self._connection = connection
        self._size, self._may_keep = framing
        self._keep = keep
        self._is_open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._connection.body(self._size):
            yield piece
        if self._is_open and self._may_keep:
            self._is_open = False
            self._keep(self._connection)

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._connection.close()


def _framing(status: int, headers: list[tuple[bytes, bytes]]) -> tuple[int | None, bool]:
    """How the body ends, as `_Connection.body` takes it, and whether another response may follow it."""
    known = {name.lower(): value.lower() for name, value in headers}
    may_keep = b"close" not in known.get(b"connection", b"")
    if status in _EMPTY:
        return 0, may_keep
    if b"transfer-encoding" in known:
        if known[b"transfer-encoding"] != b"chunked":
            raise httpx2.RemoteProtocolError("an unknown transfer encoding")
        return None, may_keep
    lengths = {value for name, value in headers if name.lower() == b"content-length"}
    if not lengths:
        return -1, False
    length = lengths.pop()
    if lengths or not length.isdigit() or len(length) > 18:
        raise httpx2.RemoteProtocolError("a response without one length")
    return int(length), may_keep
