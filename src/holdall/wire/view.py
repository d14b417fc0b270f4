"""Everything that a notice may tell of one output, gathered before a word of it is written."""

from dataclasses import dataclass, field

from holdall.formats import Outline
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.outputs import Facts

MOST_TOKENS = 500
GLIMPSE = 4096  # how much of each end is enough to build a notice from


@dataclass(frozen=True, slots=True)
class View:
    """`head` and `tail` are the first and last GLIMPSE bytes; `errors` are line numbers and lines."""

    facts: Facts
    head: bytes
    tail: bytes
    tag: str  # occurs in nothing that is shown
    outline: Outline | None = None
    errors: tuple[tuple[int, str], ...] = ()
    tokenizer: Tokenizer = field(default_factory=Estimate)
    most_tokens: int = MOST_TOKENS
    long_handle: bool = False
    extracts: bool = False  # whether a model can be asked about it
    near: tuple[int, int] | None = None  # first and last line of what is worth reading

    @property
    def handle(self) -> str:
        """As the dialect writes it."""
        return self.facts.long_handle if self.long_handle else self.facts.handle
