"""Which of a model's quotes are in the source, and where. What a model says about places is never used.

A quote is looked for in what the model has seen: `exact`, as it was written; `loose`, except for white space, escapes
and typography (`quotes.Loose` says which); `near`, the place most like it, where three quarters of it are as they were;
or `none`. Only the first two are verified. What a model left out with an ellipsis splits the quote: each part must
stand, in order, and is a snippet of its own. A quote that is less than a line is widened to its line, or to its element
in a long line of JSON; a quote of one or two characters is not, because it may occur anywhere.

No quote is dropped silently: what is empty or too much is counted, and what is nowhere is kept as the model's words.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from holdall.extract.quotes import Stretch, folded
from holdall.text.borders import Read, char_border
from holdall.text.utf8 import decode, encode
from holdall.values.extraction import Check, Snippet
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span

MOST = 2048  # bytes: a line or element that is longer is not shown whole
_ENOUGH = 80  # bytes; a smaller element is shown with the one around it
_REACH = 200  # bytes on both sides in a long line that is not JSON
_SURE = 4  # quotation marks that all stand where JSON has them
_PARTED = 40  # bytes within which the end of a word is looked for

_OPENING, _CLOSING, _SPACE = b"[{", b"]}", b" \t\r\n"
_separator = lazy_pattern(rb"[ \t,;|]")
_tokens = lazy_pattern(rb'\\.|["{}\[\],]', re.DOTALL)


def widened(read: Read, total: int, quote: Span) -> Span:
    """The line of a quote that is less than a line; or its element, or what is near it. Else the quote as it is.

    Whether a quotation mark in the middle of a long line opens a string or closes one is judged by its neighbours; a
    wrong guess costs a range that is too wide or too narrow.
    """
    if quote.end - quote.start >= MOST:
        return quote
    low, high = max(0, quote.start - MOST), min(total, quote.end + MOST)
    data = read(low, high)
    start, end = quote.start - low, quote.end - low
    core = data[start:end].rstrip(b"\r\n")
    if not core or b"\n" in core:
        return quote
    core_end = start + len(core)
    newline = data.rfind(b"\n", 0, start)
    line_start, begins = newline + 1, newline >= 0 or low == 0
    newline = data.find(b"\n", core_end)
    line_end, ends = (newline, True) if newline >= 0 else (len(data), high == total)
    if begins and ends and line_end - line_start <= MOST:
        line_end -= line_end > core_end and data[line_end - 1] == 0x0D
        return Span(low + line_start, max(quote.end, low + line_end))
    line = data[line_start:line_end]
    inside = _element(line, start - line_start, core_end - line_start, begins=begins, ends=ends)
    if inside is not None:
        return Span(low + line_start + inside[0], max(quote.end, low + line_start + inside[1]))
    return _neighbourhood(read, Span(low + line_start, low + line_end), quote)


def _element(line: bytes, start: int, end: int, *, begins: bool, ends: bool) -> tuple[int, int] | None:
    """The smallest member or element around `line[start:end]` that is of some size; None if there is none."""
    signs, sure = _structure(line)
    before = [(at, sign) for at, sign in signs if at < start]
    within = [sign for at, sign in signs if start <= at < end]
    after = [(at, sign) for at, sign in signs if at >= end]
    # A quote may close more than it opens, or open more than it closes: it stands so many levels deeper at its ends.
    depths = list(accumulate((1 if sign in _OPENING else -1 for sign in within if sign != 0x2C), initial=0))
    lowest = min(depths)
    lefts = _borders(before[::-1], _OPENING, 1, 0 if begins else None)[-lowest:]
    rights = _borders(after, _CLOSING, 0, len(line) if ends else None)[depths[-1] - lowest :]
    if not sure and (len(lefts) < 2 or len(rights) < 2):
        return None  # no brackets around it: the commas may be those of a sentence
    best: tuple[int, int] | None = None
    for left, right in zip(lefts, rights, strict=False):
        element = line[left:right]
        first = left + len(element) - len(element.lstrip(_SPACE))
        last = right - len(element) + len(element.rstrip(_SPACE))
        if last - first > MOST:
            break
        best = min(first, start), max(last, end)
        if last - first >= _ENOUGH:
            break
    return best


def _borders(signs: list[tuple[int, int]], outwards: bytes, shift: int, edge: int | None) -> list[int]:
    """Walking away from the quote: where the element ends at each level, the innermost first.

    `outwards` are the brackets that lead one level out; a border lies `shift` bytes after the sign that makes it.
    """
    found: list[int] = []
    depth, comma = 0, None
    for at, sign in signs:
        if sign == 0x2C:
            if depth == 0 and comma is None:
                comma = at + shift
        elif sign not in outwards:
            depth += 1
        elif depth:
            depth -= 1
        else:
            found.append(at + shift if comma is None else comma)
            comma = None
    if comma is None:
        comma = edge if depth == 0 else None
    return found if comma is None else [*found, comma]


def _structure(line: bytes) -> tuple[list[tuple[int, int]], bool]:
    """The brackets and commas that are outside of strings, and whether it is sure that this is JSON."""
    tokens = [(token.start(), token[0][0]) for token in _tokens.finditer(line)]
    quotes = [at for at, sign in tokens if sign == 0x22]
    # Whether the stretch begins inside of a string: the guess by which fewer quotation marks stand where none can.
    wrong = {inside: _misplaced(line, quotes, inside) for inside in (False, True)}
    inside = wrong[True] < wrong[False]
    if wrong[inside] * 5 > len(quotes):
        return [], False
    sure = len(quotes) >= _SURE and not wrong[inside]
    signs: list[tuple[int, int]] = []
    for at, sign in tokens:
        if sign == 0x22:
            inside = not inside
        elif not inside and sign != 0x5C:
            signs.append((at, sign))
    return signs, sure


def _misplaced(line: bytes, quotes: list[int], inside: bool) -> int:
    """How many of the quotation marks stand where JSON has none, if the line begins `inside` a string."""
    wrong = 0
    for at in quotes:
        if inside:
            following = line[at + 1 : at + 9].lstrip(_SPACE)[:1]
            wrong += bool(following) and following not in b",:]}"
        else:
            preceding = line[max(0, at - 8) : at].rstrip(_SPACE)[-1:]
            wrong += bool(preceding) and preceding not in b",:[{"
        inside = not inside
    return wrong


def _neighbourhood(read: Read, line: Span, quote: Span) -> Span:
    """So many bytes on both sides of a quote in a long line, cut between two words or fields where that is near."""
    start, end = max(line.start, quote.start - _REACH), min(line.end, quote.end + _REACH)
    if start > line.start:
        parted = _separator.search(read(start, min(start + _PARTED, quote.start)))
        start = start + parted.end() if parted else char_border(read, start)
    if end < line.end:
        low = max(end - _PARTED, quote.end)
        parts = list(_separator.finditer(read(low, end)))
        end = low + parts[-1].start() if parts else char_border(read, end)
    return Span(start, max(quote.end, end))


MAX_QUOTES = 64  # of one chunk
SAID = 4_096  # characters of a model's words that are kept, where they are not those of the source

_STRETCH = 1024 * 1024  # bytes that are searched at once
_SHARED = 64 * 1024  # bytes that neighbouring stretches share at least, so that a quote over their border is found
_LOOSE_UP_TO = 8 * 1024 * 1024  # bytes; in more than this a quote is only looked for as it stands
_NEAR_WORK = 16_000  # characters of quotes of one chunk for which the nearest place is looked for
_WEAK_LENGTH = 3  # signs; fewer may be anywhere
_GAP = 2  # bytes of white space or a comma that may lie between snippets that are one
_SEPARATORS = b" \t\r\n,;"


@record
class Quote:
    """What a model says is in the source, and the parts of it that it has seen: its chunk, or what it has read."""

    text: str
    chunk: int
    seen: tuple[Span, ...]


@record
class Verified:
    """In the order of the source, those that are nowhere last. `unchecked` were more than a chunk may have."""

    snippets: tuple[Snippet, ...]
    unchecked: int = 0
    empty: int = 0


@record
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
        unchecked += max(0, len(distinct) - MAX_QUOTES)
        for said, found in _find(distinct[:MAX_QUOTES], seen, read, total).items():
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
    is_weak = len("".join(said.split())) < _WEAK_LENGTH
    for span in found.spans:
        place = span if is_weak else widened(read, total, span)
        text = decode(read(place.start, place.end))[0]
        yield Snippet(text, place, chunk, found.check, "" if text == said else words)


def _touch(end: int, start: int, read: Read) -> bool:
    """Whether a snippet that starts here continues with what ended there."""
    return start <= end or (start - end <= _GAP and not read(end, start).strip(_SEPARATORS))


def _one_of(run: Sequence[Snippet], read: Read) -> Snippet:
    exact = {each.span for each in run if each.check == "exact"}
    run = [each for each in run if each.check == "exact" or each.span not in exact]  # the better proof of a place
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
