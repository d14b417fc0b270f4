"""What sessions are called, lost or damaged: their outputs stay where they are."""

import shutil
from pathlib import Path

import pytest

from holdall.store.protocol import SessionInfo
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts
from tests.faults.checker import contents, opened
from tests.faults.confined import keep
from tests.faults.flips import flipped, sample
from tests.faults.harness import FULL
from tests.requirements import requirement

pytestmark = pytest.mark.faults

SMALL = b"what was kept in the session\n"


@pytest.fixture
def three(scratch: Path) -> tuple[Path, SessionInfo, Facts]:
    home = scratch / "home"
    with opened(home) as store:
        store.open_session("an older session")
        session = store.open_session("a session")
        facts = keep(store, session, SMALL, "a call")
        store.open_session("a newer session")
    return home, session, facts


@requirement("store:removed-by-hand")
@pytest.mark.parametrize("what", ["names", "claims", "session.json", "names and index"])
def test_a_session_that_lost_a_file_of_its_own_keeps_its_outputs(
    what: str, three: tuple[Path, SessionInfo, Facts]
) -> None:
    home, session, facts = three
    if what == "session.json":
        (home / f"session-{session.id}" / "session.json").unlink()
    elif what == "claims":
        for path in (home / "names").iterdir():
            path.unlink()
    else:
        shutil.rmtree(home / "names")
    if what == "names and index":
        (home / "index.sqlite").unlink()
    for _ in range(2):
        with opened(home) as store:
            found = store.open_session("a session")
            assert found.id == session.id
            assert contents(store, store.resolve(found, facts.handle)) == SMALL
            assert contents(store, store.resolve(found, "a call")) == SMALL
            assert len(store.sessions()) == 3


@requirement("store:damaged-never-shown")
@pytest.mark.parametrize("what", ["session.json", "claim"])
def test_a_session_with_a_flipped_bit_in_what_it_is_called_keeps_its_outputs(
    what: str, three: tuple[Path, SessionInfo, Facts]
) -> None:
    home, session, facts = three
    claims = [path for path in (home / "names").iterdir() if session.id.encode() in path.read_bytes()]
    file = claims[0] if what == "claim" else home / f"session-{session.id}" / "session.json"
    whole = file.read_bytes()
    for bit in sample(8 * len(whole), 8 * len(whole) if FULL else 60):
        file.write_bytes(flipped(whole, bit))
        with opened(home) as store:
            try:
                by_folder = store.find_session(f"session-{session.id}")
                found = store.find_session("a session")
            except StoreFault as fault:  # the bit that makes it a session of another version
                assert "version" in str(fault)  # noqa: PT017
                continue
            assert found is not None
            assert found.id == session.id
            assert by_folder is not None
            assert contents(store, store.resolve(found, facts.handle)) == SMALL
            assert contents(store, store.resolve(by_folder, facts.handle)) == SMALL
