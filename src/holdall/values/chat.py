"""A conversation with a language model, as data: what is said to it, what it says, what that took.

No provider's form is known here; `llm` translates.
"""

from dataclasses import field
from typing import Any, Literal

from holdall.values.record import record


@record
class ToolCall:
    """`arguments` is a mapping; where a model wrote no valid JSON object, the text as it came."""

    id: str
    name: str
    arguments: Any = field(default_factory=dict[str, Any])


@record
class System:
    """The instructions of a conversation."""

    text: str


@record
class User:
    """What a person, or the runtime in their place, says."""

    text: str


@record
class Assistant:
    """What the model said before: text, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()


@record
class ToolResult:
    """What one of its calls gave. `saved` is written down in place of a text that must not reach a disk."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    saved: str | None = None

    @property
    def text_to_save(self) -> str:
        return self.text if self.saved is None else self.saved


Message = System | User | Assistant | ToolResult
Stop = Literal["end", "calls", "length", "refused"]  # why it stopped: "length" means that it was cut off


@record
class Usage:
    """Of one call or of many. `cost` is in US dollars; None if the price of the model is not known. Of many calls it is
    that of those whose price is known, and `unpriced` are the others.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input, those that the provider had cached
    cost: float | None = None
    unpriced: int = 0

    @property
    def unpriced_calls(self) -> int:
        """Calls whose price is not known; a call that used nothing costs nothing."""
        return self.unpriced or int(self.cost is None and self.tokens > 0)

    def __add__(self, other: "Usage") -> "Usage":
        costs = [one for one in (self.cost, other.cost) if one is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            sum(costs) if costs else None,
            self.unpriced_calls + other.unpriced_calls,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


_NO_USAGE = Usage()


@record
class Reply:
    """`text` has no thinking in it where the provider keeps the two apart."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = _NO_USAGE
    stop: Stop = "end"
    model: str = ""


def size_of(messages: "tuple[Message, ...]") -> int:
    """Bytes of all their texts: what is recorded of a request in place of the text itself."""
    total = 0
    for message in messages:
        total += len(message.text.encode("utf-8", "replace"))
        if isinstance(message, Assistant):
            total += sum(len(str(call.arguments).encode("utf-8", "replace")) for call in message.calls)
    return total
