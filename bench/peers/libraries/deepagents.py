"""deepagents: its FilesystemMiddleware evicts the result to a file of the agent's state; `read_file` and `grep`.

The file lives in the state of a graph, so all of it happens inside a node of one.
"""

import re
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.peers.patient import Page, Peer

_LINES = 1000  # asked for at a time; the tool stops at 80,000 characters by itself and says where to continue
_HEADER = re.compile(r"^@@ (.*) @@$", re.MULTILINE)
_NEXT = re.compile(r"\bnext offset (\d+)")

_filesystem: Any = import_module("deepagents.middleware.filesystem")
_graph: Any = import_module("langgraph.graph")
_tools: Any = import_module("langchain_core.tools")


class Deepagents:
    first: Any = 0

    def __init__(self, middleware: Any) -> None:
        self._middleware = middleware
        self._tools: dict[str, Any] = {tool.name: tool for tool in middleware.tools}
        self._path = ""

    async def take(self, output: object) -> str:
        def fetch() -> object:
            return output

        tool: Any = _tools.StructuredTool.from_function(fetch, name="fetch", description="Fetches it.")
        call: dict[str, Any] = {"name": "fetch", "args": {}, "id": "call-1", "type": "tool_call"}
        request = SimpleNamespace(tool_call=call, tool=tool, state={"messages": []}, runtime=None)

        async def handler(_request: Any) -> Any:
            return await tool.ainvoke(call)

        notice = str((await self._middleware.awrap_tool_call(request, handler)).content)
        path = re.search(r"at this path: (\S+)", notice)
        self._path = path[1] if path else ""
        return notice

    async def read(self, place: Any) -> Page:
        text = await self._call("read_file", file_path=self._path, offset=place, limit=_LINES)
        header = _HEADER.search(text)
        if header is None:
            return Page(text, "")
        further = _NEXT.search(header[1])
        return Page(text, text[header.end() + 1 :], int(further[1]) if further else None)

    async def search(self, needle: str) -> str:
        return await self._call("grep", pattern=needle, path=self._path, output_mode="content")

    async def stored(self) -> bytes:
        return self._middleware.backend.download_files([self._path])[0].content

    async def _call(self, name: str, **arguments: Any) -> str:
        message = await self._tools[name].coroutine(runtime=SimpleNamespace(tool_call_id="call-2"), **arguments)
        return str(message.content)


async def session(_way: str, _folder: Path, body: Callable[[Peer], Awaitable[None]]) -> None:
    middleware: Any = _filesystem.FilesystemMiddleware()

    async def node(_state: Any) -> dict[str, Any]:
        await body(Deepagents(middleware))
        return {}

    builder: Any = _graph.StateGraph(middleware.state_schema)
    builder.add_node("agent", node)
    builder.add_edge(_graph.START, "agent")
    await builder.compile().ainvoke({"messages": []})
