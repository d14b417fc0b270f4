"""LangChain, LangGraph and deepagents: results that do not fit become notices, in agents and in graphs of your own.

    agent = create_agent(model, tools, middleware=[middleware()])

In deepagents it also goes into the `middleware` of each sub-agent. It comes last of those that change results, so that
what the others return is kept too. In a graph without `create_agent`, `tool_node(tools)` takes the place of `ToolNode`;
its `.bind(model)` offers our tools.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import contextlib
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired, cast

from holdall import OutputStore, Settings, ToolSpec
from holdall.adapters import Additions, Conversations
from holdall.values.errors import MissingExtra
from holdall.wire.results import field, with_field

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import AgentState, PrivateStateAttr
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        RemoveMessage,
        SystemMessage,
        ToolMessage,
    )
    from langchain_core.messages.utils import convert_to_messages
    from langgraph.prebuilt import ToolNode
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.types import Command
except ImportError as missing:
    raise MissingExtra(missing.name or "langchain", "langchain", "the adapter for LangChain") from missing

Returned = ToolMessage | Command[Any] | list[ToolMessage | Command[Any]]
_KEY = "holdall_conversation"
_LONGEST_NAME = 64  # characters of a tool's name
_BESIDE = ("name", "role", "tool_calls", "invalid_tool_calls", "additional_kwargs")  # a content; models read them too


class _State(AgentState[Any]):
    holdall_conversation: NotRequired[Annotated[str, PrivateStateAttr]]


class Middleware(AgentMiddleware[Any, Any, Any]):
    """Made by `middleware`. `close` gives back its threads and files; no session ends by it."""

    state_schema = _State

    def __init__(self, conversations: Conversations) -> None:
        super().__init__()
        self.conversations = conversations
        self.close = conversations.close

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Without a thread, the conversation is the one whose notices are among its messages, else a new one."""
        if _thread(runtime) is not None or state.get(_KEY):
            return None
        return {_KEY: _noted_in(state["messages"]) or str(uuid.uuid4())}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        name, turn = _name(self.conversations, request), _turn(request.messages)
        added = self.conversations.request_now(name, turn=turn, texts=lambda: _texts(request))
        return handler(_with(self.conversations, request, added))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        name, turn = _name(self.conversations, request), _turn(request.messages)
        added = await self.conversations.request(name, turn=turn, texts=lambda: _texts(request))
        return await handler(_with(self.conversations, request, added))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        return _wrap(self.conversations, request, handler)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        return await _awrap(self.conversations, request, handler)


def middleware(
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[Any], str] | None = None,
    background: bool = True,
) -> Middleware:
    """For `create_agent` and `create_deep_agent`. The thread of a conversation (`thread_id`) names its session."""
    return Middleware(Conversations(settings=settings, home=home, store=store, session=session, background=background))


class HoldallToolNode(ToolNode):
    """Made by `tool_node`."""

    def __init__(self, tools: Sequence[Any], conversations: Conversations, **options: Any) -> None:
        self.conversations = conversations
        self.close = conversations.close
        key = options.get("messages_key", "messages")
        super().__init__(
            tools,
            wrap_tool_call=lambda request, handler: cast("Any", _wrap(conversations, request, handler, key)),
            awrap_tool_call=lambda request, handler: cast("Any", _awrap(conversations, request, handler, key)),
            **options,
        )

    def bind(self, model: Any, tools: Sequence[Any] | None = None, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - of a node nobody binds arguments
        """The model with these tools, by default those of the node, and ours. Its conversation has to be named by a
        `thread_id`, or by `session=`."""
        others = _others(self.conversations, list(self.tools_by_name.values() if tools is None else tools))
        return model.bind_tools([*others, *(spec.openai() for spec in self.conversations.specs())], **options)


def tool_node(
    tools: Sequence[Any],
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[Any], str] | None = None,
    background: bool = True,
    **options: Any,
) -> HoldallToolNode:
    """A `ToolNode` for graphs of your own; `options` are those of `ToolNode`."""
    conversations = Conversations(settings=settings, home=home, store=store, session=session, background=background)
    return HoldallToolNode(tools, conversations, **options)


# One call of a tool


def _wrap(
    conversations: Conversations,
    request: ToolCallRequest,
    handler: Callable[[ToolCallRequest], Any],
    key: str = "messages",
) -> Any:
    call, name = request.tool_call, _name(conversations, request)
    if conversations.owns(call["name"]):  # also where a tool of another has the same name: it is not offered
        return _message(request, conversations.answer_now(name, call["name"], call["args"]))
    return conversations.result_now(name, lambda: _unnoted(handler(request), key), **_origin(request, key))


