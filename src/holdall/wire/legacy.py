"""Truncation for when Holdall is switched off: the middle is cut, and a marker counts what is missing. JSON stays JSON:
long strings and long containers lose their middle, largest first.
"""

import json
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Literal, TypeAlias, cast

from holdall.text.borders import cluster_end, grapheme_border_before
from holdall.text.excerpt import byte_count, first_bytes, first_lines, last_bytes, line_count
from holdall.text.numbers import plural
from holdall.text.utf8 import encode
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# JSON read for shortening: numbers as they are written, members in order and with names that occur twice.
#
# Numbers are bytes, to be told from strings: no float holds every number, and NaN and the infinities are not JSON at
# all. Nesting has no limit: what is too deep for Python's reader is read by a loop.


class Members(list["tuple[str, Json]"]):
    """An object."""

    __slots__ = ()


Json: TypeAlias = "str | bytes | bool | list[Json] | Members | None"

_string = json.JSONDecoder()  # called only where a quote stands
_space = lazy_pattern(r"[ \t\r\n]*+")
_literal = lazy_pattern(
    r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?![0-9.eE+-])|true|false|null|NaN|-?Infinity"
)


def parse(text: str) -> "Json":
    """The value, where all of `text` is one; None for null too, which nobody shortens."""
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(
            text, object_pairs_hook=Members, parse_int=str.encode, parse_float=str.encode, parse_constant=str.encode
        )
    except RecursionError:
        return parse_deep(text)
    except ValueError:
        return None


def parse_deep(text: str) -> "Json":
    """The same by a loop, at any depth; slower."""
    try:
        return _parse(text)
    except (ValueError, IndexError):  # not JSON, or it ends too early
        return None


def _parse(text: str) -> "Json":
    open_ones: list[list[Any]] = []
    names: list[str] = []
    at = _after_space(text, 0)
    while True:
        value: Any
        if text[at] in "[{":
            value = Members() if text[at] == "{" else []
            at = _after_space(text, at + 1)
            if text[at] not in "]}":
                open_ones.append(value)
                at = _name(text, at, value, names)
                continue
            at = _closed(text, at, value)
        elif text[at] == '"':
            value, at = _string.raw_decode(text, at)
        else:
            value, at = _literal_at(text, at)
        while True:
            at = _after_space(text, at)
            if not open_ones:
                if at < len(text):
                    raise ValueError(at)
                return cast("Json", value)
            holder = open_ones[-1]
            holder.append((names.pop(), value) if isinstance(holder, Members) else value)
            if text[at] == ",":
                at = _name(text, _after_space(text, at + 1), holder, names)
                break
            at = _closed(text, at, holder)
            value = open_ones.pop()


def _after_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def _closed(text: str, at: int, holder: list[Any]) -> int:
    if text[at] != ("}" if isinstance(holder, Members) else "]"):
        raise ValueError(at)
    return at + 1


def _name(text: str, at: int, holder: list[Any], names: list[str]) -> int:
    """Past the name of a member, where one has to be here."""
    if not isinstance(holder, Members):
        return at
    if text[at] != '"':
        raise ValueError(at)
    name, at = _string.raw_decode(text, at)
    at = _after_space(text, at)
    if text[at] != ":":
        raise ValueError(at)
    names.append(name)
    return _after_space(text, at + 1)


def _literal_at(text: str, at: int) -> tuple[bytes, int]:
    match = _literal.match(text, at)
    if not match:
        raise ValueError(at)
    return match[0].encode(), match.end()


# A JSON document made shorter that is still one: long strings and long containers lose their middle, largest first.
#
# The room of a container is shared fairly over its children: what is small stays whole, what is large is cut down to a
# common level. A string says inside itself how many bytes are gone; an array gets an element, an object a member, that
# counts what is left out. What is kept whole is written without spaces, its numbers and names as they were read.


