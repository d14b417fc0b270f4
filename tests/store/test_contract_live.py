"""Outputs that are still being written: their handle from the start, what was written so far, the whole at the end."""

import os

import pytest

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.outputs import Measure, Origin, State
from holdall.values.spans import BLOCK, Totals
from tests.requirements import requirement
from tests.store.support import Clock, StoreMaker, keep, read_back


@requirement("store:running-record-first")
def test_a_running_output_has_its_handle_and_facts_before_its_first_byte(make_store: StoreMaker, clock: Clock) -> None:
    store = make_store()
    session = store.open_session("s")
    writer = store.begin(session, Origin(tool="crawl", call_id="c1", arguments={(1,): 2}))
    for other in (store, make_store()):
        facts = other.resolve(session, writer.handle)
        assert other.resolve(session, "c1") == facts
        assert (facts.state, facts.created, facts.ended, facts.measure) == ("running", clock.now, None, Measure())
        assert facts.origin == Origin(tool="crawl", call_id="c1", arguments='{"(1,)": 2}')
        assert other.outputs(session) == [facts]
    writer.finish()


@requirement("store:running-record-first")
def test_what_was_written_so_far_can_be_read_by_anybody(make_store: StoreMaker) -> None:
    store, other = make_store(), make_store()
    session = store.open_session("s")
    writer = store.begin(session, Origin())
    reader = other.open(other.resolve(session, writer.handle))
    assert (reader.totals, reader.read(0, 100)) == (Totals(0, 0, 0), b"")
    writer.write("first é\nsec".encode())
    writer.flush()
    assert reader.refresh() == 12
    assert (reader.totals, reader.read(0, 100)) == (Totals(12, 11, 2), "first é\nsec".encode())
    # SLICE-016: what is shown does not change later.
    writer.write(b"ond\n" + b"x" * BLOCK)
    writer.flush()
    assert reader.read(0, 100_000) == "first é\nsec".encode()
    assert reader.refresh() == 4 + BLOCK
    assert reader.totals == Totals(16 + BLOCK, 15 + BLOCK, 3)
    assert len(reader.table) == 2
    assert reader.read(7, 16) == b"\xa9\nsecond\n"
    reader.close()
    writer.finish()


def test_when_it_ends_the_same_handle_holds_the_whole(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    writer = store.begin(session, Origin(tool="crawl"))
    parts = [os.urandom(size) for size in (0, 1, 100, BLOCK, 3 * BLOCK + 7)]
    for part in parts:
        writer.write(part)
    running = store.resolve(session, writer.handle)
    stamp = store.stamp(running)
    clock.now += 60
    final = writer.finish(exit_code=0)
    assert (final.handle, final.id, final.created) == (running.handle, running.id, running.created)
    assert (final.state, final.ended, final.exit_code) == ("ready", clock.now, 0)
    assert store.resolve(session, writer.handle) == final
    assert store.stamp(final) != stamp
    assert read_back(store, final) == b"".join(parts)
    assert keep(store, session, b"".join(parts)).measure == final.measure


@pytest.mark.parametrize("state", ["failed", "cancelled", "timed out"])
def test_an_output_may_end_otherwise_and_says_how(store: OutputStore, session: SessionInfo, state: State) -> None:
    writer = store.begin(session, Origin())
    writer.write(b"some")
    final = writer.finish(state, error="it was too slow", exit_code=-9)
    assert (final.state, final.error, final.exit_code) == (state, "it was too slow", -9)
    assert read_back(store, final) == b"some"


def test_a_running_output_that_writes_nothing_ends_empty(store: OutputStore, session: SessionInfo) -> None:
    final = store.begin(session, Origin()).finish()
    assert read_back(store, final) == b""
    assert final.measure.lines == 0


@requirement("store:identical-own-handles")
def test_identical_outputs_settle_to_one_copy_with_their_own_handles(store: OutputStore, session: SessionInfo) -> None:
    kept = keep(store, session, "the same bytes")
    writers = [store.begin(session, Origin(call_id=name)) for name in ("a", "b")]
    for writer in writers:
        writer.write(b"the same bytes")
    endings = [writer.finish() for writer in writers]
    assert len({kept.handle, *(facts.handle for facts in endings)}) == 3
    for facts in (kept, *endings):
        assert read_back(store, facts) == b"the same bytes"
    assert len(store.outputs(session)) == 3