async def _awrap(
    conversations: Conversations,
    request: ToolCallRequest,
    handler: Callable[[ToolCallRequest], Awaitable[Any]],
    key: str = "messages",
) -> Any:
    call, name = request.tool_call, _name(conversations, request)
    if conversations.owns(call["name"]):
        return _message(request, await conversations.answer(name, call["name"], call["args"]))

    async def handled() -> Any:
        return _unnoted(await handler(request), key)

    return await conversations.result(name, handled, **_origin(request, key))


def _origin(request: ToolCallRequest, key: str) -> dict[str, Any]:
    call = request.tool_call

    def running(text: str) -> ToolMessage:
        return _noted(request, ToolMessage(text, name=call["name"], tool_call_id=call["id"]))

    def put(returned: Any, shown: list[Any]) -> Any:
        before = list(_outputs(returned, key))
        noted = [one if one is old else _noted(request, one) for one, old in zip(shown, before, strict=True)]
        return _with_outputs(returned, noted, key)

    return {
        "tool": call["name"], "arguments": call["args"], "call_id": call["id"] or "", "running": running,
        "take": lambda returned: _outputs(returned, key), "put": put,
    }  # fmt: skip


def _message(request: ToolCallRequest, answer: Any) -> ToolMessage:
    call = request.tool_call
    status = "error" if answer.is_error else "success"
    return _noted(request, ToolMessage(answer.text, name=call["name"], tool_call_id=call["id"], status=status))


def _outputs(returned: Any, key: str = "messages") -> Iterator[object]:
    """In what a handler returned: a message, those of a command's update, or those of a list of both."""
    if isinstance(returned, list):
        for one in cast("list[Any]", returned):
            yield from _outputs(one, key)
    elif isinstance(returned, Command):
        for one in _updates(returned, key):
            yield from _of_message(one)
    elif isinstance(returned, ToolMessage):
        yield returned


def _of_message(message: BaseMessage) -> Iterator[object]:
    """Whoever says it in a command, a tool wrote it: its content, and what else a model reads of it."""
    if isinstance(message, ToolMessage):
        yield message
    elif not isinstance(message, RemoveMessage):
        yield message.content
        if beside := _beside(message):
            yield beside


def _beside(message: BaseMessage) -> dict[str, Any]:
    return {name: value for name in _BESIDE if (value := getattr(message, name, None))}


def _with_outputs(returned: Any, shown: list[Any], key: str = "messages") -> Any:
    if isinstance(returned, list):
        return [_with_outputs(one, shown, key) for one in cast("list[Any]", returned)]
    if isinstance(returned, Command):
        messages = [_with_output(one, shown) for one in _updates(returned, key)]
        return _with_messages(returned, messages, key) if messages else cast("Any", returned)
    return shown.pop(0) if isinstance(returned, ToolMessage) else returned


def _with_messages(command: Command[Any], messages: list[BaseMessage], key: str) -> Any:
    update: Any = command.update
    new: Any = messages if isinstance(update, list) else with_field(update, key, messages)
    return replace(command, update=new)


def _with_output(message: BaseMessage, shown: list[Any]) -> BaseMessage:
    if isinstance(message, RemoveMessage):
        return message
    new = shown.pop(0)
    if isinstance(message, ToolMessage):
        return new
    changed: dict[str, Any] = {} if new is message.content else {"content": new}
    if before := _beside(message):
        beside = shown.pop(0)
        if isinstance(beside, dict):
            changed |= {name: value for name, value in beside.items() if value != before.get(name)}
        else:  # a notice: of what it is about there stays what calls and their answers are told apart by
            content = [new] if isinstance(new, str) else new
            calls = [
                {**call, "name": call["name"][:_LONGEST_NAME], "args": {}} for call in before.get("tool_calls", ())
            ]
            empty = {
                "name": None,
                "role": "user",
                "invalid_tool_calls": [],
                "additional_kwargs": {},
                "tool_calls": calls,
            }
            changed = {name: empty[name] for name in before} | {"content": [*content, {"type": "text", "text": beside}]}
    return message.model_copy(update=changed) if changed else message


def _updates(command: Command[Any], key: str) -> Sequence[BaseMessage]:
    """Its messages, which may be dictionaries and pairs, as LangGraph reads them. What it cannot read it refuses."""
    update: Any = command.update
    # Messages alone, a dictionary, or an object: a dataclass or a pydantic model.
    found: Any = update if isinstance(update, list) else field(update, key)
    if found is None:
        return ()
    try:
        return convert_to_messages(found if isinstance(found, list) else [found])
    except (ValueError, TypeError, NotImplementedError):
        return ()