_MOST = 128 * 1024 * 1024  # characters; reading takes several times the memory of the text
_DEEPEST = 48  # levels that are opened to be shortened; what fits as a whole may be deeper
_FLOOR = 80  # bytes; enough for any marker
_SHARES = 16  # a container shows large children only as long as each gets this part of its room
_LONGEST_NAME = 200

_begins = lazy_pattern('\ufeff?[ \t\r\n]*+["\\[{]')
_surrogates = lazy_pattern("[\ud800-\udfff]")
_END: Any = object()


def _parsed(text: str) -> "Json":
    return None if len(text) > _MOST or not _begins.match(text) else parse(text)


def written(value: "Json", most: int) -> str | None:
    """All of `value`, unless it is longer than `most` bytes; it is looked at no further than that."""
    pieces: list[str] = []
    room = most
    levels: list[tuple[Iterator[Any], bool]] = []
    before = ""
    while True:
        closing = "" if not isinstance(value, list) else "}" if isinstance(value, Members) else "]"
        if isinstance(value, list | str | bytes) and len(value) > room:
            return None
        if isinstance(value, list):
            levels.append((iter(value), isinstance(value, Members)))
        piece = before + ("{" if closing == "}" else "[" if closing else _scalar(value))
        child = _END
        while levels and (child := next(levels[-1][0], _END)) is _END:
            piece += "}" if levels.pop()[1] else "]"
        pieces.append(piece)
        room -= byte_count(piece)
        if room < 0:
            return None
        if child is _END:
            return "".join(pieces)
        before = "" if pieces[-1][-1:] in "[{" and closing else ","
        if levels[-1][1]:
            if len(child[0]) > room:
                return None
            before += f"{_quoted(child[0])}:"
            child = child[1]
        value = child


def _fit(value: "Json", room: int, depth: int, *, over: bool = False) -> str | None:
    """`value` in at most `room` bytes: whole, shorter, or only a marker; None if there is no room for that.

    `over` says that it is known not to fit as a whole.
    """
    whole = None if over else written(value, room)
    if whole is not None:
        return whole
    if isinstance(value, list):
        shorter = _Container(value, room).fit(depth) if depth < _DEEPEST else None
        is_object = isinstance(value, Members)
        size = f"object of {plural(len(value), 'member')}" if is_object else f"array of {plural(len(value), 'element')}"
        marker = _quoted(f"[… {size} truncated …]")
    elif isinstance(value, str):
        shorter, marker = _fit_string(value, room), ""
    else:
        shorter, marker = None, _quoted(f"[… number of {plural(len(_scalar(value)), 'character')} truncated …]")
    if shorter is None and 0 < byte_count(marker) <= room:
        return marker
    return shorter


@record(frozen=False)
class _Child:
    """A child that is shown. `text` is how, once that is known."""

    name: str
    value: "Json"
    text: str | None


