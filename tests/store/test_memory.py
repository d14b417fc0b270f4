"""The store in memory: what only it promises, and what the store on disk promises beyond the contract."""

import contextlib
import errno
import gc
import mmap
import os
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.store.directory import folder
from holdall.store.memory import MemoryStore
from holdall.store.memory_files import SMALL
from holdall.store.protocol import Quota, SessionInfo, Sweep
from holdall.values.errors import (
    OutputExpired,
    QuotaReached,
    StoreFault,
    StoreFull,
    StoreGone,
    UsageError,
)
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import DAY, Retention
from tests.requirements import requirement
from tests.store.support import Clock, keep, read_back

LARGE = SMALL + 1
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and at files in memory")


@pytest.fixture
def memory(clock: Clock) -> MemoryStore:
    return MemoryStore(clock=clock)


@pytest.fixture
def kept_in(memory: MemoryStore) -> SessionInfo:
    return memory.open_session("s1")


def descriptors() -> int:
    """Those of files, in memory or with a name: what else the process has open comes and goes with other threads."""
    gc.collect()
    found = 0
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that the list was read by
            found += os.readlink(f"/proc/self/fd/{one}").startswith(("/memfd:", tempfile.gettempdir()))
    return found


def fill(size: int, sign: bytes = b"x") -> bytes:
    return sign * size


# ── How long it lives ───────────────────────────────────────────────────────────────────────────────────────


@requirement("api:memory-store")
def test_a_store_that_is_closed_still_has_everything_for_the_next_session(
    memory: MemoryStore, kept_in: SessionInfo
) -> None:
    facts = keep(memory, kept_in, "first")
    reader = memory.open(facts)
    memory.append_events(kept_in, b"{}\n")
    memory.close()
    assert reader.read(0, 10) == b"first"
    reader.close()
    assert memory.open_session("s1") == kept_in
    assert read_back(memory, memory.resolve(kept_in, facts.handle)) == b"first"
    assert memory.events_from(kept_in, 0).lines == b"{}\n"
    assert read_back(memory, keep(memory, memory.open_session("s2"), "second")) == b"second"


@requirement("api:memory-store")
def test_two_stores_share_nothing_unless_one_is_made_beside_the_other(memory: MemoryStore, clock: Clock) -> None:
    session = memory.open_session("s", retention=Retention(days=1))
    facts = keep(memory, session, "x")
    beside, other = MemoryStore(beside=memory, clock=clock), MemoryStore(clock=clock)
    assert beside.resolve(beside.open_session("s"), facts.handle) == facts
    assert other.open_session("s").id != session.id
    for refused in (
        lambda: other.resolve(session, facts.handle),
        lambda: other.outputs(session),
        lambda: other.open(facts),
        lambda: other.put(session, [b"x"], Origin()),
        lambda: other.begin(session, Origin()),
        lambda: other.append_events(session, b"{}\n"),
        lambda: other.unreadable(session),
    ):
        with pytest.raises(StoreGone) as raised:
            refused()
        assert str(raised.value) == (
            f"the session {session.id} is not in this store: what is in memory goes with its store."
        )


@requirement("api:memory-store")
def test_what_is_not_there_is_told(memory: MemoryStore, kept_in: SessionInfo) -> None:
    facts = keep(memory, kept_in, "x")
    with pytest.raises(StoreGone) as refused:
        memory.open(replace(facts, handle="bbbbbbbbbbbb"))
    assert str(refused.value) == "output bbbbbbbbbbbb is not in this store."
    assert memory.expire(kept_in, [replace(facts, handle="bbbbbbbbbbbb")], "test") == 0
    assert not memory.sweep_due(), "it is swept on request only"
    assert memory.unreadable(kept_in) == {}


