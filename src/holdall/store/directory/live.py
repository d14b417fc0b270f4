"""Outputs that are still being written: their writer, and what becomes of them when the writer dies.

The writer holds a lock on the file for as long as it lives. So whether a running output still runs is a question to
the kernel, not to a process id: where nobody holds the file, its writer is gone and the output is interrupted.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdall.policy.measure import Measurer, of_origin
from holdall.store import files
from holdall.store.directory import disk
from holdall.store.directory.folder import SessionFolder
from holdall.store.totals import Room
from holdall.text.tokens import Tokenizer
from holdall.values.errors import OutputDamaged, OutputMissing, UsageError
from holdall.values.outputs import Facts, State, why_interrupted
from holdall.values.spans import BLOCK, BlockTable

_SYNC_BYTES = 8 * 1024 * 1024
_SYNC_SECONDS = 1.0


class _Measures:
    """What is counted of an output while it is written."""

    __slots__ = ("digest", "measurer")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.measurer = Measurer(tokenizer)
        self.digest = hashlib.sha256()


class LiveWriter:
    """Appends to a running output. Made by the store, which has published the record already."""

    __slots__ = (
        "_clock", "_descriptor", "_facts", "_folder", "_measures", "_room", "_settle", "_synced_at", "_tokenizer",
        "_unsynced", "_where",
    )  # fmt: skip

    def __init__(
        self,
        folder: SessionFolder,
        facts: Facts,
        descriptor: int,
        tokenizer: Tokenizer,
        *,
        clock: Callable[[], float],
        settle: Callable[[SessionFolder, Facts, BlockTable], Facts],
        where: str,
        room: Room | None = None,
    ) -> None:
        self._folder = folder
        self._facts = facts
        self._descriptor = descriptor
        self._tokenizer = tokenizer
        self._measures: _Measures | None = None  # made with the first byte: many calls only wait
        self._clock = clock
        self._settle = settle
        self._where = where
        self._room = room
        self._unsynced = 0
        self._synced_at = time.monotonic()

    @property
    def handle(self) -> str:
        return self._facts.handle

    @property
    def facts(self) -> Facts:
        return self._facts

    def write(self, chunk: bytes) -> None:
        if self._descriptor < 0:
            raise UsageError("this output has ended; nothing more can be written to it.")
        measures = self._measures = self._measures or _Measures(self._tokenizer)
        if self._room is not None:
            self._room(measures.measurer.taken + len(chunk))
        view = memoryview(chunk)
        while view:
            with disk.explained("writing a running output", self._where):
                taken = view[: files.write(self._descriptor, view)]
            # Measured as it is taken: the part of a chunk for which a full disk had room is part of the output.
            measures.digest.update(taken)
            measures.measurer.feed(taken)
            self._unsynced += len(taken)
            view = view[len(taken) :]
        if self._unsynced >= _SYNC_BYTES or time.monotonic() - self._synced_at >= _SYNC_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._descriptor >= 0:
            with disk.explained("syncing a running output", self._where):
                files.fsync(self._descriptor)
            self._unsynced, self._synced_at = 0, time.monotonic()

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
        if self._descriptor < 0:
            raise UsageError(f"output {self.handle} has ended already.")
        measures = self._measures or _Measures(self._tokenizer)
        measure, table = measures.measurer.finish(measures.digest.hexdigest())
        measure = replace(of_origin(measure, self._facts.origin, notes), surrogates=surrogates)
        origin = replace(self._facts.origin, traceback=traceback) if traceback else self._facts.origin
        final = replace(
            self._facts, state=state, measure=measure, ended=self._clock(), error=error, exit_code=exit_code,
            origin=origin,
        )  # fmt: skip
        with disk.explained("ending a running output", self._where):
            files.fsync(self._descriptor)
            with self._folder.lock():
                self._facts = self._settle(self._folder, final, table)
        self.close()
        return self._facts

    def close(self) -> None:
        """Let go of the file. Without `finish`, the output then counts as interrupted."""
        if self._descriptor >= 0:
            files.close(self._descriptor)
            self._descriptor = -1
            if self._room is not None:
                self._room.close()


def is_running(folder: SessionFolder, facts: Facts) -> bool:
    """Whether somebody still writes it."""
    try:
        descriptor = folder.open_bytes(facts)
    except (OutputDamaged, OutputMissing):
        return False
    try:
        return disk.is_held(descriptor)
    finally:
        files.close(descriptor)


def interrupted(folder: SessionFolder, facts: Facts, tokenizer: Tokenizer, now: float) -> tuple[Facts, BlockTable]:
    """The final facts of an output whose writer is gone: everything that reached the file, measured."""
    measurer = Measurer(tokenizer)
    digest = hashlib.sha256()
    descriptor = folder.open_bytes(facts)
    try:
        at = 0
        while chunk := files.pread(descriptor, 16 * BLOCK, at):
            measurer.feed(chunk)
            digest.update(chunk)
            at += len(chunk)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)
    measure, table = measurer.finish(digest.hexdigest())
    why = why_interrupted(facts.origin)
    measure = of_origin(measure, facts.origin)
    return replace(facts, state="interrupted", measure=measure, ended=now, error=why), table
