"""The guard before a transcript is kept: every tool result in it within the limits, all else as it is.

Known are the messages of OpenAI (`role: tool`, `function_call_output`), of Anthropic (`tool_result` blocks), of Bedrock
(`toolResult` blocks) and of pi and OpenClaw (`role: toolResult`), as dictionaries or as objects.
"""

from collections.abc import Sequence
from typing import TypeVar, cast

from holdall.policy.limits import Limits
from holdall.wire.clamp_blocks import clamp_field
from holdall.wire.clamp_fields import field, with_field

Message = TypeVar("Message")

_RESULT_MESSAGES = ("tool", "function", "toolResult")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")


def clamp_messages(messages: list[Message], limits: Limits, *, tag: str = "") -> list[Message]:
    """The same list, or a new one with the oversized results clamped; all other messages are the same objects."""
    guarded = [cast("Message", _guarded(message, limits, tag)) for message in messages]
    changed = any(new is not old for new, old in zip(guarded, messages, strict=True))
    return guarded if changed else messages


def _guarded(message: object, limits: Limits, tag: str) -> object:
    kind = field(message, "role", "type")
    if kind in _RESULT_MESSAGES:
        return clamp_field(message, "content", limits, tag=tag)
    if kind in _RESULT_ITEMS:
        return clamp_field(message, "output", limits, tag=tag)
    content = field(message, "content")
    if not isinstance(content, list | tuple):
        return message
    blocks = cast("Sequence[object]", content)
    guarded = [_guarded_block(block, limits, tag) for block in blocks]
    if all(new is old for new, old in zip(guarded, blocks, strict=True)):
        return message
    return with_field(message, "content", tuple(guarded) if isinstance(blocks, tuple) else guarded)


def _guarded_block(block: object, limits: Limits, tag: str) -> object:
    kind = field(block, "type")
    if isinstance(kind, str) and kind.endswith("tool_result"):  # there are also mcp_tool_result and the like
        return clamp_field(block, "content", limits, tag=tag)
    inner = None if isinstance(block, str) else field(block, "toolResult")
    if inner is None:
        return block
    new = clamp_field(inner, "content", limits, tag=tag)
    return block if new is inner else with_field(block, "toolResult", new)
