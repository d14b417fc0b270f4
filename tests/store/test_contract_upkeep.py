"""What every store does to stay in order: expiry, proof of every byte, totals, and a look that changes nothing."""

import asyncio
import io
import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from holdall.store.bundle.restore import import_bundle
from holdall.store.protocol import OutputStore, SavedSummary, SessionInfo, Sweep
from holdall.store.read_only import read_only
from holdall.values.errors import NothingFound, OutputExpired, SessionExists, UnknownHandle, UsageError
from holdall.values.handles import SHORTEST
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import Retention, parse
from holdall.values.spans import BlockTable
from tests.requirements import requirement
from tests.store.bundles import everything, exported, filled
from tests.store.conftest import STORES
from tests.store.support import Clock, StoreMaker, keep, read_back

KEY = "c" * 64


# ── Expiry and proof ────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:tombstone")
def test_an_expired_output_leaves_a_tombstone_that_names_the_rule(store: OutputStore, session: SessionInfo) -> None:
    facts, twin = keep(store, session, "same bytes"), keep(store, session, "same bytes")
    assert store.expire(session, [facts], "for a test") == 0, "its twin has the same bytes"
    assert store.expire(session, [facts, twin], "for a test") == len("same bytes")
    assert {one.state for one in store.outputs(session)} == {"expired"}
    with pytest.raises(OutputExpired, match="for a test"):
        store.open(facts)
    with pytest.raises(OutputExpired):
        store.watch(facts)


def test_a_sweep_removes_what_is_over_and_a_dry_run_only_tells(store: OutputStore, clock: Clock) -> None:
    short = store.open_session("short", retention=Retention(days=1))
    stays = keep(store, store.open_session("long"), "stays")
    over = keep(store, short, "goes")
    with closing(store.begin(short, Origin())) as running:
        running.write(b"still written")
        clock.pass_days(2)
        dry = store.sweep(dry_run=True)
        assert dry == Sweep(expired=(("short", over),), freed_bytes=4, dry_run=True)
        assert store.used_bytes(short) == 4, "they are still there"
        assert store.sweep().expired == dry.expired
        assert store.resolve(short, over.handle).state == "expired"
        assert store.sweep() == Sweep()
        assert read_back(store, stays) == b"stays"
        assert store.resolve(short, running.handle).state == "running"


@requirement("store:tombstone", "store:retention-days")
def test_what_is_past_its_time_has_expired_for_whoever_asks_before_it_is_removed(
    store: OutputStore, clock: Clock
) -> None:
    session = store.open_session("short", retention=parse("2 seconds"))
    facts = keep(store, session, "goes")
    before = store.stamp(facts)
    assert before is not None
    with closing(store.open(facts)):
        clock.pass_days(3 / 86_400)
    assert store.stamp(facts) not in (before, None)
    assert [one.state for one in (store.resolve(session, facts.handle), *store.outputs(session))] == ["expired"] * 2
    for ask in (lambda: store.open(facts), lambda: store.open_named(session, facts.handle), lambda: store.watch(facts)):
        with pytest.raises(OutputExpired) as refused:
            ask()
        assert str(refused.value) == f"output {facts.handle} expired on 2027-01-15 (kept for 2 seconds)."
    total = store.stats([session])
    assert (total.outputs, total.expired, total.bytes, total.stored_bytes, total.due_bytes) == (0, 1, 0, 4, 4)
    assert total.by_state == {"expired": 1}
    kept = keep(store, store.open_session("other"), "stays")
    assert store.kept_by_session() == {session.id: (1, 0, 4), kept.session: (1, 1, 5)}, "its bytes still take room"
    later = store.open_session("short", retention=Retention(days=1))
    assert read_back(store, facts) == b"goes", "another rule holds for all that is in the session"
    assert store.resolve(session, facts.handle) == facts
    store.open_session("short", retention=parse("1 second"))
    assert store.resolve(later, facts.handle).state == "expired"
    assert [one.handle for _, one in store.sweep().expired] == [facts.handle]


