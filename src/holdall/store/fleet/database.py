"""PostgreSQL as the fleet uses it: a few connections, each statement within a deadline, each fault as a StoreFault.

Connections are made by the thread that needs one, so that a database that is away is an error at once, with its reason,
and one that is back is used at once. (The pool of psycopg reconnects in threads of its own, after growing pauses, and
says only that there was none in time.)

No text of the database or of its driver leaves this module: a host name that was written badly may be half a password.
"""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, LiteralString, TypeVar

from holdall.store import deadline
from holdall.store.addresses import shown, shown_objects
from holdall.store.fleet.objects import Objects
from holdall.store.fleet.schema import MIGRATIONS, VERSION
from holdall.values.errors import BadSetting, MissingExtra, OutOfTime, StoreFault, StoreFull
from holdall.values.record import record

try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg.rows import TupleRow
except ImportError as missing:  # pragma: no cover
    raise MissingExtra("psycopg", "fleet", "keeping outputs in PostgreSQL") from missing

T = TypeVar("T")
Connection = psycopg.Connection[TupleRow]
Row = tuple[Any, ...]

MOST_CONNECTIONS = 8
CONNECT_SECONDS = 5
STATEMENT_SECONDS = 30
TURN_SECONDS = 120.0  # at most, for one of our connections: each is used for some milliseconds at a time
_MIGRATING = 0x686F6C64  # the advisory lock of those who change the schema
# A peer that does not answer is noticed in 20 s, whatever it was doing.
_PATIENCE = {
    "connect_timeout": CONNECT_SECONDS, "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 5,
    "keepalives_count": 3, "tcp_user_timeout": 15_000,
}  # fmt: skip
_TIMEOUTS = (
    f" -c statement_timeout={STATEMENT_SECONDS * 1000} -c lock_timeout=15000"
    " -c idle_in_transaction_session_timeout=60000 -c client_encoding=UTF8"
)
_LOOK = "SELECT version, objects, extract(epoch FROM clock_timestamp())::float8, session_user FROM holdall_store"
# What a refused connection says, and what we say. The first that is in the text.
_REFUSALS = (
    ("too many connections", "it has no connection left for this user or database (CONNECTION LIMIT)"),
    ("password authentication failed", "it refuses the user or the password"),
    ("no password supplied", "it wants a password: set PGPASSWORD or a ~/.pgpass file"),
    ("no pg_hba.conf entry", "it lets this user or host not in (pg_hba.conf)"),
    ("role ", "it has no such user"),
    ("database ", "it has no such database: make it with createdb"),
    ("too many clients", "it has no connection left (max_connections)"),
    ("remaining connection slots", "it has no connection left (max_connections)"),
    ("starting up", "it is starting up; try again"),
    ("shutting down", "it is shutting down"),
    ("Connection refused", "nothing listens there"),
    ("timeout", f"it did not answer in {CONNECT_SECONDS} s"),
    ("timed out", f"it did not answer in {CONNECT_SECONDS} s"),
    ("could not translate host name", "its host name is not known"),
    ("failed to resolve host", "its host name is not known"),
    ("Network is unreachable", "there is no way to it"),
    ("No route to host", "there is no way to it"),
    ("SSL", "the encrypted connection failed (sslmode, certificates)"),
    ("closed the connection", "it closed the connection"),
)
# By SQLSTATE, the longest that fits.
_STATES = {
    "08": "the connection was lost",
    "23": "a row is not as it must be",
    "25006": "the database is read-only: name the primary, or end default_transaction_read_only",
    "28": "it refuses the user or the password",
    "3D": "it has no such database: make it with createdb",
    "40": "others changed the same rows; try again",
    "42501": "the user may not do that (GRANT)",
    "42": "its tables are not as this version of Holdall needs them",
    "53": "it has no memory, disk or other means left",
    "53100": "its disk is full: give it more room; what is kept can be read, and holdall works again by itself",
    "53300": "it has no connection left (max_connections, CONNECTION LIMIT)",
    "54": "a row would be too large",
    "55P03": "somebody else holds the same rows for too long; try again",
    "57014": f"it took longer than {STATEMENT_SECONDS} s",
    "57P": "it was shut down or ended the connection",
    "58": "its disk failed",
    "XX": "it is damaged",
}


class Conflict(StoreFault):
    """Others have taken the same name, or changed the same rows."""


@record
class Opened:
    """What the first look at the database tells."""

    objects: str
    seconds: float  # its clock
    user: str


