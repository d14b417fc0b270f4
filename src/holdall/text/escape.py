"""What a person may safely see: control, bidirectional and tag characters shown as escapes.

For terminals, pages and logs. Never for what is stored, piped or sent to a model.
"""

import re

from holdall.values.patterns import lazy_pattern

# C0 and C1 controls but tab and newline; bidirectional controls; zero-width and invisible operators; line and
# paragraph separators; interlinear marks; tags; a lone surrogate. Each can hide or reorder what a person reads.
_UNSAFE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def for_people(text: str) -> str:
    """`text` with every unsafe character as a visible escape; tabs and newlines stay."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str, limit: int = 200) -> str:
    """The same on a single line, for tables and logs: newlines and tabs are escaped too, long text ends in `…`."""
    flat = for_people(text).replace("\n", "\\n").replace("\t", "\\t")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
