"""A sum over the messages of a conversation that grows: each is priced once, however many turns there are."""

from collections.abc import Callable, Sequence

from holdall.values.chat import Message


class PrefixSum:
    def __init__(self, price: Callable[[Message], int]) -> None:
        self._price = price
        self._known = 0
        self._last: Message | None = None
        self._total = 0

    def of(self, messages: Sequence[Message]) -> int:
        """Where the conversation is another one, all are priced anew; whoever replaces one in the middle forgets."""
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
