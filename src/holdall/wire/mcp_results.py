"""What a client of MCP gets beside a notice: the handle as structured content, its schema, and links to kept outputs.

Structured content is the original, whole, or a handle object: never data that merely has the original's shape. So the
schema that a client checks it against is widened to allow both.
"""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from holdall.text.numbers import plural
from holdall.values.outputs import Facts
from holdall.wire.notes import media_type_in, structured_note

SCHEME = "holdall"
_HOISTED = ("$defs", "definitions")
_MEDIA = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv", "html": "text/html",
          "markdown": "text/markdown", "diff": "text/x-diff", "binary": "application/octet-stream"}  # fmt: skip

HANDLE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "In place of a result that is kept and not shown: fetch parts of it by its handle.",
    "required": ["kept"],
    "properties": {
        "kept": {"type": "boolean"},
        "handle": {"type": "string"},
        "running": {"type": "boolean"},
        "ref": {"type": "object"},
        "bytes": {"type": "integer"},
        "why": {"type": "string"},
    },
}


def running_note(handle: str) -> dict[str, Any]:
    """The structured content of a call that goes on in the background."""
    return {"kept": True, "handle": handle, "running": True}


def kept_note(facts: Facts) -> dict[str, Any]:
    return structured_note(facts)


def widened(schema: object) -> object:
    """The schema of a tool's output, or the handle object. What is no schema stays as it is."""
    if not isinstance(schema, dict):
        return schema
    original = dict(cast("dict[str, Any]", schema))
    top: dict[str, Any] = {"$schema": original.pop("$schema")} if "$schema" in original else {}
    if original.get("type") == "object":
        top["type"] = "object"  # what older clients look for
    if "$id" not in original:  # a schema with a name of its own resolves its references inside of itself
        moved = {name: original.pop(name) for name in _HOISTED if name in original}
        original = cast("dict[str, Any]", _moved(original))
        top |= {name: _moved(value) for name, value in moved.items()}
    return {**top, "anyOf": [original, HANDLE_SCHEMA]}


def _moved(value: object) -> object:
    """References to places in the original, which is one step deeper now. Definitions have stayed where they were."""
    if isinstance(value, list):
        return [_moved(one) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    new = {name: _moved(one) for name, one in cast("dict[str, object]", value).items()}
    reference = new.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        head = reference.removeprefix("#/").split("/")[0]
        if head not in _HOISTED:
            new["$ref"] = "#/anyOf/0" + reference[1:]
    return new


# Links


def uri_of(facts: Facts) -> str:
    return f"{SCHEME}://{facts.session}/{quote(facts.handle, safe='')}"


def media_type_of(facts: Facts) -> str:
    """What its tool said that it is, else what it looks like."""
    return media_type_in(facts.measure.notes) or _MEDIA.get(facts.measure.kind, "text/plain")


def link(facts: Facts) -> dict[str, Any]:
    """A content block that leads to the whole output."""
    measure = facts.measure
    about = f"The whole output ({plural(measure.bytes, 'byte')}). Parts: add ?lines=A:B or ?bytes=A:B."
    return {
        "type": "resource_link", "uri": uri_of(facts), "name": facts.handle, "description": about,
        "mimeType": media_type_of(facts), "size": measure.bytes,
    }  # fmt: skip


def link_parts(uri: str) -> tuple[str, str, Mapping[str, str]] | None:
    """Session, handle and range of such a link; None for a link of somebody else's. Raises ValueError for a bad one."""
    parts = urlsplit(uri)
    if parts.scheme != SCHEME:
        return None
    ranges = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    if parts.fragment or ranges.keys() - {"lines", "bytes", "chars"} or len(ranges) > 1:
        raise ValueError("a link takes one of ?lines=A:B, ?bytes=A:B and ?chars=A:B")
    return parts.netloc, unquote(parts.path.removeprefix("/")), ranges
