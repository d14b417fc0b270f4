"""The channel to a server that is a program: its process, its lines, and its messages."""

import asyncio
import atexit
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import cast

from holdall.mcp.client import codec
from holdall.mcp.client.dispatch import CLOSED_INPUT, unbroken
from holdall.mcp.client.spec import StdioServer, without_secrets
from holdall.text.escape import foreign, one_line
from holdall.values.errors import NotTrusted
from holdall.values.record import record

# What a server writes on standard output, taken apart into the lines that can be messages and the rest.
#
# Pure, and linear however the bytes are cut into chunks. A line that does not begin like a message is never gathered in
# memory; of all such noise only the end is kept. This module reads no JSON.


_SPACE = b" \t\r"
_OPENERS = b"{["
_TAIL = 2000


class LimitExceeded(ValueError):
    """A server sent more than it may; the message says of what."""


def too_large(most: int) -> str:
    """In words that follow the server's name."""
    return f"sent one message of more than {most:,} bytes (the setting server_max_bytes allows more)"


class Lines:
    """`feed` chunks, get lines that begin like JSON. `reject` those that turn out to be none."""

    def __init__(self, *, longest: int, noise_limit: int) -> None:
        self.noise = 0  # bytes since the last message
        self.tail = b""  # the end of the noise
        self._longest = longest
        self._noise_limit = noise_limit
        self._line = bytearray()
        self._is_noise = False

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun like a message and has not ended yet."""
        return bool(self._line)

    def feed(self, chunk: bytes) -> Iterator[bytearray]:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end])
            start = end + 1
            self._is_noise = False
            if self._line:
                line, self._line = self._line, bytearray()
                yield line
        if start < len(chunk):
            self._take(chunk[start:])

    def accept(self) -> None:
        """The last line was a message: the noise before it did no harm."""
        self.noise = 0

    def reject(self, head: bytes, size: int) -> None:
        """A line of this size began like a message and was none."""
        self._drop(head, size)

    def _take(self, piece: bytes) -> None:
        if not self._line and not self._is_noise:
            piece = piece.lstrip(_SPACE)
            if not piece:
                return
            self._is_noise = piece[0] not in _OPENERS
        if self._is_noise:
            self._drop(piece, len(piece))
            return
        self._line += piece
        if len(self._line) > self._longest:
            self._line = bytearray()
            raise LimitExceeded(too_large(self._longest))

    def forget(self) -> None:
        """No more comes. Errors of calls may hold this for long: of a line that was never finished, not its bytes."""
        self._line = self._line[:1]

    def _drop(self, piece: bytes, size: int) -> None:
        self.noise += size + 1
        self.tail = (self.tail + piece[-_TAIL:] + b"\n")[-_TAIL:]
        if self.noise > self._noise_limit:
            raise LimitExceeded(f"wrote more than {self._noise_limit:,} bytes on standard output that are no messages")


# A server's process: its three pipes, and its end.
#
# It runs in a group of its own, so that what it started ends with it. To end it, its standard input is closed, then it
# gets SIGTERM, then SIGKILL; only its own process group. Nothing here reads a message.


_STDERR_TAIL = 4000
_LOOK_AGAIN = 0.02  # seconds between two looks whether what it started has gone too: nobody tells us
_MOST_UNREAD = 4 * 1024 * 1024  # of answers and notifications to a server that reads nothing
_DRAIN = 0.25  # seconds in which the rest of its output is read after its end
_NEEDED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_OURS = ("HOLDALL_MODEL_KEY", "HOLDALL_GATEWAY_TOKEN", "HOLDALL_HOME", "HOLDALL_STORE_DIR", "HOLDALL_OBJECTS")
# … are no server's: a home may be a database, with its password
_COMPILED = "PYTHONPYCACHEPREFIX"  # where a Python has its compiled modules
_living: set[tuple[int, int]] = set()  # who started it, and its id


@record
class StopTimeouts:
    """Seconds that a process has after each of the three ways to end it."""

    after_closing: float = 1.0
    after_asking: float = 1.0
    after_killing: float = 1.0

    @property
    def total(self) -> float:
        return self.after_closing + self.after_asking + self.after_killing


class Child(asyncio.SubprocessProtocol):
    """Made by `start`. What it writes is handed to `hear` as it comes; `silent` is called at the end of it."""

    def __init__(self, hear: Callable[[bytes], None], silent: Callable[[], None]) -> None:
        self._hear = hear
        self._silent = silent
        self._transport: asyncio.SubprocessTransport | None = None
        self._tail = b""
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = loop.create_future()
        self._said_all: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def pid(self) -> int:
        return self._transport.get_pid() if self._transport is not None else 0

    @property
    def said(self) -> str:
        """The end of what it wrote on standard error."""
        return self._tail.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Raises BrokenPipeError if nobody can read it any more."""
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing() or self.exited.done():
            raise BrokenPipeError("the server's standard input is closed")
        pipe.write(data)

    @property
    def unread(self) -> int:
        """Bytes that were written to it and that it has not read."""
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        return pipe.get_write_buffer_size() if isinstance(pipe, asyncio.WriteTransport) else 0

    async def writable(self) -> None:
        """Until it has read most of what was written to it."""
        await self._writable.wait()

    async def exit_code_and_stderr(self, seconds: float) -> int | None:
        """Its exit code, when that and all of its standard error are there, or after these seconds."""
        await asyncio.wait((self.exited, self._said_all), timeout=seconds)
        return self.exited.result() if self.exited.done() else None

    async def end(self, patience: StopTimeouts) -> None:
        """It and what it started are gone when this returns, unless the kernel itself holds them."""
        try:
            self._close_input()
            if await self._gone(patience.after_closing):
                return
            self._signal(signal.SIGTERM)
            if await self._gone(patience.after_asking):
                return
            self._signal(signal.SIGKILL)
            await self._gone(patience.after_killing)
        except asyncio.CancelledError:
            self._signal(signal.SIGKILL)
            await self._gone(patience.after_killing)
            raise
        finally:  # whatever happened in between
            self._signal(signal.SIGKILL)
            if self._transport is not None:
                self._transport.close()

    def pause_reading(self) -> None:
        if (pipe := self._output()) is not None:
            pipe.pause_reading()

    def resume_reading(self) -> None:
        if (pipe := self._output()) is not None and not pipe.is_closing():
            pipe.resume_reading()

    def _output(self) -> asyncio.ReadTransport | None:
        pipe = self._transport.get_pipe_transport(1) if self._transport is not None else None
        return cast("asyncio.ReadTransport | None", pipe)

    # The protocol of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport
            _living.add((os.getpid(), transport.get_pid()))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._hear(data)
        else:
            self._tail = (self._tail + data[-_STDERR_TAIL:])[-_STDERR_TAIL:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's names
        if fd == 1:
            self._silent()
        elif fd == 2 and not self._said_all.done():
            self._said_all.set_result(None)
        elif fd == 0:
            self._writable.set()  # anyone who waits is to see that the pipe is closed

    def process_exited(self) -> None:
        code = self._transport.get_returncode() if self._transport is not None else None
        if not self.exited.done():
            self.exited.set_result(-1 if code is None else code)
        self._writable.set()
        # What it started may hold its standard output open for ever; what it wrote itself is in the pipe by now.
        asyncio.get_running_loop().call_later(_DRAIN, self._silent)
        if not self._group_lives():
            _living.discard((os.getpid(), self.pid))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Its end

    def _close_input(self) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if pipe is not None:
            pipe.close()  # after what was written has been read; who does not read is asked next

    async def _gone(self, seconds: float) -> bool:
        until = asyncio.get_running_loop().time() + seconds
        await asyncio.wait((self.exited,), timeout=seconds)
        if not self.exited.done():
            return False
        while self._group_lives():
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(_LOOK_AGAIN)
        _living.discard((os.getpid(), self.pid))
        return True

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, number: int) -> None:
        if (os.getpid(), self.pid) in _living:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


