"""One client over HTTP: its front, and the streams on which messages reach it.

A message that belongs to a request goes out on the answer to that request; another one on the stream that the client
keeps open, on whatever answer is open where it keeps none, or waits until there is one. In the older era a client whose
connection broke comes back for the rest: the call goes on, and what it says meanwhile is kept.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from holdall.bag import Holdall
from holdall.gateway import messages
from holdall.gateway.front import Front, House
from holdall.gateway.http_large import is_too_large, lighter
from holdall.gateway.http_stream import Finished, Stream
from holdall.gateway.messages import Message, Refusal, RequestId, is_id, table

_MOST_WAITING = 1000
_CANCELLED = "notifications/cancelled"
_PRIMED_SINCE = "2025-11-25"


class HttpSession:
    """`shared`: by clients of the newer era, of which each request stands for itself."""

    def __init__(
        self, house: House, bag: Holdall, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.bag = bag
        self.front = Front(house, bag, self._send)
        self.front.client.pause = self._pause
        self.shared = shared
        self._standing: Stream | None = None
        self._clock = clock
        self._numbers = itertools.count(1)
        self._streams: dict[RequestId, Stream] = {}  # of requests that are not answered
        self._requests: dict[RequestId, Message] = {}  # of the same
        self._finished = Finished()
        self._lightening: set[asyncio.Task[None]] = set()
        self._waiting: deque[Message] = deque(maxlen=_MOST_WAITING)
        self._touched = clock()

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._streams or self._standing is not None else self._clock() - self._touched

    @property
    def primes(self) -> bool:
        """Whether the client knows of an event without a message, whose id it can come back with."""
        return self.front.revision >= _PRIMED_SINCE

    def begin(self, message: Message) -> tuple[RequestId, Stream]:
        """A request of the client's, and the stream that ends with its answer."""
        self._touched = self._clock()
        original: RequestId = message["id"]
        number = next(self._numbers)
        own = f"http-{number}" if self.shared else original
        stream = Stream(f"a{number}", original, own if self.shared else None)
        if own in self._streams:  # whoever came first with this id is not to be disturbed
            stream.put(messages.error(original, Refusal(messages.INVALID_REQUEST, "This id is in use")))
        else:
            self._streams[own] = stream
            self._requests[own] = message
            self.front.client.hear({**message, "id": own})
        return own, stream

    def finish(self, own: RequestId, *, cancel: bool) -> None:
        """Nobody listens to this answer any more. In the newer era that cancels the request."""
        self._touched = self._clock()
        if cancel:
            self.hear({"jsonrpc": "2.0", "method": _CANCELLED, "params": {"requestId": own}})

    def hear(self, message: Message) -> None:
        self._touched = self._clock()
        self.front.client.hear(message)
        if message.get("method") == _CANCELLED:
            self._without_answer(table(message.get("params")).get("requestId"))

    def stand(self) -> Stream:
        """The stream for what belongs to no request. A second one takes the place of the first."""
        if self._standing is not None:
            self._standing.end()
        return self._stands(Stream(f"s{next(self._numbers)}"))

    def resumed(self, name: str) -> Stream | None:
        """A stream that its reader has lost."""
        if self._standing is not None and self._standing.name == name:
            return self._standing
        found = self._finished.get(name)
        if found is not None and name.startswith("s"):
            if self._standing is not None:
                self._standing.end()
            return self._stands(found)
        return found or next((one for one in self._streams.values() if one.name == name), None)

    def left(self, stream: Stream) -> None:
        """Its reader has gone, perhaps to come back."""
        self._touched = self._clock()
        if self._standing is stream and not stream.readers:
            self._standing = None
            self._finished.keep(stream)

    async def close(self) -> None:
        self.front.ending()
        for task in self._lightening:
            task.cancel()
        for stream in (*self._streams.values(), *((self._standing,) if self._standing else ())):
            stream.end()
        await self.front.close()

    def _stands(self, stream: Stream) -> Stream:
        self._standing = stream
        while self._waiting:
            stream.put(self._waiting.popleft())
        return stream

    def _without_answer(self, number: Any) -> None:
        stream = self._streams.pop(number, None) if is_id(number) else None
        if stream is not None:
            self._requests.pop(number, None)
            stream.end()

    def _send(self, message: Message, related: RequestId | None) -> None:
        if _is_answer(message):
            self._answer(message, related)
            return
        stream = self._streams.get(related) if related is not None else None
        stream = stream or self._standing
        if stream is None and not self.shared:
            stream = next((one for one in reversed(self._streams.values()) if one.readers), None)
        if stream is not None:
            stream.put(message)
        elif not self.shared:
            self._waiting.append(message)

    def _pause(self, number: RequestId) -> None:
        """Only who knows by which event to come back is let go."""
        stream = self._streams.get(number)
        if stream is not None and self.primes and not self.shared:
            stream.pause()

    def _answer(self, message: Message, related: RequestId | None) -> None:
        if related is None or related not in self._streams:
            return  # nobody waits for it
        if self.shared or not self._streams[related].begun or not is_too_large(message):
            self._put(message, related)
            return
        task = asyncio.get_running_loop().create_task(self._put_lighter(message, related))
        self._lightening.add(task)
        task.add_done_callback(self._lightening.discard)

    async def _put_lighter(self, message: Message, related: RequestId) -> None:
        """Meanwhile the request may have been cancelled."""
        request, revision = self._requests[related], self.front.revision
        try:
            message = await lighter(self.bag, request, message, revision=revision)
        finally:
            self._put(message, related)

    def _put(self, message: Message, related: RequestId) -> None:
        stream = self._streams.pop(related, None)
        self._requests.pop(related, None)
        if stream is None:
            return
        stream.put(message)
        if not self.shared:
            self._finished.keep(stream)


def _is_answer(message: dict[str, Any]) -> bool:
    return "method" not in message
