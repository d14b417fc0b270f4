"""JSON that is not one value alone: values one after the other, or a value with other text after it."""

import json
import re
from dataclasses import replace
from typing import Any

from holdall.text.json.reader import Cursor, JsonFault
from holdall.text.json_layout import Following, following
from holdall.text.outline.json_begin import prefix
from holdall.text.outline.json_text import cost
from holdall.text.outline.json_values import Seen, see
from holdall.text.outline.sample import SCANNED, Sample, take

_AFFORDABLE = 22.0  # milliseconds for which values are parsed
_HEAD = 64 * 1024
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*+")


def see_all(sample: Sample) -> Seen | None:
    """None where nothing can be made of it."""
    sample = _at_hand(sample)
    size = sample.size if sample.size <= SCANNED else len(sample.head)
    # Of what is too large to be searched only the beginning is, for the end of a first value that is small.
    after = following(sample.read, size) if sample.read is not None else None
    if after is None or after.what == "nothing":
        return see(sample)
    if after.what == "values":
        return _several(sample, after)
    seen = see(_up_to(sample, after.end))
    return replace(seen, text_from=after.after) if seen is not None else None


def _at_hand(sample: Sample) -> Sample:
    """The same, with all that may be searched read at once: it is gone through more than once."""
    if sample.size > SCANNED or (sample.read is None and not sample.whole):
        return sample
    whole = sample.head if sample.whole or sample.read is None else sample.read(0, sample.size)

    def read(start: int, end: int) -> bytes:
        return whole[start:end]

    return replace(sample, read=read)


def _up_to(sample: Sample, end: int) -> Sample:
    if end <= len(sample.head):
        return Sample(((0, sample.head[:end]),), end, sample.lines, sample.read, sample.line_at)
    return take(sample.read, end, sample.lines, sample.line_at) if sample.read is not None else sample


def _several(sample: Sample, after: Following) -> Seen:
    before = len(_BOM) if sample.head.startswith(_BOM) else 0
    data = sample.head[before:]
    affordable = data[: int(len(data) * min(1.0, _AFFORDABLE / cost(data)))]
    values, end, fault = _values(affordable.decode("latin-1"))
    whole = sample.whole and before + end == sample.size
    seen = Seen(values, whole=whole, several=True)
    if fault is not None and sample.whole and len(affordable) == len(data):
        is_cut = _is_cut_off(data[end:])
        seen.note = (
            "cut off: its last value has no end" if is_cut else f"not valid JSON from byte {before + fault:,} on"
        )
    if not values:  # the first one is too large for that
        begun = prefix(data[:_HEAD].decode("latin-1"))
        values += [begun.value] if begun is not None else []
        end = after.end
    if not whole:
        seen.counts[id(values)] = len(values) * sample.size / max(1, before + end), False
    return seen


def _values(text: str) -> tuple[list[Any], int, int | None]:
    """The whole ones, where the last of them ends, and where that which follows is not JSON."""
    decoder = json.JSONDecoder(strict=False)
    values: list[Any] = []
    end = 0
    while True:
        gap = _SPACE.match(text, end)
        end = gap.end() if gap else end
        if end == len(text):
            return values, end, None
        try:
            value, end = decoder.raw_decode(text, end)
        except json.JSONDecodeError as fault:
            return values, end, fault.pos
        except (ValueError, RecursionError):  # a number too long for Python, or too many levels
            return values, end, None
        values.append(value)


def _is_cut_off(data: bytes) -> bool:
    """Whether it is only the end of the text that a value lacks."""
    try:
        Cursor(lambda start, end: data[start:end], len(data)).pass_value(strictly=True)
    except JsonFault as fault:
        return fault.ended
    return False
