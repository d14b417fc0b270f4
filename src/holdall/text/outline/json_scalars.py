"""Scalars of JSON, many at once, in a few words: one value, a few with their counts, or type and example."""

import json
from collections import Counter
from math import isnan
from typing import Any

from holdall.text.outline.json_text import readable
from holdall.text.outline.model import cut

_TYPES = {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
_TEXT = 48
_FEW = 4
_SHORT = 20  # of values that are this short, more than one is told
_LOOKED_AT = 12_000
_PROBED, _LONG = 48, 60  # values by which prose is told, and how long they then are


def scalars(values: list[Any], *, exact: bool) -> str:
    """`exact`: these are all the values that there are. Else what is said of all of them has a `~`."""
    about = "" if exact else "~"
    kinds = Counter(map(type, values))
    if _is_prose(values):
        return f"{types(values)} {_example(values, kinds, about)}"
    distinct = _distinct(values, kinds)
    if len(distinct) == 1:
        return literal(values[0]) if exact or len(values) == 1 else about + literal(values[0])
    if len(distinct) <= _FEW and all(len(str(value)) <= 40 for _, value in distinct):
        counted = exact and len(values) > _FEW
        return about + "|".join(
            literal(value) + (f" ×{n:,}" if counted else "") for (_, value), n in distinct.most_common(_FEW)
        )
    names = types(values)
    (kind, top), times = distinct.most_common(1)[0]
    if kind is str and times > 2 and len(distinct) * 4 <= len(values):
        shown = 3 if len(str(top)) <= _SHORT else 1
        most = ", ".join(
            literal(value, _SHORT if shown > 1 else _TEXT) + (f" ×{n:,}" if exact else "")
            for (_, value), n in distinct.most_common(shown)
        )
        return f"{names}, {about}{len(distinct):,} distinct, most often {most}"
    return f"{names} {_example(values, kinds, about)}".rstrip()


def types(values: list[Any]) -> str:
    return "|".join(_TYPES.get(kind, "?") for kind, _ in Counter(map(type, values)).most_common())


def _is_prose(values: list[Any]) -> bool:
    """Long texts, nearly each of them another: to count them costs much and tells nothing."""
    some = [value for value in values[:: max(1, len(values) // _PROBED)] if isinstance(value, str)]
    return len(some) > _PROBED // 2 and sum(map(len, some)) > _LONG * len(some) and len(set(some)) * 4 > 3 * len(some)


def literal(value: Any, most: int = _TEXT) -> str:
    if isinstance(value, str):
        return quoted(value, most)
    return cut(json.dumps(value), most)


def quoted(text: str, most: int = _TEXT) -> str:
    """`text` in quotes. Where it is cut, the `…` stands inside."""
    return '"' + cut(readable(text[: most * 4]) + ("…" if len(text) > most * 4 else ""), most) + '"'


def _distinct(values: list[Any], kinds: Counter[type]) -> Counter[tuple[type, Any]]:
    values = values[:_LOOKED_AT]
    if len(kinds) == 1:
        (kind,) = kinds
        return Counter({(kind, value): times for value, times in Counter(values).items()})
    # 1, 1.0 and True are equal in Python and different in JSON.
    return Counter(zip(map(type, values), values, strict=True))


def _example(values: list[Any], kinds: Counter[type], about: str) -> str:
    if kinds.keys() <= {int, float, type(None)}:
        numbers = values if kinds.keys() <= {int} else [v for v in values if v is not None and not isnan(v)]
        if numbers:
            return f"{about}{_number(min(numbers))}…{_number(max(numbers))}"
    for value in values:
        if isinstance(value, str) and value.strip():
            return quoted(value)
    return ""


def _number(number: float) -> str:
    return f"{number:.6g}" if isinstance(number, float) else cut(str(number), 24) if abs(number) < 1e300 else "…"
