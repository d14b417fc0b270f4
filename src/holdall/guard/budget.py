"""The context window of a conversation: what is in it, what may still come, and when it is full.

It prices what the model gets (a notice), never what is kept.
"""

import json
from collections.abc import Callable, Sequence

from holdall.values.chat import Assistant, Message
from holdall.wire.tool import ToolSpec

# A sum over the messages of a conversation that grows: each is priced once, however many turns there are.


class PrefixSum:
    def __init__(self, price: Callable[[Message], int]) -> None:
        self._price = price
        self._known = 0
        self._last: Message | None = None
        self._total = 0

    def of(self, messages: Sequence[Message]) -> int:
        """A different conversation is priced again; a caller that replaces a message in the middle calls `forget`."""
        known = self._known
        if known > len(messages) or (known and messages[known - 1] is not self._last):
            self.forget()
            known = 0
        for at in range(known, len(messages)):
            self._total += self._price(messages[at])
        if messages:
            self._known, self._last = len(messages), messages[-1]
        return self._total

    def forget(self) -> None:
        self._known, self._last, self._total = 0, None, 0


_PER_MESSAGE = 6  # tokens that a provider puts around each
_MAX_LISTS = 100
_MAX_PRICED = 64
MIN_ROOM = 256  # tokens without which no turn makes sense


class Budget:
    """`reserve` are the tokens of the reply; `count` counts those of a text."""

    def __init__(self, window: int, reserve: int, count: Callable[[str], int]) -> None:
        self.window = window
        self.reserve = reserve
        self._count = count
        self._messages = PrefixSum(self.price)
        # By id, which nobody else has while the list is held here. There are few: a list changes seldom.
        self._tools: dict[int, tuple[Sequence[ToolSpec], int]] = {}
        self._priced: dict[int, tuple[Message, int]] = {}  # the newest messages, for the same reason by id

    def used(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Tokens of a request with these."""
        return self._messages.of(messages) + self._price_of(tools)

    def left(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        return self.window - self.reserve - self.used(messages, tools)

    def price(self, message: Message) -> int:
        """A message is priced when it comes, and again as part of the conversation: counted once."""
        known = self._priced.get(id(message))
        if known is None:
            if len(self._priced) >= _MAX_PRICED:
                self._priced.clear()
            known = self._priced[id(message)] = message, self._counted(message)
        return known[1]

    def _counted(self, message: Message) -> int:
        calls = message.calls if isinstance(message, Assistant) else ()
        told = message.text + "".join(f"{call.name}{call.arguments}" for call in calls)
        return self._count(told) + _PER_MESSAGE

    def forget(self) -> None:
        """Messages were replaced."""
        self._messages.forget()

    def _price_of(self, tools: Sequence[ToolSpec]) -> int:
        known = self._tools.get(id(tools))
        if known is None:
            told = (f"{tool.name}{tool.description}{json.dumps(tool.schema, default=str)}" for tool in tools)
            if len(self._tools) >= _MAX_LISTS:
                self._tools.clear()
            known = self._tools[id(tools)] = tools, sum(self._count(one) + _PER_MESSAGE for one in told)
        return known[1]
