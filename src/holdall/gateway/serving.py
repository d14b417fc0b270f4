"""A gateway from its start to its end, on standard input and output.

It ends when the client closes its side, or when it is asked to by a signal; within five seconds, with every call that
is under way answered, kept, or marked as interrupted.
"""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from holdall.bag import Holdall
from holdall.gateway.front import Front, House
from holdall.gateway.memory import give_back_what_is_large
from holdall.gateway.stdio import StdioClient, own_pipes
from holdall.values.settings import Settings

GRACE_SECONDS = 1.0  # for calls under way to end by themselves
_FLUSH_SECONDS = 0.5
_AT_ONCE = 1000  # what a server can take is for the server to say
_LONGEST_CALL = 7 * 24 * 3600.0  # each server has a deadline of its own, which progress puts off


def settings_for(settings: Settings, given: Sequence[str] = ()) -> Settings:
    """The settings of a gateway: what was not `given` is as its clients need it."""
    own: dict[str, object] = {
        "tools_listed": "always",
        "max_background_calls": _AT_ONCE,
        "tool_timeout_seconds": _LONGEST_CALL,
    }
    fitting = {name: value for name, value in own.items() if name not in given}
    grace = min(settings.grace_seconds, GRACE_SECONDS)
    return replace(settings, **fitting, grace_seconds=grace)  # type: ignore[arg-type] - names of settings


async def serve_stdio(house: House, bag: Holdall) -> None:
    """Until the client has gone. The bag is closed at the end."""
    give_back_what_is_large()
    stop = asked_to_end()
    pipes = StdioClient(*own_pipes())
    front = Front(house, bag, pipes.send)
    pipes.serve(front.client, lambda: front.revision)
    waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(pipes.over.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await wind_up(front, bag)
        await pipes.flushed(_FLUSH_SECONDS)
        await asyncio.gather(bag.close(), front.close())


def asked_to_end() -> asyncio.Event:
    """Set by the signals that ask a process to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop


async def wind_up(front: Front, bag: Holdall) -> None:
    """What is under way has a moment; then it is cancelled, and what there is of it is kept."""
    front.ending()
    under_way: set[asyncio.Future[object]] = {job.ended for job in bag.jobs.unfinished}  # type: ignore[misc]
    under_way |= {task for task in front.client.busy if not task.done()}  # type: ignore[misc]
    if under_way:
        await asyncio.wait(under_way, timeout=GRACE_SECONDS)
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await bag.abort()
            if busy := front.client.busy:
                await asyncio.wait(busy)
