"""What a session has beside its outputs, as rows: logs, the operation tree, notes, summaries, leases and claimed names.

A log is kept in the pieces in which it was appended, each at its byte; its row says how long it is and is locked by
whoever appends. A name is held by a row that is good for as long as the lease of its holder.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, LiteralString

from holdall.store import deadline, logs
from holdall.store.fleet.database import Connection, Database
from holdall.store.fleet.pulse import ALIVE, Pulse, Wakeups
from holdall.store.ids import new_uuid
from holdall.store.protocol import Log, LogLines, Note, SavedSummary, SessionInfo, Stamp
from holdall.store.records import erased, note_name, sealed, tree_without
from holdall.values.errors import SessionLocked, StoreGone
from holdall.values.handles import is_uuid

_AGENT = "agent"
LOGS_AT_ONCE = 1000
_LONGEST_HOLDER = 1000
_ADD_LOG: LiteralString = """
INSERT INTO holdall_logs VALUES (%(principal)s, %(session)s, %(log)s, 0, 0)
ON CONFLICT (principal, session, log) DO UPDATE SET length = holdall_logs.length RETURNING length, whole
"""
_ADD_PART: LiteralString = """
INSERT INTO holdall_log_parts VALUES (%(principal)s, %(session)s, %(log)s, %(start)s, %(data)s)
"""
_LONGER: LiteralString = """
UPDATE holdall_logs SET length = %(length)s, whole = %(whole)s, appended = clock_timestamp(), joined = false
WHERE principal = %(principal)s AND session = %(session)s AND log = %(log)s
"""
_READ: LiteralString = """
SELECT start, substring(data FROM greatest(1, %(start)s - start + 1)::int FOR %(most)s) FROM holdall_log_parts
WHERE principal = %(principal)s AND session = %(session)s AND log = %(log)s AND start < %(end)s
AND start >= coalesce((SELECT max(start) FROM holdall_log_parts WHERE principal = %(principal)s
    AND session = %(session)s AND log = %(log)s AND start <= %(start)s), 0)
ORDER BY start LIMIT 2000
"""
# Of logs that nobody appended to for a while, and of which no piece is missing: their pieces, joined to larger ones.
JOIN_LOGS: LiteralString = """WITH quiet AS (SELECT principal, session, log, length FROM holdall_logs
    WHERE principal = %(principal)s AND NOT joined AND appended < clock_timestamp() - interval '1 hour'
    LIMIT 1000 FOR UPDATE SKIP LOCKED),
whole AS (SELECT q.* FROM quiet q WHERE q.length = (SELECT sum(octet_length(p.data)) FROM holdall_log_parts p
    WHERE p.principal = q.principal AND p.session = q.session AND p.log = q.log)),
crowded AS (SELECT p.principal, p.session, p.log, p.start / 65536 AS at FROM holdall_log_parts p JOIN whole q
    ON p.principal = q.principal AND p.session = q.session AND p.log = q.log GROUP BY 1, 2, 3, 4 HAVING count(*) > 1),
pieces AS (DELETE FROM holdall_log_parts p USING crowded c
    WHERE p.principal = c.principal AND p.session = c.session AND p.log = c.log AND p.start / 65536 = c.at
    RETURNING p.*),
larger AS (INSERT INTO holdall_log_parts SELECT principal, session, log, min(start), string_agg(data, '' ORDER BY start)
    FROM pieces GROUP BY principal, session, log, start / 65536)
