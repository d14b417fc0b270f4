"""A model searches the output with two tools, Read and Grep, and reports. It sees nothing else and calls nothing else.

A report that it did not write (it ran out of turns, or never came to one) is a failure of the strategy.
"""

from collections.abc import Sequence
from dataclasses import field

from holdall.extract.full_chunked import claims
from holdall.extract.model_calls import Document, ModelCaller, ModelQuestion, Policy
from holdall.extract.verify import Quote, verify
from holdall.llm.converse import Turn, converse, side_by_side
from holdall.llm.protocol import Model, Request
from holdall.llm.wrappers import ModelWrapper, with_tools
from holdall.policy.folds import Ranges
from holdall.policy.route import Route
from holdall.store.ids import new_nonce, new_tag
from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.values.chat import Assistant, Message, Reply, ToolCall, ToolResult, User
from holdall.values.errors import ModelFault
from holdall.values.extraction import Extraction
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.wire.actions import NO_ROOM_FOR_CALL
from holdall.wire.extraction import cut_warning, nothing_found_by_search
from holdall.wire.findings import Finding, finding_in_text, finding_of
from holdall.wire.prompts import LAST_TURN, Form, form_for, no_report_yet, read_grep_prompt
from holdall.wire.tool import ToolSpec

_SHARE = 0.85  # of a window: tokens are an estimate for most models
_LEAST_ANSWER = 300  # tokens; of one call


class _Tokens:
    """Of requests: their messages and tools."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._counted: dict[int, tuple[Message, int]] = {}  # by id: the conversation grows, and each is counted once

    def of(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        told = "".join(f"{one.name}{one.description}{one.schema}" for one in tools)
        return sum(map(self._count, messages)) + count_in_pieces(self._tokenizer, told)

    def _count(self, message: Message) -> int:
        if id(message) not in self._counted:
            calls = message.calls if isinstance(message, Assistant) else ()
            told = message.text + "".join(f"{call.name}{call.arguments}" for call in calls)
            self._counted[id(message)] = message, count_in_pieces(self._tokenizer, told)
        return self._counted[id(message)][1]


class _Counted(ModelWrapper):
    """Every call goes through the asker: repeated, counted, recorded, under the ceiling."""

    def __init__(self, model: Model, caller: ModelCaller, tokens: _Tokens) -> None:
        super().__init__(model)
        self._caller = caller
        self._tokens = tokens

    async def ask(self, request: Request) -> Reply:
        tokens = self._tokens.of(request.messages, request.tools)
        return await self._caller.ask(ModelQuestion(lambda: (request, lambda reply: reply), "read-grep", tokens=tokens))


@record(frozen=False)
class _Search:
    """One conversation, and what the model has read in it."""

    document: Document
    form: Form
    policy: Policy
    reply_tokens: int
    window: int
    tokens: _Tokens
    transcript: list[Message]
    calls: int = 0
    looked: int = 0  # calls that showed something, or that nothing is there
    read: Ranges = field(default_factory=Ranges)
    scanned: Ranges = field(default_factory=Ranges)
    looked_for: dict[int, str] = field(default_factory=dict[int, str])  # the pattern of each call of Grep

    @property
    def room(self) -> int:
        """Tokens that are left in the window for what the next calls show."""
        used = self.tokens.of(self.transcript, self.document.tools)
        return int(self.window * _SHARE) - self.reply_tokens - used

    def build(self, turn: Turn) -> Request:
        is_full = self.looked and self.room < 2 * _LEAST_ANSWER  # the call, and what it shows
        if turn.last or is_full:
            return Request((*self.transcript, User(LAST_TURN)), max_tokens=self.reply_tokens)
        return Request(tuple(self.transcript), self.document.tools, max_tokens=self.reply_tokens)

    async def run(self, calls: tuple[ToolCall, ...]) -> Sequence[ToolResult]:
        room = self.room
        some = max(1, min(len(calls), room // _LEAST_ANSWER))
        shown = await side_by_side(lambda call: self.call(call, max(_LEAST_ANSWER, room // some)))(calls[:some])
        return [*shown, *(ToolResult(one.id, one.name, NO_ROOM_FOR_CALL, is_error=True) for one in calls[some:])]

    async def call(self, call: ToolCall, room: int) -> ToolResult:
        if self.document.look is None:
            raise ModelFault("this output cannot be searched with tools")
        number = self.calls = self.calls + 1
        looked = await self.document.look(call, room)
        if self.form.nonce and self.form.nonce in looked.text:  # it would no longer prove who wrote the report
            raise ModelFault("the output holds the nonce of this call")
        self.looked += not looked.is_error
        for span in looked.spans:
            self.read.add(span)
        for span in looked.scanned:
            self.scanned.add(span)
        self.looked_for |= {number: looked.pattern} if looked.pattern else {}
        return ToolResult(call.id, call.name, looked.text, looked.is_error)

    def finding(self, reply: Reply) -> Finding | None:
        if self.form.nonce:
            return finding_in_text(reply.text, self.form.nonce, limited=reply.stop == "length")
        return finding_of(reply.text, cut=reply.stop == "length") if reply.text.strip() else None

    @property
    def spans(self) -> tuple[Span, ...]:
        return _spans(self.read)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Each once, in the order in which they were asked for."""
        return tuple(dict.fromkeys(pattern for _, pattern in sorted(self.looked_for.items())))


