"""Models whose answers a test can choose, each behind the same few words. See `tests.llm.contract`."""

import asyncio
import json
from typing import Any

from holdall.llm.protocol import Model, Request
from holdall.llm.providers import ProviderModel
from holdall.llm.sampling import Role, Sampled, SampledModel
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall
from holdall.values.errors import ModelOverflow
from tests.llm.openai_server import OpenAIServer, Scene, completion

SECONDS = 100.0


class Hanging:
    """Something that never answers, and notices when it is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def forever(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.left.set()
            raise

    async def has_begun(self) -> None:
        await asyncio.wait_for(self.begun.wait(), SECONDS)

    async def was_left_alone(self) -> None:
        await asyncio.wait_for(self.left.wait(), SECONDS)


class ScriptedRig(Hanging):
    exact = True

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.scripted = ScriptedModel(self._answer, **options)
        self.model: Model = self.scripted
        self._next: Reply | Exception | None = Reply("?")

    def will_say(self, text: str) -> None:
        self._next = Reply(text)

    def will_be_cut(self, text: str) -> None:
        self._next = Reply(text, stop="length")

    def will_call(self, name: str, arguments: dict[str, Any]) -> None:
        self._next = Reply("", (ToolCall("c1", name, arguments),))

    def will_hang(self) -> None:
        self._next = None

    def will_find_it_too_long(self) -> None:
        self._next = ModelOverflow("too long")

    async def _answer(self, request: Request) -> Reply:
        if self._next is None:
            await self.forever()
        if isinstance(self._next, Exception):
            raise self._next
        assert self._next is not None
        return self._next


class ActingRig(ScriptedRig):
    """A model without tools of its own: what it calls, it writes."""

    def will_call(self, name: str, arguments: dict[str, Any]) -> None:
        self.will_say(json.dumps({"tool": name, "arguments": arguments}))


class SampledRig(Hanging):
    exact = True

    def __init__(self) -> None:
        super().__init__()
        self.model: Model = SampledModel(self._create)
        self.seen: list[tuple[list[tuple[Role, str]], str, int]] = []
        self.answer: Sampled | Exception | None = Sampled("?")

    def will_say(self, text: str) -> None:
        self.answer = Sampled(text, "endTurn", "some-model")

    def will_be_cut(self, text: str) -> None:
        self.answer = Sampled(text, "maxTokens", "some-model")

    def will_call(self, name: str, arguments: dict[str, Any]) -> None:
        raise AssertionError("it cannot")

    def will_hang(self) -> None:
        self.answer = None

    def will_find_it_too_long(self) -> None:
        self.answer = ModelOverflow("too long")

    async def _create(self, messages: list[tuple[Role, str]], *, system: str, max_tokens: int) -> Sampled:
        self.seen.append((messages, system, max_tokens))
        if self.answer is None:
            await self.forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer


class ProviderRig:
    """A model of a server that runs here."""

    exact = True

    def __init__(self, server: OpenAIServer, **options: Any) -> None:
        self.server = server
        self.model: Model = ProviderModel(f"openai:small-one@{server.url}", **options)

    def will_say(self, text: str) -> None:
        self._will(Scene(body=completion(text)))

    def will_be_cut(self, text: str) -> None:
        self._will(Scene(body=completion(text, finish="length")))

    def will_call(self, name: str, arguments: dict[str, Any]) -> None:
        call = (name.replace(".", "_"), json.dumps(arguments))
        self._will(Scene(body=completion(None, calls=(call,), finish="tool_calls")))

    def will_hang(self) -> None:
        self._will(Scene(hangs=True))

    def will_find_it_too_long(self) -> None:
        said = "This model's maximum context length is 4096 tokens."
        self._will(Scene(400, json.dumps({"error": {"message": said, "code": "context_length_exceeded"}})))

    async def has_begun(self) -> None:
        await asyncio.to_thread(self.server.asked.wait, SECONDS)

    async def was_left_alone(self) -> None:
        assert await asyncio.to_thread(self.server.left_alone.wait, SECONDS)

    def _will(self, scene: Scene) -> None:
        self.server.scenes.clear()
        self.server.will(scene)
