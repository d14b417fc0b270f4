"""Pydantic AI: tool results that do not fit become notices, by a capability.

    agent = Agent(model, capabilities=[Holdall()])

The `conversation_id` of a run names its session. A tool that another tool calls, as the code of a code mode does,
returns its value: only what goes to the model is replaced.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, cast

from holdall import OutputStore, Settings, ToolSpec, UsageError
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra

try:
    from pydantic_ai import BinaryContent, RunContext, Tool, ToolDefinition, ToolReturn
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import SkipToolExecution, ToolRetryError
    from pydantic_ai.messages import (
        BaseToolCallPart,
        BaseToolReturnPart,
        ModelMessage,
        ModelRequest,
        ToolCallPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as missing:
    raise MissingExtra(missing.name or "pydantic_ai", "pydantic-ai", "the adapter for Pydantic AI") from missing

_REPLACED = "ToolOutputLimits"  # of pydantic-ai-harness: it shortens at 10,000 characters what we would keep
_run: ContextVar[str | None] = ContextVar("holdall_run", default=None)  # the run whose tool is being called


class Holdall(AbstractCapability[Any]):
    """Keeps every tool output whole; what does not fit reaches the model as a notice with a handle.

    `close` gives back its threads and files; no session ends by it.
    """

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        home: str | None = None,
        store: OutputStore | None = None,
        session: str | Callable[[RunContext[Any]], str] | None = None,
        background: bool = True,
    ) -> None:
        self.conversations = Conversations(
            settings=settings, home=home, store=store, session=session, background=background
        )
        self.close = self.conversations.close

    def _name(self, ctx: RunContext[Any]) -> str:
        return self.conversations.name(ctx, lambda: ctx.conversation_id)

    async def before_run(self, ctx: RunContext[Any]) -> None:
        if any(type(one).__name__ == _REPLACED for one in ctx.capabilities.values()):
            raise UsageError(f"{_REPLACED} would cut results before Holdall can keep them: use one of the two.")

    # Tools and instructions

    def get_toolset(self) -> FunctionToolset[Any]:
        return FunctionToolset([self._tool(spec) for spec in self.conversations.specs()], id="holdall")

    def _tool(self, spec: ToolSpec) -> Tool[Any]:
        async def call(ctx: RunContext[Any], **arguments: Any) -> str:
            return (await self.conversations.answer(self._name(ctx), spec.plain_name, arguments)).text

        return Tool.from_schema(call, spec.plain_name, spec.description, dict(spec.schema), takes_ctx=True)

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        async with self.conversations.of(self._name(ctx)) as bag:
            listed = {spec.plain_name for spec in bag.tools()}
        return [one for one in tool_defs if one.name in listed or not self.conversations.owns(one.name)]

    def get_instructions(self) -> Callable[[RunContext[Any]], Any]:
        async def instructions(ctx: RunContext[Any]) -> str | None:
            async with self.conversations.of(self._name(ctx)) as bag:
                return bag.instructions() if bag.tools() else None

        return instructions

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        messages = request_context.messages
        added = await self.conversations.request(self._name(ctx), turn=ctx.run_step, texts=lambda: _texts(messages))
        last = messages[-1] if messages else None
        if not added.notice or not isinstance(last, ModelRequest):
            return request_context
        told = dataclasses.replace(last, parts=[*last.parts, UserPromptPart(added.notice)])
        return dataclasses.replace(request_context, messages=[*messages[:-1], told])  # of this request, not of history

    # Results

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Any],
    ) -> Any:
        of_framework = tool_def.tool_kind is not None and "." not in tool_def.tool_kind  # it reads what they return
        if of_framework or self.conversations.owns(tool_def.name) or _run.get() == ctx.run_id:
            return await handler(args)

        async def run() -> Any:
            token = _run.set(ctx.run_id)
            try:
                return await handler(args)
            finally:
                _run.reset(token)

        async def shown(result: Callable[[], Any]) -> Any:
            return await self.conversations.result(
                self._name(ctx), result, tool=tool_def.name, running=str, arguments=args, call_id=call.tool_call_id,
                take=_outputs, put=_with_outputs,
            )  # fmt: skip

        try:
            return await shown(run)
        except ToolRetryError as retry:  # the model reads its part, not its text
            part, text = retry.tool_retry, str(retry)
            if not isinstance(part.content, str) or text == str(ToolRetryError(part)):
                raise
            raise ToolRetryError(dataclasses.replace(part, content=text)) from None
        except SkipToolExecution as skipped:  # another capability has a result already
            given = asyncio.sleep(0, skipped.result)
            raise SkipToolExecution(await shown(lambda: given)) from skipped


def _outputs(result: Any) -> list[object]:
    """The value and what is sent beside it. A list that has files in it is taken one by one, else as one value."""
    if isinstance(result, ToolReturn):
        return _outputs(result.return_value) + ([] if result.content is None else _outputs(result.content))
    if isinstance(result, list) and any(isinstance(one, BinaryContent) for one in cast("list[object]", result)):
        return [output for one in cast("list[object]", result) for output in _outputs(one)]
    if isinstance(result, BinaryContent):
        return [[{"type": "file", "data": result.data, "media_type": result.media_type}]]
    return [result]


def _with_outputs(result: Any, shown: list[Any]) -> Any:
    """Takes from `shown` what `_outputs` gave, in its order."""
    if isinstance(result, ToolReturn):
        value = _with_outputs(result.return_value, shown)
        content = None if result.content is None else _with_outputs(result.content, shown)
        return dataclasses.replace(cast("ToolReturn[Any]", result), return_value=value, content=content)
    if isinstance(result, list) and any(isinstance(one, BinaryContent) for one in cast("list[object]", result)):
        made = [(one, _with_outputs(one, shown)) for one in cast("list[object]", result)]
        split = [cast("list[Any]", new) if isinstance(old, BinaryContent) and type(new) is list else [new]
                 for old, new in made]  # fmt: skip
        return [one for news in split for one in news]
    new = shown.pop(0)
    if not isinstance(result, BinaryContent):
        return new
    told = [one["text"] for one in new if "text" in one]
    masked = [dataclasses.replace(result, data=one["data"]) for one in new if "data" in one]
    return [*masked, *told] if masked and told else "\n".join(told) if told else result


def _texts(messages: Iterable[ModelMessage]) -> Iterator[str]:
    for part in (part for message in messages for part in message.parts):
        content: object = getattr(part, "content", None)
        if isinstance(part, BaseToolReturnPart):
            yield part.model_response_str()
        elif isinstance(part, BaseToolCallPart):
            yield part.args_as_json_str()
        elif isinstance(content, str):
            yield content
        elif isinstance(content, Sequence):
            yield from (one for one in cast("Sequence[object]", content) if isinstance(one, str))
