"""A bundle that is cut, damaged, or not what it says is refused whole: the reason is told, and the store is as before."""

import io
import json
import os
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdall.store import records as record
from holdall.store.bundle import restore, stream
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import Quota
from holdall.values.bundles import MAX_SESSIONS
from holdall.values.errors import BundleRefused, QuotaReached, StoreFull
from holdall.values.outputs import Facts, Measure
from holdall.values.spans import BlockTable
from tests.requirements import requirement
from tests.store.bundles import Forged, exported, filled, imported, packed, taken_apart, unpacked
from tests.store.support import keep, tree

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small session with a file, a twin, a tombstone, logs, a note, and a session below it."""
    with closing(DirectoryStore(str(tmp_path_factory.mktemp("made") / "home"))) as store:
        session = store.open_session("small")
        first = keep(store, session, "one\ntwo\n", tool="fetch", arguments={"q": 1}, call_id="c1")
        keep(store, session, "one\ntwo\n")
        keep(store, session, "x" * 70_000 + "\n", terminal=True)
        gone = keep(store, session, "gone")
        store.expire(session, [gone], "for a test")
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        store.append_transcript(session, b'{"role":"user","text":"hello"}\n')
        store.save_tree(session, b'{"op":"session","name":"small","at":0.0,"seconds":0.0}')
        store.remember(session, first.measure.sha256, "ab" * 16, b"{}")
        keep(store, store.open_session("small/below", parent=session.id), "below\n")
        return exported(store, session)


@pytest.fixture
def home() -> Iterator[Path]:
    """A store with something in it, in memory where there is such a place: these tests need not wait for a disk."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="holdall-") as folder:
        home = Path(folder) / "home"
        with closing(DirectoryStore(str(home))) as store:
            session = store.open_session("mine")
            keep(store, session, "of somebody who was here before")
            store.outputs(session)
        yield home


def refused(home: Path, data: bytes) -> str:
    """The reason. Every file of the store, and around it, is as it was."""
    before = tree(home.parent)
    with pytest.raises(BundleRefused) as caught:
        imported(home, data)
    assert tree(home.parent) == before
    why, _, then = str(caught.value).partition(". Nothing was restored: ")
    assert why, "what is wrong comes first"
    assert then.endswith("."), "then what to do"
    return str(caught.value)


@requirement("bundle:lying-refused")
def test_a_line_of_events_that_no_reader_would_read_is_refused(bundle: bytes, home: Path) -> None:
    """Lines are held in memory as they come, and every list of sessions reads them."""
    forged = taken_apart(bundle)
    forged.change("events.ndjson", lambda lines: lines + b"x" * (6 << 20) + b"\n")
    forged.contents["sessions"][0]["events_bytes"] += (6 << 20) + 1
    assert "has a line of more than 4,194,304 bytes, which no log has" in refused(home, forged.to_bytes())


