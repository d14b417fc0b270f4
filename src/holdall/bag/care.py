"""Maintenance of the store behind a bag: all of its sessions, not only the bag's own."""

import asyncio
import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from holdall.bag.core import open_existing_store
from holdall.bag.journal import Journal, logged_events
from holdall.policy.folds import PERSON, Counters
from holdall.store.opening import empty_store
from holdall.store.protocol import OutputStore, Progress, Removal, SessionInfo, Stats, Sweep, Verdict
from holdall.store.totals import bad_lines_of, is_over, would_free
from holdall.text.numbers import exact_age
from holdall.values.errors import NothingFound, OutputInUse, StoreFault, UnknownHandle, UsageError
from holdall.values.events import Event
from holdall.values.handles import MEMBER
from holdall.values.outputs import Facts
from holdall.values.settings import Settings


def remove_outputs(
    store: OutputStore, session: SessionInfo, references: Sequence[str], journal: Journal | None = None
) -> Removal:
    found = {facts.handle: facts for facts in [_resolved(store, session, one) for one in references]}
    removed = store.remove(session, list(found.values()))
    journal = journal or Journal(store, session, clock=time.time)
    for facts in removed.removed:
        if found[facts.handle].state != "expired":
            journal.record("removed", handle=facts.handle, tool=facts.origin.tool, bytes=facts.measure.bytes)
    journal.flush()
    return removed


def _resolved(store: OutputStore, session: SessionInfo, reference: str) -> Facts:
    try:
        return store.resolve(session, reference)
    except UnknownHandle:
        packed = reference.partition(MEMBER)
        if not packed[1]:
            raise
        handle = store.resolve(session, packed[0]).handle
        raise UsageError(
            f"what is packed in {handle} cannot be removed alone: remove {handle} itself. Nothing was removed."
        ) from None


