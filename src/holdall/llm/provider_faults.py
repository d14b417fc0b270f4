"""What pydantic-ai and the libraries under it raise, as our errors. Only `llm.providers` imports this."""

from collections.abc import Mapping
from typing import cast

import pydantic_ai.exceptions as refusals

from holdall.llm.faults import fault_of_status, in_one_line, says_too_long
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow

_BUSY = (
    refusals.ModelRateLimitError,
    refusals.ModelUnavailableError,
    refusals.ModelServerError,
    refusals.ModelConnectionError,
    refusals.ModelRequestTimeout,
)


def fault_of(name: str, error: Exception) -> ModelFault:
    said = in_one_line(_message_in(getattr(error, "body", None)) or str(error))
    match error:
        case refusals.ModelContextWindowExceededError():
            return ModelOverflow(f"{name}: {said}")
        case refusals.ModelQuotaExceededError():  # waiting does not help
            return ModelFault(f"{name}: {said}")
        case refusals.ModelHTTPError():
            return fault_of_status(name, error.status_code, said, retry_after=error.retry_after)
        case refusals.ModelAPIError() if isinstance(error, _BUSY):
            return ModelBusy(f"{name}: {said}", retry_after=error.retry_after)
        case refusals.ModelAPIError() if says_too_long(said):
            return ModelOverflow(f"{name}: {said}")
        case _:
            return ModelFault(f"{name}: {said or type(error).__name__}")


def _message_in(body: object) -> str:
    """The provider's own sentence, where its answer has one."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    message = fields.get("message")
    return message if isinstance(message, str) else _message_in(fields.get("error"))
