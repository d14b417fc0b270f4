"""pydantic-ai-harness: its ToolOutputLimits spills the result into the workspace; `read_tool_result` reads and filters.

For values it recommends the serializer `json_lines`, so a value is given with it. All of it happens inside a tool of
an agent's run, where there is a workspace.
"""

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.patient import Page, Peer

_LINES = 200  # as the notice says
_HEADER = re.compile(r"^\[handle .*: ([\d,]+) matching line\(s\); showing (\d+)(, output capped)?\]$", re.MULTILINE)

_ai: Any = import_module("pydantic_ai")
_capabilities: Any = import_module("pydantic_ai.capabilities")
_messages: Any = import_module("pydantic_ai.messages")
_models: Any = import_module("pydantic_ai.models.test")
_tools: Any = import_module("pydantic_ai.tools")
_limits: Any = import_module("pydantic_ai_harness.tool_output_limits")


class Harness:
    first: Any = 0

    def __init__(self, limits: Any, context: Any, tools: Any) -> None:
        self._limits, self._context, self._tools = limits, context, tools
        self._handle = ""

    async def take(self, output: object) -> str:
        call = _messages.ToolCallPart("fetch", {}, tool_call_id="call-1")
        definition = _tools.ToolDefinition(name="fetch")
        result = await self._limits.after_tool_execute(
            self._context, call=call, tool_def=definition, args={}, result=output
        )
        notice = str(result.return_value)
        handle = re.search(r"handle='([^']+)'", notice)
        self._handle = handle[1] if handle else ""
        return notice

    async def read(self, place: Any) -> Page:
        text = await self._call(offset=place, limit=_LINES)
        header = _HEADER.match(text)
        if header is None:
            return Page(text, "")
        total, lines, capped = int(header[1].replace(",", "")), int(header[2]), bool(header[3])
        shown = text[header.end() + 1 :]
        # Where the answer was cut, its last line is not whole. A line longer than an answer cannot be gone on with.
        whole = max(1, shown.count("\n")) if capped else lines
        return Page(text, shown, place + whole if place + whole < total else None)

    async def search(self, needle: str) -> str:
        return await self._call(pattern=needle)

    async def stored(self) -> bytes:
        return _content(self._handle)

    async def _call(self, **arguments: Any) -> str:
        name = "read_tool_result"
        toolset = self._limits.get_toolset()
        given = {"handle": self._handle, **arguments}
        return str(await toolset.call_tool(name, given, self._context, self._tools[name]))


def _content(handle: str) -> bytes:
    return Path(handle).read_bytes()  # the handle is a path


async def session(_way: str, folder: Path, body: Callable[[Peer], Awaitable[None]]) -> None:
    limits: Any = _limits.ToolOutputLimits(serializer=_limits.json_lines)  # texts are not touched by it
    workspace = _capabilities.LocalWorkspace(str(folder))
    agent: Any = _ai.Agent(_models.TestModel(call_tools=["work"]), capabilities=[workspace, limits])

    async def work(context: Any) -> str:
        await body(Harness(limits, context, await limits.get_toolset().get_tools(context)))
        return "Done."

    work.__annotations__["context"] = _ai.RunContext
    agent.tool(work)
    await agent.run("Work.")
