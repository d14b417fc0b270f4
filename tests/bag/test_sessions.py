"""Many conversations in one process: Sessions, detach, race, and calls that outlive the loop that started them.

Real loops, one after the other and side by side; a real SQL process, counted by its id. No test sleeps.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall import (
    BadSetting,
    Command,
    Ended,
    Holdall,
    Kept,
    Running,
    SessionClosed,
    Sessions,
    Settings,
    UsageError,
    blocking,
)
from holdall.background import Job, Jobs, Portal
from holdall.bag.waits import Background
from tests.bag.shapes import LOG, SMALL
from tests.requirements import requirement

CSV = "id,name\n" + "".join(f"{n},name {n}\n" for n in range(5000))
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def pool(
    folder: Path, *, max_open: int = 64, idle_seconds: float = 600.0, own_loop: bool = True, **options: Any
) -> Sessions:
    given: dict[str, Any] = {"slow_after_seconds": 0.0, **options}
    settings = Settings(**given)
    return Sessions.open(
        home=str(folder / "home"), settings=settings, max_open=max_open, idle_seconds=idle_seconds, own_loop=own_loop
    )


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdall portal"]


def sql_processes() -> set[int]:
    """Children of this process that run SQL."""
    own: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may have ended since
            own |= {int(one) for one in (task / "children").read_text().split()}
    found: set[int] = set()
    for pid in own:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        found |= {pid} if b"holdall.sql.child" in command else set()
    return found


def descriptors() -> list[str]:
    """What the open ones lead to; a socket has a number of its own, which says nothing."""
    found: list[str] = []
    for one in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that the list was read by
            found.append(os.readlink(f"/proc/self/fd/{one}").partition(":")[0])
    return sorted(found)


class Held:
    """A call that ends when it is told to, from whichever thread."""

    def __init__(self, result: object = SMALL) -> None:
        self.started, self.end, self.cancelled = threading.Event(), threading.Event(), threading.Event()
        self.result = result
        self.who = ""
        self.thread = ""

    async def __call__(self) -> object:
        self.who, self.thread = WHO.get(), threading.current_thread().name
        self.started.set()
        try:
            while not self.end.is_set():
                await asyncio.to_thread(self.end.wait, 0.05)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.result


@pytest.mark.in_full
@requirement("api:sessions", "api:sessions-close")
def test_forty_conversations_at_once_have_few_sql_processes_one_thread_and_one_store(tmp_path: Path) -> None:
    before, threads = descriptors(), set(portals())
    seen: set[int] = set()
    stores: set[int] = set()

    async def talk(sessions: Sessions, number: int) -> int:
        async with sessions.of(f"conversation {number}") as bag:
            stores.add(id(bag.store))
            kept = await bag.keep(CSV + f"{number},last\n", tool="export")
            rows = await bag.query(kept.handle, "select count(*) from t", bounded=False)
            seen.update(sql_processes())
            running = await bag.run(Held(f"of {number}"), tool="crawl", background=True)
            assert isinstance(running, Running)
            return int(rows.rows[0][0])  # type: ignore[union-attr]

    async def main() -> None:
        async with pool(tmp_path, query_seconds=600.0, grace_seconds=0.0) as sessions:
            counts = await asyncio.gather(*(talk(sessions, number) for number in range(40)))
            assert counts == [5001] * 40
            assert len(set(portals()) - threads) == 1
            assert len(sessions.open_names) == 40, "their calls run"

    asyncio.run(main())
    assert 1 <= len(seen) <= 4
    assert len(stores) == 1
    assert set(portals()) == threads
    assert not sql_processes() & seen
    left = [one for one in descriptors() if str(tmp_path) in one or one in ("socket", "/memfd")]
    assert not Counter(left) - Counter(before), "what tests before it have left may go meanwhile"


@requirement("async:outlives-loop")
def test_a_call_outlives_the_loop_that_started_it_and_has_its_context(tmp_path: Path) -> None:
    held = Held(LOG)
    sessions = pool(tmp_path)

    async def first() -> str:
        WHO.set("first request")
        async with sessions.of("s1") as bag:
            taken = await bag.run(held, tool="crawl")
            assert isinstance(taken, Running)
            return taken.handle

    async def second(handle: str) -> None:
        async with sessions.of("s1") as bag:
            assert [one.handle for one in bag.still_running()] == [handle]
            held.end.set()
            waited = await bag.wait(handle)
            assert [facts.state for facts in waited.ended] == ["ready"]
            assert (await bag.read(handle, bytes=":", bounded=False)).text == LOG

    async def end() -> None:
        await sessions.close()

    handle = asyncio.run(first())
    assert not held.end.is_set()
    asyncio.run(second(handle))
    asyncio.run(end())
    assert (held.who, held.thread) == ("first request", "holdall portal")


@requirement("async:outlives-loop")
def test_a_plain_function_carries_the_context_too_and_a_turn_runs_on_the_pool(tmp_path: Path) -> None:
    def tool() -> str:
        return f"{WHO.get()} in a thread"

    async def named() -> str:
        return f"{WHO.get()} on {threading.current_thread().name}"

    async def main() -> None:
        WHO.set("me")
        async with pool(tmp_path, slow_after_seconds=600.0) as sessions, sessions.of("s1") as bag:
            assert (await bag.run(tool)).content == "me in a thread"
            async with bag.turn() as turn:
                pending = turn.run(named)
            assert pending.content == "me on holdall portal"

    asyncio.run(main())


@requirement("async:outlives-loop")
def test_a_cancelled_request_cancels_its_call_and_waits_for_its_end(tmp_path: Path) -> None:
    held = Held()

    async def main() -> None:
        async with pool(tmp_path, slow_after_seconds=600.0) as sessions, sessions.of("s1") as bag:
            request = asyncio.create_task(bag.run(held, tool="crawl"))
            await asyncio.to_thread(held.started.wait, 60)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            assert held.cancelled.is_set(), "it has ended when the request has"
            assert bag.jobs.table.is_idle

    asyncio.run(main())


@pytest.mark.parametrize("how", ["own_loop", "task"])
@requirement("async:outlives-loop")
def test_calls_that_need_the_loop_of_their_caller_run_there_and_end_with_it(tmp_path: Path, how: str) -> None:
    held = Held()
    sessions = pool(tmp_path, own_loop=how != "own_loop")
    here = threading.current_thread().name

    async def request() -> str:
        async with sessions.of("s1") as bag:
            call: Any = held if how == "own_loop" else asyncio.create_task(held())
            taken = await bag.run(call, tool="crawl")
            assert isinstance(taken, Running)
            await asyncio.to_thread(held.started.wait, 60)
            return taken.handle

    async def later(handle: str) -> str:
        async with sessions.of("s1") as bag:
            await bag.wait(handle)
            state = (await bag.show(handle)).state
        await sessions.close()
        return state

    handle = asyncio.run(request())
    assert held.thread == here
    assert asyncio.run(later(handle)) == "cancelled"


@requirement("api:sessions-same-object")
def test_who_asks_for_the_same_session_at_once_gets_the_same_object(tmp_path: Path) -> None:
    sessions = pool(tmp_path)
    together = threading.Barrier(8)
    found: list[Holdall] = []

    async def use() -> None:
        async with sessions.of("s1") as bag:
            found.append(bag)
            await asyncio.to_thread(together.wait, 60)  # all eight are in their blocks now

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with sessions.of("s1") as again, sessions.of("s2") as other:
        assert {id(bag) for bag in found} == {id(again)}
        assert other is not again
    asyncio.run(sessions.close())


@requirement("api:sessions-bounded")
def test_sessions_are_put_away_when_they_are_idle_or_too_many_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool(tmp_path, max_open=2) as sessions:
            held = Held()
            async with sessions.of("running") as bag:
                running = await bag.run(held, tool="crawl")
                assert isinstance(running, Running)
            async with sessions.of("used") as used:
                for name in ("a", "b", "c"):
                    async with sessions.of(name) as bag:
                        kept = await bag.keep(name * 1000, tool=name)
                await sessions.tidy()
                assert set(sessions.open_names) == {"running", "used"}, "these are never put away"
                assert not (await used.take(SMALL)).is_error
                with pytest.raises(SessionClosed):
                    await bag.read(kept.handle)
                async with sessions.of("c") as again:
                    assert again is not bag
                    assert (await again.read(kept.handle)).text == "c" * 1000
                    assert [tool.name for tool in again.tools()]
            await sessions.tidy(now=1e12)
            assert sessions.open_names == ("running",)
            held.end.set()
            async with sessions.of("running") as bag:
                await bag.wait(running.handle)
            await sessions.tidy(now=1e12)
            assert sessions.open_names == ()

    asyncio.run(main())


@requirement("api:sessions-bounded")
def test_two_threads_that_tidy_at_once_put_no_more_away_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_it, go_on = threading.Event(), threading.Event()
    let_go = Background.let_go

    def waits(jobs: Background) -> None:
        at_it.set()
        assert go_on.wait(60)
        let_go(jobs)

    async def main() -> None:
        async with pool(tmp_path, max_open=2) as sessions:
            monkeypatch.setattr(Background, "let_go", waits)
            for name in ("a", "b", "c"):
                async with sessions.of(name):
                    pass
            assert await asyncio.to_thread(at_it.wait, 60), "the pool itself puts the first away"
            await sessions.tidy()
            assert sessions.open_names == ("b", "c")
            go_on.set()

    asyncio.run(main())


@requirement("api:sessions-bounded")
def test_the_pool_puts_away_what_is_idle_without_being_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool(tmp_path, idle_seconds=0.0) as sessions:
            async with sessions.of("s1") as bag:
                events = bag.events()
                waiting = asyncio.ensure_future(anext(events, None))
                await asyncio.sleep(0)
            assert await waiting is None, "its events end when it is put away"

    asyncio.run(main())


@requirement("api:sessions-bounded")
def test_sessions_that_were_put_away_hold_no_descriptors(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool(tmp_path, max_open=4) as sessions:
            counts: list[int] = []
            threads = 2 * min(
                32, (os.cpu_count() or 1) + 4
            )  # of two loops; each holds on to the folder that it used last
            for number in range(20 + 3 * threads):
                async with sessions.of(f"s{number}") as bag:
                    kept = await bag.keep("x" * 100, tool="t")
                    await bag.read(kept.handle)
                await sessions.tidy()
                counts.append(len(descriptors()))
            assert max(counts[20:]) <= max(counts[10:20]) + threads

    asyncio.run(main())


@requirement("api:sessions-close", "api:detach")
@pytest.mark.parametrize("ends", [True, False])
def test_closing_a_pool_ends_all_its_sessions_and_detaching_it_ends_none(tmp_path: Path, ends: bool) -> None:
    async def main() -> dict[str, str]:
        sessions = pool(tmp_path, max_open=2, retention="session")
        handles: dict[str, str] = {}
        for name in ("a", "b", "c", "d"):
            async with sessions.of(name) as bag:
                handles[name] = (await bag.keep(name * 1000)).handle
        await sessions.tidy()
        assert len(sessions.open_names) == 2, "two are put away, and end all the same"
        await (sessions.close() if ends else sessions.detach())
        await sessions.close()
        with pytest.raises(SessionClosed, match="these sessions were closed"):
            sessions.of("a").__enter__()
        return handles

    async def states(handles: dict[str, str]) -> set[str]:
        found: set[str] = set()
        for name, handle in handles.items():
            bag = Holdall.open(home=str(tmp_path / "home"), session=name)
            found |= {facts.state for facts in await bag.outputs() if facts.handle == handle}
            await bag.detach()
        return found

    assert asyncio.run(states(asyncio.run(main()))) == ({"expired"} if ends else {"ready"})


def test_one_session_can_be_ended_and_whoever_asks_meanwhile_waits_for_that(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool(tmp_path, retention="session", grace_seconds=600.0) as sessions:
            held = Held()
            async with sessions.of("s1") as bag:
                kept = await bag.keep("x" * 1000)
                await bag.run(held, tool="crawl")
            ending = asyncio.create_task(bag.close())
            await asyncio.sleep(0)
            await sessions.portal.run(asyncio.sleep(0))  # it is at it there, and waits for the call
            assert not ending.done()
            asked = sessions.of("s1")
            opening = asyncio.create_task(asked.__aenter__())
            held.end.set()
            again = await opening
            assert ending.done() or bag.core.is_closed
            assert again is not bag
            assert (await again.show(kept.handle)).state == "expired"
            await asked.__aexit__(None, None, None)
            await ending
            await sessions.end("s1")
            assert again.core.is_closed
            await sessions.end("never opened")
            assert await asyncio.to_thread(again.store.find_session, "never opened") is None

    asyncio.run(main())


def test_a_session_that_cannot_be_opened_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool(tmp_path) as sessions:
            for _ in range(2):
                with pytest.raises(UsageError):
                    async with sessions.of("../outside\x00"):
                        pass
            assert sessions.open_names == ()

    asyncio.run(main())


# detach


@requirement("api:detach")
def test_detach_leaves_outputs_and_calls_and_close_does_not(tmp_path: Path) -> None:
    async def left(how: str) -> tuple[str, str]:
        held, home, settings = (
            Held(LOG),
            str(tmp_path / how),
            Settings(slow_after_seconds=0.0, retention="session", grace_seconds=0.0),
        )
        bag = Holdall.open(home=home, session="s1", settings=settings)
        kept = await bag.keep("x" * 1000)
        running = await bag.run(held, tool="crawl")
        assert isinstance(running, Running)
        await (bag.detach() if how == "detach" else bag.close())
        await bag.close()
        for use in (lambda: bag.take(LOG), lambda: bag.read(kept.handle), lambda: bag.run(lambda: LOG)):
            with pytest.raises(SessionClosed):
                await use()
        held.end.set()
        async with Holdall.open(home=home, session="s1", settings=settings) as again:
            if how == "detach":
                assert [facts.state for facts in (await again.wait(running.handle)).ended] == ["ready"]
                assert (await again.read(running.handle, bytes=":", bounded=False)).text == LOG
            return (await again.show(kept.handle)).state, (await again.show(running.handle)).state

    assert asyncio.run(left("detach")) == ("ready", "ready")
    assert asyncio.run(left("close")) == ("expired", "expired")


@requirement("api:detach")
def test_a_call_of_a_bag_that_was_left_keeps_what_it_wrote_when_its_loop_ends(tmp_path: Path) -> None:
    class Writes(Held):
        async def __call__(self, writer: Any = None) -> object:
            writer.write("so far\n")
            return await super().__call__()

    held = Writes()
    home = str(tmp_path / "home")

    async def main() -> str:
        async with Holdall.open(home=home, session="s1", settings=Settings(slow_after_seconds=0.0)) as bag:
            taken = await bag.run(held.__call__, tool="crawl")
            assert isinstance(taken, Running)
            await asyncio.to_thread(held.started.wait, 60)
            await bag.detach()
            return taken.handle

    handle = asyncio.run(main())
    assert held.cancelled.is_set()
    with blocking.Holdall.open(home=home, session="s1") as again:
        assert again.show(handle).state == "cancelled"
        assert again.read(handle).text == "so far\n"


# race


class Interrupt(Exception):
    """As frameworks raise them to ask a person."""


def _raises(error: BaseException) -> Any:
    def plain() -> None:
        raise error

    return plain


ERRORS = [Interrupt("approve?"), KeyError("x"), SystemExit(3), KeyboardInterrupt()]
FORMS = ["plain", "async", "coroutine"]
# On a loop of one's own a coroutine that raises SystemExit ends the loop, as Python has it.
RAISED = [
    (where, error, form)
    for where in ("alone", "pool")
    for error in ERRORS
    for form in FORMS
    if where == "pool" or form == "plain" or isinstance(error, Exception)
]


@requirement("api:race")
@pytest.mark.parametrize(("where", "error", "form"), RAISED)
def test_race_raises_the_very_object_that_the_call_raised(
    tmp_path: Path, where: str, error: BaseException, form: str
) -> None:
    async def later() -> None:
        raise error

    async def main() -> None:
        async with pool(tmp_path, slow_after_seconds=600.0) as sessions, sessions.of("s1") as bag:
            lone = Holdall.open(home=str(tmp_path / "lone"), settings=Settings(slow_after_seconds=600.0))
            call = _raises(error) if form == "plain" else later if form == "async" else later()
            with pytest.raises(type(error)) as caught:
                await (lone if where == "alone" else bag).race(call, tool="t")
            assert caught.value is error
            assert (await bag.take(SMALL)).content is SMALL, "the loop of the pool still runs"
            assert (await bag.run(lambda: "fine")).content == "fine"
            await lone.close()

    asyncio.run(main())


@requirement("api:race")
def test_race_gives_what_was_returned_as_it_is_and_take_decides(tmp_path: Path) -> None:
    value: dict[str, Any] = {"rows": list(range(100_000))}
    stream = iter(["a", "b"])
    error = ValueError("returned, not raised")

    async def main() -> None:
        async with pool(tmp_path, slow_after_seconds=600.0) as sessions, sessions.of("s1") as bag:
            ended = await bag.race(lambda: value, tool="rows", arguments={"n": 1}, call_id="c1")
            assert isinstance(ended, Ended)
            assert ended.value is value
            taken = await bag.take(ended.value, tool="rows", arguments={"n": 1}, call_id="c1")
            assert isinstance(taken, Kept)
            assert taken.artifact.origin.arguments == {"n": 1}
            for thing in (stream, error, None):
                assert await bag.race(lambda thing=thing: thing) == Ended(thing)
            with pytest.raises(UsageError, match="use `run`"):
                await bag.race(Command(["true"]))
            with pytest.raises(TypeError, match="cannot be called"):
                await bag.race(7)

    asyncio.run(main())


@requirement("api:race")
def test_a_race_that_the_clock_wins_gives_a_handle_and_the_value_is_kept_under_it(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield "one\n"
        yield "two\n"

    async def main() -> None:
        async with pool(tmp_path) as sessions, sessions.of("s1") as bag:
            for result, kept in ((LOG, LOG), (parts(), "one\ntwo\n"), (Interrupt("late"), "")):
                held = Held(result)

                async def call(held: Held = held) -> object:
                    found = await held()
                    if isinstance(found, Exception):
                        raise found
                    return found

                running = await bag.race(call(), tool="crawl")
                assert isinstance(running, Running)
                assert "is still running" in running.content
                held.end.set()
                (facts,) = (await bag.wait(running.handle)).ended
                assert facts.state == ("failed" if isinstance(result, Exception) else "ready")
                assert (await bag.read(running.handle, bytes=":", bounded=False)).text == kept

    asyncio.run(main())


@requirement("api:race")
def test_a_stream_that_came_at_the_last_moment_and_fails_is_told_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts() -> Iterator[str]:
        yield "first half\n"
        raise ConnectionError("the server went away")

    async def main() -> None:
        go, returning = asyncio.Event(), asyncio.Event()

        async def tool() -> Iterator[str]:
            await go.wait()
            returning.set()
            return parts()

        async def race(jobs: Jobs, job: Job, _: float | None) -> bool:
            """The clock runs out when the call has returned, and nobody has looked yet."""
            jobs.watch(job)
            go.set()
            await returning.wait()
            return False

        monkeypatch.setattr(Jobs, "race", race)
        async with Holdall.open(home=str(tmp_path), settings=Settings(slow_after_seconds=600.0)) as bag:
            running = await bag.race(tool, tool="crawl")
            assert isinstance(running, Running)
            await bag.wait(running.handle)
            facts = await bag.show(running.handle)
            assert (facts.state, facts.error) == ("failed", "ConnectionError: the server went away")
            assert (await bag.read(running.handle, bytes=":", bounded=False)).text == "first half\n"

    asyncio.run(main())


@requirement("api:race")
def test_a_race_that_takes_too_long_is_a_time_out(tmp_path: Path) -> None:
    settings = Settings(slow_after_seconds=600.0, tool_timeout_seconds=0.1)

    async def main() -> None:
        async with Holdall.open(home=str(tmp_path), settings=settings) as bag:
            with pytest.raises(TimeoutError, match="timed out"):
                await bag.race(asyncio.Event().wait())

    asyncio.run(main())


# Without a loop


@requirement("api:sessions", "api:sessions-same-object", "api:blocking", "async:outlives-loop")
def test_threads_without_a_loop_share_one_pool(tmp_path: Path) -> None:
    before = set(portals())
    settings = Settings(slow_after_seconds=0.0, grace_seconds=0.0, query_seconds=600.0)
    seen: set[int] = set()
    bags: list[blocking.Holdall] = []
    together = threading.Barrier(8)

    def serve(sessions: blocking.Sessions, number: int) -> None:
        with sessions.of(f"s{number % 4}") as bag:
            together.wait(60)
            bags.append(bag)
            kept = bag.keep(CSV)
            bag.query(kept.handle, "select count(*) from t")
            seen.update(sql_processes())

    with blocking.Sessions.open(home=str(tmp_path), settings=settings) as sessions:
        threads = [threading.Thread(target=serve, args=(sessions, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(portals()) - before) == 1
        assert len({id(bag) for bag in bags}) == 4
        held = Held(LOG)
        with sessions.of("s0") as bag:
            running = bag.race(held, tool="crawl")
            assert isinstance(running, Running)
        held.end.set()
        with sessions.of("s0") as bag:
            bag.wait(running.handle)
            assert bag.read(running.handle, bytes=":", bounded=False).text == LOG
        sessions.end("s0")
        sessions.tidy(now=1e12)
        assert sessions.open_names == ()
    sessions.close()
    assert len(seen) <= 4
    assert set(portals()) == before


def test_a_call_on_the_loop_that_would_wait_for_itself_is_refused(tmp_path: Path) -> None:
    with blocking.Sessions.open(home=str(tmp_path)) as sessions, sessions.of("s1") as bag:

        async def tool() -> object:
            return bag.take(SMALL)

        async def closes() -> None:
            sessions.close()

        with pytest.raises(UsageError, match="would wait for the loop that it runs on"):
            bag.race(tool)
        with pytest.raises(UsageError, match="cannot be closed by a call"):
            bag.race(closes)


def test_a_portal_that_is_closed_ends_what_still_runs_on_it() -> None:
    portal = Portal()
    held = Held()

    def wait() -> None:
        with pytest.raises(concurrent.futures.CancelledError):
            portal.call(held())

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert held.started.wait(60)
    portal.close()
    portal.close()
    waiting.join()
    assert held.cancelled.is_set()
    with pytest.raises(SessionClosed):
        portal.call(held())


@pytest.mark.anyio
async def test_a_query_that_never_ends_keeps_no_other_conversation_from_its_own(tmp_path: Path) -> None:
    async with Sessions.open(home=str(tmp_path)) as sessions, sessions.of("a") as one, sessions.of("b") as other:
        body = "".join(f"line {number}\n" for number in range(20_000))
        first, second = [(await bag.take(body, tool="t")).handle for bag in (one, other)]
        endless = "with recursive r(a) as (select 1 union all select a + 1 from r) select max(a) from r"
        running = asyncio.create_task(one.query(first, sql=endless))
        async with asyncio.timeout(60):
            while one.core.shared.sql.pid is None:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        found = await other.query(second, sql="select count(*) from t")
        assert "20000" in str(found)
        assert not running.done()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.anyio
@requirement("api:sessions")
async def test_a_session_that_is_asked_for_while_others_are_put_away_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sessions.open(home=str(tmp_path)) as sessions:
        for name in "ab":
            async with sessions.of(name) as bag:
                await bag.take("x", tool="t")
        asked = sessions.of("b")
        leave = sessions._leave  # pyright: ignore[reportPrivateUsage]

        def left(bag: Holdall) -> None:
            if bag.session.name == "a":
                used.append(asked.__enter__())
            leave(bag)

        used: list[Holdall] = []
        monkeypatch.setattr(sessions, "_leave", left)
        await sessions.tidy(now=time.monotonic() + 10_000)
        assert isinstance(await used[0].take(LOG, tool="t"), Kept)
        asked.__exit__(None, None, None)
        assert sessions.open_names == ("b",)


@pytest.mark.anyio
@requirement("api:sessions-close")
@pytest.mark.parametrize("how", ["run", "race"])
async def test_who_waits_for_a_call_when_another_ends_the_session_is_told_so(tmp_path: Path, how: str) -> None:
    began = threading.Event()

    async def never_ends() -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    settings = Settings(slow_after_seconds=600.0, grace_seconds=0.0)
    async with Sessions.open(home=str(tmp_path), settings=settings) as sessions:

        async def waits() -> object:
            async with sessions.of("a") as bag:
                return await (bag.run if how == "run" else bag.race)(never_ends, tool="t")

        waiting = asyncio.ensure_future(waits())
        assert await asyncio.to_thread(began.wait, 100)
        await sessions.end("a")
        with pytest.raises(SessionClosed):
            await waiting


def test_a_home_that_only_a_shell_would_expand_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for open_it in (
        lambda: Holdall.open(home="~/h1"),
        lambda: Holdall.open(settings=Settings(store_dir="~/h2")),
        lambda: Sessions.open(home="~/h3"),
        lambda: Holdall.open(home="$HOME/h4"),
        lambda: Holdall.open(home="${HOME}/h5"),
    ):
        with pytest.raises(BadSetting, match=r"~ and \$VARIABLES are not expanded here: write a whole path"):
            open_it()
    assert list(tmp_path.iterdir()) == []
