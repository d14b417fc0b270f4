"""How sessions that come from elsewhere get into the fleet: all of them, or none.

Their rows are made as they come, in sessions without a name: nobody finds those. Their objects have intents, as every
object has on its way. One transaction gives all of the sessions their names and removes the intents. What was not
published goes at the end, or with the next sweep once the lease of the importer is over.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import LiteralString

import psycopg

from holdall.store import records
from holdall.store.fleet import upkeep
from holdall.store.fleet.database import Connection
from holdall.store.fleet.objects import name_of
from holdall.store.fleet.rows import FleetRows
from holdall.store.ids import new_uuid
from holdall.store.protocol import Log, SessionInfo
from holdall.store.totals import taken
from holdall.values.errors import SessionExists, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BlockTable

_STAGE: LiteralString = """INSERT INTO holdall_sessions (principal, id, name, created, info, lease)
VALUES (%(principal)s, %(session)s, NULL, %(created)s, %(info)s, %(lease)s) ON CONFLICT DO NOTHING"""
_INTEND: LiteralString = """INSERT INTO holdall_intents (object, principal, lease, bytes)
VALUES (%(object)s, %(principal)s, %(lease)s, %(bytes)s)"""
_NAME: LiteralString = """UPDATE holdall_sessions SET name = %(name)s, info = %(info)s, lease = NULL,
    place = coalesce((SELECT max(place) FROM holdall_outputs WHERE principal = %(principal)s
    AND session = %(session)s), '-Infinity')
WHERE principal = %(principal)s AND id = %(session)s AND name IS NULL"""
_DONE: LiteralString = """DELETE FROM holdall_intents WHERE principal = %(principal)s AND object = ANY(%(objects)s)
AND NOT doomed"""
_UNSTAGE: LiteralString = (
    "DELETE FROM holdall_sessions WHERE principal = %(principal)s AND id = ANY(%(ids)s) AND name IS NULL"
)


class StagedRows:
    """One session on its way."""

    def __init__(self, store: FleetRows, info: SessionInfo, objects: list[str]) -> None:
        self._store = store
        self._info = info
        self._objects = objects
        self._files: dict[str, str] = {}  # the names of bytes in the bundle, to their objects

    def write_bytes(self, file: str, chunks: Iterable[bytes], length: int) -> None:  # noqa: ARG002 - it is counted
        object = new_uuid()
        with self._store.cache.incoming() as copy:
            size = 0
            for chunk in chunks:
                copy.write(chunk, size)
                size += len(chunk)
            values = self._store.about(self._info, object=object, lease=self._store.lease_id, bytes=size)
            self._store.database.rows("importing a bundle", _INTEND, values)
            self._objects.append(object)
            if size:
                self._store.objects.put_file(name_of(object), copy.descriptor, size)
            os.ftruncate(copy.descriptor, size)
            self._store.cache.adopt(copy, object, size)
        self._files[file] = object

    def write_record(self, facts: Facts, table: BlockTable) -> None:
        object = self._files.get(facts.file) if facts.file else None
        if facts.file and object is None:
            raise StoreFault(f"the bytes of output {facts.handle} did not come before its record.")
        self._store.database.run(
            "importing a bundle", lambda one: self._store.insert(one, facts, table, object, 0, 0), again=False
        )

    def write_note(self, content: str, key: str, data: bytes) -> None:
        self._store.remember(self._info, content, key, data)

    def write_log(self, log: Log, chunks: Iterable[bytes]) -> None:
        """As it was: a line that was not written to its end stays so."""
        at = 0
        for chunk in chunks:
            if chunk:
                self._store.database.run(
                    "importing a bundle", lambda one, data=chunk: self._store.extend_log(one, self._info, log, data)
                )
                at += len(chunk)

    def write_tree(self, data: bytes) -> None:
        self._store.save_tree(self._info, data)

    def finish(self) -> None:
        """Each of its rows is durable."""

    def close(self) -> None:
        """Nothing is open."""


class FleetStaging:
    def __init__(self, store: FleetRows) -> None:
        self._store = store
        self._staged: list[str] = []
        self._objects: list[str] = []

    def session(self, info: SessionInfo) -> StagedRows:
        values = self._store.about(
            info, created=info.created, info=records.encode_session(info), lease=self._store.lease_id
        )

        def work(connection: Connection) -> int:
            return connection.execute(_STAGE, values).rowcount

        if self._store.database.run("importing a bundle", work) != 1:
            raise StoreFault(f"{records.PREFIX}{info.id} came into the store meanwhile. Import the bundle again.")
        self._staged.append(info.id)
        return StagedRows(self._store, info, self._objects)

    def publish(self, sessions: Sequence[SessionInfo]) -> None:
        def work(connection: Connection) -> None:
            for info in sessions:
                values = self._store.about(info, name=info.name, info=records.encode_session(info))
                try:
                    with connection.transaction():
                        found = connection.execute(_NAME, values).rowcount
                except psycopg.errors.UniqueViolation:
                    raise SessionExists(taken(info.name)) from None
                if found != 1:
                    raise StoreFault("this host was away for too long during the import; nothing was imported.")
            values = {"principal": self._store.principal, "objects": self._objects}
            if connection.execute(_DONE, values).rowcount != len(self._objects):
                raise StoreFault("this host was away for too long during the import; nothing was imported.")

        self._store.database.run("importing a bundle", work)
        self._staged, self._objects = [], []

    def close(self) -> None:
        if not self._staged:
            return
        values = {"principal": self._store.principal, "ids": self._staged}
        with contextlib.suppress(StoreFault):
            self._store.database.rows("importing a bundle", _UNSTAGE, values)
            for object in self._objects:
                upkeep.abandon(self._store, object)
