"""Which of a model's quotes stand in the source, and where. The bytes are asked, never the model.

A quote is looked for in what the model has seen: `exact`, as it was written; `loose`, but for white space, escapes and
typography (`quotes_loose` says which); `near`, the place most like it, where three quarters of it are as they were; or
`none`. Only the first two are verified. What a model left out with an ellipsis splits the quote: each part must stand,
in order, and is a snippet of its own. A quote that is less than a line is widened to its line, or to its element in a
long line of JSON; one of a sign or two is not, for it may stand anywhere.

No quote is dropped silently: what is empty or too much is counted, and what is nowhere is kept as the model's words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from holdall.extract.quotes_find import Stretch, folded
from holdall.extract.quotes_widen import widened
from holdall.text.borders import Read
from holdall.text.utf8 import decode, encode
from holdall.values.extraction import Check, Snippet
from holdall.values.spans import Span

MOST_QUOTES = 64  # of one chunk
SAID = 4_096  # characters of a model's words that are kept, where they are not those of the source

_STRETCH = 1024 * 1024  # bytes that are searched at once
_SHARED = 64 * 1024  # bytes that neighbouring stretches share at least, so that a quote over their border is found
_LOOSE_UP_TO = 8 * 1024 * 1024  # bytes; in more than this a quote is only looked for as it stands
_NEAR_WORK = 16_000  # characters of quotes of one chunk for which the nearest place is looked for
_PROVES_LITTLE = 3  # signs; fewer may stand anywhere
_GAP = 2  # bytes of white space or a comma that may lie between snippets that are one
_SEPARATORS = b" \t\r\n,;"


@dataclass(frozen=True, slots=True)
class Quote:
    """What a model says stands in the source, and the parts of it that it has seen: its chunk, or what it has read."""

    text: str
    chunk: int
    seen: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Verified:
    """In the order of the source, those that are nowhere last. `unchecked` were more than a chunk may have."""

    snippets: tuple[Snippet, ...]
    unchecked: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class _Found:
    check: Check
    spans: tuple[Span, ...]


def verify(quotes: Sequence[Quote], read: Read, total: int) -> Verified:
    """Find each quote in the source of `total` bytes that `read` reads. Raises what `read` raises."""
    groups: dict[tuple[int, tuple[Span, ...]], list[str]] = {}
    empty = 0
    for quote in quotes:
        if not quote.text.strip():
            empty += 1
        else:
            groups.setdefault((quote.chunk, quote.seen), []).append(quote.text)
    snippets: list[Snippet] = []
    unchecked = 0
    for (chunk, seen), texts in groups.items():
        distinct = list(dict.fromkeys(texts))
        unchecked += max(0, len(distinct) - MOST_QUOTES)
        for said, found in _find(distinct[:MOST_QUOTES], seen, read, total).items():
            snippets += _snippets(said, found, chunk, read, total)
    return Verified(merge(snippets, read), unchecked, empty)


def merge(snippets: Sequence[Snippet], read: Read) -> tuple[Snippet, ...]:
    """Those of several chunks as one list: the same bytes once, neighbours that are verified as one.

    What is only near is never part of what is verified, so that no change of the model's hides in it.
    """
    runs: list[list[Snippet]] = []
    end = 0
    for snippet in sorted((each for each in snippets if each.verified), key=_place):
        if runs and _touch(end, snippet.span.start, read):
            runs[-1].append(snippet)
        else:
            runs.append([snippet])
            end = 0
        end = max(end, snippet.span.end)
    near: dict[tuple[Span, str], Snippet] = {}
    nowhere: dict[str, Snippet] = {}
    for snippet in snippets:
        if snippet.check == "near":
            near.setdefault((snippet.span, snippet.said), snippet)
        elif snippet.check == "none":
            nowhere.setdefault(snippet.text, snippet)
    placed = sorted((*(_one_of(run, read) for run in runs), *near.values()), key=_place)
    return (*placed, *sorted(nowhere.values(), key=lambda each: each.chunk))


def _find(texts: Sequence[str], seen: Sequence[Span], read: Read, total: int) -> dict[str, _Found]:
    """Each text with where it stands, in the order of the texts."""
    parts = [Span(max(0, span.start), min(span.end, total)) for span in seen]
    found: dict[str, _Found] = {}
    open_texts = list(texts)
    stretches = _Stretches(read, 4 * max(map(len, texts)))
    for stretch in stretches.of(parts):
        found |= {text: _Found("exact", (span,)) for text in open_texts if (span := stretch.exactly(text))}
        open_texts = [text for text in open_texts if text not in found]
        if not open_texts:
            break
    short = [part for part in parts if part.end - part.start <= _LOOSE_UP_TO]
    for stretch in stretches.of(short) if open_texts else ():
        found |= {text: _Found("loose", tuple(spans)) for text in open_texts if (spans := stretch.loosely(text))}
        open_texts = [text for text in open_texts if text not in found]
    found |= _nearest(open_texts, stretches.of(short)) if open_texts else {}
    return {text: found.get(text, _Found("none", ())) for text in texts}


def _nearest(texts: Sequence[str], stretches: Iterator[Stretch]) -> dict[str, _Found]:
    compared: list[str] = []
    work = _NEAR_WORK
    for text in texts:
        work -= len(folded(text))
        if work < 0:
            break
        compared.append(text)
    best: dict[str, tuple[Span, int]] = {}  # the place, and by how much it differs
    for stretch in stretches:
        for text in compared:
            place = stretch.nearly(text)
            if place is not None and (text not in best or place[1] < best[text][1]):
                best[text] = place
    return {text: _Found("near", (span,)) for text, (span, _) in best.items()}


class _Stretches:
    """The stretches of some parts of the source. The last one is kept: there is seldom more than that one."""

    def __init__(self, read: Read, longest: int) -> None:
        self._read = read
        self._shared = max(_SHARED, min(longest, _STRETCH // 2))
        self._last: tuple[Span, Stretch] | None = None

    def of(self, parts: Sequence[Span]) -> Iterator[Stretch]:
        return map(self._stretch, chain.from_iterable(map(self._pieces, parts)))

    def _stretch(self, span: Span) -> Stretch:
        if self._last is None or self._last[0] != span:
            self._last = span, Stretch(self._read(span.start, span.end), span.start)
        return self._last[1]

    def _pieces(self, part: Span) -> Iterator[Span]:
        start = part.start
        while start < part.end:
            end = min(part.end, start + _STRETCH)
            yield Span(start, end)
            start = end if end == part.end else end - self._shared


def _snippets(said: str, found: _Found, chunk: int, read: Read, total: int) -> Iterator[Snippet]:
    words = _shortened(said)
    if not found.spans:
        yield Snippet(words, Span(0, 0), chunk, "none")
    proves_little = len("".join(said.split())) < _PROVES_LITTLE
    for span in found.spans:
        place = span if proves_little else widened(read, total, span)
        text = decode(read(place.start, place.end))[0]
        yield Snippet(text, place, chunk, found.check, "" if text == said else words)


def _touch(end: int, start: int, read: Read) -> bool:
    """Whether a snippet that starts here goes on with what ended there."""
    return start <= end or (start - end <= _GAP and not read(end, start).strip(_SEPARATORS))


def _one_of(run: Sequence[Snippet], read: Read) -> Snippet:
    if len(run) == 1:
        return run[0]
    span = Span(run[0].span.start, max(each.span.end for each in run))
    text = decode(read(span.start, span.end))[0]
    said = "\n".join(dict.fromkeys(each.said or each.text for each in run))
    check: Check = "exact" if all(each.check == "exact" for each in run) else "loose"
    return Snippet(text, span, min(each.chunk for each in run), check, "" if said == text else _shortened(said))


def _shortened(words: str) -> str:
    """A model's words as they can be stored and shown: whole characters, and an end that says how much is missing."""
    more = len(words) - SAID
    if more > 0:
        words = f"{words[:SAID]}… ({more:,} more characters)"
    return encode(words)[0].decode()


def _place(snippet: Snippet) -> tuple[int, int]:
    return snippet.span.start, snippet.span.end
