"""The log of a session: whole lines in the order in which they came, from whoever appends, and none of them lost."""

import json
import threading
from collections import Counter

import pytest

from holdall.policy.measure import checksum
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import UsageError
from tests.requirements import requirement
from tests.store.support import StoreMaker, keep


def test_a_new_session_has_no_events(store: OutputStore, session: SessionInfo) -> None:
    assert store.events_from(session, 0) == (b"", 0, ())
    keep(store, session, "x")
    assert store.events_from(session, 0) == (b"", 0, ())


def test_events_come_back_in_their_order_from_wherever_one_left_off(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n')
    first = store.events_from(session, 0)
    assert (first.lines, first.bad) == (b'{"n":1}\n', ())
    assert store.events_from(session, first.end) == (b"", first.end, ())
    store.append_events(session, '{"é":2}\n{}\n'.encode())
    rest = store.events_from(session, first.end)
    assert rest.lines == '{"é":2}\n{}\n'.encode()
    assert store.events_from(session, 0) == (first.lines + rest.lines, rest.end, ())


def test_a_place_past_the_end_has_no_events_yet(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b"{}\n")
    assert store.events_from(session, 100) == (b"", 100, ())


def test_a_log_of_any_length_is_read_whole(store: OutputStore, session: SessionInfo) -> None:
    lines = b"".join(b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * 1000) for number in range(3000))
    store.append_events(session, lines)
    assert store.events_from(session, 0).lines == lines


def test_each_session_has_a_log_of_its_own(store: OutputStore, session: SessionInfo) -> None:
    other = store.open_session("s2")
    store.append_events(session, b"{}\n")
    assert store.events_from(other, 0) == (b"", 0, ())


def test_the_log_is_that_of_the_session_whoever_opens_it(make_store: StoreMaker) -> None:
    first, second = make_store(), make_store()
    session = first.open_session("s")
    first.append_events(session, b'{"by":1}\n')
    second.append_events(second.open_session("s"), b'{"by":2}\n')
    first.close()
    again = make_store()
    assert again.events_from(again.open_session("s"), 0).lines == b'{"by":1}\n{"by":2}\n'


@requirement("store:lines-proven")
def test_a_torn_last_line_waits_and_is_named_once_another_follows(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n{"n":')
    first = store.events_from(session, 0)
    assert (first.lines, first.bad) == (b'{"n":1}\n', ())
    assert store.events_from(session, first.end) == (b"", first.end, ())
    store.append_events(session, b'{"n":3}\n')
    torn = (2, first.end, "it was not written to its end")
    after = store.events_from(session, first.end)
    assert (after.lines, after.bad) == (b'{"n":3}\n', (torn,))
    assert store.events_from(session, 0) == (b'{"n":1}\n{"n":3}\n', after.end, (torn,))
    assert [(one.handle, one.problem) for one in store.verify([session])] == [
        ("events.ndjson", f"line 2 (at byte {first.end}): it was not written to its end")
    ]


def test_a_line_that_is_no_json_object_is_refused(store: OutputStore, session: SessionInfo) -> None:
    for line in (b"[]\n", b"\n", b"{\n", b"}\n", b'{}\n"text"\n'):
        with pytest.raises(UsageError, match="a line of a log must be a JSON object"):
            store.append_events(session, line)
        with pytest.raises(UsageError):
            store.append_transcript(session, line)
    assert store.events_from(session, 0) == store.transcript(session) == (b"", 0, ())


@requirement("store:lines-proven")
def test_every_line_carries_its_proof_and_stays_a_json_object(store: OutputStore, session: SessionInfo) -> None:
    store.append_transcript(session, b'{"n":1,"proof":"mine"}\n{}\n')
    first = b'{"n":1,"proof":"mine"'
    kept = store.read_log(session, "transcript", 0, 1000)
    assert [json.loads(one) for one in kept.splitlines()] == [
        {"n": 1, "proof": f"{checksum(first):016x}"},
        {"proof": f"{checksum(b'{'):016x}"},
    ]
    assert store.transcript(session).lines == b'{"n":1,"proof":"mine"}\n{}\n'


@requirement("store:events-appended")
def test_many_threads_append_to_one_log_and_none_of_their_events_is_lost(
    store: OutputStore, session: SessionInfo
) -> None:
    start = threading.Barrier(6)

    def append(thread: int) -> None:
        start.wait(timeout=100)
        for number in range(50):
            store.append_events(session, line(str(thread), number))

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data, _, bad = store.events_from(session, 0)
    assert not bad
    assert_all_there(data, {str(thread) for thread in range(6)}, each=50)


def line(by: str, number: int) -> bytes:
    """Of a length that is different each time."""
    return json.dumps({"by": by, "n": number, "pad": "x" * (number * 37 % 5000)}).encode() + b"\n"


def assert_all_there(data: bytes, writers: set[str], *, each: int) -> None:
    """Every event of every writer once, as it was written, in the order in which that writer wrote them."""
    lines = data.splitlines(keepends=True)
    events = [json.loads(one) for one in lines]
    assert Counter(event["by"] for event in events) == dict.fromkeys(writers, each)
    for writer in writers:
        own = [one for one, event in zip(lines, events, strict=True) if event["by"] == writer]
        assert own == [line(writer, number) for number in range(each)]
