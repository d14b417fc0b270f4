"""Sessions of an older format: read as they are, written as they were; and what a newer one is to an older program.

What a session of version 1 was really made of is in tests/golden; here one is made by today's program.
"""

import io
import json
from contextlib import closing
from pathlib import Path

import pytest

from holdall.store.bundle.export import export_session
from holdall.store.bundle.restore import import_bundle
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import StoreFault
from holdall.values.retention import Retention
from tests.requirements import requirement
from tests.store.bundles import everything, taken_apart, unpacked
from tests.store.support import folder_of, keep, read_back

OLD = SessionInfo("1" * 8 + "-1111-4111-8111-" + "1" * 12, "old", 1.0, Retention(days=None), format=1)


@pytest.fixture
def old(store: OutputStore) -> SessionInfo:
    with store.staging() as staging:
        staged = staging.session(OLD)
        staged.write_log("events", [b'{"at":1.0,"event":"turn"}\n'])
        staged.finish()
        staged.close()
        staging.publish([OLD])
    return store.open_session("old")


@requirement("store:older-format")
def test_in_an_old_session_lines_are_written_as_they_were(store: OutputStore, old: SessionInfo) -> None:
    assert old.format == 1
    store.append_events(old, b'{"at":2.0,"event":"turn"}\n')
    store.append_transcript(old, b'{"role":"user"}\n')
    assert store.read_log(old, "events", 0, 100) == b'{"at":1.0,"event":"turn"}\n{"at":2.0,"event":"turn"}\n'
    assert store.events_from(old, 0) == (store.read_log(old, "events", 0, 100), 52, ())
    assert store.transcript(old) == (b'{"role":"user"}\n', 16, ())


@requirement("store:lines-proven")
def test_a_torn_line_of_an_old_session_is_named_too(store: OutputStore, old: SessionInfo) -> None:
    store.append_events(old, b'{"at":')
    store.append_events(old, b'{"at":3.0,"event":"turn"}\n')
    found = store.events_from(old, 0)
    assert found.lines == b'{"at":1.0,"event":"turn"}\n{"at":3.0,"event":"turn"}\n'
    assert found.bad == ((2, 26, "it was not written to its end"),)


@requirement("store:older-format", "bundle:import-resolves")
def test_an_old_session_makes_an_old_bundle_and_beside_a_new_one_a_new_bundle(
    store: OutputStore, old: SessionInfo, tmp_path: Path
) -> None:
    facts = keep(store, old, "kept\n", call_id="c1")
    bundles: list[bytes] = []
    for child in (None, "old/new-1"):
        if child is not None:
            below = store.open_session(child, parent=old.id)
            assert below.format == 2
            store.append_events(below, b'{"at":5.0,"event":"turn"}\n')
        written = io.BytesIO()
        export_session(store, old, written.write)
        bundles.append(written.getvalue())
    first, second = (taken_apart(bundle) for bundle in bundles)
    assert (first.head, "format" in first.contents["sessions"][0]) == (b"holdall bundle 1\n", False)
    assert [one["format"] for one in second.contents["sessions"]] == [1, 2]
    assert b"\nholdall record 1 " in unpacked(bundles[1])
    with closing(DirectoryStore(str(tmp_path / "there"))) as there:
        import_bundle(there, io.BytesIO(bundles[1]).read)
        assert everything(there) == everything(store)
        copy = there.open_session("old")
        assert copy.format == 1
        assert read_back(there, there.resolve(copy, facts.handle)) == b"kept\n"
        with closing(DirectoryStore(str(tmp_path / "there"))) as again:
            import_bundle(again, io.BytesIO(bundles[1]).read, name="beside")  # with ids of its own in every line
            assert [one.problem for one in again.verify() if one.problem] == []


@requirement("store:older-format")
def test_what_an_old_session_gets_on_disk_is_what_an_old_program_reads(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        with store.staging() as staging:
            staging.session(OLD).close()
            staging.publish([OLD])
        session = store.open_session("old")
        facts = keep(store, session, "kept\n")
        writer = store.begin(session, facts.origin)
        writer.write(b"more\n")
        writer.finish()
        store.expire(session, [facts], "test")
        folder = folder_of(home, session)
        assert json.loads((folder / "session.json").read_text())["format"] == 1
        assert {path.read_bytes()[:17] for path in folder.glob("*.record")} == {b"holdall record 1 "}
        new = keep(store, store.open_session("new"), "kept\n")
        path = folder_of(home, store.open_session("new")) / f"{new.handle}.record"
        assert path.read_bytes().startswith(b"holdall record 2 ")


@requirement("store:older-format")
def test_a_session_that_lost_its_file_is_still_of_the_format_of_its_records(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        with store.staging() as staging:
            staging.session(OLD).close()
            staging.publish([OLD])
        for name in ("old", "new"):
            session = store.open_session(name)
            keep(store, session, "kept\n")
            store.append_events(session, b"{}\n")
            (folder_of(home, session) / "session.json").unlink()
    with closing(DirectoryStore(str(home))) as store:
        assert [store.open_session(name).format for name in ("old", "new")] == [1, 2]
        assert [store.events_from(store.open_session(name), 0).lines for name in ("old", "new")] == [b"{}\n"] * 2


@requirement("store:older-format")
def test_two_programs_work_in_one_store_and_each_refuses_only_what_is_newer(home: Path) -> None:
    """The older one is today's, and the newer one's session says so, as ours says it to version 0.1."""
    with closing(DirectoryStore(str(home))) as store, closing(DirectoryStore(str(home))) as newer:
        shared = store.open_session("shared")
        later = newer.open_session("later")
        kept = keep(newer, later, "of later")
        path = folder_of(home, later) / "session.json"
        path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 3'))
        before = {one.name: one.read_bytes() for one in folder_of(home, later).iterdir() if one.is_file()}
        with pytest.raises(StoreFault, match=r"session format 3; this one reads 1 and 2\). Nothing was changed"):
            store.open_session("later")
        for one in (store, newer):  # both go on in what both know
            keep(one, shared, f"by {id(one)}")
            one.append_events(shared, b"{}\n")
        assert len(store.outputs(shared)) == len(newer.outputs(shared)) == 2
        assert store.events_from(shared, 0).lines == b"{}\n{}\n"
        store.sweep()
        assert [one.session for one in store.verify() if one.problem] == [f"session-{later.id}"]
        assert {one.name: one.read_bytes() for one in folder_of(home, later).iterdir() if one.is_file()} == before
        assert read_back(newer, kept) == b"of later"
