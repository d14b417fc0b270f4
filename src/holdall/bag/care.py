"""Looking after the store that a bag lives in: all of its sessions, not only the bag's own."""

import asyncio
import contextlib
from collections.abc import Generator, Sequence

from holdall.bag.core import open_existing_store
from holdall.bag.journal import believed, events_in
from holdall.policy.folds import Counters
from holdall.store.opening import empty_store
from holdall.store.protocol import OutputStore, Progress, SessionInfo, Stats, Sweep, Verdict
from holdall.values.settings import Settings


class Care:
    """`bag.care`. Nothing here touches an output that is still being written."""

    def __init__(self, store: OutputStore, session: SessionInfo | None) -> None:
        self._store = store
        self._session = session

    @classmethod
    @contextlib.contextmanager
    def of(cls, home: str, settings: Settings, *, session: str | None = None) -> Generator["Care"]:
        """Of the store in `home`, without a bag: nothing is made or removed that was not asked for.

        `session` is one that is there, for what is asked of only one.
        """
        with open_existing_store(home, settings) as store:
            if store is None:
                yield cls(empty_store(), None)
            else:
                yield cls(store, store.find_session(session) if session is not None else None)

    async def sweep(self, *, dry_run: bool = False) -> Sweep:
        """Carry out retention in every session, and remove what killed writers left behind."""
        return await asyncio.to_thread(self._store.sweep, dry_run=dry_run)

    async def verify(self, *, only_this_session: bool = False, progress: Progress | None = None) -> Sequence[Verdict]:
        """Read every kept byte again and compare every hash."""
        chosen = self._chosen(only_this_session)

        def work() -> list[Verdict]:
            return list(self._store.verify(chosen, progress=progress))

        return await asyncio.to_thread(work)

    async def stats(self, *, only_this_session: bool = False) -> Stats:
        chosen = self._chosen(only_this_session)
        return await asyncio.to_thread(self._store.stats, chosen)

    async def counters(self, *, only_this_session: bool = False) -> Counters:
        """What the events of the sessions add up to: shown, kept, retrieved, refused."""

        def fold() -> Counters:
            total = Counters()
            chosen = self._chosen(only_this_session)
            for session in self._store.sessions() if chosen is None else chosen:
                for event in events_in(believed(self._store.events_from(session, 0), "events")):
                    total.add(event)
            return total

        return await asyncio.to_thread(fold)

    async def sessions(self) -> Sequence[tuple[SessionInfo, int]]:
        """Every session, newest first, with the number of its outputs."""

        def count() -> list[tuple[SessionInfo, int]]:
            return [(one, len(self._store.outputs(one))) for one in self._store.sessions()]

        return await asyncio.to_thread(count)

    def _chosen(self, only_this_session: bool) -> list[SessionInfo] | None:
        """None means all."""
        if not only_this_session:
            return None
        return [self._session] if self._session is not None else []

    @staticmethod
    def ripgrep() -> str:
        """Where the ripgrep is that `grep` runs on. Where there is none, WorkerFault says what to install."""
        from holdall.search.ripgrep import ripgrep_path  # noqa: PLC0415 - asked by `doctor` alone

        return ripgrep_path()
