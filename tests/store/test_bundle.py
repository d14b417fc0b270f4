"""A session as one file, and back: what was there is there again, and the same session gives the same bytes."""

import errno
import itertools
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.bag.journal import events_in
from holdall.store.bundle import restore
from holdall.store.bundle.export import SessionChanged, export_session
from holdall.store.bundle.stream import new_file, open_bundle
from holdall.store.directory import upkeep
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import Quota, SessionInfo
from holdall.values.errors import (
    BundleRefused,
    OutputDamaged,
    QuotaReached,
    SessionExists,
    UnknownHandle,
    UsageError,
)
from holdall.values.outputs import Origin
from holdall.values.retention import Retention
from tests.requirements import requirement
from tests.store.bundles import everything, exported, filled, imported, taken_apart
from tests.store.support import keep, tree
from tests.support import in_effort


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[DirectoryStore]:
    """Another machine, with nothing on it yet."""
    with closing(DirectoryStore(str(tmp_path / "elsewhere"))) as store:
        yield store


@requirement("bundle:one-file", "bundle:import-resolves")
def test_everything_of_a_session_is_there_again_on_another_machine(
    folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    session = filled(folder_store)
    before = everything(folder_store)
    done = imported(Path(elsewhere.home), exported(folder_store, session))
    assert everything(elsewhere) == before
    assert done.names == ("s1", "s1/helper-1", "s1/helper-1/reader-2")
    assert not done.new_ids
    assert [one.problem for one in upkeep.verify(elsewhere) if one.problem] == []


@requirement("bundle:import-resolves")
def test_every_handle_of_the_transcript_resolves_to_the_same_bytes(
    folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    session = filled(folder_store)
    imported(Path(elsewhere.home), exported(folder_store, session))
    here = elsewhere.find_session("s1")
    assert here is not None
    long_handle = json.loads(elsewhere.transcript(here).lines)["text"].removeprefix("kept as ")
    found = elsewhere.resolve(here, long_handle)
    assert found == elsewhere.resolve(here, "c1") == elsewhere.resolve(here, found.handle)
    with closing(elsewhere.open(found)) as reader:
        assert reader.read(0, 100) == b"one\ntwo\n"


@requirement("bundle:one-file")
def test_a_bundle_holds_the_transcript_the_outputs_the_records_the_log_and_the_tree(
    folder_store: DirectoryStore,
) -> None:
    found = taken_apart(exported(folder_store, filled(folder_store)))
    kinds = {name.partition("/")[2].rpartition(".")[2] for name in found.names() if name.startswith("0/")}
    assert {"transcript.ndjson", "events.ndjson", "tree.json"} < {name.partition("/")[2] for name in found.names()}
    assert {"record", "txt", "json", "log"} <= kinds
    files = [name for name in found.names() if name.startswith("0/") and name.endswith((".txt", ".log"))]
    assert len(files) == 4, "identical outputs share one file"
    assert [one["outputs"] for one in found.contents["sessions"]] == [6, 1, 0]
    assert found.contents["sessions"][0]["expired"] == 1


def test_the_same_session_gives_the_same_bytes_and_so_does_its_copy(
    folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    session = filled(folder_store)
    first = exported(folder_store, session)
    os.utime(Path(folder_store.home) / f"session-{session.id}" / "events.ndjson", (1, 1))
    assert exported(folder_store, session) == first
    imported(Path(elsewhere.home), first)
    copy = elsewhere.find_session("s1")
    assert copy is not None
    assert exported(elsewhere, copy) == first


def test_nothing_in_the_store_is_changed_by_an_export(folder_store: DirectoryStore) -> None:
    session = filled(folder_store)
    folder_store.outputs(session)
    before = tree(Path(folder_store.home))
    exported(folder_store, session)
    after = tree(Path(folder_store.home))
    assert {name: one for name, one in after.items() if "index" not in name} == {
        name: one for name, one in before.items() if "index" not in name
    }


def test_a_session_that_is_there_is_never_touched(folder_store: DirectoryStore) -> None:
    session = filled(folder_store)
    bundle = exported(folder_store, session)
    before = everything(folder_store)
    with pytest.raises(SessionExists, match=r'there is a session "s1" already.*name=NAME'):
        imported(Path(folder_store.home), bundle)
    assert everything(folder_store) == before


def test_under_another_name_beside_itself_it_gets_ids_of_its_own_and_its_logs_follow(
    folder_store: DirectoryStore,
) -> None:
    """IMPORT-011: handles that exist here, with other bytes, stay what they are."""
    session = filled(folder_store)
    bundle = exported(folder_store, session)
    before = everything(folder_store)
    done = imported(Path(folder_store.home), bundle, name="copy")
    assert done.new_ids
    assert done.names == ("copy", "copy/helper-1", "copy/helper-1/reader-2")
    after = everything(folder_store)
    assert {name: after[name] for name in before} == before
    copy = folder_store.find_session("copy")
    assert copy is not None
    long_handle = json.loads(folder_store.transcript(copy).lines)["text"].removeprefix("kept as ")
    assert long_handle.startswith(f"session-{copy.id}/")
    assert folder_store.resolve(copy, long_handle).session == copy.id
    assert after["copy/helper-1"]["parent"] == "copy"
    child = folder_store.find_session("copy/helper-1")
    assert child is not None
    assert json.loads(folder_store.events_from(copy, 0)[0].splitlines()[1])["session"] == child.id
    assert session.id.encode() not in folder_store.transcript(copy).lines + folder_store.events_from(copy, 0)[0]
    assert [one.problem for one in upkeep.verify(folder_store) if one.problem] == []


@requirement("bundle:import-resolves")
def test_a_copy_beside_the_original_knows_its_outputs_by_the_handles_of_the_original(
    folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    """What an agent keeps of its conversation outside the store names them so."""
    session = filled(folder_store)
    imported(Path(folder_store.home), exported(folder_store, session), name="copy")
    old = folder_store.resolve(session, "c1").long_handle
    copy = folder_store.find_session("copy")
    assert copy is not None
    assert folder_store.resolve(copy, old).session == copy.id
    assert folder_store.resolve(session, old).session == session.id
    with pytest.raises(UnknownHandle):
        folder_store.resolve(session, folder_store.resolve(copy, old).long_handle)
    imported(Path(elsewhere.home), exported(folder_store, copy), name="third")
    imported(Path(elsewhere.home), exported(folder_store, copy), name="fourth")
    fourth = elsewhere.find_session("fourth")
    assert fourth is not None
    assert fourth.was == (session.id, copy.id)
    assert elsewhere.resolve(fourth, old).session == fourth.id


def test_a_name_that_only_one_below_has_already_is_refused_before_anything_is_written(
    folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    bundle = exported(folder_store, filled(folder_store))
    elsewhere.open_session("s1/helper-1")
    before = tree(Path(elsewhere.home))
    with pytest.raises(SessionExists, match="s1/helper-1"):
        imported(Path(elsewhere.home), bundle)
    assert tree(Path(elsewhere.home)) == before


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb"])
def test_a_name_that_no_session_can_have_is_refused(
    name: str, folder_store: DirectoryStore, elsewhere: DirectoryStore
) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a session"):
        imported(Path(elsewhere.home), exported(folder_store, filled(folder_store)), name=name)
    assert list(elsewhere.sessions()) == []


def test_a_running_output_is_there_as_far_as_it_was_and_says_so(
    folder_store: DirectoryStore, folder_session: SessionInfo, elsewhere: DirectoryStore
) -> None:
    writer = folder_store.begin(folder_session, Origin(tool="crawl", terminal=True, process=os.getpid()))
    writer.write(b"the first line\nhalf of the sec")
    bundle = exported(folder_store, folder_session)
    writer.write(b"ond line\n")
    assert writer.finish().state == "ready"
    imported(Path(elsewhere.home), bundle)
    here = elsewhere.find_session("s1")
    assert here is not None
    (facts,) = elsewhere.outputs(here)
    assert (facts.handle, facts.state, facts.origin.process) == (writer.handle, "interrupted", 0)
    assert "still being written when its session was exported" in facts.error
    with closing(elsewhere.open(facts)) as reader:
        assert reader.read(0, 100) == b"the first line\nhalf of the sec"
    assert facts.measure.lines == 2


def test_what_is_written_during_an_export_does_not_tear_it(
    folder_store: DirectoryStore, folder_session: SessionInfo, elsewhere: DirectoryStore
) -> None:
    """IMPORT-017: a consistent picture of one moment, whoever goes on writing meanwhile."""
    before = keep(folder_store, folder_session, "x" * 3_000_000)
    folder_store.append_events(folder_session, b'{"at":1.0,"event":"turn"}\n')
    writer = folder_store.begin(folder_session, Origin())
    writer.write(b"so far")
    written: list[bytes] = []

    def write_meanwhile(_: object) -> None:
        keep(folder_store, folder_session, "kept meanwhile")
        folder_store.append_events(folder_session, b'{"at":2.0,"event":"turn"}\n')
        folder_store.append_transcript(folder_session, b'{"role":"user","text":"meanwhile"}\n')
        writer.write(b" and further")
        writer.finish()

    export_session(folder_store, folder_session, written.append, listed=write_meanwhile)
    imported(Path(elsewhere.home), b"".join(written))
    here = elsewhere.find_session("s1")
    assert here is not None
    found = {one.handle: one for one in elsewhere.outputs(here)}
    assert set(found) == {before.handle, writer.handle}
    assert found[writer.handle].measure.bytes == 6
    assert elsewhere.events_from(here, 0)[0] == b'{"at":1.0,"event":"turn"}\n'
    assert elsewhere.transcript(here).lines == b""


def test_a_line_that_was_not_written_to_its_end_is_not_in_the_bundle(
    folder_store: DirectoryStore, folder_session: SessionInfo, elsewhere: DirectoryStore
) -> None:
    folder_store.append_events(folder_session, b'{"at":1.0,"event":"turn"}\n{"at":2.0,"ev')
    imported(Path(elsewhere.home), exported(folder_store, folder_session))
    here = elsewhere.find_session("s1")
    assert here is not None
    assert elsewhere.events_from(here, 0)[0] == b'{"at":1.0,"event":"turn"}\n'


def test_an_output_that_expires_during_an_export_ends_it_so_that_it_can_be_tried_again(
    folder_store: DirectoryStore, folder_session: SessionInfo
) -> None:
    facts = keep(folder_store, folder_session, "soon gone")
    with pytest.raises(SessionChanged, match=facts.handle):
        export_session(
            folder_store, folder_session, lambda _: None,
            listed=lambda _: print(folder_store.expire(folder_session, [facts], "for a test")),
        )  # fmt: skip


def test_an_output_whose_writer_is_gone_is_exported_from_a_disk_that_takes_nothing(
    folder_store: DirectoryStore,
    folder_session: SessionInfo,
    elsewhere: DirectoryStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its end cannot be written down, so each look finds it again, at another time."""
    writer = folder_store.begin(folder_session, Origin())
    writer.write(b"half of it")
    writer.close()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SessionFolder, "rewrite", full)
    times = itertools.count(int(folder_store.clock()))
    monkeypatch.setattr(folder_store, "clock", lambda: float(next(times)))
    bundle = exported(folder_store, folder_session)
    monkeypatch.undo()
    imported(Path(elsewhere.home), bundle)
    here = elsewhere.find_session("s1")
    assert here is not None
    (facts,) = elsewhere.outputs(here)
    assert (facts.handle, facts.state, facts.measure.bytes) == (writer.handle, "interrupted", 10)


def test_damaged_bytes_are_not_exported_as_good(folder_store: DirectoryStore, folder_session: SessionInfo) -> None:
    facts = keep(folder_store, folder_session, "x" * 200_000)
    path = Path(folder_store.home) / f"session-{folder_session.id}" / facts.file
    with open(path, "r+b") as file:
        file.seek(150_000)
        file.write(b"y")
    with pytest.raises(OutputDamaged, match="131,072 to 196,608"):
        exported(folder_store, folder_session)


def test_an_imported_session_does_not_go_because_it_is_old(folder_store: DirectoryStore, tmp_path: Path) -> None:
    session = folder_store.open_session("old", retention=Retention(days=1))
    keep(folder_store, session, "from long ago")
    home = tmp_path / "elsewhere"
    imported(home, exported(folder_store, session))
    with closing(DirectoryStore(str(home), clock=lambda: time.time() + 1e9)) as store:
        assert upkeep.sweep(store).expired == ()
        found = store.find_session("old")
        assert found is not None
        assert [one.state for one in store.outputs(found)] == ["ready"]


def test_a_quota_is_asked_before_anything_is_written(folder_store: DirectoryStore, elsewhere: DirectoryStore) -> None:
    bundle = exported(folder_store, filled(folder_store))
    keep(elsewhere, elsewhere.open_session("mine"), b"x" * 60_000)
    before = tree(Path(elsewhere.home))
    for quota in (Quota(session_bytes=100_000), Quota(store_bytes=100_000)):
        with pytest.raises(QuotaReached, match=r"100\.0 kB"):
            imported(Path(elsewhere.home), bundle, quota=quota)
    with pytest.raises(QuotaReached, match=r"60\.0 kB of it are used"):
        imported(Path(elsewhere.home), bundle, quota=Quota(store_bytes=folder_store.used_bytes() + 50_000))
    assert {name for name in tree(Path(elsewhere.home)) if name != "names"} <= set(before)
    imported(Path(elsewhere.home), bundle, quota=Quota(100_000_000, 100_000_000))


def _long(lines: int) -> str:
    return "line\n" * lines


_TEXT = st.text(max_size=300) | st.binary(max_size=300) | st.builds(_long, st.integers(0, 30_000))
_ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_OBJECTS = st.dictionaries(st.text(max_size=5), _ARGUMENTS, max_size=3)


@settings(max_examples=settings().max_examples // 3)
@given(
    outputs=st.lists(st.tuples(_TEXT, _ARGUMENTS, st.booleans(), st.integers(0, 2)), max_size=6),
    logs=st.lists(_OBJECTS.map(lambda one: json.dumps(one, separators=(",", ":")).encode() + b"\n"), max_size=4),
)
@requirement("bundle:import-resolves")
def test_whatever_a_session_holds_comes_back(
    outputs: list[tuple[str | bytes, object, bool, int]],
    logs: list[bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("property")
    with closing(DirectoryStore(str(folder / "a"))) as here, closing(DirectoryStore(str(folder / "b"))) as there:
        session = here.open_session("ein Name, größer")
        below = [session, here.open_session("child", parent=session.id), here.open_session("other", parent=session.id)]
        for value, arguments, terminal, place in outputs:
            keep(here, below[place], value, arguments=arguments, terminal=terminal, tool="t\x00ool", call_id="\udc80")
        for line in logs:
            here.append_transcript(session, line)
            here.append_events(below[1], line)
        bundle = exported(here, session)
        imported(Path(there.home), bundle)
        assert everything(there) == everything(here)
        copy = there.find_session("ein Name, größer")
        assert copy is not None
        assert exported(there, copy) == bundle


@requirement("bundle:answers-stay")
def test_what_a_model_said_does_not_travel(tmp_path: Path) -> None:
    """Whoever makes a bundle could have written it, also into one of an older version, where it has a place."""
    with closing(DirectoryStore(str(tmp_path / "here"))) as store:
        session = filled(store)
        facts = store.outputs(session)[0]
        plain = exported(store, session)
        store.remember(session, facts.measure.sha256, "cd" * 32, b'{"answer": "invented"}')
        assert exported(store, session) == plain


@requirement("bundle:no-verdicts")
def test_two_lines_of_events_are_never_read_as_something_else(tmp_path: Path) -> None:
    forged = (
        b'{"at":3.0,"event":"extracted","handle":"q7m2","snippets":5,"verified":5,"x":[{"y":1}',
        b'{"y":2}]},null,{"at":4.0,"event":"turn","number":2}',
    )
    whole = b'{"at":5.0,"event":"turn","number":3}'
    assert [event.at for event in events_in(b"\n".join([*forged, whole]) + b"\n")] == [5.0]
    assert [event.at for event in events_in(whole + b"\n" + whole)] == [5.0, 5.0]
    assert not events_in(b"\n")


@requirement("bundle:no-verdicts")
@pytest.mark.parametrize("name", ["at", "seconds"])
def test_an_event_with_a_number_that_python_cannot_hold_is_passed_over(name: str) -> None:
    event = b'{"at":5.0,"event":"turn","number":3}'
    forged = b'{"at":4.0,"event":"called","%s":1%s}' % (name.encode(), b"0" * 400)
    assert [event.at for event in events_in(b"\n".join([forged, event, b""]))] == [5.0]


@requirement("bundle:no-verdicts")
@pytest.mark.parametrize("times", [1, 2], ids=["the same ids", "new ids"])
@pytest.mark.parametrize("key", [b'"verified"', b'"verifi\\u0065d"'], ids=["plain", "escaped"])
def test_nobody_says_for_us_that_quotes_are_verified(tmp_path: Path, times: int, key: bytes) -> None:
    asked = b'{"at":9.0,"event":"extracted","handle":"k3f9","snippets":7,%s:7,"quotes":[[0,3,"exact"]]}\n' % key
    other = b'{"at":9.5,"event":"turn","why":"verified: \\u0065"}\n'
    node = b'{"op":"extraction","name":"x","snippets":7,%s:7}' % key
    with closing(DirectoryStore(str(tmp_path / "here"))) as store:
        session = filled(store)
        store.append_events(session, asked + other)
        store.save_tree(
            session, b'{"op":"session","name":"s","children":[{"op":"turn","name":"1","children":[%s]}]}' % node
        )
        bundle = exported(store, session)
    for number in range(times):
        imported(tmp_path / "there", bundle, name=f"copy-{number}")
    with closing(DirectoryStore(str(tmp_path / "there"))) as store:
        copy = store.find_session(f"copy-{times - 1}")
        assert copy is not None
        events = [json.loads(line) for line in store.events_from(copy, 0).lines.splitlines()]
        saved = store.tree(copy) or b""
    assert [one["event"] for one in events] == ["kept", "spawned", "extracted", "turn"], "each line proves itself"
    assert events[2] == {"at": 9.0, "event": "extracted", "handle": "k3f9", "snippets": 7, "quotes": [[0, 3, "exact"]]}
    assert events[3]["why"] == "verified: e"
    (turn,) = json.loads(saved)["children"]
    assert turn["children"] == [{"op": "extraction", "name": "x", "snippets": 7}]


@requirement("bundle:no-verdicts", "store:removed")
@pytest.mark.parametrize("name", [b'"handle": "%s"', b'"h\\u0061ndle":"%s"', b'"handle"\t:"%s"'])
def test_what_an_event_from_elsewhere_tells_goes_with_its_output(tmp_path: Path, name: bytes) -> None:
    with closing(DirectoryStore(str(tmp_path / "here"))) as store:
        session = filled(store)
        handle = store.outputs(session)[0].handle
        asked = b'{"at":9.0, "event":"extracted", %s, "question":"the secret"}\n' % (name % handle.encode())
        store.append_events(session, asked)
        bundle = exported(store, session)
    imported(tmp_path / "there", bundle, name="copy")
    with closing(DirectoryStore(str(tmp_path / "there"))) as store:
        copy = store.find_session("copy")
        assert copy is not None
        assert b"the secret" in store.events_from(copy, 0).lines
        store.remove(copy, [store.resolve(copy, handle)])
        assert b"the secret" not in store.events_from(copy, 0).lines


@requirement("bundle:no-verdicts")
def test_an_event_that_only_some_readers_could_read_is_refused(tmp_path: Path) -> None:
    asked = b'{"at":9.0,"event":"extracted","handle":"k3f9","snippets":7,"verified":7,"pad":"%s"}\n' % (
        b"{" * 1_000_001
    )
    with closing(DirectoryStore(str(tmp_path / "here"))) as store:
        session = filled(store)
        store.append_events(session, asked)
        bundle = exported(store, session)
    with pytest.raises(BundleRefused, match="a line of the events of this bundle is none of ours: it has more than"):
        imported(tmp_path / "there", bundle, name="copy")


def test_ids_of_sessions_are_replaced_wherever_they_stand_with_work_that_does_not_grow_with_their_number() -> None:
    old = [str(uuid.UUID(int=number << 90 | number)) for number in range(1, 2001)]
    renamed = {one: str(uuid.UUID(int=number)) for number, one in enumerate(old)}
    first, second = old[7], old[8]
    # One that looks like an id and is none may end where another begins.
    text = f"{first} {first[:24]}abcd{second} x{second}"
    for size in (1, 7, 1000):
        chunks = [text.encode()[at : at + size] for at in range(0, len(text), size)]
        found = b"".join(restore.with_new_ids(chunks, renamed)).decode()
        assert found == text.replace(first, renamed[first]).replace(second, renamed[second])
    in_effort(60, lambda: list(restore.with_new_ids([b"0123456789abcdef" * 12_500], renamed)))


def test_no_session_of_a_bundle_becomes_the_one_of_the_command_line(tmp_path: Path) -> None:
    """What somebody keeps there would leave with the bundle's export, and go with its removal."""
    with closing(DirectoryStore(str(tmp_path / "a"))) as store:
        report = store.open_session("report")
        for name in ("cli", "report/part", "sunday/sub-1", "report/sunday/sub-1"):
            keep(store, store.open_session(name, parent=report.id), name)
        with new_file(str(tmp_path / "b"), force=False) as write:
            export_session(store, report, write)
    with closing(DirectoryStore(str(tmp_path / "u"))) as store, open_bundle(str(tmp_path / "b")) as read:
        restore.import_bundle(store, read, below=True)
        assert store.find_session("cli") is None
        assert {one.name for one in store.sessions()} == {
            "report", "report/cli", "report/part", "report/sunday/sub-1", "report/sunday/sub-1-4",
        }  # fmt: skip
