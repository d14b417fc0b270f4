"""JSON read piece by piece: a cursor that knows its byte, and the ways to step over what stands there.

It builds no values and holds one piece at a time, whatever the size and depth of the document.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

# How a stretch of JSON changes the depth of nesting, told without looking at its tokens one by one.
#
# Every step here is one call that runs over all bytes at machine speed; that is what makes stepping over large values
# several times faster than matching their tokens. Which bracket stands where is not told, only how many are left over.


_DROPPED = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_ROUNDS = 48  # nesting inside one stretch is rarely deeper; past this a loop over the brackets is cheaper

_leftover = re.compile(rb"([\]}]*+)([\[{]*+)")


class Balance(NamedTuple):
    closes: int  # brackets that close what was open before the stretch
    opens: int  # brackets that are still open after it
    inside: bool  # it ends inside a string
    broken: bool  # a bracket of one kind is closed by the other


def balance(stretch: bytes, inside: bool) -> Balance:
    """`inside` tells whether the stretch begins inside a string; it must not end in the middle of an escape."""
    if b"\\" in stretch:
        stretch = stretch.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side, an empty string or the border of two, leave everything else as far in or out as it was.
    signs = stretch.translate(None, _DROPPED).replace(b'""', b"")
    parts = signs.split(b'"')
    brackets = b"".join(parts[inside::2])
    for _ in range(_ROUNDS):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == before:
            break
    else:
        brackets = _unpaired(brackets)
    left = _leftover.match(brackets)
    closes, opens = (len(left[1]), len(left[2])) if left else (0, 0)
    return Balance(closes, opens, inside ^ (len(parts) % 2 == 0), broken=closes + opens < len(brackets))


def _unpaired(brackets: bytes) -> bytes:
    """The same for deep nesting: one pass with a stack."""
    left = bytearray()
    for sign in brackets:
        if left and (left[-1], sign) in ((0x7B, 0x7D), (0x5B, 0x5D)):
            left.pop()
        else:
            left.append(sign)
    return bytes(left)


# A place in a JSON text that is read piece by piece, and the ways to step over what stands there.
#
# Nothing is parsed into values and nothing is kept but the piece at hand, so memory is flat: strings, numbers and
# nested containers of any size are stepped over as they stream by. There is no recursion. What is stepped over is
# checked for closed strings and balanced brackets, no more.


Read = Callable[[int, int], bytes]

CHUNK = 256 * 1024
_SMALL = 1024  # bytes; a container up to this size is matched by one pattern
_BLOCK = 64 * 1024  # a longer one is measured in blocks that grow up to this size
_FINE = 256  # the block that holds its end is searched token by token when it is no longer than this
_LONG_SCALAR = 64 * 1024  # a number longer than this is not checked digit by digit
_BOM = b"\xef\xbb\xbf"

SPACE = rb"[ \t\r\n]*+"
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
SCALAR = rb'[^ \t\r\n"\\\[\]{},:]++'
_LITERAL = rb"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|NaN|-?Infinity)"


def container_pattern(string: bytes = STRING, levels: int = 3) -> bytes:
    """A pattern for a whole container that holds at most `levels` further levels."""
    nested = string + (b"|" + container_pattern(string, levels - 1) if levels else b"")
    plain = rb'[^"\[\]{}]*+'
    inside = plain + b"(?:(?:" + nested + b")" + plain + b")*+"
    return rb"(?:\{" + inside + rb"\}|\[" + inside + rb"\])"


_space = re.compile(SPACE)
_string = re.compile(STRING, re.DOTALL)
_in_string = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_scalar = re.compile(SCALAR)
_literal = re.compile(_LITERAL + rb"(?![^ \t\r\n,\]}])")
_container = re.compile(container_pattern(), re.DOTALL)
_token = re.compile(STRING + rb"|[\[\]{}]", re.DOTALL)
_key = re.compile(rb'"([^"\\]*+)"' + SPACE + b":" + SPACE + rb"(?=[^ \t\r\n])")

QUOTE, COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = b'",:[]{}'
ENDED = -1


class JsonFault(Exception):
    """The text is not JSON at `byte`; `expected` says what could have stood there."""

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
        self.at = 0
        self.end = 0
        self.base = len(_BOM) if start == 0 and read(0, len(_BOM)) == _BOM else start
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
        """Go to the next line that is not blank; False where there is none."""
        if self._begun and not self._pass_line():
            return False
        self._begun = True
        while self.peek() == ENDED:
            if not self._pass_line():
                return False
        return True

    def peek(self) -> int:
        """Step over white space; the byte that stands there, or ENDED."""
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

    def pass_value(self, *, strictly: bool = False) -> None:
        """Step over the value that stands here. `strictly`: a number or word must be one."""
        sign = self.peek()
        if sign in (OPEN_OBJECT, OPEN_ARRAY):
            self._pass_container()
        elif sign == QUOTE:
            self._pass_string()
        elif strictly:
            self._pass_literal()
        else:
            self._pass_scalar()

    def pass_levels(self, depth: int) -> None:
        """Step over everything up to the bracket that closes the `depth`-th container around this place."""
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
            if found.closes < depth and not found.broken:
                depth += found.opens - found.closes
                inside = found.inside
                self.at += len(piece)
                block = min(4 * block, _BLOCK)
            elif len(piece) > _FINE:
                block = max(_FINE, len(piece) // 4)
            else:
                self._pass_levels_within(self.at + len(piece), depth, inside)
                return

    def fault(self, expected: str, *, ended: bool | None = None) -> JsonFault:
        return JsonFault(self.place, expected, ended=self.at >= self.end if ended is None else ended)

    def _pass_levels_within(self, stop: int, depth: int, inside: bool) -> None:
        """The same token by token, where the end, or a bracket of the wrong kind, is known to stand before `stop`."""
        if inside:
            rest = _in_string.match(self.buf, self.at, stop)
            self.at = rest.end() + 1 if rest else self.at
        opened = bytearray()  # what was opened from here on, as the brackets that close it
        for match in _token.finditer(self.buf, self.at, stop):
            sign = self.buf[match.start()]
            if sign in (OPEN_OBJECT, OPEN_ARRAY):
                opened.append(sign + 2)  # in ASCII the closing bracket stands two places after the opening one
            elif sign != QUOTE and opened:
                if opened.pop() != sign:
                    self.at = match.start()
                    raise self.fault("the other closing bracket")
            elif sign != QUOTE:
                depth -= 1
                if depth == 0:
                    self.at = match.end()
                    return
        raise AssertionError("the balance of the brackets tells that they are closed here")

    def _pass_container(self) -> None:
        match = _container.match(self.buf, self.at, min(self.end, self.at + _SMALL))
        if match:
            self.at = match.end()
        else:
            self.at += 1
            self.pass_levels(1)

    def _pass_string(self) -> None:
        match = _string.match(self.buf, self.at, self.end)
        if match:
            self.at = match.end()
            return
        self.at += 1
        while True:
            rest = _in_string.match(self.buf, self.at, self.end)
            self.at = rest.end() if rest else self.at
            if self.at < self.end and self.buf[self.at] == QUOTE:
                self.at += 1
                return
            if not self.more():
                raise self.fault("the end of a string", ended=True)

    def _pass_scalar(self) -> None:
        start = self.place
        while True:
            match = _scalar.match(self.buf, self.at, self.end)
            self.at = match.end() if match else self.at
            if self.at < self.end or not self.more():
                break
        if self.place == start:
            raise self.fault("a value")

    def _pass_literal(self) -> None:
        while True:
            match = _literal.match(self.buf, self.at, self.end)
            if match and match.end() < self.end:
                self.at = match.end()
                return
            token = _scalar.match(self.buf, self.at, self.end)
            if token and token.end() == self.end and self.end - self.at <= _LONG_SCALAR and self.more():
                continue
            if match is None and (token is None or token.end() - token.start() <= _LONG_SCALAR):
                raise self.fault("a value")
            self._pass_scalar()
            return

    def _pass_line(self) -> bool:
        while self.end == len(self.buf):
            self.at = self.end
            if not self.more():
                return False
        self.at = self.end + 1
        self._find_end(self.at)
        return True

    def _find_end(self, start: int) -> None:
        newline = self.buf.find(b"\n", start) if self._lines else -1
        self.end = len(self.buf) if newline < 0 else newline
