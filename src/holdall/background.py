"""Race a call against the clock; the loser goes on as a job of its session.

It knows no store, no dialect and no model. A job is a task with a place in `policy.lifecycle`; whoever dispatches it
says what it does and is told when it has ended. Nothing here polls: every wait is for a future that somebody sets.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from holdall.policy.lifecycle import CallState, Step, after, has_ended

_STARTED = after("queued", "started")
CLEAN_UP_SECONDS = 2.0  # a cancelled call has so long to clean up; then it is left alone and what it gives is dropped


class Overdue(Exception):
    """The call took longer than it may."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"timed out after {seconds:g}s")


class Job:
    """One dispatched call. Its outcome is there when it has ended: what it returned, or what it raised."""

    # Ten thousand of them may wait at once.
    __slots__ = (
        "_ended", "dispatched", "ending", "name", "outcome", "owner", "state", "task", "timeout", "timer", "watched",
    )  # fmt: skip

    def __init__(self, name: str, now: float, timeout: float | None) -> None:
        self.name = name
        self.timeout = timeout
        self.dispatched = now
        self._ended: asyncio.Future[None] | None = None
        self.state: CallState = "queued"
        self.outcome: object = None
        self.owner: Any = None  # set once it goes on in the background: then its end is handed to `at_end` first
        self.task: asyncio.Task[object] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.ending: Step | None = None  # why it was cancelled, where it was
        self.watched = False

    @property
    def ended(self) -> "asyncio.Future[None]":
        """Done when the job has ended; wait for it with asyncio.wait, which does not cancel it."""
        if self._ended is None:  # most calls end before anybody asks
            self._ended = asyncio.get_running_loop().create_future()
            if has_ended(self.state):
                self._ended.set_result(None)
        return self._ended

    def forget(self) -> None:
        """What it gave is kept by somebody else: it may be large, and a session may last for days."""
        self.outcome = None
        self.task = None

    def tell(self) -> None:
        """It has ended: wake whoever waits for it."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class _OneTurn:
    """`asyncio.sleep(0)` without its two frames."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_ONE_TURN = _OneTurn()


