"""A short quote together with what it stands in: its line, or its element of JSON where a line is too long to show.

The range gets wider and nothing else happens to it. Whether a quotation mark in the middle of a long line opens a
string or closes one is judged by its neighbours; a wrong guess costs a range that is too wide or too narrow.
"""

import re
from itertools import accumulate

from holdall.text.borders import Read, char_border
from holdall.values.spans import Span

MOST = 2048  # bytes: a line or element that is longer is not shown whole
_ENOUGH = 80  # bytes; a smaller element is shown with the one around it
_REACH = 200  # bytes on both sides in a long line that is no JSON
_SURE = 4  # quotation marks that all stand where JSON has them
_PARTED = 40  # bytes within which the end of a word is looked for

_OPENING, _CLOSING, _SPACE = b"[{", b"]}", b" \t\r\n"
_separator = re.compile(rb"[ \t,;|]")
_tokens = re.compile(rb'\\.|["{}\[\],]', re.DOTALL)


def widened(read: Read, total: int, quote: Span) -> Span:
    """The line of a quote that is less than a line; or its element, or what is near it. Else the quote as it is."""
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
    """The smallest member or element around `line[start:end]` that is of some size; None where there is none."""
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
    """The brackets and commas that stand outside of strings, and whether it is sure that this is JSON."""
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
