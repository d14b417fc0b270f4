"""How a stretch of JSON changes the depth of nesting, told without looking at its tokens one by one.

Every step here is one call that runs over all bytes at machine speed; that is what makes stepping over large values
several times faster than matching their tokens. Which bracket stands where is not told, only how many are left over.
"""

import re
from typing import NamedTuple

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
