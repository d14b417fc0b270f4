"""Models that are another model in every respect but one: tried again when busy, tool calls written as JSON."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from holdall.llm.catalogue import Price, price_of
from holdall.llm.protocol import Model, Pace, Request, pace_of
from holdall.values.chat import Assistant, Message, Reply, ToolCall
from holdall.values.errors import ModelBusy, ModelFault, UsageError
from holdall.values.record import record
from holdall.wire.actions import Action, action_schema, as_plain_messages, of_use, read_action
from holdall.wire.agent_texts import FINAL_REPORT

# A model that is another model in every respect but the one that a subclass changes.


class ModelWrapper:
    def __init__(self, model: Model) -> None:
        self.inner = model

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def window(self) -> int:
        return self.inner.window

    @property
    def max_output(self) -> int:
        return self.inner.max_output

    @property
    def calls_tools(self) -> bool:
        return self.inner.calls_tools

    @property
    def keeps_schema(self) -> bool:
        return self.inner.keeps_schema

    @property
    def price(self) -> Price | None:
        return price_of(self.inner)

    @property
    def pace(self) -> Pace:
        return pace_of(self.inner)

    async def ask(self, request: Request) -> Reply:
        return await self.inner.ask(request)

    async def close(self) -> None:
        await self.inner.close()


# Another try for a model that is busy, after a pause, a bounded number of times. Other errors pass through.
#
# Every failed try is reported: `ask_again` takes a callback for one call, `Retrying` one for all calls of a model.


TRIES = 3
LONGEST_PAUSE = 60.0  # seconds; a provider that wants a longer one is not waited for
_FIRST_PAUSE = 1.0


@record
class Retry:
    """A try that failed and is repeated after `pause` seconds. `number` counts from 1."""

    number: int
    fault: ModelFault
    pause: float


@record
class RetryPolicy:
    """How often, on which errors, and how the time is spent in between. `chance` gives a number from 0 to 1."""

    tries: int = TRIES
    on: type[ModelFault] | tuple[type[ModelFault], ...] = ModelBusy
    longest_pause: float = LONGEST_PAUSE
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def pause_after(self, failed: int, fault: ModelFault) -> float | None:
        """Seconds until the next try; None if there is none."""
        if failed >= self.tries or not isinstance(fault, self.on):
            return None
        wanted = fault.retry_after if isinstance(fault, ModelBusy) else None
        if wanted is not None and wanted > self.longest_pause:
            return None
        # Not all at once: calls that were refused together would otherwise come back together.
        pause = _FIRST_PAUSE * 2 ** (failed - 1) * (0.5 + self.chance() / 2)
        return min(max(pause, wanted or 0.0), self.longest_pause)


_USUAL = RetryPolicy()


async def ask_again(
    model: Model, request: Request, *, patience: RetryPolicy = _USUAL, on_retry: Callable[[Retry], object] | None = None
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


class Retrying(ModelWrapper):
    """A model that is asked again where it was busy. `retries` counts the tries that were repeated, of all calls."""

    def __init__(
        self,
        model: Model,
        *,
        patience: RetryPolicy = _USUAL,
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


# Tools for a model that has no calls of its own: it writes its call as JSON, held to a schema where it can be.
#
# The texts and the reader are in `wire.actions`; this only puts them around a model. A request without tools passes
# unchanged.


def with_tools(model: Model) -> Model:
    """The same model, able to call tools; itself where it is already."""
    return model if model.calls_tools else JsonToolCalls(model)


class JsonToolCalls(ModelWrapper):
    """Every tool call is an action that the model writes, one a turn."""

    @property
    def calls_tools(self) -> bool:
        return True

    async def ask(self, request: Request) -> Reply:
        if request.tools and request.schema is not None:
            raise UsageError(f"{self.name} was given tools and a schema at once: a request has one of them.")
        if not request.tools:
            messages = as_plain_messages(request.messages) if _has_calls(request.messages) else request.messages
            return await self.inner.ask(replace(request, messages=messages))
        # What a model writes that is not held to the schema may be no answer to anybody: it says when it reports.
        is_held = self.inner.keeps_schema
        tools = of_use(request.tools) if is_held else request.tools
        schema = action_schema(tools) if is_held else None
        messages = as_plain_messages(request.messages, tools)
        reply = await self.inner.ask(replace(request, messages=messages, tools=(), schema=schema))
        action = read_action(reply.text, tools)
        if is_held and action.answer and any(tool.name == FINAL_REPORT.name for tool in request.tools):
            action = Action(tool=FINAL_REPORT.name, arguments={"report": action.answer})
        if not action.tool:
            return replace(reply, text=action.answer)
        call = ToolCall(f"action-{_calls_so_far(request.messages) + 1}", action.tool, action.arguments)
        return replace(reply, text="", calls=(call,), stop="length" if reply.stop == "length" else "calls")


def _has_calls(messages: tuple[Message, ...]) -> bool:
    return _calls_so_far(messages) > 0


def _calls_so_far(messages: tuple[Message, ...]) -> int:
    return sum(len(message.calls) for message in messages if isinstance(message, Assistant))
