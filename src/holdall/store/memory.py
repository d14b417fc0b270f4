"""A store that leaves nothing on disk: for tests, and for programs that keep outputs only while they run.

It is the store in a folder (`store.directory`) on files in memory (`store.memory_files`), with caches in memory too.
It keeps the promises of `store.protocol` for as long as the store object lives: a crash takes everything, and other
processes see nothing.
"""

import os
import time
from collections.abc import Callable

from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.index import IN_MEMORY
from holdall.store.directory.root import Root
from holdall.store.directory.store import DirectoryStore
from holdall.store.memory_files import MEMORY, new_tree
from holdall.store.protocol import Quota, SessionInfo
from holdall.text.tokens import Tokenizer
from holdall.values.errors import StoreGone
from holdall.values.outputs import Facts
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable


class MemoryRoot(Root):
    """A data folder in memory. Nobody else can reach it, so nothing in it is ever removed by hand and made again."""

    def __init__(self, clock: Callable[[], float], beside: "MemoryRoot | None") -> None:
        self._tree = beside._tree if beside is not None else new_tree()
        super().__init__(MEMORY, clock)
        if beside is not None:
            self.catalogue = beside.catalogue

    def _open_home(self) -> int:
        return self._tree.open(".", os.O_RDONLY)

    def cache(self, name: str) -> str:  # noqa: ARG002 - each is a database of its own
        return IN_MEMORY

    def check(self, *, make: bool = False) -> None:
        """There is no name that could lead elsewhere."""

    def folder(self, session: SessionInfo, *, make: bool = False) -> SessionFolder:  # noqa: ARG002 - never made again
        try:
            return super().folder(session)
        except StoreGone:
            raise _not_here(session.id) from None

    def folder_by_id(self, session_id: str) -> SessionFolder:
        try:
            return super().folder_by_id(session_id)
        except StoreGone:
            raise _not_here(session_id) from None


class MemoryStore(DirectoryStore):
    """Safe to use from several threads at once.

    `beside` is a store whose sessions and outputs this one shares, each with options of its own.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer | None = None,
        retention: Retention | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] = time.time,
        beside: "MemoryStore | None" = None,
    ) -> None:
        self._memory = MemoryRoot(clock, beside._memory if beside is not None else None)
        super().__init__(self._memory, tokenizer=tokenizer, retention=retention, quota=quota, clock=clock)
        if beside is not None:
            self._summaries = beside._summaries

    def close(self) -> None:
        """Does nothing: one store serves one session after another, and its outputs are freed with it."""

    def sweep_due(self) -> bool:
        """Never: a store in memory is swept on request only."""
        return False

    def free_bytes(self) -> int | None:
        return None

    def _loaded(self, folder: SessionFolder, facts: Facts) -> tuple[Facts, BlockTable]:
        loaded = folder.load(facts.handle)
        if loaded is None:
            raise StoreGone(f"output {facts.handle} is not in this store.")
        return loaded


def _not_here(session_id: str) -> StoreGone:
    return StoreGone(f"the session {session_id} is not in this store: what is in memory goes with its store.")
