"""What a question takes: remembered, recorded, priced, and bounded before the first call."""

import logging
import re
from pathlib import Path
from typing import Literal

import pytest

from holdall import Holdall, Settings
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.sampling import SampledModel
from holdall.llm.scripted import ScriptedModel
from holdall.policy.route import Ceiling
from holdall.values.chat import Reply, ToolCall, ToolResult
from holdall.values.errors import NoModel, NotReady, QueryMissing, TooCostly, UnknownHandle, UsageError
from holdall.values.events import Event
from holdall.values.extraction import Mode
from tests.bag.shapes import LOG, opened
from tests.extract.shapes import Answer, document_of, finding, quoting, said
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
ERRORS = quoting("ERROR job 3\n")


# What was paid for once


@requirement("extract:cache-key")
async def test_the_same_question_is_answered_without_a_call_by_any_process_of_the_session(tmp_path: Path) -> None:
    model = finding(ERRORS)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG)
        first = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        asked = len(model.requests)
        again = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert (len(model.requests), again.cached, again.spent.calls) == (asked, True, 0)
        assert (again.answer, again.snippets, again.searched) == (first.answer, first.snippets, first.searched)
        await bag.extract(facts.handle, "which other job?", mode="full-chunked")
        assert len(model.requests) > asked
    other = finding(ERRORS)
    async with opened(tmp_path, model=other) as bag:
        assert (await bag.extract(facts.handle, "which job?", mode="full-chunked")).cached
        named = finding(ERRORS, name="another model")
        assert not (await bag.extract(facts.handle, "which job?", mode="full-chunked", model=named)).cached


@requirement("extract:recalled-proved")
async def test_a_recalled_quote_that_is_not_in_the_output_is_asked_for_again(tmp_path: Path) -> None:
    """Whoever can write to the store could have written the note, and its quote would be shown as verified."""
    model = finding(ERRORS)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG)
        first = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        asked = len(model.requests)
        for note in bag.store.notes(bag.session):
            data = bag.store.recall(bag.session, note.content, note.key) or b""
            bag.store.remember(bag.session, note.content, note.key, data.replace(b"ERROR job 3", b"ERROR job 9"))
        again = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert len(model.requests) > asked
        assert not again.cached
        assert again.snippets == first.snippets


@requirement("extract:cache-chunks")
async def test_chunks_that_were_read_are_not_read_again_after_a_failure(tmp_path: Path) -> None:
    broken = True

    def answer(request: Request) -> str:
        if broken and "job 2500\n" in request.messages[-1].text:
            return "no wrapper"
        return said(
            request,
            Answer("yes", ["ERROR job 3"])
            if "CHUNK OUTPUTS" in request.messages[-1].text
            else ERRORS(document_of(request)),
        )

    model = ScriptedModel(answer, window=8000)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG)
        first = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert first.failed
        broken = False
        before = len(model.requests)
        second = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert not second.failed
        assert not second.cached, "an answer with a hole is not remembered"
        assert second.spent.cached_calls == first.chunks_searched
        assert len(model.requests) - before == len(first.failed)


@requirement("extract:cache-in-session")
async def test_another_session_pays_for_itself_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    async with opened(tmp_path, model=finding(ERRORS, window=200_000)) as bag:
        facts = await bag.keep(LOG)
        await bag.extract(facts.handle, "which job?", mode="full-chunked")
    scopes: dict[Literal["session", "store", "off"], bool] = {"session": False, "store": True, "off": False}
    for scope, cached in scopes.items():
        model = finding(ERRORS, window=200_000)
        settings = Settings(extraction_cache=scope)
        async with Holdall.open(home=home, session=f"other-{scope}", settings=settings, model=model) as bag:
            facts = await bag.keep(LOG)
            assert (await bag.extract(facts.handle, "which job?", mode="full-chunked")).cached is cached


class OfAClient(SampledModel):
    """Whoever is behind a client answers what he likes."""

    def __init__(self, says: str) -> None:
        self.name, self.window, self.max_output = "sampling", 200_000, 4096
        self._scripted = finding(lambda _: Answer(says, ["ERROR job 3"]), window=200_000)

    async def ask(self, request: Request) -> Reply:
        return await self._scripted.ask(request)


