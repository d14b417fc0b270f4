"""One client over HTTP: its front, and the streams on which messages reach it, each once, also after a broken
connection; and answers that are too large for an event of a stream.
"""

import asyncio
import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from holdall.bag import Holdall
from holdall.bag.take import keep
from holdall.mcp.client.protocol import SUBSCRIPTION_KEY
from holdall.mcp.client.routes import weight
from holdall.mcp.gateway import calls, messages
from holdall.mcp.gateway import messages as eras
from holdall.mcp.gateway.front import Front, GatewayState
from holdall.mcp.gateway.known import KnownServers, LeftAnswers
from holdall.mcp.gateway.messages import Message, Refusal, RequestId, is_id, meta_of, table
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts, Origin
from holdall.values.record import record
from holdall.wire.notes import STRUCTURED, blob_note, link, not_base64, part_note, structured_note, with_notice
from holdall.wire.results import payload_of, text_of, told_fields, wrapped_text

# An answer that is too large for an event of a stream, as one that fits.
#
# Official clients of the handshake era read at most 1 MiB of an event, and an answer is one event. Where an answer
# comes first it is plain JSON, of any size; this is for what comes after something else. What a link leads to can be
# read in ranges; of a tool's result the largest parts are kept, and links lead to them. Anything else goes as it is.


MAX_BYTES = 1_000_000
"""Of a message in an event; there are a few more around it."""

_BETWEEN = 2  # bytes, between two parts
_RANGE = 128 * 1024  # of which every byte may be an escape of six
_STRUCTURED = "structuredContent"


def is_too_large(message: Message) -> bool:
    # A value has two bytes at least where it counts as four: what weighs so much need not be written to be measured.
    return weight(message, 2 * MAX_BYTES) > 2 * MAX_BYTES or len(messages.encode(message)) > MAX_BYTES


async def shrunk(bag: Holdall, request: Message, answer: Message, *, revision: str) -> Message:
    """The answer to `request` in a form that fits; the same if there is none."""
    params, result = table(request.get("params")), table(answer.get("result"))
    if request.get("method") == "resources/read" and calls.is_ours(params.get("uri")) and result:
        refusal = calls.too_large_for_one_answer(
            str(params["uri"]), _bytes_in(result), _RANGE, "an event of this stream"
        )
        return messages.error(answer["id"], refusal)
    if request.get("method") == "tools/call" and isinstance(result.get("content"), list):
        name = str(params.get("name"))
        if bag.dialect.stores and bag.core.policy_of(name).store != "never":
            return {**answer, "result": await _with_links(bag, Origin(tool=name), result, revision)}
    return answer


def _bytes_in(result: Mapping[str, Any]) -> int:
    content = table(cast("list[object]", result["contents"])[0])
    text = content.get("text")
    return len(text.encode()) if isinstance(text, str) else len(str(content.get("blob"))) // 4 * 3


async def _with_links(bag: Holdall, origin: Origin, result: dict[str, Any], revision: str) -> dict[str, Any]:
    """With notes in place of as many of the largest parts as it takes. Each part is written by itself, in a thread."""
    blocks: list[Any] = list(result["content"])
    rest = {name: one for name, one in result.items() if name not in ("content", _STRUCTURED)}
    parts = {**dict(enumerate(blocks)), -1: result.get(_STRUCTURED), -2: rest}
    sizes = await asyncio.to_thread(lambda: {at: _size(part) + _BETWEEN for at, part in parts.items()})
    over = sum(sizes.values()) - MAX_BYTES
    del sizes[-2]
    links: list[Facts] = []
    note: dict[str, Any] = {}
    for at in sorted(sizes, key=lambda one: sizes[one], reverse=True):
        if over <= 0:
            break
        what, data = await asyncio.to_thread(_carried, parts[at], is_block=at >= 0)
        try:
            facts = await keep(bag.core, data, origin, notes=(part_note(what),))
        except (StoreFault, OSError):  # then it goes as it is, and many clients can read it
            return result
        links.append(facts)
        over -= sizes[at]
        told = {"type": "text", "text": blob_note(what, len(data), handle=bag.core.handle_of(facts))}
        if at < 0:
            note = structured_note(facts, bag.core.handle_of(facts))
            blocks.append(told)
        else:
            blocks[at] = told
    shown = [link(one) for one in links] if eras.supports_links(revision) else []
    said = calls.text_in({"content": blocks})
    structured = {_STRUCTURED: with_notice(note, said)} if note else {}
    return {**result, **structured, "content": [*blocks, *shown]}


