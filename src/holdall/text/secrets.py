"""Masks for secrets: in a text, at the same length and without moving anything else; in the arguments of a tool, by
the names of their keys. What is a secret in a text is decided elsewhere.
"""

import base64
import binascii
import contextlib
import functools
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast
from urllib.parse import unquote_to_bytes

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
FAR = STEP + 2 * LEFT  # where secrets still come: a column has its name only once, far above
_ALMOST_ALL = RIGHT - 4 * 1024  # of what can be seen to the right
_STARS = bytes(0x0A if byte == 0x0A else 0x0D if byte == 0x0D else ord("*") for byte in range(256))
_NINES = bytes(ord("9") if chr(byte).isdigit() and byte < 0x80 else byte for byte in range(256))
_JSON_NUMBER = lazy_pattern(rb"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][-+]?[0-9]{1,3})?")
_BACKSLASH = 0x5C
_REST = lazy_pattern(rb"[^\s\"'<>]*+")
_TOKEN = lazy_pattern(
    rb'"((?:[^"\\]++|\\.)*+)(?:"(?:\s*+(:))?|\\?\Z)|[{}\[\]]|(?<=[\s:,\[-])[0-9]{8,}+(?=[\s,\]}])', re.DOTALL
)  # a string, perhaps a name, or one without an end; a bracket; a long number
NUMBER = "Secret Number"
FOUND_BEFORE = "Found elsewhere"
PACKED = "Secret in base64"
HERE_ONLY = "Word under a secret name"  # masked there, and not wherever it stands
_MAX_DEPTH, _MAX_WORDS = 1000, 1000
_BLOBS = frozenset(("data", "blob"))  # names under which blocks have base64
_CONTENTS = frozenset(("content", "contents", "payload", "file"))
_BLANKS = lazy_pattern(rb"[ \t\r\n]+")  # base64 may be in lines
_SHORTEST_BLOB = 16
_COLUMNS = frozenset(("columns", "fields", "header", "headers", "column_names", "columnnames", "names", "schema"))
_ROWS = frozenset(("rows", "data", "values", "records", "results"))
_HOLDERS, _SHORTEST_HELD = frozenset(("data", "stringdata")), 3
_QUOTED, _QUOTED_SIGN = lazy_pattern(rb"%[0-9a-fA-F]{2}"), lazy_pattern(rb"%[0-9a-fA-F]{2}|.", re.DOTALL)
_VALUES = frozenset(("value", "values", "default", "plaintext", "raw", "parametervalue", "s", "stringvalue"))
_LABELS = frozenset(
    ("name", "key", "variable", "header", "field", "param", "parameter", "label", "parameterkey", "path")
)
_LABEL = lazy_pattern(r"[\w.:-]{1,80}")
_PATH = lazy_pattern(r"(?:/[\w.-]{1,80}){1,10}/(?=[\w.-])")  # before a name in a store of parameters
_SHORTEST_PAIRED = 8
_SPLITS = lazy_pattern(rb"[\s\"'`]")
_IN_DOUBT = lazy_pattern(
    r"[\w .-]{0,60}(?:key[12]?|pass|pw|_salt|tokens)|encrypt|login|creds"
)  # names that tell only with their values
# What tells about a secret, and is none itself, where it stands in an object that has the name of one.
_ABOUT = lazy_pattern(
    r"(?i)(?:.*[_-])?(?:k?id|at)|.*(?-i:Id|ID|At)|.*(?:arn|ur[il]|path|file|type|name|user|email|address|host|ref|version"
    r"|pattern|regex|format|date|time|description|title|algorithm|fingerprint)"
)
_PLAIN_NAME = lazy_pattern(rb"[a-z_]*+")
_UNIT = lazy_pattern(
    rb"[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL
)  # a run without escapes; an escape, or two that are one character


def mask_of(secret: bytes, *, number: bool = False, is_packed: bool = False) -> bytes:
    """As long as `secret`, with the same line breaks; of base64 so that it reads as stars."""
    if is_packed:
        signs = itertools.cycle(b"Kioq")
        return bytes(byte if byte in b" \t\r\n=" else next(signs) for byte in secret)
    if not number:
        return secret.translate(_STARS)
    power = max(secret.find(b"e"), secret.find(b"E"))
    digits = secret if power < 0 else secret[:power]
    return digits.translate(_NINES) + secret[len(digits) :]


