"""Which strategy reads an output, and why; what a question may take."""

import pytest

from holdall.policy.route import Ceiling, Forecast, Route, route
from holdall.values.extraction import Mode, RouteReason, Strategy
from holdall.values.outputs import Measure
from tests.requirements import requirement


@requirement(
    "extract:auto-fits-chunks", "extract:auto-long-lines", "extract:auto-else-read-grep", "extract:reason-is-a-value",
    "extract:async-always-chunked",
)  # fmt: skip
@pytest.mark.parametrize(
    ("mode", "size", "lines", "chunks", "always", "strategy", "reason"),
    [
        ("auto", 100, 10, 1, False, "full-chunked", "fits"),
        ("auto", 0, 0, 0, False, "full-chunked", "fits"),
        ("auto", 1_000_000, 1000, 2, False, "read-grep", "many-lines"),
        ("auto", 1_000_001, 1000, 2, False, "full-chunked", "long-lines"),
        ("auto", 1_000_000, 0, 2, False, "full-chunked", "long-lines"),
        ("auto", 1_000_000, 10_000, 2, True, "full-chunked", "dialect"),
        ("read-grep", 100, 1, 1, True, "read-grep", "asked"),
        ("truncate", 100, 1, 1, False, "truncate", "asked"),
        ("full-chunked", 1_000_000, 10_000, 9, False, "full-chunked", "asked"),
    ],
)
def test_auto_routes_as_the_document_says_and_a_name_is_obeyed(
    mode: Mode, size: int, lines: int, chunks: int, always: bool, strategy: Strategy, reason: RouteReason
) -> None:
    measure = Measure(bytes=size, lines=lines)
    found = route(measure, mode=mode, chunks=chunks, max_chunks=1, long_line_bytes=1000, always_chunked=always)
    assert found == Route(strategy, reason)


def test_more_chunks_may_be_allowed() -> None:
    many = Measure(bytes=1_000_000, lines=100_000)
    assert route(many, mode="auto", chunks=5, max_chunks=5, long_line_bytes=1000).reason == "fits"


@requirement("extract:ceiling")
@pytest.mark.parametrize(
    ("ceiling", "over"),
    [
        (Ceiling(), ""),
        (Ceiling(10, 1000, 1.0), ""),
        (Ceiling(calls=9), "9 calls"),
        (Ceiling(tokens=999), "999 tokens"),
        (Ceiling(cost=0.99), "$0.99"),
    ],
)
def test_a_ceiling_names_the_bound_that_would_be_passed(ceiling: Ceiling, over: str) -> None:
    assert ceiling.over(Forecast(10, 900, 100, 1.0)) == over


def test_an_unknown_price_passes_no_bound_and_is_told() -> None:
    forecast = Forecast(10, 900, 100)
    assert Ceiling(cost=0.0).over(forecast) == ""
    assert str(forecast) == "10 calls, 1,000 tokens, price unknown"
    assert str(Forecast(10, 900, 100, 1.5)) == "10 calls, 1,000 tokens, about $1.50"
