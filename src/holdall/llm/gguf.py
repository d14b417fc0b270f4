"""A model from a GGUF file, on this machine: no key, no server to run, nothing leaves it. The extra `local`.

A process of its own serves the file and ends with this one. It is held to a JSON schema and obeys, but for the bounds
of numbers that are not whole; it calls no tools by itself (`llm.actions` does that for it). One request is answered
at a time, and the others wait their turn.
"""

import asyncio
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdall.llm.allowed import must_be_allowed
from holdall.llm.catalogue import Price
from holdall.llm.faults import fault_of_status, fault_of_time
from holdall.llm.fitting import must_fit, reply_limit
from holdall.llm.gguf_header import trained_context
from holdall.llm.gguf_server import Address, GgufServer
from holdall.llm.pace import Pace
from holdall.llm.posting import NoAnswer, post_json
from holdall.llm.protocol import Request
from holdall.values.chat import Message, Reply, Said, System, Usage
from holdall.values.errors import MissingExtra, ModelBusy, ModelFault, NoSuchModel
from holdall.wire.actions import as_plain_messages

DEFAULT_CONTEXT = 8_192
THREADS = 2
TIMEOUT_SECONDS = 1_800.0  # a small machine reads thirty tokens a second
_MOST_OUTPUT = 2_048


class GgufModel:
    calls_tools = False
    keeps_schema = True
    price = Price(0.0, 0.0)
    pace = Pace(at_once=1, seconds=None)

    def __init__(
        self,
        path: Path,
        *,
        context: int | None = None,
        threads: int = THREADS,
        max_output: int | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Raises NoSuchModel where the file is not there or is no model. It is loaded by the first request."""
        if importlib.util.find_spec("xllamacpp") is None:  # pragma: no cover - the tests install every extra
            raise MissingExtra("xllamacpp", "local", "a model from a GGUF file")
        trained = trained_context(path)
        if context is not None and not 0 < context <= trained:
            raise NoSuchModel(
                f"gguf:{path} was trained for {trained:,} tokens; a context of {context:,} does not fit it."
            )
        self.path = path
        self.name = f"gguf:{path}"
        self._shown = path.name  # in faults, which a model may read: the folder is the host's affair
        self.window = context or min(trained, DEFAULT_CONTEXT)
        self.max_output = min(max_output or _MOST_OUTPUT, self.window // 2)
        self.server = GgufServer(path, context=self.window, threads=threads)
        self._timeout = timeout_seconds
        self._turn = asyncio.Lock()
        self._turn_of: asyncio.AbstractEventLoop | None = None

    async def ask(self, request: Request) -> Reply:
        must_be_allowed(self.name)
        must_fit(self, request)
        async with self._my_turn():  # its time starts when it is read, not while others are
            address = self.server.address or await asyncio.to_thread(self.server.start)
            try:
                async with asyncio.timeout(self._timeout):
                    status, answer = await self._post(address, request)
            except TimeoutError as late:
                raise fault_of_time(self._shown, self._timeout) from late
            except NoAnswer as broken:
                await asyncio.to_thread(self.server.drop, address)
                raise ModelBusy(f"{self._shown}: {broken}; it is started again") from broken
        if status != 200:
            raise fault_of_status(self._shown, status, _error_in(answer))
        return self._reply(answer)

    async def close(self) -> None:
        self.server.end()

    def _my_turn(self) -> asyncio.Lock:
        """A lock belongs to the loop that waits for it; a program may have several, one after the other."""
        loop = asyncio.get_running_loop()
        if self._turn_of is not loop:
            self._turn, self._turn_of = asyncio.Lock(), loop
        return self._turn

    async def _post(self, address: Address, request: Request) -> tuple[int, Any]:
        content: dict[str, Any] = {
            "messages": [{"role": _role(one), "content": one.text} for one in as_plain_messages(request.messages)],
            "max_tokens": reply_limit(self, request),
            "temperature": 0,  # the same question gets the same answer
        }
        if request.schema is not None:
            content["response_format"] = {"type": "json_schema", "json_schema": {"schema": dict(request.schema)}}
        return await post_json(address.host, address.port, "/v1/chat/completions", content, key=address.key)

    def _reply(self, answer: Any) -> Reply:
        try:
            choice, used = answer["choices"][0], answer["usage"]
            details: Mapping[str, int] = used.get("prompt_tokens_details") or {}
            return Reply(
                choice["message"]["content"] or "",
                usage=Usage(used["prompt_tokens"], used["completion_tokens"], details.get("cached_tokens", 0), 0.0),
                stop="length" if choice["finish_reason"] == "length" else "end",
                model=self.path.name,
            )
        except (KeyError, IndexError, TypeError, AttributeError) as strange:
            raise ModelFault(f"{self._shown} answered in a form that is not OpenAI's") from strange


def _role(message: Message) -> str:
    return "system" if isinstance(message, System) else "assistant" if isinstance(message, Said) else "user"


def _error_in(answer: Any) -> str:
    try:
        return str(answer["error"]["message"])
    except (KeyError, TypeError):
        return str(answer)