class Turns:
    """So many at once; the others wait, and come in the order in which they asked."""

    def __init__(self, many: int) -> None:
        self._free = many
        self._waiting: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    def take(self, *, first: bool = False) -> None:
        """Raises OutOfTime at the deadline of the call. `first`: before all others that wait."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Event()
            (self._waiting.appendleft if first else self._waiting.append)(mine)
        within = deadline.of_seconds(TURN_SECONDS)
        try:
            while not mine.wait(within.wait_seconds()):
                pass
        except BaseException:
            with self._lock:
                has_turn = mine.is_set()
                if not has_turn:
                    self._waiting.remove(mine)
            if has_turn:
                self.give()
            raise

    def give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


class Database:
    """Safe to use from many threads."""

    def __init__(self, home: str, *, objects: str = "") -> None:
        self.home = shown(home)
        self._parameters = _parameters(home)
        self._free: list[Connection] = []
        self._lock = threading.Lock()
        self._turns = Turns(MOST_CONNECTIONS)
        self._closed = False
        self.opened = self._first_look(objects)
        self._ahead = self.opened.seconds - time.monotonic()

    def clock(self) -> float:
        """The database's time: hosts need not agree on theirs."""
        return time.monotonic() + self._ahead

    # Statements

    def run(self, doing: str, work: Callable[[Connection], T], *, again: bool = False) -> T:
        """`work` in one transaction. A connection that is lost before the commit costs nothing: it is done once more.

        Nobody knows what became of a commit whose answer was lost. With `again` the work can be done twice.
        """
        for attempt in (1, 2):
            done = False
            try:
                with self._connection() as connection, connection.transaction():
                    found = work(connection)
                    done = True
                return found
            except (errors.DeadlockDetected, errors.LockNotAvailable, errors.SerializationFailure) as problem:
                if attempt == 2:
                    raise fault(problem, doing, self.home) from None
            except psycopg.Error as problem:
                if not _is_lost(problem) or attempt == 2 or (done and not again):
                    raise fault(problem, doing, self.home, unknown=done and not again) from None
                self._drop_free()
        raise AssertionError("the last attempt returns or raises")

    def rows(
        self, doing: str, statement: LiteralString, values: Mapping[str, object], *, first: bool = False
    ) -> list[Row]:
        """Of one statement that can be done twice. `first`: it waits for no other statement of this process."""
        for attempt in (1, 2):
            try:
                with self._connection(first=first) as connection:
                    cursor = connection.execute(statement, values)
                    return cursor.fetchall() if cursor.description else []
            except psycopg.Error as problem:
                if not _is_lost(problem) or attempt == 2:
                    raise fault(problem, doing, self.home) from None
                self._drop_free()
        raise AssertionError("the last attempt returns or raises")

    def row(self, doing: str, statement: LiteralString, values: Mapping[str, object]) -> Row | None:
        return next(iter(self.rows(doing, statement, values)), None)

    # Connections

    @contextlib.contextmanager
    def explained(self, doing: str) -> Generator[None]:
        try:
            yield
        except psycopg.Error as problem:
            raise fault(problem, doing, self.home) from None

    def connect(self) -> Connection:
        """A new connection, checked. The caller closes it. Raises psycopg's errors."""
        connection = psycopg.connect(conninfo.make_conninfo(**self._parameters), autocommit=True)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._drop_free()

    @contextlib.contextmanager
    def _connection(self, *, first: bool = False) -> Generator[Connection]:
        began = time.monotonic()
        try:
            self._turns.take(first=first)
        except OutOfTime:
            raise StoreFault(
                f"the call waited {time.monotonic() - began:.1f} s for one of the {MOST_CONNECTIONS} connections of "
                f"this process to {self.home}, which were in use. Call less at once, or from more processes."
            ) from None
        try:
            with self._lock:
                connection = self._free.pop() if self._free else None
            connection = connection or self.connect()
            try:
                yield connection
            finally:
                with self._lock:
                    is_good = not connection.closed and connection.info.transaction_status == 0
                    if keep := is_good and not self._closed:
                        self._free.append(connection)
                if not keep:
                    connection.close()
        finally:
            self._turns.give()

    def _drop_free(self) -> None:
        """What was open when one connection was lost is most likely lost too."""
        with self._lock:
            dropped, self._free = self._free, []
        for one in dropped:
            one.close()

    # The schema

    def _first_look(self, objects: str) -> Opened:
        try:
            with contextlib.closing(
                psycopg.connect(conninfo.make_conninfo(**self._parameters), autocommit=True)
            ) as connection:
                self._refuse_newer(found := self._look(connection))
                if found is None or found[0] < VERSION or not found[1]:
                    self._migrate(connection, objects)
                    self._claim(connection, objects)
                    self._refuse_newer(found := self._look(connection))
        except psycopg.Error as problem:
            raise fault(problem, "opening the store", self.home) from None
        if found is None:
            raise StoreFault(f"the tables in {self.home} were removed while they were made.")
        if objects and _plain(objects) != _plain(found[1]):
            raise StoreFault(
                f"the objects of {self.home} are in {shown_objects(found[1])}, not in {shown_objects(objects)}: "
                "nothing was read or written. Leave out `objects`, or name the same place."
            )
        return Opened(found[1], found[2], found[3])

    def _look(self, connection: Connection) -> Row | None:
        try:
            return connection.execute(_LOOK).fetchone()
        except errors.UndefinedTable:
            return None

    def _check(self, connection: Connection) -> None:
        """A program that runs for days must not write into a schema that was made newer meanwhile."""
        self._refuse_newer(self._look(connection))

    def _refuse_newer(self, found: Row | None) -> None:
        if found is not None and found[0] > VERSION:
            raise StoreFault(
                f"{self.home} was changed by a newer version of Holdall (schema {found[0]}; this one knows "
                f"{VERSION}). Nothing was changed; use the newer version."
            )

    def _migrate(self, connection: Connection, objects: str) -> None:
        """A new store has an id, and no place for objects yet."""
        with self._alone(connection):
            connection.execute(
                "CREATE TABLE IF NOT EXISTS holdall_store (version integer NOT NULL, objects text NOT NULL)"
            )
            row = connection.execute("SELECT version, objects FROM holdall_store").fetchone()
            if not objects and not (row and row[1]):
                raise StoreFault(
                    f"{self.home} has no store yet, and nobody said where its objects go. Name the place with "
                    "--objects, HOLDALL_OBJECTS or the setting `objects`, for example s3://bucket/prefix."
                )
            for step in MIGRATIONS[row[0] if row else 0 :]:
                connection.execute(step)
            if row is None:
                connection.execute("INSERT INTO holdall_store VALUES (%s, '')", (VERSION,))
            else:
                connection.execute("UPDATE holdall_store SET version = %s WHERE version < %s", (VERSION, VERSION))

    def _claim(self, connection: Connection, objects: str) -> None:
        """To sweep is to remove what no row names: two stores in one place would remove each other's objects.

        The id is committed before the place bears it: whoever comes after one that was killed goes on with the same.
        """
        with self._alone(connection):
            id, place = connection.execute("SELECT id::text, objects FROM holdall_store").fetchone() or ("", "")
            if place:
                return
            if not Objects(objects).claim(id):
                raise StoreFault(
                    f"in {shown_objects(objects)} are the objects of another store: nothing was written. Name a place "
                    "for this one alone, such as another prefix; or, where that store is gone, remove its objects."
                )
            connection.execute("UPDATE holdall_store SET objects = %s", (objects,))

    @contextlib.contextmanager
    def _alone(self, connection: Connection) -> Generator[None]:
        """One process at a time; whoever comes second finds it done."""
        with connection.transaction():
            # An index of a large table takes its time, and so does waiting for whoever makes it.
            for timeout in ("statement_timeout", "lock_timeout"):
                connection.execute("SELECT set_config(%s, '0', true)", (timeout,))
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            yield


