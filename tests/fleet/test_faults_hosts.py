"""Several hosts at once on one store, some of them wrong: clocks, leases that end, collectors, crowds, caches."""

import hashlib
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from holdall.store.fleet.store import FleetStore
from holdall.values.errors import StoreFault
from holdall.values.outputs import Origin
from tests.faults.harness import Event
from tests.faults.writer import CONTENTS, SESSION
from tests.fleet.checker import complaints, contents, end_leases, environment_of, opened, session_of, unnamed_objects
from tests.fleet.fixtures import Place, Tally
from tests.fleet.harness import FULL, Member, admin, member, task_at
from tests.requirements import requirement

pytestmark = [pytest.mark.in_full(one_in=2), pytest.mark.fleet, pytest.mark.timeout(900)]

DAY = 86_400.0


def all_there(store: FleetStore, events: list[Event]) -> list[str]:
    """What is wrong with the outputs that a load was given handles for."""
    session, wrong = session_of(store), list[str]()
    for event in events:
        if event.kind == "loaded":
            data = contents(store, store.resolve(session, event.text("handle")))
            if hashlib.sha256(data).hexdigest() != event.text("sha256"):
                wrong.append(f"{event.text('handle')} has other bytes")
    return wrong


@pytest.mark.parametrize("variant", ["", "sweep without intent"])
@requirement("fleet:sweep-by-intent")
def test_a_sweep_between_object_and_commit_takes_nothing(
    variant: str, fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    env = fleet_place.environment()
    task = task_at(fleet_place, tmp_path, "session", "dawdle")
    with member(task, env) as writer:
        writer.until("put")
        collector = task_at(fleet_place, tmp_path, "sweep", principal=task.principal, broken=variant)
        with member(collector, env) as other:
            other.rest()
        tally.add("sweep between object and commit")
        writer.go_on()
        events = writer.rest()
    found = complaints(fleet_place, task.principal, events, tmp_path / "looks")
    assert bool(found) == bool(variant), found


def test_a_writer_that_comes_back_after_a_sweep_took_its_object_keeps_nothing_and_says_so(
    fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    task = task_at(fleet_place, tmp_path, "session", "small", "dawdle")
    with member(task, fleet_place.environment()) as writer:
        writer.until("put")
        end_leases(fleet_place, task.principal)
        with opened(fleet_place, task.principal, tmp_path / "collector") as store:
            assert len(store.sweep().leftovers) == 1
        tally.add("lease over before the commit")
        writer.go_on()
        events = writer.rest()
    (refused,) = [event for event in events if event.kind == "refused"]
    assert "away for too long" in refused.text("message")
    assert complaints(fleet_place, task.principal, events, tmp_path / "looks") == []


@pytest.mark.parametrize("ahead", [DAY, -DAY])
@pytest.mark.parametrize("variant", ["", "lease by host clock"])
@requirement("fleet:database-clock")
def test_a_host_whose_clock_is_wrong_by_a_day_keeps_its_lease(
    variant: str, ahead: float, fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    """A lease that is a day too old is over at once; one of tomorrow never ends."""
    task = task_at(fleet_place, tmp_path, "live slowly", clock_ahead=ahead, broken=variant)
    with (
        member(task, fleet_place.environment()) as writer,
        opened(fleet_place, task.principal, tmp_path / "b") as store,
    ):
        handle = writer.until("running").text("handle")
        writer.go_on()
        writer.until("wrote")
        tally.add("clock wrong by a day")
        state = store.resolve(session_of(store), handle).state
        writer.kill()
        with psycopg.connect(fleet_place.home, autocommit=True) as connection:
            connection.execute("UPDATE holdall_leases SET renewed = renewed - interval '10 minutes'")
        later = store.resolve(session_of(store), handle).state
    assert ((state, later) == ("running", "interrupted")) == (not variant)


@requirement("fleet:interrupted-by-lease")
def test_a_running_output_whose_lease_is_over_is_interrupted_and_its_writer_is_told(
    fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    task = task_at(fleet_place, tmp_path, "live slowly", "small")
    with member(task, fleet_place.environment()) as writer:
        handle = writer.until("running").text("handle")
        writer.go_on()
        done = writer.until("wrote").number("bytes")
        with opened(fleet_place, task.principal, tmp_path / "b") as store:
            session = session_of(store)
            assert store.resolve(session, handle).state == "running"
            end_leases(fleet_place, task.principal)
            tally.add("lease over while an output grows")
            found = store.resolve(session, handle)
            assert (found.state, contents(store, found)) == ("interrupted", CONTENTS["live"][:done])
        writer.go_on()
        refused = writer.until("refused")
        assert refused.text("error") == "StoreGone"
        events = writer.rest()
    assert [event.fields["label"] for event in events if event.kind == "kept"] == ["small"]
    assert complaints(fleet_place, task.principal, events, tmp_path / "looks") == []


@requirement("fleet:writers-at-once")
def test_thirty_writers_in_one_session_each_get_their_own_handles_beside_two_collectors(
    fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    env, many = fleet_place.environment(), 30 if FULL else 5
    first = task_at(fleet_place, tmp_path, "session")
    with member(first, env) as one:
        one.rest()
    with ExitStack() as stack:

        def start(*acts: str) -> Member:
            return stack.enter_context(member(task_at(fleet_place, tmp_path, *acts, principal=first.principal), env))

        writers = [start("ten") for _ in range(many)]
        collectors = [start("sweeps") for _ in range(2)]
        events = [event for writer in writers for event in writer.rest()]
        for collector in collectors:
            assert {event.kind for event in collector.rest()} == {"acts", "done"}
    tally.add("concurrent writer", times=many)
    tally.add("concurrent collector", times=2)
    loaded = [event for event in events if event.kind == "loaded"]
    assert [event.fields for event in events if event.kind == "refused"] == []
    assert len({event.text("handle") for event in loaded}) == len(loaded) == 10 * many
    with opened(fleet_place, first.principal, tmp_path / "looks") as store:
        assert all_there(store, loaded) == []
        outputs = store.outputs(session_of(store))
        assert len(outputs) == 10 * many
    assert unnamed_objects(fleet_place) == set()


@pytest.mark.parametrize("how", ["damaged", "removed", "full"])
@requirement("fleet:copies-checked")
def test_a_cache_that_is_damaged_removed_or_full_costs_no_output(
    how: str, fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    with opened(fleet_place, "p", tmp_path / "cache") as store:
        session = store.open_session(SESSION)
        facts = store.put(session, [CONTENTS["json"]], Origin())
        files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size > 1000]
        assert files
        if how == "damaged":
            for path in files:
                data = bytearray(path.read_bytes())
                for at in range(0, len(data), 5000):
                    data[at] ^= 0xFF
                path.write_bytes(data)
                tally.add("damaged cache", times=len(range(0, len(data), 5000)))
        elif how == "removed":
            shutil.rmtree(tmp_path / "cache")
            tally.add("removed cache")
        else:
            (tmp_path / "cache").chmod(0o500)
            for path in files:
                os.truncate(path, 0)
                path.chmod(0o400)
            tally.add("cache without room")
        assert contents(store, store.resolve(session, facts.handle)) == CONTENTS["json"]
        again = store.put(session, [b"another"], Origin())
        assert contents(store, store.resolve(session, again.handle)) == b"another"
        with store.open(facts).local_file() as descriptor:
            assert os.pread(descriptor, 1 << 20, 0) == CONTENTS["json"]


@requirement("fleet:refusals-told")
def test_a_database_that_refuses_is_told_with_its_reason_and_used_again_when_it_does_not(
    fleet_place: Place, tmp_path: Path, tally: Tally
) -> None:
    name, address = fleet_place.database, fleet_place.servers
    drop = (
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    )
    rights = "INSERT, UPDATE ON ALL TABLES IN SCHEMA public FROM holdall"
    refusals = {
        "read-only": (f"ALTER DATABASE {name} SET default_transaction_read_only = on",
                      f"ALTER DATABASE {name} RESET default_transaction_read_only", "read-only"),
        "no connections": (f"ALTER DATABASE {name} CONNECTION LIMIT 0", f"ALTER DATABASE {name} CONNECTION LIMIT -1", "connection"),
        "newer schema": ("UPDATE holdall_store SET version = version + 1", "UPDATE holdall_store SET version = version - 1", "newer"),
        "no right to write": (f"SET ROLE holdall; REVOKE {rights}; RESET ROLE", "GRANT ALL ON ALL TABLES IN SCHEMA public TO holdall",
                              "may not"),
    }  # fmt: skip
    with opened(fleet_place, "p", tmp_path / "cache") as store, admin(address, name) as boss:
        session = store.open_session(SESSION)
        kept = [store.put(session, [b"before"], Origin())]
        for kind, (refuse, allow, reason) in refusals.items():
            for statement in refuse.split("; "):
                boss.execute(statement.encode())
            boss.execute(drop.encode())
            tally.add(f"database: {kind}")
            with pytest.raises(StoreFault, match=reason):
                store.put(session, [kind.encode()], Origin())
            boss.execute(allow.encode())
            boss.execute(drop.encode())
            tally.add("database: connections dropped")
            kept.append(store.put(session, [f"after {kind}".encode()], Origin()))
        after = [b"before", *(f"after {kind}".encode() for kind in refusals)]
        assert [contents(store, store.resolve(session, facts.handle)) for facts in kept] == after
        end_leases(fleet_place, "p")
        store.sweep()
    assert unnamed_objects(fleet_place) == set()


@requirement("fleet:no-credentials-told")
def test_wrong_keys_and_a_missing_bucket_are_told_without_the_keys(fleet_place: Place, tmp_path: Path) -> None:
    bad = fleet_place._replace(servers=fleet_place.servers._replace(secret_key="wrong-secret"))
    with (
        environment_of(bad),
        pytest.raises(StoreFault, match="credentials") as first,
        opened(bad, "p", tmp_path / "cache"),
    ):
        pass  # a new store takes its place in the bucket
    with opened(fleet_place, "p", tmp_path / "cache"):
        pass
    with (
        environment_of(bad),
        opened(bad, "p", tmp_path / "cache") as store,
        pytest.raises(StoreFault, match="credentials") as refused,
    ):
        store.put(store.open_session(SESSION), [b"x"], Origin())
    assert "wrong-secret" not in f"{first.value} {refused.value}"
