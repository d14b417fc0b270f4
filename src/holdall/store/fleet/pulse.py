"""Signs of life, and wake-ups: one lease for a store, renewed by the database's clock, and what it notifies us of.

A lease that was not renewed for `LEASE_SECONDS` is over: what its holder was writing may be ended by anybody. A holder
that comes back finds out by the rows themselves, which it may then no longer change. No clock of a host is asked.
"""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import LiteralString

import psycopg
from psycopg import sql

from holdall.store.fleet.database import Connection, Database
from holdall.store.ids import new_uuid
from holdall.values.errors import StoreFault

LEASE_SECONDS = 30.0
_RENEWALS = 6  # of them could be missed, but for one
_LISTEN_SECONDS = 10.0
_LOOK_SECONDS = 1.0

# For a statement that joins `holdall_leases` as l.
ALIVE: LiteralString = "coalesce(l.renewed > clock_timestamp() - make_interval(secs => %(lease_seconds)s), false)"
_RENEW: LiteralString = """
INSERT INTO holdall_leases (id, principal, host) VALUES (%(lease)s, %(principal)s, %(host)s)
ON CONFLICT (id) DO UPDATE SET renewed = clock_timestamp()
"""
_DEAD: LiteralString = f"""
SELECT o.id::text FROM holdall_outputs o LEFT JOIN holdall_leases l ON l.id = o.lease
WHERE o.principal = %(principal)s AND o.id = ANY(%(ids)s) AND o.state = 'running' AND NOT {ALIVE}
"""


class Pulse:
    """Of one store. Its lease begins with its first write; `beside` is done with each renewal."""

    def __init__(
        self,
        database: Database,
        principal: str,
        seconds: float = LEASE_SECONDS,
        beside: Callable[[], object] = lambda: None,
    ) -> None:
        self.id = new_uuid()
        self.seconds = seconds
        self._database = database
        self._values = {"lease": self.id, "principal": principal, "host": f"{socket.gethostname()}:{os.getpid()}"}
        self._beside = beside
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._undone: list[Callable[[], object]] = []  # what could not be let go of while the database was away

    def begin(self) -> str:
        """The lease, held from now on."""
        with self._lock:
            if self._thread is None:
                self._database.rows("taking a lease", _RENEW, self._values)
                self._thread = threading.Thread(target=self._run, name="holdall-lease", daemon=True)
                self._thread.start()
        return self.id

    def release(self, work: Callable[[], object]) -> None:
        """Let go of something, now or as soon as the database can be reached."""
        try:
            work()
        except StoreFault:
            with self._lock:
                self._undone.append(work)

    def close(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)
            with contextlib.suppress(StoreFault):
                statement: LiteralString = (
                    "DELETE FROM holdall_leases WHERE id = %(lease)s AND principal = %(principal)s"
                )
                self._database.rows("giving back a lease", statement, self._values)

    def _run(self) -> None:
        while not self._stopped.wait(self.seconds / _RENEWALS):
            with contextlib.suppress(StoreFault):
                self._database.rows("renewing a lease", _RENEW, self._values, first=True)
                with self._lock:
                    undone, self._undone = self._undone, []
                for work in undone:
                    self.release(work)
                self._beside()


class Wakeups:
    """Who waits for what, and the one connection that is told of it. It is made when somebody first waits."""

    def __init__(self, database: Database, principal: str, lease_seconds: float) -> None:
        self.channel = f"holdall_{hashlib.sha256(principal.encode('utf-8', 'replace')).hexdigest()[:16]}"
        self._database = database
        self._principal = principal
        self._lease_seconds = lease_seconds
        self._waiting: dict[str, set[Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listening = threading.Event()
        self._stopped = threading.Event()

    def waiting(self, name: str) -> set[Callable[[], None]]:
        """Those to call when `name` is told of. Raises StoreFault if nobody would tell us."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdall-wakeups", daemon=True)
                self._thread.start()
            for known in [one for one, watches in self._waiting.items() if not watches]:
                del self._waiting[known]
            found = self._waiting.setdefault(name, set())
        if not self._listening.wait(_LISTEN_SECONDS):
            raise StoreFault(f"the database {self._database.home} cannot be listened to. Try again.")
        return found

    def close(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * _LOOK_SECONDS)

    def _run(self) -> None:
        pause = 0.1
        while not self._stopped.is_set():
            with (
                contextlib.suppress(psycopg.Error, StoreFault),
                contextlib.closing(self._database.connect()) as connection,
            ):
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
                self._listening.set()
                self._tell(list(self._waiting))  # nobody knows what happened before
                pause = 0.1
                self._listen(connection)
            self._listening.clear()
            if self._stopped.wait(pause):
                return
            pause = min(5.0, pause * 2)

    def _listen(self, connection: Connection) -> None:
        look = time.monotonic()
        while not self._stopped.is_set():
            self._tell(one.payload for one in connection.notifies(timeout=_LOOK_SECONDS, stop_after=1))
            if time.monotonic() - look >= self._lease_seconds / _RENEWALS:
                look = time.monotonic()
                self._tell_of_the_dead(connection)

    def _tell_of_the_dead(self, connection: Connection) -> None:
        """A writer that is gone notifies nobody of it."""
        with self._lock:
            ids = [name for name, watches in self._waiting.items() if watches and len(name) == 36]
        values = {"principal": self._principal, "ids": ids, "lease_seconds": self._lease_seconds}
        self._tell(id for (id,) in connection.execute(_DEAD, values).fetchall())

    def _tell(self, names: Iterable[str]) -> None:
        for name in names:
            with self._lock:
                watches = tuple(self._waiting.get(name, ()))
            for notify in watches:
                notify()
