"""OpenAI Agents SDK: tool results that do not fit become notices, for an agent and all that it hands off to.

    result = await Runner.run(agent(my_agent), "…", run_config=RunConfig(group_id=conversation))

The SDK tells an agent nothing of the `session` of a run: the `group_id` of its trace names ours, or what `session=`
finds in the run context. Without either each run is a conversation. Copy an agent before you make a tool of it
(`as_tool`).
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import copy
import functools
import uuid
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast

from holdall import OutputStore, Settings, ToolSpec
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra

try:
    from agents import (
        Agent,
        FunctionTool,
        Handoff,
        RunContextWrapper,
        Tool,
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
    )
    from agents.extensions import ToolOutputTrimmer
    from agents.tool_context import ToolContext
    from agents.tracing import get_current_trace
except ImportError as missing:
    raise MissingExtra(missing.name or "agents", "openai-agents", "the adapter for the OpenAI Agents SDK") from missing

AnyAgent = TypeVar("AnyAgent", bound=Agent[Any])
Invoke = Callable[[ToolContext[Any], str], Awaitable[Any]]


def agent(
    agent: AnyAgent,
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[RunContextWrapper[Any]], str] | None = None,
    background: bool = True,
) -> AnyAgent:
    """A copy of the agent whose tool outputs are kept whole; what does not fit reaches the model as a notice."""
    conversations = Conversations(settings=settings, home=home, store=store, session=session, background=background)
    return _Copies(conversations).of(agent)


class _Run:
    """What is known of one run: its turns, and what its tools gave to the model."""

    def __init__(self) -> None:
        self.id = str(uuid.uuid4())
        self.turn = 0
        self.texts: list[str] = []


class _Copies:
    """The copies of an agent and of those that it can hand off to: one of each, for they may do so in circles."""

    def __init__(self, conversations: Conversations) -> None:
        self.conversations = conversations
        self._copies: weakref.WeakValueDictionary[int, Agent[Any]] = weakref.WeakValueDictionary()
        self._runs: weakref.WeakKeyDictionary[RunContextWrapper[Any], _Run] = weakref.WeakKeyDictionary()

    def of(self, agent: AnyAgent) -> AnyAgent:
        if getattr(type(agent), "holdall", None) is self.conversations:
            return agent
        copied: Any = self._copies.get(id(agent))
        if copied is None:
            copied = self._copies[id(agent)] = copy.copy(agent)
            copied.__class__ = _guarded(type(agent), self)
            copied.holdall_copy_of = agent  # which lives as long, so that its id is its own
            copied.handoffs = [self._handoff(one) for one in agent.handoffs]
        return cast("AnyAgent", copied)

    def _handoff(self, to: "Agent[Any] | Handoff[Any, Any]") -> "Agent[Any] | Handoff[Any, Any]":
        if isinstance(to, Agent):
            return self.of(to)
        copied, invoke = copy.copy(to), to.on_invoke_handoff
        target = (getattr(to, "_agent_ref", None) or _nobody)()  # a saved run finds its agents by this
        known = self.of(target) if target is not None else None
        if known is not None:
            vars(copied)["_agent_ref"] = weakref.ref(known)

        async def invoked(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            agent = await invoke(context, arguments)
            return known if known is not None and target is agent else self.of(agent)

        copied.on_invoke_handoff = invoked
        return copied

    def run(self, context: RunContextWrapper[Any]) -> _Run:
        return self._runs.setdefault(context, _Run())

    def name(self, context: RunContextWrapper[Any]) -> str:
        group: object = getattr(get_current_trace(), "group_id", None)
        return self.conversations.name(context, lambda: group or self.run(context).id)

    def guarded(self, tool: Tool, name: str, run: _Run) -> Tool:
        """What a program calls that has an `output_json_schema` has to keep to it: it is masked and no more."""
        if not isinstance(tool, FunctionTool):
            return tool
        copied = copy.copy(tool)

        async def invoked(inner: Invoke, context: ToolContext[Any], arguments: str) -> Any:
            if tool.output_json_schema is not None and _is_of_program(context):
                return await self.conversations.masked(name, await inner(context, arguments), tool.name)
            self._warn(context, is_unnamed=name.endswith(run.id))
            shown = await self.conversations.result(
                name, lambda: inner(context, arguments), tool=tool.name, running=str, arguments=arguments,
                call_id=context.tool_call_id, take=_outputs, put=lambda _, shown: shown[0],
            )  # fmt: skip
            run.texts += [shown] if isinstance(shown, str) else []
            return shown

        copied.on_invoke_tool = _wrapped(copied.on_invoke_tool, invoked)
        return copied

    def _warn(self, context: ToolContext[Any], *, is_unnamed: bool) -> None:
        config = context.run_config
        trimmer: Any = config.call_model_input_filter if config is not None else None
        if isinstance(trimmer, ToolOutputTrimmer) and trimmer.trimmable_tools is None:
            warnings.warn(
                "ToolOutputTrimmer cuts old notices, and their handles with them: name the tools that it may trim in "
                "trimmable_tools, and none that Holdall keeps.",
                stacklevel=2,
            )
        if is_unnamed and config is not None and config.group_id:
            warnings.warn("Tracing is off, and with it group_id: name conversations by session=….", stacklevel=2)

    def own(self, spec: ToolSpec, name: str, run: _Run) -> Tool:
        async def invoked(_: ToolContext[Any], arguments: str) -> str:
            answer = await self.conversations.answer(name, spec.plain_name, arguments)
            run.texts.append(answer.text)
            return answer.text

        return FunctionTool(spec.plain_name, spec.description, dict(spec.schema), invoked, strict_json_schema=False)


def _nobody() -> None: ...


def _is_of_program(context: ToolContext[Any]) -> bool:
    """Whether a program that the provider runs makes this call, and not the model."""
    caller: Any = getattr(context.tool_call, "caller", None)
    kind: Any = caller.get("type") if isinstance(caller, dict) else getattr(caller, "type", None)
    return kind == "program"


def _outputs(result: Any) -> list[object]:
    """One block alone is taken like a list of one, as which the SDK takes it too."""
    is_block = isinstance(result, ToolOutputText | ToolOutputImage | ToolOutputFileContent)
    return [[result]] if is_block else [result]


def _guarded(kind: type[Agent[Any]], copies: _Copies) -> type[Agent[Any]]:
    """A class, since the SDK makes copies of agents by theirs."""

    class Guarded(kind):
        holdall = copies.conversations  # `close` gives back its threads and files; no session ends by it

        async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Tool]:
            name, run = copies.name(run_context), copies.run(run_context)
            given = await super().get_all_tools(run_context)
            taken = copies.conversations.taken_names(tool.name for tool in given)
            tools = [copies.guarded(tool, name, run) for tool in given if tool.name not in taken]
            async with copies.conversations.of(name) as bag:
                return tools + [copies.own(spec, name, run) for spec in bag.tools()]

        async def get_system_prompt(self, run_context: RunContextWrapper[Any]) -> str | None:
            own = await super().get_system_prompt(run_context)
            run = copies.run(run_context)
            run.turn += 1
            added = await copies.conversations.request(
                copies.name(run_context), turn=run.turn,
                texts=lambda: [*_texts(run_context.turn_input), *run.texts],
            )  # fmt: skip
            return "\n\n".join(filter(None, (own, added.instructions, added.notice))) or None

    Guarded.__name__, Guarded.__qualname__ = kind.__name__, kind.__qualname__
    return Guarded


def _wrapped(inner: Any, invoked: Callable[[Invoke, ToolContext[Any], str], Awaitable[Any]]) -> Invoke:
    """An invoker of the SDK prepares the arguments for approval, so what takes its place is one of its class."""
    if not hasattr(inner, "prepare_arguments"):

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            return await invoked(inner, context, arguments)

        return invoke

    wrapped = copy.copy(inner)
    wrapped.holdall_invoked = invoked
    wrapped.__class__ = _wrapping(type(inner))
    return wrapped


@functools.cache  # making a class takes longer than a small call
def _wrapping(kind: Any) -> type:
    class Wrapped(kind):
        async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
            return await self.holdall_invoked(super().__call__, context, arguments)

        def __agents_bind_function_tool__(self, function_tool: FunctionTool) -> Any:
            bound = super().__agents_bind_function_tool__(function_tool)
            return self if bound is self else _wrapped(bound, self.holdall_invoked)

    return Wrapped


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in (
            cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        ):
            yield from _texts(one)
