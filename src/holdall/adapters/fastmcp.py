"""FastMCP: a server whose tools return too much keeps it, and offers our tools beside its own.

    mcp = FastMCP("shop", middleware=[middleware()])

It comes last of those that change results. A client that has signed in, or a connection that lasts, has its own
session; over stdio it is that of the process. Where nothing tells clients apart (HTTP without authorization in the
newest protocol, or without sessions), calls are refused until you name a session.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdall import OutputStore, Settings, UsageError
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra
from holdall.wire.notes import is_note

try:
    from fastmcp.exceptions import ToolError
    from fastmcp.server.middleware import Middleware as FastMCPMiddleware
    from fastmcp.server.middleware import MiddlewareContext
    from fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware
    from fastmcp.server.sessions import _principal_segment, current_principal
    from fastmcp.tools import Tool, ToolResult
    from mcp_types import TextContent, ToolAnnotations
except ImportError as missing:
    raise MissingExtra(missing.name or "fastmcp", "fastmcp", "the adapter for FastMCP") from missing

_PROCESS = f"process-{uuid.uuid4()}"
_CUTS = (
    "ResponseLimitingMiddleware comes after Holdall's middleware: it cuts results before they are kept. "
    "Put it before, or leave it out."
)


class Middleware(FastMCPMiddleware):
    """Made by `middleware`. `close` gives back its threads and files; no session ends by it."""

    def __init__(self, conversations: Conversations) -> None:
        self.conversations = conversations
        self.close = conversations.close
        self._looked = False

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await self._introduced(context, await call_next(context))

    async def on_discover(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return await self._introduced(context, await call_next(context))

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Sequence[Tool]:
        """A notice does not fit the schema of what it stands for: none is promised."""
        found = await call_next(context)
        taken = self.conversations.taken_names(one.name for one in found)
        tools = [one for one in found if one.name not in taken]
        plain = [one if one.output_schema is None else one.model_copy(update={"output_schema": None}) for one in tools]
        return [*plain, *(_tool(spec) for spec in self.conversations.specs())]

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self._look_around(context.fastmcp_context)
        tool, arguments, name = context.message.name, context.message.arguments, self._name(context)
        if self.conversations.owns(tool):
            answer = await self.conversations.answer(name, tool, arguments)
            return _text(answer.text, is_error=answer.is_error)
        return await self.conversations.result(
            name, lambda: call_next(context), tool=tool, arguments=arguments, running=_text, take=_outputs, put=_put
        )

    def _look_around(self, context: Any) -> None:
        """Once: whether results are cut before they come here."""
        if self._looked or context is None:
            return
        self._looked = True
        inside = list(context.fastmcp.middleware)
        inside = inside[inside.index(self) + 1 :] if self in inside else []
        if any(isinstance(one, ResponseLimitingMiddleware) for one in inside):
            warnings.warn(_CUTS, stacklevel=2)

    def _name(self, context: MiddlewareContext[Any]) -> str:
        try:
            return self.conversations.name(context, lambda: _scope(context.fastmcp_context))
        except UsageError as problem:  # any other error is not told to a client
            raise ToolError(str(problem)) from None

    async def _introduced(self, context: MiddlewareContext[Any], greeting: Any) -> Any:
        if greeting is None or isinstance(greeting, dict):
            return greeting
        try:
            name = self._name(context)
        except ToolError:  # a call says so
            return greeting
        async with self.conversations.of(name) as bag:
            said = "\n\n".join(filter(None, (greeting.instructions, bag.instructions())))
        return greeting.model_copy(update={"instructions": said})


def middleware(
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[Any], str] | None = None,
    background: bool = True,
) -> Middleware:
    """For `FastMCP(middleware=[…])`. What FastMCP itself tells clients apart by names the session."""
    return Middleware(Conversations(settings=settings, home=home, store=store, session=session, background=background))


def _scope(context: Any) -> str | None:
    """Never what a client says of itself: FastMCP's own `session_id` may be a header of the request."""
    if context is None:
        return None
    principal = current_principal()
    user = None if principal is None else f"user:{_principal_segment(principal)}"
    if context._is_modern_protocol():
        return f"{context.fastmcp.name} {_PROCESS}" if context._session_scope_key() == "process" else user
    connection = context.session._connection
    if connection.session_id is None and context.transport == "streamable-http":
        return user  # each request has a connection of its own
    own = connection.state.setdefault("holdall", str(uuid.uuid4()))
    return f"{user or ''} connection:{own}".strip()


def _tool(spec: Any) -> Tool:
    return Tool(
        name=spec.plain_name, description=spec.description, parameters=dict(spec.schema),
        annotations=ToolAnnotations(read_only_hint=True),
    )  # fmt: skip


def _text(text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def _outputs(result: Any) -> Iterator[object]:
    """Questions to the client and acknowledgements of tasks are no results, though one is a subclass; a subclass of the
    program's own is one."""
    kind = type(result)
    if kind is ToolResult or (isinstance(result, ToolResult) and kind.__module__.partition(".")[0] != "fastmcp"):
        yield result


def _put(_result: Any, shown: list[Any]) -> ToolResult:
    """Made anew: the result of a server that is passed on carries what it came from, whole."""
    new = shown[0]
    # Clients show models structured content in the place of the text, and a note of ours there is no notice.
    structured = None if is_note(new.structured_content) else new.structured_content
    return ToolResult(new.content, structured, new.meta, new.is_error)