def test_verify_has_a_word_for_every_output_and_tells_how_far_it_is(store: OutputStore, session: SessionInfo) -> None:
    kept = [keep(store, session, "x" * 100_000), keep(store, session, "y")]
    store.expire(session, [keep(store, session, "gone")], "for a test")
    other = keep(store, store.open_session("other"), "z")
    told: list[int] = []
    verdicts = list(store.verify(progress=told.append))
    assert {(one.session, one.handle, one.bytes, one.problem) for one in verdicts} == {
        ("s1", kept[0].handle, 100_000, ""), ("s1", kept[1].handle, 1, ""), ("other", other.handle, 1, ""),
    }  # fmt: skip
    assert told == sorted(told)
    assert told[-1] == 100_002
    assert [one.handle for one in store.verify([store.open_session("other")])] == [other.handle]


def test_totals_count_what_a_running_output_has_so_far(store: OutputStore, session: SessionInfo) -> None:
    keep(store, session, "whole")
    writer = store.begin(session, Origin())
    writer.write(b"half")
    writer.flush()
    total = store.stats([session])
    assert (total.outputs, total.bytes, total.by_state["running"]) == (2, 9, 1)
    writer.close()


def test_totals_count_identical_bytes_once_where_it_is_about_room(store: OutputStore, session: SessionInfo) -> None:
    for _ in range(3):
        keep(store, session, "0123456789", tool="fetch")
    other = store.open_session("other")
    keep(store, other, "0123456789")
    total = store.stats()
    assert (total.sessions, total.outputs, total.bytes, total.stored_bytes) == (2, 4, 40, 20)
    assert total.by_tool == {"fetch": 3, "(none)": 1}
    assert store.stats([other]).outputs == 1
    assert (store.used_bytes(session), store.used_bytes(other), store.used_bytes()) == (10, 10, 20)


# ── All sessions at a glance ────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_found_by_name_and_by_id_and_none_is_made(store: OutputStore, session: SessionInfo) -> None:
    assert store.find_session("s1") == store.find_session(f"session-{session.id}") == session
    assert store.find_session("s2") is None
    assert store.sessions() == [session]
    assert store.unreadable_sessions() == {}


def _keep_one(store: OutputStore, session: SessionInfo) -> None:
    keep(store, session, "x")


def _log_one(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b"{}\n")


@pytest.mark.parametrize("change", [_keep_one, _log_one])
def test_the_stamp_of_a_session_changes_with_every_output_and_event(
    store: OutputStore, session: SessionInfo, change: Callable[[OutputStore, SessionInfo], None]
) -> None:
    other = store.open_session("other")
    keep(store, session, "before")
    before = store.session_stamps()
    assert set(before) == {session.id, other.id}
    change(store, session)
    after = store.session_stamps([session.id, "0" * 36])
    assert set(after) == {session.id}
    assert after[session.id].text != before[session.id].text
    assert store.session_stamps()[other.id].text == before[other.id].text


def test_summaries_are_remembered_replaced_and_forgotten(make_store: StoreMaker) -> None:
    store = make_store()
    one, two = store.open_session("one").id, store.open_session("two").id
    assert store.summaries() == []
    store.save_summaries([SavedSummary(one, "1", {"outputs": 1}), SavedSummary(two, "1", {"tools": ["a"]})])
    store.save_summaries([SavedSummary(one, "2", {"outputs": 2})])
    expected = [SavedSummary(one, "2", {"outputs": 2}), SavedSummary(two, "1", {"tools": ["a"]})]
    assert sorted(make_store().summaries()) == sorted(expected)
    store.forget_summaries([one, "0" * 36])
    assert store.summaries() == expected[1:]
    store.save_summaries([SavedSummary(two, "2", {"tools": ["\ud800"]})])  # half of a character, from a tool's name
    assert store.summaries() == [SavedSummary(two, "2", {"tools": ["\ud800"]})]


