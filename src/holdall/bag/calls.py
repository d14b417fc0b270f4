"""How a tool is called: a coroutine function, a plain function in a thread, a generator, or something to be awaited.

What it raises is its outcome, like what it returns. Only what is no failure of the tool goes on: a cancellation, an
interrupt, the end of the process.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
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
    found = await in_thread(function, keywords)
    return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found


async def in_thread(function: Callable[..., object], keywords: Mapping[str, Any]) -> object:
    """A thread of its own: in a shared pool a few slow tools would keep the store from working.

    It cannot be stopped from outside. Where the waiting is cancelled it goes on alone, and what it gives is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def tell(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = context.run(function, **keywords)
        except BaseException as raised:
            # A future cannot carry a StopIteration, and the others would end the loop that is waiting for it.
            error = (
                raised if isinstance(raised, Exception) and not isinstance(raised, StopIteration) else _wrapped(raised)
            )
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name=f"holdall {getattr(function, '__name__', 'call')}", daemon=True).start()
    return await done


def _wrapped(error: BaseException) -> Exception:
    wrapped = RuntimeError(f"the tool raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
