"""Waiting for a file to change, by the system or by its writer: no change is missed, and none is told twice."""

import asyncio
import errno
import fcntl
import os
import resource
import select
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdall.store.memory_files import new_tree
from holdall.store.watch import FileWatch, ToldWatch

pytestmark = pytest.mark.anyio
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


async def is_told(watch: FileWatch | ToldWatch) -> bool:
    """Whether there was a change since the last time. What has happened is known to the loop at its next look."""
    task = asyncio.create_task(watch.changed())
    for _ in range(5):
        await asyncio.sleep(0)
    if task.done():
        task.result()
        return True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return False


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    return path


@pytest.fixture
def file(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


@on_linux
async def test_a_write_and_a_close_are_told_once_and_reading_is_none(path: Path, file: int) -> None:
    before = descriptors()
    watch = FileWatch(file)
    assert not await is_told(watch)
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"y")
    assert await is_told(watch)
    assert not await is_told(watch)
    os.close(writer)
    for _ in range(5):  # while nobody waits
        await asyncio.sleep(0)
    assert await is_told(watch)
    assert os.pread(file, 9, 0) == b"y"
    assert not await is_told(watch)
    waiting = asyncio.create_task(watch.changed())
    await asyncio.sleep(0)
    os.truncate(path, 0)
    await asyncio.wait_for(waiting, 60)
    watch.close()
    assert not descriptors() - before


@on_linux
def test_a_file_that_cannot_be_watched_is_an_error_and_leaves_nothing_open(file: int) -> None:
    before = descriptors()
    with pytest.raises(FileNotFoundError) as refused:
        FileWatch(1 << 20)  # no descriptor is as large
    assert refused.value.strerror == os.strerror(errno.ENOENT)
    assert not descriptors() - before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)) as refused:
            FileWatch(file)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refused.value.errno == errno.EMFILE


class Queue:
    """As of macOS: each byte in a pipe is an event."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.watched: list[int] = []

    def fileno(self) -> int:
        return self.reading

    def control(self, changes: list[Any] | None, most: int, timeout: float = -1) -> None:
        if changes:
            self.watched += [change.ident for change in changes if change.fflags & change.flags == 1]
            assert most == 0
        else:
            assert timeout == 0
            os.read(self.reading, most)

    def close(self) -> None:
        os.close(self.reading)
        os.close(self.writing)


async def test_a_queue_of_the_system_is_told_what_to_watch_and_asked(
    file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue()
    notes = {"KQ_NOTE_WRITE": 3, "KQ_NOTE_EXTEND": 5, "KQ_NOTE_ATTRIB": 9, "KQ_EV_ADD": 17, "KQ_EV_CLEAR": 33}

    def event(ident: int, *, filter: int, flags: int, fflags: int) -> SimpleNamespace:
        assert (filter, flags, fflags) == (7, 49, 15)
        return SimpleNamespace(ident=ident, flags=flags, fflags=fflags)

    for name, value in {**notes, "KQ_FILTER_VNODE": 7, "kqueue": lambda: queue, "kevent": event}.items():
        monkeypatch.setattr(select, name, value, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    watch = FileWatch(file)
    (watched,) = queue.watched
    assert watched != file
    assert os.fstat(watched) == os.fstat(file)
    assert not await is_told(watch)
    os.write(queue.writing, b"!")
    assert await is_told(watch)
    assert not await is_told(watch)
    watch.close()
    for closed in (queue.reading, watched):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.fstat(closed)


async def test_what_a_writer_tells_is_told_once_from_any_thread() -> None:
    watches: set[Callable[[], None]] = set()
    watch = ToldWatch(watches)
    (notify,) = watches
    assert not await is_told(watch)
    notify()
    notify()
    assert await is_told(watch)
    assert not await is_told(watch)
    wrong: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, about: wrong.append(about))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    waiting = asyncio.create_task(watch.changed())
    await asyncio.sleep(0)
    for _ in range(2):
        thread = threading.Thread(target=notify)
        thread.start()
        thread.join()
    await asyncio.wait_for(waiting, 60)
    assert not await is_told(watch)
    assert not wrong
    watch.close()
    assert not watches


async def test_a_file_in_memory_tells_of_every_write_and_of_its_end() -> None:
    file = new_tree().open("a", os.O_RDWR | os.O_CREAT)
    watch = ToldWatch(file.data.watches)
    file.flock(fcntl.LOCK_EX)
    assert not await is_told(watch)
    file.write(b"x")
    assert await is_told(watch)
    file.close()
    assert await is_told(watch)


def test_a_loop_that_was_closed_while_it_waited_is_not_told() -> None:
    watches: set[Callable[[], None]] = set()
    watch = ToldWatch(watches)
    loop = asyncio.new_event_loop()
    task = loop.create_task(watch.changed())
    loop.run_until_complete(asyncio.sleep(0))
    (notify,) = watches
    loop.close()
    notify()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
