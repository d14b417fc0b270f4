"""One store for many hosts. Keeps the promises of `store.protocol` with an object store and PostgreSQL.

    bytes      one object per output, named by a uuid that is drawn for it; of a running output, its segments
    the rest   rows of PostgreSQL (`fleet.schema`): sessions, outputs, logs, notes, leases

An output is kept in this order: a row says what is intended, the object is written, then one transaction makes the
record, with a handle that is unique in its session by constraint, and removes the intent. Only then is the handle given
out. Whatever is killed in between leaves an intent, and the next sweep removes its object once its writer is gone. Who
removes an object first marks its intent as doomed: a writer that comes back late cannot name it any more.

Order, uniqueness and time are PostgreSQL's. Everybody who changes outputs of a session locks the session's row.
"""

import contextlib
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import LiteralString, NamedTuple

from holdall.policy.measure import Measurer, of_origin
from holdall.store.directory import disk
from holdall.store.fleet import upkeep
from holdall.store.fleet.cache import CachedFile
from holdall.store.fleet.database import Conflict, Connection, Row
from holdall.store.fleet.objects import SMALL, name_of, segment_of
from holdall.store.fleet.pulse import ALIVE
from holdall.store.fleet.reader import FleetReader, FleetRunningReader, Segment
from holdall.store.fleet.rows import BY_CALL, BY_ID, LOAD, NEXT, SEGMENTS, FleetRows, Loaded, call_hash, of_bytes
from holdall.store.fleet.staging import FleetStaging
from holdall.store.fleet.writer import FleetWriter
from holdall.store.ids import new_handle, new_uuid
from holdall.store.ingest import Counted, facts_of, ingest, running_facts
from holdall.store.protocol import (
    OutputReader,
    Progress,
    Removal,
    SessionInfo,
    Stats,
    Sweep,
    Verdict,
    Watch,
)
from holdall.store.records import PREFIX, TERMINAL, file_for, unreadable
from holdall.store.totals import Rooms, in_time, stats_of
from holdall.store.watch import ToldWatch
from holdall.text.escape import foreign
from holdall.text.tokens import Tokenizer
from holdall.values.errors import (
    AmbiguousCallId,
    OutputDamaged,
    OutputExpired,
    OutputMissing,
    StoreFault,
    StoreGone,
    UnknownHandle,
)
from holdall.values.handles import Foreign, Long, Short, is_short, is_uuid, parse
from holdall.values.outputs import Facts, Origin, why_interrupted
from holdall.values.spans import BlockTable

_HANDLES = 64  # tries
_PROOF_BYTES = 8
_PIECE = 8 * 1024 * 1024

_INTEND: LiteralString = """WITH sync AS (SELECT set_config('synchronous_commit', 'off', true)),
twin AS (SELECT object, bytes, parts FROM holdall_outputs WHERE principal = %(principal)s AND session = %(session)s
    AND sha256 = %(sha256)s AND bytes = %(bytes)s AND object IS NOT NULL AND state <> 'running' LIMIT 1),
intent AS (INSERT INTO holdall_intents (object, principal, lease, bytes)
    SELECT %(object)s, %(principal)s, %(lease)s, %(bytes)s FROM sync
    WHERE %(always)s OR NOT EXISTS (SELECT 1 FROM twin)
    ON CONFLICT DO NOTHING)  -- it is asked again where the answer was lost
SELECT object::text, parts FROM twin"""
_INTEND_JOINED: LiteralString = """INSERT INTO holdall_intents (object, principal, lease, bytes)
VALUES (%(object)s, %(principal)s, %(lease)s, %(bytes)s) ON CONFLICT DO NOTHING"""
_TWIN: LiteralString = """SELECT object::text, parts, facts, handle FROM holdall_outputs
WHERE principal = %(principal)s AND session = %(session)s AND sha256 = %(sha256)s AND bytes = %(bytes)s
AND object IS NOT NULL AND object <> ALL(%(bad)s::uuid[]) AND state <> 'running' ORDER BY place LIMIT 1"""
# A new output in one round trip, where nothing is in the way: its place is behind all others, its handle is free, no
# other output has its bytes. It changes nothing where the intent is gone, and fails where the handle is taken.
_PUBLISH: LiteralString = """WITH next AS (UPDATE holdall_sessions SET changes = changes + 1, place = %(place)s
    WHERE principal = %(principal)s AND id = %(session)s AND name IS NOT NULL AND place <= %(place)s
    AND NOT EXISTS (SELECT 1 FROM holdall_outputs WHERE principal = %(principal)s AND session = %(session)s
        AND sha256 = %(sha256)s AND bytes = %(bytes)s AND object IS NOT NULL AND state <> 'running') RETURNING changes),
done AS (DELETE FROM holdall_intents WHERE object = %(object)s AND principal = %(principal)s AND NOT doomed
    AND EXISTS (SELECT 1 FROM next) RETURNING object)
INSERT INTO holdall_outputs (principal, session, handle, id, call, sha256, state, place, bytes, object, parts, version,
    facts, blocks, since)
SELECT %(principal)s, %(session)s, %(handle)s, %(id)s, %(call)s, %(sha256)s, %(state)s, %(place)s, %(bytes)s,
    done.object, 0, next.changes, %(facts)s, %(blocks)s, %(since)s FROM next, done RETURNING handle"""
