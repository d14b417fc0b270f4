"""A host is disturbed in each of its rounds with the database and the bucket, in every way, and nothing is lost.

A run without faults says how many rounds there are. Then each round is disturbed in turn: the host is killed before the
server hears of it, in the middle, or after it was done; the connection is lost, with the answer or without it; the
bucket refuses or is slow. After each run another host judges what is left (`checker`).
"""

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from tests.fleet.fixtures import Tally
from tests.fleet.harness import FULL, KILLED, Stage, share, stage
from tests.fleet.proxy import MODES, Fault, Mode, Protocol
from tests.fleet.rounds import rounds_on
from tests.fleet.servers import Address
from tests.fleet.worker import ALL
from tests.requirements import requirement

pytestmark = [pytest.mark.in_full(one_in=2), pytest.mark.fleet, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def scene(fleet_servers: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(fleet_servers, tmp_path_factory.mktemp("stage")) as ready:
        yield ready


@pytest.fixture(scope="module")
def rounds(scene: Stage) -> dict[Protocol, int]:
    """How many there are in a run that nothing disturbs, in a place where there is a store: making one takes more."""
    assert scene.run(scene.task(("session",))).status == 0
    task = scene.task()
    report = scene.run(task)
    assert report.status == 0
    assert [event for event in report.events if event.kind in ("refused", "wrong")] == []
    assert scene.complaints(task, report.events) == []
    return {protocol: len(names) for protocol, names in scene.rounds.items()}


KILLS = [(protocol, mode) for protocol, modes in MODES.items() for mode in modes if mode.startswith("kill")]
OTHERS = [(protocol, mode) for protocol, modes in MODES.items() for mode in modes if not mode.startswith("kill")]


def disturbed(rounds: dict[Protocol, int], where: Protocol, mode: Mode) -> Sequence[int]:
    """All, or one round that no other way has: from the first way to the last, from the first round to the last."""
    ways = [*KILLS, *OTHERS]
    count = rounds[where]
    return share(range(1, count + 1), count, first=ways.index((where, mode)) * count // len(ways))


@pytest.mark.parametrize(("where", "mode"), KILLS)
@requirement("fleet:acknowledged-stays")
def test_a_host_killed_in_any_round_leaves_all_that_was_acknowledged(
    where: Protocol,
    mode: Mode,
    scene: Stage,
    rounds: dict[Protocol, int],
    tally: Tally,
) -> None:
    scene.tally = tally
    for number in disturbed(rounds, where, mode):
        task = scene.task()
        report = scene.run(task, where, Fault(number, mode))
        assert report.status in (KILLED, 0), report
        assert scene.complaints(task, report.events) == [], (number, scene.last_fired)


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize(("where", "mode"), OTHERS)
@requirement("fleet:connection-lost")
def test_a_host_whose_connection_fails_in_any_round_goes_on_and_loses_nothing(
    where: Protocol,
    mode: Mode,
    scene: Stage,
    rounds: dict[Protocol, int],
    tally: Tally,
) -> None:
    scene.tally = tally
    for number in disturbed(rounds, where, mode):
        task = scene.task((*ALL, "afterwards"))
        report = scene.run(task, where, Fault(number, mode))
        assert report.status == 0, report
        assert any(event.kind == "kept" and event.fields["label"] == "afterwards" for event in report.events), report
        assert scene.complaints(task, report.events) == [], (number, scene.last_fired)


@requirement("fleet:acknowledged-stays")
def test_a_campaign_at_random_finds_nothing(scene: Stage, tally: Tally) -> None:
    scene.tally = tally
    for fired in itertools.islice(rounds_on(scene, random.Random(1)), 200 if FULL else 4):
        assert fired.found == [], fired.place


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("variant", ["", "commit before object"])
@requirement("fleet:acknowledged-stays")
def test_a_store_that_commits_before_the_object_is_there_is_caught_by_a_kill(
    variant: str, scene: Stage, tally: Tally
) -> None:
    scene.tally = tally
    found: list[str] = []
    for number in range(1, 5):
        task = scene.task(("session", "small", "json"), broken=variant)
        report = scene.run(task, "http", Fault(number, "kill before"))
        found += scene.complaints(task, report.events)
    assert bool(found) == bool(variant), found
