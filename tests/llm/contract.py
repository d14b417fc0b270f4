"""What every model promises, whatever is behind it. Each implementation brings a `Rig` and runs all of it.

A rig stands between the test and the model: it makes the model say something, where that can be made. A real model
says what it likes, so only the form of what it says is looked at then (`exact` is false).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from holdall.llm.protocol import Model, Request
from holdall.values.chat import Assistant, System, ToolResult, User
from holdall.values.errors import ModelOverflow, UsageError
from holdall.wire.tool import ToolSpec

SECONDS = 100.0
GREP = ToolSpec(
    "context.grep",
    "Searches the log for a word.",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)
COLOUR: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "maxLength": 20}},
    "required": ["colour"],
    "additionalProperties": False,
}
# Nobody is done with this soon: a thousand words before the reply may end.
LONG: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1000}


class Rig(Protocol):
    exact: bool

    @property
    def model(self) -> Model: ...

    def will_say(self, text: str) -> None: ...

    def will_be_cut(self, text: str) -> None: ...

    def will_call(self, name: str, arguments: dict[str, Any]) -> None: ...

    def will_hang(self) -> None: ...

    def will_find_it_too_long(self) -> None: ...

    async def has_begun(self) -> None:
        """Until the request has reached whoever answers it."""
        ...

    async def was_left_alone(self) -> None:
        """Until whoever answers has seen that nobody waits any more."""
        ...


def asking(text: str, **more: Any) -> Request:
    return Request((System("You are terse."), User(text)), **more)


@pytest.mark.anyio
class ModelContract:
    """Subclasses define the fixture `rig`."""

    @pytest.fixture(autouse=True)
    async def closed_after(self, rig: Rig) -> AsyncIterator[None]:
        yield
        await rig.model.close()

    async def test_it_tells_its_name_and_its_sizes(self, rig: Rig) -> None:
        model = rig.model
        assert model.name
        assert 0 < model.max_output < model.window
        assert isinstance(model.calls_tools, bool)
        assert isinstance(model.keeps_schema, bool)

    async def test_it_answers_with_a_text_and_what_that_took(self, rig: Rig) -> None:
        rig.will_say("Blue.")
        reply = await rig.model.ask(asking("Name a colour in one word.", max_tokens=60))
        assert reply.text == "Blue." if rig.exact else reply.text.strip()
        assert reply.calls == ()
        assert reply.stop == "end" if rig.exact else reply.stop in ("end", "length")
        assert reply.usage.input_tokens > 0
        assert reply.usage.output_tokens > 0
        assert reply.model

    async def test_a_reply_that_was_cut_off_says_so(self, rig: Rig) -> None:
        rig.will_be_cut("Once upon a")
        reply = await rig.model.ask(asking("Tell me a long story about a lighthouse.", max_tokens=6))
        assert reply.stop == "length"
        assert reply.text == "Once upon a" if rig.exact else reply.text

    async def test_it_calls_a_tool_where_it_can_and_refuses_tools_where_it_cannot(self, rig: Rig) -> None:
        request = asking("Which disk failed? Search with the tool.", tools=(GREP,), max_tokens=60)
        if not rig.model.calls_tools:
            with pytest.raises(UsageError, match="calls no tools by itself"):
                await rig.model.ask(request)
            return
        rig.will_call("context.grep", {"pattern": "ERROR"})
        reply = await rig.model.ask(request)
        if not rig.exact and not reply.calls:
            return  # a real model may rather answer
        (call,) = reply.calls
        assert call.name == "context.grep"
        assert call.id
        assert call.arguments == {"pattern": "ERROR"} if rig.exact else "pattern" in call.arguments
        assert reply.stop == "calls"

    async def test_it_goes_on_after_the_result_of_a_call(self, rig: Rig) -> None:
        if not rig.model.calls_tools:
            return
        rig.will_call("context.grep", {"pattern": "ERROR"})
        request = asking("Which disk failed? Search with the tool.", tools=(GREP,), max_tokens=60)
        first = await rig.model.ask(request)
        results = tuple(ToolResult(call.id, call.name, "disk 7 ERROR") for call in first.calls)
        rig.will_say("Disk 7.")
        more = (*request.messages, Assistant(first.text, first.calls), *results, User("Now answer."))
        second = await rig.model.ask(Request(more, (GREP,), max_tokens=60))
        assert not rig.exact or (second.text, second.calls, second.stop) == ("Disk 7.", (), "end")

    async def test_it_is_held_to_a_schema_where_it_can_be(self, rig: Rig) -> None:
        request = asking("Name a colour.", schema=COLOUR, max_tokens=80)
        if not rig.model.keeps_schema:
            with pytest.raises(UsageError, match="cannot be held to a schema"):
                await rig.model.ask(request)
            return
        rig.will_say('{"colour": "blue"}')
        reply = await rig.model.ask(request)
        assert isinstance(json.loads(reply.text)["colour"], str)

    async def test_a_request_that_is_too_long_is_told_as_that(self, rig: Rig) -> None:
        rig.will_find_it_too_long()
        with pytest.raises(ModelOverflow):
            await rig.model.ask(asking("word " * (2 * rig.model.window if not rig.exact else 10)))

    async def test_a_cancelled_request_ends_and_whoever_answers_it_is_told(self, rig: Rig) -> None:
        rig.will_hang()
        request = asking("List words.", schema=LONG if rig.model.keeps_schema else None)
        async with asyncio.timeout(SECONDS):
            task = asyncio.ensure_future(rig.model.ask(request))
            await rig.has_begun()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await rig.was_left_alone()

    async def test_several_at_once_are_all_answered(self, rig: Rig) -> None:
        rig.will_say("Yes.")
        async with asyncio.timeout(SECONDS):
            replies = await asyncio.gather(
                *(rig.model.ask(asking(f"Is {n} a number?", max_tokens=4)) for n in range(4))
            )
        assert len(replies) == 4
        assert all(reply.text for reply in replies)

    async def test_what_cannot_be_asked_is_refused(self, rig: Rig) -> None:
        with pytest.raises(UsageError):
            await rig.model.ask(Request(()))
        with pytest.raises(UsageError):
            await rig.model.ask(asking("x", tools=(GREP,), schema=COLOUR))

    async def test_closing_twice_is_as_good_as_once(self, rig: Rig) -> None:
        rig.will_say("Blue.")
        await rig.model.ask(asking("Name a colour.", max_tokens=4))
        await rig.model.close()
        await rig.model.close()
