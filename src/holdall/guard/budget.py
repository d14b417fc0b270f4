"""The context window of a conversation: what is in it, what may still come, and when it is full.

It prices what the model gets (a notice), never what is kept.
"""

import json
from collections.abc import Callable, Sequence

from holdall.guard.prefix import PrefixSum
from holdall.values.chat import Message, Said
from holdall.wire.tool import ToolSpec

_PER_MESSAGE = 6  # tokens that a provider puts around each
LEAST_ROOM = 256  # tokens without which no turn makes sense


class Budget:
    """`reserve` are the tokens of the reply; `count` counts those of a text."""

    def __init__(self, window: int, reserve: int, count: Callable[[str], int]) -> None:
        self.window = window
        self.reserve = reserve
        self._count = count
        self._messages = PrefixSum(self.price)
        self._tools: dict[int, tuple[ToolSpec, int]] = {}  # by id, which nobody else has while it is held here

    def used(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Tokens of a request with these."""
        return self._messages.of(messages) + sum(self._price_of(tool) for tool in tools)

    def left(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        return self.window - self.reserve - self.used(messages, tools)

    def price(self, message: Message) -> int:
        calls = message.calls if isinstance(message, Said) else ()
        told = message.text + "".join(f"{call.name}{call.arguments}" for call in calls)
        return self._count(told) + _PER_MESSAGE

    def forget(self) -> None:
        """Messages were replaced."""
        self._messages.forget()

    def _price_of(self, tool: ToolSpec) -> int:
        known = self._tools.get(id(tool))
        if known is None:
            told = f"{tool.name}{tool.description}{json.dumps(tool.schema, default=str)}"
            known = self._tools[id(tool)] = tool, self._count(told) + _PER_MESSAGE
        return known[1]
