"""The client's own model: what it is asked in plain values, and what its answers become."""

import pytest

from holdall.llm.protocol import Request
from holdall.llm.sampling import Sampled
from holdall.values.chat import Assistant, System, ToolCall, ToolResult, User
from holdall.values.errors import ModelBusy, ModelFault
from tests.llm.contract import asking
from tests.llm.rigs import SampledRig

pytestmark = pytest.mark.anyio


async def test_the_client_gets_plain_values() -> None:
    rig = SampledRig()
    rig.will_say("Disk 7.")
    messages = (
        System("Be terse."),
        User("Which disk?"),
        Assistant("", (ToolCall("1", "grep", {"pattern": "E"}),)),
        ToolResult("1", "grep", "disk 7"),
    )
    reply = await rig.model.ask(Request(messages, max_tokens=50))
    assert rig.seen == [
        (
            [
                ("user", "Which disk?"),
                ("assistant", '{"tool": "grep", "arguments": {"pattern": "E"}}'),
                ("user", "grep returned:\n<result>\ndisk 7\n</result>"),
            ],
            "Be terse.",
            50,
        )
    ]
    assert (reply.text, reply.model, reply.usage.cost) == ("Disk 7.", "some-model", None)
    assert reply.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("endTurn", "end"), ("stopSequence", "end"), (None, "end"), ("maxTokens", "length"), ("refusal", "refused")],
)
async def test_why_it_stopped(reason: str | None, stop: str) -> None:
    rig = SampledRig()
    rig.answer = Sampled("x", reason)
    assert (await rig.model.ask(asking("a"))).stop == stop


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (TimeoutError(), ModelBusy),
        (ConnectionResetError("gone"), ModelBusy),
        (RuntimeError("User rejected\nsampling request"), ModelFault),
        (KeyError(), ModelFault),
    ],
)
async def test_what_a_client_raises_is_told_as_an_error_of_the_model(
    raised: Exception, error: type[ModelFault]
) -> None:
    rig = SampledRig()
    rig.answer = raised
    with pytest.raises(ModelFault, match=r"the client did not sample: [^\n]+$") as told:
        await rig.model.ask(asking("a"))
    assert type(told.value) is error
