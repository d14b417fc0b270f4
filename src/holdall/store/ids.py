"""Where handles, names and tags come from: the one place in the store that draws random numbers."""

import secrets
import uuid

from holdall.values.handles import LETTERS, LONGEST, SHORTEST, SIGNS


def new_uuid() -> str:
    return str(uuid.uuid4())


def new_tag(digits: int = 8) -> str:
    """Hexadecimal digits that nobody could have foreseen: the tag of a fence, the name of a temporary file."""
    return secrets.token_hex(digits // 2)


def new_nonce() -> str:
    """128 random bits: what proves that a text was written by the one who was told it."""
    return secrets.token_hex(16)


def new_handle(attempt: int) -> str:
    """A short handle. After a few collisions it grows, so that a crowded session still finds one at once."""
    length = min(SHORTEST + attempt // 4, LONGEST)
    return secrets.choice(LETTERS) + "".join(secrets.choice(SIGNS) for _ in range(length - 1))
