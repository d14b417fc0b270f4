"""The index is a cache: whatever happens to it, every handle and call id still leads to its output."""

import contextlib
import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdall.store.directory import disk, upkeep
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.index import NAME, Index
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import StoreFault, UnknownHandle
from holdall.values.outputs import Origin
from tests.faults.checker import contents, opened
from tests.faults.confined import keep
from tests.faults.flips import flipped, sample
from tests.faults.harness import FULL
from tests.requirements import requirement
from tests.store.support import Clock

pytestmark = pytest.mark.faults

COUNT = 12


class Indexed:
    """A store with a dozen outputs and an index that knows all of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.index = home / NAME
        self.contents: dict[str, bytes] = {}
        with opened(home) as store:
            self.session: SessionInfo = store.open_session("a session")
            for number in range(COUNT):
                data = b"output %d\n" % number * (number + 1)
                facts = keep(store, self.session, data, f"call {number}")
                for reference in (facts.handle, facts.long_handle, facts.id, f"call {number}"):
                    self.contents[reference] = data
            assert len(store.outputs(self.session)) == COUNT

    def everything_resolves(self) -> None:
        for _ in range(2):  # as it is found, and as it was rebuilt
            with opened(self.home) as store:
                for reference, data in self.contents.items():
                    assert contents(store, store.resolve(self.session, reference)) == data, reference
                assert len(store.outputs(self.session)) == COUNT

    def aside(self) -> list[Path]:
        return sorted(self.home.glob(f"{NAME}.*"))


@pytest.fixture
def indexed(scratch: Path) -> Indexed:
    return Indexed(scratch / "home")


@requirement("store:index-deleted")
def test_a_deleted_index_is_rebuilt(indexed: Indexed) -> None:
    """STORE-051."""
    for path in indexed.home.glob(f"{NAME}*"):
        path.unlink()
    indexed.everything_resolves()
    with sqlite3.connect(indexed.index) as database:
        assert database.execute("SELECT count(*) FROM outputs").fetchone() == (COUNT,)
    database.close()


@requirement("store:index-deleted")
def test_an_index_deleted_while_in_use_is_rebuilt(indexed: Indexed) -> None:
    with opened(indexed.home) as store:
        assert len(store.outputs(indexed.session)) == COUNT
        indexed.index.unlink()
        for reference, data in indexed.contents.items():
            assert contents(store, store.resolve(indexed.session, reference)) == data
        keep(store, indexed.session, b"one more", "one more")
        assert contents(store, store.resolve(indexed.session, "one more")) == b"one more"
        with closing(sqlite3.connect(indexed.index)) as database:
            assert database.execute("SELECT count(*) FROM outputs").fetchone() == (COUNT + 1,)


def _without_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TABLE outputs; DROP TABLE complete; DROP TABLE latest;")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a few bytes": lambda path: path.write_bytes(b"not a db"),
    "text": lambda path: path.write_bytes(b"no database at all, but longer than a header of one\n" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "a header": lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(4080)),
    "without tables": _without_tables,
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a hundred bytes": lambda path: os.truncate(path, 100),
    "noise": lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size - 4096)),
}


@requirement("store:index-corrupt", "store:removed")
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_no_database_any_more_is_rebuilt_and_no_copy_is_kept(damage: str, indexed: Indexed) -> None:
    """STORE-051. A copy would keep the arguments of outputs that are removed later."""
    DAMAGES[damage](indexed.index)
    indexed.everything_resolves()
    assert indexed.aside() == []
    with sqlite3.connect(indexed.index) as database:
        assert database.execute("SELECT count(*) FROM outputs").fetchone() == (COUNT,)
    database.close()


@requirement("store:index-corrupt", "store:symlink-confined")
def test_a_link_or_a_folder_in_the_place_of_the_index_is_not_used(indexed: Indexed, scratch: Path) -> None:
    elsewhere = scratch / "elsewhere.sqlite"
    shutil.copy(indexed.index, elsewhere)
    before = elsewhere.read_bytes()
    indexed.index.unlink()
    indexed.index.symlink_to(elsewhere)
    indexed.everything_resolves()
    assert elsewhere.read_bytes() == before
    with opened(indexed.home) as store:
        assert len(store.outputs(indexed.session)) == COUNT
        elsewhere.unlink()
        indexed.index.rename(elsewhere)
        indexed.index.symlink_to(elsewhere)
        before = elsewhere.read_bytes()
        again = keep(store, indexed.session, b"output 0\n")
        assert again.file == store.resolve(indexed.session, "call 0").file, "kept once"
        assert elsewhere.read_bytes() == before
        (indexed.home / f"session-{indexed.session.id}" / f"{again.handle}.record").unlink()
    indexed.index.unlink()
    indexed.index.mkdir()
    indexed.everything_resolves()
    with opened(indexed.home) as store:
        again = keep(store, indexed.session, b"output 0\n")
        assert again.file == store.resolve(indexed.session, "call 0").file


@requirement("store:index-corrupt")
def test_an_index_that_is_locked_by_somebody_else_is_done_without(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(indexed.index, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, **{**options, "timeout": 0.01}))  # pyright: ignore
    try:
        with opened(indexed.home) as store:
            facts = keep(store, indexed.session, b"kept all the same", "kept")
            assert contents(store, store.resolve(indexed.session, facts.handle)) == b"kept all the same"
    finally:
        other.close()
    assert indexed.aside() == []


@requirement("store:index-corrupt")
def test_a_journal_that_a_killed_writer_left_is_no_obstacle(indexed: Indexed) -> None:
    indexed.index.with_name(f"{NAME}-journal").write_bytes(os.urandom(5000))
    indexed.everything_resolves()
    indexed.index.write_bytes(b"and the database is none")
    indexed.index.with_name(f"{NAME}-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + os.urandom(5000))
    indexed.everything_resolves()


@requirement("store:index-corrupt")
def test_an_index_of_an_unknown_version_is_started_anew(indexed: Indexed) -> None:
    database = sqlite3.connect(indexed.index)
    database.executescript("PRAGMA user_version = 99; DROP TABLE outputs; CREATE TABLE outputs (other TEXT);")
    database.close()
    indexed.everything_resolves()


@requirement("store:index-corrupt")
def test_an_index_that_lies_is_not_believed(indexed: Indexed) -> None:
    """A row must prove itself, and what it hints at is read from the record."""
    database = sqlite3.connect(indexed.index)
    handles = [handle for (handle,) in database.execute("SELECT handle FROM outputs ORDER BY handle")]
    with database:
        database.execute("UPDATE outputs SET facts = replace(facts, 'call', 'fall')")
        database.execute("UPDATE outputs SET call_id = 'call 3', sha256 = 'none', id = 'none'")
        database.execute("DELETE FROM outputs WHERE handle = ?", (handles[0],))
        database.execute("UPDATE outputs SET handle = x'ff00' WHERE handle = ?", (handles[1],))
        database.execute("UPDATE outputs SET handle = '../../etc/passwd' WHERE handle = ?", (handles[2],))
    database.close()
    indexed.everything_resolves()


@pytest.mark.timeout(900)
@requirement("store:index-corrupt")
def test_one_flipped_bit_anywhere_in_the_index_costs_nothing(indexed: Indexed) -> None:
    whole = indexed.index.read_bytes()
    for bit in sample(8 * len(whole), 3000 if FULL else 60):
        for path in indexed.home.glob(f"{NAME}*"):
            path.unlink()
        indexed.index.write_bytes(flipped(whole, bit))
        with opened(indexed.home) as store:
            for reference, data in indexed.contents.items():
                assert contents(store, store.resolve(indexed.session, reference)) == data, f"{reference}, bit {bit}"
            assert len(store.outputs(indexed.session)) == COUNT
            # The same bytes as one that is there: kept once if the index can tell, and right in any case.
            facts = keep(store, indexed.session, b"output 0\n", "again")
            assert contents(store, store.resolve(indexed.session, facts.handle)) == b"output 0\n"
            (indexed.home / f"session-{indexed.session.id}" / f"{facts.handle}.record").unlink()


@requirement("store:removed", "store:leftovers-removed")
def test_gc_removes_the_copies_of_damaged_ones_that_were_kept_once(indexed: Indexed) -> None:
    aside = [indexed.index.with_name(f"{NAME}.damaged-{number}") for number in range(2)]
    aside[0].write_bytes(b"hunter2-of-somebody")
    aside[1].symlink_to(indexed.index)
    with opened(indexed.home) as store:
        for dry_run in (True, False):
            assert indexed.aside() == aside
            assert {*upkeep.sweep(store, dry_run=dry_run).leftovers} == {path.name for path in aside}
    assert indexed.aside() == []
    indexed.everything_resolves()


# What it saves


@pytest.fixture
def reads(indexed: Indexed, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The records that are read from now on."""
    read: list[str] = []
    real = disk.read_file

    def read_file(name: str, *, inside: int) -> bytes:
        read.extend([name] if name.endswith(".record") else [])
        return real(name, inside=inside)

    monkeypatch.setattr(disk, "read_file", read_file)
    return read


