"""Paths into JSON as people and models write them: JSONPath (RFC 9535) and JSON Pointer (RFC 6901); and the names of
members, read with their escapes and written into a normalized path.

Only what a pass over the document can answer: names, indices from the front, slices that go forward, wildcards, `..`
and, for those who follow them, simple filters. The rest (functions, indices from the end) is refused by name, with what
to write instead. This module never reads a document.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence

from holdall.text.escape import foreign
from holdall.values.errors import BadQuery
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# ── Names ─────────────────────────────────────────────────────────────────────────────────────────────────────
#
# A name or a path that is too long to show is shortened with `…` inside, and says so.

Step = bytes | int  # a member's name as UTF-8, or an element's index

_SHOWN_NAME = 512  # bytes of one name
_SHORT = 64  # bytes of a name that is remembered
SHOWN_STEPS = 48  # steps at each end of a path
_MARK = "…"
_UNSAFE = lazy_pattern(r"[\x00-\x1f'\\\ud800-\udfff]")
_SHORT_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "'": "\\'", "\\": "\\\\"}


def decoded_name(raw: bytes) -> bytes:
    """The name that a JSON string stands for, as UTF-8, given its bytes between the quotes."""
    if b"\\" not in raw:
        return raw
    try:
        name: str = json.loads(b'"' + raw + b'"', strict=False)
    except ValueError:  # an escape that JSON does not know, or bytes that are not UTF-8: the name is what it is
        return raw
    return name.encode("utf-8", "surrogatepass")


def encoded_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def shown_name(name: bytes) -> str:
    """`name` as text, shortened where it is very long."""
    if len(name) <= _SHOWN_NAME:
        return _text(name)
    return _text(name[: _SHOWN_NAME // 2]) + _MARK + _text(name[-_SHOWN_NAME // 2 :])


def normalized_step(name: str) -> str:
    return "['" + _UNSAFE.sub(_escape, name) + "']"


def normalized_path(steps: Sequence[Step], *, left_out: int = 0) -> tuple[str, bool]:
    """`$['paths'][0]`, and whether it is shortened. `left_out`: so many steps are missing in the middle."""
    shortened = left_out > 0 or any(isinstance(step, bytes) and len(step) > _SHOWN_NAME for step in steps)
    texts = [_step(step) for step in steps]
    if left_out:
        texts.insert(len(steps) // 2, _MARK)
    return "$" + "".join(texts), shortened


def _step(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return _short_step(step) if len(step) <= _SHORT else normalized_step(shown_name(step))


@functools.lru_cache(512)  # of many values each has the same names in its path
def _short_step(name: bytes) -> str:
    return normalized_step(_text(name))


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return name.decode("utf-8", "replace")


def _escape(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


# ── Paths ─────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_PATH = 10_000  # characters; far more than anybody types, far less than what would slow the scan down
_MAX_SEGMENTS = 50
_LARGEST_INDEX = 2**53 - 1  # RFC 9535: what every JSON number can hold

_SPACE = lazy_pattern(r"[ \t\n\r]*+")
_SHORTHAND = lazy_pattern(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+")
_DASHED = lazy_pattern(r"[\w$@-]+")
_INTEGER = lazy_pattern(r"(?:0|-?[1-9][0-9]{0,15})(?![0-9])", re.ASCII)
_ESCAPE = lazy_pattern(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_QUOTED = {quote: lazy_pattern(rf"{quote}((?:[^{quote}\\]++|\\.)*+){quote}", re.DOTALL) for quote in "'\""}
_NUMBER = lazy_pattern(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?(?![0-9])", re.ASCII)
_SIGNS = ("==", "!=", "<=", ">=", "<", ">")
_MAX_NESTED = 20
_MAX_COMPARISONS = _MAX_SLICES = 16  # each is tried on every value
_PLAIN_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}


@record
class Name:
    """The members of that name."""

    name: str


@record
class Index:
    """One element, counted from 0."""

    index: int


@record
class Slice:
    """Every `step`-th element from `start` to before `stop`."""

    start: int = 0
    stop: int | None = None
    step: int = 1


@record
class Wildcard:
    """Every member and every element."""


@record
class Missing:
    """What a path in a filter names that is not there. It equals only another one that is missing."""


@record
class Compare:
    """`@.a.b >= 5`: each side is a path below the value that is looked at, or a literal."""

    left: "tuple[Name | Index, ...] | Literal"
    sign: str
    right: "tuple[Name | Index, ...] | Literal"


@record
class Literal:
    value: str | float | bool | None


@record
class Exists:
    path: tuple[Name | Index, ...]


@record
class Not:
    test: "Test"


@record
class AllOf:
    tests: "tuple[Test, ...]"


@record
class AnyOf:
    tests: "tuple[Test, ...]"


Test = Compare | Exists | Not | AllOf | AnyOf


@record
class Filter:
    """The members and elements that pass a test. `text` is how it is written."""

    test: Test
    text: str


Selector = Name | Index | Slice | Wildcard | Filter


@record
class Segment:
    """What to choose among the children of a value, or with `descendants` among all that is below it."""

    selectors: tuple[Selector, ...]
    descendants: bool = False


@record
class JsonPath:
    text: str
    segments: tuple[Segment, ...]

    @property
    def is_singular(self) -> bool:
        """It names one place: every segment one member or element. A pointer's `/0` may be either."""
        return all(
            not segment.descendants and all(isinstance(one, Name | Index) for one in segment.selectors)
            for segment in self.segments
        ) and (self.text[:1] != "$" or all(len(segment.selectors) == 1 for segment in self.segments))


