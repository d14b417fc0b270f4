"""Which strategy reads an output for a question. The reason is a value; nothing here is random or learned."""

from dataclasses import dataclass

from holdall.values.extraction import Mode, RouteReason, Strategy
from holdall.values.outputs import Measure


@dataclass(frozen=True, slots=True)
class Route:
    strategy: Strategy
    reason: RouteReason


def route(
    measure: Measure, *, mode: Mode, chunks: int, max_chunks: int, long_line_bytes: int, always_chunked: bool = False
) -> Route:
    """`chunks` is how many the output would be cut into. What was asked for by name is done."""
    if mode != "auto":
        return Route(mode, "asked")
    if always_chunked:
        return Route("full-chunked", "dialect")
    if chunks <= max_chunks:
        return Route("full-chunked", "fits")
    if measure.bytes > long_line_bytes * max(1, measure.lines):
        return Route("full-chunked", "long-lines")
    return Route("read-grep", "many-lines")
