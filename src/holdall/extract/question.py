"""A question about an output: routed, answered from what is known already, asked, and where that fails, truncated.

It knows nothing of sessions or loops: a document, a question, a policy and a model come in, an `Extraction` goes out.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from holdall.extract.chunks import plan_chunks
from holdall.extract.full_chunked import (
    NO_NOTES,
    ChunkCalls,
    Mapped,
    Notes,
    Rooms,
    are_there,
    best_confidence,
    beyond,
    claims,
    key_of,
    recalled_answer,
    remember,
    rooms,
    searched_spans,
)
from holdall.extract.model_calls import Document, ModelCaller, Policy, Watch
from holdall.extract.read_grep import read_and_grep
from holdall.extract.truncate import both_ends
from holdall.extract.verify import merge
from holdall.llm.protocol import Model
from holdall.policy.route import Forecast, Route, route
from holdall.store.protocol import OutputReader
from holdall.text.escape import foreign, one_line
from holdall.text.numbers import plural
from holdall.text.tokens import count_in_pieces
from holdall.text.utf8 import REPLACEMENT, decode
from holdall.values.chat import Usage
from holdall.values.errors import ModelFault, TooCostly
from holdall.values.extraction import CallRecord, Extraction, FailedChunk, Spent
from holdall.values.record import record
from holdall.wire.extraction import (
    NOT_UTF8_WARNING,
    cut_warning,
    fallback_warning,
    joined_ends,
    no_summary_warning,
    not_text,
    nothing_found,
    overruled_warning,
    why_of,
)

_SAMPLE = 64 * 1024  # bytes
_MAX_REPLACED = 0.1  # of the characters: in a text of another encoding most are ASCII
_LOG = logging.getLogger("holdall")
_MAX_DESCRIBED = 8  # chunks whose description is passed on where nothing was found


@record
class Plan:
    """What a question would take, before the first call."""

    route: Route
    rooms: Rooms
    chunks: int
    forecast: Forecast


@record(frozen=False)
class Question:
    """One question about one document, put to one model. `price` tells what so much usage costs, if it is known."""

    document: Document
    text: str
    policy: Policy
    model: Model
    notes: Notes = NO_NOTES
    record: Callable[[CallRecord], None] = lambda _: None
    watch: Watch = lambda _: None
    price: Callable[[Usage], float | None] = lambda _: None

    async def plan(self) -> Plan:
        measure = self.document.source.measure
        given = rooms(self.model, self.policy, self.document.source, self.text, self._count)
        chunks = await self.document.on(
            lambda reader: len(
                plan_chunks(
                    reader.read, measure=measure, chunk_tokens=given.chunk, overlap_percent=self.policy.overlap_percent
                )
            )
        )
        way = route(
            measure, mode=self.policy.mode, chunks=chunks, max_chunks=self.policy.max_chunks,
            long_line_bytes=self.policy.long_line_bytes, always_chunked=self.policy.always_chunked,
        )  # fmt: skip
        return Plan(way, given, chunks, self._forecast(way, given, chunks))

    async def answer(self) -> Extraction:
        """Raises TooCostly if the ceiling forbids even to begin; otherwise there is always a result."""
        plan = await self.plan()
        started = time.perf_counter()
        key = self._key(plan)
        known = await asyncio.to_thread(recalled_answer, self.notes, key)
        if known is not None and await self.document.on(lambda reader: are_there(reader, known.snippets)):
            spent = Spent(cached_calls=known.spent.calls + known.spent.cached_calls)
            return self._with_encoding(replace(known, cached=True, spent=spent))
        if over := self.policy.ceiling.over(plan.forecast):
            size = self.document.source.measure.bytes
            raise TooCostly(
                f"{plan.route.strategy} of {size:,} bytes would take {plan.forecast}, and a question may take {over}. "
                "Ask for less (grep or query narrow it down), or raise the ceiling."
            )
        caller = ModelCaller(
            self.model, self.policy.ceiling, self.policy.parallel, self.policy.retries, self.policy.call_seconds,
            self.record,
        )  # fmt: skip
        found = await self._by(plan, caller)
        found = replace(found, spent=replace(caller.spent, seconds=time.perf_counter() - started))
        if not found.warning and not found.failed and found.strategy != "truncate":
            await asyncio.to_thread(remember, self.notes, key, found)
        return self._with_encoding(found)

    # Inside

    async def _by(self, plan: Plan, caller: ModelCaller) -> Extraction:
        strategy = plan.route.strategy
        if strategy == "truncate":
            return await self._truncated(plan.route)
        try:
            measure = self.document.source.measure
            if not measure.utf8 and await self.document.on(_is_binary):
                raise ModelFault(not_text(self.document.source.handle, measure.kind))
            if strategy == "full-chunked":
                return await self._chunked(plan, caller)
            return await read_and_grep(self.document, self.text, self.policy, plan.route, caller)
        except (ModelFault, TooCostly) as problem:
            return await self._fallen_back(plan, problem)

    async def _fallen_back(
        self, plan: Plan, problem: ModelFault | TooCostly, failed: tuple[FailedChunk, ...] = ()
    ) -> Extraction:
        strategy = plan.route.strategy
        _LOG.warning("extraction: %s failed (%s); falling back to truncate", strategy, one_line(str(problem), 500))
        short = await self._truncated(Route("truncate", "fallback"))
        warning = fallback_warning(strategy, why_of(problem), whole=len(short.ends) < 2)
        total = len(failed) or (plan.chunks if strategy == "full-chunked" else 0)
        return replace(short, warning=warning, chunks_total=total, failed=failed)

    async def _chunked(self, plan: Plan, caller: ModelCaller) -> Extraction:
        calls = ChunkCalls(self.document, self.text, self.policy, plan.rooms, caller, self.notes, self.watch)
        mapped = await calls.read_all()
        if mapped.total and not mapped.findings:
            why = f"of {plural(mapped.total, 'chunk')} none could be read: {foreign(mapped.failed[0].why)}"
            return await self._fallen_back(plan, ModelFault(why), mapped.failed)
        told = self._summed_up(plan.route, mapped)
        hits = mapped.hits
        if not hits:
            there = [one.finding.answer for one in mapped.findings[:_MAX_DESCRIBED]]
            answer = nothing_found(len(mapped.findings), mapped.total, mapped.failed, there)
            sure = [one.finding.confidence for one in mapped.findings if one.finding.confidence is not None]
            return replace(told, answer=answer, found=False, confidence=min(sure, default=None))
        every = [snippet for one in hits for snippet in one.snippets]
        proved = await self.document.on(lambda reader: claims(merge(every, reader.read)))
        cut = [one.span for one in hits if one.finding.cut]
        told = replace(
            told, answer="\n\n".join(one.finding.answer for one in hits), snippets=proved,
            confidence=best_confidence(hits), unchecked=sum(one.unchecked for one in hits),
            warning=cut_warning(cut if mapped.total > 1 else ()) if cut else "",
        )  # fmt: skip
        if len(hits) == 1:
            return told
        try:
            summed = await calls.sum_up(mapped)
        except (ModelFault, TooCostly) as problem:
            return replace(told, warning=_lines(told.warning, no_summary_warning(why_of(problem))))
        if not summed.found:
            return replace(told, warning=_lines(told.warning, overruled_warning(summed.answer)))
        # The one that sums up has read no bytes: its quotes count only where they are in what was proved.
        more = await self.document.on(lambda _: beyond(summed.quotes, proved))
        sure = summed.confidence if summed.confidence is not None else told.confidence
        warning = _lines(told.warning, cut_warning()) if summed.cut else told.warning
        return replace(told, answer=summed.answer, snippets=(*proved, *more), confidence=sure, warning=warning)

    def _summed_up(self, way: Route, mapped: Mapped) -> Extraction:
        measure = self.document.source.measure
        return Extraction(
            answer="", strategy=way.strategy, reason=way.reason, found=True, source_hash=measure.sha256,
            source_bytes=measure.bytes, chunks_searched=len(mapped.findings), chunks_total=mapped.total,
            failed=mapped.failed, searched=searched_spans(mapped.findings), model=self.model.name,
        )  # fmt: skip

    def _with_encoding(self, found: Extraction) -> Extraction:
        """What a model was given in place of some bytes is said, whatever it found."""
        if self.document.source.measure.utf8 or found.strategy == "truncate":
            return found
        return replace(found, warning=_lines(found.warning, NOT_UTF8_WARNING))

    async def _truncated(self, way: Route) -> Extraction:
        measure = self.document.source.measure
        ends = await self.document.on(lambda reader: both_ends(reader, self.policy.truncate_bytes))
        return Extraction(
            answer=joined_ends(ends, measure.bytes), strategy="truncate", reason=way.reason, found=None,
            source_hash=measure.sha256, source_bytes=measure.bytes, chunks_searched=0, chunks_total=0, ends=ends,
        )  # fmt: skip

    def _forecast(self, way: Route, given: Rooms, chunks: int) -> Forecast:
        measure = self.document.source.measure
        if way.strategy == "truncate":
            return Forecast(0, 0, 0, 0.0)
        if way.strategy == "read-grep":
            calls = self.policy.max_turns
            read = calls * min(self.model.window // 2, 20_000)
        else:
            calls = chunks + (chunks > 1)
            prompts = chunks * (given.outputs - given.chunk + 500 if given.outputs > given.chunk else 500)
            read = int(measure.tokens * (1 + self.policy.overlap_percent / 100)) + min(prompts, chunks * 1000)
        written = calls * min(given.reply, 500)
        return Forecast(calls, read, written, self.price(Usage(read, written)))

    def _key(self, plan: Plan) -> str:
        policy = self.policy
        return key_of(
            "answer", self.text, self.model.name, plan.route.strategy, plan.rooms.chunk, policy.overlap_percent,
            self.model.keeps_schema,
        )  # fmt: skip

    def _count(self, text: str) -> int:
        return count_in_pieces(self.document.tokenizer, text)


def _is_binary(reader: OutputReader) -> bool:
    """Whether so little of it is text that no model could read it, by samples of its beginning and its middle."""
    total = reader.totals.bytes
    starts = {0, total // 2}
    data = b"".join(reader.read(start, min(total, start + _SAMPLE)) for start in starts)
    text = decode(data)[0]
    return "\0" in text or text.count(REPLACEMENT) > len(text) * _MAX_REPLACED


def _lines(*warnings: str) -> str:
    return "\n".join(filter(None, warnings))
