"""Race a call against the clock; a slow call continues as a job of its session. And the loop that calls live on where
they are to outlive the loop that started them: `Portal`, an event loop in a thread.

It knows no store, no dialect and no model. A job is a task with a state of `policy.lifecycle`; the caller that
dispatches it provides the work and is notified when it ends. Nothing here polls: every wait is for a future.
"""

import asyncio
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from holdall.policy.lifecycle import CallState, Step, after, has_ended
from holdall.values.errors import SessionClosed, SessionForked, UsageError

Result = TypeVar("Result")

_STARTED = after("queued", "started")
CLEAN_UP_SECONDS = (
    2.0  # seconds that a cancelled call has to clean up; after that it is abandoned and its result dropped
)


class CallTimeout(TimeoutError):
    """The call took longer than it may."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"timed out after {seconds:g}s")


class Job:
    """One dispatched call. Once it has ended, it has an outcome: what it returned or raised."""

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
        self.owner: Any = None  # set once it continues in the background: then its end is handed to `at_end` first
        self.task: asyncio.Task[object] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.ending: Step | None = None  # why it was cancelled, where it was
        self.watched = False

    @property
    def has_ended(self) -> bool:
        """In any thread."""
        return has_ended(self.state)

    @property
    def ended(self) -> "asyncio.Future[None]":
        """Done when the job has ended; wait for it with asyncio.wait, which does not cancel it."""
        if self._ended is None:  # most calls end before anybody asks
            self._ended = asyncio.get_running_loop().create_future()
            if has_ended(self.state):
                self._ended.set_result(None)
        return self._ended

    def forget(self) -> None:
        """Drop the result, which is stored elsewhere: it may be large, and sessions may last for days."""
        self.outcome = None
        self.task = None

    def notify(self) -> None:
        """It has ended: wake the waiters."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def is_cancelled() -> bool:
    """Whether this task is being cancelled. Else a CancelledError says that what it waits for was."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


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
        """`at_end` gets the owner of a job that has ended in the background, before any waiter is woken."""
        self._slots = slots
        self._at_end = at_end
        self._clock = clock
        self._running = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._jobs: dict[int, Job] = {}  # those that have not ended
        self._finishing: set[asyncio.Task[None]] = set()
        self.last_end = clock()  # when the last of them has ended

    @property
    def is_idle(self) -> bool:
        """Whether all of them have ended and their outputs are whole."""
        return not self._jobs and not self._finishing

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

    def start(
        self,
        name: str,
        work: Callable[[], Coroutine[Any, Any, object]],
        *,
        timeout: float | None = None,
        runs: bool = False,
        elapsed: float = 0.0,
    ) -> Job:
        """`dispatch` for callers that race it immediately: most calls end in one turn of the loop and need no watch.

        What already `runs` elsewhere is not queued: it would only be said to be. It has run for `elapsed` seconds.
        """
        loop = asyncio.get_running_loop()
        job = Job(name, self._clock() - elapsed, timeout)
        self._jobs[id(job)] = job
        if runs or self._running < self._slots:
            self._running += 1
            job.state = _STARTED
            job.task = loop.create_task(work())
        else:
            turn: asyncio.Future[None] = loop.create_future()
            self._queue.append(turn)
            job.task = loop.create_task(self._queued(job, turn, work))
        return job

    def watch(self, job: Job) -> None:
        """Watch it: notice its end, and cancel it when its time is over."""
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
        """Cancel them. A job that does not end in time is abandoned and counts as ended."""
        for job in list(jobs):
            if job.task is not None and not has_ended(job.state):
                self.watch(job)
                job.ending = job.ending or step
                job.task.cancel()
                asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._abandon, job)

    async def wait(self, jobs: Iterable[Job], *, seconds: float | None, wait_for_all: bool = False) -> None:
        """Until one of them, or all, have ended."""
        jobs = list(jobs)
        for job in jobs:
            self.watch(job)
        ends = [job.ended for job in jobs if not job.ended.done()]
        if ends:
            condition = asyncio.ALL_COMPLETED if wait_for_all else asyncio.FIRST_COMPLETED
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
        """The slot goes to the job that has waited longest."""
        while self._queue and self._running <= self._slots:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def _overdue(self, job: Job, seconds: float) -> None:
        job.outcome = CallTimeout(seconds)
        self.cancel([job], "overdue")

    def _abandon(self, job: Job) -> None:
        if not has_ended(job.state) and job.task is not None and not job.task.done():
            self._end(job, job.ending or "aborted")

    def _done(self, job: Job, task: "asyncio.Task[object]") -> None:
        """The task has finished, or was cancelled."""
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
        """Complete its output before any waiter is woken."""
        try:
            if self._at_end is not None:
                await self._at_end(job.owner, step)
        finally:
            self._settled(job, step)

    def _settled(self, job: Job, step: Step) -> None:
        if step == "finished" and job.state == "queued":  # should never happen; must not be hidden if it does
            step = "lost"
        job.state = after(job.state, step)
        self.last_end = self._clock()
        job.notify()


# Another loop, in another thread.


_PATIENCE = 10.0  # seconds that a cancelled call has to end, where a thread waits for it


class _Errand:
    """A coroutine on its way to another loop. Its methods run in the thread of that loop."""

    def __init__(self, work: Coroutine[Any, Any, Any], told: "Callable[[asyncio.Task[Any] | None], None]") -> None:
        """`told` gets its task when that has ended; None if it was cancelled before it began."""
        self._work = work
        self._told = told
        self._task: asyncio.Task[Any] | None = None
        self._is_over = False

    def start(self) -> None:
        if not self._is_over:
            self._task = asyncio.ensure_future(self._work)
            self._task.add_done_callback(self._told)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self._is_over:
            self._is_over = True
            self._work.close()
            self._told(None)


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    """Run it on that loop, with the context variables of this one, and wait for its end.

    A cancellation reaches it there, and is raised here when it has ended.
    """
    here = asyncio.get_running_loop()
    if loop is here:
        return await work
    done: asyncio.Future[Result] = here.create_future()

    def told(task: "asyncio.Task[Result] | None") -> None:
        if task is not None and not task.cancelled():
            task.exception()  # asked for in any case: our loop may be gone
        with suppress(RuntimeError):  # our loop is closed: nobody waits any more
            here.call_soon_threadsafe(_hand_over, task, done)

    errand = _Errand(work, told)
    try:
        loop.call_soon_threadsafe(errand.start)
    except RuntimeError:
        work.close()
        raise
    try:
        await asyncio.wait((done,))
    except asyncio.CancelledError:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(errand.cancel)
        await asyncio.wait((done,))
        if not done.cancelled():
            done.exception()
        raise
    return done.result()


def _hand_over(
    task: "asyncio.Task[Result] | None", done: "asyncio.Future[Result] | concurrent.futures.Future[Result]"
) -> None:
    if task is None or task.cancelled():
        done.cancel()
        if isinstance(done, concurrent.futures.Future):
            done.set_running_or_notify_cancel()
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


class Portal:
    """An event loop in a thread of its own, and the ways into it. Safe to use from any thread and any loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._serve, name="holdall portal", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over:
            with suppress(SystemExit, KeyboardInterrupt):  # raised by a call: anyone who waits for it gets it
                self._loop.run_forever()

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a forked process, where the thread is not."""
        return self._process != os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the thread of the loop, where nothing may wait for it."""
        return threading.current_thread() is self._thread

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there and await it here."""
        if self.is_closed or self.is_forked:
            work.close()  # it would never be awaited
            raise SessionForked if self.is_forked else SessionClosed
        return await on_loop(self._loop, work)

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run it there and wait. An interrupt of this thread cancels it, and is raised when it has ended."""
        if self.is_closed or self.is_here or self.is_forked:
            work.close()
            if self.is_forked:
                raise SessionForked
            raise UsageError(_WOULD_WAIT_FOR_ITSELF) if self.is_here else SessionClosed()
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()
        errand = _Errand(work, lambda task: _hand_over(task, done))
        try:
            self._loop.call_soon_threadsafe(errand.start)
            return done.result()
        except (KeyboardInterrupt, SystemExit):
            # Wherever in these lines it came: what was started is known to the errand, not to a variable of this frame.
            self._loop.call_soon_threadsafe(errand.cancel)
            concurrent.futures.wait([done], _PATIENCE)
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

    def later(self, seconds: float, function: Callable[[], object]) -> bool:
        """Call it there after that time; False if there is no loop any more."""
        try:
            self._loop.call_soon_threadsafe(lambda: self._loop.call_later(seconds, function))
        except RuntimeError:
            return False
        return True

    def close(self) -> None:
        """End what still runs there, and the thread. Calling it twice is harmless."""
        if self.is_here:
            raise UsageError(_WOULD_WAIT_FOR_ITSELF)
        if self.is_forked:
            return  # it is not ours to end
        with self._closing:
            if self.is_closed:
                return
            self.call(_end_of_tasks())
            self.call(self._loop.shutdown_asyncgens())
            self.call(self._loop.shutdown_default_executor())
            self._is_over = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


_WOULD_WAIT_FOR_ITSELF = (
    "this would wait for the loop that it runs on. An asynchronous tool uses holdall.Holdall and awaits it."
)


async def _end_of_tasks() -> None:
    """Cancel what is left on this loop. What does not end within its time is left alone."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CLEAN_UP_SECONDS)