def _carried(part: object, *, is_block: bool) -> tuple[str, bytes]:
    if not is_block:
        text = wrapped_text(part)
        return STRUCTURED, _json(part) if text is None else text.encode("utf-8", "replace")
    if (text := text_of(part)) is not None and not told_fields(part):
        return "text", text.encode("utf-8", "replace")
    payload = payload_of(part)
    if payload is None or payload.data is None:
        return ("block" if payload is None else not_base64(payload.media_type)), _json(part)
    return payload.media_type, payload.data


def _size(value: object) -> int:
    return len(_json(value))


def _json(value: object) -> bytes:
    return messages.dumped(value).encode("utf-8", "replace")


# Messages on their way to a client over HTTP: each is written once, and a client whose connection broke can continue.
#
# A stream is what one answer is made of, or the one that stands open for what belongs to no request. Its events are
# numbered from 1, so that who has read some of them can ask for those after them. Nothing here knows who reads.


_MAX_STREAMS = 100
_MAX_BYTES = 2 * 1024 * 1024
_MAX_LEFT_BYTES = 64 * 1024 * 1024  # of answers larger than that, which nobody has taken, of one principal
_MAX_HELD = 32 * 1024 * 1024  # bytes that wait for a reader
_MAX_WAITING, _MAX_WAITING_BYTES = 1000, 4 * 1024 * 1024  # messages that wait for a stream
_MAX_READ = 200  # events that were read and are still there, of a stream that goes on
RETRY_MILLISECONDS = 1000


