"""Which strategy reads an output for a question, and how much a question may take in calls, tokens and money.

The reason is a value; nothing here is random, learned, or asks a model.
"""

from holdall.text.numbers import plural
from holdall.values.extraction import Mode, RouteReason, Strategy
from holdall.values.outputs import Measure
from holdall.values.record import record

# How much one question may take: calls, tokens and money, and what it would take, before the first call.


@record
class Forecast:
    """What a strategy would take, at most. `cost` is None if the price of the model is not known."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __str__(self) -> str:
        money = "price unknown" if self.cost is None else f"about ${self.cost:.2f}"
        return f"{plural(self.calls, 'call')}, {self.tokens:,} tokens, {money}"


@record
class Ceiling:
    """None means no bound."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def over(self, forecast: Forecast) -> str:
        """The bound that would be passed, in words; empty if all hold."""
        if self.calls is not None and forecast.calls > self.calls:
            return plural(self.calls, "call")
        if self.tokens is not None and forecast.tokens > self.tokens:
            return f"{self.tokens:,} tokens"
        if self.cost is not None and forecast.cost is not None and forecast.cost > self.cost:
            return f"${self.cost:.2f}"
        return ""


# Which strategy reads an output for a question. The reason is a value; nothing here is random or learned.


@record
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
