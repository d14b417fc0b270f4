"""The file of a bundle: its entries come back however it is read, it is there whole or not at all, and nobody waits."""

import errno
import io
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.store.bundle import stream
from holdall.store.bundle.stream import (
    BundleReader,
    BundleWriter,
    Entry,
    Kind,
    entry_in,
    kind_of,
    new_file,
    open_bundle,
)
from holdall.values.bundles import Bundle, BundledSession
from holdall.values.errors import BundleRefused, StoreFault, StoreFull, UsageError

ID = "11111111-1111-4111-8111-111111111111"
BUNDLE = Bundle((BundledSession(ID, "größer", 1.0, format=2),))


def written(entries: list[tuple[Entry, bytes]], write: Callable[[bytes], object], at_once: int = 1 << 20) -> int:
    writer = BundleWriter(write)
    try:
        writer.begin(BUNDLE)
        for entry, data in entries:
            writer.entry(entry, (data[at : at + at_once] for at in range(0, len(data), at_once)))
        return writer.finish()
    finally:
        writer.stop()


def entries_of(parts: list[bytes]) -> list[tuple[Entry, bytes]]:
    return [
        (Entry(0, "note", f"answers/{number:032x}-{number:032x}", len(part)), part) for number, part in enumerate(parts)
    ]


def in_pieces(data: bytes, size: int) -> Callable[[int], bytes]:
    """At most so many bytes at a time, as a pipe gives them."""
    source = io.BytesIO(data)
    return lambda most: source.read(min(most, size))


@given(st.lists(st.binary(max_size=900), max_size=5), st.integers(1, 2000), st.integers(1, 400))
@example([random.Random(1).randbytes(3000)], 600, 400)
def test_entries_come_back_however_they_are_written_and_read(parts: list[bytes], size: int, at_once: int) -> None:
    out: list[bytes] = []
    made = entries_of(parts)
    number = written(made, out.append, at_once)
    data = b"".join(out)
    assert number == len(data)
    reader = BundleReader(in_pieces(data, size))
    assert reader.contents() == BUNDLE
    found: list[tuple[Entry, bytes]] = []
    while entry := reader.next_entry():
        found.append((entry, reader.whole(entry)))
    assert found == made
    assert 0 < reader.packed <= number


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_byte_behind_the_end_is_seen_however_it_comes(size: int) -> None:
    out = io.BytesIO()
    written([], out.write)
    reader = BundleReader(in_pieces(out.getvalue() + b"x", size))
    reader.contents()
    with pytest.raises(BundleRefused, match="does not match the hash at its end"):
        reader.next_entry()


@pytest.mark.parametrize("length", [4 << 20, (4 << 20) + 1, 9_000_000])
def test_a_large_entry_comes_back_with_its_hash(length: int) -> None:
    """Those of more than four megabytes are hashed beside the work."""
    data, out = os.urandom(100_000) * (length // 100_000 + 1), io.BytesIO()
    before = threading.active_count()
    written(entries_of([data[:length], b"after it"]), out.write)
    reader = BundleReader(io.BytesIO(out.getvalue()).read)
    reader.contents()
    found: list[bytes] = []
    while entry := reader.next_entry():
        found.append(reader.whole(entry))
    assert found == [data[:length], b"after it"]
    assert threading.active_count() == before


@pytest.mark.parametrize("more", [-1, 1])
def test_what_is_not_as_long_as_it_was_ends_the_export(more: int) -> None:
    (entry, data), *_ = entries_of([b"some bytes"])
    before = threading.active_count()
    with pytest.raises(StoreFault, match="has another length than when the export began"):
        written([(entry._replace(length=entry.length + more), data)], io.BytesIO().write)
    assert threading.active_count() == before, "nothing of it goes on"


def test_more_sessions_than_a_list_may_have_are_no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    line = len(stream.contents_line(BUNDLE))
    monkeypatch.setattr(stream, "MAX_CONTENTS", line)
    written([], io.BytesIO().write)
    monkeypatch.setattr(stream, "MAX_CONTENTS", line - 1)
    with pytest.raises(StoreFault, match="1 sessions are too many for one bundle"):
        written([], io.BytesIO().write)


def test_an_entry_that_is_read_whole_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    written(entries_of([b"x" * 100]), out.write)

    def whole() -> bytes:
        reader = BundleReader(io.BytesIO(out.getvalue()).read)
        reader.contents()
        entry = reader.next_entry()
        assert entry is not None
        return reader.whole(entry)

    monkeypatch.setattr(stream, "MAX_IN_MEMORY", 100)
    assert whole() == b"x" * 100
    monkeypatch.setattr(stream, "MAX_IN_MEMORY", 99)
    with pytest.raises(BundleRefused, match="has 100 bytes, which none of its kind has"):
        whole()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{ID}.txt", "bytes"),
        (f"{ID}.json", "bytes"),
        (f"terminal/{ID}.log", "bytes"),
        ("k3f9.record", "record"),
        (f"answers/{'ab' * 8}-{'cd' * 32}", "note"),
        ("transcript.ndjson", "transcript"),
        ("events.ndjson", "events"),
        ("tree.json", "tree"),
        ("masks.ndjson", "masks"),
        (f"{ID}.exe", None),
        (f"../{ID}.txt", None),
        (f"{ID}.txt/..", None),
        ("session.json", None),
        ("", None),
    ],
)
def test_a_name_is_of_its_kind_or_of_none(name: str, kind: Kind | None) -> None:
    assert kind_of(name) == kind


