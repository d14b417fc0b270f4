"""Keeps one server alive for as long as somebody uses it: who starts it, who owns it, when it may start again.

A session and its channel belong to one task from beginning to end. That task is nobody's child: cancelling a caller
does not touch it, and where it is cancelled itself it still ends the process.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import holdall
from holdall.upstream import faults
from holdall.upstream.backoff import PATIENCE, Backoff
from holdall.upstream.child import Patience
from holdall.upstream.greeting import Identity
from holdall.upstream.http import HttpChannel
from holdall.upstream.routes import Callbacks
from holdall.upstream.sdk import anyio
from holdall.upstream.session import LISTEN, Session
from holdall.upstream.sharing import Ended, joined, shared
from holdall.upstream.spec import HttpServer, ServerSpec
from holdall.upstream.standing import Standing
from holdall.upstream.stdio import Bounds, StdioChannel
from holdall.values.errors import UpstreamFault, UpstreamRefused, WrongUse

_LISTENED = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_AGAIN = 1.0  # seconds before it is listened to again
_UNREADY = "was closed before it was ready"
_SPARE = 1.0  # seconds more than the patience with a process, until its owner is ended too


@dataclass(frozen=True, slots=True)
class Means:
    """What a connection needs of the world, and who it says it is."""

    environment: Mapping[str, str] | None = field(default=None, repr=False)
    identity: Identity = field(default_factory=lambda: Identity("holdall", holdall.__version__, {}))
    bounds: Bounds = field(default_factory=Bounds)
    patience: Patience = field(default_factory=Patience)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Keeper:
    """`living` gives a session that works, or raises."""

    def __init__(self, spec: ServerSpec, callbacks: Callbacks, means: Means, tools_changed: Callable[[], None]) -> None:
        self.standing = Standing()
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
            raise WrongUse(f'the connection to MCP server "{self._spec.name}" was closed.')
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
        with anyio.CancelScope(shield=True):  # a caller that is cancelled must not leave a process behind
            if self._starting is not None:
                self._starting.cancel()
            if self._session is not None:
                self._session.end("was closed", again=False)
            if self._owner is not None:
                await self._end(self._owner)

    async def _end(self, owner: "asyncio.Task[None]") -> None:
        if self._session is None:
            owner.cancel()  # it is still greeting
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

    def _channel(self) -> HttpChannel | StdioChannel:
        if isinstance(self._spec, HttpServer):
            return HttpChannel(self._spec)
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
