"""Which call a message of a server belongs to.

Every request that is under way is a `Call` with its own callbacks. There is no "current" call of a connection: a
message finds its call by the progress token or the subscription id in it, or by the HTTP answer that it came in, which
runs in the context of the task that asked. What belongs to no call goes to the callbacks of the connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, cast

from holdall.values.outputs import LargeJson, LargeText
from holdall.values.record import record

Progress = Callable[[dict[str, Any]], Awaitable[None]]
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]
Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

_LOG = logging.getLogger("holdall.upstream")
_MAX_WAITING, _MAX_WAITING_BYTES = 1000, 32 * 1024 * 1024
_DRAIN_SECONDS = 1.0


class Declined(Exception):
    """An error as the answer to a request: of a server's to ours, or, raised by an `ask` callback, ours to its own."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    @property
    def error(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})


@record
class Callbacks:
    """`notify` gets method and params of a notification; `ask` those of a request, and returns the result or raises
    Declined. Params are as the server sent them. Without `ask` requests of a server are refused.

    `paused` is called when a server over HTTP closes the connection on which a call waits, before it has answered: it
    is asked for the rest a little later."""

    notify: Notify | None = None
    ask: Ask | None = None
    paused: Callable[[], None] | None = None


@record
class HttpFailure:
    """What HTTP said about a request. `gone`: the server has forgotten the session, and has done nothing.

    `sent`: it may have done something, and the answer was lost.
    """

    what: str
    status: int = 0
    gone: bool = False
    sent: bool = False


def weight(value: object, most: int) -> int:
    """Bytes, about, of a value as JSON has it; counted no further than to more than `most`."""
    found, left = 0, [value]
    while left and found <= most:
        one = left.pop()
        if isinstance(one, dict):
            left += (inner for pair in cast("dict[object, object]", one).items() for inner in pair)
        elif isinstance(one, list):
            left += cast("list[object]", one)
        elif isinstance(one, LargeText | LargeJson):
            found += len(one.data)
        found += 4 + (len(one) if isinstance(one, str) else 0)
    return found


class Mailbox:
    """Hands messages to slow callbacks one after the other, in the order in which they came.

    Of those that wait the oldest are dropped where they are very many, or very large.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Awaitable[None]], int]] = deque()
        self._size = 0
        self._worker: asyncio.Task[None] | None = None
        self._dropping = False  # since it was empty

    def put(self, deliver: Callable[[], Awaitable[None]], params: Mapping[str, Any]) -> None:
        size = weight(params, _MAX_WAITING_BYTES)
        while self._waiting and (len(self._waiting) >= _MAX_WAITING or self._size + size > _MAX_WAITING_BYTES):
            if not self._dropping:
                _LOG.warning(
                    "more than %d notifications of a server, or %d bytes of them, wait; the oldest are dropped",
                    _MAX_WAITING, _MAX_WAITING_BYTES,
                )  # fmt: skip
            self._dropping = True
            self._next()
        self._waiting.append((deliver, size))
        self._size += size
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def drained(self) -> None:
        """Until all were taken, within a bound: a callback that hangs must not hold up a result."""
        if self._worker is not None:
            await asyncio.wait((self._worker,), timeout=_DRAIN_SECONDS)
        self.close()

    async def caught_up(self) -> None:
        """Until all that wait now were taken, within the same bound. More may come meanwhile, and is not waited for."""
        if self._worker is not None:
            taken = asyncio.Event()

            async def take() -> None:
                taken.set()

            self.put(take, {})
            with suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await taken.wait()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()

    async def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._next()()
                except Exception:  # an error of the callback must not affect the next message
                    _LOG.warning("a notification callback failed", exc_info=True)
        finally:
            self._worker = None
            self._dropping = False

    def _next(self) -> Callable[[], Awaitable[None]]:
        deliver, size = self._waiting.popleft()
        self._size -= size
        return deliver


class Call:
    """One request on its way, by its number in its session."""

    def __init__(
        self,
        number: int,
        method: str,
        *,
        name: str = "",
        seconds: float,
        progress: Progress | None = None,
        callbacks: Callbacks | None = None,
        takes_large: bool = False,
    ) -> None:
        self.number = number
        self.method = method
        self.name = name or method
        self.seconds = seconds
        self.progress = progress
        self.callbacks = callbacks
        self.takes_large = takes_large  # whether LargeText and LargeJson are welcome in its result
        self.mailbox = Mailbox()
        self.limit: asyncio.Timeout | None = None
        self.trouble: HttpFailure | None = None

    def is_alive(self) -> None:
        """The server works on it: its time begins again."""
        limit = self.limit
        if limit is not None and limit.when() is not None and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + self.seconds)

    def progressed(self, params: dict[str, Any]) -> None:
        self.is_alive()
        if (progress := self.progress) is not None:
            self.mailbox.put(lambda: progress(params), params)


CURRENT: ContextVar[Call | None] = ContextVar("holdall_upstream_call", default=None)
"""The call that a task sends. Streamable HTTP carries it to whatever comes back in the answer to it."""
