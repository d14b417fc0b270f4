"""Holdall inside the agent frameworks: one module per framework, one line for its user.

Here is what all of them share: the sessions of an adapter, one per conversation; a tool's result on its way to the
model; a call of one of our own tools; and what is added to a request. An adapter only says where its framework has
these places. Nothing here imports a framework, and nothing decides about an output: the bag does.
"""

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import hashlib
import logging
import queue
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, cast

from holdall import (
    Answer,
    Ended,
    Holdall,
    Inline,
    Origin,
    OutputStore,
    Running,
    Sessions,
    Settings,
    ToolSpec,
    UsageError,
)
from holdall.bag.core import in_thread, new_redaction, settings_of
from holdall.bag.sessions import Use
from holdall.bag.take import is_small_text, take_small, value_as_text
from holdall.policy.decide import Fits, decide, room_of_turn
from holdall.text.escape import foreign
from holdall.values.record import record
from holdall.wire.dialect import with_prefix
from holdall.wire.dialects import dialect_of
from holdall.wire.notes import withheld_note

_LOG = logging.getLogger("holdall")
Result = TypeVar("Result")
_LONGEST_NAME = 200
# Errors by which frameworks stop and ask, by the names of their classes: they are no results.
_PASSED = frozenset(("ApprovalRequired", "CallDeferred", "GraphBubbleUp", "InterruptException"))
_CONVERSATION = "conversation:"
"""Before what a framework calls a conversation: clients often choose that, and it must not name a session of others."""


@record
class Additions:
    """What a request to the model gets beside what the framework has put there. All are empty while nothing is kept."""

    tools: tuple[ToolSpec, ...] = ()
    instructions: str = ""  # for the system prompt: the same in every request of a session
    notice: str = ""  # for the end of the request, and not for the transcript


