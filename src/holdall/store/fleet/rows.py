"""The rows of the fleet: sessions and outputs as they are read and written, and as they are believed.

A record proves itself, as in a folder: what a damaged or hostile row says is not shown and not followed. Bytes are
found by the column `object`, never by a name that a record has.
"""

import contextlib
import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, LiteralString, NamedTuple

from holdall.policy.measure import checksum
from holdall.store import records
from holdall.store.fleet.cache import BlockCache
from holdall.store.fleet.database import Connection, Database, Row
from holdall.store.fleet.objects import Objects, checked
from holdall.store.fleet.pulse import ALIVE, LEASE_SECONDS, Pulse, Wakeups
from holdall.store.fleet.reader import ObjectBytes, Segment
from holdall.store.fleet.session_rows import SessionRows
from holdall.store.ids import new_handle, new_mark, new_uuid
from holdall.store.protocol import Quota, SessionInfo
from holdall.store.records import PREFIX, check_name, decode_session, encode_session
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import OutputDamaged, StoreFault, StoreGone
from holdall.values.handles import is_short, is_uuid
from holdall.values.outputs import Facts
from holdall.values.retention import Retention
from holdall.values.spans import BLOCK, BlockTable

_HANDLES = 64  # tries
_SESSIONS_LISTED = 8  # that are remembered as they were last listed
_SESSIONS_AT_ONCE = 500
_PROOF_BYTES = 8

COLUMNS: LiteralString = f"o.handle, o.facts, o.object::text, o.parts, o.version, o.state, {ALIVE}"
_FROM: LiteralString = """FROM holdall_outputs o LEFT JOIN holdall_leases l ON l.id = o.lease
WHERE o.principal = %(principal)s AND o.session = %(session)s"""
_ALL: LiteralString = f"SELECT {COLUMNS} {_FROM}"
LOAD: LiteralString = f"SELECT {COLUMNS}, o.blocks {_FROM} AND o.handle = %(handle)s"
_NEWER: LiteralString = f"""{_ALL} AND o.version > %(version)s
UNION ALL {_ALL} AND o.version <= %(version)s AND o.state = 'running'"""
_OF_SESSIONS: LiteralString = f"""SELECT o.session::text, {COLUMNS} FROM holdall_outputs o
LEFT JOIN holdall_leases l ON l.id = o.lease WHERE o.principal = %(principal)s AND o.session = ANY(%(sessions)s)"""
_COUNT: LiteralString = """SELECT count(*) FROM holdall_outputs WHERE principal = %(principal)s
AND session = %(session)s"""
BY_ID: LiteralString = f"{_ALL} AND o.id = %(id)s"
BY_CALL: LiteralString = f"{_ALL} AND o.call = %(call)s"
_SESSION: LiteralString = "SELECT id::text, name, created, info FROM holdall_sessions WHERE principal = %(principal)s"
_MAKE: LiteralString = """INSERT INTO holdall_sessions (principal, id, name, created, info)
VALUES (%(principal)s, %(session)s, %(name)s, %(created)s, %(info)s) ON CONFLICT DO NOTHING"""
NEXT: LiteralString = """UPDATE holdall_sessions SET changes = changes + 1, place = CASE
    WHEN %(created)s::float8 IS NULL THEN place WHEN %(created)s >= place THEN %(created)s ELSE place + 0.000001 END
WHERE principal = %(principal)s AND id = %(session)s AND name IS NOT NULL RETURNING changes, place"""
_INSERT: LiteralString = """INSERT INTO holdall_outputs (principal, session, handle, id, call, sha256, state, place,
    bytes, object, parts, version, lease, facts, blocks, since)
VALUES (%(principal)s, %(session)s, %(handle)s, %(id)s, %(call)s, %(sha256)s, %(state)s, %(place)s, %(bytes)s,
    %(object)s, %(parts)s, %(version)s, %(lease)s, %(facts)s, %(blocks)s, %(since)s)
ON CONFLICT (principal, session, handle) DO NOTHING"""
_UPDATE: LiteralString = """UPDATE holdall_outputs SET sha256 = %(sha256)s, state = %(state)s, bytes = %(bytes)s,
    object = %(object)s, parts = %(parts)s, version = %(version)s, lease = NULL, facts = %(facts)s, blocks = %(blocks)s,
    since = %(since)s
WHERE principal = %(principal)s AND session = %(session)s AND handle = %(handle)s"""
SEGMENTS: LiteralString = """SELECT number, start, length FROM holdall_segments
WHERE principal = %(principal)s AND object = %(object)s AND number >= %(number)s ORDER BY number"""


class Loaded(NamedTuple):
    """A row of an output, taken apart. `facts` is a fault where they cannot be read."""

    handle: str
    facts: Facts | StoreFault
    object: str | None
    parts: int
    version: int
    state: str
    is_alive: bool
    blocks: bytes = b""