@record
class Event:
    """One message as it is sent. `answers`: it is the answer, and the last; `code` is that of an error.

    Empty data: disconnect so the client reconnects.
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
        self._first = 0  # how many no longer exist
        self._read = 0
        self._over = False
        self._news = asyncio.Event()

    @property
    def answered(self) -> bool:
        return bool(self._events) and self._events[-1].answers

    def put(self, message: Message) -> None:
        """Raises Refusal for a question that finds no room; a notification is left out then."""
        said = self._renamed(message)
        code = table(said.get("error")).get("code")
        data = messages.encode(said)[:-1]
        while self._first < self._read and self.size + len(data) > _MAX_HELD:
            self._forget()
        if self.size + len(data) > _MAX_HELD and "method" in said:  # its reader is slower than its server
            _refuse_question(said)
            return
        self._events.append(Event(data, "method" not in said, code if isinstance(code, int) else None))
        self.size += len(data)
        while self._read - self._first > _MAX_READ:
            self._forget()
        self._tell()

    def pause(self) -> None:
        """Disconnect its reader, which reconnects for the rest."""
        self._events.append(Event(b"", answers=False))
        self._tell()

    def reaches_back_to(self, position: int) -> bool:
        """Whether all events behind so many are there, or will come."""
        return self._first <= position <= self._first + len(self._events)

    def end(self) -> None:
        self._over = True
        self._tell()

    async def after(self, position: int, seconds: float | None) -> Event | None:
        """The event behind so many; None at the end. Raises TimeoutError if none comes."""
        self._read = max(self._read, position)
        async with asyncio.timeout(seconds):
            while self._first + len(self._events) <= position:
                if self._over or self.answered:
                    return None
                await self._news.wait()
        return self._events[position - self._first]

    def answer_at(self, position: int) -> Event | None:
        """The event behind so many, where that is the answer and is there."""
        is_next = self.answered and self._first + len(self._events) == position + 1
        return self._events[-1] if is_next else None

    def _forget(self) -> None:
        self.size -= len(self._events.popleft().data)
        self._first += 1

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
            if meta_of(inner).get(SUBSCRIPTION_KEY) == self._own:
                meta = {**meta_of(inner), SUBSCRIPTION_KEY: self._original}
                message = {**message, key: {**inner, "_meta": meta}}
        return message


class Waiting:
    """Messages for a client that has no stream open, and may never have one. Of notifications the oldest go first."""

    def __init__(self) -> None:
        self._messages: list[tuple[Message, int]] = []
        self._size = 0  # bytes

    def put(self, message: Message) -> None:
        """Raises Refusal for a question that finds no room."""
        size = len(messages.encode(message))
        while size <= _MAX_WAITING_BYTES and self._is_full(size):
            oldest = next((at for at, (one, _) in enumerate(self._messages) if "id" not in one), None)
            if oldest is None:
                break
            self._size -= self._messages.pop(oldest)[1]
        if self._is_full(size):
            _refuse_question(message)
            return
        self._messages.append((message, size))
        self._size += size

    def taken(self) -> list[Message]:
        """All of them. Here there are none any more."""
        found, self._messages, self._size = [one for one, _ in self._messages], [], 0
        return found

    def _is_full(self, size: int) -> bool:
        return len(self._messages) >= _MAX_WAITING or self._size + size > _MAX_WAITING_BYTES


def _refuse_question(message: Message) -> None:
    if "id" in message:
        raise Refusal(messages.INTERNAL_ERROR, "The client is not reading what it is asked")


class Finished:
    """Streams that are over or were left, for those who come back for the rest. The oldest go first."""

    def __init__(self, left: LeftAnswers | None = None) -> None:
        self._streams: OrderedDict[str, tuple[Stream, int]] = OrderedDict()
        self._size = 0  # of all of them, each as it was when it came
        self._left: LeftAnswers = OrderedDict() if left is None else left  # large ones, of all sessions of a principal

    def keep(self, stream: Stream) -> None:
        self._forget(stream.name)
        self._streams[stream.name] = stream, stream.size
        self._size += stream.size
        while len(self._streams) > 1 and (len(self._streams) > _MAX_STREAMS or self._size > _MAX_BYTES):
            self._forget(next(iter(self._streams)))
        if self._size > _MAX_BYTES and stream.readers:  # it is being read; else it may be all there is of it
            self._forget(stream.name)
        elif stream.size > _MAX_BYTES:
            self._left[self, stream.name] = partial(self._forget, stream.name), stream.size
            while len(self._left) > 1 and sum(size for _, size in self._left.values()) > _MAX_LEFT_BYTES:
                next(iter(self._left.values()))[0]()

    def clear(self) -> None:
        for name in list(self._streams):
            self._forget(name)

    def get(self, name: str) -> Stream | None:
        return self._streams[name][0] if name in self._streams else None

    def _forget(self, name: str) -> None:
        self._left.pop((self, name), None)
        if name in self._streams:
            self._size -= self._streams.pop(name)[1]


def event_id(stream: Stream, position: int) -> str:
    return f"{stream.name}-{position}"


def place_of(last_event_id: str) -> tuple[str, int]:
    """The name of a stream and how many of its events were read. Raises ValueError for an id that is not ours."""
    name, _, position = last_event_id.rpartition("-")
    if not name or not (position.isascii() and position.isdigit()) or len(position) > 9:
        raise ValueError(last_event_id[:100])
    return name, int(position)


# One client over HTTP: its front, and the streams on which messages reach it.
#
# A message that belongs to a request goes out on the answer to that request; another one on the stream that the client
# keeps open, on whatever answer is open where it keeps none, or waits until there is one. In the older era a client
# whose connection broke comes back for the rest: the call goes on, and what it says meanwhile is kept.


_CANCELLED = "notifications/cancelled"
_PRIMED_SINCE = "2025-11-25"


class HttpSession:
    """`shared`: by clients of the newer era, of which each request stands for itself."""

    def __init__(
        self,
        gateway_state: GatewayState,
        bag: Holdall,
        *,
        shared: bool = False,
        known: KnownServers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bag = bag
        self.front = Front(gateway_state, bag, self._send, known=known)
        self.front.client.pause = self._pause
        self.shared = shared
        self._standing: Stream | None = None
        self._clock = clock
        self._numbers = itertools.count(1)
        self._streams: dict[RequestId, Stream] = {}  # of requests that are not answered
        self._requests: dict[RequestId, Message] = {}  # of the same
        self._finished = Finished(known.left if known is not None else None)
        self._shrinking: set[asyncio.Task[None]] = set()
        self._waiting = Waiting()
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
        if own in self._streams:  # the first request with this id must not be disturbed
            stream.put(messages.error(None, Refusal(messages.INVALID_REQUEST, "This id is in use")))
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
        for task in self._shrinking:
            task.cancel()
        for stream in (*self._streams.values(), *((self._standing,) if self._standing else ())):
            stream.end()
        self._finished.clear()
        await self.front.close()

    def _stands(self, stream: Stream) -> Stream:
        self._standing = stream
        for message in self._waiting.taken():
            with suppress(Refusal):  # it comes back to a stream that is full
                stream.put(message)
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
            self._waiting.put(message)

    def _pause(self, number: RequestId) -> None:
        """Disconnect only clients that have an event id to resume from."""
        stream = self._streams.get(number)
        if stream is not None and self.primes and not self.shared:
            stream.pause()

    def _answer(self, message: Message, related: RequestId | None) -> None:
        if related is None or related not in self._streams:
            return  # nobody waits for it
        if self.shared or not self._streams[related].begun or not is_too_large(message):
            self._put(message, related)
            return
        task = asyncio.get_running_loop().create_task(self._put_shrunk(message, related))
        self._shrinking.add(task)
        task.add_done_callback(self._shrinking.discard)

    async def _put_shrunk(self, message: Message, related: RequestId) -> None:
        """Meanwhile the request may have been cancelled."""
        request, revision = self._requests[related], self.front.revision
        try:
            message = await shrunk(self.bag, request, message, revision=revision)
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
