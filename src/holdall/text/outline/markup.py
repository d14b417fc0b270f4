"""HTML, XML and Markdown: titles, headings as a tree, elements with their counts."""

import re
from collections import Counter

from holdall.text.numbers import plural
from holdall.text.outline.model import Outline, count, cut, fitted
from holdall.text.outline.sample import Sample, thinned

_TAG = re.compile(rb"<([A-Za-z_][\w:.-]{0,80})")
_OPEN = re.compile(rb"<(/?)([A-Za-z_][\w:.-]{0,80})([^<>]{0,2000})>")
_ATTRIBUTE = re.compile(rb"([\w:.-]{1,80})\s{0,8}=\s{0,8}(?:\"([^\"]{0,400})\"|'([^']{0,400})')")
_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{0,400})", re.IGNORECASE)
_HEADING = re.compile(rb"<h([1-4])\b[^>]{0,400}>(.{0,400}?)</h[1-4]", re.IGNORECASE | re.DOTALL)
_INSIDE = re.compile(rb"<[^>]{0,400}>")
_MARKDOWN = re.compile(rb"^(#{1,6})[ \t]+([^\n]{1,300})", re.MULTILINE)
_TAGS = 60_000  # tags that are counted
_SHOWN = 60  # headings
_NESTED = 4000  # tags by which the tree is told
_VALUES = 60  # elements of one name whose attributes are looked at
_COUNTED = (b"a", b"table", b"tr", b"form", b"img", b"script", b"li", b"p")


def xml_outline(sample: Sample, budget: int) -> Outline | None:
    sample = _bounded(sample)
    names: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        names.update(_TAG.findall(data))
    if not names:
        return None
    scale = 1.0 if sample.whole else sample.size / sum(len(data) for _, data in sample.pieces)
    paths = _paths(sample.head)
    root = next(iter(paths), next(iter(names))).decode("utf-8", "replace")
    told = [f"root <{root}> · {plural(len(names), 'element name')}"]
    for name, times in names.most_common(40):
        where = next((path for path in paths if path.rsplit(b"/", 1)[-1] == name), name).decode("utf-8", "replace")
        number = count(times * scale, sample.whole)
        told.append(f"{number} × {cut(where, 100)}{_attributes(sample, name, times)}")
    if len(names) > 40:
        told.append(f"… {len(names) - 40:,} more names")
    return Outline("xml", fitted(told, budget), not sample.whole, ())


def _bounded(sample: Sample) -> Sample:
    tags = sum(data.count(b"<") for _, data in sample.pieces)
    return thinned(sample, _TAGS / tags) if tags > _TAGS else sample


def _paths(data: bytes) -> list[bytes]:
    """The ways from the root to elements, in the order in which they are first seen."""
    paths: dict[bytes, None] = {}
    stack: list[bytes] = []
    for number, match in enumerate(_OPEN.finditer(data)):
        if number > _NESTED:
            break
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


def _attributes(sample: Sample, name: bytes, times: int) -> str:
    """The names of attributes, with their values where these are few and all of them were looked at."""
    complete = sample.whole and times <= _VALUES
    values: dict[bytes, Counter[bytes]] = {}
    opening = b"<" + name + b" "
    for _, data in sample.pieces:
        at = data.find(opening)
        for _ in range(_VALUES // len(sample.pieces)):
            if at < 0:
                break
            end = data.find(b">", at, at + 4000)
            for each in _ATTRIBUTE.finditer(data, at, end if end >= 0 else at + 4000):
                values.setdefault(each[1], Counter())[each[2] or each[3] or b""] += 1
            at = data.find(opening, at + 1)
    shown = [f"{key.decode('utf-8', 'replace')}={_value(found, complete)}" for key, found in list(values.items())[:8]]
    return " " + " ".join(shown) if shown else ""


def _value(found: Counter[bytes], complete: bool) -> str:
    if len(found) <= 3 and complete:
        return "|".join(f'"{cut(value.decode("utf-8", "replace"), 24)}"' for value, _ in found.most_common())
    value = next(iter(found))
    return f'"{cut(value.decode("utf-8", "replace"), 40)}",…'


def html_outline(sample: Sample, budget: int) -> Outline:
    sample = _bounded(sample)
    told: list[str] = []
    title = _TITLE.search(sample.head)
    if title:
        told.append(f"title: {_plain(title[1])}")
    tags: Counter[bytes] = Counter()
    headings: list[tuple[int, int, bytes]] = []
    for start, data in sample.pieces:
        tags.update(name.lower() for name in _TAG.findall(data))
        headings += [(start + each.start(), int(each[1]), each[2]) for each in _HEADING.finditer(data)]
    scale = 1.0 if sample.whole else sample.size / sum(len(data) for _, data in sample.pieces)
    counts = [f"{count(tags[name] * scale, sample.whole)} <{name.decode()}>" for name in _COUNTED if tags[name]]
    told.append(f"{', '.join(counts) or 'no links, tables or paragraphs'}, {_many(len(headings), sample)}")
    told += [
        f"{'  ' * (level - 1)}h{level} {_plain(text)} · {sample.place(at)}" for at, level, text in headings[:_SHOWN]
    ]
    return Outline("html", _with_rest(told, len(headings), budget), not sample.whole, ())


def markdown_outline(sample: Sample, budget: int) -> Outline:
    marks = sum(data.count(b"\n#") for _, data in sample.pieces)
    sample = thinned(sample, _TAGS / 3 / marks) if marks > _TAGS / 3 else sample
    headings: list[tuple[int, int, bytes]] = []
    code = links = tables = 0
    for start, data in sample.pieces:
        headings += [(start + at, level, text) for at, level, text in _outside_code(data)]
        code += data.count(b"\n```") // 2
        links += data.count(b"](")
        tables += data.count(b"\n|--") + data.count(b"\n| --") + data.count(b"\n|:-") + data.count(b"\n| :-")
    mark = "" if sample.whole else "~"
    counts = [f"{mark}{plural(*each)}" for each in ((code, "code block"), (links, "link"), (tables, "table"))]
    told = [", ".join([_many(len(headings), sample), *counts])]
    told += [f"{'#' * level} {_plain(text)} · {sample.place(at)}" for at, level, text in headings[:_SHOWN]]
    return Outline("markdown", _with_rest(told, len(headings), budget), not sample.whole, ())


def _outside_code(data: bytes) -> list[tuple[int, int, bytes]]:
    """Headings, but not the comments of a shell in a block of code."""
    found: list[tuple[int, int, bytes]] = []
    fences = 0
    last = 0
    for match in _MARKDOWN.finditer(data):
        fences += data.count(b"\n```", last, match.start()) + (last == 0 and data.startswith(b"```"))
        last = match.start()
        if fences % 2 == 0:
            found.append((match.start(), len(match[1]), match[2]))
    return found


def _many(headings: int, sample: Sample) -> str:
    return plural(headings, "heading") if sample.whole else f"{plural(headings, 'heading')} in the sample"


def _plain(text: bytes) -> str:
    return cut(" ".join(_INSIDE.sub(b"", text).decode("utf-8", "replace").split()), 100)


def _with_rest(told: list[str], headings: int, budget: int) -> tuple[str, ...]:
    kept = fitted(told, budget - 30)
    left = headings - (min(headings, _SHOWN) - (len(told) - len(kept)))
    return (*kept, f"… {plural(left, 'more heading')}") if left else kept