def test_whether_a_session_is_leased_can_be_seen_by_others(make_store: StoreMaker) -> None:
    store, other = make_store(), make_store()
    session = store.open_session("s")
    assert not other.is_leased(session.id)
    with store.lease(session, "us"):
        assert other.is_leased(session.id)
        assert not other.is_leased("0" * 36)
    assert not other.is_leased(session.id)


@requirement("store:claimed-names")
def test_a_claimed_name_is_held_by_one_and_passed_on_to_who_waits_for_it(make_store: StoreMaker) -> None:
    store, other = make_store(), make_store()
    session = store.open_session("s")
    first = store.claim(session, "../tools")
    assert first is not None
    assert other.claim(session, "../tools") is None
    further, elsewhere = other.claim(session, "another name"), other.claim(other.open_session("t"), "../tools")
    assert further is not None
    assert elsewhere is not None
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(other.claim, session, "../tools", wait=True) for _ in range(2)]
        assert not any(one.done() for one in waiting)
        first()
        for _ in range(2):  # one after the other
            done, _ = wait(waiting, 30, FIRST_COMPLETED)
            (won,) = done
            waiting.remove(won)
            assert store.claim(session, "../tools") is None
            found = won.result()
            assert found is not None
            found()
    again = store.claim(session, "../tools")
    assert again is not None
    for one in (again, further, elsewhere):
        one()


@requirement("store:claimed-names")
def test_a_shared_name_can_be_claimed_alone_when_the_last_has_let_go(make_store: StoreMaker) -> None:
    store, other = make_store(), make_store()
    session = store.open_session("s")
    first, second = store.claim(session, "members", shared=True), other.claim(session, "members", shared=True)
    assert first is not None
    assert second is not None
    assert store.claim(session, "members") is None
    first()
    assert store.claim(session, "members") is None
    second()
    alone = store.claim(session, "members")
    assert alone is not None
    assert other.claim(session, "members", shared=True) is None
    alone()


# ── Readers ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_output_is_opened_by_whatever_names_it(store: OutputStore, session: SessionInfo) -> None:
    facts = store.put(session, [b"here"], Origin(call_id="call 1"))
    for name in (facts.handle, facts.long_handle, "call 1"):
        with closing(store.open_named(session, name)) as reader:
            assert (reader.facts, reader.read(0, 9)) == (facts, b"here")
    with pytest.raises(UnknownHandle):
        store.open_named(session, "zzzz")
    store.expire(session, [facts], "a rule")
    with pytest.raises(OutputExpired):
        store.open_named(session, facts.handle)


def test_a_session_that_was_left_can_be_used_again(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, b"before")
    store.leave_session(session)
    store.leave_session(session)
    with closing(store.open_named(session, facts.handle)) as reader:
        assert reader.read(0, 9) == b"before"
    assert [one.measure.bytes for one in (facts, keep(store, session, b"after it"))] == [6, 8]


@pytest.mark.parametrize("size", [0, 5, 3_000_000])
def test_whoever_needs_a_local_file_gets_one(store: OutputStore, session: SessionInfo, size: int) -> None:
    with closing(store.open(keep(store, session, b"x" * size))) as reader, reader.local_file() as descriptor:
        assert os.fstat(descriptor).st_size == size
        assert os.pread(descriptor, size + 1, 0) == b"x" * size
        assert reader.refresh() == 0


@requirement("store:running-record-first")
def test_whoever_watches_a_running_output_is_woken_by_its_bytes_and_by_its_end(make_store: StoreMaker) -> None:
    store, other = make_store(), make_store()
    session = store.open_session("s")
    writer = store.begin(session, Origin())

    async def watch() -> Facts:
        watching = other.watch(other.resolve(session, writer.handle))
        with closing(watching):
            for act in (lambda: writer.write(b"more"), writer.finish):
                act()
                await asyncio.wait_for(watching.changed(), 30)
        return other.resolve(session, writer.handle)

    assert asyncio.run(watch()).state == "ready"


