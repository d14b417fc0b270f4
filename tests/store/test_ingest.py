"""Taking in a large output with helpers beside it: none of their errors is lost, and none is waited for in vain."""

import errno
import hashlib
import os
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.store import ingest as module
from holdall.store.ingest import Counted, Ingested, facts_of, ingest, running_facts
from holdall.text.tokens import Estimate
from holdall.values.errors import QuotaReached
from holdall.values.outputs import Facts, Measure, Origin, State
from holdall.values.spans import BlockTable

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

    given: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            if number == 5:  # by now the writing is done beside
                monkeypatch.setattr(os, "write", refused)
            given.append(number)
            yield CHUNK

    with pytest.raises(OSError, match="full"):
        ingest(chunks(), descriptor, Estimate())
    monkeypatch.undo()
    assert len(given) < 20


def test_an_error_of_the_last_write_beside_is_waited_for(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_end = threading.Event()

    def refused(_target: int, _data: bytes | memoryview) -> int:
        at_end.wait(60)
        raise OSError(errno.ENOSPC, "full")

    def chunks() -> Iterator[bytes]:
        yield b"ab"
        at_end.set()

    monkeypatch.setattr(module, "_LARGE", 0)
    monkeypatch.setattr(os, "write", refused)
    with pytest.raises(OSError, match="full"):
        ingest(chunks(), descriptor, Estimate())
    monkeypatch.undo()


@pytest.mark.parametrize("large", [0, 2, 1 << 30])
@pytest.mark.parametrize("goes_elsewhere", [True, False])
def test_every_chunk_is_written_hashed_measured_and_told(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, large: int, goes_elsewhere: bool
) -> None:
    monkeypatch.setattr(module, "_LARGE", large)
    monkeypatch.setattr(module, "_SYNC_EVERY", 6)
    asked, told, synced, ends = list[int](), list[int](), list[int](), list[tuple[str, int]]()
    monkeypatch.setattr(os, "fsync", synced.append)

    def written(digest: str, taken: int) -> None:
        ends.append((digest, taken))

    taken = ingest(
        iter([b"ab", b"c\n", b"def"]), descriptor, Estimate(), progress=told.append, room=asked.append,
        written=written if goes_elsewhere else None,
    )  # fmt: skip
    digest = hashlib.sha256(b"abc\ndef").hexdigest()
    assert os.pread(descriptor, 99, 0) == b"abc\ndef"
    assert (taken.measure.sha256, taken.measure.bytes, taken.measure.lines, taken.failure) == (digest, 7, 2, None)
    assert (asked, told) == ([2, 4, 7], [2, 4, 7, 7])
    assert ends == ([(digest, 7)] if goes_elsewhere else [])
    early = 1 if large == 0 else 0  # later there are less than six bytes to sync
    assert synced == ([] if goes_elsewhere else [descriptor] * (early + 1))


@pytest.mark.parametrize(("sizes", "early"), [([3, 3, 3], 1), ([4], 1), ([3], 0), ([1, 3, 4], 2)])
def test_the_disk_is_put_to_work_after_so_many_bytes(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, sizes: list[int], early: int
) -> None:
    monkeypatch.setattr(module, "_LARGE", 0)
    monkeypatch.setattr(module, "_SYNC_EVERY", 4)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    ingest(map(bytes, sizes), descriptor, Estimate())
    assert len(synced) == early + 1


def test_where_there_is_no_room_no_helper_is_left_behind(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGE", 0)
    before = threading.active_count()

    def room(taken: int) -> None:
        if taken > 4:
            raise QuotaReached("no more")

    with pytest.raises(QuotaReached):
        ingest(iter([b"ab"] * 3), descriptor, Estimate(), room=room)
    assert threading.active_count() <= before


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_what_a_source_gave_before_it_failed_is_kept_and_nothing_is_asked_of_it_again(
    descriptor: int, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(module, "_LARGE", large)
    given: list[bytes | None] = [b"ab", None, b"cd"]

    def chunk() -> bytes:
        found = given.pop(0)
        if found is None:
            raise ValueError("broken")
        return found

    taken = ingest(iter(chunk, b""), descriptor, Estimate())
    assert isinstance(taken.failure, ValueError)
    assert (os.pread(descriptor, 99, 0), given) == (b"ab", [b"cd"])


def test_bytes_are_counted_as_they_are_asked_for() -> None:
    counted = Counted([b"ab", b"c"])
    seen = [counted.bytes(), *(counted.bytes() for _ in counted)]
    assert seen == [0, 2, 3]


def test_an_output_is_running_before_its_bytes_are_there() -> None:
    facts = running_facts("id", "s", Origin(arguments={(1,): 2}), "id.txt", 1.5)
    assert facts == Facts("", "id", "s", 1.5, Origin(arguments='{"(1,)": 2}'), state="running", file="id.txt")


@pytest.mark.parametrize(
    ("failure", "state", "error"),
    [
        (None, "ready", ""),
        (ValueError(" first\nsecond"), "failed", "ValueError: first"),
        (ValueError("x" * 600), "failed", "ValueError: " + "x" * 500),
        (ValueError(), "failed", "ValueError"),
        (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
    ],
)
def test_how_a_source_ended_is_in_the_facts(failure: BaseException | None, state: State, error: str) -> None:
    taken = Ingested(Measure(), BlockTable(), failure)
    origin = Origin(tool="t", arguments={(1,): 2})
    facts = facts_of("id", "s", origin, taken, ["noted"], "", 1.5)
    assert (facts.state, facts.error, facts.created, facts.ended) == (state, error, 1.5, 1.5)
    assert facts.measure == Measure(notes=("noted",))
    trace = "".join(traceback.format_exception(failure)) if isinstance(failure, Exception) else ""
    assert facts.origin == Origin(tool="t", arguments='{"(1,)": 2}', traceback=trace)
    masked = Origin(masked=True)  # nobody has looked for secrets in its lines
    other = facts_of("id", "s", masked, taken, [], "7", 1.5)
    assert (other.origin, other.measure.surrogates) == (masked, "7")


def test_a_large_output_is_the_same_as_if_it_had_been_small(descriptor: int) -> None:
    data = b"".join(b"line %d\n" % number for number in range(1_500_000))
    pieces = (data[at : at + len(CHUNK)] for at in range(0, len(data), len(CHUNK)))
    taken = ingest(pieces, descriptor, Estimate())
    assert (taken.measure.bytes, taken.measure.lines, taken.failure) == (len(data), 1_500_000, None)
    assert os.pread(descriptor, len(data), 0) == data
