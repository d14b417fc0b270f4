"""JSON read piece by piece: a cursor that knows its byte, the ways to step over what is there, and what follows the
first value of a text.

Nothing is built into values and nothing is kept but the piece at hand and one byte for each open bracket, so memory is
flat whatever the size of strings, numbers and containers. There is no recursion. A number or word that is stepped over
must be one; a container that is stepped over is only checked for closed strings and matching brackets. The answer never
depends on where the pieces end.
"""

import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

Read = Callable[[int, int], bytes]

CHUNK = 256 * 1024
_SMALL = 1024  # bytes; a container up to this size is matched by one pattern
_BLOCK = 64 * 1024  # a longer one is measured in blocks that grow up to this size
_FINE = 256  # the block that holds its end is searched token by token when it is no longer than this
_LONG_SCALAR = 64 * 1024  # a number longer than this is not checked digit by digit
_BOM = b"\xef\xbb\xbf"

SPACE = rb"[ \t\r\n]*+"
# To the next quote, unless a backslash is before it: to compare with one byte is twice as fast as with a set of them.
STRING = rb'(?>"[^"]*+"(?<!\\")|"[^"\\]*+(?:\\.[^"\\]*+)*+")'
SCALAR = rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|NaN|-?Infinity)"


def container_pattern(string: bytes = STRING, levels: int = 3) -> bytes:
    """A pattern for a whole container that holds at most `levels` further levels."""
    nested = string + (b"|" + container_pattern(string, levels - 1) if levels else b"")
    plain = rb'[^"\\\[\]{}]*+'
    inside = plain + b"(?:(?:" + nested + b")" + plain + b")*+"
    return rb"(?:\{" + inside + rb"\}|\[" + inside + rb"\])"


