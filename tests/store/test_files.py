"""Files in memory behave as files on disk do: one test for both, as far as the store uses them."""

import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdall.store import files, memory_files
from holdall.store.directory import disk
from holdall.store.memory_files import SMALL, Handle, new_tree

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL


@pytest.fixture(params=["disk", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    folder: int = new_tree() if request.param == "memory" else os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield folder
    files.close(folder)


def put(name: str, data: bytes, folder: int) -> None:
    file = files.open(name, NEW, dir_fd=folder)
    files.write_all(file, data)
    files.close(file)


def refused(number: int, call: Callable[[], object]) -> None:
    with pytest.raises(OSError, match=r".") as raised:
        call()
    assert raised.value.errno == number


def descriptors() -> set[str]:
    return set(os.listdir("/dev/fd"))


def test_names_are_made_moved_and_removed(root: int) -> None:
    put("a", b"one", root)
    files.link("a", "b", dir_fd=root)
    assert files.stat("a", dir_fd=root).st_ino == files.stat("b", dir_fd=root).st_ino
    assert files.stat("a", dir_fd=root).st_nlink == 2
    files.mkdir("sub", 0o700, dir_fd=root)
    sub = files.open("sub", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    files.rename("b", "c", src_dir_fd=root, dst_dir_fd=sub)
    assert sorted(disk.names_in(root)) == ["a", "sub"]
    assert files.stat("sub/c", dir_fd=root).st_size == 3
    put("d", b"other", root)
    opened = files.open("a", os.O_RDONLY, dir_fd=root)
    files.unlink("c", dir_fd=sub)
    files.rename("d", "a", src_dir_fd=root, dst_dir_fd=root)
    assert files.fstat(opened).st_nlink == 0
    assert (files.pread(opened, 99, 0), disk.read_file("a", inside=root)) == (b"one", b"other")
    files.rmdir("sub", dir_fd=root)
    assert files.fstat(sub).st_nlink == 0
    refused(errno.ENOENT, lambda: files.open("x", NEW, dir_fd=sub))
    files.close(sub)
    files.close(opened)


def test_what_cannot_be_is_refused_with_the_same_number(root: int) -> None:
    put("file", b"", root)
    files.mkdir("folder", 0o700, dir_fd=root)
    folder = files.open("folder", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    put("inner", b"", folder)
    refused(errno.ENOENT, lambda: files.open("x", os.O_RDONLY, dir_fd=root))
    refused(errno.ENOENT, lambda: files.stat("x", dir_fd=root))
    refused(errno.ENOENT, lambda: files.unlink("x", dir_fd=root))
    refused(errno.ENOENT, lambda: files.rename("x", "y", src_dir_fd=root, dst_dir_fd=root))
    refused(errno.EEXIST, lambda: files.open("file", NEW, dir_fd=root))
    refused(errno.EEXIST, lambda: files.mkdir("file", 0o700, dir_fd=root))
    refused(errno.EEXIST, lambda: files.link("file", "folder", dir_fd=root))
    refused(errno.ENOTDIR, lambda: files.open("file", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root))
    refused(errno.ENOTDIR, lambda: files.stat("file/x", dir_fd=root))
    refused(errno.ENOTEMPTY, lambda: files.rmdir("folder", dir_fd=root))
    refused(errno.EISDIR, lambda: files.unlink("folder", dir_fd=root))
    refused(errno.EISDIR, lambda: files.pread(folder, 1, 0))
    files.mkdir("other", 0o700, dir_fd=root)
    refused(errno.ENOTEMPTY, lambda: files.rename("other", "folder", src_dir_fd=root, dst_dir_fd=root))
    file = files.open("file", os.O_RDONLY, dir_fd=root)
    refused(errno.ENOTDIR, lambda: files.mkdir("x", 0o700, dir_fd=file))
    files.close(file)
    again = files.open("file", os.O_RDWR | os.O_CREAT, dir_fd=root)
    assert files.fstat(again).st_ino == files.stat("file", dir_fd=root).st_ino
    files.close(again)
    assert [stat.S_IFMT(files.stat(name, dir_fd=root).st_mode) for name in ("file", "folder")] == [
        stat.S_IFREG,
        stat.S_IFDIR,
    ]
    files.close(folder)


@pytest.mark.parametrize("size", [10, SMALL - 1, SMALL, SMALL + 1])
def test_bytes_are_appended_changed_in_place_and_cut_off(root: int, size: int) -> None:
    put("log", b"x" * size, root)
    before = files.stat("log", dir_fd=root)
    file = files.open("log", os.O_RDWR | os.O_APPEND, dir_fd=root)
    files.write_all(file, b"end\n")
    assert files.fstat(file).st_size == size + 4
    assert files.fstat(file).st_mtime_ns >= before.st_mtime_ns
    files.ftruncate(file, size + 1)
    files.close(file)
    file = files.open("log", os.O_RDWR, dir_fd=root)
    files.write_all(file, b"xx")
    files.lseek(file, 3)
    files.write_all(file, b"yy")
    assert files.pread(file, 7, 0) == b"xxxyyxx"
    assert files.pread(file, 9, size) == b"e"
    assert files.pread(file, 9, size + 1) == b""
    files.utime(file, 1_000_000_000.0)
    assert files.fstat(file).st_mtime == 1_000_000_000.0
    files.close(file)
    assert disk.read_file("log", inside=root) == b"xxxyy" + b"x" * (size - 5) + b"e"


def test_a_shared_lock_is_held_until_the_last_of_its_handles_is_closed(root: int) -> None:
    put("lock", b"", root)
    first, second, alone = (files.open("lock", os.O_RDWR, dir_fd=root) for _ in range(3))
    for sharer in (first, second):
        files.flock(sharer, fcntl.LOCK_SH | fcntl.LOCK_NB)
    files.close(first)
    refused(errno.EWOULDBLOCK, lambda: files.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB))
    files.close(second)
    files.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    files.close(alone)


def test_who_waits_for_a_file_in_memory_has_it_when_the_last_who_shares_it_lets_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree, waits, lock = new_tree(), threading.Event(), memory_files._lock  # pyright: ignore[reportPrivateUsage]
    wait = lock.wait

    def waiting() -> bool:
        waits.set()
        return wait()

    monkeypatch.setattr(lock, "wait", waiting)
    first, second = (tree.open("lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    files.flock(first, fcntl.LOCK_SH)
    thread = threading.Thread(target=files.flock, args=(second, fcntl.LOCK_EX), daemon=True)
    thread.start()
    assert waits.wait(60)
    files.flock(first, fcntl.LOCK_UN)
    thread.join(60)
    assert not thread.is_alive()


def test_a_change_in_memory_is_always_seen_by_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    file = new_tree().open("a", os.O_RDWR | os.O_CREAT)
    times: list[int] = []
    for _ in range(3):
        files.write_all(file, b"x")
        times.append(files.fstat(file).st_mtime_ns)
    assert times == sorted(set(times))


def test_where_there_is_no_room_for_a_large_file_in_memory_its_writer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    file = new_tree().open("a", os.O_RDWR | os.O_CREAT)
    files.write_all(file, b"x")

    def full(_descriptor: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    before = descriptors()
    refused(errno.ENOSPC, lambda: files.write_all(file, b"x" * SMALL))
    assert descriptors() <= before
    assert files.pread(file, 9, 0) == b"x"


def test_where_descriptors_have_no_names_a_program_reads_by_a_copy_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str, _flags: int) -> int:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "open", missing)
    file = new_tree().open("a", os.O_RDWR | os.O_CREAT)
    files.write_all(file, b"some")
    with files.local_file(file) as descriptor:
        assert os.pread(descriptor, 9, 0) == b"some"


def test_a_file_is_for_its_owner_and_its_mode_is_changed_only_where_it_is_another(
    root: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a", b"", root)
    file = files.open("a", os.O_RDWR, dir_fd=root)
    assert stat.S_IMODE(files.fstat(file).st_mode) == 0o600
    is_memory = isinstance(root, Handle)
    files.fchmod(file, 0o640)
    assert stat.S_IMODE(files.fstat(file).st_mode) == (0o600 if is_memory else 0o640)
    files.chmod("a", 0o600, dir_fd=root)
    assert stat.S_IMODE(files.fstat(file).st_mode) == 0o600
    changes: list[int] = []
    monkeypatch.setattr(os, "fchmod", lambda _file, mode: changes.append(mode))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    files.fchmod(file, 0o600)
    assert changes == []
    files.close(file)


def test_only_what_is_on_disk_is_synced(root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    put("a", b"", root)
    file = files.open("a", os.O_RDWR, dir_fd=root)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.fsync(file)
    assert synced == ([] if isinstance(root, Handle) else [file])
    files.close(file)


@pytest.mark.parametrize("size", [10, SMALL + 1])
def test_a_program_reads_the_same_bytes_by_a_descriptor(root: int, size: int) -> None:
    put("a", b"x" * size, root)
    file = files.open("a", os.O_RDONLY, dir_fd=root)
    before = descriptors()
    with files.local_file(file) as descriptor:
        assert os.pread(descriptor, size + 1, 0) == b"x" * size
    assert descriptors() <= before
    files.close(file)


def test_a_link_on_disk_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    files.link("link", "other", dir_fd=folder)
    for name in ("link", "other"):
        assert stat.S_ISLNK(files.stat(name, dir_fd=folder).st_mode)
    os.close(folder)


def test_a_lock_is_held_by_one_handle_until_it_is_closed(root: int) -> None:
    put("lock", b"", root)
    first, second = (files.open("lock", os.O_RDWR, dir_fd=root) for _ in range(2))
    assert not disk.is_held(second)
    files.flock(first, fcntl.LOCK_EX)
    assert disk.is_held(second)
    refused(errno.EWOULDBLOCK, lambda: files.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
    waiting = threading.Thread(target=files.flock, args=(second, fcntl.LOCK_EX), daemon=True)
    waiting.start()
    files.close(first)
    waiting.join(timeout=100)
    assert not waiting.is_alive()
    third = files.open("lock", os.O_RDONLY, dir_fd=root)
    assert disk.is_held(third)
    files.close(second)
    assert not disk.is_held(third)
    files.close(third)
