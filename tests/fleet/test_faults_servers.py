"""The servers are killed and started again under load, and a host is cut off from them: before and after its lease ends."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.writer import CONTENTS
from tests.fleet.checker import complaints, contents, environment_of, opened, session_of
from tests.fleet.fixtures import Place, Tally, new_place
from tests.fleet.harness import FULL, Member, member, task_at
from tests.fleet.hosts import Host, Net, NoNamespaces, hosts
from tests.fleet.servers import Servers, missing, started
from tests.fleet.test_faults_hosts import all_there
from tests.requirements import requirement

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(1800)]

LEASE_SECONDS = 3.0


@requirement("fleet:servers-killed")
def test_servers_that_are_killed_under_load_and_come_back_lose_nothing_that_was_acknowledged(
    own_servers: Servers, tmp_path: Path, tally: Tally
) -> None:
    place = new_place(own_servers.address)
    env = place.environment()

    def database() -> None:
        own_servers.postgres.kill()
        own_servers.start_postgres()

    def gateway() -> None:
        own_servers.s3.kill("gateway")
        own_servers.s3.start()

    def objects() -> None:
        own_servers.s3.kill("objects", "gateway")
        own_servers.s3.start()

    kinds: dict[str, Callable[[], None]] = {"PostgreSQL": database, "S3 gateway": gateway, "object daemon": objects}
    first = task_at(place, tmp_path, "session")
    with member(first, env) as one:
        one.rest()
    with ExitStack() as stack:
        loads = [
            stack.enter_context(member(task_at(place, tmp_path, "load", principal=first.principal), env))
            for _ in range(3)
        ]
        for load in loads:
            load.until("loaded")
        for name, kill in kinds.items():
            for _ in range(20 if FULL else 1):
                kill()
                tally.add(f"{name} killed under load")
                for load in loads:
                    _next_kept(load)
        for load in loads:
            load.go_on()
        events = [event for load in loads for event in load.rest()]
    with opened(place, first.principal, tmp_path / "looks") as store:
        assert all_there(store, events) == []
        shown = {facts.id for facts in store.outputs(session_of(store)) if facts.state == "ready"}
        assert {event.text("id") for event in events if event.kind == "loaded"} <= shown
        assert [verdict.problem for verdict in store.verify() if verdict.problem] == []


def _next_kept(load: Member) -> None:
    """It works again. What it had said before is read first: a load says far less than a pipe holds."""
    before = len(load.events)
    for _ in range(10_000):
        if load.until("loaded", "refused").kind == "loaded" and len(load.events) - before > 3:
            return


class Scene(NamedTuple):
    """Host a in its namespace, the servers in theirs, and this process as a third host."""

    a: Host
    place: Place


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    if problem := missing():
        pytest.skip(problem)
    try:
        with hosts("a", "servers") as made:
            a, there = made["a"], made["servers"]
            at = (there.addresses["database"], there.addresses["bucket"])
            with started(at=at, inside=there.inside) as servers:
                yield Scene(a, new_place(servers.address))
    except NoNamespaces as why:
        pytest.skip(str(why))


SOON, LATE = "before its lease ends", "after its lease ended"
CUTS: list[tuple[tuple[Net, ...], str]] = [
    (("database",), LATE),
    (("database",), SOON),
    (("bucket",), LATE),
    (("bucket",), SOON),
    (("database", "bucket"), LATE),
    (("database", "bucket"), SOON),
]


@pytest.mark.parametrize(("nets", "back"), CUTS if FULL else CUTS[:1])
def test_a_host_that_is_cut_off_in_the_middle_of_an_output_and_comes_back(
    nets: tuple[Net, ...], back: str, scene: Scene, tmp_path: Path, tally: Tally
) -> None:
    """A host that is away from the bucket only can still renew its lease: its output goes on whenever it comes back."""
    place, soon = scene.place, back == SOON
    lease = 600.0 if soon else LEASE_SECONDS
    task = task_at(place, tmp_path, "live slowly", "small", lease_seconds=lease)
    with (
        environment_of(place),
        member(task, place.environment(), scene.a.inside) as writer,
        opened(place, task.principal, tmp_path / "b", lease_seconds=lease) as store,
    ):
        handle = writer.until("running").text("handle")
        writer.go_on()
        done = writer.until("wrote").number("bytes")
        scene.a.cut(*nets)
        tally.add(f"cut off from {' and '.join(nets)}, back {back}")
        try:
            writer.go_on()  # this part cannot be written now
            session = session_of(store)
            seen = store.resolve(session, handle)
            assert seen.state in ("running", "interrupted")
            assert contents(store, seen) == CONTENTS["live"][:done]
            ended = not soon and "database" in nets
            while ended and store.resolve(session, handle).state == "running":
                pass  # until the lease is over, by the database's clock
            refused = writer.until("refused")
            assert refused.fields["act"] in ("flush", "live slowly")
        finally:
            scene.a.join()
        for _ in range(2):
            writer.go_on()
        events = writer.rest()
    kept = [event.fields["label"] for event in events if event.kind == "kept"]
    assert kept == (["small"] if ended else ["live", "small"]), events
    assert complaints(place, task.principal, events, tmp_path / "looks") == []
