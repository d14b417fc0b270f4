"""Upkeep of the fleet's store: expiry and removal, what killed writers left, verification.

Rows go first, then objects: a transaction leaves tombstones and marks the objects that nobody names any more as doomed;
after its commit they are removed, and their marks last. Whatever is killed in between, and whatever the bucket does not
remove, is carried out by the next sweep; who asked for it is told.
Two that sweep at once do each other no harm.
"""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import LiteralString

from holdall.store import records
from holdall.store.fleet.database import Connection, Row
from holdall.store.fleet.objects import RETRY_SECONDS, name_of, object_in, segment_of
from holdall.store.fleet.pulse import ALIVE
from holdall.store.fleet.rows import COLUMNS, FleetRows, Loaded
from holdall.store.fleet.session_rows import JOIN_LOGS, LOGS_AT_ONCE
from holdall.store.protocol import Progress, Removal, SessionInfo, Sweep, Verdict
from holdall.store.totals import bad_lines, is_over, prove
from holdall.text.numbers import plural
from holdall.values.errors import HoldallError, OutputDamaged, OutputInUse, OutputMissing, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable

_LOG = logging.getLogger("holdall")
_EVERY_SECONDS = 86_400.0
_STRAY_SECONDS = 86_400.0
_PIECE = 128  # blocks that are read at a time
_AT_ONCE = 1000  # objects
_FIRST = "00000000-0000-0000-0000-000000000000"

_DOOM: LiteralString = """INSERT INTO holdall_intents (object, principal, doomed, bytes)
SELECT one, %(principal)s, true, size FROM unnest(%(objects)s::uuid[], %(sizes)s::bigint[]) AS named (one, size)
WHERE NOT EXISTS (SELECT 1 FROM holdall_outputs o WHERE o.object = one)
ON CONFLICT (object) DO UPDATE SET doomed = true RETURNING object::text"""
_UNDOOM: LiteralString = """WITH gone AS (DELETE FROM holdall_segments WHERE principal = %(principal)s
    AND object = ANY(%(objects)s))
DELETE FROM holdall_intents WHERE principal = %(principal)s AND doomed AND object = ANY(%(objects)s)"""
_DEAD: LiteralString = f"""FROM holdall_intents i LEFT JOIN holdall_leases l ON l.id = i.lease
WHERE i.principal = %(principal)s AND (i.doomed OR NOT {ALIVE}) AND i.object > %(after)s
ORDER BY i.object LIMIT %(most)s"""
_LEFT: LiteralString = f"""SELECT i.object::text, i.bytes, i.doomed,
EXISTS (SELECT 1 FROM holdall_outputs o WHERE o.object = i.object AND o.state = 'running'),
(SELECT max(o.parts) FROM holdall_outputs o WHERE o.object = i.object) {_DEAD}"""
_DOOM_DEAD: LiteralString = f"""UPDATE holdall_intents i SET doomed = true WHERE i.principal = %(principal)s
AND i.object = ANY(%(objects)s) AND NOT EXISTS (SELECT 1 FROM holdall_outputs o WHERE o.object = i.object)
AND NOT EXISTS (SELECT 1 FROM holdall_leases l WHERE l.id = i.lease AND {ALIVE}) RETURNING i.object::text"""
_UNSTAGE: LiteralString = f"""DELETE FROM holdall_sessions s WHERE s.principal = %(principal)s AND s.name IS NULL
AND NOT EXISTS (SELECT 1 FROM holdall_leases l WHERE l.id = s.lease AND {ALIVE})"""
_FORGET_CLAIMS: LiteralString = f"""DELETE FROM holdall_claims c WHERE c.principal = %(principal)s
AND NOT EXISTS (SELECT 1 FROM holdall_leases l WHERE l.id = c.lease AND {ALIVE})"""
_FORGET_LEASES: LiteralString = """DELETE FROM holdall_leases WHERE principal = %(principal)s
AND renewed < clock_timestamp() - interval '1 day'"""
_NOTES_OF: LiteralString = """DELETE FROM holdall_notes n WHERE n.principal = %(principal)s AND n.session = %(session)s
AND (n.key = ANY(%(ids)s) OR n.content = ANY(%(ids)s) OR length(n.content) > 32
AND (%(contents)s::text[] IS NULL OR n.content = ANY(%(contents)s)) AND NOT EXISTS (
    SELECT 1 FROM holdall_outputs o WHERE o.principal = n.principal AND o.session = n.session
    AND o.sha256 = n.content AND o.object IS NOT NULL AND o.state <> 'running'))"""
