"""The grammar of handles.

Three forms name an output: the short handle that a model sees (`k3f9`), the long one (`session-<uuid>/<uuid>`), and the
call id that came from outside. Only the first two have a grammar; a call id is compared as a value and never becomes
part of a path. Anything else is not a handle.

This module makes no handles: randomness lives in the store.
"""

import re

from holdall.values.errors import UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# No vowels, so that no handle spells a word; no l, o, 0 or 1, so that none is misread.
LETTERS = "bcdfghjkmnpqrstvwxyz"
SIGNS = LETTERS + "23456789"
SHORTEST, LONGEST = 4, 12

MARK_LENGTH = 5  # of a session's mark, which stands before a handle in dialects whose texts have no other place for it
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MARK = rf"[{LETTERS}][{SIGNS}]{{{MARK_LENGTH - 1}}}"
_MARKED = lazy_pattern(_MARK, re.ASCII)
_SHORT = lazy_pattern(rf"(?:{_MARK}-)?(?P<handle>[{LETTERS}][{SIGNS}]{{{SHORTEST - 1},{LONGEST - 1}}})", re.ASCII)
_LONG = lazy_pattern(rf"session-(?P<session>{_UUID})/(?P<id>{_UUID})", re.ASCII)
_BARE = lazy_pattern(_UUID, re.ASCII)


MEMBER = "!"  # between a handle and what is packed in its output: `k3f9!logs/app.log`


@record
class Short:
    handle: str


@record
class Long:
    session: str
    id: str


@record
class Foreign:
    """Neither form: at most a call id."""

    text: str


Reference = Short | Long | Foreign


def checked_text(handle: object) -> str:
    """A handle that a program gives, which nobody may have checked."""
    if not isinstance(handle, str):
        raise UsageError(f"a handle is text, not {type(handle).__name__}.")
    return handle


def parse(text: str, *, session: str) -> Reference:
    """Read a handle as it was written: no case folding, no trimming. A bare UUID is one of `session`."""
    text = checked_text(text)
    if match := _SHORT.fullmatch(text):
        return Short(match["handle"])
    if match := _LONG.fullmatch(text):
        return Long(match["session"], match["id"])
    if _BARE.fullmatch(text):
        return Long(session, text)
    return Foreign(text)


def format_long(session: str, id: str) -> str:
    return f"session-{session}/{id}"


def is_short(text: str) -> bool:
    return "-" not in text and _SHORT.fullmatch(text) is not None


def is_mark(text: str) -> bool:
    return _MARKED.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    return _BARE.fullmatch(text) is not None
