"""Which tokenizer a session gets when nobody names one."""

import functools
import importlib.util

from holdall.text.tokens import Estimate, Tokenizer


@functools.cache
def default_tokenizer() -> Tokenizer:
    """Exact where the extra `tokens` is installed, else an estimate that says so."""
    if importlib.util.find_spec("rs_bpe") is None:
        return Estimate()
    o200k = importlib.import_module("holdall.text.o200k")
    tokenizer: Tokenizer = o200k.O200k()
    return tokenizer
