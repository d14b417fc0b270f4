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
    """`seconds` from now, and never later than that of the call that it is part of. Safe to use from many threads.

    It can be cancelled alone: other parts of the same call go on.
    """

    def __init__(
        self, seconds: float = inf, *, outer: "Deadline | None" = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock if outer is None else outer.clock
        self.seconds = seconds
        self.ends = self.clock() + seconds
        if outer is not None and outer.ends < self.ends:
            self.seconds, self.ends = outer.seconds, outer.ends
        self._outer = outer
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled or (self._outer is not None and self._outer.is_cancelled)

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self._is_cancelled = True

    def check(self) -> None:
        """Raises OutOfTime after the deadline, and in a call that was cancelled."""
        if self.is_cancelled or self.clock() >= self.ends:
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


def of_seconds(seconds: float = inf) -> Deadline:
    """For a part of the call at hand, which has this long, or what is left of the call."""
    return Deadline(seconds, outer=_current.get())


@contextlib.contextmanager
def within(seconds: float | Deadline = inf) -> Generator[Deadline]:
    """The same for all that is done in the block."""
    deadline = seconds if isinstance(seconds, Deadline) else of_seconds(seconds)
    token = _current.set(deadline)
    try:
        yield deadline
    finally:
        _current.reset(token)
