"""The store that ships: plain files in one folder of the user's own; and the same for somebody who only looks.

Keeps the promises of `store.protocol`.
"""

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from holdall.policy.retention import Retention
from holdall.store.directory import disk, placement
from holdall.store.directory.folder import TERMINAL, SessionFolder
from holdall.store.directory.live import LiveWriter, RunningReader, interrupted, is_running
from holdall.store.directory.placement import Quota
from holdall.store.directory.root import Root
from holdall.store.directory.session_files import SessionFiles
from holdall.store.ids import new_uuid
from holdall.store.ingest import ingest
from holdall.store.protocol import OutputReader, Progress, SessionInfo
from holdall.store.reader import FileReader
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import (
    AmbiguousCallId,
    NothingFound,
    OutputExpired,
    StoreFault,
    StoreGone,
    UnknownHandle,
    WrongUse,
)
from holdall.values.handles import Foreign, Long, Short, parse
from holdall.values.outputs import Facts, Origin
from holdall.values.spans import BlockTable

# The store that ships: plain files in one folder of the user's own. Keeps the promises of `store.protocol`.
#
#     HOME/
#       names/            which session has which name
#       index.sqlite      a cache of the records
#       session-<uuid>/   0700, one per session
#         session.json    what the session is
#         <handle>.record one per output: its facts and block table
#         <uuid>.txt      the bytes, exactly as they came (.json where they are JSON)
#         terminal/       <uuid>.log, the output of commands
#
# It writes nothing outside HOME and follows no link inside it.