def test_no_record_is_read_that_the_index_has(
    indexed: Indexed, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(indexed.home) as store:
        listed = store.outputs(indexed.session)
        assert reads == []
        one = listed[5]
        for reference in (one.long_handle, one.id, one.handle):
            reads.clear()
            assert store.resolve(indexed.session, reference) == one
            assert set(reads) == {f"{one.handle}.record"}
        reads.clear()
        assert store.resolve(indexed.session, "call 5") == one
        assert set(reads) == {f"{one.handle}.record"}
        reads.clear()
        keep(store, indexed.session, b"of its own")
        assert reads == []
        with monkeypatch.context() as patch:
            patch.delattr(SessionFolder, "stamps")  # nor is the folder looked through for what came last
            for copies in range(1, 20):
                keep(store, indexed.session, b"of its own")
                assert len(reads) == copies
        reads.clear()
        with pytest.raises(UnknownHandle):
            store.resolve(indexed.session, "call 99")
        assert reads == []


def test_of_many_copies_that_are_damaged_a_few_are_looked_at(indexed: Indexed, reads: list[str]) -> None:
    with opened(indexed.home) as store:
        for _ in range(20):
            facts = keep(store, indexed.session, b"the same")
            (indexed.home / f"session-{indexed.session.id}" / facts.file).unlink()
        reads.clear()
        keep(store, indexed.session, b"the same")
        assert len(reads) == 16


def test_a_record_that_was_changed_or_removed_by_hand_is_seen_at_the_next_look(
    indexed: Indexed, reads: list[str]
) -> None:
    folder = indexed.home / f"session-{indexed.session.id}"
    with opened(indexed.home) as store:
        first, second, *others = store.outputs(indexed.session)
        (folder / f"{first.handle}.record").unlink()
        os.utime(folder / f"{second.handle}.record", (1, 1))
        assert store.outputs(indexed.session) == [second, *others]
        assert reads == [f"{second.handle}.record"]
        assert store.outputs(indexed.session) == [second, *others]
        assert reads == [f"{second.handle}.record"]
    with closing(sqlite3.connect(indexed.index)) as database:
        assert database.execute("SELECT count(*) FROM outputs").fetchone() == (COUNT - 1,)


@pytest.mark.parametrize("index", ["as it is", "removed", "none", "damaged"])
def test_outputs_are_listed_as_they_came_though_a_clock_goes_back(indexed: Indexed, index: str) -> None:
    clock = Clock(5e9)
    with closing(DirectoryStore(str(indexed.home), clock=clock)) as store:
        at_once = [keep(store, indexed.session, b"kept") for _ in range(2)]
        assert [one.place for one in at_once] == [5e9, 5e9]
    clock.now += 1
    expected: list[str] = []
    for _ in range(2):
        with closing(DirectoryStore(str(indexed.home), clock=clock)) as store:
            for _ in range(3):
                expected.append(keep(store, indexed.session, b"kept").handle)
                clock.now -= 1000
                if index == "removed":
                    indexed.index.unlink()
                if index == "none" and indexed.index.is_file():
                    indexed.index.unlink()
                    indexed.index.mkdir()
                if index == "damaged":
                    with closing(sqlite3.connect(indexed.index)) as database, database:
                        database.execute("UPDATE latest SET place = 1e300")
            listed = store.outputs(indexed.session)
            assert [one.handle for one in listed][COUNT + 2 :] == expected
            assert all(one.place < 5.1e9 for one in listed)


SECRET = "hunter2-of-somebody"


def _secret_in(home: Path) -> list[str]:
    return [path.name for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@requirement("store:removed")
@pytest.mark.parametrize("removed", ["output", "session", "expired"])
@pytest.mark.parametrize("index", ["as it is", "busy", "damaged"])
def test_what_was_asked_for_is_gone_from_the_index_with_its_output(
    indexed: Indexed, index: str, removed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps the index from being changed: it goes then."""
    monkeypatch.setattr("holdall.store.directory.index._PATIENCE_SECONDS", 0.01)
    with opened(indexed.home) as store, contextlib.ExitStack() as held:
        facts = store.put(indexed.session, [b"kept"], Origin(arguments={"password": SECRET}))
        assert SECRET.encode() in indexed.index.read_bytes()
        match index:
            case "busy":
                other = held.enter_context(closing(sqlite3.connect(indexed.index, isolation_level=None)))
                other.execute("BEGIN EXCLUSIVE")
            case "damaged":
                whole = indexed.index.read_bytes()
                indexed.index.write_bytes(b"\xff" * 200 + whole[200:])
            case _:
                pass
        match removed:
            case "output":
                store.remove(indexed.session, [facts])
            case "session":
                store.remove_session(indexed.session)
            case _:
                store.expire(indexed.session, [facts], "a rule")
    assert _secret_in(indexed.home) == []


@requirement("store:removed")
def test_an_index_that_can_be_neither_changed_nor_removed_is_named(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.store.directory.index._PATIENCE_SECONDS", 0.01)
    with opened(indexed.home) as store, closing(sqlite3.connect(indexed.index, isolation_level=None)) as other:
        facts = store.put(indexed.session, [b"kept"], Origin(arguments={"password": SECRET}))
        other.execute("BEGIN EXCLUSIVE")
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", _refused(NAME, os.unlink))
            with pytest.raises(StoreFault) as told:
                store.remove(indexed.session, [facts])
        assert str(told.value) == (
            f"text of what was removed is still in {indexed.index}, which can be neither changed nor removed "
            "(Operation not permitted). It is only a cache: remove it."
        )
        assert _secret_in(indexed.home) == [NAME]
        assert store.remove(indexed.session, [facts]).gone_before == 1, "a second try ends it"
    assert _secret_in(indexed.home) == []


def _refused(name: str, real: Callable[..., None]) -> Callable[..., None]:
    def unlink(path: str, **options: int) -> None:
        if os.path.basename(path) == name:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        real(path, **options)

    return unlink


@requirement("store:removed")
def test_what_is_removed_while_a_list_is_made_does_not_come_back_into_the_index(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(indexed.home) as store, opened(indexed.home) as lister:
        facts = store.put(indexed.session, [b"kept"], Origin(arguments={"password": SECRET}))
        indexed.index.unlink()
        save = Index.save

        def late(index: Index, *arguments: Any) -> None:
            monkeypatch.setattr(Index, "save", save)
            store.remove(indexed.session, [facts])
            save(index, *arguments)

        monkeypatch.setattr(Index, "save", late)
        lister.outputs(indexed.session)
    assert _secret_in(indexed.home) == []


@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_index_is_only_ours_whatever_the_umask(indexed: Indexed, umask: int) -> None:
    indexed.index.unlink()
    before = os.umask(umask)
    try:
        with opened(indexed.home) as store:
            store.outputs(indexed.session)
    finally:
        os.umask(before)
    assert indexed.index.stat().st_mode & 0o777 == 0o600
