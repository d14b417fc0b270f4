"""JSON that is written with a line for each member: a part of the members parsed, all of them counted.

The members of a container stand on lines of their own, indented one step further than it. So they can be counted, and
some of them found, without reading what is inside. Only these are parsed; what is inside a large one is skimmed again.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import stringzilla

from holdall.text.outline.json_begin import prefix

_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,100}(?P<open>[\[{])\r?\n(?P<unit>[ \t]{0,16})[^\s]")
_BYTES = 900 * 1024  # parsed in all
_ALL = 48  # members of a container that are all looked at; of more …
_SOME, _MOST = 48, 1200  # … at least and at most so many, spread evenly
_LEAST = 8 * 1024  # bytes that one member may always take
_DEEPEST = 8
_COLON = re.compile(rb'"\s{0,8}:\s{0,8}')

Counts = dict[int, int]


def can_be_skimmed(head: bytes, *, deep: bool = False) -> bool:
    """By how it begins. `deep`: what is inside of its members too, for that is indented further."""
    root = _ROOT.match(head)
    return root is not None and bool(root["unit"] or not deep)


def skim(data: bytes) -> tuple[Any, Counts] | None:
    """The value, and by their `id` how many members containers have that are not all there. None: not so written."""
    root = _ROOT.match(data)
    if root is None:
        return None
    found = _Skimmed(data, root["unit"])
    value = found.container(root.start("open"), len(data), 0, _BYTES)
    return (value, found.counts) if value else None


class _Skimmed:
    def __init__(self, data: bytes, unit: bytes) -> None:
        self.counts: Counts = {}
        self._data = data
        self._unit = unit
        self._decoder = json.JSONDecoder(strict=False)

    def container(self, start: int, end: int, level: int, budget: float) -> Any:
        """What stands from `start` on, at most `budget` bytes of it parsed."""
        is_object = self._data[start : start + 1] == b"{"
        indent = b"\n" + self._unit * (level + 1)
        signs = [indent + b'"'] if is_object else [indent + sign for sign in (b"{", b"[", b'"')]
        numbers = {sign: stringzilla.count(self._data, sign, start, end) for sign in signs}
        number = sum(numbers.values())
        sign = max(numbers, key=lambda sign: numbers[sign])
        value: dict[str, Any] | list[Any] = {} if is_object else []
        some = int(min(_MOST, max(_SOME, budget * number / (end - start))))
        stride = 0.0 if number <= max(_ALL, some) else (end - start) / some
        places = list(self._places(sign, start, end, stride))
        for at, stop in places:
            self._add(value, at + len(sign) - 1, stop, level, max(_LEAST, budget / len(places)))
        if number > len(value):
            self.counts[id(value)] = number
        return value

    def _places(self, sign: bytes, start: int, end: int, stride: float) -> Iterator[tuple[int, int]]:
        """Where members begin, and where the next ones do: every one, or the first in each stride."""
        at = stringzilla.find(self._data, sign, start, end)
        while at >= 0:
            after = stringzilla.find(self._data, sign, at + 1, end)
            yield at, after if after >= 0 else end
            further = int(start + (int((at - start) / stride) + 1) * stride) if stride else 0
            at = stringzilla.find(self._data, sign, further, end) if 0 <= after < further else after

    def _add(self, value: dict[str, Any] | list[Any], at: int, stop: int, level: int, budget: float) -> None:
        key = ""
        if isinstance(value, dict):
            try:
                key, _ = self._decoder.raw_decode(self._data[at : min(stop, at + _LEAST)].decode("latin-1"))
            except (ValueError, RecursionError):
                return
            colon = _COLON.search(self._data, at + 1, stop)
            if colon is None:
                return
            at = colon.end()
        member = self._member(at, stop, level, budget)
        if member is None:
            return
        if isinstance(value, dict):
            value[key] = member[0]
        else:
            value.append(member[0])

    def _member(self, at: int, stop: int, level: int, budget: float) -> tuple[Any] | None:
        if stop - at > budget and self._data[at : at + 1] in (b"{", b"["):
            inner = self._unit and level < _DEEPEST and self.container(at, stop, level + 1, budget)
            if inner:
                return (inner,)
            begun = prefix(self._data[at : at + int(budget)].decode("latin-1"))
            return (begun.value,) if begun else None
        try:
            return (self._decoder.raw_decode(self._data[at:stop].decode("latin-1"))[0],)
        except (ValueError, RecursionError):
            return None
