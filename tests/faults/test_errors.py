"""Calls that fail, each in turn: what is kept is listed, errors are ours, and nothing is lost."""

import errno
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.store import DirectoryStore
from holdall.values.errors import StoreFault, UnknownHandle
from holdall.values.outputs import Origin
from tests.faults.conftest import FIRED
from tests.faults.errors import ACTS, ERRORS, KEPT, Errors, How, Work, failing, fill
from tests.faults.harness import FULL, share
from tests.requirements import requirement

pytestmark = [pytest.mark.faults, pytest.mark.in_full(one_in=2)]


@requirement("store:io-errors", "store:no-acknowledged-loss")
@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_fails_is_told_as_an_error_of_ours_and_nothing_is_lost(
    act: str, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    fill(scratch / "made")
    counted = Errors()
    assert Work(_copy(scratch)).run(act, counted) == []
    ways: list[How] = ["once", "from here", "short", "torn"]
    cases: list[tuple[int, How]] = [(number, how) for number in range(1, len(counted.calls) + 1) for how in ways]
    found: list[str] = []
    fired = 0
    for place, (number, how) in enumerate(share(cases, 31)):
        errors = Errors(number, ERRORS[(place if FULL else number) % 2 if how == "once" else place % len(ERRORS)], how)
        found += [
            f"{errno.errorcode[errors.error]} {how} at call {number} ({errors.calls[number - 1]}): {one}"
            for one in Work(_copy(scratch)).run(act, errors)
        ]
        fired += errors.fired > 0
    record_property(FIRED, f"{fired} of {len(counted.calls)} calls in {len(ways)} ways")
    assert not found, "\n".join(found)
    assert fired


@requirement("store:io-errors")
@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
def test_a_record_that_cannot_be_read_at_the_moment_is_listed_as_unreadable(error: int, scratch: Path) -> None:
    fill(scratch / "made")
    counted = Errors()
    with failing(counted), closing(DirectoryStore(str(_copy(scratch)))) as store:
        session = store.open_session("a session")
        before = len(counted.calls)
        store.outputs(session)
    calls, told = counted.calls[before:], list[str]()
    for number, call in enumerate(calls, 1):
        with closing(DirectoryStore(str(_copy(scratch)))) as store:
            session = store.open_session("a session")
            try:
                with failing(Errors(number, error)):
                    listed = store.outputs(session)
            except StoreFault:
                assert call != "read_all"
                continue
            unread = [one for one in listed if one.state == "unreadable"]
            told += [call for _ in unread]
            assert len(listed) == len(KEPT)
            assert all(one.handle in one.error for one in unread)
            assert {one.state for one in store.outputs(session)} == {"ready"}
    assert told.count("read_all") == len(KEPT)


@requirement("store:io-errors")
def test_an_output_is_not_taken_back_because_the_index_could_not_note_it(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamp(*_: object) -> str:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with closing(DirectoryStore(str(scratch / "home"))) as store:
        session = store.open_session("a session")
        monkeypatch.setattr(SessionFolder, "stamp", stamp)
        with closing(store.begin(session, Origin())) as writer:
            writer.write(b"written")
            writer.finish()
        kept = store.put(session, [b"kept"], Origin())
        monkeypatch.undo()
        assert {one.handle: one.state for one in store.outputs(session)} == {
            writer.handle: "ready",
            kept.handle: "ready",
        }
        assert [one.problem for one in store.verify()] == ["", ""]


@requirement("store:io-errors")
def test_a_call_id_is_not_unknown_while_a_record_cannot_be_read(scratch: Path) -> None:
    fill(scratch / "made")
    with closing(DirectoryStore(str(_copy(scratch)))) as store:
        session = store.open_session("a session")
        first, second = store.outputs(session)
        (record,) = (scratch / "home").rglob(f"{first.handle}.record")
        record.write_bytes(b"damaged")
        with pytest.raises(StoreFault, match=first.handle):
            store.resolve(session, "large")
        with pytest.raises(StoreFault, match=first.handle):
            store.resolve(session, first.long_handle)
        with pytest.raises(UnknownHandle):
            store.resolve(session, "zzzz")
        assert store.resolve(session, "small") == second
        listed = store.outputs(session)
        assert {one.handle: one.state for one in listed} == {first.handle: "unreadable", second.handle: "ready"}
        assert next(one for one in listed if one.state == "unreadable").long_handle == first.handle


def _copy(scratch: Path) -> Path:
    home = scratch / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(scratch / "made", home)
    return home
