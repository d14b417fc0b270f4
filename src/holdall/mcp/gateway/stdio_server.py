"""A gateway from its start to its end, on standard input and output: lines in, lines out, each by a thread of its
own.
"""

import asyncio
import ctypes
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from holdall.bag import Holdall
from holdall.mcp.client.server_process import LimitExceeded, Lines
from holdall.mcp.client.spec import identity_of
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.client_side import Client
from holdall.mcp.gateway.front import Front, GatewayState
from holdall.mcp.gateway.messages import Message, Refusal, RequestId
from holdall.mcp.gateway.siblings import Siblings
from holdall.values.settings import Settings

# Fix malloc's mmap threshold, so that large blocks are returned to the system when they are freed.
#
# The allocator of glibc learns from the first result of 30 MB that such blocks are usual, keeps them in its heap from
# then on, and the process grows with each of them. A fixed threshold stops that. Other systems have other allocators,
# which are left alone.


_MMAP_THRESHOLD = -3  # as malloc.h has it
_BORDER = 1024 * 1024


def set_mmap_threshold() -> bool:
    """For the rest of this process. Returns False if the allocator does not support it."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return tell(ctypes.c_int(_MMAP_THRESHOLD), ctypes.c_int(_BORDER)) == 1


# A client on standard input and output: lines in, lines out, each by a thread of its own.
#
# A pipe that nobody reads blocks its thread and nothing else. What any library prints goes to standard error: standard
# output carries messages only.


_LOG = logging.getLogger("holdall.gateway")
_CHUNK = 1024 * 1024
_LONGEST, _NOISIEST = 256 * 1024 * 1024, 16 * 1024 * 1024
_MAX_HELD = 32 * 1024 * 1024
_BATCHES = "2025-03-26"  # the one revision that has them


def own_pipes() -> tuple[int, int]:
    """Standard input and output for ourselves alone: descriptors 0 and 1 are the empty file and standard error now."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, target


class StdioClient:
    """`over` is set when the client has closed its side, or reads no more."""

    def __init__(self, source: int, target: int) -> None:
        self.over = asyncio.Event()
        self.revision: Callable[[], str] = str
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._lines = Lines(longest=_LONGEST, noise_limit=_NOISIEST)
        self._client: Client | None = None
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._held = 0  # bytes that wait to be written
        self._dropping = False
        self._batches: set[asyncio.Task[None]] = set()
        self._writer = threading.Thread(target=self._write, name="holdall gateway out", daemon=True)
        self._reader = threading.Thread(target=self._read, name="holdall gateway in", daemon=True)

    def serve(self, client: Client, revision: Callable[[], str]) -> None:
        self._client = client
        self.revision = revision
        self._writer.start()
        self._reader.start()

    def send(self, message: Message, _related: RequestId | None) -> None:
        if self._held > _MAX_HELD and "method" in message:
            if "id" in message:
                raise Refusal(messages.INTERNAL_ERROR, "The client is not reading what it is asked")
            if not self._dropping:
                self._dropping = True
                _LOG.warning("the client is not reading; its notifications are dropped until it does")
            return
        self._dropping = False
        self._put(message)

    async def flushed(self, seconds: float) -> None:
        """Until what was sent is written, within a bound."""
        self._out.put(None)
        await asyncio.to_thread(self._writer.join, seconds)

    def _put(self, message: Message | list[Message]) -> None:
        data = messages.encode(message)
        with self._lock:
            self._held += len(data)
        self._out.put(data)

    # The threads

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._source, _CHUNK)
            except OSError:
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._heard, chunk)
            except RuntimeError:  # the loop has ended
                return
            if not chunk:
                return

    def _write(self) -> None:
        while (data := self._out.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._target, view) :]
            except OSError:  # nobody reads any more
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self.over.set)
                return
            with self._lock:
                self._held -= len(data)

    # In the loop

    def _heard(self, chunk: bytes) -> None:
        if not chunk:
            self.over.set()
            return
        noise = self._lines.noise
        try:
            for line in self._lines.feed(chunk):
                self._line(line)
        except LimitExceeded as problem:
            self._refuse(Refusal(messages.INVALID_REQUEST, f"The client {problem}"))
            self.over.set()
        if self._lines.noise > noise:
            self._refuse(Refusal(messages.PARSE_ERROR, "Parse error: a message is one line of JSON"))

    def _line(self, line: bytearray) -> None:
        try:
            message = messages.decode(line)
            if isinstance(message, list) and self.revision() not in ("", _BATCHES):
                raise Refusal(messages.INVALID_REQUEST, f"MCP {self.revision()} has no batches")
        except Refusal as refusal:
            self._refuse(refusal)
            return
        if self._client is None:
            return
        if isinstance(message, dict):
            self._client.hear(message)
        else:
            task = self._loop.create_task(self._batch(self._client, message))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)

    async def _batch(self, client: Client, batch: list[Any]) -> None:
        if answers := await client.answers(batch):
            self._put(answers)

    def _refuse(self, refusal: Refusal) -> None:
        self._put(messages.error(None, refusal))


