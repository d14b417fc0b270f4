"""The tool results in the messages of a transcript: what each holds, whose it is, and the message with another.

Known are the messages of OpenAI (`role: tool`, `function_call_output`), of Anthropic (`tool_result` blocks), of Bedrock
(`toolResult` blocks) and of pi and OpenClaw (`role: toolResult`), as dictionaries or objects; and `Returned`, our own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from holdall.values.chat import Returned
from holdall.wire.clamp_fields import field, with_field
from holdall.wire.parts import is_error

_MESSAGES = ("tool", "function", "toolResult")
_ITEMS = ("function_call_output", "custom_tool_call_output")


@dataclass(frozen=True, slots=True)
class Result:
    """One result: its text or blocks, and how to put another content in its place."""

    content: object
    tool: str
    call_id: str
    is_error: bool
    replaced: Callable[[object, object], object]  # the message and the new content


def results_in(message: object) -> Iterator[Result]:
    if isinstance(message, Returned):
        own = message
        yield Result(own.text, own.name, own.call_id, own.is_error, lambda old, new: with_field(old, "text", new))
        return
    kind = field(message, "role", "type")
    if kind in _MESSAGES or kind in _ITEMS:
        name = "content" if kind in _MESSAGES else "output"
        content = field(message, name)
        if _is_content(content):
            yield _result(content, message, lambda old, new: with_field(old, name, new))
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

    yield _result(content, holder, replaced)


def _result(content: object, holder: object, replaced: Callable[[object, object], object]) -> Result:
    name = str(field(holder, "name", "toolName") or "")
    call_id = field(holder, "tool_call_id", "call_id", "tool_use_id", "toolCallId", "toolUseId")
    return Result(content, name, str(call_id or ""), is_error(holder), replaced)


def _is_content(content: object) -> bool:
    return isinstance(content, str | list | tuple)