# ── From one store to another ───────────────────────────────────────────────────────────────────────────────


def test_notes_are_listed_by_their_names_with_their_lengths(store: OutputStore, session: SessionInfo) -> None:
    content = keep(store, session, "x").measure.sha256
    store.remember(session, content, KEY, b"first")
    store.remember(session, content, "d" * 64, b"")
    assert [tuple(note) for note in store.notes(session)] == [(content, KEY, 5), (content, "d" * 64, 0)]
    assert store.notes(store.open_session("other")) == []


def test_logs_are_read_in_parts_up_to_their_last_whole_line(store: OutputStore, session: SessionInfo) -> None:
    store.append_transcript(session, b'{"n":1}\n{"n":2}\n')
    store.append_events(session, b'{"n":1}\n{"n"')
    assert [store.log_length(session, log) for log in ("transcript", "events", "masks")] == [70, 35, 0]
    assert store.read_log(session, "transcript", 33, 39) == b'}\n{"n"'
    assert store.read_log(session, "transcript", 35, 100).startswith(b'{"n":2,"proof":"')
    assert store.read_log(session, "events", 35, 100) == b'{"n"'
    assert store.read_log(session, "masks", 0, 100) == b""


@pytest.mark.in_full(one_in=3)
@requirement("bundle:import-resolves")
@pytest.mark.parametrize("kind", sorted(STORES))
def test_a_session_goes_from_any_store_to_any_other_and_is_the_same_there(
    store: OutputStore, kind: str, tmp_path: Path
) -> None:
    bundle = exported(store, filled(store))
    with closing(STORES[kind](tmp_path / "elsewhere")) as there:
        import_bundle(there, io.BytesIO(bundle).read)
        assert everything(there) == everything(store)
        copy = there.find_session("s1")
        assert copy is not None
        assert exported(there, copy) == bundle
        assert [one.problem for one in there.verify() if one.problem] == []
        with pytest.raises(SessionExists):
            import_bundle(there, io.BytesIO(bundle).read)


def test_what_is_staged_and_not_published_was_never_there(store: OutputStore, session: SessionInfo) -> None:
    coming = SessionInfo("4" * 8 + "-4444-4444-8444-" + "4" * 12, "coming", 1.0, Retention())
    facts = Facts("b" * SHORTEST, session.id, coming.id, 1.0, state="expired")
    with store.staging() as staging, closing(staging.session(coming)) as staged:
        staged.write_record(facts, BlockTable())
        staged.finish()
        assert store.sessions() == [session]
    assert store.sessions() == [session]
    assert store.find_session("coming") is None
    with store.staging() as staging:
        with closing(staging.session(coming)) as staged:
            staged.write_record(facts, BlockTable())
            staged.finish()
        staging.publish([coming])
    assert store.find_session("coming") == coming
    assert [one.handle for one in store.outputs(coming)] == [facts.handle]


# ── Only looking ────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_changed_through_a_store_that_was_opened_to_look(store: OutputStore) -> None:
    session = store.open_session("s1", retention=Retention(days=None, session=True))
    facts = keep(store, session, "x")
    before = everything(store)
    look = read_only(store)
    for change in (
        lambda: look.put(session, [b"x"], Origin()),
        lambda: look.begin(session, Origin()),
        lambda: look.append_transcript(session, b"{}\n"),
        lambda: look.save_tree(session, b"{}"),
        lambda: look.lease(session, "me"),
        lambda: look.expire(session, [facts], "for a test"),
        look.sweep,
        look.staging,
    ):
        with pytest.raises(UsageError, match="open read-only"):
            change()
    with pytest.raises(NothingFound):
        look.open_session("s2")
    look.append_events(session, b"{}\n")
    look.remember(session, facts.measure.sha256, KEY, b"x")
    look.end_session(session)
    assert not look.sweep_due()
    assert everything(store) == everything(look) == before
    assert look.open_session("s1") == session