def test_the_line_of_an_entry_says_what_it_is_and_no_other_is_one() -> None:
    entry = Entry(7, "events", "events.ndjson", 123)
    assert entry_in(entry.line()) == entry
    for line in (b"entry 07/events.ndjson 123\n", b"entry 7/events.ndjson 0123\n", b"entry 7/\xff.ndjson 1\n", b"\n"):
        with pytest.raises(BundleRefused, match="is not the line of an entry"):
            entry_in(line)
    with pytest.raises(BundleRefused, match=r"has a file of the name '7/evil\.sh 1', which no session has"):
        entry_in(b"entry 7/evil.sh 1\n")
    with pytest.raises(BundleRefused, match=f"damaged: '{'y' * 60}' is not"):
        entry_in(b"y" * 61)


# Files


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "'' is not the name of a file"),
        ("a\0b", "is not the name of a file"),
        ("/", "/ is a folder"),
        ("folder/", "folder/ is a folder"),
        ("missing/file", "No such file or directory while writing"),
    ],
)
def test_what_cannot_be_the_name_of_a_file_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, told: str
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, StoreFault), match=told), new_file(path, force=True):
        pytest.fail("it was begun")
    assert [one.name for one in tmp_path.rglob("*")] == ["folder"]


def test_a_file_that_is_there_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError, match="exists, and is not overwritten"), new_file(f"{tmp_path}/mine", force=False):
        pytest.fail("it was begun")
    with pytest.raises(UsageError, match="is a folder; name the file"), new_file(str(tmp_path), force=True):
        pytest.fail("it was begun")


def test_what_ends_with_an_error_leaves_nothing_behind_and_no_descriptor_open(tmp_path: Path) -> None:
    def broken() -> None:
        with new_file(f"{tmp_path}/b", force=False) as write:
            write(b"half")
            raise LookupError

    before = len(os.listdir("/dev/fd"))
    with pytest.raises(LookupError):
        broken()
    with new_file(f"{tmp_path}/whole", force=False) as write:
        write(b"one ")
        write(b"two")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("whole", b"one two")]
    with open_bundle(f"{tmp_path}/whole") as read:
        assert (read(3), read(100), read(100)) == (b"one", b" two", b"")
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_on_a_disk_without_links_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    def write_it() -> None:
        with new_file(f"{tmp_path}/b", force=False) as write:
            write(b"whole")

    monkeypatch.setattr(os, "link", no_links)
    if number == errno.EIO:
        with pytest.raises(StoreFault, match=r"^Input/output error while writing the bundle"):
            write_it()
        assert list(tmp_path.iterdir()) == []
    else:
        write_it()
        assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("b", b"whole")]


