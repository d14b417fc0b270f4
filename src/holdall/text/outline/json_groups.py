"""All values of a JSON text that stand at one path, looked at together, and the groups below them.

A bounded number of values is looked at for each path, spread evenly, so that the time does not depend on how large
or how deep the text is. Nothing is written here; `json_shape` does that.
"""

import re
from collections import Counter
from functools import cached_property
from itertools import chain, islice
from operator import itemgetter
from typing import Any, cast

from holdall.text.json.path import normalized_step
from holdall.text.outline.json_text import readable
from holdall.text.outline.model import spread

_STEPS = ((24_000, 12_000), (30_000, 800))  # while so many were looked at in all, so many more for one path …
_FEWER = 120  # … and then only so many
_MAP_KEYS = 12  # a record with fewer names is never taken for a map
_SHORTHAND = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*")


class Allowance:
    """How many values may still be looked at."""

    def __init__(self) -> None:
        self._used = 0
        self.was_short = False  # of some path not all values were looked at

    def some(self, values: list[Any], exact: bool) -> tuple[list[Any], bool]:
        """`values`, or some of them spread evenly; and whether they are all that there are."""
        most = next((most for used, most in _STEPS if self._used < used), _FEWER)
        if len(values) > most:
            values, exact, self.was_short = spread(values, most), False, True
        self._used += len(values)
        return values, exact


class Group:
    """The values at `path`. `exact`: all that there are."""

    def __init__(self, path: str, values: list[Any], exact: bool, allowance: Allowance) -> None:
        self.path = path
        self.values = values
        self.exact = exact
        self._allowance = allowance
        self._members: dict[str, Group] = {}

    @cached_property
    def kinds(self) -> frozenset[type]:
        return frozenset(map(type, self.values))

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        return self._of(dict)

    @cached_property
    def arrays(self) -> list[list[Any]]:
        return self._of(list)

    @cached_property
    def plain(self) -> list[Any]:
        if not self.kinds & {dict, list}:
            return self.values
        if self.kinds <= {dict, list}:
            return []
        return [value for value in self.values if type(value) is not dict and type(value) is not list]

    def _of(self, kind: type) -> list[Any]:
        # Nearly always all values are of one type, and then none is looked at.
        if kind not in self.kinds:
            return []
        return self.values if len(self.kinds) == 1 else [value for value in self.values if type(value) is kind]

    @cached_property
    def keys(self) -> Counter[str]:
        """How many objects have each name. Records with the same names in the same order are counted at once."""
        rows = Counter(map(tuple, self.objects))
        keys: Counter[str] = Counter()
        for row, times in rows.items():
            for key in row:
                keys[key] += times
        return keys

    @cached_property
    def is_map(self) -> bool:
        return is_map(self.objects, self.keys)

    @cached_property
    def elements(self) -> "Group":
        return self._below("[*]", list(chain.from_iterable(self.arrays)))

    @cached_property
    def entries(self) -> "Group":
        return self._below(".*", list(chain.from_iterable(each.values() for each in self.objects)))

    def member(self, key: str) -> "Group":
        if key not in self._members:
            everywhere = self.keys[key] == len(self.objects)
            with_it = self.objects if everywhere else [each for each in self.objects if key in each]
            self._members[key] = self._below(step(key), list(map(itemgetter(key), with_it)))
        return self._members[key]

    def _below(self, step: str, values: list[Any]) -> "Group":
        values, exact = self._allowance.some(values, self.exact)
        return Group(self.path + step, values, exact, self._allowance)


def is_map(objects: list[dict[str, Any]], keys: Counter[str]) -> bool:
    """Whether the names are data, as in a map from id to record, and not the fields of a record."""
    if len(keys) < _MAP_KEYS:
        return False
    if len(objects) > 1:
        top = keys.most_common(1)[0][1]
        return top * 2 < len(objects) and len(keys) * len(objects) > 3 * keys.total()
    values = list(islice(objects[0].values(), 200))
    kind, times = Counter(map(type, values)).most_common(1)[0]
    if times < len(values) * 0.9:
        return False
    if kind is not dict:
        return len(keys) >= (2 if kind is list else 3) * _MAP_KEYS
    records = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
    fields: Counter[str] = Counter(chain.from_iterable(records))
    common = sum(times for times in fields.values() if times * 3 >= len(values))
    return common * 2 >= fields.total() or fields.total() >= 8 * len(fields)


def step(key: str) -> str:
    """How a path goes on to the member `key`, as the query of paths reads it."""
    shown = readable(key)
    if _SHORTHAND.fullmatch(shown):
        return "." + shown
    return normalized_step(shown)