class Conversations:
    """The sessions of one adapter. Opened by the first use, in each process anew; `close` leaves them, resumable.

    `session` names one session for everything, or finds the name in what the framework calls the conversation's
    context; without it the adapter does that. With `background` a slow call continues there, and the model gets a
    handle. `prefix` is what the framework writes before the names of our tools.
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        home: str | None = None,
        store: OutputStore | None = None,
        session: str | Callable[[Any], str] | None = None,
        background: bool = True,
        prefix: str = "",
    ) -> None:
        self.settings = settings_of(settings)
        self.background = background and self.settings.async_enabled
        new_redaction(self.settings)  # here, and not with the first result: a hook that fails lets it pass
        dialect = dialect_of(self.settings)
        self.dialect = with_prefix(dialect.plain or dialect, prefix)  # model APIs refuse dots in names
        self._open: Callable[[], Sessions] = lambda: Sessions.open(
            home=home, settings=self.settings, dialect=self.dialect, store=store, own_loop=False
        )
        self._session = session
        self._lock = threading.Lock()
        self._threads = _Threads()
        self._pool: Sessions | None = None
        self._rooms: weakref.WeakKeyDictionary[Holdall, int] = weakref.WeakKeyDictionary()
        self._named: weakref.WeakKeyDictionary[Holdall, set[str]] = weakref.WeakKeyDictionary()
        self._calls: weakref.WeakKeyDictionary[Holdall, dict[str, weakref.ref[_Call]]] = weakref.WeakKeyDictionary()

    @property
    def pool(self) -> Sessions:
        pool = self._pool
        if pool is None or pool.portal.is_forked:  # a server may fork its workers after the adapter was made
            with self._lock:
                pool = self._pool
                if pool is None or pool.portal.is_forked:
                    pool = self._pool = self._open()
                    _wind_up_at_exit(self)
        return pool

    def close(self) -> None:
        """Give back threads, files and the SQL process. No session ends; the next use opens them again."""
        with self._lock:
            pool, self._pool = self._pool, None
            threads, self._threads = self._threads, _Threads()
        threads.close()
        if pool is not None:
            pool.close_now(ends=False)

    def name(self, context: object, identity: Callable[[], object]) -> str:
        """The session of a conversation: what the user of the adapter said, else what the framework calls it."""
        if self._session is None:
            found, prefix = identity(), _CONVERSATION
        else:
            found, prefix = self._session(context) if callable(self._session) else self._session, ""
        if found is None or found == "":
            raise UsageError(
                "this conversation has no identity, so its outputs would be open to every other one. "
                'Give it one as your framework does, or name a session: session="NAME" of the adapter for one that all '
                "share, or a function that names it from the call's context."
            )
        text = str(found)
        if len(prefix) + len(text) <= _LONGEST_NAME and text.isprintable():
            return prefix + text
        return f"{prefix}conversation-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def of(self, name: str) -> Use:
        """The bag of a session, for as long as the block lasts: `with` or `async with`."""
        return self.pool.of(name)

    # Our own tools

    def taken_names(self, names: Iterable[str]) -> frozenset[str]:
        """Those of a program's tools that are called like ours. What they say would pass for our words: they are left
        out, and that is said.
        """
        taken = frozenset(name for name in names if self.owns(name))
        if taken:
            listed = ", ".join(sorted(taken))
            warnings.warn(f"Left out, for it has the name of a tool of Holdall: {listed}", stacklevel=3)
        return taken

    def specs(self) -> tuple[ToolSpec, ...]:
        """Every tool of ours, for frameworks that register tools before there is a conversation."""
        asks = bool(self.settings.extraction_model) or not self.dialect.extracts_with_model
        return self.dialect.specs(waits=self.background or not self.dialect.waits_later, asks=asks)

    def owns(self, tool: str) -> bool:
        return self.dialect.tool(tool) is not None

    async def answer(self, name: str, tool: str, arguments: object) -> Answer:
        """A call of one of our tools: always an answer, never a handle."""
        async with self.of(name) as bag:
            return await self._answered(bag, tool, arguments)

    def answer_now(self, name: str, tool: str, arguments: object) -> Answer:
        """`answer` for code without a loop."""
        with self.of(name) as bag:
            return self.pool.portal.call(self._answered(bag, tool, arguments))

    async def _answered(self, bag: Holdall, tool: str, arguments: object) -> Answer:
        answer = await bag.call(tool, arguments, tokens_left=self._rooms.get(bag))
        self._spend(bag, answer.text)
        return answer

    # Results of other tools

    async def result(  # noqa: PLR0913 - what frameworks tell of a call
        self,
        name: str,
        call: Callable[[], Awaitable[Result]],
        *,
        tool: str,
        running: Callable[[str], Result],
        arguments: Any = None,
        call_id: str = "",
        take: Callable[[Result], Iterable[object]] | None = None,
        put: Callable[[Result, list[object]], Result] | None = None,
        waits: bool = False,
    ) -> Result:
        """Make the call, and give what the model should get of what it returned: the same object where that fits.

        What it raises is raised, as it was; an error that is too large, or has to be masked, with what the model may
        see of it in the place of its text. A slow one goes to the background, where that is on: `running` makes a
        result of the text that says so; never one that `waits`. Where a result holds several outputs, `take` finds
        them, and `put` gives the result with others in their places.
        """
        async with self.of(name) as bag:
            origin = {"tool": tool, "arguments": arguments, "call_id": call_id}
            try:
                ended = Ended(await call()) if waits else await self._raced(bag, call, origin, take)
            except Exception as error:
                ended = await self._error_shown(bag, error, origin)
                if ended is error:
                    error.__traceback__ = _of_tool(error.__traceback__)
                    raise
            if isinstance(ended, Exception):  # here, where the old one is not its context
                raise ended
            if isinstance(ended, Running):
                return running(ended.content)
            shown = await self._taken(bag, ended.value, origin, take, put)
            return await self._without_secrets(bag, shown, tool, running)

    async def masked(self, name: str, value: Any, tool: str) -> Any:
        """A value whose form has to stay: without the secrets where its tool has `redact`, else as it is."""
        async with self.of(name) as bag:
            redaction = bag.core.redaction_of(tool)
            return value if redaction is None else await in_thread(redaction.masked, {"value": value})

    def result_now(
        self,
        name: str,
        call: Callable[[], Result],
        *,
        tool: str,
        running: Callable[[str], Result],
        arguments: Any = None,
        call_id: str = "",
        take: Callable[[Result], Iterable[object]] | None = None,
        put: Callable[[Result, list[object]], Result] | None = None,
    ) -> Result:
        """`result` for code without a loop: the call may be in another thread, with the context of this one."""
        with self.of(name) as bag:
            origin = {"tool": tool, "arguments": arguments, "call_id": call_id}
            try:
                ended = self._raced_now(bag, call, origin, take)
            except Exception as error:
                ended = self.pool.portal.call(self._error_shown(bag, error, origin))
                if ended is error:
                    error.__traceback__ = _of_tool(error.__traceback__)
                    raise
            if isinstance(ended, Exception):
                raise ended
            if isinstance(ended, Running):
                return running(ended.content)
            if self._all_small(bag, ended.value, origin, take):  # without a step to the thread of the pool
                return ended.value
            shown = self.pool.portal.call(self._taken(bag, ended.value, origin, take, put))
            return self.pool.portal.call(self._without_secrets(bag, shown, tool, running))

    def _all_small(
        self,
        bag: Holdall,
        value: Result,
        origin: Mapping[str, Any],
        take: Callable[[Result], Iterable[object]] | None,
    ) -> bool:
        """Whether it fits, and that was recorded. Several outputs, or a room to share, need the long way."""
        outputs = [value] if take is None else list(take(value))
        if not outputs:
            return bag.core.redaction_of(str(origin["tool"])) is None
        if len(outputs) > 1 or self._rooms.get(bag) is not None:
            return False
        return isinstance(
            take_small(
                bag.core, outputs[0], Origin.given(**{"server": "", "arguments": None, "call_id": ""} | dict(origin))
            ),
            Inline,
        )

    async def _taken(
        self,
        bag: Holdall,
        value: Result,
        origin: Mapping[str, Any],
        take: Callable[[Result], Iterable[object]] | None,
        put: Callable[[Result, list[object]], Result] | None,
    ) -> Result:
        if take is None or put is None:
            return cast("Result", await self.shown(bag, value, **origin))
        outputs = list(take(value))
        shown = [await self.shown(bag, one, **origin) for one in outputs]
        same = all(new is old for new, old in zip(shown, outputs, strict=True))
        return value if same else put(value, shown)

    async def _without_secrets(
        self, bag: Holdall, result: Result, tool: str, as_result: Callable[[str], Result]
    ) -> Result:
        """Where its tool has `redact`: what a framework's own objects hold beside their outputs, names for instance."""
        if (redaction := bag.core.redaction_of(tool)) is None:
            return result
        masked = await in_thread(redaction.masked, {"value": result})
        if type(masked) is type(result) or (isinstance(masked, Mapping) and isinstance(result, Mapping)):
            return cast("Result", masked)
        return as_result(withheld_note(type(result).__name__))

    async def shown(self, bag: Holdall, value: object, *, tool: str, arguments: Any = None, call_id: str = "") -> Any:
        """What the model should get of one output. Calls of one turn share the room, where the window is known."""
        left = self._rooms.get(bag)
        bag.core.only_content = True
        while True:
            taken = await bag.take(value, tool=tool, arguments=arguments, call_id=call_id, tokens_left=left)
            before, left = left, self._rooms.get(bag)
            if before is None or self._spend(bag, taken.content) or taken.content is not value:
                return taken.content
            if left is None or left >= before:  # no other call of this turn was faster: it cannot be shorter
                return taken.content

    async def _error_shown(self, bag: Holdall, error: Exception, origin: Mapping[str, Any]) -> Exception:
        """The same where its text fits and nothing in it is masked: frameworks tell their models what a tool raised."""
        text, core = str(error), bag.core
        if is_small_text(core, text, str(origin["tool"])) and not core.imitates(text):
            return error
        if _PASSED & {one.__name__ for one in type(error).__mro__}:
            return error
        limits = core.limits_for(str(origin["tool"]))
        is_large = not isinstance(decide(text, limits=limits, tokenizer=core.tokenizer), Fits)
        # What is kept is kept as an error, with its traceback.
        shown = value_as_text(await self.shown(bag, error if is_large else text, **origin))
        if shown == text:
            return error
        try:
            # What a tool with `redact` raised may have its secret in any of its attributes.
            return _with_text(error, text, shown, is_masked=core.redaction_of(str(origin["tool"])) is not None)
        except Exception:
            _LOG.debug("An error of %s cannot be copied", type(error).__name__)
        return RuntimeError(shown)

    async def _raced(
        self,
        bag: Holdall,
        call: Callable[[], Awaitable[Result]],
        origin: Mapping[str, Any],
        take: Callable[[Result], Iterable[object]] | None,
    ) -> Ended | Running:
        """On the loop of the framework, whose connections the tool uses. It goes to the pool only if it is slow."""
        seconds = bag.jobs.patience(str(origin["tool"])) if self.background else None
        if seconds is None:
            return Ended(await call())
        started, task = time.monotonic(), _Call(call, str(origin["tool"]))
        try:
            await asyncio.wait((task,), timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return Ended(task.result())

        async def rest() -> object:
            return _stored(await task, take)

        task.grace_seconds = self.settings.grace_seconds
        raced = await bag.race(
            asyncio.ensure_future(rest()), **origin, background=True, elapsed_seconds=time.monotonic() - started
        )
        if not isinstance(raced, Running):
            return Ended(await task)
        self._calls.setdefault(bag, {})[raced.handle] = weakref.ref(task)  # which holds what it returned
        return raced

    def _raced_now(
        self,
        bag: Holdall,
        call: Callable[[], Result],
        origin: Mapping[str, Any],
        take: Callable[[Result], Iterable[object]] | None,
    ) -> Ended | Running:
        seconds = bag.jobs.patience(str(origin["tool"])) if self.background else None
        if seconds is None:
            return Ended(call())
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()
        done.set_running_or_notify_cancel()  # a thread cannot be cancelled
        context = contextvars.copy_context()

        def work() -> None:
            try:
                done.set_result(context.run(call))
            except BaseException as raised:  # whatever it is: it is raised where the call was made
                done.set_exception(raised)

        started = time.monotonic()
        self._threads.run(work)
        try:
            return Ended(done.result(seconds))
        except TimeoutError:
            if done.done():  # it is the call's own, or it has ended just now
                return Ended(done.result())

        async def rest() -> object:
            return _stored(await asyncio.wrap_future(done), take)

        raced = self.pool.portal.call(_race(bag, rest, origin, time.monotonic() - started))
        return raced if isinstance(raced, Running) else Ended(done.result())

    def wind_up(self) -> None:
        """The program ends. Calls in the background have their grace: those in threads, and those on a loop that was
        left open, which is run for them. What they have given by then is kept.
        """
        pool = self._pool
        if pool is None or pool.portal.is_forked or pool.portal.is_closed or not (busy := pool.busy):
            return
        running = [
            f"{foreign(one.tool)} ({bag.core.shown_handle(one.handle)})"
            for bag in busy
            for one in bag.jobs.still_running()
        ]
        if running:
            _LOG.warning(
                "The program ends, and %s in the background: %s. They have %g s (grace_seconds) to end.",
                "1 call still runs" if len(running) == 1 else f"{len(running)} calls still run",
                ", ".join(running), self.settings.grace_seconds,
            )  # fmt: skip
        why = "the program has ended"
        tasks = [one() for bag in busy for one in tuple(self._calls.get(bag, {}).values())]
        for loop in {task.get_loop() for task in tasks if task is not None}:
            if not loop.is_running() and not loop.is_closed():
                loop.run_until_complete(pool.portal.run(_wound_up(busy, why)))
        pool.portal.call(_wound_up(busy, why))

    # Requests to the model

    async def request(self, name: str, *, turn: int, texts: Callable[[], Iterable[str]]) -> Additions:
        """For the request of this turn, whose messages have these texts. `Settings.window` is what they have to fit
        into: with it, results of this turn share the room that is left.
        """
        async with self.of(name) as bag:
            if calls := self._calls.get(bag):
                await _caught_up(bag, calls)
            return self._additions(bag, turn, texts)

    def request_now(self, name: str, *, turn: int, texts: Callable[[], Iterable[str]]) -> Additions:
        """`request` for code without a loop."""
        with self.of(name) as bag:
            return self._additions(bag, turn, texts)

    def _additions(self, bag: Holdall, turn: int, texts: Callable[[], Iterable[str]]) -> Additions:
        window, used = self.settings.window, None
        if window is not None:
            used = sum(map(bag.core.count, texts()))
            self._rooms[bag] = room_of_turn(window, used)
        named = self._named.setdefault(bag, set(bag.core.kept))  # by a notice, or when this process opened the session
        if not (tools := bag.tools()):
            return Additions()
        now = "\n".join(texts())
        here = {handle for handle in bag.core.kept if bag.core.shown_handle(handle) in now}
        lost = not named <= here  # a compaction has removed a notice, or its transcript was not given again
        named |= here
        notice = ""
        if bag.jobs.calls or lost:
            notice = bag.system_notice(turn=turn, tokens_used=used, window=window, kept=lost, only_news=True)
        return Additions(tools, bag.instructions(), notice)

    def _spend(self, bag: Holdall, content: object) -> bool:
        """Whether there was room for it."""
        with self._lock:
            left = self._rooms.get(bag)
            if left is None:
                return True
            tokens = bag.core.count(value_as_text(content))
            if tokens > left:
                return False
            self._rooms[bag] = left - tokens
            return True


_IDLE_THREADS = 8


class _Threads:
    """Threads for calls that a thread waits for. A pool of a fixed size could lock up, for a tool may call others; a
    new thread for each call costs more than all else that is done here.
    """

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._is_closed = False

    def run(self, work: Callable[[], None]) -> None:
        try:
            waiting = self._idle.pop()
        except IndexError:
            waiting = queue.SimpleQueue[Callable[[], None] | None]()
            threading.Thread(target=self._serve, args=(waiting,), name="holdall call", daemon=True).start()
        waiting.put(work)

    def _serve(self, waiting: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
        while (work := waiting.get()) is not None:
            work()
            del work  # and what its call returned
            if self._is_closed or len(self._idle) >= _IDLE_THREADS:
                return
            self._idle.append(waiting)

    def close(self) -> None:
        """A thread that runs a call ends with it."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().put(None)


def _with_text(error: Exception, text: str, shown: str, *, is_masked: bool) -> Exception:
    """One of the same type, with its other attributes, that says `shown`: programs catch errors by their types. Raises
    TypeError where that cannot be made.
    """
    kind = type(error)
    try:
        new = _copied(error)
        new.args, new.__cause__, new.__context__, new.__traceback__ = (shown,), None, None, None
        vars(new).update({name: shown for name, value in vars(new).items() if value == text})  # as `message`
        if str(new) == shown:
            return new
    except Exception:
        new = None
    if is_masked:
        raise TypeError(kind.__name__)

    def told(_: object) -> str:
        return shown

    members = {"__str__": told, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    says: Any = type(kind.__name__, (kind,), members)
    if new is not None:
        with contextlib.suppress(TypeError):  # it is one of Python's own, which keep their class
            new.__class__ = says
            return new
    new = says(shown)
    for name in ("errno", "strerror"):
        if isinstance(error, OSError):
            setattr(new, name, getattr(error, name))
    return new


def _copied(error: Exception) -> Exception:
    """Not by its constructor, which may take other arguments than `args`."""
    new = type(error).__new__(type(error), *error.args)
    vars(new).update(vars(error))
    return new


def _stored(value: Any, take: Callable[[Any], Iterable[object]] | None) -> object:
    """What is kept of a call that ended in the background: nobody is left who could use more than its outputs."""
    outputs = [value] if take is None else list(take(value))
    return outputs[0] if len(outputs) == 1 else outputs


async def _race(
    bag: Holdall, rest: Callable[[], Coroutine[Any, Any, object]], origin: Mapping[str, Any], elapsed: float
) -> Ended | Running:
    return await bag.race(asyncio.ensure_future(rest()), **origin, background=True, elapsed_seconds=elapsed)


_AROUND = frozenset((__name__, f"{__name__}.functions", "concurrent.futures._base", "asyncio.tasks"))


def _of_tool(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames around the tool: a framework may show its model the whole of it."""
    own = trace
    while own is not None and own.tb_frame.f_globals.get("__name__") in _AROUND:
        own = own.tb_next
    return own or trace


# When loops and programs end


class _Call(asyncio.Task[Any]):
    """The call of a tool, on the loop of its framework. `asyncio.run` cancels what is left on its loop when it ends: a
    call whose handle a model has gets `grace_seconds` first.
    """

    def __init__(self, call: Callable[[], Awaitable[object]], tool: str) -> None:
        async def called() -> object:
            return await call()

        self.tool = tool
        self.grace_seconds = 0.0
        self._is_held = False
        super().__init__(called(), loop=asyncio.get_running_loop())

    def cancel(self, msg: Any = None) -> bool:
        loop, grace = self.get_loop(), self.grace_seconds
        # While its loop does not run, only the one who closes that cancels. An interrupt of the user is not held up.
        if not grace or self.done() or loop.is_running() or isinstance(sys.exception(), KeyboardInterrupt):
            return super().cancel(msg)
        if not self._is_held:  # it is cancelled once more by each task that waits for it
            self._is_held = True
            loop.call_later(grace, self.cancel)
            _LOG.warning(
                "%s still runs in the background, and its event loop is closing: it has %g s (grace_seconds) to end.",
                foreign(self.tool), grace,
            )  # fmt: skip
        return True


_TURNS = 20  # of a loop that runs again, in which it hears what came while it stood still


async def _caught_up(bag: Holdall, calls: "dict[str, weakref.ref[_Call]]") -> None:
    """A loop that runs from time to time (`run_sync`) has to hear first what has ended meanwhile."""
    loop = asyncio.get_running_loop()
    here = {handle: task for handle, one in calls.items() if (task := one()) is not None and task.get_loop() is loop}
    for _ in range(_TURNS):
        if all(task.done() for task in here.values()):
            break
        await asyncio.sleep(0)
    over = [handle for handle, one in calls.items() if (task := one()) is None or task.done()]
    await bag.jobs.ended(over)
    for handle in over:
        calls.pop(handle, None)


_open: "weakref.WeakSet[Conversations]" = weakref.WeakSet()


def _wind_up_at_exit(conversations: Conversations) -> None:
    """Before the thread pools of Python refuse work: at exit, what was registered last comes first."""
    if not _open:
        concurrent.futures.ThreadPoolExecutor  # noqa: B018 - loads it: those of Python are to be registered before ours
        register: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)
        with contextlib.suppress(RuntimeError):  # the program ends already
            register(_wind_up_all)
    _open.add(conversations)


async def _wound_up(bags: Iterable[Holdall], why: str) -> None:
    await asyncio.gather(*(bag.jobs.wind_up(why) for bag in bags))


def _wind_up_all() -> None:
    for conversations in tuple(_open):
        try:
            conversations.wind_up()
        except Exception:
            _LOG.exception("Calls in the background could not be ended.")
