"""Members of packed outputs as a reader gets them: which of them is meant, its facts, and the file that holds its bytes."""

import contextlib
import errno
import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.store import members
from holdall.store.deadline import within
from holdall.store.members import open_member, scratch
from holdall.store.reader import FileReader, is_list
from holdall.values.errors import BadMember, OutOfTime, WorkerFault
from holdall.values.outputs import Origin
from holdall.values.spans import Span
from tests.bag.test_deadline import ticking
from tests.packed import pdf, tarred, zipped
from tests.requirements import requirement
from tests.support import reader_of

Result = TypeVar("Result")
INSIDE = zipped({"b.txt": "deep\n"})


def named_gzip(name: str, data: bytes) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=made, mtime=0) as file:
        file.write(data)
    return made.getvalue()


def told(data: bytes, wanted: str, what: Callable[[FileReader], Result]) -> Result:
    with contextlib.closing(open_member(reader_of(data), wanted, most=1 << 30)) as reader:
        return what(reader)


def found(data: bytes, wanted: str) -> bytes:
    return told(data, wanted, lambda reader: reader.read(0, reader.totals.bytes))


# ── Which one is meant ──────────────────────────────────────────────────────────────────────────────────────────


@requirement("packed:names", "packed:nested")
@pytest.mark.parametrize("prefix", ["", "#1", "in.zip"], ids=["content", "number", "name"])
def test_what_a_gzip_holds_has_three_names_and_members_of_its_own(prefix: str) -> None:
    packed = named_gzip("in.zip", INSIDE)
    assert found(packed, prefix) == INSIDE
    if prefix:
        assert found(packed, f"{prefix}!b.txt") == b"deep\n"
        assert found(packed, f"{prefix}!") == b"number,type,bytes,name\n1,file,5,b.txt\n"
    with pytest.raises(BadMember, match="one gzip stream, without members"):
        found(packed, f"{prefix}x")


@requirement("packed:names")
def test_only_a_gzip_tells_the_name_of_what_it_holds() -> None:
    import bz2

    with pytest.raises(BadMember, match="one bzip2 stream, without members"):
        found(bz2.compress(INSIDE), "in.zip")
    assert found(bz2.compress(INSIDE), "#1!b.txt") == b"deep\n"


@requirement("packed:pdf")
def test_the_text_of_a_pdf_comes_from_whoever_reads_pages() -> None:
    data = pdf("one", "two")

    def pages(_reader: object, wanted: str) -> Iterator[bytes]:
        yield f"text of {wanted}".encode()

    packed = reader_of(data)
    reader = open_member(packed, "page-2", most=1 << 30, pages=pages)
    assert reader.read(0, reader.totals.bytes) == b"text of page-2"
    assert (reader.facts.handle, reader.facts.packed) == ("t3st!page-2", Span(0, len(data)))
    reader.close()
    with pytest.raises(BadMember, match="it is pdf, not a packed file"):
        open_member(packed, "page-2", most=1 << 30)


@requirement("packed:deadline")
def test_the_deadline_is_kept_between_the_pieces_of_a_member() -> None:
    def pages(_reader: object, _wanted: str) -> Iterator[bytes]:
        for _ in range(100):
            yield b"page\n"
        raise AssertionError("all pages were read")

    with pytest.raises(OutOfTime), within(ticking(6)):
        open_member(reader_of(pdf("one")), "", most=1 << 30, pages=pages)


def test_what_is_packed_in_an_output_with_masks_is_not_opened() -> None:
    packed = reader_of(INSIDE)
    packed.facts = replace(packed.facts, origin=Origin(masked=True))
    with pytest.raises(BadMember, match="secrets of its tool are masked"):
        open_member(packed, "b.txt", most=1 << 30)


# ── Its facts ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("packed:ledger")
def test_of_a_compressed_archive_all_of_the_stored_bytes_were_read() -> None:
    tar = tarred({"a": b"first", "b": b"second"})
    data = gzip.compress(tar)
    for wanted in ("", "b"):
        assert told(data, wanted, lambda reader: reader.facts.packed) == Span(0, len(data))
    header = tar.index(b"second") - 512
    assert told(tar, "b", lambda reader: reader.facts.packed) == Span(header, header + 1024)


