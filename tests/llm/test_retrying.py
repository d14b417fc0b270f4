"""Another try for a model that is busy: when, how often, after which pause."""

import asyncio

import pytest

from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.llm.wrappers import Retry, Retrying, RetryPolicy, ask_again
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow
from tests.llm.contract import asking

pytestmark = pytest.mark.anyio


class Slept:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def patience(self, tries: int = 3) -> RetryPolicy:
        return RetryPolicy(tries=tries, sleep=self.sleep, chance=lambda: 1.0)


async def test_a_busy_model_is_asked_again_after_growing_pauses() -> None:
    model, slept, told = ScriptedModel([ModelBusy("1"), ModelBusy("2"), "there"]), Slept(), list[Retry]()
    reply = await ask_again(model, asking("a"), patience=slept.patience(), on_retry=told.append)
    assert reply.text == "there"
    assert slept.seconds == [1.0, 2.0]
    assert [(retry.number, str(retry.fault), retry.pause) for retry in told] == [(1, "1", 1.0), (2, "2", 2.0)]


async def test_the_last_error_goes_through_when_all_tries_are_used() -> None:
    model, slept = ScriptedModel([ModelBusy("1"), ModelBusy("2"), ModelBusy("3")]), Slept()
    with pytest.raises(ModelBusy, match="3"):
        await ask_again(model, asking("a"), patience=slept.patience())
    assert len(model.requests) == 3


@pytest.mark.parametrize("error", [ModelFault("no"), ModelOverflow("long"), ValueError("bug")])
async def test_other_errors_are_not_worth_another_try(error: Exception) -> None:
    model = ScriptedModel([error, "never"])
    with pytest.raises(type(error)):
        await ask_again(model, asking("a"), patience=Slept().patience())
    assert len(model.requests) == 1


async def test_other_errors_are_tried_again_where_that_is_asked_for() -> None:
    slept = Slept()
    patience = RetryPolicy(on=ModelFault, sleep=slept.sleep)
    assert (await ask_again(ScriptedModel([ModelFault("no"), "there"]), asking("a"), patience=patience)).text == "there"


async def test_the_provider_is_given_the_time_that_it_asks_for() -> None:
    slept = Slept()
    await ask_again(ScriptedModel([ModelBusy("x", retry_after=17), "y"]), asking("a"), patience=slept.patience())
    assert slept.seconds == [17]


async def test_a_provider_that_wants_too_long_a_pause_is_not_waited_for() -> None:
    slept, model = Slept(), ScriptedModel([ModelBusy("x", retry_after=3600), "y"])
    with pytest.raises(ModelBusy):
        await ask_again(model, asking("a"), patience=slept.patience())
    assert slept.seconds == []


async def test_calls_that_were_refused_together_do_not_come_back_together() -> None:
    pauses = {RetryPolicy(chance=lambda at=at: at).pause_after(1, ModelBusy("x")) for at in (0.0, 0.5, 1.0)}
    assert pauses == {0.5, 0.75, 1.0}


async def test_a_cancellation_during_the_pause_ends_it() -> None:
    begun = asyncio.Event()

    async def sleep(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(
        ask_again(ScriptedModel([ModelBusy("x"), "y"]), asking("a"), patience=RetryPolicy(sleep=sleep))
    )
    async with asyncio.timeout(100):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_wrapped_model_counts_and_tells_which_request_it_was() -> None:
    told: list[tuple[Request, int]] = []
    model = Retrying(
        ScriptedModel([ModelBusy("1"), "a", ModelBusy("2"), "b"]),
        patience=Slept().patience(),
        on_retry=lambda request, retry: told.append((request, retry.number)),
    )
    first, second = asking("a"), asking("b")
    assert [(await model.ask(one)).text for one in (first, second)] == ["a", "b"]
    assert model.retries == 2
    assert told == [(first, 1), (second, 1)]
