"""What the model has seen of an output, as a page marks it: beside each row, and along the whole.

All of it comes from the ledger, which is a fold over the session's events; nothing here looks at an output.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from holdall.policy.folds import Coverage, Ranges
from holdall.values.spans import Span

STRIP = 400  # steps of the strip along the whole
_LEVELS = 4


def mark_of(coverage: Coverage, span: Span) -> str:
    """`all` or `part` of it was shown to the model; `searched` by one that extracted from it; or nothing."""
    if span.start < span.end and coverage.shown.covers(span):
        return "all"
    if _touches(coverage.shown, span):
        return "part"
    return "searched" if _touches(coverage.ranges["searched"], span) else ""


def strip_of(coverage: Coverage, total: int) -> dict[str, Any]:
    """How much of each step was shown and searched: runs of `[first step, number of steps, level]`."""
    return {
        "steps": STRIP,
        "shown": _levels(coverage.shown, total),
        "searched": _levels(coverage.ranges["searched"], total),
    }


def seen_of(coverage: Coverage, total: int) -> dict[str, Any]:
    """In numbers, with the strip."""
    bytes_by = {way: ranges.bytes(total) for way, ranges in coverage.ranges.items()}
    share = round(coverage.share(total), 6)
    return {"share": share, "retrievals": coverage.retrievals, "bytes": bytes_by, **strip_of(coverage, total)}


def _touches(ranges: Ranges, span: Span) -> bool:
    at = bisect_right(ranges.ends, span.start)
    return at < len(ranges.starts) and ranges.starts[at] < span.end


def _levels(ranges: Ranges, total: int) -> list[tuple[int, int, int]]:
    """The least that was shown is a mark, and only a step that was shown whole has the last level."""
    if not total:
        return []
    filled = [0] * STRIP  # in bytes times STRIP: a step is `total` of these, and no fraction is lost
    for start, end in zip(ranges.starts[:], ranges.ends[:], strict=False):
        low, high = start * STRIP, min(end, total) * STRIP
        for step in range(low // total, min(STRIP, -(-high // total))):
            filled[step] += min(high, (step + 1) * total) - max(low, step * total)
    return _runs([0 if part <= 0 else 1 + part * (_LEVELS - 1) // total for part in filled])


def _runs(levels: Sequence[int]) -> list[tuple[int, int, int]]:
    runs: list[tuple[int, int, int]] = []
    for step, level in enumerate(levels):
        if runs and runs[-1][2] == level and runs[-1][0] + runs[-1][1] == step:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, level)
        elif level:
            runs.append((step, 1, level))
    return runs
