"""Tokens of what is said to a model and what it says, where nobody counts them for us. Always an estimate."""

from holdall.text.tokens import Estimate, TokenMeter

_BLOCK = 64 * 1024


def estimated_tokens(text: str) -> int:
    """In bounded time: of a long text, samples are counted."""
    meter = TokenMeter(Estimate())
    data = memoryview(text.encode("utf-8", "replace"))
    for start in range(0, len(data), _BLOCK):
        meter.feed(data[start : start + _BLOCK])
    return meter.finish()[0]
