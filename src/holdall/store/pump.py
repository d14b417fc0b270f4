"""From an asynchronous iterator to the plain one that a store takes, across a thread.

The store runs in a thread and asks for the next part; the loop gives it. Nothing is read ahead. When the caller is
cancelled, the parts end there and what came before is kept.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterable, Iterator


class Cancelled(BaseException):
    """Whoever waited for the output gave up; not an error of the tool."""


class Pump:
    def __init__(self, parts: AsyncIterable[object], loop: asyncio.AbstractEventLoop) -> None:
        self._parts = parts
        self._loop = loop
        self._asked: concurrent.futures.Future[object] | None = None
        self._stopped = False
        self._lock = threading.Lock()  # asking and stopping must not pass each other unseen

    def __iter__(self) -> Iterator[object]:
        iterator = aiter(self._parts)
        end = object()

        async def following() -> object:
            return await anext(iterator, end)

        while True:
            with self._lock:
                if self._stopped:
                    raise Cancelled
                asked = asyncio.run_coroutine_threadsafe(following(), self._loop)
                self._asked = asked
            try:
                part = asked.result()
            except (concurrent.futures.CancelledError, asyncio.CancelledError) as problem:
                raise Cancelled from problem
            if part is end:
                return
            yield part

    def stop(self) -> None:
        """From the loop: the part that is waited for does not come any more."""
        with self._lock:
            self._stopped = True
            if self._asked is not None:
                self._asked.cancel()
