"""One deadline for all that a call does, and a cancelled call stops: counted in reads and looks, never in seconds."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest

from holdall import WorkerFault
from holdall.sql.worker import SqlWorker
from holdall.store.deadline import Deadline, of_seconds, renew, within
from holdall.store.protocol import OutputReader
from holdall.text.json.path import parse_path
from holdall.text.tokens import Estimate
from holdall.values.errors import BadQuery, OutOfTime
from holdall.verbs.grep import grep
from holdall.verbs.preview import notice_view
from holdall.verbs.query import query_path, query_sql
from holdall.verbs.read import Bounds, read
from holdall.wire.dialect import View
from tests.bag.shapes import opened
from tests.requirements import requirement
from tests.support import reader_of

pytestmark = pytest.mark.anyio

ROWS = json.dumps([{"id": number, "name": "x" * 40} for number in range(40_000)]).encode()
FOREVER = "select count(*) from t a, t b, t c where a.name < b.name and b.id < c.id"


def ticking(seconds: float, tick: float = 1) -> Deadline:
    """Each look at its clock takes a second."""
    ticks = count(step=tick)
    return Deadline(seconds, clock=lambda: float(next(ticks)))


@requirement("answer:one-deadline")
@pytest.mark.parametrize(
    ("work", "told"),
    [
        (partial(query_path, path="$..missing"), "the path was stopped after 3 s, its limit"),
        (partial(query_path, path="$[*].id", limit=5000, max_bytes=None), "the path was stopped after 3 s, its limit"),
        (partial(query_sql, sql="select 1"), "the query was stopped after 3 s, its limit"),
        (partial(query_sql, sql="select 1", at="$.a"), "the query was stopped after 3 s, its limit"),
        (partial(grep, pattern="x", limit=1000, max_bytes=None), "after 3 s"),
        (partial(read, lines="9:", bounds=Bounds()), "the call was stopped after 3 s, its limit"),
    ],
)
def test_whatever_a_call_does_it_stops_at_the_deadline(
    work: Callable[[OutputReader], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, reads = reader_of(ROWS), list[int]()
    plain = reader.read
    monkeypatch.setattr(reader, "read", lambda start, end: reads.append(start) or plain(start, end))  # pyright: ignore
    with within(ticking(3)), pytest.raises(WorkerFault, match=told):
        list(map(work, [reader] * 9))
    assert len(reads) <= 4


def test_an_outline_that_takes_too_long_is_left_out_of_the_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    def view() -> View:
        return notice_view(reader_of(ROWS), lambda: "tag", tokenizer=Estimate())

    assert view().outline is not None
    with within(ticking(inf, 0.5)):  # others have the processor most of the time
        assert view().outline == view().outline is not None
    with within(ticking(inf, 100)):
        late = view()
    assert (late.outline, late.head) == (None, ROWS[: len(late.head)])
    seconds = count()
    monkeypatch.setattr("holdall.verbs.preview.time.thread_time", lambda: next(seconds))
    assert (view().outline, view().head) == (None, late.head)


def test_a_part_of_a_call_has_no_longer_than_the_call_and_is_cancelled_with_it() -> None:
    with within(ticking(30)) as call:
        part, other = of_seconds(60), of_seconds(1)
        assert (part.ends, part.seconds) == (call.ends, 30)
        assert other.seconds == 1
        other.cancel()
        part.check()
        call.cancel()
        with pytest.raises(OutOfTime):
            part.check()


@requirement("answer:one-deadline")
async def test_an_answer_is_made_to_fit_without_another_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []
    ask = SqlWorker.ask

    def noted(
        self: SqlWorker, request: dict[str, Any], descriptors: Sequence[int], *, deadline: Deadline, **more: Any
    ) -> Any:
        given.append(deadline.ends)
        return ask(self, request, descriptors, deadline=deadline, **more)

    monkeypatch.setattr(SqlWorker, "ask", noted)
    async with opened(tmp_path) as bag:
        kept = await bag.keep(ROWS, tool="fetch")
        answer = await bag.call("context_query", {"handle": kept.handle, "sql": "select repeat(chr(9731), 9) from t"})
    assert not answer.is_error
    assert len(given) == 1, "what was found is told in less, and not asked for again"


@requirement("answer:cancelled-stops")
async def test_a_cancelled_call_stops_at_its_next_read(tmp_path: Path) -> None:
    begun, cancelled, ended = threading.Event(), threading.Event(), threading.Event()
    reads: list[int] = []

    def work(reader: OutputReader) -> None:
        begun.set()
        cancelled.wait(60)
        try:
            for at in range(1000):
                reader.read(at, at + 1)
                reads.append(at)
        finally:
            ended.set()

    async with opened(tmp_path) as bag:
        kept = await bag.keep(ROWS, tool="fetch")
        task = asyncio.create_task(bag.core.on(kept.handle, work))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()
        assert await asyncio.to_thread(ended.wait, 60)
    assert reads == []


@requirement("answer:cancelled-stops")
async def test_a_cancelled_query_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, ended = threading.Event(), threading.Event()
    ask = SqlWorker.ask

    def noted(
        self: SqlWorker, request: dict[str, Any], descriptors: Sequence[int], *, deadline: Deadline, **more: Any
    ) -> Any:
        try:
            sent.set()
            return ask(self, request, descriptors, deadline=deadline, **more)
        finally:
            ended.set()

    monkeypatch.setattr(SqlWorker, "ask", noted)
    async with opened(tmp_path, query_seconds=3600.0) as bag:
        kept = await bag.keep(ROWS, tool="fetch")
        task = asyncio.create_task(bag.query(kept.handle, FOREVER))
        assert await asyncio.to_thread(sent.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 60)
        assert bag.core.shared.sql.pid is None


@requirement("query:path-segments")
def test_a_path_has_at_most_50_segments() -> None:
    assert len(parse_path("$" + ".a" * 50).segments) == 50
    with pytest.raises(BadQuery, match="the path has 51 segments; at most 50 are followed"):
        parse_path("$" + ".a" * 51)
    with pytest.raises(BadQuery, match="at most 50"):
        parse_path("/a" * 51)


def test_what_waits_looks_again_soon_and_at_the_latest_when_its_time_is_over() -> None:
    now = 100.0
    call = Deadline(10, clock=lambda: now)
    assert call.wait_seconds() == 0.25
    now = 109.875
    assert call.wait_seconds() == 0.125
    now = 110.0
    with pytest.raises(OutOfTime):
        call.wait_seconds()


def test_the_call_at_hand_is_renewed_where_there_is_one() -> None:
    now = 100.0
    renew()
    with within(Deadline(10, clock=lambda: now)) as call:
        now = 104.0
        renew()
    assert (call.seconds, call.ends) == (10, 114.0)
    now = 109.0
    assert Deadline(5, outer=call).seconds == 5, "where both end at once, its own time is told"


def test_what_was_delivered_gives_a_call_its_time_again() -> None:
    now = 0.0
    call = Deadline(10, clock=lambda: now)
    part, inner = Deadline(5, outer=call), Deadline(outer=call)
    now = 4.0
    part.renew()
    now = 8.0
    part.check()
    now = 9.5
    with pytest.raises(OutOfTime) as late:
        part.check()
    assert late.value.seconds == 5
    now = 13.9
    inner.check()  # it was made before, and ends with the call
    now = 14.0
    with pytest.raises(OutOfTime) as late:
        inner.check()
    assert late.value.seconds == 10
