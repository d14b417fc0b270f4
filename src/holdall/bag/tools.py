"""A call of one of our own tools: checked, carried out, worded, and within the bounds of an answer, always.

A call never raises because of what the model wrote: it gets an answer that says what is wrong. It never goes to the
background, and its answer never needs a handle of its own.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from holdall.bag.core import Core
from holdall.bag.fetch import Fetch, Fetched, seconds_of
from holdall.bag.waits import Background
from holdall.store.deadline import within
from holdall.store.ids import new_tag
from holdall.values.answers import Answer, Found, Nodes, Passage, Table, scanned_by, shown_by
from holdall.values.errors import AnswerTooLong, HoldallError, NotReady, QueryMissing, TooLargeForRaw
from holdall.values.outputs import Facts
from holdall.values.spans import Span
from holdall.verbs.preview import whole_text
from holdall.verbs.read import Bounds
from holdall.wire.answers import (
    NOT_AN_OBJECT,
    Frame,
    Seen,
    fitting_refusal,
    found_answer,
    listing,
    no_such_tool,
    nodes_answer,
    not_json,
    passage_answer,
    table_answer,
    tag_for,
)
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.clamp import Shrink, fitted
from holdall.wire.notes import without_mark
from holdall.wire.tool import Ask, Tool

if TYPE_CHECKING:
    from holdall.bag.ask import Questions

_FRAME_BYTES, _FRAME_TOKENS = 700, 220  # what is around the data, at most; a longer one costs another try
_MIN_TOKENS = 64
_MAX_LISTED = 100


class ToolCalls:
    def __init__(self, core: Core, fetch: Fetch, questions: "Callable[[], Questions]", background: Background) -> None:
        self._core = core
        self._fetch = fetch
        self._questions = questions
        self._background = background

    async def call(self, name: str, arguments: object = None, *, tokens_left: int | None = None) -> Answer:
        """Run one of the dialect's tools. `arguments` are a mapping, or the JSON text of one."""
        started = time.perf_counter()
        tool = self._core.dialect.tool(name)
        if tool is None:
            asks = self._core.models.configured or not self._core.dialect.extracts_with_model
            known = [tool.name for tool in self._core.dialect.tools if asks or tool.verb != "extract"]
            return self._refused(name, "", no_such_tool(name, known), started, tokens_left)
        problem, given = _checked(tool, arguments)
        if problem:
            return self._refused(name, tool.verb, problem, started, tokens_left)
        ask = tool.ask(given)
        try:
            return await self._answered(name, ask, given, tokens_left, started)
        except HoldallError as error:
            why = self._core.dialect.refuse(error, ask)
            return self._refused(name, ask.verb, why, started, tokens_left, of=ask.handle)

    async def _answered(
        self, name: str, ask: Ask, given: Mapping[str, Any], tokens_left: int | None, started: float
    ) -> Answer:
        if ask.verb == "list":
            return Answer(await self._listing(tokens_left))
        if ask.verb == "wait":
            return await self._background.answer(ask, tokens_left)
        facts = await self._core.on(ask.handle, lambda reader: reader.facts)  # it stays open for what comes next
        if ask.ended and facts.state in ("running", "queued"):
            raise NotReady(facts.handle)
        if ask.verb == "extract":
            return await self._extracted(name, facts, ask, tokens_left, started)
        with within(seconds_of(self._core.settings, ask.verb)):  # of all tries together
            if ask.verb == "raw":
                text, found = await self._raw(facts, ask.handle), None
                spans: tuple[Span, ...] = (Span(0, facts.measure.bytes),)
            else:
                text, found = await self._bounded(facts, ask, given, tokens_left)
                spans = shown_by(found)
        self._core.journal.record(
            "retrieved", handle=facts.handle, tool=facts.origin.tool, seconds=time.perf_counter() - started, name=name,
            verb=ask.verb, tokens=self._core.count(text), shown=[span.as_list() for span in spans],
            scanned=[span.as_list() for span in scanned_by(found)] if found is not None else [],
        )  # fmt: skip
        return Answer(text, handle=facts.handle, spans=spans)

    async def _extracted(self, name: str, facts: Facts, ask: Ask, tokens_left: int | None, started: float) -> Answer:
        if not (question := str(ask.options.get("question", "")).strip()):
            raise QueryMissing
        extraction = await self._questions().extract(facts.handle, question, mode=ask.options.get("mode", "auto"))
        if self._core.dialect.marked_by == "session" and extraction.strategy != "truncate":
            # No fence is around it there, and the model that read the output was told the handle, which is the mark.
            snippets = tuple(
                one if one.verified else replace(one, text=without_mark(one.text, self._core.marks))
                for one in extraction.snippets
            )
            said = without_mark(extraction.answer, self._core.marks)
            extraction = replace(extraction, answer=said, snippets=snippets)
        told = [extraction.answer, extraction.warning, *(snippet.text for snippet in extraction.snippets)]
        frame = Frame(self._core.handle_of(facts), tag_for("\n".join(told), new_tag), self._core.dialect.go_on)
        text = self._core.dialect.extracted(extraction, frame, facts.origin.tool, self._fits(tokens_left))
        # Only what was proved and is in the text counts as shown.
        shown = tuple(one.span for one in extraction.snippets if one.verified and one.text in text)
        self._core.journal.record(
            "retrieved", handle=facts.handle, tool=facts.origin.tool, seconds=time.perf_counter() - started, name=name,
            verb="extract", tokens=self._core.count(text), shown=[span.as_list() for span in shown],
        )  # fmt: skip
        return Answer(text, handle=facts.handle, spans=shown)

    async def _bounded(
        self, facts: Facts, ask: Ask, given: Mapping[str, Any], tokens_left: int | None
    ) -> tuple[str, Fetched]:
        """The answer and its text. What comes out too long is fetched again, shorter: the frame counts too."""
        most_bytes, most_tokens = self._core.settings.answer_max_bytes, self._most_tokens(tokens_left)
        size, tokens = max(256, most_bytes - _FRAME_BYTES), max(32, most_tokens - _FRAME_TOKENS)
        # The frame does not get smaller with what is in it.
        items, before, shrink = 0, 1.0, Shrink(1.0, least=0.0, margin=0.9)
        for share in shrink:
            if items:  # of matches, rows and values the number is what can be made smaller
                ask = replace(ask, options={**ask.options, "limit": max(1, int(items * share / before))})
            bounds = Bounds(max(64, int(size * share)), max(8, int(tokens * share)), self._core.tokenizer)
            found = await self._fetch.carry_out(ask, bounds, facts)
            text = self._worded(facts, ask, found, given)
            shrink.over = max(len(text.encode("utf-8", "replace")) / most_bytes, self._core.count(text) / most_tokens)
            if shrink.fits:
                return text, found
            items, before = _items(found), share
        raise AnswerTooLong(most_tokens)  # a thousand columns, or no room at all

    def _worded(self, facts: Facts, ask: Ask, found: Fetched, given: Mapping[str, Any]) -> str:
        coverage = self._core.journal.coverage(facts.handle)
        spans = shown_by(found)
        total = _total(found)
        again = bool(spans) and all(coverage.shown.covers(span) for span in spans)
        seen = Seen(coverage.share(total, plus=spans), again=again)
        told = None if isinstance(found, Passage | Found) and found.of_messages else seen
        shown = repr(found) + facts.error
        frame = Frame(self._core.handle_of(facts), tag_for(shown, new_tag), self._core.dialect.go_on)
        asked = {name: value for name, value in given.items() if name not in ("handle", "refId", "id", "start", "skip")}
        match found:
            case Passage():
                return passage_answer(
                    found, frame, told, verb="slice" if ask.verb == "slice" else "read", error=facts.error
                )
            case Found():
                return found_answer(found, frame, told, asked=asked)
            case Table():
                return table_answer(found, frame, seen)
            case Nodes():
                return nodes_answer(found, frame, seen, asked=asked)

    async def _raw(self, facts: Facts, handle: str) -> str:
        limits = self._core.limits_for(facts.origin.tool)
        text = await self._core.on(handle, lambda reader: whole_text(reader, limits, self._core.tokenizer))
        if text is None or self._core.imitates(text):
            raise TooLargeForRaw(facts.measure.bytes, facts.measure.tokens)
        return text

    async def _listing(self, tokens_left: int | None) -> str:
        outputs = [facts for facts in await self._fetch.outputs() if facts.state != "expired"]
        most = min(self._core.settings.answer_max_tokens, tokens_left or 1 << 60)
        shares = [(facts, (self._core.journal.coverage(facts.handle)).share(facts.measure.bytes)) for facts in outputs]
        return fitted(
            min(_MAX_LISTED, len(shares)), least=1,
            make=lambda number: listing(shares, handle_of=self._core.handle_of, most=number),
            over=lambda text: self._core.count(text) / most,
        )[1]  # fmt: skip

    def _refused(
        self, name: str, verb: str, why: str, started: float, tokens_left: int | None, *, of: str = ""
    ) -> Answer:
        """`of` is the output that was asked for: what a refusal quotes of it goes when it does."""
        seconds, why = time.perf_counter() - started, fitting_refusal(why, self._fits(tokens_left))
        kept = (one for one in self._core.kept.values() if of in (one.handle, one.long_handle, one.origin.call_id))
        handle = next((one.handle for one in kept), "") if of else ""
        self._core.journal.record("refused", handle=handle, seconds=seconds, name=name[:100], verb=verb, why=why[:500])
        return Answer(why, is_error=True)

    def _most_tokens(self, tokens_left: int | None) -> int:
        return max(_MIN_TOKENS, min(self._core.settings.answer_max_tokens, tokens_left or 1 << 60))

    def _fits(self, tokens_left: int | None) -> Callable[[str], bool]:
        """Whether a text is within the bounds of an answer."""
        most_bytes, most_tokens = self._core.settings.answer_max_bytes, self._most_tokens(tokens_left)
        return lambda text: len(text.encode("utf-8", "replace")) <= most_bytes and self._core.count(text) <= most_tokens


def _checked(tool: Tool, arguments: object) -> tuple[str, Mapping[str, Any]]:
    """What is wrong with the arguments, and what they are."""
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as problem:
            return not_json(problem), {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        return NOT_AN_OBJECT, {}
    given = coerced(tool.schema, cast("Mapping[str, Any]", arguments))
    return schema_problem(tool.schema, given), given


def _items(found: Fetched) -> int:
    match found:
        case Passage():
            return 0
        case Found():
            return len(found.groups) or len(found.matches)
        case Table():
            return len(found.rows)
        case Nodes():
            return len(found.nodes)


def _total(found: Fetched) -> int:
    return found.total.bytes if isinstance(found, Passage) else found.totals.bytes
