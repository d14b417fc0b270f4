"""The calls of one turn: side by side, sharing its room, decided at its close."""

import asyncio
import contextlib
import gc
import re
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdall import Answer, Inline, Kept, MemoryStore, Running, Sessions, ToolPolicy, UsageError
from holdall.bag import Pending, Turn
from tests.bag.shapes import LOG, SMALL, opened
from tests.extract.shapes import Answer as FoundAnswer
from tests.extract.shapes import finding
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("api:turn", "api:turn-closed", "api:run", "api:turn-take-call", "way:function-results")
async def test_calls_run_side_by_side_and_their_content_is_there_at_the_close(tmp_path: Path) -> None:
    met = asyncio.Event()
    thread = threading.Event()

    async def first() -> str:
        await met.wait()
        return "first"

    async def second() -> str:
        met.set()
        return "second"

    def blocking(word: str) -> str:
        assert thread.wait(30)
        return word

    def releasing() -> str:
        thread.set()
        return "released"

    async with opened(tmp_path) as bag:
        handle = (await bag.keep(LOG)).handle
        async with bag.turn() as turn:
            waiting = turn.run(first, tool="a")
            released = [turn.run(second, tool="b"), turn.run(blocking, tool="c", arguments={"word": "third"})]
            released.append(turn.run(releasing, tool="d"))
            taken = turn.take(SMALL)
            answer = turn.call("context_grep", {"handle": handle, "pattern": "ERROR", "count": True})
            with pytest.raises(UsageError, match="when the turn has closed"):
                assert waiting.content
        assert [one.content for one in (waiting, *released)] == ["first", "second", "third", "released"]
        assert taken.content is SMALL
        assert isinstance(answer.result, Answer)
        assert "10 matches" in answer.content
        assert (answer.handle, taken.handle) == (handle, "")
        assert not answer.is_error


@requirement("api:turn")
async def test_the_log_says_when_each_call_began_and_what_it_took_not_when_all_had_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    async with opened(tmp_path, clock=lambda: now[0]) as bag:
        handle = (await bag.keep(LOG)).handle

        async def slow() -> str:
            await asyncio.wait([one.work for one in quick])
            now[0] += 30.0
            return "slow"

        async def quickly(text: str) -> str:
            return text

        async with bag.turn() as turn:
            quick = [turn.run(quickly, tool=f"of {len(text)}", arguments={"text": text}) for text in (SMALL, LOG)]
            quick.append(turn.call("context_grep", {"handle": handle, "pattern": "ERROR"}))
            quick.append(turn.call("context_grep", {"handle": "none", "pattern": "ERROR"}))
            turn.run(slow, tool="slow")
        timed = {
            (event.kind, event.data.get("name") or event.tool): (event.at - event.seconds, event.seconds)
            for event in bag.records.events()
        }
    assert timed == {
        ("inline", f"of {len(SMALL)}"): (1000.0, 0.0),
        ("kept", f"of {len(LOG)}"): (1000.0, 0.0),
        ("retrieved", "context_grep"): (1000.0, 0.0),
        ("refused", "context_grep"): (1000.0, 0.0),
        ("inline", "slow"): (1000.0, 30.0),
    }


