"""The log of a session: whole lines in the order in which they came, from whoever appends, and none of them lost."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import StoreFault, StoreFull, StoreUnsafe
from tests.requirements import requirement
from tests.store.support import Clock, StoreMaker, folder_of, keep

LOG = "events.ndjson"


# ── Every store ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_session_has_no_events(store: OutputStore, session: SessionInfo) -> None:
    assert store.events_from(session, 0) == (b"", 0)
    keep(store, session, "x")
    assert store.events_from(session, 0) == (b"", 0)


def test_events_come_back_in_their_order_from_wherever_one_left_off(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n')
    assert store.events_from(session, 0) == (b'{"n":1}\n', 8)
    assert store.events_from(session, 8) == (b"", 8)
    store.append_events(session, '{"é":2}\n{"n":3}\n'.encode())
    assert store.events_from(session, 8) == ('{"é":2}\n{"n":3}\n'.encode(), 25)
    assert store.events_from(session, 0) == ('{"n":1}\n{"é":2}\n{"n":3}\n'.encode(), 25)
    assert store.events_from(session, 17) == (b'{"n":3}\n', 25)


def test_a_place_past_the_end_has_no_events_yet(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b"{}\n")
    assert store.events_from(session, 100) == (b"", 100)


def test_a_log_of_any_length_is_read_whole(store: OutputStore, session: SessionInfo) -> None:
    lines = b"".join(b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * 1000) for number in range(3000))
    store.append_events(session, lines)
    assert store.events_from(session, 0) == (lines, len(lines))


def test_each_session_has_a_log_of_its_own(store: OutputStore, session: SessionInfo) -> None:
    other = store.open_session("s2")
    store.append_events(session, b"{}\n")
    assert store.events_from(other, 0) == (b"", 0)


def test_the_log_is_that_of_the_session_whoever_opens_it(make_store: StoreMaker) -> None:
    first, second = make_store(), make_store()
    session = first.open_session("s")
    first.append_events(session, b'{"by":1}\n')
    second.append_events(second.open_session("s"), b'{"by":2}\n')
    first.close()
    again = make_store()
    assert again.events_from(again.open_session("s"), 0) == (b'{"by":1}\n{"by":2}\n', 18)


def test_a_torn_last_line_is_passed_over_and_ended_before_the_next(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n{"n":')
    assert store.events_from(session, 0) == (b'{"n":1}\n', 8)
    assert store.events_from(session, 8) == (b"", 8)
    store.append_events(session, b'{"n":3}\n')
    assert store.events_from(session, 8) == (b'{"n":\n{"n":3}\n', 22)
    store.append_events(session, b'{"n":4}\n')
    assert store.events_from(session, 22) == (b'{"n":4}\n', 30)


@requirement("store:events-appended")
def test_many_threads_append_to_one_log_and_none_of_their_events_is_lost(
    store: OutputStore, session: SessionInfo
) -> None:
    start = threading.Barrier(6)

    def append(thread: int) -> None:
        start.wait(timeout=30)
        for number in range(50):
            store.append_events(session, line(str(thread), number))

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data, end = store.events_from(session, 0)
    assert end == len(data)
    assert_all_there(data, {str(thread) for thread in range(6)}, each=50)


def line(by: str, number: int) -> bytes:
    """Of a length that is different each time."""
    return json.dumps({"by": by, "n": number, "pad": "x" * (number * 37 % 5000)}).encode() + b"\n"


def assert_all_there(data: bytes, writers: set[str], *, each: int) -> None:
    """Every event of every writer once, as it was written, in the order in which that writer wrote them."""
    lines = data.splitlines(keepends=True)
    events = [json.loads(one) for one in lines]
    assert Counter(event["by"] for event in events) == dict.fromkeys(writers, each)
    for writer in writers:
        own = [one for one, event in zip(lines, events, strict=True) if event["by"] == writer]
        assert own == [line(writer, number) for number in range(each)]


# ── The store on disk ───────────────────────────────────────────────────────────────────────────────────────

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
        part, at = store.events_from(session, at)
        seen += part
        assert seen.endswith(b"\\n") and line(name, number) in part
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
    data, _ = store.events_from(store.open_session("shared"), 0)
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
    assert folder_store.events_from(folder_session, 0) == (b'{"n":1}\n', 8)
    folder_store.append_events(folder_session, b'{"n":3}\n')
    assert path.read_bytes() == b'{"n":1}\n{"n":2,"tex\n{"n":3}\n'
    assert folder_store.events_from(folder_session, 8) == (b'{"n":2,"tex\n{"n":3}\n', 28)


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
            assert there.wait(timeout=30)
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
    assert (folder_of(home, folder_session) / LOG).read_bytes() == b'{"n":1}\n'
    monkeypatch.undo()
    folder_store.append_events(folder_session, b'{"n":2}\n')
    assert folder_store.events_from(folder_session, 0) == (b'{"n":1}\n{"n":2}\n', 16)


def test_what_cannot_be_taken_back_is_ended_before_the_next_line(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int, _size: int) -> None:
        raise OSError(errno.EIO, "broken")

    fill_disk(monkeypatch)
    monkeypatch.setattr(os, "ftruncate", refused)
    with pytest.raises(StoreFull):
        folder_store.append_events(folder_session, b'{"n":1}\n')
    assert folder_store.events_from(folder_session, 0) == (b"", 0)
    monkeypatch.undo()
    folder_store.append_events(folder_session, b'{"n":2}\n')
    assert folder_store.events_from(folder_session, 0) == (b'{"n"\n{"n":2}\n', 13)


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
    assert folder_store.events_from(folder_session, 0) == (b"{}\n", 3)
