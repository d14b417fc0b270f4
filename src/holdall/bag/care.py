"""Looking after the store that a bag lives in: all of its sessions, not only the bag's own.

The stores that ship are looked after here. One of somebody else's making looks after itself, and is told so.
"""

import asyncio
from collections.abc import Sequence

from holdall.bag.journal import events_in
from holdall.policy.counters import Counters
from holdall.store import memory_upkeep, upkeep
from holdall.store.directory import DirectoryStore
from holdall.store.memory import MemoryStore
from holdall.store.protocol import OutputStore, Progress, SessionInfo
from holdall.store.upkeep import Stats, Sweep, Verdict
from holdall.values.errors import WrongUse
from holdall.verbs.engines.ripgrep import ripgrep_path


class Care:
    """`bag.care`. Nothing here touches an output that is still being written."""

    def __init__(self, store: OutputStore, session: SessionInfo) -> None:
        self._store = store
        self._session = session

    async def sweep(self, *, dry_run: bool = False) -> Sweep:
        """Carry out retention in every session, and remove what killed writers left behind."""

        def work() -> Sweep:
            match self._store:
                case DirectoryStore() as store:
                    return upkeep.sweep(store, dry_run=dry_run)
                case MemoryStore() as store:
                    return memory_upkeep.sweep(store, dry_run=dry_run)
                case other:
                    raise _not_ours(other, "sweep")

        return await asyncio.to_thread(work)

    async def verify(self, *, only_this_session: bool = False, progress: Progress | None = None) -> Sequence[Verdict]:
        """Read every kept byte again and compare every hash."""
        chosen = [self._session] if only_this_session else None

        def work() -> list[Verdict]:
            match self._store:
                case DirectoryStore() as store:
                    return list(upkeep.verify(store, chosen, progress=progress))
                case MemoryStore() as store:
                    return list(memory_upkeep.verify(store, chosen, progress=progress))
                case other:
                    raise _not_ours(other, "verify")

        return await asyncio.to_thread(work)

    async def stats(self, *, only_this_session: bool = False) -> Stats:
        chosen = [self._session] if only_this_session else None
        return await asyncio.to_thread(upkeep.stats, self._store, chosen)

    async def counters(self, *, only_this_session: bool = False) -> Counters:
        """What the events of the sessions add up to: shown, kept, retrieved, refused."""

        def fold() -> Counters:
            total = Counters()
            for session in [self._session] if only_this_session else self._store.sessions():
                for event in events_in(self._store.events_from(session, 0)[0]):
                    total.add(event)
            return total

        return await asyncio.to_thread(fold)

    async def sessions(self) -> Sequence[tuple[SessionInfo, int]]:
        """Every session, newest first, with the number of its outputs."""

        def count() -> list[tuple[SessionInfo, int]]:
            return [(one, len(self._store.outputs(one))) for one in self._store.sessions()]

        return await asyncio.to_thread(count)

    @staticmethod
    def ripgrep() -> str | None:
        """Where the ripgrep is that `grep` runs on; None where it runs on RE2."""
        return ripgrep_path()


def _not_ours(store: OutputStore, what: str) -> WrongUse:
    return WrongUse(
        f"bag.care.{what}() knows the stores that come with Holdall; a store of the class {type(store).__name__} is "
        "looked after by whoever made it."
    )
