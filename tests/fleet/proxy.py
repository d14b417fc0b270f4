"""A proxy in front of one server, which does to a chosen round what networks and servers do at times.

A round is a request and its answer. Rounds are counted and named (`PUT object`, `INSERT holdall_outputs`, `COMMIT`), so
that a test can disturb each of them in turn, and also kill whoever asked, before the server hears of it or after it
has done it.
"""

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Literal, TypeVar

Mode = Literal[
    "reset", "lost answer", "half", "half answer", "503", "slow", "kill before", "kill half", "kill after",
    "429", "507", "quota",
]  # fmt: skip
Protocol = Literal["http", "postgres"]
T = TypeVar("T")

MODES: dict[Protocol, tuple[Mode, ...]] = {
    "http": (
        "reset",
        "lost answer",
        "half",
        "half answer",
        "503",
        "429",
        "507",
        "quota",
        "slow",
        "kill before",
        "kill half",
        "kill after",
    ),
    "postgres": ("reset", "lost answer", "half", "slow", "kill before", "kill half", "kill after"),
}
SLOW_SECONDS = 1.0
_CHUNK = 256 * 1024
_GOODBYE = b"X"  # which has no answer


def _refusal(status: str, code: str, *headers: str) -> bytes:
    body = f"<Error><Code>{code}</Code><Message>No.</Message></Error>"
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", body)
    return "\r\n".join(lines).encode()


