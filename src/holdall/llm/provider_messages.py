"""Our requests as pydantic-ai writes them, its responses as we read them. Only `llm.providers` imports this.

Names of tools lose their dots on the way out, which most providers forbid, and get them back on the way in. A text
reaches the provider exactly as it is.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from holdall.llm.counting import estimated_tokens
from holdall.llm.protocol import Request
from holdall.values.chat import Message, Returned, Said, Stop, System, ToolCall, Usage, User

_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refused"}


def messages_of(messages: Sequence[Message]) -> list[ModelMessage]:
    """Neighbours that are not the model's are one request. A system message that comes late is said as the user's:
    not every provider takes one there."""
    written: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        match message:
            case System(text) if not written and all(isinstance(part, SystemPromptPart) for part in parts):
                parts.append(SystemPromptPart(text))
            case System(text) | User(text):
                parts.append(UserPromptPart(text))
            case Returned(call_id, name, text):
                parts.append(ToolReturnPart(_plain(name), text, call_id))
            case Said():
                if parts:
                    written.append(ModelRequest(parts))
                    parts = []
                written.append(ModelResponse(_said(message)))
    return [*written, ModelRequest(parts)] if parts else written


def parameters_of(request: Request) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.plain_name, description=tool.description, parameters_json_schema=dict(tool.schema))
        for tool in request.tools
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    held_to = OutputObjectDefinition(json_schema=dict(request.schema), name="reply", strict=True)
    return ModelRequestParameters(output_mode="native", output_object=held_to)


def text_of(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def calls_of(response: ModelResponse, request: Request) -> tuple[ToolCall, ...]:
    names = {tool.plain_name: tool.name for tool in request.tools}
    return tuple(
        ToolCall(part.tool_call_id, names.get(part.tool_name, part.tool_name), _arguments(part.args))
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )


def stop_of(response: ModelResponse, calls: Sequence[ToolCall]) -> Stop:
    return _STOPS.get(response.finish_reason or "", "calls" if calls else "end")


def usage_of(response: ModelResponse, request: Request) -> Usage:
    """As the provider counted; where it did not, as estimated: a ceiling on tokens must see something."""
    counted = response.usage
    if counted.input_tokens or counted.output_tokens:
        return Usage(counted.input_tokens, counted.output_tokens, counted.cache_read_tokens)
    read = sum(estimated_tokens(message.text) for message in request.messages)
    return Usage(read, estimated_tokens(text_of(response)))


def _said(message: Said) -> list[ModelResponsePart]:
    calls = [
        # What was no JSON when it came cannot be sent back as it was: some providers take nothing but an object.
        ToolCallPart(_plain(call.name), _object(call.arguments), call.id)
        for call in message.calls
    ]
    return [TextPart(message.text), *calls] if message.text or not calls else [*calls]


def _object(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, Mapping):
        return dict(cast("Mapping[str, Any]", arguments))
    return {"arguments": str(arguments)}


def _arguments(args: object) -> Any:
    """An object; where the model wrote something else, the text as it came."""
    if not isinstance(args, str):
        return args or {}
    if not args.strip():
        return {}
    try:
        read: object = json.loads(args)
    except (ValueError, RecursionError):
        return args
    return cast("dict[str, Any]", read) if isinstance(read, dict) else args


def _plain(name: str) -> str:
    return name.replace(".", "_")
