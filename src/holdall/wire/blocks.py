"""Content blocks: which are text, what the others carry, and a text block that can stand in the place of one.

The blocks of MCP, Anthropic, OpenAI and Bedrock, as dictionaries or as objects. Nothing is changed in place.
"""

import base64
import binascii
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from holdall.wire.clamp_fields import field, with_field

TEXT_TYPES = ("text", "input_text", "output_text")
KNOWN_TYPES = frozenset(
    (*TEXT_TYPES, "image", "image_url", "input_image", "audio", "input_audio", "resource", "resource_link", "document",
     "file", "input_file", "search_result", "tool_reference", "video", "refusal")
)  # fmt: skip
_MEDIA = ("mimeType", "mime_type", "media_type", "mediaType", "format")
_PAYLOADS = ("data", "blob", "bytes", "url", "file_data", "image_url")


@dataclass(frozen=True, slots=True)
class Payload:
    """What a block carries that is not text: its own bytes where they can be told, and what they are."""

    media_type: str
    data: bytes


def is_block(value: object) -> bool:
    return not isinstance(value, str) and (text_of(value) is not None or isinstance(field(value, "type"), str))


def is_known_block(value: object) -> bool:
    return field(value, "type") in KNOWN_TYPES


def text_of(block: object) -> str | None:
    """The text of a block that has some; None for images, links and whatever else there is."""
    if isinstance(block, str):
        return block
    kind = field(block, "type")
    holder = field(block, "resource") if kind == "resource" else block
    text = field(holder, "text") if kind is None or kind == "resource" or kind in TEXT_TYPES else None
    return text if isinstance(text, str) else None


def with_text(block: object, text: str) -> object:
    if isinstance(block, str):
        return text
    if field(block, "type") == "resource":
        return with_field(block, "resource", with_field(field(block, "resource"), "text", text))
    return with_field(block, "text", text)


def payload_of(block: object) -> Payload | None:
    """What a block carries as base64, as a data URL or as bytes; None where it carries none of these."""
    media = "application/octet-stream"
    found: bytes | str = b""
    for name, value in _leaves(block, depth=3):
        if name in _MEDIA and isinstance(value, str):
            media = value
        elif name in _PAYLOADS and isinstance(value, str | bytes) and len(value) > len(found):
            found = value
    if isinstance(found, str):
        head, comma, rest = found.partition(",") if found.startswith("data:") else ("", "", found)
        media = head[5:].split(";")[0] or media if comma else media
        try:
            found = base64.b64decode(rest, validate=True)
        except (binascii.Error, ValueError):
            return None  # a link, or a text
    return Payload(media, bytes(found)) if found else None


def text_block(instead_of: object, text: str) -> object:
    """A text block for the place of another, of the same family."""
    kind = str(field(instead_of, "type"))
    if isinstance(instead_of, Mapping):
        family = "input_text" if kind.startswith("input_") else "text"
        return {"type": family, "text": text}
    # The module that made the block has the text block too; nothing is imported for it.
    maker = getattr(sys.modules.get(type(instead_of).__module__), "TextContent", None)
    return {"type": "text", "text": text} if maker is None else maker(type="text", text=text)


def _leaves(value: object, *, depth: int, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, str | bytes):
        yield name, value
    elif depth:
        fields = cast("object", value if isinstance(value, Mapping) else getattr(value, "__dict__", {}))
        for inner, member in cast("Mapping[str, object]", fields).items():
            yield from _leaves(member, depth=depth - 1, name=inner)
