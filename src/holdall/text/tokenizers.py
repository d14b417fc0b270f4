"""Which tokenizer a session gets: the one that its settings name, else the most exact that is there."""

import functools
import importlib
import importlib.util

from holdall.text.tokens import Estimate, Tokenizer


@functools.cache
def tokenizer_named(name: str) -> Tokenizer:
    """`o200k` needs the extra `tokens` and says so; `auto` takes it where it is installed."""
    if name == "estimate" or (name == "auto" and importlib.util.find_spec("rs_bpe") is None):
        return Estimate()
    tokenizer: Tokenizer = importlib.import_module("holdall.text.o200k").O200k()
    return tokenizer


def default_tokenizer() -> Tokenizer:
    return tokenizer_named("auto")
