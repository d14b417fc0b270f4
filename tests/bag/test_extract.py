"""Questions about a kept output as a model asks them, in each dialect that has a tool for it."""

import gzip
import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall.bag.take import view_of
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.policy.route import Ceiling
from holdall.text.tokens import tokenizer_named
from holdall.values.chat import Reply, ToolCall
from holdall.values.errors import ModelFault, TooCostly
from holdall.values.outputs import Kept
from holdall.wire.notice import next_calls
from tests.bag.shapes import LOG, SMALL, opened
from tests.extract.shapes import Answer, document_of, finding, is_reduce, nonce_of, said
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
JOB = Answer("job 3 failed first", ["00:00:03 ERROR job 3"], 0.9)


@requirement("extract:success-format")
async def test_the_dialect_of_s0_from_the_message_to_the_abstract(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="extract", model=finding(lambda _: JOB, window=200_000)) as bag:
        taken = await bag.take(LOG, tool="logs", arguments={"day": "monday"})
        assert isinstance(taken, Kept)
        handle = taken.artifact.long_handle
        assert f'Call tool_output(handle = "{handle}", extract = "what to extract").' in taken.content
        answer = await bag.call("tool_output", {"handle": handle, "extract": "Which job failed first?"})
        assert answer.text.replace(handle, "HANDLE") == snapshot("""\
ABSTRACT FROM TOOL OUTPUT logs WITH HANDLE HANDLE, STRATEGY:full-chunked:

job 3 failed first
> 2026-01-01 00:00:03 ERROR job 3
  (bytes 93:124, verified)
(searched 1 of 1 chunk; the model's confidence: 0.9)\
""")
        assert not answer.is_error
        assert [LOG.encode()[span.start : span.end] for span in answer.spans] == [b"2026-01-01 00:00:03 ERROR job 3"]


@requirement("extract:failure-format", "extract:fallback-warns")
async def test_what_goes_wrong_in_the_dialect_of_s0(tmp_path: Path) -> None:
    def down(_: str) -> Answer:
        raise ModelFault("503: the provider is down")

    async with opened(tmp_path, dialect="extract", model=finding(down, window=200_000), extraction_max_calls=1) as bag:
        handle = (await bag.keep(LOG, tool="logs")).long_handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x"})
        assert not answer.is_error
        assert answer.text.replace(handle, "HANDLE").split("\n")[:3] == snapshot(
            [
                "ABSTRACT FROM TOOL OUTPUT logs WITH HANDLE HANDLE, STRATEGY:truncate:",
                "",
                "WARNING: full-chunked failed (of 1 chunk none could be read: 503: the provider is down). What follows is only the beginning and the end of the output.",
            ]
        )
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": "read-grep"})
        assert answer.is_error
        assert answer.text.replace(handle, "HANDLE") == snapshot("""\
TOOL_OUTPUT FAILED FOR logs WITH HANDLE HANDLE, STRATEGY:read-grep:

Read-grep of 168,900 bytes would take 15 calls, 307,500 tokens, price unknown, and a question may take 1 call. Ask for less. mode="truncate" asks no model: it shows the beginning and the end.\
""")


