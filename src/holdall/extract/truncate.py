"""The beginning and the end of an output, and in place of the middle how much is missing. No model is asked.

The named fallback where a strategy could not run, and what `mode="truncate"` asks for. Never anything else.
"""

from holdall.store.protocol import OutputReader
from holdall.text.excerpt import beginning, ending


def both_ends(reader: OutputReader, most_bytes: int) -> tuple[bytes, ...]:
    """The whole output where it is this short, else its beginning and its end; no character is split."""
    total = reader.totals.bytes
    if total <= most_bytes:
        return (reader.read(0, total),) if total else ()
    half = max(1, most_bytes // 2)
    # A few bytes more than are shown: where the cut goes depends on what is on its other side.
    top = beginning(reader.read(0, min(total, half + 4)), half)
    return top.data, ending(reader.read(max(top.end, total - half - 4), total), half).data
