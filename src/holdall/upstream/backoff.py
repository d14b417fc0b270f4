"""When a server that died may be started again. Pure: the time is handed in, nothing waits here."""

from dataclasses import dataclass

_FIRST = 0.5
_MOST = 60.0
PATIENCE = 4.0  # a call waits so long for the next start; where that is further away it is told so at once


@dataclass(frozen=True, slots=True)
class Backoff:
    """`failures` counts ends in a row before which no request was answered, and the last one that there was."""

    failures: int = 0
    since: float = 0.0

    def failed(self, now: float) -> "Backoff":
        return Backoff(self.failures + 1, now)

    def wait(self, now: float) -> float:
        """Seconds until the next start. After the first failure there is none: a server may die once."""
        if self.failures < 2:
            return 0.0
        pause = min(_MOST, _FIRST * 2.0 ** min(self.failures - 2, 20))
        # A clock that was set back must not make it longer than it is.
        return min(pause, max(0.0, self.since + pause - now))