@requirement("packed:listing")
def test_a_list_is_told_from_what_looks_like_one() -> None:
    listed = b"number,type,bytes,name\n1,file,5,b.txt\n"
    assert told(INSIDE, "", is_list)
    assert not told(gzip.compress(b"hello\n"), "", is_list)
    assert not told(gzip.compress(b""), "", is_list)
    assert not told(zipped({"list.csv": listed}), "list.csv", is_list)


@requirement("packed:listing")
def test_a_list_has_one_line_for_each_of_many_members() -> None:
    header = tarred({"a": b""})[:512]
    lines = found(header * 20_001 + bytes(1024), "").splitlines()
    assert lines == [b"number,type,bytes,name", *(b"%d,file,0,a" % number for number in range(1, 20_002))]


@requirement("packed:listing")
def test_a_list_has_no_more_than_4096_characters_of_a_name() -> None:
    data = zipped({"x" * 4096: "", "y" * 4097: ""})
    assert found(data, "").decode().splitlines()[1:] == [f"1,file,0,{'x' * 4096}", f"2,file,0,{'y' * 4095}…"]


# ── The file that holds its bytes ───────────────────────────────────────────────────────────────────────────────


def in_file(file: BinaryIO) -> bytes:
    """As whoever has only the descriptor sees it."""
    with file:
        return os.pread(file.fileno(), 1 << 20, 0)


@requirement("packed:scratch")
@pytest.mark.parametrize("has_memory_files", [True, False])
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_a_scratch_file_holds_every_piece_in_memory_or_once_on_the_disk(
    has_memory_files: bool, pieces: list[bytes]
) -> None:
    on_disk: list[BinaryIO] = []
    real: Any = tempfile.TemporaryFile

    def counted(**options: Any) -> BinaryIO:
        on_disk.append(real(**options))
        return on_disk[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "_IN_MEMORY", 50)
        patch.setattr(tempfile, "TemporaryFile", counted)
        if not has_memory_files:
            patch.delattr(os, "memfd_create", raising=False)
        assert in_file(scratch(pieces)) == b"".join(pieces)
    if has_memory_files and hasattr(os, "memfd_create"):
        assert len(on_disk) == (sum(map(len, pieces)) > 50)


@requirement("packed:scratch")
@pytest.mark.parametrize("size", [50, 51])
def test_up_to_its_bound_a_scratch_file_is_in_memory(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_options: object) -> BinaryIO:
        raise OSError(errno.EACCES, "no disk here")

    if not hasattr(os, "memfd_create"):
        pytest.skip("there are no files in memory on this system")
    monkeypatch.setattr(members, "_IN_MEMORY", 50)
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    if size == 50:
        assert in_file(scratch([b"x" * 49, b"y"])) == b"x" * 49 + b"y"
    else:
        with pytest.raises(OSError, match="no disk here"):
            scratch([b"x" * 50, b"y"])


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@requirement("packed:scratch")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full on this system")
@pytest.mark.parametrize("size", [100, 100_000], ids=["at the end", "in between"])
def test_a_scratch_file_without_room_says_where_room_is_needed(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_options: object) -> BinaryIO:
        return open("/dev/full", "w+b")

    monkeypatch.setattr(members, "_IN_MEMORY", 50)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    before = descriptors()
    with pytest.raises(WorkerFault) as refused:
        scratch([b"x" * 40, b"x" * (size - 40)])
    assert str(refused.value) == (
        f"there is no room for a temporary copy of {size:,} bytes or more in {tempfile.gettempdir()}. "
        "Free some, or point TMPDIR elsewhere."
    )
    assert descriptors() == before


@requirement("packed:scratch")
@pytest.mark.parametrize("problem", [OSError(errno.EIO, "a bad disk"), ValueError("bad data"), KeyboardInterrupt()])
def test_an_error_on_the_way_into_a_scratch_file_is_passed_on_and_leaves_nothing_open(problem: BaseException) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        raise problem

    before = descriptors()
    with pytest.raises(type(problem)) as passed_on:
        scratch(pieces())
    assert passed_on.value is problem
    assert descriptors() == before
