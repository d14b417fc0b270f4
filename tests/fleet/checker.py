"""Judges what a host left behind, as another host would find it: with a cache of its own that is empty.

Every complaint is a line; an empty list means that the store kept its word:

- every handle that was given out resolves, to exactly the bytes that were kept under it;
- what is listed is whole, or running or interrupted and then a beginning of what was being written, with every byte that
  was acknowledged; once its lease is over, it is interrupted;
- lines and notes that were acknowledged are there, once; lines that were refused are there once or not at all;
- `verify` has nothing to say; a sweep after the lease has ended leaves no object that no row names, and no intent;
- the store keeps another output afterwards.
"""

import contextlib
import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from obstore.store import S3Store

from holdall.store.fleet.objects import object_in
from holdall.store.fleet.store import FleetStore
from holdall.store.protocol import SessionInfo
from holdall.values.outputs import Origin
from tests.faults.checker import contents, promised, promises_in, shown
from tests.faults.harness import Event
from tests.faults.writer import SESSION
from tests.fleet.fixtures import Place


def complaints(place: Place, principal: str, events: Iterable[Event], cache: Path) -> list[str]:
    """All that is wrong with what this principal has, given what its worker was told. Ends its leases."""
    events = tuple(events)
    check = _Check(place, principal, events, cache)
    wrong = [f"read {event.fields}" for event in events if event.kind == "wrong"]
    return [*wrong, *check.all()]


@contextlib.contextmanager
def opened(place: Place, principal: str, cache: Path, *, lease_seconds: float = 30.0) -> Generator[FleetStore]:
    """The store, as a host sees it that reaches both servers directly."""
    with environment_of(place):
        store = FleetStore(
            place.home,
            objects=place.objects,
            principal=principal,
            cache_dir=str(cache),
            cache_bytes=1 << 30,
            lease_seconds=lease_seconds,
        )
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def environment_of(place: Place) -> Generator[None]:
    before = dict(os.environ)
    os.environ.update(place.servers.environment())
    try:
        yield
    finally:
        for name in place.servers.environment():
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]


def bucket(place: Place) -> S3Store:
    address = place.servers
    return S3Store(
        address.bucket,
        prefix=place.database,
        endpoint=address.endpoint,
        access_key_id=address.access_key,
        secret_access_key=address.secret_key,
        region="us-east-1",
        client_options={"allow_http": True},
    )


def listed_objects(place: Place) -> set[str]:
    """The names of all objects of this place."""
    found: Any = bucket(place)
    return {one["path"] for piece in found.list() for one in piece}


def end_leases(place: Place, principal: str) -> None:
    """As if their holders had been silent for an hour, by the database's clock."""
    with psycopg.connect(place.home, autocommit=True) as connection:
        connection.execute(
            "UPDATE holdall_leases SET renewed = renewed - interval '1 hour' WHERE principal = %s", (principal,)
        )


def unnamed_objects(place: Place) -> set[str]:
    """Objects that neither an output nor an intent accounts for."""
    with psycopg.connect(place.home, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT object::text FROM holdall_outputs WHERE object IS NOT NULL UNION "
            "SELECT object::text FROM holdall_intents"
        ).fetchall()
    named = {row[0] for row in rows}
    return {name for name in listed_objects(place) if (object := object_in(name)) and object not in named}


class _Check:
    def __init__(self, place: Place, principal: str, events: tuple[Event, ...], cache: Path) -> None:
        self._place = place
        self._principal = principal
        self._events = events
        self._cache = cache
        self._sessions, self._outputs = promises_in(events)

    def all(self) -> Iterator[str]:
        stages = (self._as_found, self._after_the_lease, self._swept, self._goes_on)
        for stage in stages:
            try:
                with opened(self._place, self._principal, self._cache / stage.__name__) as store:
                    for complaint in stage(store):
                        yield f"{stage.__name__.strip('_')}: {complaint}"
            except Exception as problem:  # a broken store may lead anywhere; that is a complaint too
                yield f"{stage.__name__.strip('_')}: {type(problem).__name__}: {problem}"

    def _as_found(self, store: FleetStore) -> Iterator[str]:
        yield from self._everything(store, may_run=True)

    def _after_the_lease(self, store: FleetStore) -> Iterator[str]:
        end_leases(self._place, self._principal)
        yield from self._everything(store, may_run=False)
        yield from self._logs(store)
        yield from self._notes(store)

    def _swept(self, store: FleetStore) -> Iterator[str]:
        store.sweep()
        with psycopg.connect(self._place.home, autocommit=True) as connection:
            left = connection.execute(
                "SELECT count(*) FROM holdall_intents WHERE principal = %s", (self._principal,)
            ).fetchone()
        if left != (0,):
            yield f"{left} intents are left"
        if stray := unnamed_objects(self._place):
            yield f"objects that nobody names are left: {sorted(stray)}"
        for verdict in store.verify():
            if verdict.problem:
                yield f"verify: {verdict.problem}"
        yield from self._everything(store, may_run=False)

    def _goes_on(self, store: FleetStore) -> Iterator[str]:
        session = store.open_session(SESSION)
        facts = store.put(session, [b"kept afterwards"], Origin())
        if contents(store, store.resolve(session, facts.handle)) != b"kept afterwards":
            yield "what was kept afterwards is not what it was"

    def _everything(self, store: FleetStore, *, may_run: bool) -> Iterator[str]:
        yield from promised(store, self._sessions, self._outputs)
        for session in store.sessions():
            for facts in store.outputs(session):
                yield from shown(store, facts, may_run=may_run)

    def _logs(self, store: FleetStore) -> Iterator[str]:
        session = store.find_session(SESSION)
        if session is None:
            return
        for log, found in (("events", store.events_from(session, 0)), ("transcript", store.transcript(session))):
            lines = found.lines.splitlines(keepends=True)
            if found.bad:
                yield f"{log}: {found.bad}"
            numbers = [line for line in lines if line.startswith(b'{"a line"')]
            tried = [e.number("number") for e in self._events if e.kind == "logging" and e.fields["log"] == log]
            acknowledged = [e.number("number") for e in self._events if e.kind == "logged" and e.fields["log"] == log]
            seen = [int(line.split(b":")[1].rstrip(b"}\n")) for line in numbers]
            if len(set(seen)) != len(seen) or not set(acknowledged) <= set(seen) <= set(tried):
                yield f"{log}: {acknowledged} were acknowledged of {tried}, {seen} are there"

    def _notes(self, store: FleetStore) -> Iterator[str]:
        session = store.find_session(SESSION)
        for event in self._events:
            if event.kind != "noted" or session is None:
                continue
            if store.recall(session, event.text("content"), event.text("key")) != event.text("data").encode():
                yield "a note is lost"


def session_of(store: FleetStore, name: str = SESSION) -> SessionInfo:
    found = store.find_session(name)
    assert found is not None
    return found
