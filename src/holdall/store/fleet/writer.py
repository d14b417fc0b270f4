"""An output that is being written: its bytes go out as segments, each an object and then its row.

A segment is written when there are 4 MiB of it, when its first byte is a second old, or on `flush`. While the bucket or
the database is away, what was written waits in memory, up to a bound; then `write` refuses more. Bytes that were
committed are never lost. A writer that was away for longer than its lease finds its output ended, and says so.

When it ends, small segments are joined to one object, from a copy on this host: who reads an output that grew for an
hour would need thousands of requests else.
"""

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from holdall.policy.measure import Measurer, of_origin
from holdall.store.fleet.cache import CachedFile
from holdall.store.fleet.reader import Segment
from holdall.store.totals import Room
from holdall.text.tokens import Tokenizer
from holdall.values.errors import StoreFault, StoreGone, UsageError
from holdall.values.outputs import Facts, State
from holdall.values.spans import BlockTable

SEGMENT_BYTES = 4 * 1024 * 1024
LARGEST_SEGMENT = 8 * 1024 * 1024
SEGMENT_SECONDS = 1.0
WAITING_BYTES = 32 * 1024 * 1024  # at most, while they cannot be written
_RETRY_SECONDS = 5.0
_SMALL_SEGMENT = 1024 * 1024  # on average: then they are joined
_MOST_JOINED = 256 * 1024 * 1024


class Segments(Protocol):
    """What a writer needs of its store."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def put_segment(self, facts: Facts, object: str, segment: Segment, data: bytes) -> None:
        """Durable, and visible to all, on return. Raises StoreGone where the output is not ours any more."""
        ...

    def joined(self, facts: Facts, file: CachedFile, length: int) -> str | None: ...

    def end_output(
        self, facts: Facts, object: str, parts: int, table: BlockTable, joined: str | None = None
    ) -> Facts: ...

    def let_go(self, facts: Facts) -> None: ...


class FleetWriter:
    """Made by the store, which has committed the record. Safe to use from several threads."""

    def __init__(
        self, store: Segments, facts: Facts, object: str, tokenizer: Tokenizer, room: Room | None,
        copy: CachedFile,
    ) -> None:  # fmt: skip
        self._store = store
        self._facts = facts
        self._object = object
        self._room = room
        self._copy: CachedFile | None = copy
        self._measurer = Measurer(tokenizer)
        self._digest = hashlib.sha256()
        self._waiting = bytearray()
        self._sending = b""  # a segment on its way: a second try must send the same bytes
        self._number = self._end = 0
        self._timer: threading.Timer | None = None
        self._refused_at = float("-inf")
        self._ended = False
        self._lock = threading.RLock()

    @property
    def handle(self) -> str:
        return self._facts.handle

    @property
    def facts(self) -> Facts:
        return self._facts

    def write(self, chunk: bytes) -> None:
        with self._lock:
            if self._ended:
                raise UsageError("this output has ended; nothing more can be written to it.")
            if self._room is not None:
                self._room(self._measurer.taken + len(chunk))
            if len(self._waiting) > WAITING_BYTES:
                self._send(0)  # or refuse the chunk
            self._copy_too(chunk)
            self._measurer.feed(chunk)
            self._digest.update(chunk)
            self._waiting += chunk
            if len(self._waiting) >= SEGMENT_BYTES:
                self._try_to_send(SEGMENT_BYTES)
            self._wake_later()

    def flush(self) -> None:
        with self._lock:
            self._send(0)

    def finish(
        self,
        state: State = "ready",
        *,
        error: str = "",
        exit_code: int | None = None,
        notes: Sequence[str] = (),
        surrogates: str = "",
        traceback: str = "",
    ) -> Facts:
        with self._lock:
            if self._ended:
                raise UsageError(f"output {self.handle} has ended already.")
            self._send(0)
            measure, table = self._measurer.finish(self._digest.hexdigest())
            measure = replace(of_origin(measure, self._facts.origin, notes), surrogates=surrogates)
            origin = replace(self._facts.origin, traceback=traceback) if traceback else self._facts.origin
            final = replace(
                self._facts, state=state, measure=measure, ended=self._store.clock(), error=error, exit_code=exit_code,
                origin=origin,
            )  # fmt: skip
            self._facts = self._store.end_output(final, self._object, self._number, table, self._joined())
            self._stop()
            return self._facts

    def close(self) -> None:
        with self._lock:
            if self._ended:
                return
            try:
                self._send(0)
            except StoreFault:
                pass  # what was committed is kept
            finally:
                self._stop()
                self._store.let_go(self._facts)

    def _copy_too(self, chunk: bytes) -> None:
        if self._copy is not None:
            try:
                if self._measurer.taken + len(chunk) > _MOST_JOINED:
                    raise OSError
                self._copy.write(chunk, self._measurer.taken)
            except OSError:  # no room, or too many to write twice: the segments stay
                self._copy.close()
                self._copy = None

    def _joined(self) -> str | None:
        if self._copy is None or self._number < 2 or self._end >= self._number * _SMALL_SEGMENT:
            return None
        return self._store.joined(self._facts, self._copy, self._end)

    def _stop(self) -> None:
        self._ended = True
        if self._room is not None:
            self._room.close()
        if self._copy is not None:
            self._copy.close()
        if self._timer is not None:
            self._timer.cancel()

    def _wake_later(self) -> None:
        if self._waiting and self._timer is None and not self._ended:
            self._timer = threading.Timer(SEGMENT_SECONDS, self._wake)
            self._timer.daemon = True
            self._timer.start()

    def _wake(self) -> None:
        with self._lock:
            self._timer = None
            if not self._ended:
                with contextlib.suppress(StoreGone):  # the next call says so
                    self._try_to_send(1)
                self._wake_later()

    def _try_to_send(self, least: int) -> None:
        """A short outage costs nothing: the bytes wait. One that lasts is told by `write` and `finish`."""
        if time.monotonic() - self._refused_at < _RETRY_SECONDS:
            return
        try:
            self._send(least)
        except StoreGone:
            raise
        except StoreFault:
            self._refused_at = time.monotonic()

    def _send(self, least: int) -> None:
        """Segments for all that waits, or until less than `least` bytes do."""
        while self._sending or len(self._waiting) > max(0, least - 1):
            if not self._sending:
                self._sending = bytes(self._waiting[:LARGEST_SEGMENT])
            segment = Segment(self._number, self._end, len(self._sending))
            self._store.put_segment(self._facts, self._object, segment, self._sending)
            del self._waiting[: segment.length]
            self._sending = b""
            self._number += 1
            self._end += segment.length
        self._refused_at = float("-inf")
