"""What is shown of an error, and what is kept of it.

The model reads the type and the message, clamped; the traceback is for the facts. Messages are gathered only until
there is more than can be shown, so a group of a thousand errors costs no more than one.
"""

import traceback
from typing import cast

from holdall.policy.decide import Limits
from holdall.wire.clamp_text import clamp_text

_GROUP_DEPTH = 64  # levels of nested groups; Python writes them by recursion
_GROUP_WIDTH = 10_000


def clamp_error(error: BaseException, limits: Limits, *, suffix: str | None = None, tag: str = "") -> str:
    """`ValueError: message`, with the messages of a group's members on lines of their own, within the limits."""
    shown = _messages(error, most=limits.bytes)
    return clamp_text(shown, max_bytes=limits.bytes, max_lines=limits.lines, suffix=suffix, tag=tag).text


def traceback_of(error: BaseException) -> str:
    """All of it as Python writes it, with its causes and the members of groups."""
    whole = traceback.TracebackException(
        type(error), error, error.__traceback__, max_group_depth=_GROUP_DEPTH, max_group_width=_GROUP_WIDTH
    )
    try:
        return "".join(whole.format())
    except RecursionError:  # called from deep down: as much as Python writes by itself
        return "".join(traceback.format_exception(error))


def _messages(error: BaseException, *, most: int | None) -> str:
    lines: list[str] = []
    length = 0
    waiting: list[tuple[int, BaseException]] = [(0, error)]
    while waiting and (most is None or length <= most):
        depth, one = waiting.pop()
        line = "  " * min(depth, _GROUP_DEPTH) + _message(one)
        lines.append(line)
        length += len(line) + 1
        if isinstance(one, BaseExceptionGroup):
            members = cast("BaseExceptionGroup[BaseException]", one).exceptions
            waiting.extend((depth + 1, member) for member in reversed(members))
    return "\n".join(lines)


def _message(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception as problem:  # an error's own text may fail, and this is no place to fail with it
        message = f"(its message could not be read: {type(problem).__name__})"
    return f"{name}: {message}" if message else name
