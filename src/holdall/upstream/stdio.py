"""The channel to a server that is a program: its process, its lines, and the streams that the SDK reads and writes.

Noise between the messages is counted and dropped. A server that floods, or whose one message never ends, is cut off
here, so that it costs nobody else their time or memory.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from holdall.text.escape import one_line
from holdall.upstream import codec
from holdall.upstream.child import Child, Patience, start
from holdall.upstream.lines import Lines, TooMuch
from holdall.upstream.sdk import SessionMessage, anyio, types
from holdall.upstream.spec import StdioServer, without_secrets

_LAST_WORDS = 0.5  # seconds to learn the exit code once the pipe is closed
_SHOWN = 600


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a server may send: one message, and bytes between two messages that are none."""

    message_bytes: int = 256 * 1024 * 1024
    noise_bytes: int = 16 * 1024 * 1024
    ping_seconds: float = 5.0  # after a missed deadline it has so long to show that it lives


class StdioChannel:
    """`async with StdioChannel(...) as channel`: started on entering, ended on leaving, whatever happens in between."""

    def __init__(
        self, spec: StdioServer, *, environment: Mapping[str, str], bounds: Bounds, patience: Patience
    ) -> None:
        self.heard = 0  # chunks: whether it says anything at all
        self.kept = codec.Kept()
        self._spec = spec
        self._environment = environment
        self._patience = patience
        self._lines = Lines(longest=bounds.message_bytes, noisiest=bounds.noise_bytes)
        self._child: Child | None = None
        self._fault = ""
        # Unbounded, and short all the same: the SDK takes messages out without waiting for anything.
        self._inbox, self.read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self.write = _Writer(self)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def __aenter__(self) -> "StdioChannel":
        try:
            self._child = await start(
                self._spec, environment=self._environment, hear=self._hear, silent=self._inbox.close
            )
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._child is not None:
                with anyio.CancelScope(shield=True):
                    await self._child.end(self._patience)
        finally:
            self._close()

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        code = await self._child.last_words(_LAST_WORDS) if self._child is not None else None
        if self._fault:
            return self._fault, self.said()
        if code is None:
            what = "closed its standard output"
        elif code < 0:
            what = f"was killed by signal {-code}"
        else:
            what = f"ended with exit code {code}"
        return what + (" in the middle of a message" if self._lines.unfinished else ""), self.said()

    def said(self) -> str:
        """Standard error, or what came on standard output and was no message, where there was no other word."""
        words = self._child.said.strip() if self._child is not None else ""
        words = words or self._lines.tail.decode("utf-8", "replace").strip()
        return one_line(without_secrets(words, self._spec)[-_SHOWN:], _SHOWN)

    async def send(self, message: SessionMessage) -> None:
        child = self._child
        if child is None:
            raise anyio.ClosedResourceError
        try:
            child.write(codec.encode(message.message))
        except BrokenPipeError as problem:
            raise anyio.ClosedResourceError from problem
        if isinstance(message.message, types.JSONRPCRequest):
            # A request waits until the one before it was read. A notification does not: that a call was cancelled
            # has to leave us at once, also where the server reads nothing.
            await child.writable()

    def _hear(self, chunk: bytes) -> None:
        if self._fault:
            return
        self.heard += 1
        try:
            for line in self._lines.feed(chunk):
                head, size = bytes(line[:_SHOWN]), len(line)
                messages = codec.decode(line, self.kept)
                if not messages:
                    self._lines.reject(head, size)
                    continue
                self._lines.accept()
                for message in messages:
                    self._inbox.send_nowait(SessionMessage(message))
        except TooMuch as problem:
            self._fault = str(problem)
            self._inbox.close()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # nobody reads any more: its end is on the way

    def _close(self) -> None:
        self._inbox.close()
        self.read.close()


class _Writer:
    """The side of the channel that the SDK writes to."""

    def __init__(self, channel: StdioChannel) -> None:
        self._channel = channel
        self._closed = False

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._channel.send(item)

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> "_Writer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
