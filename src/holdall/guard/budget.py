"""The context window of a conversation: what is in it, what may still come, and when it is full.

Counted message by message, each once: a long conversation costs no more per turn than a short one. It prices what the
model gets (a notice), never what is kept.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdall.values.chat import Message, Said
from holdall.wire.tool import ToolSpec

_PER_MESSAGE = 6  # tokens that a provider puts around each
LEAST_ROOM = 256  # tokens without which no turn makes sense


@dataclass(slots=True)
class Budget:
    """`reserve` are the tokens of the reply; `count` counts those of a text."""

    window: int
    reserve: int
    count: Callable[[str], int]
    _counted: list[Message] = field(default_factory=list[Message])
    _total: int = 0
    _tools: dict[str, int] = field(default_factory=dict[str, int])

    def used(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Tokens of a request with these. Where messages were replaced, all are counted anew."""
        known = len(self._counted)
        # The ends are enough to know: whoever replaces messages replaces one of these two too, or says `forget`.
        if known > len(messages) or (known and messages[known - 1] is not self._counted[-1]):
            self.forget()
            known = 0
        for message in messages[known:]:
            self._counted.append(message)
            self._total += self.price(message)
        return self._total + sum(self._price_of(tool) for tool in tools)

    def left(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        return self.window - self.reserve - self.used(messages, tools)

    def price(self, message: Message) -> int:
        calls = message.calls if isinstance(message, Said) else ()
        told = message.text + "".join(f"{call.name}{call.arguments}" for call in calls)
        return self.count(told) + _PER_MESSAGE

    def forget(self) -> None:
        """Messages were replaced."""
        self._counted.clear()
        self._total = 0

    def _price_of(self, tool: ToolSpec) -> int:
        told = f"{tool.name}{tool.description}{json.dumps(tool.schema, default=str)}"
        if told not in self._tools:
            self._tools[told] = self.count(told) + _PER_MESSAGE
        return self._tools[told]
