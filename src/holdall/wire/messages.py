"""The tool results in the messages of a transcript: what each holds, whose it is, and the message with another.

Known are the messages of OpenAI (`role: tool`, `function_call_output`), of Anthropic (`tool_result` blocks), of Bedrock
(`toolResult` blocks) and of pi and OpenClaw (`role: toolResult`), as dictionaries or as objects.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from holdall.wire.clamp_fields import field, with_field

_MESSAGES = ("tool", "function", "toolResult")
_ITEMS = ("function_call_output", "custom_tool_call_output")


@dataclass(frozen=True, slots=True)
class Result:
    """One result: its text or blocks, and how to put another content in its place."""

    content: object
    tool: str
    call_id: str
    replaced: Callable[[object, object], object]  # the message and the new content


def results_in(message: object) -> Iterator[Result]:
    kind = field(message, "role", "type")
    if kind in _MESSAGES or kind in _ITEMS:
        name = "content" if kind in _MESSAGES else "output"
        content = field(message, name)
        if _is_content(content):
            yield Result(content, _name(message), _id(message), lambda old, new: with_field(old, name, new))
        return
    content = field(message, "content")
    if isinstance(content, list | tuple):
        for at, block in enumerate(cast("Sequence[object]", content)):
            yield from _in_block(block, at)


def _in_block(block: object, at: int) -> Iterator[Result]:
    kind = field(block, "type")
    inner = None if isinstance(block, str) else field(block, "toolResult")
    holder = block if isinstance(kind, str) and kind.endswith("tool_result") else inner
    content = field(holder, "content") if holder is not None else None
    if not _is_content(content):
        return

    def replaced(message: object, new: object) -> object:
        before = cast("Sequence[object]", field(message, "content"))
        blocks = list(before)
        old = blocks[at]
        if inner is None:
            blocks[at] = with_field(old, "content", new)
        else:
            blocks[at] = with_field(old, "toolResult", with_field(field(old, "toolResult"), "content", new))
        return with_field(message, "content", tuple(blocks) if isinstance(before, tuple) else blocks)

    yield Result(content, _name(holder), _id(holder), replaced)


def _is_content(content: object) -> bool:
    return isinstance(content, str | list | tuple)


def _name(value: object) -> str:
    return str(field(value, "name", "toolName") or "")


def _id(value: object) -> str:
    return str(field(value, "tool_call_id", "call_id", "tool_use_id", "toolCallId", "toolUseId") or "")
