"""The beginning and the end of an output, and in place of the middle how much is missing. No model is asked.

The named fallback where a strategy could not run, and what `mode="truncate"` asks for. Never anything else.
"""

from holdall.store.protocol import OutputReader
from holdall.text.excerpt import beginning, ending
from holdall.values.extraction import Snippet
from holdall.values.spans import Span
from holdall.wire.extraction import omitted_middle


def truncated(reader: OutputReader, most_bytes: int) -> tuple[str, tuple[Snippet, ...]]:
    """The text with its marker, and the two parts as pieces of the source."""
    total = reader.totals.bytes
    if total <= most_bytes:
        whole = reader.read(0, total)
        return _text(whole), (Snippet(_text(whole), Span(0, total)),) if total else ()
    half = max(1, most_bytes // 2)
    # A few bytes more than are shown: where the cut goes depends on what is on its other side.
    top = beginning(reader.read(0, min(total, half + 4)), half)
    low = max(top.end, total - half - 4)
    tail = reader.read(low, total)
    bottom = ending(tail, half)
    start = low + bottom.start
    parts = (Snippet(top.text, Span(0, top.end)), Snippet(bottom.text, Span(start, total), 0))
    gone = omitted_middle(start - top.end, top.end, start)
    return f"{top.text}\n{gone}\n{bottom.text}", parts


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
