"""How a tool is called: a coroutine function, a plain function in a thread, a generator, a command, an awaitable.

What it produces on its way goes into its sink; what it returns is its outcome, and what it raises goes on to whoever
dispatched it.
"""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, cast

from holdall.bag import streams
from holdall.bag.commands import Command
from holdall.bag.sinks import Sink, Writer

_WRITER = "writer"  # a parameter of this name gets one


class Poured:
    """The outcome of a call whose output is what it has written."""


POURED = Poured()


async def called(call: object, arguments: object, sink: Sink) -> object:
    """Call it, and pour what it gives bit by bit into the sink. A cancellation reaches it."""
    if isinstance(call, FunctionType) and call.__code__.co_flags & inspect.CO_COROUTINE and not _wants_writer(call):
        # The common case by the shortest way.
        given = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {}
        value = await cast("Awaitable[object]", call(**given))
        return value if type(value) is str else await _poured(value, sink)
    if isinstance(call, Command):
        return await _in_thread_until_stopped(call, sink)
    if inspect.isawaitable(call):
        return await _poured(await cast("Awaitable[object]", call), sink)
    if not callable(call):
        raise TypeError(f"a {type(call).__name__} cannot be called")
    function: Callable[..., object] = call
    keywords = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {}
    if _wants_writer(function) and _WRITER not in keywords:
        keywords[_WRITER] = Writer(sink)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await _poured(await cast("Awaitable[object]", function(**keywords)), sink)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return await _poured(function(**keywords), sink)
    found = await in_thread(function, keywords)
    return await _poured(await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found, sink)


def _wants_writer(function: Callable[..., object]) -> bool:
    code = getattr(function, "__code__", None)
    if code is not None:  # the common case, without building a signature
        return _WRITER in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return _WRITER in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


async def _poured(value: object, sink: Sink) -> object:
    """A stream goes into the sink; any other value is the outcome, after what was written before it."""
    if value is None and not sink.is_empty:
        return POURED
    if not streams.is_stream(value):
        return value
    later = streams.asynchronous(value)
    if later is not None:
        await _pour_later(later, sink)
    else:
        parts = streams.parts_of(value)
        await in_thread(_pour_now, {"parts": parts, "sink": sink})
    return POURED


async def _pour_later(parts: AsyncIterable[object], sink: Sink) -> None:
    async for part in parts:
        if sink.handle:
            await asyncio.to_thread(sink.write, part)  # it goes to the disk
        else:
            sink.write(part)


def _pour_now(parts: Iterable[object], sink: Sink) -> None:
    source: Iterator[object] = iter(parts)
    for part in source:
        sink.write(part)


async def _in_thread_until_stopped(command: Command, sink: Sink) -> object:
    running = asyncio.ensure_future(in_thread(command.pour, {"sink": sink}))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        command.stop()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await running  # what it still writes while it ends is part of its output
        raise
    return POURED


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
            plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if plain else _wrapped(raised)
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name=f"holdall {getattr(function, '__name__', 'call')}", daemon=True).start()
    return await done


def _wrapped(error: BaseException) -> Exception:
    wrapped = RuntimeError(f"the tool raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