@requirement(
    "extract:async-result", "extract:async-always-chunked", "extract:chunk-size-async", "extract:overlap-async"
)
async def test_the_dialect_of_s3_gives_the_json_of_its_result(tmp_path: Path) -> None:
    model = finding(lambda _: JOB, window=16_000, summed=JOB)
    async with opened(tmp_path, dialect="async", model=model) as bag:
        taken = await bag.take(LOG, tool="logs")
        assert isinstance(taken, Kept)
        asked = {"id": taken.handle, "mode": "extract", "query": "Which job failed first?"}
        result = json.loads((await bag.call("get_tool_output", asked)).text)
        assert (result["strategy"], result["reason"]) == ("full-chunked", "dialect")
        assert result["source_hash"] == taken.artifact.measure.sha256
        first = result["snippets"][0]
        assert LOG.encode()[first["start_byte"] : first["end_byte"]].decode() == first["text"]
        assert "- Overlap: 5%" in model.requests[0].messages[0].text
        chunks = -(-taken.artifact.measure.tokens // 8000)
        assert chunks <= result["chunks_total"] <= chunks + 2, "half of the window each"
        missing = await bag.call("get_tool_output", {"id": taken.handle, "mode": "extract"})
        assert (missing.is_error, missing.text) == (True, "Query required for extract mode.")


@requirement("extract:not-found-succeeds", "answer:nothing-matching")
async def test_nothing_found_in_the_dialect_of_s3(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async", model=finding(lambda _: None, window=200_000)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        answer = await bag.call("get_tool_output", {"id": handle, "mode": "extract", "query": "a dragon"})
        result = json.loads(answer.text)
        assert not answer.is_error
        assert result["no_match_reason"] == "No content matching query found in tool output."
        assert result["confidence"] is None, "it gave none"
        assert (result["snippets"], result["chunks_searched"], result["chunks_total"]) == ([], 1, 1)


@requirement("extract:async-result", "extract:provenance-confidence")
async def test_where_nothing_was_found_the_confidence_is_that_of_the_least_sure_chunk(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        sure = 0.6 if "job 3\n" in document_of(request) else 0.9
        return json.dumps({"quotes": [], "answer": "jobs", "found": False, "confidence": sure})

    async with opened(tmp_path, dialect="async", model=ScriptedModel(answer, window=32_000, keeps_schema=True)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        answered = await bag.call("get_tool_output", {"id": handle, "mode": "extract", "query": "a dragon"})
        assert json.loads(answered.text)["confidence"] == 0.6


@requirement("dialect:holdall-tool-output", "dialect:holdall-tool-tokens", "extract:holdall-answer")
async def test_our_own_dialect_offers_the_tool_only_where_there_is_a_model(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(LOG, tool="logs")
        assert "tool_output" not in {tool.name for tool in bag.tools()}
        assert "tool_output" not in taken.content + bag.instructions()
        assert bag.owns("tool_output")
        answer = await bag.call("tool_output", {"handle": taken.handle, "extract": "x"})  # type: ignore[union-attr]
        assert (answer.is_error, answer.text) == (True, "No model is configured for extraction.")
    async with opened(tmp_path, model=finding(lambda _: JOB, window=200_000)) as bag:
        await bag.take(SMALL)
        taken = await bag.take(LOG, tool="other logs")
        assert isinstance(taken, Kept)
        *base, ask = (tool for tool in bag.tools() if tool.name != "context_diff")
        assert (ask.name, "others as facts" in ask.description) == ("tool_output", True)
        texts = [bag.instructions(), *(json.dumps(tool.openai(), ensure_ascii=False) for tool in base)]
        assert sum(map(tokenizer_named("o200k").count, texts)) <= 600
        answer = await bag.call("tool_output", {"handle": taken.handle, "extract": "Which job failed first?"})
        lines = answer.text.replace(taken.handle, "HANDLE").split("\n")
        assert lines[0] == snapshot(
            "answer of scripted, which read it · full-chunked · searched 1 of 1 chunk · the model's confidence: 0.9"
        )
        assert "Quote, bytes 93:124, verified:" in lines
        coverage = await bag.coverage(taken.handle)
        assert coverage.ranges["searched"].bytes() == len(LOG)
        assert all(coverage.shown.covers(span) for span in answer.spans)


def _down(_: str) -> Answer:
    raise ModelFault("503: the provider is down")


@requirement("extract:truncate", "extract:truncate-both-ends", "ledger:truncate")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "async"])
@pytest.mark.parametrize("left", [None, 600])
async def test_truncate_shows_the_beginning_and_the_end(tmp_path: Path, dialect: str, left: int | None) -> None:
    """And the ledger has both as shown: no model has searched anything."""
    asked = {"extract": "x", "mode": "truncate"} if dialect != "async" else {"query": "x", "mode": "extract"}
    async with opened(tmp_path, dialect=dialect, model=finding(_down, window=200_000)) as bag:
        kept = await bag.keep(LOG, tool="logs")
        name, key = ("get_tool_output", "id") if dialect == "async" else ("tool_output", "handle")
        answer = await bag.call(name, {key: bag.core.handle_of(kept), **asked}, tokens_left=left)
        text = answer.text if dialect != "async" else json.loads(answer.text)["answer"]
        top, bottom = answer.spans
        gone = f"\n[… {bottom.start - top.end:,} bytes are left out here: bytes {top.end}:{bottom.start} …]\n"
        assert f"{LOG[: top.end]}{gone}{LOG[bottom.start :]}" in text
        assert (top.start, bottom.end) == (0, len(LOG))
        assert bag.core.count(answer.text) <= (left or 4000)
        if dialect != "async":
            share = top.end + bottom.end - bottom.start
            assert f"not searched: {share:,} of {len(LOG):,} bytes, its beginning and its end, are shown" in answer.text
        ledger = (await bag.coverage(kept.handle)).to_json(len(LOG))
        assert (ledger.get("shown"), "searched" in ledger) == ([top.as_list(), bottom.as_list()], False)


@requirement("ledger:truncate")
async def test_what_is_no_text_is_not_shown_by_its_replacement(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(b"\xff\xfe" * 40_000 + b"the end\n" * 2000, tool="t")).handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": "truncate"})
        (end,) = (await bag.coverage(handle)).shown.as_lists()
        assert answer.text.rstrip().split("\n")[-2] == "the end"
        assert 90_000 < end[0] < end[1] == 96_000


@requirement("extract:failure-format")
async def test_a_failure_has_its_reason_however_little_room_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="extract", model=finding(_down, window=200_000)) as bag:
        handle = (await bag.keep(LOG, tool="f")).long_handle
        asked = {"handle": handle, "extract": "q", "mode": "truncate"}
        answer = await bag.call("tool_output", asked, tokens_left=20)
        assert answer.text == (
            f"TOOL_OUTPUT FAILED FOR f WITH HANDLE {handle}, STRATEGY:truncate:\n\n"
            "There is no room left for an answer in this turn. Ask again in the next one, or report."
        )


@requirement("extract:fallback-truncate", "ledger:searched")
@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
async def test_binary_data_is_not_searched_by_its_replacement(tmp_path: Path, mode: str) -> None:
    model = finding(lambda _: Answer("", [], None), window=200_000)
    async with opened(tmp_path, model=model) as bag:
        handle = (await bag.keep(bytes(range(256)) * 400, tool="t")).handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": mode})
        assert answer.text.startswith(f"WARNING: {mode} failed (it is binary data, not text). What follows is only")
        assert not model.requests
        assert "searched" not in (await bag.coverage(handle)).to_json(102_400)


@requirement("extract:not-found-says-what", "ledger:searched")
async def test_a_question_about_a_packed_text_is_about_the_text(tmp_path: Path) -> None:
    async with opened(tmp_path, model=finding(lambda _: JOB, window=200_000)) as bag:
        handle = (await bag.keep(gzip.compress(LOG.encode()), tool="t")).handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x"})
        assert f'Next: context_read(handle="{handle}!", bytes="0:624")' in answer.text
        assert [LOG.encode()[span.start : span.end] for span in answer.spans] == [b"2026-01-01 00:00:03 ERROR job 3"]
        assert bag.journal.coverage(f"{handle}!").to_json(len(LOG))["searched"] == [[0, len(LOG)]]
        library = await bag.extract(handle, "x")
        assert (library.answer, library.warning) == (JOB.text, "")
        *_, last = next_calls(await view_of(bag.core, handle))
        assert last == f'tool_output(handle="{handle}!", extract="…")'


@requirement("extract:prompt-contents", "measure:model-reads-utf8")
async def test_text_in_another_encoding_is_searched_and_that_is_said(tmp_path: Path) -> None:
    model = finding(lambda _: JOB, window=200_000)
    async with opened(tmp_path, model=model) as bag:
        handle = (await bag.keep(("größe\n" + LOG).encode("latin-1"), tool="t")).handle
        for _ in ("asked", "remembered"):
            answer = await bag.call("tool_output", {"handle": handle, "extract": "x"})
            assert "The output is not all UTF-8: the model was given \ufffd for what is not." in answer.text
        (request,) = model.requests
        assert "- Encoding: not all UTF-8; \ufffd is in place of what is not" in request.messages[0].text


@requirement("extract:truncate", "extract:fallback-warns")
async def test_a_short_output_is_shown_whole_where_no_model_could_read_it(tmp_path: Path) -> None:
    async with opened(tmp_path, model=finding(_down, window=200_000)) as bag:
        handle = (await bag.keep(SMALL, tool="logs")).handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x"})
        assert re.sub(r"(</?)\d{3,}>", r"\1TAG>", answer.text) == snapshot("""\
WARNING: full-chunked failed (of 1 chunk none could be read: 503: the provider is down). What follows is the output itself.
truncate · not searched: all of its 12 bytes are shown
<TAG>
all is well
</TAG>\
""")


@requirement("extract:fallback-truncate", "extract:fallback-warns")
@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
@pytest.mark.parametrize("problem", [ConnectionResetError("reset by peer"), RuntimeError("the library's own")])
async def test_a_model_that_raises_an_error_of_its_own_is_a_strategy_that_failed(
    tmp_path: Path, mode: str, problem: Exception
) -> None:
    def broken(_: Request) -> str:
        raise problem

    async with opened(tmp_path, model=ScriptedModel(broken, window=200_000)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": mode})
        assert answer.text.startswith(f"WARNING: {mode} failed (")
        assert f"{type(problem).__name__}: {problem}). What follows is only" in answer.text.split("\n")[0]


CUT = "The model's answer was cut off at its output limit: its end is missing."


def _cut(request: Request, answer: Answer | None, end: str) -> Reply:
    """The reply up to `end`, as a model gives it that came to its limit there."""
    text = said(request, answer)
    return Reply(text[: text.index(end) + len(end)], stop="length")


@requirement("extract:cut-off")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "async"])
async def test_an_answer_that_the_output_limit_cut_off_says_so(tmp_path: Path, dialect: str) -> None:
    """Also the next time: it is not remembered. One whose closing tag came is whole."""
    ends = iter(["2 and", "2 and", "-FINAL>"])
    model = ScriptedModel(lambda asked: _cut(asked, Answer("The disks 1, 2 and 3"), next(ends)), window=200_000)
    name, key = ("get_tool_output", "id") if dialect == "async" else ("tool_output", "handle")
    async with opened(tmp_path, dialect=dialect, model=model) as bag:
        handle = bag.core.handle_of(await bag.keep(LOG, tool="logs"))
        asked = {key: handle, **({"mode": "extract", "query": "x"} if dialect == "async" else {"extract": "x"})}
        for is_cut in (True, True, False):
            text = (await bag.call(name, asked)).text
            if not is_cut:
                assert CUT not in text
            elif dialect == "async":
                assert text.startswith(f'{{"warning": "{CUT}", "snippets"')
            else:
                assert text.split("\n")[0 if dialect == "holdall" else 2] == CUT
            assert "The disks 1, 2 and" in text


@requirement("extract:cut-off")
async def test_which_chunks_a_cut_answer_is_about_is_said_and_whether_it_is_the_summary(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        if request.tools:  # read-grep: one look, then half of a report
            look = (ToolCall("1", "Read", {"filename": handle, "lines": "1:5"}),)
            half = f'<ai-agent-{nonce_of(request)}-FINAL format="text">job'
            return Reply(half, stop="length") if len(request.messages) > 2 else Reply("", look, stop="calls")
        if is_reduce(request):
            return _cut(request, Answer("all the jobs"), "all the")
        if "job 3\n" in document_of(request):
            return _cut(request, Answer("job 3 and 503"), "job 3")
        return Reply(said(request, Answer("a job")))

    model = ScriptedModel(answer, window=60_000)
    async with opened(tmp_path, model=model) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        lines = (await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": "full-chunked"})).text
        cut, *_ = re.findall(r"bytes (0:\d+)\.", lines)
        chunk = f"What the model found in 1 chunk was cut off at its output limit: more may be in bytes {cut}."
        assert lines.split("\n")[:2] == [chunk, CUT]
        (summing_up,) = filter(is_reduce, model.requests)
        assert re.findall(r"^\[chunk 1 .*\]\n.*|^\[chunk 2 of \d+\]", document_of(summing_up), re.MULTILINE) == [
            f"[chunk 1 of {document_of(summing_up).count('[chunk')}, cut off at the output limit]\njob 3",
            f"[chunk 2 of {document_of(summing_up).count('[chunk')}]",
        ]
        text = (await bag.call("tool_output", {"handle": handle, "extract": "y", "mode": "read-grep"})).text
        assert text.startswith(CUT)


@requirement("extract:reduce-once")
async def test_a_summary_that_finds_nothing_does_not_hide_what_the_chunks_found(tmp_path: Path) -> None:
    def answer(request: Request) -> str:
        return said(request, None if is_reduce(request) else Answer("a job", ["ERROR job 3"]))

    async with opened(tmp_path, dialect="extract", model=ScriptedModel(answer, window=60_000)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).long_handle
        text = (await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": "full-chunked"})).text
        assert text.split("\n\n")[1:3] == [
            (
                "The model that summed up found nothing relevant in the findings of the chunks and wrote "
                '"nothing like that here"; they follow one by one.'
            ),
            "a job",
        ]


@requirement("extract:fallback-warns", "extract:async-result")
async def test_in_the_dialect_of_s3_the_warning_comes_before_the_text_that_it_warns_of(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async", model=finding(_down, window=16_000)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        result = json.loads((await bag.call("get_tool_output", {"id": handle, "mode": "extract", "query": "x"})).text)
        total = result["chunks_total"]
        assert next(iter(result)) == "warning"
        assert result["warning"] == (
            f"WARNING: full-chunked failed (of {total} chunks none could be read: 503: the provider is down). "
            "What follows is only the beginning and the end of the output."
        )
        assert (result["chunks_searched"], total > 2) == (0, True)


@requirement("ledger:shown")
async def test_every_quote_that_an_answer_shows_is_in_the_ledger(tmp_path: Path) -> None:
    """Also one of several lines, and one with signs that JSON escapes; one that was left out is not."""
    said = 'first "line"\nsecond line'
    text = f"{said}\n{LOG}"
    many = Answer("all of them", [said, *(line for line in LOG.split("\n") if "ERROR" in line)])
    model = finding(lambda _: many, window=200_000, keeps_schema=True)
    for dialect in ("extract", "async", "holdall"):
        async with opened(tmp_path / dialect, dialect=dialect, model=model) as bag:
            kept = await bag.keep(text, tool="logs")
            asked = {"handle": bag.core.handle_of(kept), "extract": "which?"}
            if dialect == "async":
                asked = {"id": bag.core.handle_of(kept), "mode": "extract", "query": "which?"}
            name = "get_tool_output" if dialect == "async" else "tool_output"
            answer = await bag.call(name, asked, tokens_left=300)
            assert 0 < len(answer.spans) < 11
            assert text[answer.spans[0].start : answer.spans[0].end] == said
            for span in answer.spans:
                first, *_ = text[span.start : span.end].split("\n")
                assert first.replace('"', '\\"' if dialect == "async" else '"') in answer.text
            assert (await bag.coverage(kept.handle)).ranges["shown"].as_lists() == [
                span.as_list() for span in answer.spans
            ]


@requirement("extract:answer-bounded")
async def test_an_answer_keeps_to_the_room_that_is_left(tmp_path: Path) -> None:
    many = Answer("all of them. " * 500, [line for line in LOG.split("\n") if "ERROR" in line])
    async with opened(tmp_path, model=finding(lambda _: many, window=200_000)) as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        for left in (None, 1000, 300):
            answer = await bag.call("tool_output", {"handle": handle, "extract": "which?"}, tokens_left=left)
            assert bag.core.count(answer.text) <= min(left or 4000, 4000)


@pytest.mark.in_full(one_in=3)
@requirement("extract:model-unusable", "extract:fallback-warns")
@pytest.mark.parametrize(
    ("model", "why", "mode"),
    [
        ("", "no model is configured for extraction", "auto"),
        ("", "no model is configured for extraction", "read-grep"),
        ("nonsense", "the model for extraction cannot be used", "auto"),
        ("gguf:/nowhere/secret.gguf", "the model for extraction cannot be used", "auto"),
        ("openai:gpt-nonexistent", "the model for extraction cannot be used", "read-grep"),
        ("foo:bar", "the model for extraction cannot be used", "auto"),
    ],
)
async def test_where_no_model_can_be_asked_a_model_gets_both_ends_and_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, model: str, why: str, mode: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with opened(tmp_path, dialect="extract", extraction_model=model) as bag:
        at_start = caplog.text
        handle = (await bag.keep(LOG, tool="logs")).long_handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "x", "mode": mode})
        assert not answer.is_error
        head, _, warning, *rest = answer.text.split("\n")
        assert head == f"ABSTRACT FROM TOOL OUTPUT logs WITH HANDLE {handle}, STRATEGY:truncate:"
        strategy = "extraction" if mode == "auto" else mode
        assert warning == (
            f"WARNING: {strategy} failed ({why}). What follows is only the beginning and the end of the output."
        )
        assert "ERROR job 3" in "\n".join(rest)
        assert "secret.gguf" not in answer.text
        assert (await bag.counters()).fallbacks == 1
    assert "falling back to truncate" in caplog.text
    if model:  # else a model of the session's own may come
        assert f"extraction_model {model} cannot be used" in at_start


@requirement("extract:model-unusable")
async def test_a_session_that_is_opened_says_which_key_its_model_for_extraction_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: dict[str, str] = {}
    for name in ("openai:gpt-5", "anthropic/claude-5", "google:gemini-3", "openai:m@http://127.0.0.1:9/v1"):
        for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.delenv(variable, raising=False)
        caplog.clear()
        async with opened(tmp_path, extraction_model=name):
            told[name] = caplog.text.partition("(")[2].partition(")")[0]
    assert list(told.values()) == [
        "OPENAI_API_KEY is not set", "ANTHROPIC_API_KEY is not set", "GOOGLE_API_KEY is not set", ""
    ]  # fmt: skip
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    caplog.clear()
    async with opened(tmp_path, extraction_model="openai:gpt-5"):
        assert caplog.text == ""


@requirement("extract:question-bounded")
async def test_a_question_of_a_megabyte_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    model = finding(lambda _: Answer("x"), window=200_000)
    async with opened(tmp_path, dialect="extract", model=model) as bag:
        handle = (await bag.keep(LOG, tool="logs")).long_handle
        answer = await bag.call("tool_output", {"handle": handle, "extract": "why?" * 250_000})
        assert answer.is_error
        assert answer.text == (
            f"TOOL_OUTPUT FAILED FOR logs WITH HANDLE {handle}, STRATEGY:auto:\n\n"
            "The question has 1,000,000 bytes; it may have 32,768. Say shortly what is wanted."
        )
        assert model.requests == []


async def test_a_ceiling_of_cost_is_refused_where_nobody_knows_the_price(tmp_path: Path) -> None:
    asked: list[str] = []

    def read(text: str) -> Answer:
        asked.append(text)
        return JOB

    async with opened(tmp_path, model=finding(read, window=200_000)) as bag:
        taken = await bag.take(LOG, tool="logs")
        assert isinstance(taken, Kept)
        with pytest.raises(TooCostly, match="so a ceiling of cost cannot be kept"):
            await bag.extract(taken.handle, "Which job?", ceiling=Ceiling(cost=0.001))
        assert not asked
        await bag.extract(taken.handle, "Which job?", ceiling=Ceiling(calls=5))
        assert asked
