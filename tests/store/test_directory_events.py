"""The log of a session on disk: several processes append to it, writers are killed, disks are full."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from holdall.store import files, records
from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import StoreFault, StoreFull, StoreUnsafe
from tests.requirements import requirement
from tests.store.support import Clock, folder_of, keep
from tests.store.test_contract_events import assert_all_there

LOG = "events.ndjson"
WRITERS = 3
EACH = 150

WRITER = """
    import sys
    from holdall.store.directory.store import DirectoryStore
    from tests.store.test_contract_events import line

    home, name, each = sys.argv[1:]
    store = DirectoryStore(home)
    session = store.open_session("shared")
    print("ready", flush=True)
    sys.stdin.readline()  # all of them start at once
    seen, at = b"", 0
    for number in range(int(each)):
        store.append_events(session, line(name, number))
        # Whoever follows the log meanwhile sees whole lines, and its own among them.
        part, at, bad = store.events_from(session, at)
        seen += part
        assert not bad and seen.endswith(b"\\n") and line(name, number) in part
    store.close()
    sys.stdout.buffer.write(seen)
"""


@requirement("store:events-appended")
def test_several_processes_append_to_one_log_and_none_of_their_events_is_lost(home: Path) -> None:
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", dedent(WRITER), str(home), str(number), str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    seen = [writer.communicate(timeout=60)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    store = DirectoryStore(str(home))
    data = store.events_from(store.open_session("shared"), 0).lines
    store.close()
    assert_all_there(data, {str(number) for number in range(WRITERS)}, each=EACH)
    assert all(data.startswith(part) for part in seen)
    assert data in seen  # whoever wrote last saw everything


def test_a_line_that_a_killed_writer_left_unfinished_costs_no_other(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    folder_store.append_events(folder_session, b'{"n":1}\n')
    path = folder_of(home, folder_session) / LOG
    path.write_bytes(path.read_bytes() + b'{"n":2,"tex')
    assert folder_store.events_from(folder_session, 0) == (b'{"n":1}\n', 35, ())
    folder_store.append_events(folder_session, b'{"n":3}\n')
    assert path.read_bytes()[35:54] == b'{"n":2,"tex\n{"n":3,'
    torn = (2, 35, "it was not written to its end")
    assert folder_store.events_from(folder_session, 35) == (b'{"n":3}\n', 82, (torn,))


@requirement("store:events-appended")
def test_nobody_writes_into_a_line_that_is_half_written(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write, real_flock, there = os.write, fcntl.flock, threading.Event()
    other = threading.Thread(target=folder_store.append_events, args=(folder_session, b'{"by":"other"}\n'))

    def write(descriptor: int, data: Any) -> int:
        """Ours is written in two parts, and between them the other one tries."""
        if threading.current_thread() is other:
            written = real_write(descriptor, data)
            there.set()
            return written
        written = real_write(descriptor, memoryview(data)[:4])
        if not other.ident:
            other.start()
            assert there.wait(timeout=100)
        return written

    def flock(descriptor: int, operation: int) -> None:
        if threading.current_thread() is other:
            there.set()  # it waits from here on, until ours is whole
        real_flock(descriptor, operation)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(fcntl, "flock", flock)
    folder_store.append_events(folder_session, b'{"by":"us"}\n')
    other.join()
    assert folder_store.events_from(folder_session, 0)[0] == b'{"by":"us"}\n{"by":"other"}\n'


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the disk takes four bytes, and then no more until this is undone."""
    real = os.write
    taken: list[int] = []

    def write(descriptor: int, data: Any) -> int:
        if taken:
            raise OSError(errno.ENOSPC, "full")
        taken.append(4)
        return real(descriptor, memoryview(data)[:4])

    monkeypatch.setattr(os, "write", write)


