"""What a bundle may say and hold, up to the last byte of each bound; and what its sessions are called and told here."""

import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdall.store import records
from holdall.store.bundle import restore
from holdall.store.bundle.restore import (
    Account,
    check_against,
    check_tombstone,
    checked_tree,
    depth,
    facts_in,
    import_bundle,
    names_for,
)
from holdall.store.bundle.stream import Entry
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputStore, Quota
from holdall.values.bundles import Bundle, BundledSession
from holdall.values.errors import BundleRefused, QuotaReached, StoreFull, UsageError
from holdall.values.outputs import Facts, Measure, Origin
from holdall.values.spans import BlockTable
from tests.store.bundles import LARGE, exported, filled, taken_apart
from tests.store.support import keep

SESSION = "11111111-1111-4111-8111-111111111111"
FACTS = Facts(
    "k3f9", "22222222-2222-4222-8222-222222222222", SESSION, 1.0, Origin(tool="fetch"),
    Measure(bytes=8, chars=8, lines=2, tokens=4, sha256="ab" * 32), file="a.txt",
)  # fmt: skip


def taken(facts: Facts) -> Facts:
    """As it is after the way through a record of a bundle."""
    data = records.encode(facts, BlockTable())
    return facts_in(data, Entry(0, "record", "k3f9.record", len(data)), SESSION)[0]


def _origin(**fields: Any) -> Facts:
    return replace(FACTS, origin=replace(FACTS.origin, **fields))


def _measure(**fields: Any) -> Facts:
    return replace(FACTS, measure=replace(FACTS.measure, **fields))


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


_LAST_TIME = float(1 << 37)
BOUNDS: dict[str, tuple[Callable[[Any], Facts], Any, Any]] = {  # how it is made, the last that is taken, one over it
    "a text": (lambda size: _origin(call_id="x" * size), 8192, 8193),
    "an error": (lambda size: replace(FACTS, error="x" * size), 8192, 8193),
    "a tokenizer": (lambda size: _measure(tokenizer="x" * size), 8192, 8193),
    "a traceback": (lambda size: _origin(traceback="x" * size), 70_000, 70_001),
    "notes": (lambda number: _measure(notes=("",) * number), 100, 101),
    "text of notes": (lambda size: _measure(notes=("x", "x" * size)), 4 * 8192 - 1, 4 * 8192),
    "surrogates": (lambda size: _measure(surrogates="x" * size), 1032, 1033),
    "levels of arguments": (lambda levels: _origin(arguments=_deep(levels)), 200, 201),
    "a count": (lambda number: _measure(tokens=number), (1 << 62) - 1, 1 << 62),
    "a count above nothing": (lambda number: _measure(tokens=number), 0, -1),
    "a time": (lambda moment: replace(FACTS, created=moment), _LAST_TIME - 1, _LAST_TIME),
    "a time long ago": (lambda moment: replace(FACTS, created=moment), 1 - _LAST_TIME, -_LAST_TIME),
    "an end": (lambda moment: replace(FACTS, ended=moment), _LAST_TIME - 1, _LAST_TIME),
    "a status": (lambda code: replace(FACTS, state="failed", exit_code=code), (1 << 62) - 1, 1 << 62),
    "a status below nothing": (lambda code: replace(FACTS, state="failed", exit_code=code), 1 - (1 << 62), -(1 << 62)),
    "a hash": (lambda digest: _measure(sha256=digest), "", "ab"),
    "a session": (lambda session: replace(FACTS, session=session), SESSION, SESSION.replace("1", "2")),
    "a state": (lambda state: replace(FACTS, state=state), "interrupted", "queued"),
    "a flag of the origin": (lambda flag: _origin(is_error=flag), True, 1),
    "a flag of the measure": (lambda flag: _measure(tokens_exact=flag), True, 1),
}


def _without_arguments(facts: Facts) -> Facts:
    """Of those there may be the beginning."""
    return replace(facts, origin=replace(facts.origin, arguments=None))


@pytest.mark.parametrize("what", BOUNDS)
def test_a_record_is_taken_up_to_its_bounds_and_refused_beyond(what: str) -> None:
    make, last, over = BOUNDS[what]
    assert _without_arguments(taken(make(last))) == _without_arguments(make(last))
    with pytest.raises(BundleRefused, match="the record k3f9 of this bundle is refused"):
        taken(make(over))


def test_no_process_of_another_machine_comes_with_a_record() -> None:
    assert taken(_origin(process=7, process_mark="boot-1")) == FACTS


