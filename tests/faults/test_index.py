"""The index is a cache: whatever happens to it, every handle and call id still leads to its output."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdall.store.directory.index import NAME
from holdall.store.protocol import SessionInfo
from tests.faults.checker import contents, opened
from tests.faults.confined import keep
from tests.faults.flips import flipped, sample
from tests.faults.harness import FULL
from tests.requirements import requirement

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


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a few bytes": lambda path: path.write_bytes(b"not a db"),
    "text": lambda path: path.write_bytes(b"no database at all, but longer than a header of one\n" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "a header": lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(4080)),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a hundred bytes": lambda path: os.truncate(path, 100),
    "noise": lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(path.stat().st_size - 4096)),
}


@requirement("store:index-corrupt")
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_no_database_any_more_is_set_aside_and_rebuilt(damage: str, indexed: Indexed) -> None:
    """STORE-051."""
    DAMAGES[damage](indexed.index)
    damaged = indexed.index.read_bytes()
    indexed.everything_resolves()
    # An empty file is an empty database: there is nothing to keep.
    assert [path.read_bytes()[:100] for path in indexed.aside()] == ([damaged[:100]] if damaged else [])
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
    indexed.index.unlink()
    indexed.index.mkdir()
    indexed.everything_resolves()


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
