"""Programs that run where the machine says no: a tiny disk, a read-only one, somebody else's rights.

Each scene asserts by itself; a scene that is not as it should be ends with a traceback and a status other than 0.
Everything is imported before rights are given up: afterwards the interpreter may not be readable any more.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from holdall.store.directory import upkeep
from holdall.store.directory.index import NAME
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import HoldallError, StoreFault, StoreFull, StoreUnsafe
from holdall.values.outputs import Facts, Origin
from tests.faults.checker import contents, left_over, listed

NOBODY = 65534
TEXT = b"kept while it was possible\n"


def refused(action: Callable[[], object], error: type[HoldallError], *words: str) -> str:
    """The message of an action that must be refused, with these words in it."""
    try:
        action()
    except error as problem:
        message = str(problem)
        assert all(word in message for word in words), message
        return message
    raise AssertionError(f"not refused: {words}")


def keep(store: DirectoryStore, session: SessionInfo, data: bytes, call_id: str = "") -> Facts:
    return store.put(session, [data], Origin(tool="a tool", call_id=call_id))


def tiny_disk(disk: Path) -> None:
    """One megabyte, and an output of two."""
    home = disk / "home"
    store = DirectoryStore(str(home))
    session = store.open_session("a session")
    before = keep(store, session, TEXT, "before")
    for pieces in ([b"x" * 2_000_000], [b"y" * 65_536] * 32):
        message = refused(lambda pieces=pieces: store.put(session, pieces, Origin()), StoreFull, str(home))
        assert re.search(r"keeping an output of [0-9.]+ [kM]B or more: [0-9.]+ [kM]B free", message), message
        assert [facts.handle for facts in store.outputs(session)] == [before.handle]
        assert left_over(home, listed(store)) == []
    after = keep(store, session, b"there is room for this", "after")
    writer = store.begin(session, Origin(terminal=True))
    refused(lambda: writer.write(b"z" * 2_000_000), StoreFull, "no space left", "free")
    # The disk is full to the last page now: what was written stays, and can be read.
    running = contents(store, store.resolve(session, writer.handle))
    assert 0 < len(running) < 1_000_000
    assert running == b"z" * len(running)
    refused(lambda: keep(store, session, b"n" * 50_000), StoreFull)
    writer.close()
    ended = store.resolve(session, writer.handle)
    assert ended.state == "interrupted"
    assert contents(store, ended) == running
    for facts, data in ((before, TEXT), (after, b"there is room for this")):
        assert contents(store, store.resolve(session, facts.handle)) == data
    (home / f"session-{session.id}" / ended.file).unlink()  # somebody makes room
    again = keep(store, session, b"and there is room again", "again")
    assert contents(store, store.resolve(session, "again")) == b"and there is room again"
    assert left_over(home, listed(store)) == []
    assert len({before.handle, after.handle, again.handle}) == 3
    store.close()


def read_only_disk(disk: Path) -> None:
    """Kept while it could be written to, and read afterwards, with an index and without one."""
    handles = _fill(disk)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    _read_only(disk / "home", handles, "Read-only file system")
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    for path in (disk / "home").glob(f"{NAME}*"):
        path.unlink()
    for path in (disk / "home" / "names").iterdir():
        path.unlink()
    (disk / "home" / "names").rmdir()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    _read_only(disk / "home", handles, "Read-only file system")


def read_only_rights(disk: Path) -> None:
    """The same by rights: folders that their owner may not write to."""
    handles = _fill(disk)
    folders = [path for path in [disk / "home", *(disk / "home").rglob("*")] if path.is_dir()]
    for path in folders:
        path.chmod(0o500)
    _read_only(disk / "home", handles, "Permission denied")
    for path in folders:
        path.chmod(0o700)


def no_rights(disk: Path) -> None:
    """A data folder, a session, a record and bytes that we may not read."""
    handles = _fill(disk)
    home = disk / "home"
    home.chmod(0)
    refused(lambda: DirectoryStore(str(home)), StoreFault, "Permission denied", str(home), "--home")
    home.chmod(0o700)
    store = DirectoryStore(str(home))
    session = store.open_session("a session")
    facts = store.resolve(session, handles[0])
    record = home / f"session-{session.id}" / f"{facts.handle}.record"
    bytes_file = home / f"session-{session.id}" / facts.file
    bytes_file.chmod(0)
    refused(lambda: store.open(facts), StoreFault, "Permission denied", str(home))
    assert [one.problem for one in upkeep.verify(store) if one.problem]
    bytes_file.chmod(0o600)
    record.chmod(0)
    refused(lambda: store.resolve(session, facts.handle), StoreFault, facts.handle, "Permission denied")
    record.chmod(0o600)
    assert contents(store, store.resolve(session, facts.handle)) == TEXT
    store.close()
    (home / f"session-{session.id}").chmod(0)
    store = DirectoryStore(str(home))
    refused(lambda: store.open_session("a session"), StoreFault, "Permission denied", str(home))
    store.close()


def somebody_elses(disk: Path) -> None:
    """A data folder of somebody else's, and one below a folder that we may not enter."""
    refused(lambda: DirectoryStore("/usr"), StoreUnsafe, "belongs to user 0", "--home")
    closed = disk / "closed"
    closed.mkdir(mode=0)
    refused(lambda: DirectoryStore(str(closed / "home")), StoreFault, "Permission denied", str(closed / "home"))


def _fill(disk: Path) -> list[str]:
    """Three outputs, one of them never finished."""
    store = DirectoryStore(str(disk / "home"))
    session = store.open_session("a session")
    handles = [keep(store, session, TEXT, "a call").handle]
    handles.append(store.put(session, [TEXT * 2], Origin(terminal=True)).handle)
    writer = store.begin(session, Origin())
    writer.write(TEXT * 3)
    handles.append(writer.handle)
    writer.close()
    store.close()
    return handles


def _read_only(home: Path, handles: list[str], reason: str) -> None:
    store = DirectoryStore(str(home))
    session = store.find_session("a session")
    assert session is not None
    assert store.open_session("a session") == session
    for number, handle in enumerate(handles, start=1):
        facts = store.resolve(session, handle)
        assert facts.state == ("interrupted" if number == 3 else "ready")
        assert contents(store, facts) == TEXT * number
    assert store.resolve(session, "a call").handle == handles[0]
    assert [facts.handle for facts in store.outputs(session)] == handles
    assert [one.problem for one in upkeep.verify(store)] == ["", "", ""] or _only_unsettled(store, handles)
    ready = store.resolve(session, handles[0])
    for action in (
        lambda: keep(store, session, b"more"),
        lambda: store.put(session, [b"more"], Origin(terminal=True)),
        lambda: store.begin(session, Origin()),
        lambda: store.expire(session, [ready], "for a test"),
        lambda: store.open_session("another session"),
    ):
        refused(action, StoreFault, reason, str(home), "--home")
    upkeep.sweep(store)  # nothing is over: nothing to refuse
    assert contents(store, ready) == TEXT
    store.close()


def _only_unsettled(store: DirectoryStore, handles: list[str]) -> bool:
    """An interrupted output whose record could not be rewritten has no checksums yet, and verify may say so."""
    return {one.handle for one in upkeep.verify(store) if one.problem} <= {handles[2]}


SCENES: dict[str, Callable[[Path], None]] = {
    scene.__name__: scene for scene in (tiny_disk, read_only_disk, read_only_rights, no_rights, somebody_elses)
}

if __name__ == "__main__":
    name, disk, *as_nobody = sys.argv[1:]
    if as_nobody:
        os.chown(disk, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    SCENES[name](Path(disk))
