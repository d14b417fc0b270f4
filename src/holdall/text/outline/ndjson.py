"""Lines that are JSON each: the shape of all of them as one."""

import json
from typing import Any

from holdall.text.outline.json_shape import Shapes
from holdall.text.outline.json_text import loads
from holdall.text.outline.json_values import Seen
from holdall.text.outline.lines import split
from holdall.text.outline.model import Outline, Room, fitted, spread
from holdall.text.outline.sample import Sample

_RECORDS = 4000
_BYTES = 1024 * 1024


def ndjson_outline(sample: Sample, room: Room) -> Outline | None:
    lines = split(sample)
    texts = [text for text in lines.texts if text.strip()]
    each = sum(map(len, texts)) / max(1, len(texts))
    most = max(1, min(_RECORDS, int(_BYTES / max(1.0, each))))
    whole = lines.exact and len(texts) <= most
    texts = spread(texts, most)
    records = _records(texts)
    if not records:
        return None
    seen = Seen(records, whole=whole)
    blank = lines.exact and len(lines.texts) - sum(1 for text in lines.texts if text.strip())
    seen.counts[id(records)] = sample.lines - blank, True
    shapes = Shapes(seen)
    told = shapes.lines(room)
    broken = len(texts) - len(records)
    if broken:
        told.insert(1, f"{'' if whole else '~'}{round(broken * lines.scale):,} lines are not JSON")
    return Outline("ndjson", fitted(told, room), shapes.sampled, (), leads=shapes.leads())


def _records(texts: list[bytes]) -> list[Any]:
    """All at once, which is faster; one by one where one of them is not JSON."""
    try:
        found = loads("[" + b",".join(texts).decode("latin-1") + "]")
        if len(found) == len(texts):
            return found
    except (json.JSONDecodeError, RecursionError):
        pass
    records: list[Any] = []
    for text in texts:
        try:
            records.append(loads(text.decode("latin-1")))
        except (json.JSONDecodeError, RecursionError):
            continue
    return records