def test_what_a_full_disk_took_of_a_line_is_taken_back(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_store.append_events(folder_session, b'{"n":1}\n')
    fill_disk(monkeypatch)
    with pytest.raises(StoreFull, match="no space left while writing an event"):
        folder_store.append_events(folder_session, b'{"n":2}\n')
    assert len((folder_of(home, folder_session) / LOG).read_bytes()) == 35
    monkeypatch.undo()
    folder_store.append_events(folder_session, b'{"n":2}\n')
    assert folder_store.events_from(folder_session, 0) == (b'{"n":1}\n{"n":2}\n', 70, ())


def test_what_cannot_be_taken_back_is_ended_before_the_next_line(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int, _size: int) -> None:
        raise OSError(errno.EIO, "broken")

    fill_disk(monkeypatch)
    monkeypatch.setattr(os, "ftruncate", refused)
    with pytest.raises(StoreFull):
        folder_store.append_events(folder_session, b'{"n":1}\n')
    assert folder_store.events_from(folder_session, 0) == (b"", 0, ())
    monkeypatch.undo()
    folder_store.append_events(folder_session, b'{"n":2}\n')
    assert folder_store.events_from(folder_session, 0) == (
        b'{"n":2}\n', 40, ((1, 0, "it was not written to its end"),)
    )  # fmt: skip


@pytest.mark.timeout(20)  # a FIFO that is opened in the plain way waits for its other end
@pytest.mark.parametrize("place", ["link", "dangling link", "fifo", "folder"])
def test_what_stands_in_the_place_of_the_log_is_neither_read_nor_written(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, tmp_path: Path, place: str
) -> None:
    path, target = folder_of(home, folder_session) / LOG, tmp_path / "precious"
    match place:
        case "link":
            target.write_bytes(b'{"of":"another"}\n')
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to(target)
        case "fifo":
            os.mkfifo(path)
        case _:
            path.mkdir()
    refusal = StoreFault if place == "folder" else StoreUnsafe
    before = target.read_bytes() if target.exists() else None
    with pytest.raises(refusal):
        folder_store.append_events(folder_session, b"{}\n")
    with pytest.raises(StoreUnsafe):
        folder_store.events_from(folder_session, 0)
    assert (target.read_bytes() if target.exists() else None) == before
    # Outputs do not depend on their log.
    assert keep(folder_store, folder_session, "x").measure.bytes == 1


def test_gc_leaves_the_log_alone(folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock) -> None:
    keep(folder_store, folder_session, "x")
    folder_store.append_events(folder_session, b"{}\n")
    clock.pass_days(4000)
    swept = upkeep.sweep(folder_store)
    assert (len(swept.expired), swept.leftovers) == (1, ())
    assert folder_store.events_from(folder_session, 0) == (b"{}\n", 29, ())


def test_a_newline_that_has_become_another_byte_is_named(
    folder_store: DirectoryStore, folder_session: SessionInfo
) -> None:
    for number in (1, 2):
        folder_store.append_events(folder_session, b'{"n":%d}\n' % number)
    log = folder_of(Path(folder_store.home), folder_session) / "events.ndjson"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    assert folder_store.events_from(folder_session, 0).bad == (), "this may be what a writer has come to"
    log.write_bytes(whole[:-1] + b"\x0b")
    found = folder_store.events_from(folder_session, 0)
    assert (found.lines, found.end) == (b'{"n":1}\n', len(whole) // 2)
    assert found.bad == ((2, len(whole) // 2, "the end of the line is damaged"),)
    assert [one.problem for one in folder_store.verify([folder_session]) if one.problem]


@pytest.mark.parametrize("tail", [b"", b"x", b"x" * 65_536, b"x" * 200_000], ids=len)
@pytest.mark.parametrize("head", [b"", b"\n", b"{}\n", b"{}\n" * 30_000], ids=len)
def test_a_log_is_as_long_as_its_whole_lines(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, head: bytes, tail: bytes
) -> None:
    (folder_of(home, folder_session) / LOG).write_bytes(head + tail)
    assert folder_store.log_length(folder_session, "events") == len(head)


def test_a_part_of_a_log_is_whole_also_where_a_disk_gives_few_bytes_at_a_time(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_store.append_events(folder_session, b'{"at":1.0,"event":"turn"}\n' * 3)

    def pread(file: int, length: int, start: int) -> bytes:
        return os.pread(file, min(length, 3), start)

    monkeypatch.setattr(files, "pread", pread)
    whole = folder_store.read_log(folder_session, "events", 0, 10_000)
    assert whole.count(b"\n") == 3
    assert folder_store.read_log(folder_session, "events", 7, 20) == whole[7:20]


@requirement("store:removed")
def test_of_a_removed_output_nothing_is_left_in_a_line_that_nobody_finished(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    facts = keep(folder_store, folder_session, "secret")
    log = folder_of(home, folder_session) / LOG
    log.write_bytes(b'{"preview":"secr')
    folder_store.remove(folder_session, [facts])
    assert log.read_bytes() == b""
    folder_store.append_events(folder_session, b'{"at":1.0,"event":"turn"}\n')
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"preview":"secr')
    folder_store.remove(folder_session, [facts])
    assert log.read_bytes() == whole


@requirement("store:removed")
def test_of_a_removed_output_nothing_is_left_that_another_process_wrote_while_the_log_was_waited_for(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = keep(folder_store, folder_session, "secret")
    folder_store.append_events(folder_session, b'{"at":1.0,"event":"turn"}\n')
    real = files.flock

    def flock(file: int, operation: int) -> None:
        if os.readlink(f"/dev/fd/{file}").endswith(LOG):
            monkeypatch.setattr(files, "flock", real)
            told = b'{"at":2.0,"event":"asked","handle":"%s","preview":"secret"}\n' % facts.handle.encode()
            folder_store.append_events(folder_session, told)
        real(file, operation)

    monkeypatch.setattr(files, "flock", flock)
    folder_store.expire(folder_session, [facts], "for a test")
    found = folder_store.events_from(folder_session, 0)
    assert (found.lines.count(b"\n"), found.lines.count(facts.handle.encode()), found.bad) == (2, 1, ())
    assert b"secret" not in (folder_of(home, folder_session) / LOG).read_bytes()


@requirement("store:removed")
def test_of_a_removed_output_nothing_is_left_in_a_line_that_is_too_long_to_be_read(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "LONGEST_LINE", 2_500_000)
    facts = keep(folder_store, folder_session, "secret")
    log = folder_of(home, folder_session) / LOG
    log.write_bytes(b"secret" * 500_000 + b"\n")
    told = b'{"at":2.0,"event":"asked","handle":"%s","preview":"secret"}\n' % facts.handle.encode()
    folder_store.append_events(folder_session, told)
    before = log.read_bytes()
    folder_store.remove(folder_session, [facts])
    after = log.read_bytes()
    assert after[:3_000_001] == b" " * 3_000_000 + b"\n"
    assert len(after) == len(before)
    assert b"secret" not in after
    assert facts.handle.encode() in after
