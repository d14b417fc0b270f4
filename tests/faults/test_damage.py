"""Bytes and records that are not what they were: damage is told, never shown, and stays where it is."""

import os
import shutil
from pathlib import Path

import pytest

from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputReader
from holdall.values.errors import (
    HoldallError,
    OutputDamaged,
    OutputMissing,
    StoreFault,
    StoreGone,
    UnknownHandle,
)
from holdall.values.outputs import Origin
from holdall.values.spans import BLOCK
from tests.faults.checker import TWO_HOURS, contents, opened
from tests.faults.confined import keep, refused
from tests.faults.flips import flipped, sample
from tests.faults.harness import FULL
from tests.requirements import requirement

pytestmark = pytest.mark.faults

LARGE = b"".join(b"%07d\n" % number for number in range(25_000))  # three blocks and a bit
SMALL = b"another output, which nothing happens to\n"


class Kept:
    """A store with two outputs; the files of the first are at hand to be damaged."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with opened(home) as store:
            self.session = store.open_session("a session")
            self.facts = keep(store, self.session, LARGE, "a call")
            self.other = keep(store, self.session, SMALL, "another call")
        folder = home / f"session-{self.session.id}"
        self.bytes_file = folder / self.facts.file
        self.record = folder / f"{self.facts.handle}.record"

    def others_are_unharmed(self, store: DirectoryStore) -> None:
        assert contents(store, store.resolve(self.session, "another call")) == SMALL
        assert self.other.handle in [facts.handle for facts in store.outputs(self.session)]

    def told_by_verify(self, store: DirectoryStore) -> str:
        """What verify says about the first output. It must say nothing about the other."""
        problems = {verdict.handle: verdict.problem for verdict in upkeep.verify(store) if verdict.problem}
        assert problems.keys() == {self.facts.handle}
        return problems[self.facts.handle]


@pytest.fixture
def kept(scratch: Path) -> Kept:
    return Kept(scratch / "home")


# The bytes


@requirement("store:damaged-never-shown", "store:verify-all")
def test_bytes_with_one_flipped_bit_are_never_shown(kept: Kept) -> None:
    """STORE-047."""
    for bit in sample(8 * len(LARGE), 2000 if FULL else 60):
        kept.bytes_file.write_bytes(flipped(LARGE, bit))
        with opened(kept.home) as store:
            _only_the_damaged_block_is_refused(store.open(kept.facts), bit // 8)
    kept.bytes_file.write_bytes(flipped(LARGE, 77))
    with opened(kept.home) as store:
        assert "checksum mismatch in bytes 0 to 65,536" in kept.told_by_verify(store)
        kept.others_are_unharmed(store)


def _only_the_damaged_block_is_refused(reader: OutputReader, damaged: int) -> None:
    first = damaged // BLOCK * BLOCK
    place = f"{first:,} to {min(first + BLOCK, len(LARGE)):,}"
    refused(lambda: reader.read(0, len(LARGE)), OutputDamaged, "checksum", place)
    refused(lambda: reader.read(first, first + BLOCK), OutputDamaged, place)
    refused(lambda: reader.read(damaged, damaged + 1), OutputDamaged, place)
    refused(lambda: reader.read(first, first + 1), OutputDamaged, place)
    for start in range(0, len(LARGE), BLOCK):
        assert start == first or reader.read(start, start + BLOCK) == LARGE[start : start + BLOCK]
    reader.close()


@requirement("store:truncated-reported", "store:verify-all")
@pytest.mark.parametrize("left", [len(LARGE) // 2, 2 * BLOCK, len(LARGE) - 1, 1, 0])
def test_bytes_that_were_cut_off_are_missed(left: int, kept: Kept) -> None:
    """STORE-048."""
    os.truncate(kept.bytes_file, left)
    with opened(kept.home) as store:
        facts = store.resolve(kept.session, kept.facts.handle)
        reader = store.open(facts)
        refused(lambda: reader.read(0, len(LARGE)), OutputDamaged, "truncated", f"{left:,}", f"{len(LARGE):,}")
        refused(lambda: reader.read(left, left + 10), OutputDamaged, "truncated")
        refused(lambda: reader.read(len(LARGE) - 10, len(LARGE)), OutputDamaged, "truncated")
        whole_blocks = left // BLOCK * BLOCK
        assert reader.read(0, whole_blocks) == LARGE[:whole_blocks]
        reader.close()
        assert "truncated" in kept.told_by_verify(store)
        kept.others_are_unharmed(store)


@requirement("store:verify-all")
def test_bytes_that_were_added_are_told_and_not_shown(kept: Kept) -> None:
    with kept.bytes_file.open("ab") as file:
        file.write(b"and this")
    with opened(kept.home) as store:
        assert contents(store, store.resolve(kept.session, kept.facts.handle)) == LARGE
        assert "grown" in kept.told_by_verify(store)
        kept.others_are_unharmed(store)


@requirement("store:symlink-confined", "store:damaged-never-shown")
@pytest.mark.parametrize("what", ["link", "folder", "pipe", "dangling link"])
def test_something_else_in_the_place_of_the_bytes_is_not_read(what: str, kept: Kept) -> None:
    """STORE-045."""
    kept.bytes_file.unlink()
    match what:
        case "link":
            kept.bytes_file.symlink_to("/etc/passwd")
        case "folder":
            kept.bytes_file.mkdir()
        case "pipe":
            os.mkfifo(kept.bytes_file)
        case _:
            kept.bytes_file.symlink_to("/nowhere")
    with opened(kept.home) as store:
        facts = store.resolve(kept.session, kept.facts.handle)
        refused(lambda: store.open(facts), OutputDamaged, facts.handle, "integrity")
        assert "integrity" in kept.told_by_verify(store)
        kept.others_are_unharmed(store)
        again = keep(store, kept.session, LARGE)  # a damaged copy is no copy
        assert contents(store, again) == LARGE


@requirement("store:removed-by-hand", "store:verify-all")
def test_bytes_that_were_removed_by_hand_are_reported_as_lost(kept: Kept) -> None:
    kept.bytes_file.unlink()
    with opened(kept.home) as store:
        facts = store.resolve(kept.session, "a call")
        refused(lambda: store.open(facts), OutputMissing, facts.handle, "removed from the store by hand")
        assert "removed from the store by hand" in kept.told_by_verify(store)
        assert len(store.outputs(kept.session)) == 2
        kept.others_are_unharmed(store)
        again = keep(store, kept.session, LARGE)
        assert contents(store, again) == LARGE


@requirement("store:removed-by-hand")
@pytest.mark.parametrize("terminal", [False, True])
def test_a_running_output_whose_file_was_removed_is_lost_alone(terminal: bool, kept: Kept) -> None:
    with opened(kept.home) as store:
        writer = store.begin(kept.session, Origin(terminal=terminal, call_id="running"))
        writer.write(b"soon to be removed")
        (kept.bytes_file.parent / store.resolve(kept.session, writer.handle).file).unlink()
    with opened(kept.home) as store:
        kept.others_are_unharmed(store)
        assert {facts.handle: facts.state for facts in store.outputs(kept.session)}[writer.handle] == "interrupted"
        for reference in (writer.handle, "running"):
            refused(lambda ref=reference: store.resolve(kept.session, ref), OutputMissing, writer.handle, "by hand")
        assert [one.handle for one in upkeep.verify(store) if one.problem] == [writer.handle]
    writer.close()


# The records


@requirement("store:removed-by-hand")
def test_an_output_whose_record_was_removed_by_hand_is_unknown(kept: Kept) -> None:
    with opened(kept.home) as store:
        kept.record.unlink()
        for reference in (kept.facts.handle, kept.facts.long_handle, "a call"):
            refused(lambda ref=reference: store.resolve(kept.session, ref), UnknownHandle, reference, kept.other.handle)
        refused(lambda: store.open(kept.facts), StoreGone, kept.facts.handle, "removed from the store by hand")
        kept.others_are_unharmed(store)
        assert not [verdict for verdict in upkeep.verify(store) if verdict.problem]


@requirement("store:damaged-never-shown")
def test_a_record_with_one_flipped_bit_is_refused(kept: Kept) -> None:
    whole = kept.record.read_bytes()
    for bit in sample(8 * len(whole), 8 * len(whole) if FULL else 200):
        kept.record.write_bytes(flipped(whole, bit))
        _is_refused(kept, f"bit {bit}")
    kept.record.write_bytes(whole)
    with opened(kept.home) as store:
        assert contents(store, store.resolve(kept.session, "a call")) == LARGE


@requirement("store:truncated-reported")
def test_a_record_that_was_cut_off_is_refused(kept: Kept) -> None:
    whole = kept.record.read_bytes()
    for length in sample(len(whole), len(whole) if FULL else 40):
        kept.record.write_bytes(whole[:length])
        _is_refused(kept, f"{length} of {len(whole)} bytes")


@requirement("store:symlink-confined")
@pytest.mark.parametrize("what", ["another record", "link", "folder", "nothing but zeros"])
def test_something_else_in_the_place_of_a_record_is_not_read(what: str, kept: Kept, scratch: Path) -> None:
    other = kept.record.with_name(f"{kept.other.handle}.record")
    kept.record.unlink()
    match what:
        case "another record":
            shutil.copy(other, kept.record)
        case "link":
            kept.record.symlink_to(other)
        case "folder":
            kept.record.mkdir()
        case _:
            kept.record.write_bytes(bytes(500))
    _is_refused(kept, what)


def _is_refused(kept: Kept, why: str) -> None:
    """The output is told to be damaged, everything else works, and gc does not take its bytes for left over."""
    handle = kept.facts.handle
    with opened(kept.home) as store:
        refused(lambda: store.resolve(kept.session, handle), StoreFault, handle)
        refused(lambda: store.open(kept.facts), StoreFault, handle)
        refused(lambda: store.resolve(kept.session, "a call"), HoldallError)
        assert handle in kept.told_by_verify(store), why
        kept.others_are_unharmed(store)
    with opened(kept.home, ahead=TWO_HOURS) as store:
        assert upkeep.sweep(store).leftovers == ()
    assert kept.bytes_file.read_bytes() == LARGE


# Logs


@requirement("store:lines-proven", "store:damaged-never-shown", "store:verify-all")
@pytest.mark.parametrize("log", ["events.ndjson", "transcript.ndjson"])
def test_a_line_of_a_log_with_one_flipped_bit_is_named_and_never_read(kept: Kept, log: str) -> None:
    lines = [b'{"at":%d.5,"event":"turn","number":%d}\n' % (number, number) for number in range(3)]
    with opened(kept.home) as store:
        append = store.append_events if log.startswith("events") else store.append_transcript
        append(kept.session, b"".join(lines))
    path = kept.home / f"session-{kept.session.id}" / log
    data = path.read_bytes()
    start, end = data.index(b"\n") + 1, data.index(b"\n", data.index(b"\n") + 1)
    for bit in sample(8 * (end - start), 8 * (end - start) if FULL else 60):
        changed = flipped(data, 8 * start + bit)
        path.write_bytes(changed)
        with opened(kept.home) as store:
            found = store.events_from(kept.session, 0) if log.startswith("events") else store.transcript(kept.session)
            problems = [(one.handle, one.problem) for one in upkeep.verify(store) if one.problem]
            kept.others_are_unharmed(store)
        assert found.lines == lines[0] + lines[2]
        assert {(one.number, one.start) for one in found.bad} <= {(2, start), (3, start + bit // 8 + 1)}
        assert found.bad[0][:2] == (2, start)
        assert [name for name, _ in problems] == [log] * len(found.bad)
        assert problems[0][1].startswith(f"line 2 (at byte {start}): it ")
        assert path.read_bytes() == changed
