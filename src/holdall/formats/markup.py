"""HTML, XML and Markdown: titles, headings as a tree, elements with their counts, and what their attributes hold."""

import re
from collections import Counter
from dataclasses import replace
from html import unescape
from itertools import islice

import stringzilla

from holdall.formats.leads import literal, word_lead
from holdall.formats.outline import Lead, Outline, Room, Sample, cut, figure, fitted, thinned
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern

# XML: its elements with their counts, where they stand, and what their attributes hold.


TAG = lazy_pattern(rb"<([A-Za-z_][\w:.-]{0,80})(?=[\s/>])")
_OPEN = lazy_pattern(rb"<(/?)([A-Za-z_][\w:.-]{0,80})([^<>]{0,2000})>")
_ATTRIBUTE = lazy_pattern(rb"([\w:.-]{1,80})\s{0,8}=\s{0,8}(?:\"([^\"]{0,400})\"|'([^']{0,400})')")
_TAGS, _SOME_TAGS = 150_000, 40_000  # tags that are counted: of all of a text, and of a larger one
_NESTED = 1500  # tags by which the tree is told
_NAMES, _FEW = 24, 6  # elements that are told, and where there is little room
_SHOWN = 4  # attributes of each
_VALUES = 60  # elements of one name whose attributes are looked at
_RANGE = 1500  # bytes from the first of the elements that are asked about
_TELLING = ("type", "kind", "category", "severity", "level", "status", "rule", "code", "name", "class")
_PLAIN = lazy_pattern(r"[\w:.-]{1,40}", re.ASCII)

_Values = dict[bytes, Counter[bytes]]


def xml_outline(sample: Sample, room: Room) -> Outline | None:
    sample = bounded(_blanked(sample, _NOT_XML))
    names: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        names.update(TAG.findall(data))
    if not names:
        return None
    paths = _paths(sample.head)
    root = next(iter(paths), next(iter(names)))
    about = "" if sample.whole else "at least "
    told = [f"root <{_text(root)}> · {about}{plural(len(names), 'element name')}"]
    ordered = names.most_common(_NAMES)
    small = room.is_small
    found = [(name, times, _attributes(sample, name)) for name, times in ordered[: _FEW if small else _NAMES]]
    element, leads = _leads(found, sample)
    room = room.after(["… 12,345 more names", *told, *([_often(ordered, sample)] if small else [])])
    # Where there is little room: one real element, and how many of the others there are.
    found = [each for each in found if each[0] == element] if small else found
    for name, times, values in found:
        where = next((path for path in paths if path.rsplit(b"/", 1)[-1] == name), name).rpartition(b"/")[0]
        first = f" · first in {cut(_text(where), 100)}" if where else ""  # others of that name may be elsewhere
        number = figure(times, sample.whole)
        line = f"{number} × {_text(name)}{_shown(values, complete=sample.whole and times <= _VALUES)}{first}"
        room = room.after([line])
        if room.size < 0 and len(told) > 1:
            break
        told.append(line)
    left = len(names) - len(told) + 1
    if small and left:
        others = [each for each in ordered[:_FEW] if each[0] != element]
        left -= len(others)
        told += [_often(others, sample)] if others else []
    if left:
        told.append(f"… {about}{plural(left, 'more name')}")
    at = stringzilla.find(sample.head, b"<" + element + b" ")
    ranges = ((at, min(sample.size, at + _RANGE), f"the first <{_text(element)}>"),) if at >= 0 else ()
    return Outline("xml", tuple(told), not sample.whole, (), ranges, leads, ends=False)


def _often(names: list[tuple[bytes, int]], sample: Sample) -> str:
    return ", ".join(f"{figure(n, sample.whole)} × {cut(_text(name), 40)}" for name, n in names[:_FEW])


# What is not closed goes on to the end: to look for its end again and again would be quadratic.
_NOT_XML = lazy_pattern(rb"()(<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z))", re.DOTALL)
_NOT_HTML = lazy_pattern(
    rb"()(<!--.*?(?:-->|\Z))|(<(?:script|style|textarea)\b[^>]{0,2000}>)(.*?)(?=</(?:script|style|textarea)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_HIDING = (
    b"<!--",
    b"<![CDATA[",
    b"script",
    b"SCRIPT",
    b"style",
    b"STYLE",
    b"textarea",
    b"TEXTAREA",
)  # what begins them
_BLANK = bytes(0x0A if byte == 0x0A else 0x20 for byte in range(256))


