"""An export tells how far it is, names what it cannot take, and notices what changes under it."""

import gzip
import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from holdall.store import records
from holdall.store.bundle import export as module
from holdall.store.bundle import stream
from holdall.store.bundle.export import SessionChanged, export_session
from holdall.store.bundle.redact import Redactor, usual_rules
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.bundles import Bundle, Exported
from holdall.values.errors import OutputDamaged, StoreFault, UsageError
from holdall.values.outputs import Facts, Origin
from tests.store.bundles import exported, filled, imported, taken_apart, unpacked
from tests.store.support import keep

OUTPUT, OTHER = "ab" * 16, "cd" * 16  # notes about outputs are named by their ids


def export(
    store: DirectoryStore, session: SessionInfo, *, redacts: bool = False, during: Callable[[], object] | None = None
) -> tuple[Exported, list[int]]:
    """And how far it said that it was."""
    told: list[int] = []
    done = export_session(
        store, session, io.BytesIO().write, redactor=Redactor(usual_rules()) if redacts else None,
        listed=(lambda _: print(during())) if during else None, progress=told.append,
    )  # fmt: skip
    return done, told


@pytest.mark.parametrize(("redacts", "size"), [(False, 2 << 20), (True, 2 << 10)])
def test_the_way_out_is_told_by_bytes_of_outputs(folder_store: DirectoryStore, redacts: bool, size: int) -> None:
    """Also where each of them is read twice."""
    session = folder_store.open_session("s")
    for value in ("a line\n" * 999, b"\n" * size, "two\n"):
        keep(folder_store, session, value)
    done, told = export(folder_store, session, redacts=redacts)
    assert told == sorted(told)
    assert told[-1] == done.bundle.stored_bytes == 7 * 999 + size + 4


def test_what_the_list_says_is_what_there_is(folder_store: DirectoryStore) -> None:
    session = filled(folder_store)
    folder_store.remember(session, OUTPUT, OTHER, b'{"about": "two outputs"}')
    written, listed = io.BytesIO(), list[Bundle]()
    done = export_session(folder_store, session, written.write, listed=listed.append)
    assert (listed, done.written) == ([done.bundle], len(written.getvalue()))
    found = taken_apart(written.getvalue())
    first = done.bundle.sessions[0]
    of_first = {name.partition("/")[2]: data for name, data in found.entries if name.startswith("0/")}
    files = {
        name: data for name, data in of_first.items() if name.endswith((".txt", ".json", ".log")) and "tree" not in name
    }
    notes = {name: data for name, data in of_first.items() if name.startswith("answers/")}
    assert (first.files, first.stored_bytes) == (len(files), sum(map(len, files.values())))
    assert (first.notes, first.note_bytes) == (len(notes), sum(map(len, notes.values())))
    assert len(notes) == 2
    assert first.outputs + first.expired == sum(name.endswith(".record") for name in of_first)
    assert first.bytes == first.stored_bytes + len(b"one\ntwo\n"), "one of its files is of two outputs"
    for log in ("transcript", "events"):
        assert getattr(first, f"{log}_bytes") == len(of_first[f"{log}.ndjson"])
    assert first.tree_bytes == len(of_first["tree.json"])


def test_sessions_of_one_moment_come_by_their_ids_each_behind_its_parent(folder_store: DirectoryStore) -> None:
    folder_store.clock = lambda: 1.0
    session = folder_store.open_session("s")
    below = [folder_store.open_session(f"{number}", parent=session.id) for number in range(6)]
    deeper = [folder_store.open_session(f"{one.name}/x", parent=one.id) for one in below]
    found = taken_apart(exported(folder_store, session)).contents["sessions"]
    assert [one["id"] for one in found[:7]] == [session.id, *sorted(one.id for one in below)]
    assert [found[one["parent"]]["id"] for one in found[7:]] == sorted(one.parent for one in deeper)
    assert [one["parent"] for one in found[:7]] == [-1, 0, 0, 0, 0, 0, 0]


