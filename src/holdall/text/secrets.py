"""Masks for secrets: in a text, at the same length and without moving anything else; in the arguments of a tool, by
the names of their keys. What is a secret in a text is decided elsewhere.
"""

import functools
import json
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from holdall.values.patterns import lazy_pattern

# Masking parts of a text without moving anything else: a mask has as many bytes as what it hides, and keeps its lines.
#
# The caller passes `find`, which finds what is masked. Bytes of any length pass by in windows that overlap; JSON is
# looked at string by string, as it reads, and masked as it is written.


Finding = tuple[int, int, str]  # first byte, end, kind
Find = Callable[[bytes], Iterable[Finding]]
Seen = Callable[[bytes, str], object]  # what was found, and its kind

LEFT = 64 * 1024  # what gives a secret away stands so close before it: a name, the first line of a key
RIGHT = 64 * 1024  # longer secrets are followed sign by sign
STEP = 1024 * 1024
_ALMOST_ALL = RIGHT - 4 * 1024  # of what can be seen to the right
_STARS = bytes(0x0A if byte == 0x0A else 0x0D if byte == 0x0D else ord("*") for byte in range(256))
_NINES = b"9"
_BACKSLASH = 0x5C
_REST = lazy_pattern(rb"[^\s\"'<>]*+")
_TOKEN = lazy_pattern(
    rb'"((?:[^"\\]++|\\.)*+)(?:"(?:\s*+(:))?|\\?\Z)|[{}\[\]]|(?<=[\s:,\[])[0-9]{8,}+(?=[\s,\]}])', re.DOTALL
)  # a string, perhaps a name, or one without an end; a bracket; a long number
NUMBER = "Secret Number"
_MAX_DEPTH, _MAX_WORDS = 1000, 1000
_VALUES = frozenset(("value", "values", "default", "plaintext", "raw"))
_LABELS = frozenset(("name", "key", "variable", "header", "field", "param", "parameter"))
_LABEL = lazy_pattern(r"[\w.:-]{2,80}")
_SHORTEST_PAIRED = 8
_SPLITS = lazy_pattern(rb"[\s\"'`]")
_PLAIN_NAME = lazy_pattern(rb"[a-z_]*+")
_UNIT = lazy_pattern(
    rb"[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)  # a run without escapes; an escape, or two that are one character


def mask_of(secret: bytes, *, number: bool = False) -> bytes:
    """As long as `secret`, with the same line breaks."""
    return _NINES * len(secret) if number else secret.translate(_STARS)


def is_bare_number(data: bytes, start: int, end: int) -> bool:
    """Whether it is a number as JSON has them, outside of quotes: with stars in its place it would be none any more."""
    before = data[max(0, start - 16) : start].rstrip(b" \t\r\n")
    after = data[end : end + 16].lstrip(b" \t\r\n")
    return data[start:end].isdigit() and before[-1:] in b":[," and before != b"" and after[:1] in b",]}"


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """In order and without overlap; of two that overlap, the kind of the one that begins first."""
    found: list[Finding] = []
    for start, end, kind in sorted(findings, key=lambda one: (one[0], -one[1])):
        if found and start < found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end, found[-1][2])
        else:
            found.append((start, end, kind))
    return found


def masked(data: bytes, findings: Iterable[Finding], numbers: Container[int] = ()) -> bytes:
    """`findings` in order, without overlap; those that begin at `numbers` stay numbers."""
    parts: list[bytes] = []
    at = 0
    for start, end, _ in findings:
        parts += (data[at:start], mask_of(data[start:end], number=start in numbers))
        at = end
    return b"".join((*parts, data[at:])) if parts else data


