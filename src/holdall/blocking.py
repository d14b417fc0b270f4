"""The same object for synchronous code: `holdall.blocking.Holdall`, over a portal to an event loop in a thread.

Not a second client: every method hands its arguments to the one in `holdall.bag` and waits. What it raises is raised
here; Ctrl-C reaches the call. A test compares the two, name by name and parameter by parameter.
"""

import contextlib
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from holdall import bag
from holdall.background import Portal
from holdall.bag import sessions as pool
from holdall.bag.fetch import Querying
from holdall.bag.sessions import IDLE_SECONDS, MAX_OPEN
from holdall.llm.protocol import Model
from holdall.store.protocol import OutputStore
from holdall.text.tokens import Tokenizer
from holdall.values.answers import Nodes, Table
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect

Result = TypeVar("Result")
Given = ParamSpec("Given")


class _Waits:
    """One object of a bag and the portal to the loop that it lives on."""

    def __init__(self, inner: Any, portal: Portal) -> None:
        self.inner = inner
        self.portal = portal


def _waiting(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Given], Result]:
    """The method of that name, waited for."""

    @functools.wraps(method)
    def waiting(self: _Waits, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return self.portal.call(method(self.inner, *args, **kwargs))

    return waiting


def _iterating(
    method: Callable[Concatenate[Any, Given], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, Given], Iterator[Result]]:
    """The asynchronous iterator of that name as a plain one."""

    @functools.wraps(method)
    def iterating(self: _Waits, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Result]:
        return self.portal.each(method(self.inner, *args, **kwargs))

    return iterating


def _direct(method: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """A method that does not wait there either."""

    @functools.wraps(method)
    def calling(self: _Waits, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return method(self.inner, *args, **kwargs)

    return calling


class Fetch(_Waits):
    """`bag.fetch`: see `holdall.bag.fetch`. The verbs are on the bag."""

    find = _waiting(bag.Fetch.find)
    original_text = _waiting(bag.Fetch.original_text)
    shown = _waiting(bag.Fetch.shown)
    stream = _iterating(bag.Fetch.stream)
    follow = _iterating(bag.Fetch.follow)


class Preview(_Waits):
    """`bag.preview`: see `holdall.bag.holdall`."""

    decide = _direct(bag.Preview.decide)
    fits = _waiting(bag.Preview.fits)
    forecast = _waiting(bag.Preview.forecast)
    notice = _waiting(bag.Preview.notice)
    passed_by_reference = _waiting(bag.Preview.passed_by_reference)


class Jobs(_Waits):
    """`bag.jobs`: see `holdall.bag.waits`."""

    begin = _waiting(bag.Background.begin)
    update = _waiting(bag.Background.update)
    stop = _waiting(bag.Background.stop)
    abort = _waiting(bag.Background.abort)
    keep_all = _direct(bag.Background.keep_all)
    messages = _direct(bag.Background.messages)
    patience = _direct(bag.Background.patience)
    still_running = _direct(bag.Background.still_running)
    until_more_ended = _waiting(bag.Background.until_more_ended)
    events = _iterating(bag.Background.events)


class Records(_Waits):
    """`bag.records`: see `holdall.bag.records`."""

    lease = _direct(bag.Records.lease)
    append_transcript = _direct(bag.Records.append_transcript)
    transcript = _direct(bag.Records.transcript)
    noticed = _direct(bag.Records.noticed)
    announced = _direct(bag.Records.announced)
    transcript_lines = _direct(bag.Records.transcript_lines)
    history = _direct(bag.Records.history)
    events = _direct(bag.Records.events)
    log_bytes = _direct(bag.Records.log_bytes)
    seen = _direct(bag.Records.seen)
    used = _direct(bag.Records.used)
    tree = _direct(bag.Records.tree)
    with_lost_ends = _direct(bag.Records.with_lost_ends)
    save_tree = _direct(bag.Records.save_tree)
    coverage = _waiting(bag.Records.coverage)
    counters = _waiting(bag.Records.counters)


class Care(_Waits):
    """`bag.care`: see `holdall.bag.care`."""

    sweep = _waiting(bag.Care.sweep)
    remove = _waiting(bag.Care.remove)
    remove_session = _waiting(bag.Care.remove_session)
    verify = _waiting(bag.Care.verify)
    unreadable = _waiting(bag.Care.unreadable)
    stats = _waiting(bag.Care.stats)
    counters = _waiting(bag.Care.counters)
    sessions = _waiting(bag.Care.sessions)
    listed = _waiting(bag.Care.listed)
    held = _waiting(bag.Care.held)
    bad_lines = _direct(bag.Care.bad_lines)
    sql_confinement = staticmethod(bag.Care.sql_confinement)


class KeptNames(_Waits):
    """Names of version 0.1 for what is in the parts now. They keep working; new code uses the parts."""

    find = _waiting(bag.Holdall.find)
    original_text = _waiting(bag.Holdall.original_text)
    shown = _waiting(bag.Holdall.shown)
    abort = _waiting(bag.Holdall.abort)
    begin = _waiting(bag.Holdall.begin)
    stop = _waiting(bag.Holdall.stop)
    update = _waiting(bag.Holdall.update)
    counters = _waiting(bag.Holdall.counters)
    coverage = _waiting(bag.Holdall.coverage)
    unreadable = _waiting(bag.Holdall.unreadable)
    fits = _waiting(bag.Holdall.fits)
    forecast = _waiting(bag.Holdall.forecast)
    notice = _waiting(bag.Holdall.notice)
    passed_by_reference = _waiting(bag.Holdall.passed_by_reference)
    follow = _iterating(bag.Holdall.follow)
    stream = _iterating(bag.Holdall.stream)
    events = _iterating(bag.Holdall.events)
    still_running = _direct(bag.Holdall.still_running)
    append_transcript = _direct(bag.Holdall.append_transcript)
    history = _direct(bag.Holdall.history)
    lease = _direct(bag.Holdall.lease)
    noticed = _direct(bag.Holdall.noticed)
    save_tree = _direct(bag.Holdall.save_tree)
    seen = _direct(bag.Holdall.seen)
    transcript = _direct(bag.Holdall.transcript)
    tree = _direct(bag.Holdall.tree)
    bad_lines = _direct(bag.Holdall.bad_lines)
    decide = _direct(bag.Holdall.decide)


class Holdall(KeptNames):
    """One session of one store, for code without an event loop. Safe to use from several threads."""

    def __init__(self, inner: bag.Holdall, portal: Portal, *, in_pool: bool = False) -> None:
        super().__init__(inner, portal)
        self._in_pool = in_pool
        self.fetch, self.preview = Fetch(inner.fetch, portal), Preview(inner.preview, portal)
        self.jobs, self.records = Jobs(inner.jobs, portal), Records(inner.records, portal)
        self.care = Care(inner.care, portal)

    @classmethod
    def open(
        cls,
        *,
        session: str | None = None,
        home: str | None = None,
        settings: Settings | None = None,
        dialect: Dialect | None = None,
        store: OutputStore | None = None,
        model: Model | str | None = None,
        tokenizer: Tokenizer | None = None,
        clock: Callable[[], float] = time.time,
        parent: str = "",
    ) -> Self:
        """A session by name, made if there is none; without a name, a new one. Use it as `with`."""
        inner = bag.Holdall.open(
            session=session, home=home, settings=settings, dialect=dialect, store=store, model=model,
            tokenizer=tokenizer, clock=clock, parent=parent,
        )  # fmt: skip
        return cls(inner, Portal())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session and the thread. A second time does nothing, nor does it after `detach`."""
        self._leave(self.inner.close)

    def detach(self) -> None:
        """Leave the session without ending it: outputs that are kept for the session only stay.

        In a pool calls in the background continue. A bag that was opened alone has its own thread, which ends here: its
        calls are cancelled, and what they wrote is kept.
        """
        self._leave(self.inner.detach)

    def _leave(self, how: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self.portal.is_closed or self.portal.is_forked:
            return
        try:
            self.portal.call(how())
        finally:
            if not self._in_pool:
                self.portal.close()

    take = _waiting(bag.Holdall.take)
    run = _waiting(bag.Holdall.run)
    race = _waiting(bag.Holdall.race)
    guard = _waiting(bag.Holdall.guard)
    keep = _waiting(bag.Holdall.keep)
    forget = _waiting(bag.Holdall.forget)
    read = _waiting(bag.Holdall.read)
    tail = _waiting(bag.Holdall.tail)
    slice = _waiting(bag.Holdall.slice)
    grep = _waiting(bag.Holdall.grep)
    diff = _waiting(bag.Holdall.diff)
    query = cast("Querying[Table, Nodes]", _waiting(cast("Any", bag.Holdall.query)))
    extract = _waiting(bag.Holdall.extract)
    show = _waiting(bag.Holdall.show)
    outputs = _waiting(bag.Holdall.outputs)
    wait = _waiting(bag.Holdall.wait)
    call = _waiting(bag.Holdall.call)
    tools = _direct(bag.Holdall.tools)
    owns = _direct(bag.Holdall.owns)
    instructions = _direct(bag.Holdall.instructions)
    system_notice = _direct(bag.Holdall.system_notice)

    def turn(self, *, tokens_left: int | None = None, window: int | None = None, tokens_used: int = 0) -> "Turn":
        """Calls that run side by side and share the room."""
        return Turn(self.inner.turn(tokens_left=tokens_left, window=window, tokens_used=tokens_used), self.portal)


class Turn:
    """Made by `Holdall.turn`; its calls start at once and have ended when its block is left."""

    def __init__(self, inner: bag.Turn, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._inner.__aexit__(kind, error, trace))

    def run(
        self,
        call: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        schema: Mapping[str, Any] | None = None,
        background: bool = False,
    ) -> bag.Pending:
        start = functools.partial(
            self._inner.run, call, tool=tool, arguments=arguments, call_id=call_id, server=server, schema=schema,
            background=background,
        )  # fmt: skip
        return self._portal.call(_started(start))

    def take(
        self, output: object, *, tool: str = "", arguments: Any = None, call_id: str = "", server: str = ""
    ) -> bag.Pending:
        start = functools.partial(
            self._inner.take, output, tool=tool, arguments=arguments, call_id=call_id, server=server
        )
        return self._portal.call(_started(start))

    def call(self, name: str, arguments: object = None) -> bag.Pending:
        return self._portal.call(_started(functools.partial(self._inner.call, name, arguments)))


async def _started(start: Callable[[], bag.Pending]) -> bag.Pending:
    return start()  # in the loop's own thread: what it starts runs there


class Sessions:
    """A pool of sessions for code without an event loop, such as a server with threads. Made by `open`.

        with Sessions.open(home="/var/lib/agent") as sessions:
            with sessions.of("conversation 17") as bag:
                taken = bag.take(result, tool="fetch")

    All of it runs on one thread beside yours, however many sessions are open; see `holdall.Sessions`.
    """

    def __init__(self, inner: pool.Sessions) -> None:
        self.inner = inner
        self._bags: dict[str, Holdall] = {}
        self._lock = threading.Lock()

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
        """A pool over the store in `home`, or over a `store` that stays yours. Use it as `with`."""
        inner = pool.Sessions.open(
            home=home, settings=settings, dialect=dialect, store=store, model=model, tokenizer=tokenizer, clock=clock,
            max_open=max_open, idle_seconds=idle_seconds, own_loop=own_loop,
        )  # fmt: skip
        return cls(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def of(self, name: str, *, parent: str = "") -> Generator[Holdall]:
        """The session of that name for as long as the block lasts: see `holdall.Sessions.of`."""
        with self.inner.of(name, parent=parent) as inner:
            yield self._bag(name, inner)

    @property
    def open_names(self) -> tuple[str, ...]:
        """The sessions that are open now; the one that was used least recently comes first."""
        return self.inner.open_names

    def end(self, name: str) -> None:
        """End the session of that name, open or put away."""
        self.inner.portal.call(self.inner.end(name))

    def tidy(self, *, now: float | None = None) -> None:
        """Put away what has been idle for too long, or is too many. The pool does so itself."""
        self.inner.portal.call(self.inner.tidy(now=now))

    def close(self) -> None:
        """End every session that this pool has opened, and all that it shares. Calling it twice is harmless."""
        self.inner.close_now(ends=True)

    def detach(self) -> None:
        """The same, but no session ends: outputs that are kept for the session only stay."""
        self.inner.close_now(ends=False)

    def _bag(self, name: str, inner: bag.Holdall) -> Holdall:
        """The same object for all who use a session at once."""
        with self._lock:
            known = self._bags.get(name)
            if known is None or known.inner is not inner:
                self._bags = {name: one for name, one in self._bags.items() if not one.inner.core.is_closed}
                known = self._bags[name] = Holdall(inner, self.inner.portal, in_pool=True)
            return known