class DirectoryStore(SessionFiles):
    """Safe to use from several threads and several processes at once."""

    def __init__(
        self,
        home: str,
        *,
        tokenizer: Tokenizer | None = None,
        retention: Retention | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokenizer = tokenizer or Estimate()
        self.clock = clock
        self._retention = retention or Retention()
        self._quota = quota or Quota()
        self._root = Root(home, clock)

    def close(self) -> None:
        self._root.close()

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        with self._using("opening a session", make=True):
            found = self._root.sessions.find(name)
            if found is None:
                return self._root.sessions.make(name, retention or self._retention, parent)
            if retention is not None and retention != found.retention:
                return self._root.sessions.keep_for(found, retention)
            return found

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
            self.expire_all(session, self.outputs(session), "kept for its session, which has ended")

    # Outputs: in

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        progress: Progress | None = None,
    ) -> Facts:
        counted = placement.Counted(chunks)
        with self._using("keeping an output", make=True, needed=counted.bytes):
            folder = self._root.folder(session, make=True)
            inside = folder.terminal() if origin.terminal else folder.descriptor
            id = new_uuid()
            temporary = disk.INCOMING + id
            descriptor = disk.create(temporary, inside=inside)
            try:
                taken = ingest(counted, descriptor, self.tokenizer, progress=progress, room=self._room(session))
                facts = placement.facts_of(id, session.id, origin, taken, notes(), self.clock())
                with folder.lock():
                    file = placement.place(folder, self._root.catalogue, facts, taken.table, temporary, inside)
                    facts = placement.publish(folder, replace(facts, file=file), taken.table)
                    self._root.catalogue.note(folder, facts)
            finally:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=inside)
        self._root.check_reachable(folder)
        return facts

    def begin(self, session: SessionInfo, origin: Origin) -> LiveWriter:
        with self._using("starting an output", make=True):
            folder = self._root.folder(session, make=True)
            id = new_uuid()
            file = f"{TERMINAL}/{id}.log" if origin.terminal else f"{id}.txt"
            inside, name = folder.inside(file)
            descriptor = disk.create(name, inside=inside)
            try:
                os.fsync(inside)
                facts = placement.running_facts(id, session.id, origin, file, self.clock())
                with folder.lock():
                    facts = folder.publish(facts, BlockTable())
                    self._root.catalogue.note(folder, facts)
            except BaseException:
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=inside)
                raise
            return LiveWriter(
                folder, facts, descriptor, self.tokenizer,
                clock=self.clock, settle=self._settle, where=self.home, room=self._room(session),
            )  # fmt: skip

    # Outputs: out

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        with self._using("looking for an output"):
            folder = self._root.folder(session)
            found = self._named(folder, reference)
            if found is None and reference:
                found = self._called(folder, reference)
            if found is None:
                known = [facts.handle for facts in self._root.catalogue.all(folder) if facts.state != "expired"]
                raise UnknownHandle(reference, session=session.name, known=known[::-1])
            return self._current(folder, found)

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        with self._using("listing outputs"):
            folder = self._root.folder(session)
            return [self._listed(folder, facts) for facts in self._root.catalogue.all(folder)]

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
            current, table = self._loaded(folder, facts)
            if current.state == "running":
                if is_running(folder, current):
                    return RunningReader(folder.open_bytes(current), current)
                current, table = self._ended(folder, current)
            if current.state == "expired":
                when = time.strftime("%Y-%m-%d", time.gmtime(current.ended or current.created))
                raise OutputExpired(current.handle, when, current.error)
            return FileReader(folder.open_bytes(current), current, table)

    def stamp(self, facts: Facts) -> str | None:
        """Changes whenever the record does; None where it is gone."""
        with self._using("looking at an output"):
            return self._root.folder_by_id(facts.session).stamp(facts.handle)

    # Upkeep

    def expire(self, session: SessionInfo, facts: Facts, rule: str) -> int:
        """Leave a tombstone in place of an output. The number of bytes that this freed on disk."""
        return self.expire_all(session, [facts], rule)

    def expire_all(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        """The same for many at once: the folder is looked through only once for who shares their files."""
        with self._using("removing an output"):
            folder = self._root.folder(session)
            with folder.lock():
                handles = [facts.handle for facts in outputs]
                return placement.expire(folder, self._root.catalogue, handles, rule, self.clock())

    def used_bytes(self, session: SessionInfo) -> int:
        """What the session's outputs take on disk: identical ones once."""
        return sum({facts.file: facts.measure.bytes for facts in self.outputs(session) if facts.file}.values())

    # Inside

    @contextlib.contextmanager
    def _using(self, doing: str, *, make: bool = False, needed: Callable[[], int] | None = None) -> Generator[None]:
        with disk.explained(doing, self.home, needed=needed):
            self._root.check(make=make)
            yield

    def _named(self, folder: SessionFolder, reference: str) -> Facts | None:
        match parse(reference, session=folder.session.id):
            case Short(handle):
                loaded = folder.load(handle)
                return loaded[0] if loaded else None
            case Long(session, id):
                if session != folder.session.id:
                    return None
                return next(iter(self._root.catalogue.find(folder, column="id", value=id)), None)
            case Foreign():
                return None

    def _called(self, folder: SessionFolder, call_id: str) -> Facts | None:
        found = self._root.catalogue.find(folder, column="call_id", value=call_id)
        if len(found) > 1:
            raise AmbiguousCallId(call_id, [facts.handle for facts in found])
        return found[0] if found else None

    def _loaded(self, folder: SessionFolder, facts: Facts) -> tuple[Facts, BlockTable]:
        loaded = folder.load(facts.handle)
        if loaded is None:
            raise StoreGone(f"the record of output {facts.handle} was removed from the store by hand.")
        return loaded

    def _current(self, folder: SessionFolder, facts: Facts) -> Facts:
        if facts.state != "running" or is_running(folder, facts):
            return facts
        return self._ended(folder, facts)[0]

    def _ended(self, folder: SessionFolder, facts: Facts) -> tuple[Facts, BlockTable]:
        """A running output whose writer is gone becomes an interrupted one, once, by whoever looks first.

        Where the folder cannot be written to, it is shown as interrupted all the same.
        """
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(folder.lock())
            current, table = self._loaded(folder, facts)
            if current.state != "running":
                return current, table
            final, table = interrupted(folder, current, self.tokenizer, self.clock())
            with contextlib.suppress(OSError):
                folder.rewrite(final, table)
                self._root.catalogue.note(folder, final)
            return final, table

    def _listed(self, folder: SessionFolder, facts: Facts) -> Facts:
        """The same for lists: one output whose file is gone does not hide the others."""
        try:
            return self._current(folder, facts)
        except StoreFault as fault:
            return replace(facts, state="interrupted", error=str(fault))

    def _settle(self, folder: SessionFolder, facts: Facts, table: BlockTable) -> Facts:
        return placement.settle(folder, self._root.catalogue, facts, table)

    def _room(self, session: SessionInfo) -> Callable[[int], None] | None:
        """None where there is no quota: nothing is counted then."""
        if self._quota == Quota():
            return None
        in_all = sum(map(self.used_bytes, self.sessions())) if self._quota.store_bytes is not None else 0
        return placement.room_for(self._quota, self.used_bytes(session), in_all)


# The directory store for somebody who only looks: a viewer must not become part of what it shows.
#
# Nothing is kept, begun, expired or written down through it, and no session is made: what is not there is an error. It
# may fill the caches, as every look does, and an output whose writer died is found to be interrupted, as by every look.


class ReadOnlyStore(DirectoryStore):
    """What a bag does by itself, without being asked (its log, the end of its session), is quietly left out."""

    def open_session(self, name: str, **_options: Any) -> SessionInfo:
        found = self.find_session(name)
        if found is None:
            raise NothingFound("there is no such session.")
        return found

    def end_session(self, session: SessionInfo) -> None:
        """It goes on without us."""

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        """What a person looks at was not shown to the model."""

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes) -> None:
        """Nothing is asked of a model here that would be worth remembering."""

    def put(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def begin(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def append_transcript(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def save_tree(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def lease(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def expire_all(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()


def _refusal() -> WrongUse:
    return WrongUse("this store was opened to look at it, and nothing is changed through it.")