_WITHOUT_WRITER: LiteralString = f"""SELECT o.session::text, {COLUMNS} FROM holdall_outputs o
LEFT JOIN holdall_leases l ON l.id = o.lease
WHERE o.principal = %(principal)s AND o.state = 'running' AND NOT {ALIVE}"""
_OVER: LiteralString = f"""SELECT o.session::text, {COLUMNS}
FROM unnest(%(ids)s::uuid[], %(cutoffs)s::float8[]) AS s (id, cutoff)
JOIN holdall_outputs o ON o.session = s.id LEFT JOIN holdall_leases l ON l.id = o.lease
WHERE o.principal = %(principal)s AND o.object IS NOT NULL AND o.state <> 'running'
AND (o.state = 'expired' OR o.since IS NULL OR o.since <= s.cutoff) ORDER BY o.place, o.handle"""
_NAMED: LiteralString = """SELECT object::text, count(*) FROM holdall_outputs WHERE principal = %(principal)s
AND object = ANY(%(objects)s) GROUP BY object"""
_UNNAMED: LiteralString = """SELECT one::text FROM unnest(%(objects)s::uuid[]) one
WHERE NOT EXISTS (SELECT 1 FROM holdall_outputs o WHERE o.object = one)
AND NOT EXISTS (SELECT 1 FROM holdall_intents i WHERE i.object = one)"""
_SWEPT: LiteralString = """INSERT INTO holdall_sweeps VALUES (%(principal)s, %(now)s)
ON CONFLICT (principal) DO UPDATE SET at = excluded.at"""


# Objects


class Removing:
    """Removes each, also where another one cannot be removed; until it is plain that the bucket is away."""

    def __init__(self) -> None:
        self.left: set[str] = set()
        self._why, self._seconds = "", 0.0

    def each(self, remove: Callable[[str], None], names: Sequence[str]) -> None:
        for name in names:
            began = time.monotonic()
            try:
                if self._seconds < RETRY_SECONDS:
                    remove(name)
                    self.left.discard(name)
                    continue
            except StoreFault as problem:
                self._why = str(problem)
                self._seconds += time.monotonic() - began
            self.left.add(name)

    def told(self) -> str:
        """What is left, and why: for who asked, and in the log. Empty where all is gone."""
        if not self.left:
            return ""
        what = f"{plural(len(self.left), 'object')} that no output names any more could not be removed"
        told = f"{what}: {self._why} The bytes are still there; `holdall gc` tries again."
        _LOG.warning("%s", told)
        return told


def doom(
    store: FleetRows, connection: Connection, objects: Collection[str], sizes: Mapping[str, int] | None = None
) -> list[str]:
    """Mark those that no output names as to be removed. From the commit on nobody can name them."""
    found = {object: (sizes or {}).get(object, 0) for object in objects}
    values = {"principal": store.principal, "objects": list(found), "sizes": list(found.values())}
    return [row[0] for row in connection.execute(_DOOM, values).fetchall()]


def carry_out(store: FleetRows, objects: Sequence[str], removing: Removing | None = None) -> None:
    """Remove objects that are doomed, here and in the cache. What cannot be removed now is left for the next sweep."""
    removing = removing or Removing()
    store.cache.forget(list(objects))
    removing.each(store.objects.remove_object, objects)
    gone = [object for object in objects if object not in removing.left]
    with contextlib.suppress(StoreFault):  # then the next sweep finds nothing to remove
        store.database.rows("removing objects", _UNDOOM, {"principal": store.principal, "objects": gone})


def abandon(store: FleetRows, object: str) -> None:
    """An object of ours that is not needed after all."""
    with contextlib.suppress(StoreFault):
        carry_out(store, store.database.run("removing objects", lambda one: doom(store, one, [object]), again=True))


# Expiry and removal


