"""Totals, quotas, what is over and proof of every byte: by listings and blocks, without a store on disk."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from holdall.store.memory import MemoryStore
from holdall.store.protocol import BadLine, Log, LogLines, Quota, SessionInfo, Stats, Verdict
from holdall.store.totals import (
    Rooms,
    bad_lines,
    in_time,
    is_over,
    prove,
    room_for,
    stats_of,
    taken,
    used_bytes_of,
    would_free,
)
from holdall.values.errors import REMOVED, OutputDamaged, QuotaReached
from holdall.values.outputs import Facts, Measure, Origin
from holdall.values.retention import DAY, Retention
from holdall.values.spans import BLOCK
from tests.store.support import Clock, keep
from tests.support import reader_of

SESSION = SessionInfo("s", "name", 0.0, Retention(days=1))


def facts(handle: str, size: int, *, file: str = "", state: str = "ready", error: str = "", tool: str = "") -> Facts:
    measure = Measure(bytes=size, lines=2, tokens=3, kind="json")
    return Facts(handle, "id", "s", 1.0, Origin(tool=tool), measure, state, 2.0, file, error)  # type: ignore[arg-type]


def test_totals_are_of_what_is_there_and_of_what_is_not_only_the_number(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    session = store.open_session("s")
    writer = store.begin(session, Origin(tool="run"))
    writer.write(b"1\n2\n3\n")
    writer.flush()
    running = store.resolve(session, writer.handle)
    here = [
        facts("a", 10, file="one", tool="fetch"),
        facts("b", 10, file="one"),
        facts("c", 5),
        facts("d", 7),
        facts("e", 99, file="two", state="expired", error=REMOVED),
        facts("f", 99, file="two", state="expired", error="kept for 1 day"),
        facts("g", 99, state="expired", error="kept for 1 day"),
        running,
    ]
    gone = replace(running, handle="zzzz")  # what cannot be opened counts as far as it is known
    assert stats_of(store, [here, [gone]]) == Stats(
        sessions=2, outputs=6, expired=2, removed=1, bytes=38, stored_bytes=28 + 99, due_bytes=99, lines=11,
        tokens=12,
        by_kind=Counter(json=4, running=2), by_tool=Counter({"fetch": 1, "(none)": 3, "run": 2}),
        by_state=Counter(ready=4, removed=1, expired=2, running=2),
    )  # fmt: skip
    writer.finish()


class Logged:
    """A log with so many bad lines, in pieces of three."""

    def __init__(self, bad: int) -> None:
        self._bad = [BadLine(number, 10 * number, f"why {number}") for number in range(1, bad + 1)]

    def log_lines(self, session: SessionInfo, log: Log, at: int = 0) -> Iterator[LogLines]:
        for start in range(0, len(self._bad), 3) if log == "transcript" else ():
            yield LogLines(b"", 0, tuple(self._bad[start : start + 3]))


@pytest.mark.parametrize("number", [0, 2, 100, 101, 150])
def test_the_first_bad_lines_of_a_log_are_told_and_the_last_with_how_many_there_are_between(number: int) -> None:
    told = list(bad_lines(Logged(number), SESSION))
    assert told[:100] == [
        Verdict("name", "transcript.ndjson", 0, f"line {line} (at byte {10 * line:,}): why {line}")
        for line in range(1, min(number, 100) + 1)
    ]
    between = "; so it is with 49 lines before it that are not listed" if number == 150 else ""
    assert [one.problem for one in told[100:]] == (
        [f"line {number} (at byte {10 * number:,}): why {number}{between}"] if number > 100 else []
    )


def test_bytes_that_outputs_share_are_used_once_and_in_all_sessions_each(clock: Clock) -> None:
    store = MemoryStore(clock=clock)
    for name in ("s1", "s2"):
        for text in ("same", "same", "others"):
            keep(store, store.open_session(name), text)
    assert used_bytes_of(store, store.open_session("s1")) == 10
    assert used_bytes_of(store) == 20
    listed = [facts("a", 4, file="x"), facts("b", 4, file="x"), facts("c", 5, file="y"), facts("d", 6)]
    assert used_bytes_of(store, SESSION, lambda _session: listed) == 9
    assert used_bytes_of(store, stored=lambda _session: listed) == 18


def test_a_quota_is_full_when_nothing_is_left_of_it() -> None:
    for quota in (Quota(session_bytes=10), Quota(store_bytes=20), Quota(session_bytes=10, store_bytes=20), Quota()):
        room_for(quota, 6, 16)(4)
    with pytest.raises(QuotaReached) as refused:
        room_for(Quota(session_bytes=10), 6, 99)(5)
    assert str(refused.value) == snapshot(
        "the quota of this session is 10 B and 6 B of it are used: an output with at least 5 B has no room. Raise session_quota_bytes, or make room with `holdall rm` or `holdall gc --older-than 7d`."
    )
    with pytest.raises(QuotaReached) as refused:
        room_for(Quota(store_bytes=20), 99, 16, what="a bundle")(5)
    assert str(refused.value) == snapshot(
        "the quota of this store is 20 B and 16 B of it are used: a bundle with at least 5 B has no room. Raise quota_bytes, or make room with `holdall rm` or `holdall gc --older-than 7d`."
    )
    room_for(Quota(), 99, 99)(99)


def test_what_is_being_written_counts_until_it_is_stored_or_is_not() -> None:
    stored = {"s": 0, "other": 0}
    rooms = Rooms(
        lambda session: sum(stored.values()) if session is None else stored[session.id], Quota(store_bytes=20)
    )
    assert Rooms(lambda _session: 0, Quota()).of(SESSION) is None
    session = replace(SESSION, quota=Quota(session_bytes=10))
    first, second, other = rooms.of(session), rooms.of(session), rooms.of(replace(session, id="other"))
    assert first is not None
    assert second is not None
    assert other is not None
    stored["s"] = 10
    first.check_again()  # nothing of it is there yet
    stored["s"] = 0
    first, second = rooms.of(session), rooms.of(session)
    assert first is not None
    assert second is not None
    first(6)
    second(4)
    with pytest.raises(QuotaReached, match="this session is 10 B and 6 B of it"):
        second(5)
    other(10)
    with pytest.raises(QuotaReached, match="this session is 10 B and 0 B of it"):
        other(11)
    second.close()
    first(10)
    fourth = rooms.of(replace(SESSION, id="third"))
    assert fourth is not None
    stored["third"] = 0
    with pytest.raises(QuotaReached, match="this store is 20 B and 20 B of it"):
        fourth(1)
    stored["s"] = 10
    first.close()
    first.close()
    assert rooms.ended == 2, "of two that were begun"
    with pytest.raises(QuotaReached, match="this session is 10 B and 10 B of it"):
        second(1)
    stored["other"] = 1
    with pytest.raises(QuotaReached, match="this session is 10 B and 1 B of it"):
        other.check_again()


def test_what_is_over_has_expired_for_everybody_before_it_is_removed() -> None:
    young, old = replace(facts("a", 1), ended=DAY), facts("b", 1, file="x")
    assert [is_over(SESSION, one, DAY + 2) for one in (young, old)] == [False, True]
    assert is_over(SESSION, replace(old, state="expired"), 0.0), "its bytes are still there"
    assert not is_over(SESSION, replace(old, state="expired", file=""), 9 * DAY)
    over = replace(old, state="expired", ended=DAY + 2, error="kept for 1 day")
    assert in_time([young, old], SESSION.retention, DAY + 2) == [young, over]
    unended = replace(old, ended=None)
    assert in_time([unended], SESSION.retention, DAY + 2) == [replace(over, ended=DAY + 1)]
    for rule in (Retention(days=0), Retention(days=None)):
        assert in_time([old], rule, 9 * DAY) == [old]


def test_what_would_be_freed_are_bytes_that_nothing_else_has() -> None:
    first, twin, other = facts("a", 4, file="x"), facts("b", 4, file="x"), facts("c", 5, file="y")
    outputs = [first, twin, other]
    assert [would_free(outputs, over) for over in ([], [first], [first, twin], outputs)] == [0, 0, 4, 9]


def test_a_name_that_is_taken_is_told() -> None:
    assert taken("s1") == snapshot(
        'there is a session "s1" already, and it is not touched. Choose another one with name=NAME.'
    )


def test_every_damaged_place_of_an_output_is_told_and_neighbours_as_one() -> None:
    data = bytes(number % 251 for number in range(BLOCK // 4)) * 4 * 45 + b"end"
    reader = reader_of(data)

    def proven(*flipped: int) -> list[int]:
        """Flipped in these blocks; the bytes that were told on the way."""
        done: list[int] = []
        prove(
            reader.facts,
            reader.table,
            lambda index: bytes(BLOCK) if index in flipped else data[index * BLOCK : (index + 1) * BLOCK],
            done.append,
            5,
        )
        return done

    assert proven() == [5 + min(len(data), (index + 1) * BLOCK) for index in range(46)]
    for flipped, told in (
        ([0], "0 to 65,536"),
        ([1, 2, 3, 7], "65,536 to 262,144, 458,752 to 524,288"),
        (range(0, 40, 2), ", ".join(f"{at * BLOCK:,} to {(at + 1) * BLOCK:,}" for at in range(0, 40, 2))),
        (
            range(0, 44, 2),
            ", ".join(f"{at * BLOCK:,} to {(at + 1) * BLOCK:,}" for at in range(0, 40, 2)) + ", and 2 more",
        ),
    ):
        with pytest.raises(OutputDamaged) as damaged:
            proven(*flipped)
        assert damaged.value.detail == f"checksum mismatch in bytes {told}"
    other = replace(reader.facts, measure=replace(reader.facts.measure, sha256=hashlib.sha256(b"").hexdigest()))
    with pytest.raises(OutputDamaged, match="sha256 mismatch"):
        prove(other, reader.table, lambda index: data[index * BLOCK : (index + 1) * BLOCK])
