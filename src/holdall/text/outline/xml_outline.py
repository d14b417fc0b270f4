"""XML: its elements with their counts, where they stand, and what their attributes hold."""

import re
from collections import Counter
from itertools import islice

import stringzilla

from holdall.text.numbers import plural
from holdall.text.outline.leads import literal
from holdall.text.outline.model import Lead, Outline, Room, count, cut
from holdall.text.outline.sample import Sample, thinned

TAG = re.compile(rb"<([A-Za-z_][\w:.-]{0,80})(?=[\s/>])")
_OPEN = re.compile(rb"<(/?)([A-Za-z_][\w:.-]{0,80})([^<>]{0,2000})>")
_ATTRIBUTE = re.compile(rb"([\w:.-]{1,80})\s{0,8}=\s{0,8}(?:\"([^\"]{0,400})\"|'([^']{0,400})')")
_TAGS = 40_000  # tags that are counted
_NESTED = 1500  # tags by which the tree is told
_NAMES = 24  # elements that are told
_SHOWN = 4  # attributes of each
_VALUES = 60  # elements of one name whose attributes are looked at
_RANGE = 1500  # bytes from the first of the elements that are asked about
_TELLING = ("type", "kind", "category", "severity", "level", "status", "rule", "code", "name", "class")
_PLAIN = re.compile(r"[\w:.-]{1,40}", re.ASCII)

_Values = dict[bytes, Counter[bytes]]


def xml_outline(sample: Sample, room: Room) -> Outline | None:
    sample = bounded(sample)
    names: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        names.update(TAG.findall(data))
    if not names:
        return None
    paths = _paths(sample.head)
    root = next(iter(paths), next(iter(names)))
    about = "" if sample.whole else "at least "
    told = [f"root <{_text(root)}> · {about}{plural(len(names), 'element name')}"]
    room = room.after(["… 12,345 more names", *told])
    found: list[tuple[bytes, int, _Values]] = []
    for name, times in names.most_common(_NAMES):
        where = next((path for path in paths if path.rsplit(b"/", 1)[-1] == name), name)
        values = _attributes(sample, name)
        number = count(times * sample.scale, sample.whole)
        line = f"{number} × {cut(_text(where), 100)}{_shown(values, complete=sample.whole and times <= _VALUES)}"
        room = room.after([line])
        if room.size < 0 and len(told) > 1:
            break
        told.append(line)
        found.append((name, times, values))
    left = len(names) - len(told) + 1
    if left:
        told.append(f"… {about}{plural(left, 'more name')}")
    element, leads = _leads(found)
    at = stringzilla.find(sample.head, b"<" + element + b" ")
    ranges = ((at, min(sample.size, at + _RANGE), f"the first <{_text(element)}>"),) if at >= 0 else ()
    return Outline("xml", tuple(told), not sample.whole, (), ranges, leads)


def bounded(sample: Sample) -> Sample:
    """No more tags than can be counted in time."""
    tags = sample.count(b"<")
    return thinned(sample, _TAGS / tags) if tags > _TAGS else sample


def _paths(data: bytes) -> list[bytes]:
    """The ways from the root to elements, in the order in which they are first seen."""
    paths: dict[bytes, None] = {}
    stack: list[bytes] = []
    for match in islice(_OPEN.finditer(data), _NESTED):
        if match[1]:
            if match[2] in stack[-32:]:
                while stack.pop() != match[2]:
                    pass
        elif len(stack) < 200:
            stack.append(match[2])
            paths.setdefault(b"/".join(stack[-6:]))
            if match[3].endswith(b"/"):
                stack.pop()
    return list(paths)


def _attributes(sample: Sample, name: bytes) -> _Values:
    """The values of each attribute, from some elements of that name."""
    values: _Values = {}
    opening = b"<" + name + b" "
    for _, data in sample.pieces:
        at = stringzilla.find(data, opening)
        for _ in range(max(2, _VALUES // len(sample.pieces))):
            if at < 0:
                break
            end = data.find(b">", at, at + 4000)
            for each in islice(_ATTRIBUTE.finditer(data, at, end if end >= 0 else at + 4000), 12):
                values.setdefault(each[1], Counter())[each[2] or each[3] or b""] += 1
            at = stringzilla.find(data, opening, at + 1)
    return values


def _shown(values: _Values, *, complete: bool) -> str:
    """With the values where these are few and all of them were looked at."""
    shown = [f"{_text(key)}={_value(found, complete)}" for key, found in islice(values.items(), _SHOWN)]
    more = f" +{len(values) - _SHOWN} attributes" if len(values) > _SHOWN else ""
    return " " + " ".join(shown) + more if shown else ""


def _value(found: Counter[bytes], complete: bool) -> str:
    if len(found) <= 3 and complete:
        return "|".join(f'"{cut(_text(value), 24)}"' for value, _ in found.most_common())
    return f'"{cut(_text(next(iter(found))), 24)}",…'


def _leads(found: list[tuple[bytes, int, _Values]]) -> tuple[bytes, tuple[Lead, ...]]:
    """How often each value of an attribute occurs, for one that tells things apart; and whose it is."""
    best, most, chosen = "", -1.0, found[0][0]
    for name, times, values in found:
        for at, (key, counts) in enumerate(values.items()):
            element, attribute = _text(name), _text(key)
            repeats = 2 <= len(counts) <= 0.7 * counts.total()
            if not repeats or not _PLAIN.fullmatch(element) or not _PLAIN.fullmatch(attribute):
                continue
            rank = len(_TELLING) - _TELLING.index(attribute) if attribute in _TELLING else 0
            score = rank + times**0.25 - at
            if score > most:
                between = " " if at == 0 else " [^>]*"
                best, most = f'<{literal(element)}{between}{literal(attribute)}="([^"]*)"', score
                chosen = name
    if best:
        return chosen, (Lead("grep", {"pattern": best, "group": True}),)
    return chosen, (Lead("grep", {"pattern": f"<{literal(_text(chosen))}[ >/]", "count": True}),)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
