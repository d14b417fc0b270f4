"""What providers say when they refuse, and which of our errors that is. Nothing of a request is ever repeated."""

import re

from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow

_MOST_SHOWN = 300
_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|too many (input )?tokens|(prompt|input|request) is too long"
    r"|reduce the length|input token count|exceed_context_size|request (entity )?too large",
    re.IGNORECASE,
)
_BUSY_STATUS = (408, 409, 425, 429)
_TOO_LARGE_STATUS = 413


def in_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_SHOWN else flat[: _MOST_SHOWN - 1] + "…"


def says_too_long(text: str) -> bool:
    return _TOO_LONG.search(text) is not None


def fault_of_status(model: str, status: int, said: str, *, retry_after: float | None = None) -> ModelFault:
    """The error for an HTTP status and what came with it."""
    message = f"{model} answered {status}: {in_one_line(said) or 'nothing more'}"
    if status == _TOO_LARGE_STATUS or (status in (400, 422, 500) and says_too_long(said)):
        return ModelOverflow(message)
    if status in _BUSY_STATUS or status >= 500:
        return ModelBusy(message, retry_after=retry_after)
    return ModelFault(message)


def fault_of_time(model: str, seconds: float) -> ModelBusy:
    return ModelBusy(f"{model} did not answer within {seconds:g} s")
