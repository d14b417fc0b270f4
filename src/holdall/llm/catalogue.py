"""What is known of a model by its name: how much it takes, how much it writes, what it costs.

Prices and windows come from the package genai-prices where it is installed (the extra `models` brings it); the user's
values take precedence. Unknown values have a cautious default that is marked as such. Nothing is fetched.
"""

import importlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from holdall.llm.protocol import Model
from holdall.values.chat import Usage
from holdall.values.record import record

DEFAULT_WINDOW = 32_768  # what models of the last years all have; too small costs calls, too large costs the answer
DEFAULT_MAX_OUTPUT = 8_192  # no catalogue has this; every current model writes at least as much
_MILLION = 1_000_000


@record
class Price:
    """US dollars for a million tokens. What the provider had cached costs as other input where no price is named."""

    input: float
    output: float
    cached: float | None = None

    def cost(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.input_tokens)
        read = (usage.input_tokens - cached) * self.input
        again = cached * (self.input if self.cached is None else self.cached)
        return (read + again + usage.output_tokens * self.output) / _MILLION


@record
class Card:
    """`known` tells whether the window is the model's, by the catalogue or by the user, or only the default."""

    window: int
    max_output: int
    price: Price | None
    known: bool


def card_of(name: str, *, window: int | None = None, max_output: int | None = None, price: Price | None = None) -> Card:
    """Of `provider:model`. What is given goes before what the catalogue says."""
    entry = _entry(name)
    listed: int | None = entry.context_window if entry is not None else None
    tokens = window or listed or DEFAULT_WINDOW
    return Card(
        window=tokens,
        max_output=max_output or min(DEFAULT_MAX_OUTPUT, tokens // 2),
        price=price or _price(entry),
        known=bool(window or listed),
    )


def price_of(model: Model) -> Price | None:
    """What its tokens cost; None if nobody knows. An implementation may leave it out."""
    price: Price | None = getattr(model, "price", None)
    return price


def _entry(name: str) -> Any:
    """The catalogue's, or None. Its classes differ from version to version, so they are not named here."""
    try:
        snapshot: Any = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except ImportError:
        return None
    provider, _, model = name.partition(":")
    try:
        return snapshot.find_provider_model(model, None, provider.removeprefix("gateway/"), None)[1]
    except LookupError:
        return None


def _price(entry: Any) -> Price | None:
    if entry is None:
        return None
    prices = entry.get_prices(datetime.now(UTC))
    input_price, output_price = _rate(prices, "input_mtok"), _rate(prices, "output_mtok")
    if input_price is None or output_price is None:
        return None
    return Price(input_price, output_price, _rate(prices, "cache_read_mtok"))


def _rate(prices: Any, key: str) -> float | None:
    """Where a price rises with the length of the request, the highest: extraction asks long requests."""
    rate = getattr(prices, key, None)
    if rate is None:
        return None
    steps: Iterable[Any] = getattr(rate, "tiers", ())
    return max(float(getattr(rate, "base", rate)), *(float(step.price) for step in steps), 0.0)
