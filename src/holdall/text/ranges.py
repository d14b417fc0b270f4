"""Ranges as people and models write them, and what they come to on a given output.

`A:B`, `A:`, `:B`, `A`; negative numbers count from the end. Lines count from 1 and include both ends; bytes and
chars count from 0 and exclude the end. A range that reaches past the end is cut there; one that starts past the
end is empty. Neither is an error: the answer says where the end is.
"""

import re
from typing import SupportsFloat

from holdall.values.errors import BadRange, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import Ask, Span

_NUMBER = r"-?[0-9]{1,40}+"
# Every part takes all that it can: blanks that may belong to any of four parts would be tried in all ways.
_RANGE = lazy_pattern(rf"\s*+(?P<start>{_NUMBER})?+\s*+(?P<colon>:)?+\s*+(?P<end>{_NUMBER})?+\s*+", re.ASCII)
# As our own lines about an answer have it: `lines 85,311–85,313`. A single `1,200` may be meant as two numbers.
_GROUPED = r"-?(?:[0-9]{1,3}(?:,[0-9]{3}){1,12}+|[0-9]{1,40}+)"
_TOLD = lazy_pattern(rf"{_GROUPED}(?:–|:){_GROUPED}|{_GROUPED}:|:{_GROUPED}", re.ASCII)
_HOW = "write A:B, A:, :B or -N: (the last N)"


def parse(text: str, *, unit: str) -> Ask:
    """Read `10:20`, `10:`, `:20`, `-5:` or a single number. A single number means that one line, byte or char.

    `lines=10:20` is the same for lines: so a passage names the range that follows it. So is `lines 1,310–1,320`, as
    it is told to people.
    """
    plain = text.removeprefix(f"{unit}=").removeprefix(f"{unit} ")
    match = _RANGE.fullmatch(plain.replace(",", "").replace("–", ":") if _TOLD.fullmatch(plain) else plain)
    if match is None or (match["colon"] is None and (match["start"] is None or match["end"] is not None)):
        raise BadRange(f"{text[:60]!r} is not a range of {unit}; {_HOW}.")
    start = None if match["start"] is None else int(match["start"])
    end = None if match["end"] is None else int(match["end"])
    if match["colon"] is None and start is not None:
        if unit == "lines":
            end = start
        else:
            end = None if start == -1 else start + 1
    return Ask(start, end)


def ask(value: object, *, unit: str) -> Ask:
    """Accept what callers pass: a string, a pair, an `Ask`. Anything else is refused by name."""
    if isinstance(value, Ask):
        return value
    if isinstance(value, str):
        return parse(value, unit=unit)
    if isinstance(value, tuple | list):
        pair: tuple[object, ...] = tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        if len(pair) == 2:
            return Ask(_bound(pair[0], unit), _bound(pair[1], unit))
    raise BadRange(f"a range of {unit} is a pair or text, not {value!r:.60}; {_HOW}.")


def whole_number(value: object, *, name: str, least: int = 0) -> int:
    """An int that is one: no bool, no float, no text. Too small is refused, too large is the caller's to cut."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRange(f"{name} must be a whole number, not {value!r:.60}.")
    if value < least:
        raise BadRange(f"{name} must be {least} or more, not {value}.")
    return value


def check_numbers(**given: object) -> None:
    """Of a program, whose types nobody may have checked; None is nothing."""
    for name, value in given.items():
        if value is not None and not isinstance(value, SupportsFloat):
            raise UsageError(f"{name} must be a number, not {value!r:.60}; write {name}=60, without quotes.")


def _bound(value: object, unit: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRange(f"the ends of a range of {unit} are whole numbers or None, not {value!r:.60}; {_HOW}.")
    return value


def resolve_lines(wanted: Ask, total: int) -> Span | None:
    """First and last line, both included; None if the range holds no line of the output."""
    if wanted.start == 0 or wanted.end == 0:
        raise BadRange(f"lines are numbered from 1, and {wanted} has line 0; {_HOW}.")
    first = 1 if wanted.start is None else wanted.start if wanted.start > 0 else max(1, total + 1 + wanted.start)
    last = total if wanted.end is None else wanted.end if wanted.end > 0 else total + 1 + wanted.end
    _check_order(wanted, first, last, "lines")
    last = min(last, total)
    return Span(first, last) if first <= last else None


def resolve_offsets(wanted: Ask, total: int, *, unit: str) -> Span:
    """Start and excluded end, cut to the output. Empty (start == end) where the range lies past the end."""
    start = 0 if wanted.start is None else wanted.start if wanted.start >= 0 else max(0, total + wanted.start)
    end = total if wanted.end is None else wanted.end if wanted.end >= 0 else max(0, total + wanted.end)
    _check_order(wanted, start, end, unit)
    start = min(start, total)
    return Span(start, max(start, min(end, total)))


def _check_order(wanted: Ask, start: int, end: int, unit: str) -> None:
    same_sign = wanted.start is not None and wanted.end is not None and (wanted.start < 0) == (wanted.end < 0)
    if same_sign and start > end and wanted.start is not None and wanted.end is not None and wanted.start > wanted.end:
        raise BadRange(f"the range {wanted} of {unit} ends before it starts; {_HOW}.")
