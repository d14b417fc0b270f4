"""A server's process: its three pipes, and its end.

It runs in a group of its own, so that what it started ends with it. It is ended by its own id and no other: first its
standard input is closed, then it is asked, then it is killed. Nothing here reads a message.
"""

import asyncio
import atexit
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from holdall.upstream.spec import StdioServer

_TAIL = 4000
_LOOK_AGAIN = 0.02  # seconds between two looks whether what it started has gone too: nobody tells us
_DRAIN = 0.25  # seconds in which the rest of its output is read after its end
_NEEDED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_living: set[tuple[int, int]] = set()  # who started it, and its id


@dataclass(frozen=True, slots=True)
class Patience:
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
        """Raises BrokenPipeError where nobody can read it any more."""
        pipe = self._transport.get_pipe_transport(0) if self._transport is not None else None
        if not isinstance(pipe, asyncio.WriteTransport) or pipe.is_closing() or self.exited.done():
            raise BrokenPipeError("the server's standard input is closed")
        pipe.write(data)

    async def writable(self) -> None:
        """Until it has read most of what was written to it."""
        await self._writable.wait()

    async def last_words(self, seconds: float) -> int | None:
        """Its exit code, when that and all of its standard error are there, or after these seconds."""
        await asyncio.wait((self.exited, self._said_all), timeout=seconds)
        return self.exited.result() if self.exited.done() else None

    async def end(self, patience: Patience) -> None:
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
        finally:  # also where this was cancelled in between
            self._signal(signal.SIGKILL)
            if self._transport is not None:
                self._transport.close()

    # The protocol of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport
            _living.add((os.getpid(), transport.get_pid()))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._hear(data)
        else:
            self._tail = (self._tail + data[-_TAIL:])[-_TAIL:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's names
        if fd == 1:
            self._silent()
        elif fd == 2 and not self._said_all.done():
            self._said_all.set_result(None)
        elif fd == 0:
            self._writable.set()  # whoever waits is to see that the pipe is closed

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
    """Raises OSError where it cannot be started."""
    inherited = environment if spec.inherits else {key: environment[key] for key in _NEEDED if key in environment}
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
