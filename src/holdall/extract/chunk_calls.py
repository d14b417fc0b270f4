"""The calls of full-chunked: every chunk is read, in parallel; what a model found in each is proved, then summed up.

A chunk that cannot be read is reported with its range and the rest is used. A chunk that the model says is too long is
cut in two.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdall.extract.asking import Asked, Asker
from holdall.extract.chunks import Chunk, Part, parts_of, plan_chunks
from holdall.extract.document import Document, Policy, Watch
from holdall.extract.full_chunked import (
    ChunkFinding,
    Mapped,
    ReadReply,
    Rooms,
    batches,
    map_request,
    outputs_of,
    reduce_request,
    within,
)
from holdall.extract.remembering import Notes, key_of, recalled_finding, remember
from holdall.extract.verify import Quote, verify
from holdall.llm.protocol import Request
from holdall.store.ids import new_nonce, new_tag
from holdall.store.protocol import OutputReader
from holdall.text.tokens import count_in_pieces
from holdall.values.errors import HoldallError, ModelOverflow
from holdall.values.extraction import FailedChunk, Progress
from holdall.values.spans import Span
from holdall.wire.findings import Finding
from holdall.wire.prompts import fences_of, form_for

_LEAST_BYTES = 512  # a chunk this short is not cut again: it is not its length that the model minds


@dataclass(slots=True)
class ChunkCalls:
    """One question about one document."""

    document: Document
    question: str
    policy: Policy
    rooms: Rooms
    asker: Asker
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
        while True:
            groups = batches(outputs, self.rooms.outputs, self._count)
            found = await asyncio.gather(*[self._reduce(group) for group in groups])
            if len(found) == 1:
                return found[0]
            outputs = [within(one.answer, self.rooms.outputs // 2, self._count) for one in found]

    # Inside

    def _plan(self, reader: OutputReader) -> Sequence[Chunk]:
        return plan_chunks(
            reader.read, measure=self.document.source.measure, chunk_tokens=self.rooms.chunk,
            overlap_percent=self.policy.overlap_percent,
        )  # fmt: skip

    async def _read_chunk(self, index: int) -> list[ChunkFinding | FailedChunk]:
        async with self.asker.reading:  # so that no more texts are in memory than calls can be made
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
        if part.span.end - part.span.start <= _LEAST_BYTES:
            return [part]
        return self._within(reader, Chunk(0, 1, part.span), max(1, part.tokens * 6 // 10))

    def _within(self, reader: OutputReader, chunk: Chunk, tokens: int) -> list[Part]:
        return parts_of(
            reader.read, chunk, tokenizer=self.document.tokenizer, chunk_tokens=tokens,
            overlap_percent=self.policy.overlap_percent, kind=self.document.source.measure.kind,
        )  # fmt: skip

    async def _read_part(self, part: Part, index: int) -> list[ChunkFinding | FailedChunk]:
        held = self.asker.model.keeps_schema
        key = key_of("map", self.question, self.asker.model.name, held, part.span.as_list())
        known = await asyncio.to_thread(recalled_finding, self.notes, key)
        if known is not None:
            self.asker.from_cache()
            return [replace(known, index=index)]
        try:
            finding = await self.asker.ask(Asked(lambda: self._map_request(part, index), "map", index))
        except ModelOverflow as problem:
            halves = await self.document.on(lambda reader: self._divided(reader, part))
            if len(halves) < 2:
                return [FailedChunk(index, part.span, str(problem))]
            return [one for half in halves for one in await self._read_part(half, index)]
        except (HoldallError, OSError) as problem:
            return [FailedChunk(index, part.span, str(problem))]
        proved = await self.document.on(lambda reader: _proved(reader, finding, part.span, index))
        await asyncio.to_thread(remember, self.notes, key, proved)
        return [proved]

    def _map_request(self, part: Part, index: int) -> tuple[Request, ReadReply]:
        given, fences = [part.text, self.question], fences_of(part.text)
        form = form_for(given, schema=self.asker.model.keeps_schema, new_tag=fences, new_nonce=new_nonce)
        return map_request(
            self.document.source, part.text, self.question, form, self.rooms.reply, index=index, total=self.total,
            overlap_percent=self.policy.overlap_percent,
        )  # fmt: skip

    async def _reduce(self, outputs: Sequence[str]) -> Finding:
        def make() -> tuple[Request, ReadReply]:
            given = [*outputs, self.question]
            form = form_for(given, schema=self.asker.model.keeps_schema, new_tag=new_tag, new_nonce=new_nonce)
            return reduce_request(self.document.source, outputs, self.question, form, self.rooms.reply)

        return await self.asker.ask(Asked(make, "reduce"))

    def _count(self, text: str) -> int:
        return count_in_pieces(self.document.tokenizer, text)

    def _progress(self, *, hit: bool = False) -> None:
        self.done += 1
        self.found += hit
        self.watch(Progress(self.done, self.total, self.found, self.asker.spent.usage.cost))


def _proved(reader: OutputReader, finding: Finding, span: Span, index: int) -> ChunkFinding:
    quotes = [Quote(text, index, (span,)) for text in finding.quotes]
    proved = verify(quotes, reader.read, reader.totals.bytes)
    return ChunkFinding(index, span, finding, proved.snippets, finding.more_quotes + proved.unchecked)


def _numbered(found: Sequence[ChunkFinding | FailedChunk]) -> Mapped:
    """Those that were divided count as several, in the order of the document."""
    ordered = sorted(found, key=lambda one: (one.span.start, one.span.end))
    findings: list[ChunkFinding] = []
    failed: list[FailedChunk] = []
    for index, one in enumerate(ordered):
        if isinstance(one, FailedChunk):
            failed.append(replace(one, index=index))
        else:
            snippets = tuple(replace(snippet, chunk=index) for snippet in one.snippets)
            findings.append(replace(one, index=index, snippets=snippets))
    return Mapped(tuple(findings), tuple(failed))