class Care:
    """`bag.care`: maintenance. Nothing here touches an output that is still being written."""

    def __init__(self, store: OutputStore, session: SessionInfo | None) -> None:
        self._store = store
        self._session = session

    @classmethod
    @contextlib.contextmanager
    def of(cls, home: str, settings: Settings, *, session: str | None = None) -> Generator["Care"]:
        """For the store in `home`, without a bag: nothing is created or removed unasked.

        `session` is an existing one, for operations on a single session.
        """
        with open_existing_store(home, settings) as store:
            if store is None:
                yield cls(empty_store(), None)
            else:
                yield cls(store, store.find_session(session) if session is not None else None)

    async def sweep(
        self, *, dry_run: bool = False, older_than: float | None = None, only_this_session: bool = False
    ) -> Sweep:
        """Carry out retention in every session, and remove what killed writers left behind.

        With `older_than`, a number of seconds, outputs that are older go as well, whatever their session's rule is.
        With `only_this_session` nothing outside of the session and those below it is touched.
        """

        def work() -> Sweep:
            swept = Sweep(dry_run=dry_run) if only_this_session else self._store.sweep(dry_run=dry_run, thorough=True)
            if older_than is None and not only_this_session:
                return swept
            chosen = self._chosen(only_this_session)
            known = {facts.id for _, facts in swept.expired}
            for session in self._store.sessions() if chosen is None else chosen:
                try:
                    found, freed = self._expire(session, older_than, known, dry_run=dry_run)
                except StoreFault as problem:
                    swept = replace(swept, held=(*swept.held, (session.name, str(problem))))
                    continue
                expired = (*swept.expired, *((session.name, facts) for facts in found))
                swept = replace(swept, expired=expired, freed_bytes=swept.freed_bytes + freed)
            return swept

        return await asyncio.to_thread(work)

    def _expire(
        self, session: SessionInfo, older_than: float | None, known: set[str], *, dry_run: bool
    ) -> tuple[list[Facts], int]:
        """Those of the session that are over by its rule or by their age, without the known ones; the bytes freed."""
        now, rule = self._store.clock(), session.retention
        outputs = [facts for facts in self._store.outputs(session) if facts.state != "unreadable"]
        over = [facts for facts in outputs if is_over(session, facts, now) and facts.id not in known]
        known = known | {facts.id for facts in over}
        ended = [facts for facts in outputs if facts.state not in ("expired", "running") and facts.id not in known]
        old = [facts for facts in ended if older_than is not None and now - facts.created > older_than]
        if dry_run:
            return over + old, would_free(outputs, [*over, *old])
        freed = self._store.expire(session, over, f"kept for {rule.told}") if over else 0
        if old and older_than is not None:
            freed += self._store.expire(session, old, f"older than {exact_age(older_than)}")
        return over + old, freed

    async def remove(self, references: Sequence[str]) -> Removal:
        """Remove outputs of the session, by handle or call id: bytes, notices, remembered answers, what events quote.

        A tombstone stays for each. Bytes stay while another output of the session has them.
        """

        def work() -> Removal:
            if self._session is None:
                raise UnknownHandle(references[0], session="", known=())
            return remove_outputs(self._store, self._session, references)

        return await asyncio.to_thread(work)

    async def remove_session(self) -> tuple[Sequence[SessionInfo], Removal]:
        """Remove all that the session holds, and the sessions of its sub-agents; which these were.

        Of each its name stays, and a tombstone of every output. Raises SessionLocked while an agent runs in one of
        them.
        """
        return await asyncio.to_thread(self._remove_session)

    def _remove_session(self) -> tuple[Sequence[SessionInfo], Removal]:
        if self._session is None:
            raise NothingFound("there is no such session.")
        family, done = self._family(self._session), list[Removal]()
        with contextlib.ExitStack() as held:
            for one in family:
                held.enter_context(self._store.lease(one, "holdall rm"))
            for one in family:
                running = [facts.handle for facts in self._store.outputs(one) if facts.state == "running"]
                if running:
                    raise OutputInUse(running[0])
            for one in reversed(family):
                done.append(self._store.remove_session(one))
                journal = Journal(self._store, one, clock=time.time)
                journal.record("removed", outputs=len(done[-1].removed), bytes=done[-1].freed_bytes)
                journal.flush()
        every_one = tuple(facts for one in reversed(done) for facts in one.removed)
        # The last removal has tried again what those before it had left.
        freed, gone_before = sum(one.freed_bytes for one in done), sum(one.gone_before for one in done)
        return family, Removal(every_one, freed, left=done[-1].left, gone_before=gone_before)

    async def verify(self, *, only_this_session: bool = False, progress: Progress | None = None) -> Sequence[Verdict]:
        """Read every kept byte again and compare every hash."""
        chosen = self._chosen(only_this_session)

        def work() -> list[Verdict]:
            return list(self._store.verify(chosen, progress=progress))

        return await asyncio.to_thread(work)

    async def unreadable(self) -> Mapping[str, StoreFault]:
        """Handles of the session whose records cannot be read, and why."""
        session = self._session
        return await asyncio.to_thread(self._store.unreadable, session) if session is not None else {}

    def bad_lines(self) -> list[str]:
        """The lines of the session's log and transcript that are damaged or were not written to their end, and why."""
        if self._session is None:
            return []
        return [bad.told(log) for log, bad in bad_lines_of(self._store, self._session)]

    async def stats(self, *, only_this_session: bool = False) -> Stats:
        """How many outputs and bytes the sessions hold."""
        chosen = self._chosen(only_this_session)
        return await asyncio.to_thread(self._store.stats, chosen)

    async def counters(self, *, only_this_session: bool = False) -> Counters:
        """What the events of the sessions add up to: shown, kept, retrieved, refused."""

        def fold() -> Counters:
            total = Counters()
            chosen = self._chosen(only_this_session)
            for session in self._store.sessions() if chosen is None else chosen:
                told, readers = set[str](), dict[str, object]()
                for event in logged_events(self._store, session):
                    total.add(event)
                    if event.kind in ("kept", "ended"):
                        told.add(event.handle)
                    elif event.kind == "running":
                        readers[event.handle] = event.data.get("reader")
                for one in self._store.outputs(session):  # of a command whose keeper was killed no event tells
                    if one.origin.process and one.state == "interrupted" and one.handle not in told:
                        sizes = {"bytes": one.measure.bytes, "tokens": one.measure.tokens}
                        data = {**sizes, "reader": readers.get(one.handle, PERSON)}
                        total.add(Event(one.ended or one.created, "kept", one.handle, data=data))
            return total

        return await asyncio.to_thread(fold)

    async def sessions(self) -> Sequence[tuple[SessionInfo, int, int, int]]:
        """Every session, newest first, with its outputs, how many of them it keeps, and the bytes that these take."""
        return await self.held(await self.listed())

    async def listed(self) -> Sequence[SessionInfo]:
        """Every session, newest first; what they hold is not looked at."""
        return await asyncio.to_thread(self._store.sessions)

    async def held(self, sessions: Sequence[SessionInfo]) -> Sequence[tuple[SessionInfo, int, int, int]]:
        """What `sessions` tells, of these alone."""
        kept = await asyncio.to_thread(self._store.kept_by_session, sessions)
        return [(one, *kept.get(one.id, (0, 0, 0))) for one in sessions]

    def _chosen(self, only_this_session: bool) -> list[SessionInfo] | None:
        """None means all."""
        if not only_this_session:
            return None
        return self._family(self._session) if self._session is not None else []

    def _family(self, first: SessionInfo) -> list[SessionInfo]:
        """The session, and those below it."""
        below: dict[str, list[SessionInfo]] = {}
        for one in self._store.sessions():
            below.setdefault(one.parent, []).append(one)
        family = [first]
        for one in family:
            family += [child for child in below.pop(one.id, ()) if child.id != first.id]
        return family

    @staticmethod
    def ripgrep() -> str:
        """Where the ripgrep is that `grep` runs on. Where there is none, WorkerFault says what to install."""
        from holdall.search.ripgrep import ripgrep_path  # noqa: PLC0415 - asked by `doctor` alone

        return ripgrep_path()

    @staticmethod
    def sql_confinement() -> str:
        """What keeps SQL from files and the network on this system, beside DuckDB's own settings."""
        from holdall.sql.child import confinement  # noqa: PLC0415 - asked by `doctor` alone

        return confinement()
