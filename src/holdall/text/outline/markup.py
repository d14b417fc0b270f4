"""HTML and Markdown: titles, headings as a tree, what else there is, with its count."""

import re
from collections import Counter
from itertools import islice

import stringzilla

from holdall.text.outline.leads import word_lead
from holdall.text.outline.model import Lead, Outline, Room, count, cut, fitted
from holdall.text.outline.sample import Sample, thinned
from holdall.text.outline.xml_outline import TAG, bounded

_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{0,400})", re.IGNORECASE)
_TITLE_IN = 64 * 1024
_HEADING = re.compile(rb"<h([1-4])\b[^>]{0,400}>(.{0,400}?)</h[1-4]", re.IGNORECASE | re.DOTALL)
_LEVELS = tuple(b"<%b%d" % (sign, level) for level in range(1, 5) for sign in (b"h", b"H"))
_INSIDE = re.compile(rb"<[^>]{0,400}>")
_MARKDOWN = re.compile(rb"\n(#{1,6})[ \t]+([^\n]{1,300})")
_MARKS = 10_000  # lines that begin with # and are looked at
_SHOWN = 60  # headings
_LINKS = "href=[\"']([^\"'#?]+)"
_COUNTED = (b"a", b"table", b"tr", b"form", b"img", b"script", b"li", b"p")

_Heading = tuple[int, int, str]  # where it starts, its level and its text


def html_outline(sample: Sample, room: Room) -> Outline:
    sample = bounded(sample)
    title = _TITLE.search(sample.head, 0, _TITLE_IN)
    told = [f"title: {_plain(title[1])}"] if title else []
    tags: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        tags.update(TAG.findall(data))
    for name in [name for name in tags if not name.islower()]:
        tags[name.lower()] += tags.pop(name)
    headings = _html_headings(sample)
    number = sum(tags[b"h%d" % level] for level in range(1, 5))
    counts = [f"{count(tags[name] * sample.scale, sample.whole)} <{name.decode()}>" for name in _COUNTED if tags[name]]
    told.append(f"{', '.join(counts) or 'no links, tables or paragraphs'}, {_many(number, sample)}")
    told += [f"{'  ' * (level - 1)}h{level} {text} · {sample.place(at)}" for at, level, text in headings]
    leads = (Lead("grep", {"pattern": _LINKS, "group": True}),) if sample.count(b"href=") > 1 else ()
    leads = leads or word_lead([text for _, _, text in headings] or told)
    lines = _with_rest(told, len(headings), max(number, len(headings)), sample, room)
    return Outline("html", lines, not sample.whole, (), _sections(headings, sample), leads)


def _html_headings(sample: Sample) -> list[_Heading]:
    """The first ones, in their order."""
    found: list[_Heading] = []
    for start, data in sample.pieces:
        starts = sorted(at for sign in _LEVELS for at in _first(data, sign, _SHOWN))
        matches = (_HEADING.match(data, at) for at in starts[:_SHOWN])
        found += [(start + match.start(), int(match[1]), _plain(match[2])) for match in matches if match]
    return found[:_SHOWN]


def _first(data: bytes, sign: bytes, most: int) -> list[int]:
    found: list[int] = []
    at = stringzilla.find(data, sign)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = stringzilla.find(data, sign, at + 1)
    return found


def markdown_outline(sample: Sample, room: Room) -> Outline:
    marks = sample.count(b"\n#")
    sample = thinned(sample, _MARKS / marks) if marks > _MARKS else sample
    headings: list[_Heading] = []
    number = code = links = tables = 0
    for start, data in sample.pieces:
        outside = _outside_code(data, first=not start)
        number += len(outside)
        headings += [(start + at, level, _plain(text)) for at, level, text in outside[: _SHOWN - len(headings)]]
    code, links = sample.count(b"\n```") // 2, sample.count(b"](")
    tables = sum(map(sample.count, (b"\n|--", b"\n| --", b"\n|:-", b"\n| :-")))
    counts = [
        f"{count(times * sample.scale, sample.whole) if times else '0'} {noun}{'' if times == 1 else 's'}"
        for times, noun in ((code, "code block"), (links, "link"), (tables, "table"))
    ]
    told = [", ".join([_many(number, sample), *counts])]
    told += [f"{'#' * level} {text} · {sample.place(at)}" for at, level, text in headings]
    leads = word_lead([text for _, _, text in headings])
    lines = _with_rest(told, len(headings), number, sample, room)
    return Outline("markdown", lines, not sample.whole, (), _sections(headings, sample), leads)


def _outside_code(data: bytes, *, first: bool) -> list[tuple[int, int, bytes]]:
    """Headings, but not the comments of a shell in a block of code."""
    found: list[tuple[int, int, bytes]] = []
    data = b"\n" + data if first else data
    fences = last = 0
    for match in _MARKDOWN.finditer(data):
        fences += data.count(b"\n```", last, match.start())
        last = match.start()
        if fences % 2 == 0:
            found.append((match.start() + (not first), len(match[1]), match[2]))
    return found


def _many(headings: int, sample: Sample) -> str:
    return f"{count(headings * sample.scale, sample.whole) if headings else 'no'} heading{'' if headings == 1 else 's'}"


def _plain(text: bytes) -> str:
    return cut(" ".join(_INSIDE.sub(b"", text).decode("utf-8", "replace").split()), 100)


def _sections(headings: list[_Heading], sample: Sample) -> tuple[tuple[int, int, str], ...]:
    """From each of the first headings to the next."""
    ends = [at for at, _, _ in headings[1:]] or [sample.size]
    return tuple((at, end, text) for (at, _, text), end in islice(zip(headings, ends, strict=False), 1, 3))


def _with_rest(told: list[str], headings: int, number: int, sample: Sample, room: Room) -> tuple[str, ...]:
    kept = fitted(told, room.after(["… ~12,345 more headings"]))
    left = number - (headings - (len(told) - len(kept)))
    if not left:
        return kept
    return (*kept, f"… {count(left * sample.scale, sample.whole)} more heading{'' if left == 1 else 's'}")
