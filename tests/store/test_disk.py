"""Files and folders of the store: who may not use them, what a race leaves, and what is said of each error."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.directory.store import DirectoryStore
from holdall.store.memory_files import MEMORY
from holdall.values.errors import StoreFault, StoreFull, StoreGone, StoreUnsafe
from tests.requirements import requirement
from tests.store.support import held

OTHER_HOME = "Choose another data folder: --home, HOLDALL_HOME or Holdall.open(home=…)."
OR_OTHER_HOME = f"Or: c{OTHER_HOME[1:]}"
SOMEBODY = 12_345


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[int]:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield folder
    os.close(folder)


# ── The data folder ─────────────────────────────────────────────────────────────────────────────────────────


def refused(home: Path) -> str:
    with pytest.raises(StoreUnsafe) as raised:
        DirectoryStore(str(home))
    assert held(home) == []
    return str(raised.value)


@requirement("store:no-permission")
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_data_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(mode)
    assert refused(home) == (
        f"others can write to the data folder {home} (mode {mode:04o}). Close it with: chmod 700 {home}. {OR_OTHER_HOME}"
    )
    home.chmod(0o755)  # to look is not to write
    DirectoryStore(str(home)).close()


@requirement("store:no-permission")
def test_a_folder_above_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared by all"
    shared.mkdir()
    shared.chmod(0o777)
    home = shared / "below" / "home"
    assert refused(home) == (
        f"others own or can write to {shared}, and could replace the data folder {home}. "
        f"Close it with: chmod go-w '{shared}'. {OR_OTHER_HOME}"
    )
    shared.chmod(0o1777)  # there nobody can replace what is another's
    DirectoryStore(str(home)).close()


@requirement("store:no-permission")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give something away")
def test_a_folder_or_a_link_of_somebody_else_on_the_way_is_refused(tmp_path: Path) -> None:
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    link.symlink_to(theirs)
    os.lchown(link, SOMEBODY, SOMEBODY)
    for home, other in ((link / "home", link), (theirs / "home", theirs)):
        assert refused(home) == (
            f"others own or can write to {other}, and could replace the data folder {home}. "
            f"It belongs to user {SOMEBODY}. {OTHER_HOME}"
        )
        os.chown(theirs, SOMEBODY, SOMEBODY)
    os.chown(theirs, 0, 0)
    os.chown(theirs / "home", SOMEBODY, SOMEBODY)
    assert refused(theirs / "home") == (
        f"the data folder {theirs / 'home'} belongs to user {SOMEBODY}, not to you. {OTHER_HOME}"
    )


@requirement("store:symlink-confined")
def test_what_stands_in_the_place_of_the_data_folder_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("a file")
    home.chmod(0o640)
    told = f"(owner {os.geteuid()}, mode 0640); nothing is read or written through it. {OTHER_HOME}"
    assert refused(home) == f"{home} is not a folder {told}"
    home.unlink()
    home.symlink_to(tmp_path)
    assert refused(home) == f"{home} is a symbolic link {told.replace('0640', '0777')}"


# ── Races ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_somebody_else_makes_meanwhile_is_opened(
    tmp_path: Path, inside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)
        os.mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(files, "mkdir", mkdir)
    folder = disk.make_folder("made", inside=inside)
    assert os.path.samestat(os.fstat(folder), os.stat(tmp_path / "made"))
    os.close(folder)


def test_a_new_file_that_gc_removed_before_it_was_held_is_made_again(
    tmp_path: Path, inside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, removed = files.flock, list[str]()

    def flock(file: int, operation: int) -> None:
        if not removed:
            removed.append("new")
            assert disk.remove_abandoned("new", inside=inside)
        real(file, operation)

    def remove_abandoned(name: str, *, inside: int) -> bool:
        os.unlink(name, dir_fd=inside)
        return True

    monkeypatch.setattr(files, "flock", flock)
    monkeypatch.setattr(disk, "remove_abandoned", remove_abandoned)
    new = disk.create("new", inside=inside)
    assert removed
    assert os.path.samestat(os.fstat(new), os.stat(tmp_path / "new"))
    assert len(held(tmp_path)) == 2
    files.close(new)


def test_a_new_file_that_cannot_be_held_is_refused_for_that_reason(
    tmp_path: Path, inside: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files, "flock", flock)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        disk.create("new", inside=inside)
    assert held(tmp_path) == [str(tmp_path)]


def test_only_a_file_that_nobody_holds_is_removed_as_abandoned(tmp_path: Path, inside: int) -> None:
    new = disk.create("new", inside=inside)
    (tmp_path / "link").symlink_to("new")
    (tmp_path / "folder").mkdir()
    for name in ("new", "link", "folder", "missing"):
        assert not disk.remove_abandoned(name, inside=inside)
    assert disk.is_held(new) is False  # by anybody else
    files.close(new)
    assert disk.remove_abandoned("new", inside=inside)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]
    assert held(tmp_path) == [str(tmp_path)]


def test_whether_a_file_is_held_can_be_asked_and_changes_nothing(tmp_path: Path, inside: int) -> None:
    writer = disk.create("new", inside=inside)
    reader = disk.open_file("new", inside=inside)
    assert disk.is_held(reader)
    files.close(writer)
    assert not disk.is_held(reader)
    with (tmp_path / "new").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert disk.is_held(reader)
    files.close(reader)


def test_a_lock_is_held_by_one_and_let_go_of(tmp_path: Path, inside: int) -> None:
    with (tmp_path / "lock").open("w") as other:
        with disk.locked("lock", inside=inside), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_is_replaced_only_where_that_is_asked_for(tmp_path: Path, inside: int) -> None:
    disk.write_new("name", b"first", inside=inside, token="1", replace=False)
    with pytest.raises(FileExistsError):
        disk.write_new("name", b"second", inside=inside, token="2", replace=False)
    assert (tmp_path / "name").read_bytes() == b"first"
    disk.write_new("name", b"second", inside=inside, token="3", replace=True)
    assert (tmp_path / "name").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


@requirement("store:symlink-confined")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_not_read(tmp_path: Path, inside: int, make: Any) -> None:
    make(tmp_path / "name")
    with pytest.raises(StoreUnsafe, match="name in the store is not a regular file; it is not read"):
        disk.open_file("name", inside=inside)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        disk.open_file("link", inside=inside)
    assert held(tmp_path) == [str(tmp_path)]


# ── What is said of errors ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("problem", "where", "needed", "kind", "told"),
    [
        (errno.ENOMEM, MEMORY, 5000, StoreFull,
         "no memory left while keeping of 5.0 kB or more. Nothing of it is kept. Keep outputs in a folder instead."),
        (errno.ENOSPC, MEMORY, None, StoreFull, "no memory left while keeping. Keep outputs in a folder instead."),
        (errno.EMFILE, MEMORY, None, StoreFault,
         ("Too many open files while keeping in memory. Each output of more than 1.0 MB holds one: raise the limit "
         "(`ulimit -n`), or keep outputs in a folder.")),
        (errno.EDQUOT, "/home", 5000, StoreFull,
         ("no space left while keeping of 5.0 kB or more: 8.2 kB free for /home. Nothing of it is kept. "
         f"Make room with `holdall rm` or `holdall gc --older-than 7d`. {OTHER_HOME}")),
        (errno.EFBIG, "/home", 5000, StoreFull,
         ("a file may grow no further while keeping of 5.0 kB or more. Nothing of it is kept: that is a limit of this process "
         f"(ulimit -f) or of the file system of /home. {OTHER_HOME}")),
        (errno.ENOSPC, "/home/not there/at all", None, StoreFull,
         ("no space left while keeping: 8.2 kB free for /home/not there/at all. "
         f"Make room with `holdall rm` or `holdall gc --older-than 7d`. {OTHER_HOME}")),
        (errno.ENOENT, "/home", None, StoreGone,
         "the folder /home went away while keeping. The next output creates it again."),
        (errno.ENOTDIR, "/home", None, StoreUnsafe, f"/home is not a folder of its own (Not a directory). {OTHER_HOME}"),
        (errno.EIO, "/home", None, StoreFault, f"Input/output error while keeping in /home. {OTHER_HOME}"),
        (errno.ENOMEM, "/home", None, StoreFault, f"Cannot allocate memory while keeping in /home. {OTHER_HOME}"),
        (errno.EMFILE, "/home", None, StoreFault, f"Too many open files while keeping in /home. {OTHER_HOME}"),
    ],
)  # fmt: skip
@requirement("store:io-errors")
def test_an_error_says_what_to_do_about_it(
    monkeypatch: pytest.MonkeyPatch, problem: int, where: str, needed: int | None, kind: type[StoreFault], told: str
) -> None:
    def statvfs(path: str) -> _Free | None:
        return _Free(2, 4096) if path == "/home" else None

    monkeypatch.setattr(disk.os, "statvfs", statvfs)
    monkeypatch.setattr(disk.os.path, "exists", ("/", "/home").__contains__)
    told_of = None if needed is None else lambda: needed
    with pytest.raises(StoreFault) as raised, disk.explained("keeping", where, needed=told_of):
        raise OSError(problem, "said by the system")
    assert (type(raised.value), str(raised.value)) == (kind, told)


class _Free:
    def __init__(self, blocks: int, size: int) -> None:
        self.f_bavail, self.f_frsize = blocks, size


def test_an_error_without_a_number_is_told_in_its_own_words_and_a_disk_that_says_nothing_is_no_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = disk.store_fault_from(OSError("in its own words"), "keeping", "/home")
    assert str(told) == f"in its own words while keeping in /home. {OTHER_HOME}"

    def statvfs(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk.os, "statvfs", statvfs)
    full = disk.store_fault_from(OSError(errno.ENOSPC, ""), "keeping", "/")
    assert str(full).startswith("no space left while keeping: an unknown amount free for /. Make room")


def test_of_memory_that_is_used_up_only_a_store_in_memory_speaks() -> None:
    with pytest.raises(StoreFull, match="no memory left while keeping"), disk.explained("keeping", MEMORY):
        raise MemoryError
    with pytest.raises(MemoryError), disk.explained("keeping", "/home"):
        raise MemoryError
