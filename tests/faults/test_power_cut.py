"""A power cut after any step: what was acknowledged before it is still there. `power` builds the disks."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdall.store.directory.live import LiveWriter
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.outputs import Origin
from holdall.values.retention import Retention
from tests.faults.checker import complaints
from tests.faults.conftest import FIRED
from tests.faults.harness import KILLED, Event, Writers, share
from tests.faults.hooks import Fault, Step
from tests.faults.power import Disk, Kind, cuts, recorded, write_to
from tests.requirements import requirement

pytestmark = pytest.mark.faults


@pytest.mark.in_full(one_in=2)
@requirement("store:handle-after-fsync", "store:running-record-first")
@pytest.mark.parametrize("kind", ["lazy", "eager"])
def test_no_power_cut_loses_what_was_acknowledged(
    kind: Kind, crew: Writers, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    report = crew.run(scratch / "new" / "home", record=True)
    steps = report.of("step")
    assert len(steps) > 100
    tried, found = cut(scratch, report.events, kind)
    record_property(FIRED, f"{tried} disks after {len(steps)} steps")
    assert not found, "\n".join(found)
    assert tried > 40


@requirement("store:handle-after-fsync")
def test_a_power_cut_does_not_lose_what_was_kept_after_a_writer_was_killed(
    crew: Writers, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    """Whoever comes second builds on folders and names that the first may never have synced."""
    first, second = ("session", "terminal", "small"), ("session", "small", "terminal")
    steps = crew.run(scratch / "0" / "home", first).steps
    numbers = share(range(1, len(steps) + 1), 6)
    found: list[str] = []
    for number in numbers:
        base = scratch / f"{number}"
        base.mkdir()
        home = base / "home"
        killed = crew.run(home, first, fault=Fault(number, "before"), record=True)
        assert killed.status == KILLED
        report = crew.run(home, second, record=True)
        tried, problems = cut(base, [*killed.events, *report.events], "lazy", only_last=True)
        found += [f"after a kill before step {number} ({steps[number - 1]}): {one}" for one in problems]
        assert tried == 1
        shutil.rmtree(base)
    record_property(FIRED, f"{len(numbers)} of {len(steps)} kills, a cut after each")
    assert not found, "\n".join(found)


@requirement("store:handle-after-fsync", "store:running-record-first")
def test_what_a_call_did_is_on_the_disk_when_it_returns(scratch: Path) -> None:
    home = scratch / "new" / "home"
    disk, played = Disk(scratch.stat().st_ino, "lazy"), 0
    with recorded() as steps, closing(DirectoryStore(str(home))) as store:
        session, begun = store.open_session("a session"), list[LiveWriter]()
        acts: dict[str, Callable[[], object]] = {
            "open": lambda: None,
            "begin": lambda: begun.append(store.begin(session, Origin(terminal=True))),
            "keep": lambda: store.put(session, [b"kept"], Origin(call_id="kept")),
            "keep a log": lambda: store.put(session, [b"a log"], Origin(call_id="log", terminal=True)),
            "write": lambda: begun[0].write(b"ended"),
            "end": lambda: begun.pop().finish(),
            "interrupt": lambda: _interrupted(store, session),
            "keep for": lambda: store.open_session("a session", retention=Retention(days=3)),
            "expire": lambda: store.expire(session, [store.resolve(session, "kept")], "for a test"),
            "remove": lambda: store.remove(session, [store.resolve(session, "log")]),
            "remove all": lambda: store.remove_session(session),
            "remove by hand": lambda: shutil.rmtree(home / f"session-{session.id}"),
            "make anew": lambda: store.append_events(session, b"{}\n"),
        }
        for name, act in acts.items():
            act()
            for event in steps[played:]:
                disk.play(Step(**event.fields))
            played = len(steps)
            if name in ("write", "remove by hand"):
                continue
            there = _flat(disk.picture()["new"]["home"])
            if name == "expire":  # then `gc` removes them
                there = {one: data for one, data in there.items() if data != b"kept"}
            assert there == _kept(home), name


def _interrupted(store: DirectoryStore, session: SessionInfo) -> None:
    """A writer that ends before it is done, and somebody who looks."""
    with closing(store.begin(session, Origin())) as writer:
        writer.write(b"interrupted")
    assert store.resolve(session, writer.handle).state == "interrupted"


def _kept(home: Path) -> dict[str, bytes]:
    """Names of sessions, records and bytes: all but caches, locks and what may lose its newest lines."""
    found = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if _is_kept(name)}


def _flat(picture: dict[str, Any], above: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, inside in picture.items():
        found |= {above + name: inside} if isinstance(inside, bytes) else _flat(inside, f"{above}{name}/")
    return {name: data for name, data in found.items() if _is_kept(name)}


def _is_kept(name: str) -> bool:
    return not name.rpartition("/")[2].startswith(".") and not name.endswith((".sqlite", ".sqlite-journal", ".ndjson"))


def cut(base: Path, events: Iterable[Event], kind: Kind, *, only_last: bool = False) -> tuple[int, list[str]]:
    """How many disks were tried, and everything that was wrong with them."""
    found: list[str] = []
    disks = list(cuts(base.stat().st_ino, events, kind))
    if only_last:
        del disks[:-1]
    for number, (picture, told) in enumerate(disks):
        disk = base / f"disk {number}"
        write_to(disk, picture)
        home = next(iter(sorted(disk.rglob("home"))), disk / "home")
        last = told[-1].kind if told else "nothing"
        found += [f"cut {number}, after {last} was told: {one}" for one in complaints(home, told, power_cut=True)]
        shutil.rmtree(disk)
    return len(disks), found