def test_depth_counts_levels_and_not_texts() -> None:
    values: list[Any] = [1, "abc", b"abc", [1], {"a": {"b": 1}}, [[], {"a": [1]}]]
    assert [depth(value) for value in values] == [0, 0, 0, 1, 2, 3]
    assert depth(_deep(100_000)) > 200


def test_a_record_says_what_its_bytes_measure() -> None:
    table = BlockTable()

    def check(facts: Facts, file: str = "a.txt", found: BlockTable = table) -> None:
        check_against(facts, table, file, FACTS.measure, found)

    check(FACTS)
    check(_measure(tokens=8, kind="log", tokenizer="another"))
    other = BlockTable()
    other.newlines.append(1)
    for wrong in (
        lambda: check(FACTS, "b.txt"),
        lambda: check(replace(FACTS, state="expired")),
        lambda: check(_measure(tokens=9)),
        lambda: check(_measure(utf8=not FACTS.measure.utf8)),
        lambda: check(FACTS, found=other),
    ):
        with pytest.raises(BundleRefused, match="the record k3f9"):
            wrong()


def test_a_tombstone_has_no_bytes() -> None:
    gone = replace(FACTS, state="expired", file="")
    check_tombstone(gone, BlockTable())
    table = BlockTable()
    table.newlines.append(0)
    table.chars.append(0)
    table.checksums.append(0)
    for facts, found in ((FACTS, BlockTable()), (replace(gone, file="a.txt"), BlockTable()), (gone, table)):
        with pytest.raises(BundleRefused, match="its bytes are missing"):
            check_tombstone(facts, found)


def _tree(levels: int, **fields: Any) -> bytes:
    node: dict[str, Any] = {"op": "turn", "name": "x", **fields}
    for _ in range(levels):
        node = {"op": "turn", "name": "x", "children": [node]}
    return json.dumps(node).encode()


def test_an_operation_tree_is_taken_as_it_is_or_refused() -> None:
    for good in (_tree(0), _tree(200), _tree(1, at=1, seconds=2.5)):
        assert checked_tree(good) == good
    assert checked_tree(_tree(2, verified=0)) == _tree(2)
    wrong: list[dict[str, Any]] = [
        {"at": "now"},
        {"seconds": None},
        {"op": 1},
        {"name": 1},
        {"children": {}},
        {"children": [1]},
    ]
    for bad in (_tree(201), b"[]", b"", *(_tree(1, **fields) for fields in wrong)):
        with pytest.raises(BundleRefused, match="the operation tree of this bundle"):
            checked_tree(bad)


# What it takes


class _Home(SimpleNamespace):
    """As much of a store as an account asks."""

    home = "/home"

    def used_bytes(self) -> int:
        return 1000

    def free_bytes(self) -> int | None:
        return self.free


MB = 1 << 20


def account(
    *sessions: int, free: int | None = None, packed: int | None = None, max_ratio: float = 200, **quota: int
) -> Account:
    """Of sessions that are told to have so many bytes."""
    told = Bundle(tuple(BundledSession(SESSION, "s", 0.0, stored_bytes=number) for number in sessions))
    store = cast("OutputStore", _Home(free=free))
    return Account(told, store, Quota(**quota), packed=packed, max_ratio=max_ratio)


SESSIONS = 3 * 4096  # bytes that each of them takes


def test_what_is_told_fits_into_the_quotas_to_the_last_byte() -> None:
    account(500, 700, session_bytes=700)
    account(500, 700, store_bytes=1000 + 1200 + 2 * SESSIONS)
    with pytest.raises(QuotaReached, match="session"):
        account(500, 700, session_bytes=699)
    with pytest.raises(QuotaReached, match="store"):
        account(500, 700, store_bytes=1000 + 1200 + 2 * SESSIONS - 1)


def test_what_is_told_leaves_room_on_the_disk_to_the_last_byte() -> None:
    needed = 500 + SESSIONS + 4 * 4096 + 16 * MB  # its files, and as much as any bundle may unpack to
    account(500, free=needed)
    with pytest.raises(StoreFull, match=r"this bundle unpacks to 12\.8 kB, and .* are free for /home"):
        account(500, free=needed - 1)


def test_so_small_a_file_holds_so_much_to_the_last_byte() -> None:
    taken = SESSIONS + 4 * 4096  # its files
    account(16 * MB - taken, packed=1)
    account(20 * MB - taken, packed=2 * MB, max_ratio=10)
    for told, packed in ((16 * MB, 1), (20 * MB, 2 * MB)):
        with pytest.raises(BundleRefused, match="or more, over 10 times its"):
            account(told - taken + 1, packed=packed, max_ratio=10)