_space = lazy_pattern(SPACE)
_string = lazy_pattern(STRING, re.DOTALL)
_in_string = lazy_pattern(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_word = lazy_pattern(rb'[^ \t\r\n"\\\[\]{},:]++')
_scalar = lazy_pattern(SCALAR + rb"(?![^ \t\r\n,\]}])")
_container = lazy_pattern(container_pattern(), re.DOTALL)
_token = lazy_pattern(STRING + rb"|[\\\[\]{}]", re.DOTALL)
_key = lazy_pattern(rb'"([^"\\]*+)"' + SPACE + b":" + SPACE + rb"(?=[^ \t\r\n])")

QUOTE, COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT, _BACKSLASH = b'",:[]{}\\'
ENDED = -1


# ── Brackets ────────────────────────────────────────────────────────────────────────────────────────────────
#
# How a stretch changes the nesting, without looking at its tokens one by one: every step is one call that runs over all
# bytes at machine speed, which is several times faster than matching tokens.

_DROPPED = bytes(byte for byte in range(256) if byte not in b'"[]{}\\')
_CLOSING = bytes.maketrans(b"[{", b"]}")
_ROUNDS = 48  # nesting inside one stretch is rarely deeper; past this a loop over the brackets is cheaper

_leftover = lazy_pattern(rb"([\]}]*+)([\[{]*+)")


class Balance(NamedTuple):
    closes: bytes  # brackets that close what was open before the stretch
    opens: bytes  # brackets that are still open after it
    inside: bool  # it ends inside a string
    broken: bool  # a bracket of one kind is closed by the other, or a backslash is outside of strings


def balance(stretch: bytes, inside: bool) -> Balance:
    """`inside`: the stretch begins inside a string. It must not end in the middle of an escape."""
    if b"\\" in stretch:  # every escape keeps its backslash, and no quote or second backslash after it
        stretch = stretch.replace(b"\\\\", b"\\n").replace(b'\\"', b"\\n")
    # Two quotes side by side, an empty string or the border of two, leave everything else as far in or out as it was.
    signs = stretch.translate(None, _DROPPED).replace(b'""', b"")
    parts = signs.split(b'"')
    brackets = b"".join(parts[inside::2])
    ends_inside = inside ^ (len(parts) % 2 == 0)
    if b"\\" in brackets:
        return Balance(b"", b"", ends_inside, broken=True)
    for _ in range(_ROUNDS):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == before:
            break
    else:
        brackets = _unpaired(brackets)
    left = _leftover.match(brackets)
    closes, opens = (left[1], left[2]) if left else (b"", b"")
    return Balance(closes, opens, ends_inside, broken=len(closes) + len(opens) < len(brackets))


_WITHOUT_COMMAS = bytes(byte for byte in range(256) if byte not in b'",[]{}\\')
_MOST_SIGNS = 2_500_000  # what has more of them, 8 MB of brackets, takes too long
_ALIKE = 256  # signs of the beginning
_inner = lazy_pattern(rb"\{,*+\}|\[,*+\]")


def count_members(rest: bytes) -> int | None:
    """How many members a container has that is not empty and whose inside `rest` begins with. None if it has no end."""
    if b"\\" in rest:
        rest = rest.replace(b"\\\\", b"").replace(b'\\"', b"")
    signs = b"".join(rest.translate(None, _WITHOUT_COMMAS).replace(b'""', b"").split(b'"')[::2])
    for _ in range(_ROUNDS if len(signs) <= _MOST_SIGNS else 0):
        before = len(signs)
        # Records are mostly alike: to replace what some of them have is much faster than to match it everywhere.
        for inner in set(_inner.findall(signs, 0, _ALIKE)):
            signs = signs.replace(inner, b"")
        signs = _inner.sub(b"", signs) if len(signs) == before else signs
        if len(signs) == before:
            break
    commas = len(signs) - len(signs.lstrip(b","))
    return commas + 1 if signs[commas : commas + 1] in (b"]", b"}") else None


def _unpaired(brackets: bytes) -> bytes:
    """The same for deep nesting: one pass with a stack."""
    left = bytearray()
    for sign in brackets:
        if left and (left[-1], sign) in ((OPEN_OBJECT, CLOSE_OBJECT), (OPEN_ARRAY, CLOSE_ARRAY)):
            left.pop()
        else:
            left.append(sign)
    return bytes(left)


class JsonFault(Exception):
    """The text is not JSON at `byte`; `expected` says what could have was there."""

    def __init__(self, byte: int, expected: str, *, ended: bool) -> None:
        self.byte = byte
        self.expected = expected
        self.ended = ended
        super().__init__(f"{'it ends' if ended else 'not valid JSON'} at byte {byte:,}, where {expected} is expected")


class Cursor:
    """`buf[at:end]` is what is at hand and not yet passed; `base` is where `buf` starts in the whole.

    With `lines`, each line is a text of its own: the cursor ends at every newline until `next_line` is called.
    """

    def __init__(self, read: Read, size: int, *, start: int = 0, lines: bool = False, chunk: int = CHUNK) -> None:
        self.buf = b""
        self.at: int = 0
        self.end: int = 0
        self.base: int = len(_BOM) if start == 0 and read(0, len(_BOM)) == _BOM else start
        self._read = read
        self._size = size
        self._lines = lines
        self._begun = False
        self._chunk = chunk

    @property
    def place(self) -> int:
        return self.base + self.at

    def more(self) -> bool:
        """Have more at hand than before; False at the end of the text."""
        loaded = self.base + len(self.buf)
        if self.end < len(self.buf) or loaded >= self._size:
            return False
        kept = self.buf[self.at :]
        self.buf = kept + self._read(loaded, min(loaded + self._chunk, self._size))
        self.base += self.at
        self.at = 0
        self._find_end(len(kept))
        return len(self.buf) > len(kept)

    def next_line(self) -> bool:
        """Go to the next line that is not blank; False if there is none."""
        if self._begun and not self._pass_line():
            return False
        self._begun = True
        while self.peek() == ENDED:
            if not self._pass_line():
                return False
        return True

    def peek(self) -> int:
        """Step over white space; the byte that is there, or ENDED."""
        while True:
            if self.at < self.end and self.buf[self.at] > 32:
                return self.buf[self.at]
            match = _space.match(self.buf, self.at, self.end)
            self.at = match.end() if match else self.at
            if self.at < self.end:
                return self.buf[self.at]
            if not self.more():
                return ENDED

    def key(self, *, longest: int) -> bytes | None:
        """Step over a member's name and colon. Its bytes between the quotes; None where more than `longest`."""
        match = _key.match(self.buf, self.at, self.end)
        if match:
            self.at = match.end()
            return match[1] if len(match[1]) <= longest else None
        start = self.place
        self._pass_string()
        end = self.place
        if self.peek() != COLON:
            raise self.fault("a colon")
        self.at += 1
        self.peek()
        return self._read(start + 1, end - 1) if end - start - 2 <= longest else None

    def pass_value(self) -> None:
        """Step over the value that is here."""
        sign = self.peek()
        if sign in (OPEN_OBJECT, OPEN_ARRAY):
            match = _container.match(self.buf, self.at, min(self.end, self.at + _SMALL))
            if match:
                self.at = match.end()
            else:
                self.at += 1
                self.pass_rest(sign + 2)  # in ASCII the closing bracket is two places after the opening one
        elif sign == QUOTE:
            self._pass_string()
        else:
            self._pass_scalar()

    def pass_rest(self, closing: int) -> None:
        """Step over what is left of the container around this place, which `closing` closes."""
        opened = bytearray((closing,))  # the brackets that close what is open, the innermost last
        inside, block = False, _SMALL
        while True:
            piece = self.buf[self.at : min(self.end, self.at + block)]
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                piece = piece[:-1]  # the escape is looked at together with what it escapes
            if not piece:
                if self.end - self.at <= 1 and not self.more():
                    raise self.fault("the end of a string" if inside else "a closing bracket", ended=True)
                block = _SMALL
                continue
            found = balance(piece, inside)
            rest = len(opened) - len(found.closes)
            if not found.broken and rest > 0 and bytes(opened[rest:][::-1]) == found.closes:
                opened[rest:] = found.opens.translate(_CLOSING)
                inside = found.inside
                self.at += len(piece)
                block = min(4 * block, _BLOCK)
            elif len(piece) > _FINE:
                block = max(_FINE, len(piece) // 4)
            else:
                self._pass_tokens(self.at + len(piece), opened, inside)
                return

    def fault(self, expected: str, *, ended: bool | None = None) -> JsonFault:
        return JsonFault(self.place, expected, ended=self.at >= self.end if ended is None else ended)

    def _pass_tokens(self, stop: int, opened: bytearray, inside: bool) -> None:
        """The same token by token, where the end, or what must not be there, is known to come before `stop`."""
        if inside:
            rest = _in_string.match(self.buf, self.at, stop)
            self.at = rest.end() + 1 if rest else self.at
        for match in _token.finditer(self.buf, self.at, stop):
            sign = self.buf[match.start()]
            if sign in (OPEN_OBJECT, OPEN_ARRAY):
                opened.append(sign + 2)
            elif sign == _BACKSLASH:
                self.at = match.start()
                raise self.fault("a value")
            elif sign != QUOTE and opened.pop() != sign:
                self.at = match.start()
                raise self.fault("the other closing bracket")
            if not opened:
                self.at = match.end()
                return
        raise AssertionError("the balance of the brackets tells that they are closed here")

    def _pass_string(self) -> None:
        match = _string.match(self.buf, self.at, self.end)
        if match:
            self.at = match.end()
            return
        self.at += 1
        while True:
            quote = self.buf.find(b'"', self.at, self.end)
            plain = self.end if quote < 0 else quote
            if self.buf.find(b"\\", self.at, plain) < 0:  # a long string mostly has no escapes: the fastest search
                self.at = plain
            else:
                rest = _in_string.match(self.buf, self.at, self.end)
                self.at = rest.end() if rest else self.at
            if self.at < self.end and self.buf[self.at] == QUOTE:
                self.at += 1
                return
            if not self.more():
                raise self.fault("the end of a string", ended=True)

    def _pass_scalar(self) -> None:
        while True:
            match = _scalar.match(self.buf, self.at, self.end)
            if match and match.end() < self.end:
                self.at = match.end()
                return
            word = _word.match(self.buf, self.at, self.end)
            length = word.end() - word.start() if word else 0
            if word and word.end() == self.end and length <= _LONG_SCALAR and self.more():
                continue
            if match is None and length <= _LONG_SCALAR:
                raise self.fault("a value")
            break
        while True:
            word = _word.match(self.buf, self.at, self.end)
            self.at = word.end() if word else self.at
            if self.at < self.end or not self.more():
                return

    def _pass_line(self) -> bool:
        while self.end == len(self.buf):
            self.at = self.end
            if not self.more():
                return False
        self.at = self.end + 1
        self._find_end(self.at)
        return True

    def advance(self, count: int) -> None:
        """Go forward in `buf`, with `lines` to what may be another line."""
        self.at += count
        if self.at > self.end:
            self._find_end(self.at)

    def _find_end(self, start: int) -> None:
        newline = self.buf.find(b"\n", start) if self._lines else -1
        self.end = len(self.buf) if newline < 0 else newline


# ── What follows the first value ────────────────────────────────────────────────────────────────────────────
#
# Programs print a value and then a word about it, and records are written one after the other. A path counts the first
# as one value, and the second as an array. Paths and outlines both ask here, so that they agree.

_OPENING = (OPEN_OBJECT, OPEN_ARRAY)
_PARSED = 64 * 1024  # bytes; a longer value is judged by how it begins
_FIRST_ELEMENT = lazy_pattern(
    r'\s*(?:["{[]|\]\s*\Z|\Z|(?:-?[0-9][-+.0-9eE]*|true|false|null|NaN|-?Infinity)\s*(?:,|\]\s*\Z|\Z))', re.ASCII
)


def begins_json(start: str) -> bool:
    """Cheap: what follows the opening bracket can follow one. `[12:00:01] up [ok]` is a log, not an array."""
    if start[0] == "[":
        return _FIRST_ELEMENT.match(start, 1) is not None
    return start[1:].lstrip()[:1] in ("", '"', "}")


@record
class Following:
    """What is after the first value, which ends at `end`; `after` is where it begins."""

    what: Literal["nothing", "values", "text"]
    end: int
    after: int


def following(read: Read, size: int) -> Following | None:
    """None if the first value is not an array or object, or not a whole one."""
    cursor = Cursor(read, size)
    if cursor.peek() not in _OPENING:
        return None
    start = cursor.place
    try:
        cursor.pass_value()
    except JsonFault:
        return None
    end = cursor.place
    if cursor.peek() == ENDED:
        return Following("nothing", end, cursor.place)
    if not _is_json(read, start, end):
        return None
    after = cursor.place
    return Following("values" if _goes_on(read, size, after) else "text", end, after)


def is_followed_by_text(read: Read, size: int, end: int, after: int) -> bool:
    """Whether what ends at `end` is an array or object, and what is from `after` on is not JSON."""
    cursor = Cursor(read, size)
    is_container = cursor.peek() in _OPENING and _is_json(read, cursor.place, end)
    return is_container and not _goes_on(read, size, after)


def _goes_on(read: Read, size: int, after: int) -> bool:
    """Whether what is from `after` on are values too: up to the first array or object, or else up to the end.

    A number may begin a sentence (`3 files written`), and a bracket a line of a log (`[ok] done`). A value that only
    the end of the text cuts off is one.
    """
    cursor = Cursor(read, size, start=after)
    while (sign := cursor.peek()) != ENDED:
        start = cursor.place
        try:
            cursor.pass_value()
        except JsonFault as fault:
            return fault.ended and sign in _OPENING and begins_json(_text(read, start, size))
        if sign in _OPENING:
            return _is_json(read, start, cursor.place)
    return True


def _text(read: Read, start: int, end: int) -> str:
    return read(start, min(end, start + _PARSED)).decode("utf-8", "replace")


def _is_json(read: Read, start: int, end: int) -> bool:
    """Its brackets are known to be balanced, which those of `[12:00:01]` are too."""
    text = _text(read, start, end)
    if end - start > _PARSED:
        return begins_json(text)
    try:
        json.loads(text, strict=False, parse_int=str)  # as text: Python refuses to read very long numbers
    except RecursionError:
        return begins_json(text)
    except ValueError:
        return False
    return True
