"""Questions about an output, put to a model: what it found, proved against the stored bytes, and what that took.

Imported with the first question: most sessions ask none.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar, cast

from holdall.bag.core import Core
from holdall.bag.fetch import Fetch
from holdall.extract.full_chunked import NO_NOTES, Notes
from holdall.extract.model_calls import Document, Policy, ToolAnswer, Watch
from holdall.extract.question import Plan, Question
from holdall.llm.catalogue import price_of
from holdall.llm.protocol import Model, pace_of
from holdall.llm.sampling import SampledModel
from holdall.policy.folds import Coverage
from holdall.policy.route import Ceiling
from holdall.store.ids import new_fence_tag, new_tag
from holdall.store.protocol import OutputReader
from holdall.text.escape import one_line
from holdall.values.answers import Found, Passage, scanned_by, shown_by
from holdall.values.chat import ToolCall
from holdall.values.errors import (
    BadRange,
    HoldallError,
    MissingExtra,
    NoModel,
    NoSuchModel,
    NotReady,
    QueryMissing,
    TooCostly,
    UsageError,
)
from holdall.values.extraction import CallRecord, Extraction, Mode, Snippet
from holdall.values.outputs import Facts
from holdall.values.record import record
from holdall.verbs.read import Bounds
from holdall.wire.answers import NOT_AN_OBJECT, Frame, Seen, found_answer, passage_answer, read_grep_refusal, tag_for
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.extraction import fallback_warning, unusable_model
from holdall.wire.prompts import GREP, READ, READ_GREP, REPEATED_CALL, Source, go_on, no_such_file
from holdall.wire.tool import Ask

# Read and Grep over one output, for a model that searches it: answers as ever, with what that model has seen so far.
#
# The ledger counts what it is shown as searched: the model that asked the question has not seen it.


_FRAME_BYTES, _FRAME_TOKENS = 700, 220  # what is around the data


@record(frozen=False)
class OutputTools:
    """Carries out calls of the tools over one output."""

    core: Core
    fetch: Fetch
    facts: Facts
    handle: str  # as the dialect writes it
    most_tokens: int
    op: str = ""  # the question that they are part of
    seen: Coverage = field(default_factory=Coverage)
    made: set[str] = field(default_factory=set[str])

    async def look(self, call: ToolCall, room: int) -> ToolAnswer:
        """A bad call gets an answer that says what is wrong. Each is an event. `room` is in tokens."""
        started, asked = time.perf_counter(), dict[str, Any]()
        answer = await self._look(call, asked, room)
        self.core.journal.record(
            "called", handle=self.facts.handle, tool=call.name, call_id=call.id, seconds=time.perf_counter() - started,
            outcome="answer", is_error=answer.is_error, chars=len(answer.text), op=self.op,
            arguments={name: value[:_PREVIEW] if isinstance(value, str) else value for name, value in asked.items()},
        )  # fmt: skip
        return answer

    async def _look(self, call: ToolCall, asked: dict[str, Any], room: int) -> ToolAnswer:
        """`asked` gets what was asked for, as it was meant."""
        tool = READ if call.name == READ.name else GREP
        arguments: object = call.arguments
        if not isinstance(arguments, Mapping):
            return ToolAnswer(NOT_AN_OBJECT, is_error=True)
        given = coerced(tool.schema, cast("Mapping[str, Any]", arguments))
        if problem := schema_problem(tool.schema, given):
            return ToolAnswer(problem, is_error=True)
        asked |= {name: value for name, value in given.items() if name != "filename" and value is not None}
        if given["filename"] not in (self.handle, self.facts.handle):
            return ToolAnswer(no_such_file(str(given["filename"]), self.handle), is_error=True)
        if (made := json.dumps([tool.name, asked], sort_keys=True, default=str)) in self.made:
            return ToolAnswer(REPEATED_CALL)
        self.made.add(made)
        verb = "read" if tool is READ else "grep"
        bounds = Bounds(
            max(256, self.core.settings.answer_max_bytes - _FRAME_BYTES),
            max(64, min(self.core.settings.answer_max_tokens, self.most_tokens, room) - _FRAME_TOKENS),
            self.core.tokenizer,
        )
        try:
            found = await self.fetch.carry_out(Ask(verb, self.facts.handle, asked), bounds)
        except HoldallError as error:
            return ToolAnswer(read_grep_refusal(error), is_error=True)
        return self._worded(found, {**asked}) if isinstance(found, Passage | Found) else ToolAnswer("", is_error=True)

    def _worded(self, found: Passage | Found, asked: dict[str, Any]) -> ToolAnswer:
        spans = shown_by(found)
        for span in spans:
            self.seen.shown.add(span)
        frame = Frame(self.handle, tag_for(repr(found), new_fence_tag), go_on)
        seen = Seen(self.seen.share(self.facts.measure.bytes))
        if isinstance(found, Passage):
            return ToolAnswer(passage_answer(found, frame, seen), spans)
        start = asked.pop("start", None)
        text = found_answer(found, frame, seen, asked=asked, start=start)
        return ToolAnswer(text, spans, scanned=scanned_by(found), pattern=str(asked.get("pattern", "")))


Result = TypeVar("Result")
_PREVIEW = 200  # characters
_ANSWER = 2000  # likewise; of a longer one its beginning
_MAX_QUOTES = 100
_MAX_PATTERNS = 20
_MAX_QUESTION_BYTES = 32 * 1024
_LOG = logging.getLogger("holdall")
_MODES = ("auto", "full-chunked", "read-grep", "truncate")


class Questions:
    def __init__(self, core: Core, fetch: Fetch) -> None:
        self._core = core
        self._fetch = fetch

    async def extract(
        self,
        handle: str,
        question: str,
        *,
        mode: Mode = "auto",
        model: Model | str | None = None,
        ceiling: Ceiling | None = None,
        watch: Watch | None = None,
        falls_back: bool = False,
    ) -> Extraction:
        """Ask a model about an output. Each quote is searched in the stored bytes and marked if it is not there.

        About one packed text, as in a gzip, it asks about that text, and spans are of `HANDLE!`.

        Raises TooCostly before the first call if the ceiling (by default that of the settings) would be exceeded.
        `watch` gets the progress. With `falls_back` a model that is missing or cannot be used is no error: the answer
        is both ends of the output, with a warning.
        """
        return await self._core.at_home(self._extract(handle, question, mode, model, ceiling, watch, falls_back))

    async def _extract(
        self,
        handle: str,
        question: str,
        mode: Mode,
        model: Model | str | None,
        ceiling: Ceiling | None,
        watch: Watch | None,
        falls_back: bool,
    ) -> Extraction:
        op, why = new_tag(), ""
        try:
            facts, asked = await self._question(handle, question, mode, model, ceiling, op)
        except (NoModel, NoSuchModel, MissingExtra) as problem:
            if not falls_back:
                raise
            _LOG.warning("extraction: %s; falling back to truncate", str(problem).rstrip("."))
            why = unusable_model(missing=isinstance(problem, NoModel))
            facts, asked = await self._question(handle, question, "truncate", None, ceiling, op)
        if watch is not None:
            asked.watch = watch
        try:
            found = await asked.answer()
        except TooCostly as problem:
            raise TooCostly(str(problem), tool=facts.origin.tool) from None
        if why:
            failed = "extraction" if mode == "auto" else mode
            found = replace(found, reason="fallback", warning=fallback_warning(failed, why))
        spent = found.spent
        self._core.journal.record(
            "extracted", handle=facts.handle, tool=facts.origin.tool, seconds=spent.seconds, strategy=found.strategy,
            reason=found.reason, found=found.found, chunks_searched=found.chunks_searched,
            chunks_total=found.chunks_total, searched=[span.as_list() for span in found.searched],
            scanned=[span.as_list() for span in found.scanned],
            patterns=[one[:_PREVIEW] for one in found.patterns[:_MAX_PATTERNS]],
            snippets=len(found.snippets), verified=sum(one.verified for one in found.snippets), cached=found.cached,
            calls=spent.calls, cached_calls=spent.cached_calls, retries=spent.retries,
            input_tokens=spent.usage.input_tokens, output_tokens=spent.usage.output_tokens, cost=spent.usage.cost,
            model=found.model, why=found.warning, op=op, question=question[:_PREVIEW],
            answer="" if found.found is None else found.answer[:_ANSWER],
            quotes=[_quote(one) for one in found.snippets[:_MAX_QUOTES]],
        )  # fmt: skip
        return found

    async def forecast(
        self, handle: str, question: str, *, mode: Mode = "auto", model: Model | str | None = None
    ) -> Plan:
        """The strategy and the cost of a question, without calling a model."""

        async def plan() -> Plan:
            return await (await self._question(handle, question, mode, model, None))[1].plan()

        return await self._core.at_home(plan())

    # Inside

    async def _question(
        self, handle: str, question: str, mode: Mode, model: Model | str | None, ceiling: Ceiling | None, op: str = ""
    ) -> tuple[Facts, Question]:
        if mode not in _MODES:
            raise BadRange(f"{mode!r} is no mode of extraction: it is one of {', '.join(_MODES)}.")
        if not question.strip():
            raise QueryMissing
        if (size := len(question.encode("utf-8", "replace"))) > _MAX_QUESTION_BYTES:
            raise UsageError(
                f"the question has {size:,} bytes; it may have {_MAX_QUESTION_BYTES:,}. Say shortly what is wanted."
            )
        facts = await self._core.on(handle, lambda reader: reader.facts)
        if facts.state in ("running", "queued"):
            raise NotReady(facts.handle)
        facts = await self._core.text_in(facts)
        asked = self._core.models.named(model, tool=facts.origin.tool, asked=mode != "truncate")
        price = price_of(asked)
        if ceiling is not None and ceiling.cost is not None and price is None and mode != "truncate":
            name = one_line(asked.name, 200)
            raise TooCostly(
                f"the price of {name} is not known, so a ceiling of cost cannot be kept. Give calls or tokens."
            )
        shown = self._core.handle_of(facts)
        source = Source(facts.origin.tool, facts.origin.arguments, shown, facts.measure)
        looking = OutputTools(self._core, self._fetch, facts, shown, max(256, asked.window // 8), op)

        async def on(look: Callable[[OutputReader], Result]) -> Result:
            return await self._core.on(facts.handle, look)

        document = Document(source, on, self._core.tokenizer, READ_GREP, looking.look)
        return facts, Question(
            document, question, self._policy(mode, ceiling, asked), asked, self._notes(facts, asked),
            lambda record: self._record(facts, record, op),
            price=lambda usage: price.cost(usage) if price is not None else None,
        )  # fmt: skip

    def _policy(self, mode: Mode, ceiling: Ceiling | None, model: Model) -> Policy:
        settings, dialect = self._core.settings, self._core.dialect
        overlap = settings.chunk_overlap_percent
        seconds = settings.extraction_seconds
        most = Ceiling(settings.extraction_max_calls, settings.extraction_max_tokens, settings.extraction_max_cost)
        return Policy(
            mode=mode, max_chunks=settings.max_chunks, long_line_bytes=settings.long_line_bytes,
            overlap_percent=dialect.chunk_overlap_percent if overlap is None else overlap,
            chunk_share=dialect.chunk_share, always_chunked=dialect.always_chunked, parallel=settings.extraction_calls,
            call_seconds=pace_of(model).seconds if seconds is None else seconds,
            ceiling=most if ceiling is None else ceiling, truncate_bytes=settings.answer_max_bytes * 3 // 4,
        )  # fmt: skip

    def _notes(self, facts: Facts, model: Model) -> Notes:
        """Answers about the same content: of this session, or where the settings say so of the whole store.

        What a client's own model said is for that client alone: whoever is behind it may answer what he likes.
        """
        scope, content = self._core.settings.extraction_cache, facts.measure.sha256
        if scope == "store" and isinstance(model, SampledModel):
            scope = "session"
        if scope == "off" or not content or facts.packed is not None:  # nobody could tell when to forget them
            return NO_NOTES

        def recall(key: str) -> bytes | None:
            found = self._core.store.recall(self._core.session, content, key)
            if found is None and scope == "store":
                others = (one for one in self._core.store.sessions() if one.id != self._core.session.id)
                found = next((note for one in others if (note := self._core.store.recall(one, content, key))), None)
            return found

        return Notes(recall, lambda key, data: self._core.store.remember(self._core.session, content, key, data))

    def _record(self, facts: Facts, call: CallRecord, op: str) -> None:
        usage = call.usage
        self._core.journal.record(
            "asked", handle=facts.handle, tool=facts.origin.tool, seconds=call.seconds, purpose=call.purpose,
            model=call.model, chunk=call.chunk, messages=call.messages, request_bytes=call.request_bytes,
            reply_bytes=call.reply_bytes, estimated_tokens=call.estimated, input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens, cached_tokens=usage.cached_tokens, cost=usage.cost,
            attempt=call.attempt, why=call.problem, op=op, preview=call.preview,
        )  # fmt: skip


def _quote(snippet: Snippet) -> list[object]:
    """The place of a quote and how it was checked; the words only if they are the model's own, and their beginning."""
    where: list[object] = [snippet.span.start, snippet.span.end, snippet.check]
    said = {"none": snippet.text, "near": snippet.said}.get(snippet.check, "")
    return [*where, said[:_PREVIEW]] if said else where