def test_what_comes_counts_as_what_is_told() -> None:
    def entry(session: int, length: int) -> Entry:
        return Entry(session, "events", "events.ndjson", length)

    one = account(0, 0, session_bytes=100, store_bytes=1000 + 150 + 2 * SESSIONS)
    one.add(entry(0, 60))
    one.add(entry(0, 40))
    with pytest.raises(QuotaReached, match="session"):
        one.add(entry(0, 1))
    other = account(0, 0, session_bytes=100, store_bytes=1000 + 150 + 2 * SESSIONS)
    other.add(entry(0, 100))
    other.add(entry(1, 50))
    with pytest.raises(QuotaReached, match="store"):
        other.add(entry(1, 1))
    packed = account(0, packed=2 * MB, max_ratio=10)
    packed.add(entry(0, 20 * MB - SESSIONS - 4096))  # a file takes a block
    with pytest.raises(BundleRefused, match="over 10 times"):
        packed.add(entry(0, 1))
    stream = account(0, packed=None, max_ratio=10)
    stream.add(entry(0, 20 * MB))
    stream.unpacked(20 * MB - SESSIONS - 4096, 2 * MB)  # of which as much was read
    with pytest.raises(BundleRefused, match="over 10 times"):
        stream.unpacked(SESSIONS, 2 * MB)


# Names


@pytest.mark.parametrize(
    ("names", "name", "below", "found"),
    [
        (["a", "a/b", "c"], None, False, ["a", "a/b", "c"]),
        (["a", "a/b", "c", "ab"], None, True, ["a", "a/b", "a/c", "a/ab"]),
        (["a", "a/b", "c", "ab"], "n", False, ["n", "n/b", "n/c", "n/ab"]),
        (["a", "a/b", "b"], None, True, ["a", "a/b", "a/b-2"]),
    ],
)
def test_sessions_below_the_first_are_named_after_it(
    names: list[str], name: str | None, below: bool, found: list[str]
) -> None:
    bundle = Bundle(tuple(BundledSession(SESSION, one, 0.0) for one in names))
    assert names_for(bundle, name, below=below) == found


def test_names_that_would_be_the_same_are_refused() -> None:
    bundle = Bundle(tuple(BundledSession(SESSION, one, 0.0) for one in ("a", "a/b", "b")))
    with pytest.raises(UsageError, match='two sessions of the bundle would have the same name under "n"'):
        names_for(bundle, "n")


# On the way


def test_the_way_in_is_told_by_bytes_of_outputs_over_all_sessions(tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path / "a"))) as store:
        data = exported(store, filled(store))
    told: list[int] = []
    listed: list[Bundle] = []
    with closing(DirectoryStore(str(tmp_path / "b"))) as store:
        done = import_bundle(store, io.BytesIO(data).read, progress=told.append, listed=listed.append)
    assert listed == [done.bundle]
    assert told == sorted(told)
    assert told[-1] == done.bundle.stored_bytes > len(LARGE)
    assert [info[:8] for info in done.ids] == [one.id[:8] for one in done.bundle.sessions]


def test_a_session_remembers_its_last_sixteen_ids(tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path))) as store:
        keep(store, store.open_session("first"), "x")
        name = "first"
        for number in range(18):
            session = store.find_session(name)
            assert session is not None
            name = f"copy-{number}"
            import_bundle(store, io.BytesIO(exported(store, session)).read, name=name)
        last = store.find_session(name)
        ids = [one.id for one in (store.find_session(f"copy-{number}") for number in range(1, 17)) if one]
        assert last is not None
        assert list(last.was) == ids


@pytest.mark.parametrize(
    ("log", "most"), [("events", "_LONGEST_EVENT"), ("transcript", "LONGEST_LINE"), ("masks", "LONGEST_LINE")]
)
def test_a_line_of_a_log_has_a_bound(log: str, most: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore if most == "_LONGEST_EVENT" else records, most, 1000)
    with closing(DirectoryStore(str(tmp_path / "a"))) as store:
        session = store.open_session("s1")
        store.append_events(session, b'{"at":1.0,"event":"turn"}\n')
        forged = taken_apart(exported(store, session))
    for size, told in ((1000, "ends in the middle of a line"), (1001, "has a line of more than 1,000 bytes")):
        before = b'{"at":1.0}\n' if log == "events" else b""
        forged.entries = [(f"0/{log}.ndjson", before + b"x" * size)]
        forged.contents["sessions"][0].update(events_bytes=0, transcript_bytes=0)
        if log != "masks":
            forged.contents["sessions"][0][f"{log}_bytes"] = len(forged.entries[0][1])
        with closing(DirectoryStore(str(tmp_path / "b"))) as store, pytest.raises(BundleRefused, match=told):
            import_bundle(store, io.BytesIO(forged.to_bytes()).read)
