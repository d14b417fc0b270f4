"""What a model found in an output, and what Holdall could prove of it.

Ranges are computed against the stored bytes, never taken from a model. `to_json` of a result is S3's
`ExtractionResult`, with `verified` beside each snippet.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal

from holdall.values.chat import Usage
from holdall.values.record import record
from holdall.values.spans import Span

Strategy = Literal["full-chunked", "read-grep", "truncate"]
Mode = Literal["auto", "full-chunked", "read-grep", "truncate"]
RouteReason = Literal["asked", "fits", "long-lines", "many-lines", "dialect", "fallback"]
Check = Literal["exact", "loose", "near", "none"]
VERIFIED: tuple[Check, ...] = ("exact", "loose")


@record
class Snippet:
    """A piece of the source that the model rests on.

    `exact`: it is there as the model wrote it. `loose`: the same except for white space and escapes. `near`: the most
    similar place; the model changed it. `none`: it is nowhere; then `text` is the model's and the range is empty.
    """

    text: str
    span: Span
    chunk: int = 0  # from 0
    check: Check = "exact"
    said: str = ""  # the model's words, where `text` is not what it wrote

    @property
    def verified(self) -> bool:
        return self.check in VERIFIED

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {
            "text": self.text,
            "start_byte": self.span.start if self.check != "none" else None,  # 0 would be a place of the output
            "end_byte": self.span.end if self.check != "none" else None,
            "chunk_index": self.chunk,
            "verified": self.verified,
        }
        if not self.verified:
            flat["check"] = self.check
        return flat | ({"said": self.said} if self.said else {})


@record
class FailedChunk:
    """A part of the source that no model could be made to read, and why."""

    index: int
    span: Span
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"chunk_index": self.index, "start_byte": self.span.start, "end_byte": self.span.end, "why": self.why}


@record
class CallRecord:
    """One call of a model, as it is recorded: sizes and a short preview, never the text (S0 decision 24)."""

    purpose: str  # map, reduce, read-grep
    model: str
    chunk: int | None  # from 0; None if the call is about no chunk
    messages: int
    request_bytes: int
    reply_bytes: int
    preview: str
    usage: Usage
    seconds: float
    attempt: int  # from 1; more than 1 is a retry
    estimated: int  # tokens of the request, as we count them
    problem: str = ""  # why it is of no use, where it is not


@record
class Progress:
    """How far a question is: chunks that were read, of how many; those in which something was found; US dollars."""

    done: int
    total: int
    found: int
    cost: float | None


@record
class Spent:
    """What a question took: calls made now, those answered from the cache, tries that failed and were repeated."""

    calls: int = 0
    cached_calls: int = 0
    retries: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "cached_calls": self.cached_calls,
            "retries": self.retries,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost": self.usage.cost,
            **({"unpriced_calls": self.usage.unpriced_calls} if self.usage.unpriced_calls else {}),
            "seconds": round(self.seconds, 3),
        }


@record
class Extraction:
    """The answer to one question about one output.

    `found` is False where the model looked and there is nothing: that is a success. It is None where no model looked:
    the strategy `truncate` answers nothing, and shows both ends of the output. A strategy that could not run leaves
    `warning`, and `truncate` is in its place.
    """

    answer: str
    strategy: Strategy
    reason: RouteReason
    found: bool | None
    source_hash: str
    source_bytes: int
    chunks_searched: int
    chunks_total: int
    snippets: tuple[Snippet, ...] = ()
    confidence: float | None = None  # the model's own, 0 to 1; None if it gave none
    failed: tuple[FailedChunk, ...] = ()  # all of them, where `warning` says that none could be read
    searched: tuple[Span, ...] = ()  # what a model has read of the source
    scanned: tuple[Span, ...] = ()  # what Grep has gone over for it
    patterns: tuple[str, ...] = ()  # that it had Grep look for
    ends: tuple[bytes, ...] = ()  # of truncate, which asks no model: the source whole, or its beginning and its end
    left_out: tuple[Snippet, ...] = ()  # quotes that did not fit into the answer
    unchecked: int = 0  # quotes that were too many to be looked for, and are left out
    warning: str = ""
    model: str = ""
    cached: bool = False  # the whole answer was there already
    spent: Spent = field(default_factory=Spent)

    @property
    def no_match_reason(self) -> str:
        """For a model: nothing was found, and in how much."""
        if not self.failed:
            return "No content matching query found in tool output."
        searched = f"{self.chunks_searched:,} of {self.chunks_total:,} chunks"
        return f"Only {searched} could be searched: no content matching query found in those."

    @property
    def end_spans(self) -> tuple[Span, ...]:
        """Where the `ends` are in the source."""
        if len(self.ends) < 2:
            return tuple(Span(0, len(whole)) for whole in self.ends)
        top, bottom = self.ends
        return Span(0, len(top)), Span(self.source_bytes - len(bottom), self.source_bytes)

    @property
    def shown(self) -> tuple[Span, ...]:
        """The bytes of the source that it tells as they are stored; an end that is not text is told in other signs."""
        quotes = [one.span for one in self.snippets if one.check != "none"]
        ends = () if holds_nul(self.ends) else zip(self.ends, self.end_spans, strict=True)
        return (*quotes, *(span for data, span in ends if _is_text(data)))

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"warning": self.warning} if self.warning else {}  # first: it says what the rest is
        flat |= {
            "snippets": [snippet.to_json() for snippet in self.snippets],
            "source_hash": self.source_hash,
            "source_size_bytes": self.source_bytes,
            "chunks_searched": self.chunks_searched,
            "chunks_total": self.chunks_total,
            "confidence": self.confidence,
        }
        if self.failed and self.found is not None:  # before anything that is said of the rest; else the warning says it
            flat["failed_chunks"] = [chunk.to_json() for chunk in self.failed]
        if self.found is False:
            flat["no_match_reason"] = self.no_match_reason
        flat |= {"answer": self.answer, "strategy": self.strategy, "reason": self.reason}
        if self.left_out:
            flat["snippets_left_out"] = len(self.left_out)
        if self.unchecked:
            flat["quotes_not_checked"] = self.unchecked
        return flat


def holds_nul(ends: Sequence[bytes]) -> bool:
    """Whether the ends of an output are told in hexadecimal numbers: text has no NUL, and binary data nearly always."""
    return any(b"\0" in data for data in ends)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
