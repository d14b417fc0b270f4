"""Taking in a large output with helpers beside it: none of their errors is lost, and none is waited for in vain."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.store import ingest as module
from holdall.store.ingest import ingest
from holdall.text.tokens import Estimate

CHUNK = bytes(1024 * 1024)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    yield opened
    os.close(opened)


def test_an_early_sync_that_fails_is_an_error_though_the_last_one_would_succeed(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, [0]

    def failing_once(target: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise OSError(errno.EIO, "the disk tells of a failed write only once")
        real(target)

    monkeypatch.setattr(module, "_SYNC_EVERY", 2 * len(CHUNK))
    monkeypatch.setattr(os, "fsync", failing_once)
    with pytest.raises(OSError, match="only once"):
        ingest(iter([CHUNK] * 16), descriptor, Estimate())


def test_a_write_that_fails_beside_is_an_error_and_the_source_is_not_waited_for(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_target: int, _data: bytes | memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            if number == 5:  # by now the writing is done beside
                monkeypatch.setattr(os, "write", refused)
            yield CHUNK

    with pytest.raises(OSError, match="full"):
        ingest(chunks(), descriptor, Estimate())
    monkeypatch.undo()


def test_a_large_output_is_the_same_as_if_it_had_been_small(descriptor: int) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1_500_000))
    pieces = (data[at : at + len(CHUNK)] for at in range(0, len(data), len(CHUNK)))
    taken = ingest(pieces, descriptor, Estimate())
    assert (taken.measure.bytes, taken.measure.lines, taken.failure) == (len(data), 1_500_000, None)
    assert os.pread(descriptor, len(data), 0) == data