def test_a_session_that_begins_during_the_look_is_in_it(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = folder_store.open_session("s")
    real = folder_store.tree

    def tree(one: SessionInfo) -> bytes | None:
        folder_store.open_session("meanwhile", parent=session.id)
        return real(one)

    monkeypatch.setattr(folder_store, "tree", tree)
    assert [one["name"] for one in taken_apart(exported(folder_store, session)).contents["sessions"]] == [
        "s",
        "meanwhile",
    ]


def test_more_sessions_than_a_bundle_takes_are_refused(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = filled(folder_store)
    monkeypatch.setattr(module, "MAX_SESSIONS", 3)
    exported(folder_store, session)
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    with pytest.raises(StoreFault, match="more than 2 sessions are too many for one bundle"):
        exported(folder_store, session)


@pytest.mark.parametrize("what", ["tree.json", ".record"])
def test_what_is_read_whole_has_a_bound(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    session = folder_store.open_session("s")
    if what == "tree.json":
        folder_store.save_tree(session, b'{"op":"session","name":"s"}')
    else:
        keep(folder_store, session, "x")
    found = taken_apart(exported(folder_store, session))
    size = len(found.entries[found.at(what)][1])
    monkeypatch.setattr(stream, "MAX_IN_MEMORY", size)
    exported(folder_store, session)
    monkeypatch.setattr(stream, "MAX_IN_MEMORY", size - 1)
    with pytest.raises(StoreFault, match=f"{what} has {size} bytes, which is more than a bundle takes"):
        exported(folder_store, session)


@pytest.mark.parametrize("number", [5, 6])
def test_packed_outputs_are_named_up_to_five_of_them(folder_store: DirectoryStore, number: int) -> None:
    session = folder_store.open_session("s")
    for size in range(1, number + 1):
        keep(folder_store, session, gzip.compress(b"x" * size, mtime=0))
    named = ", ".join(f"{one.handle} (gzip, in s)" for one in folder_store.outputs(session)[:5])
    more = " and 1 more" if number > 5 else ""
    with pytest.raises(UsageError) as caught:
        export(folder_store, session, redacts=True)
    assert f"cannot be masked: {named}{more}. Remove them" in str(caught.value)


@pytest.mark.parametrize("redacts", [False, True])
def test_a_note_that_is_replaced_or_removed_during_an_export_ends_it(
    folder_store: DirectoryStore, redacts: bool
) -> None:
    session = folder_store.open_session("s")
    folder_store.remember(session, OUTPUT, OTHER, b'{"a": 1}')
    export(folder_store, session, redacts=redacts)
    with pytest.raises(SessionChanged, match="a note was replaced"):
        export(
            folder_store, session, redacts=redacts,
            during=lambda: folder_store.remember(session, OUTPUT, OTHER, b'{"a": 1000}'),
        )  # fmt: skip
    (path,) = Path(folder_store.home).glob(f"session-*/answers/{OUTPUT}-{OTHER}")
    with pytest.raises(SessionChanged, match="a note was removed"):
        export(folder_store, session, redacts=redacts, during=path.unlink)


def test_a_log_that_becomes_shorter_during_an_export_ends_it(folder_store: DirectoryStore) -> None:
    session = folder_store.open_session("s")
    folder_store.append_transcript(session, b'{"role":"user"}\n')
    (path,) = Path(folder_store.home).glob("session-*/transcript.ndjson")
    with pytest.raises(SessionChanged, match="a log became shorter"):
        export(folder_store, session, during=lambda: path.write_bytes(b""))


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_a_file_that_was_cut_off_is_not_exported(folder_store: DirectoryStore, size: int) -> None:
    session = folder_store.open_session("s")
    kept = keep(folder_store, session, b"x" * size)
    (path,) = Path(folder_store.home).glob(f"session-*/{kept.file}")
    with path.open("r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(OutputDamaged):
        export(folder_store, session)


def test_an_output_whose_record_cannot_be_read_is_not_left_out_without_a_word(folder_store: DirectoryStore) -> None:
    session = folder_store.open_session("s")
    kept = keep(folder_store, session, "x")
    (path,) = Path(folder_store.home).glob(f"session-*/{kept.handle}.record")
    path.write_bytes(b"garbage")
    with pytest.raises(StoreFault, match=kept.handle):
        export(folder_store, session)


def test_a_process_of_this_machine_is_not_in_a_bundle(folder_store: DirectoryStore, tmp_path: Path) -> None:
    session = folder_store.open_session("s")
    keep(folder_store, session, "x", process=7, process_mark="boot")
    found = taken_apart(exported(folder_store, session))
    name, data = found.entries[found.at(".record")]
    origin = records.decode(data, handle=name[2:].removesuffix(".record"))[0].origin
    assert (origin.process, origin.process_mark) == (0, "")
    imported(tmp_path / "b", exported(folder_store, session))
    with closing(DirectoryStore(str(tmp_path / "b"))) as store:
        here = store.find_session("s")
        assert here is not None
        assert [(one.origin.process, one.origin.process_mark) for one in store.outputs(here)] == [(0, "")]


def test_what_still_runs_is_open_only_while_it_is_exported(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = folder_store.open_session("s")
    writer = folder_store.begin(session, Origin())
    writer.write(b"so far\n")
    real, readers = folder_store.open, list[object]()

    def opened(*given: object) -> object:
        reader = real(*given)  # type: ignore[arg-type]
        readers.append(reader)
        close = reader.close
        monkeypatch.setattr(reader, "close", lambda: (readers.remove(reader), close()), raising=False)
        return reader

    def broken() -> None:
        raise SystemError

    monkeypatch.setattr(folder_store, "open", opened)
    export(folder_store, session, during=lambda: readers or pytest.fail("it is not held"))
    assert readers == []
    with pytest.raises(SystemError):
        export(folder_store, session, during=broken)
    assert readers == []
    writer.finish()


def test_what_was_masked_in_a_running_output_is_told_beside_that_it_was_cut(folder_store: DirectoryStore) -> None:
    session = folder_store.open_session("s")
    writer = folder_store.begin(session, Origin(tool="slow"))
    writer.write(b"password=hunter2hunter2\n")
    written = io.BytesIO()
    export_session(folder_store, session, written.write, redactor=Redactor(usual_rules()))
    writer.finish()
    found = taken_apart(written.getvalue())
    told = found.entries[found.at(".record")][1]
    assert b"a secret was masked when it was exported" in told
    assert b"it was still being written when its session was exported" in told


def test_what_is_masked_is_masked_everywhere_but_in_names_of_ours_and_stays_told(
    folder_store: DirectoryStore, tmp_path: Path
) -> None:
    session = folder_store.open_session("s")
    keep(folder_store, session, f"password=hunter2hunter2\npassword={session.id}\n")
    keep(folder_store, session, f"again hunter2hunter2 in {session.id}\n")
    folder_store.append_events(session, b'{"at":1.0,"event":"turn","session":"%s"}\n' % session.id.encode())
    written = io.BytesIO()
    done = export_session(folder_store, session, written.write, redactor=Redactor(usual_rules()))
    found = taken_apart(written.getvalue())
    texts = [data for name, data in found.entries if name.endswith(".txt")]
    assert b"again ************** in %s\n" % session.id.encode() in texts
    assert session.id.encode() in found.entries[found.at("events.ndjson")][1]
    assert found.contents["redacted"] is True
    lines = found.entries[found.at("masks.ndjson")][1].splitlines()
    assert len(lines) == sum(done.masks.values()) == len(done.places) > 1
    imported(tmp_path / "b", written.getvalue())
    with closing(DirectoryStore(str(tmp_path / "b"))) as store:
        here = store.find_session("s")
        assert here is not None
        again = taken_apart(exported(store, here))
        assert (again.contents, again.entries) == (found.contents, found.entries)
    assert taken_apart(exported(folder_store, session)).contents["redacted"] is False


def test_a_secret_is_learned_from_all_that_was_said_of_outputs(folder_store: DirectoryStore) -> None:
    secrets = [f"Zq7vT9mX4kLp{number}x" for number in range(5)]
    arguments, note, transcript, events, tree = (json.dumps({"password": one}).encode() for one in secrets)
    session = folder_store.open_session("s")
    keep(folder_store, session, "first: " + " ".join(secrets) + "\n", arguments=json.loads(arguments))
    folder_store.remember(session, OUTPUT, OTHER, note)
    folder_store.append_transcript(session, transcript + b"\n")
    folder_store.append_events(session, events + b"\n")
    folder_store.save_tree(session, tree)
    written = io.BytesIO()
    export_session(folder_store, session, written.write, redactor=Redactor(usual_rules()))
    plain = unpacked(written.getvalue())
    assert [one for one in secrets if one.encode() in plain] == []
    assert b"first: " + b" ".join([b"*" * 14] * 5) in plain


def test_an_output_that_is_another_than_it_was_ends_the_export(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = folder_store.open_session("s")
    kept = keep(folder_store, session, "x")
    other = replace(kept, exit_code=3)

    def resolve(*_: object) -> Facts:
        return other

    monkeypatch.setattr(folder_store, "resolve", resolve)
    with pytest.raises(SessionChanged, match=f"output {kept.handle} was changed while it was exported"):
        export(folder_store, session)
