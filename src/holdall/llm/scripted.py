"""A model whose replies are written down: for tests, for documentation, for trying things out. It calls nothing.

Give it replies in order, or a function from the request to the reply. Tokens are counted as for a real model, so that
whoever accounts for calls has something to account for. `scripted_from` reads the same from a JSON file.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from holdall.llm.catalogue import Price
from holdall.llm.counting import estimated_tokens
from holdall.llm.fitting import must_fit
from holdall.llm.protocol import Request
from holdall.values.chat import Message, Reply, Said, ToolCall, Usage
from holdall.values.errors import ModelFault

Line = str | Reply | Exception
Answering = Callable[[Request], "str | Reply | Awaitable[str | Reply]"]


class ScriptedModel:
    """`requests` holds every request, in the order in which they came."""

    def __init__(  # noqa: PLR0913 - keyword-only, and each is something that a test wants to be otherwise
        self,
        script: Iterable[Line] | Answering,
        *,
        name: str = "scripted",
        window: int = 32_768,
        max_output: int = 4_096,
        calls_tools: bool = True,
        keeps_schema: bool = False,
        price: Price | None = None,
        latency: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        """A reply that is an exception is raised. `latency` is in seconds, `count` gives the tokens of a text."""
        self.name = name
        self.window = window
        self.max_output = max_output
        self.calls_tools = calls_tools
        self.keeps_schema = keeps_schema
        self.price = price
        self.requests: list[Request] = []
        self.closed = False
        self._answering: Answering | None = script if callable(script) else None
        self._lines: list[Line] = [] if callable(script) else list(script)
        self._latency = latency
        self._sleep = sleep
        self._count = count

    async def ask(self, request: Request) -> Reply:
        must_fit(self, request)
        self.requests.append(request)
        number = len(self.requests)
        if self._latency:
            await self._sleep(self._latency)
        line = self._line(number) if self._answering is None else self._answering(request)
        if inspect.isawaitable(line):
            line = await line
        if isinstance(line, Exception):
            raise line
        return self._complete(request, Reply(line) if isinstance(line, str) else line)

    async def close(self) -> None:
        self.closed = True

    def _line(self, number: int) -> Line:
        if number > len(self._lines):
            raise ModelFault(
                f"the script of {self.name} has no reply for request {number}: it ends after {len(self._lines)}. "
                "Write another one, or give a function instead of a list."
            )
        return self._lines[number - 1]

    def _complete(self, request: Request, reply: Reply) -> Reply:
        """What the script leaves out: the tokens, their price, the name, that it stopped to call."""
        usage = reply.usage
        if not usage.tokens:
            read = sum(self._count(_written(message)) for message in request.messages)
            read += sum(self._count(f"{tool.name} {tool.description} {tool.schema}") for tool in request.tools)
            usage = Usage(read, self._count(_written(Said(reply.text, reply.calls))))
        if usage.cost is None and self.price is not None:
            usage = replace(usage, cost=self.price.cost(usage))
        stop = "calls" if reply.calls and reply.stop == "end" else reply.stop
        return replace(reply, usage=usage, stop=stop, model=reply.model or self.name)


def _written(message: Message) -> str:
    calls: tuple[ToolCall, ...] = message.calls if isinstance(message, Said) else ()
    return message.text + "".join(f"\n{call.name} {call.arguments}" for call in calls)