class FleetRows(SessionRows):
    """What everything of the store is made of: the database, the objects, the cache, and the rows."""

    def __init__(  # noqa: PLR0913 - as of the other stores, and where it is
        self,
        home: str,
        *,
        objects: str = "",
        principal: str = "",
        cache_dir: str,
        cache_bytes: int,
        tokenizer: Tokenizer | None = None,
        retention: Retention | None = None,
        quota: Quota | None = None,
        clock: Callable[[], float] | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.tokenizer = tokenizer or Estimate()
        self._retention = retention or Retention()
        self._quota = quota or Quota()
        self._agents = {}
        self._rules: dict[str, Retention] = {}  # by session: how long its outputs are kept, as far as known
        self.database = Database(home, objects=checked(objects) if objects else "")
        self.clock: Callable[[], float] = clock or self.database.clock
        self.principal = principal or self.database.opened.user
        self.objects = Objects(self.database.opened.objects)
        whose = hashlib.sha256(f"{self.home}\n{self.principal}".encode("utf-8", "replace")).hexdigest()[:16]
        self.cache = BlockCache(f"{cache_dir}/{whose}", cache_bytes)
        self._lock = threading.Lock()
        self._listed_before: OrderedDict[str, tuple[int, dict[str, Loaded], list[Loaded]]] = OrderedDict()
        self._pulse = Pulse(self.database, self.principal, lease_seconds, self.forget_removed)
        self._wakeups = Wakeups(self.database, self.principal, lease_seconds)
        self.forget_removed()

    def forget_removed(self, *, now: bool = False) -> None:
        """Cached objects that are nobody's any more, removed by another host: once a minute, or `now`."""
        with contextlib.suppress(StoreFault):
            if cached := self.cache.objects_to_look_for(now=now):
                statement: LiteralString = """SELECT object::text FROM holdall_outputs
                    WHERE principal = %(principal)s AND object = ANY(%(objects)s)"""
                values = {"principal": self.principal, "objects": cached}
                there = {row[0] for row in self.database.rows("looking at the cache", statement, values)}
                self.cache.forget([object for object in cached if object not in there])

    @property
    def home(self) -> str:
        return self.database.home

    @property
    def lease_id(self) -> str:
        return self._pulse.begin()

    @property
    def lease_seconds(self) -> float:
        return self._pulse.seconds

    @property
    def channel(self) -> str:
        return self._wakeups.channel

    def close(self) -> None:
        self._wakeups.close()
        self._pulse.close()
        self.database.close()
        self.cache.close()

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        found = self.find_session(name)
        if found is None:
            info = SessionInfo(
                new_uuid(), name, self.clock(), retention or self._retention, parent=parent, mark=new_mark()
            )
            values = self.about(info, name=name, created=info.created, info=encode_session(info))
            self.database.rows("making a session", _MAKE, values)
            found = self.find_session(name)  # ours, or that of somebody who was faster
        if found is None:
            raise StoreGone(f"the session {name[:60]!r} went away while it was made in {self.home}.")
        if retention is not None and retention != found.retention:
            found = self._change_session(found.id, lambda info: replace(info, retention=retention))
            self._rules.pop(found.id, None)
        return found

    def mark(self, session: SessionInfo) -> str:
        if session.mark:
            return session.mark
        return self._change_session(session.id, lambda info: replace(info, mark=info.mark or new_mark())).mark

    def find_session(self, name: str) -> SessionInfo | None:
        check_name(name)
        if name.startswith(PREFIX) and is_uuid(id := name.removeprefix(PREFIX)):
            values = {"principal": self.principal, "session": id}
            by_id: LiteralString = f"{_SESSION} AND id = %(session)s AND name IS NOT NULL"
            if (row := self.database.row("looking for a session", by_id, values)) is not None:
                return _session_of(row)
        by_name: LiteralString = f"{_SESSION} AND name = %(name)s"
        row = self.database.row("looking for a session", by_name, {"principal": self.principal, "name": name})
        return _session_of(row) if row is not None else None

    def sessions(self) -> Sequence[SessionInfo]:
        return self._all_sessions()[0]

    def unreadable_sessions(self) -> Mapping[str, StoreFault]:
        return self._all_sessions()[1]

    def _all_sessions(self) -> tuple[list[SessionInfo], dict[str, StoreFault]]:
        found: list[SessionInfo] = []
        faults: dict[str, StoreFault] = {}
        all_of_them: LiteralString = f"{_SESSION} AND name IS NOT NULL"
        for row in self.database.rows("listing the sessions", all_of_them, {"principal": self.principal}):
            try:
                found.append(_session_of(row))
            except StoreFault as fault:
                faults[PREFIX + row[0]] = fault
        return sorted(found, key=lambda one: (-one.created, one.id)), faults

    def _change_session(self, id: str, change: Callable[[SessionInfo], SessionInfo]) -> SessionInfo:
        def work(connection: Connection) -> SessionInfo:
            select: LiteralString = f"{_SESSION} AND id = %(session)s FOR UPDATE"
            row = connection.execute(select, self.about(id)).fetchone()
            if row is None:
                raise StoreGone(f"the session {id} was removed from {self.home}.")
            info = change(_session_of(row))
            save: LiteralString = (
                "UPDATE holdall_sessions SET info = %(info)s WHERE principal = %(principal)s AND id = %(session)s"
            )
            connection.execute(save, self.about(id, info=encode_session(info)))
            return info

        return self.database.run("changing a session", work, again=True)

    # Outputs

    def insert(
        self, connection: Connection, facts: Facts, table: BlockTable, object: str | None, parts: int, version: int,
        lease: str | None = None,
    ) -> Facts:  # fmt: skip
        """A new row; with a new handle unless the facts have one."""
        for attempt in range(_HANDLES):
            named = facts if facts.handle else replace(facts, handle=new_handle(attempt))
            values = self.columns(named, table, object, parts, version) | {"lease": lease, "place": named.place}
            if connection.execute(_INSERT, values).rowcount == 1:
                return named
            if facts.handle:
                break
        raise StoreFault(f"no free handle was found in {_HANDLES} tries.")

    def rewrite(
        self, connection: Connection, facts: Facts, table: BlockTable, object: str | None, parts: int, version: int
    ) -> None:
        connection.execute(_UPDATE, self.columns(facts, table, object, parts, version))

    def columns(self, facts: Facts, table: BlockTable, object: str | None, parts: int, version: int) -> dict[str, Any]:
        blocks = table.to_bytes()
        proof = checksum(facts.id.encode("ascii") + blocks).to_bytes(_PROOF_BYTES, "big")
        return self.about(
            facts.session, handle=facts.handle, id=facts.id, call=call_hash(facts.origin.call_id), state=facts.state,
            object=object, parts=parts, version=version, facts=records.encode(facts, BlockTable()),
            blocks=proof + blocks, since=facts.ended or facts.created, **of_bytes(facts),
        )  # fmt: skip

    def changed(self, connection: Connection, session: str) -> int:
        """The next version of what is in a session, whose row is locked from here."""
        row = connection.execute(NEXT, self.about(session, created=None)).fetchone()
        if row is None:
            raise StoreGone(f"the session {session} was removed from {self.home}.")
        return row[0]

    def segments(self, object: str, number: int = 0) -> list[Segment]:
        """Of an object, from this one on: one after the other, as they are believed."""
        values = {"principal": self.principal, "object": object, "number": number}
        found = [Segment(*row) for row in self.database.rows("reading an output", SEGMENTS, values)]
        end = found[0].start if found and number else 0
        for at, one in enumerate(found):
            if one.number != number + at or one.start != end:
                return found[:at]
            end += one.length
        return found

    def source(self, row: Loaded) -> ObjectBytes:
        return ObjectBytes(self.objects, row.object or "", self.segments(row.object or "") if row.parts else ())

    def loaded(self, session: str, row: Row) -> Loaded:
        handle, data, object, parts, version, state, is_alive, *blocks = row
        facts: Facts | StoreFault
        try:
            facts = self.readable_facts(session, handle, data)
            if facts.state != state:
                facts = OutputDamaged(handle, "its record and its row tell of different states")
        except StoreFault as fault:
            facts = fault
        return Loaded(handle, facts, object, parts, version, state, is_alive, bytes(blocks[0]) if blocks else b"")

    def readable_facts(self, session: str, handle: str, data: bytes) -> Facts:
        facts, _ = records.decode(bytes(data), handle=handle)
        if facts.session != session:
            raise StoreFault(f"the record of {handle} belongs to another session; it is not read.")
        return facts

    def readable(self, row: Loaded) -> Facts:
        if isinstance(row.facts, StoreFault):
            raise row.facts
        return row.facts

    def table(self, row: Loaded, facts: Facts) -> BlockTable:
        proof, blocks = row.blocks[:_PROOF_BYTES], row.blocks[_PROOF_BYTES:]
        if checksum(facts.id.encode("ascii") + blocks) != int.from_bytes(proof, "big"):
            raise OutputDamaged(facts.handle, "its block table does not match its own checksum")
        try:
            table = BlockTable.from_bytes(blocks)
        except ValueError as problem:
            raise OutputDamaged(facts.handle, f"its block table cannot be read ({problem})") from None
        if len(table) != -(-facts.measure.bytes // BLOCK):
            raise OutputDamaged(facts.handle, "its block table is not as long as its bytes are")
        return table

    def row_of(self, session: str, handle: str) -> Loaded | None:
        if not is_uuid(session) or not is_short(handle):
            return None
        row = self.database.row("reading an output", LOAD, self.about(session, handle=handle))
        return self.loaded(session, row) if row is not None else None

    def load(self, facts: Facts) -> Loaded:
        row = self.row_of(facts.session, facts.handle)
        if row is None:
            raise StoreGone(f"the record of output {facts.handle} is not in the store (any more).")
        return row

    def survey(self, session: SessionInfo, connection: Connection | None = None) -> list[Loaded]:
        """Every output of a session, oldest first. Those that were listed before are not loaded again.

        Versions are in the order of the commits, since whoever changes an output holds the session's row.
        """
        if connection is not None:
            return _in_order(self.loaded(session.id, row) for row in connection.execute(_ALL, self.about(session)))
        with self._lock:
            version, known, found = self._listed_before.get(session.id, (-1, {}, []))
        rows = self.database.rows("listing outputs", _NEWER, self.about(session, version=version))
        if fresh := {one.handle: one for one in (self.loaded(session.id, row) for row in rows)}:
            known = known | fresh
            version = max(one.version for one in known.values())
            found = _in_order(known.values())
        row = self.database.row("listing outputs", _COUNT, self.about(session))
        with self._lock:
            self._listed_before.pop(session.id, None)
            if row is not None and row[0] == len(known):
                self._listed_before[session.id] = (version, known, found)
            while len(self._listed_before) > _SESSIONS_LISTED:
                self._listed_before.popitem(last=False)
        return found if row is not None and row[0] == len(known) else self.survey_again(session)

    def survey_many(self, sessions: Sequence[SessionInfo]) -> Iterator[tuple[SessionInfo, list[Loaded]]]:
        """The same of many sessions, some hundred with one statement."""
        for start in range(0, len(sessions), _SESSIONS_AT_ONCE):
            some = sessions[start : start + _SESSIONS_AT_ONCE]
            values = {
                "principal": self.principal, "sessions": [one.id for one in some], "lease_seconds": self.lease_seconds,
            }  # fmt: skip
            found: dict[str, list[Loaded]] = {}
            for id, *row in self.database.rows("listing outputs", _OF_SESSIONS, values):
                found.setdefault(id, []).append(self.loaded(id, tuple(row)))
            yield from ((one, _in_order(found.get(one.id, ()))) for one in some)

    def kept_by_session(self, sessions: Sequence[SessionInfo] | None = None) -> Mapping[str, tuple[int, int, int]]:
        statement: LiteralString = (
            "SELECT session::text, sum(outputs)::bigint, sum(kept)::bigint, sum(bytes)::bigint FROM (SELECT session,"
            " count(*) AS outputs, count(*) FILTER (WHERE state = 'running' OR"
            " (state <> 'expired' AND (since IS NULL OR since > cutoff))) AS kept,"
            " CASE WHEN object IS NULL THEN 0 ELSE max(bytes) END AS bytes"
            " FROM unnest(%(ids)s::uuid[], %(cutoffs)s::float8[]) AS s (session, cutoff)"
            " JOIN holdall_outputs USING (session) WHERE principal = %(principal)s"
            " GROUP BY session, object) AS shared GROUP BY session"
        )
        chosen, now = self.sessions() if sessions is None else sessions, self.clock()
        values = {
            "principal": self.principal, "ids": [one.id for one in chosen],
            "cutoffs": [now - one.retention.expires_at(0.0) if one.retention.days else -math.inf for one in chosen],
        }  # fmt: skip
        rows = self.database.rows("counting outputs", statement, values)
        return {id: (outputs, kept, taken) for id, outputs, kept, taken in rows}

    def survey_again(self, session: SessionInfo) -> list[Loaded]:
        """All of it from the database: rows were added or removed while we looked, or nothing may be believed."""
        rows = self.database.rows("listing outputs", _ALL, self.about(session))
        return _in_order(self.loaded(session.id, row) for row in rows)


def _in_order(rows: Iterable[Loaded]) -> list[Loaded]:
    return sorted(rows, key=lambda one: (one.facts.place if isinstance(one.facts, Facts) else 0.0, one.handle))


def of_bytes(facts: Facts) -> dict[str, Any]:
    return {"sha256": facts.measure.sha256, "bytes": facts.measure.bytes}


def call_hash(call_id: str) -> bytes | None:
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()[:16] if call_id else None


def _session_of(row: Row) -> SessionInfo:
    id, name, created, info = row
    try:
        return replace(decode_session(bytes(info), id), name=name)
    except (KeyError, TypeError, ValueError):
        return SessionInfo(id, name, created, Retention(days=None))  # what cannot be believed removes nothing
