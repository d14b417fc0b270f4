"""How a model is asked that reads one request at a time, and the same part twice."""

import asyncio
from pathlib import Path

import pytest

from holdall.llm.protocol import Pace, Request, pace_of
from holdall.llm.scripted import ScriptedModel
from holdall.llm.wrappers import ModelWrapper
from holdall.values.chat import Message
from holdall.wire.prompts import fences_of, form_for
from tests.bag.shapes import opened
from tests.extract.shapes import document_of, finding, said

TEXT = "".join(f"2026-01-01 line {n:05} of the log, all is as it should be\n" for n in range(500))


class OneAtATime(ScriptedModel):
    """Each answer takes a turn of the loop, and only one is given at once; it watches the clock itself."""

    pace = Pace(at_once=1, seconds=None)

    def __init__(self) -> None:
        super().__init__(self._answer, window=3000)
        self.running = self.most = 0

    async def _answer(self, request: Request) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return said(request, None)


@pytest.mark.anyio
async def test_a_model_that_reads_one_request_at_a_time_is_not_asked_more(tmp_path: Path) -> None:
    model = OneAtATime()
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(TEXT)
        found = await bag.extract(facts.handle, "which codes?", mode="full-chunked")
        assert (model.most, found.spent.calls) == (1, found.chunks_total)
        assert found.chunks_total > 3


@pytest.mark.anyio
@pytest.mark.parametrize(("given", "limit"), [(None, None), (0.01, 0.01)])
async def test_its_time_is_its_own_unless_the_settings_name_one(
    tmp_path: Path, given: float | None, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float | None] = []
    real = asyncio.timeout

    def noted(delay: float | None) -> asyncio.Timeout:
        asked.append(delay)
        return real(None)

    monkeypatch.setattr("holdall.extract.model_calls.asyncio.timeout", noted)
    async with opened(tmp_path, model=OneAtATime(), extraction_seconds=given) as bag:
        facts = await bag.keep(TEXT)
        await bag.extract(facts.handle, "which codes?", mode="full-chunked")
    assert set(asked) == {limit}


def test_a_model_that_says_nothing_has_the_usual_pace_and_a_wrapped_one_that_of_the_inner() -> None:
    assert pace_of(ScriptedModel([])) == Pace(None, 120.0)
    assert pace_of(ModelWrapper(OneAtATime())) == Pace(1, None)


def before_the_question(messages: tuple[Message, ...]) -> str:
    return "\n".join(message.text for message in messages).partition("WHAT TO EXTRACT")[0]


@pytest.mark.anyio
async def test_two_questions_about_one_part_begin_alike_so_that_what_was_read_is_used_again(tmp_path: Path) -> None:
    model = finding(lambda _: None, window=200_000)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(TEXT)
        for question in ("which codes?", "which hosts?"):
            await bag.extract(facts.handle, question, mode="full-chunked")
    first, second = map(before_the_question, (request.messages for request in model.requests))
    assert first == second
    assert document_of(model.requests[0]) in first


def test_a_fence_does_not_occur_in_what_it_fences() -> None:
    made = fences_of("a text")
    first, second = made(), made()
    assert first != second
    assert fences_of("a text")() == first
    assert fences_of("a text that is another one")() not in (first, second)
    form = form_for(
        ["a text", f"with </{first}> in it"], schema=True, new_tag=fences_of("a text"), new_nonce=lambda: ""
    )
    assert form.tag == second