class Masker:
    """A stream of any length. `findings` are those of the part that was given out; `seen` gets what they hide."""

    def __init__(self, find: Find, seen: Seen | None = None, *, step: int = STEP) -> None:
        self._find = find
        self._seen = seen
        self._step = step
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._held = b""
        self._base = 0  # where what is held begins
        self._done = 0  # up to where it was given out
        self._pending: list[Finding] = []  # begin before what was given out, or end after it
        self._numbers: set[int] = set()  # those of them that are bare numbers, by where they begin
        self.findings: list[Finding] = []

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if ready := self.feed(chunk):
                yield ready
        if ready := self.finish():
            yield ready

    def feed(self, chunk: bytes) -> bytes:
        """What can be given out by now."""
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        if len(self._held) + self._waiting_bytes - (self._done - self._base) < self._step + RIGHT:
            return b""
        return b"".join(self._some())

    def finish(self) -> bytes:
        """All that is left."""
        return b"".join(self._some(last=True))

    def _some(self, *, last: bool = False) -> Iterator[bytes]:
        self._held += b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        end = self._base + len(self._held)
        while last or end - self._done >= self._step + RIGHT:
            until = min(end, self._done + self._step)
            window_end = min(end, until + RIGHT)
            yield self._window(until, window_end, is_end=last and window_end == end)
            if self._done >= end:
                break

    def _window(self, until: int, window_end: int, *, is_end: bool) -> bytes:
        window = self._held[: window_end - self._base] if window_end - self._base < len(self._held) else self._held
        fresh = self._fresh(window, until)
        if self._seen is not None and fresh:
            for a, b, kind in fresh:
                self._seen(window[a - self._base : b - self._base], kind)
            fresh = self._fresh(window, until)  # what was just learned may stand here once more
        known = [self._followed(one, window_end) for one in self._pending]
        all_of_it = merged([*known, *fresh])
        self._numbers |= {a for a, b, _ in fresh if is_bare_number(window, a - self._base, b - self._base)}
        given = self._given(all_of_it, until)
        ended = [one for one in all_of_it if one[1] <= until]
        self.findings += [one for one in ended if one[0] < until]
        self._pending = [one for one in all_of_it if one[0] < until < one[1]]
        self._numbers &= {one[0] for one in self._pending}
        if is_end and until == window_end:
            self._pending = []
        self._done = until
        keep = max(self._base, self._done - LEFT)
        self._held, self._base = self._held[keep - self._base :], keep
        return given

    def _fresh(self, window: bytes, until: int) -> list[Finding]:
        found = ((a + self._base, b + self._base, kind) for a, b, kind in self._find(window))
        return [one for one in found if self._done <= one[0] < until]

    def _given(self, findings: Iterable[Finding], until: int) -> bytes:
        """What is between what was given out and `until`, masked."""
        here: list[Finding] = []
        numbers: set[int] = set()
        for start, end, kind in findings:
            first, last = max(start, self._done) - self._done, min(end, until) - self._done
            if first < last:
                here.append((first, last, kind))
                numbers |= {first} if start in self._numbers else set()
        return masked(self._held[self._done - self._base : until - self._base], here, numbers)

    def _followed(self, one: Finding, window_end: int) -> Finding:
        """A secret that ended with the window before may continue: up to the next space or quote it does."""
        start, end, kind = one
        if end - start >= _ALMOST_ALL and end < window_end:
            rest = _REST.match(self._held, end - self._base)
            end = self._base + rest.end() if rest else end
        return start, end, kind


def json_findings(data: bytes, find: Find, is_secret: Callable[[str], bool], seen: Seen | None = None) -> list[Finding]:
    """What is to be masked in JSON, by bytes: parts of its strings; all of a string or a long number (`NUMBER`) under
    such a name, also in a list or as the value of an object; and in the words of a command what follows a flag.
    """
    return _JsonFindings(find, is_secret, seen).of(data)


def is_value(name: str) -> bool:
    """Whether it is the name of what an object is about: `{"name": "password", "value": …}`."""
    return name.lower() in _VALUES


def label_of(table: Mapping[Any, object]) -> str:
    """What an object says that its value is called; empty if it does not."""
    labels = (one for key, one in table.items() if str(key).lower() in _LABELS and isinstance(one, str))
    return next((one for one in labels if _LABEL.fullmatch(one)), "")


def is_pair(name: str, value: str) -> bool:
    """Whether a list of these two may be a name with its value, and not a list of names."""
    return len(value) >= _SHORTEST_PAIRED and any(one.isdigit() for one in value) and bool(_LABEL.fullmatch(name))


