"""Several processes on one store, at the same time and one after another's death."""

import contextlib
import hashlib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.outputs import Origin
from tests.faults.checker import contents, left_over, listed, opened
from tests.faults.confined import keep
from tests.faults.crowd import SESSION, content
from tests.faults.harness import FULL, KILLED, ended, started
from tests.requirements import requirement

pytestmark = [pytest.mark.faults, pytest.mark.in_full(one_in=2)]

SECONDS = 100


class Member:
    """One process of the crowd."""

    def __init__(self, *arguments: str) -> None:
        self.process = started("tests.faults.crowd", *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def hears(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def says(self) -> list[Any]:
        """The next line that it says."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def rest(self) -> list[list[Any]]:
        """All that it says until it ends, which it must do well."""
        text, _ = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0
        return [json.loads(line) for line in text.splitlines()]

    def killed(self) -> None:
        self.process.kill()
        assert self.process.wait(SECONDS) == KILLED


@contextlib.contextmanager
def crowd(*roles: tuple[str, ...]) -> Generator[list[Member]]:
    """All of them, started at once."""
    members: list[Member] = []
    try:
        members += [Member(*arguments) for arguments in roles]
        for member in members:
            assert member.says() == ["ready"]
        for member in members:
            member.hears("go")
        yield members
    finally:
        for member in members:
            ended(member.process)


@requirement("store:several-processes", "session:several-writers", "store:identical-once")
def test_four_processes_keep_a_hundred_outputs_in_one_session_and_each_has_its_own_handle(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with crowd(*(("puts", str(home), str(who), "25") for who in range(4))) as members:
        told = [(who, *line) for who, member in enumerate(members) for line in member.rest()]
    assert len(told) == len({handle for _, handle, _, _ in told}) == 100
    with opened(home) as store:
        session = store.open_session(SESSION)
        for who, handle, number, sha256 in told:
            facts = store.resolve(session, handle)
            assert contents(store, facts) == content(number, who)
            assert store.resolve(session, f"{who}-{number}") == facts
            assert facts.measure.sha256 == sha256 == hashlib.sha256(content(number, who)).hexdigest()
        outputs = store.outputs(session)
        assert len(outputs) == 100
        files = {(facts.measure.sha256, facts.file) for facts in outputs}
        assert len(files) == len({content(number, who) for who in range(4) for number in range(25)}) == 85
        assert left_over(home, outputs) == []
        assert not [verdict for verdict in upkeep.verify(store) if verdict.problem]
    assert not list(home.glob("index.sqlite.*")), "a busy index was taken for a damaged one"


@requirement("store:several-processes")
def test_processes_that_make_the_same_session_at_once_get_one_session(tmp_path: Path) -> None:
    for number in range(12 if FULL else 2):
        home = tmp_path / str(number)
        with crowd(*(("opens", str(home), "the same", str(who)) for who in range(5))) as members:
            told = [member.rest()[0] for member in members]
        with opened(home) as store:
            found = store.find_session("the same")
            assert found is not None
            assert {id for id, _ in told} == {found.id}
            assert {facts.handle for facts in store.outputs(found)} == {handle for _, handle in told}
            assert len(store.sessions()) == 1


@requirement("store:several-processes", "store:killed-writer")
def test_a_reader_never_meets_half_an_output(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with crowd(("puts", home, "0", "40"), ("puts", home, "1", "40"), ("reads", home)) as (*writers, reader):
        told = [member.rest() for member in writers]
        reader.hears("stop")
        *half, (_, looks, outputs) = reader.rest()
    assert half == []
    assert [len(lines) for lines in told] == [40, 40]
    assert looks > 2
    assert outputs > 40


@requirement("store:leftovers-removed", "store:several-processes")
def test_gc_beside_writers_that_dawdle_removes_nothing_of_theirs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    count = "60" if FULL else "20"
    roles = [("dawdles", str(home), "0", count), ("dawdles", str(home), "1", count), ("sweeps", str(home))]
    with crowd(*roles) as (*writers, sweeper):
        told = [(who, *line) for who, member in enumerate(writers) for line in member.rest()]
        sweeper.hears("stop")
        *removed, (_, sweeps) = sweeper.rest()
    assert removed == []
    assert sweeps > 2
    assert len(told) == 2 * int(count)
    with opened(home) as store:
        session = store.open_session(SESSION)
        for who, handle, number, _ in told:
            assert contents(store, store.resolve(session, handle)) == content(number, who)
        assert left_over(home, listed(store)) == []


@requirement("store:leftovers-removed")
@pytest.mark.parametrize("terminal", ["", "terminal"])
def test_gc_tells_the_file_of_a_living_writer_from_that_of_a_dead_one(terminal: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with crowd(*[("pauses", str(home), terminal)] * 2) as (living, dead), opened(home) as store:
        assert (living.says(), dead.says()) == (["half"], ["half"])
        assert len(left_over(home, listed(store))) == 2
        assert upkeep.sweep(store).leftovers == ()
        dead.killed()
        assert len(upkeep.sweep(store, dry_run=True).leftovers) == 1
        assert len(upkeep.sweep(store).leftovers) == 1
        assert len(left_over(home, listed(store))) == 1
        living.hears("go on")
        ((_, handle),) = living.rest()
        session = store.open_session(SESSION)
        assert contents(store, store.resolve(session, handle)) == b"the first part\nthe end\n"
        assert left_over(home, listed(store)) == []


@requirement("store:leftovers-removed")
def test_gc_does_not_take_an_output_that_is_published_while_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file was not named when gc read the records, and nobody held it when gc came to the file."""
    home = tmp_path / "home"
    with opened(home) as store:
        session = store.open_session(SESSION)
        folder = home / f"session-{session.id}"
        survey = DirectoryStore.survey
        kept: list[str] = []

        def survey_then_publish(self: DirectoryStore, session: SessionInfo) -> Any:
            found = survey(self, session)
            if not kept:
                facts = keep(store, session, b"published in between")
                os.utime(folder / facts.file, (0, 0))
                kept.append(facts.handle)
            return found

        monkeypatch.setattr(DirectoryStore, "survey", survey_then_publish)
        assert upkeep.sweep(store).leftovers == ()
        assert contents(store, store.resolve(session, kept[0])) == b"published in between"


@requirement("async:crash-interrupted", "async:handle-from-the-start", "async:running-read")
def test_a_killed_live_writer_leaves_an_interrupted_output_with_exactly_what_it_had_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lines = ["the first line", "…und der zweite", "x" * 70_000]
    with crowd(("writes_live", str(home))) as (writer,), opened(home) as store:
        _, handle = writer.says()
        session = store.open_session(SESSION)
        assert store.resolve(session, handle).state == "running"
        written = b""
        for line in lines:
            writer.hears(line)
            written += f"{line}\n".encode()
            assert writer.says() == ["wrote", len(f"{line}\n".encode())]
            assert contents(store, store.resolve(session, handle)) == written
            assert store.resolve(session, handle).state == "running"
        writer.killed()
        for again in range(2):
            facts = store.resolve(session, handle)
            assert facts.state == "interrupted"
            assert not facts.is_whole
            assert "its writer ended" in facts.error
            assert contents(store, facts) == written, again
            assert facts.measure.sha256 == hashlib.sha256(written).hexdigest()
    with opened(home) as store:
        assert Counter(facts.state for facts in listed(store)) == {"interrupted": 1}
        assert [verdict.problem for verdict in upkeep.verify(store)] == [""]


@requirement("async:crash-interrupted")
def test_a_live_writer_killed_before_it_wrote_anything_leaves_an_empty_interrupted_output(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with crowd(("writes_live", str(home))) as (writer,):
        _, handle = writer.says()
        writer.killed()
    with opened(home) as store:
        facts = store.resolve(store.open_session(SESSION), handle)
        assert (facts.state, facts.measure.bytes, contents(store, facts)) == ("interrupted", 0, b"")


@requirement("store:several-processes")
def test_two_who_find_the_same_dead_writer_agree_on_what_it_left(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with opened(home) as one, opened(home) as two:
        session = one.open_session(SESSION)
        writer = one.begin(session, Origin())
        writer.write(b"all that there is")
        assert [two.resolve(session, writer.handle).state, one.resolve(session, writer.handle).state] == ["running"] * 2
        writer.close()
        first, second = one.resolve(session, writer.handle), two.resolve(session, writer.handle)
        assert first == second
        assert first.state == "interrupted"
