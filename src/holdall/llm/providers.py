"""Models of providers, and of any server that speaks OpenAI's chat API, through pydantic-ai. The extra `models`.

`provider:name` is what pydantic-ai knows by that name, with the key in the provider's own environment variable.
`openai:NAME@URL` is a server of your own; a key for it, where it wants one, is in HOLDALL_MODEL_KEY, and no other key
is ever sent there. Nothing is retried here: whoever retries counts.
"""

import asyncio
import importlib
import re
from typing import Any, get_args

from holdall.llm.allowed import must_be_allowed
from holdall.llm.catalogue import Card, Price, card_of
from holdall.llm.faults import fault_of_time, in_one_line
from holdall.llm.fitting import must_fit, reply_limit
from holdall.llm.protocol import Request
from holdall.values.chat import Reply, Usage
from holdall.values.errors import MissingExtra, ModelFault, NoSuchModel

try:
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, OpenAIChatCompatibleProvider, infer_model, known_model_names
    from pydantic_ai.providers import infer_provider_class
    from pydantic_ai.settings import ModelSettings

    from holdall.llm.provider_faults import fault_of
    from holdall.llm.provider_messages import calls_of, messages_of, parameters_of, stop_of, text_of, usage_of
except ImportError as problem:  # pragma: no cover - the tests install every extra
    raise MissingExtra("pydantic-ai-slim", "models", "a model of a provider") from problem

TIMEOUT_SECONDS = 600.0
_ADVICE = re.compile(
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

        Raises NoSuchModel where the name, its key or its package is not there.
        """
        self.name = name
        self._timeout = timeout_seconds
        self._model = _made(name)
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
        must_be_allowed(self.name)
        must_fit(self, request)
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
            raise fault_of_time(self.name, self._timeout) from late
        except Exception as error:  # what a provider's own library raises is not all known to pydantic-ai
            raise fault_of(self.name, error) from error
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
            self._model = _made(self.name)
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
    except (ValueError, UserError):
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
            return importlib.import_module("holdall.llm.own_server").model_at(known_as, url)
        return infer_model(known_as)
    except ImportError as missing:
        raise NoSuchModel(f"{name} needs a package that is not installed. {in_one_line(str(missing))}") from missing
    except UserError as refused:
        said = in_one_line(_ADVICE.sub("", str(refused)))
        raise NoSuchModel(f"{name} cannot be used: {said}") from refused
