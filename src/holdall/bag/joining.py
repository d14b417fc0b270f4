"""What a tool returned, with what it had written on the way in front of it: one result of the form that it returned."""

import base64
from dataclasses import replace
from typing import cast

from holdall.bag.taking import text_of
from holdall.wire.results import take_apart


def after_written(written: object, returned: object) -> object:
    """`written` is a text, bytes, or a list of blocks."""
    if returned is None or (isinstance(returned, str | bytes) and not returned):
        return written
    parts = take_apart(returned)
    if parts is not None and parts.blocks is not None:
        return replace(parts, blocks=(*_blocks(written), *parts.blocks)).with_blocks({}).whole
    if isinstance(written, list):
        return [
            *_blocks(cast("object", written)),
            *_blocks(returned if isinstance(returned, bytes) else text_of(returned)),
        ]
    if isinstance(written, str) and not isinstance(returned, bytes):
        return parts.with_text(written + (parts.text or "")) if parts is not None else written + text_of(returned)
    return _bytes(written) + _bytes(returned)


def _blocks(value: object) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if isinstance(value, bytes):
        packed = base64.b64encode(value).decode("ascii")
        resource = {"uri": "holdall:written", "mimeType": "application/octet-stream", "blob": packed}
        return [{"type": "resource", "resource": resource}]
    return [{"type": "text", "text": str(value)}]


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else text_of(value).encode("utf-8", "replace")
