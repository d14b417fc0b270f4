"""The shape of JSON in lines: each tells one path and those below it that are short, and can be read alone.

The paths are written as the path query reads them. What stands for many values comes first.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import cast

from holdall.text.outline.json_groups import Allowance, Group
from holdall.text.outline.json_leads import Sql, json_leads
from holdall.text.outline.json_scalars import quoted, scalars, types
from holdall.text.outline.json_text import readable
from holdall.text.outline.json_values import Seen
from holdall.text.outline.model import Lead, Room, count, cut

_PLAIN = re.compile(r"(?:[^\W\d]|[$@])[\w$@.-]*")
_KEYS = 28  # members of a record that are named
_INLINE = 80  # a container whose shape is longer gets a line of its own
_INLINE_ROOT = 360  # the elements of the root have more room
_ROOTS = ("$[*]", "$.*")
_LEVELS = 3  # of containers on one line
_LONGEST = 340  # a line that would be longer is written with fewer levels
_MOST_LINES = 14
_DEEPEST = 9  # steps of a path that are told
_LONGEST_PATH = 240
_MISSES = 4  # lines that do not fit before it gives up
_EXAMPLE_KEY = 56
_SHORT_KEY = 24


@dataclass(slots=True)
class _Part:
    """Members of a record that hold like records, told once: `get?|post?|put?`."""

    labels: list[str]
    group: Group
    text: str

    def is_like(self, other: Group) -> bool:
        mine, theirs = self.group.keys.keys(), other.keys.keys()
        if len(theirs) < 5 or other.is_map or self.group.is_map:
            return False
        return len(mine & theirs) * 10 >= 7 * len(mine | theirs)


class Shapes:
    """Writes the shape of `seen`."""

    def __init__(self, seen: Seen) -> None:
        self._counts = seen.counts
        self._allowance = Allowance()
        self._root = Group("$", [seen.value], seen.whole, self._allowance)
        self._waiting: list[Group] = []
        self._short = False
        self._told: dict[str, str] = {}  # scalars by path: a line may be written more than once

    @property
    def sampled(self) -> bool:
        """Whether what `lines` told comes from some of the values only."""
        return not self._root.exact or self._allowance.was_short

    def leads(self, sql: Sql = "plain") -> tuple[Lead, ...]:
        return json_leads(self._root, self._counts, sql)

    def lines(self, room: Room) -> list[str]:
        lines = [room.cut(self._line(self._root), 80)]
        room = room.after(lines)
        misses = 0
        while self._waiting and len(lines) < _MOST_LINES and misses < _MISSES:
            self._waiting.sort(key=_weight)
            group = self._waiting.pop(0)
            line = self._line(group)
            if room.of(line) > room.size and len(group.values) > 1:
                line = self._in_short(group)
            if room.of(line) <= room.size:
                lines.append(line)
                room = room.after([line])
            else:
                misses += 1
        return lines

    def _in_short(self, group: Group) -> str:
        """Its line with the types of the scalars instead of what is in them."""
        self._short = True
        try:
            return self._line(group)
        finally:
            self._short = False

    def _line(self, group: Group) -> str:
        lead = "" if group.path == "$" else f"{cut(group.path, _LONGEST_PATH)}: "
        waiting = len(self._waiting)
        text = ""
        for levels in (_LEVELS, 1, 0):
            del self._waiting[waiting:]
            text = self._shape(group, levels)
            if len(text) <= _LONGEST:
                break
        return lead + cut(text, 2 * _LONGEST)

    def _shape(self, group: Group, levels: int) -> str:
        texts: list[str] = []
        if group.objects:
            texts.append(self._objects(group, levels))
        if group.arrays:
            texts.append(self._arrays(group, levels))
        if group.plain:
            texts.append(self._scalars(group))
        return "|".join(texts) or "?"

    def _arrays(self, group: Group, levels: int) -> str:
        if not group.elements.values:
            return "[]"
        return f"[{self._sizes(group, group.arrays)} × {self._child(group.elements, levels)}]"

    def _objects(self, group: Group, levels: int) -> str:
        keys = group.keys
        if not keys:
            return "{}"
        if group.is_map:
            head = f"{self._sizes(group, group.objects)} keys like {_like(keys)}"
            return f"{{{head}: {self._child(group.entries, levels)}}}"
        names = list(keys) if len(keys) <= _KEYS else [key for key, _ in keys.most_common(_KEYS)]
        parts: list[_Part] = []
        for key in names:
            label = _name(key) + ("?" if keys[key] < len(group.objects) else "")
            child = group.member(key)
            twin = next((part for part in parts if part.is_like(child)), None)
            if twin:
                twin.labels.append(label)
            else:
                parts.append(_Part([label], child, self._child(child, levels)))
        texts = [f"{'|'.join(part.labels)}: {part.text}" for part in parts]
        if len(keys) > _KEYS:
            texts.append(f"… +{len(keys) - _KEYS:,} keys")
        return "{" + ", ".join(texts) + "}"

    def _child(self, group: Group, levels: int) -> str:
        if not group.objects and not group.arrays:
            return self._scalars(group) if group.values else "?"
        waiting = len(self._waiting)
        if levels > 0 and not _is_wide(group):
            text = self._shape(group, levels - 1)
            if len(text) <= (_INLINE_ROOT if group.path in _ROOTS else _INLINE):
                return text
            del self._waiting[waiting:]  # they will be found again from the line of this group
        return self._stand_in(group)

    def _stand_in(self, group: Group) -> str:
        """What stands for a group that gets a line of its own later."""
        if group.path.count(".") + group.path.count("[") > _DEEPEST:
            return "{…}" if group.objects else "[…]"
        if group.arrays and not group.objects:
            inner = group.elements
            if inner.objects or inner.arrays:
                return f"[{self._sizes(group, group.arrays)} × {self._stand_in(inner)}]"
            self._waiting.append(group)
            return f"[{self._sizes(group, group.arrays)}]"
        if group.is_map:
            inner = group.entries
            text = f"{{{self._sizes(group, group.objects)} keys like {_like(group.keys)}"
            if not inner.objects and not inner.arrays:
                return f"{text}: {self._scalars(inner)}}}"
            self._waiting.append(inner)
            return text + "}"
        self._waiting.append(group)
        return _names(group)

    def _scalars(self, group: Group) -> str:
        if self._short:
            return types(group.plain)
        if group.path not in self._told:
            self._told[group.path] = scalars(group.plain, exact=group.exact)
        return self._told[group.path]

    def _sizes(self, group: Group, containers: list[list[object]] | list[dict[str, object]]) -> str:
        if len(containers) == 1:
            return count(*self._counts.get(id(containers[0]), (len(containers[0]), True)))
        sizes = list(map(len, containers))
        if self._counts:
            known = (self._counts.get(id(each)) for each in containers)
            sizes = [round(each[0]) if each else size for each, size in zip(known, sizes, strict=True)]
        low, high = min(sizes), max(sizes)
        mark = "" if group.exact else "~"
        return f"{mark}{low:,}" if low == high else f"{mark}{low:,}–{high:,}"


def _is_wide(group: Group) -> bool:
    """Cheap: it cannot fit on a part of a line."""
    most = 12 if group.path in _ROOTS else 9
    return any(len(value) > most for value in islice(group.objects, 3))


def _like(keys: Counter[str]) -> str:
    """One from the middle, where keys are most like the others; two where they are short."""
    ordered = list(keys)
    examples = [ordered[len(ordered) // 2], ordered[-1]]
    return ", ".join(quoted(key, _EXAMPLE_KEY) for key in examples[: 1 if max(map(len, examples)) > _SHORT_KEY else 2])


def _names(group: Group) -> str:
    """Only the names of a record, as many as are short."""
    names = [_name(key) + ("?" if times < len(group.objects) else "") for key, times in group.keys.most_common(_KEYS)]
    room, shown = _INLINE, 0
    while shown < len(names) and room > len(names[shown]):
        room -= len(names[shown]) + 2
        shown += 1
    left = len(group.keys) - shown
    return "{" + ", ".join(names[:shown]) + (f", … +{left:,} keys" if left else "") + "}"


def _weight(group: Group) -> float:
    """What stands for many values is told before what occurs once, unless it is much deeper."""
    depth = group.path.count(".") + group.path.count("[")
    below = sum(
        len(cast("list[object]", value))
        for each in islice(group.objects, 20)
        for value in islice(each.values(), 20)
        if isinstance(value, dict | list)
    )
    return depth - min(2.5, math.log10(max(1, len(group.values), below / 4)))


def _name(key: str) -> str:
    shown = readable(key)
    return shown if _PLAIN.fullmatch(shown) and len(shown) <= _EXAMPLE_KEY else quoted(key, _EXAMPLE_KEY)
