"""Strands Agents: tool results that do not fit become notices, by a plugin; one serves any number of agents.

    agent = Agent(model, tools=tools, plugins=[plugin()])

The session of a session manager names ours; an agent without one is a conversation of its own. Results are replaced
inside the span of their tool, so traces and metrics have notices too. A call from your own code (`agent.tool.name()`)
returns its value; what is added to the conversation is the notice.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import uuid
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, cast

from holdall import OutputStore, Settings, ToolSpec
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra

try:
    from strands import Agent
    from strands.hooks import HookOrder, MessageAddedEvent
    from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelContext, InvokeModelStage
    from strands.plugins import Plugin
    from strands.types._events import ToolInterruptEvent
    from strands.types.events import ToolResultEvent, TypedEvent
    from strands.types.tools import AgentTool, ToolUse
except ImportError as missing:
    raise MissingExtra(missing.name or "strands", "strands", "the adapter for Strands Agents") from missing

_OFFLOADER = "retrieve_offloaded_content"  # the tool of Strands' own ContextOffloader
_OF_MODEL = "event_loop_cycle_id"  # in the state of calls that a model made


def plugin(
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[Agent], str] | None = None,
    background: bool = True,
) -> "HoldallPlugin":
    """Keeps every tool output whole; what does not fit reaches the model as a notice with a handle."""
    return HoldallPlugin(
        Conversations(settings=settings, home=home, store=store, session=session, background=background)
    )


class HoldallPlugin(Plugin):
    """Made by `plugin`. `close` gives back its threads and files; no session ends by it."""

    name = "holdall"

    def __init__(self, conversations: Conversations) -> None:
        super().__init__()
        self.conversations = conversations
        self.close = conversations.close
        self._unnamed: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def init_agent(self, agent: Agent) -> None:
        for name in self.conversations.taken_names(list(agent.tool_registry.registry)):
            del agent.tool_registry.registry[name]
        for spec in self.conversations.specs():
            agent.tool_registry.register_tool(_Own(self, agent, spec))
        agent.add_middleware(ExecuteToolStage.Input, self._guarded)
        agent.add_middleware(InvokeModelStage.Input, self._request)
        agent.add_hook(self._added, MessageAddedEvent, order=HookOrder.DEFAULT - 1)  # before a session manager saves it

    def session_of(self, agent: Any) -> str:
        """The id that Strands makes for an agent without a session manager is too short to be the only one."""
        return self.conversations.name(agent, lambda: self._identity(agent))

    def _identity(self, agent: Any) -> object:
        if getattr(agent, "_session_manager", None) is not None:
            return agent.session_id
        return self._unnamed.get(agent) or self._unnamed.setdefault(agent, str(uuid.uuid4()))

    def _guarded(self, context: ExecuteToolContext) -> ExecuteToolContext:
        tool = context.tool
        if tool is None or isinstance(tool, _Own) or _OF_MODEL not in context.invocation_state:
            return context
        return context.replace(tool=_Guarded(self, context.agent, tool))

    async def _added(self, event: MessageAddedEvent) -> None:
        """The result of a call from code is not replaced before it is added to the conversation."""
        content = event.message["content"]
        results = {one["toolResult"]["toolUseId"] for one in content if "toolResult" in one}
        if not results:
            return
        # With their calls, which say what tools they are of: policies go by that. They are among the last messages.
        calls, sought = list[Any](), set(results)
        for one in reversed(event.agent.messages):
            if sought & (made := _calls_in(one)):
                calls.insert(0, one)
                sought -= made
            if not sought:
                break
        async with self.conversations.of(self.session_of(event.agent)) as bag:
            [*_, guarded] = await bag.guard([*calls, event.message])
        event.message["content"] = guarded["content"]

    async def _request(self, context: InvokeModelContext) -> InvokeModelContext:
        if any(spec["name"] == _OFFLOADER for spec in context.tool_specs):
            warnings.warn(
                "Holdall takes the place of ContextOffloader: with both on, leave that one out.", stacklevel=2
            )
        turn = 1 + sum(one["role"] == "assistant" for one in context.messages)
        added = await self.conversations.request(
            self.session_of(context.agent), turn=turn, texts=lambda: _texts([context.system_prompt, context.messages])
        )
        listed = {spec.plain_name for spec in added.tools}
        owns = self.conversations.owns
        specs = [one for one in context.tool_specs if one["name"] in listed or not owns(one["name"])]
        told, trailing = list(context.messages), context.dynamic_trailing_blocks
        if added.notice and told:
            told[-1] = {**told[-1], "content": [*told[-1]["content"], {"text": added.notice}]}
            trailing += 1
        prompt = _with_text(context.system_prompt, added.instructions)
        return context.replace(messages=told, system_prompt=prompt, tool_specs=specs, dynamic_trailing_blocks=trailing)


class _Tool(AgentTool):
    tool_name = ""
    tool_type = "holdall"
    tool_spec = cast("Any", None)

    def __init__(self, plugin: HoldallPlugin, agent: Any) -> None:
        super().__init__()
        self.plugin = plugin
        self.agent = weakref.ref(agent)

    @property
    def session(self) -> str:
        return self.plugin.session_of(self.agent())


class _Own(_Tool):
    def __init__(self, plugin: HoldallPlugin, agent: Any, spec: ToolSpec) -> None:
        super().__init__(plugin, agent)
        self.tool_name = spec.plain_name
        self.tool_spec = {
            "name": spec.plain_name, "description": spec.description, "inputSchema": {"json": dict(spec.schema)}
        }  # fmt: skip

    async def stream(self, tool_use: ToolUse, _state: dict[str, Any], **_: Any) -> AsyncGenerator[TypedEvent, None]:
        answer = await self.plugin.conversations.answer(self.session, self.tool_name, tool_use["input"])
        yield _event(tool_use, answer.text, is_error=answer.is_error)


class _Guarded(_Tool):
    """Another tool, whose result is what the model should get of it. What it streams passes, by its policy masked."""

    def __init__(self, plugin: HoldallPlugin, agent: Any, tool: AgentTool) -> None:
        super().__init__(plugin, agent)
        self.tool = tool
        self.tool_name, self.tool_spec, self.tool_type = tool.tool_name, tool.tool_spec, tool.tool_type

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        events: asyncio.Queue[Any] = asyncio.Queue()

        async def pass_on(event: Any) -> None:
            events.put_nowait(await self.plugin.conversations.masked(self.session, event, self.tool_name))

        async def call() -> Any:
            """The last event: a result, an interrupt, or what a tool that is not Strands' own ends with."""
            held: Any = None
            async for event in self.tool.stream(tool_use, invocation_state, **kwargs):
                if isinstance(event, ToolInterruptEvent | ToolResultEvent):
                    return event
                if held is not None:
                    await pass_on(held)
                held = None if isinstance(event, TypedEvent) else event
                if held is None:
                    await pass_on(event)
            return held

        result = asyncio.ensure_future(
            self.plugin.conversations.result(
                self.session, call, tool=self.tool_name, running=lambda text: _event(tool_use, text),
                arguments=tool_use["input"], call_id=tool_use["toolUseId"], take=_outputs, put=_with_outputs,
            )
        )  # fmt: skip
        result.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield await result
        finally:
            result.cancel()


def _event(tool_use: ToolUse, text: str, *, is_error: bool = False) -> ToolResultEvent:
    status = "error" if is_error else "success"
    return ToolResultEvent({"toolUseId": tool_use["toolUseId"], "status": status, "content": [{"text": text}]})


def _calls_in(message: Any) -> set[str]:
    return {one["toolUse"]["toolUseId"] for one in message["content"] if "toolUse" in one}


def _outputs(event: Any) -> list[object]:
    if isinstance(event, ToolInterruptEvent):
        return []
    return [event.tool_result] if isinstance(event, ToolResultEvent) else [event]


def _with_outputs(event: Any, shown: list[Any]) -> Any:
    return ToolResultEvent(shown[0], exception=event.exception) if isinstance(event, ToolResultEvent) else shown[0]


def _with_text(prompt: Any, text: str) -> Any:
    if not text or not prompt:
        return text or prompt
    return f"{prompt}\n\n{text}" if isinstance(prompt, str) else [*prompt, {"text": text}]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        for one in inner:
            yield from _texts(one)
