"""Member names: read from a document with their escapes, and written into a normalized path (RFC 9535).

A name or a path that is too long to show is shortened with `…` inside, and it is told that it is.
"""

import json
import re
from collections.abc import Sequence

Step = bytes | int  # a member's name as UTF-8, or an element's index

_SHOWN_NAME = 512  # bytes of one name
SHOWN_STEPS = 48  # steps at each end of a path
_MARK = "…"
_UNSAFE = re.compile(r"[\x00-\x1f'\\\ud800-\udfff]")
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


def decoded_name(raw: bytes) -> bytes:
    """The name that a JSON string stands for, as UTF-8, given its bytes between the quotes."""
    if b"\\" not in raw:
        return raw
    try:
        name: str = json.loads(b'"' + raw + b'"', strict=False)
    except ValueError:  # an escape that JSON does not know, or bytes that are not UTF-8: the name is what it is
        return raw
    return name.encode("utf-8", "surrogatepass")


def encoded_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def shown_name(name: bytes) -> str:
    """`name` as text, shortened where it is very long."""
    if len(name) <= _SHOWN_NAME:
        return _text(name)
    return _text(name[: _SHOWN_NAME // 2]) + _MARK + _text(name[-_SHOWN_NAME // 2 :])


def normalized_step(name: str) -> str:
    return "['" + _UNSAFE.sub(_escape, name) + "']"


def normalized_path(steps: Sequence[Step], *, left_out: int = 0) -> tuple[str, bool]:
    """`$['paths'][0]`, and whether it is shortened. `left_out`: so many steps are missing in the middle."""
    shortened = left_out > 0 or any(isinstance(step, bytes) and len(step) > _SHOWN_NAME for step in steps)
    texts = [_step(step) for step in steps]
    if left_out:
        texts.insert(len(steps) // 2, _MARK)
    return "$" + "".join(texts), shortened


def _step(step: Step) -> str:
    return f"[{step}]" if isinstance(step, int) else normalized_step(shown_name(step))


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return name.decode("utf-8", "replace")


def _escape(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"
