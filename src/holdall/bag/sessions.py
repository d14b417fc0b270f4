"""Many conversations in one process: a pool of open sessions with one store, a few SQL processes and one loop for all.

    async with Sessions.open(home="/var/lib/agent") as sessions:
        async with sessions.of("conversation 17") as bag:
            taken = await bag.take(result, tool="fetch")

The loop belongs to the pool and runs in a thread: a slow call that was started in one request continues after it,
whether or not the loop of that request still exists. This module has no wording and decides nothing about outputs.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

from holdall.background import Portal
from holdall.bag.core import (
    Parts,
    Shared,
    check_model,
    end_session,
    journal_of,
    open_session,
    settings_of,
    store_of,
    sweep_if_due,
)
from holdall.bag.holdall import Holdall
from holdall.llm.protocol import Model
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.text.tokens import Tokenizer, tokenizer_named
from holdall.values.errors import HoldallError, SessionClosed, SessionForked, UsageError
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect
from holdall.wire.dialects import dialect_of

MAX_OPEN = 64
IDLE_SECONDS = 600.0


@record
class Common:
    """What the sessions of a pool are opened with."""

    settings: Settings
    dialect: Dialect
    tokenizer: Tokenizer
    model: Model | str | None
    clock: Callable[[], float]
    own_store: bool  # the pool has opened it


class _Entry:
    """One session of the pool. `users` and `is_going` change under the lock of the pool, `bag` under its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()  # held while the session is opened or put away
        self.bag: Holdall | None = None
        self.users = 0
        self.is_going = False
        self.since = 0.0  # when its last user left

    @property
    def usable(self) -> Holdall | None:
        """The bag, unless it was closed or is about to be."""
        bag = self.bag
        if self.is_going or bag is None or bag.core.is_left or bag.core.is_closed or bag.core.ending is not None:
            return None
        return bag


