"""What only the store of many hosts promises: who sees what, who is alive, what is removed, and what is said of faults."""
# pyright: reportPrivateUsage=false
# Faults are made where they happen: between two steps of the store.

import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
import psycopg
import pytest
from obstore.exceptions import GenericError
from psycopg import errors

from holdall import Holdall, Settings
from holdall.bag import Care
from holdall.bag.bundles import copy_session
from holdall.store import deadline
from holdall.store.fleet import cache, database, objects, schema, upkeep
from holdall.store.fleet import writer as writers
from holdall.store.fleet.store import FleetStore
from holdall.store.opening import open_store, shown
from holdall.store.protocol import Quota, SessionInfo
from holdall.values.errors import (
    BadSetting,
    OutputDamaged,
    OutputExpired,
    QuotaReached,
    SessionLocked,
    StoreFault,
    StoreGone,
    UnknownHandle,
)
from holdall.values.outputs import Facts, Kept, Origin, Unkept
from holdall.values.retention import Retention
from holdall.values.spans import BLOCK
from tests.fleet.fixtures import Place, new_place
from tests.requirements import requirement
from tests.store.support import keep, read_back

pytestmark = [pytest.mark.fleet, pytest.mark.in_full(one_in=2)]


class Fleet:
    """Opens the same store as often as it is asked, each time as another host: with a cache of its own."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        self._folder = folder
        self._opened: list[FleetStore] = []

    def host(self, **options: Any) -> FleetStore:
        own: dict[str, Any] = {"cache_dir": str(self._folder / f"host-{len(self._opened)}"), "cache_bytes": 1 << 28}
        own |= {"objects": self.place.objects, **options}
        store = FleetStore(self.place.home, **own)
        self._opened.append(store)
        return store

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.place.home, autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # pyright: ignore
            return cursor.fetchall() if cursor.description else []

    def intents(self) -> int:
        return self.sql("SELECT count(*) FROM holdall_intents")[0][0]

    def kill(self, store: FleetStore) -> None:
        """As the database sees a host that is gone: its lease is not renewed any more."""
        store._pulse._stopped.set()
        self.sql("UPDATE holdall_leases SET renewed = renewed - interval '1 hour' WHERE id = %s", store._pulse.id)

    def close(self) -> None:
        for one in self._opened:
            one.close()


@pytest.fixture
def fleet(fleet_place: Place, tmp_path: Path) -> Iterator[Fleet]:
    with contextlib.closing(Fleet(fleet_place, tmp_path)) as found:
        yield found


# ── The schema ──────────────────────────────────────────────────────────────────────────────────────────────


@requirement("fleet:one-schema")
def test_many_hosts_that_open_a_new_store_at_once_make_one(fleet: Fleet) -> None:
    found: list[object] = []

    def open_it() -> None:
        found.append(fleet.host().open_session("s").id)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 6
    assert len(set(found)) == 1


@requirement("fleet:newer-schema-refused")
def test_an_older_program_refuses_a_newer_schema_also_when_it_connects_again(fleet: Fleet) -> None:
    store = fleet.host()
    fleet.sql("UPDATE holdall_store SET version = version + 1")
    store.database._drop_free()
    for refuse in (fleet.host, store.sessions):
        with pytest.raises(
            StoreFault, match=rf"newer version of Holdall \(schema {schema.VERSION + 1}; this one knows"
        ):
            refuse()


@requirement("fleet:same-bucket")
def test_a_store_stays_with_the_bucket_that_it_was_made_with(fleet: Fleet) -> None:
    with pytest.raises(StoreFault, match="nobody said where its objects go"):
        fleet.host(objects="")
    fleet.host()
    with pytest.raises(StoreFault, match=r"are in s3://.*, not in s3://other/place: nothing was read"):
        fleet.host(objects="s3://other/place")
    session = fleet.host(objects="").open_session("s")
    assert read_back(fleet.host(), keep(fleet.host(), session, "x")) == b"x"


@requirement("fleet:same-bucket")
def test_two_stores_in_one_place_for_objects_do_not_remove_each_others(fleet: Fleet, tmp_path: Path) -> None:
    store = fleet.host()
    kept = keep(store, store.open_session("s"), "of the first store")
    other = new_place(fleet.place.servers)
    with pytest.raises(StoreFault, match="are the objects of another store: nothing was written"):
        FleetStore(other.home, objects=fleet.place.objects, cache_dir=str(tmp_path / "other"), cache_bytes=1 << 30)
    fleet.sql("UPDATE holdall_store SET id = gen_random_uuid()")  # as one that was here before places had a mark
    with pytest.raises(StoreFault, match="are the objects of another store, too: those that no row names were left"):
        store.sweep(thorough=True)
    assert read_back(fleet.host(), kept) == b"of the first store"


def test_a_host_that_ends_while_it_makes_a_store_is_in_nobodys_way(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = objects.Objects.claim

    def ended(self: objects.Objects, store: str) -> bool:
        claim(self, store)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(objects.Objects, "claim", ended)
        with pytest.raises(KeyboardInterrupt):
            fleet.host()
    with pytest.raises(StoreFault, match="nobody said where its objects go"):
        fleet.host(objects="")
    session = fleet.host().open_session("s")
    assert read_back(fleet.host(), keep(fleet.host(), session, "x")) == b"x"


def test_what_another_host_removed_leaves_the_cache_of_a_program_that_stays_open(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = fleet.host(), fleet.host()
    session = here.open_session("s")
    kept, other = [keep(here, session, text * BLOCK) for text in ("secret", "other")]
    assert [read_back(there, facts)[:6] for facts in (kept, other)] == [b"secret", b"othero"]
    assert len(there.cache.objects_to_look_for(now=True)) == 2
    here.remove(session, [kept])
    with pytest.raises(OutputExpired):
        there.open(kept)
    assert len(there.cache.objects_to_look_for(now=True)) == 1
    here.remove(session, [other])
    monkeypatch.setattr(cache, "_LOOK_SECONDS", 0.0)
    third = keep(here, session, "third" * BLOCK)
    read_back(there, third)
    there.open(third)
    assert len(there.cache.objects_to_look_for(now=True)) == 1, "also where nobody asks for what was removed"


# ── Apart ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("fleet:apart")
def test_what_another_principal_has_is_as_if_it_were_not_there(fleet: Fleet) -> None:
    ours, theirs = fleet.host(principal="us"), fleet.host(principal="them")
    session = ours.open_session("s")
    facts = keep(ours, session, "secret", call_id="c1")
    assert theirs.sessions() == []
    assert theirs.find_session(f"session-{session.id}") is None
    assert theirs.open_session("s").id != session.id
    for reference in (facts.handle, facts.long_handle, facts.id, "c1"):
        with pytest.raises(UnknownHandle) as refused:
            theirs.resolve(session, reference)
        assert str(refused.value) == str(UnknownHandle(reference, session="s"))
    with pytest.raises(StoreGone):
        theirs.open(facts)
    with pytest.raises(StoreGone):
        theirs.put(session, [b"x"], Origin())
    with pytest.raises(StoreGone):
        theirs.remove(session, [facts])
    with pytest.raises(StoreGone):
        theirs.append_events(session, b"{}\n")
    assert (theirs.stamp(facts), theirs.outputs(session), theirs.used_bytes()) == (None, [], 0)
    assert read_back(ours, facts) == b"secret"


@requirement("fleet:quota-of-principal")
def test_a_quota_is_that_of_a_principal(fleet: Fleet) -> None:
    quota = Quota(store_bytes=10)
    ours, theirs = fleet.host(principal="us", quota=quota), fleet.host(principal="them", quota=quota)
    keep(ours, ours.open_session("s"), "123456789")
    with pytest.raises(QuotaReached):
        keep(ours, ours.open_session("t"), "abcdef")
    keep(theirs, theirs.open_session("t"), "abcdef")


# ── Growing outputs, and who is alive ───────────────────────────────────────────────────────────────────────


@requirement("fleet:interrupted-by-lease")
def test_an_output_whose_host_is_gone_is_interrupted_with_every_committed_byte(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = fleet.host(), fleet.host()
    monkeypatch.setattr(writers, "SEGMENT_SECONDS", 3600.0)  # by itself it writes no more, however long this takes
    session = there.open_session("s")
    writer = there.begin(session, Origin())
    writer.write(b"one\n" * 100_000)
    writer.flush()
    writer.write(b"never committed")
    assert here.resolve(session, writer.handle).state == "running"
    fleet.kill(there)
    facts = here.resolve(session, writer.handle)
    assert (facts.state, facts.measure.bytes, facts.measure.lines) == ("interrupted", 400_000, 100_000)
    assert read_back(here, facts) == b"one\n" * 100_000
    # It comes back: nothing of it can be written, and nothing of it is lost.
    there._pulse._database.rows("renewing", "UPDATE holdall_leases SET renewed = clock_timestamp()", {})
    with pytest.raises(StoreGone, match="was ended as interrupted"):
        writer.finish()
    assert here.resolve(session, writer.handle) == facts
    assert read_back(there, facts) == b"one\n" * 100_000


@requirement("fleet:back-in-time")
def test_a_host_that_comes_back_before_anybody_looked_goes_on(fleet: Fleet) -> None:
    there, here = fleet.host(lease_seconds=3600), fleet.host(lease_seconds=3600)
    session = there.open_session("s")
    writer = there.begin(session, Origin())
    fleet.sql("UPDATE holdall_leases SET renewed = renewed - interval '50 minutes'")
    assert here.resolve(session, writer.handle).state == "running"
    writer.write(b"all of it")
    assert read_back(here, writer.finish()) == b"all of it"


@requirement("fleet:transcript-of-holder")
def test_an_agent_whose_session_another_host_took_over_writes_no_more_of_its_transcript(fleet: Fleet) -> None:
    there, here = fleet.host(), fleet.host()
    session = there.open_session("s")
    with there.lease(session, "there"):
        there.append_transcript(session, b'{"n":1}\n')
        with pytest.raises(SessionLocked, match="there"):
            here.append_transcript(session, b'{"n":"nobody asked"}\n')
        fleet.kill(there)
        with here.lease(session, "here"):
            here.append_transcript(session, b'{"n":2}\n')
            fleet.sql("UPDATE holdall_leases SET renewed = clock_timestamp()")  # it comes back
            with pytest.raises(SessionLocked, match="here"):
                there.append_transcript(session, b'{"n":"too late"}\n')
        with pytest.raises(SessionLocked, match="it ran on another host while this one was away"):
            there.append_transcript(session, b'{"n":"too late"}\n')
    assert [json.loads(line)["n"] for line in here.transcript(session).lines.splitlines()] == [1, 2]


@requirement("fleet:bytes-wait")
def test_bytes_wait_while_the_bucket_is_away_and_are_all_there_afterwards(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    session = store.open_session("s")
    writer = store.begin(session, Origin())
    put = store.objects.put

    def away(name: str, data: bytes) -> None:
        raise StoreFault("away")

    monkeypatch.setattr(store.objects, "put", away)
    for _ in range(10):
        writer.write(b"x" * (1 << 20))
    with pytest.raises(StoreFault, match="away"):
        writer.flush()
    monkeypatch.setattr(store.objects, "put", put)
    assert read_back(store, writer.finish()) == b"x" * (10 << 20)


@requirement("fleet:segments-joined")
def test_small_segments_are_joined_at_the_end_and_who_reads_them_goes_on(fleet: Fleet) -> None:
    store, there = fleet.host(), fleet.host()
    session = store.open_session("s")
    writer = store.begin(session, Origin())
    for part in (b"first\n", b"second\n"):
        writer.write(part)
        writer.flush()
    (segments,) = fleet.sql("SELECT object::text FROM holdall_outputs")[0]
    reader = there.open(writer.facts)
    grown, copy = writer.finish(), keep(store, session, "first\nsecond\n")
    assert reader.read(0, 100) == b"first\nsecond\n"
    reader.close()
    assert grown.file == copy.file
    ((one, least, most),) = fleet.sql("SELECT min(object::text), min(parts), max(parts) FROM holdall_outputs")
    assert (one != segments, least, most) == (True, 0, 0)
    assert read_back(there, grown) == b"first\nsecond\n"
    there.sweep()
    assert (store.objects.length(objects.segment_of(segments, 0)), fleet.intents()) == (None, 0)
    store.remove(session, [grown])
    assert read_back(fleet.host(), copy) == b"first\nsecond\n"
    assert store.remove(session, [copy]).freed_bytes == 13
    assert fleet.sql("SELECT count(*) FROM holdall_segments") == [(0,)]


@requirement("fleet:segments-joined")
def test_a_removed_output_leaves_no_segments_that_were_joined(fleet: Fleet) -> None:
    store = fleet.host()
    session = store.open_session("s")
    writer = store.begin(session, Origin())
    for part in (b"a sec", b"ret"):
        writer.write(part)
        writer.flush()
    store.remove(session, [writer.finish()])
    assert list(store.objects.everything()) in ([], [[]])
    assert fleet.intents() == 0


def test_a_copy_of_an_output_in_segments_shares_them_until_both_are_removed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    session = store.open_session("s")
    writer = store.begin(session, Origin())
    monkeypatch.setattr(store, "joined", _forgotten)  # as where it cannot be done
    for part in (b"first\n", b"second\n"):
        writer.write(part)
        writer.flush()
    grown, copy = writer.finish(), keep(store, session, "first\nsecond\n")
    assert grown.file == copy.file
    assert fleet.sql("SELECT count(DISTINCT object), min(parts), max(parts) FROM holdall_outputs") == [(1, 2, 2)]
    store.remove(session, [grown])
    assert read_back(fleet.host(), copy) == b"first\nsecond\n"
    assert store.remove(session, [copy]).freed_bytes == 13
    assert fleet.sql("SELECT count(*) FROM holdall_segments") == [(0,)]
    assert fleet.intents() == 0


# ── What killed writers leave ───────────────────────────────────────────────────────────────────────────────


@requirement("fleet:sweep-by-intent")
def test_an_object_without_its_record_goes_once_the_lease_of_its_writer_is_over(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = fleet.host(), fleet.host()
    session = there.open_session("s")
    monkeypatch.setattr(FleetStore, "_publish", _killed)
    monkeypatch.setattr(upkeep, "abandon", _forgotten)
    with pytest.raises(SystemExit):
        keep(there, session, "half kept")
    monkeypatch.undo()
    for name, value in fleet.place.servers.environment().items():
        monkeypatch.setenv(name, value)
    assert here.outputs(session) == []
    assert here.sweep().leftovers == (), "its writer may still be at it"
    fleet.kill(there)
    (left,) = here.sweep(dry_run=True).leftovers
    assert here.objects.length(left) == len("half kept")
    swept = here.sweep()
    assert (swept.leftovers, swept.freed_bytes) == ((left,), len("half kept"))
    assert (here.objects.length(left), fleet.intents()) == (None, 0)


def _forgotten(*_: object) -> None:
    pass


def _unmarked(_: database.Database, connection: database.Connection, place: str) -> None:
    connection.execute("UPDATE holdall_store SET objects = %s", (place,))


def _killed(*_: object) -> Any:
    raise SystemExit


@requirement("fleet:stray-objects")
def test_an_object_whose_intent_was_lost_goes_when_it_is_a_day_old_by_the_clock_of_the_bucket(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, beside = fleet.host(), fleet.host()
    session = store.open_session("s")
    kept = [keep(store, session, "kept"), keep(store, session, "kept"), keep(store, session, "x" * 9_000_000)]
    growing = beside.begin(session, Origin())
    growing.write(b"still ")
    growing.flush()
    with monkeypatch.context() as crashing:
        crashing.setattr(FleetStore, "_publish", _killed)
        crashing.setattr(upkeep, "abandon", _forgotten)
        with pytest.raises(SystemExit):
            keep(store, session, "nobody's")
    (lost,) = fleet.sql("DELETE FROM holdall_intents WHERE object NOT IN (SELECT object FROM holdall_outputs) "
                        "RETURNING object::text")[0]  # fmt: skip
    store.objects.put("other/file", b"not ours")
    assert store.sweep(thorough=True).leftovers == (), "it is new"
    monkeypatch.setattr(time, "time", lambda: 1e10)  # whatever this host believes
    assert store.sweep(thorough=True).leftovers == ()
    monkeypatch.setattr(upkeep, "_STRAY_SECONDS", -1.0)
    assert store.sweep().leftovers == (), "who opens a session does not wait for it"
    assert store.sweep(thorough=True, dry_run=True).leftovers == (objects.name_of(lost),)
    swept = store.sweep(thorough=True)
    assert (swept.leftovers, swept.freed_bytes) == ((objects.name_of(lost),), len("nobody's"))
    publish = beside._publish

    def beside_a_sweep(*args: Any) -> Any:
        """An object that is written and not yet named."""
        assert store.objects.length(objects.name_of(args[3])) == len("beside it")
        assert store.sweep(thorough=True).leftovers == ()
        return publish(*args)

    monkeypatch.setattr(beside, "_publish", beside_a_sweep)
    written = [keep(beside, session, "beside it")]
    growing.write(b"growing")
    written.append(growing.finish())
    host = fleet.host()
    assert [len(read_back(host, facts)) for facts in (*kept, *written)] == [4, 4, 9_000_000, 9, 13]
    assert store.objects.length("other/file") == 8
    assert store.objects.length(objects.name_of(lost)) is None


@requirement("fleet:few-statements")
def test_a_sweep_and_a_list_of_sessions_take_as_many_statements_for_many_sessions_as_for_one(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = database.Database.rows

    def counted(self: database.Database, doing: str, *args: Any, **options: Any) -> Any:
        asked.append(doing)
        return rows(self, doing, *args, **options)

    store = fleet.host()

    def statements() -> list[int]:
        found: list[int] = []
        with monkeypatch.context() as watched:
            watched.setattr(database.Database, "rows", counted)
            for work in (store.sweep, store.stats, store.sessions, store.kept_by_session):
                asked.clear()
                work()
                found.append(len(asked))
        return found

    keep(store, store.open_session("s0"), "x")
    few = statements()
    for number in range(1, 12):
        session = store.open_session(f"s{number}")
        keep(store, session, "x")
        keep(store, session, "y")
    assert statements() == few
    assert store.stats().outputs == 23
    assert sorted(store.kept_by_session().values()) == [(1, 1, 1), *[(2, 2, 2)] * 11]


@requirement("fleet:few-statements")
@pytest.mark.anyio
async def test_a_first_look_at_lines_is_one_statement_and_one_request(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fleet.host()
    kept = keep(here, here.open_session("s"), "".join(f"line {number} é\n" for number in range(1, 60_001)))
    there = fleet.host()
    bag = Holdall.open(session="s", store=there, settings=Settings())
    asked: list[str] = []
    rows, get = database.Database.rows, objects.Objects.get

    def counted(self: database.Database, doing: str, *args: Any, **options: Any) -> Any:
        asked.append(doing)
        return rows(self, doing, *args, **options)

    def fetched(self: objects.Objects, name: str, start: int, end: int) -> bytes | None:
        asked.append("reading an object")
        return get(self, name, start, end)

    monkeypatch.setattr(database.Database, "rows", counted)
    monkeypatch.setattr(objects.Objects, "get", fetched)
    passage = await bag.read(kept.handle, lines="30000:30200", bounded=False)
    assert passage.text.splitlines()[::200] == ["line 30000 é", "line 30200 é"]
    assert sorted(asked) == ["looking for a session", "reading an object", "reading an output"]  # the session once
    asked.clear()
    await bag.read(kept.handle, lines="30050:30100", bounded=False)
    assert asked == ["looking at an output"]


@requirement("fleet:log-pieces-joined")
def test_the_pieces_of_a_quiet_log_are_joined_and_read_as_before(fleet: Fleet) -> None:
    store = fleet.host()
    session, quiet = store.open_session("s"), store.open_session("quiet")
    lines = [b'{"n":%d,"x":"%s"}\n' % (number, b"x" * 900) for number in range(200)]
    for line in lines:
        store.append_events(quiet, line)
    store.append_events(session, lines[0])
    before = store.events_from(quiet, 0)
    whole = store.read_log(quiet, "events", 0, before.end)
    fleet.sql("UPDATE holdall_logs SET appended = appended - interval '2 hours' WHERE session = %s", quiet.id)
    store.sweep()
    count = "SELECT count(*) FROM holdall_log_parts WHERE session = %s"
    assert fleet.sql(count, quiet.id) == [(3,)]
    assert fleet.sql(count, session.id) == [(1,)]
    assert store.events_from(quiet, 0) == before
    assert store.read_log(quiet, "events", 90_000, 95_000) == whole[90_000:95_000]
    store.append_events(quiet, lines[0])
    assert store.events_from(quiet, before.end).lines == store.events_from(session, 0).lines
    fleet.sql("UPDATE holdall_logs SET appended = appended - interval '2 hours'")
    fleet.sql("DELETE FROM holdall_log_parts WHERE session = %s AND start = 0", quiet.id)
    store.sweep()
    assert fleet.sql(count, quiet.id) == [(3,)], "a log with a hole stays as it is"


@requirement("fleet:older-schema-migrated")
def test_a_store_of_the_first_schema_is_migrated_and_loses_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(database, "MIGRATIONS", schema.MIGRATIONS[:1])
        older.setattr(database, "VERSION", 1)
        older.setattr(database.Database, "_claim", _unmarked)
        old = fleet.host()
        fleet.sql("ALTER TABLE holdall_outputs ADD COLUMN since double precision")  # which this program writes
        session = old.open_session("s", retention=Retention(days=30))
        kept = keep(old, session, "of the first schema")
        old.remember(session, "0" * 64, "1" * 64, b"a note")
        fleet.sql("ALTER TABLE holdall_outputs DROP COLUMN since")
    new = fleet.host()
    assert fleet.sql("SELECT version FROM holdall_store") == [(schema.VERSION,)]
    assert read_back(new, kept) == b"of the first schema"
    assert new.outputs(session) == [kept]
    assert new.sweep().expired == ()
    later = fleet.host(clock=lambda: kept.created + 31 * 86_400)
    assert [facts.handle for _, facts in later.sweep().expired] == [kept.handle]


@requirement("fleet:sweep-by-intent")
def test_a_writer_that_comes_back_after_its_object_was_swept_gives_out_no_handle(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = fleet.host(), fleet.host()
    session = there.open_session("s")
    publish = there._publish

    def late(*args: Any) -> Any:
        fleet.kill(there)
        assert len(here.sweep().leftovers) == 1
        return publish(*args)

    monkeypatch.setattr(there, "_publish", late)
    with pytest.raises(StoreFault, match="was away for too long"):
        keep(there, session, "too late")
    assert (here.outputs(session), fleet.intents()) == ([], 0)


@requirement("fleet:removed-everywhere")
def test_removed_bytes_are_gone_from_the_bucket_and_from_every_cache_at_its_next_look(fleet: Fleet) -> None:
    here, there = fleet.host(), fleet.host(cache_dir=str(fleet._folder / "kept"))
    session = here.open_session("s")
    facts = keep(here, session, "secret " * 20_000)
    assert read_back(there, facts)
    (object,) = fleet.sql("SELECT object::text FROM holdall_outputs")[0]
    assert _cached(there, object)
    reader = there.open(facts)
    here.remove(session, [facts])
    assert here.objects.length(objects.name_of(object)) is None
    assert not _cached(here, object)
    (Path(there.cache.path) / ".looked").unlink(missing_ok=True)
    assert not _cached(fleet.host(cache_dir=str(fleet._folder / "kept")), object)
    with pytest.raises(OutputExpired, match="removed on request"):
        there.open(facts)
    reader.close()
    assert fleet.intents() == 0


@pytest.fixture
def in_folder(fleet_place: Place, tmp_path: Path) -> Iterator[tuple[Fleet, Path]]:
    """A fleet whose objects are in a folder."""
    folder = tmp_path / "objects"
    folder.mkdir(mode=0o700)
    with contextlib.closing(Fleet(fleet_place._replace(objects=folder.as_uri()), tmp_path)) as found:
        yield found, folder


def _in_segments(store: FleetStore, session: SessionInfo, *parts: bytes) -> Facts:
    writer = store.begin(session, Origin())
    for part in parts:
        writer.write(part)
        writer.flush()
    return writer.finish()


@requirement("fleet:removed-everywhere")
@pytest.mark.parametrize("way", ["handles", "session", "expiry"])
def test_bytes_in_a_folder_go_also_where_they_were_written_bit_by_bit(
    in_folder: tuple[Fleet, Path], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    fleet, folder = in_folder
    store = fleet.host()
    session = store.open_session("s")
    kept = [_in_segments(store, session, b"joined", b" at the end")]
    with monkeypatch.context() as apart:
        apart.setattr(store, "joined", _forgotten)
        kept.append(_in_segments(store, session, b"never", b" joined"))
    (object,) = fleet.sql("SELECT object::text FROM holdall_outputs WHERE parts = 2")[0]
    for name in (f"{objects.segment_of(object, 2)}#1", f"{objects.name_of(object)}#1"):
        (folder / name).write_bytes(b"as a writer leaves it that is killed")
    kept += [keep(store, session, f"put {number}") for number in range(6)]
    match way:
        case "handles":
            assert store.remove(session, kept).left == ""
        case "session":
            assert store.remove_session(session).left == ""
        case _:
            assert store.expire(session, kept, "for a test") == sum(facts.measure.bytes for facts in kept)
            assert store.sweep(thorough=True).left == ""
    assert [one.name for one in folder.rglob("*") if one.name != "holdall-store" and len(one.name) > 2] == []
    assert fleet.intents() == 0


@requirement("fleet:removal-told")
@pytest.mark.parametrize("way", ["handles", "session", "expiry", "gc"])
def test_an_object_that_cannot_be_removed_stays_doomed_is_told_and_stops_no_other(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    store = fleet.host()
    session = store.open_session("s", retention=Retention(days=1e-9) if way == "gc" else None)
    kept = [keep(store, session, f"secret {number}") for number in range(5)]
    rows = fleet.sql("SELECT object::text FROM holdall_outputs ORDER BY object")
    stuck, *others = [row[0] for row in rows]  # the first that is tried
    delete = obstore.delete

    def refused(bucket: Any, names: Any) -> None:
        if any(stuck in name for name in names):
            raise GenericError(f"DeleteObjects request failed for key {stuck}: Access Denied (code: AccessDenied)")
        delete(bucket, names)

    with monkeypatch.context() as refusing:
        refusing.setattr(obstore, "delete", refused)
        match way:
            case "handles":
                removed = store.remove(session, kept)
                freed, told = removed.freed_bytes, removed.left
            case "session":
                removed = store.remove_session(session)
                freed, told = removed.freed_bytes, removed.left
            case "expiry":
                freed, told = store.expire(session, kept, "for a test"), ""
            case _:
                swept = store.sweep(thorough=True)
                freed, told = swept.freed_bytes, swept.left
                assert len(swept.expired) == 5
        (logged,) = caplog.messages
        assert told in (logged, "")
        assert logged == (
            f"1 object that no output names any more could not be removed: the objects in {store.objects.home} failed "
            "while removing objects: it refuses the credentials, or they may not do that. The bytes are still there; "
            "`holdall gc` tries again."
        )
        assert freed == 4 * len("secret 0")
        assert [store.objects.length(objects.name_of(one)) for one in others] == [None] * 4
        assert store.objects.length(objects.name_of(stuck)) == len("secret 0")
        assert fleet.sql("SELECT object::text, doomed FROM holdall_intents") == [(stuck, True)]
        again = store.sweep(thorough=True)
        assert (again.leftovers, again.freed_bytes, again.left) == ((), 0, logged)
    swept = store.sweep(thorough=True)
    assert (swept.leftovers, swept.freed_bytes, swept.left) == ((objects.name_of(stuck),), len("secret 0"), "")
    assert (store.objects.length(objects.name_of(stuck)), fleet.intents()) == (None, 0)


def test_a_sweep_gets_past_any_number_of_objects_that_cannot_be_removed_and_ends_where_the_bucket_is_away(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    fleet.sql("INSERT INTO holdall_intents (object, principal, doomed) "
              "SELECT gen_random_uuid(), %s, true FROM generate_series(1, 7)", store.principal)  # fmt: skip
    monkeypatch.setattr(upkeep, "_AT_ONCE", 2)
    tried: list[str] = []

    def away(object: str) -> None:
        tried.append(object)
        raise StoreFault("the bucket is away.")

    with monkeypatch.context() as refusing:
        refusing.setattr(store.objects, "remove_object", away)
        assert store.sweep(thorough=True).left.startswith("7 objects ")
        assert len(tried) == 7
        refusing.setattr(upkeep, "RETRY_SECONDS", 0)
        tried.clear()
        assert store.sweep(thorough=True).left.startswith("7 objects ")
        assert tried == [], "no time is left for it"
    assert len(store.sweep(thorough=True).leftovers) == 7


def _cached(store: FleetStore, object: str) -> list[str]:
    return [one.name for one in Path(store.cache.path).iterdir() if one.name.startswith(object)]


# ── The cache, and hostile rows ─────────────────────────────────────────────────────────────────────────────


@requirement("fleet:copies-checked")
def test_damage_in_the_cache_is_mended_and_damage_in_the_bucket_is_told(fleet: Fleet) -> None:
    here = fleet.host()
    session = here.open_session("s")
    data = bytes(range(256)) * 2000
    facts = keep(here, session, data)
    (object,) = fleet.sql("SELECT object::text FROM holdall_outputs")[0]
    (name,) = _cached(here, object)
    (Path(here.cache.path) / name).write_bytes(b"\xff" * len(data))
    assert read_back(here, facts) == data
    assert (Path(here.cache.path) / name).read_bytes() == data
    here.objects._store.put(objects.name_of(object), b"\xff" + data[1:], mode="overwrite")
    (verdict,) = here.verify()
    assert "checksum mismatch in bytes 0 to 65,536" in verdict.problem
    with contextlib.closing(fleet.host().open(facts)) as reader:
        assert reader.read(BLOCK, 2 * BLOCK) == data[BLOCK : 2 * BLOCK]
        with pytest.raises(OutputDamaged):
            reader.read(0, 1)


@requirement("fleet:copies-checked")
def test_what_a_tool_scans_was_compared_before(fleet: Fleet) -> None:
    """After a power cut the file of an output that was just kept may have its name and length, and no bytes."""
    store = fleet.host()
    session, data = store.open_session("s1"), b"0123456789abcdef" * 20_000
    facts = keep(store, session, data)
    (cached,) = [one for one in Path(store.cache.path).iterdir() if one.suffix in (".part", ".full")]
    cached.write_bytes(b"\0" * len(data))
    reader = store.open(facts)
    with reader.local_file() as descriptor:
        assert os.pread(descriptor, len(data) + 1, 0) == data
    reader.close()


def test_bytes_that_are_kept_again_do_not_share_an_object_that_is_damaged(fleet: Fleet) -> None:
    store = fleet.host()
    session, data = store.open_session("s1"), b"0123456789abcdef" * 20_000
    keep(store, session, data)
    (object,) = fleet.sql("SELECT object::text FROM holdall_outputs")[0]
    store.objects._store.put(objects.name_of(object), data[:70_000] + b"damaged" + data[70_007:], mode="overwrite")
    again = keep(store, session, data)
    assert read_back(fleet.host(), again) == data
    assert read_back(fleet.host(), keep(store, session, data)) == data
    assert len(fleet.sql("SELECT DISTINCT object FROM holdall_outputs")) == 2, "the third shares that of the second"


@requirement("fleet:copies-checked")
def test_a_copy_that_was_whole_once_is_compared_again_before_a_tool_scans_it(fleet: Fleet) -> None:
    store = fleet.host()
    session, data = store.open_session("s1"), b"".join(b"row %d is fine\n" % number for number in range(20_000))
    facts = keep(store, session, data)
    with contextlib.closing(store.open(facts)) as reader, reader.local_file():
        pass
    (cached,) = [one for one in Path(store.cache.path).iterdir() if one.suffix == ".full"]
    cached.write_bytes(data.replace(b"row 777 is", b"row 777 WAS"[:10]))
    with contextlib.closing(store.open(facts)) as reader, reader.local_file() as descriptor:
        assert os.pread(descriptor, len(data) + 1, 0) == data


@requirement("fleet:copies-bounded")
def test_the_cache_stays_within_its_bound_and_the_oldest_go(fleet: Fleet) -> None:
    store = fleet.host(cache_bytes=16 * 65_536)
    session = store.open_session("s")
    kept = [keep(store, session, bytes([number]) * 65_536) for number in range(40)]
    held = sum(one.stat().st_size for one in Path(store.cache.path).iterdir())
    assert 0 < held <= 17 * 65_536
    assert read_back(store, kept[0]) == bytes(65_536)


@requirement("fleet:rows-prove-themselves")
def test_rows_that_were_changed_by_hand_are_not_believed(fleet: Fleet) -> None:
    store = fleet.host()
    session = store.open_session("s")
    mine, other = keep(store, session, "mine"), keep(store, session, "other" * 30_000)
    fleet.sql("UPDATE holdall_outputs SET facts = (SELECT facts FROM holdall_outputs WHERE handle = %s) "
              "WHERE handle = %s", mine.handle, other.handle)  # fmt: skip
    assert set(store.unreadable(session)) == {other.handle}
    with pytest.raises(OutputDamaged, match="its record is that of another output"):
        store.resolve(session, other.handle)
    fleet.sql("UPDATE holdall_outputs SET object = (SELECT object FROM holdall_outputs WHERE handle = %s) "
              "WHERE handle = %s", other.handle, mine.handle)  # fmt: skip
    with contextlib.closing(fleet.host().open(mine)) as reader, pytest.raises(OutputDamaged):
        reader.read(0, 4)
    fleet.sql("UPDATE holdall_sessions SET info = %s", b'{"format": 99}')
    assert "session format 99" in str(next(iter(store.unreadable_sessions().values())))
    fleet.sql("UPDATE holdall_sessions SET info = %s", b"[]")
    assert store.sessions() == [replace(session, retention=store.sessions()[0].retention, mark="")]
    assert str(store.sessions()[0].retention) == "keep"


# ── Faults ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.anyio
@requirement("fleet:unkept-with-reason")
async def test_take_tells_why_nothing_is_kept_and_keeps_again_when_it_can(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(objects=fleet.place.objects, cache_dir=str(tmp_path / "cache"))
    async with Holdall.open(home=fleet.place.home, session="s", settings=settings) as bag:
        large = "line of an output\n" * 20_000

        def away(*_: object, **__: object) -> Any:
            raise psycopg.OperationalError("connection refused for s3cret")

        with monkeypatch.context() as broken:
            broken.setattr(psycopg, "connect", away)
            assert isinstance(bag.core.store, FleetStore)
            bag.core.store.database._drop_free()
            taken = await bag.take(large, tool="t")
            assert isinstance(taken, Unkept)
            assert "the database" in str(taken.fault)
            assert "s3cret" not in str(taken.fault)
        with monkeypatch.context() as broken:
            broken.setattr(objects.obstore, "put", away)
            broken.setattr(objects, "BaseError", psycopg.Error)
            taken = await bag.take(large, tool="t")
            assert isinstance(taken, Unkept)
            assert "the objects in s3://" in str(taken.fault)
        assert isinstance(await bag.take(large, tool="t"), Kept)


@pytest.mark.parametrize(
    "home",
    [
        "postgresql://user:hunter2@127.0.0.1:1/db", "postgresql://user@127.0.0.1:1/db?password=hunter2",
        "postgresql://user:hunter2@@127.0.0.1:1/db", "postgresql://user:p@hunter2/x@127.0.0.1:1/db",
        "postgresql://127.0.0.1:hunter2/db", "postgresql://user:hunter2@[::1/db", "postgresql://u:1/hunter2@h/db",
        "postgresql://user@127.0.0.1:1/db?hunter2",
    ],
)  # fmt: skip
@requirement("fleet:no-credentials-told")
def test_no_error_has_the_password(home: str, tmp_path: Path) -> None:
    with pytest.raises((StoreFault, BadSetting)) as refused:
        open_store(home, settings=Settings(objects="memory:///", cache_dir=str(tmp_path)))
    told, problem = "", refused.value
    while problem is not None:
        told += str(problem)
        problem = problem.__cause__
    assert "hunter2" not in told + shown(home)


@pytest.mark.parametrize(
    "url", ["s3://key:hunter2@bucket/p", "s3://bucket/p?secret=hunter2", "ftp://hunter2", "s3:///"]
)
@requirement("fleet:no-credentials-told")
def test_an_address_of_objects_with_a_secret_in_it_is_refused(url: str) -> None:
    with pytest.raises(BadSetting) as refused:
        objects.checked(url)
    assert "hunter2" not in str(refused.value).replace("ftp://hunter2", "")


@requirement("fleet:connection-lost")
def test_a_lost_answer_to_a_commit_neither_loses_nor_doubles_an_output(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    session = store.open_session("s")
    lost: list[int] = []
    run = database.Database._connection

    @contextlib.contextmanager
    def losing(self: database.Database, **options: Any) -> Generator[Any]:
        with run(self, **options) as connection:
            yield connection
            if len(lost) == 2:  # after the commit of the record
                lost.append(0)
                raise psycopg.OperationalError("server closed the connection")
            if lost:
                lost.append(0)

    publish = store._publish

    def watched(*args: Any) -> Any:
        lost[:] = [0, 0]
        return publish(*args)

    monkeypatch.setattr(store, "_publish", watched)
    monkeypatch.setattr(database.Database, "_connection", losing)
    facts = keep(store, session, "once")
    monkeypatch.undo()
    for name, value in fleet.place.servers.environment().items():
        monkeypatch.setenv(name, value)
    assert len(lost) > 2
    assert store.outputs(session) == [facts]
    assert read_back(fleet.host(), facts) == b"once"
    assert fleet.intents() == 0


def test_a_lost_answer_to_an_intent_is_asked_for_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fleet.host()
    session = store.open_session("s")
    lost: list[str] = []
    run = database.Database._connection

    @contextlib.contextmanager
    def losing(self: database.Database, **options: Any) -> Generator[Any]:
        with run(self, **options) as connection:
            yield connection
            if not lost and fleet.intents():  # it is there, and nobody was told
                lost.append("")
                raise psycopg.OperationalError("server closed the connection")

    with monkeypatch.context() as patched:
        patched.setattr(database.Database, "_connection", losing)
        facts = keep(store, session, "once")
    assert lost
    assert store.outputs(session) == [facts]
    assert fleet.intents() == 0


@pytest.mark.parametrize("error", [errors.DeadlockDetected, errors.LockNotAvailable, errors.SerializationFailure])
def test_what_others_are_in_the_way_of_is_tried_once_more(fleet: Fleet, error: type[psycopg.Error]) -> None:
    answers = [error("others"), "done", error("others"), error("others")]

    def work(_: object) -> str:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return str(answer)

    run = fleet.host().database.run
    assert run("keeping an output", work) == "done"
    with pytest.raises(StoreFault, match="failed while keeping an output"):
        run("keeping an output", work)


@requirement("fleet:connections-in-turn")
def test_who_finds_all_connections_in_use_waits_for_a_turn_and_is_told_for_what(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    session = store.open_session("s")
    store.lease_id  # noqa: B018 - it begins
    with contextlib.ExitStack() as held:
        for _ in range(database.MOST_CONNECTIONS):
            held.enter_context(store.database._connection())
        with (
            deadline.within(0.3),
            pytest.raises(StoreFault, match=r"waited 0.\d s for one of the 8 connections of this"),
        ):
            keep(store, session, "no time")
        kept: list[Facts] = []
        waiting = threading.Thread(target=lambda: kept.append(keep(store, session, "in turn")))
        waiting.start()
        _until(lambda: len(store.database._turns._waiting) == 1)
        ours = store.database._turns._waiting[0]
        renewing = threading.Thread(target=lambda: store.database.rows("", "SELECT 1", {}, first=True))
        renewing.start()
        _until(lambda: len(store.database._turns._waiting) == 2)
        assert store.database._turns._waiting[1] is ours, "a lease is renewed before all else"
        assert not kept
    waiting.join()
    renewing.join()
    assert read_back(store, kept[0]) == b"in turn"
    assert store.database._turns._free == database.MOST_CONNECTIONS


def _until(happened: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < ends
        time.sleep(0.01)


@requirement("fleet:writers-at-once")
def test_thirty_writers_of_one_session_get_thirty_handles(fleet: Fleet) -> None:
    hosts = [fleet.host() for _ in range(3)]
    session = hosts[0].open_session("s")
    kept: dict[str, str] = {}

    def write(number: int) -> None:
        facts = keep(hosts[number % 3], session, f"output {number % 20}")
        kept[facts.handle] = f"output {number % 20}"

    threads = [threading.Thread(target=write, args=(number,)) for number in range(30)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(kept) == 30
    for facts in hosts[1].outputs(session):
        assert read_back(hosts[2], facts) == kept[facts.handle].encode()
    assert fleet.intents() == 0


@pytest.mark.anyio
@requirement("fleet:database-clock")
async def test_gc_by_age_goes_by_the_clock_of_the_database(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fleet.host()
    kept = keep(store, store.open_session("s"), "a moment old")
    monkeypatch.setattr(time, "time", lambda: kept.created + 86_400)
    settings = Settings(objects=fleet.place.objects, cache_dir=str(tmp_path / "cache"))
    with Care.of(fleet.place.home, settings) as care:
        assert (await care.sweep(older_than=3600.0)).expired == ()
    assert read_back(store, kept) == b"a moment old"


@pytest.mark.anyio
@requirement("fleet:copy")
async def test_a_session_is_copied_from_a_folder_to_the_fleet_and_back(fleet_place: Place, tmp_path: Path) -> None:
    settings = Settings(objects=fleet_place.objects, cache_dir=str(tmp_path / "cache"))
    data = "".join(f"line {number}\n" for number in range(200_000))
    async with Holdall.open(home=str(tmp_path / "one"), session="build") as bag:
        handle = (await bag.keep(data, tool="make")).handle
    await copy_session("build", fleet_place.home, home=str(tmp_path / "one"), settings=settings)
    await copy_session("build", str(tmp_path / "two"), home=fleet_place.home, settings=settings)
    for home in (fleet_place.home, str(tmp_path / "two")):
        async with Holdall.open(home=home, session="build", settings=settings) as bag:
            assert (await bag.read(handle, bytes=":", bounded=False)).text == data


@pytest.mark.parametrize("size", [10, objects.SMALL + 1])
def test_an_object_in_a_folder_is_durable_before_its_handle_is_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The library writes it, and never syncs."""
    folder = tmp_path / "objects"
    folder.mkdir(mode=0o700)
    synced: list[str] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    place = objects.Objects(folder.as_uri())
    name = objects.name_of(str(uuid.UUID(int=7)))
    (tmp_path / "data").write_bytes(bytes(size))
    with open(tmp_path / "data", "rb") as file:
        place.put_file(name, file.fileno(), size)
    assert synced == [f"objects/{name}", f"objects/{name[:2]}", "objects"]
    assert place.length(name) == size
