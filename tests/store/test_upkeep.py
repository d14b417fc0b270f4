"""Upkeep: what expires and what stays, what killed writers leave, proof of every byte, totals, quotas."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdall.store import files
from holdall.store.directory import disk, session_files, summaries, upkeep
from holdall.store.directory import folder as record
from holdall.store.directory import store as directory_store
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.live import LiveWriter
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import Quota, SessionInfo, Sweep
from holdall.store.records import encode_session
from holdall.values.errors import OutputExpired, QuotaReached, StoreFault, StoreFull, UnknownHandle
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import DAY, Retention
from tests.requirements import requirement
from tests.store.support import Clock, folder_of, held, keep, payload, read_back, tree


def expired(swept: Sweep) -> list[tuple[str, str]]:
    return [(session, facts.handle) for session, facts in swept.expired]


def handles(*kept: Facts) -> set[str]:
    return {facts.handle for facts in kept}


# ── Retention ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:retention-default", "store:retention-days")
def test_after_30_days_and_not_before_an_output_goes(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    old = keep(folder_store, folder_session, "old")
    clock.pass_days(1)
    young = keep(folder_store, folder_session, "young")
    clock.now += 29 * DAY - 1
    assert upkeep.sweep(folder_store) == Sweep()
    clock.now += 1
    swept = upkeep.sweep(folder_store)
    assert (expired(swept), swept.freed_bytes) == ([("s1", old.handle)], 3)
    assert payload(home, folder_session) == [young.file]
    assert read_back(folder_store, young) == b"young"
    assert upkeep.sweep(folder_store) == Sweep()


def test_beside_a_record_that_cannot_be_read_nothing_goes_and_gc_says_why(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    over, hurt = keep(folder_store, folder_session, "over"), keep(folder_store, folder_session, "hurt")
    before = payload(home, folder_session)
    (folder_of(home, folder_session) / f"{hurt.handle}.record").write_bytes(b"no record")
    clock.pass_days(31)
    for dry_run in (True, False):
        swept = upkeep.sweep(folder_store, dry_run=dry_run)
        ((session, why),) = swept.held
        assert (expired(swept), swept.freed_bytes, session) == ([], 0, "s1")
        assert why.startswith(f"the record of {hurt.handle} cannot be read and may name the same bytes; nothing was")
    assert payload(home, folder_session) == before
    assert [(facts.handle, facts.state) for facts in folder_store.survey(folder_session)[1]] == [(over.handle, "ready")]
    folder_store.end_session(replace(folder_session, retention=Retention(session=True)))
    assert payload(home, folder_session) == before


@requirement("store:retention-days")
def test_the_days_of_a_session_are_its_own(folder_store: DirectoryStore, clock: Clock) -> None:
    short = folder_store.open_session("short", retention=Retention(days=0.5))
    long = folder_store.open_session("long", retention=Retention(days=365))
    for session in (short, long):
        keep(folder_store, session, "x")
    clock.pass_days(0.5)
    assert [session for session, _ in expired(upkeep.sweep(folder_store))] == ["short"]
    folder_store.open_session("long", retention=Retention(days=0.1))
    assert [session for session, _ in expired(upkeep.sweep(folder_store))] == ["long"]


@requirement("store:retention-keep")
def test_with_keep_nothing_expires(folder_store: DirectoryStore, clock: Clock) -> None:
    session = folder_store.open_session("kept", retention=Retention(days=None))
    facts = keep(folder_store, session, "x")
    clock.pass_days(40_000)
    assert upkeep.sweep(folder_store) == Sweep()
    folder_store.end_session(session)
    assert read_back(folder_store, folder_store.resolve(session, facts.handle)) == b"x"


def test_with_session_outputs_go_when_the_session_ends_and_not_by_age(
    folder_store: DirectoryStore, clock: Clock, home: Path
) -> None:
    session = folder_store.open_session("run", retention=Retention(days=None, session=True))
    kept = [keep(folder_store, session, text) for text in ("a", "b", "a")]
    clock.pass_days(400)
    assert upkeep.sweep(folder_store) == Sweep()
    folder_store.end_session(session)
    assert payload(home, session) == []
    for facts in kept:
        stone = folder_store.resolve(session, facts.handle)
        assert (stone.state, stone.error) == ("expired", "kept for its session, which has ended")


def test_ending_a_session_that_keeps_for_days_removes_nothing(
    folder_store: DirectoryStore, folder_session: SessionInfo
) -> None:
    facts = keep(folder_store, folder_session, "x")
    folder_store.end_session(folder_session)
    assert folder_store.resolve(folder_session, facts.handle) == facts


@requirement("store:tombstone")
def test_an_expired_output_says_when_and_why_it_went(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock
) -> None:
    facts = keep(folder_store, folder_session, "secret", tool="fetch", call_id="c1", arguments={"token": "secret"})
    clock.pass_days(30)
    upkeep.sweep(folder_store)
    stone = replace(
        facts,
        state="expired",
        ended=clock.now,
        error="kept for 30 days",
        file="",
        origin=Origin(tool="fetch", call_id="c1"),
        measure=replace(facts.measure, sha256=""),
    )
    for reference in (facts.handle, facts.long_handle, "c1"):
        assert folder_store.resolve(folder_session, reference) == stone
    with pytest.raises(OutputExpired) as refused:
        folder_store.open(facts)
    assert str(refused.value) == (
        f"output {facts.handle} expired: its bytes were removed on 2027-02-14 (kept for 30 days)."
    )
    assert folder_store.outputs(folder_session) == [stone]
    with pytest.raises(UnknownHandle, match="Kept: nothing yet"):
        folder_store.resolve(folder_session, "bbbbbbbbbbbb")
    clock.pass_days(1000)
    assert upkeep.sweep(folder_store) == Sweep()


@requirement("store:identical-removed-apart")
def test_shared_bytes_stay_until_the_last_of_their_outputs_goes(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    kept: list[Facts] = []
    for _ in range(3):
        kept.append(keep(folder_store, folder_session, "shared"))
        clock.pass_days(1)
    clock.pass_days(27)
    for left in (2, 1, 0):
        swept = upkeep.sweep(folder_store)
        assert expired(swept) == [("s1", kept[2 - left].handle)]
        assert swept.freed_bytes == (0 if left else 6)
        assert len(payload(home, folder_session)) == min(left, 1)
        for facts in kept[3 - left :]:
            assert read_back(folder_store, facts) == b"shared"
        clock.pass_days(1)


@requirement("store:running-not-expired")
def test_an_output_that_is_still_written_does_not_expire(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock
) -> None:
    writer = folder_store.begin(folder_session, Origin())
    writer.write(b"slow")
    clock.pass_days(1000)
    assert upkeep.sweep(folder_store) == Sweep()
    assert folder_store.expire(folder_session, [folder_store.resolve(folder_session, writer.handle)], "no") == 0
    final = writer.finish()
    assert upkeep.sweep(folder_store) == Sweep(), "its time counts from its end"
    assert read_back(folder_store, final) == b"slow"
    clock.pass_days(31)
    assert expired(upkeep.sweep(folder_store)) == [("s1", final.handle)]


def test_an_output_whose_writer_is_gone_is_interrupted_and_then_expires(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock
) -> None:
    writer: Any = folder_store.begin(folder_session, Origin())
    writer.write(b"so far\nand")
    writer.close()
    facts = folder_store.resolve(folder_session, writer.handle)
    assert (facts.state, facts.error) == (
        "interrupted",
        "its writer ended before it did; what had been written is kept",
    )
    assert (facts.measure.bytes, facts.measure.lines, facts.ended) == (10, 2, clock.now)
    assert read_back(folder_store, facts) == b"so far\nand"
    clock.pass_days(30)
    assert expired(upkeep.sweep(folder_store)) == [("s1", facts.handle)]


@requirement("store:disk-full")
def test_an_output_whose_writer_left_a_full_disk_behind_says_that_it_is_full(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer: Any = folder_store.begin(folder_session, Origin())
    writer.write(b"so far")
    writer.close()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SessionFolder, "rewrite", full)
        told = folder_store.resolve(folder_session, writer.handle).error
        assert told == ("its writer ended before it did; what had been written is kept (no space is left on its disk)")
    assert "space" not in folder_store.resolve(folder_session, writer.handle).error


def test_an_output_that_ends_while_it_is_looked_at_is_not_interrupted(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for look in (folder_store.resolve, folder_store.open_named):
        writer = folder_store.begin(folder_session, Origin())
        writer.write(b"to its end")

        def is_running(*_: object, writer: LiveWriter = writer) -> bool:
            monkeypatch.undo()
            writer.finish()
            return False

        monkeypatch.setattr(directory_store, "is_running", is_running)
        looked = look(folder_session, writer.handle)
        assert folder_store.resolve(folder_session, writer.handle).state == "ready"
        if isinstance(looked, Facts):
            assert looked == writer.facts
        else:
            assert looked.read(0, 100) == b"to its end"
            looked.close()


@requirement("store:read-only-folder")
def test_what_a_dead_writer_left_is_shown_as_interrupted_where_nothing_can_be_written(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = folder_store.begin(folder_session, Origin())
    writer.write(b"so far")
    writer.close()
    before = tree(folder_of(home, folder_session))
    refuse(monkeypatch, SessionFolder, "lock", errno.EROFS)
    refuse(monkeypatch, SessionFolder, "rewrite", errno.EROFS)
    facts = folder_store.resolve(folder_session, writer.handle)
    assert (facts.state, facts.measure.bytes) == ("interrupted", 6)
    assert folder_store.outputs(folder_session) == [facts]
    with closing(folder_store.open(facts)) as reader:
        assert reader.read(0, 100) == b"so far"
    assert tree(folder_of(home, folder_session)) == before


@requirement("store:io-errors")
def test_a_running_output_that_cannot_be_looked_at_now_is_listed_as_unreadable(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, writer = keep(folder_store, folder_session, "kept"), folder_store.begin(folder_session, Origin())
    refuse(monkeypatch, directory_store, "is_running", errno.EMFILE)
    listed = {one.handle: one for one in folder_store.outputs(folder_session)}
    assert listed[kept.handle] == kept
    unread = listed[writer.handle]
    assert (unread.state, "Too many open files while looking at an output" in unread.error) == ("unreadable", True)
    monkeypatch.undo()
    assert folder_store.resolve(folder_session, writer.handle).state == "running"


@requirement("store:retention-days")
def test_a_rule_that_another_process_changed_counts_at_once(home: Path, clock: Clock) -> None:
    with closing(DirectoryStore(str(home), clock=clock)) as store, closing(DirectoryStore(str(home))) as other:
        session = store.open_session("s1", retention=Retention(days=1))
        kept = keep(store, session, "kept")
        other.open_session("s1", retention=Retention(days=9))
        clock.pass_days(5)
        assert store.resolve(session, kept.handle) == kept
        assert read_back(store, kept) == b"kept"
        before = store.stamp(kept)
        clock.pass_days(4)
        assert store.resolve(session, kept.handle).state == "expired"
        assert store.stamp(kept) != before
        for look in (store.open, store.watch):
            with pytest.raises(OutputExpired):
                look(kept)


def test_a_session_without_a_mark_gets_one_that_all_see(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store, closing(DirectoryStore(str(home))) as other:
        session = store.open_session("s1", retention=Retention(days=9))
        assert store.mark(session) == session.mark
        (folder_of(home, session) / "session.json").write_bytes(encode_session(replace(session, mark="")))
        old = store.open_session("s1")
        assert old.mark == ""
        made = store.mark(old)
        assert made
        assert other.mark(old) == made
        assert other.open_session("s1") == replace(session, mark=made)


# ── Dry runs, left-overs, and when it is time ───────────────────────────────────────────────────────────────


@requirement("store:gc-dry-run")
def test_a_dry_run_says_what_would_go_and_changes_nothing(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    keep(folder_store, folder_session, "twice")
    keep(folder_store, folder_session, "twice")
    keep(folder_store, folder_session, "once")
    clock.pass_days(20)
    keep(folder_store, folder_session, "once")
    clock.pass_days(10)
    stray = folder_of(home, folder_session) / ".incoming-0b8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"
    stray.write_bytes(b"left over")
    os.utime(stray, (0, 0))
    folder_store.outputs(folder_session)
    before = tree(home)
    dry = upkeep.sweep(folder_store, dry_run=True)
    assert tree(home) == before
    assert folder_store.sweep_due()
    assert len(dry.expired) == 3
    assert dry.leftovers == (f"s1/{stray.name}",)
    assert dry.freed_bytes == len("twice") + len("left over")
    real = upkeep.sweep(folder_store)
    assert real == replace(dry, dry_run=False)
    assert not stray.exists()


@requirement("store:leftovers-removed")
@pytest.mark.parametrize("place", ["", "terminal/"])
def test_left_overs_of_a_dead_writer_go_once_they_are_old_and_those_of_a_living_one_never(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path, place: str
) -> None:
    kept = keep(folder_store, folder_session, "kept", terminal=bool(place))
    running = folder_store.begin(folder_session, Origin(terminal=bool(place)))
    folder = folder_of(home, folder_session)
    dead = folder / f"{place}.incoming-0b8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"
    nameless = folder / f"{place}1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22.txt"
    own = folder / f"{place}notes-of-the-user-about-what-was-done-in-this-session.txt"
    copied = folder / f"{place}1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"
    for path in (dead, nameless, own, copied):
        path.write_bytes(b"12345")
        os.utime(path, (clock.now, clock.now))
    seen: list[Sweep] = []

    def parts() -> Any:
        """A writer that lives while the store is swept, far in the future."""
        yield b"x" * 2_000_000
        clock.now += 3600 - 1
        seen.append(upkeep.sweep(folder_store))
        clock.now += 1
        seen.append(upkeep.sweep(folder_store))
        yield b"y"

    before = clock.now
    slow = keep(folder_store, folder_session, parts(), terminal=bool(place))
    assert clock.now == before + 3600
    assert seen[0].leftovers == ()
    assert set(seen[1].leftovers) == {f"s1/{place}{dead.name}", f"s1/{place}{nameless.name}"}
    assert seen[1].freed_bytes == 10
    assert own.exists()
    assert copied.exists()
    assert read_back(folder_store, kept) == b"kept"
    assert read_back(folder_store, slow) == b"x" * 2_000_000 + b"y"
    running.write(b"still here")
    assert read_back(folder_store, running.finish()) == b"still here"


@requirement("store:leftovers-removed")
def test_what_was_left_beside_the_sessions_goes_once_it_is_old(
    folder_store: DirectoryStore,
    folder_session: SessionInfo,
    clock: Clock,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep(folder_store, folder_session, "kept")
    name = ".incoming-0b8f2a54"
    folders = {
        "names": home / "names",
        "begun": home / "session-1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22",
        "never": home / "session-2c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22",
        "other": home / "of-somebody-else",
    }
    left = [folders["names"] / name, folders["begun"] / name]
    own = [folders["begun"] / "3c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22.txt", folders["other"] / name]
    staged = home / ".import-0b8f2a54"
    for folder in (*folders.values(), staged):
        folder.mkdir(exist_ok=True)
    nested, empty = staged / "session-4c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22", home / ".import-1c9f3b65"
    half = [staged / ".held", *(nested / f"half-{number}" for number in range(3))]
    nested.mkdir()
    empty.mkdir()
    for path in (*left, *own, *half):
        path.write_bytes(b"12345")
    for path in (*left, *own, *folders.values()):
        os.utime(path, (clock.now, clock.now))
    folder_store.outputs(folder_session)
    before, opened = tree(home), held(home)
    clock.now += 3599
    with monkeypatch.context() as patch:
        refuse(patch, disk, "is_held", errno.EIO)
        assert upkeep.sweep(folder_store).leftovers == (empty.name,)
        assert held(home) == opened
    empty.mkdir()
    assert set(upkeep.sweep(folder_store, dry_run=True).leftovers) == {staged.name, empty.name}
    clock.now += 1
    dry = upkeep.sweep(folder_store, dry_run=True)
    beside = {str(one.relative_to(home)) for one in (*left, staged, empty)}
    assert (set(dry.leftovers), dry.freed_bytes) == (beside, 30)
    assert {name for name in tree(home) if name != ".last-gc"} == set(before)
    swept = upkeep.sweep(folder_store)
    assert (set(swept.leftovers), swept.freed_bytes) == (beside, 30)
    gone = {str(one.relative_to(home)) for one in (*left, folders["never"], staged, nested, empty, *half)}
    assert set(before) - set(tree(home)) == gone
    assert held(home) == opened


def test_a_clock_that_was_ahead_once_does_not_stop_gc(folder_store: DirectoryStore, clock: Clock) -> None:
    upkeep.sweep(folder_store)
    ahead = clock.now + 400 * 86_400
    os.utime(Path(folder_store.home) / ".last-gc", (ahead, ahead))
    assert upkeep.due(folder_store)
    upkeep.sweep(folder_store)
    assert not upkeep.due(folder_store)


def test_gc_is_due_once_a_day(folder_store: DirectoryStore, clock: Clock) -> None:
    assert folder_store.sweep_due()
    upkeep.sweep(folder_store)
    assert (Path(folder_store.home) / ".last-gc").stat().st_mode & 0o777 == 0o600
    assert not folder_store.sweep_due()
    clock.now += DAY - 1
    assert not folder_store.sweep_due()
    clock.now += 1
    assert folder_store.sweep_due()
    upkeep.sweep(folder_store)
    assert not folder_store.sweep_due()


# ── Verify and stats ────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:verify-all")
def test_verify_reads_everything_and_names_what_is_damaged_or_lost(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    size = 200_000
    names = ("good", "flipped", "cut", "grown", "lost", "record", "hash")
    kept = {name: keep(folder_store, folder_session, name.encode() * (size // len(name))) for name in names}
    expiring = keep(folder_store, folder_session, "expiring")
    folder_store.expire(folder_session, [expiring], "test")
    running = folder_store.begin(folder_session, Origin())
    folder = folder_of(home, folder_session)

    def change(name: str, data: bytes) -> None:
        (folder / kept[name].file).write_bytes(data)

    whole = {name: (folder / facts.file).read_bytes() for name, facts in kept.items()}
    flipped = bytearray(whole["flipped"])
    flipped[100_000] ^= 1
    change("flipped", bytes(flipped))
    change("cut", whole["cut"][: size // 2])
    change("grown", whole["grown"] + b"!")
    (folder / kept["lost"].file).unlink()
    path = folder / f"{kept['record'].handle}.record"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    path = folder / f"{kept['hash'].handle}.record"
    facts, table = record.decode(path.read_bytes(), handle=kept["hash"].handle)
    path.write_bytes(record.encode(replace(facts, measure=replace(facts.measure, sha256="0" * 64)), table))
    told: list[int] = []
    verdicts = {one.handle: one for one in upkeep.verify(folder_store, progress=told.append)}
    assert set(verdicts) == handles(*kept.values())
    problems = {name: verdicts[facts.handle].problem for name, facts in kept.items()}
    damaged = "The damaged bytes are not shown; `holdall verify` lists what is damaged."
    assert problems == {
        "good": "",
        "hash": f"output {kept['hash'].handle} is damaged: sha256 mismatch. {damaged}",
        "flipped": f"output {kept['flipped'].handle} is damaged: checksum mismatch in bytes 65,536 to 131,072. {damaged}",
        "cut": f"output {kept['cut'].handle} is damaged: its file has 100,000 bytes of 199,998 (truncated). {damaged}",
        "grown": f"output {kept['grown'].handle} is damaged: its file has 200,001 bytes of 200,000 (grown). {damaged}",
        "lost": f"the stored bytes of output {kept['lost'].handle} are gone: its file was removed from the store by hand.",
        "record": f"output {kept['record'].handle} is damaged: its record does not match its own checksum. {damaged}",
    }
    assert verdicts[kept["record"].handle].bytes == 0  # which nobody could read
    assert told == sorted(told)
    assert size < told[-1] <= len(names) * size
    running.finish()


@requirement("store:verify-all")
def test_verify_says_nothing_of_what_expires_meanwhile_and_misses_a_record_that_goes(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    kept: list[Facts] = []
    for text in ("first", "expires", "goes", "last"):
        clock.now += 1
        kept.append(keep(folder_store, folder_session, text))
    first, expires, goes, last = kept
    verdicts = upkeep.verify(folder_store)
    assert next(verdicts).handle == first.handle
    folder_store.expire(folder_session, [expires], "test")
    (folder_of(home, folder_session) / f"{goes.handle}.record").unlink()
    missed, fine = verdicts
    assert (missed.handle, "its record was removed while it was read" in missed.problem) == (goes.handle, True)
    assert (fine.handle, fine.problem) == (last.handle, "")


def test_verify_looks_at_the_sessions_that_it_is_given(folder_store: DirectoryStore) -> None:
    first, second = folder_store.open_session("a"), folder_store.open_session("b")
    one, two = keep(folder_store, first, "x"), keep(folder_store, second, "y")
    assert [verdict.handle for verdict in upkeep.verify(folder_store, [second])] == [two.handle]
    assert {verdict.handle for verdict in upkeep.verify(folder_store)} == handles(one, two)


def test_stats_count_outputs_each_time_and_stored_bytes_once(
    folder_store: DirectoryStore, folder_session: SessionInfo
) -> None:
    keep(folder_store, folder_session, "a\nb\n", tool="fetch")
    keep(folder_store, folder_session, "a\nb\n", tool="fetch")
    keep(folder_store, folder_session, {"k": 1})
    gone = keep(folder_store, folder_session, "gone")
    folder_store.expire(folder_session, [gone], "test")
    other = folder_store.open_session("s2")
    keep(folder_store, other, "a\nb\n")
    running = folder_store.begin(other, Origin(tool="crawl"))
    total = folder_store.stats()
    assert (total.sessions, total.outputs, total.expired) == (2, 5, 1)
    assert (total.bytes, total.stored_bytes, total.lines) == (20, 16, 7)
    assert total.by_kind == {"text": 3, "json": 1, "running": 1}
    assert total.by_tool == {"fetch": 2, "(none)": 2, "crawl": 1}
    assert total.by_state == {"ready": 4, "expired": 1, "running": 1}
    assert folder_store.stats([other]).outputs == 2
    assert folder_store.kept_by_session() == {folder_session.id: (4, 3, 12), other.id: (2, 2, 4)}
    running.finish()


# ── Quotas ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:quota-off")
def test_there_is_no_quota_unless_one_is_set(folder_store: DirectoryStore, folder_session: SessionInfo) -> None:
    assert Quota() == Quota(store_bytes=None, session_bytes=None)
    for number in range(3):
        keep(folder_store, folder_session, bytes([number]) * 3_000_000)
    assert folder_store.used_bytes(folder_session) == 9_000_000


@requirement("store:quota-refuses-aloud")
@pytest.mark.parametrize(
    ("quota", "what", "setting"),
    [
        (Quota(session_bytes=10_000), "session", "session_quota_bytes"),
        (Quota(store_bytes=10_000), "store", "quota_bytes"),
    ],
)
def test_a_quota_refuses_aloud_and_leaves_nothing(home: Path, quota: Quota, what: str, setting: str) -> None:
    store = DirectoryStore(str(home), quota=quota)
    session = store.open_session("s1")
    first = keep(store, session, b"x" * 6000)
    before = tree(folder_of(home, session))
    with pytest.raises(QuotaReached) as refused:
        keep(store, session, b"y" * 4001)
    assert str(refused.value) == (
        f"the quota of this {what} is 10.0 kB and 6.0 kB of it are used: an output with "
        "at least 4.0 kB has no room. "
        f"Raise {setting}, or make room with `holdall rm` or `holdall gc --older-than 7d`."
    )
    assert tree(folder_of(home, session)) == before
    assert read_back(store, keep(store, session, b"z" * 4000)) == b"z" * 4000
    assert read_back(store, first) == b"x" * 6000
    store.close()


@requirement("store:quota-refuses-aloud")
@pytest.mark.parametrize("quota", [Quota(session_bytes=10_000), Quota(store_bytes=10_000)])
def test_what_is_being_written_counts_too(home: Path, quota: Quota) -> None:
    store = DirectoryStore(str(home), quota=quota)
    session = store.open_session("s1")
    first, second = store.begin(session, Origin()), store.begin(session, Origin())
    first.write(b"x" * 6000)
    second.write(b"y" * 4000)
    for refused in (lambda: first.write(b"x"), lambda: second.write(b"y"), lambda: keep(store, session, b"z")):
        with pytest.raises(QuotaReached):
            refused()
    second.close()  # what it wrote stays
    with pytest.raises(QuotaReached):
        first.write(b"x")
    first.finish()
    assert store.used_bytes(session) == 10_000
    store.remove(session, [first.facts])
    keep(store, session, b"z" * 6000)
    store.close()


@requirement("store:quota-refuses-aloud")
@pytest.mark.parametrize("quota", [Quota(session_bytes=10_000), Quota(store_bytes=10_000)])
def test_what_another_process_kept_meanwhile_counts_too(home: Path, quota: Quota) -> None:
    store, other = DirectoryStore(str(home), quota=quota), DirectoryStore(str(home), quota=quota)
    session = store.open_session("s1")

    def chunks() -> Iterator[bytes]:
        yield b"x" * 3000
        keep(other, other.open_session("s1"), b"y" * 6000)
        yield b"x" * 3000

    with pytest.raises(QuotaReached):
        store.put(session, chunks(), Origin())
    assert store.used_bytes(session) == 6000
    for one in (store, other):
        one.close()


@requirement("store:quota-refuses-aloud")
def test_a_quota_of_the_store_counts_every_session_and_one_of_a_session_only_its_own(home: Path) -> None:
    both = DirectoryStore(str(home), quota=Quota(store_bytes=100, session_bytes=60))
    first, second = both.open_session("a"), both.open_session("b")
    keep(both, first, b"x" * 60)
    with pytest.raises(QuotaReached, match="quota of this session is 60 B and 60 B of it are used"):
        keep(both, first, b"y")
    keep(both, second, b"x" * 40)
    with pytest.raises(QuotaReached, match="quota of this store is 100 B and 100 B of it are used"):
        keep(both, second, b"y")
    both.close()


@requirement("store:quota-refuses-aloud")
def test_a_stream_is_refused_as_soon_as_the_quota_is_passed(home: Path) -> None:
    store = DirectoryStore(str(home), quota=Quota(session_bytes=5_000_000))
    session = store.open_session("s1")
    given: list[int] = []

    def endless() -> Any:
        while True:
            given.append(1)
            yield b"x" * 1_000_000

    with pytest.raises(QuotaReached):
        keep(store, session, endless())
    assert len(given) < 10
    assert payload(home, session) == []
    assert store.outputs(session) == []
    store.close()


@requirement("store:verify-all")
def test_an_output_whose_last_record_had_no_room_on_the_disk_is_not_damaged(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = folder_store.begin(folder_session, Origin(tool="cat", terminal=True))
    writer.write(b"as far as there was room")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(SessionFolder, "rewrite", full)
    with pytest.raises(StoreFull):
        writer.finish("interrupted")
    writer.close()
    for _ in range(2):
        (verdict,) = upkeep.verify(folder_store)
        assert (verdict.handle, verdict.problem) == (writer.handle, "")
    (file,) = folder_of(home, folder_session).glob("terminal/*.log")
    file.unlink()
    (verdict,) = upkeep.verify(folder_store)
    assert verdict.problem  # what is not there is still found out


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """No file is written, until one with bytes of an output is removed."""
    real = files.write
    stored = {path.name for path in home.rglob("*") if path.suffix in (".txt", ".log")}

    def write(file: int, data: memoryview | bytes) -> int:
        if stored <= {path.name for path in home.rglob("*")}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(files, "write", write)


def of_the_tree(handle: str) -> bytes:
    return json.dumps({"op": "extraction", "handle": handle, "question": "secret"}).encode()


@requirement("store:removed")
def test_on_a_full_disk_a_second_removal_takes_what_the_first_one_left(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(folder_store, folder_session, "large")
    folder_store.remove(folder_session, [kept])
    folder_store.save_tree(folder_session, of_the_tree(kept.handle))
    left = folder_of(home, folder_session) / "1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22.txt"
    left.write_bytes(b"large")
    fill_the_disk(monkeypatch, home)
    assert folder_store.remove(folder_session, [kept]).freed_bytes == 5
    assert not left.exists()
    assert b"secret" not in (folder_store.tree(folder_session) or b"")


@requirement("store:removed", "store:io-errors")
@pytest.mark.parametrize(
    ("error", "told", "state"), [(errno.ENOSPC, "no space left", "expired"), (errno.EIO, "Input/output error", "ready")]
)
def test_a_removal_that_cannot_take_out_what_is_told_of_an_output_does_not_say_that_it_did(
    folder_store: DirectoryStore,
    folder_session: SessionInfo,
    monkeypatch: pytest.MonkeyPatch,
    error: int,
    told: str,
    state: str,
) -> None:
    kept = keep(folder_store, folder_session, "large")
    folder_store.save_tree(folder_session, of_the_tree(kept.handle))
    refuse(monkeypatch, session_files, "erase", error)
    with pytest.raises(StoreFault, match=told):
        folder_store.remove(folder_session, [kept])
    monkeypatch.undo()
    assert folder_store.resolve(folder_session, kept.handle).state == state
    folder_store.remove(folder_session, [kept])
    assert b"secret" not in (folder_store.tree(folder_session) or b"")


@requirement("store:removed", "store:io-errors")
def test_a_record_that_cannot_be_written_leaves_an_output_as_it_was(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(folder_store, folder_session, "kept")
    before = payload(home, folder_session)
    with monkeypatch.context() as patch:
        refuse(patch, SessionFolder, "rewrite", errno.EIO, times=1)
        with pytest.raises(StoreFault, match=os.strerror(errno.EIO)):
            folder_store.remove(folder_session, [kept])
    with monkeypatch.context() as patch:
        refuse(patch, SessionFolder, "publish", errno.EIO)
        for value in ("new", "kept"):
            with pytest.raises(StoreFault, match=os.strerror(errno.EIO)):
                keep(folder_store, folder_session, value)
    keep(folder_store, folder_session, "makes the folder", terminal=True)
    before = payload(home, folder_session)
    for place in ("terminal", folder_session.id):
        with monkeypatch.context() as patch:
            refuse(patch, files, "fsync", errno.EIO, of=place)
            with pytest.raises(StoreFault, match=os.strerror(errno.EIO)):
                keep(folder_store, folder_session, "new", terminal=True)
            with pytest.raises(StoreFault, match=os.strerror(errno.EIO)):
                folder_store.begin(folder_session, Origin(terminal=True))
    assert len(folder_store.outputs(folder_session)) == 2
    assert payload(home, folder_session) == before
    assert read_back(folder_store, folder_store.resolve(folder_session, kept.handle)) == b"kept"


def refuse(patch: pytest.MonkeyPatch, owner: object, name: str, error: int, *, times: int = 100, of: str = "") -> None:
    """Calls of it fail, so often; or those on an open file whose path ends so."""
    real, failed = getattr(owner, name), list[str]()

    def refused(file: Any, *args: Any, **options: Any) -> Any:
        if len(failed) < times and (not of or os.readlink(f"/dev/fd/{file}").endswith(of)):
            failed.append(name)
            raise OSError(error, os.strerror(error))
        return real(file, *args, **options)

    patch.setattr(owner, name, refused)


@requirement("store:removed")
def test_a_removal_leaves_the_file_of_a_writer_that_has_no_record_yet(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    kept = keep(folder_store, folder_session, "kept")
    begun = folder_of(home, folder_session) / "1c8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22.txt"
    with begun.open("wb") as held_by_its_writer:
        fcntl.flock(held_by_its_writer, fcntl.LOCK_EX)
        assert folder_store.remove(folder_session, [kept]).freed_bytes == 4
        assert begun.exists()


@requirement("store:removed")
def test_nothing_is_removed_beside_a_record_that_cannot_be_read_but_a_whole_session_is(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    damaged, other = keep(folder_store, folder_session, "damaged"), keep(folder_store, folder_session, "other")
    path = folder_of(home, folder_session) / f"{damaged.handle}.record"
    path.write_bytes(b"damaged")
    for remove in (
        lambda: folder_store.remove(folder_session, [other]),
        lambda: folder_store.expire(folder_session, [other], "for a test"),
    ):
        with pytest.raises(StoreFault, match=f"the record of {damaged.handle} cannot be read"):
            remove()
    assert read_back(folder_store, other) == b"other"
    assert folder_store.remove_session(folder_session).freed_bytes == 12
    assert payload(home, folder_session) == []
    assert not path.exists()


def test_a_record_that_was_just_written_is_not_read_to_list_it(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = disk.read_file

    def read_file(name: str, *, inside: int) -> bytes:
        read.append(name)
        return real(name, inside=inside)

    kept, gone = keep(folder_store, folder_session, "kept"), keep(folder_store, folder_session, "gone")
    folder_store.outputs(folder_session)
    ended: Any = folder_store.begin(folder_session, Origin())
    left: Any = folder_store.begin(folder_session, Origin())
    for change in (
        lambda: keep(folder_store, folder_session, "new"),
        lambda: folder_store.begin(folder_session, Origin()),
        ended.finish,
        lambda: (left.close(), folder_store.resolve(folder_session, left.handle)),
        lambda: folder_store.expire(folder_session, [kept], "for a test"),
        lambda: folder_store.remove(folder_session, [gone]),
    ):
        made = change()
        with monkeypatch.context() as patch:
            patch.setattr(disk, "read_file", read_file)
            folder_store.outputs(folder_session)
        assert [name for name in read if name.endswith(".record")] == [], made


@requirement("store:removed")
def test_on_a_full_disk_an_output_can_be_removed(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, twin, other = [keep(folder_store, folder_session, text) for text in ("large", "large", "other")]
    fill_the_disk(monkeypatch, home)
    with pytest.raises(StoreFull) as full:  # its bytes stay: another output has them
        folder_store.remove(folder_session, [kept])
    assert "Make room with `holdall rm` or `holdall gc --older-than 7d`. Choose" in str(full.value)
    assert read_back(folder_store, kept) == read_back(folder_store, twin) == b"large"
    removed = folder_store.remove(folder_session, [kept, twin])
    assert (handles(*removed.removed), removed.freed_bytes) == (handles(kept, twin), 5)
    assert [facts.handle for facts in folder_store.outputs(folder_session) if facts.state == "ready"] == [other.handle]
    assert read_back(folder_store, other) == b"other"


@requirement("store:removed")
@pytest.mark.parametrize("way", ["remove", "expire", "session"])
def test_on_a_full_disk_what_an_ended_writer_left_can_be_removed(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    writer = folder_store.begin(folder_session, Origin(tool="cat", terminal=True))
    writer.write(b"as far as there was room")
    fill_the_disk(monkeypatch, home)
    writer.close()
    (facts,) = folder_store.outputs(folder_session)
    assert facts.state == "interrupted"
    match way:
        case "remove":
            freed = folder_store.remove(folder_session, [facts]).freed_bytes
        case "expire":
            freed = folder_store.expire(folder_session, [facts], "old")
        case _:
            with folder_store.lease(folder_session, "rm"):
                freed = folder_store.remove_session(folder_session).freed_bytes
    assert freed == 24
    assert [facts.state for facts in folder_store.outputs(folder_session)] == ["expired"]


def test_a_data_folder_that_cannot_be_made_is_not_said_to_have_gone() -> None:
    with pytest.raises(StoreFault) as raised:
        DirectoryStore("/proc/holdall")
    assert str(raised.value) == (
        "the data folder /proc/holdall cannot be made there. Choose another data folder: --home, HOLDALL_HOME or Holdall.open(home=…)."
    )


@requirement("store:leftovers-removed")
def test_a_note_that_was_not_written_to_its_end_goes_once_it_is_old(
    folder_store: DirectoryStore, folder_session: SessionInfo, clock: Clock, home: Path
) -> None:
    kept = keep(folder_store, folder_session, "kept")
    folder_store.remember(folder_session, kept.measure.sha256, "ab" * 16, b"a note")
    dead = folder_of(home, folder_session) / "answers" / ".incoming-0b8f2a54"
    dead.write_bytes(b"12345")
    os.utime(dead, (clock.now, clock.now))
    assert upkeep.sweep(folder_store).leftovers == ()
    clock.now += 3600
    for dry_run in (True, False):
        swept = upkeep.sweep(folder_store, dry_run=dry_run)
        assert (swept.leftovers, swept.freed_bytes) == (("s1/answers/.incoming-0b8f2a54",), 5)
    assert not dead.exists()
    assert [one for one in held(home) if "answers" in one] == []
    assert folder_store.recall(folder_session, kept.measure.sha256, "ab" * 16) == b"a note"


def test_a_session_is_settled_when_more_than_two_seconds_have_passed_since_it_changed(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(home, folder_session)
    os.utime(folder, (1000.0, 1000.0))
    for now, is_settled in ((1002.0, False), (1002.5, True)):
        monkeypatch.setattr(summaries.time, "time", Clock(now))
        assert folder_store.session_stamps()[folder_session.id].is_settled == is_settled
    (folder / "events.ndjson").write_text("{}\n")
    os.utime(folder, (1000.0, 1000.0))
    os.utime(folder / "events.ndjson", (1001.0, 1001.0))
    assert not folder_store.session_stamps()[folder_session.id].is_settled