def _blanked(sample: Sample, hidden: re.Pattern[bytes]) -> Sample:
    """With blanks for what only looks like elements: comments, scripts and the like. Every byte stays where it is."""

    def blank(found: re.Match[bytes]) -> bytes:
        kept = found[found.lastindex - 1] if found.lastindex else b""
        return kept + found[0][len(kept) :].translate(_BLANK)

    if not any(sample.count(sign) for sign in _HIDING):
        return sample
    return replace(sample, pieces=tuple((start, hidden.sub(blank, data)) for start, data in sample.pieces))


def bounded(sample: Sample) -> Sample:
    """No more tags than can be counted in time: where they are not all there, fewer will do."""
    tags, most = sample.count(b"<"), _TAGS if sample.whole else _SOME_TAGS
    return thinned(sample, _SOME_TAGS / tags) if tags > most else sample


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
    more = " …" if len(values) > _SHOWN else ""
    return " " + " ".join(shown) + more if shown else ""


def _value(found: Counter[bytes], complete: bool) -> str:
    if len(found) <= 3 and complete:
        return "|".join(f'"{cut(_text(value), 24)}"' for value, _ in found.most_common())
    return f'"{cut(_text(next(iter(found))), 24)}",…'


def _leads(found: list[tuple[bytes, int, _Values]], sample: Sample) -> tuple[bytes, tuple[Lead, ...]]:
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
    if best and _is_in_a_line(best.encode(), chosen, sample):
        return chosen, (Lead("grep", {"pattern": best, "group": True}),)
    return chosen, (Lead("grep", {"pattern": rf"<{literal(_text(chosen))}(?:[\s>/]|$)", "after": 2, "limit": 3}),)


def _is_in_a_line(pattern: bytes, name: bytes, sample: Sample) -> bool:
    """Whether one of the first elements of that name has its attribute on the line where it begins."""
    places = (found.start() for found in islice(re.finditer(b"<" + re.escape(name) + b" ", sample.head), _VALUES))
    return any(re.match(pattern, sample.head[at : at + 4000].partition(b"\n")[0]) for at in places)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# HTML and Markdown: titles, headings as a tree, what else there is, with its count.


_TITLE = lazy_pattern(rb"<title[^>]{0,200}>([^<]{0,400})", re.IGNORECASE)
_TITLE_IN = 64 * 1024
_HEADING = lazy_pattern(rb"<h([1-6])\b[^>]{0,400}>(.{0,400}?)</h[1-6]", re.IGNORECASE | re.DOTALL)
_LEVELS = tuple(b"<%b%d" % (sign, level) for level in range(1, 7) for sign in (b"h", b"H"))
_PARAGRAPH = lazy_pattern(
    rb"<p\b[^>]{0,400}>([^<]{60,600}|(?:[^<]{0,200}<(?!/p)[^<>]{0,200}>){1,8}[^<]{60,400})", re.IGNORECASE
)
_TRIED = 40  # paragraphs among which the first with words is looked for
_UPPER = 12  # headings that are told one by one; of more, those of the upper levels
_DIGITS = lazy_pattern(r"\d+")
_INSIDE = lazy_pattern(rb"<[^>]{0,400}>")
_BLOCK = lazy_pattern(
    rb"\n {0,3}(?:(?P<fence>`{3,}+|~{3,}+)(?P<info>[^`\n]*+)(?=\n|\Z)"
    rb"|(?P<level>#{1,6})(?:[ \t]+(?P<text>[^\n]{0,300})[^\n]*|\r?(?=\n|\Z))"
    # Under the names of the columns of a table, which are not looked at.
    rb"|(?=[|:-])(?P<rule>\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)++\|?|\|[ \t]*+:?-++:?[ \t]*+\|)"
    rb"\r?(?=\n|\Z)"
    rb"|(?P<line>=++|-++)[ \t]*+\r?(?=\n|\Z))"
)
_FENCE_INSIDE = lazy_pattern(
    rb"\n(?: {4}|\t| {0,3}(?:>|[-*+] |\d{1,9}[.)] ))[ \t]{0,40}(?:`{3}|~{3})"
)  # of a list or a quote
_CLOSING = lazy_pattern(rb"[ \t]+#+[ \t]*\r?$")
_NO_PARAGRAPH = lazy_pattern(rb"[|`~#]| {4}|\t|(?:[-*+>]|\d{1,9}[.)])(?:\s|$)|>|<|(?:[-*_][ \t]*){3,}$|---")
_MARKED = (b"\n#", b"\n```", b"\n~~~", b"\n--", b"\n==", b"\n|")
_MARKS, _SOME_MARKS = 20_000, 10_000  # lines that begin like a block and are looked at
_HEADINGS, _SOME_HEADINGS = 2000, 60  # that are looked at one by one: of all of a text, and of a sample
_SHOWN_HEADINGS = 60
_LINKS = "href=[\"']([^\"'#?]+)"
_COUNTED = (b"a", b"table", b"tr", b"form", b"img", b"script", b"li", b"p")

