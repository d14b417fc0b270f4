"""How a tool is called: a coroutine function, a plain function in a thread, a generator, or something to be awaited.

What it raises is its outcome, like what it returns. Only what is no failure of the tool goes on: a cancellation, an
interrupt, the end of the process.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast


async def outcome_of(call: object, arguments: object) -> object:
    """What `call` gave for these arguments, or the exception that it raised."""
    try:
        return await _called(call, arguments)
    except Exception as error:
        return error


async def _called(call: object, arguments: object) -> object:
    if inspect.isawaitable(call):
        return await cast("Awaitable[object]", call)
    if not callable(call):
        raise TypeError(f"a {type(call).__name__} cannot be called")
    keywords = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {}
    function: Callable[..., object] = call
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await cast("Awaitable[object]", function(**keywords))
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return function(**keywords)
    found = await asyncio.to_thread(function, **keywords)
    return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found