@pytest.mark.parametrize(
    ("number", "error", "told"),
    [
        (errno.ENOSPC, StoreFull, r"no space left while writing the bundle .*: \d+\.?\d* .?B free in .*Nothing of it is left"),
        (errno.EDQUOT, StoreFull, "no space left"),
        (errno.EFBIG, StoreFull, "no space left"),
        (errno.EIO, StoreFault, "^Input/output error while writing the bundle"),
        (0, StoreFault, "^strange while writing the bundle"),
    ],
)  # fmt: skip
def test_an_error_of_the_disk_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], told: str
) -> None:
    def broken(*_: object) -> int:
        raise OSError(number, "strange") if number else OSError("strange")

    def write_it() -> None:
        with new_file(f"{tmp_path}/b", force=False) as write:
            monkeypatch.setattr(os, "write", broken)
            write(b"data")

    with pytest.raises(error, match=told):
        write_it()


def test_how_much_is_free_is_told_and_may_be_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    def write_it() -> None:
        with new_file(f"{tmp_path}/b", force=False) as write:
            monkeypatch.setattr(os, "write", gone)
            write(b"data")

    def some(_: str) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=30, f_frsize=512)

    monkeypatch.setattr(os, "statvfs", some)
    with pytest.raises(StoreFull, match=r": 15\.4 kB free in"):
        write_it()
    monkeypatch.setattr(os, "statvfs", gone)
    with pytest.raises(StoreFull, match="an unknown amount free"):
        write_it()


def test_what_has_its_name_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are on the disk before its name is, and then the folder that says so."""
    synced: list[tuple[int, bool]] = []

    def sync(number: int) -> None:
        synced.append((os.fstat(number).st_ino, (tmp_path / "b").exists()))

    monkeypatch.setattr(os, "fsync", sync)
    with new_file(f"{tmp_path}/b", force=False) as write:
        write(b"data")
    assert synced == [((tmp_path / "b").stat().st_ino, False), (tmp_path.stat().st_ino, True)]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("missing", "the bundle .*/missing cannot be opened: No such file or directory"),
        ("a\0b", "cannot be opened: .*embedded null (byte|character)"),
        ("", "is a folder, not a bundle"),
    ],
)
def test_a_bundle_that_cannot_be_opened_says_why(tmp_path: Path, path: str, told: str) -> None:
    with pytest.raises(UsageError, match=told), open_bundle(f"{tmp_path}/{path}"):
        pytest.fail("it was opened")


def test_a_disk_that_cannot_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "")

    (tmp_path / "b").write_bytes(b"x")
    with open_bundle(f"{tmp_path}/b") as read:
        monkeypatch.setattr(os, "read", broken)
        with pytest.raises(StoreFault, match="Input/output error while reading the bundle"):
            read(1)
        monkeypatch.undo()


def test_a_disk_that_is_full_leaves_nothing_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def write_it() -> None:
        with new_file(str(tmp_path / "b"), force=False) as write:
            monkeypatch.setattr(os, "write", full)
            write(b"data")

    with pytest.raises(StoreFull, match="Nothing of it is left there"):
        write_it()
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [True, False])
def test_nothing_takes_the_place_of_a_pipe_a_device_or_a_link(tmp_path: Path, force: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("target")
    for path, what in (("pipe", "not a regular file"), ("link", "a link"), ("/dev/full", "not a regular file")):
        with pytest.raises(UsageError, match=f"is {what}. Name another file, or write to standard output: -o -"):  # noqa: SIM117
            with new_file(str(tmp_path / path), force=force):
                pass
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert Path("/dev/full").is_char_device()


def test_a_file_that_comes_into_being_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "bundle"

    def write_it() -> None:
        with new_file(str(target), force=False) as write:
            write(b"ours")
            target.write_text("theirs")

    with pytest.raises(UsageError, match="force=True"):
        write_it()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["theirs"]
    with new_file(str(target), force=True) as write:
        write(b"ours")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["ours"]
    assert target.stat().st_mode & 0o777 == 0o600
