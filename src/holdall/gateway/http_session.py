"""One client over HTTP: its front, and the streams on which messages reach it.

A message that belongs to a request goes out on the answer to that request; another one on the stream that the client
keeps open, on whatever answer is open where it keeps none, or waits until there is one.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from holdall.bag import Holdall
from holdall.gateway.front import Front, House
from holdall.gateway.messages import Message, RequestId, meta_of, table
from holdall.upstream.sdk import SUBSCRIPTION_ID_META_KEY

_MOST_WAITING = 1000


class Stream:
    """Messages for one answer, or for the stream that stands. None is its end."""

    def __init__(self, original: RequestId | None = None, own: RequestId | None = None) -> None:
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._original = original
        self._own = own

    def put(self, message: Message) -> None:
        self._messages.put_nowait(self._renamed(message))

    def end(self) -> None:
        self._messages.put_nowait(None)

    async def next(self, seconds: float) -> Message | None:
        """The next message; raises TimeoutError where none comes, and gives None at the end."""
        async with asyncio.timeout(seconds):
            return await self._messages.get()

    def _renamed(self, message: Message) -> Message:
        """Clients that know nothing of each other use the same ids: inside there is another one, here it is theirs."""
        if self._own is None:
            return message
        if message.get("id") == self._own and "method" not in message:
            message = {**message, "id": self._original}
        for key in ("params", "result"):
            inner = table(message.get(key))
            if meta_of(inner).get(SUBSCRIPTION_ID_META_KEY) == self._own:
                meta = {**meta_of(inner), SUBSCRIPTION_ID_META_KEY: self._original}
                message = {**message, key: {**inner, "_meta": meta}}
        return message


class HttpSession:
    """`shared`: by clients of the newer era, of which each request stands for itself."""

    def __init__(
        self, house: House, bag: Holdall, *, shared: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.bag = bag
        self.front = Front(house, bag, self._send)
        self.standing: Stream | None = None
        self._shared = shared
        self._clock = clock
        self._numbers = itertools.count(1)
        self._streams: dict[RequestId, Stream] = {}
        self._waiting: deque[Message] = deque(maxlen=_MOST_WAITING)
        self._touched = clock()

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._streams or self.standing is not None else self._clock() - self._touched

    def begin(self, message: Message) -> tuple[RequestId, Stream]:
        """A request of the client's, and the stream that ends with its answer."""
        self._touched = self._clock()
        original: RequestId = message["id"]
        own = f"http-{next(self._numbers)}" if self._shared else original
        stream = Stream(original, own if self._shared else None)
        self._streams[own] = stream
        self.front.client.hear({**message, "id": own})
        return own, stream

    def finish(self, own: RequestId, *, cancel: bool) -> None:
        """Nobody listens to this answer any more. In the newer era that cancels the request."""
        self._touched = self._clock()
        self._streams.pop(own, None)
        if cancel:
            self.hear({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": own}})

    def hear(self, message: Message) -> None:
        self._touched = self._clock()
        self.front.client.hear(message)

    def stand(self) -> Stream:
        """The stream for what belongs to no request. A second one takes the place of the first."""
        if self.standing is not None:
            self.standing.end()
        stream = self.standing = Stream()
        while self._waiting:
            stream.put(self._waiting.popleft())
        return stream

    def left(self, stream: Stream) -> None:
        self._touched = self._clock()
        if self.standing is stream:
            self.standing = None

    async def close(self) -> None:
        self.front.ending()
        for stream in (*self._streams.values(), *((self.standing,) if self.standing else ())):
            stream.end()
        await self.front.close()

    def _send(self, message: Message, related: RequestId | None) -> None:
        stream = self._streams.get(related) if related is not None else None
        if stream is None and related is not None and _is_answer(message):
            return  # nobody waits for it
        stream = stream or self.standing
        if stream is None and self._streams and not self._shared:
            stream = next(reversed(self._streams.values()))
        if stream is not None:
            stream.put(message)
        elif not self._shared:
            self._waiting.append(message)


def _is_answer(message: dict[str, Any]) -> bool:
    return "method" not in message