def test_a_handle_that_is_taken_is_not_given_again(
    memory: MemoryStore, kept_in: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = ["bbbb", "cccc"]
    monkeypatch.setattr(folder, "new_handle", lambda attempt: drawn[attempt % 2])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert [keep(memory, kept_in, text).handle for text in "ab"] == drawn
    with pytest.raises(StoreFault, match="no free handle was found in 64 tries"):
        keep(memory, kept_in, "c")
    assert [read_back(memory, memory.resolve(kept_in, handle)) for handle in drawn] == [b"a", b"b"]
    assert len(memory.outputs(kept_in)) == 2


@on_linux
@requirement("api:memory-store")
def test_memory_is_given_back_when_nobody_has_the_store_or_a_reader_any_more() -> None:
    before = descriptors()
    memory = MemoryStore()
    session = memory.open_session("s")
    facts = keep(memory, session, fill(LARGE))
    writer = memory.begin(session, Origin())
    writer.write(b"x")
    reader = memory.open(facts)
    assert descriptors() == before + 1
    del memory, writer
    assert descriptors() == before + 1
    assert reader.read(0, LARGE) == fill(LARGE)
    reader.close()
    assert descriptors() == before


@on_linux
@pytest.mark.parametrize(("size", "held"), [(1 << 20, 0), ((1 << 20) + 1, 1)])
def test_only_what_is_larger_than_a_mebibyte_holds_a_descriptor(
    memory: MemoryStore, kept_in: SessionInfo, size: int, held: int
) -> None:
    before = descriptors()
    keep(memory, kept_in, fill(size))
    assert descriptors() == before + held


@on_linux
def test_a_thousand_outputs_of_usual_size_hold_no_descriptor(memory: MemoryStore, kept_in: SessionInfo) -> None:
    before = descriptors()
    kept = [keep(memory, kept_in, f"{number}" * 3000) for number in range(1000)]
    writer = memory.begin(kept_in, Origin())
    writer.finish()
    assert descriptors() == before
    assert read_back(memory, kept[777]) == b"777" * 3000
    assert descriptors() == before


@pytest.mark.parametrize("size", [SMALL - 1, SMALL, LARGE, 5 * SMALL + 3])
def test_outputs_on_either_side_of_small_are_kept_alike(memory: MemoryStore, kept_in: SessionInfo, size: int) -> None:
    data = os.urandom(size)
    facts = keep(memory, kept_in, data)
    writer = memory.begin(kept_in, Origin())
    writer.write(data[:100])
    running = memory.open(memory.resolve(kept_in, writer.handle))
    writer.write(data[100:])
    final = writer.finish()
    assert running.read(0, size) == data[:100]
    running.close()
    assert final.measure == facts.measure
    assert read_back(memory, facts) == read_back(memory, final) == data


# ── One copy, and nobody changes it ─────────────────────────────────────────────────────────────────────────


@on_linux
@requirement("store:identical-once")
def test_identical_outputs_of_a_session_are_held_once(memory: MemoryStore, kept_in: SessionInfo) -> None:
    before = descriptors()
    first = keep(memory, kept_in, fill(LARGE))
    second = keep(memory, kept_in, iter([fill(LARGE)]), terminal=True)
    writer = memory.begin(kept_in, Origin())
    writer.write(fill(LARGE))
    third = writer.finish()
    assert first.file == second.file == third.file
    assert memory.used_bytes(kept_in) == LARGE
    assert descriptors() == before + 1
    assert keep(memory, memory.open_session("s2"), fill(LARGE)).file != first.file


@on_linux
@requirement("store:identical-removed-apart")
def test_a_shared_copy_stays_until_the_last_of_its_outputs_goes(memory: MemoryStore, kept_in: SessionInfo) -> None:
    before = descriptors()
    kept = [keep(memory, kept_in, fill(LARGE)) for _ in range(3)]
    assert [memory.expire(kept_in, [facts], "test") for facts in kept[:2]] == [0, 0]
    assert read_back(memory, kept[2]) == fill(LARGE)
    assert memory.expire(kept_in, [kept[2]], "test") == LARGE
    assert memory.expire(kept_in, [kept[2]], "test") == 0
    assert descriptors() == before
    assert memory.used_bytes(kept_in) == 0


@on_linux
@pytest.mark.parametrize("size", [10, LARGE])
def test_whoever_is_given_the_descriptor_can_read_and_map_it_and_not_change_it(
    memory: MemoryStore, kept_in: SessionInfo, size: int
) -> None:
    reader = memory.open(keep(memory, kept_in, fill(size)))
    with reader.local_file() as descriptor:
        with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as pages:
            assert pages[:] == fill(size)
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.write(descriptor, b"y")
        again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
    for change in (lambda: os.pwrite(again, b"y", 0), lambda: os.ftruncate(again, 0), lambda: os.ftruncate(again, 99)):
        with pytest.raises(OSError, match=os.strerror(errno.EPERM)):
            change()
    os.close(again)
    assert reader.read(0, size) == fill(size)
    reader.close()


def test_two_readers_do_not_move_each_other(memory: MemoryStore, kept_in: SessionInfo) -> None:
    facts = keep(memory, kept_in, b"ab" + fill(LARGE))
    readers = [memory.open(facts) for _ in range(2)]
    with readers[0].local_file() as first, readers[1].local_file() as second:
        assert [os.read(descriptor, 2) for descriptor in (first, second)] == [b"ab", b"ab"]
    for reader in readers:
        reader.close()


@on_linux
def test_without_files_in_memory_a_temporary_one_without_a_name_is_used(
    memory: MemoryStore, kept_in: SessionInfo, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for size in (10, LARGE):
        facts = keep(memory, kept_in, fill(size))
        reader = memory.open(facts)
        assert os.listdir(tmp_path) == []
        with reader.local_file() as descriptor:
            assert str(tmp_path) in os.readlink(f"/proc/self/fd/{descriptor}")
        reader.close()
        assert read_back(memory, facts) == fill(size)
    writer = memory.begin(kept_in, Origin())
    writer.write(b"running")
    assert read_back(memory, writer.finish()) == b"running"


@on_linux
def test_without_proc_a_descriptor_is_doubled(
    memory: MemoryStore, kept_in: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def no_proc(path: Any, *rest: Any, **named: Any) -> int:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return real(path, *rest, **named)

    facts = keep(memory, kept_in, fill(LARGE))
    monkeypatch.setattr(os, "open", no_proc)
    before = descriptors()
    assert read_back(memory, facts) == fill(LARGE)
    assert descriptors() == before


# ── Expiry ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:tombstone")
def test_an_expired_output_says_when_and_why_it_went(memory: MemoryStore, kept_in: SessionInfo, clock: Clock) -> None:
    facts = keep(memory, kept_in, "secret", tool="fetch", call_id="c1", arguments={"token": "secret"})
    stamp = memory.stamp(facts)
    clock.pass_days(30)
    assert memory.sweep() == Sweep(expired=(("s1", facts),), freed_bytes=6)
    stone = replace(
        facts,
        state="expired",
        ended=clock.now,
        error="kept for 30 days",
        file="",
        origin=Origin(tool="fetch", call_id="c1"),
        measure=replace(facts.measure, sha256=""),
    )
    assert memory.stamp(facts) not in (stamp, None)
    for reference in (facts.handle, facts.long_handle, "c1"):
        assert memory.resolve(kept_in, reference) == stone
    assert memory.outputs(kept_in) == [stone]
    with pytest.raises(OutputExpired) as refused:
        memory.open(facts)
    assert str(refused.value) == (
        f"output {facts.handle} expired: its bytes were removed on 2027-02-14 (kept for 30 days)."
    )
    assert read_back(memory, keep(memory, kept_in, "secret")) == b"secret"


@requirement("store:retention-session-success")
def test_outputs_kept_for_their_session_go_when_it_ends(memory: MemoryStore) -> None:
    session = memory.open_session("run", retention=Retention(days=None, session=True))
    kept = [keep(memory, session, text) for text in ("a", "b", "a")]
    running = memory.begin(session, Origin())
    memory.end_session(session)
    assert [memory.resolve(session, facts.handle).error for facts in kept] == [
        "kept for its session, which has ended"
    ] * 3
    assert memory.resolve(session, running.handle).state == "running"
    other = memory.open_session("days")
    facts = keep(memory, other, "x")
    memory.end_session(other)
    assert memory.resolve(other, facts.handle) == facts


@requirement("store:gc-dry-run")
def test_a_dry_run_says_what_would_go_and_changes_nothing(memory: MemoryStore, clock: Clock) -> None:
    days = memory.open_session("days", retention=Retention(days=30))
    forever = memory.open_session("forever", retention=Retention(days=None))
    twice = [keep(memory, days, "twice"), keep(memory, days, "twice")]
    shared = keep(memory, days, "once")
    keep(memory, forever, "kept")
    running = memory.begin(days, Origin())
    clock.now += 20 * DAY
    young = keep(memory, days, "once")
    clock.now += 10 * DAY
    before = memory.outputs(days)
    dry = memory.sweep(dry_run=True)
    assert memory.outputs(days) == before
    assert {facts.handle for _, facts in dry.expired} == {facts.handle for facts in (*twice, shared)}
    assert (dry.freed_bytes, dry.leftovers, dry.dry_run) == (len("twice"), (), True)
    assert memory.sweep() == replace(dry, dry_run=False)
    assert memory.sweep() == Sweep()
    assert read_back(memory, young) == b"once"
    running.finish()


def test_verify_reads_everything_and_names_what_is_damaged(memory: MemoryStore, kept_in: SessionInfo) -> None:
    good, other = keep(memory, kept_in, fill(LARGE)), keep(memory, kept_in, "other")
    memory.expire(kept_in, [keep(memory, kept_in, "gone")], "test")
    running = memory.begin(kept_in, Origin())
    elsewhere = memory.open_session("s2")
    keep(memory, elsewhere, "elsewhere")
    told: list[int] = []
    verdicts = {one.handle: one.problem for one in memory.verify([kept_in], progress=told.append)}
    assert verdicts == {good.handle: "", other.handle: ""}
    assert told == sorted(told)
    assert told[-1] == LARGE + len("other")
    assert len(list(memory.verify())) == 3
    assert running.finish().state == "ready"


def test_what_expires_while_the_others_are_verified_is_passed_over(memory: MemoryStore, kept_in: SessionInfo) -> None:
    first, second = keep(memory, kept_in, "first"), keep(memory, kept_in, "second")
    handles = [facts.handle for facts in memory.outputs(kept_in)]

    def expire_the_last(_done: int) -> None:
        memory.expire(kept_in, [first if handles[1] == first.handle else second], "test")

    verdicts = list(memory.verify(progress=expire_the_last))
    assert [(verdict.handle, verdict.problem) for verdict in verdicts] == [(handles[0], "")]


# ── Writers that go away ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_an_output_whose_writer_is_gone_is_interrupted(
    memory: MemoryStore, kept_in: SessionInfo, clock: Clock, how: str
) -> None:
    writer = memory.begin(kept_in, Origin())
    writer.write(b"so far\nand")
    handle = writer.handle
    clock.now += 5
    assert memory.resolve(kept_in, handle).state == "running"
    if how == "closed":
        writer.close()
    else:
        del writer
    facts = memory.resolve(kept_in, handle)
    assert (facts.state, facts.error) == (
        "interrupted",
        "its writer ended before it did; what had been written is kept",
    )
    assert (facts.measure.bytes, facts.measure.lines, facts.ended) == (10, 2, clock.now)
    clock.now += 5
    assert memory.outputs(kept_in) == [facts]
    assert read_back(memory, facts) == b"so far\nand"
    assert memory.expire(kept_in, [facts], "test") == 10


def test_after_its_end_nothing_is_written_and_nothing_ends_again(memory: MemoryStore, kept_in: SessionInfo) -> None:
    for end in ("finish", "close"):
        writer = memory.begin(kept_in, Origin())
        getattr(writer, end)()
        with pytest.raises(UsageError) as refused:
            writer.write(b"more")
        assert str(refused.value) == "this output has ended; nothing more can be written to it."
        with pytest.raises(UsageError) as refused:
            writer.finish()
        assert str(refused.value) == f"output {writer.handle} has ended already."
        assert memory.resolve(kept_in, writer.handle).measure.bytes == 0


# ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:quota-refuses-aloud")
@pytest.mark.parametrize(
    ("quota", "what", "setting"),
    [
        (Quota(session_bytes=10_000), "session", "session_quota_bytes"),
        (Quota(store_bytes=10_000), "store", "quota_bytes"),
    ],
)
def test_a_quota_refuses_aloud_and_leaves_nothing(clock: Clock, quota: Quota, what: str, setting: str) -> None:
    memory = MemoryStore(quota=quota, clock=clock)
    session = memory.open_session("s1")
    first = keep(memory, session, fill(6000))
    said = (
        f"the quota of this {what} is 10.0 kB and 6.0 kB of it are used: an output with "
        "at least 4.0 kB has no room. "
        f"Raise {setting}, or make room with `holdall rm` or `holdall gc --older-than 7d`."
    )
    with pytest.raises(QuotaReached) as refused:
        keep(memory, session, fill(4001, b"y"))
    assert str(refused.value) == said
    assert memory.outputs(session) == [first]
    writer = memory.begin(session, Origin())
    writer.write(fill(4000))
    with pytest.raises(QuotaReached):
        writer.write(b"!")
    assert writer.finish().measure.bytes == 4000
    elsewhere = memory.open_session("s2")
    if what == "store":
        with pytest.raises(QuotaReached):
            keep(memory, elsewhere, b"!")
    else:
        assert read_back(memory, keep(memory, elsewhere, fill(10_000))) == fill(10_000)


def refusing(number: int, after: int) -> Any:
    """An `os.pwrite` for which there is no room after so many bytes."""
    real, room = os.pwrite, [after]

    def write(descriptor: int, data: Any, at: int) -> int:
        if not room[0]:
            raise OSError(number, "refused")
        taken = real(descriptor, memoryview(data)[: room[0]], at)
        room[0] -= taken
        return taken

    return write


@on_linux
def test_where_there_is_no_memory_nothing_of_the_output_is_kept(
    memory: MemoryStore, kept_in: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()
    monkeypatch.setattr(os, "pwrite", refusing(errno.ENOSPC, 1000))
    with pytest.raises(StoreFull) as refused:
        keep(memory, kept_in, fill(2 * SMALL))
    monkeypatch.undo()
    assert str(refused.value) == snapshot(
        "no memory left while keeping an output of 2.1 MB or more. Nothing of it is kept. "
        "Keep outputs in a folder instead."
    )
    del refused
    assert memory.outputs(kept_in) == []
    assert descriptors() == before


def test_the_part_of_a_running_output_for_which_there_was_memory_is_kept(
    memory: MemoryStore, kept_in: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = memory.begin(kept_in, Origin())
    monkeypatch.setattr(os, "pwrite", refusing(errno.ENOMEM, 1000))
    with pytest.raises(StoreFull) as refused:
        writer.write(fill(LARGE))
    monkeypatch.undo()
    assert str(refused.value) == snapshot(
        "no memory left while writing a running output. Keep outputs in a folder instead."
    )
    assert read_back(memory, writer.finish("failed")) == fill(1000)


def test_an_event_for_which_there_is_no_memory_leaves_the_log_as_it_was(
    memory: MemoryStore, kept_in: SessionInfo
) -> None:
    class Endless(bytes):
        def split(self, sep: Any = None, maxsplit: Any = -1) -> list[bytes]:
            raise MemoryError

    memory.append_events(kept_in, b"{}\n")
    with pytest.raises(StoreFull, match="no memory left while writing an event"):
        memory.append_events(kept_in, Endless(b"{}\n"))
    assert memory.events_from(kept_in, 0).lines == b"{}\n"
    memory.append_events(kept_in, b"{}\n")
    assert memory.events_from(kept_in, 0).lines == b"{}\n{}\n"


@on_linux
def test_where_descriptors_run_out_the_refusal_says_what_to_do_and_nothing_is_lost(
    memory: MemoryStore, kept_in: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(memory, kept_in, fill(LARGE))

    def refused(*_: Any) -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(StoreFault) as raised:
        keep(memory, kept_in, fill(LARGE, b"y"))
    assert str(raised.value) == snapshot(
        "Too many open files while keeping an output in memory. Each output of more than 1.0 MB holds one: "
        "raise the limit (`ulimit -n`), or keep outputs in a folder."
    )
    small = keep(memory, kept_in, fill(SMALL))
    assert set(memory.outputs(kept_in)) == {kept, small}
    assert [read_back(memory, facts) for facts in (kept, small)] == [fill(LARGE), fill(SMALL)]


# ── Threads ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_threads_keep_and_read_at_once_and_nothing_is_lost(memory: MemoryStore) -> None:
    start = threading.Barrier(8)

    def work(thread: int) -> list[tuple[Facts, bytes]]:
        start.wait(timeout=100)
        session = memory.open_session("shared")
        done: list[tuple[Facts, bytes]] = []
        for number in range(25):
            data = b"same" if number % 5 == 0 else b"%d %d" % (thread, number)
            if number % 3:
                facts = memory.put(session, [data], Origin())
            else:
                writer = memory.begin(session, Origin())
                writer.write(data)
                assert memory.resolve(session, writer.handle).state == "running"
                facts = writer.finish()
            assert facts in memory.outputs(session)
            done.append((facts, data))
        return done

    with ThreadPoolExecutor(8) as pool:
        kept = [pair for done in pool.map(work, range(8)) for pair in done]
    (session,) = memory.sessions()
    assert len(memory.outputs(session)) == len({facts.handle for facts, _ in kept}) == 200
    assert all(read_back(memory, facts) == data for facts, data in kept)
    assert memory.used_bytes(session) == sum(map(len, {data for _, data in kept}))


def test_who_reads_while_an_output_grows_past_small_finds_every_byte_in_its_place(
    memory: MemoryStore, kept_in: SessionInfo
) -> None:
    data = os.urandom(2 * SMALL)
    writer = memory.begin(kept_in, Origin())
    reader = memory.open(writer.facts)

    def write() -> None:
        for start in range(0, len(data), 10_000):
            writer.write(data[start : start + 10_000])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            reader.refresh()
            assert reader.read(0, len(data)) == data[: reader.totals.bytes]
        writing.result()
    reader.refresh()
    assert reader.totals.bytes == len(data)
    reader.close()
    assert read_back(memory, writer.finish()) == data