_Heading = tuple[int, int, str]  # where it starts, its level and its text


def html_outline(sample: Sample, room: Room) -> Outline:
    sample = bounded(_blanked(sample, _NOT_HTML))
    title = _TITLE.search(sample.head, 0, _TITLE_IN)
    told = [f"title: {_plain(title[1])}"] if title else []
    tags: Counter[bytes] = Counter()
    for _, data in sample.pieces:
        tags.update(TAG.findall(data))
    for name in [name for name in tags if not name.islower()]:
        tags[name.lower()] += tags.pop(name)
    headings = _html_headings(sample)
    number = sum(tags[b"h%d" % level] for level in range(1, 7))
    counts = [f"{figure(tags[name], sample.whole)} <{name.decode()}>" for name in _COUNTED if tags[name]]
    told.append(f"{', '.join(counts) or 'no links, tables or paragraphs'}, {_many(number, sample)}")
    told += _paragraph(sample.head)
    shown = [
        (f"{'  ' * (level - 1)}h{level} {text} · {sample.place(at)}", n)
        for at, level, text, n in _chosen(headings, number)[:_SHOWN_HEADINGS]
    ]
    leads = (Lead("grep", {"pattern": _LINKS, "group": True}),) if sample.count(b"href=") > 1 else ()
    leads = leads or word_lead([text for _, _, text in headings] or _paragraph(sample.head), sample)
    lines = _with_rest(told, shown, max(number, len(headings)), sample, room)
    return Outline("html", lines, not sample.whole, (), _sections(headings, sample), leads, ends=False)


def _paragraph(data: bytes) -> list[str]:
    """The first one that has words."""
    starts = sorted(at for sign in (b"<p>", b"<p ", b"<P>", b"<P ") for at in _first(data, sign, _TRIED))
    found = (_PARAGRAPH.match(data, at) for at in starts[:_TRIED])
    texts = (_plain(match[1]) for match in found if match)
    return [f"<p> {text}" for text in islice(filter(None, texts), 1)]


def _html_headings(sample: Sample) -> list[_Heading]:
    """The first ones, in their order."""
    most = _HEADINGS if sample.whole else _SOME_HEADINGS
    found: list[_Heading] = []
    for start, data in sample.pieces:
        starts = sorted(at for sign in _LEVELS for at in _first(data, sign, most))
        matches = (_HEADING.match(data, at) for at in starts[:most])
        found += [(start + match.start(), int(match[1]), _plain(match[2])) for match in matches if match]
    return found[:most]


def _first(data: bytes, sign: bytes, most: int) -> list[int]:
    found: list[int] = []
    at = stringzilla.find(data, sign)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = stringzilla.find(data, sign, at + 1)
    return found


