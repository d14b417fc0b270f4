"""Other people's tools: dispatched as jobs, raced against the clock, and taken when they end.

The call wins: its size decides, as ever. The clock wins: it gets a handle and goes on in the background; what it has
written so far can be read under that handle, and at its end the same handle holds the whole.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdall.background import Job, Jobs, Overdue
from holdall.bag import references
from holdall.bag.attachments import flattened
from holdall.bag.calling import Calling
from holdall.bag.calls import Poured, called
from holdall.bag.commands import Command, CommandFailed
from holdall.bag.core import Parts
from holdall.bag.joining import after_written
from holdall.bag.references import Passed
from holdall.bag.sinks import Sink
from holdall.bag.taking import Prepared, prepare, stored, text_of
from holdall.policy.lifecycle import Step, after
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts, Origin, Running, State
from holdall.wire.clamp import traceback_of
from holdall.wire.dialect import View
from holdall.wire.notes import SAID_SO, unreadable
from holdall.wire.results import take_apart

_MOST_HELD = 1024 * 1024  # of what a call writes, where the limits do not bound its bytes


@dataclass(eq=False, slots=True)
class Dispatched:
    """One call on its way."""

    origin: Origin
    sink: Sink
    job: Job
    handle: str = ""
    facts: Facts | None = None  # of a call in the background that has ended
    error: str = ""  # that what it gave is an error, where it was no exception
    last: str | bytes | None = None  # what it gave, where that is more than its text
    told: bool = False  # whether its end was told by a wait
    background: bool = False  # it is not raced: it goes to the background at once
    waits: Callable[[], bool] | None = None  # whether it waits for a person now: then the clock begins anew


class Dispatching(Calling):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.jobs = Jobs(parts.settings.max_background_calls, clock=time.monotonic, at_end=self._ended)
        self.background: dict[str, Dispatched] = {}  # by handle, oldest first

    def dispatch(
        self,
        call: object,
        origin: Origin,
        schema: Mapping[str, Any] | None = None,
        *,
        background: bool = False,
        waits: Callable[[], bool] | None = None,
    ) -> Dispatched:
        """Start it, as soon as there is a slot. Whoever does not race it in the same breath watches its job."""
        terminal = isinstance(call, Command)
        origin = replace(origin, terminal=True) if terminal else origin
        stores = self.policy_of(origin.tool).store != "never" and self.dialect.stores
        sink = Sink(self, origin, self.limits_for(origin.tool).bytes or _MOST_HELD, stores=stores)

        async def resolved() -> object:
            arguments = await references.resolve(self, origin.arguments, origin.tool, schema)
            return await called(call, arguments, sink)

        def plain() -> Coroutine[Any, Any, object]:
            return called(call, origin.arguments, sink)

        work = resolved if references.is_on(self, origin.tool) else plain
        job = self.jobs.start(origin.tool or "call", work, timeout=self.settings.tool_timeout_seconds)
        return Dispatched(origin, sink, job, background=background, waits=waits)

    async def raced(self, one: Dispatched) -> Prepared | Running | str:
        """What it gave, measured; or the notice that it goes on. A plain text is given as it is."""
        patience = self._patience(one)
        try:
            while not (ended := await self.jobs.race(one.job, patience)) and one.waits is not None and one.waits():
                pass  # whoever it waits for would be asked by a call that is gone
        except asyncio.CancelledError:
            if not one.sink.is_empty and one.sink.begin():  # at once: who is cancelled does not wait for a thread
                self._finished(one, "cancelled")
            raise
        if ended:
            return one.job.outcome if type(one.job.outcome) is str and one.sink.is_empty else await self._prepared(one)
        # From here on its end is stored by `_ended`, however soon it comes.
        one.job.owner = one
        one.handle = await asyncio.to_thread(one.sink.begin)
        if not one.handle:  # the store refuses: without a handle nobody could ever fetch it, so it is waited for
            await self.jobs.race(one.job, None)
            return await self._prepared(one)
        self.background[one.handle] = one
        facts = one.sink.facts or await self.show(one.handle)
        self.kept[one.handle] = facts
        self.journal.record("running", handle=one.handle, tool=one.origin.tool, call_id=one.origin.call_id)
        state: State = "queued" if one.job.state == "queued" else "running"
        view = View(replace(facts, state=state), b"", b"", "", long_handle=self.dialect.long_handles)
        return Running(self.dialect.running(view), one.handle)

    async def passed_by_reference(self, arguments: object, *, tool: str = "") -> tuple[Passed, ...]:
        """For whoever approves a call: handle, size and hash of what its references would bring in."""
        return await references.preview(self, arguments, tool)

    # Inside

    def _patience(self, one: Dispatched) -> float | None:
        """Seconds before a call goes to the background; None where it never does."""
        if not one.sink.stores:
            return None  # of what may not be kept, nobody could fetch anything later
        if one.background:
            return 0.0
        never = self.policy_of(one.origin.tool).never_async or not self.settings.async_enabled
        return None if never or not self.dialect.races else self.settings.slow_after_seconds

    async def _prepared(self, one: Dispatched) -> Prepared:
        """Of a call that has ended before the clock."""
        outcome, sink = one.job.outcome, one.sink
        if isinstance(outcome, asyncio.CancelledError) and one.job.ending is not None:
            raise outcome  # else nobody has cancelled it: the tool itself raised that, and it is an error like others
        if sink.handle:
            await self._told(one)
            state = after("running", "raised" if one.error else _step_of(outcome))
            facts = await asyncio.to_thread(self._finished, one, state)
            if facts is not None:
                return stored(self, facts, replace(one.origin, is_error=one.origin.is_error or bool(one.error)))
        if sink.fault is not None and not sink.is_empty:
            return replace(await prepare(self, sink.joined(), one.origin), fault=sink.fault, total=sink.total)
        if isinstance(outcome, Poured):
            return await prepare(self, sink.joined(), one.origin)
        if isinstance(outcome, CommandFailed) or (isinstance(outcome, Exception) and not sink.is_empty):
            # What it wrote before it failed is its output; how it failed is told after it.
            said = after_written(sink.joined(), f"\n[{_reason(outcome)}]")
            return await prepare(self, said, replace(one.origin, is_error=True))
        if not sink.is_empty:
            return await prepare(self, after_written(sink.joined(), outcome), one.origin)
        return await prepare(self, outcome, one.origin)

    async def _ended(self, one: Dispatched, step: Step) -> None:
        """A call in the background has ended: its output is made whole under its handle, and everybody is told."""
        while not one.handle and one.sink.fault is None:
            one.handle = await asyncio.to_thread(one.sink.begin)
        if not one.handle:
            return
        await self._told(one)
        step = "raised" if one.error and step == "finished" else step
        facts = await asyncio.to_thread(self._finished, one, after("running", step))
        one.last = None
        one.job.forget()
        one.facts = facts or await self.show(one.handle)
        self.kept[one.handle] = one.facts
        measure = one.facts.measure
        self.journal.record(
            "ended", handle=one.handle, tool=one.origin.tool, call_id=one.origin.call_id, state=one.facts.state,
            seconds=self.jobs.age(one.job), bytes=measure.bytes, tokens=measure.tokens, why=one.facts.error,
        )  # fmt: skip

    async def _told(self, one: Dispatched) -> None:
        """What it returned as the text that ends its output, with what is no text set aside, and whether it failed."""
        outcome = one.job.outcome
        if isinstance(outcome, str | BaseException):
            return
        try:
            parts = take_apart(outcome)
            if parts is not None:
                one.last = await flattened(self, parts, one.origin)
                one.error = SAID_SO if parts.is_error else ""
        except Exception as problem:  # an object of the tool's own may do anything; its call must end all the same
            one.last = unreadable(one.job.outcome, problem)

    def _finished(self, one: Dispatched, state: State) -> Facts | None:
        outcome = one.job.outcome
        code = outcome.code if isinstance(outcome, CommandFailed) else 0 if one.origin.terminal else None
        error = _reason(outcome) if isinstance(outcome, BaseException) else one.error
        last: object = None
        if not isinstance(outcome, Poured | BaseException) and outcome is not None:
            whole = outcome if isinstance(outcome, bytes) else None  # as it came
            last = one.last if one.last is not None else whole if whole is not None else text_of(outcome)
        return one.sink.finish(state, last=last, error=error, exit_code=code if state in ("ready", "failed") else None)


def _step_of(outcome: object) -> Step:
    if isinstance(outcome, Overdue):
        return "overdue"
    return "raised" if isinstance(outcome, BaseException) else "finished"


def _reason(outcome: BaseException) -> str:
    """Why a call did not end as it should, in one line."""
    if isinstance(outcome, asyncio.CancelledError):
        return "cancelled"
    if isinstance(outcome, Overdue | CommandFailed | HoldallError):
        return str(outcome)
    lines = traceback_of(outcome).strip().splitlines()
    return lines[-1][:500] if lines else type(outcome).__name__