@requirement("extract:cache-in-session")
async def test_what_the_model_of_one_client_said_is_told_to_no_other(tmp_path: Path) -> None:
    for name in ("mallory", "alice", "alice"):
        settings = Settings(extraction_cache="store")
        home, model = str(tmp_path / "home"), OfAClient(f"as {name} says")
        async with Holdall.open(home=home, session=name, settings=settings, model=model) as bag:
            facts = await bag.keep(LOG)
            found = await bag.extract(facts.handle, "which job?", mode="full-chunked")
            assert found.answer == f"as {name} says"
    assert found.cached


@requirement("extract:not-a-tool-result-cache")
async def test_an_answer_is_never_kept_as_an_output(tmp_path: Path) -> None:
    async with opened(tmp_path, model=finding(ERRORS, window=200_000)) as bag:
        facts = await bag.keep(LOG)
        for _ in range(2):
            await bag.call("tool_output", {"handle": facts.handle, "extract": "which job?"})
        assert [one.handle for one in await bag.outputs()] == [facts.handle]


# What is recorded


@requirement("watch:estimates")
@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
async def test_the_log_has_the_estimate_beside_what_the_model_counted(
    tmp_path: Path, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    """A scripted model counts by a rule of its own, so the two differ, and not by much."""

    def answer(request: Request) -> Reply | str:
        if mode == "read-grep" and not any(isinstance(one, ToolResult) for one in request.messages):
            file = request.messages[0].text.split("- Handle/filename: ")[1].split("\n")[0]
            return Reply(calls=(ToolCall("c", "Grep", {"filename": file, "pattern": "ERROR", "limit": 50}),))
        return said(request, Answer("many", ["ERROR job 3"]))

    model = ScriptedModel(answer, window=9000 if mode == "full-chunked" else 60_000)
    async with opened(tmp_path, model=model) as bag:
        handle = (await bag.keep(LOG)).handle
        with caplog.at_level(logging.INFO, logger="holdall"):
            await bag.extract(handle, "which job?", mode=mode)
        counters = await bag.counters()
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("asked ")]
    pairs = [re.search(r" estimated_tokens=(\d+) input_tokens=(\d+) ", line) for line in lines]
    figures = [(int(pair[1]), int(pair[2])) for pair in pairs if pair is not None]
    assert len(figures) == len(model.requests) == len(lines) >= 2
    assert all(0.4 < estimated / counted < 2.5 for estimated, counted in figures), figures
    sums = tuple(map(sum, zip(*figures, strict=True)))
    assert (counters.estimated_tokens, counters.model_input_tokens) == sums


@requirement("extract:priced", "extract:recorded-sizes")
async def test_every_call_is_an_event_with_its_sizes_and_a_preview_and_never_its_text(tmp_path: Path) -> None:
    model = finding(lambda _: Answer("x" * 5000, ["ERROR job 3"]), window=200_000, price=Price(1.0, 10.0))
    seen: list[Event] = []
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG, tool="logs", arguments={"password": "hunter2"})
        bag.journal.watchers[seen.append] = lambda: False
        found = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        asked, extracted = (next(event for event in seen if event.kind == kind) for kind in ("asked", "extracted"))
        assert asked.data["messages"] == 2
        assert asked.data["request_bytes"] > len(LOG)
        assert len(asked.data["preview"]) <= 500
        assert asked.data["cost"] == pytest.approx(found.spent.usage.cost)
        assert extracted.data["cost"] == pytest.approx(found.spent.usage.cost)
        assert (extracted.data["calls"], extracted.data["strategy"], extracted.data["verified"]) == (
            1,
            "full-chunked",
            1,
        )
        log = (next((tmp_path / "home").glob("session-*")) / "events.ndjson").read_text()
        assert len(log) < 6000
        assert "hunter2" not in log


