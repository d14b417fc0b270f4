"""How large an answer may be, and how bytes are cut to fit: at a line end, or in a long line at a character.

A cut is never silent: whoever cuts says where to go on.
"""

from dataclasses import dataclass

from holdall.text.excerpt import beginning, ending
from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.values.outputs import Measure


@dataclass(frozen=True, slots=True)
class Bounds:
    """None means no bound. Tokens need a tokenizer to be counted with."""

    most_bytes: int | None = 16 * 1024
    most_tokens: int | None = None
    tokenizer: Tokenizer | None = None

    def fits(self, data: bytes) -> bool:
        if self.most_bytes is not None and len(data) > self.most_bytes:
            return False
        return self._tokens(data) <= (self.most_tokens or 0) if self._counts(len(data)) else True

    def share(self, measure: Measure) -> int | None:
        """Bytes for an answer that is not counted token by token: by the mix of this very output."""
        if self.most_bytes is None or self.most_tokens is None:
            return self.most_bytes
        per_token = measure.bytes / measure.tokens if measure.tokens else 4.0
        return max(min(256, self.most_bytes), min(self.most_bytes, int(self.most_tokens * per_token)))

    def first(self, data: bytes) -> bytes:
        """The longest beginning that fits: whole lines where at least one fits, else whole characters."""
        kept = data if self.most_bytes is None else beginning(data, self.most_bytes).data
        while self._counts(len(kept)) and (tokens := self._tokens(kept)) > (self.most_tokens or 0):
            kept = beginning(kept, _smaller(len(kept), tokens, self.most_tokens or 0)).data
        if len(kept) < len(data) and data[len(kept) - 1 : len(kept)] != b"\n":
            newline = kept.rfind(b"\n")
            kept = kept[: newline + 1] if newline >= 0 else kept
        return kept

    def last(self, data: bytes) -> bytes:
        """The longest ending that fits, likewise."""
        kept = data if self.most_bytes is None else ending(data, self.most_bytes).data
        while self._counts(len(kept)) and (tokens := self._tokens(kept)) > (self.most_tokens or 0):
            kept = ending(kept, _smaller(len(kept), tokens, self.most_tokens or 0)).data
        if len(kept) < len(data) and data[len(data) - len(kept) - 1 :][:1] != b"\n":
            newline = kept.find(b"\n")
            kept = kept[newline + 1 :] if 0 <= newline < len(kept) - 1 else kept
        return kept

    def _counts(self, size: int) -> bool:
        return self.most_tokens is not None and self.tokenizer is not None and size > self.most_tokens

    def _tokens(self, data: bytes) -> int:
        return count_in_pieces(self.tokenizer, data.decode("utf-8", "replace")) if self.tokenizer else 0


UNBOUNDED = Bounds(most_bytes=None)


def _smaller(size: int, tokens: int, allowed: int) -> int:
    """A little under the proportional share, so that two or three rounds are enough."""
    return max(1, min(size - 1, int(size * allowed / tokens * 0.97)))
