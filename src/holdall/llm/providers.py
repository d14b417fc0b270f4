"""Models of providers, and of any server that speaks OpenAI's chat API, through pydantic-ai. The extra `models`.

`provider:name` is what pydantic-ai knows by that name, with the key in the provider's own environment variable.
`openai:NAME@URL` is a server of your own; a key for it, where it wants one, is in HOLDALL_MODEL_KEY, and no other key
is ever sent there. Nothing is retried here; the caller retries and counts.
"""

import asyncio
import importlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from holdall.llm.catalogue import Card, Price, card_of
from holdall.llm.model_names import MODEL_KEY, VARIABLES
from holdall.llm.protocol import (
    Request,
    check_calls_enabled,
    check_request,
    error_for_status,
    estimated_tokens,
    in_one_line,
    is_too_long,
    reply_limit,
    timeout_error,
)
from holdall.text.escape import without_passwords
from holdall.values.chat import Assistant, Message, Reply, Stop, System, ToolCall, ToolResult, Usage, User
from holdall.values.errors import (
    HoldallError,
    MissingExtra,
    ModelBusy,
    ModelDenied,
    ModelFault,
    ModelOverflow,
    NoSuchModel,
)
from holdall.values.patterns import lazy_pattern

try:
    import pydantic_ai.exceptions as refusals
    from pydantic_ai.direct import model_request
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
    from pydantic_ai.models import (
        Model,
        ModelRequestParameters,
        OpenAIChatCompatibleProvider,
        infer_model,
        known_model_names,
    )
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.providers import infer_provider_class
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition
except ImportError as problem:  # pragma: no cover - the tests install every extra
    raise MissingExtra("pydantic-ai-slim", "models", "a model of a provider") from problem


# What pydantic-ai and the libraries under it raise, as our errors. Only `llm.providers` imports this.


_BUSY = (
    refusals.ModelRateLimitError,
    refusals.ModelUnavailableError,
    refusals.ModelServerError,
    refusals.ModelConnectionError,
    refusals.ModelRequestTimeout,
)


_SHORTEST_KEY = 8  # a shorter value hides more of a message than it protects


def error_from(name: str, error: Exception) -> ModelFault:
    said = in_one_line(_without_keys(_message_in(getattr(error, "body", None)) or str(error)))
    match error:
        case refusals.ModelContextWindowExceededError():
            return ModelOverflow(f"{name}: {said}")
        case refusals.ModelQuotaExceededError():  # waiting does not help
            return ModelDenied(f"{name}: {said}")
        case refusals.ModelHTTPError():
            return error_for_status(name, error.status_code, said, retry_after=error.retry_after)
        case refusals.ModelAPIError() if isinstance(error, _BUSY):
            return ModelBusy(f"{name}: {said}", retry_after=error.retry_after)
        case refusals.ModelAPIError() if is_too_long(said):
            return ModelOverflow(f"{name}: {said}")
        case _:
            return ModelFault(f"{name}: {said or type(error).__name__}")


def _without_keys(text: str) -> str:
    """A server may repeat the key that it was given, and what it says is shown to models and people."""
    names = {name for some in VARIABLES.values() for name in some if name.endswith(("_KEY", "_TOKEN"))}
    keys = [key for name in (MODEL_KEY, *names) if len(key := os.environ.get(name, "").strip()) >= _SHORTEST_KEY]
    for key in sorted(keys, key=len, reverse=True):
        text = text.replace(key, "***")
    return text