@requirement("budget:max-min", "way:decide-room-left", "api:turn")
async def test_the_room_is_shared_over_all_of_them_not_first_come_first_served(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        async with bag.turn(tokens_left=9000) as turn:
            largest = turn.take("word " * 7000)
            others = [turn.take("word " * count) for count in (5000, 3000, 100)]
        assert isinstance(largest.result, Kept)
        assert [type(one.result) for one in others] == [Inline, Inline, Inline]
        whole = sum(bag.core.count(one.content) for one in (largest, *others))
        assert whole <= 9000
        async with bag.turn(tokens_left=100_000) as turn:
            again = turn.take("word " * 7000)
        assert isinstance(again.result, Inline)


@requirement("budget:scales-with-window")
async def test_the_room_comes_from_the_window_where_no_tokens_are_given(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        for used, kind in ((0, Inline), (120_000, Kept)):
            async with bag.turn(window=128_000, tokens_used=used) as turn:
                pending = turn.take("word " * 7000)
            assert isinstance(pending.result, kind)


@requirement("answer:less-room")
async def test_answers_are_made_smaller_to_fit_beside_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(LOG)).handle
        async with bag.turn(tokens_left=3000) as turn:
            reads = [turn.call("context_read", {"handle": handle, "lines": f"{n * 1000 + 1}:"}) for n in range(4)]
            small = turn.take("word " * 500)
        assert isinstance(small.result, Inline)
        total = sum(bag.core.count(one.content) for one in (*reads, small))
        assert total <= 3000
        assert all("Next: context_read" in one.content for one in reads)


@requirement("answer:once")
async def test_an_answer_that_has_to_share_the_room_is_made_shorter_and_nothing_is_done_twice(tmp_path: Path) -> None:
    """Questions are asked once, a wait waits once, a search runs once; the log has each call once."""
    many = FoundAnswer("all of them. " * 200, [line for line in LOG.split("\n") if "ERROR" in line])
    model = finding(lambda _: many, window=200_000)
    async with opened(tmp_path, model=model, extraction_cache="off") as bag:
        handle = (await bag.keep(LOG)).handle
        running = await bag.run(lambda: SMALL * 90, tool="slow", background=True)
        assert isinstance(running, Running)
        async with bag.turn(tokens_left=2400) as turn:
            asked = [turn.call("tool_output", {"handle": handle, "extract": f"which? {n}"}) for n in range(3)]
            waited = turn.call("wait_for_tool_output", {"handle": running.handle})
            found = turn.call("context_grep", {"handle": handle, "pattern": "job [0-9]*7$"})
            rows = turn.call("context_query", {"handle": handle, "sql": "select text, length(text) as r from t"})
        assert len(model.requests) == 3
        counters = await bag.counters()
        assert (dict(counters.retrievals), counters.extractions["full-chunked"]) == (
            {"extract": 3, "grep": 1, "query": 1, "wait": 1},
            3,
        )
        assert sum(bag.core.count(one.content) for one in (*asked, waited, found, rows)) <= 2400
        assert all("cut here: " in one.content for one in asked)
        assert "Ended:\n- slow" in waited.content
        # What is shown is the beginning of the same answer, and says where to continue.
        shown = [line for line in found.content.split("\n") if line.startswith("L")]
        assert f"500 matches on 500 of 5,000 lines · {len(shown)} shown" in found.content
        following = await bag.call(
            "context_grep", {"handle": handle, "pattern": "job [0-9]*7$", "start": _start(found)}
        )
        assert re.findall(r"job \d+", following.text)[0] == f"job {10 * len(shown) + 7}"
        listed = rows.content.split("\n").index("text | r")
        number = len(rows.content.split("\n")) - listed - 3
        assert f"5,000 rows · {number} shown" in rows.content
        assert f"Next: the same SQL with OFFSET {number}" in rows.content
        assert f"job {number - 1} |" in rows.content


def _start(found: Pending) -> int:
    return int(re.search(r"start=(\d+)", found.content)[1])  # type: ignore[index]


@requirement("dialect:legacy-bytes", "dialect:legacy-room")
@pytest.mark.parametrize("options", [{"dialect": "legacy"}, {"tools": {"big": ToolPolicy(store="never")}}])
async def test_what_is_not_stored_is_shown_as_far_as_its_limits_and_its_share_of_the_room_allow(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with opened(tmp_path, **options) as bag:
        alone = len((await bag.take(LOG, tool="big")).content)
        for left in (100_000, 30_000, 3_000, 600):
            async with bag.turn(tokens_left=left) as turn:
                found = turn.take(LOG, tool="big")
                turn.take("short", tool="small")
            if left == 100_000:
                assert len(found.content) == alone
            tokens = bag.core.count(found.content)
            assert min(left, 4_000) * 0.7 < tokens <= left + 60, left


@requirement("dialect:legacy-room")
@pytest.mark.parametrize("options", [{"dialect": "legacy"}, {"tools": {"t": ToolPolicy(store="never")}}])
async def test_what_is_not_stored_is_shown_whole_in_a_turn_that_has_room_for_all(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with opened(tmp_path, **options) as bag:
        texts = [" a" * size for size in (500, 500, 4500, 500)]
        async with bag.turn(tokens_left=sum(map(bag.core.count, texts))) as turn:
            found = [turn.take(text, tool="t") for text in texts]
        assert [one.content for one in found] == texts
        async with bag.turn(tokens_left=4000) as turn:
            found = [turn.take(text, tool="t") for text in texts]
        sizes = [bag.core.count(one.content) for one in found]
        assert sizes[:2] + sizes[3:] == [500] * 3
        assert 2000 < sizes[2] <= 2500


@requirement("slice:anchor", "answer:less-room")
@pytest.mark.parametrize(("window", "left"), [(16_000, None), (50_000, None), (99_999_999, None), (3_000, 600)])
async def test_a_window_that_does_not_fit_is_cut_on_both_sides_of_its_anchor(
    tmp_path: Path, window: int, left: int | None
) -> None:
    async with opened(tmp_path, dialect="async") as bag:
        handle = (await bag.keep(LOG, tool="logs")).handle
        around = {"anchor": "job 4100\n", "window": window}
        text = (
            await bag.call("get_tool_output", {"id": handle, "mode": "slice", "slice": around}, tokens_left=left)
        ).text
        assert "job 4100\n" in text
        begin, missing = map(int, re.findall(r"the window begins before this: start=(\d+) length=(\d+)", text)[0])
        at, first = LOG.index("job 4100\n"), begin + missing
        assert begin == max(0, at - window // 2)
        after = text.partition("job 4100\n")[2].count("\n")
        assert after - 6 <= LOG[first:at].count("\n") <= after  # after it are our own lines too


async def test_a_notice_is_shorter_where_little_room_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        async with bag.turn(tokens_left=600) as turn:
            pending = [turn.take(LOG + str(n), tool="fetch") for n in range(3)]
        for one in pending:
            assert isinstance(one.result, Kept)
            assert one.result.handle in one.content


async def test_what_a_call_raises_is_its_result_and_does_not_touch_the_others(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("broken")

    async def stream() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async with opened(tmp_path) as bag:
        async with bag.turn() as turn:
            failed, fine = turn.run(fail, tool="x"), turn.run(stream, tool="y")
        assert (failed.content, failed.is_error) == ("ValueError: broken", True)
        assert (fine.content, fine.is_error) == ("ab", False)


async def test_leaving_the_block_by_an_error_cancels_what_runs(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    pending: list[Pending] = []

    async def fails(turn: Turn) -> None:
        async with turn:
            pending.append(turn.run(endless, tool="x"))
            await asyncio.sleep(0)
            raise KeyError("the loop failed")

    async with opened(tmp_path) as bag:
        with pytest.raises(KeyError):
            await fails(bag.turn())
        assert ended.is_set()
        with pytest.raises(UsageError, match="no result of 'x': an exception has ended the block of its turn"):
            _ = pending[0].result


async def test_a_turn_without_calls_closes_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag, bag.turn(tokens_left=10):
        pass


async def test_many_slow_functions_do_not_keep_the_store_from_working(tmp_path: Path) -> None:
    """Each has a thread of its own: a pool that they share with the store would be full of them."""
    release = threading.Event()

    def slow() -> str:
        assert release.wait(60)
        return "done"

    async with opened(tmp_path) as bag:
        async with bag.turn() as turn:
            pending = [turn.run(slow, tool="slow") for _ in range(40)]
            await asyncio.sleep(0)
            taken = await bag.take(LOG, tool="fetch")
            assert isinstance(taken, Kept)
            assert (await bag.grep(taken.handle, "ERROR")).total == 10
            release.set()
        assert {one.content for one in pending} == {"done"}


@pytest.mark.parametrize("raised", [KeyboardInterrupt("stop"), SystemExit(3), StopIteration("over"), GeneratorExit()])
async def test_a_function_that_raises_what_would_end_a_program_has_failed_like_any_other(
    tmp_path: Path, raised: BaseException
) -> None:
    def evil() -> None:
        raise raised

    async with opened(tmp_path) as bag:
        taken = await bag.run(evil, tool="evil")
        assert taken.is_error
        assert f"the tool raised {type(raised).__name__}" in taken.content


@pytest.mark.parametrize("pooled", [False, True])
async def test_calls_end_with_a_turn_whose_body_raises_before_they_began(tmp_path: Path, pooled: bool) -> None:
    began, ended = list[str](), list[str]()

    async def call() -> None:
        began.append("call")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("call")

    async with contextlib.AsyncExitStack() as opening:
        if pooled:
            sessions = await opening.enter_async_context(Sessions.open(store=MemoryStore()))
            bag = await opening.enter_async_context(sessions.of("s1"))
        else:
            bag = await opening.enter_async_context(opened(tmp_path))

        async def raising() -> None:
            async with bag.turn() as turn:
                turn.run(call, tool="t")
                turn.take(SMALL)
                turn.call("context_read", {})
                raise ValueError("of the body")

        with warnings.catch_warnings(record=True) as warned:
            with pytest.raises(ValueError, match="of the body"):
                await raising()
            gc.collect()
        assert began == ended
        assert warned == []


@requirement("way:nothing-lost-silently")
async def test_a_turn_that_is_not_open_calls_nothing(tmp_path: Path) -> None:
    called: list[str] = []
    async with opened(tmp_path) as bag:
        async with bag.turn() as closed:
            pass
        for turn in (closed, bag.turn()):
            for start in (
                lambda turn=turn: turn.run(lambda: called.append("x"), tool="t"),
                lambda turn=turn: turn.take("x"),
                lambda turn=turn: turn.call("context_read", {"handle": "abcd"}),
            ):
                with pytest.raises(UsageError, match="made inside its block"):
                    start()
    assert called == []
