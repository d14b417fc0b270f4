"""The calls of one turn: they run side by side, and share its room when all of them have ended.

    async with bag.turn(tokens_left=40_000) as turn:
        pending = turn.run(crawl, tool="crawl", arguments={...})
    pending.content

Sizes are decided at the close: an output that alone would fit may have to be kept because others came with it.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import replace
from inspect import CORO_CREATED, getcoroutinestate
from types import TracebackType
from typing import Any, Self, TypeVar

from holdall.background import Job
from holdall.bag.core import Core
from holdall.bag.journal import ended_before
from holdall.bag.run import Dispatch, read_call
from holdall.bag.take import Prepared, prepare, settle, tokens_if_cut, tokens_of
from holdall.bag.tools import Draft, ToolCalls
from holdall.policy.decide import Fits, Want, share
from holdall.values.answers import Answer
from holdall.values.errors import UsageError
from holdall.values.outputs import Ended, Origin, Running, Taken

_SHORT_NOTICE = 150  # tokens of a notice without an outline, at most
_MIN_ANSWER = 256
_REFUSAL = 32  # of what is shown whole or not at all

_T = TypeVar("_T")


class Pending:
    """One call of a turn. What it gave is there when the turn has closed."""

    def __init__(self, name: str, work: "asyncio.Future[Prepared | Draft | Running]") -> None:
        self.name = name
        self.work = work
        self.ended = 0.0  # by `time.perf_counter`
        self.waited = 0.0  # seconds after that, for the others of the turn
        work.add_done_callback(self._stamp)
        self.is_left = False  # by an exception
        self._result: Taken | Answer | None = None

    @property
    def result(self) -> Taken | Answer:
        """What `take`, `run` or `call` would have returned."""
        if self._result is None:
            if self.is_left:
                raise UsageError(f"there is no result of {self.name!r}: an exception has ended the block of its turn.")
            raise UsageError(f"the result of {self.name!r} is there when the turn has closed: leave its block first.")
        return self._result

    @property
    def content(self) -> Any:
        """What the model should get."""
        return self.result.content

    @property
    def text(self) -> str:
        """The same as one string."""
        return self.result.text

    @property
    def is_error(self) -> bool:
        return self.result.is_error

    @property
    def handle(self) -> str:
        """Of the output that was kept, that runs or that was asked about; else empty."""
        return self.result.handle

    def settled(self, result: Taken | Answer) -> None:
        self._result = result

    def _stamp(self, _: object) -> None:
        self.ended = time.perf_counter()


class Turn:
    """Made by `Holdall.turn`."""

    def __init__(self, core: Core, dispatch: Dispatch, tools: ToolCalls, room: int | None) -> None:
        self._core = core
        self._dispatch = dispatch
        self._tools = tools
        self._room = room
        self._pending: list[Pending] = []
        # What tasks wait for: one that is cancelled before it begins has begun none of it.
        self._inside: list[tuple[Coroutine[Any, Any, object], Job | None]] = []
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    def _check_open(self) -> None:
        """Before anything is called: nobody would get what it gives."""
        if not self._is_open:
            raise UsageError(
                "calls of a turn are made inside its block: `async with bag.turn() as turn:`. It is not open."
            )

    def run(
        self,
        call: Any,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        schema: Mapping[str, Any] | None = None,
        background: bool = False,
    ) -> Pending:
        """Start it now, as `Holdall.run` does; it runs beside the others, and with `background` beyond the turn."""
        self._check_open()
        started = time.perf_counter()
        call, arguments = read_call(call, tool, arguments)
        origin = Origin.given(tool, server, arguments, call_id)
        core, dispatch = self._core, self._dispatch
        if core.shared.portal is not None:
            loop = core.loop_of_calls()
            inner = dispatch.call(call, origin, schema, background=background, waits=None, loop=loop)
            self._inside += [(work := core.at_home(inner), None), (inner, None)]
        else:
            one = dispatch.dispatch(call, origin, schema, background=background)
            dispatch.jobs.watch(one.job)
            self._inside.append((work := dispatch.raced(one), one.job))
        return self._start(tool or "run", self._measured(work, origin, started))

    def take(
        self, output: object, *, tool: str = "", arguments: Any = None, call_id: str = "", server: str = ""
    ) -> Pending:
        """An output that is there already, to share the room with the others."""
        self._check_open()
        origin = Origin.given(tool, server, arguments, call_id)
        return self._start(tool or "take", prepare(self._core, output, origin))

    def call(self, name: str, arguments: object = None) -> Pending:
        """One of our own tools."""
        self._check_open()
        return self._start(name, self._tools.draft(name, arguments, tokens_left=self._room))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        works = [asyncio.ensure_future(pending.work) for pending in self._pending]
        if error is not None:
            await self._leave(works)
            return
        try:
            done = await _all_of(works)
        except BaseException:
            await self._leave(works)
            raise
        await self._settle(done)

    async def _leave(self, works: Sequence["asyncio.Future[Any]"]) -> None:
        """Cancel them all. A task that is cancelled before it begins never does, but its call has begun."""
        for pending in self._pending:
            pending.is_left = True
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        unbegun = [(inside, job) for inside, job in self._inside if getcoroutinestate(inside) == CORO_CREATED]
        for inside, _ in unbegun:
            inside.close()
        jobs = [job for _, job in unbegun if job is not None]
        self._dispatch.jobs.cancel(jobs)
        await self._dispatch.jobs.wait(jobs, seconds=None, wait_for_all=True)

    async def _measured(
        self, work: Awaitable[Prepared | Running | Ended], origin: Origin, started: float
    ) -> Prepared | Running:
        ended = await work
        if isinstance(ended, Ended):
            ended = await prepare(self._core, ended.value, origin)
        return ended if isinstance(ended, Running) else replace(ended, started=started)

    def _start(self, name: str, work: Any) -> Pending:
        pending = Pending(name, asyncio.ensure_future(work))
        self._pending.append(pending)
        return pending

    async def _settle(self, done: list[Prepared | Draft | Running]) -> None:
        rooms: list[int | None] = [None] * len(done)
        if self._room is not None:
            rooms = list(share(self._room, [self._want(one) for one in done]))
        now = time.perf_counter()
        for pending in self._pending:
            pending.waited = now - pending.ended
        each = zip(self._pending, done, rooms, strict=True)
        settled = [self._settled(one, room, pending.waited) for pending, one, room in each]
        for pending, result in zip(self._pending, await _all_of(settled), strict=True):
            pending.settled(result)

    async def _settled(self, one: Prepared | Draft | Running, room: int | None, waited: float) -> Taken | Answer:
        if isinstance(one, Running):
            return one
        with ended_before(waited):
            if isinstance(one, Prepared):
                notice = None if room is None else max(room, _SHORT_NOTICE)
                return await settle(self._core, one, room=room, notice_room=notice)
            if room is not None and one.shorter is not None and self._core.count(one.answer.text) > room:
                one = await one.shorter(room)
            return one.given()

    def _want(self, one: Prepared | Draft | Running) -> Want:
        """The tokens that a call wants: for its whole result, or for the notice in its place."""
        if isinstance(one, Running):
            size = self._core.count(one.content)
            return Want(size, size)
        if isinstance(one, Draft):
            size = self._core.count(one.answer.text)
            return Want(size, min(size, _REFUSAL if one.whole else _MIN_ANSWER), divisible=not one.whole)
        cut = tokens_if_cut(self._core, one)
        if cut is not None:
            return Want(cut, min(cut, _SHORT_NOTICE), divisible=True)
        least = self._core.settings.notice_max_tokens if self._core.dialect.outlined else _SHORT_NOTICE
        if isinstance(one.decision, Fits):
            return Want(tokens_of(self._core, one), least)
        return Want(least, least)


async def _all_of(works: Sequence[Awaitable[_T]]) -> list[_T]:
    """`asyncio.gather`; most turns have one call, which needs no task of its own."""
    return [await works[0]] if len(works) == 1 else list(await asyncio.gather(*works))