# The conversation, and a request to the model


def _name(conversations: Conversations, request: ModelRequest[Any] | ToolCallRequest) -> str:
    return conversations.name(request, lambda: _thread(request.runtime) or _unnamed(request.state))


def _thread(runtime: Any) -> str | None:
    configured = (getattr(runtime, "config", None) or {}).get("configurable") or {}
    return configured.get("thread_id") or getattr(getattr(runtime, "execution_info", None), "thread_id", None)


# A conversation without a thread has a random id of ours, which only its notices bear: ids of messages are chosen by
# clients, or stay the same where an application uses a message again.


def _unnamed(state: Any) -> str | None:
    return f"unnamed-{state[_KEY]}" if isinstance(state, dict) and state.get(_KEY) else None


def _noted(request: ToolCallRequest, message: Any) -> Any:
    if not isinstance(message, ToolMessage) or _thread(request.runtime) is not None or _unnamed(request.state) is None:
        return message
    noted = {**message.response_metadata, _KEY: cast("Any", request.state)[_KEY]}
    return message.model_copy(update={"response_metadata": noted})


def _unnoted(returned: Any, key: str) -> Any:
    """A tool does not say whose conversation it is."""
    if isinstance(returned, list):
        return [_unnoted(one, key) for one in cast("list[Any]", returned)]
    if isinstance(returned, Command):
        returned = _without_conversation(cast("Command[Any]", returned))
        before = _updates(returned, key)
        after = [_unnoted(one, key) for one in before]
        same = all(new is old for new, old in zip(after, before, strict=True))
        return cast("Any", returned) if same else _with_messages(returned, after, key)
    if not isinstance(returned, ToolMessage) or _KEY not in returned.response_metadata:
        return returned
    left = {name: value for name, value in returned.response_metadata.items() if name != _KEY}
    return returned.model_copy(update={"response_metadata": left})


def _without_conversation(command: Command[Any]) -> Command[Any]:
    """Of a tool LangGraph takes a dictionary for the state, messages alone, or an object with fields of the state."""
    update: Any = command.update
    if isinstance(update, list) or field(update, _KEY) is None:
        return command
    if not isinstance(update, dict):
        names = dict.fromkeys(name for one in type(update).__mro__ for name in getattr(one, "__annotations__", ()))
        update = {name: value for name in names if (value := getattr(update, name, None)) is not None}
    return replace(command, update={name: value for name, value in update.items() if name != _KEY})


def _noted_in(messages: Iterable[BaseMessage]) -> str | None:
    for one in messages:
        with contextlib.suppress(ValueError):
            if isinstance(one, ToolMessage) and isinstance(noted := one.response_metadata.get(_KEY), str):
                return str(uuid.UUID(noted))
    return None


def _turn(messages: Iterable[object]) -> int:
    return 1 + sum(isinstance(one, AIMessage) for one in messages)


def _texts(request: ModelRequest[Any]) -> Iterator[str]:
    system: list[BaseMessage] = [request.system_message] if request.system_message is not None else []
    return (one.text for one in [*system, *request.messages])


def _with(conversations: Conversations, request: ModelRequest[Any], added: Additions) -> ModelRequest[Any]:
    others = _others(conversations, request.tools)
    if not added.tools:
        return request if len(others) == len(request.tools) else request.override(tools=others)
    notice: list[AnyMessage] = [HumanMessage(added.notice)] if added.notice else []
    return request.override(
        tools=[*others, *map(_tool, added.tools)],
        system_message=_system(request.system_message, added.instructions),
        messages=[*request.messages, *notice],
    )


def _others(conversations: Conversations, tools: Sequence[Any]) -> list[Any]:
    """Without tools that are called like ours, as a server may call one: what they say would pass for our words."""
    taken = conversations.taken_names(map(_tool_name, tools))
    return [one for one in tools if _tool_name(one) not in taken]


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))
    inner = tool.get("function")
    return str((inner if isinstance(inner, dict) else tool).get("name", ""))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return spec.openai()


def _system(message: SystemMessage | None, instructions: str) -> SystemMessage:
    if message is None:
        return SystemMessage(instructions)
    blocks = [*message.content_blocks, {"type": "text", "text": f"\n\n{instructions}"}]
    return SystemMessage(content_blocks=cast("Any", blocks)) if isinstance(message.content, list) else (
        message.model_copy(update={"content": f"{message.content}\n\n{instructions}"})
    )  # fmt: skip
