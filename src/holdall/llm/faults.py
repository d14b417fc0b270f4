"""What providers say when they refuse, and which of our errors that is. Nothing of a request is ever repeated."""

from holdall.policy.overflow import overflow_in, says_rate_limit
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow

_MOST_SHOWN = 300
_BUSY_STATUS = (408, 409, 425, 429)


def in_one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_SHOWN else flat[: _MOST_SHOWN - 1] + "…"


def says_too_long(text: str) -> bool:
    return overflow_in(text) is not None


def fault_of_status(model: str, status: int, said: str, *, retry_after: float | None = None) -> ModelFault:
    """The error for an HTTP status and what came with it."""
    message = f"{model} answered {status}: {in_one_line(said) or 'nothing more'}"
    if overflow_in(said, status=status) is not None:
        return ModelOverflow(message)
    # Some call a limit per minute 413: their words decide.
    if says_rate_limit(said) or status in _BUSY_STATUS or status >= 500:
        return ModelBusy(message, retry_after=retry_after)
    return ModelFault(message)


def fault_of_time(model: str, seconds: float) -> ModelBusy:
    return ModelBusy(f"{model} did not answer within {seconds:g} s")
