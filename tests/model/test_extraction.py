"""Questions put to a real model about small outputs: the contract of an answer, and never the model's wit.

SmolLM2-135M knows little and invents much, so whatever it says must come out labelled: which strategy was tried, what
was read, which quotes stand in the output. Larger models that are there are asked the same, and what they answer is
printed (`./dev test model`).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdall.bag import Holdall
from holdall.bag.ask import Questions
from holdall.llm.gguf import GgufModel
from holdall.llm.protocol import Model, Request
from holdall.llm.wrappers import ModelWrapper
from holdall.values.chat import Reply
from holdall.values.events import Event
from holdall.values.extraction import Extraction
from holdall.values.spans import Span
from holdall.wire.findings import CUT_OFF
from tests.bag.shapes import opened
from tests.model.conftest import in_full, the_file
from tests.requirements import requirement

pytestmark = [pytest.mark.model, pytest.mark.anyio, pytest.mark.timeout(400)]

_WHO = ["Anna", "Boris", "Clara", "Dmitri", "Edith"]
_WHERE = ["north", "east", "west", "upper", "lower"]
LINES = [f"The {_WHERE[n % 5]} pump was checked by {_WHO[n * 3 % 5]} and runs as it should.\n" for n in range(48)]
LINES[27] = "The south valve is broken: it leaks, and Edith wrote the code red-heron on it.\n"
LONG, SHORT = "".join(LINES), "".join(LINES[22:30])
WHICH = "Which valve is broken, and which code is written on it?"
CODE = "red-heron"


@pytest.fixture(scope="module")
def small(small_model: Path) -> Iterator[GgufModel]:
    """One process for all of these tests: a short window, so that a short text is several chunks."""
    model = GgufModel(small_model, context=1024, max_output=112)
    yield model
    model.server.end()


@dataclass
class Told:
    """A question as a model asks it, through the tool of the dialect: the text that it gets, and what is behind it."""

    text: str
    is_error: bool
    found: Extraction
    handle: str
    data: bytes
    events: list[Event] = field(default_factory=list[Event])

    def calls(self, purpose: str) -> list[Mapping[str, Any]]:
        asked = [event.data for event in self.events if event.kind == "asked"]
        return [data for data in asked if data["purpose"] == purpose]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    async def asked(
        model: Model, text: str, *, mode: str = "auto", question: str = WHICH, dialect: str = "holdall"
    ) -> Told:
        async with opened(tmp_path, model=model, dialect=dialect) as bag:
            return await through_the_tool(bag, text, question, mode, monkeypatch)

    return asked


async def through_the_tool(bag: Holdall, text: str, question: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> Told:
    found: list[Extraction] = []
    events: list[Event] = []
    extract = Questions.extract

    async def noted(*given: Any, **options: Any) -> Extraction:
        found.append(await extract(*given, **options))
        return found[-1]

    monkeypatch.setattr(Questions, "extract", noted)
    bag.journal.watchers[events.append] = lambda: False
    before = (await bag.counters()).model_tokens
    facts = await bag.keep(text, tool="inspect")
    handle = bag.core.handle_of(facts)
    if bag.dialect.name == "async":
        answer = await bag.call("get_tool_output", {"id": handle, "mode": "extract", "query": question})
    else:
        answer = await bag.call("tool_output", {"handle": handle, "extract": question, "mode": mode})
    told = Told(answer.text, answer.is_error, found[0], handle, text.encode(), events)
    prove_ranges(told)
    prove_accounting(told, (await bag.counters()).model_tokens - before)
    return told


# The contract


def prove_ranges(told: Told) -> None:
    """Inside the source; what is verified is its bytes, what is nowhere has none."""
    found, data = told.found, told.data
    assert found.source_bytes == len(data)
    for one in found.snippets:
        assert 0 <= one.span.start <= one.span.end <= len(data)
        if one.check == "none":
            assert one.span == Span(0, 0)
            assert one.text not in data.decode()
        else:
            assert data[one.span.start : one.span.end].decode() == one.text
        # Judged by what has nothing to do with how it was found: letters and digits alone. Several quotes may be one.
        if one.verified:
            assert all(letters(said) in letters(data.decode()) for said in (one.said or one.text).split("\n"))
    assert all(0 <= span.start < span.end <= len(data) for span in found.searched)
    if found.strategy == "full-chunked":
        assert found.chunks_searched + len(found.failed) == found.chunks_total > 0


def letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text)


def prove_accounting(told: Told, counted: int) -> None:
    """Every call is an event, and the sums are those of the events."""
    spent, events = told.found.spent, [event.data for event in told.events if event.kind == "asked"]
    assert len(events) == spent.calls
    assert sum(data["attempt"] > 1 for data in events) == spent.retries
    assert sum(data["input_tokens"] for data in events) == spent.usage.input_tokens
    assert sum(data["output_tokens"] for data in events) == spent.usage.output_tokens
    assert counted == spent.usage.tokens
    if spent.calls:
        assert spent.usage.tokens > 0
        assert spent.usage.cost == 0.0
        assert spent.seconds > 0
        assert all(data["request_bytes"] > 0 and data["messages"] > 1 for data in events)
    (last,) = [event for event in told.events if event.kind == "extracted"]
    assert (last.data["strategy"], last.data["calls"]) == (told.found.strategy, spent.calls)


CUT_SHORT = "The model's answer was cut off at its output limit: its end is missing."


def prove_tried(told: Told, strategy: str, reason: str) -> None:
    """The strategy was tried; where it could not be carried out, what stands in its place says so."""
    found = told.found
    assert not told.is_error
    if found.strategy == strategy:
        assert found.reason == reason
        # A small model may write until its limit: then that is told, and nothing else.
        assert found.warning in ("", CUT_SHORT)
        assert found.warning in told.text
    else:
        assert (found.strategy, found.reason) == ("truncate", "fallback")
        assert found.warning.startswith(f"WARNING: {strategy} failed (")
        assert found.warning in told.text


def prove_s0(told: Told) -> None:
    head = f"ABSTRACT FROM TOOL OUTPUT inspect WITH HANDLE {told.handle}, STRATEGY:{told.found.strategy}:\n\n"
    assert told.text.startswith(head)
    assert len(told.text) > len(head)


def prove_own(told: Told) -> None:
    text = told.text.removeprefix(f"{told.found.warning}\n") if told.found.warning else told.text
    assert re.match(rf"[^\n]*{told.found.strategy} · [^\n]*searched[^\n]*\n<\d{{3,}}>\n", text)
    for one in told.found.snippets:
        where = "" if one.check == "none" else f"bytes {one.span.start}:{one.span.end}, "
        mark = "verified" if one.verified else "unverified"
        assert f"Quote, {where}{mark}" in text


def prove_s3(told: Told) -> None:
    table = json.loads(told.text)
    assert {"snippets", "source_hash", "source_size_bytes", "chunks_searched", "chunks_total", "confidence"} <= set(
        table
    )
    assert table["source_size_bytes"] == len(told.data)
    assert [one["verified"] for one in table["snippets"]] == [one.verified for one in told.found.snippets]
    assert ("no_match_reason" in table) == (not told.found.found)


# What is asked


@requirement("extract:auto-fits-chunks", "extract:success-format")
async def test_a_short_output_is_read_whole(ask: Any, small: GgufModel) -> None:
    told = await ask(small, SHORT, dialect="extract")
    prove_tried(told, "full-chunked", "fits")
    prove_s0(told)
    assert told.calls("map")


@in_full
@requirement("extract:auto-else-read-grep")
async def test_a_longer_one_of_many_lines_is_searched(ask: Any, small: GgufModel) -> None:
    told = await ask(small, LONG)
    prove_tried(told, "read-grep", "many-lines")
    prove_own(told)
    assert told.calls("read-grep")


@in_full
@requirement("extract:reduce-once")
async def test_every_chunk_is_read_where_that_is_asked_for(ask: Any, small: GgufModel) -> None:
    told = await ask(small, LONG, mode="full-chunked")
    prove_tried(told, "full-chunked", "asked")
    prove_own(told)
    found, chunks = told.found, {data["chunk"] for data in told.calls("map")}
    assert chunks == set(range(len(chunks)))
    assert len(chunks) > 1
    if found.strategy == "full-chunked" and not found.failed:
        assert found.searched == (Span(0, len(told.data)),)


@in_full
@requirement("extract:async-always-chunked", "extract:async-result")
async def test_in_the_dialect_async_it_is_always_read_in_chunks(ask: Any, small: GgufModel) -> None:
    told = await ask(small, SHORT, dialect="async")
    prove_tried(told, "full-chunked", "dialect")
    prove_s3(told)


@in_full
@requirement("extract:read-grep-tools")
async def test_it_is_searched_where_that_is_asked_for(ask: Any, small_model: Path) -> None:
    model = GgufModel(small_model, context=1536, max_output=64)  # room for some turns
    try:
        told = await ask(model, SHORT, mode="read-grep", dialect="extract")
    finally:
        await model.close()
    prove_tried(told, "read-grep", "asked")
    prove_s0(told)
    assert 1 <= len(told.calls("read-grep")) <= 16
    assert "{" not in told.found.answer[:1], "a call that it did not finish is no answer"


@requirement("extract:truncate")
@pytest.mark.parametrize("dialect", ["holdall", "extract"])
async def test_truncating_asks_no_model(ask: Any, small: GgufModel, dialect: str) -> None:
    text = LONG * 10
    told = await ask(small, text, mode="truncate", dialect=dialect)
    prove_tried(told, "truncate", "asked")
    (prove_s0 if dialect == "extract" else prove_own)(told)
    assert (told.found.spent.calls, told.found.model) == (0, "")
    assert "bytes are left out here: bytes " in told.text


@in_full
@requirement("extract:not-found-succeeds")
async def test_nothing_to_find_is_no_error_and_says_what_was_searched(ask: Any, small: GgufModel) -> None:
    told = await ask(small, SHORT, question="What is the phone number of the dentist?", mode="full-chunked")
    prove_tried(told, "full-chunked", "asked")
    total = told.found.chunks_total
    if told.found.found:  # it says so; then nothing of it stands in the output, or it is what the output says
        assert f"searched {total} of {total} chunk" in told.text
    else:
        assert told.found.snippets == ()
        assert f"No content matching query found in tool output. Searched {total} of {total} chunk" in told.text


@in_full
@requirement("extract:retries", "extract:fallback-truncate", "extract:fallback-warns")
async def test_a_model_that_is_cut_off_is_asked_again_and_then_told_of(ask: Any, small_model: Path) -> None:
    model = GgufModel(small_model, context=1024, max_output=8)
    try:
        told = await ask(model, SHORT, mode="full-chunked", dialect="extract")
    finally:
        await model.close()
    assert told.found.strategy == "truncate"
    prove_tried(told, "full-chunked", "asked")
    prove_s0(told)
    assert "none could be read" in told.found.warning
    assert [data["attempt"] for data in told.calls("map")] == [1, 2, 3]
    assert {data["why"] for data in told.calls("map")} == {"no usable answer (length)"}
    assert {data["output_tokens"] for data in told.calls("map")} == {8}


@in_full
async def test_a_model_that_is_cut_off_later_is_taken_at_what_it_quoted_by_then(ask: Any, small_model: Path) -> None:
    model = GgufModel(small_model, context=1024, max_output=56)
    try:
        told = await ask(model, SHORT, mode="full-chunked", dialect="extract")
    finally:
        await model.close()
    prove_tried(told, "full-chunked", "asked")
    prove_s0(told)
    if CUT_OFF in told.found.answer:
        assert told.found.snippets
        assert told.found.spent.retries == 0


class MustQuote(ModelWrapper):
    """Held to a schema that wants two quotes of some length, whether there is something to quote or not."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.said: list[str] = []

    async def ask(self, request: Request) -> Reply:
        if request.schema is not None:
            schema = json.loads(json.dumps(request.schema))
            schema["properties"]["quotes"] |= {"minItems": 2, "maxItems": 2}
            schema["properties"]["quotes"]["items"] |= {"minLength": 16, "maxLength": 60}
            schema["properties"]["answer"]["maxLength"] = 100
            schema["properties"]["found"] = {"const": True}
            request = replace(request, schema=schema)
        reply = await self.inner.ask(request)
        self.said += json.loads(reply.text)["quotes"]
        return reply