async def start(
    spec: StdioServer,
    *,
    environment: Mapping[str, str],
    hear: Callable[[bytes], None],
    silent: Callable[[], None],
) -> Child:
    """Raises OSError if it cannot be started, NotTrusted if it would run other files than those that were agreed to."""
    if changed := spec.changed_files():
        first, *others = changed
        more = f" and {len(others):,} more" if others else ""
        raise NotTrusted(
            f"files that it runs or could import have changed since you agreed ({one_line(first, 60)}{more})"
        )
    names = environment.keys() - {*_OURS} if spec.inherits else environment.keys() & {*_NEEDED}
    inherited = {name: environment[name] for name in names}
    if spec.watched is not None:
        # Python takes compiled code beside a module for the module's own where size and time are those of the source,
        # which whoever packed the folder knows. So none of it is read: what was agreed to is compiled anew, and kept.
        from platformdirs import user_cache_dir  # noqa: PLC0415 - only for what comes from a checkout

        compiled = environment.get(_COMPILED) or os.path.join(user_cache_dir("holdall", appauthor=False), "compiled")
        spec = replace(spec, environment={**spec.environment, _COMPILED: compiled})
    _, child = await asyncio.get_running_loop().subprocess_exec(
        lambda: Child(hear, silent),
        spec.command,
        *spec.arguments,
        env={**inherited, **spec.environment},
        cwd=spec.cwd,
        start_new_session=True,
    )
    return child


