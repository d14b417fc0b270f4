"""JSON as people write it by hand: with comments and commas too many, as some editors allow in their files.

It only blanks out what JSON does not know, so that line and column of an error stay true.
"""

import json
import re
from typing import Any

# A text is matched first: what looks like a comment inside it is none.
_PIECES = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_VISIBLE = re.compile(r"[^\n]")
_MARK = "\ufeff"  # some editors put it before everything else


class DuplicateKey(ValueError):
    """The same key twice in one object: one of the two would be lost without a word."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the key {key[:100]!r} stands twice in the same object")


def parse(text: str) -> Any:
    """Raises DuplicateKey, json.JSONDecodeError or RecursionError."""
    text = _unmarked(text)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        return json.loads(_COMMAS.sub(_blank, _PIECES.sub(_blank, text)), object_pairs_hook=_once)


def blanked(text: str) -> str:
    """The same text with spaces in place of comments and of a mark at its start: every position stays."""
    return _PIECES.sub(_blank, _unmarked(text))


def _unmarked(text: str) -> str:
    return f" {text[1:]}" if text.startswith(_MARK) else text


def _blank(match: re.Match[str]) -> str:
    piece = match[0]
    return piece if piece.startswith('"') else _VISIBLE.sub(" ", piece)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKey(key)
        found[key] = value
    return found