def _message_in(body: object) -> str:
    """The provider's own sentence, where its answer has one."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    fields = cast("Mapping[str, object]", body)
    message = fields.get("message")
    return message if isinstance(message, str) else _message_in(fields.get("error"))


# Our requests as pydantic-ai writes them, its responses as we read them. Only `llm.providers` imports this.
#
# Names of tools lose their dots on the way out, which most providers forbid, and get them back on the way in. A text
# reaches the provider exactly as it is.


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
            case ToolResult(call_id, name, text):
                parts.append(ToolReturnPart(_plain(name), text, call_id))
            case Assistant():
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


def _said(message: Assistant) -> list[ModelResponsePart]:
    calls = [
        # What was not JSON when it came cannot be sent back as it was: some providers take nothing but an object.
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


TIMEOUT_SECONDS = 600.0
_ADVICE = lazy_pattern(
    r" or pass it via `[^`]*`| To try Pydantic AI.*", re.DOTALL
)  # for who writes code with pydantic-ai


class ProviderModel:
    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        max_output: int | None = None,
        price: Price | None = None,
        calls_tools: bool | None = None,
        keeps_schema: bool | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """What is None is taken from the catalogue, and from what pydantic-ai knows of the model.

        Raises NoSuchModel if the name, its key or its package is not there.
        """
        self.name = without_passwords(name)  # events, answers and faults have it
        self._timeout = timeout_seconds
        self._made = lambda: _made(name)
        self._model = self._made()
        self._loop: asyncio.AbstractEventLoop | None = None
        url = _split(name)[1]
        self._given = price
        self.card: Card = card_of("" if url else name, window=window, max_output=max_output, price=price)
        profile = self._model.profile
        self.calls_tools = bool(profile.get("supports_tools", True)) if calls_tools is None else calls_tools
        listed = bool(profile.get("supports_json_schema_output", False))
        self.keeps_schema = listed if keeps_schema is None else keeps_schema

    @property
    def window(self) -> int:
        return self.card.window

    @property
    def max_output(self) -> int:
        return self.card.max_output

    @property
    def price(self) -> Price | None:
        return self.card.price

    async def ask(self, request: Request) -> Reply:
        check_calls_enabled(self.name)
        check_request(self, request)
        try:
            async with asyncio.timeout(self._timeout):
                await self._connect()
                response = await model_request(
                    self._model,
                    messages_of(request.messages),
                    model_settings=self._settings(request),
                    model_request_parameters=parameters_of(request),
                    instrument=False,  # a span would hold the texts
                )
        except TimeoutError as late:
            raise timeout_error(self.name, self._timeout) from late
        except Exception as error:  # what a provider's own library raises is not all known to pydantic-ai
            raise error_from(self.name, error) from error
        return self._reply(request, response)

    async def close(self) -> None:
        if self._loop is asyncio.get_running_loop():
            self._loop = None
            await self._model.__aexit__(None, None, None)

    async def _connect(self) -> None:
        """Connections belong to the loop that opened them; another one gets its own."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            self._model = self._made()
        self._loop = loop
        await self._model.__aenter__()

    def _settings(self, request: Request) -> ModelSettings:
        settings = ModelSettings(max_tokens=reply_limit(self, request))
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0
        if "timeout" not in self._model.unsupported_settings:
            settings["timeout"] = self._timeout
        return settings

    def _reply(self, request: Request, response: ModelResponse) -> Reply:
        if response.finish_reason == "error":
            raise ModelFault(f"{self.name} stopped with an error of its own")
        calls = calls_of(response, request)
        usage = usage_of(response, request)
        return Reply(
            text_of(response),
            calls,
            Usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens, self._cost(response, usage)),
            stop_of(response, calls),
            response.model_name or self.name,
        )

    def _cost(self, response: ModelResponse, usage: Usage) -> float | None:
        """By the catalogue's exact rules where it has them: prices by length, by time, of what was cached."""
        if self._given is None and self.price is not None:
            try:
                return float(response.cost().total_price)
            except (LookupError, ValueError, AssertionError):
                pass
        return self.price.cost(usage) if self.price is not None else None


def known_providers() -> list[str]:
    listed = {known.partition(":")[0] for known in known_model_names()}
    return sorted(listed | set(get_args(OpenAIChatCompatibleProvider.__value__)))


def is_known(provider: str) -> bool:
    """Also where its package is not installed."""
    try:
        infer_provider_class(provider)
    except ImportError:
        return True
    except (ValueError, refusals.UserError):
        return False
    return True


def _split(name: str) -> tuple[str, str]:
    """The name without its URL, and the URL. Some names have an @ of their own."""
    at = max(name.find("@http://"), name.find("@https://"))
    return (name, "") if at < 0 else (name[:at], name[at + 1 :])


def _made(name: str) -> "Model[Any]":
    known_as, url = _split(name)
    try:
        if url:
            # Loaded only here: OpenAI's package takes a second, and other providers do not need it.
            return importlib.import_module("holdall.llm.openai_server").model_at(known_as, url)
        return infer_model(known_as)
    except ImportError as missing:
        raise NoSuchModel(f"{name} needs a package that is not installed. {in_one_line(str(missing))}") from missing
    except refusals.UserError as refused:
        said = in_one_line(_ADVICE.sub("", str(refused)))
        raise NoSuchModel(f"{name} cannot be used: {said}") from refused
    except HoldallError:
        raise
    except Exception as refused:  # of the provider's own package: a key that is set and empty, for instance
        raise NoSuchModel(f"{name} cannot be used: {in_one_line(str(refused))}") from refused
