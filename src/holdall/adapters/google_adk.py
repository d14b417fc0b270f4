"""Google ADK: tool results that do not fit become notices, for every agent of an app.

    app = App(name="app", root_agent=agent, plugins=[plugin()])

App, user and id of its session name ours. An `AgentTool` has a session of its own there, and so here. A tool that is a
node of a workflow returns its value, which goes to code. The ADK calls a plain function on its loop, so that one cannot
go to the background.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import quote

from holdall import OutputStore, Settings, ToolSpec
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LlmRequest
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as missing:
    raise MissingExtra(missing.name or "google-adk", "google-adk", "the adapter for Google ADK") from missing


_MEDIA = (types.Part, types.FunctionResponsePart)


def plugin(
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[CallbackContext], str] | None = None,
    background: bool = True,
) -> "HoldallPlugin":
    """Keeps every tool output whole; what does not fit reaches the model as a notice with a handle."""
    return HoldallPlugin(
        Conversations(settings=settings, home=home, store=store, session=session, background=background)
    )


class HoldallPlugin(BasePlugin):
    """Made by `plugin`. `close`, which a runner calls, gives back its threads and files; no session ends by it."""

    def __init__(self, conversations: Conversations) -> None:
        super().__init__(name="holdall")
        self.conversations = conversations
        self._shown: weakref.WeakSet[Any] = weakref.WeakSet()  # contexts of calls whose result was taken

    def name_of(self, context: CallbackContext) -> str:
        of = context.session
        parts = (quote(one, safe="@ ") for one in (of.app_name, of.user_id, of.id))  # a user may be called "a/b"
        return self.conversations.name(context, lambda: "/".join(parts))

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        for name, tool in llm_request.tools_dict.items():
            llm_request.tools_dict[name] = self._guarded(tool)
        name = self.name_of(callback_context)
        added = await self.conversations.request(name, turn=_turn(llm_request), texts=lambda: _texts(llm_request))
        llm_request.append_tools([_Own(self, spec) for spec in added.tools])
        if added.instructions:
            llm_request.append_instructions([added.instructions])
        if added.notice:
            llm_request.contents.append(types.Content(role="user", parts=[types.Part(text=added.notice)]))

    def _guarded(self, tool: BaseTool) -> BaseTool:
        """A copy, so that confirmation is asked for before and outside of what may go to the background."""
        if hasattr(tool, "holdall_guarded") or tool._defers_response:  # pyright: ignore[reportPrivateUsage]
            return tool
        copied: Any = copy.copy(tool)

        async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
            call = tool.run_async
            shown = await self._result(tool, args, tool_context, lambda: call(args=args, tool_context=tool_context))
            self._shown.add(tool_context)
            return shown

        copied.run_async, copied.holdall_guarded = run_async, True
        return copied

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Of what was confirmed, which is called without a request to the model, or is another plugin's result."""
        if isinstance(tool, _Own) or tool_context in self._shown or tool_context.node is not None:
            return None

        async def ended() -> Any:
            return result

        shown = await self._result(tool, tool_args, tool_context, ended)
        return None if shown is result else cast("dict[str, Any]", shown)

    async def _result(self, tool: BaseTool, args: dict[str, Any], context: ToolContext, call: Callable[[], Any]) -> Any:
        return await self.conversations.result(
            self.name_of(context), call, tool=tool.name, running=str, arguments=args,
            call_id=context.function_call_id or "", take=_outputs, put=_with_outputs,
        )  # fmt: skip

    async def close(self) -> None:
        await asyncio.to_thread(self.conversations.close)


class _Own(BaseTool):
    holdall_guarded = True

    def __init__(self, plugin: HoldallPlugin, spec: ToolSpec) -> None:
        super().__init__(name=spec.plain_name, description=spec.description)
        self._plugin = plugin
        self._spec = spec

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=dict(self._spec.schema)
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        answer = await self._plugin.conversations.answer(self._plugin.name_of(tool_context), self.name, args)
        return {"error": answer.text} if answer.is_error else {"result": answer.text}


def _outputs(result: Any) -> list[object]:
    """The value. Media in it, or in a list or dictionary, are taken one by one, as the ADK does."""
    if isinstance(result, types.FunctionResponse):
        return [*_outputs(result.response), *(output for one in result.parts or () for output in _outputs(one))]
    if isinstance(result, types.Part) and result.text is not None:
        return [result.text]
    if isinstance(result, _MEDIA) and result.inline_data is not None:
        return [[{"type": "file", "data": result.inline_data.data, "media_type": result.inline_data.mime_type}]]
    held = _held(result)
    return [result] if held is None else [output for one in held.values() for output in _outputs(one)]


def _with_outputs(result: Any, shown: list[Any]) -> Any:
    """Takes from `shown` what `_outputs` gave, in its order."""
    if isinstance(result, types.FunctionResponse):
        response: Any = _with_outputs(result.response, shown)
        made = [_with_outputs(one, shown) for one in result.parts or ()]
        parts = [one for some in made for one in (some if isinstance(some, list) else [some])]
        if told := [one for one in parts if isinstance(one, str)]:  # in the place of media
            response = (
                {**response, "notes": told} if isinstance(response, dict) else {"result": response, "notes": told}
            )
        media = [one for one in parts if not isinstance(one, str)]
        return result.model_copy(update={"response": response, "parts": media or None})
    held = _held(result)
    if held is not None:
        made = {key: _with_outputs(one, shown) for key, one in held.items()}
        return made if isinstance(result, dict) else list(made.values())
    new = shown.pop(0)
    if isinstance(result, types.Part) and result.text is not None:
        return result if new is result.text else result.model_copy(update={"text": new})
    if isinstance(result, _MEDIA) and result.inline_data is not None:
        told = [one["text"] for one in new if "text" in one]
        blobs = [result.inline_data.model_copy(update={"data": one["data"]}) for one in new if "data" in one]
        masked = [result.model_copy(update={"inline_data": one}) for one in blobs]
        return [*masked, *told] if masked and told else "\n".join(told) if told else result
    return {"result": new} if isinstance(result, dict) and isinstance(new, str) else new


def _held(result: Any) -> dict[Any, Any] | None:
    """What is in it, where each is an output: media, or the one that the ADK has wrapped."""
    held = result if isinstance(result, dict) else dict(enumerate(result)) if isinstance(result, list | tuple) else {}
    has_media = any(isinstance(one, types.Part) for one in held.values())
    return held if has_media or (isinstance(result, dict) and set(held) == {"result"}) else None


def _turn(request: LlmRequest) -> int:
    return 1 + sum(one.role == "model" for one in request.contents)


def _texts(request: LlmRequest) -> Iterator[str]:
    yield from _strings(request.config.system_instruction)
    for part in (part for content in request.contents for part in content.parts or ()):
        yield from _strings(part.text)
        yield from _strings(part.function_call.args if part.function_call else None)
        yield from _strings(part.function_response.response if part.function_response else None)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        for one in inner:
            yield from _strings(one)
