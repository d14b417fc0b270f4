"""Every part of the output is read: one call for each chunk, then one that sums up, or a tree of them.

Pure: what is asked, how replies are read, how the findings of the chunks become one. `ChunkCalls` makes the calls.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from holdall.extract.chunks import Chunk, Part, parts_of, plan_chunks
from holdall.extract.model_calls import Document, ModelCaller, ModelQuestion, Policy, Watch
from holdall.extract.quotes import folded
from holdall.extract.verify import Quote, verify
from holdall.llm.protocol import Model, Request
from holdall.store.ids import new_nonce, new_tag
from holdall.store.protocol import OutputReader
from holdall.text.tokens import count_in_pieces
from holdall.text.utf8 import decode
from holdall.values.chat import Message, Reply, Usage
from holdall.values.errors import HoldallError, ModelOverflow, StoreFault
from holdall.values.extraction import Extraction, FailedChunk, Progress, Snippet, Spent
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.wire.extraction import cut_note
from holdall.wire.findings import SCHEMA, Finding, finding_in_json, finding_in_text
from holdall.wire.prompts import VERSION, Form, Source, chunk_output, fences_of, form_for, map_prompt, reduce_prompt

# Of the room for a chunk: tokens are counted with our tokenizer, which is not the model's.
_SAFETY = 0.85
_MIN_ROOM = 256
Count = Callable[[str], int]
ReadReply = Callable[[Reply], Finding | None]


@record
class ChunkFinding:
    """What the model says of one chunk, and what could be proved of it."""

    index: int
    span: Span
    finding: Finding
    snippets: tuple[Snippet, ...] = ()
    unchecked: int = 0  # quotes that were too many to be looked for


@record
class Rooms:
    """Tokens: of a chunk, of a reply, of the findings that one call may sum up, of the prompt around either."""

    chunk: int
    reply: int
    outputs: int
    prompt: int = 0


def rooms(model: Model, policy: Policy, source: Source, question: str, count: Count) -> Rooms:
    """The window less the reply and the prompt; or the fixed share of it."""
    reply = min(model.max_output, policy.answer_tokens, model.window // 4)
    form = Form("0" * 16, "" if model.keeps_schema else "0" * 32)
    prompt = sum(
        count(part.text) for part in map_prompt(source, "", question, form, index=0, total=1, overlap_percent=0)
    )
    free = int((model.window - reply - prompt) * _SAFETY)
    chunk = free if policy.chunk_share is None else min(free, int(model.window * policy.chunk_share))
    return Rooms(max(_MIN_ROOM, chunk), reply, max(_MIN_ROOM, free), prompt)


def map_request(
    source: Source, text: str, question: str, form: Form, reply: int, *, index: int, total: int, overlap_percent: float
) -> tuple[Request, ReadReply]:
    messages = map_prompt(source, text, question, form, index=index, total=total, overlap_percent=overlap_percent)
    return _request(messages, form, reply)


def reduce_request(
    source: Source, outputs: Sequence[str], question: str, form: Form, reply: int
) -> tuple[Request, ReadReply]:
    return _request(reduce_prompt(source, outputs, question, form), form, reply)


def _request(messages: tuple[Message, ...], form: Form, reply: int) -> tuple[Request, ReadReply]:
    held = not form.nonce
    request = Request(messages, schema=SCHEMA if held else None, max_tokens=reply)
    if held:
        return request, lambda given: finding_in_json(given.text)
    return request, lambda given: finding_in_text(given.text, form.nonce, limited=given.stop == "length")


def outputs_of(findings: Sequence[ChunkFinding], total: int, most_tokens: int, count: Count) -> list[str]:
    """The findings as the model that sums up reads them: only quotes that were proved, none longer than its share."""
    told: list[str] = []
    for one in findings:
        quotes = [snippet.text for snippet in one.snippets if snippet.verified]
        text = chunk_output(one.index, total, one.finding.answer, quotes, cut=one.finding.cut)
        told.append(within(text, most_tokens, count))
    return told


def within(text: str, most_tokens: int, count: Count) -> str:
    """A finding that alone would fill a call is cut, and says so."""
    while count(text) > most_tokens:
        keep = max(64, int(len(text) * 0.8 * most_tokens / count(text)))
        if keep >= len(text):
            break
        text = cut_note(text, keep)
    return text


def batches(outputs: Sequence[str], room: int, count: Count) -> list[list[str]]:
    """In order, each within one call. Always fewer than there were outputs: a tree of them ends."""
    groups: list[list[str]] = []
    used = 0
    for output in outputs:
        size = count(output) + 2
        if groups and (used + size <= room or len(groups[-1]) < 2):
            groups[-1].append(output)
            used += size
        else:
            groups.append([output])
            used = size
    return groups


def best_confidence(findings: Sequence[ChunkFinding]) -> float | None:
    given = [one.finding.confidence for one in findings if one.finding.confidence is not None]
    return max(given) if given else None


def claims(snippets: Sequence[Snippet]) -> tuple[Snippet, ...]:
    """Without quotes that were proved elsewhere. Those of the question stay: they say that it is there. Blocks."""
    known = _known(one.text for one in snippets if one.verified)
    return tuple(one for one in snippets if one.check != "none" or folded(one.text) not in known)


def beyond(quotes: Sequence[str], proved: Sequence[Snippet]) -> tuple[Snippet, ...]:
    """Quotes of a model that summed up without reading: those that are in nothing that was proved, as unproved."""
    known = _known([text for one in proved for text in (one.text, one.said) if text])
    return tuple(Snippet(quote, Span(0, 0), 0, "none") for quote in dict.fromkeys(quotes) if folded(quote) not in known)


def _known(texts: Iterable[str]) -> str:
    """To look for others in, in one go: what is folded has no line ends."""
    return "\n".join(map(folded, texts))


def searched_spans(findings: Sequence[ChunkFinding]) -> tuple[Span, ...]:
    """What was read, overlaps joined."""
    joined: list[Span] = []
    for span in sorted((one.span for one in findings), key=lambda span: (span.start, span.end)):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return tuple(joined)


@record
class Mapped:
    """All chunks: those that were read, and those that were not."""

    findings: tuple[ChunkFinding, ...]
    failed: tuple[FailedChunk, ...]

    @property
    def total(self) -> int:
        return len(self.findings) + len(self.failed)

    @property
    def hits(self) -> tuple[ChunkFinding, ...]:
        return tuple(one for one in self.findings if one.finding.found)


_LOG = logging.getLogger("holdall")


@record
class Notes:
    """Answers and findings that were paid for once, by content, question, model and the version of the prompts.

    Both members block: they are called in a thread. A note that cannot be read counts as none; failures are not kept.
    """

    recall: Callable[[str], bytes | None]
    remember: Callable[[str, bytes], None]


NO_NOTES = Notes(lambda _: None, lambda _key, _data: None)


def key_of(*parts: object) -> str:
    told = json.dumps([VERSION, *parts], ensure_ascii=True, default=str)
    return hashlib.sha256(told.encode("ascii")).hexdigest()


def recalled_finding(notes: Notes, key: str) -> ChunkFinding | None:
    flat = _recalled(notes, key)
    try:
        return None if flat is None else _finding(flat)
    except (KeyError, TypeError, ValueError):
        return None


def recalled_answer(notes: Notes, key: str) -> Extraction | None:
    flat = _recalled(notes, key)
    try:
        return None if flat is None else _answer(flat)
    except (KeyError, TypeError, ValueError):
        return None


def are_there(reader: OutputReader, snippets: Sequence[Snippet]) -> bool:
    """Whether the output still has what recalled snippets say that it has: others may write to the store, too."""
    size = reader.facts.measure.bytes
    named = [one for one in snippets if one.check != "none"]
    return all(
        one.span.end <= size and decode(reader.read(one.span.start, one.span.end))[0] == one.text for one in named
    )


def remember(notes: Notes, key: str, value: ChunkFinding | Extraction) -> None:
    """If the store refuses, the answer is still returned: it only costs again next time."""
    try:
        notes.remember(key, json.dumps(value, ensure_ascii=True, default=_fields).encode("ascii"))
    except (StoreFault, OSError) as problem:
        _LOG.warning("an answer could not be remembered: %s", problem)


def _fields(value: Any) -> dict[str, Any]:
    """Of a value of ours, as JSON has them. `asdict` does the same and takes ten times as long."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _recalled(notes: Notes, key: str) -> dict[str, Any] | None:
    try:
        data = notes.recall(key)
        flat = json.loads(data) if data is not None else None
    except (StoreFault, OSError, ValueError):
        return None
    return flat if isinstance(flat, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _finding(flat: dict[str, Any]) -> ChunkFinding:
    fields: dict[str, Any] = flat["finding"] | {"quotes": tuple(flat["finding"]["quotes"])}
    proved = _snippets(flat["snippets"])
    return ChunkFinding(flat["index"], Span(**flat["span"]), Finding(**fields), proved, flat["unchecked"])


def _answer(flat: dict[str, Any]) -> Extraction:
    failed = tuple(FailedChunk(one["index"], Span(**one["span"]), one["why"]) for one in flat["failed"])
    spent = Spent(**(flat["spent"] | {"usage": Usage(**flat["spent"]["usage"])}))
    searched, scanned = (tuple(Span(**one) for one in flat.get(name, ())) for name in ("searched", "scanned"))
    proved = _snippets(flat["snippets"])
    whole: dict[str, Any] = flat | {"snippets": proved, "failed": failed, "searched": searched, "spent": spent}
    whole |= {"scanned": scanned, "patterns": tuple(flat.get("patterns", ()))}
    whole |= {"ends": (), "left_out": ()}  # of truncate nothing is remembered, and of an answer all of its quotes
    return Extraction(**whole)


def _snippets(flat: list[dict[str, Any]]) -> tuple[Snippet, ...]:
    found: list[Snippet] = []
    for one in flat:
        fields: dict[str, Any] = one | {"span": Span(**one["span"])}
        found.append(Snippet(**fields))
    return tuple(found)


_MIN_BYTES = 512  # a chunk this short is not cut again: its length is not the problem


@record(frozen=False)
class ChunkCalls:
    """One question: all chunks of a document are read, in parallel; what was found is proved, then summed up.

    A chunk that cannot be read is reported with its range and the rest is used. One that the model says is too long is
    cut in two.
    """

    document: Document
    question: str
    policy: Policy
    rooms: Rooms
    caller: ModelCaller
    notes: Notes
    watch: Watch
    done: int = 0
    found: int = 0
    total: int = 0

    async def read_all(self) -> Mapped:
        """Every chunk, as many at once as may be."""
        self.total = await self.document.on(lambda reader: len(self._plan(reader)))
        chunks = await asyncio.gather(*[self._read_chunk(index) for index in range(self.total)])
        return _numbered([one for chunk in chunks for one in chunk])

    async def sum_up(self, mapped: Mapped) -> Finding:
        """One finding from many: in one call, or in a tree of them where they do not fit one."""
        outputs = outputs_of(mapped.hits, mapped.total, self.rooms.outputs // 2, self._count)
        cut = False
        while True:
            groups = batches(outputs, self.rooms.outputs, self._count)
            found = await asyncio.gather(*[self._reduce(group) for group in groups])
            cut = cut or any(one.cut for one in found)
            if len(found) == 1:
                return replace(found[0], cut=cut)
            outputs = [within(one.answer, self.rooms.outputs // 2, self._count) for one in found]

    # Inside

    def _plan(self, reader: OutputReader) -> Sequence[Chunk]:
        return plan_chunks(
            reader.read, measure=self.document.source.measure, chunk_tokens=self.rooms.chunk,
            overlap_percent=self.policy.overlap_percent,
        )  # fmt: skip

    async def _read_chunk(self, index: int) -> list[ChunkFinding | FailedChunk]:
        async with self.caller.reading:  # so that no more texts are in memory than calls can be made
            try:
                parts = await self.document.on(lambda reader: self._parts(reader, index))
            except HoldallError as problem:  # damaged bytes are a chunk that cannot be read
                self._progress()
                return [FailedChunk(index, self._about(index), str(problem))]
            found = [one for part in parts for one in await self._read_part(part, index)]
        self._progress(hit=any(isinstance(one, ChunkFinding) and one.finding.found for one in found))
        return found

    def _about(self, index: int) -> Span:
        """Where a chunk lies whose exact borders cannot be looked for."""
        size = self.document.source.measure.bytes
        return Span(size * index // self.total, size * (index + 1) // self.total)

    def _parts(self, reader: OutputReader, index: int) -> list[Part]:
        return self._within(reader, self._plan(reader)[index], self.rooms.chunk)

    def _divided(self, reader: OutputReader, part: Part) -> list[Part]:
        """In about two, for a model that counts more tokens than we do; as it is where it is too short for that."""
        if part.span.end - part.span.start <= _MIN_BYTES:
            return [part]
        return self._within(reader, Chunk(0, 1, part.span), max(1, part.tokens * 6 // 10))

    def _within(self, reader: OutputReader, chunk: Chunk, tokens: int) -> list[Part]:
        return parts_of(
            reader.read, chunk, tokenizer=self.document.tokenizer, chunk_tokens=tokens,
            overlap_percent=self.policy.overlap_percent, kind=self.document.source.measure.kind,
        )  # fmt: skip

    async def _read_part(self, part: Part, index: int) -> list[ChunkFinding | FailedChunk]:
        held = self.caller.model.keeps_schema
        key = key_of("map", self.question, self.caller.model.name, held, part.span.as_list())
        known = await asyncio.to_thread(recalled_finding, self.notes, key)
        if known is not None and await self.document.on(lambda reader: are_there(reader, known.snippets)):
            self.caller.from_cache()
            return [replace(known, index=index)]
        try:
            tokens = part.tokens + self.rooms.prompt
            finding = await self.caller.ask(ModelQuestion(lambda: self._map_request(part, index), "map", index, tokens))
        except ModelOverflow as problem:
            halves = await self.document.on(lambda reader: self._divided(reader, part))
            if len(halves) < 2:
                return [FailedChunk(index, part.span, str(problem))]
            return [one for half in halves for one in await self._read_part(half, index)]
        except (HoldallError, OSError) as problem:
            return [FailedChunk(index, part.span, str(problem))]
        proved = await self.document.on(lambda reader: _proved(reader, finding, part.span, index))
        if not finding.cut:
            await asyncio.to_thread(remember, self.notes, key, proved)
        return [proved]

    def _map_request(self, part: Part, index: int) -> tuple[Request, ReadReply]:
        given, fences = [part.text, self.question], fences_of(part.text)
        form = form_for(given, schema=self.caller.model.keeps_schema, new_tag=fences, new_nonce=new_nonce)
        return map_request(
            self.document.source, part.text, self.question, form, self.rooms.reply, index=index, total=self.total,
            overlap_percent=self.policy.overlap_percent,
        )  # fmt: skip

    async def _reduce(self, outputs: Sequence[str]) -> Finding:
        def make() -> tuple[Request, ReadReply]:
            given = [*outputs, self.question]
            form = form_for(given, schema=self.caller.model.keeps_schema, new_tag=new_tag, new_nonce=new_nonce)
            return reduce_request(self.document.source, outputs, self.question, form, self.rooms.reply)

        tokens = sum(map(self._count, outputs)) + self.rooms.prompt
        return await self.caller.ask(ModelQuestion(make, "reduce", tokens=tokens))

    def _count(self, text: str) -> int:
        return count_in_pieces(self.document.tokenizer, text)

    def _progress(self, *, hit: bool = False) -> None:
        self.done += 1
        self.found += hit
        self.watch(Progress(self.done, self.total, self.found, self.caller.spent.usage.cost))


def _proved(reader: OutputReader, finding: Finding, span: Span, index: int) -> ChunkFinding:
    quotes = [Quote(text, index, (span,)) for text in finding.quotes]
    proved = verify(quotes, reader.read, reader.totals.bytes)
    return ChunkFinding(index, span, finding, proved.snippets, finding.more_quotes + proved.unchecked)


def _unread(chunk: FailedChunk, read: Sequence[Span]) -> FailedChunk | None:
    """Without what its neighbours share with it and were asked about; None if that is all of it."""
    start, end = chunk.span.start, chunk.span.end
    for span in read:
        if span.start <= start < span.end:
            start = span.end
        if span.start < end <= span.end:
            end = span.start
    return replace(chunk, span=Span(start, end)) if start < end else None


def _numbered(found: Sequence[ChunkFinding | FailedChunk]) -> Mapped:
    """Those that were divided count as several, in the order of the document."""
    read = searched_spans([one for one in found if isinstance(one, ChunkFinding)])
    left = [_unread(one, read) if isinstance(one, FailedChunk) else one for one in found]
    ordered = sorted((one for one in left if one is not None), key=lambda one: (one.span.start, one.span.end))
    findings: list[ChunkFinding] = []
    failed: list[FailedChunk] = []
    for index, one in enumerate(ordered):
        if isinstance(one, FailedChunk):
            failed.append(replace(one, index=index))
        else:
            snippets = tuple(replace(snippet, chunk=index) for snippet in one.snippets)
            findings.append(replace(one, index=index, snippets=snippets))
    return Mapped(tuple(findings), tuple(failed))
