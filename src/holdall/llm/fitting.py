"""Whether a request is one that a model can be asked at all. It judges the request, never the model's answer."""

from holdall.llm.protocol import Model, Request
from holdall.values.errors import WrongUse


def must_fit(model: Model, request: Request) -> None:
    """What the seam forbids is refused here, in the same words for every implementation."""
    if not request.messages:
        raise WrongUse(f"{model.name} was asked nothing: a request needs a message.")
    if request.tools and request.schema is not None:
        raise WrongUse(f"{model.name} was given tools and a schema at once: a request has one of them.")
    if request.tools and not model.calls_tools:
        raise WrongUse(f"{model.name} calls no tools by itself. Wrap it: holdall.llm.actions.with_tools(model).")
    if request.schema is not None and not model.keeps_schema:
        raise WrongUse(f"{model.name} cannot be held to a schema. Ask for the form in the text.")


def reply_limit(model: Model, request: Request) -> int:
    """Tokens that the reply may have."""
    return min(request.max_tokens or model.max_output, model.max_output)
