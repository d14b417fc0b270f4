"""A call of one of our own tools: checked, carried out, worded, and within the bounds of an answer, always.

A call never raises because of what the model wrote: it gets an answer that says what is wrong. It never goes to the
background, and its answer never needs a handle of its own. It is carried out once: where its answer has to share the
room of a turn, what was found is told in less.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from holdall.bag.core import Core
from holdall.bag.fetch import Fetch, asked_for, seconds_of, seen_by
from holdall.bag.journal import since
from holdall.bag.waits import Background
from holdall.formats.registry import format_of
from holdall.store.deadline import Deadline, within
from holdall.store.ids import new_fence_tag
from holdall.text.ranges import ask as range_asked
from holdall.text.ranges import check_numbers, resolve_lines
from holdall.values.answers import Answer, Difference, Fetched, Found, Nodes, Passage, Table, fewer, items_of, shown_by
from holdall.values.errors import (
    AnswerTooLong,
    CallFailed,
    HoldallError,
    NotReady,
    OutOfTime,
    QueryMissing,
    TooLargeForRaw,
    UsageError,
)
from holdall.values.handles import MEMBER
from holdall.values.outputs import FAILED, Facts
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.verbs.preview import whole_text
from holdall.verbs.read import Bounds
from holdall.wire.answers import (
    MOST_LEVELS,
    NOT_AN_OBJECT,
    TOO_DEEP,
    Frame,
    Seen,
    difference_answer,
    fitting_refusal,
    found_answer,
    json_arguments,
    listing,
    no_such_tool,
    nodes_answer,
    not_started,
    passage_answer,
    table_answer,
    tag_for,
    why_not_raw,
    with_handles,
)
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.clamp import Shrink, fitted
from holdall.wire.extraction import fitting
from holdall.wire.notes import UNKNOWN_OUTPUT, ended_badly, failed_output, without_mark
from holdall.wire.tool import Ask, Tool, ToolSpec, Unbound

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
        answer = (await self.draft(name, arguments, tokens_left=tokens_left)).given()
        self._core.given.append(hash(answer.text))  # it may come back in a transcript
        return answer

    async def draft(self, name: str, arguments: object = None, *, tokens_left: int | None = None) -> "Draft":
        """The same for an answer that may have to become shorter before a model gets it."""
        check_numbers(tokens_left=tokens_left)
        started = time.perf_counter()
        tool = self._core.dialect.tool(name)
        if tool is None:
            known = [self._core.dialect.prefix + spec.name for spec in self.listed()]
            return self._refused(name, "", no_such_tool(name, known), started, tokens_left)
        problem, given = _checked(tool, arguments)
        # What cannot be bound is still refused in the dialect's words, about the output that it names.
        ask = Ask(tool.verb, str(given.get("handle", "")), given)
        try:
            ask = ask if problem else tool.ask(given)
        except Unbound as unbound:
            problem = str(unbound)
        tell: Tell | None = None

        async def told(left: int | None) -> Draft:
            nonlocal tell
            try:
                if problem:
                    raise UsageError(problem)
                tell = tell or await self._carried_out(name, ask, given, started)
                return replace(await tell(left), shorter=told)
            except HoldallError as error:
                why = await self._in_own_words(error, ask)
                return self._refused(name, ask.verb, why, started, left, of=ask.handle, given=given)

        return await told(tokens_left)

    def listed(self) -> tuple[ToolSpec, ...]:
        """The tools of the dialect that a model is told of, once it is told of any."""
        dialect = self._core.dialect
        waits = bool(self._background.calls) or not dialect.waits_later
        asks = self._core.models.configured or not dialect.extracts_with_model
        compares = len(self._core.kept) > 1
        return dialect.specs(waits=waits, asks=asks, compares=compares)

    async def _in_own_words(self, error: HoldallError, ask: Ask) -> str:
        """The refusal as the dialect writes it: it names the tool and the handle wherever the output is known."""
        named: dict[str, str] = {}
        known, rest = ask.handle, ""
        if isinstance(error, OutOfTime):  # a member that took too long to unpack would take as long again
            known, sign, member = ask.handle.partition(MEMBER)
            rest = sign + member
        with contextlib.suppress(HoldallError):
            if known:
                facts = await self._fetch.recorded(known)
                named = {facts.handle: self._core.handle_of(facts)}  # one that has expired is not among those kept
                ask = replace(ask, handle=named[facts.handle] + rest, tool=facts.origin.tool)
        return self._core.dialect.refuse(
            with_handles(error, lambda one: named.get(one) or self._core.shown_handle(one)), ask
        )

    async def _carried_out(self, name: str, ask: Ask, given: Mapping[str, Any], started: float) -> "Tell":
        """Do what is asked, once: what comes back tells it in the room that is left, as often as need be."""
        if ask.verb == "list":
            return await self._listed(ask)
        if ask.verb == "wait":
            return await self._waited(ask, started)
        with within(seconds_of(self._core.settings, ask.verb)) as deadline:  # a member is unpacked for that
            facts = await self._core.on(ask.handle, lambda reader: reader.facts)  # it stays open for what comes next
        if ask.ended and facts.state in ("running", "queued"):
            raise NotReady(facts.handle)
        if ask.verb == "extract":
            with within(deadline):
                facts = await self._core.text_in(facts)

        def note(text: str, why: str = "", **spans: Any) -> None:
            """`why` the call has failed: if it left no output either, this is no retrieval."""
            shows = not why or spans["shown"]
            of, asked = spans.pop("handle", facts.handle), spans.pop("asked", asked_for(given))
            about: dict[str, Any] = {"tokens": self._core.count(text), **spans} if shows else {"why": why}
            self._core.journal.record(
                "retrieved" if shows else "refused", handle=of, tool=facts.origin.tool,
                seconds=since(started), name=name, verb=ask.verb, asked=asked, **about,
            )  # fmt: skip

        if ask.verb == "extract":
            return await self._extracted(facts, ask, note)
        if ask.verb == "raw":
            return await self._raw(facts, ask, note, deadline)
        is_empty = ask.ended and facts.state in FAILED and not facts.measure.bytes
        if is_empty and not await asyncio.to_thread(self._core.messages_of, facts):
            raise CallFailed(facts.state, facts.error, tool=facts.origin.tool)
        return self._fetched(facts, ask, given, note, deadline)

    async def _extracted(self, facts: Facts, ask: Ask, note: "Note") -> "Tell":
        if not (question := str(ask.options.get("question", "")).strip()):
            raise QueryMissing
        if facts.state in FAILED and not facts.measure.bytes:
            raise CallFailed(facts.state, facts.error, tool=facts.origin.tool)
        offered = self._core.models.configured or not self._core.dialect.extracts_with_model
        extraction = await self._questions().extract(
            facts.handle, question, mode=ask.options.get("mode", "auto"), falls_back=offered
        )
        if self._core.dialect.marked_by == "session" and extraction.strategy != "truncate":
            # No fence is around it there, and the model that read the output was told the handle, which is the mark.
            snippets = tuple(
                one if one.verified else replace(one, text=without_mark(one.text, self._core.marks))
                for one in extraction.snippets
            )
            said = without_mark(extraction.answer, self._core.marks)
            extraction = replace(extraction, answer=said, snippets=snippets)
        if facts.state in FAILED or facts.origin.is_error:
            warnings = [extraction.warning, ended_badly(facts)]
            extraction = replace(extraction, warning="\n".join(one for one in warnings if one))
        told = [extraction.answer, extraction.warning, *(snippet.text for snippet in extraction.snippets)]
        frame = Frame(self._core.handle_of(facts), tag_for("\n".join(told), new_fence_tag), self._core.dialect.go_on)

        async def tell(left: int | None) -> Draft:
            fits, worded = self._fits(left), self._core.dialect.extracted
            text, shown = fitting(
                extraction, lambda one: self._core.without_mark(worded(one, frame, facts.origin.tool, fits)), fits
            )
            if not fits(text):
                raise AnswerTooLong(self._most_tokens(left))
            answer = Answer(text, handle=facts.handle, spans=shown.shown)
            return Draft(answer, lambda: note(text, shown=[span.as_list() for span in answer.spans]))

        return tell

    async def _raw(self, facts: Facts, ask: Ask, note: "Note", deadline: Deadline) -> "Tell":
        """All of it, or a refusal. Of a call that did not end well, what it wrote and then its error."""
        limits, measure, failed = self._core.limits_for(facts.origin.tool), facts.measure, facts.state in FAILED
        with within(deadline):
            text = await self._core.on(
                ask.handle, lambda reader: whole_text(reader, limits, self._core.tokenizer, in_part=failed)
            )
        said = failed_output(facts, text) if failed and text is not None else text
        marked = said is not None and self._core.imitates(said)
        said = None if marked else said
        fits = all(
            most is None or number <= most
            for number, most in (
                (measure.bytes, limits.bytes), (measure.chars, limits.chars), (measure.lines, limits.lines),
                (measure.tokens, limits.tokens),
            )
        )  # fmt: skip

        async def tell(left: int | None) -> Draft:
            if said is not None and (left is None or self._core.count(said) <= left):
                spans = (Span(0, measure.bytes),) if measure.bytes else ()
                answer = Answer(said, failed, facts.handle, spans)
                shown = [span.as_list() for span in spans]
                return Draft(answer, lambda: note(said, shown=shown, why=facts.error if failed else ""), whole=True)
            if failed:
                of = {"bytes": measure.bytes, "tokens": measure.tokens}
                raise CallFailed(facts.state, facts.error, tool=facts.origin.tool, **of)
            if fits and (marked or not measure.utf8):
                raise UsageError(why_not_raw(marked=marked))
            raise TooLargeForRaw(measure.bytes, measure.tokens)

        return tell

    def _fetched(self, facts: Facts, ask: Ask, given: Mapping[str, Any], note: "Note", deadline: Deadline) -> "Tell":
        last: Fetched | None = None  # what was found, as much of it as the last answer had room for

        async def tell(left: int | None) -> Draft:
            nonlocal last
            # Of all tries together; to tell it again in less, when others have had their room, it has as long again.
            with within(deadline if last is None else seconds_of(self._core.settings, ask.verb)):
                text, last = await self._bounded(facts, ask, given, left, last)
            answer, (first, *more) = Answer(text, handle=last.handle, spans=shown_by(last)), seen_by(last, given)
            found = last

            def noted() -> None:
                note(text, **first)
                for one in more:
                    note("", **one)
                self._fetch.record_also(found, ask.verb)

            return Draft(answer, noted)

        return tell

    async def _bounded(
        self, facts: Facts, ask: Ask, given: Mapping[str, Any], tokens_left: int | None, found: Fetched | None
    ) -> tuple[str, Fetched]:
        """The answer and its text, from what was `found` before where that is enough. Where the text comes out too
        long, fewer matches, rows or values are told; a passage, or one thing that alone is too long, is fetched again.
        """
        most_bytes, most_tokens = self._core.settings.answer_max_bytes, self._most_tokens(tokens_left)

        def over(text: str) -> float:
            return max(len(text.encode("utf-8", "replace")) / most_bytes, self._core.count(text) / most_tokens)

        def told(found: Fetched) -> tuple[str, Fetched]:
            def make(number: int) -> tuple[str, Fetched]:
                part = fewer(found, number, skipped=ask.options.get("skip", 0))
                return self._core.without_mark(self._worded(facts, ask, part, given)), part

            return fitted(max(1, items_of(found)), least=1, make=make, over=lambda made: over(made[0]))[1]

        if found is not None and over((made := told(found))[0]) <= 1:
            return made
        size, tokens = max(256, most_bytes - _FRAME_BYTES), max(32, most_tokens - _FRAME_TOKENS)
        # The frame does not get smaller with what is in it.
        shrink = Shrink(1.0, least=0.0, margin=0.9)
        for share in shrink:
            bounds = Bounds(
                max(64, int(size * share)), max(8, int(tokens * share)), self._core.tokenizer, counted_later=True
            )
            made = told(await self._fetch.carry_out(ask, bounds, facts))
            shrink.over = over(made[0])
            if shrink.fits:
                return made
        raise AnswerTooLong(most_tokens)  # a thousand columns, or no room at all

    def _worded(self, facts: Facts, ask: Ask, found: Fetched, given: Mapping[str, Any]) -> str:
        if isinstance(found, Difference):
            shown_handle = self._core.shown_handle
            frame = Frame(shown_handle(found.handle), tag_for(repr(found), new_fence_tag), self._core.dialect.go_on)
            asked = {
                "handle": self._core.handle_of(facts),
                **{n: v for n, v in given.items() if n not in ("handle", "skip")},
            }
            return difference_answer(found, frame, shown_handle(found.other), asked=asked)
        coverage = self._core.journal.coverage(facts.handle)
        spans = shown_by(found)
        total = _total(found)
        again = bool(spans) and all(coverage.shown.covers(span) for span in spans)
        seen = Seen(coverage.share(total, plus=spans), again=again, is_written=facts.state == "running")
        told = None if isinstance(found, Passage | Found) and (found.of_messages or not total) else seen
        if isinstance(found, Passage | Found) and self._core.is_queued(facts.handle):
            found = not_started(found)
        shown = repr(found) + facts.error
        frame = Frame(self._core.handle_of(facts), tag_for(shown, new_fence_tag), self._core.dialect.go_on)
        asked = {name: value for name, value in given.items() if name not in ("handle", "refId", "id", "start", "skip")}
        match found:
            case Passage():
                verb, is_binary = "slice" if ask.verb == "slice" else "read", format_of(facts.measure.kind).is_binary
                return passage_answer(found, frame, told, verb=verb, error=facts.error, is_binary=is_binary)
            case Found():
                return found_answer(found, frame, told, asked=asked, start=given.get("start"))
            case Table():
                return table_answer(found, frame, seen)
            case Nodes():
                return nodes_answer(found, frame, seen, asked=asked)

    async def _listed(self, ask: Ask) -> "Tell":
        """What is kept, newest first; `lines` are those of this list."""
        if other := ask.options.keys() - {"lines"}:
            raise UsageError(f"the argument '{min(other)}' needs a handle; without one, lines are those of the list.")
        every = await self._fetch.outputs()
        outputs = [facts for facts in every if facts.state != "expired"]
        shares = [(facts, (self._core.journal.coverage(facts.handle)).share(facts.measure.bytes)) for facts in outputs]
        part = resolve_lines(range_asked(ask.options.get("lines", ":"), unit="lines"), len(shares)) or Span(1, 0)

        async def tell(left: int | None) -> Draft:
            most = self._most_tokens(left)
            _, text = fitted(
                max(1, min(_MAX_LISTED, part.end - part.start + 1)), least=1,
                make=lambda number: self._core.without_mark(
                    listing(shares, handle_of=self._core.handle_of, most=number, part=part, were=bool(every))
                ),
                over=lambda text: self._core.count(text) / most,
            )  # fmt: skip
            return Draft(Answer(text))

        return tell

    async def _waited(self, ask: Ask, started: float) -> "Tell":
        waited = await self._background.wait_for_model(ask.handle, **ask.options)

        async def tell(left: int | None) -> Draft:
            return Draft(*await self._background.told(waited, ask, left, started))

        return tell

    def _refused(
        self,
        name: str,
        verb: str,
        why: str,
        started: float,
        tokens_left: int | None,
        *,
        of: str = "",
        given: Mapping[str, Any] | None = None,
    ) -> "Draft":
        """`of` is the output that was asked for: what a refusal quotes of it goes when it does."""
        why = self._core.without_mark(why)
        short = fitting_refusal(why, self._fits(tokens_left))

        def note() -> None:
            handle = next(iter(self._known_as(of, of.partition(MEMBER)[0])), "") if of else ""
            told = asked_for(given or {})
            also: list[Any] = [(given or {}).get("also"), (given or {}).get("other")]
            named = [
                str(one) for some in also for one in (cast("list[Any]", some) if isinstance(some, list) else [some])
            ]
            if beside := self._known_as(*named, *(one.partition(MEMBER)[0] for one in named)):
                told = {"outputs": " ".join(beside), **told}  # when one of them goes, what is quoted here does too
            # Of a call without a known output nothing is logged that may be from one: it would stay when that goes.
            self._core.journal.record(
                "refused", handle=handle, seconds=since(started), name=name[:100], verb=verb,
                why=UNKNOWN_OUTPUT if of and not handle else short[:500], asked=told if handle else {},
            )  # fmt: skip

        async def shorter(room: int) -> Draft:
            return self._refused(name, verb, why, started, room, of=of, given=given)

        return Draft(Answer(short, is_error=True), note, shorter=shorter)

    def _known_as(self, *names: str) -> list[str]:
        """The handles of the outputs that have one of these names."""
        kept = self._core.kept.values()
        return [
            one.handle for one in kept if {one.handle, one.long_handle, one.origin.call_id or one.handle} & {*names}
        ]

    def _most_tokens(self, tokens_left: int | None) -> int:
        most = self._core.settings.answer_max_tokens
        return max(_MIN_TOKENS, most if tokens_left is None else min(most, tokens_left))

    def _fits(self, tokens_left: int | None) -> Callable[[str], bool]:
        """Whether a text is within the bounds of an answer."""
        most_bytes, most_tokens = self._core.settings.answer_max_bytes, self._most_tokens(tokens_left)
        return lambda text: len(text.encode("utf-8", "replace")) <= most_bytes and self._core.count(text) <= most_tokens


def _checked(tool: Tool, arguments: object) -> tuple[str, Mapping[str, Any]]:
    """What is wrong with the arguments, and what they are."""
    if isinstance(arguments, str | bytes):
        problem, arguments = json_arguments(arguments)
        if problem:
            return problem, {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        return NOT_AN_OBJECT, {}
    if _is_too_deep(cast("object", arguments)):
        return TOO_DEEP, {}
    given = coerced(tool.accepted, cast("Mapping[str, Any]", arguments))
    return schema_problem(tool.accepted, given), given


def _is_too_deep(value: object) -> bool:
    """Somebody else's reader may have built what Python cannot even write."""
    level: list[object] = [value]
    for _ in range(MOST_LEVELS):
        inner: list[object] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += cast("Mapping[object, object]", one).values()
            elif isinstance(one, list | tuple):
                inner += cast("list[object]", one)
        if not inner:
            return False
        level = inner
    return True


def _total(found: Fetched) -> int:
    return found.total.bytes if isinstance(found, Passage) else found.totals.bytes


@record
class Draft:
    """An answer that no model has got yet. `shorter` tells the same in less room; nothing is done again for that."""

    answer: Answer
    note: Callable[[], None] = lambda: None  # writes its events, once it is known that a model gets it
    shorter: Callable[[int], Awaitable["Draft"]] | None = None
    whole: bool = False  # it is shown whole or not at all

    def given(self) -> Answer:
        """To a model."""
        self.note()
        return self.answer


Tell = Callable[[int | None], Awaitable[Draft]]  # what was found, in so many tokens
Note = Callable[..., None]