_DONE: LiteralString = """DELETE FROM holdall_intents WHERE object = %(object)s AND principal = %(principal)s
AND NOT doomed"""
_GROWN: LiteralString = """UPDATE holdall_outputs SET parts = %(number)s + 1, bytes = %(end)s
WHERE principal = %(principal)s AND session = %(session)s AND handle = %(handle)s AND id = %(id)s
AND state = 'running' AND lease = %(lease)s AND parts = %(number)s"""
_ADD_SEGMENT: LiteralString = """INSERT INTO holdall_segments (principal, object, number, start, length)
VALUES (%(principal)s, %(object)s, %(number)s, %(start)s, %(length)s)"""
_FENCE: LiteralString = f"""UPDATE holdall_outputs o SET lease = NULL
WHERE o.principal = %(principal)s AND o.session = %(session)s AND o.handle = %(handle)s AND o.state = 'running'
AND NOT EXISTS (SELECT 1 FROM holdall_leases l WHERE l.id = o.lease AND {ALIVE})"""
_USED: LiteralString = """SELECT coalesce(sum(bytes), 0)::bigint FROM (SELECT DISTINCT session, object, bytes
FROM holdall_outputs WHERE principal = %(principal)s AND object IS NOT NULL
AND (%(session)s::uuid IS NULL OR session = %(session)s)) kept"""


_MAX_RULES = 10_000  # of sessions that are remembered


