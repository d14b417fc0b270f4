"""Tools for a model that has no calls of its own: it writes its call as JSON, held to a schema where it can be.

The texts and the reader are in `wire.actions`; this only puts them around a model. A request without tools passes
unchanged.
"""

from dataclasses import replace

from holdall.llm.protocol import Model, Request
from holdall.llm.wrapped import Wrapped
from holdall.values.chat import Message, Reply, Said, ToolCall
from holdall.values.errors import WrongUse
from holdall.wire.actions import action_schema, as_plain_messages, read_action


def with_tools(model: Model) -> Model:
    """The same model, able to call tools; itself where it is already."""
    return model if model.calls_tools else Acting(model)


class Acting(Wrapped):
    """Every tool call is an action that the model writes, one a turn."""

    @property
    def calls_tools(self) -> bool:
        return True

    async def ask(self, request: Request) -> Reply:
        if request.tools and request.schema is not None:
            raise WrongUse(f"{self.name} was given tools and a schema at once: a request has one of them.")
        if not request.tools:
            messages = as_plain_messages(request.messages) if _has_calls(request.messages) else request.messages
            return await self.inner.ask(replace(request, messages=messages))
        schema = action_schema(request.tools) if self.inner.keeps_schema else None
        messages = as_plain_messages(request.messages, request.tools)
        reply = await self.inner.ask(replace(request, messages=messages, tools=(), schema=schema))
        action = read_action(reply.text, request.tools)
        if not action.tool:
            return replace(reply, text=action.answer)
        call = ToolCall(f"action-{_calls_so_far(request.messages) + 1}", action.tool, action.arguments)
        return replace(reply, text="", calls=(call,), stop="length" if reply.stop == "length" else "calls")


def _has_calls(messages: tuple[Message, ...]) -> bool:
    return _calls_so_far(messages) > 0


def _calls_so_far(messages: tuple[Message, ...]) -> int:
    return sum(len(message.calls) for message in messages if isinstance(message, Said))
