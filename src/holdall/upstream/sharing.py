"""One task that several callers wait for: each may give up for itself, and none of them ends it for the others."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Ended(Exception):
    """The task was ended, and not the caller."""


def shared(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(_look_at)
    return task


async def joined(task: "asyncio.Task[T]") -> T:
    """Its result. Raises Ended where it was cancelled from elsewhere."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if task.cancelled() and (waiting is None or not waiting.cancelling()):
            raise Ended from None
        raise


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Where all who waited have gone nobody else asks for its error."""
    if not task.cancelled():
        task.exception()