class Jobs:
    """The calls of one session: at most `slots` run at once, the others wait in the order of their dispatch."""

    def __init__(
        self,
        slots: int,
        *,
        clock: Callable[[], float],
        at_end: Callable[[Any, Step], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """`at_end` gets the owner of a job that has ended in the background, before anybody else hears of it."""
        self._slots = slots
        self._at_end = at_end
        self._clock = clock
        self._running = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._jobs: dict[int, Job] = {}  # those that have not ended
        self._finishing: set[asyncio.Task[None]] = set()

    @property
    def unfinished(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    def age(self, job: Job) -> float:
        return self._clock() - job.dispatched

    def dispatch(
        self, name: str, work: Callable[[], Coroutine[Any, Any, object]], *, timeout: float | None = None
    ) -> Job:
        """Start it now, or as soon as there is a slot. Its clock starts here in both cases."""
        job = self.start(name, work, timeout=timeout)
        self.watch(job)
        return job

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, object]], *, timeout: float | None = None) -> Job:
        """`dispatch` for whoever races it in the same breath: most calls end in one turn of the loop, unwatched."""
        loop = asyncio.get_running_loop()
        job = Job(name, self._clock(), timeout)
        self._jobs[id(job)] = job
        if self._running < self._slots:
            self._running += 1
            job.state = _STARTED
            job.task = loop.create_task(work())
        else:
            turn: asyncio.Future[None] = loop.create_future()
            self._queue.append(turn)
            job.task = loop.create_task(self._queued(job, turn, work))
        return job

    def watch(self, job: Job) -> None:
        """From here on its end is noticed, and it ends when its time is over."""
        if job.watched or job.task is None:
            return
        job.watched = True
        job.task.add_done_callback(partial(self._done, job))
        if job.timeout is not None:
            left = max(0.0, job.timeout - self.age(job))
            job.timer = asyncio.get_running_loop().call_later(left, self._overdue, job, job.timeout)

    async def race(self, job: Job, seconds: float | None) -> bool:
        """Whether it has ended before the clock; None means however long it takes. A cancellation reaches the call."""
        try:
            # One turn of the loop is enough for a call that does not wait for anything: no timer is set up for it.
            await _ONE_TURN
            if job.task is not None and job.task.done() and not has_ended(job.state):
                self._done(job, job.task)
            if not has_ended(job.state):
                self.watch(job)
                await asyncio.wait((job.ended,), timeout=seconds)
        except asyncio.CancelledError:
            self.cancel([job])
            await asyncio.wait((job.ended,))  # it ends, or is left alone: what it holds is free when we are gone
            raise
        return has_ended(job.state)

    def cancel(self, jobs: Iterable[Job], step: Step = "aborted") -> None:
        """Ask them to end. One that does not within its time is left alone, and counts as ended."""
        for job in list(jobs):
            if job.task is not None and not has_ended(job.state):
                self.watch(job)
                job.ending = job.ending or step
                job.task.cancel()
                asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._abandon, job)

    async def wait(self, jobs: Iterable[Job], *, seconds: float | None, all_of_them: bool = False) -> None:
        """Until one of them, or all, have ended."""
        jobs = list(jobs)
        for job in jobs:
            self.watch(job)
        ends = [job.ended for job in jobs if not job.ended.done()]
        if ends:
            condition = asyncio.ALL_COMPLETED if all_of_them else asyncio.FIRST_COMPLETED
            await asyncio.wait(ends, timeout=seconds, return_when=condition)

    async def settled(self) -> None:
        """Until the outputs of all that have ended are whole."""
        while self._finishing:
            await asyncio.wait(list(self._finishing))

    # Inside

    async def _queued(
        self, job: Job, turn: "asyncio.Future[None]", work: Callable[[], Coroutine[Any, Any, object]]
    ) -> object:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given in the moment of the cancellation
                self._release()
            else:
                with suppress(ValueError):
                    self._queue.remove(turn)
            raise
        job.state = after(job.state, "started")
        return await work()

    def _release(self) -> None:
        """The slot goes to whoever waits longest."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _overdue(self, job: Job, seconds: float) -> None:
        job.outcome = Overdue(seconds)
        self.cancel([job], "overdue")

    def _abandon(self, job: Job) -> None:
        if not has_ended(job.state) and job.task is not None and not job.task.done():
            self._end(job, job.ending or "aborted")

    def _done(self, job: Job, task: "asyncio.Task[object]") -> None:
        """The task has ended by itself, or by a cancellation that it obeyed."""
        error = None if task.cancelled() else task.exception()  # asked for in any case: nobody else would
        if id(job) not in self._jobs:  # it was left alone before
            return
        if task.cancelled():
            step: Step = job.ending or "aborted"
            job.outcome = job.outcome if step == "overdue" else asyncio.CancelledError()
        elif error is not None:
            step = "raised" if job.ending is None else job.ending
            job.outcome = error if job.ending is None else job.outcome or error
        else:
            step = "finished"
            job.outcome = task.result()
        self._end(job, step)

    def _end(self, job: Job, step: Step) -> None:
        if job.timer is not None:
            job.timer.cancel()
        if self._jobs.pop(id(job), None) is None:
            return
        if job.state == "running":
            self._release()
        if job.owner is None or self._at_end is None:
            self._settled(job, step)
        else:
            finishing = asyncio.get_running_loop().create_task(self._finish(job, step))
            self._finishing.add(finishing)
            finishing.add_done_callback(self._finishing.discard)

    async def _finish(self, job: Job, step: Step) -> None:
        """Its output is made whole before anybody hears that it has ended."""
        try:
            if self._at_end is not None:
                await self._at_end(job.owner, step)
        finally:
            self._settled(job, step)

    def _settled(self, job: Job, step: Step) -> None:
        if step == "finished" and job.state == "queued":  # cannot be, and must not be hidden if it is
            step = "lost"
        job.state = after(job.state, step)
        job.tell()
