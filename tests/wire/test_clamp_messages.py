"""The guard before a transcript is kept: tool results are within the limits, all else is the same object."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from holdall.wire.clamp import SUFFIX, clamp_messages
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement

LIMITS = DIALECTS["clamp"].limits
LONG = "x" * 60_000
CUT = "x" * (51_200 - len(SUFFIX)) + SUFFIX


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


IMAGE = {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}

RESULTS = [
    pytest.param(
        {"role": "tool", "tool_call_id": "c1", "content": LONG},
        {"role": "tool", "tool_call_id": "c1", "content": CUT},
        id="openai, text",
    ),
    pytest.param(
        {"role": "tool", "tool_call_id": "c1", "content": [text_block(LONG), IMAGE]},
        {"role": "tool", "tool_call_id": "c1", "content": [text_block(CUT), IMAGE]},
        id="openai, parts",
    ),
    pytest.param(
        {"role": "function", "name": "f", "content": LONG},
        {"role": "function", "name": "f", "content": CUT},
        id="openai, functions of old",
    ),
    pytest.param(
        {"type": "function_call_output", "call_id": "c1", "output": LONG},
        {"type": "function_call_output", "call_id": "c1", "output": CUT},
        id="openai, responses",
    ),
    pytest.param(
        {"role": "user", "content": [text_block("look:"), {"type": "tool_result", "tool_use_id": "t1", "content": LONG}]},
        {"role": "user", "content": [text_block("look:"), {"type": "tool_result", "tool_use_id": "t1", "content": CUT}]},
        id="anthropic, text",
    ),
    pytest.param(
        {"role": "user", "content": [{"type": "tool_result", "is_error": True, "content": [IMAGE, text_block(LONG)]}]},
        {"role": "user", "content": [{"type": "tool_result", "is_error": True, "content": [IMAGE, text_block(CUT)]}]},
        id="anthropic, blocks",
    ),
    pytest.param(
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": LONG}]}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": CUT}]}}]},
        id="bedrock",
    ),
    pytest.param(
        {"role": "toolResult", "toolCallId": "c1", "content": [text_block(LONG)], "details": {"a": LONG}, "isError": False},
        {"role": "toolResult", "toolCallId": "c1", "content": [text_block(CUT)], "details": {"a": LONG}, "isError": False},
        id="pi, OpenClaw",
    ),
]  # fmt: skip


@requirement("clamp:pure")
@pytest.mark.parametrize(("message", "guarded"), RESULTS)
def test_an_oversized_result_is_clamped_and_the_rest_is_the_same(message: Any, guarded: Any) -> None:
    before: list[Any] = [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": [text_block(LONG)]},
        message,
    ]
    kept = copy.deepcopy(before)
    after = clamp_messages(before, LIMITS)
    assert after == [*before[:2], guarded]
    assert (after[0] is before[0], after[1] is before[1]) == (True, True)
    assert before == kept
    assert clamp_messages(after, LIMITS) is after


def test_messages_that_are_objects_are_copied() -> None:
    message = SimpleNamespace(type="tool", content=LONG, tool_call_id="c1")
    user = SimpleNamespace(role="user", content=(text_block("a"), {"type": "tool_result", "content": LONG}))
    after = clamp_messages([message, user], LIMITS)
    assert (after[0].content, after[0].tool_call_id, message.content) == (CUT, "c1", LONG)
    assert after[1].content == (text_block("a"), {"type": "tool_result", "content": CUT})


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([], id="none"),
        pytest.param([{"role": "tool", "content": "ok"}, {"role": "user", "content": LONG}], id="short results"),
        pytest.param(
            [{"role": "user", "content": [{"type": "tool_result", "content": "ok"}, "text"]}], id="short blocks"
        ),
        pytest.param(
            [{"role": "user", "content": [{"toolResult": {"content": [{"text": "ok"}]}}]}], id="short bedrock"
        ),
        pytest.param([{"role": "tool", "content": None}, None, 7, LONG], id="strange ones"),
    ],
)
def test_a_list_in_which_nothing_is_over_is_the_same_list(messages: list[object]) -> None:
    assert clamp_messages(messages, LIMITS) is messages


def test_each_result_has_the_budgets_for_itself() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": str(number), "content": "x" * 40_000} for number in range(5)]
    messages = [{"role": "user", "content": blocks}]
    assert clamp_messages(messages, LIMITS) is messages


def test_a_result_that_was_clamped_with_a_handle_keeps_it() -> None:
    text = "x\n" * 2000 + SUFFIX + "\n[all of it is kept; handle: k3f9]"
    messages = [{"role": "tool", "content": text}]
    assert clamp_messages(messages, LIMITS) is messages