@atexit.register
def _end_all() -> None:  # pragma: no cover - runs when the interpreter ends
    """A loop that was stopped without closing anything leaves processes behind: not past the end of this one."""
    for starter, pid in _living:
        if starter == os.getpid():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


# Noise between the messages is counted and dropped. A server that floods, or whose message never ends, is cut off here.


_LAST_WORDS = 0.5  # seconds to learn the exit code once the pipe is closed
_SHOWN = 600


@record
class Bounds:
    """What a server may send: one message, and bytes between two messages that are none."""

    message_bytes: int = 256 * 1024 * 1024
    noise_bytes: int = 16 * 1024 * 1024
    ping_seconds: float = 5.0  # after a missed deadline it has so long to show that it lives


_AT_ONCE_SECONDS = 0.005  # of reading what a server says, before others have their turn
_LONGEST_REST = 0.1


class StdioChannel:
    """`async with StdioChannel(...) as channel`: started on entering, ended on leaving, whatever happens in between."""

    def __init__(
        self, spec: StdioServer, *, environment: Mapping[str, str], bounds: Bounds, patience: StopTimeouts
    ) -> None:
        self.heard = 0  # chunks: whether it says anything at all
        self.kept = codec.Kept()
        self._spec = spec
        self._environment = environment
        self._patience = patience
        self._lines = Lines(longest=bounds.message_bytes, noise_limit=bounds.noise_bytes)
        self._child: Child | None = None
        self._fault = ""
        self._reading: asyncio.Task[None] | None = None  # of a large line
        self._is_silent = False  # it has ended, and what it said is still read
        self._is_closed = False
        # Unbounded, and short anyway: messages are taken out without waiting for anything. None is the end.
        self._inbox: asyncio.Queue[codec.Message | None] = asyncio.Queue()
        self._taken = asyncio.Event()  # all of them

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def __aenter__(self) -> "StdioChannel":
        self._child = await start(self._spec, environment=self._environment, hear=self._hear, silent=self._silent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            if self._reading is not None:
                self._reading.cancel()
            with unbroken():
                await self._child.end(self._patience)
            self._lines.forget()

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        code = await self._child.exit_code_and_stderr(_LAST_WORDS) if self._child is not None else None
        if self._fault:
            return self._fault, self.said()
        if code is None:
            what = "closed its standard output" if self._is_closed else CLOSED_INPUT
        elif code < 0:
            what = f"was killed by signal {-code}"
        else:
            what = f"ended with exit code {code}"
        return what + (" in the middle of a message" if self._lines.unfinished else ""), self.said()

    def said(self) -> str:
        """Standard error, or what came on standard output and was not a message, where there was no other word."""
        words = self._child.said.strip() if self._child is not None else ""
        words = words or self._lines.tail.decode("utf-8", "replace").strip()
        return foreign(without_secrets(words, self._spec)[-_SHOWN:], _SHOWN)

    async def receive(self) -> tuple[codec.Message, None] | None:
        message = await self._inbox.get()
        if self._inbox.empty():
            self._taken.set()
        return None if message is None else (message, None)

    async def send(self, message: codec.Message, headers: Mapping[str, str]) -> None:  # noqa: ARG002 - of HTTP
        child = self._child
        if child is None:
            raise BrokenPipeError
        is_answer = "method" not in message
        if is_answer and child.unread > _MOST_UNREAD:
            await child.writable()  # of answers that wait there are only so many
        elif "id" not in message and child.unread > _MOST_UNREAD:
            return  # a notification: what cannot be delivered is dropped
        child.write(codec.encode(message))
        if "id" in message and not is_answer:
            # A request waits until the one before it was read. A notification does not: that a call was cancelled
            # has to leave us at once, also where the server reads nothing.
            await child.writable()

    def _hear(self, chunk: bytes) -> None:
        if self._fault:
            return
        self.heard += 1
        self._read(self._lines.feed(chunk))

    def _read(self, lines: Iterator[bytearray]) -> None:
        """A large line is read in a thread; what comes behind it waits in the pipe, and so does what is very much."""
        began = time.perf_counter()
        try:
            for line in lines:
                if time.perf_counter() - began > _AT_ONCE_SECONDS and self._child is not None:
                    self._child.pause_reading()
                    rest = itertools.chain((line,), lines)
                    self._reading = asyncio.get_running_loop().create_task(self._read_later(rest, began))
                    return
                if len(line) >= codec.LARGE and self._child is not None:
                    self._child.pause_reading()
                    self._reading = asyncio.get_running_loop().create_task(self._read_aside(line, lines))
                    return
                head, size = bytes(line[:_SHOWN]), len(line)
                self._take(codec.decode(line, self.kept), head, size)
        except LimitExceeded as problem:
            self._fault = str(problem)
            self._silent()

    async def _read_aside(self, line: bytearray, lines: Iterator[bytearray]) -> None:
        head, size = bytes(line[:_SHOWN]), len(line)
        messages = await codec.decode_aside(line, self.kept)
        self._reading = None
        try:
            self._take(messages, head, size)
        except LimitExceeded as problem:
            self._fault = str(problem)
            self._silent()
            return
        self._read_on(lines)

    async def _read_later(self, lines: Iterator[bytearray], began: float) -> None:
        """When what it has said so far was dealt with, and as long again: half of the time is for others."""
        self._taken.clear()
        if not self._inbox.empty():
            await self._taken.wait()
        await asyncio.sleep(min(_LONGEST_REST, time.perf_counter() - began))
        self._reading = None
        self._read_on(lines)

    def _read_on(self, lines: Iterator[bytearray]) -> None:
        self._read(lines)
        if self._reading is None and self._child is not None:
            self._child.resume_reading()
            if self._is_silent:
                asyncio.get_running_loop().call_later(_DRAIN, self._silent)

    def _take(self, messages: list[codec.Message], head: bytes, size: int) -> None:
        if not messages:
            self._lines.reject(head, size)
            return
        self._lines.accept()
        for message in messages:
            self._inbox.put_nowait(message)

    def _silent(self) -> None:
        if self._reading is not None:
            self._is_silent = True  # told when all that came before is read
            return
        self._is_closed = True
        self._inbox.put_nowait(None)
