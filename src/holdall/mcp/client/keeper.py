"""Keeps one server alive for as long as somebody uses it: who starts it, who owns it, when it may start again, and what
it is asked again afterwards.
"""

import asyncio
import importlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import holdall
from holdall.mcp.client import session as faults
from holdall.mcp.client.dispatch import unbroken
from holdall.mcp.client.handshake import Identity
from holdall.mcp.client.routes import Callbacks, weight
from holdall.mcp.client.server_process import Bounds, StdioChannel, StopTimeouts
from holdall.mcp.client.session import LISTEN, Session
from holdall.mcp.client.spec import HttpServer, ServerSpec
from holdall.text.escape import one_line
from holdall.values.errors import UpstreamFault, UpstreamRefused, UsageError
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.mcp.client.http_channel import HttpChannel

# One task that several callers wait for: each may give up without ending it for the others.


T = TypeVar("T")


class Ended(Exception):
    """The task was ended, and not the caller."""


def shared(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_inspect)
    return task


async def joined(task: "asyncio.Task[T]") -> T:
    """Its result. Raises Ended if it was cancelled from elsewhere."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if task.cancelled() and (waiting is None or not waiting.cancelling()):
            raise Ended from None
        raise


def _inspect(task: "asyncio.Task[Any]") -> None:
    """Where all who waited have gone nobody else asks for its error."""
    if not task.cancelled():
        task.exception()


# When a server that died may be started again. Pure: the time is handed in, nothing waits here.


_FIRST = 0.5
_MOST = 60.0
PATIENCE = 4.0  # a call waits so long for the next start; where that is further away it is told so at once


@record
class Backoff:
    """`failures` counts ends in a row before which no request was answered, and the last one that there was."""

    failures: int = 0
    since: float = 0.0

    def failed(self, now: float) -> "Backoff":
        return Backoff(self.failures + 1, now)

    def wait(self, now: float) -> float:
        """Seconds until the next start. After the first failure there is none: a server may die once."""
        if self.failures < 2:
            return 0.0
        pause = min(_MOST, _FIRST * 2.0 ** min(self.failures - 2, 20))
        # A clock that was set back must not make it longer than it is.
        return min(pause, max(0.0, self.since + pause - now))


# Requests with a lasting effect: the log level and subscriptions to resources.
#
# They are repeated after a restart of the server. Nothing is requested that the client did not request.


_LOG = logging.getLogger("holdall.upstream")
_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
_SECONDS = 5.0  # a start is not to be held up by one of these
_MAX_SUBSCRIPTIONS, _MAX_SUBSCRIPTION_BYTES = 1000, 10_000  # how many are made again, and how long each may be


class RestoredState:
    def __init__(self) -> None:
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}

    def granted(self, method: str, params: Mapping[str, Any] | None) -> None:
        """The server has agreed to this request."""
        if method not in (_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE):
            return
        given = {name: value for name, value in (params or {}).items() if name != "_meta"}
        uri = str(given.get("uri"))
        is_short = weight(given, _MAX_SUBSCRIPTION_BYTES) <= _MAX_SUBSCRIPTION_BYTES
        if method == _SET_LEVEL and is_short:
            self._level = given
        elif method == _SUBSCRIBE and is_short and len(self._subscribed) < _MAX_SUBSCRIPTIONS:
            self._subscribed[uri] = given
        elif method == _UNSUBSCRIBE:
            self._subscribed.pop(uri, None)

    async def renew(self, session: Session) -> None:
        """Ask again, of a server that has just greeted. A server that now refuses is still used."""
        if session.greeting.modern:  # there each request says for itself what it wants
            return
        wanted = [(_SET_LEVEL, self._level)] if self._level is not None else []
        wanted += [(_SUBSCRIBE, one) for one in self._subscribed.values()]
        for method, params in wanted:
            try:
                await session.request(session.call(method, seconds=_SECONDS), params)
            except UpstreamFault as fault:
                name = one_line(session.spec.name, 60)
                _LOG.warning('MCP server "%s" was started again and does not take %s again: %s', name, method, fault)
        session.answered = False  # whether it works is for others to find out


# Keeps one server alive for as long as somebody uses it: who starts it, who owns it, when it may start again.
#
# A session and its channel belong to one task from beginning to end. Cancelling a caller does not touch that task, and
# if it is cancelled itself it still ends the process.


_LISTENED = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_AGAIN = 1.0  # seconds before it is listened to again
_UNREADY = "was closed before it was ready"
_SPARE = 1.0  # seconds more than the patience with a process, until its owner is ended too


@record
class ConnectionOptions:
    """Clock, time-outs and identity of a connection."""

    environment: Mapping[str, str] | None = field(default=None, repr=False)
    identity: Identity = field(default_factory=lambda: Identity("holdall", holdall.__version__, {}))
    bounds: Bounds = field(default_factory=Bounds)
    patience: StopTimeouts = field(default_factory=StopTimeouts)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def _http_channel() -> "type[HttpChannel]":
    """It takes a while to import, and needs the extra `mcp`."""
    channel: type[HttpChannel] = importlib.import_module("holdall.mcp.client.http_channel").HttpChannel
    return channel


class Keeper:
    """`living` gives a session that works, or raises."""

    def __init__(
        self, spec: ServerSpec, callbacks: Callbacks, means: ConnectionOptions, tools_changed: Callable[[], None]
    ) -> None:
        if isinstance(spec, HttpServer):
            _http_channel()  # what is missing for it is told now, and not when it is first used
        self.standing = RestoredState()
        self._spec = spec
        self._callbacks = callbacks
        self._means = means
        self._tools_changed = tools_changed
        self._session: Session | None = None
        self._starting: asyncio.Task[Session] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._backoff = Backoff()
        self._last: UpstreamFault | None = None
        self._closed = False

    @property
    def session(self) -> Session | None:
        """The one that lives now."""
        return self._session if self._session is not None and not self._session.over.is_set() else None

    async def living(self) -> Session:
        if self._closed:
            raise UsageError(f'the connection to MCP server "{self._spec.name}" was closed.')
        if (session := self.session) is not None:
            return session
        if self._starting is None or self._starting.done():
            self._starting = shared(self._start())
        try:
            return await joined(self._starting)
        except Ended:
            raise UpstreamFault(self._spec.name, _UNREADY) from None

    async def close(self) -> None:
        self._closed = True
        with unbroken():  # a caller that is cancelled must not leave a process behind
            greeting = self._session is None and self._starting is not None and not self._starting.done()
            if self._starting is not None:
                self._starting.cancel()
            if self._session is not None:
                self._session.end("was closed", again=False)
            if self._owner is not None:
                await self._end(self._owner, greeting=greeting)

    async def _end(self, owner: "asyncio.Task[None]", *, greeting: bool) -> None:
        if greeting:
            owner.cancel()
        await asyncio.wait((owner,), timeout=self._means.patience.total + _SPARE)
        if not owner.done():
            owner.cancel()
            await asyncio.wait((owner,), timeout=_SPARE)

    # Starting

    async def _start(self) -> Session:
        if self._owner is not None:  # the old process is gone before there is a new one: it may hold a lock or a port
            await asyncio.wait((self._owner,))
        wait = self._backoff.wait(self._means.clock())
        if wait > PATIENCE:
            raise faults.resting(self._spec, self._last, wait)
        if wait:
            await self._means.sleep(wait)
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Session] = loop.create_future()
        self._session = None
        self._owner = loop.create_task(self._own(ready))
        self._session = await ready
        return self._session

    def _channel(self) -> "HttpChannel | StdioChannel":
        if isinstance(self._spec, HttpServer):
            return _http_channel()(self._spec, bounds=self._means.bounds)
        means = self._means
        environment = os.environ if means.environment is None else means.environment
        return StdioChannel(self._spec, environment=environment, bounds=means.bounds, patience=means.patience)

    async def _own(self, ready: "asyncio.Future[Session]") -> None:
        """One session with its channel, from start to end."""
        session: Session | None = None
        try:
            async with self._channel() as channel:
                session = Session(
                    self._spec,
                    channel,
                    identity=self._means.identity,
                    callbacks=self._callbacks,
                    tools_changed=self._tools_changed,
                )
                try:
                    await self._keep(session, ready)
                finally:
                    await session.close()
        except Exception as problem:  # whatever the channel raises, a start or a session has failed
            self._last = faults.not_started(self._spec, problem)
            if not ready.done():
                ready.set_exception(self._last)
        finally:
            if not ready.done():
                ready.set_exception(UpstreamFault(self._spec.name, _UNREADY))
            if not self._closed:
                before = Backoff() if session is not None and session.answered else self._backoff
                self._backoff = before.failed(self._means.clock())

    async def _keep(self, session: Session, ready: "asyncio.Future[Session]") -> None:
        try:
            await session.open()
            await self.standing.renew(session)
        except UpstreamFault as fault:
            self._last = fault
            if not ready.done():
                ready.set_exception(fault)  # before its process is ended: that may take a while
            return
        if ready.done():
            return  # nobody waits for it any more
        self._tools_changed()
        ready.set_result(session)
        listening = asyncio.get_running_loop().create_task(self._listen(session))
        try:
            await session.over.wait()
            what, said = await session.why()
            self._last = UpstreamFault(self._spec.name, what, said=said)
        finally:
            listening.cancel()
            await asyncio.wait((listening,))

    async def _listen(self, session: Session) -> None:
        """From 2026-07-28 on a server says that its lists changed only to those who listen."""
        wanted = {key: True for key, what in _LISTENED.items() if session.greeting.lists(what)}
        while session.greeting.modern and wanted and not session.over.is_set():
            try:
                await session.request(session.call(LISTEN, seconds=float("inf")), {"notifications": wanted})
            except UpstreamRefused:
                return
            except UpstreamFault:
                pass
            self._tools_changed()  # what it said in between is lost
            await self._means.sleep(_AGAIN)
