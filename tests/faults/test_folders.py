"""Folders that refuse, that are not what they were, or that are gone."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.values.errors import HoldallError, StoreFault, StoreGone, StoreUnsafe, UnknownHandle
from holdall.values.outputs import Origin
from tests.faults.checker import contents, listed, opened
from tests.faults.confined import keep, refused
from tests.faults.errors import descriptors
from tests.faults.namespaces import on_a_disk, without_rights
from tests.requirements import requirement

pytestmark = pytest.mark.faults


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that users other than ours can reach too; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="holdall-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


# Refused by the machine


@requirement("store:read-only-folder")
def test_on_a_read_only_disk_everything_is_read_and_nothing_is_kept(tmp_path: Path) -> None:
    on_a_disk("read_only_disk", tmp_path / "disk", "size=4m")


@requirement("store:read-only-folder")
def test_in_folders_that_we_may_not_write_to_everything_is_read_and_nothing_is_kept(open_folder: Path) -> None:
    without_rights("read_only_rights", open_folder / "disk")


@requirement("store:no-permission")
@pytest.mark.parametrize("scene", ["no_rights", "somebody_elses"])
def test_a_folder_or_a_file_that_we_may_not_read_is_named(scene: str, open_folder: Path) -> None:
    without_rights(scene, open_folder / "disk")


@requirement("store:no-permission")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_data_folder_that_was_given_away_is_refused_even_to_root(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    refused(lambda: DirectoryStore(str(home)), StoreUnsafe, str(home), "belongs to user 65534", "--home")


@requirement("store:no-permission")
def test_a_file_in_the_place_of_the_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("I am not a folder")
    refused(lambda: DirectoryStore(str(tmp_path / "home")), StoreUnsafe, str(tmp_path / "home"), "not a folder")
    refused(lambda: DirectoryStore(str(tmp_path / "home" / "below")), StoreFault, str(tmp_path / "home" / "below"))


# Links


@requirement("store:symlink-confined")
def test_a_link_in_the_place_of_the_data_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "home").symlink_to(elsewhere)
    refused(lambda: DirectoryStore(str(tmp_path / "home")), StoreUnsafe, str(tmp_path / "home"), "symbolic link")
    assert list(elsewhere.iterdir()) == []


@requirement("store:symlink-confined")
def test_a_data_folder_replaced_by_a_link_while_in_use_is_refused(tmp_path: Path) -> None:
    """STORE-044."""
    home, elsewhere = tmp_path / "home", tmp_path / "etc"
    elsewhere.mkdir()
    with opened(home) as store:
        session = store.open_session("a session")
        facts = keep(store, session, b"kept before")
        home.rename(tmp_path / "homex")
        home.symlink_to(elsewhere)
        for action in (
            lambda: keep(store, session, b"kept after"),
            lambda: store.begin(session, Origin()),
            lambda: store.open(facts),
            lambda: store.resolve(session, facts.handle),
            lambda: store.outputs(session),
            lambda: store.open_session("another"),
            lambda: upkeep.sweep(store),
        ):
            refused(action, StoreUnsafe, str(home), "link")
    assert list(elsewhere.iterdir()) == []
    home.unlink()
    (tmp_path / "homex").rename(home)
    with opened(home) as store:
        assert [contents(store, one) for one in listed(store)] == [b"kept before"]


@requirement("store:symlink-confined")
@pytest.mark.parametrize("inside", ["", "names", "terminal"])
def test_a_folder_of_the_store_replaced_by_a_link_leads_nowhere(inside: str, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    with opened(home) as store:
        session = store.open_session("a session")
        text = keep(store, session, b"a text")
        log = store.put(session, [b"a log"], Origin(terminal=True))
    folder = home / "names" if inside == "names" else home / f"session-{session.id}" / inside
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    before = _picture(elsewhere)
    with opened(home) as store:
        for action in (
            lambda: contents(store, store.resolve(session, text.handle)),
            lambda: contents(store, store.resolve(session, log.handle)),
            lambda: keep(store, session, b"a new one"),
            lambda: store.put(session, [b"a new log"], Origin(terminal=True)),
            lambda: store.open_session("a session"),
            lambda: store.open_session("another session"),
            lambda: listed(store),
            lambda: upkeep.sweep(store),
        ):
            with contextlib.suppress(HoldallError):
                assert inside or action() not in (b"a text", b"a log")
    assert _picture(elsewhere) == before


# Gone


@requirement("store:folder-removed")
def test_when_the_data_folder_is_removed_the_reader_is_told_and_the_next_output_makes_it_anew(tmp_path: Path) -> None:
    """STORE-043."""
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session("a session")
        facts = keep(store, session, b"kept before")
        shutil.rmtree(home)
        for action in (
            lambda: store.open(facts),
            lambda: store.resolve(session, facts.handle),
            lambda: store.outputs(session),
        ):
            refused(action, StoreGone, str(home), "removed")
        assert not home.exists()
        again = keep(store, session, b"kept after")
        assert not [one for one in descriptors() if str(home) in one and one.endswith("(deleted)")]
        assert contents(store, store.resolve(session, again.handle)) == b"kept after"
        refused(lambda: store.resolve(session, facts.handle), UnknownHandle, again.handle)
    with opened(home) as store:
        found = store.find_session("a session")
        assert found == session
        assert contents(store, store.resolve(session, again.handle)) == b"kept after"


@requirement("store:folder-removed")
@pytest.mark.parametrize("which", ["home", "session"])
def test_whatever_is_written_next_makes_a_folder_that_was_removed_anew(tmp_path: Path, which: str) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session("a session")
        for write in (
            lambda: store.append_events(session, b"{}\n"),
            lambda: store.append_transcript(session, b"{}\n"),
            lambda: store.save_tree(session, b"{}"),
            lambda: store.remember(session, "ab" * 16, "cd" * 16, b"a note"),
            lambda: store.claim(session, "a name"),
            lambda: store.lease(session, "us").__enter__(),
            lambda: store.begin(session, Origin()),
            lambda: keep(store, session, b"kept"),
        ):
            shutil.rmtree(home if which == "home" else home / f"session-{session.id}")
            for read in (
                lambda: store.tree(session),
                lambda: store.transcript(session),
                lambda: store.notes(session),
                lambda: store.recall(session, "ab" * 16, "cd" * 16),
                lambda: store.log_length(session, "events"),
                lambda: store.outputs(session),
            ):
                refused(read, StoreGone, "removed")
            write()
            assert store.find_session("a session") == session


@requirement("store:folder-removed")
def test_when_the_folder_of_a_session_is_removed_the_next_output_makes_it_anew(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        session, other = store.open_session("a session"), store.open_session("another session")
        lost, safe = keep(store, session, b"in the one"), keep(store, other, b"in the other")
        shutil.rmtree(home / f"session-{session.id}")
        refused(lambda: store.resolve(session, lost.handle), StoreGone, "a session", str(home))
        assert contents(store, store.resolve(other, safe.handle)) == b"in the other"
        again = keep(store, session, b"kept after")
        assert contents(store, store.resolve(session, again.handle)) == b"kept after"


@requirement("store:folder-removed")
def test_a_session_whose_folder_was_removed_can_be_opened_again_by_its_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session("a session")
        keep(store, session, b"kept before")
    shutil.rmtree(home / f"session-{session.id}")
    with opened(home) as store:
        assert store.find_session("a session") is None
        anew = store.open_session("a session")
        facts = keep(store, anew, b"kept after")
    with opened(home) as store:
        assert store.open_session("a session") == anew
        assert contents(store, store.resolve(anew, facts.handle)) == b"kept after"


@requirement("store:folder-removed")
def test_when_the_folder_goes_while_an_output_is_being_written_no_handle_is_given_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session("a session")

        def pieces() -> Iterator[bytes]:
            yield b"the first part"
            shutil.rmtree(home)
            yield b"the second part"

        refused(lambda: store.put(session, pieces(), Origin()), StoreGone, str(home))
        assert contents(store, keep(store, session, b"kept after")) == b"kept after"

        def moved() -> Iterator[bytes]:
            yield b"the first part"
            home.rename(tmp_path / "elsewhere")
            home.mkdir(mode=0o700)

        refused(lambda: store.put(session, moved(), Origin()), StoreGone, str(home), "replaced by another one")


@requirement("store:folder-removed")
@pytest.mark.parametrize("name", ["terminal", "names"])
def test_a_folder_inside_that_goes_while_in_use_is_made_anew(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session("a session")
        log = store.put(session, [b"a log"], Origin(terminal=True))
        text = keep(store, session, b"a text")
        shutil.rmtree(home / "names" if name == "names" else home / f"session-{session.id}" / name)
        assert contents(store, store.resolve(session, text.handle)) == b"a text"
        if name == "terminal":
            refused(lambda: store.open(log), StoreFault, log.handle, "removed from the store by hand")
        again = store.put(session, [b"another log"], Origin(terminal=True))
        assert contents(store, store.resolve(session, again.handle)) == b"another log"
        other = store.open_session("another session")
        assert store.open_session("a session") == session
        assert not [one for one in descriptors() if one.endswith(f"{name} (deleted)")]
    with opened(home) as store:
        assert store.open_session("another session") == other
        assert store.open_session("a session") == session


def _picture(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
