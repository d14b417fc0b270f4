"""What models have quoted from an output, and whether it stands there.

The events of a session tell of each question where its quotes stand and how sure that is. The words are read from the
stored bytes, which are checked: what is shown as verified stands there now. Only a quote that is nowhere has the
model's own words, from the event.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from holdall.bag import Holdall
from holdall.values.errors import HoldallError
from holdall.values.events import Event
from holdall.values.outputs import Facts
from holdall.values.spans import Span
from holdall.web.output_rows import Reader

Badge = Literal["verified", "near", "unverified"]
_MOST_QUESTIONS = 50  # the newest
_MOST_QUOTES = 40  # of one question
_QUOTE_BYTES = 600
_FOUND: dict[str, Badge] = {"exact": "verified", "loose": "verified", "near": "near"}


@dataclass(frozen=True, slots=True)
class Quote:
    text: str
    badge: Badge
    span: Span | None  # None where it is nowhere; then the words are the model's
    left: int = 0  # bytes that are not in `text`


@dataclass(frozen=True, slots=True)
class Question:
    """`missing` quotes were counted when it was asked, and their words were not kept."""

    at: float
    text: str
    strategy: str
    model: str
    found: bool
    quotes: Sequence[Quote]
    missing: int = 0
    unverified: int = 0  # of those that are missing


async def questions_about(bag: Holdall, facts: Facts) -> list[Question]:
    """Newest first."""
    events = [one for one in await asyncio.to_thread(bag.history) if one.handle == facts.handle]
    asked = [(event, _shown_after(events[at + 1 :])) for at, event in enumerate(events) if event.kind == "extracted"]
    found: list[Question] = []
    for event, shown in reversed(asked[-_MOST_QUESTIONS:]):
        found.append(await _question(bag, facts, event, shown))
    return found


def _shown_after(later: Sequence[Event]) -> tuple[Span, ...]:
    """What the answer showed of the output: the event of the answer follows that of the question."""
    for event in later:
        if event.kind == "extracted":
            break
        if event.kind == "retrieved" and event.data.get("verb") == "extract":
            return event.spans("shown")
    return ()


async def _question(bag: Holdall, facts: Facts, event: Event, shown: Sequence[Span]) -> Question:
    data = event.data
    kept: object = data.get("quotes")
    total, proved = _number(data.get("snippets")), _number(data.get("verified"))

    def look(reader: Reader) -> list[Quote]:
        if isinstance(kept, list):
            found = [_checked(reader, one) for one in cast("list[object]", kept)[:_MOST_QUOTES]]
            return [one for one in found if one is not None]
        return [_read(reader, span, "verified") for span in shown[:_MOST_QUOTES]]

    try:
        quotes = await bag.on(facts.handle, look)
    except HoldallError:  # the output is gone or damaged: nothing of it can be shown as proved
        quotes = []
    seen = sum(one.badge == "verified" for one in quotes)
    return Question(
        event.at, str(data.get("question", "")), str(data.get("strategy", "")), str(data.get("model", "")),
        bool(data.get("found")), quotes, max(0, total - len(quotes)), max(0, total - proved - (len(quotes) - seen)),
    )  # fmt: skip


def _checked(reader: Reader, told: object) -> Quote | None:
    """As the event has it: `[start, end, check]`, and the model's words where it is nowhere. None for anything else."""
    match told:
        case [int(), int(), "none", str(words)]:
            return Quote(words, "unverified", None)
        case [int(start), int(end), str(check)] if check in _FOUND and 0 <= start < end <= reader.totals.bytes:
            return _read(reader, Span(start, end), _FOUND[check])
        case _:
            return None


def _read(reader: Reader, span: Span, badge: Badge) -> Quote:
    data = reader.read(span.start, min(span.end, span.start + _QUOTE_BYTES))
    return Quote(_text(data), badge, span, max(0, span.end - span.start - len(data)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
