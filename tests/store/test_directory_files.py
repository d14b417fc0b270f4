"""The store on disk: what lies where, under which name and mode, and in which order it gets there."""

import errno
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from holdall.store import files
from holdall.store.bundle.restore import import_bundle
from holdall.store.directory import folder as record
from holdall.store.directory import live, sessions, upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SavedSummary, SessionInfo, Verdict
from holdall.store.reader import FileReader
from holdall.store.records import decode_session
from holdall.values.errors import OutputMissing, SessionLocked, StoreFault, StoreGone, UnknownHandle
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable
from tests.requirements import requirement
from tests.store.bundles import exported
from tests.store.support import Clock, folder_of, held, keep, payload, read_back, tree
from tests.store.test_contract_outputs import HOSTILE_NAMES

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
NAMES = re.compile(
    rf"names(/[0-9a-f]{{64}}|/\.lock)?|index\.sqlite(-journal)?|\.last-gc|session-{UUID}"
    rf"(/session\.json|/\.lock|/[a-z][a-z0-9]{{3,11}}\.record|/{UUID}\.(txt|json)|/terminal(/{UUID}\.log)?)?"
)


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


# ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:plain-files-and-index")
def test_an_output_is_a_plain_file_beside_one_sqlite_index(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    facts = keep(folder_store, folder_session, "what came")
    assert (folder_of(home, folder_session) / facts.file).read_bytes() == b"what came"
    with sqlite3.connect(home / "index.sqlite") as database:
        assert database.execute("SELECT handle FROM outputs").fetchall() == [(facts.handle,)]
    database.close()
    assert [path.name for path in home.glob("*.sqlite")] == ["index.sqlite"]


@requirement("store:json-suffix")
@pytest.mark.parametrize("value", [{"a": 1}, '{"a": 1}', "[]", [1, 2]])
def test_json_is_in_a_file_that_ends_in_json(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, value: object
) -> None:
    assert keep(folder_store, folder_session, value).file == payload(home, folder_session)[0]
    assert re.fullmatch(UUID + r"\.json", payload(home, folder_session)[0])


@requirement("store:txt-suffix")
@pytest.mark.parametrize("value", ["words", "", b"\x00\xff", '{"a": 1}\n{"a": 2}\n', "a,b\n1,2\n", None])
def test_everything_else_is_in_a_file_that_ends_in_txt(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, value: object
) -> None:
    assert keep(folder_store, folder_session, value).file == payload(home, folder_session)[0]
    assert re.fullmatch(UUID + r"\.txt", payload(home, folder_session)[0])


@requirement("store:terminal-log")
def test_the_output_of_a_command_is_under_terminal_in_a_file_that_ends_in_log(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    keep(folder_store, folder_session, '{"even": "json"}', terminal=True)
    writer = folder_store.begin(folder_session, Origin(terminal=True))
    writer.write(b"running")
    assert all(re.fullmatch(f"terminal/{UUID}" + r"\.log", name) for name in payload(home, folder_session))
    assert len(payload(home, folder_session)) == 2
    assert read_back(folder_store, writer.finish()) == b"running"


@requirement("store:named-by-uuid", "store:call-id-confined", "store:tool-name-confined", "session:name-confined")
def test_no_name_from_outside_becomes_the_name_of_a_file(tmp_path: Path, home: Path) -> None:
    store = DirectoryStore(str(home))
    for number, name in enumerate(HOSTILE_NAMES.values()):
        session = store.open_session(name if name.isprintable() and len(name) <= 200 else f"s{number}")
        keep(store, session, f"content {number}", tool=name, call_id=name, server=name, arguments={name: name})
        keep(store, session, {"n": number}, tool=name, terminal=True)
        store.begin(session, Origin(tool=name, call_id=name)).finish()
    upkeep.sweep(store)
    store.close()
    assert [name for name in tree(home) if not NAMES.fullmatch(name)] == []
    assert os.listdir(tmp_path) == ["home"]


@requirement("store:handle-grammar", "store:handle-confined")
@pytest.mark.parametrize("reference", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_no_file_is_opened_by_the_name_of_what_is_no_handle(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    keep(folder_store, folder_session, "x")
    touched: list[str] = []
    for name in ("open", "stat", "unlink", "readlink", "scandir"):
        real: Any = getattr(os, name)

        def watched(path: Any, *rest: Any, real: Any = real, **named: Any) -> Any:
            touched.append(str(path))
            return real(path, *rest, **named)

        monkeypatch.setattr(os, name, watched)
    with pytest.raises(UnknownHandle):
        folder_store.resolve(folder_session, reference)
    assert touched  # the store was asked, and looked at its own
    allowed = re.compile(
        rf"{re.escape(folder_store.home)}.*|\d+|\.|[a-z0-9]+\.record|names|[0-9a-f]{{64}}|session\.json"
    )
    assert [path for path in touched if not allowed.fullmatch(path)] == []


# ── Modes ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:folders-0700", "store:files-0600")
@pytest.mark.parametrize("umask", [0, 0o022, 0o777], ids=oct, indirect=True)
def test_folders_are_0700_and_files_0600_whatever_the_umask(home: Path, umask: int) -> None:
    above, home = home / "above", home / "above" / "below" / "home"
    store = DirectoryStore(str(home))
    assert [stat.S_IMODE(one.stat().st_mode) for one in (above, above / "below")] == [0o700, 0o700]
    session = store.open_session("s")
    keep(store, session, "text")
    keep(store, session, {"a": 1})
    keep(store, session, "log", terminal=True)
    writer = store.begin(session, Origin(terminal=True))
    writer.write(b"x")
    store.append_events(session, b"{}\n")
    assert store.claim(session, "a name")
    with store.lease(session, "us"):
        assert _wrong_modes(home) == {}
    store.expire(session, [writer.finish()], "test")
    store.outputs(session)
    upkeep.sweep(store)
    store.close()
    assert _wrong_modes(home) == {}
    assert (home / ".last-gc").exists()


@requirement("store:folders-0700", "store:files-0600")
def test_a_umask_that_takes_everything_does_not_lock_a_plain_user_out() -> None:
    # As root nothing is ever locked out, so the child becomes somebody else once it has imported everything.
    script = """
        import os, sys
        from holdall.store.directory import upkeep
        from holdall.store.directory.store import DirectoryStore
        from holdall.values.outputs import Origin

        def use(home):
            for _ in range(2):  # made, then opened again
                store = DirectoryStore(home)
                session = store.open_session("s")
                for terminal in (False, True):
                    store.put(session, [b"x"], Origin(terminal=terminal))
                    store.begin(session, Origin(terminal=terminal)).finish()
                assert len(store.outputs(session)) in (4, 8)
                upkeep.sweep(store)
                store.close()

        use(sys.argv[1] + "/warm")
        if os.geteuid() == 0:
            os.chown(sys.argv[1], 65534, 65534)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        os.umask(0o777)
        use(sys.argv[1] + "/home")
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", dedent(script), folder], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert _wrong_modes(Path(folder, "home")) == {}


def _wrong_modes(home: Path) -> dict[str, str]:
    modes = {".": stat.S_IMODE(os.stat(home).st_mode)} | {
        path.relative_to(home).as_posix(): stat.S_IMODE(os.lstat(path).st_mode) for path in home.rglob("*")
    }
    return {name: oct(mode) for name, mode in modes.items() if mode != (0o700 if (home / name).is_dir() else 0o600)}


# ── Records ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:record-beside-bytes")
def test_the_record_beside_the_bytes_describes_them_completely(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    data = os.urandom(200_000)
    facts = keep(folder_store, folder_session, data, tool="fetch", call_id="c1", arguments={"a": [1]})
    folder = folder_of(home, folder_session)
    found, table = record.decode((folder / f"{facts.handle}.record").read_bytes(), handle=facts.handle)
    assert found == facts
    reader = folder_store.open(facts)
    assert table == reader.table
    reader.close()
    assert (folder / found.file).read_bytes() == data


@requirement("store:record-beside-bytes")
def test_the_folder_of_a_session_is_all_that_is_needed_to_find_everything_again(home: Path, tmp_path: Path) -> None:
    store = DirectoryStore(str(home))
    session = store.open_session("s1")
    kept = [keep(store, session, f"output {number}", call_id=f"c{number}") for number in range(5)]
    store.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder_of(home, session).rename(folder_of(elsewhere, session))
    again = DirectoryStore(str(elsewhere))
    assert again.open_session("s1") == session
    for number, facts in enumerate(kept):
        for reference in (facts.handle, facts.long_handle, f"c{number}"):
            assert again.resolve(session, reference) == facts
        assert read_back(again, facts) == f"output {number}".encode()
    again.close()


@requirement("store:format-version")
def test_a_record_of_a_newer_version_is_refused_with_both_versions_and_left_alone(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    facts = keep(folder_store, folder_session, "from the future", call_id="c1")
    other = keep(folder_store, folder_session, "of today")
    path = folder_of(home, folder_session) / f"{facts.handle}.record"
    path.write_bytes(path.read_bytes().replace(b"holdall record 2 ", b"holdall record 3 ", 1))
    before = tree(folder_of(home, folder_session))
    with pytest.raises(StoreFault) as refused:
        folder_store.resolve(folder_session, facts.handle)
    assert str(refused.value) == (
        f"output {facts.handle} was kept by another version of Holdall (record format 3; this one reads 1 and 2). "
        "Nothing was changed; use the version that wrote it."
    )
    with pytest.raises(StoreFault, match="record format 3; this one reads 1 and 2"):
        folder_store.open(facts)
    # The others are there, and nothing that looks after the store touches it.
    newer, *others = sorted(folder_store.outputs(folder_session), key=lambda one: one.state != "unreadable")
    assert (newer.handle, newer.error, others) == (facts.handle, str(refused.value), [other])
    assert read_back(folder_store, other) == b"of today"
    upkeep.sweep(folder_store)
    verdicts = {verdict.handle: verdict.problem for verdict in upkeep.verify(folder_store)}
    assert verdicts == {facts.handle: str(refused.value), other.handle: ""}
    assert tree(folder_of(home, folder_session)) == before


@requirement("store:format-version")
def test_bytes_that_a_record_of_a_newer_version_may_name_are_not_removed(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    facts = keep(folder_store, folder_session, "shared")
    twin = keep(folder_store, folder_session, "shared")
    path = folder_of(home, folder_session) / f"{facts.handle}.record"
    path.write_bytes(path.read_bytes().replace(b"holdall record 2 ", b"holdall record 3 ", 1))
    with pytest.raises(StoreFault, match="cannot be read and may name the same bytes; nothing was removed"):
        folder_store.expire(folder_session, [twin], "test")
    assert payload(home, folder_session) == [facts.file]


def test_a_session_of_a_newer_version_is_refused_and_hides_no_other(home: Path) -> None:
    store = DirectoryStore(str(home))
    newer, today = store.open_session("newer"), store.open_session("today")
    path = folder_of(home, newer) / "session.json"
    path.write_bytes(path.read_bytes().replace(b'"format": 2', b'"format": 3'))
    before = tree(home)
    for name in ("newer", f"session-{newer.id}"):
        with pytest.raises(StoreFault) as refused:
            store.open_session(name)
        assert str(refused.value) == (
            f"session-{newer.id} was made by another version of Holdall (session format 3; this one reads 1 and 2). "
            "Nothing was changed; use the version that made it."
        )
    assert store.sessions() == [today]
    assert tree(home) == before
    assert list(upkeep.verify(store)) == [Verdict(f"session-{newer.id}", "-", 0, str(refused.value))]
    store.close()


@pytest.mark.parametrize("damage", [b"", b"[]", b"1", b"\xff", b'{"session": 5}', b'{"session": "../.."}'])
def test_a_damaged_claim_of_a_name_costs_no_session(home: Path, damage: bytes) -> None:
    store = DirectoryStore(str(home))
    session = store.open_session("s1")
    (claim,) = (path for path in (home / "names").iterdir() if not path.name.startswith("."))
    claim.write_bytes(damage)
    assert store.open_session("s1") == session
    assert store.sessions() == [session]
    store.close()


def test_of_many_sessions_none_is_read_while_new_ones_are_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(DirectoryStore(str(home))) as store:
        for number in range(5):
            store.open_session(f"old {number}")
    read: list[str] = []

    def counted(data: bytes, id: str) -> SessionInfo:
        read.append(id)
        return decode_session(data, id)

    monkeypatch.setattr(sessions, "decode_session", counted)
    with closing(DirectoryStore(str(home))) as store:
        for number in range(20):
            store.open_session(f"new {number}")
        assert read == []
        for path in (home / "names").glob("[0-9a-f]*"):
            path.unlink()
        assert store.open_session("old 3").name == "old 3"
        assert len(store.sessions()) == 25
        store.open_session("one more")
        read.clear()
        assert store.open_session("old 4").name == "old 4"
        assert len(read) == 1  # its name was given back before another was made


def test_a_session_that_was_copied_into_a_store_is_found_by_its_name(home: Path, tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path / "other"))) as other:
        copied = other.open_session("copied")
    with closing(DirectoryStore(str(home))) as store:
        store.open_session("first")
        shutil.copytree(folder_of(tmp_path / "other", copied), folder_of(home, copied))
        assert store.open_session("copied").id == copied.id
        shutil.rmtree(folder_of(home, copied))
        assert store.open_session("copied").id != copied.id
        assert len(store.sessions()) == 2


def test_a_session_that_somebody_else_made_meanwhile_is_the_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(DirectoryStore(str(home))) as store:
        real, looks = sessions.Sessions.find, list[str]()

        def find(self: sessions.Sessions, name: str) -> SessionInfo | None:
            looks.append(name)
            if len(looks) == 1:
                made.append(real(self, name) or self.make(name, Retention(days=3), ""))
                return None
            return real(self, name)

        made: list[SessionInfo] = []
        monkeypatch.setattr(sessions.Sessions, "find", find)
        assert [store.open_session("s1")] == made == store.sessions()


def test_a_session_that_has_lost_its_own_file_and_its_record_can_still_be_used(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        session = store.open_session("s1")
        facts = keep(store, session, "kept")
    (folder_of(home, session) / "session.json").unlink()
    (folder_of(home, session) / f"{facts.handle}.record").write_bytes(b"damaged")
    with closing(DirectoryStore(str(home))) as store:
        found = store.open_session("s1")
        assert (found.id, found.format) == (session.id, session.format)
        assert [one.state for one in store.outputs(found)] == ["unreadable"]
        assert read_back(store, keep(store, found, "kept again")) == b"kept again"


def test_a_session_whose_folder_was_removed_is_made_anew(home: Path) -> None:
    store = DirectoryStore(str(home))
    gone = store.open_session("s1")
    store.close()
    (folder_of(home, gone) / "session.json").unlink()
    folder_of(home, gone).rmdir()
    again = DirectoryStore(str(home))
    made = again.open_session("s1")
    assert made.id != gone.id
    assert again.open_session("s1") == made
    assert again.sessions() == [made]
    again.close()


def test_an_import_takes_the_name_of_a_session_whose_folder_was_removed(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        gone = store.open_session("s1")
        keep(store, gone, "kept")
        bundle = exported(store, gone)
        shutil.rmtree(folder_of(home, gone))
        import_bundle(store, BytesIO(bundle).read)
    with closing(DirectoryStore(str(home))) as store:
        (restored,) = store.sessions()
        assert store.find_session("s1") == restored
        claims = [path.read_text() for path in (home / "names").glob("[0-9a-f]*")]
        assert [restored.id in one for one in claims] == [True]


@pytest.mark.parametrize("text", ["forever", "-1 days", "90 days after use"])
def test_a_retention_that_cannot_be_read_removes_nothing(home: Path, text: str) -> None:
    store = DirectoryStore(str(home))
    session = store.open_session("s1")
    path = folder_of(home, session) / "session.json"
    path.write_bytes(path.read_bytes().replace(b"30 days", text.encode()))
    assert str(store.open_session("s1").retention) == "keep"
    store.close()


# ── Copies ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:identical-once")
def test_identical_outputs_of_a_session_are_one_file(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    first = keep(folder_store, folder_session, b"same" * 50_000)
    second = keep(folder_store, folder_session, b"same" * 50_000, terminal=True)
    writer = folder_store.begin(folder_session, Origin())
    writer.write(b"same" * 50_000)
    third = writer.finish()
    assert first.file == second.file == third.file
    assert payload(home, folder_session) == [first.file]
    assert folder_store.used_bytes(folder_session) == 200_000
    other = folder_store.open_session("s2")
    keep(folder_store, other, b"same" * 50_000)
    assert len(payload(home, other)) == 1


@pytest.mark.parametrize("damaged", [b"Same" * 32_768, b"same" * 32_768 + b"!", b"same" * 32_767, b""], ids=len)
def test_a_damaged_copy_is_not_shared(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, damaged: bytes
) -> None:
    first = keep(folder_store, folder_session, b"same" * 32_768)
    path = folder_of(home, folder_session) / first.file
    path.write_bytes(damaged)
    second = keep(folder_store, folder_session, b"same" * 32_768)
    assert second.file != first.file
    assert read_back(folder_store, second) == b"same" * 32_768


@requirement("store:removed-by-hand")
def test_an_output_whose_file_was_removed_is_lost_under_its_handle_and_the_others_are_unharmed(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    lost, other = keep(folder_store, folder_session, "lost"), keep(folder_store, folder_session, "other")
    (folder_of(home, folder_session) / lost.file).unlink()
    with pytest.raises(OutputMissing) as refused:
        folder_store.open(folder_store.resolve(folder_session, lost.handle))
    assert str(refused.value) == (
        f"the stored bytes of output {lost.handle} are gone: its file was removed from the store by hand."
    )
    assert read_back(folder_store, other) == b"other"
    assert read_back(folder_store, keep(folder_store, folder_session, "lost")) == b"lost"
    (folder_of(home, folder_session) / f"{other.handle}.record").unlink()
    with pytest.raises(StoreGone, match=f"the record of output {other.handle} was removed from the store by hand"):
        folder_store.open(other)


@requirement("store:removed-by-hand")
@pytest.mark.parametrize("link", [False, True], ids=["removed", "a link in its place"])
def test_a_running_output_whose_file_is_gone_does_not_hide_the_others(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, link: bool
) -> None:
    other = keep(folder_store, folder_session, "other")
    writer = folder_store.begin(folder_session, Origin())
    path = folder_of(home, folder_session) / folder_store.resolve(folder_session, writer.handle).file
    path.unlink()
    if link:
        path.symlink_to("/etc/passwd")
    states = {facts.handle: facts.state for facts in folder_store.outputs(folder_session)}
    assert states == {other.handle: "ready", writer.handle: "interrupted"}
    with pytest.raises(StoreFault, match=writer.handle):
        folder_store.resolve(folder_session, writer.handle)
    problems = {verdict.handle: bool(verdict.problem) for verdict in upkeep.verify(folder_store)}
    assert problems == {other.handle: False, writer.handle: True}
    upkeep.sweep(folder_store)
    assert read_back(folder_store, other) == b"other"
    writer.close()  # pyright: ignore[reportAttributeAccessIssue]


def rewritten(home: Path, facts: Facts, **changes: Any) -> None:
    """Its record says something else, as if it had been kept so."""
    (path,) = home.rglob(f"{facts.handle}.record")
    was, table = record.decode(path.read_bytes(), handle=facts.handle)
    path.write_bytes(record.encode(replace(was, **changes), table))


@requirement("store:symlink-confined")
@pytest.mark.parametrize("file", ["session.json/x", "../names/x", "/etc/passwd", ".lock", "terminal/", "answers/x"])
def test_a_record_that_names_no_file_of_an_output_opens_nothing(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, file: str
) -> None:
    facts, other = keep(folder_store, folder_session, "kept"), keep(folder_store, folder_session, "other")
    rewritten(home, facts, file=file)
    with pytest.raises(StoreFault, match=r"is not the name of a stored file|not a regular file|gone"):
        folder_store.open(folder_store.resolve(folder_session, facts.handle))
    assert read_back(folder_store, other) == b"other"
    rewritten(home, facts, file=f"{'e' * 100}/x")
    with pytest.raises(StoreFault, match=f"'{'e' * 80}' is not the name of a stored file"):
        folder_store.open(folder_store.resolve(folder_session, facts.handle))


@requirement("store:io-errors")
def test_a_file_that_cannot_be_opened_now_is_not_said_to_be_damaged(
    folder_store: DirectoryStore, folder_session: SessionInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = keep(folder_store, folder_session, "kept")
    real = files.open

    def too_many(name: str, *args: Any, **options: Any) -> int:
        if name == facts.file:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(name, *args, **options)

    monkeypatch.setattr(files, "open", too_many)
    with pytest.raises(StoreFault, match="Too many open files while opening an output"):
        folder_store.open(facts)


def test_a_record_of_another_session_is_not_read(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path
) -> None:
    elsewhere = folder_store.open_session("elsewhere")
    facts = keep(folder_store, elsewhere, "of another")
    for name in (f"{facts.handle}.record", facts.file):
        shutil.copy(folder_of(home, elsewhere) / name, folder_of(home, folder_session) / name)
    with pytest.raises(StoreFault, match=f"the record of {facts.handle} belongs to another session; it is not read"):
        folder_store.resolve(folder_session, facts.handle)
    assert set(folder_store.unreadable(folder_session)) == {facts.handle}
    (listed,) = folder_store.outputs(folder_session)
    assert (listed.state, "belongs to another session" in listed.error) == ("unreadable", True)
    assert listed.created == (folder_of(home, folder_session) / f"{facts.handle}.record").stat().st_mtime


def test_a_handle_that_is_taken_is_not_given_again(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def taken(attempt: int) -> str:
        tries.append(attempt)
        return kept.handle if attempt < free else ["bbbb", "cccc"][len(tries) > 64]

    kept, free = keep(folder_store, folder_session, "kept"), 63
    monkeypatch.setattr(record, "new_handle", taken)
    assert keep(folder_store, folder_session, "new").handle == "bbbb"
    assert tries == list(range(64))
    free = 64
    with pytest.raises(StoreFault, match="no free handle was found in 64 tries"):
        keep(folder_store, folder_session, "newer")
    assert len(payload(home, folder_session)) == 2
    assert read_back(folder_store, kept) == b"kept"


# ── Nothing stays behind ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("problem", [ValueError("mid"), KeyboardInterrupt()], ids=type)
def test_a_source_that_ends_early_leaves_no_temporary_file(
    folder_store: DirectoryStore, folder_session: SessionInfo, home: Path, problem: BaseException
) -> None:
    def parts() -> Iterator[bytes]:
        yield b"x" * 6_000_000
        raise problem

    facts = keep(folder_store, folder_session, parts())
    assert payload(home, folder_session) == [facts.file]
    assert facts.measure.bytes == 6_000_000


def test_an_empty_table_is_that_of_an_empty_output(folder_store: DirectoryStore, folder_session: SessionInfo) -> None:
    reader = folder_store.open(keep(folder_store, folder_session, ""))
    assert reader.table == BlockTable()
    assert reader.read(0, 10) == b""
    reader.close()


# ── Order ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the disk from now on, in order."""
    done: list[str] = []
    fsync, rename, link, write = os.fsync, os.rename, os.link, os.write

    def watched_fsync(descriptor: int) -> None:
        done.append("fsync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "fsync file")
        fsync(descriptor)

    def watched_rename(source: str, target: str, **named: Any) -> None:
        done.append("name the record" if target.endswith(".record") else "name the bytes")
        rename(source, target, **named)

    def watched_link(source: str, target: str, **named: Any) -> None:
        done.append("name the record" if target.endswith(".record") else "name the bytes")
        link(source, target, **named)

    def watched_write(descriptor: int, data: bytes) -> int:
        if not done or done[-1] != "write":
            done.append("write")
        return write(descriptor, data)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    monkeypatch.setattr(os, "link", watched_link)
    monkeypatch.setattr(os, "write", watched_write)
    return done


@requirement("store:handle-after-fsync")
@pytest.mark.parametrize("size", [10, 6_000_000])
def test_a_handle_is_given_out_after_the_bytes_and_the_record_are_durable(
    folder_store: DirectoryStore, folder_session: SessionInfo, steps: list[str], size: int
) -> None:
    folder_store.outputs(folder_session)
    steps.clear()
    folder_store.put(folder_session, [b"x" * size], Origin())
    assert steps == [
        "write", "fsync file", "name the bytes", "write", "fsync file", "name the record", "fsync folder",
    ]  # fmt: skip


@requirement("store:running-record-first")
def test_a_running_output_is_durable_before_its_handle_is_given_out(
    folder_store: DirectoryStore, folder_session: SessionInfo, steps: list[str]
) -> None:
    folder_store.outputs(folder_session)
    steps.clear()
    writer = folder_store.begin(folder_session, Origin())
    assert steps == ["fsync folder", "write", "fsync file", "name the record", "fsync folder"]
    steps.clear()
    writer.write(b"x" * 100)
    assert steps == ["write"]
    writer.write(b"x" * 9_000_000)
    assert steps == ["write", "fsync file"]
    steps.clear()
    writer.finish()
    assert steps == ["fsync file", "write", "fsync file", "name the record", "fsync folder"]


@requirement("store:running-record-first")
def test_a_running_output_is_synced_after_each_second_and_each_8_mib(
    folder_store: DirectoryStore, folder_session: SessionInfo, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(100.0)
    monkeypatch.setattr(live.time, "monotonic", clock)
    half = b"x" * (4 * 1024 * 1024)
    writer = folder_store.begin(folder_session, Origin())
    for _ in range(2):
        steps.clear()
        writer.write(half)
        writer.write(half[1:])
        assert "fsync file" not in steps
        writer.write(b"x")
        assert steps == ["write", "fsync file"]
    clock.now += 0.5
    writer.write(b"x")
    assert steps[-1] == "write"
    clock.now += 0.5
    writer.write(b"x")
    assert steps[-1] == "fsync file"
    clock.now += 0.5
    writer.write(b"x")
    assert steps[-1] == "write"
    writer.finish()


def test_many_threads_that_list_one_folder_at_once_each_see_all_of_it(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path / "home"))
    session = store.open_session("s")
    kept = {store.put(session, [b"%d" % number], Origin()).handle for number in range(60)}
    with ThreadPoolExecutor(8) as pool:
        looks = [pool.submit(store.outputs, session) for _ in range(64)]
    seen = [{facts.handle for facts in look.result()} for look in looks]
    assert all(handles == kept for handles in seen)
    store.close()


# ── Descriptors ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_store_that_is_closed_holds_nothing_open(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        session = store.open_session("s1")
        store.open_session("s1", retention=Retention(days=3))
        kept = [keep(store, session, text, terminal=True) for text in ("one", "one")]
        with closing(store.begin(session, Origin())) as writer:
            writer.write(b"so far")
            assert store.resolve(session, writer.handle).state == "running"
            store.open_named(session, writer.handle).close()
        assert store.resolve(session, writer.handle).state == "interrupted"
        store.watch(kept[0]).close()
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        store.remember(session, "ab" * 16, "cd" * 16, b"a note")
        assert len(store.notes(session)) == 1
        assert store.read_log(session, "events", 0, 5) == b'{"at"'
        with store.lease(session, "us"):
            assert store.is_leased(session.id)
            with pytest.raises(SessionLocked), store.lease(session, "others"):
                pytest.fail("two hold it")
        first, second = store.claim(session, "a name"), store.claim(session, "a name")
        assert first
        assert second is None
        first()
        assert list(folder_of(home, session).glob(".claim-*")) == []
        store.save_summaries([SavedSummary(session.id, "a stamp", {})])
        upkeep.sweep(store)
        assert len(list(upkeep.verify(store))) == 3
        store.remove(session, kept[:1])
        import_bundle(store, BytesIO(exported(store, session)).read, name="s2")
        assert held(home)
        del writer  # which has its folder for as long as it lives
    assert held(home) == []


def test_a_session_that_was_left_is_not_held_open(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        left, other = store.open_session("left"), store.open_session("other")
        store.leave_session(left)  # which nobody has used yet
        keep(store, other, "in use")
        keep(store, left, "in use", terminal=True)
        store.leave_session(left)
        assert [one for one in held(home) if left.id in one] == []
        keep(store, left, "again")
        keep(store, other, "in use")
        store.leave_session(left)
        assert [one for one in held(home) if "session-" in one] == [str(folder_of(home, other))]


def test_the_sixteen_sessions_that_were_used_last_are_not_opened_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    original = files.open

    def noted(name: str, *args: Any, **options: Any) -> int:
        opened.append(name)
        return original(name, *args, **options)

    with closing(DirectoryStore(str(home))) as store:
        sessions = [store.open_session(f"s{number}") for number in range(17)]
        for number in [*range(16), 0, 16]:
            store.append_events(sessions[number], b"{}\n")
        monkeypatch.setattr(files, "open", noted)
        for one in [sessions[0], *sessions[2:]]:
            store.append_events(one, b"{}\n")
        assert [name for name in opened if name.startswith("session-")] == []
        store.append_events(sessions[1], b"{}\n")
        assert [name for name in opened if name.startswith("session-")] == [f"session-{sessions[1].id}"]


@pytest.mark.parametrize("zeroth", ["home", "names", ".import-", ".txt"])
def test_in_a_process_without_standard_input_any_file_can_be_number_0(
    home: Path, zeroth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, taken, synced, closed = os.dup(0), list[str](), list[int](), list[int]()
    open_file, sync_file, close_file = files.open, files.fsync, files.close

    def opened(name: str, *args: Any, **options: Any) -> int:
        if not taken and zeroth in name.rpartition("/")[2]:
            taken.append(name)
            os.close(0)  # so that it is the next number
        return open_file(name, *args, **options)

    def and_synced(file: int) -> None:
        synced.append(file)
        sync_file(file)

    def noted(file: int) -> None:
        closed.append(file)
        close_file(file)

    monkeypatch.setattr(files, "fsync", and_synced)
    monkeypatch.setattr(files, "open", opened)
    monkeypatch.setattr(files, "close", noted)
    try:
        with closing(DirectoryStore(str(home))) as store:
            session = store.open_session("s1")
            writer = store.begin(session, Origin())
            writer.write(b"written")
            writer.flush()
            assert zeroth != ".txt" or synced[-1] == 0
            assert read_back(store, writer.finish()) == b"written"
            import_bundle(store, BytesIO(exported(store, session)).read, name="s2")
            assert {one.name for one in store.sessions()} == {"s1", "s2"}
            shutil.rmtree(home / "names")
            assert store.open_session("s1") == session
            store.open_session("s3")
            home.rename(home.with_name("another"))
            home.mkdir(mode=0o700)
            with pytest.raises(StoreGone, match="replaced by another one while in use"):
                store.outputs(session)
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert taken
    assert 0 in closed
    assert held(home) == []


@requirement("store:several-processes")
def test_a_store_of_many_sessions_holds_few_of_them_open_and_a_writer_keeps_its_own(home: Path) -> None:
    with closing(DirectoryStore(str(home))) as store:
        first = store.open_session("first")
        writer = store.begin(first, Origin(terminal=True))
        sessions = [store.open_session(f"s{number}") for number in range(60)]
        kept = [keep(store, one, one.name, terminal=True) for one in sessions]
        assert len([one for one in held(home) if one.startswith(f"{home}/session-")]) <= 2 * 18 + 1
        writer.write(b"still there\n")
        assert read_back(store, writer.finish()) == b"still there\n"
        assert [read_back(store, one) for one in kept] == [one.name.encode() for one in sessions]


def test_two_who_read_one_output_at_once_both_get_its_bytes(
    folder_store: DirectoryStore, folder_session: SessionInfo
) -> None:
    class Raced(OrderedDict[int, bytes]):
        """Another thread puts everything away between any two steps of this one."""

        def get(self, key: int, default: Any = None) -> Any:
            return self.pop(key, default)

        def __len__(self) -> int:
            return 10**6

        def popitem(self, last: bool = True) -> tuple[int, bytes]:
            self.clear()
            return super().popitem(last)

    facts = keep(folder_store, folder_session, "line\n" * 100_000)
    with closing(folder_store.open(facts)) as reader:
        assert isinstance(reader, FileReader)
        assert reader.read(0, 5) == b"line\n"
        reader._blocks = Raced(reader._blocks)  # pyright: ignore[reportPrivateUsage]
        assert [reader.read(at, at + 5) for at in (0, 200_000)] == [b"line\n"] * 2
