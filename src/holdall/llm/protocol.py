"""What a model promises, and what every implementation shares: pace, counts, which requests can be asked at all, which
real calls are allowed, and what a refusal means. One contract suite runs on every implementation.
"""

import os
from collections.abc import Mapping
from typing import Any, Protocol

from holdall.policy.overflow import overflow_in, says_rate_limit
from holdall.text.tokens import Estimate, TokenMeter
from holdall.values.chat import Message, Reply
from holdall.values.errors import ModelBusy, ModelCallsDisabled, ModelDenied, ModelFault, ModelOverflow, UsageError
from holdall.values.record import record
from holdall.wire.tool import ToolSpec

# What a model promises.


@record
class Request:
    """`schema` holds the reply to a JSON schema; it is not given together with tools."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None  # of the reply; the model's own most where it is None


class Model(Protocol):
    """What Holdall needs of a language model; docs/models.md names those that ship."""

    @property
    def name(self) -> str:
        """As it is written in settings: `provider:name`, `gguf:PATH`."""
        ...

    @property
    def window(self) -> int:
        """Tokens of a whole conversation, the reply included."""
        ...

    @property
    def max_output(self) -> int:
        """Tokens of one reply, at most."""
        ...

    @property
    def calls_tools(self) -> bool:
        """Whether it can be given `tools`. One that cannot is asked to write its calls as JSON, and gets no tools."""
        ...

    @property
    def keeps_schema(self) -> bool:
        """Whether a reply is held to `schema`. One that is not is asked for the form in its prompt, and gets none."""
        ...

    async def ask(self, request: Request) -> Reply:
        """One reply. Every failure raises, and never gives an empty one.

        Raises ModelBusy (a rate limit, an outage, a time-out: worth another try), ModelOverflow (the request is too
        long), ModelDenied (a wrong key: no other try helps) or ModelFault (anything else). A cancellation reaches the
        provider.
        """
        ...

    async def close(self) -> None:
        """Connections and processes end. Calling it twice is harmless."""
        ...


# How a model wants to be asked: how many requests at once, and how long one may take. It asks nothing itself.


SECONDS = 120.0  # a provider that has not answered by then seldom does


@record
class Pace:
    """`seconds` is None if the model watches the clock itself: its time starts when its turn comes."""

    at_once: int | None = None  # requests that it reads side by side; None if any number
    seconds: float | None = SECONDS


_USUAL = Pace()


def pace_of(model: Model) -> Pace:
    """An implementation may leave it out."""
    pace: Pace = getattr(model, "pace", _USUAL)
    return pace


# Tokens of what is said to a model and what it says, where nobody counts them for us. Always an estimate.


_BLOCK = 64 * 1024


def estimated_tokens(text: str) -> int:
    """In bounded time: of a long text, samples are counted."""
    meter = TokenMeter(Estimate())
    data = memoryview(text.encode("utf-8", "replace"))
    for start in range(0, len(data), _BLOCK):
        meter.feed(data[start : start + _BLOCK])
    return meter.finish()[0]


# Whether a request is one that a model can be asked at all. It judges the request, never the model's answer.


def check_request(model: Model, request: Request) -> None:
    """Refuses what the protocol forbids, with the same message for every implementation."""
    if not request.messages:
        raise UsageError(f"{model.name} was asked nothing: a request needs a message.")
    if request.tools and request.schema is not None:
        raise UsageError(f"{model.name} was given tools and a schema at once: a request has one of them.")
    if request.tools and not model.calls_tools:
        raise UsageError(f"{model.name} calls no tools by itself. Wrap it: holdall.llm.wrappers.with_tools(model).")
    if request.schema is not None and not model.keeps_schema:
        raise UsageError(f"{model.name} cannot be held to a schema. Ask for the form in the text.")


def reply_limit(model: Model, request: Request) -> int:
    """Tokens that the reply may have."""
    return min(request.max_tokens or model.max_output, model.max_output)


# Whether real models may be called here. Every implementation that costs money, a key or a processor asks this first.
#
# Tests set the variable for all of their processes, so that none of them reaches a provider by accident.


VARIABLE = "HOLDALL_REAL_MODELS"
_OFF = ("off", "no", "false", "0")


def model_calls_enabled() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() not in _OFF


def check_calls_enabled(model: str) -> None:
    if not model_calls_enabled():
        raise ModelCallsDisabled(model)


# What providers say when they refuse, and which of our errors that is. Nothing of a request is ever repeated.


_MAX_SHOWN = 300
_BUSY_STATUS = (408, 409, 425, 429)
_DENIED_STATUS = (401, 402, 403, 404)


def in_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_SHOWN else flat[: _MAX_SHOWN - 1] + "…"


def is_too_long(text: str) -> bool:
    return overflow_in(text) is not None


def error_for_status(model: str, status: int, said: str, *, retry_after: float | None = None) -> ModelFault:
    """The error for an HTTP status and what came with it."""
    message = f"{model} answered {status}: {in_one_line(said) or 'nothing more'}"
    if overflow_in(said, status=status) is not None:
        return ModelOverflow(message)
    # Some call a limit per minute 413: their words decide.
    if says_rate_limit(said) or status in _BUSY_STATUS or status >= 500:
        return ModelBusy(message, retry_after=retry_after)
    return ModelDenied(message) if status in _DENIED_STATUS else ModelFault(message)


def timeout_error(model: str, seconds: float) -> ModelBusy:
    return ModelBusy(f"{model} did not answer within {seconds:g} s")
