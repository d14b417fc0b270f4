"""When a call must be over: one deadline for all that it does, made where the call comes in.

It is held in a context variable, which goes along into threads: every read of an output checks it, so whatever reads
(a path, an outline, a range, the window around a match) stops at it. What waits without reading, for a child process
or for its turn, waits with `wait_seconds` and checks in between. A cancelled call ends the same way.
"""

import contextlib
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from math import inf

from holdall.values.errors import OutOfTime

_LOOK_SECONDS = 0.25  # so often something that waits looks whether it was cancelled


class Deadline:
    """`seconds` from now, and by the same clock never later than that of the call that it is part of. Safe to use from
    many threads.

    It can be cancelled alone: other parts of the same call go on. Where something has been delivered, `renew` gives it
    and the call all their time again.
    """

    def __init__(
        self, seconds: float = inf, *, outer: "Deadline | None" = None, clock: Callable[[], float] | None = None
    ) -> None:
        self.clock = clock or (time.monotonic if outer is None else outer.clock)
        self._own = seconds, self.clock() + seconds
        self._outer = outer
        self.seconds, self.ends = self._first_end()
        self._is_cancelled = False

    def _first_end(self) -> tuple[float, float]:
        """Its own or that of the call around it, whichever is first."""
        outer = self._outer
        is_first = outer is not None and outer.clock is self.clock and outer.ends < self._own[1]
        return (outer.seconds, outer.ends) if outer is not None and is_first else self._own

    def renew(self) -> None:
        if self._outer is not None:
            self._outer.renew()
        self._own = self._own[0], self.clock() + self._own[0]
        self.seconds, self.ends = self._first_end()

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled or (self._outer is not None and self._outer.is_cancelled)

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._is_cancelled = True

    def check(self) -> None:
        """Raises OutOfTime after the deadline, and in a call that was cancelled."""
        if not self.is_cancelled:
            if self.clock() < self.ends:
                return
            self.seconds, self.ends = self._first_end()  # the call around it may have been renewed
            if self.clock() < self.ends:
                return
        raise OutOfTime(self.seconds)

    def wait_seconds(self) -> float:
        """How long something may wait until it looks again. Raises as `check` does."""
        self.check()
        return max(0.0, min(_LOOK_SECONDS, self.ends - self.clock()))


_current: ContextVar[Deadline | None] = ContextVar("holdall deadline", default=None)


def check() -> None:
    """Of the call that this is part of, if any."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()


def renew() -> None:
    """The same for it: what has been delivered is not lost, and who reads it may take any time."""
    deadline = _current.get()
    if deadline is not None:
        deadline.renew()


def of_seconds(seconds: float = inf, *, clock: Callable[[], float] | None = None) -> Deadline:
    """For a part of the call at hand, which has this long, or what is left of the call. With a clock of its own it has
    this long by it, and ends before only where the call is cancelled.
    """
    return Deadline(seconds, outer=_current.get(), clock=clock)


@contextlib.contextmanager
def within(seconds: float | Deadline = inf) -> Generator[Deadline]:
    """The same for all that is done in the block."""
    deadline = seconds if isinstance(seconds, Deadline) else of_seconds(seconds)
    token = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(token)
