"""What a call has produced so far: in memory while that is little, in the store once it is much or the call is slow.

Memory stays flat however much a tool prints. A sink may be written to from any thread; where the store refuses, the
beginning stays in memory, the fault is remembered, and whoever settles the call says what is missing.
"""

import threading
from collections.abc import Callable

from holdall.bag.core import Core
from holdall.bag.streams import value_size
from holdall.store.protocol import OutputWriter
from holdall.store.sources import Source
from holdall.values.errors import NeverStored, StoreFault
from holdall.values.outputs import Facts, Origin, State
from holdall.wire.results import is_known_block

Part = object  # text, bytes, a content block, or any value that can be told as JSON


class Sink:
    __slots__ = (
        "_core", "_finished", "_lock", "_most", "_only_blocks", "_origin", "_parts", "_size", "_writer", "fault",
        "listeners", "stores",
    )  # fmt: skip

    def __init__(self, core: Core, origin: Origin, most: int, *, stores: bool = True) -> None:
        self._core = core
        self._origin = origin
        self._most = most
        self._parts: list[Part] = []
        self._size = 0
        self._only_blocks = True
        self._lock = threading.Lock()
        self._writer: OutputWriter | None = None
        self._finished = False
        self.stores = stores  # whether any of it may reach the store
        self.fault: StoreFault | NeverStored | OSError | None = None
        self.listeners: tuple[Callable[[], None], ...] = ()  # called after each write, from the thread that wrote

    @property
    def handle(self) -> str:
        """Empty while nothing of it is in the store."""
        return self._writer.handle if self._writer is not None else ""

    @property
    def facts(self) -> Facts | None:
        """What is known of it since it has a handle."""
        return self._writer.facts if self._writer is not None else None

    @property
    def is_empty(self) -> bool:
        return not self._parts and self._writer is None

    @property
    def total(self) -> int:
        """Bytes that were written, about, while they were not stored: also those that could not be held."""
        return self._size

    def write(self, part: Part) -> None:
        with self._lock:
            if self._finished:
                return  # of a call that was left alone: its output has ended
            if self._writer is not None:
                self._store(part)
            else:
                self._size += _size(part)
                if self.fault is None:
                    self._parts.append(part)
                    self._only_blocks = self._only_blocks and is_known_block(part)
                    if self._size > self._most and not self._only_blocks:
                        self._begin()
        for listener in self.listeners:
            listener()

    def begin(self) -> str:
        """Give it a handle now; empty where the store refuses, and `fault` says why."""
        with self._lock:
            if self._writer is None and self.fault is None and self.stores:
                self._begin()
        return self.handle

    def finish(self, state: State, *, last: Part = None, error: str = "", exit_code: int | None = None) -> Facts | None:
        """End what is in the store, after one last part; None where nothing is there. A second time does nothing."""
        with self._lock:
            if self._writer is None or self._finished:
                return None
            if last is not None:
                self._store(last)
            self._finished = True
            try:
                return self._writer.finish(state, error=error, exit_code=exit_code)
            except (StoreFault, OSError) as problem:
                self.fault = problem
                return None

    def joined(self) -> object:
        """What was written, while it is all in memory: a list of blocks, a text, or bytes where they are none."""
        parts = self._parts
        if parts and self._only_blocks:
            return parts
        data = b"".join(Source(iter(parts)))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data

    # Inside; the lock is held

    def _begin(self) -> None:
        if not self.stores:
            self.fault = NeverStored(self._origin.tool, by_dialect=not self._core.dialect.stores)
            return
        try:
            self._writer = self._core.store.begin(self._core.session, self._origin)
        except (StoreFault, OSError) as problem:
            self.fault = problem
            return
        for part in self._parts:
            self._store(part)
        self._parts.clear()

    def _store(self, part: Part) -> None:
        if self._writer is None or self.fault is not None:
            return
        try:
            for chunk in Source(part if isinstance(part, str | bytes) else iter((part,))):
                self._writer.write(chunk)
        except (StoreFault, OSError) as problem:
            self.fault = problem


def _size(part: Part) -> int:
    if isinstance(part, str):
        return len(part.encode("utf-8", "replace"))
    return len(part) if isinstance(part, bytes | bytearray) else value_size(part)


class Writer:
    """What a tool that asks for a `writer` gets: text or bytes written to it can be read at once."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, part: str | bytes) -> None:
        self._sink.write(part)
