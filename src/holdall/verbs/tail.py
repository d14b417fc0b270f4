"""The end of an output: its last lines, or as much of them as an answer holds.

Where not all of it fits, the end wins; `next` is the range just before it.
"""

from holdall.store.protocol import OutputReader
from holdall.text.ranges import whole_number
from holdall.values.answers import Passage
from holdall.values.spans import Ask, Span
from holdall.verbs.bounds import UNBOUNDED, Bounds
from holdall.verbs.read import locate, passage

DEFAULT_LINES = 10


def tail(reader: OutputReader, lines: int = DEFAULT_LINES, *, bounds: Bounds = UNBOUNDED) -> Passage:
    count = whole_number(lines, name="the number of lines")
    if count == 0 or reader.totals.bytes == 0:
        end = reader.totals.bytes
        return passage(reader, Span(end, end), b"", past_end=True)
    span = locate(reader, lines=Ask(-count, None)).span
    start = span.start
    if bounds.most_bytes is not None:
        start = max(start, span.end - bounds.most_bytes - 1)
    data = reader.read(start, span.end)
    data = data if start == span.start and bounds.fits(data) else bounds.last(data)
    shown = Span(span.end - len(data), span.end)
    before = f"bytes={span.start}:{shown.start}" if shown.start > span.start else ""
    return passage(reader, shown, data, going_on=before)
