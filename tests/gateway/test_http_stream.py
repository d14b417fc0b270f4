"""How much of what was sent is there for a client that comes back."""

import pytest

from holdall.mcp.gateway.http_session import Finished, Stream, event_id, place_of
from holdall.mcp.gateway.known import KnownServers

pytestmark = pytest.mark.anyio


def told(stream: Stream, size: int = 0) -> Stream:
    stream.put({"jsonrpc": "2.0", "method": "x", "params": {"text": "x" * size}})
    return stream


async def test_events_are_read_again_from_any_place() -> None:
    stream = Stream("a1")
    for _ in range(3):
        told(stream)
    stream.put({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}})
    assert stream.answered
    for position in (0, 3, 0):
        event = await stream.after(position, 1)
        assert event is not None
        assert event.answers == (position == 3)
    last = await stream.after(3, 1)
    assert last is not None
    assert last.code == -32601
    assert await stream.after(4, 1) is None
    assert [stream.reaches_back_to(position) for position in (0, 4, 5)] == [True, True, False]


async def test_a_stream_that_goes_on_for_long_forgets_what_was_read_long_ago_and_nothing_else() -> None:
    stream = Stream("s1")
    for _ in range(1000):
        told(stream, 100)
    assert stream.reaches_back_to(0)  # nobody has read it
    for position in range(1000):
        await stream.after(position, 1)
    told(stream, 100)
    assert not stream.reaches_back_to(700)
    assert stream.reaches_back_to(900)
    assert stream.size < 300 * 200
    event = await stream.after(1000, 1)
    assert event is not None
    with pytest.raises(TimeoutError):
        await stream.after(1001, 0)


async def test_the_oldest_go_first_and_one_that_nobody_has_read_stays() -> None:
    finished = Finished()
    for number in range(150):
        finished.keep(told(Stream(f"a{number}")))
    assert finished.get("a0") is None
    assert finished.get("a50") is not None
    finished.keep(told(Stream("large"), 3_000_000))
    assert finished.get("a149") is None
    assert finished.get("large") is not None
    read = told(Stream("read"), 3_000_000)
    read.readers = 1
    finished.keep(read)
    assert finished.get("large") is None
    assert finished.get("read") is None


async def test_large_answers_that_nobody_took_share_a_bound_between_the_sessions_of_a_principal() -> None:
    known = KnownServers()
    sessions = [Finished(known.left) for _ in range(10)]
    for one in sessions:
        one.keep(told(Stream("a1"), 15_000_000))
    assert [one.get("a1") is not None for one in sessions] == [False] * 6 + [True] * 4
    sessions[6].clear()
    assert len(known.left) == 3
    sessions[0].keep(told(Stream("a2"), 31_000_000))
    assert [one.get("a1") is not None for one in sessions] == [False] * 8 + [True] * 2
    assert sessions[0].get("a2") is not None


@pytest.mark.parametrize("wrong", ["", "a1", "-1", "a1-", "a1--1x", "a1-1234567890"])
def test_an_id_of_an_event_names_its_stream_and_its_place(wrong: str) -> None:
    assert place_of(event_id(Stream("a7"), 12)) == ("a7", 12)
    with pytest.raises(ValueError, match=wrong or "^$"):
        place_of(wrong)