@in_full
@requirement("extract:invented-quote-marked", "extract:ranges-computed")
async def test_a_model_that_has_to_quote_what_is_not_there_is_found_out(ask: Any, small: GgufModel) -> None:
    model = MustQuote(small)
    told = await ask(model, SHORT, question="Quote what the captain says about the whale.", mode="full-chunked")
    prove_tried(told, "full-chunked", "asked")
    prove_own(told)
    assert len(model.said) >= 2
    everything = letters(SHORT)
    invented = {quote for quote in model.said if letters(quote) and letters(quote) not in everything}
    marked = {one.said or one.text for one in told.found.snippets if not one.verified}
    assert invented <= marked
    if told.found.snippets and not any(one.verified for one in told.found.snippets):
        assert "do not rely on this answer" in told.text


# What larger models answer, where they are


@in_full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", ["0.5b", "1.5b"])
async def test_what_a_larger_model_answers_is_reported(ask: Any, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    modes = [("auto", SHORT), ("full-chunked", LONG), ("read-grep", LONG)]
    model = GgufModel(the_file(size), context=2048, max_output=256)
    try:
        for mode, text in modes:
            told = await ask(model, text, mode=mode)
            prove_tried(
                told, "read-grep" if mode == "read-grep" else "full-chunked", "fits" if mode == "auto" else "asked"
            )
            prove_own(told)
            with capsys.disabled():
                print(f"\n{size}, {mode}: {reported(told.found)}")
    finally:
        await model.close()


def reported(found: Extraction) -> str:
    right = "right" if CODE in found.answer and found.strategy != "truncate" else "not right"
    verified = sum(one.verified for one in found.snippets)
    spent = found.spent
    what = found.warning or " ".join(found.answer.split())[:200]
    return (
        f"{right}, {verified} of {len(found.snippets)} quotes verified, {found.strategy}, {spent.calls} calls, "
        f"{spent.usage.input_tokens} tokens read, {spent.usage.output_tokens} written, {spent.seconds:.0f} s: {what}"
    )