def is_bare_number(data: bytes, start: int, end: int) -> bool:
    """Whether it is a number as JSON has them, outside of quotes: with stars in its place it would be none any more."""
    before = data[max(0, start - 16) : start].removesuffix(b"-").rstrip(b" \t\r\n")
    after = data[end : end + 16].lstrip(b" \t\r\n")
    is_number = _JSON_NUMBER.fullmatch(data, start, end) is not None
    return is_number and before[-1:] in b":[," and before != b"" and after[:1] in b",]}"


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
    for start, end, kind in findings:
        parts += (data[at:start], mask_of(data[start:end], number=start in numbers, is_packed=kind == PACKED))
        at = end
    return b"".join((*parts, data[at:])) if parts else data


def masked_text(data: bytes, findings: Iterable[Finding]) -> bytes:
    """The same for findings in order of which some may be bare numbers."""
    found = list(findings)
    return masked(data, found, {a for a, b, kind in found if kind == NUMBER or is_bare_number(data, a, b)})


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
        self._told = 0  # up to where findings were told
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

    def lines(self) -> bytes:
        """What there is of whole lines, for readers who cannot wait for more: only what follows may give one away."""
        self._held += b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        until = self._base + self._held.rfind(b"\n") + 1
        return self._window(until, self._base + len(self._held), is_end=False) if until > self._done else b""

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
        for start, last, kind in ended:
            if start < until:
                self.findings += [(start, last, kind)] if start >= self._told else []  # else it is longer than it was
                self._told = max(self._told, last)
        self._pending = [one for one in all_of_it if one[0] < until < one[1]]
        self._numbers &= {one[0] for one in self._pending}
        if is_end and until == window_end:
            self._pending = []
        self._done = until
        near = self._done - LEFT
        goes_on = any(last > near for _, last, _ in all_of_it)
        keep = max(self._base, self._done - FAR if goes_on else near)
        self._held, self._base = self._held[keep - self._base :], keep
        return given

    def _fresh(self, window: bytes, until: int) -> list[Finding]:
        found = ((a + self._base, b + self._base, kind) for a, b, kind in self._find(window))
        # One that began before may only now be known: the first lines of a key have passed without the others.
        return [one for one in found if one[0] < until and self._done < one[1]]

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

    What is not JSON is read as far as it looks like it.
    """
    walk = _Walk[_Written](find, is_secret, seen)
    at = 0
    for match in _TOKEN.finditer(data):
        sign = data[match.start()]
        if walk.in_row:
            walk.after(data.count(b",", at, match.start()))
        at = match.end()
        if sign == 0x22:
            raw = match[1]
            walk.string((match.start(1), raw), _as_read(raw), is_key=match[2] is not None)
        elif sign in b"{[":
            walk.open(is_list=sign == 0x5B)
        elif sign in b"}]":
            walk.close()
        else:
            walk.number((match.start(), match[0]), match[0])
    return _in_bytes(walk.done())


def json_in_text(data: bytes, find: Find, is_secret: Callable[[str], bool]) -> list[Finding]:
    """The same for all JSON that stands in a text: a file, each line of a log, a part that was cut out."""
    walk: _Walk[_Written] | None = None
    at = 0
    while (begin := _JSON_BEGINS.search(data, at)) is not None:
        walk = walk or _Walk[_Written](find, is_secret, None)
        at = _read_json(data, begin.start(), walk)
    return _in_bytes(walk.done()) if walk else []


def _read_json(data: bytes, at: int, walk: "_Walk[_Written]") -> int:
    """One value, or members of an object without its brackets, up to where they end, or are not JSON any more."""
    walk.begin()
    while (match := _JSON_TOKEN.match(data, at)) is not None:
        raw, is_key, sign, digits = match.groups()
        if walk.in_row:
            walk.after(data.count(b",", at, match.start(match.lastindex or 0) if raw is None else match.start(1)))
        at = match.end()
        if raw is not None:
            walk.string((match.start(1), raw), _as_read(raw), is_key=is_key is not None)
        elif sign is None:
            walk.number((match.start(4), digits), digits)
        elif sign in b"{[":
            walk.open(is_list=sign == b"[")
        elif not walk.close():
            break
    return at


def masked_value(
    value: object, find: Find, is_secret: Callable[[str], bool], seen: Seen | None, name: str, within: str
) -> tuple[object, int]:
    """The same for a value of dictionaries and lists: it with its secrets masked, and how many."""
    walk = _Walk[int](find, is_secret, seen, name, within)
    _feed(value, walk, 0)
    hits = walk.done()
    if not hits or seen is not None:
        return value, 0
    places = {number: merged(found) for number, (_, found) in hits.items()}
    new, _ = _rebuilt(value, {number: (hits[number][0], places[number]) for number in hits}, 0)
    return new, sum(map(len, places.values()))


def _feed(value: object, walk: "_Walk[int]", number: int) -> int:
    """Tells the parts in order; each text and each long number has a number of its own, and the next one is given."""
    kind = type(value)
    if kind is str:
        walk.string(number, cast("str", value).encode("utf-8", "surrogatepass"))
        return number + 1
    if kind is dict:
        walk.open(is_list=False)
        for name, one in cast("dict[str, object]", value).items():
            walk.string(number, name.encode("utf-8", "surrogatepass"), is_key=True)
            number = _feed(one, walk, number + 1)
        walk.close()
    elif kind is list:
        walk.open(is_list=True)
        for index, one in enumerate(cast("list[object]", value)):
            if walk.in_row:
                walk.at(index)
            number = _feed(one, walk, number)
        walk.close()
    elif kind is int and abs(cast("int", value)) > _LONGEST_PLAIN_NUMBER:
        walk.number(number, str(abs(cast("int", value))).encode())
        return number + 1
    return number


def _rebuilt(value: object, hits: "Mapping[int, tuple[bytes, list[Finding]]]", number: int) -> tuple[object, int]:
    kind = type(value)
    if kind is str:
        hit = hits.get(number)
        return (_text(masked_text(*hit)) if hit else value), number + 1
    if kind is dict:
        pairs: list[tuple[str, object]] = []
        for name, one in cast("dict[str, object]", value).items():
            hit = hits.get(number)
            new, number = _rebuilt(one, hits, number + 1)
            pairs.append((_text(masked(*hit)) if hit else name, new))
        return apart(pairs), number
    if kind is list:
        items: list[object] = []
        for one in cast("list[object]", value):
            new, number = _rebuilt(one, hits, number)
            items.append(new)
        return items, number
    if kind is int and abs(cast("int", value)) > _LONGEST_PLAIN_NUMBER:
        return (int("9" * len(hits[number][0])) if number in hits else value), number + 1
    return value, number


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a mask that ends inside of a character
        return data.decode("utf-8", "replace")


def apart(members: Sequence[tuple[Any, object]]) -> dict[Any, object]:
    """An object of all of them: names that are one and the same when masked are numbered, so that none is lost."""
    table: dict[Any, object] = dict(members)
    if len(table) == len(members):
        return table
    taken = {*table}
    table = {}
    numbers: dict[Any, int] = {}
    for name, one in members:
        new = name
        while new in table or (new is not name and new in taken):
            numbers[name] = numbers.get(name, 1) + 1
            new = f"{name} ({numbers[name]})"
        table[new] = one
    return table


def is_value(name: str) -> bool:
    """Whether it is the name of what an object is about: `{"name": "password", "value": …}`."""
    return name.lower() in _VALUES


def label_of(table: Mapping[Any, object]) -> str:
    """What an object says that its value is called; empty if it does not."""
    told = (one for key, one in table.items() if str(key).lower() in _LABELS and isinstance(one, str))
    labels = (_PATH.sub("", one[:1000], count=1).removeprefix("/") if one[:1] == "/" else one for one in told)
    return next((one for one in labels if _LABEL.fullmatch(one)), "")


def is_about(name: str) -> bool:
    """Whether what has that name, within an object that has the name of a secret, tells about it only."""
    return _ABOUT.fullmatch(name) is not None


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

    key = label = ""
    columns: frozenset[int] = frozenset()  # of a row, those with secrets
    index = 0  # of what comes next in a row
    header: frozenset[int] | None = None  # the columns of the rows in it, once they are known
    is_doubtful = False  # it may be a list of lists of names
    are_tokens = False  # under a name that says so: of a service, or of a text
    is_sealed = False  # a Secret of Kubernetes: so is all that it holds, under whatever name
    entries: list[tuple[Any, bytes]] | None = None  # texts, if it is the data of an object
    held: list[tuple[Any, bytes]] | None = None  # those of its data
    values: list[tuple[Any, bytes]] | None = None  # what stands under names that only say "value"
    labels: list[str] | None = None  # what the objects in it are called

    def __init__(self, within: str = "", *, is_secret: bool = False, is_list: bool = False) -> None:
        self.within = within
        self.is_list = is_list
        self.name = within if is_list and is_secret else ""  # of what comes next, where that makes it a secret
        self.words: list[tuple[Any, bytes]] | None = [] if is_list else None


def _nothing(_secret: bytes, _kind: str) -> None:
    """Nobody wants to know."""


_SHORTEST = 6  # bytes of a string that any rule could find something in; there may be a hundred thousand in a megabyte
BARRIER = b"\n\0\n"  # between strings that are looked at together: no secret reaches over it
_TOGETHER = 256 * 1024
_CARRIED = 64  # strings: a private key may come as a list of its lines
_LONGEST_PLAIN_NUMBER = 9_999_999
_JSON_BEGINS = lazy_pattern(rb'[{\[]\s*+(?=["{\[])|"[^"\\\n]{1,80}+"\s*+:(?=\s*+["{\[0-9])')
_JSON_TOKEN = lazy_pattern(
    rb"(?:[\s,:]++|-?+(?![0-9]{8,}+[\s,\]}])[\w.+-]++)*+"
    rb'(?:"((?:[^"\\\n]++|\\[^\n])*+)"(\s*+:)?|([{}\[\]])|-?([0-9]{8,}+))'
)  # a string, perhaps a name; a bracket; a long number; before it what is none of these
_Written = tuple[int, bytes]  # where a string is, as it is written
_Place = TypeVar("_Place", bound=Hashable)
# Names of many things besides secrets: `{"auth": "required"}`.
_OFTEN_NO_SECRET = lazy_pattern(r"(?i)(?:.*[_-])?(?:cookie|authorization|credentials?|pass|pw|auth)|.*token")
_DIGIT = lazy_pattern(rb"[0-9]")
_WORD = lazy_pattern(rb"[A-Za-z]?[a-z]*+")


class _Walk(Generic[_Place]):
    """The parts of JSON, told in their order. `done` gives what is to be masked: by place the text, and the parts of
    it. Short strings are looked at together: one by one they would take a hundred times as long.
    """

    def __init__(
        self, find: Find, is_secret: Callable[[str], bool], seen: Seen | None, name: str = "", within: str = ""
    ) -> None:
        self._find = find
        self._is_secret = functools.lru_cache(4096)(is_secret)
        self._seen: Seen = seen or _nothing
        self._hits: dict[_Place, tuple[bytes, list[Finding]]] = {}
        self._levels = [_Level(within)]
        if name:
            self._named(self._levels[0], name)
        self.in_row = False  # of which columns have secrets: then it wants to know where it is
        self._deeper = 0  # levels that are too deep to be told apart
        self._together: list[tuple[bytes, _Place | None, bool | list[tuple[_Place, bytes]], bytes]] = []
        self._bytes = 0

    def begin(self) -> None:
        """Another text."""
        while len(self._levels) > 1:
            self.close()
        self._levels = [_Level()]

    def done(self) -> "dict[_Place, tuple[bytes, list[Finding]]]":
        self.begin()
        self._look()
        return self._hits

    def open(self, *, is_list: bool) -> None:
        if len(self._levels) > _MAX_DEPTH:
            self._deeper += 1
            return
        level = self._levels[-1]
        self._levels.append(_Level(level.name or level.within, is_secret=bool(level.name), is_list=is_list))
        inner = self._levels[-1]
        inner.are_tokens = level.key.endswith("tokens")
        if not is_list and level.key in _HOLDERS:
            inner.entries = []
        elif is_list and level.header:
            if level.is_list:
                inner.columns = level.header
            elif level.key in _ROWS:
                inner.header = level.header
        self.in_row = bool(inner.columns)

    def close(self) -> bool:
        """Whether something is open still."""
        if self._deeper:
            self._deeper -= 1
        elif len(self._levels) > 1:
            level = self._levels.pop()
            if level.label and self._is_secret(level.label):
                for place, text in level.values or ():
                    if text.lower() != level.label.lower().encode():  # one of those that can be chosen from
                        self._whole(place, text, level.label)
            for place, text in level.held or () if level.is_sealed else ():
                self._whole(place, text, level.key)
            if level.entries:
                self._levels[-1].held = self._levels[-1].held or []
                self._levels[-1].held += level.entries
            if level.words:
                self._list(level.words)
            self._closed(level, self._levels[-1])
        return len(self._levels) > 1

    def at(self, index: int) -> None:
        """What comes next is this one of its row."""
        self._levels[-1].index = index

    def after(self, commas: int) -> None:
        self._levels[-1].index += commas

    def number(self, place: _Place, digits: bytes) -> None:
        level = self._levels[-1]
        if self.in_row and level.index in level.columns:
            self._hit(place, digits, (0, len(digits), NUMBER))
        if level.name or level.within:  # in the latter case perhaps a time: masked here, and not everywhere
            self._hit(place, digits, (0, len(digits), NUMBER))
        if level.name:
            self._seen(digits, "Secret Keyword")

    def string(self, place: _Place, text: bytes, *, is_key: bool = False) -> None:
        level = self._levels[-1]
        if is_key:
            self._named(level, text.decode("utf-8", "replace"))
        elif level.is_list:
            if level.words is not None:
                level.words.append((place, text))
                level.words = None if len(level.words) > _MAX_WORDS else level.words
        elif level.key in _VALUES:
            level.values = level.values or []
            level.values.append((place, text))
        elif level.key == "kind":
            level.is_sealed = text == b"Secret"
        elif level.key in _LABELS and not (level.label and self._is_secret(level.label)):
            level.label = label_of({level.key: text.decode("utf-8", "replace")})
        if level.entries is not None and not is_key and len(text) >= _SHORTEST_HELD:
            level.entries.append((place, text))
        if self.in_row and self._is_cell(level, text):
            self._whole(place, text, "password")
        elif not is_key and text and level.name:
            self._whole(place, text, level.name)
        elif not is_key and (level.key in _BLOBS or text[:5].lower() == b"data:") and self._is_packed(place, text):
            return
        elif not is_key and level.key in _CONTENTS and self._is_packed(place, text) and place in self._hits:
            return  # a file in base64; else a text of its own
        elif len(text) >= _SHORTEST:
            self._look_at(text, place, is_key, b"" if is_key else _before(level, text))

    # Inside

    def _named(self, level: _Level, name: str) -> None:
        level.key = name.lower()
        level.name = name if self._is_secret(name) else level.within if level.key in _VALUES else ""

    def _is_cell(self, level: _Level, text: bytes) -> bool:
        return level.index in level.columns and (not self._levels[-2].is_doubtful or _DIGIT.search(text) is not None)

    def _closed(self, level: _Level, outer: _Level) -> None:
        """Whether it has the names of columns: of the rows beside it, or of those under another name."""
        self.in_row = bool(outer.columns)
        if level.label and outer.is_list and len(outer.labels or ()) < _MAX_WORDS:
            outer.labels = outer.labels or []
            outer.labels.append(level.label)
        if not level.is_list or outer.header is not None:
            return
        is_first = outer.is_list and outer.words is not None and not outer.words
        if is_first or (not outer.is_list and outer.key in _COLUMNS):
            names = level.labels or [text.decode("utf-8", "replace") for _, text in level.words or ()]
            secret = [index for index, name in enumerate(names) if self._is_secret(name)]
            is_header = all(_LABEL.fullmatch(name) for name in names) and (len(names) > 1 or not is_first)
            if is_first and len(names) == 2 and is_pair(*names):
                is_header = False
            outer.header = frozenset(secret) if is_header else frozenset()
            outer.is_doubtful = is_first

    def _list(self, words: list[tuple[_Place, bytes]]) -> None:
        if len(words) == 2:
            name, value = (one.decode("utf-8", "replace") for _, one in words)
            if is_pair(name, value) and self._is_secret(name):
                self._whole(*words[1], name)
        if (command := as_command([text for _, text in words])) is not None:
            self._look_at(command, None, words)

    def _is_packed(self, place: _Place, text: bytes) -> bool:
        """Whether it is base64, or an address that has its data in it; then what is inside was looked at."""
        begin = text.find(b",") + 1 if text[:5].lower() == b"data:" else 0
        if not begin or text[: begin - 1].endswith(b";base64"):
            inside = _unpacked(text[begin:])
        else:
            inside = unquote_to_bytes(text[begin:]) if b"%" in text else None
        if inside is None:
            return False
        places = merged(self._find(inside))
        for first, last, kind in places:
            self._seen(inside[first:last], kind)
        for first, last, kind in _as_packed(text, begin, places) if places else ():
            self._hit(place, text, (first, last, kind))
        return True

    def _whole(self, place: _Place, text: bytes, name: str) -> None:
        kind = HERE_ONLY if _WORD.fullmatch(text) and _OFTEN_NO_SECRET.fullmatch(name) else "Secret Keyword"
        self._hit(place, text, (0, len(text), kind))
        self._seen(text, kind)

    def _hit(self, place: _Place, text: bytes, found: Finding) -> None:
        self._hits.setdefault(place, (text, []))[1].append(found)

    def _look_at(
        self, text: bytes, place: _Place | None, what: bool | list[tuple[_Place, bytes]], before: bytes = b""
    ) -> None:
        """`before` is looked at with it, and never masked."""
        self._together.append((text, place, what, before))
        self._bytes += len(text)
        if self._bytes >= _TOGETHER:
            carried = self._together[-_CARRIED:] if len(text) < LEFT else []
            self._look()
            self._together = carried

    def _look(self) -> None:
        """At what is waiting: strings, and the words of commands."""
        waiting, self._together, self._bytes = self._together, [], 0
        alone = [one for one in waiting if 0 in one[0]]
        groups = [[one] for one in alone] + [[one for one in waiting if 0 not in one[0]] if alone else waiting]
        for group in groups:
            joined = BARRIER.join([before + text for text, _, _, before in group])
            places = deque(sorted(self._find(joined))) if group else ()
            at = 0
            for text, place, what, before in group if places else ():
                at += len(before)
                end = at + len(text)
                while places and places[0][0] < end:
                    first, last, kind = places.popleft()
                    self._found(text, place, what, (max(0, first - at), min(last, end) - at, kind))
                at = end + len(BARRIER)

    def _found(
        self, text: bytes, place: _Place | None, what: bool | list[tuple[_Place, bytes]], found: Finding
    ) -> None:
        first, last, kind = found
        if isinstance(what, list):
            at = 0
            for one, word in what:
                start, end = max(0, first - at), min(len(word), last - at)
                if start < end:
                    self._seen(word[start:end], kind)
                    self._hit(one, word, (start, end, kind))
                at += len(word) + 1
        elif place is not None and first < last:
            self._seen(text[first:last], kind)
            if not what or not _PLAIN_NAME.fullmatch(text, first, last):
                # A plain word among names may be ours, and an object without its names is none any more.
                self._hit(place, text, found)


def _before(level: _Level, text: bytes) -> bytes:
    """What `text` is looked at behind: a name that makes it a secret only if nobody wrote it by hand."""
    if _IN_DOUBT.fullmatch(level.key):
        return f"{level.key}=".encode()
    if level.are_tokens and not is_about(level.key) and not _SPLITS.search(text):
        return b"tokens="
    return b"pass=" if level.within and not is_about(level.key) and not _SPLITS.search(text) else b""


def _in_bytes(hits: Mapping[_Written, tuple[bytes, list[Finding]]]) -> list[Finding]:
    found: list[Finding] = []
    for (start, raw), (text, places) in hits.items():
        written = places if text is raw else _as_written(raw, merged(places))
        found += [(start + first, start + last, kind) for first, last, kind in written]
    return merged(found)


def _unpacked(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(_BLANKS.sub(b"", text), validate=True) if len(text) >= _SHORTEST_BLOB else None
    except (binascii.Error, ValueError):
        return None


def _as_packed(text: bytes, begin: int, places: Iterable[Finding]) -> Iterator[Finding]:
    """Where parts of what is packed in `text` from `begin` on are in it: by groups of base64, or by escapes."""
    if not _QUOTED.search(text, begin):
        signs = [at for at, byte in enumerate(text) if at >= begin and byte not in b" \t\r\n"]
        for first, last, _ in places:
            end = min(-(-last // 3) * 4, len(signs))
            yield signs[first // 3 * 4], signs[end - 1] + 1, PACKED
    else:
        units = [one.start() for one in _QUOTED_SIGN.finditer(text, begin)] + [len(text)]
        for first, last, kind in places:
            yield units[first], units[last], kind


def _as_read(raw: bytes) -> bytes:
    """What is between two quotes, as it reads; the same object where it has no escapes, or is not JSON."""
    if b"\\" not in raw:
        return raw
    try:
        return str(json.loads(b'"' + raw + b'"', strict=False)).encode("utf-8", "surrogatepass")
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


def arguments_text(arguments: object) -> str:
    """As JSON; a text that is an object in JSON already, as a model's call has it, as it is. Secrets are masked."""
    written, meant = "", arguments
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            parsed: object = json.loads(arguments)
            written, meant = (arguments, cast("object", parsed)) if isinstance(parsed, Mapping) else ("", arguments)
    masked = masked_arguments(meant)
    return written if written and masked == meant else json.dumps(masked, ensure_ascii=False, default=str)


def is_no_word(value: bytes) -> bool:
    """A digit, or small letters and capitals after the first: `incorrect` and `Required` are words."""
    return _DIGIT.search(value) is not None or (value[1:].lower() != value[1:] != value[1:].upper())