UPDATE holdall_logs l SET joined = true FROM quiet q
WHERE l.principal = q.principal AND l.session = q.session AND l.log = q.log RETURNING 1"""
_HELD: LiteralString = f"""
SELECT c.shared, c.holder FROM holdall_claims c LEFT JOIN holdall_leases l ON l.id = c.lease
WHERE c.principal = %(principal)s AND c.session = %(session)s AND c.name = %(name)s AND {ALIVE}
"""
_FREE: LiteralString = f"""
DELETE FROM holdall_claims c WHERE c.principal = %(principal)s AND c.session = %(session)s AND c.name = %(name)s
AND NOT EXISTS (SELECT 1 FROM holdall_leases l WHERE l.id = c.lease AND {ALIVE})
"""
_CLAIM: LiteralString = """
INSERT INTO holdall_claims (id, principal, session, name, shared, lease, holder)
VALUES (%(claim)s, %(principal)s, %(session)s, %(name)s, %(shared)s, %(lease)s, %(holder)s)
"""
_STAMPS: LiteralString = """
SELECT s.id::text, s.changes, coalesce(l.length, 0) FROM holdall_sessions s LEFT JOIN holdall_logs l
ON l.principal = s.principal AND l.session = s.id AND l.log = 'events'
WHERE s.principal = %(principal)s AND s.name IS NOT NULL AND (%(ids)s::uuid[] IS NULL OR s.id = ANY(%(ids)s))
"""


class SessionRows:
    """The part of a fleet's store that is about these."""

    database: Database
    principal: str
    _pulse: Pulse
    _wakeups: Wakeups
    _agents: dict[str, str]  # by session: the claim of the agent that runs here

    # Logs

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        self._append(session, "events", lines)

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        """A host that was away for longer than its lease, while another one took over, finds its claim gone."""
        data = sealed(lines, session.format)
        mine: LiteralString = (
            "SELECT 1 FROM holdall_claims WHERE id = %(claim)s AND principal = %(principal)s FOR SHARE"
        )

        def work(connection: Connection) -> None:
            claim = self._agents.get(session.id)
            values = self.about(session, name=_AGENT, claim=claim)
            if claim is None or connection.execute(mine, values).fetchone() is None:
                held = connection.execute(_HELD, values).fetchone()
                if held is not None or claim is not None:
                    raise SessionLocked(held[1] if held else "it ran on another host while this one was away")
            self.add_to_log(connection, session, "transcript", data)

        if data:
            self.database.run("writing the transcript", work)

    def events_from(self, session: SessionInfo, at: int) -> LogLines:
        return logs.joined(self.log_lines(session, "events", at), at)

    def transcript(self, session: SessionInfo) -> LogLines:
        return logs.joined(self.log_lines(session, "transcript"), 0)

    def log_lines(self, session: SessionInfo, log: Log, at: int = 0) -> Iterator[LogLines]:
        yield from logs.read_lines(lambda length, start: self._pread(session, log, length, start), at, session.format)

    def log_length(self, session: SessionInfo, log: Log) -> int:
        statement: LiteralString = (
            "SELECT whole FROM holdall_logs WHERE principal = %(principal)s AND session = %(session)s AND log = %(log)s"
        )
        row = self.database.row("reading a log", statement, self.about(session, log=log))
        return row[0] if row else 0

    def read_log(self, session: SessionInfo, log: Log, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        while start < end and (part := self._pread(session, log, min(end - start, logs.READ), start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def _append(self, session: SessionInfo, log: Log, lines: bytes) -> None:
        data = sealed(lines, session.format)
        if data:
            self.database.run(f"writing the {log}", lambda one: self.add_to_log(one, session, log, data))

    def add_to_log(self, connection: Connection, session: SessionInfo, log: Log, data: bytes) -> None:
        """What is appended after a line that was not written to its end begins a line of its own."""
        self.extend_log(connection, session, log, data, is_appended=True)

    def extend_log(
        self, connection: Connection, session: SessionInfo, log: Log, data: bytes, *, is_appended: bool = False
    ) -> None:
        """These bytes at its end, as they are."""
        about = self.about(session, log=log)
        statement: LiteralString = "SELECT 1 FROM holdall_sessions WHERE principal = %(principal)s AND id = %(session)s"
        if connection.execute(statement, about).fetchone() is None:
            raise StoreGone(f'the session "{session.name}" was removed from {self.database.home}.')
        row = connection.execute(_ADD_LOG, about).fetchone()
        length, whole = row if row else (0, 0)
        if is_appended and whole < length:
            data = b"\n" + data
        connection.execute(_ADD_PART, {**about, "start": length, "data": data})
        cut = data.rfind(b"\n") + 1
        whole = length + cut if cut else whole
        connection.execute(_LONGER, {**about, "length": length + len(data), "whole": whole})

    def _pread(self, session: SessionInfo, log: Log, length: int, start: int) -> bytes:
        """Up to `length` bytes of a log from `start` on; fewer only at its end, or where a piece is missing."""
        values = self.about(session, log=log, start=start, end=start + length, most=length)
        parts: list[bytes] = []
        for at, data in self.database.rows(f"reading the {log}", _READ, values):
            if max(at, start) != start + sum(map(len, parts)):
                break
            parts.append(bytes(data))
        return b"".join(parts)[:length]

    def erase(self, connection: Connection, session: SessionInfo, handles: Collection[str]) -> None:
        """Take what was in these outputs out of the events and the operation tree. Lines keep their places."""
        about = self.about(session, log="events")
        statement: LiteralString = """SELECT length FROM holdall_logs WHERE principal = %(principal)s
            AND session = %(session)s AND log = %(log)s FOR UPDATE"""
        if connection.execute(statement, about).fetchone() is not None:
            parts = _LogParts(connection, about)
            end = 0
            for piece in logs.whole_lines(parts.pread, 0):
                end = piece.end
                if piece.data is None:  # nobody can read it, so nobody needs it
                    parts.overwrite(piece.start, b" " * (piece.end - piece.start - 1))
                    continue
                for start, line in erased(piece.data, handles, session.format):
                    parts.overwrite(piece.start + start, line)
            parts.save(end)  # a line that was not written to its end may hold anything
            connection.execute(_LONGER, {**about, "length": end, "whole": end})
        statement = "SELECT tree FROM holdall_sessions WHERE principal = %(principal)s AND id = %(session)s"
        row = connection.execute(statement, about).fetchone()
        if row is not None and row[0] is not None:
            self._set_tree(connection, session, tree_without(bytes(row[0]), handles))

    # The operation tree

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        self.database.run("writing the operation tree", lambda one: self._set_tree(one, session, data), again=True)

    def tree(self, session: SessionInfo) -> bytes | None:
        statement: LiteralString = (
            "SELECT tree FROM holdall_sessions WHERE principal = %(principal)s AND id = %(session)s"
        )
        row = self.database.row("reading the operation tree", statement, self.about(session))
        return bytes(row[0]) if row and row[0] is not None else None

    def _set_tree(self, connection: Connection, session: SessionInfo, data: bytes | None) -> None:
        statement: LiteralString = (
            "UPDATE holdall_sessions SET tree = %(data)s WHERE principal = %(principal)s AND id = %(session)s"
        )
        connection.execute(statement, self.about(session, data=data))

    # Notes

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        note_name(content, key)
        statement: LiteralString = """SELECT data FROM holdall_notes WHERE principal = %(principal)s
            AND session = %(session)s AND content = %(content)s AND key = %(key)s"""
        row = self.database.row("reading a note", statement, self.about(session, content=content, key=key))
        return bytes(row[0]) if row else None

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes, *, durable: bool = True) -> None:
        note_name(content, key)
        statement: LiteralString = """WITH sync AS (SELECT set_config('synchronous_commit', %(sync)s, true))
            INSERT INTO holdall_notes SELECT %(principal)s, %(session)s, %(content)s, %(key)s, %(data)s FROM sync
            ON CONFLICT (principal, session, content, key) DO UPDATE SET data = excluded.data"""
        values = self.about(session, content=content, key=key, data=data, sync="on" if durable else "off")
        self.database.rows("writing a note", statement, values)

    def notes(self, session: SessionInfo) -> Sequence[Note]:
        statement: LiteralString = """SELECT content, key, octet_length(data) FROM holdall_notes
            WHERE principal = %(principal)s AND session = %(session)s"""
        found = self.database.rows("listing notes", statement, self.about(session))
        return sorted((Note(*row) for row in found), key=lambda note: f"{note.content}-{note.key}")

    # Who holds what

    @contextlib.contextmanager
    def lease(self, session: SessionInfo, holder: str) -> Generator[None]:
        told = holder.encode("utf-8", "replace").replace(b"\0", b"?")[:_LONGEST_HOLDER].decode("utf-8", "replace")
        claim = new_uuid()
        release = self._try_claim(session, _AGENT, holder=told, claim=claim)
        if not callable(release):
            raise SessionLocked(release)
        self._agents[session.id] = claim
        try:
            yield
        finally:
            self._agents.pop(session.id, None)
            release()

    def is_leased(self, session: str) -> bool:
        if not is_uuid(session):
            return False
        values = {"principal": self.principal, "session": session, "name": _AGENT, "lease_seconds": self._pulse.seconds}
        return bool(self.database.rows("looking at a session", _HELD, values))

    def claim(
        self, session: SessionInfo, name: str, *, shared: bool = False, wait: bool = False
    ) -> Callable[[], None] | None:
        hashed = f"claim-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        told = threading.Event()
        watches = self._wakeups.waiting(f"{session.id}/{hashed}") if wait else set[Callable[[], None]]()
        watches.add(told.set)
        try:
            while not callable(found := self._try_claim(session, hashed, shared=shared)):
                if not wait:
                    return None
                deadline.check()
                told.wait(1.0)  # or its lease is over, which nobody tells
                told.clear()
            return found
        finally:
            watches.discard(told.set)

    def _try_claim(
        self, session: SessionInfo, name: str, *, shared: bool = False, holder: str = "", claim: str = ""
    ) -> Callable[[], None] | str:
        """What lets go of it, or who holds it."""
        lease = self._pulse.begin()
        claim = claim or new_uuid()
        values = self.about(session, name=name, shared=shared, claim=claim, lease=lease, holder=holder)

        def take(connection: Connection) -> str | None:
            lock: LiteralString = (
                "SELECT 1 FROM holdall_sessions WHERE principal = %(principal)s AND id = %(session)s FOR UPDATE"
            )
            if connection.execute(lock, values).fetchone() is None:
                raise StoreGone(f'the session "{session.name}" was removed from {self.database.home}.')
            connection.execute(_FREE, values)  # who was away must not hold it again when it comes back
            held = connection.execute(_HELD, values).fetchall()
            if held and not (shared and all(one[0] for one in held)):
                return str(held[0][1])
            connection.execute(_CLAIM, values)
            return None

        def release() -> None:
            statement: LiteralString = """WITH gone AS (DELETE FROM holdall_claims WHERE id = %(claim)s
                AND principal = %(principal)s AND session = %(session)s)
                SELECT pg_notify(%(channel)s, %(told)s)"""
            told = {"channel": self._wakeups.channel, "told": f"{session.id}/{name}"}
            self.database.rows("releasing a name", statement, {**values, **told})

        holder_now = self.database.run("claiming a name", take)
        return (lambda: self._pulse.release(release)) if holder_now is None else holder_now

    # All sessions at a glance

    def session_stamps(self, sessions: Iterable[str] | None = None) -> Mapping[str, Stamp]:
        ids = None if sessions is None else [id for id in sessions if is_uuid(id)]
        values = {"principal": self.principal, "ids": ids}
        found = self.database.rows("listing the sessions", _STAMPS, values)
        return {id: Stamp(f"{changes}:{length}", True) for id, changes, length in found}

    def summaries(self) -> Sequence[SavedSummary]:
        statement: LiteralString = (
            "SELECT session::text, stamp, summary FROM holdall_summaries WHERE principal = %(principal)s"
        )
        found: list[SavedSummary] = []
        for session, stamp, text in self.database.rows("reading summaries", statement, {"principal": self.principal}):
            with contextlib.suppress(ValueError, RecursionError):
                found.append(SavedSummary(session, stamp, json.loads(text)))
        return found

    def save_summaries(self, summaries: Sequence[SavedSummary]) -> None:
        statement: LiteralString = """INSERT INTO holdall_summaries VALUES (%(principal)s, %(session)s, %(stamp)s,
            %(summary)s) ON CONFLICT (principal, session) DO UPDATE SET stamp = excluded.stamp,
            summary = excluded.summary"""
        rows = [
            {"principal": self.principal, "session": one.session, "stamp": one.stamp,
             "summary": json.dumps(one.summary, ensure_ascii=True)} for one in summaries if is_uuid(one.session)
        ]  # fmt: skip
        if rows:
            self.database.run("saving summaries", lambda one: one.cursor().executemany(statement, rows), again=True)

    def forget_summaries(self, sessions: Sequence[str]) -> None:
        statement: LiteralString = (
            "DELETE FROM holdall_summaries WHERE principal = %(principal)s AND session = ANY(%(ids)s)"
        )
        values = {"principal": self.principal, "ids": [id for id in sessions if is_uuid(id)]}
        self.database.rows("forgetting summaries", statement, values)

    # Inside

    def about(self, session: SessionInfo | str, **values: Any) -> dict[str, Any]:
        """What every statement about a session carries."""
        id = session if isinstance(session, str) else session.id
        return {"principal": self.principal, "session": id, "lease_seconds": self._pulse.seconds, **values}


class _LogParts:
    """The pieces of one log, in memory, while something is taken out of it."""

    def __init__(self, connection: Connection, about: Mapping[str, Any]) -> None:
        statement: LiteralString = """SELECT start, data FROM holdall_log_parts WHERE principal = %(principal)s
            AND session = %(session)s AND log = %(log)s ORDER BY start"""
        self._connection = connection
        self._about = about
        self._parts = [(int(start), bytearray(data)) for start, data in connection.execute(statement, about)]
        self._changed: set[int] = set()

    def pread(self, length: int, start: int) -> bytes:
        found: list[bytes] = []
        at = start
        for first, data in self._parts:
            if first + len(data) > at and at < start + length:
                if first > at:
                    break
                found.append(bytes(data[at - first : start + length - first]))
                at += len(found[-1])
        return b"".join(found)

    def overwrite(self, start: int, data: bytes) -> None:
        for first, part in self._parts:
            low, high = max(start, first), min(start + len(data), first + len(part))
            if low < high:
                part[low - first : high - first] = data[low - start : high - start]
                self._changed.add(first)

    def save(self, end: int) -> None:
        """What was changed, and nothing from `end` on."""
        remove: LiteralString = """DELETE FROM holdall_log_parts WHERE principal = %(principal)s
            AND session = %(session)s AND log = %(log)s AND start = %(start)s"""
        change: LiteralString = """UPDATE holdall_log_parts SET data = %(data)s WHERE principal = %(principal)s
            AND session = %(session)s AND log = %(log)s AND start = %(start)s"""
        for first, part in self._parts:
            if first >= end:
                self._connection.execute(remove, {**self._about, "start": first})
            elif first in self._changed or first + len(part) > end:
                self._connection.execute(change, {**self._about, "start": first, "data": bytes(part[: end - first])})