# It ends when the client closes its side, or when it is asked to by a signal; within five seconds, with every call that
# is under way answered, kept, or marked as interrupted.


CLIENT_GONE = "the client was gone before the call ended"
GATEWAY_ENDED = "the gateway was ended before the call was"
GRACE_SECONDS = 1.0  # for calls under way to end by themselves
_FLUSH_SECONDS = 0.5
_AT_ONCE = 1000  # what a server can take is for the server to say
_LONGEST_CALL = 7 * 24 * 3600.0  # each server has a deadline of its own, which progress puts off


def settings_for(settings: Settings, given: Sequence[str] = ()) -> Settings:
    """The settings of a gateway: what was not `given` is as its clients need it."""
    own: dict[str, object] = {
        "tools_listed": "always",
        "max_background_calls": _AT_ONCE,
        "tool_timeout_seconds": _LONGEST_CALL,
    }
    fitting = {name: value for name, value in own.items() if name not in given}
    grace = min(settings.grace_seconds, GRACE_SECONDS)
    return replace(settings, **fitting, grace_seconds=grace)  # type: ignore[arg-type] - names of settings


async def serve_stdio(gateway_state: GatewayState, bag: Holdall, running_client: str = "") -> None:
    """Until the client has gone. The bag is closed at the end.

    `running_client` is the same for all gateways of that client; empty if it is not known.
    """
    set_mmap_threshold()
    stop = shutdown_requested()
    pipes = StdioClient(*own_pipes())
    siblings = Siblings(bag, running_client, identity_of(gateway_state.servers)) if running_client else None
    front = Front(gateway_state, bag, pipes.send, siblings)
    pipes.serve(front.client, lambda: front.revision)
    waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(pipes.over.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await shut_down(front, bag, why=CLIENT_GONE if pipes.over.is_set() else GATEWAY_ENDED)
        await pipes.flushed(_FLUSH_SECONDS)
        ends = siblings is None or siblings.leave()
        await asyncio.gather(bag.jobs.finish(ends=ends), front.close())


def shutdown_requested() -> asyncio.Event:
    """Set by the signals that ask a process to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop


async def shut_down(front: Front, bag: Holdall, *, why: str = "") -> None:
    """Running calls get a moment to finish; then they are cancelled, and their partial output is kept.

    With a reason `why`, results are kept that may reach nobody, and that calls were cancelled.
    """
    if why:
        bag.jobs.keep_all()
    front.ending()
    under_way: set[asyncio.Future[object]] = {job.ended for job in bag.jobs.table.unfinished}  # type: ignore[misc]
    under_way |= {task for task in front.client.busy if not task.done()}  # type: ignore[misc]
    if under_way:
        await asyncio.wait(under_way, timeout=GRACE_SECONDS)
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await bag.jobs.abort(why=why)
            if busy := front.client.busy:
                await asyncio.wait(busy)
