"""The fleet in the campaign of faults (`./dev test faults --full fleet`): a host is killed, or its connection disturbed, in
a round with the database or the bucket that is chosen at random; then another host judges what is left.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from tests.faults.kills import Fired
from tests.fleet import servers
from tests.fleet.harness import KILLED, Stage, stage
from tests.fleet.proxy import MODES, Fault, Mode, Protocol
from tests.fleet.worker import ALL

WAYS: list[tuple[Protocol, Mode]] = [(protocol, mode) for protocol, modes in MODES.items() for mode in modes]


def rounds(folder: Path, dice: random.Random) -> Iterator[Fired]:
    """Without an end, with servers of its own."""
    with servers.started() as started, stage(started.address, folder) as scene:
        yield from rounds_on(scene, dice)


def rounds_on(scene: Stage, dice: random.Random) -> Iterator[Fired]:
    """What did not fire is not told: a run may have fewer rounds than the first."""
    counts = _undisturbed(scene)
    while True:
        where, mode = dice.choice(WAYS)
        is_kill = mode.startswith("kill")
        task = scene.task(ALL if is_kill else (*ALL, "afterwards"))
        report = scene.run(task, where, Fault(dice.randint(1, counts[where]), mode))
        found = scene.complaints(task, report.events)
        if report.status not in ((KILLED, 0) if is_kill else (0,)):
            found.append(f"it ended with {report.status}")
        for name, what in scene.last_fired[:1]:
            yield Fired(f"{what} ({where}): {name}", found)


def _undisturbed(scene: Stage) -> dict[Protocol, int]:
    """How many rounds there are where a store is there already: making one takes more."""
    assert scene.run(scene.task(("session",))).status == 0
    task = scene.task()
    report = scene.run(task)
    assert (report.status, scene.complaints(task, report.events)) == (0, [])
    return {protocol: len(names) for protocol, names in scene.rounds.items()}