def as_command(words: Sequence[bytes]) -> bytes | None:
    """Words of a command as one line in which each is one word, at the same length; None if they are none."""
    if len(words) < 2 or not any(one.startswith(b"-") for one in words):
        return None
    return b" ".join(_SPLITS.sub(b"_", one) for one in words)


class _Level:
    """A list or an object that is being read. `within` is the name of a secret that it is a part of, if there is one;
    `is_secret`: so is each text of a list.
    """

    __slots__ = ("is_list", "is_secret", "key", "label", "values", "within", "words")

    def __init__(self, within: str = "", *, is_secret: bool = False, is_list: bool = False) -> None:
        self.within = within
        self.is_secret = is_secret
        self.is_list = is_list
        self.key = ""
        self.label = ""
        self.values: list[tuple[int, int, bytes]] = []  # what stands under names that only say "value"
        self.words: list[tuple[int, bytes, bytes]] | None = [] if is_list else None  # where, as written, as it reads


def _nothing(_secret: bytes, _kind: str) -> None:
    """Nobody wants to know."""


_SHORTEST = 6  # bytes of a string that any rule could find something in; there may be a hundred thousand in a megabyte


class _JsonFindings:
    """One text of JSON, sign by sign of its structure. What is not JSON is read as far as it looks like it."""

    def __init__(self, find: Find, is_secret: Callable[[str], bool], seen: Seen | None) -> None:
        self._find = find
        self._is_secret = functools.lru_cache(4096)(is_secret)
        self._seen: Seen = seen or _nothing
        self._found: list[Finding] = []
        self._levels = [_Level()]
        self._deeper = 0  # levels that are too deep to be told apart

    def of(self, data: bytes) -> list[Finding]:
        for match in _TOKEN.finditer(data):
            sign = data[match.start()]
            if sign == 0x22:
                self._string(match.start(1), match[1], is_key=match[2] is not None)
            elif sign in b"{[":
                self._open(is_list=sign == 0x5B)
            elif sign in b"}]":
                self._close()
            elif self._name():
                self._found.append((match.start(), match.end(), NUMBER))
                self._seen(match[0], "Secret Keyword")
            elif self._levels[-1].within:  # perhaps a time: masked here, and not everywhere
                self._found.append((match.start(), match.end(), NUMBER))
        while len(self._levels) > 1:
            self._close()
        return merged(self._found)

    def _name(self) -> str:
        """Of what comes next, where that makes it a secret."""
        level = self._levels[-1]
        if level.is_list:
            return level.within if level.is_secret else ""
        if level.key and self._is_secret(level.key):
            return level.key
        return level.within if is_value(level.key) else ""

    def _open(self, *, is_list: bool) -> None:
        if len(self._levels) > _MAX_DEPTH:
            self._deeper += 1
            return
        name = self._name()
        self._levels.append(_Level(name or self._levels[-1].within, is_secret=bool(name), is_list=is_list))

    def _close(self) -> None:
        if self._deeper:
            self._deeper -= 1
        elif len(self._levels) > 1:
            level = self._levels.pop()
            if level.label and self._is_secret(level.label):
                for start, end, text in level.values:
                    self._whole(start, end, text)
            if level.words:
                self._list(level.words)

    def _string(self, start: int, raw: bytes, *, is_key: bool) -> None:
        level, text = self._levels[-1], _as_read(raw)
        end = start + len(raw)
        if is_key:
            level.key = text.decode("utf-8", "replace")
        elif level.is_list:
            if level.words is not None:
                level.words.append((start, raw, text))
                level.words = None if len(level.words) > _MAX_WORDS else level.words
        elif is_value(level.key):
            level.values.append((start, end, text))
        elif level.key.lower() in _LABELS:
            level.label = label_of({level.key: text.decode("utf-8", "replace")})
        if not is_key and raw and self._name():
            self._whole(start, end, text)
            return
        places = list(self._find(text)) if len(text) >= _SHORTEST else []
        for first, last, kind in places:
            self._seen(text[first:last], kind)
        if is_key:  # a plain word there may be ours, and an object without its names is none any more
            places = [one for one in places if not _PLAIN_NAME.fullmatch(text, one[0], one[1])]
        self._parts(start, raw, text, merged(places))

    def _list(self, words: list[tuple[int, bytes, bytes]]) -> None:
        texts = [text for _, _, text in words]
        if len(texts) == 2:
            name, value = (one.decode("utf-8", "replace") for one in texts)
            if is_pair(name, value) and self._is_secret(name):
                self._whole(words[1][0], words[1][0] + len(words[1][1]), texts[1])
        if (command := as_command(texts)) is None:
            return
        places, at = deque(merged(self._find(command))), 0
        for start, raw, text in words:
            inside: list[Finding] = []
            while places and places[0][0] < at + len(text):
                first, last, kind = places[0]
                if last > at:
                    inside.append((max(0, first - at), min(len(text), last - at), kind))
                    self._seen(text[inside[-1][0] : inside[-1][1]], kind)
                if last > at + len(text):
                    break
                places.popleft()
            self._parts(start, raw, text, inside)
            at += len(text) + 1

    def _whole(self, start: int, end: int, text: bytes) -> None:
        self._found.append((start, end, "Secret Keyword"))
        self._seen(text, "Secret Keyword")

    def _parts(self, start: int, raw: bytes, text: bytes, places: list[Finding]) -> None:
        written = places if text is raw else _as_written(raw, places)
        self._found += [(start + first, start + last, kind) for first, last, kind in written]


