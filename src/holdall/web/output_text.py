"""Stored bytes as a page shows them: runs of plain text, and runs of escapes that a page marks as such.

Nothing that could hide, reorder or run is left in a plain run: control characters, bidirectional and invisible ones,
and bytes that are not UTF-8 become escapes. A page can tell which byte each character on it stands for. Nothing here
leaves a byte out.
"""

import re
from itertools import groupby

Run = str | tuple[str, str, int, int]
"""Plain text; or the text of escapes, their kind, and for each of them how many bytes and how many characters it has.

Kinds: `c` a control or invisible character, `n` a newline, `x` a byte that is not UTF-8.
"""

# What `text.escape` shows as escapes (a test compares them), and what has no width or the look of a space.
_MARKED = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_RUNS = re.compile(f"{_MARKED.pattern}+")
_SHORT = {"\n": "↵", "\r": "\\r", "\x1b": "\\e", "\0": "\\0"}
_LOWEST_BYTE = 0xDC00  # of those that stand for bytes that are not UTF-8


def runs_of(data: bytes) -> list[Run]:
    """All of `data`, in order."""
    text = data.decode("utf-8", "surrogateescape")
    found: list[Run] = []
    at = 0
    for marked in _RUNS.finditer(text):
        if at < marked.start():
            found.append(text[at : marked.start()])
        for form, group in groupby(map(_escape, marked[0]), key=lambda one: (one[1], one[2], len(one[0]))):
            found.append(("".join(one[0] for one in group), *form))
        at = marked.end()
    if at < len(text):
        found.append(text[at:])
    return found


def _escape(char: str) -> tuple[str, str, int]:
    """Its text, its kind and how many bytes it has."""
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:  # a lone surrogate is not UTF-8: each of its bytes comes by itself
        return f"\\x{code - _LOWEST_BYTE:02x}", "x", 1
    length = len(char.encode("utf-8"))
    if char in _SHORT:
        return _SHORT[char], "n" if char == "\n" else "c", length
    if code <= 0xFF:
        return f"\\x{code:02x}", "c", length
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}", "c", length