def parse_path(text: str, *, filters: bool = False) -> JsonPath:
    """A JSON Pointer where `text` is empty or begins with / or #; a JSONPath where it begins with $.

    `filters`: whether the caller follows them (`text.json.filters`); they are refused otherwise.
    """
    if len(text) > _LONGEST_PATH:
        raise BadQuery(f"the path has {len(text):,} characters; at most {_LONGEST_PATH:,} are read.")
    if text == "" or text[0] in "/#":
        segments = tuple(_pointer_segments(text))
    elif text[0] == "$":
        segments = _Parser(text, filters=filters).segments()
    else:
        raise BadQuery(
            f"{text[:60]!r} is not a path: write a JSONPath that begins with $ ($.items[0].name, $..name), "
            "or a JSON Pointer that begins with / (/items/0/name)."
        )
    if len(segments) > _MAX_SEGMENTS:
        raise BadQuery(f"the path has {len(segments):,} segments; at most {_MAX_SEGMENTS} are followed.")
    slices = sum(isinstance(selector, Slice) for segment in segments for selector in segment.selectors)
    if slices > _MAX_SLICES:
        raise BadQuery(f"the path has {slices:,} slices; at most {_MAX_SLICES} are followed.")
    return JsonPath(text, segments)


def _pointer_segments(text: str) -> list[Segment]:
    if text.startswith("#"):
        text = _percent_decoded(text[1:])
    if text and not text.startswith("/"):
        raise BadQuery(f"{text[:60]!r} is not a JSON Pointer: after # it is empty or begins with /.")
    return [_pointer_segment(token) for token in text.split("/")[1:]]


def _pointer_segment(token: str) -> Segment:
    if re.search(r"~(?![01])", token):
        raise BadQuery(f"in the JSON Pointer, {token[:60]!r} has a ~ that is not ~0 (for ~) or ~1 (for /).")
    name = Name(token.replace("~1", "/").replace("~0", "~"))
    # The same token names a member of an object and an element of an array; the document decides.
    if re.fullmatch("0|[1-9][0-9]{0,15}", token, re.ASCII):
        return Segment((name, Index(int(token))))
    return Segment((name,))