def _as_read(raw: bytes) -> bytes:
    """What is between two quotes, as it reads; the same object where it has no escapes, or is not JSON."""
    if b"\\" not in raw:
        return raw
    try:
        return str(json.loads(b'"' + raw + b'"', strict=False)).encode("utf-8", "replace")
    except ValueError:
        return raw


def _as_written(raw: bytes, places: Sequence[Finding]) -> list[Finding]:
    """Where `places` of a string as it reads are in it as it is written, whole escapes only. They are in order, and
    all of them are found in one pass: a string may have as many as a server likes.
    """
    wanted = [border for start, end, _ in places for border in (start, end)]
    found: list[int] = []
    at = 0
    for unit in _UNIT.finditer(raw):
        if len(found) == len(wanted):
            break
        is_escape = raw[unit.start()] == _BACKSLASH
        until = at + (len(_as_read(unit[0])) if is_escape else unit.end() - unit.start())
        while len(found) < len(wanted) and wanted[len(found)] < until:
            inside = wanted[len(found)] - at
            is_end = len(found) % 2 == 1
            found.append(unit.end() if is_escape and is_end and inside else unit.start() + inside * (not is_escape))
        at = until
    found += [len(raw)] * (len(wanted) - len(found))
    return [(found[2 * n], found[2 * n + 1], kind) for n, (_, _, kind) in enumerate(places)]


# Arguments of tools as somebody else's model may see them: values that are secrets by their name are masked.
#
# It looks at names of keys only: a secret under an innocent name stays as it is.


MASK = "***"
_SECRET = lazy_pattern(
    r"(?i)(pass(word|wd|phrase)?$|secret|token$|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential"
    r"|cookie|bearer)"
)
_MAX_LEVELS = 50


def masked_arguments(arguments: object, *, level: int = 0) -> Any:
    """The same value with the secrets in it replaced; the same object where there are none and it is not a
    container.
    """
    if level > _MAX_LEVELS:
        return MASK  # not examined that deep, so it is masked
    if isinstance(arguments, Mapping):
        table = cast("Mapping[object, object]", arguments)
        return {
            name: MASK
            if _SECRET.search(str(name)) and value not in (None, "")
            else masked_arguments(value, level=level + 1)
            for name, value in table.items()
        }
    if isinstance(arguments, Sequence) and not isinstance(arguments, str | bytes):
        return [masked_arguments(value, level=level + 1) for value in cast("Sequence[object]", arguments)]
    return arguments