class Sessions:
    """Made by `open`; safe to use from many tasks, loops and threads at once.

    A session is open while somebody uses it or a call of it runs. Then it stays open for `idle_seconds`, so that the
    next request finds it so, and of these at most `max_open` stay: the one that was used least recently is put away
    first. Put away means left, not ended: nothing of it is removed, and the next use opens it again.
    """

    def __init__(self, shared: Shared, portal: Portal, common: Common, *, max_open: int, idle_seconds: float) -> None:
        self.portal = portal
        self._shared = shared
        self._common = common
        self._max_open = max_open
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._put_away: dict[str, SessionInfo] = {}  # whose outputs go when they end, by id
        self._tidies = False
        self._closing: concurrent.futures.Future[None] | None = None

    @classmethod
    def open(
        cls,
        *,
        home: str | None = None,
        settings: Settings | None = None,
        dialect: Dialect | None = None,
        store: OutputStore | None = None,
        model: Model | str | None = None,
        tokenizer: Tokenizer | None = None,
        clock: Callable[[], float] = time.time,
        max_open: int = MAX_OPEN,
        idle_seconds: float = IDLE_SECONDS,
        own_loop: bool = True,
    ) -> Self:
        """A pool over the store in `home`, or over a `store` that stays yours. Use it as `async with`.

        The other options are those of `Holdall.open`. Asynchronous tools run on the loop of the pool, so that they
        outlive the loop that called them. Where they use connections that are open on your own loop, say
        `own_loop=False`, or give a task (`asyncio.create_task`) to `run` or `race`: such calls run where they were
        made, and are cancelled with that loop.
        """
        check_model(model)
        settings = settings_of(settings)
        tokenizer = tokenizer or tokenizer_named(settings.tokenizer)
        dialect = dialect or dialect_of(settings)
        own_store = store is None
        if store is None:
            store = store_of(home, settings, dialect, tokenizer, clock)
            sweep_if_due(store)
        portal = Portal()
        common = Common(settings, dialect, tokenizer, model, clock, own_store)
        shared = Shared(store, portal, own_loop=own_loop)
        return cls(shared, portal, common, max_open=max_open, idle_seconds=idle_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def of(self, name: str, *, parent: str = "") -> "Use":
        """The session of that name, made if there is none, for as long as the block lasts (`async with` or `with`).

        Anyone who asks for the same name meanwhile gets the same object. Leaving the block ends nothing: calls in the
        background continue. `parent` is the name of the session that a new one is a part of.
        """
        return Use(self, name, parent)

    @property
    def open_names(self) -> tuple[str, ...]:
        """The sessions that are open now; the one that was used least recently comes first."""
        with self._lock:
            return tuple(name for name, entry in self._entries.items() if entry.usable is not None)

    @property
    def busy(self) -> tuple[Holdall, ...]:
        """The open sessions that have calls running, or outputs of calls that are being completed."""
        with self._lock:
            bags = [entry.usable for entry in self._entries.values()]
        return tuple(bag for bag in bags if bag is not None and not bag.jobs.table.is_idle)

    async def end(self, name: str) -> None:
        """End the session of that name, open or put away: see `Holdall.close`. Others that use it find it closed."""
        self._check_open()
        if await asyncio.to_thread(self._shared.store.find_session, name) is not None:
            async with self.of(name) as bag:
                await bag.close()

    async def tidy(self, *, now: float | None = None) -> None:
        """Put away what has been idle for too long, or is too many. The pool does so itself."""
        await asyncio.to_thread(self._tidy, time.monotonic() if now is None else now)

    async def close(self) -> None:
        """End every session that this pool has opened, then close the store, the SQL processes and the loop.

        Calls in the background have their grace, then they are cancelled. Where outputs are kept for the session only,
        they are removed; `detach` leaves them.
        """
        await asyncio.to_thread(self.close_now, ends=True)

    async def detach(self) -> None:
        """The same, but no session ends: outputs that are kept for the session only stay. Calls in the background have
        their grace and no more, unlike those of `Holdall.detach`: the loop of the pool ends.
        """
        await asyncio.to_thread(self.close_now, ends=False)

    def close_now(self, *, ends: bool) -> None:
        """`close` or `detach` for code without a loop. Whoever is second waits for the first."""
        if self.portal.is_here:
            raise UsageError("a pool cannot be closed by a call that runs on its loop.")
        if self.portal.is_forked:
            return
        with self._lock:
            first = self._closing is None
            closing = self._closing = self._closing or concurrent.futures.Future()
        if not first:
            closing.result()
            return
        try:
            self.portal.call(self._finish(self._all_open(), ends=ends))
            self._end(ends=ends)
        finally:
            closing.set_result(None)

    # One use

    def claim(self, name: str) -> tuple[_Entry, Holdall | None]:
        """One user more; the bag where that is open already."""
        self._check_open()  # before the lock, which a fork may have left held
        with self._lock:
            self._check_open()
            entry = self._entries.get(name)
            if entry is None:
                entry = self._entries[name] = _Entry(name)
            entry.users += 1
            self._entries.move_to_end(name)
            return entry, entry.usable

    def bag_of(self, entry: _Entry, parent: str) -> Holdall:
        """Opened by the first user, while the others wait. A session that is about to end is waited for first."""
        with entry.lock:
            self._check_open()
            bag = entry.bag
            if bag is not None and bag.core.ending is not None and not bag.core.ending.done():
                if self.portal.is_here:
                    raise UsageError(f"session {entry.name!r} is being ended on this loop: use `async with`.")
                bag.core.ending.result()
            if bag is None or bag.core.is_left or bag.core.is_closed:
                bag = entry.bag = self._opened(entry.name, parent)
            return bag

    def release(self, entry: _Entry) -> None:
        with self._lock:
            entry.users -= 1
            entry.since = time.monotonic()
            if entry.users == 0 and entry.bag is None:
                self._entries.pop(entry.name, None)
            too_many = len(self._entries) > self._max_open
            if self._closing is None and (too_many or not self._tidies):
                self._tidies = self.portal.later(0 if too_many else self._idle_seconds, self._due)

    # Inside

    def _check_open(self) -> None:
        if self.portal.is_forked:
            raise SessionForked
        if self._closing is not None:
            raise SessionClosed(pool=True)

    def _opened(self, name: str, parent: str) -> Holdall:
        common, store = self._common, self._shared.store
        info = open_session(store, name, common.settings, common.dialect, parent)
        journal = journal_of(store, info, common.clock, self.portal)
        self._put_away.pop(info.id, None)
        return Holdall(
            Parts(store, info, common.settings, common.tokenizer, common.dialect, journal, common.model, self._shared)
        )

    def _due(self) -> None:
        """On the loop of the pool."""
        self._tidies = False
        if self._closing is None:
            with contextlib.suppress(RuntimeError):  # it is closed in this very moment: no thread is started any more
                asyncio.get_running_loop().run_in_executor(None, self._tidy, time.monotonic())

    def _tidy(self, now: float) -> None:
        with self._lock:
            if self._closing is not None:
                return
            idle = [entry for entry in self._entries.values() if self._is_idle(entry)]
            staying = sum(not entry.is_going for entry in self._entries.values())  # another thread may be at this too
            too_many = staying - self._max_open
            late = [now - max(entry.since, _last_call(entry)) >= self._idle_seconds for entry in idle]
            going = [entry for at, entry in enumerate(idle) if at < too_many or late[at]]
            for entry in going:
                entry.is_going = True
        for entry in going:
            with entry.lock:
                with self._lock:
                    is_used = entry.users > 0  # since it was chosen: who came later waits for its lock
                if entry.bag is not None and not is_used:
                    self._leave(entry.bag)
                    entry.bag = None
            with self._lock:
                entry.is_going = False
                if entry.users == 0:
                    self._entries.pop(entry.name, None)
        with self._lock:
            if self._entries and not self._tidies and self._closing is None:
                self._tidies = self.portal.later(self._idle_seconds, self._due)

    def _is_idle(self, entry: _Entry) -> bool:
        return entry.users == 0 and not entry.is_going and entry.bag is not None and entry.bag.jobs.table.is_idle

    def _leave(self, bag: Holdall) -> None:
        if bag.session.retention.session and not bag.core.is_closed:
            self._put_away[bag.session.id] = bag.session
        bag.jobs.let_go()
        self._shared.store.leave_session(bag.session)

    def _all_open(self) -> list[Holdall]:
        """Once those are open that were about to be."""
        found: list[Holdall] = []
        for entry in tuple(self._entries.values()):
            with entry.lock:
                found += [entry.bag] if entry.bag is not None else []
        return found

    async def _finish(self, bags: list[Holdall], *, ends: bool) -> None:
        await asyncio.gather(*(bag.jobs.finish(ends=ends) for bag in bags))
        await self._shared.close_models()

    def _end(self, *, ends: bool) -> None:
        if ends:
            for info in self._put_away.values():
                with contextlib.suppress(HoldallError, OSError):  # the others end all the same
                    end_session(self._shared.store, info)
        self._put_away.clear()
        self._entries.clear()
        self._shared.close(store=self._common.own_store)
        self.portal.close()


def _last_call(entry: _Entry) -> float:
    return entry.bag.jobs.table.last_end if entry.bag is not None else 0.0


class Use:
    """One use of a session; made by `Sessions.of`. A block that is left, however, has given it back."""

    def __init__(self, pool: Sessions, name: str, parent: str) -> None:
        self._pool = pool
        self._name = name
        self._parent = parent
        self._entry: _Entry | None = None
        self._lock = threading.Lock()
        self._is_opening = False
        self._is_unwanted = False  # its task was cancelled while a thread opened the session

    def __enter__(self) -> Holdall:
        bag = self._claimed()
        return bag if bag is not None else self._opened()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    async def __aenter__(self) -> Holdall:
        bag = self._claimed()
        if bag is not None:
            return bag
        self._is_opening = True
        opening = asyncio.get_running_loop().run_in_executor(None, self._opened)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with self._lock:
                self._is_unwanted = self._is_opening
            if not self._is_unwanted:
                self._give_back()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _claimed(self) -> Holdall | None:
        if self._entry is not None:
            raise UsageError("each use has a block of its own: call `of` again.")
        self._entry, bag = self._pool.claim(self._name)
        return bag

    def _opened(self) -> Holdall:
        try:
            bag = self._pool.bag_of(cast("_Entry", self._entry), self._parent)
        except BaseException:
            self._give_back()
            raise
        with self._lock:
            self._is_opening = False
        if self._is_unwanted:
            self._give_back()
        return bag

    def _give_back(self) -> None:
        with self._lock:
            entry, self._entry = self._entry, None
        if entry is not None:
            self._pool.release(entry)