def expire(store: FleetRows, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
    removing = Removing()
    freed = _expire(store, session, outputs, rule, removing)
    removing.told()
    return freed


def _expire(store: FleetRows, session: SessionInfo, outputs: Sequence[Facts], rule: str, removing: Removing) -> int:
    handles = {facts.handle for facts in outputs if facts.session == session.id}

    def work(connection: Connection) -> dict[str, int]:
        version = store.changed(connection, session.id)
        going = [
            one for one in store.survey(session, connection)
            if one.handle in handles and isinstance(one.facts, Facts) and one.state not in ("expired", "running")
        ]  # fmt: skip
        if not going:
            return {}
        now = store.clock()
        for one in going:
            store.rewrite(connection, records.expired(store.readable(one), rule, now), BlockTable(), None, 0, version)
        facts = [store.readable(one) for one in going]
        _forget_notes(store, connection, session, facts, [one.measure.sha256 for one in facts])
        store.erase(connection, session, {one.handle for one in going})
        return _doomed(store, connection, going)

    sizes = store.database.run("removing an output", work, again=True)
    carry_out(store, list(sizes), removing)
    return _freed(sizes, removing)


def remove(store: FleetRows, session: SessionInfo, handles: Sequence[str] | None) -> Removal:
    """Tombstones in place of outputs, or of all, and nothing left of what they held."""

    def work(connection: Connection) -> tuple[Removal, dict[str, int]]:
        version = store.changed(connection, session.id)
        rows = store.survey(session, connection)
        going = [one for one in rows if handles is None or one.handle in handles]
        for one in going:
            if one.state == "running":
                raise OutputInUse(one.handle)
        stones, gone_before = list[Facts](), 0
        for one in going:
            if isinstance(one.facts, StoreFault):
                if handles is not None:
                    raise one.facts
                _delete_row(store, connection, session, one.handle)
                continue
            stones.append(records.tombstone(one.facts, store.clock()))
            gone_before += one.facts.state == "expired"
            if stones[-1] != one.facts:
                store.rewrite(connection, stones[-1], BlockTable(), None, 0, version)
        _forget_notes(store, connection, session, stones, None)
        if handles is None:
            _remove_logs(store, connection, session)
        else:
            store.erase(connection, session, {one.handle for one in going})
        sizes = _doomed(store, connection, going)
        gone = {one.handle for one in going}
        held = {
            one.handle: tuple(other.handle for other in rows if other.object == one.object and other.handle not in gone)
            for one in going if one.object is not None
        }  # fmt: skip
        held = {handle: others for handle, others in held.items() if others}
        return Removal(tuple(stones), 0, held, gone_before=gone_before), sizes

    removed, sizes = store.database.run("removing an output", work, again=True)
    doomed: LiteralString = (
        "SELECT object::text FROM holdall_intents WHERE principal = %(principal)s AND doomed LIMIT 1000"
    )
    found = store.database.rows("removing objects", doomed, {"principal": store.principal})
    older = sorted(row[0] for row in found if row[0] not in sizes)  # also segments that were joined
    removing = Removing()
    carry_out(store, [*sizes, *older], removing)
    return replace(removed, freed_bytes=_freed(sizes, removing), left=removing.told())


def _freed(sizes: Mapping[str, int], removing: Removing) -> int:
    return sum(size for object, size in sizes.items() if object not in removing.left)


def _doomed(store: FleetRows, connection: Connection, going: Sequence[Loaded]) -> dict[str, int]:
    """The objects that go with these outputs, and how long they are."""
    sizes = {one.object: one.facts.measure.bytes for one in going if one.object and isinstance(one.facts, Facts)}
    objects = doom(store, connection, [one.object for one in going if one.object], sizes)
    return {object: sizes.get(object, 0) for object in objects}


def _forget_notes(
    store: FleetRows, connection: Connection, session: SessionInfo, gone: Sequence[Facts], contents: list[str] | None
) -> None:
    """Notes about outputs that are gone, and about contents that no output has any more: these, or all."""
    ids = [facts.id.replace("-", "") for facts in gone]
    connection.execute(_NOTES_OF, store.about(session, ids=ids, contents=contents))


def _remove_logs(store: FleetRows, connection: Connection, session: SessionInfo) -> None:
    statement: LiteralString = "DELETE FROM holdall_logs WHERE principal = %(principal)s AND session = %(session)s"
    connection.execute(statement, store.about(session))
    statement = "UPDATE holdall_sessions SET tree = NULL WHERE principal = %(principal)s AND id = %(session)s"
    connection.execute(statement, store.about(session))


def _delete_row(store: FleetRows, connection: Connection, session: SessionInfo, handle: str) -> None:
    statement: LiteralString = """DELETE FROM holdall_outputs WHERE principal = %(principal)s
        AND session = %(session)s AND handle = %(handle)s"""
    connection.execute(statement, store.about(session, handle=handle))


# Sweeps


def due(store: FleetRows) -> bool:
    statement: LiteralString = "SELECT at FROM holdall_sweeps WHERE principal = %(principal)s"
    row = store.database.row("looking at the last sweep", statement, {"principal": store.principal})
    return row is None or store.clock() - row[0] >= _EVERY_SECONDS


def sweep(store: FleetRows, current: Callable[[Loaded], Facts], *, dry_run: bool, thorough: bool) -> Sweep:
    """A few statements, and one for each session in which something goes. `current` ends what was interrupted."""
    now, removing = store.clock(), Removing()
    values = {"principal": store.principal, "lease_seconds": store.lease_seconds}
    if not dry_run:
        store.database.rows("sweeping", _SWEPT, {**values, "now": now})
        for id, *row in store.database.rows("sweeping", _WITHOUT_WRITER, values):
            with contextlib.suppress(StoreFault):  # of one whose bytes are gone the others are not kept waiting
                current(store.loaded(id, tuple(row)))
    going = _over(store, now)
    expired = [(session.name, store.readable(one)) for session, over in going for one in over]
    freed = _would_free(store, going) if dry_run else 0
    for session, over in () if dry_run else going:
        facts = [store.readable(one) for one in over]
        freed += _expire(store, session, facts, f"kept for {session.retention.told}", removing)
    leftovers, more = _sweep_intents(store, removing, dry_run=dry_run, thorough=thorough)
    if not dry_run:
        for statement in (_FORGET_CLAIMS, _FORGET_LEASES):
            store.database.rows("sweeping", statement, values)
        while len(store.database.rows("sweeping", JOIN_LOGS, values)) == LOGS_AT_ONCE:
            pass
    strays, stray_bytes = _sweep_strays(store, removing, dry_run=dry_run) if thorough else ([], 0)
    return Sweep(
        tuple(expired), (*leftovers, *strays), freed + more + stray_bytes, dry_run, left=removing.told()
    )  # fmt: skip


def _over(store: FleetRows, now: float) -> list[tuple[SessionInfo, list[Loaded]]]:
    """The outputs that are to go by the rule of their session, by session."""
    sessions = {session.id: session for session in store.sessions()}
    rules = [session.retention for session in sessions.values()]
    values = {
        "principal": store.principal, "lease_seconds": store.lease_seconds, "ids": list(sessions),
        "cutoffs": [now - rule.expires_at(0.0) for rule in rules],
    }  # fmt: skip
    found: dict[str, list[Loaded]] = {}
    for id, *row in store.database.rows("sweeping", _OVER, values):
        one = store.loaded(id, tuple(row))
        if isinstance(one.facts, Facts) and is_over(sessions[id], one.facts, now):
            found.setdefault(id, []).append(one)
    return [(session, found[id]) for id, session in sessions.items() if id in found]


def _would_free(store: FleetRows, going: Sequence[tuple[SessionInfo, list[Loaded]]]) -> int:
    """Bytes that another output has too stay."""
    over = [one for _, outputs in going for one in outputs]
    names = Counter(one.object for one in over)
    sizes = {one.object: store.readable(one).measure.bytes for one in over}
    values = {"principal": store.principal, "objects": list(names)}
    found = store.database.rows("sweeping", _NAMED, values)
    return sum(sizes[object] for object, count in found if count == names[object])


def _sweep_strays(store: FleetRows, removing: Removing, *, dry_run: bool) -> tuple[list[str], int]:
    """Objects that nobody intends or names: a crash of the database can lose an intent, which nobody waits for.

    An intent is there before its object, and goes in the transaction that makes the row. So an object that has neither
    will never have one; only its age is left to doubt, and a day by the bucket's own clock leaves none.
    """
    [id] = store.database.row("sweeping", "SELECT id::text FROM holdall_store", {}) or ("",)
    if not store.objects.claim(id):
        raise StoreFault(
            f"in {store.objects.home} are the objects of another store, too: those that no row names were left there. "
            "Give each database a place for its objects alone."
        )
    gone: list[str] = []
    freed, now = 0, None
    for piece in store.objects.everything():
        ours = {one: object for one in piece if (object := object_in(one.name))}
        values = {"objects": sorted(set(ours.values()))}
        unnamed = {row[0] for row in store.database.rows("sweeping", _UNNAMED, values)}
        if unnamed and now is None:
            now = store.objects.clock()
        stray = [one for one, object in ours.items() if object in unnamed and now and one.at < now - _STRAY_SECONDS]
        if not dry_run:
            try:
                store.objects.remove([one.name for one in stray])
            except StoreFault:
                removing.each(lambda name: store.objects.remove([name]), [one.name for one in stray])
                stray = [one for one in stray if one.name not in removing.left]
        gone += [one.name for one in stray]
        freed += sum(one.size for one in stray)
    return gone, freed


def _sweep_intents(store: FleetRows, removing: Removing, *, dry_run: bool, thorough: bool) -> tuple[list[str], int]:
    """What killed writers, imports and removals left: of those whose lease is over, and no others."""
    values = {"principal": store.principal, "lease_seconds": store.lease_seconds, "most": _AT_ONCE}
    if not dry_run:
        store.database.rows("sweeping", _UNSTAGE, values)
    leftovers: list[str] = []
    freed, after = 0, _FIRST
    while True:
        found = store.database.rows("sweeping", _LEFT, {**values, "after": after})
        going = {object: size for object, size, is_doomed, _, parts in found if is_doomed or parts is None}
        if not dry_run:
            _sweep_found(store, found, going, removing)
        leftovers += [name_of(object) for object in going if object not in removing.left]
        freed += _freed(going, removing)
        if not thorough or len(found) < _AT_ONCE:
            return leftovers, freed
        after = found[-1][0]


def _sweep_found(store: FleetRows, found: Sequence[Row], going: dict[str, int], removing: Removing) -> None:
    """Those that somebody has taken up meanwhile are taken out of `going`."""
    values = {"principal": store.principal, "lease_seconds": store.lease_seconds}
    kept = {
        object: parts for object, _, is_doomed, is_running, parts in found
        if not is_doomed and parts is not None and not is_running
    }  # fmt: skip
    removing.each(lambda object: _remove_stray_segments(store, object, kept[object]), list(kept))
    fresh = [object for object, _, is_doomed, _, parts in found if not is_doomed and parts is None]
    doomed = {row[0] for row in store.database.rows("sweeping", _DOOM_DEAD, {**values, "objects": fresh})}
    for object in fresh:
        if object not in doomed:
            del going[object]
    carry_out(store, list(going), removing)


def _remove_stray_segments(store: FleetRows, object: str, parts: int) -> None:
    """Of an output that was interrupted: segments that its writer put and could not commit."""
    named = {segment_of(object, number) for number in range(parts)}
    store.objects.remove([name for name in store.objects.below(object) if name not in named])
    statement: LiteralString = """DELETE FROM holdall_intents WHERE principal = %(principal)s AND object = %(object)s
        AND NOT doomed"""
    store.database.rows("sweeping", statement, {"principal": store.principal, "object": object})


# Verification


def verify(store: FleetRows, sessions: Sequence[SessionInfo] | None, progress: Progress | None) -> Iterator[Verdict]:
    """Every byte as it is in the bucket: the cache of this host proves nothing."""
    if sessions is None:
        for name, fault in store.unreadable_sessions().items():
            yield Verdict(name, "-", 0, str(fault))
    done = 0
    for session in store.sessions() if sessions is None else sessions:
        for row in store.survey_again(session):
            if isinstance(row.facts, StoreFault):
                yield Verdict(session.name, row.handle, 0, str(row.facts))
                continue
            facts = row.facts
            if facts.state in ("expired", "running"):
                continue
            problem = ""
            try:
                _prove(store, facts, progress, done)
            except HoldallError as found:
                problem = str(found)
            yield Verdict(session.name, facts.handle, facts.measure.bytes, problem)
            done += facts.measure.bytes
        yield from bad_lines(store, session)


def _prove(store: FleetRows, facts: Facts, progress: Progress | None, done: int) -> None:
    row = store.load(facts)
    facts = store.readable(row)
    if facts.state == "expired":
        return
    if row.object is None:
        raise OutputMissing(facts.handle)
    source, piece, first = store.source(row), b"", -1
    total = facts.measure.bytes
    if total and not row.parts and (here := store.objects.length(name_of(row.object))) != total:
        if here is None:
            raise OutputMissing(facts.handle)
        what = "truncated" if here < total else "grown"
        raise OutputDamaged(facts.handle, f"its object has {here:,} bytes of {total:,} ({what})")

    def block(index: int) -> bytes:
        nonlocal piece, first
        if first < 0 or not first <= index < first + _PIECE:
            read = source.read(index * BLOCK, min(total, (index + _PIECE) * BLOCK))
            if read is None:
                raise OutputMissing(facts.handle)
            piece, first = read, index
        return piece[(index - first) * BLOCK : (index - first + 1) * BLOCK]

    prove(facts, store.table(row, facts), block, progress, done)
