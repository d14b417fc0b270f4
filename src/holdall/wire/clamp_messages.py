"""The guard before a transcript is kept: every tool result in it within the limits, all else as it is.

Which messages hold results, and where, is known by `messages`.
"""

from typing import TypeVar, cast

from holdall.policy.decide import Limits
from holdall.wire.clamp_blocks import clamp_content
from holdall.wire.messages import results_in

Message = TypeVar("Message")


def clamp_messages(messages: list[Message], limits: Limits, *, tag: str = "") -> list[Message]:
    """The same list, or a new one with the oversized results clamped; all other messages are the same objects."""
    guarded = [cast("Message", _guarded(message, limits, tag)) for message in messages]
    changed = any(new is not old for new, old in zip(guarded, messages, strict=True))
    return guarded if changed else messages


def _guarded(message: object, limits: Limits, tag: str) -> object:
    for result in results_in(message):
        new = clamp_content(result.content, limits, tag=tag)
        if new is not result.content:
            message = result.replaced(message, new)
    return message
