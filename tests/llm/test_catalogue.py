"""What is known of a model by its name, and what its tokens cost."""

import sys

import pytest

from holdall.llm.catalogue import DEFAULT_MAX_OUTPUT, DEFAULT_WINDOW, Card, Price, card_of, price_of
from holdall.llm.scripted import ScriptedModel
from holdall.llm.wrappers import Retrying
from holdall.values.chat import Usage


def test_a_listed_model_has_its_window_and_its_price() -> None:
    card = card_of("openai:gpt-4o-mini")
    assert card.known
    assert card.window == 128_000
    assert card.price is not None
    assert card.price == Price(0.15, 0.6, cached=0.075)


def test_an_unknown_model_gets_a_default_that_says_so() -> None:
    assert card_of("nosuch:thing") == Card(DEFAULT_WINDOW, DEFAULT_MAX_OUTPUT, None, known=False)


def test_what_the_user_says_goes_before_the_list() -> None:
    price = Price(1, 2)
    card = card_of("openai:gpt-4o-mini", window=4_096, max_output=500, price=price)
    assert card == Card(4_096, 500, price, known=True)


def test_a_small_window_leaves_room_for_more_than_the_reply() -> None:
    assert card_of("nosuch:thing", window=4_096).max_output == 2_048


def test_a_price_that_rises_with_the_length_is_taken_at_its_highest() -> None:
    low, high = card_of("google:gemini-2.5-flash").price, card_of("google:gemini-2.5-pro").price
    assert low is not None
    assert high is not None
    assert high.input == 2.5  # 1.25 up to 200,000 tokens


def test_without_the_package_nothing_is_known_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    assert not card_of("openai:gpt-4o-mini").known


def test_cached_input_costs_what_the_provider_says_or_as_much_as_other_input() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000, cached_tokens=400_000)
    assert Price(2, 10, cached=0.5).cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 10)
    assert Price(2, 10).cost(usage) == pytest.approx(12)


def test_a_wrapped_model_has_the_price_of_the_inner_one() -> None:
    price = Price(1, 2)
    assert price_of(Retrying(ScriptedModel([], price=price))) == price
    assert price_of(ScriptedModel([])) is None
