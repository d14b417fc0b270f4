"""The store that ships: plain files in one folder of the user's own. Keeps the promises of `store.protocol`.

    HOME/
      names/            which session has which name
      index.sqlite      a cache of the records
      session-<uuid>/   0700, one per session
        session.json    what the session is
        <handle>.record one per output: its facts and block table
        <uuid>.txt      the bytes, exactly as they came (.json where they are JSON)
        terminal/       <uuid>.log, the output of commands

It writes nothing outside HOME and follows no link inside it.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from holdall.store import files
from holdall.store.directory import disk, placement, publish, upkeep
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.live import LiveWriter, interrupted, is_running
from holdall.store.directory.publish import StagingFolder
from holdall.store.directory.root import Root
from holdall.store.directory.session_files import SessionFiles
from holdall.store.directory.summaries import NAME as SUMMARIES
from holdall.store.directory.summaries import Summaries, session_stamps
from holdall.store.ids import new_uuid
from holdall.store.ingest import Counted, facts_of, ingest, running_facts
from holdall.store.memory_files import Handle
from holdall.store.protocol import (
    OutputReader,
    Progress,
    Quota,
    Removal,
    SavedSummary,
    SessionInfo,
    Stamp,
    Stats,
    Sweep,
    Verdict,
    Watch,
)
from holdall.store.reader import FileReader, RunningReader
from holdall.store.records import PREFIX, TERMINAL, unreadable
from holdall.store.totals import Rooms, in_time, stats_of, used_bytes_of
from holdall.store.watch import FileWatch, ToldWatch
from holdall.text.escape import foreign
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import AmbiguousCallId, OutputExpired, StoreFault, StoreGone, UnknownHandle
from holdall.values.handles import Foreign, Long, Short, parse
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable


class DirectoryStore(SessionFiles):
    """Safe to use from several threads and several processes at once."""

    def __init__(
        self,
        home: str | Root,
        *,
        tokenizer: Tokenizer | None = None,
        retention: Retention | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokenizer = tokenizer or Estimate()
        self.clock = clock
        self._retention = retention or Retention()
        self._rooms = Rooms(self.used_bytes, quota or Quota())
        self._root = home if isinstance(home, Root) else Root(os.path.abspath(home), clock)
        self._summaries: Summaries = Summaries(self._root.cache(SUMMARIES))

    @property
    def root(self) -> int:
        return self._root.descriptor

    def close(self) -> None:
        self._root.close()
        self._summaries.close()

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        with self._using("opening a session", make=True):
            found = self._root.sessions.find(name)
            if found is None:
                return self._root.sessions.make(name, retention or self._retention, parent)
            if retention is not None and retention != found.retention:
                found = self._root.sessions.keep_for(found, retention)
                self._root.folder(found).session = found
            return found

    def mark(self, session: SessionInfo) -> str:
        if session.mark:
            return session.mark
        with self._using("marking a session"):
            return self._root.sessions.mark(session)

    def find_session(self, name: str) -> SessionInfo | None:
        with self._using("looking for a session"):
            return self._root.sessions.find(name)

    def sessions(self) -> Sequence[SessionInfo]:
        with self._using("listing the sessions"):
            return self._root.sessions.all()

    def unreadable_sessions(self) -> Mapping[str, StoreFault]:
        """Sessions that another version made, or that are damaged: they are not among the others."""
        with self._using("listing the sessions"):
            return self._root.sessions.unreadable()

    def end_session(self, session: SessionInfo) -> None:
        if session.retention.session:
            outputs = self.outputs(session)
            if all(facts.state != "unreadable" for facts in outputs):  # else none can go, and gc says so
                self.expire(session, outputs, "kept for its session, which has ended")

    def leave_session(self, session: SessionInfo) -> None:
        self._root.close_folder(session)

    # Outputs: in

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        surrogates: Callable[[], str] = str,
        tokenizer: Tokenizer | None = None,
        progress: Progress | None = None,
    ) -> Facts:
        counted, room = Counted(chunks), self._rooms.of(session)
        with self._using("keeping an output", make=True, needed=counted.bytes):
            folder = self._root.folder(session, make=True)
            inside = folder.terminal() if origin.terminal else folder.descriptor
            id = new_uuid()
            temporary = disk.INCOMING + id
            descriptor = disk.create(temporary, inside=inside)
            try:
                taken = ingest(counted, descriptor, tokenizer or self.tokenizer, progress=progress, room=room)
                facts = facts_of(id, session.id, origin, taken, notes(), surrogates(), self.clock())
                with folder.lock():
                    if room is not None:
                        room.check_again()
                    facts = self._root.catalogue.placed(folder, facts)
                    file = placement.place(folder, self._root.catalogue, facts, taken.table, temporary, inside)
                    facts = placement.publish(folder, replace(facts, file=file), taken.table)
                    self._root.catalogue.note(folder, facts)
            finally:
                if room is not None:
                    room.close()
                files.close(descriptor)
                with contextlib.suppress(OSError):
                    files.unlink(temporary, dir_fd=inside)
            self._root.check_reachable(folder)
        return facts

    def begin(self, session: SessionInfo, origin: Origin, *, tokenizer: Tokenizer | None = None) -> LiveWriter:
        with self._using("starting an output", make=True):
            folder = self._root.folder(session, make=True)
            id = new_uuid()
            file = f"{TERMINAL}/{id}.log" if origin.terminal else f"{id}.txt"
            inside, name = folder.inside(file)
            descriptor = disk.create(name, inside=inside)
            try:
                files.fsync(inside)
                facts = running_facts(id, session.id, origin, file, self.clock())
                with folder.lock():
                    facts = folder.publish(self._root.catalogue.placed(folder, facts), BlockTable())
                    self._root.catalogue.note(folder, facts)
            except BaseException:
                files.close(descriptor)
                with contextlib.suppress(OSError):
                    files.unlink(name, dir_fd=inside)
                raise
            return LiveWriter(
                folder, facts, descriptor, tokenizer or self.tokenizer,
                clock=self.clock, settle=self._settle, where=self.home, room=self._rooms.of(session),
            )  # fmt: skip

    # Outputs: out

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        with self._using("looking for an output"):
            folder = self._root.folder(session)
            found = self._named(folder, reference)
            if found is None and reference:
                # A handle without a record is unknown, whatever the call ids are in records that cannot be read.
                is_handle = isinstance(parse(reference, session=session.id), Short)
                with contextlib.suppress(*[StoreFault] if is_handle else []):
                    found = self._called(folder, reference)
            if found is None:
                known = [facts.handle for facts in self._root.catalogue.all(folder) if facts.state != "expired"]
                raise UnknownHandle(reference, session=session.name, known=known[::-1])
            return self._in_time(folder, [self._current(folder, found)])[0]

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        with self._using("listing outputs"):
            folder, found, faults = self.survey(session)
            unread = [unreadable(handle, session.id, fault, folder.changed(handle)) for handle, fault in faults.items()]
            every = [*self._in_time(folder, found), *unread]
            return sorted(every, key=lambda facts: (facts.place, facts.handle)) if unread else every

    def _stored(self, session: SessionInfo) -> Sequence[Facts]:
        """Also what is past its time, until `sweep` removes it."""
        return self.survey(session)[1]

    def _counted(self, session: SessionInfo) -> Sequence[Facts]:
        """The same, as what has expired: its bytes are there, and nobody gets them."""
        folder, found, _ = self.survey(session)
        return self._in_time(folder, found)

    def survey(self, session: SessionInfo) -> tuple[SessionFolder, Sequence[Facts], dict[str, StoreFault]]:
        """For upkeep: the folder, its outputs, and the handles whose records cannot be read."""
        with self._using("listing outputs"):
            folder = self._root.folder(session)
            found, faults = self._root.catalogue.survey(folder)
            return folder, [self._listed(folder, facts) for facts in found], faults

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        return self.survey(session)[2]

    def open(self, facts: Facts) -> OutputReader:
        with self._using("opening an output"):
            folder = self._root.folder_by_id(facts.session)
            return self._reader(folder, *self._loaded(folder, facts))

    def open_named(self, session: SessionInfo, reference: str) -> OutputReader:
        with self._using("opening an output"):
            folder = self._root.folder(session)
            match parse(reference, session=session.id):
                case Short(handle) if (loaded := folder.load(handle)) is not None:
                    return self._reader(folder, *loaded)
                case _:
                    return self.open(self.resolve(session, reference))

    def stamp(self, facts: Facts) -> str | None:
        """Changes whenever the record does; None if it is gone."""
        with self._using("looking at an output"):
            folder = self._root.folder_by_id(facts.session)
            stamp = folder.stamp(facts.handle)
            return stamp and stamp + self._in_time(folder, [facts])[0].state

    def watch(self, facts: Facts) -> Watch:
        with self._using("watching an output"):
            folder = self._root.folder_by_id(facts.session)
            [current] = self._in_time(folder, [self._loaded(folder, facts)[0]])
            if current.state == "expired":
                raise _expired(current)
            descriptor = folder.open_bytes(current)
            try:
                return ToldWatch(descriptor.data.watches) if isinstance(descriptor, Handle) else FileWatch(descriptor)
            finally:
                files.close(descriptor)

    # Upkeep

    def expire(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        """The folder is looked through only once for who shares their files."""
        with self._using("removing an output"):
            folder = self._root.folder(session)
            with folder.lock():
                handles = [facts.handle for facts in outputs]
                return placement.expire(folder, self._root.catalogue, handles, rule, self.clock())

    def remove(self, session: SessionInfo, outputs: Sequence[Facts]) -> Removal:
        with self._using("removing an output"):
            folder = self._root.folder(session)
            for facts in outputs:
                self._current(folder, facts)  # one whose writer is gone is over
            with folder.lock():
                handles = [facts.handle for facts in outputs]
                return placement.remove(folder, self._root.catalogue, handles, self.clock())

    def remove_session(self, session: SessionInfo) -> Removal:
        self.outputs(session)
        with self._using("removing a session"):
            folder = self._root.folder(session)
            with folder.lock():
                removed = placement.remove(folder, self._root.catalogue, None, self.clock())
        self.forget_summaries([session.id])  # the beginning of a task is in them
        return removed

    def sweep_due(self) -> bool:
        return upkeep.due(self)

    def kept_by_session(self, sessions: Sequence[SessionInfo] | None = None) -> Mapping[str, tuple[int, int, int]]:
        counts: dict[str, tuple[int, int, int]] = {}
        for session in self.sessions() if sessions is None else sessions:
            stored = self._counted(session)  # of one session at a time: a store may hold millions
            kept = sum(facts.state != "expired" for facts in stored)
            counts[session.id] = (len(stored), kept, used_bytes_of(self, session, lambda _, stored=stored: stored))
        return counts

    def sweep(self, *, dry_run: bool = False, thorough: bool = False) -> Sweep:  # noqa: ARG002 - it always is
        return upkeep.sweep(self, dry_run=dry_run)

    def verify(
        self, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
    ) -> Iterator[Verdict]:
        return upkeep.verify(self, sessions, progress=progress)

    def stats(self, sessions: Sequence[SessionInfo] | None = None) -> Stats:
        with self._using("counting outputs"):
            return stats_of(self, map(self._counted, self.sessions() if sessions is None else sessions))

    def used_bytes(self, session: SessionInfo | None = None) -> int:
        with self._using("counting outputs"):
            return used_bytes_of(self, session, self._stored)

    def free_bytes(self) -> int | None:
        with self._using("looking for room"):
            about = os.statvfs(self.home)
            return about.f_bavail * about.f_frsize

    @contextlib.contextmanager
    def staging(self) -> Generator[StagingFolder]:
        with (
            self._using("importing a bundle", make=True),
            publish.staging(self._root.descriptor, self._root.sessions) as staged,
        ):
            yield staged

    # All sessions at a glance

    def session_stamps(self, sessions: Iterable[str] | None = None) -> Mapping[str, Stamp]:
        with self._using("listing the sessions"):
            return session_stamps(self._root.descriptor, sessions)

    def summaries(self) -> Sequence[SavedSummary]:
        return self._summaries.rows()

    def save_summaries(self, summaries: Sequence[SavedSummary]) -> None:
        self._summaries.save(summaries)

    def forget_summaries(self, sessions: Sequence[str]) -> None:
        self._summaries.forget(sessions)

    # Inside

    def _reader(self, folder: SessionFolder, facts: Facts, table: BlockTable) -> OutputReader:
        if facts.state == "running":
            if is_running(folder, facts):
                return RunningReader(folder.open_bytes(facts), facts)
            facts, table = self._ended(folder, facts)
        [facts] = self._in_time(folder, [facts])
        if facts.state == "expired":
            raise _expired(facts)
        return FileReader(folder.open_bytes(facts), facts, table)

    def _named(self, folder: SessionFolder, reference: str) -> Facts | None:
        match parse(reference, session=folder.session.id):
            case Short(handle):
                loaded = folder.load(handle)
                return loaded[0] if loaded else None
            case Long(session, id):
                if session != folder.session.id and session not in folder.session.was:
                    return None
                return next(iter(self._root.catalogue.find(folder, column="id", value=id)), None)
            case Foreign():
                return None

    def _called(self, folder: SessionFolder, call_id: str) -> Facts | None:
        found = self._root.catalogue.find(folder, column="call_id", value=call_id)
        if len(found) > 1:  # what is gone is meant only where nothing else is left
            found = [facts for facts in self._in_time(folder, found) if facts.state != "expired"] or found[-1:]
        if len(found) > 1:
            raise AmbiguousCallId(call_id, [facts.handle for facts in found])
        return found[0] if found else None

    def _loaded(self, folder: SessionFolder, facts: Facts) -> tuple[Facts, BlockTable]:
        loaded = folder.load(facts.handle)
        if loaded is None:
            raise StoreGone(f"the record of output {facts.handle} was removed from the store by hand.")
        return loaded

    def _in_time(self, folder: SessionFolder, outputs: Sequence[Facts]) -> list[Facts]:
        now = self.clock()
        rule = folder.session.retention
        if rule.days and any(rule.is_over(facts, now) for facts in outputs):
            rule = (self._root.sessions.find(PREFIX + folder.session.id) or folder.session).retention  # as it is now
        return in_time(outputs, rule, now)

    def _current(self, folder: SessionFolder, facts: Facts) -> Facts:
        if facts.state != "running" or is_running(folder, facts):
            return facts
        return self._ended(folder, facts)[0]

    def _ended(self, folder: SessionFolder, facts: Facts) -> tuple[Facts, BlockTable]:
        """A running output whose writer is gone becomes interrupted when it is next read.

        Where the folder cannot be written to, it is shown as interrupted anyway.
        """
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(folder.lock())
            current, table = self._loaded(folder, facts)
            if current.state != "running":
                return current, table
            final, table = interrupted(folder, current, self.tokenizer, self.clock())
            try:
                folder.rewrite(final, table)
                self._root.catalogue.note(folder, final)
            except OSError as problem:
                if problem.errno in (errno.ENOSPC, errno.EDQUOT):  # then its writer had no room to say why, either
                    final = replace(final, error=f"{final.error} (no space is left on its disk)")
            return final, table

    def _listed(self, folder: SessionFolder, facts: Facts) -> Facts:
        """The same for lists: one output whose file is gone does not hide the others."""
        try:
            return self._current(folder, facts)
        except OSError as problem:  # whether it runs cannot be said at the moment
            fault = disk.store_fault_from(problem, "looking at an output", self.home)
            return replace(facts, state="unreadable", error=str(fault))
        except StoreFault as fault:
            return replace(facts, state="interrupted", error=str(fault))

    def _settle(self, folder: SessionFolder, facts: Facts, table: BlockTable) -> Facts:
        return placement.settle(folder, self._root.catalogue, facts, table)


def _expired(facts: Facts) -> OutputExpired:
    when = time.strftime("%Y-%m-%d", time.gmtime(facts.ended or facts.created))
    return OutputExpired(facts.handle, when, foreign(facts.error), removed=not facts.file)
