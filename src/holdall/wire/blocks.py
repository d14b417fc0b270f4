"""Content blocks: which are text, what the others carry, and a text block that can stand in the place of one.

The blocks of MCP, Anthropic, OpenAI and Bedrock, as dictionaries or as objects. Nothing is changed in place.
"""

import base64
import binascii
import dataclasses
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
_PLAIN = {"type", "text"}  # all that most text blocks have
_DEEPEST = 3  # where a block has its text or its payload


@dataclass(frozen=True, slots=True)
class Payload:
    """What a block carries that is not text: its own bytes where they can be told, and what they are."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """In the place of a block that was set aside, until the text of the others is settled: then `block` stands there.

    It is a block, and no text: what is done with the text of a result neither joins it, nor cuts it, nor leaves it out.
    """

    block: object


def is_block(value: object) -> bool:
    if isinstance(value, str):
        return False
    return isinstance(value, Note) or text_of(value) is not None or isinstance(field(value, "type"), str)


def is_known_block(value: object) -> bool:
    return isinstance(value, Note) or field(value, "type") in KNOWN_TYPES


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


def json_of(block: object) -> object:
    """The value of a block that holds nothing else, as Bedrock's do; None for all others."""
    fields = _members(block)
    return fields["json"] if isinstance(block, Mapping) and set(fields) == {"json"} else None


def payload_of(block: object) -> Payload | None:
    """What a block carries as base64, as a data URL or as bytes; None where it carries none of these."""
    media, found = _found(block)
    if isinstance(found, str):
        head, comma, rest = found.partition(",") if found.startswith("data:") else ("", "", found)
        media = head[5:].split(";")[0] or media if comma else media
        try:
            found = base64.b64decode(rest, validate=True)
        except (binascii.Error, ValueError):
            return None  # a link, or a text
    return Payload(media, bytes(found)) if found else None


def fields_beside(block: object) -> object:
    """What a block has beside its text or its payload, as plain data; None where that is its type and no more."""
    members = _members(block)
    if members.keys() <= _PLAIN:
        return None
    text = text_of(block)
    return _without(members, _found(block)[1] if text is None else text, _DEEPEST)


def text_block(instead_of: object, text: str) -> object:
    """A text block for the place of another, of the same family."""
    kind = field(instead_of, "type")
    if isinstance(instead_of, Mapping):
        if kind is None:
            return {"text": text}  # Bedrock's have no type
        like = str(kind)
        family = like if like in TEXT_TYPES else "input_text" if like.startswith("input_") else "text"
        return {"type": family, "text": text}
    # The module that made the block has the text block too; nothing is imported for it.
    maker = getattr(sys.modules.get(type(instead_of).__module__), "TextContent", None)
    return {"type": "text", "text": text} if maker is None else maker(type="text", text=text)


def _found(block: object) -> tuple[str, str | bytes]:
    """The media type that a block names, and the largest of what may be its payload."""
    media = "application/octet-stream"
    found: bytes | str = b""
    for name, value in _leaves(block, depth=_DEEPEST):
        if name in _MEDIA and isinstance(value, str):
            media = value
        elif name in _PAYLOADS and isinstance(value, str | bytes) and len(value) > len(found):
            found = value
    return media, found


def _leaves(value: object, *, depth: int, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, str | bytes):
        yield name, value
    elif depth:
        for inner, member in _members(value).items():
            yield from _leaves(member, depth=depth - 1, name=inner)


def _without(value: object, taken: object, depth: int) -> object:
    members = _members(value) if depth else None
    if not members:
        return value
    return {name: _without(member, taken, depth - 1) for name, member in members.items() if member is not taken}


def _members(value: object) -> Mapping[str, object]:
    """The fields of a dictionary or an object; none where it has none of its own to tell."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    if isinstance(value, str | bytes):
        return {}
    found: dict[str, object] = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {one.name: field(value, one.name) for one in dataclasses.fields(value)}  # one with slots has no more
    for more in (field(value, "__dict__"), field(value, "__pydantic_extra__")):
        found |= cast("dict[str, object]", more) if isinstance(more, dict) else {}
    return {name: member for name, member in found.items() if member is not None and not name.startswith("_")}
