"""Outputs in memory that are still being written.

The store holds the draft, whoever writes holds the writer. So whether a running output still runs is whether anybody
still has its writer: where nobody has, the output is interrupted. No draft outlives the program.
"""

import hashlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from holdall.policy.measure import Measurer
from holdall.store.nameless import Blob, explained, reopened
from holdall.text.tokens import Tokenizer
from holdall.values.errors import WrongUse
from holdall.values.outputs import Facts, Measure, State
from holdall.values.spans import BlockTable


class Ending(Protocol):
    """How the store ends a running output."""

    def __call__(self, state: State, error: str, exit_code: int | None) -> Facts: ...


class Draft:
    """What was written so far. One thread writes, any number may look."""

    def __init__(self, id: str, tokenizer: Tokenizer, room: Callable[[int], None] | None) -> None:
        self.blob = Blob(id)
        self._measurer = Measurer(tokenizer)
        self._digest = hashlib.sha256()
        self._room = room
        self._lock = threading.Lock()
        self._is_over = False
        self._writer: weakref.ref[MemoryWriter] | None = None

    def writer(self, facts: Facts, end: Ending) -> "MemoryWriter":
        writer = MemoryWriter(self, facts, end)
        self._writer = weakref.ref(writer)
        return writer

    @property
    def is_over(self) -> bool:
        """Whether nobody can write to it any more."""
        return self._is_over or self._writer is None or self._writer() is None

    def write(self, chunk: bytes) -> None:
        with self._lock, explained("writing a running output"):
            if self._is_over:
                raise WrongUse("this output has ended; nothing more can be written to it.")
            if self._room is not None:
                self._room(self._measurer.taken + len(chunk))
            view = memoryview(chunk)
            while view:
                taken = view[: os.write(self.blob.descriptor, view)]
                # Measured as it is taken: the part of a chunk for which there was memory is part of the output.
                self._digest.update(taken)
                self._measurer.feed(taken)
                view = view[len(taken) :]

    def give_up(self) -> None:
        with self._lock:
            self._is_over = True

    def open(self) -> int:
        """A descriptor to read from: what was written so far, and what will be."""
        return reopened(self.blob.descriptor)

    def settle(self) -> tuple[Measure, BlockTable, Blob]:
        """All that was written, measured and final. Asked once, by the store."""
        with self._lock:
            self._is_over = True
            blob = self.blob
            blob.settle()
            measure, table = self._measurer.finish(self._digest.hexdigest())
            del self.blob  # the bytes are the store's: whoever keeps the writer does not keep them too
            return measure, table, blob


class MemoryWriter:
    """Appends to a running output. Made by the store, which has its facts already."""

    def __init__(self, draft: Draft, facts: Facts, end: Ending) -> None:
        self._draft = draft
        self._facts = facts
        self._end = end

    @property
    def handle(self) -> str:
        return self._facts.handle

    @property
    def facts(self) -> Facts:
        return self._facts

    def write(self, chunk: bytes) -> None:
        self._draft.write(chunk)

    def finish(self, state: State = "ready", *, error: str = "", exit_code: int | None = None) -> Facts:
        self._facts = self._end(state, error, exit_code)
        return self._facts

    def close(self) -> None:
        """Give up. Without `finish`, the output then counts as interrupted."""
        self._draft.give_up()
