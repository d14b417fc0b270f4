"""The o200k vocabulary: exact token counts, linear on every input. The extra `tokens` brings its package.

That is rs-bpe, which has wheels up to Python 3.13, and from 3.14 on bpe-openai. Both count the same.
"""

import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import Any

from holdall.text.tokens import TOKENS_PACKAGE
from holdall.values.errors import MissingExtra


def _compiled_part_of(name: str) -> Any:
    """The compiled module alone: the package around it reads every vocabulary as it is imported, for a second."""
    package = importlib.util.find_spec(name)
    found = package and PathFinder.find_spec("_bindings", package.submodule_search_locations or [])
    if not found or not found.loader:
        raise ImportError(name)
    bindings = importlib.util.module_from_spec(found)
    found.loader.exec_module(bindings)
    return bindings


try:
    if sys.version_info < (3, 14):
        from rs_bpe.bpe import openai
    else:
        bindings = _compiled_part_of("bpe_openai")
except ImportError as problem:  # pragma: no cover - the tests install every extra
    raise MissingExtra(TOKENS_PACKAGE, "tokens", "counting tokens exactly") from problem


class O200k:
    """Loaded on first use: the vocabulary takes some 70 MB and 50 ms."""

    name = "o200k"

    def __init__(self) -> None:
        self._encoder: Any = None

    def count(self, text: str) -> int:
        if self._encoder is None:
            if sys.version_info < (3, 14):
                self._encoder = openai.o200k_base()
            else:
                self._encoder = bindings.tokenizer_for_encoding("o200k_base")
        return self._encoder.count(text)
