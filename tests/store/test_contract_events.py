"""The log of a session: whole lines in the order in which they came, from whoever appends, and none of them lost."""

import json
import threading
from collections import Counter

from holdall.store.protocol import OutputStore, SessionInfo
from tests.requirements import requirement
from tests.store.support import StoreMaker, keep


def test_a_new_session_has_no_events(store: OutputStore, session: SessionInfo) -> None:
    assert store.events_from(session, 0) == (b"", 0)
    keep(store, session, "x")
    assert store.events_from(session, 0) == (b"", 0)


def test_events_come_back_in_their_order_from_wherever_one_left_off(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n')
    assert store.events_from(session, 0) == (b'{"n":1}\n', 8)
    assert store.events_from(session, 8) == (b"", 8)
    store.append_events(session, '{"é":2}\n{"n":3}\n'.encode())
    assert store.events_from(session, 8) == ('{"é":2}\n{"n":3}\n'.encode(), 25)
    assert store.events_from(session, 0) == ('{"n":1}\n{"é":2}\n{"n":3}\n'.encode(), 25)
    assert store.events_from(session, 17) == (b'{"n":3}\n', 25)


def test_a_place_past_the_end_has_no_events_yet(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b"{}\n")
    assert store.events_from(session, 100) == (b"", 100)


def test_a_log_of_any_length_is_read_whole(store: OutputStore, session: SessionInfo) -> None:
    lines = b"".join(b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * 1000) for number in range(3000))
    store.append_events(session, lines)
    assert store.events_from(session, 0) == (lines, len(lines))


def test_each_session_has_a_log_of_its_own(store: OutputStore, session: SessionInfo) -> None:
    other = store.open_session("s2")
    store.append_events(session, b"{}\n")
    assert store.events_from(other, 0) == (b"", 0)


def test_the_log_is_that_of_the_session_whoever_opens_it(make_store: StoreMaker) -> None:
    first, second = make_store(), make_store()
    session = first.open_session("s")
    first.append_events(session, b'{"by":1}\n')
    second.append_events(second.open_session("s"), b'{"by":2}\n')
    first.close()
    again = make_store()
    assert again.events_from(again.open_session("s"), 0) == (b'{"by":1}\n{"by":2}\n', 18)


def test_a_torn_last_line_is_passed_over_and_ended_before_the_next(store: OutputStore, session: SessionInfo) -> None:
    store.append_events(session, b'{"n":1}\n{"n":')
    assert store.events_from(session, 0) == (b'{"n":1}\n', 8)
    assert store.events_from(session, 8) == (b"", 8)
    store.append_events(session, b'{"n":3}\n')
    assert store.events_from(session, 8) == (b'{"n":\n{"n":3}\n', 22)
    store.append_events(session, b'{"n":4}\n')
    assert store.events_from(session, 22) == (b'{"n":4}\n', 30)


@requirement("store:events-appended")
def test_many_threads_append_to_one_log_and_none_of_their_events_is_lost(
    store: OutputStore, session: SessionInfo
) -> None:
    start = threading.Barrier(6)

    def append(thread: int) -> None:
        start.wait(timeout=30)
        for number in range(50):
            store.append_events(session, line(str(thread), number))

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data, end = store.events_from(session, 0)
    assert end == len(data)
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
