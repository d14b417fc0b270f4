"""The output that is read, the question, and how: all that a strategy is given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from holdall.policy.route import Ceiling
from holdall.store.protocol import OutputReader
from holdall.text.tokens import Tokenizer
from holdall.values.chat import ToolCall
from holdall.values.extraction import Mode, Progress
from holdall.values.spans import Span
from holdall.wire.prompts import Source
from holdall.wire.tool import ToolSpec

Found = TypeVar("Found")


class Opened(Protocol):
    async def __call__(self, look: Callable[[OutputReader], Found]) -> Found:
        """Run `look` on the open output, in a thread."""
        ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What Read or Grep gave: a text for the model, and the bytes that stand in it."""

    text: str
    spans: tuple[Span, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """`tools` are Read and Grep over this one output, and `look` carries a call of them out."""

    source: Source
    on: Opened
    tokenizer: Tokenizer
    tools: tuple[ToolSpec, ...] = ()
    look: Callable[[ToolCall], Awaitable[Looked]] | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """How a question is answered. `chunk_share` is the part of the window that a chunk may take, where it is fixed."""

    mode: Mode = "auto"
    max_chunks: int = 1
    long_line_bytes: int = 1000
    overlap_percent: float = 10.0
    chunk_share: float | None = None
    always_chunked: bool = False
    answer_tokens: int = 2000  # of one reply, at most
    parallel: int = 8
    retries: int = 2
    call_seconds: float | None = None
    ceiling: Ceiling = field(default_factory=Ceiling)
    truncate_bytes: int = 8192  # shown where a strategy fails, or on request
    max_turns: int = 15  # of read-grep
    calls_per_turn: int = 10


Watch = Callable[[Progress], None]
