"""The first and the last lines of an output as they stand in a notice: each cut at a byte cap, with its number.

What is cut says so. Lines without a letter or a digit tell nothing and are passed over. Nothing here reads: the two
ends are handed in.
"""

import re
from dataclasses import dataclass

from holdall.text.excerpt import beginning, ending
from holdall.values.spans import Span
from holdall.wire.view import GLIMPSE, View

LINE_BYTES = 120
_TELLS = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_HEX_ROW = 16
_ENDS_OF_LINES = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


@dataclass(frozen=True, slots=True)
class End:
    """`text` as it is shown, `span` the bytes of the output that stand in it, `line` the number; 0 for none."""

    text: str
    span: Span
    line: int = 0


def first_lines(view: View, most: int) -> list[End]:
    if view.facts.measure.kind == "binary":
        return _rows(view.head, most)
    whole = len(view.head) >= view.facts.measure.bytes
    found: list[End] = []
    at = 0
    for number, line in enumerate(_lines(view.head), start=1):
        start, at = at, at + len(line) + 1
        # The last one is cut where the glimpse ends.
        known = whole or at <= len(view.head)
        if _TELLS.search(line) and (known or not found):
            found.append(_beginning(view, number, start, line, known))
        if len(found) == most:
            break
    return found


def last_lines(view: View, most: int) -> list[End]:
    """Those that `first_lines` does not have already."""
    measure = view.facts.measure
    if measure.kind == "binary" or measure.bytes <= LINE_BYTES:
        return []
    start = measure.bytes - len(view.tail)
    lines = _lines(view.tail)
    number = measure.lines
    found: list[End] = []
    at = measure.bytes - view.tail.endswith(b"\n")
    for index in range(len(lines) - 1, -1, -1):
        line, at = lines[index], at - len(lines[index])
        if number > 1 and index == 0 and start and len(lines) > 1:
            break  # its beginning may be missing
        if _TELLS.search(line):
            begins_here = not start or index > 0
            found.append(_beginning(view, number, at, line, known=True) if begins_here else _ending(number, at, line))
        number, at = number - 1, at - 1
        if len(found) == most:
            break
    return found[::-1]


def _beginning(view: View, number: int, start: int, line: bytes, known: bool) -> End:
    kept = beginning(line.removesuffix(b"\r"), LINE_BYTES)
    left = view.facts.measure.bytes - kept.end if view.facts.measure.lines <= 1 else kept.omitted if known else GLIMPSE
    more = "" if left <= 0 else f" … +{left:,} bytes" if known or view.facts.measure.lines <= 1 else " …"
    return End(f"L{number:,}  {_shown(kept.text)}{more}", Span(start, start + kept.end), number)


def _ending(number: int, at: int, line: bytes) -> End:
    """Of a line whose beginning is far away, its end."""
    kept = ending(line, LINE_BYTES)
    return End(f"L{number:,}  … {_shown(kept.text)}", Span(at + kept.start, at + len(line)), number)


def _shown(text: str) -> str:
    """A carriage return or a form feed inside of a line must not look like the end of it."""
    return text.translate(_ENDS_OF_LINES)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines and lines[-1] == b"" else lines


def _rows(head: bytes, most: int) -> list[End]:
    starts = range(0, min(most * _HEX_ROW, len(head)), _HEX_ROW)
    return [
        End(f"{at:08x}  {head[at : at + _HEX_ROW].hex(' ')}", Span(at, min(len(head), at + _HEX_ROW))) for at in starts
    ]
