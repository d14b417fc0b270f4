"""A conversation with a language model, as data: what is said to it, what it says, what that took.

No provider's form is known here; `llm` translates. A message is text that can be written as UTF-8, which is all that
providers take: lone surrogates, wherever they are from, become U+FFFD when it is made, once. A reply's calls stay as
they came, for the tools.
"""

import contextlib
import json
import re
from dataclasses import field
from typing import Any, Literal

from holdall.values.record import record

_SURROGATE = re.compile("[\ud800-\udfff]")


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

    def __post_init__(self) -> None:
        _make_valid(self, "text")


@record
class User:
    """What a person, or the runtime in their place, says."""

    text: str

    def __post_init__(self) -> None:
        _make_valid(self, "text")


@record
class Assistant:
    """What the model said before: text, calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()

    def __post_init__(self) -> None:
        _make_valid(self, "text")
        calls = tuple(map(_valid_call, self.calls))
        if any(new is not old for new, old in zip(calls, self.calls, strict=True)):
            object.__setattr__(self, "calls", calls)


@record
class ToolResult:
    """What one of its calls gave. `saved` is written down in place of a text that must not reach a disk."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    saved: str | None = None

    def __post_init__(self) -> None:
        _make_valid(self, "text", "call_id", "name")

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


def _make_valid(message: object, *names: str) -> None:
    for name in names:
        text: str = getattr(message, name)
        if not text.isascii() and _SURROGATE.search(text):
            object.__setattr__(message, name, _SURROGATE.sub("\ufffd", text))


def _valid_call(call: ToolCall) -> ToolCall:
    with contextlib.suppress(TypeError, ValueError, RecursionError):  # then they are no JSON, and not sent as such
        written = json.dumps([call.name, call.id, call.arguments], ensure_ascii=False)
        if not written.isascii() and _SURROGATE.search(written):
            name, by, arguments = json.loads(_SURROGATE.sub("\ufffd", written))
            return ToolCall(by, name, arguments)
    return call


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
