"""Messages on their way to a client over HTTP: each is written once, and a client whose connection broke can go on.

A stream is what one answer is made of, or the one that stands open for what belongs to no request. Its events are
numbered from 1, so that who has read some of them can ask for those after them. Nothing here knows who reads.
"""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass

from holdall.gateway import messages
from holdall.gateway.messages import Message, RequestId, meta_of, table
from holdall.upstream.sdk import SUBSCRIPTION_ID_META_KEY

_MOST_STREAMS = 100
_MOST_BYTES = 2 * 1024 * 1024
_MOST_READ = 200  # events that were read and are still there, of a stream that goes on
RETRY_MILLISECONDS = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One message as it is sent. `answers`: it is the answer, and the last; `code` is that of an error.

    One without data is none: here whoever reads is let go, to come back for the rest.
    """

    data: bytes
    answers: bool
    code: int | None = None


class Stream:
    """`original` is the id of the client's request, `own` the one that it has inside, where that is another."""

    def __init__(self, name: str = "", original: RequestId | None = None, own: RequestId | None = None) -> None:
        self.name = name
        self.readers = 0
        self.begun = False  # whether it is on its way as a stream: until then its answer can still be plain JSON
        self._original = original
        self._own = own
        self.size = 0  # bytes
        self._events: deque[Event] = deque()
        self._first = 0  # how many are not there any more
        self._read = 0
        self._over = False
        self._news = asyncio.Event()

    @property
    def answered(self) -> bool:
        return bool(self._events) and self._events[-1].answers

    def put(self, message: Message) -> None:
        said = self._renamed(message)
        code = table(said.get("error")).get("code")
        data = messages.encode(said)[:-1]
        self._events.append(Event(data, "method" not in said, code if isinstance(code, int) else None))
        self.size += len(data)
        while self._read - self._first > _MOST_READ:
            self.size -= len(self._events.popleft().data)
            self._first += 1
        self._tell()

    def pause(self) -> None:
        """Let its reader go, to come back for what is still to come."""
        self._events.append(Event(b"", answers=False))
        self._tell()

    def reaches_back_to(self, position: int) -> bool:
        """Whether all events behind so many are there, or will come."""
        return self._first <= position <= self._first + len(self._events)

    def end(self) -> None:
        self._over = True
        self._tell()

    async def after(self, position: int, seconds: float | None) -> Event | None:
        """The event behind so many; None at the end. Raises TimeoutError where none comes."""
        self._read = max(self._read, position)
        async with asyncio.timeout(seconds):
            while self._first + len(self._events) <= position:
                if self._over or self.answered:
                    return None
                await self._news.wait()
        return self._events[position - self._first]

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

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


class Finished:
    """Streams that are over or were left, for those who come back for the rest. The oldest go first."""

    def __init__(self) -> None:
        self._streams: OrderedDict[str, Stream] = OrderedDict()

    def keep(self, stream: Stream) -> None:
        self._streams[stream.name] = stream
        self._streams.move_to_end(stream.name)
        size = sum(one.size for one in self._streams.values())
        while len(self._streams) > 1 and (len(self._streams) > _MOST_STREAMS or size > _MOST_BYTES):
            size -= self._streams.popitem(last=False)[1].size
        if size > _MOST_BYTES and stream.readers:  # it is being read; one that nobody reads may be all there is of it
            del self._streams[stream.name]

    def get(self, name: str) -> Stream | None:
        return self._streams.get(name)


def event_id(stream: Stream, position: int) -> str:
    return f"{stream.name}-{position}"


def place_of(last_event_id: str) -> tuple[str, int]:
    """The name of a stream and how many of its events were read. Raises ValueError for an id that is none of ours."""
    name, _, position = last_event_id.rpartition("-")
    if not name or not (position.isascii() and position.isdigit()) or len(position) > 9:
        raise ValueError(last_event_id[:100])
    return name, int(position)
