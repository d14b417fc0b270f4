"""What a model promises. One contract suite runs on every implementation.

Whoever asks is told of every failure by one of the errors below and never gets an empty reply in place of one:
`ModelBusy` (a rate limit, an outage, a time-out: worth another try), `ModelOverflow` (the request is too long) and
`ModelFault` (anything else). A cancellation reaches the provider.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from holdall.values.chat import Message, Reply
from holdall.wire.tool import ToolSpec


@dataclass(frozen=True, slots=True)
class Request:
    """`schema` holds the reply to a JSON schema; it is not given together with tools."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None  # of the reply; the model's own most where it is None


class Model(Protocol):
    """What Holdall needs of a language model; docs/models.md names those that ship."""

    @property
    def name(self) -> str:
        """As it is written in settings: `provider:name`, `gguf:PATH`."""
        ...

    @property
    def window(self) -> int:
        """Tokens of a whole conversation, the reply included."""
        ...

    @property
    def max_output(self) -> int:
        """Tokens of one reply, at most."""
        ...

    @property
    def calls_tools(self) -> bool:
        """Whether `tools` of a request may be called natively; `llm.actions` does it for the others."""
        ...

    @property
    def keeps_schema(self) -> bool:
        """Whether a reply is held to `schema`; where it is not, `schema` must not be given."""
        ...

    async def ask(self, request: Request) -> Reply: ...

    async def close(self) -> None:
        """Connections and processes end. A second time does nothing."""
        ...
