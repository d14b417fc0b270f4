"""JSON: its shape with types, counts, optional keys and example values."""

from typing import Any, cast

from holdall.text.outline.json_shape import Shapes
from holdall.text.outline.json_values import Seen, see
from holdall.text.outline.model import Outline, Room, fitted
from holdall.text.outline.sample import Sample


def json_outline(sample: Sample, room: Room) -> Outline | None:
    """None where it is not JSON, not even the beginning of it."""
    seen = see(sample)
    if seen is None or (not seen.whole and not _tells(seen.value)):
        return None
    shapes = Shapes(seen)
    note = ""
    if seen.note:
        note = f"{seen.note}; the shape is that of the part before"
    elif not seen.whole:
        note = "shape from a sample: keys that stand only in the rest are not named"
    lines = shapes.lines(room.after([note]) if note else room)
    if note:
        lines.insert(1, note)
    # SQL wants all of it to be sound; a path finds what stands before the fault.
    leads = tuple(lead for lead in shapes.leads() if not seen.note or "sql" not in lead.arguments)
    return Outline(_label(seen), fitted(lines, room), sampled=shapes.sampled, errors=(), leads=leads)


def _tells(value: object) -> bool:
    return bool(value) and type(value) in (dict, list)


def _label(seen: Seen) -> str:
    value = seen.value
    root = cast("dict[str, Any]", value) if isinstance(value, dict) else dict[str, Any]()
    for label, keys in _KNOWN.items():
        if all(key in root for key in keys):
            return label
    return "json"


_KNOWN = {
    "openapi": ("openapi", "paths"),
    "swagger": ("swagger", "paths"),
    "notebook": ("cells", "nbformat"),
    "geojson": ("type", "features"),
    "sarif": ("runs", "version"),
    "json schema": ("$schema", "properties"),
}
