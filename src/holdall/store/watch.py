"""Watching a file for writes and its close: inotify on Linux, kqueue on macOS and BSD; others are told by their writer.

For outputs that somebody else writes. Nothing here reads the file, and nothing polls.
"""

import asyncio
import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC


class FileWatch:
    """Made before the file is looked at, so that no write in between is missed. Close it."""

    def __init__(self, descriptor: int) -> None:
        self._queue: Any = None
        self._watched = -1
        if sys.platform == "linux":
            self._descriptor = _inotify(descriptor)
        else:
            self._descriptor = self._kqueue(descriptor)

    def _kqueue(self, descriptor: int) -> int:
        descriptor = self._watched = os.dup(descriptor)  # a queue forgets a file that is closed
        system: Any = select
        self._queue = system.kqueue()
        notes = system.KQ_NOTE_WRITE | system.KQ_NOTE_EXTEND | system.KQ_NOTE_ATTRIB
        flags = system.KQ_EV_ADD | system.KQ_EV_CLEAR
        event = system.kevent(descriptor, filter=system.KQ_FILTER_VNODE, flags=flags, fflags=notes)
        self._queue.control([event], 0)
        return int(self._queue.fileno())

    async def changed(self) -> None:
        """Until something has happened to the file since the last time."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()

        def ready() -> None:
            self._take()
            if not told.done():
                told.set_result(None)

        loop.add_reader(self._descriptor, ready)
        try:
            await told
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
            os.close(self._watched)
        else:
            os.close(self._descriptor)

    def _take(self) -> None:
        """The events are only that there were some."""
        if self._queue is not None:
            self._queue.control(None, 100, 0)
        else:
            try:
                while os.read(self._descriptor, 65_536):
                    pass
            except BlockingIOError:
                pass


def _inotify(descriptor: int) -> int:
    import ctypes  # noqa: PLC0415 - few commands wait for what is being written

    library = ctypes.CDLL(None, use_errno=True)
    queue = int(library.inotify_init1(_NONBLOCK | _CLOEXEC))
    if queue == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    path = f"/proc/self/fd/{descriptor}".encode()
    if library.inotify_add_watch(queue, path, _MODIFY | _CLOSE_WRITE) == -1:
        code = ctypes.get_errno()
        os.close(queue)
        raise OSError(code, os.strerror(code))
    return queue


class ToldWatch:
    """Told of every write, and of the end, by whoever calls those in `watches`. Close it."""

    def __init__(self, watches: set[Callable[[], None]]) -> None:
        self._watches = watches
        self._lock = threading.RLock()  # a writer that nobody has any more is noticed anywhere, also in here
        self._told = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._watches.add(self.notify)

    def notify(self) -> None:
        """From any thread."""
        with self._lock:
            self._told = True
            if self._waiting is not None:
                loop, future = self._waiting
                with contextlib.suppress(RuntimeError):  # a loop that is closed waits for nothing
                    loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

    async def changed(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._told:
                self._told = False
                return
            self._waiting = (loop, future)
        try:
            await future
        finally:
            with self._lock:
                self._waiting, self._told = None, False

    def close(self) -> None:
        self._watches.discard(self.notify)