async def read_and_grep(
    document: Document, question: str, policy: Policy, way: Route, caller: ModelCaller
) -> Extraction:
    """Raises ModelFault if no report comes."""
    # A model that is held to the schema of its actions answers in a field of one, which no output can reach.
    held = caller.model.keeps_schema and not caller.model.calls_tools
    form = form_for([question], schema=held, new_tag=new_tag, new_nonce=new_nonce)
    reply_tokens = min(caller.model.max_output, policy.answer_tokens, caller.model.window // 4)
    tokens, transcript = _Tokens(document.tokenizer), list(read_grep_prompt(document.source, question, form))
    search = _Search(document, form, policy, reply_tokens, caller.model.window, tokens, transcript)
    finding = await _found(search, with_tools(_Counted(caller.model, caller, tokens)))
    source, spans = document.source.measure, search.spans
    quotes = [Quote(text, 0, spans) for text in finding.quotes]
    proved = await document.on(lambda reader: verify(quotes, reader.read, reader.totals.bytes))
    answer, patterns = finding.answer, search.patterns
    if not finding.found:
        answer = nothing_found_by_search(search.calls, spans, _spans(search.scanned), patterns, source.bytes, answer)
    return Extraction(
        answer=answer, strategy=way.strategy, reason=way.reason, found=finding.found, source_hash=source.sha256,
        source_bytes=source.bytes, chunks_searched=0, chunks_total=0,
        snippets=claims(proved.snippets), confidence=finding.confidence, searched=spans,
        scanned=_spans(search.scanned), patterns=patterns,
        unchecked=finding.more_quotes + proved.unchecked, model=caller.model.name,
        warning=cut_warning() if finding.cut and finding.found else "",
    )  # fmt: skip


def _spans(ranges: Ranges) -> tuple[Span, ...]:
    return tuple(Span(start, end) for start, end in ranges.as_lists())


async def _found(search: _Search, model: Model) -> Finding:
    talk = await converse(
        model, search.transcript, build=search.build, run=search.run,
        max_turns=search.policy.max_turns, calls_per_turn=search.policy.calls_per_turn,
    )  # fmt: skip
    if talk.outcome == "out of turns":
        raise ModelFault(f"no report after {talk.turns} turns")
    finding = search.finding(talk.reply)
    if finding is None and search.form.nonce and talk.turns < search.policy.max_turns:
        asked = (*search.transcript, User(no_report_yet(search.form)))
        finding = search.finding(await model.ask(Request(asked, max_tokens=search.reply_tokens)))
    if finding is None:
        raise ModelFault("it answered without a report in the form that was asked for")
    if not search.looked:
        raise ModelFault("it reported without looking at the output")
    return finding
