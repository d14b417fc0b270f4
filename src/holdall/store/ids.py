"""Where handles, names and tags come from: the one place in the store that draws random numbers.

From the system, as `secrets` and `uuid` do; importing those costs more than all that is drawn in a short command.
"""

import os

from holdall.values.handles import LETTERS, LONGEST, MARK_LENGTH, SHORTEST, SIGNS


def new_uuid() -> str:
    """Version 4: all random but the six bits that say so."""
    drawn = bytearray(os.urandom(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    digits = drawn.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_tag(digits: int = 8) -> str:
    """Random hexadecimal digits: the name of a temporary file, what closes a text that is shown in part."""
    return os.urandom(digits // 2).hex()


def new_fence_tag() -> str:
    """The tag of a fence: three random digits, one token for most models. That is short, for a tag is drawn again, and
    becomes longer, until nothing inside its fence holds it.
    """
    return f"{int.from_bytes(os.urandom(8)) % 1000:03}"


def new_nonce() -> str:
    """128 random bits: proves that a text was written by the receiver of the nonce."""
    return os.urandom(16).hex()


def new_mark() -> str:
    """The mark of a session, which every real notice in it bears."""
    return _one_of(LETTERS) + "".join(_one_of(SIGNS) for _ in range(MARK_LENGTH - 1))


def new_handle(attempt: int) -> str:
    """A short handle. After a few collisions it grows, so that a crowded session still finds one at once."""
    length = min(SHORTEST + attempt // 4, LONGEST)
    return _one_of(LETTERS) + "".join(_one_of(SIGNS) for _ in range(length - 1))


def _one_of(signs: str) -> str:
    return signs[int.from_bytes(os.urandom(8)) % len(signs)]  # of 2**64: no sign is likelier by more than one in 2**58
