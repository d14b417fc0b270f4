"""An import that is killed, or meets a full disk, at every step it takes: all of the bundle is there, or none of it."""

import contextlib
import errno
import itertools
import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdall.store import files
from holdall.store.bundle.restore import import_bundle
from holdall.store.bundle.stream import open_bundle
from holdall.store.directory import disk, upkeep
from holdall.store.directory.publish import JOURNAL, STAGING
from holdall.store.directory.store import DirectoryStore
from holdall.store.ids import new_uuid
from holdall.store.protocol import SessionInfo
from holdall.values.errors import SessionExists, StoreFault
from holdall.values.retention import Retention
from tests.faults.conftest import FIRED
from tests.faults.errors import Errors, descriptors, failing
from tests.faults.harness import KILLED, Event, ended, share, started
from tests.faults.hooks import NEEDS_SPACE, Mode, Step
from tests.faults.power import Kind, cuts, recorded, write_to
from tests.requirements import requirement
from tests.store.bundles import everything, exported
from tests.store.support import keep, tree

pytestmark = pytest.mark.faults

Import = Callable[..., dict[str, Any]]
NAMES = {"s1", "s1/a-1", "s1/a-1/b-2"}


@pytest.fixture(scope="module")
def importer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Import]:
    """Imports a bundle in a process of its own, disturbed at one step."""
    report = tmp_path_factory.mktemp("importer") / "report"
    process = started("tests.faults.importer", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run(home: Path, bundle: Path, number: int = 0, mode: Mode = "before") -> dict[str, Any]:
        task = {"home": str(home), "bundle": str(bundle), "number": number, "mode": mode, "report": str(report)}
        stdin.write(json.dumps(task) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    yield run
    ended(process)


@pytest.fixture
def made(scratch: Path) -> tuple[Path, dict[str, Any]]:
    """A bundle of three sessions, and what is in them."""
    with closing(DirectoryStore(str(scratch / "made"))) as store:
        session = store.open_session("s1")
        below = store.open_session("s1/a-1", parent=session.id)
        keep(store, session, "one\ntwo\n", call_id="c1")
        keep(store, session, "in a terminal\n", terminal=True)
        store.append_transcript(session, b'{"role":"user","text":"hello"}\n')
        keep(store, below, "of the agent below\n")
        store.append_events(store.open_session("s1/a-1/b-2", parent=below.id), b'{"at":1.0,"event":"turn"}\n')
        (scratch / "bundle").write_bytes(exported(store, session))
        return scratch / "bundle", everything(store)


def filled(home: Path) -> dict[str, Any]:
    """A store that somebody uses; what is in it."""
    with closing(DirectoryStore(str(home))) as store:
        keep(store, store.open_session("mine"), "of somebody who was here before\n")
        return everything(store)


def complaints(home: Path, bundle: Path, before: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """What is wrong with a store in which an import was disturbed; then the import is tried again."""
    found: list[str] = []
    with closing(DirectoryStore(str(home))) as store:
        now = everything(store)
        if now not in (before, before | whole):
            found.append(f"there are {sorted(now)}, and neither all of the bundle nor none of it is there")
        found += [one.problem for one in upkeep.verify(store) if one.problem]
    if now == before:
        with open_bundle(str(bundle)) as read, closing(DirectoryStore(str(home))) as store:
            import_bundle(store, read)
    with closing(DirectoryStore(str(home))) as store:
        if everything(store) != before | whole:
            found.append("the next import does not restore it")
        found += [f"{name} has no claim" for name in NAMES if not (store.find_session(name))]
        keep(store, store.open_session("mine"), "and it goes on\n")
    left = [path.name for path in home.iterdir() if path.name.startswith(STAGING)]
    if now == before:  # an import removes what an earlier one left
        found += [f"{name} is left over" for name in left]
    if (home / "names" / JOURNAL).exists():
        found.append("the journal is still there")
    return found


@requirement("bundle:all-or-nothing")
@pytest.mark.parametrize("mode", ["before", "partial", "after"])
def test_an_import_killed_at_any_step_leaves_all_of_the_bundle_or_none_of_it(
    mode: Mode,
    importer: Import,
    made: tuple[Path, dict[str, Any]],
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    bundle, whole = made
    filled(scratch / "0")
    steps = importer(scratch / "0", bundle)["steps"]
    assert set(steps) >= {"write", "fsync", "rename", "unlink", "mkdir", "open"}
    able = [number for number, step in enumerate(steps, start=1) if mode != "partial" or step == "write"]
    numbers = share(able, 11 if mode == "after" else 6)
    found: list[str] = []
    for number in numbers:
        home = scratch / str(number)
        before = filled(home)
        assert importer(home, bundle, number, mode)["status"] == KILLED
        found += [f"killed {mode} step {number} ({steps[number - 1]}): {one}"
                  for one in complaints(home, bundle, before, whole)]  # fmt: skip
        shutil.rmtree(home)
    record_property(FIRED, f"{len(numbers)} of {len(steps)} steps")
    assert not found, "\n".join(found)


@requirement("bundle:all-or-nothing")
def test_a_store_copied_at_any_step_of_an_import_has_all_of_the_bundle_or_none_of_it(
    made: tuple[Path, dict[str, Any]], scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is what a kill at that step leaves."""
    bundle, whole = made
    home = scratch / "home"
    before = filled(home)
    copies: list[Path] = []
    with monkeypatch.context() as patch, open_bundle(str(bundle)) as read, closing(DirectoryStore(str(home))) as store:
        for name in ("rename", "unlink", "rmdir"):
            patch.setattr(files, name, _copying(getattr(files, name), home, copies))
        import_bundle(store, read)
        assert not (home / "names" / JOURNAL).exists()
    publishing = [one for one in copies if (one / "names" / JOURNAL).exists()]
    assert len(publishing) > 5
    others = [one for one in copies if one not in publishing]
    for copy in [*publishing, *share(others, 9)]:
        assert complaints(copy, bundle, before, whole) == [], copy


@requirement("bundle:all-or-nothing")
def test_a_call_that_fails_while_sessions_get_their_places_leaves_none_of_them(scratch: Path) -> None:
    before = filled(scratch / "made")
    was, names, refused = _files(scratch / "made"), {"s1", "s1/a-1"}, list[str]()
    for number in itertools.count(1):
        home, errors, is_there = scratch / f"{number}", Errors(number), False
        shutil.copytree(scratch / "made", home)
        with closing(DirectoryStore(str(home))) as store:
            with contextlib.suppress(StoreFault), store.staging() as staged:
                infos = staged_in(staged, sorted(names))
                with failing(errors):
                    staged.publish(infos)
                is_there = True
            assert {one.name for one in store.sessions()} == {"mine", *(names if is_there else ())}, number
        if not is_there:
            refused.append(errors.calls[number - 1])
            left = {name: one for name, one in _files(home).items() if ".incoming-" not in name}  # which gc removes
            assert left == was, (number, refused[-1])
            with closing(DirectoryStore(str(home))) as store:
                assert everything(store) == before
        if not errors.fired:
            break
    assert {"rename", "fsync", "write"} <= set(refused)


def staged_in(staged: Any, names: Iterable[str]) -> list[SessionInfo]:
    infos = [SessionInfo(new_uuid(), name, 1.0, Retention(days=None)) for name in names]
    for info in infos:
        with closing(staged.session(info)) as folder:
            folder.write_tree(b"{}")
            folder.finish()
    return infos


@requirement("bundle:all-or-nothing")
def test_an_import_is_refused_where_its_name_or_its_folder_came_meanwhile(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = scratch / "home"
    filled(home)
    with closing(DirectoryStore(str(home))) as store:
        was = _files(home)
        with pytest.raises(SessionExists, match="mine"), store.staging() as staged:
            staged.publish(staged_in(staged, ["other", "mine"]))
        assert _files(home) == was
        with store.staging() as staged:
            infos = staged_in(staged, ["other"])
            (home / f"session-{infos[0].id}").mkdir()
            with pytest.raises(StoreFault, match="came into the store meanwhile"):
                staged.publish(infos)
        (home / f"session-{infos[0].id}").rmdir()
        assert _files(home) == was
        with store.staging() as staged, closing(staged.session(infos[0])) as folder:
            with pytest.raises(StoreFault, match=f"no session has a folder '{'e' * 80}'"):
                folder.write_bytes(f"{'e' * 100}/name", [b"x"], 1)
            threads = threading.active_count()
            with pytest.raises(ZeroDivisionError):
                folder.write_bytes("name", (bytes(1 // one) for one in (1, 0)), 10_000_000)
            assert threading.active_count() == threads
            monkeypatch.setattr(files, "write", _refused)
            with pytest.raises(OSError, match="Input/output error"):
                folder.write_bytes("another name", [b"x"], 10_000_000)
            monkeypatch.undo()
        monkeypatch.setattr(disk, "create", _refused)
        with pytest.raises(StoreFault, match="Input/output error"), store.staging():
            pytest.fail("nobody holds it")
        monkeypatch.undo()
        assert _files(home) == was


@pytest.mark.parametrize(
    "journal",
    [
        "", "[]", "{}", '{"staging": ".import-1"}', '{"staging": 5, "sessions": []}',
        '{"staging": "names", "sessions": []}', '{"staging": ".import-1/../names", "sessions": []}',
        '{"staging": ".import-1", "sessions": [{"id": "../names", "name": "x"}]}',
        '{"staging": ".import-1", "sessions": [{"id": "1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"}]}',
    ],
)  # fmt: skip
def test_a_journal_that_is_none_of_ours_is_removed_and_changes_nothing(scratch: Path, journal: str) -> None:
    home = scratch / "home"
    before = filled(home)
    staged = home / ".import-1" / "session-1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"
    staged.mkdir(parents=True)
    was = _files(home)
    (home / "names" / JOURNAL).write_text(journal)
    with closing(DirectoryStore(str(home))) as store:
        assert everything(store) == before
    assert _files(home) == was


@requirement("bundle:all-or-nothing")
def test_sessions_that_were_begun_to_be_published_come_with_the_next_who_opens_the_store(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one has its place already, or is in both places, or in none."""
    home = scratch / "home"
    filled(home)
    names = ["placed", "both", "staged", "lost"]
    with closing(DirectoryStore(str(home))) as store, store.staging() as staging:
        infos = staged_in(staging, names)
        shutil.copytree(home / staging.name, home / ".import-of-the-killed")
    killed = home / ".import-of-the-killed"
    placed, both, _, lost = (f"session-{one.id}" for one in infos)
    (killed / placed).rename(home / placed)
    shutil.copytree(killed / both, home / both)
    (home / both / "tree.json").write_text("[]")
    shutil.rmtree(killed / lost)
    told = [{"id": one.id, "name": one.name} for one in infos]
    (home / "names" / JOURNAL).write_text(json.dumps({"staging": killed.name, "sessions": told}))
    opened = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", _refused)
        DirectoryStore(str(home)).close()  # a disk that refuses leaves it to the next one
    with recorded() as steps, closing(DirectoryStore(str(home))) as store:
        assert_synced(home, steps)
        found = {name: store.find_session(name) for name in names}
        assert [name for name, one in found.items() if one is not None] == names[:3]
        assert found["both"] is not None
        assert store.tree(found["both"]) == b"[]", "what is published stays"
        assert not killed.exists()
        assert not (home / "names" / JOURNAL).exists()
        claims = [path.read_text() for path in (home / "names").glob("[0-9a-f]*")]
        assert sorted(json.loads(one)["name"] for one in claims) == sorted(["mine", *names[:3]])
    assert descriptors() == opened


def _refused(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def assert_synced(home: Path, steps: Sequence[Event]) -> None:
    """Names and places are on the disk before the journal goes that could bring them again."""
    root, names = home.stat().st_ino, (home / "names").stat().st_ino
    taken = [Step(**one.fields) for one in steps]
    (gone,) = (at for at, step in enumerate(taken) if (step.op, step.name) == ("remove", JOURNAL))
    placed = [at for at, step in enumerate(taken) if (step.op, step.to_folder) == ("rename", root)]
    named = [at for at, step in enumerate(taken[:gone]) if (step.op, step.to_folder) == ("rename", names)]
    for changed, folder in ((placed[-1], root), (named[-1], names)):
        assert Step("fsync", inode=folder) in taken[changed:gone]
    if named[0] < placed[0]:  # the journal itself
        assert Step("fsync", inode=names) in taken[named[0] : placed[0]]


def _copying(step: Callable[..., None], home: Path, copies: list[Path]) -> Callable[..., None]:
    def copied(*args: Any, **options: Any) -> None:
        copies.append(home.with_name(f"copy {len(copies)}, before {step.__name__} {args[0]}"))
        shutil.copytree(home, copies[-1])
        step(*args, **options)

    return copied


@requirement("bundle:all-or-nothing", "store:disk-full")
def test_a_full_disk_at_any_step_refuses_the_whole_bundle(
    importer: Import,
    made: tuple[Path, dict[str, Any]],
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    bundle, whole = made
    filled(scratch / "0")
    steps = importer(scratch / "0", bundle)["steps"]
    able = [number for number, step in enumerate(steps, start=1) if step in NEEDS_SPACE]
    numbers = share(able, 5)
    found: list[str] = []
    absorbed: list[str] = []
    for number in numbers:
        home = scratch / str(number)
        before = filled(home)
        files = _files(home)
        said = importer(home, bundle, number, "full once")
        where = f"full at step {number} ({steps[number - 1]})"
        if said.get("refused", "StoreFull") != "StoreFull" or said["status"]:
            found.append(f"{where}: {said}")
        if "refused" not in said:
            absorbed.append(steps[number - 1])
        elif _files(home) != files:
            found.append(f"{where}: the store is not as it was before")
        found += [f"{where}: {one}" for one in complaints(home, bundle, before, whole)]
        shutil.rmtree(home)
    record_property(FIRED, f"{len(numbers)} of {len(steps)} steps")
    assert not found, "\n".join(found)
    assert set(absorbed) <= {"mkdir"}, "only folders that are there already"


def test_what_a_killed_import_left_is_gone_after_the_next_one_and_one_that_runs_is_left_alone(
    importer: Import, made: tuple[Path, dict[str, Any]], scratch: Path
) -> None:
    bundle, _ = made
    home, second = scratch / "home", scratch / "second"
    filled(home)
    with closing(DirectoryStore(str(scratch / "more"))) as store:
        session = store.open_session("another")
        keep(store, session, "something else\n")
        second.write_bytes(exported(store, session))
    steps = importer(scratch / "0", bundle)["steps"]
    assert importer(home, bundle, len(steps) // 3, "before")["status"] == KILLED
    (left,) = home.glob(f"{STAGING}*")
    with open_bundle(str(bundle)) as read, closing(DirectoryStore(str(home))) as store:
        seen: list[list[Path]] = []

        def import_another(_: int) -> None:
            """In the middle of the first import a second one comes, and goes."""
            if not seen:
                seen.append(list(home.glob(f"{STAGING}*")))
                with open_bundle(str(second)) as again, closing(DirectoryStore(str(home))) as other:
                    import_bundle(other, again)

        import_bundle(store, read, progress=import_another)
    assert left not in seen[0]
    assert len(seen[0]) == 1
    assert list(home.glob(f"{STAGING}*")) == []
    with closing(DirectoryStore(str(home))) as store:
        assert {one.name for one in store.sessions()} >= NAMES | {"another", "mine"}


@requirement("bundle:all-or-nothing")
@pytest.mark.parametrize("kind", ["lazy", "eager"])
def test_a_power_cut_after_any_step_leaves_all_of_the_bundle_or_none_of_it(
    kind: Kind,
    made: tuple[Path, dict[str, Any]],
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    bundle, whole = made
    base = scratch / "base"
    base.mkdir()
    with recorded() as steps, open_bundle(str(bundle)) as read, closing(DirectoryStore(str(base / "home"))) as store:
        import_bundle(store, read)
    assert_synced(base / "home", steps)
    found: list[str] = []
    disks = list(cuts(base.stat().st_ino, steps, kind))
    seen: list[bool] = []
    for number, (picture, _) in enumerate(disks):
        disk = scratch / f"disk {number}"
        write_to(disk, picture)
        if (disk / "home").exists():
            with closing(DirectoryStore(str(disk / "home"))) as store:
                now = everything(store)
                seen.append(bool(now))
                found += [] if now in ({}, whole) else [f"cut {number}: there are {sorted(now)}"]
                found += [f"cut {number}: {one.problem}" for one in upkeep.verify(store) if one.problem]
                store.sweep()
                left = [path.name for path in (disk / "home").iterdir() if path.name.startswith(STAGING)]
                found += [f"cut {number}: gc left {name}" for name in left]
        shutil.rmtree(disk)
    record_property(FIRED, f"{len(disks)} disks")
    assert not found, "\n".join(found)
    assert seen == sorted(seen), "what was there once stays"
    assert seen[-1], "once the import has returned, it is there"
    assert not seen[0]


def test_gc_removes_what_a_killed_import_left(
    importer: Import, made: tuple[Path, dict[str, Any]], scratch: Path
) -> None:
    bundle, _ = made
    home = scratch / "home"
    before = filled(home)
    steps = importer(scratch / "0", bundle)["steps"]
    assert importer(home, bundle, len(steps) // 3, "before")["status"] == KILLED
    (left,) = home.glob(f"{STAGING}*")
    with closing(DirectoryStore(str(home))) as store:
        told = upkeep.sweep(store, dry_run=True)
        assert told.leftovers == (left.name,)
        assert told.freed_bytes > 0
        assert left.exists()
        assert upkeep.sweep(store).leftovers == (left.name,)
        assert not left.exists()
        assert everything(store) == before


def _files(home: Path) -> dict[str, tuple[int, bytes]]:
    return {name: one for name, one in tree(home).items() if "index.sqlite" not in name}
