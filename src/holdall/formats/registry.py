"""Which outline fits an output: by its kind, and more precisely by what it begins with and what stands in it."""

import re
from collections.abc import Callable
from functools import partial

from holdall.formats.binary import binary_outline
from holdall.formats.diff import diff_outline
from holdall.formats.json_outline import json_outline, ndjson_outline
from holdall.formats.logs import text_outline
from holdall.formats.markup import html_outline, markdown_outline, xml_outline
from holdall.formats.outline import LineAt, Outline, Read, Room, Sample, take
from holdall.formats.reports import report_outline
from holdall.formats.table import table_outline
from holdall.values.outputs import Measure

_JSON = re.compile(rb"\s{0,1000}(?:\{\s{0,1000}\"|\[\s{0,1000}[\[{\"]|\[\s{0,1000}-?\d+\s{0,100},)")
_XML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,1000}<(?:\?xml\b|!DOCTYPE (?!html)|[A-Za-z_][\w:.-]{0,80}[\s>/])", re.IGNORECASE
)
_HEADS = 64 * 1024
_Maker = Callable[[Sample, Room], Outline | None]
_ROOM = Room(1400)


def outline(
    read: Read, measure: Measure, *, tool: str = "", room: Room = _ROOM, line_at: LineAt | None = None
) -> Outline:
    """What is in an output and what is rare in it, in about as much as there is `room` for.

    `read(start, end)` gives exact bytes, `line_at` the line that holds a byte. Little more than one MiB of a large
    output is looked at, whatever its size, and all of an output up to about four. `tool` may tell what cannot be seen.
    """
    sample = take(read, measure.bytes, measure.lines, line_at)
    for make in _makers(sample, measure, tool):
        found = make(sample, room)
        if found is not None:
            return found
    return text_outline(sample, room, kind=measure.kind)


def _makers(sample: Sample, measure: Measure, tool: str) -> list[_Maker]:
    if measure.kind == "binary":
        return [binary_outline]
    first: list[_Maker] = []
    match measure.kind:
        case "json":
            first = [json_outline]
        case "ndjson":
            first = [ndjson_outline, json_outline]
        case "csv":
            first = [table_outline]
        case "html":
            first = [html_outline]
        case "diff":
            first = [diff_outline]
        case "markdown":
            first = [report_outline, markdown_outline]
        case _:
            head = sample.head[:_HEADS]
            if _JSON.match(head):
                first.append(json_outline)
            if _XML.match(head):
                first.append(xml_outline)
            # A log may speak of what passed and failed without being the report of it.
            first.append(partial(report_outline, only_known=measure.kind == "log"))
            if "diff" in tool.lower():
                first.append(diff_outline)
    return first
