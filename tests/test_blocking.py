"""holdall.blocking: the same object for code without an event loop; a test compares them name by name."""

import asyncio
import inspect
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, Inline, Kept, Sessions, Settings, UnknownHandle, UsageError, blocking
from holdall.bag import Background, Care, Fetch, Preview, Records, Turn
from tests.bag.shapes import LOG, SMALL
from tests.requirements import requirement

# What a newcomer meets. All else is in the parts: say there what is new, or say here why it is met first.
SURFACE = [
    "open", "take", "run", "race", "turn", "guard", "keep", "forget", "tools", "owns", "instructions", "system_notice",
    "read", "tail", "slice", "grep", "query", "diff", "call", "extract", "show", "outputs", "wait", "close", "detach",
]  # fmt: skip
PARTS: dict[type, type] = {
    blocking.Fetch: Fetch, blocking.Preview: Preview, blocking.Jobs: Background, blocking.Records: Records,
    blocking.Care: Care,
}  # fmt: skip
# What the bag needs to work on itself, and what a loop is needed for.
INSIDE = {
    "wait_for_model", "carry_out", "watch", "told", "ended", "close", "detach", "finish", "wind_up", "let_go", "of",
    "ripgrep", "record_also", "is_queued", "count", "count_bytes", "recorded",
}  # fmt: skip


def _public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def _parameters(method: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values() if p.name != "self"]


@requirement("api:blocking")
def test_both_have_the_same_methods_with_the_same_parameters() -> None:
    ours, theirs = _public(blocking.Holdall), _public(Holdall)
    assert set(ours) == set(theirs)
    for name, method in ours.items():
        assert _parameters(method) == _parameters(theirs[name]), name
    for part, inner in PARTS.items():
        ours, theirs = _public(part), _public(inner)
        assert set(ours) == set(theirs) - INSIDE - set(SURFACE), part
        for name, method in ours.items():
            assert _parameters(method) == _parameters(theirs[name]), (part, name)
    for name, method in _public(blocking.Turn).items():
        assert _parameters(method) == _parameters(getattr(Turn, name)), name
    assert set(_public(blocking.Turn)) == set(_public(Turn))
    pool, inner = _public(blocking.Sessions), _public(Sessions)
    assert set(pool) == set(inner) - {"bag_of", "busy", "claim", "close_now", "release"}
    for name, method in pool.items():
        if callable(method):
            assert _parameters(method) == _parameters(inner[name]), name


@requirement("api:blocking")
def test_a_newcomer_meets_few_methods_and_the_old_names_still_work(bag: blocking.Holdall) -> None:
    assert [name for name in vars(Holdall) if not name.startswith("_")] == SURFACE
    facts = bag.keep(LOG, tool="fetch")
    assert b"".join(bag.stream(facts.handle)) == b"".join(bag.fetch.stream(facts.handle)) == LOG.encode()
    assert bag.notice(facts.handle).startswith("[") == bag.preview.notice(facts.handle).startswith("[")
    assert bag.coverage(facts.handle) == bag.records.coverage(facts.handle)
    assert bag.unreadable() == bag.care.unreadable() == {}
    assert bag.still_running() == bag.jobs.still_running() == ()


@pytest.fixture
def bag(tmp_path: Path) -> Iterator[blocking.Holdall]:
    settings = Settings(slow_after_seconds=600.0)
    with blocking.Holdall.open(home=str(tmp_path / "home"), session="s1", settings=settings) as opened:
        yield opened


@requirement("api:blocking")
def test_a_whole_story_without_a_loop(bag: blocking.Holdall) -> None:
    small = bag.take(SMALL)
    assert isinstance(small, Inline)
    assert small.content is SMALL
    taken = bag.run(lambda: LOG, tool="fetch")
    assert isinstance(taken, Kept)
    assert bag.tools()
    assert "10 matches" in bag.call("context_grep", {"handle": taken.handle, "pattern": "ERROR"}).text
    assert bag.read(taken.handle, lines=(1, 1)).text == LOG.splitlines(keepends=True)[0]
    assert b"".join(bag.stream(taken.handle)) == LOG.encode()
    assert b"".join(bag.follow(taken.handle, 1)) == LOG.splitlines(keepends=True)[-1].encode()
    with bag.turn(tokens_left=5000) as turn:
        pending = [turn.run(lambda: "a", tool="x"), turn.take("b"), turn.call("context_tail", {"handle": taken.handle})]
    assert [one.content[:1] for one in pending[:2]] == ["a", "b"]
    assert "job 4999" in pending[2].content
    with pytest.raises(UnknownHandle):
        bag.read("zzzz")


def test_it_can_be_used_from_several_threads_and_inside_a_running_loop(bag: blocking.Holdall) -> None:
    found: list[int] = []
    handle = bag.keep(LOG).handle
    threads = [threading.Thread(target=lambda: found.append(bag.grep(handle, "ERROR").total)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [10] * 8


def test_an_interrupt_reaches_the_call_and_the_bag_still_works(bag: blocking.Holdall) -> None:
    started, released = threading.Event(), threading.Event()

    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            released.set()

    main = threading.main_thread().ident or 0

    def interrupt() -> None:
        started.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever ran before in this process
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            bag.run(endless, tool="x")
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert released.is_set(), "it had ended when the interrupt was raised"
    assert bag.take(SMALL).content is SMALL


def test_closing_twice_is_fine_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # other tests have bags of their own
    bag = blocking.Holdall.open(home=str(tmp_path / "home"))
    bag.close()
    bag.close()
    assert not [one for one in threading.enumerate() if one.name == "holdall portal" and one not in before]


def test_after_its_end_a_bag_says_that_it_is_closed(tmp_path: Path) -> None:
    with blocking.Holdall.open(home=str(tmp_path)) as bag:
        handle = bag.keep("x" * 100_000).handle
    for use in (lambda: bag.take("x" * 100_000), lambda: bag.read(handle), lambda: bag.grep(handle, "x")):
        with pytest.raises(UsageError, match="this session was closed"):
            use()


def test_so_does_one_that_is_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with Holdall.open(home=str(tmp_path)) as bag:
            handle = (await bag.keep("x" * 100_000)).handle
        for use in (bag.take("x" * 100_000), bag.read(handle), bag.run(lambda: "x" * 100_000)):
            with pytest.raises(UsageError, match="this session was closed"):
                await use

    asyncio.run(main())
