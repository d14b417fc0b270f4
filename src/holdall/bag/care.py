"""Looking after the store that a bag lives in: all of its sessions, not only the bag's own."""

import asyncio
from collections.abc import Sequence

from holdall.store import upkeep
from holdall.store.directory import DirectoryStore
from holdall.store.protocol import Progress, SessionInfo
from holdall.store.upkeep import Stats, Sweep, Verdict
from holdall.verbs.engines.ripgrep import ripgrep_path


class Care:
    """`bag.care`. Nothing here touches an output that is still being written."""

    def __init__(self, store: DirectoryStore, session: SessionInfo) -> None:
        self._store = store
        self._session = session

    async def sweep(self, *, dry_run: bool = False) -> Sweep:
        """Carry out retention in every session, and remove what killed writers left behind."""
        return await asyncio.to_thread(upkeep.sweep, self._store, dry_run=dry_run)

    async def verify(self, *, only_this_session: bool = False, progress: Progress | None = None) -> Sequence[Verdict]:
        """Read every kept byte again and compare every hash."""
        chosen = [self._session] if only_this_session else None
        return await asyncio.to_thread(lambda: list(upkeep.verify(self._store, chosen, progress=progress)))

    async def stats(self, *, only_this_session: bool = False) -> Stats:
        return await asyncio.to_thread(upkeep.stats, self._store, [self._session] if only_this_session else None)

    async def sessions(self) -> Sequence[tuple[SessionInfo, int]]:
        """Every session, newest first, with the number of its outputs."""

        def count() -> list[tuple[SessionInfo, int]]:
            return [(one, len(self._store.outputs(one))) for one in self._store.sessions()]

        return await asyncio.to_thread(count)

    @staticmethod
    def ripgrep() -> str | None:
        """Where the ripgrep is that `grep` runs on; None where it runs on RE2."""
        return ripgrep_path()