REFUSALS: dict[Mode, bytes] = {
    "503": _refusal("503 Slow Down", "SlowDown", "Retry-After: 1"),
    "429": _refusal("429 Too Many Requests", "TooManyRequests", "Retry-After: 1"),
    "507": _refusal("507 Insufficient Storage", "InsufficientStorage"),
    "quota": _refusal("403 Forbidden", "QuotaExceeded"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Round `number`, counted from 1, goes wrong in this way; `times` rounds from there on."""

    number: int
    mode: Mode
    times: int = 1

    def hits(self, number: int) -> bool:
        return self.number <= number < self.number + self.times


class Gone(Exception):
    """The connection was ended on purpose."""


class Proxy:
    """Listens on a port of its own on `host`. Everything else is changed from any thread while it runs."""

    def __init__(self, target: tuple[str, int], protocol: Protocol, *, host: str = "127.0.0.1") -> None:
        self.rounds: list[str] = []  # by name, since `arm`
        self.fired: list[tuple[str, Mode]] = []
        self.bytes_per_second = 0  # 0: as fast as it goes
        self._target, self._protocol, self._host = target, protocol, host
        self._fault: Fault | None = None
        self._on_kill: Callable[[], None] = lambda: None
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._connections: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.port: int = self._call(self._listen())

    def arm(self, fault: Fault | None, on_kill: Callable[[], None] = lambda: None) -> None:
        """Count from 1 again, and do this."""

        async def change() -> None:
            self.rounds, self.fired = [], []
            self._fault, self._on_kill = fault, on_kill

        self._call(change())

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def join(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    def reset_all(self) -> None:
        """End every connection that there is."""

        async def reset() -> None:
            for writer in list(self._connections):
                _reset(writer)

        self._call(reset())

    def refuse(self) -> None:
        """As a server that is away: every connection ends, and each new one at once."""

        async def change() -> None:
            self._refuses = True
            for writer in list(self._connections):
                _reset(writer)

        self._call(change())

    def admit(self) -> None:
        self._refuses = False

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for writer in list(self._connections):
                _reset(writer)
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # In the loop

    def _call(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, self._host, 0, limit=1 << 20)
        return self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            await self._open.wait()
            if self._refuses:
                raise Gone
            answers, upstream = await asyncio.open_connection(*self._target, limit=1 << 20)
            self._connections.add(upstream)
            speak = self._http if self._protocol == "http" else self._postgres
            await speak(reader, writer, answers, upstream)
        except (Gone, OSError, asyncio.IncompleteReadError):
            pass  # one side is gone: so is the other
        finally:
            for one in (writer, upstream):
                if one is not None:
                    _reset(one)
                    self._connections.discard(one)

    def _next(self, name: str) -> Mode | None:
        """What is to happen in the round that begins now."""
        self.rounds.append(name)
        if self._fault is None or not self._fault.hits(len(self.rounds)):
            return None
        self.fired.append((name, self._fault.mode))
        return self._fault.mode

    async def _before(self, mode: Mode | None) -> None:
        await self._open.wait()
        if mode == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        if mode == "kill before":
            self._on_kill()
        if mode in ("kill before", "reset"):
            raise Gone

    def _after(self, mode: Mode | None) -> None:
        """The server has answered, and so has done it."""
        if mode == "kill after":
            self._on_kill()
        if mode in ("kill after", "lost answer"):
            raise Gone

    async def _half_sent(self, mode: Mode | None, upstream: asyncio.StreamWriter, data: bytes) -> None:
        if mode in ("half", "kill half"):
            upstream.write(data[: len(data) // 2])
            await upstream.drain()
            if mode == "kill half":
                self._on_kill()
            raise Gone

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self._open.wait()
        if self.bytes_per_second:
            await asyncio.sleep(len(data) / self.bytes_per_second)
        writer.write(data)
        await writer.drain()

    # HTTP, one request after the other

    async def _http(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            mode = self._next(_request(head))
            await self._before(mode)
            body = await reader.readexactly(_length(head))
            if mode in REFUSALS:
                await self._send(writer, REFUSALS[mode])
                continue
            await self._half_sent(mode, upstream, head + body)
            for start in range(0, len(head + body), _CHUNK):
                await self._send(upstream, (head + body)[start : start + _CHUNK])
            answer = await answers.readuntil(b"\r\n\r\n")
            self._after(mode)
            if mode == "half answer":
                body = await answers.readexactly(_length(answer) // 2) if b"HEAD" not in head[:5] else b""
                await self._send(writer, (answer + body)[: len(answer) // 2 if not body else None])
                raise Gone
            await self._send(writer, answer)
            if not head.startswith(b"HEAD "):
                await self._pass_body(answer, answers, writer)

    async def _pass_body(self, head: bytes, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"transfer-encoding: chunked" in head.lower():
            while True:
                line = await answers.readuntil(b"\r\n")
                size = int(line.split(b";")[0], 16)
                await self._send(writer, line + await answers.readexactly(size + 2))
                if size == 0:
                    return
        left = _length(head)
        while left:
            piece = await answers.read(min(left, _CHUNK))
            if not piece:
                raise Gone
            left -= len(piece)
            await self._send(writer, piece)

    # PostgreSQL: a round begins when the client speaks after the server has

    async def _postgres(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        mode: Mode | None = None
        is_begun = False

        async def asks() -> None:
            nonlocal mode, is_begun
            while data := await reader.read(_CHUNK):
                if not is_begun and data[:1] != _GOODBYE:
                    is_begun = True
                    mode = self._next(_statement(data))
                    await self._before(mode)
                    await self._half_sent(mode, upstream, data)
                await self._send(upstream, data)
            raise Gone

        async def tells() -> None:
            nonlocal is_begun
            while data := await answers.read(_CHUNK):
                if is_begun:
                    self._after(mode)
                is_begun = False
                await self._send(writer, data)
            raise Gone

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_plainly(asks())), group.create_task(_plainly(tells()))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()


async def _plainly(work: Awaitable[None]) -> None:
    with contextlib.suppress(Gone, OSError, asyncio.IncompleteReadError):
        await work


def _reset(writer: asyncio.StreamWriter) -> None:
    """An end that the other side notices as an error, not as a goodbye."""
    own: socket.socket | None = writer.get_extra_info("socket")
    if own is not None:
        with contextlib.suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _request(head: bytes) -> str:
    """A request to S3 by its kind: names of objects differ from run to run."""
    method, target = head.split(b" ", 2)[:2]
    _, _, query = target.decode().partition("?")
    kinds = {
        "uploads": "begin upload",
        "partNumber": "part",
        "uploadId": "upload",
        "list-type": "list",
        "delete": "objects",
    }
    kind = next((ours for theirs, ours in kinds.items() if theirs in query), "object")
    return f"{method.decode()} {kind}"


def _statement(data: bytes) -> str:
    """What a client of PostgreSQL says, by its statement; the first where it says several."""
    kind = data[:1]
    if kind in (b"Q", b"P"):
        text = data[5:] if kind == b"Q" else data[5:].partition(b"\0")[2]
        words = text.split(b"\0")[0].decode(errors="replace").split()
        table = next((word for word in words if word.startswith("holdall_")), "")
        return f"{' '.join(words[:1]).upper()} {table}".strip()
    return {b"B": "prepared statement", b"p": "password", b"C": "close"}.get(kind, "hello")


@contextlib.contextmanager
def proxied(target: tuple[str, int], protocol: Protocol) -> Generator[Proxy]:
    proxy = Proxy(target, protocol)
    try:
        yield proxy
    finally:
        proxy.close()