def fault(problem: psycopg.Error, doing: str, home: str, *, unknown: bool = False) -> StoreFault:
    """What to tell of it, in our own words."""
    state = problem.sqlstate or ""
    if state:
        fitting = [start for start in _STATES if state.startswith(start)]
        why = _STATES[max(fitting, key=len)] if fitting else "it refused"
        why = f"{why} (SQLSTATE {state})"
    else:
        text = str(problem)
        why = next((ours for theirs, ours in _REFUSALS if theirs in text), "the connection was lost")
    doubt = " Whether it was kept is not known." if unknown else ""
    kind = Conflict if state.startswith(("23505", "40")) else StoreFault
    kind = StoreFull if state.startswith("53") and state != "53300" else kind
    return kind(f"the database {home} failed while {doing}: {why}.{doubt}")


def _is_lost(problem: psycopg.Error) -> bool:
    """Whether the connection is gone, not only its statement refused."""
    state = problem.sqlstate
    return isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError) and (
        state is None or state.startswith(("08", "57P"))
    )


def _parameters(home: str) -> dict[str, Any]:
    try:
        own = conninfo.conninfo_to_dict(home)
    except psycopg.Error:
        rule = "it must be a connection string, as in postgresql://user@host:5432/database"
        raise BadSetting("home", shown(home), rule) from None
    options = f"{own.get('options') or os.environ.get('PGOPTIONS', '')}{_TIMEOUTS}".strip()
    return {"application_name": "holdall", **_PATIENCE, **own, "options": options}


def _plain(objects: str) -> str:
    return objects.rstrip("/")