class FleetStore(FleetRows):
    """Safe to use from several threads, processes and hosts at once.

    `principal` is whose sessions these are: others are as if they were not there. Without one it is the database user.
    """

    @functools.cached_property
    def _rooms(self) -> Rooms:
        """The quota of the store is that of the principal."""
        return Rooms(self.used_bytes, self._quota)

    # Sessions that end

    def end_session(self, session: SessionInfo) -> None:
        if session.retention.session:
            ended = [facts for facts in self.outputs(session) if facts.state != "unreadable"]
            self.expire(session, ended, "kept for its session, which has ended")

    def leave_session(self, session: SessionInfo) -> None:
        """Nothing is held open for a session."""

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
        with self.cache.incoming() as file:
            sending = _Sending(self, session, file)
            try:
                with disk.explained("keeping an output", self.cache.path, needed=counted.bytes):
                    taken = ingest(
                        counted, file.descriptor, tokenizer or self.tokenizer, progress=progress,
                        room=room, written=sending.start,
                    )  # fmt: skip
                facts = facts_of(new_uuid(), session.id, origin, taken, notes(), surrogates(), self.clock())
                kept, used = self._keep(session, replace(facts, file=file_for(facts)), taken.table, sending)
            except BaseException:
                sending.abandon()
                raise
            finally:
                if room is not None:
                    room.close()
            if used == sending.object:
                self.cache.adopt(file, used, facts.measure.bytes)
            else:
                sending.abandon()
            return kept

    def _keep(self, session: SessionInfo, facts: Facts, table: BlockTable, sending: "_Sending") -> tuple[Facts, str]:
        for _ in range(2):
            own = sending.result()
            try:
                return self._publish(session, facts, table, own, sending.bad)
            except _TwinGone:  # it was removed since we looked: then we need a copy of our own
                sending.send()
        raise StoreFault("the same bytes were kept and removed again by others, twice. Try again.")

    def is_there(self, object: str, parts: int, length: int, descriptor: int) -> bool:
        """Whether an object that we might share has these bytes: a damaged copy is no copy. What is read is no more
        than what would be written else."""
        at = 0
        for name in [segment_of(object, number) for number in range(parts)] or [name_of(object)]:
            end = self.objects.length(name) if length else 0
            if end is None or at + end > length:
                return False
            for start in range(0, end, _PIECE):
                here = os.pread(descriptor, min(_PIECE, end - start), at + start)
                if self.objects.get(name, start, start + len(here)) != here:
                    return False
            at += end
        return at == length

    def _publish(
        self, session: SessionInfo, facts: Facts, table: BlockTable, object: str | None, bad: list[str]
    ) -> tuple[Facts, str]:
        """The record, under a handle, in one transaction; and the object that has its bytes."""
        if object is not None and not bad:
            named = replace(facts, handle=new_handle(0))
            values = self.columns(named, table, object, 0, 0) | {"place": named.place}
            with contextlib.suppress(Conflict):
                if self.database.row("keeping an output", _PUBLISH, values) is not None:
                    return named, object
        tries = 1 if object is not None and not bad else 0  # its answer may have been lost

        def work(connection: Connection) -> tuple[Facts, str]:
            nonlocal tries
            tries += 1
            placed, version = self._placed(connection, session, facts)
            if tries > 1 and (row := connection.execute(BY_ID, self.about(session, id=facts.id)).fetchone()):
                done = self.loaded(session.id, row)  # the answer to the first commit was lost
                return self.readable(done), done.object or ""
            if (twin := self._twin(connection, facts, bad)) is not None:
                placed = replace(placed, file=twin.file)
                return self.insert(connection, placed, table, twin.object, twin.parts, version), twin.object
            if object is None:
                raise _TwinGone
            if connection.execute(_DONE, self.about(session, object=object)).rowcount != 1:
                raise StoreFault("this host was away for too long while it kept an output; nothing of it is kept.")
            return self.insert(connection, placed, table, object, 0, version), object

        return self.database.run("keeping an output", work, again=True)

    def _twin(self, connection: Connection, facts: Facts, bad: list[str]) -> "_Twin | None":
        """Another output of the session with the same bytes."""
        row = connection.execute(_TWIN, self.about(facts.session, bad=bad, **of_bytes(facts))).fetchone()
        with contextlib.suppress(StoreFault):  # a damaged record is no copy
            return _Twin(row[0], row[1], self.readable_facts(facts.session, row[3], row[2]).file) if row else None
        return None

    def _placed(self, connection: Connection, session: SessionInfo, facts: Facts) -> tuple[Facts, int]:
        """A new output, behind all others in lists whatever the clock says. The session's row is locked from here."""
        row = connection.execute(NEXT, self.about(session, created=facts.created)).fetchone()
        if row is None:
            raise StoreGone(f'the session "{session.name}" was removed from {self.home}.')
        return (facts if row[1] == facts.created else replace(facts, order=row[1])), row[0]

    # Outputs that grow

    def begin(self, session: SessionInfo, origin: Origin, *, tokenizer: Tokenizer | None = None) -> FleetWriter:
        id, object, lease = new_uuid(), new_uuid(), self.lease_id
        file = f"{TERMINAL}/{id}.log" if origin.terminal else f"{id}.txt"
        facts = running_facts(id, session.id, origin, file, self.clock())
        room = self._rooms.of(session)
        intend: LiteralString = """INSERT INTO holdall_intents (object, principal, lease)
            VALUES (%(object)s, %(principal)s, %(lease)s)"""

        def work(connection: Connection) -> Facts:
            placed, version = self._placed(connection, session, facts)
            connection.execute(intend, self.about(session, object=object, lease=lease))
            return self.insert(connection, placed, BlockTable(), object, 0, version, lease)

        begun = self.database.run("starting an output", work)
        return FleetWriter(self, begun, object, tokenizer or self.tokenizer, room, self.cache.unnamed())

    def put_segment(self, facts: Facts, object: str, segment: Segment, data: bytes) -> None:
        self.objects.put(segment_of(object, segment.number), data)
        values = self.about(
            facts.session, handle=facts.handle, id=facts.id, object=object, lease=self.lease_id,
            end=segment.start + segment.length, **segment._asdict(),
        )  # fmt: skip

        def work(connection: Connection) -> bool:
            if connection.execute(_GROWN, values).rowcount == 1:
                connection.execute(_ADD_SEGMENT, values)
                self._notify(connection, facts.id)
                return True
            known = connection.execute(SEGMENTS, values).fetchone()  # our own, where an answer was lost
            return known is not None and tuple(known) == segment

        if not self.database.run("writing a running output", work, again=True):
            with contextlib.suppress(StoreFault):
                self.objects.remove([segment_of(object, segment.number)])
            raise _not_ours(facts)

    def joined(self, facts: Facts, file: CachedFile, length: int) -> str | None:
        """The bytes of a running output as one object, in place of its segments; None where that cannot be done."""
        object = new_uuid()
        try:
            values = self.about(facts.session, object=object, lease=self.lease_id, bytes=length)
            self.database.rows("joining segments", _INTEND_JOINED, values)
            self.objects.put_file(name_of(object), file.descriptor, length)
        except StoreFault:
            upkeep.abandon(self, object)
            return None
        return object

    def end_output(self, facts: Facts, object: str, parts: int, table: BlockTable, joined: str | None = None) -> Facts:
        def work(connection: Connection) -> tuple[Facts, bool]:
            version = self.changed(connection, facts.session)
            row = connection.execute(LOAD, self.about(facts.session, handle=facts.handle)).fetchone()
            now = self.loaded(facts.session, row) if row is not None else None
            if now is not None and isinstance(now.facts, Facts) and now.facts.measure == facts.measure:
                return now.facts, now.object not in (object, joined)  # the answer to the first commit was lost
            mine: LiteralString = """SELECT 1 FROM holdall_outputs WHERE principal = %(principal)s
                AND session = %(session)s AND handle = %(handle)s AND state = 'running' AND lease = %(lease)s"""
            if connection.execute(
                mine, self.about(facts.session, handle=facts.handle, lease=self.lease_id)
            ).fetchone() is None:  # fmt: skip
                raise _not_ours(facts)
            return self._settle(connection, facts, table, object, parts, version, joined)

        try:
            final, is_shared = self.database.run("ending a running output", work, again=True)
        except StoreFault:
            if joined is not None:
                upkeep.abandon(self, joined)
            raise
        if is_shared:
            upkeep.carry_out(self, [object] if joined is None else [object, joined])
        return final

    def _settle(
        self, connection: Connection, facts: Facts, table: BlockTable, object: str, parts: int, version: int,
        joined: str | None,
    ) -> tuple[Facts, bool]:  # fmt: skip
        """The last record of a running output; its own objects go where the same bytes are kept already.

        Segments that were joined stay until the next sweep or removal: others may be reading them.
        """
        if (twin := self._twin(connection, facts, [object])) is not None:
            facts = replace(facts, file=twin.file)
            self.rewrite(connection, facts, table, twin.object, twin.parts, version)
            upkeep.doom(self, connection, [object] if joined is None else [object, joined])
        elif joined is not None and connection.execute(_DONE, self.about(facts.session, object=joined)).rowcount == 1:
            self.rewrite(connection, facts, table, joined, 0, version)
            upkeep.doom(self, connection, [object])
        else:
            self.rewrite(connection, facts, table, object, parts, version)
            connection.execute(_DONE, self.about(facts.session, object=object))
        self._notify(connection, facts.id)
        return facts, twin is not None

    def let_go(self, facts: Facts) -> None:
        """Without an end it is interrupted."""
        statement: LiteralString = """WITH gone AS (UPDATE holdall_outputs SET lease = NULL
            WHERE principal = %(principal)s AND session = %(session)s AND handle = %(handle)s AND lease = %(lease)s)
            SELECT pg_notify(%(channel)s, %(told)s)"""
        values = self.about(
            facts.session, handle=facts.handle, lease=self._pulse.id, channel=self.channel, told=facts.id
        )
        self._pulse.release(lambda: self.database.rows("letting go of an output", statement, values))

    def _notify(self, connection: Connection, told: str) -> None:
        connection.execute("SELECT pg_notify(%(channel)s, %(told)s)", {"channel": self.channel, "told": told})

    # Outputs: out

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        found = self._named(session, reference)
        if found is None and reference:
            found = self._called(session, reference)
        if found is None:
            known = [one.facts.handle for one in self.survey(session) if isinstance(one.facts, Facts)
                     and one.facts.state != "expired"]  # fmt: skip
            raise UnknownHandle(reference, session=session.name, known=known[::-1])
        return self._in_time(session.id, [self._current(found)])[0]

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        rows = self.survey(session)
        listed = [self._listed(one) for one in rows if isinstance(one.facts, Facts)]
        unread = [unreadable(one.handle, session.id, one.facts) for one in rows if not isinstance(one.facts, Facts)]
        return [*unread, *self._in_time(session.id, listed)]

    def _in_time(self, session: str, outputs: Sequence[Facts]) -> list[Facts]:
        """By the rule that we know of the session; before anything goes by it, as it is now."""
        now, rule = self.clock(), self._rules.get(session)
        if rule is None or any(rule.is_over(facts, now) for facts in outputs):
            found = self.find_session(PREFIX + session)
            if found is None:
                return list(outputs)
            if len(self._rules) >= _MAX_RULES:
                self._rules.clear()
            rule = self._rules[session] = found.retention
        return in_time(outputs, rule, now)

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        return {one.handle: one.facts for one in self.survey(session) if isinstance(one.facts, StoreFault)}

    def open(self, facts: Facts) -> OutputReader:
        return self._reader(self.load(facts))

    def open_named(self, session: SessionInfo, reference: str) -> OutputReader:
        match parse(reference, session=session.id):
            case Short(handle) if (row := self.row_of(session.id, handle)) is not None:
                return self._reader(row)
            case _:
                return self.open(self.resolve(session, reference))

    def stamp(self, facts: Facts) -> str | None:
        if not is_uuid(facts.session) or not is_short(facts.handle):
            return None
        statement: LiteralString = """SELECT version FROM holdall_outputs WHERE principal = %(principal)s
            AND session = %(session)s AND handle = %(handle)s"""
        values = self.about(facts.session, handle=facts.handle)
        row = self.database.row("looking at an output", statement, values)
        return _stamp(row[0], self._in_time(facts.session, [facts])[0]) if row else None

    def watch(self, facts: Facts) -> Watch:
        watches = self._wakeups.waiting(facts.id)
        watching = ToldWatch(watches)
        try:
            [current] = self._in_time(facts.session, [self.readable(self.load(facts))])
            if current.state == "expired":
                raise _expired(current)
        except BaseException:
            watching.close()
            raise
        return watching

    def _reader(self, row: Loaded) -> OutputReader:
        self.forget_removed()
        facts = self.readable(row)
        if facts.state == "running":
            if row.is_alive and row.object is not None:
                object = row.object
                running = FleetRunningReader(
                    self.cache.unnamed(), self.objects, object, lambda at: self.segments(object, at), facts
                )
                running.stamp = _stamp(row.version, facts)
                return running
            facts = self._interrupt(facts)
            row = self.load(facts)
        [facts] = self._in_time(facts.session, [facts])
        if facts.state == "expired":
            self.forget_removed(now=facts.is_removed)
            raise _expired(facts)
        if row.object is None:
            raise OutputMissing(facts.handle)
        reader = FleetReader(self.cache.open(row.object), self.source(row), facts, self.table(row, facts), self._gone)
        reader.stamp = _stamp(row.version, facts)
        return reader

    def _gone(self, facts: Facts) -> StoreFault:
        """Why there are no bytes: the output went after it was opened, or somebody removed its object."""
        row = self.row_of(facts.session, facts.handle)
        if row is not None and isinstance(row.facts, Facts) and row.facts.state == "expired":
            return _expired(row.facts)
        return OutputMissing(facts.handle)

    def _named(self, session: SessionInfo, reference: str) -> Loaded | None:
        match parse(reference, session=session.id):
            case Short(handle):
                return self.row_of(session.id, handle)
            case Long(of, id):
                if of != session.id and of not in session.was:
                    return None
                row = self.database.row("looking for an output", BY_ID, self.about(session, id=id))
                return self.loaded(session.id, row) if row is not None else None
            case Foreign():
                return None

    def _called(self, session: SessionInfo, call_id: str) -> Loaded | None:
        rows = self.database.rows("looking for an output", BY_CALL, self.about(session, call=call_hash(call_id)))
        loaded = [self.loaded(session.id, row) for row in rows]
        found = [one for one in loaded if isinstance(one.facts, Facts) and one.facts.origin.call_id == call_id]
        if len(found) > 1:  # what is gone is meant only where nothing else is left
            in_order = sorted(found, key=lambda one: (self.readable(one).place, self.readable(one).handle))
            found = [one for one in in_order if self.readable(one).state != "expired"] or in_order[-1:]
        if len(found) > 1:
            raise AmbiguousCallId(call_id, [self.readable(one).handle for one in found])
        return found[0] if found else None

    # Outputs whose writer is gone

    def _current(self, row: Loaded) -> Facts:
        facts = self.readable(row)
        return facts if facts.state != "running" or row.is_alive else self._interrupt(facts)

    def _listed(self, row: Loaded) -> Facts:
        """The same for lists: one output whose bytes are gone does not hide the others."""
        try:
            return self._current(row)
        except StoreFault as fault:
            return replace(self.readable(row), state="interrupted", error=str(fault))

    def _interrupt(self, facts: Facts) -> Facts:
        """A running output whose lease is over becomes interrupted, with every committed byte, when it is next read.

        First its writer is shut out, so that nothing is added while its bytes are measured.
        """
        values = self.about(facts.session, handle=facts.handle)
        self.database.rows("ending an interrupted output", _FENCE, values)
        row = self.load(facts)
        if row.state != "running" or row.is_alive:
            return self.readable(row)
        measurer, digest = Measurer(self.tokenizer), hashlib.sha256()
        for segment in self.segments(row.object or "") if row.parts else ():
            data = self.objects.get(segment_of(row.object or "", segment.number), 0, segment.length)
            if data is None or len(data) != segment.length:
                raise OutputDamaged(facts.handle, f"its segment {segment.number} is missing or cut off")
            measurer.feed(data)
            digest.update(data)
        measure, table = measurer.finish(digest.hexdigest())
        why = why_interrupted(facts.origin)
        measure = of_origin(measure, facts.origin)
        final = replace(facts, state="interrupted", measure=measure, ended=self.clock(), error=why)

        def work(connection: Connection) -> Facts:
            version = self.changed(connection, facts.session)
            found = connection.execute(LOAD, values).fetchone()
            now = self.loaded(facts.session, found) if found is not None else None
            if now is None or now.state != "running":
                return self.readable(now or row)
            self.rewrite(connection, final, table, now.object, now.parts, version)
            self._notify(connection, facts.id)
            return final

        return self.database.run("ending an interrupted output", work, again=True)

    # Upkeep

    def expire(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        return upkeep.expire(self, session, outputs, rule)

    def remove(self, session: SessionInfo, outputs: Sequence[Facts]) -> Removal:
        for facts in outputs:
            if facts.session == session.id and (row := self.row_of(session.id, facts.handle)) is not None:
                self._current(row)  # one whose writer is gone is over
        return upkeep.remove(self, session, [facts.handle for facts in outputs if facts.session == session.id])

    def remove_session(self, session: SessionInfo) -> Removal:
        self.outputs(session)
        removed = upkeep.remove(self, session, None)
        self.forget_summaries([session.id])
        return removed

    def sweep_due(self) -> bool:
        return upkeep.due(self)

    def sweep(self, *, dry_run: bool = False, thorough: bool = False) -> Sweep:
        return upkeep.sweep(self, self._current, dry_run=dry_run, thorough=thorough)

    def verify(
        self, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
    ) -> Iterator[Verdict]:
        return upkeep.verify(self, sessions, progress)

    def stats(self, sessions: Sequence[SessionInfo] | None = None) -> Stats:
        listed = self.survey_many(self.sessions() if sessions is None else sessions)
        stored = (
            in_time(
                [self._listed(one) for one in rows if isinstance(one.facts, Facts)], session.retention, self.clock()
            )
            for session, rows in listed
        )
        return stats_of(self, stored)

    def used_bytes(self, session: SessionInfo | None = None) -> int:
        values = {"principal": self.principal, "session": session.id if session is not None else None}
        row = self.database.row("looking for room", _USED, values)
        return row[0] if row else 0

    def free_bytes(self) -> int | None:
        return None

    @contextlib.contextmanager
    def staging(self) -> Generator[FleetStaging]:
        staged = FleetStaging(self)
        try:
            yield staged
        finally:
            staged.close()


class _Sending:
    """The bytes of a new output on their way to an object, in a thread: they are measured meanwhile.

    First a row says what is intended, then the object is written. Neither, where the session has the bytes already.
    """

    def __init__(self, store: FleetStore, session: SessionInfo, file: CachedFile) -> None:
        self.object = new_uuid()
        self.bad: list[str] = []  # objects that should have the same bytes and are not there
        self._store, self._session, self._file = store, session, file
        self._values: dict[str, object] = {}
        self._length = 0
        self._is_intended = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, sha256: str, length: int) -> None:
        """The intent is written here: a thread that waits for the database would wait for the one that measures."""
        self._length = length
        self._values = self._store.about(
            self._session, object=self.object, lease=self._store.lease_id, sha256=sha256, bytes=length
        )
        self._is_intended = True  # also where the answer is lost
        twin = self._intend(always=False)
        if twin is not None and self._store.is_there(twin[0], twin[1], length, self._file.descriptor):
            self._is_intended = False
            return
        if twin is not None:
            self.bad.append(twin[0])
            self._intend(always=True)
        # Read here: at a read in the thread it would stop until the measuring is done.
        small = os.pread(self._file.descriptor, length, 0) if length <= SMALL else None
        self._thread = threading.Thread(target=self._run, args=(small,), name="holdall-put", daemon=True)
        self._thread.start()

    def result(self) -> str | None:
        """The object, written; None where another one has the same bytes."""
        self._join()
        if self._error is not None:
            raise self._error
        return self.object if self._is_intended else None

    def send(self) -> None:
        """Whatever others have."""
        self._is_intended = True
        self._intend(always=True)
        self._put()

    def abandon(self) -> None:
        """It is not needed after all."""
        self._join()
        if self._is_intended:
            upkeep.abandon(self._store, self.object)

    def _intend(self, *, always: bool) -> Row | None:
        return self._store.database.row("keeping an output", _INTEND, {**self._values, "always": always})

    def _put(self, data: bytes | None = None) -> None:
        if self._length:
            self._store.objects.put_file(name_of(self.object), self._file.descriptor, self._length, data)

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _run(self, data: bytes | None) -> None:
        try:
            self._put(data)
        except BaseException as problem:
            self._error = problem


class _Twin(NamedTuple):
    object: str
    parts: int
    file: str


class _TwinGone(Exception):
    """The output whose bytes we meant to share was removed meanwhile."""


def _stamp(version: int, facts: Facts) -> str:
    return f"{version} {facts.state}"


def _expired(facts: Facts) -> OutputExpired:
    when = time.strftime("%Y-%m-%d", time.gmtime(facts.ended or facts.created))
    return OutputExpired(facts.handle, when, foreign(facts.error), removed=not facts.file)


def _not_ours(facts: Facts) -> StoreGone:
    return StoreGone(
        f"output {facts.handle} was ended as interrupted while this host was away from the database; what had been "
        "written by then is kept."
    )