@requirement("bundle:lying-refused")
def test_json_that_would_become_a_hundred_times_its_bytes_is_not_read(
    bundle: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_MOST_VALUES", 5000)
    many = json.dumps([{}] * 6000).encode()
    forged = taken_apart(bundle)
    forged.contents["more"] = json.loads(many)
    assert "it has more than 5,000 objects and lists" in refused(home, forged.to_bytes())
    forged = taken_apart(bundle)
    forged.change("tree.json", lambda tree: tree[:-1] + b',"more":' + many + b"}")
    forged.contents["sessions"][0]["tree_bytes"] += len(many) + len(b',"more":')
    assert "operation tree of this bundle cannot be read" in refused(home, forged.to_bytes())


@requirement("bundle:lying-refused")
def test_a_handle_that_is_no_text_is_refused(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    odd = b',"handle":[]}'
    forged.change("tree.json", lambda tree: tree[:-1] + odd)
    forged.contents["sessions"][0]["tree_bytes"] += len(odd) - 1
    assert "the operation tree of this bundle is not one" in refused(home, forged.to_bytes())
    forged = taken_apart(bundle)
    line = b'{"at":1.0,"event":"asked","handle":{"a":"b"}}\n'
    forged.change("events.ndjson", lambda events: events + line)
    forged.contents["sessions"][0]["events_bytes"] += len(line)
    assert "the events of this bundle is none of ours: its handle is no text" in refused(home, forged.to_bytes())


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
def test_cut_at_any_byte_it_is_refused(bundle: bytes, home: Path) -> None:
    ends = [*range(12), *range(len(bundle) - 130, len(bundle))]
    rest = range(12, len(bundle) - 130)
    ends += rest if FULL else random.Random(3).sample(rest, 150)
    for end in ends:
        reason = refused(home, bundle[:end])
        assert "cut short" in reason or "no bytes at all" in reason, (end, reason)
    imported(home, bundle)


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
def test_with_any_byte_changed_it_is_refused(bundle: bytes, home: Path) -> None:
    places = range(len(bundle)) if FULL else [*range(20), *random.Random(5).sample(range(20, len(bundle)), 250)]
    dice = random.Random(7)
    for place in places:
        changed = bytearray(bundle)
        changed[place] ^= 1 << dice.randrange(8)
        refused(home, bytes(changed))


@requirement("bundle:lying-refused")
def test_with_bytes_after_its_end_it_is_refused(bundle: bytes, home: Path) -> None:
    for more in (b"x", b"\0" * 1000, bundle):
        assert "does not match the hash at its end" in refused(home, bundle + more)
    twice = stream.compressor()
    inside = twice.compress(unpacked(bundle) + b"and more") + twice.flush()
    assert "after its end" in refused(home, inside)


def test_what_came_from_it_before_it_was_refused_is_gone_from_the_disk(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    forged.entries.append(("1/events.ndjson", b"not told of\n"))
    refused(home, forged.to_bytes())
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []


# Files of other tools


def _zip(names: list[str], data: bytes = b"x") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            about = zipfile.ZipInfo("placeholder")
            about.filename = name
            archive.writestr(about, data)
    return made.getvalue()


def _overlapping() -> bytes:
    """Two entries of the directory that lead to the same bytes."""
    made = bytearray(_zip(["a", "b"]))
    last = made.rfind(b"PK\x01\x02")
    made[last + 42 : last + 46] = bytes(4)
    return bytes(made)


def _tar(*members: tuple[str, bytes, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, kind, link in members:
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, link
            archive.addfile(about)
    return made.getvalue()


def _links() -> bytes:
    members: list[tuple[str, bytes, str]] = []
    path = ""
    for level in range(20):
        folder = chr(97 + level) * 200
        members += [(path + folder, tarfile.DIRTYPE, ""), (f"{path}{level}", tarfile.SYMTYPE, folder)]
        path += f"{level}/"
    return _tar(*members, (path + "out", tarfile.SYMTYPE, "../" * 20))


def _devices() -> bytes:
    return _tar(
        ("h", tarfile.LNKTYPE, "/etc/passwd"), ("c", tarfile.CHRTYPE, ""), ("b", tarfile.BLKTYPE, ""),
        ("f", tarfile.FIFOTYPE, ""),
    )  # fmt: skip


@requirement("bundle:lying-refused")
@pytest.mark.parametrize(
    ("made", "what"),
    [
        pytest.param(lambda: _zip(["../../etc/cron.d/x"]), "a ZIP archive", id="IMPORT-001"),
        pytest.param(_devices, "a tar archive", id="IMPORT-004"),
        pytest.param(_links, "a tar archive", id="IMPORT-005"),
        pytest.param(_overlapping, "a ZIP archive", id="IMPORT-007"),
        pytest.param(lambda: _zip(["n" * 60_000]), "a ZIP archive", id="IMPORT-008, a long name"),
        pytest.param(lambda: _zip([f"e{n}" for n in range(2000)], b""), "a ZIP archive", id="IMPORT-008, many entries"),
        pytest.param(lambda: _zip(["a", "a", "A", "é", "e\u0301"]), "a ZIP archive", id="IMPORT-009"),
        pytest.param(lambda: b"\x1f\x8b" + bytes(600), "a gzip file", id="gzip"),
        pytest.param(lambda: b"{}" * 400, "another kind of file", id="JSON"),
        pytest.param(lambda: b"\x28\xb5\x2f", "cut short", id="three bytes"),
        pytest.param(lambda: b"", "no bytes at all", id="nothing"),
        pytest.param(lambda: packed([b"some text\n" * 9]), "but no bundle of Holdall", id="zstd of something else"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_file_of_another_tool_is_refused_and_named(made: Callable[[], bytes], what: str, home: Path) -> None:
    assert what in refused(home, made())


# Bundles that lie, with a right hash everywhere

Lie = Callable[[Forged], object]
HOSTILE = [
    "0/../../etc/cron.d/x", "0//etc/passwd", "0/./a.txt", "0/terminal/../../x.log", "0/session.json", "0/.lock", "../x",
    "0/K3F9.record", "0/\u00e9.record", "0/e\u0301.record", "0/con", "0/names/x", "0/a b", "0/k3f9.record\0", "00/k3f9.record",
    "1000000/k3f9.record", f"0/{'n' * 65_536}", f"0/answers/{'a' * 64}-../../x", "0/index.sqlite", "-1/k3f9.record",
]  # fmt: skip


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: str(ascii(name[:30])))
def test_a_name_that_no_file_of_a_session_has_is_refused(name: str, bundle: bytes, home: Path) -> None:
    """IMPORT-001, IMPORT-008: no name in a bundle is ever a path."""
    forged = taken_apart(bundle)
    forged.entries.insert(0, (name, b"x"))
    reason = refused(home, forged.to_bytes())
    assert "which no session has" in reason or "not the line of an entry" in reason or "longer than any" in reason


def _twice(forged: Forged) -> None:
    at = forged.at(".record")
    forged.entries.insert(at, forged.entries[at])


def _facts(change: Callable[[Facts], Facts], at: int = 0) -> Lie:
    """Change the record at this place among the records; its own checksum is right again."""

    def lie(forged: Forged) -> None:
        places = [place for place, name in enumerate(forged.names()) if name.endswith(".record")]
        name, data = forged.entries[places[at]]
        handle = name.partition("/")[2].removesuffix(".record")
        facts, table = record.decode(data, handle=handle)
        forged.entries[places[at]] = (name, record.encode(change(facts), table))

    return lie


def _measure(**fields: Any) -> Lie:
    return _facts(lambda facts: replace(facts, measure=replace(facts.measure, **fields)))


def _origin(**fields: Any) -> Lie:
    return _facts(lambda facts: replace(facts, origin=replace(facts.origin, **fields)))


def _field(**fields: Any) -> Lie:
    return _facts(lambda facts: replace(facts, **fields))


def _told(session: int = 0, **fields: Any) -> Lie:
    return lambda forged: forged.contents["sessions"][session].update(fields)


def _table(forged: Forged) -> None:
    at = forged.at(".record")
    name, data = forged.entries[at]
    facts, table = record.decode(data, handle=name.partition("/")[2].removesuffix(".record"))
    lines = BlockTable(table.newlines[:], table.chars, table.checksums)
    lines.newlines[0] += 1
    forged.entries[at] = (name, record.encode(facts, lines))


def _without(name: str) -> Lie:
    return lambda forged: forged.entries.pop(forged.at(name))


def _moved(name: str) -> Lie:
    return lambda forged: forged.entries.insert(0, forged.entries.pop(forged.at(name)))


def _bare(forged: Forged) -> None:
    """Bytes that no record names."""
    forged.entries.insert(0, ("0/00000000-0000-4000-8000-000000000000.txt", b"free"))
    _told(files=3, stored_bytes=forged.contents["sessions"][0]["stored_bytes"] + 4)(forged)


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def _tree(data: bytes) -> Lie:
    def lie(forged: Forged) -> None:
        forged.change("tree.json", lambda _: data)
        _told(tree_bytes=len(data))(forged)

    return lie


LIES: dict[str, tuple[Lie, str]] = {
    "bytes that are others": (lambda forged: forged.change(".txt", lambda data: b"ONE\nTWO\n"), "another hash"),
    "bytes that are longer": (lambda forged: forged.change(".txt", lambda data: data + b"!"), "another hash"),
    "bytes that are shorter": (lambda forged: forged.change(".txt", lambda data: data[:-1]), "another hash"),
    "a hash of other bytes": (_measure(sha256="0" * 64), "another hash"),
    "a hash that is none": (_measure(sha256="../x"), "another type"),
    "a number of lines": (_measure(lines=7), "another number of lines"),
    "a number of chars": (_measure(chars=9), "another number of chars"),
    "a longest line": (_measure(longest_line=2**40), "another number of longest_line"),
    "more tokens than bytes": (_measure(tokens=9), "more tokens than bytes"),
    "a negative number": (_measure(tokens=-1), "another type"),
    "a number that is a text": (_measure(bytes="8"), "another type"),
    "a long text": (_origin(call_id="x" * 200_000), "longer than any that we write"),
    "a long traceback": (_origin(traceback="x" * 200_000), "longer than any that we write"),
    "long notes": (_measure(notes=("x" * 200_000,)), "longer than any that we write"),
    "many notes": (_measure(notes=("",) * 1000), "longer than any that we write"),
    "many surrogates": (_measure(surrogates="x" * 2_000_000), "longer than any that we write"),
    "a number without end": (_field(created=float("inf")), "another type"),
    "a time beyond every calendar": (_field(created=4e18), "another type"),
    "a time that is none": (_field(created=float("nan")), "another type"),
    "a flag that is a number": (_origin(terminal=1), "another type"),
    "a tool that is an object": (_origin(tool={"a": 1}), "another type"),
    "an error that is a list": (_field(error=["x"]), "another type"),
    "arguments too deep": (_origin(arguments=_deep(300)), "nested more than 200 levels"),
    "arguments far too deep": (
        lambda forged: forged.change(".record", _deep_record), "record"
    ),
    "an output that still runs": (_field(state="running"), "still being written"),
    "a state that is none": (_field(state="fine"), "cannot be read"),
    "an id that is none": (_field(id="../../x"), "another session"),
    "an id that is a number": (_field(id=7), "of another type"),
    "a session that is another": (_field(session="00000000-0000-4000-8000-000000000000"), "another session"),
    "a file that is another": (_field(file="00000000-0000-4000-8000-000000000000.txt"), "its own bytes"),
    "a file elsewhere": (_field(file="../../etc/passwd"), "its own bytes"),
    "a tombstone with a file": (_field(state="expired"), "its bytes are missing"),
    "a handle that is another": (_field(handle="zzzz"), "that of another output"),
    "a block table that lies": (_table, "block table"),
    "a record that is none": (lambda forged: forged.change(".record", lambda _: b"garbage"), "not a record"),
    "a record of a newer version": (
        lambda forged: forged.change(".record", lambda data: data.replace(b"record 2", b"record 3", 1)), "format 3"
    ),
    "a record before its bytes": (_moved(".record"), "its bytes are missing"),
    "a record that is missing": (_without(".record"), "outputs in the session"),
    "bytes that are missing": (_without(".txt"), "its bytes are missing"),
    "bytes without a record": (_bare, "no record that names them"),
    "the same name twice": (_twice, "twice"),
    "two outputs with one id": (
        lambda forged: _facts(lambda facts: replace(facts, id=_id_of(forged, 1)))(forged), "the same id"
    ),
    "a log in the wrong place": (_moved("0/transcript.ndjson"), "wrong place"),
    "masks before the tree": (
        lambda forged: forged.entries.insert(forged.at("tree.json"), ("0/masks.ndjson", b"{}\n")), "wrong place"
    ),
    "a log that is missing": (_without("0/transcript.ndjson"), "transcript bytes"),
    "a log that is longer": (
        lambda forged: forged.change("0/events.ndjson", lambda data: data * 2), "more than it says"
    ),
    "half a line": (lambda forged: forged.change("0/events.ndjson", lambda data: data[:-1] + b"x"), "middle of a line"),
    "an entry in no session": (lambda forged: forged.entries.append(("2/events.ndjson", b"x\n")), "outside of"),
    "a session that comes again": (
        lambda forged: forged.entries.append(("0/masks.ndjson", b"{}\n")), "outside of its session"
    ),
    "a tree that is none": (_tree(b"[]"), "operation tree"),
    "a tree of text": (_tree(b"hello"), "operation tree"),
    "a tree with bad children": (_tree(b'{"op":"session","name":"x","children":[1]}'), "operation tree"),
    "a tree far too deep": (_tree(b'{"op":"s","name":"x","children":[' * 300 + b"]}" * 300), "operation tree"),
    "a tree of 100,000 levels": (_tree(b"[" * 100_000 + b"]" * 100_000), "operation tree"),
    "more outputs than told": (_told(outputs=1), "more than it says"),
    "fewer outputs than told": (_told(outputs=9), "outputs in the session"),
    "fewer bytes than told": (_told(bytes=10**9), "bytes in the session"),
    "an end that counts wrong": (lambda forged: setattr(forged, "tail", b"end 3\n"), "where an entry should begin"),
    "no end": (lambda forged: setattr(forged, "tail", b""), "ends before its last entry"),
}  # fmt: skip


def _deep_record(data: bytes) -> bytes:
    """Arguments of 100,000 levels, as no program of ours could write them."""
    first, _, body = data.partition(b"\n")
    line, _, rest = body.partition(b"\n")
    line = line.replace(b'"arguments":{"q":1}', b'"arguments":' + b"[" * 100_000 + b"]" * 100_000)
    body = line + b"\n" + rest
    return b" ".join(first.split(b" ")[:-1]) + b" %016x\n" % record.checksum(body) + body


def _id_of(forged: Forged, at: int) -> str:
    places = [place for place, name in enumerate(forged.names()) if name.endswith(".record")]
    name, data = forged.entries[places[at]]
    return record.decode(data, handle=name.partition("/")[2].removesuffix(".record"))[0].id


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
@pytest.mark.parametrize("what", LIES)
def test_a_bundle_that_lies_is_refused_with_the_reason(what: str, bundle: bytes, home: Path) -> None:
    lie, reason = LIES[what]
    forged = taken_apart(bundle)
    lie(forged)
    assert reason in refused(home, forged.to_bytes())


def test_of_long_arguments_in_a_record_the_beginning_is_kept(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    _origin(arguments={"a": "x" * 1_000_000})(forged)
    imported(home, forged.to_bytes())
    with closing(DirectoryStore(str(home))) as store:
        known = [one.origin.arguments for session in store.sessions() for one in store.outputs(session)]
    (text,) = [one for one in known if isinstance(one, str)]
    assert len(text) < 20_000
    assert "the beginning of 1,000,0" in text


def test_the_texts_of_all_records_have_a_bound_together(
    bundle: bytes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "_LONGEST_TOGETHER", 10_000)
    forged = taken_apart(bundle)
    _origin(traceback="x" * 20_000)(forged)
    assert "the records of this bundle hold more text than ours would" in refused(home, forged.to_bytes())


def test_a_bundle_that_was_only_taken_apart_and_put_together_is_taken(bundle: bytes, home: Path) -> None:
    """Otherwise the lies above might be refused for what the forger does."""
    imported(home, taken_apart(bundle).to_bytes())


# The list of contents


@requirement("bundle:lying-refused")
@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"holdall bundle 3\n", "has the format 3, and this version of Holdall reads 1 and 2"),
        (b"holdall bundle 1\n", "not those of its version"),
        (b"holdall bundle 999\n", "has the format 999"),
        (b"holdall bundle 0\n", "has the format 0"),
        (b"holdall bundle one\n", "no bundle of Holdall"),
        (b"holdall bundle\n", "no bundle of Holdall"),
        (b"x" * 399 + b"\n", "no bundle of Holdall"),
        (b"x" * 400 + b"\n", "longer than any"),
    ],
)
def test_another_version_is_named(head: bytes, reason: str, bundle: bytes, home: Path) -> None:
    """IMPORT-012."""
    forged = taken_apart(bundle)
    forged.head = head
    assert reason in refused(home, forged.to_bytes())


CONTENTS: dict[str, tuple[object, str]] = {
    "nothing": (b"", "cannot be read as JSON"),
    "another JSON": ({"version": 999}, "other fields"),
    "a text": ("one", "not an object"),
    "100,000 levels": (b"[" * 100_000 + b"]" * 100_000, "cannot be read as JSON"),
    "no session": ({"redacted": False, "sessions": []}, "1 to 10,000 sessions"),
    "too many sessions": ({"redacted": False, "sessions": [{}] * (MAX_SESSIONS + 1)}, "1 to 10,000 sessions"),
    "sessions that are none": ({"redacted": False, "sessions": [1]}, "not an object"),
    "34 MB": (b" " * 34_000_000, "longer than any"),
}


@requirement("bundle:lying-refused")
@pytest.mark.parametrize("what", CONTENTS)
def test_a_list_of_contents_that_is_none_is_refused(what: str, bundle: bytes, home: Path) -> None:
    """IMPORT-012."""
    forged = taken_apart(bundle)
    forged.contents, reason = CONTENTS[what]
    assert reason in refused(home, forged.to_bytes())


@requirement("bundle:lying-refused")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "../../x"}, "id of a session"),
        ({"id": 7}, "id of a session"),
        ({"name": 7}, "not a text"),
        ({"name": ""}, "cannot be the name"),
        ({"name": "a\nb"}, "cannot be the name"),
        ({"name": "\u202egnp"}, "cannot be the name"),
        ({"name": "small/below"}, "the same id or name"),
        ({"created": "now"}, "is not one"),
        ({"created": True}, "is not one"),
        ({"parent": 1}, "before its parent"),
        ({"outputs": -1}, "not a count"),
        ({"outputs": True}, "not a count"),
        ({"bytes": 2**70}, "not a count"),
        ({"bytes": "8"}, "not a count"),
        ({"notes": 10**9}, "1,000,000,"),
        ({"more": 1}, "other fields"),
    ],
    ids=str,
)
def test_a_session_of_the_list_that_cannot_be_is_refused(
    fields: dict[str, Any], reason: str, bundle: bytes, home: Path
) -> None:
    forged = taken_apart(bundle)
    forged.contents["sessions"][0].update(fields)
    assert reason in refused(home, forged.to_bytes())


def test_a_list_with_a_number_without_end_is_refused(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    for value in ("1e999", "NaN", "-Infinity", "1" * 5000):
        text = json.dumps(forged.contents).replace(str(forged.contents["sessions"][0]["created"]), value)
        again = Forged(text.encode(), forged.entries)
        assert "list of contents" in refused(home, again.to_bytes())


# Bombs


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
def test_more_than_there_is_room_for_is_refused_before_anything_is_unpacked(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    _told(bytes=2**60, stored_bytes=2**60)(forged)
    before = tree(home.parent)
    with pytest.raises(StoreFull, match=r"this bundle unpacks to 1152921\.5 TB, and .* are free"):
        imported(home, forged.to_bytes())
    assert tree(home.parent) == before


@requirement("bundle:lying-refused", "bundle:all-or-nothing")
def test_what_unpacks_to_more_than_it_says_is_refused_where_that_begins(bundle: bytes, home: Path) -> None:
    """A gigabyte of zeros in a few kilobytes: nothing of it is unpacked."""
    forged = taken_apart(bundle)
    plain = unpacked(forged.to_bytes())
    at = plain.index(b"entry ")
    compressor = stream.compressor()
    parts = [compressor.compress(plain[:at] + b"entry 0/00000000-0000-4000-8000-000000000000.txt 1073741824\n")]
    parts += [compressor.compress(bytes(1 << 20)) for _ in range(1024)]
    bomb = b"".join([*parts, compressor.flush()])
    assert len(bomb) < 200_000
    assert "more than it says" in refused(home, bomb)


def test_a_frame_that_asks_for_much_memory_is_refused(home: Path) -> None:
    names = stream.zstd.CompressionParameter
    compressor = stream.zstd.ZstdCompressor(options={names.window_log: 27})
    frame = compressor.compress(b"holdall bundle 1\n" + bytes(1 << 20)) + compressor.flush()
    assert "cannot be unpacked" in refused(home, frame)


def test_an_empty_measure_is_no_key_to_the_store(bundle: bytes, home: Path) -> None:
    """A record that says nothing of its bytes proves nothing."""
    forged = taken_apart(bundle)
    _facts(lambda facts: replace(facts, measure=Measure()))(forged)
    assert "another" in refused(home, forged.to_bytes())


@requirement("bundle:all-or-nothing")
def test_a_refused_bundle_leaves_no_trace_in_a_store_that_was_filled(home: Path, tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path / "made"))) as store:
        large = exported(store, filled(store))
    forged = taken_apart(large)
    forged.change("2/events.ndjson", lambda data: data + b"\n")
    assert "more than it says" in refused(home, forged.to_bytes())


# What is not told beforehand counts as well.


@requirement("bundle:every-byte-counts", "bundle:all-or-nothing")
@pytest.mark.parametrize("where", ["arguments", "masks", "events", "transcript", "note"])
@pytest.mark.parametrize("quota", [Quota(session_bytes=500_000), Quota(store_bytes=500_000)], ids=["session", "store"])
def test_every_byte_counts_against_the_quota(where: str, quota: Quota, bundle: bytes, home: Path) -> None:
    forged, much = taken_apart(bundle), b'{"a":"' + b"x" * 600_000 + b'"}\n'
    match where:
        case "arguments":
            large = {"text": "x" * 600_000}
            _facts(lambda facts: replace(facts, origin=replace(facts.origin, arguments=large)))(forged)
        case "masks":
            forged.entries.insert(forged.at("tree.json") + 1, ("0/masks.ndjson", much))
        case "note":
            name = forged.names()[forged.at("-" + "ab" * 16)]
            forged.change(name, lambda data: much)
            forged.contents["sessions"][0]["note_bytes"] = len(much)
        case log:
            forged.change(f"0/{log}.ndjson", lambda data: much)
            forged.contents["sessions"][0][f"{log}_bytes"] = len(much)
    before = tree(home.parent)
    with pytest.raises(QuotaReached, match=r"500\.0 kB .* a bundle with"):
        imported(home, forged.to_bytes(), quota=quota)
    assert tree(home.parent) == before


def _bomb(bundle: bytes, megabytes: int) -> bytes:
    """One whose masks unpack to as much."""
    forged = taken_apart(bundle)
    forged.entries.insert(forged.at("tree.json") + 1, ("0/masks.ndjson", b"\n" * megabytes * 2**20))
    return forged.to_bytes()


@requirement("bundle:ratio")
def test_what_unpacks_to_200_times_its_size_is_refused_unless_that_is_allowed(bundle: bytes, home: Path) -> None:
    bomb = _bomb(bundle, 17)
    before = tree(home.parent)
    with pytest.raises(BundleRefused, match=r"1[78]\.\d MB or more, over 200 times its [\d.]+ kB\. .* max_ratio"):
        imported(home, bomb, packed=len(bomb))
    with pytest.raises(
        BundleRefused, match=r"1[67]\.\d MB or more, over 200 times its [\d.]+ kB read so far\. .* max_ratio"
    ):
        imported(home, bomb, packed=None)  # a stream
    assert tree(home.parent) == before
    imported(home, bomb, packed=len(bomb), max_ratio=100_000)


@requirement("bundle:ratio")
def test_notes_of_two_bytes_count_as_the_blocks_of_the_disk_that_they_take(bundle: bytes, home: Path) -> None:
    forged = taken_apart(bundle)
    notes = [(f"0/answers/{number:032x}-{number:032x}", b"{}") for number in range(20_000)]
    place = forged.at("0/transcript.ndjson")
    forged.entries[place:place] = notes
    forged.contents["sessions"][0]["notes"] = forged.contents["sessions"][0].get("notes", 0) + len(notes)
    forged.contents["sessions"][0]["note_bytes"] = forged.contents["sessions"][0].get("note_bytes", 0) + 2 * len(notes)
    data = forged.to_bytes()
    for of_file in (len(data), None):
        with pytest.raises(BundleRefused, match=r"MB or more, over 200 times its"):
            imported(home, data, packed=of_file)


@requirement("bundle:ratio")
def test_a_stream_is_compared_with_what_was_read_of_it_and_not_with_its_beginning(home: Path) -> None:
    """A log of 17 MB packs to a sixth: of a stream, nobody has read that much when the log is announced."""
    log = b"".join(b"line %d value %d user-%d\n" % (n, n * 7919 % 100_003, n % 97) for n in range(650_000))
    with closing(DirectoryStore(str(home.parent / "other"))) as store:
        session = store.open_session("large")
        keep(store, session, log)
        bundle = exported(store, session)
    assert len(log) > 17 * 10**6 > 3 * len(bundle)
    imported(home, bundle, packed=None)


@requirement("bundle:ratio")
def test_what_is_told_to_unpack_to_200_times_its_size_is_refused_before_anything_is_read(
    bundle: bytes, home: Path
) -> None:
    forged = taken_apart(bundle)
    _told(events_bytes=2**25)(forged)
    data = forged.to_bytes()
    with pytest.raises(BundleRefused, match=r"33\.\d MB or more, over 200 times"):
        imported(home, data, packed=len(data))


@requirement("bundle:every-byte-counts")
def test_sessions_in_which_there_is_nothing_count_too(home: Path) -> None:
    with closing(DirectoryStore(str(home.parent / "other"))) as store:
        session = store.open_session("many")
        for number in range(40):
            store.open_session(f"many/{number}", parent=session.id)
        bundle = exported(store, session)
    with pytest.raises(QuotaReached, match="quota"):
        imported(home, bundle, quota=Quota(store_bytes=100_000))
    imported(home, bundle, quota=Quota(store_bytes=1_000_000))
