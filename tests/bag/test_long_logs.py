"""A log of any length is read piece by piece, by all who read it: what that takes is measured in a process of its own."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdall.bag.journal import Journal, logged_events
from holdall.store import records
from holdall.store.directory.store import DirectoryStore
from holdall.store.totals import bad_lines_of
from tests.requirements import requirement
from tests.store.support import keep

MIB = 2**20
LOG_MIB = 30
READERS = {
    "stats": "asyncio.run(Care(store, session).counters())",
    "verify": "list(store.verify([session]))",
    "viewer": "list(Overview(store.home).page(seconds=1e9).sessions)",
    "timeline": "asyncio.run(timeline())",
    "ledger": "Journal(store, session, clock=time.time).coverage('none')",
    "tree": "Tree.of('s1', Journal(store, session, clock=time.time).events())",
    "transcript": "messages_in(line for piece in store.log_lines(session, 'transcript') for line in piece.lines.split())",
    "export": "export_session(store, session, lambda data: None)",
    "erase": "store.remove(session, store.outputs(session))",
}
CHILD = """
import asyncio, json, resource, sys, time
from holdall import Holdall
from holdall.agent.transcript import messages_in
from holdall.bag.care import Care
from holdall.bag.journal import Journal
from holdall.bag.overview import Overview
from holdall.policy.folds import Tree
from holdall.store.bundle.export import export_session
from holdall.store.directory.store import DirectoryStore
from holdall.web import pages

home, readers = sys.argv[1], json.loads(sys.argv[2])

async def timeline():
    async with Holdall.open(home=home, session="s1") as bag:
        summary = Overview(home).one(bag.session.id)
        pages._session_values_now(bag, summary, (), 0, 0)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform != "darwin" else 2**20)

store = DirectoryStore(home)
session = store.find_session("s1")
store.outputs(session)
before, grown = peak(), {}
for name, code in readers.items():
    eval(code)
    grown[name] = peak() - before
print(json.dumps(grown))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "home"
    with closing(DirectoryStore(str(folder))) as store:
        session = store.open_session("s1")
        handle = keep(store, session, "an output").handle
        event = {"at": 1.0, "event": "refused", "handle": handle, "why": "x" * 4000}
        lines = (json.dumps(event) + "\n").encode() * (MIB // 4000)
        message = json.dumps({"role": "user", "text": "x" * 4000}).encode() + b"\n"
        for _ in range(LOG_MIB):
            store.append_events(session, lines)
        for _ in range(LOG_MIB // 2):
            store.append_transcript(session, message * (MIB // 4000) + b'{"again":true}\n')
    return folder


@requirement("watch:long-log")
def test_what_a_long_log_takes_to_read_does_not_grow_with_it(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(home), json.dumps(READERS)], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    grown = json.loads(done.stdout)
    assert max(grown.values()) < LOG_MIB // 2, grown
    assert list(grown) == list(READERS)


def test_the_newest_part_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path))) as store:
        session = store.open_session("s1")
        journal = Journal(store, session, clock=lambda: 1.0)
        for number in range(2000):
            journal.record("turn", number=number, why="y" * (number % 90))
        every = [event.data["number"] for event in logged_events(store, session)]
        assert every == list(range(2000))
        for most in (1, 100, 70_000, 10**9):
            newest = [event.data["number"] for event in journal.events(most)]
            assert newest == every[len(every) - len(newest) :]
            assert sum(len(json.dumps({"number": number})) for number in newest) <= most
        assert len(list(journal.events(10**9))) == 2000
        assert list(bad_lines_of(store, session)) == []


def test_a_line_that_is_longer_than_any_is_named_and_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST_LINE", 3 * MIB)
    with closing(DirectoryStore(str(tmp_path))) as store:
        session = store.open_session("s1")
        first, last = b'{"at":1.0,"event":"turn","number":1}\n', b'{"at":1.0,"event":"turn","number":2}\n'
        fits = b'{"at":1.0,"event":"turn","number":"%s"}\n' % (b"x" * 2 * MIB)
        too_long = b'{"at":1.0,"event":"turn","number":"%s"}\n' % (b"x" * 5 * MIB)
        store.append_events(session, first + fits + too_long + last)
        numbers = [event.data["number"] for event in logged_events(store, session)]
        assert [number if isinstance(number, int) else len(number) for number in numbers] == [1, 2 * MIB, 2]
        [(log, bad)] = bad_lines_of(store, session)
        assert (log, bad.number) == ("events", 3)
        assert bad.why == "it is longer than 3,145,728 bytes, which no line is"


def test_of_many_bad_lines_the_first_are_named_and_the_others_counted(tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path))) as store:
        session = store.open_session("s1")
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        log = next(tmp_path.glob("session-*/events.ndjson"))
        log.write_bytes(log.read_bytes() + b"{}\n" * 5000)
        told = [bad for _, bad in bad_lines_of(store, session)]
        assert len(told) == 101
        assert (told[0].number, told[-1].number) == (2, 5001)
        assert told[-1].why == "it has no checksum; so it is with 4,899 lines before it that are not listed"


def test_the_log_of_the_process_names_a_few_bad_lines_and_counts_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(DirectoryStore(str(tmp_path))) as store:
        session = store.open_session("s1")
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        log = next(tmp_path.glob("session-*/events.ndjson"))
        log.write_bytes(log.read_bytes() + b"{}\n" * 5000)
        assert len(list(logged_events(store, session))) == 1
    assert len(caplog.messages) == 6
    assert caplog.messages[-1] == "so it is with 4995 more lines of it; `holdall verify` tells of them"
