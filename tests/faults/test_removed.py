"""Removing outputs, killed at every step: others are unharmed, nothing is half there, and a second try ends it."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdall.store.directory.store import DirectoryStore
from holdall.values.errors import OutputExpired
from tests.faults.conftest import FIRED
from tests.faults.harness import KILLED, ended, share, started
from tests.faults.hooks import NEEDS_SPACE, Mode
from tests.faults.importer import remove
from tests.requirements import requirement
from tests.store.support import keep, read_back

pytestmark = pytest.mark.faults

SECRET = "hunter2hunter2"
GONE = f"the password is {SECRET}\n" * 100
STAYS = "somebody else's output\n"
Remove = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def remover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remove]:
    report = tmp_path_factory.mktemp("remover") / "report"
    process = started("tests.faults.importer", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run(home: Path, call_ids: list[str], number: int = 0, mode: Mode = "before") -> dict[str, Any]:
        task = {"home": str(home), "removed": call_ids, "number": number, "mode": mode, "report": str(report)}
        stdin.write(json.dumps(task) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    yield run
    ended(process)


def filled(home: Path) -> None:
    """A session that has the secret wherever an output can leave something; one output has nothing to do with it."""
    with closing(DirectoryStore(str(home))) as store:
        session = store.open_session("s1")
        facts = [
            keep(store, session, GONE, call_id="a", arguments={"password": SECRET}),
            keep(store, session, GONE, call_id="b", traceback=SECRET),
            keep(store, session, GONE.upper() + SECRET, call_id="t", terminal=True),
        ]
        other = keep(store, session, STAYS, call_id="other")
        for one in facts:
            store.remember(session, one.measure.sha256, "ab" * 32, SECRET.encode())
            store.remember(session, one.measure.sha256, one.id.replace("-", ""), SECRET.encode())
            event = {"at": 1.0, "event": "asked", "handle": one.handle, "preview": SECRET, "input_tokens": 7}
            store.append_events(session, json.dumps(event, separators=(",", ":")).encode() + b"\n")
        store.remember(session, other.measure.sha256, "cd" * 32, b"stays")
        store.append_events(
            session, b'{"at":2.0,"event":"asked","handle":"%s","preview":"x"}\n' % other.handle.encode()
        )
        node = {"op": "extraction", "name": "t", "handle": facts[0].handle, "question": SECRET,
                "children": [{"op": "model", "name": "m", "preview": SECRET}]}  # fmt: skip
        store.save_tree(session, json.dumps({"op": "session", "name": "s1", "children": [node]}).encode())
        store.append_transcript(session, b'{"role":"user"}\n')
        store.outputs(session)


def complaints(home: Path, call_ids: list[str]) -> list[str]:
    """What is wrong where a removal was disturbed; then it is done again."""
    found: list[str] = []
    with closing(DirectoryStore(str(home))) as store:
        session = store.open_session("s1")
        for one in call_ids or ["a", "b", "t"]:
            try:
                read_back(store, store.resolve(session, one))
            except OutputExpired:
                continue
        if call_ids:
            found += [] if read_back(store, store.resolve(session, "other")) == STAYS.encode() else ["another is gone"]
        # A line of the log that was being written over is named; nothing else may be wrong.
        found += [one.problem for one in store.verify() if one.problem and one.handle != "events.ndjson"]
        remove(store, call_ids)
        found += [f"afterwards: {one.problem}" for one in store.verify() if one.problem]
        states = {one.origin.call_id: one.is_removed for one in store.outputs(session)}
        expected = {"a": True, "b": True, "t": True, "other": not call_ids}
        found += [] if states == expected else [f"states are {states}"]
        if call_ids:
            found += [] if read_back(store, store.resolve(session, "other")) == STAYS.encode() else ["another is gone"]
            found += [] if [note.length for note in store.notes(session)] == [5] else ["a note of another is gone"]
            found += [] if b'"preview":"x"' in store.events_from(session, 0).lines else ["an event of another is gone"]
    found += [f"the secret is in {path.name}" for path in home.rglob("*") if path.is_file() and _has(path)]
    return found


def told_behind_tombstones(home: Path) -> list[str]:
    """What notes, events and the tree still say of outputs that are removed for whoever lists them."""
    with closing(DirectoryStore(str(home))) as store:
        if not any(one.is_removed for one in store.outputs(store.open_session("s1"))):
            return []
    told = [*home.rglob("events.ndjson"), *home.rglob("tree.json"), *home.rglob("answers/*")]
    return [f"{path.name} tells of what has a tombstone" for path in told if _has(path)]


def _has(path: Path) -> bool:
    data = path.read_bytes().lower()
    return SECRET.encode() in data


@requirement("store:removed", "store:removal-crash-safe")
@pytest.mark.parametrize("mode", ["before", "partial", "after"])
@pytest.mark.parametrize("call_ids", [["a", "b", "t"], []], ids=["outputs", "session"])
def test_a_removal_that_is_killed_at_any_step_harms_nobody_and_a_second_one_ends_it(
    mode: Mode,
    call_ids: list[str],
    remover: Remove,
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    filled(scratch / "0")
    assert any(_has(path) for path in (scratch / "0").rglob("*") if path.is_file())
    steps = remover(scratch / "0", call_ids)["steps"]
    assert complaints(scratch / "0", call_ids) == []
    assert set(steps) >= {"write", "fsync", "rename", "unlink"}
    able = [number for number, step in enumerate(steps, start=1) if mode != "partial" or step == "write"]
    numbers = share(able, 11 if mode == "after" else 5)
    found: list[str] = []
    for number in numbers:
        home = scratch / str(number)
        filled(home)
        assert remover(home, call_ids, number, mode)["status"] == KILLED
        where = f"killed {mode} step {number} ({steps[number - 1]})"
        found += [f"{where}: {one}" for one in told_behind_tombstones(home) + complaints(home, call_ids)]
        shutil.rmtree(home)
    record_property(FIRED, f"{len(numbers)} of {len(steps)} steps")
    assert not found, "\n".join(found)


@requirement("store:removal-crash-safe", "store:disk-full")
def test_a_full_disk_at_any_step_of_a_removal_is_told_and_harms_nobody(remover: Remove, scratch: Path) -> None:
    filled(scratch / "0")
    steps = remover(scratch / "0", ["a", "b", "t"])["steps"]
    able = [number for number, step in enumerate(steps, start=1) if step in NEEDS_SPACE]
    found: list[str] = []
    for number in share(able, 5):
        home = scratch / str(number)
        filled(home)
        said = remover(home, ["a", "b", "t"], number, "full once")
        if said["status"] or said.get("refused", "StoreFull") != "StoreFull":
            found.append(f"full at step {number} ({steps[number - 1]}): {said}")
        found += [f"full at step {number} ({steps[number - 1]}): {one}" for one in complaints(home, ["a", "b", "t"])]
        shutil.rmtree(home)
    assert not found, "\n".join(found)