def markdown_outline(sample: Sample, room: Room) -> Outline:
    marks = sum(map(sample.count, _MARKED))
    sample = thinned(sample, _SOME_MARKS / marks) if marks > (_MARKS if sample.whole else _SOME_MARKS) else sample
    headings: list[_Heading] = []
    most = _HEADINGS if sample.whole else _SOME_HEADINGS
    number = code = tables = 0
    for start, data in sample.pieces:
        outside, fences, rules = _blocks(data, first=not start)
        number, code, tables = number + len(outside), code + fences, tables + rules
        headings += [(start + at, level, _plain(text)) for at, level, text in outside[: max(0, most - len(headings))]]
    all_code = not any(map(_FENCE_INSIDE.search, (data for _, data in sample.pieces)))
    counts = [
        f"{figure(times, sample.whole and exact)} {noun}{'' if times == 1 else 's'}"
        for times, noun, exact in ((code, "code block", all_code), (tables, "table", True))
        if times
    ]
    told = [", ".join([_many(number, sample), *counts])]
    shown = [
        (f"{'#' * level} {text} · {sample.place(at)}", n)
        for at, level, text, n in _chosen(headings, number)[:_SHOWN_HEADINGS]
    ]
    leads = word_lead([text for _, _, text in headings], sample)
    lines = _with_rest(told, shown, number, sample, room)
    return Outline("markdown", lines, not sample.whole, (), _sections(headings, sample), leads)


def _blocks(data: bytes, *, first: bool) -> tuple[list[tuple[int, int, bytes]], int, int]:
    """Headings with their places, blocks of code between fences, and tables. What is in code is not looked at."""
    headings: list[tuple[int, int, bytes]] = []
    data = b"\n" + data if first else data
    fence, code, tables = b"", 0, 0
    for match in _BLOCK.finditer(data):
        start = match.start() + (not first)
        if match["fence"]:
            if not fence:
                fence, code = match["fence"], code + 1
            elif match["fence"].startswith(fence) and not match["info"].strip():
                fence = b""
        elif fence:
            continue
        elif match["level"]:
            headings.append((start, len(match["level"]), _CLOSING.sub(b"", match["text"] or b"")))
        elif match["rule"]:
            tables += 1
        else:
            before = data.rfind(b"\n", 0, match.start()) + 1
            title = data[before : match.start()]
            if title.strip() and not _NO_PARAGRAPH.match(title):
                headings.append((before - first, 1 if match["line"][:1] == b"=" else 2, title[:300]))
    return headings, code, tables


def _many(headings: int, sample: Sample) -> str:
    if not headings:
        return "no headings" if sample.whole else "no headings in what was read"
    return f"{figure(headings, sample.whole)} heading{'' if headings == 1 else 's'}"


def _plain(text: bytes) -> str:
    """Without tags, and with characters for their names."""
    plain = _INSIDE.sub(b"", text).decode("utf-8", "replace")
    return cut(" ".join((unescape(plain) if "&" in plain else plain).split()), 100)


def _sections(headings: list[_Heading], sample: Sample) -> tuple[tuple[int, int, str], ...]:
    """From each of the first headings to the next."""
    ends = [at for at, _, _ in headings[1:]] or [sample.size]
    return tuple((at, end, text) for (at, _, text), end in islice(zip(headings, ends, strict=False), 1, 3))


def _chosen(headings: list[_Heading], number: int) -> list[tuple[int, int, str, int]]:
    """Where a heading starts, its level, its text, and how many headings are told by it; there are `number` in all.

    Of many only those of the upper levels; those that follow each other and differ only in a number are told once.
    """
    levels = [level for _, level, _ in headings]
    deepest = next((deep for deep in range(6, 0, -1) if sum(map(deep.__ge__, levels)) <= _UPPER), 1)
    deepest = max(deepest, min(levels, default=1))
    found: list[tuple[int, int, str, int]] = []
    shapes: list[tuple[int, str]] = []
    for at, level, text in headings:
        if level > deepest:
            continue
        shapes.append((level, _DIGITS.sub("#", text)))
        if shapes[-2:-1] == shapes[-1:]:
            first, _, told, times = found[-1]
            found[-1] = first, level, told, times + 1
        else:
            found.append((at, level, text, 1))
    is_last = [len(headings) < number and each is found[-1] for each in found]  # more of them may follow
    return [
        (at, level, text if times == 1 else f"{text} … {figure(times - 1, not last)} more like it", times)
        for (at, level, text, times), last in zip(found, is_last, strict=True)
    ]


def _with_rest(
    told: list[str], headings: list[tuple[str, int]], number: int, sample: Sample, room: Room
) -> tuple[str, ...]:
    kept = fitted(told + [line for line, _ in headings], room.after(["… at least 12,345 more headings"]))
    left = number - sum(times for _, times in headings[: max(0, len(kept) - len(told))])
    if not left:
        return kept
    return (*kept, f"… {figure(left, sample.whole)} more heading{'' if left == 1 else 's'}")
