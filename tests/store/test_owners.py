"""Who else can change a file, and which way leads to it: by what the system says of files, users and groups."""

import grp
import mmap
import os
import platform
import pwd
import stat
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdall.store import owners
from holdall.store.owners import other_writer, process_mark, trusted_owners, way_to
from holdall.values.errors import UsageError

ME, GROUP, OTHER = 1000, 1001, 4711
FILE, FOLDER = stat.S_IFREG | 0o600, stat.S_IFDIR | 0o700


def writer_of(mode: int, *, owner: int = ME, group: int = 0) -> str:
    about = os.stat_result((mode, 1, 1, 1, owner, group, 0, 0, 0, 0))
    return other_writer("/nothing here", about, (ME, 0))


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One user, whose group nobody else is in: as it is where each has a group of the same name."""
    me = SimpleNamespace(pw_uid=ME, pw_gid=GROUP, pw_name="me")
    known = SimpleNamespace(
        me=me,
        group=SimpleNamespace(gr_gid=GROUP, gr_name="me", gr_mem=[]),
        all=[me, SimpleNamespace(pw_uid=0, pw_gid=0)],
    )
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(pwd, "getpwuid", {ME: me}.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: known.all)
    monkeypatch.setattr(grp, "getgrgid", lambda group: {GROUP: known.group}[group])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return known


@pytest.mark.parametrize(
    ("mode", "owner", "told"),
    [
        (FILE, ME, ""),
        (FILE, 0, ""),
        (FILE, OTHER, "its owner"),
        (FILE | 0o002, ME, "anybody"),
        (FOLDER | 0o022, ME, "anybody"),
        (FOLDER | stat.S_ISVTX | 0o022, ME, ""),
        (FOLDER | stat.S_ISVTX | 0o022, OTHER, "its owner"),
        (FILE | stat.S_ISVTX | 0o002, ME, "anybody"),
        (FILE | 0o020, ME, ""),
    ],
)
def test_nobody_but_its_owner_and_root_may_change_a_file(mode: int, owner: int, told: str) -> None:
    assert writer_of(mode, owner=owner) == told


def test_the_own_group_of_a_user_is_the_user_while_nobody_else_is_in_it(users: SimpleNamespace) -> None:
    def told() -> str:
        return writer_of(FILE | 0o020, group=GROUP)

    assert told() == ""
    users.group.gr_mem = ["me"]
    assert told() == ""
    users.group.gr_mem = ["me", "you"]
    assert told() == f"the group {GROUP}"
    users.group.gr_mem = []
    users.all.append(SimpleNamespace(pw_uid=OTHER, pw_gid=GROUP))
    assert told() == f"the group {GROUP}", "the group that somebody else begins with"
    users.all.pop()
    users.group.gr_name = "staff"
    assert told() == f"the group {GROUP}"
    users.group.gr_name, users.me.pw_gid = "me", OTHER
    assert told() == f"the group {GROUP}"
    assert writer_of(FILE | 0o020, group=OTHER) == f"the group {OTHER}", "one that the system does not know"
    assert writer_of(FILE | 0o020, group=0) == "", "root's own"
    assert writer_of(FILE, group=OTHER) == "", "it may only read"


@pytest.mark.parametrize(
    ("entry", "is_told"),
    [
        ((0x02, 0x06, OTHER), True),
        ((0x02, 0x05, OTHER), False),
        ((0x02, 0x06, ME), False),
        ((0x08, 0x06, ME), True),
        ((0x08, 0x04, ME), False),
        ((0x10, 0x06, OTHER), False),
    ],
)
def test_an_access_list_that_lets_others_write_is_told(
    entry: tuple[int, int, int], is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = struct.pack("<HHI", 0x01, 0x06, 0xFFFFFFFF)
    lists = {"system.posix_acl_access": struct.pack("<I", 2) + own + struct.pack("<HHI", *entry) + own[:3]}
    monkeypatch.setattr(os, "getxattr", lambda _path, name: lists[name], raising=False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert writer_of(FILE | 0o020) == ("another user, by its access list," if is_told else "")


def test_root_looks_like_nobody_only_where_users_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tmp_path / "uid_map"
    monkeypatch.setattr(owners, "_UID_MAP", str(found))
    assert trusted_owners() == (os.geteuid(), 0)
    found.write_text("         0          0 4294967295\n")
    assert trusted_owners() == (os.geteuid(), 0)
    found.write_text("         0       1000          1\n")
    assert trusted_owners() == (os.geteuid(), 0, 65534)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
def test_a_process_is_told_from_others_and_stays_itself() -> None:
    mark = process_mark(os.getpid())
    assert len(mark) == 16
    with mmap.mmap(-1, 1 << 20):
        assert process_mark(os.getpid()) == mark
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert process_mark(other.pid) not in ("", mark)
        assert other.stdin is not None
        other.stdin.close()
    assert [process_mark(none) for none in (0, -1, 1 << 40)] == ["", "", ""]
    assert bool(process_mark(1)) is os.access("/proc/1/stat", os.R_OK)


def test_where_the_system_tells_nothing_of_processes_their_mark_is_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str, _mode: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(owners, "open", missing, raising=False)
    monkeypatch.setattr(os.path, "isdir", lambda _path: False)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert process_mark(os.getpid()) == platform.node()


def test_the_way_to_a_file_is_every_folder_that_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path.resolve()
    (here / "a" / "b").mkdir(parents=True)
    (here / "a" / "near").symlink_to("./b")
    (here / "far").symlink_to(here / "a")
    before = len(list(way_to(str(here))))

    def way(path: str) -> list[tuple[str, str]]:
        """As from the folder of this test."""
        told = [(os.path.relpath(at, here), link and os.path.relpath(link, here)) for at, link in way_to(path)]
        return told[before:]

    inside = [(".", ""), ("a", "")]
    assert way(f"{here}/a/b") == inside
    assert way(f"{here}//a/./b/") == inside
    assert way(f"{here}/a/b/../b") == [*inside, ("a", "")]
    assert way(f"{here}/a/near/file") == [(".", ""), ("a", "a/near"), ("a", ""), ("a/b", "")]
    assert way(f"{here}/far/b")[0] == (".", "far")
    assert way(f"{here}/far/b")[-2:] == inside
    monkeypatch.chdir(here)
    assert way("a/b") == inside


@pytest.mark.parametrize("links", [40, 41])
def test_a_way_has_at_most_as_many_links_as_the_system_follows(tmp_path: Path, links: int) -> None:
    here = tmp_path.resolve()
    (here / "link0").write_text("x")
    for number in range(links):
        (here / f"link{number + 1}").symlink_to(f"link{number}")
    path = str(here / f"link{links}")
    if links <= 40:
        assert len([link for _, link in way_to(path) if link]) == links
    else:
        with pytest.raises(UsageError, match="goes through too many links"):
            list(way_to(path))
