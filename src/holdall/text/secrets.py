"""Masks for secrets: in a text, at the same length and without moving anything else; in the arguments of a tool, by
the names of their keys. What is a secret in a text is decided elsewhere.
"""

import json
import re
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
_STRING = lazy_pattern(rb'"((?:[^"\\]++|\\.)*+)"(?:\s*+(:))?', re.DOTALL)
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
    """What is to be masked in JSON, by bytes: parts of its strings, and all of a string under such a name."""
    found: list[Finding] = []
    name = ""
    for match in _STRING.finditer(data):
        raw = match[1]
        text = _as_read(raw)
        if match[2]:
            name = text.decode("utf-8", "replace")
        if name and not match[2] and raw and is_secret(name):
            found.append((match.start(1), match.end(1), "Secret Keyword"))
            if seen is not None:
                seen(text, "Secret Keyword")
        else:
            places = list(find(text))
            if seen is not None:
                for start, end, kind in places:
                    seen(text[start:end], kind)
            if match[2]:  # a plain word there may be ours, and an object without its names is none any more
                places = [one for one in places if not _PLAIN_NAME.fullmatch(text, one[0], one[1])]
            places = merged(places)
            written = places if text is raw else _as_written(raw, places)
            found += [(match.start(1) + start, match.start(1) + end, kind) for start, end, kind in written]
        if not match[2]:
            name = ""
    return merged(found)


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
