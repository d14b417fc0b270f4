"""The report of a session and what it rests on: handles and quotes in its text lead to the bytes. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from holdall.values.chat import Message, Said, User
from holdall.web.figures import number
from holdall.web.timeline_rows import Quote, output_address

_SHORTEST_QUOTE = 12  # characters; a shorter one stands everywhere
_FEWEST_WORDS = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of text; with `href`, a link."""

    text: str
    href: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the log says of the end of a run. `seen` are shares of outputs that the model had seen by then."""

    status: str
    synthetic: bool
    why: str
    seen: Mapping[str, float]

    @staticmethod
    def of(data: object) -> "Reported | None":
        if not isinstance(data, Mapping):
            return None
        given = cast("Mapping[str, Any]", data)
        shares: object = given.get("seen")
        seen: Mapping[str, Any] = shares if isinstance(shares, Mapping) else {}  # type: ignore[reportUnknownVariableType]
        return Reported(
            str(given.get("status", "")), bool(given.get("synthetic")), str(given.get("why", "")),
            {handle: number(share) for handle, share in seen.items()},
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proof:
    """A quote of an extraction with the words that stand there; empty where they could not be read."""

    quote: Quote
    text: str
    href: str


def task_of(messages: Iterable[Message]) -> str:
    return next((one.text for one in messages if isinstance(one, User)), "")


def report_text(messages: Sequence[Message]) -> str:
    """The newest one. A model without tools reports in plain text."""
    for one in reversed(messages):
        if isinstance(one, Said):
            for call in one.calls:
                arguments: object = call.arguments
                if call.name == "final_report" and isinstance(arguments, Mapping):
                    given = cast("Mapping[str, Any]", arguments)
                    return str(given.get("report", ""))
            if one.text.strip():
                return one.text
    return ""


def linked(text: str, session: str, handles: Iterable[str], proofs: Iterable[Proof]) -> list[Piece]:
    """`text` in pieces. Where two links would overlap, the longer one stands."""
    found: list[tuple[int, int, str, str]] = []
    known = [handle for handle in handles if handle]
    if known:
        words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        named = re.compile(rf"(?<![\w-])({words})(?![\w-])")
        found += [(*hit.span(1), output_address(session, hit[1]), "this output") for hit in named.finditer(text)]
    for proof in proofs:
        if proof.quote.verified and (place := _place_of(proof.text.strip(), text)) is not None:
            found.append((*place, proof.href, "a verified quote"))
    pieces: list[Piece] = []
    end = 0
    for start, stop, href, why in _apart(found):
        pieces += [Piece(text[end:start])] if start > end else []
        pieces.append(Piece(text[start:stop], href, why))
        end = stop
    return [*pieces, Piece(text[end:])] if end < len(text) else pieces


def _place_of(quote: str, text: str) -> tuple[int, int] | None:
    """Where the text repeats the quote, or a few words of it: quotes are whole lines, reports cite a part of one."""
    words = quote.split(" ")
    for first in range(max(1, len(words) - _FEWEST_WORDS + 1)):
        few = " ".join(words[first : first + _FEWEST_WORDS])
        at = text.find(few) if len(few) >= _SHORTEST_QUOTE else -1
        if at >= 0:
            inside = quote.find(few)
            start, end = at - _common(quote[:inside][::-1], text[:at][::-1]), at + _common(quote[inside:], text[at:])
            return start + len(text[start:end]) - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())
    return None


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _apart(found: list[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    chosen: list[tuple[int, int, str, str]] = []
    for one in sorted(found, key=lambda one: (one[0] - one[1], one[0])):
        if all(one[1] <= other[0] or one[0] >= other[1] for other in chosen):
            chosen.append(one)
    return sorted(chosen)
