"""Another try for a model that is busy, after a pause, a bounded number of times. What else goes wrong goes through.

Whoever accounts for calls is told of every try that failed: `ask_again` takes a callback for one call, `Retrying` one
for all calls of a model.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdall.llm.protocol import Model, Request
from holdall.llm.wrapped import Wrapped
from holdall.values.chat import Reply
from holdall.values.errors import ModelBusy, ModelFault

TRIES = 3
LONGEST_PAUSE = 60.0  # seconds; a provider that wants a longer one is not waited for
_FIRST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Retry:
    """A try that failed and is repeated after `pause` seconds. `number` counts from 1."""

    number: int
    fault: ModelFault
    pause: float


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, on which errors, and how the time is spent in between. `chance` gives a number from 0 to 1."""

    tries: int = TRIES
    on: type[ModelFault] | tuple[type[ModelFault], ...] = ModelBusy
    longest_pause: float = LONGEST_PAUSE
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def pause_after(self, failed: int, fault: ModelFault) -> float | None:
        """Seconds until the next try; None where there is none."""
        if failed >= self.tries or not isinstance(fault, self.on):
            return None
        wanted = fault.retry_after if isinstance(fault, ModelBusy) else None
        if wanted is not None and wanted > self.longest_pause:
            return None
        # Not all at once: calls that were refused together would otherwise come back together.
        pause = _FIRST_PAUSE * 2 ** (failed - 1) * (0.5 + self.chance() / 2)
        return min(max(pause, wanted or 0.0), self.longest_pause)


_USUAL = Patience()


async def ask_again(
    model: Model, request: Request, *, patience: Patience = _USUAL, on_retry: Callable[[Retry], object] | None = None
) -> Reply:
    """The reply, or the error of the last try."""
    failed = 0
    while True:
        try:
            return await model.ask(request)
        except ModelFault as fault:
            failed += 1
            pause = patience.pause_after(failed, fault)
            if pause is None:
                raise
            if on_retry is not None:
                on_retry(Retry(failed, fault, pause))
        await patience.sleep(pause)


class Retrying(Wrapped):
    """A model that is asked again where it was busy. `retries` counts the tries that were repeated, of all calls."""

    def __init__(
        self,
        model: Model,
        *,
        patience: Patience = _USUAL,
        on_retry: Callable[[Request, Retry], object] | None = None,
    ) -> None:
        super().__init__(model)
        self.retries = 0
        self._patience = patience
        self._on_retry = on_retry

    async def ask(self, request: Request) -> Reply:
        def told(retry: Retry) -> None:
            self.retries += 1
            if self._on_retry is not None:
                self._on_retry(request, retry)

        return await ask_again(self.inner, request, patience=self._patience, on_retry=told)
