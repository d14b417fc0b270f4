"""The same object for synchronous code: `holdall.blocking.Holdall`, over a portal to an event loop in a thread.

Not a second client: every method hands its arguments to the one in `holdall.bag` and waits. What it raises is raised
here; Ctrl-C reaches the call. A test compares the two, name by name and parameter by parameter.
"""

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdall import bag
from holdall.llm.protocol import Model
from holdall.store.protocol import OutputStore
from holdall.text.tokens import Tokenizer
from holdall.values.errors import SessionClosed
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect

Result = TypeVar("Result")
Given = ParamSpec("Given")
_PATIENCE = 10.0  # seconds that a cancelled call has to end


class _Work:
    """One call in the loop: its task once it runs, and whether it was cancelled before."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        self._task = asyncio.current_task()
        try:
            if self._cancelled:
                raise asyncio.CancelledError
            yield
        finally:
            self.ended.set()

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


class Portal:
    """An event loop in a thread of its own, and the only way into it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdall portal", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there and wait. An interrupt of this thread cancels it, and is raised when it has ended."""
        if self.is_closed:
            work.close()  # it would never be awaited
            raise SessionClosed
        state = _Work()

        async def noted() -> Result:
            with state.running():
                return await work

        try:
            return asyncio.run_coroutine_threadsafe(noted(), self._loop).result()
        except (KeyboardInterrupt, SystemExit):
            # Wherever in these lines it came: what was started is known to `state`, not to a variable of this frame.
            self._loop.call_soon_threadsafe(state.cancel)
            state.ended.wait(_PATIENCE)
            raise

    def each(self, stream: AsyncIterator[Result]) -> Iterator[Result]:
        """The items of an asynchronous iterator, one by one."""

        async def following() -> tuple[bool, Any]:
            try:
                return True, await anext(stream)
            except StopAsyncIteration:
                return False, None

        while True:
            more, item = self.call(following())
            if not more:
                return
            yield item

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        if not self.is_closed:
            self.call(self._loop.shutdown_asyncgens())
            self.call(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def _waits(
    method: Callable[Concatenate[bag.Holdall, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate["Holdall", Given], Result]:
    """The method of that name, waited for."""

    @functools.wraps(method)
    def waiting(self: "Holdall", *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return self.portal.call(method(self.inner, *args, **kwargs))

    return waiting


def _iterates(
    method: Callable[Concatenate[bag.Holdall, Given], AsyncIterator[Result]],
) -> Callable[Concatenate["Holdall", Given], Iterator[Result]]:
    """The asynchronous iterator of that name as a plain one."""

    @functools.wraps(method)
    def iterating(self: "Holdall", *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Result]:
        return self.portal.each(method(self.inner, *args, **kwargs))

    return iterating


def _at_once(
    method: Callable[Concatenate[bag.Holdall, Given], Result],
) -> Callable[Concatenate["Holdall", Given], Result]:
    """A method that does not wait there either."""

    @functools.wraps(method)
    def calling(self: "Holdall", *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return method(self.inner, *args, **kwargs)

    return calling


class Holdall:
    """One session of one store, for code without an event loop. Safe to use from several threads."""

    def __init__(self, inner: bag.Holdall, portal: Portal) -> None:
        self.inner = inner
        self.portal = portal

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
        """A session by name, made where there is none; without a name, a new one. Use it as `with`."""
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
        """End the session and the thread. A second time does nothing."""
        if self.portal.is_closed:
            return
        try:
            self.portal.call(self.inner.close())
        finally:
            self.portal.close()

    take = _waits(bag.Holdall.take)
    run = _waits(bag.Holdall.run)
    update = _waits(bag.Holdall.update)
    guard = _waits(bag.Holdall.guard)
    keep = _waits(bag.Holdall.keep)
    begin = _waits(bag.Holdall.begin)
    call = _waits(bag.Holdall.call)
    wait = _waits(bag.Holdall.wait)
    stop = _waits(bag.Holdall.stop)
    abort = _waits(bag.Holdall.abort)
    events = _iterates(bag.Holdall.events)
    passed_by_reference = _waits(bag.Holdall.passed_by_reference)

    read = _waits(bag.Holdall.read)
    tail = _waits(bag.Holdall.tail)
    slice = _waits(bag.Holdall.slice)
    grep = _waits(bag.Holdall.grep)
    query = _waits(bag.Holdall.query)
    extract = _waits(bag.Holdall.extract)
    forecast = _waits(bag.Holdall.forecast)
    find = _waits(bag.Holdall.find)
    stream = _iterates(bag.Holdall.stream)
    follow = _iterates(bag.Holdall.follow)

    show = _waits(bag.Holdall.show)
    shown = _waits(bag.Holdall.shown)
    fits = _waits(bag.Holdall.fits)
    notice = _waits(bag.Holdall.notice)
    outputs = _waits(bag.Holdall.outputs)
    unreadable = _waits(bag.Holdall.unreadable)
    coverage = _waits(bag.Holdall.coverage)
    counters = _waits(bag.Holdall.counters)

    lease = _at_once(bag.Holdall.lease)
    append_transcript = _at_once(bag.Holdall.append_transcript)
    transcript = _at_once(bag.Holdall.transcript)
    history = _at_once(bag.Holdall.history)
    seen = _at_once(bag.Holdall.seen)
    tree = _at_once(bag.Holdall.tree)
    save_tree = _at_once(bag.Holdall.save_tree)

    decide = _at_once(bag.Holdall.decide)
    tools = _at_once(bag.Holdall.tools)
    still_running = _at_once(bag.Holdall.still_running)
    owns = _at_once(bag.Holdall.owns)
    instructions = _at_once(bag.Holdall.instructions)
    system_notice = _at_once(bag.Holdall.system_notice)

    def turn(self, *, tokens_left: int | None = None, window: int | None = None, tokens_used: int = 0) -> "Turn":
        """Calls that run side by side and share the room."""
        return Turn(self.inner.turn(tokens_left=tokens_left, window=window, tokens_used=tokens_used), self.portal)


class Turn:
    """Made by `Holdall.turn`; its calls start at once and have ended when its block is left."""

    def __init__(self, inner: bag.Turn, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    def __enter__(self) -> Self:
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
