"""The values that a path names in a JSON text, whether it is one value, several, or one on each line.

A text that turns out to be several values is searched again as such; one value with other text after it is searched
without that text. A fault in the text is part of the answer, with what was found before it; whether that is an answer
or an error is for the caller to say.
"""

from dataclasses import dataclass, replace

from holdall.text.json.find import Hit, Layout, Scan, SeveralValues
from holdall.text.json.path import JsonPath
from holdall.text.json.reader import JsonFault, Read
from holdall.text.json_layout import is_followed_by_text


@dataclass(frozen=True, slots=True)
class Finding:
    hits: tuple[Hit, ...]
    total: int  # of all values, asked for or not
    layout: Layout
    scan: Scan
    fault: JsonFault | None = None  # where the text stops being JSON; nothing after it was searched
    text_from: int | None = None  # where other text begins after the one value; it was not searched


def find(read: Read, size: int, path: JsonPath, *, lines: bool, first: int = 0, limit: int | None = None) -> Finding:
    """The hits from number `first` on, at most `limit`. `lines`: each line is a value, and all of them an array."""
    if lines:
        return _find(read, size, path, "lines", first, limit)
    try:
        return _find(read, size, path, "one", first, limit)
    except SeveralValues as more:
        if not is_followed_by_text(read, size, more.end, more.after):
            return _find(read, size, path, "several", first, limit)
        found = _find(read, more.end, path, "one", first, limit)
        return replace(found, text_from=more.after)


def _find(read: Read, size: int, path: JsonPath, layout: Layout, first: int, limit: int | None) -> Finding:
    scan = Scan(read, size, path, layout=layout)
    hits: list[Hit] = []
    fault: JsonFault | None = None
    try:
        for hit in scan.hits(first, limit):
            hits.append(hit)  # one by one: what came before a fault stays
    except JsonFault as found:
        fault = found
    whole = tuple(hit for hit in hits if hit.end >= 0)
    return Finding(whole, scan.total, layout, scan, fault)