def _percent_decoded(text: str) -> str:
    escaped = r"(?:%[0-9A-Fa-f]{2})+"
    return re.sub(escaped, lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), text)


class _Parser:
    """One JSONPath, read from left to right."""

    def __init__(self, text: str, *, filters: bool) -> None:
        self._text = text
        self._at = 1  # past the $
        self._filters = filters
        self._comparisons = 0
        self._depth = 0  # of parentheses

    def segments(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        self._skip_space()
        while self._at < len(self._text):
            found.append(self._segment())
            self._skip_space()
        return tuple(found)

    def _segment(self) -> Segment:
        text = self._text
        descendants = text.startswith("..", self._at)
        if descendants:
            self._at += 2
        elif text[self._at] == ".":
            self._at += 1
        elif text[self._at] != "[":
            raise self._wrong("a segment begins with . or [")
        else:
            return Segment(self._bracket())
        if descendants and text.startswith("[", self._at):
            return Segment(self._bracket(), descendants)
        return Segment((self._shorthand(),), descendants)

    def _shorthand(self) -> Selector:
        if self._text.startswith("*", self._at):
            self._at += 1
            return Wildcard()
        match = _SHORTHAND.match(self._text, self._at)
        if match and self._text.startswith("(", match.end()):
            raise self._wrong(f"functions such as {match[0]}() are not followed; use SQL for that: {_SQL_HINT}")
        dashed = _DASHED.match(self._text, self._at)
        if dashed and (match is None or dashed.end() > match.end()):
            number = f", a place in an array [{dashed[0]}]" if dashed[0].isdecimal() else ""
            raise self._wrong(f"a name with such characters stands in brackets: {normalized_step(dashed[0])}{number}")
        if match is None:
            raise self._wrong("a name or * is missing after the dot")
        self._at = match.end()
        return Name(match[0])

    def _bracket(self) -> tuple[Selector, ...]:
        found: list[Selector] = []
        while True:
            self._at += 1  # past [ or ,
            self._skip_space()
            found.append(self._selector())
            self._skip_space()
            sign = self._text[self._at : self._at + 1]
            if sign == "]":
                self._at += 1
                if len(found) > 1 and any(isinstance(one, Filter) for one in found):
                    raise self._wrong("a filter stands alone in its brackets")
                return tuple(found)
            if sign != ",":
                raise self._wrong("expected , or ] here")

    def _selector(self) -> Selector:
        sign = self._text[self._at : self._at + 1]
        if sign in ("'", '"'):
            return Name(self._quoted(sign))
        if sign == "*":
            self._at += 1
            return Wildcard()
        if sign == "?" and self._filters:
            begin = self._at
            self._at += 1
            return Filter(self._any_of(), self._text[begin : self._at].strip())
        if sign == "?":
            raise self._wrong(f"a filter cannot choose a table; use SQL for that: {_SQL_HINT}")
        if sign == "(":
            raise self._wrong(f"scripts are not part of JSONPath; use SQL for that: {_SQL_HINT}")
        return self._index_or_slice()

    # A filter: comparisons and existence of what is below @, with && || ! and parentheses.

    def _any_of(self) -> Test:
        tests = [self._all_of()]
        while self._takes("||"):
            tests.append(self._all_of())
        return tests[0] if len(tests) == 1 else AnyOf(tuple(tests))

    def _all_of(self) -> Test:
        tests = [self._test()]
        while self._takes("&&"):
            tests.append(self._test())
        return tests[0] if len(tests) == 1 else AllOf(tuple(tests))

    def _test(self) -> Test:
        self._depth += 1
        if self._depth > _MAX_NESTED:
            raise self._wrong(f"a filter nests at most {_MAX_NESTED} deep")
        try:
            if self._takes("!"):
                return Not(self._test())
            if self._takes("("):
                test = self._any_of()
                if not self._takes(")"):
                    raise self._wrong("expected ) here")
                return test
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Test:
        self._comparisons += 1
        if self._comparisons > _MAX_COMPARISONS:
            raise self._wrong(
                f"a path has at most {_MAX_COMPARISONS} comparisons; for more than that use SQL: {_SQL_HINT}"
            )
        left = self._operand()
        sign = next((sign for sign in _SIGNS if self._takes(sign)), "")
        if sign:
            return Compare(left, sign, self._operand())
        if isinstance(left, Literal):
            raise self._wrong(f"expected a comparison here: {' '.join(_SIGNS)}")
        return Exists(left)

    def _operand(self) -> tuple[Name | Index, ...] | Literal:
        self._skip_space()
        sign = self._text[self._at : self._at + 1]
        if sign in ("'", '"'):
            return Literal(self._quoted(sign))
        if sign == "@":
            self._at += 1
            return tuple(self._below())
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return Literal(json.loads(number[0]))
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self._takes(word):
                return Literal(value)
        simple = "@.name, a text in quotes, a number, true, false or null"
        raise self._wrong(f"expected {simple} here; for more than that use SQL: {_SQL_HINT}")

    def _below(self) -> Iterator[Name | Index]:
        while self._text[self._at : self._at + 1] in (".", "["):
            segment = self._segment()
            selector = segment.selectors[0]
            if segment.descendants or len(segment.selectors) > 1 or not isinstance(selector, Name | Index):
                raise self._wrong(f"in a filter a path names one value; for more than that use SQL: {_SQL_HINT}")
            yield selector

    def _takes(self, sign: str) -> bool:
        self._skip_space()
        found = self._text.startswith(sign, self._at)
        if found:
            self._at += len(sign)
            self._skip_space()
        return found

    def _index_or_slice(self) -> Selector:
        bounds = [self._bound()]
        while self._text.startswith(":", self._at) and len(bounds) < 3:
            self._at += 1
            self._skip_space()
            bounds.append(self._bound())
        start, stop, step = (*bounds, None, None)[:3]
        if len(bounds) == 1:
            if start is None:
                raise self._wrong("expected a name in quotes, an index, a slice or * here")
            return Index(start)
        return Slice(start or 0, stop, 1 if step is None else step)

    def _bound(self) -> int | None:
        match = _INTEGER.match(self._text, self._at)
        if match is None:
            if re.match("-?[0-9]", self._text[self._at : self._at + 2]):
                raise self._wrong("an index has no leading zeros and is at most 2^53 - 1")
            return None
        if match[0][0] == "-":
            raise self._wrong(
                "a negative index counts from the end, which one pass reaches too late; use SQL for that: query with "
                'at=PATH OF THE ARRAY and sql="select * from t offset (select count(*) - 1 from t)"'
            )
        if int(match[0]) > _LARGEST_INDEX:
            raise self._wrong("an index has no leading zeros and is at most 2^53 - 1")
        self._at = match.end()
        self._skip_space()
        return int(match[0])

    def _quoted(self, quote: str) -> str:
        match = _QUOTED[quote].match(self._text, self._at)
        if match is None:
            raise self._wrong(f"the name that begins here has no closing {quote}")
        name = _ESCAPE.sub(lambda escape: self._unescaped(escape, quote), match[1])
        self._at = match.end()
        # Two \u escapes may be the halves of one character.
        return name.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _unescaped(self, escape: re.Match[str], quote: str) -> str:
        if escape[1]:
            return chr(int(escape[1], 16))
        if escape[2] == quote:
            return quote
        if escape[2] not in _PLAIN_ESCAPES:
            raise self._wrong(f"\\{escape[2]} is not an escape of JSONPath")
        return _PLAIN_ESCAPES[escape[2]]

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at

    def _wrong(self, why: str) -> BadQuery:
        return BadQuery(f"in the path '{foreign(self._text)}', at character {self._at}: {why}.")


_SQL_HINT = 'query with at=PATH OF THE ARRAY and sql="select … from t where …"'