@requirement("extract:own-model", "extract:session-model")
async def test_the_model_of_the_settings_comes_first_then_the_sessions_own(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["<no wrapper>", "<no wrapper>", "<no wrapper>"]')
    own = finding(ERRORS, window=200_000)
    async with opened(tmp_path, model=own) as bag:
        facts = await bag.keep(LOG)
        await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert own.requests
    async with opened(tmp_path, model=own, extraction_model=f"scripted:{script}") as bag:
        asked = len(own.requests)
        found = await bag.extract(facts.handle, "another question?", mode="full-chunked")
        assert len(own.requests) == asked
        assert found.strategy == "truncate"


# What it may take


@requirement("extract:ceiling")
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"extraction_max_calls": 2}, "a question may take 2 calls"),
        ({"extraction_max_tokens": 2000}, "a question may take 2,000 tokens"),
        ({"extraction_max_cost": 0.001}, "a question may take $0.00"),
    ],
)
async def test_what_would_pass_the_ceiling_is_refused_before_the_first_call(
    tmp_path: Path, limits: dict[str, float], told: str
) -> None:
    model = finding(ERRORS, price=Price(1.0, 1.0))
    async with opened(tmp_path, model=model, **limits) as bag:
        facts = await bag.keep(LOG, tool="logs")
        with pytest.raises(TooCostly, match=r"full-chunked of .* bytes would take ") as refused:
            await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert told in str(refused.value)
        assert model.requests == []
        answer = await bag.call("tool_output", {"handle": facts.handle, "extract": "x", "mode": "full-chunked"})
        assert answer.is_error
        assert told in answer.text


async def test_a_ceiling_that_is_reached_on_the_way_leaves_what_was_found(tmp_path: Path) -> None:
    tries = 0

    def answer(request: Request) -> str:
        nonlocal tries
        tries += 1
        return "no wrapper" if tries % 2 else said(request, ERRORS(document_of(request)))

    async with opened(tmp_path, model=ScriptedModel(answer, window=8000)) as bag:
        facts = await bag.keep(LOG)
        plan = await bag.forecast(facts.handle, "which job?", mode="full-chunked")
        ceiling = Ceiling(calls=plan.forecast.calls + 1)
        found = await bag.extract(facts.handle, "which job?", mode="full-chunked", ceiling=ceiling)
        assert found.failed
        assert any("the ceiling of" in one.why for one in found.failed)
        assert found.spent.calls <= plan.forecast.calls + 1


async def test_a_forecast_costs_nothing_and_holds(tmp_path: Path) -> None:
    model = finding(ERRORS, price=Price(1.0, 1.0))
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG)
        plan = await bag.forecast(facts.handle, "which job?", mode="full-chunked")
        assert model.requests == []
        found = await bag.extract(facts.handle, "which job?", mode="full-chunked")
        assert found.spent.calls <= plan.forecast.calls
        assert 0.5 < found.spent.usage.input_tokens / plan.forecast.input_tokens <= 1.2
        assert plan.forecast.cost is not None
        truncate = await bag.forecast(facts.handle, "which job?", mode="truncate")
        assert (truncate.forecast.calls, truncate.forecast.cost) == (0, 0.0)


# What cannot be asked


async def test_what_cannot_be_asked_is_refused_with_the_way_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        facts = await bag.keep(LOG)
        with pytest.raises(NoModel) as raised:
            await bag.extract(facts.handle, "which?")
        assert "Holdall.open(model=…)" in raised.value.__notes__[0]
        model = finding(ERRORS)
        with pytest.raises(QueryMissing):
            await bag.extract(facts.handle, "  ", model=model)
        with pytest.raises(UnknownHandle):
            await bag.extract("nope", "which?", model=model)
        with pytest.raises(UsageError, match="'guess' is no mode"):
            await bag.extract(facts.handle, "which?", model=model, mode="guess")  # type: ignore[arg-type]
        writer = await bag.begin(tool="slow")
        with pytest.raises(NotReady):
            await bag.extract(writer.handle, "which?", model=model)


async def test_truncate_on_request_asks_no_model(tmp_path: Path) -> None:
    model = finding(ERRORS)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(LOG)
        found = await bag.extract(facts.handle, "which?", mode="truncate")
        assert (found.strategy, found.reason, found.warning, model.requests) == ("truncate", "asked", "", [])
        top, bottom = found.end_spans
        assert found.searched == ()
        gone = bottom.start - top.end
        assert f"[… {gone:,} bytes are left out here: bytes {top.end}:{bottom.start} …]" in found.answer
        assert found.answer.startswith(LOG[: top.end])
        assert found.answer.endswith(LOG[bottom.start :])


async def test_truncate_needs_no_model_and_what_is_remembered_needs_no_room(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        facts = await bag.keep(LOG)
        assert (await bag.extract(facts.handle, "which?", mode="truncate")).strategy == "truncate"
        model = finding(ERRORS, window=200_000)
        await bag.extract(facts.handle, "which?", mode="full-chunked", model=model)
        nothing = Ceiling(calls=0)
        again = await bag.extract(facts.handle, "which?", mode="full-chunked", model=model, ceiling=nothing)
        assert again.cached
