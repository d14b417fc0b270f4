"""Bare functions: for frameworks without an adapter of their own, and for a loop of yours.

    tools = wrap(fetch, search, session="conversation 17")

gives the same functions, with what they return kept where it is too large, and our own tools behind them. smolagents,
LlamaIndex, CrewAI and ag2 take tools of this kind.
"""

import functools
import inspect
import uuid
from collections.abc import Callable
from typing import Any, cast

from holdall import OutputStore, Settings, ToolSpec, UsageError
from holdall.adapters import Conversations


def wrap(
    *tools: Callable[..., Any],
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[Any], str] | None = None,
    background: bool = True,
) -> list[Callable[..., Any]]:
    """Each of them, with its name, signature and docstring; and ours. Coroutine functions stay such.

    A function knows no conversation: `session` is its name, or a function that finds it when a tool is called and is
    given the name of the tool. Without it these functions share a new session.
    """
    for tool in cast("tuple[object, ...]", tools):
        if not callable(tool):
            raise UsageError(
                f"wrap takes functions, each by itself, and no {type(tool).__name__}: wrap(fetch, search)."
            )
    conversations = Conversations(
        settings=settings, home=home, store=store, session=session or f"functions-{uuid.uuid4()}", background=background
    )
    taken = conversations.taken_names(map(_name, tools))
    tools = tuple(tool for tool in tools if _name(tool) not in taken)
    is_async = bool(tools) and all(map(inspect.iscoroutinefunction, tools))
    ours = [_own(conversations, spec, is_async=is_async) for spec in conversations.specs()]
    return [*(_wrapped(conversations, tool) for tool in tools), *ours]


def _wrapped(conversations: Conversations, tool: Callable[..., Any]) -> Callable[..., Any]:
    name = _name(tool)

    def origin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"tool": name, "arguments": _arguments(tool, args, kwargs), "running": str}

    def session() -> str:
        return conversations.name(name, lambda: None)

    @functools.wraps(tool)
    def now(*args: Any, **kwargs: Any) -> Any:
        return conversations.result_now(session(), lambda: tool(*args, **kwargs), **origin(args, kwargs))

    @functools.wraps(tool)
    async def later(*args: Any, **kwargs: Any) -> Any:
        # A framework may give each call a loop of its own: what went on there would be cancelled with it, and lost.
        return await conversations.result(session(), lambda: tool(*args, **kwargs), **origin(args, kwargs), waits=True)

    made = later if inspect.iscoroutinefunction(tool) else now
    made.__name__ = name  # an object that can be called has none to copy
    return made


def _own(conversations: Conversations, spec: ToolSpec, *, is_async: bool) -> Callable[..., Any]:
    def session() -> str:
        return conversations.name(spec.name, lambda: None)

    def now(arguments: dict[str, Any]) -> str:
        return conversations.answer_now(session(), spec.name, arguments).text

    async def later(arguments: dict[str, Any]) -> str:
        return (await conversations.answer(session(), spec.name, arguments)).text

    return spec.function(later if is_async else now)


def _name(tool: Callable[..., Any]) -> str:
    tool = tool.func if isinstance(tool, functools.partial) else tool
    return str(getattr(tool, "__name__", type(tool).__name__))


def _arguments(tool: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(tool)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # some builtins have no signature, and a wrong call is told by the tool itself
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    of_any_name = [one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    more: dict[str, Any] = bound.pop(of_any_name[0], {}) if of_any_name else {}
    rest = [one.name for one in signature.parameters.values() if one.kind is one.VAR_POSITIONAL]
    return {**more, **{name: [*value] if name in rest else value for name, value in bound.items()}}
