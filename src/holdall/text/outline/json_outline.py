"""JSON: its shape with types, counts, optional keys and example values."""

from collections.abc import Iterator
from typing import Any, cast

from holdall.text.outline.json_leads import Sql
from holdall.text.outline.json_several import see_all
from holdall.text.outline.json_shape import Shapes
from holdall.text.outline.json_values import Seen
from holdall.text.outline.model import Outline, Room, fitted
from holdall.text.outline.sample import Sample


def json_outline(sample: Sample, room: Room) -> Outline | None:
    """None where it is not JSON, not even the beginning of it; and where most of it is other text."""
    seen = see_all(sample)
    if seen is not None and seen.text_from is not None and seen.text_from * 2 < sample.size:
        return None
    if seen is None or (not seen.whole and not _tells(seen.value)):
        return None
    shapes = Shapes(seen)
    notes = list(_notes(seen))
    lines = shapes.lines(room.after(notes))
    lines[1:1] = notes
    return Outline(
        _label(seen), fitted(lines, room), sampled=shapes.sampled, errors=(), leads=shapes.leads(_sql(seen, sample))
    )


def _notes(seen: Seen) -> Iterator[str]:
    if seen.several:
        yield "values one after the other: a path sees them as one array, $[0], $[1], …"
    if seen.text_from is not None:
        yield f"other text follows the JSON, from byte {seen.text_from:,} on"
    if seen.note:
        yield f"{seen.note}; the shape is that of the part before"
    elif not seen.whole:
        yield "shape from a sample: keys that stand only in the rest are not named"


def _sql(seen: Seen, sample: Sample) -> Sql:
    """SQL wants all of it to be sound; a path finds what stands before the fault."""
    if seen.note:
        return "none"
    if seen.several:
        is_json = sample.head.lstrip()[:1] == b"{" and sample.tail.rstrip()[-1:] == b"}"
        return "plain" if is_json and seen.whole else "none"
    return "at" if seen.text_from is not None else "plain"


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
