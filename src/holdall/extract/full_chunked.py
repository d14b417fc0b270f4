"""Every part of the output is read: one call for each chunk, then one that sums up, or a tree of them.

Pure: what is asked, how replies are read, how the findings of the chunks become one. `chunk_calls` makes the calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdall.extract.document import Policy
from holdall.extract.quotes_find import folded
from holdall.llm.protocol import Model, Request
from holdall.values.chat import Message, Reply
from holdall.values.extraction import FailedChunk, Snippet
from holdall.values.spans import Span
from holdall.wire.extraction import cut_note
from holdall.wire.findings import SCHEMA, Finding, finding_in_json, finding_in_text
from holdall.wire.prompts import Form, Source, chunk_output, map_prompt, reduce_prompt

# Of the room for a chunk: tokens are counted with our tokenizer, which is not the model's.
_SAFETY = 0.85
_LEAST_ROOM = 256
Count = Callable[[str], int]
ReadReply = Callable[[Reply], Finding | None]


@dataclass(frozen=True, slots=True)
class ChunkFinding:
    """What the model says of one chunk, and what could be proved of it."""

    index: int
    span: Span
    finding: Finding
    snippets: tuple[Snippet, ...] = ()
    unchecked: int = 0  # quotes that were too many to be looked for


@dataclass(frozen=True, slots=True)
class Rooms:
    """Tokens: of a chunk, of a reply, of the findings that one call may sum up."""

    chunk: int
    reply: int
    outputs: int


def rooms(model: Model, policy: Policy, source: Source, question: str, count: Count) -> Rooms:
    """The window less the reply and the prompt; or the fixed share of it."""
    reply = min(model.max_output, policy.answer_tokens, model.window // 4)
    form = Form("0" * 16, "" if model.keeps_schema else "0" * 32)
    prompt = sum(
        count(part.text) for part in map_prompt(source, "", question, form, index=0, total=1, overlap_percent=0)
    )
    free = int((model.window - reply - prompt) * _SAFETY)
    chunk = free if policy.chunk_share is None else min(free, int(model.window * policy.chunk_share))
    return Rooms(max(_LEAST_ROOM, chunk), reply, max(_LEAST_ROOM, free))


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
    return request, lambda given: finding_in_text(given.text, form.nonce)


def outputs_of(findings: Sequence[ChunkFinding], total: int, most_tokens: int, count: Count) -> list[str]:
    """The findings as the model that sums up reads them: only quotes that were proved, none longer than its share."""
    told: list[str] = []
    for one in findings:
        quotes = [snippet.text for snippet in one.snippets if snippet.verified]
        told.append(within(chunk_output(one.index, total, one.finding.answer, quotes), most_tokens, count))
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
    """In order, each within one call. Always fewer than there were outputs: a tree of them comes to an end."""
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


def claims(snippets: Sequence[Snippet], question: str) -> tuple[Snippet, ...]:
    """Without what is nowhere and no claim either: words of the question, and what is proved in another place."""
    known = [folded(question), *(folded(one.text) for one in snippets if one.verified)]
    return tuple(one for one in snippets if one.check != "none" or not any(folded(one.text) in text for text in known))


def beyond(quotes: Sequence[str], proved: Sequence[Snippet]) -> tuple[Snippet, ...]:
    """Quotes of a model that summed up without reading: those that stand in nothing that was proved, as unproved."""
    known = [folded(text) for one in proved for text in (one.text, one.said) if text]
    return tuple(
        Snippet(quote, Span(0, 0), 0, "none")
        for quote in dict.fromkeys(quotes)
        if not any(folded(quote) in text for text in known)
    )


def searched_spans(findings: Sequence[ChunkFinding]) -> tuple[Span, ...]:
    """What was read, overlaps joined."""
    joined: list[Span] = []
    for span in sorted((one.span for one in findings), key=lambda span: (span.start, span.end)):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return tuple(joined)


@dataclass(frozen=True, slots=True)
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