class _Container:
    """An array or an object that does not fit into `room`, on its way to fit."""

    def __init__(self, value: list[Any], room: int) -> None:
        self._value = value
        self._is_object = isinstance(value, Members)
        self._inside = room - 2  # the brackets
        self._floor = max(_FLOOR, room // _SHARES)
        taken = {name for name, _ in value if not name.strip("…")} if self._is_object else set[str]()
        self._free_name = next(name for length in range(1, len(taken) + 2) if (name := "…" * length) not in taken)
        self._head: list[_Child] = []
        self._tail: list[_Child] = []

    def fit(self, depth: int) -> str | None:
        room = self._choose()
        shown = [*self._head, *reversed(self._tail)]
        self._share([child for child in shown if child.text is None], room, depth)
        parts = [f"{child.name}{child.text}" for child in shown]
        if len(shown) < len(self._value):
            parts.insert(len(self._head), self._marker(len(self._value) - len(shown)))
        text = ",".join(parts)
        if byte_count(text) > self._inside:
            return None
        return f"{{{text}}}" if self._is_object else f"[{text}]"

    def _choose(self) -> int:
        """Take children from both ends while each can have its floor; the room for those that have no text yet."""
        total = len(self._value)
        marker = byte_count(self._marker(total)) + 1
        used = for_large = 0
        for number in range(total):
            at = number // 2 if number % 2 == 0 else total - 1 - number // 2
            child = self._child(self._value[at])
            size = self._floor if child.text is None else byte_count(child.text)
            cost = byte_count(child.name) + size + 1
            if used + cost + (marker if number < total - 1 else 0) > self._inside:
                return self._inside - marker - used + for_large
            (self._tail if number % 2 else self._head).append(child)
            used += cost
            for_large += size if child.text is None else 0
        return self._inside - used + for_large

    def _child(self, item: Any) -> _Child:
        name, value = item if self._is_object else ("", item)
        if self._is_object:
            quoted = _quoted(name) if len(name) <= _LONGEST_NAME else (_fit_string(name, _LONGEST_NAME) or '"…"')
            name = f"{quoted}:"
        return _Child(name, value, written(value, self._floor))

    def _share(self, large: list[_Child], room: int, depth: int) -> None:
        """Give every child the same, but to none more than it needs."""
        level, whole = self._floor, dict[int, str]()
        # Twice the level at each step, and only while there is room for it: the work is that of the room, doubled.
        while len(large) > 1 and len(whole) < len(large) and level < room:
            needed = sum(map(byte_count, whole.values())) + level * (len(large) - len(whole))
            if needed >= room:
                break
            level *= 2
            for number, child in enumerate(large):
                text = None if number in whole else written(child.value, min(level, room))
                if text is not None:
                    whole[number] = text
        left = len(large)
        for number in sorted(whole, key=lambda number: byte_count(whole[number])):
            size = byte_count(whole[number])
            if size * left > room:
                break
            large[number].text = whole[number]
            room -= size
            left -= 1
        for child in large:
            if child.text is None:
                # An only child is over because its parent is; down a deep nest the question is not asked again.
                over = len(self._value) == 1
                child.text = _fit(child.value, room // left, depth + 1, over=over) or '"…"'
                room -= byte_count(child.text)
                left -= 1

    def _marker(self, count: int) -> str:
        gone = _quoted(f"[… {plural(count, 'member' if self._is_object else 'element')} truncated …]")
        if not self._is_object:
            return gone
        return f"{_quoted(self._free_name)}:{gone}"


def _fit_string(value: str, room: int) -> str | None:
    total = byte_count(value)
    inside = room - 2 - byte_count(_gone(total))
    if inside < 0:
        return None
    head = _longest(first_bytes(value, inside - inside // 2).text, inside - inside // 2, _beginning)
    tail = _longest(last_bytes(value, inside // 2).text, inside // 2, _end)
    return _quoted(f"{head}{_gone(total - byte_count(head) - byte_count(tail))}{tail}")


def _gone(count: int) -> str:
    return f"[… {plural(count, 'byte')} truncated …]"


def _longest(text: str, limit: int, part: Callable[[str, int], str]) -> str:
    """The longest part of `text` that has at most `limit` bytes when it is written; escapes make it longer."""
    if byte_count(_quoted(text)) - 2 <= limit:
        return text
    least, most = 0, len(text)
    while most - least > 1:
        middle = (least + most) // 2
        if byte_count(_quoted(part(text, middle))) - 2 <= limit:
            least = middle
        else:
            most = middle
    return part(text, least)


def _beginning(text: str, length: int) -> str:
    return text[: grapheme_border_before(text, length)]


def _end(text: str, length: int) -> str:
    start = len(text) - length
    border = grapheme_border_before(text, start)
    return text[start if border == start else cluster_end(text, border, len(text)) :]


def _scalar(value: "Json") -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        return _quoted(value)
    return "true" if value is True else "false" if value is False else "null"


def _quoted(text: str) -> str:
    # Half a surrogate pair has no UTF-8; escaped it is still what it was.
    if not text.isascii() and _surrogates.search(text):
        return encode_basestring_ascii(text)
    return encode_basestring(text)


# A JSON document stays one (see `_fit`). Any other text keeps its two ends, half of the room for each. Nothing
# is stored: what is cut is gone, and the marker is all that tells of it.


Form = Literal["whole", "compact", "json", "halves"]  # compact: JSON of which nothing is gone but its white space

_SHORT = ("[truncated]", "[cut]", "…", "")  # for limits that are shorter than the marker


@record
class Truncated:
    """A text within its limit, how it was made, and how large the whole was. A whole one is the object that came in."""

    text: str
    form: Form
    total_bytes: int
    total_lines: int

    @property
    def changed(self) -> bool:
        return self.form != "whole"

    @property
    def is_cut(self) -> bool:
        """Whether something of it is gone."""
        return self.form in ("json", "halves")


def truncate(text: str, max_bytes: int, max_lines: int | None = None) -> Truncated:
    """`text` in at most `max_bytes` bytes, and `max_lines` lines beside the marker: whole, or as shorter JSON, or its
    two ends, which are valid UTF-8.
    """
    return Truncation(text, max_lines).to(max_bytes)


class Truncation:
    """A text on its way to fit: it is read once, however many sizes are tried."""

    def __init__(self, text: str, max_lines: int | None = None) -> None:
        self.bytes, self.lines = byte_count(text), line_count(text)
        self._text = text
        self._most_lines = self.lines if max_lines is None else max_lines
        self._value: Json = None
        self._is_read = False

    def to(self, max_bytes: int) -> Truncated:
        if self.bytes <= max_bytes and self.lines <= self._most_lines:
            return self._made(self._text, "whole")
        if not self._is_read:
            self._value, self._is_read = _parsed(self._text), True
        if self._value is not None and (compact := written(self._value, max_bytes)) is not None:
            return self._made(compact, "compact")
        shorter = None if self._value is None else _fit(self._value, max_bytes, 0, over=True)
        if shorter is not None:
            return self._made(shorter, "json")
        halves = _halves(self._text, max_bytes, self.bytes, self.lines, self._most_lines)
        return self._made(encode(halves)[0].decode("utf-8"), "halves")

    def _made(self, text: str, form: Form) -> Truncated:
        return Truncated(text, form, self.bytes, self.lines)


def _halves(text: str, max_bytes: int, total_bytes: int, total_lines: int, max_lines: int) -> str:
    # The marker of the whole is as long as any marker of a part can be.
    room = max_bytes - byte_count(_marker(total_bytes, total_lines))
    if room < 0:
        short = next((form for form in _SHORT if byte_count(form) <= max_bytes), "")
        # A part that cannot even say so would pass for the whole: then nothing is shown.
        return first_bytes(text, max_bytes - byte_count(short)).text + short if short else ""
    top, after = text, 0
    if max_lines < total_lines:
        top, after = first_lines(text, max_lines - max_lines // 2).text, _start_of_last(text, max_lines // 2)
    head, tail = first_bytes(top, room - room // 2), last_bytes(text[after:], room // 2)
    gone = total_bytes - byte_count(head.text) - byte_count(tail.text)
    return f"{head.text}{_marker(gone, line_count(text[head.end : after + tail.start]))}{tail.text}"


def _start_of_last(text: str, lines: int) -> int:
    """Where the last `lines` lines begin, of a text that has more."""
    start = len(text) + (not text.endswith("\n"))  # behind the newline that ends it, or would
    for _ in range(lines):
        start = text.rfind("\n", 0, start - 1) + 1
    return min(start, len(text))


def all_gone(text: str) -> str:
    """For a limit that is shorter than the marker of what is gone: that marker, and nothing else."""
    return _marker(byte_count(text), line_count(text)).strip()


def _marker(omitted_bytes: int, omitted_lines: int) -> str:
    return f"\n[… {plural(omitted_bytes, 'byte')} ({plural(omitted_lines, 'line')}) truncated …]\n"
