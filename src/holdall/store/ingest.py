"""From a stream of bytes to a durable file, its measure and its facts, in one pass.

Small outputs are handled where they stand. Once an output proves large, writing and hashing move to threads of their
own, which run beside the measuring because both leave the interpreter's lock: the bytes are then touched by two
cores, and at most a few megabytes are on their way at any time.
"""

import hashlib
import queue
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from holdall.policy.measure import Measurer, of_origin
from holdall.store import files
from holdall.store.files import write_all
from holdall.store.protocol import Progress
from holdall.store.sources import storable
from holdall.text.tokens import Tokenizer
from holdall.values.outputs import Facts, Measure, Origin, State
from holdall.values.record import record
from holdall.values.spans import BlockTable

_LARGE = 4 << 20  # bytes
_MOST_OF_TRACE = 64 * 1024  # characters
_QUEUED_CHUNKS = 6  # chunks of a megabyte
_SYNC_EVERY = 64 << 20  # bytes


@record
class Ingested:
    measure: Measure
    table: BlockTable
    failure: BaseException | None  # what the source raised; everything before it was taken in


class WorkThread:
    """Calls `work` on each chunk in a thread of its own, in order. An error comes out of `give` or `finish`."""

    def __init__(self, work: Callable[[bytes], object]) -> None:
        self._work = work
        self._queue: queue.Queue[bytes | None] = queue.Queue(_QUEUED_CHUNKS)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self, chunk: bytes) -> None:
        if self._error is not None:
            raise self._error
        self._queue.put(chunk)

    def finish(self) -> None:
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (chunk := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._work(chunk)
                except BaseException as problem:
                    self._error = problem  # keep emptying the queue, so that the producer never blocks


class PeriodicSync(WorkThread):
    """Puts the disk to work before the end, so that the last sync finds little left to wait for.

    An error counts as much as one of the last sync: the system tells of a failed write only once.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(lambda _: files.fsync(descriptor))
        self._since = 0

    def give(self, chunk: bytes) -> None:
        self._since += len(chunk)
        if self._since >= _SYNC_EVERY:
            self._since = 0
            super().give(b"")  # only the wish: chunks that wait for the disk would be held in memory


def ingest(  # noqa: PLR0912 - one loop, and what each chunk meets
    chunks: Iterable[bytes],
    descriptor: int,
    tokenizer: Tokenizer,
    *,
    progress: Progress | None = None,
    room: Callable[[int], None] | None = None,
    written: Callable[[str, int], None] | None = None,
) -> Ingested:
    """Write all of `chunks` and sync. `room` is asked before each chunk and raises where a quota would be passed.

    With `written` the file is not synced: its bytes go elsewhere from there. It is called when all of them are in the
    file, with their hash and number, before the last of the measuring is done.
    """
    measurer = Measurer(tokenizer)
    digest = hashlib.sha256()
    helpers: list[WorkThread] = []
    failure: BaseException | None = None
    taken = 0
    source = iter(chunks)
    try:
        while True:
            try:
                chunk = next(source, None)
            except BaseException as problem:
                failure = problem
                break
            if chunk is None:
                break
            taken += len(chunk)
            if room is not None:
                room(taken)
            if taken > _LARGE and not helpers:
                writing = WorkThread(lambda data: write_all(descriptor, data))
                helpers = [writing, WorkThread(digest.update)]
                helpers += [PeriodicSync(descriptor)] if written is None else []
            if helpers:
                for helper in helpers:
                    helper.give(chunk)
            else:
                write_all(descriptor, chunk)
                digest.update(chunk)
            measurer.feed(chunk)
            if progress is not None and (failure := _raised(progress, taken)) is not None:
                break
        for helper in helpers:
            helper.finish()
    finally:
        for helper in helpers:
            helper.stop()
    if written is None:
        files.fsync(descriptor)
    else:
        written(digest.hexdigest(), taken)
    measure, table = measurer.finish(digest.hexdigest())
    if progress is not None and failure is None:
        failure = _raised(progress, taken)
    return Ingested(measure, table, failure)


def _raised(progress: Progress, taken: int) -> BaseException | None:
    try:
        progress(taken)
    except BaseException as problem:
        return problem
    return None


class Counted:
    """The same chunks, and how many bytes were asked to be kept by now."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._bytes += len(chunk)
            yield chunk

    def bytes(self) -> int:
        return self._bytes


def running_facts(id: str, session: str, origin: Origin, file: str, now: float) -> Facts:
    """Of an output that is about to be written; its handle comes with its record."""
    origin = replace(origin, arguments=storable(origin.arguments))
    return Facts(handle="", id=id, session=session, created=now, origin=origin, state="running", file=file)


def _trace_of(problem: Exception) -> str:
    """As Python writes it; both ends of a long one."""
    text = "".join(traceback.format_exception(problem))
    left = len(text) - _MOST_OF_TRACE
    end = _MOST_OF_TRACE // 2
    return text if left <= 0 else f"{text[:end]}\n[{left:,} characters are left out]\n{text[-end:]}"


def facts_of(
    id: str, session: str, origin: Origin, taken: Ingested, notes: Sequence[str], surrogates: str, now: float
) -> Facts:
    """The facts of an output that was just taken in; it has no handle yet."""
    state: State = "ready"
    error = ""
    if taken.failure is not None:
        state = "failed" if isinstance(taken.failure, Exception) else "cancelled"
        words = str(taken.failure).strip().partition("\n")[0][:500]
        error = f"{type(taken.failure).__name__}: {words}" if words else type(taken.failure).__name__
        if isinstance(taken.failure, Exception) and not origin.masked:  # nobody has looked for secrets in its lines
            origin = replace(origin, traceback=_trace_of(taken.failure))
    measure = of_origin(taken.measure, origin, notes)
    if surrogates:
        measure = replace(measure, surrogates=surrogates)
    return Facts(
        handle="",
        id=id,
        session=session,
        created=now,
        ended=now,
        origin=replace(origin, arguments=storable(origin.arguments)) if origin.arguments is not None else origin,
        measure=measure,
        state=state,
        error=error,
    )
