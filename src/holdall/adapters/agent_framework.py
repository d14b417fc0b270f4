"""Microsoft Agent Framework: tool results that do not fit become notices, by a context provider.

    agent = Agent(client, tools=tools, context_providers=[provider()])

The session of a run (`session_id`) names ours; a run without one is a conversation of its own. The framework writes the
span of a function before anybody else sees its result: with sensitive data on, traces have all of it. Middleware of the
agent itself is around that of providers: what it returns in place of a tool is not kept.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, cast

from holdall import OutputStore, Settings, ToolSpec
from holdall.adapters import Conversations
from holdall.values.errors import MissingExtra

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        Message,
        MiddlewareTermination,
    )
except ImportError as missing:
    raise MissingExtra(
        missing.name or "agent_framework", "agent-framework", "the adapter for the Microsoft Agent Framework"
    ) from missing

_SOURCE = "holdall"
_RESULTS = ("text", "data", "error", "uri")  # of a bare content; others are requests for approval


def provider(
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[AgentSession], str] | None = None,
    background: bool = True,
) -> "HoldallProvider":
    """Keeps every tool output whole; what does not fit reaches the model as a notice with a handle."""
    return HoldallProvider(
        Conversations(settings=settings, home=home, store=store, session=session, background=background)
    )


class HoldallProvider(ContextProvider):
    """Made by `provider`. `close` gives back its threads and files; no session ends by it."""

    def __init__(self, conversations: Conversations) -> None:
        super().__init__(_SOURCE)
        self.conversations = conversations
        self.close = conversations.close

    async def before_run(self, *, session: AgentSession, context: Any, **_: Any) -> None:
        run = _Run(self.conversations, self.conversations.name(session, lambda: session.session_id))
        context.extend_tools(_SOURCE, await run.listed())
        context.extend_middleware(_SOURCE, [_Results(run), _Requests(run)])


class _Run:
    """One run of an agent: its session, and our tools, each of which may be offered only once."""

    def __init__(self, conversations: Conversations, name: str) -> None:
        self.conversations = conversations
        self.name = name
        self._tools: dict[str, FunctionTool] = {}

    async def listed(self) -> list[FunctionTool]:
        async with self.conversations.of(self.name) as bag:
            specs = bag.tools()
        return [
            self._tools.get(one.plain_name) or self._tools.setdefault(one.plain_name, self._tool(one)) for one in specs
        ]

    def is_own(self, function: object) -> bool:
        return any(one is function for one in self._tools.values())

    def _tool(self, spec: ToolSpec) -> FunctionTool:
        async def call(**arguments: Any) -> str:
            return (await self.conversations.answer(self.name, spec.plain_name, arguments)).text

        return FunctionTool(
            name=spec.plain_name, description=spec.description, func=call, input_model=dict(spec.schema)
        )


class _Results(FunctionMiddleware):
    def __init__(self, run: _Run) -> None:
        self.run = run

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        tool, conversations = context.function.name, self.run.conversations
        if self.run.is_own(context.function):
            return await call_next()
        if conversations.owns(tool):  # of a server, perhaps: what it says would pass for our words
            context.result = (await conversations.answer(self.run.name, tool, context.arguments)).text
            return None

        async def call() -> Any:
            await call_next()
            return context.result

        async def shown(result: Callable[[], Awaitable[Any]]) -> Any:
            return await conversations.result(
                self.run.name, result, tool=tool, running=str, arguments=context.arguments,
                call_id=str(context.metadata.get("call_id", "")), take=_outputs, put=_with_outputs,
            )  # fmt: skip

        try:
            context.result = await shown(call)
        except MiddlewareTermination:  # which may come with a result
            given = asyncio.sleep(0, context.result)
            context.result = await shown(lambda: given)
            raise
        if context.tools is not None:  # those of the next request
            known = {getattr(one, "name", "") for one in context.tools}
            context.tools.extend(one for one in await self.run.listed() if one.name not in known)
        return None


class _Requests(ChatMiddleware):
    def __init__(self, run: _Run) -> None:
        self.run = run

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        messages, options = context.messages, dict(context.options or {})
        conversations, turn = self.run.conversations, 1 + sum(one.role == "assistant" for one in messages)
        added = await conversations.request(self.run.name, turn=turn, texts=lambda: _texts(messages, options))
        if added.instructions:
            own = options.get("instructions")
            options["instructions"] = f"{own}\n\n{added.instructions}" if own else added.instructions
            context.options = options
        if added.notice:
            context.messages = [*messages, Message("user", [added.notice])]
        await call_next()


def _outputs(result: Any) -> list[object]:
    if isinstance(result, list):
        contents = cast("list[Content]", result)
        if len(contents) == 1:
            return [_output(contents[0])]
        # One result, whose parts share its limits: of each by itself any number would pass.
        blocks = _blocks(contents)
        return [*([blocks] if blocks else []), *(one.to_dict() for one in contents if one.type not in _PLAIN)]
    if isinstance(result, Content):
        return [_output(result)] if result.type in _RESULTS else []
    return [result]


_PLAIN = ("text", "data")


def _blocks(contents: Sequence[Content]) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": one.text} if one.type == "text" else {"type": "file", "url": one.uri}
        for one in contents
        if one.type in _PLAIN
    ]


def _output(content: Content) -> object:
    """Its text, or what is no text as a block that says so; the framework's own says `data` and a URL."""
    if content.type == "text":
        return content.text
    return [{"type": "file", "url": content.uri}] if content.type == "data" else content.to_dict()


def _with_outputs(result: Any, shown: list[Any]) -> Any:
    if isinstance(result, Content):
        return _with_output(result, shown[0])
    if not isinstance(result, list):
        return shown[0]
    contents = cast("list[Content]", result)
    if len(contents) == 1:
        return _with_output(contents[0], shown[0])
    blocks, left = _blocks(contents), list(shown)
    new = left.pop(0) if blocks else blocks
    others = [one for old in contents if old.type not in _PLAIN for one in _with_output(old, left.pop(0))]
    if new == blocks and not others:
        return contents
    files = {one.uri: one for one in contents if one.type == "data"}

    def made(block: dict[str, str]) -> Content:
        if block.get("type") == "text":
            return Content.from_text(block["text"])
        url = block["url"]  # another one where it is masked
        return files.get(url) or Content.from_uri(url, media_type=url[len("data:") :].partition(";")[0])

    return [*map(made, cast("list[dict[str, str]]", new)), *others]


def _with_output(content: Content, shown: Any) -> list[Content]:
    if isinstance(shown, str):
        return [content if shown == content.text else Content.from_text(shown)]
    if isinstance(shown, dict):
        return [content if shown == content.to_dict() else Content.from_dict(shown)]
    blocks = cast("list[dict[str, str]]", shown)
    told = [Content.from_text(one["text"]) for one in blocks if one.get("type") == "text"]
    files = [Content.from_uri(one["url"], media_type=content.media_type) for one in blocks if one.get("type") == "file"]
    return [*files, *told] if told else [content]


def _texts(messages: Sequence[Message], options: dict[str, Any]) -> Iterator[str]:
    yield str(options.get("instructions") or "")
    for content in (one for message in messages for one in message.contents):
        yield content.text or ""
        yield str(content.arguments or "")
        yield from (one.text or "" for one in content.items or ())
