"""Slow calls: raced against the clock, kept under one handle, waited for, stopped. No test sleeps."""

import asyncio
import functools
import gc
import json
import sqlite3
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdall import Command, Holdall, Inline, Kept, Running, Settings, Taken, ToolPolicy, Unkept
from holdall.bag.run import Writer
from holdall.llm.scripted import ScriptedModel
from holdall.store.directory.live import LiveWriter
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputReader
from holdall.values.errors import AnchorNotFound, BadQuery, QuotaReached, UsageError
from holdall.values.settings import by_name
from holdall.verbs import grep as grep_module
from holdall.verbs.grep import PatternWatch
from holdall.wire.dialects import DIALECTS
from tests.bag.shapes import LOG, SMALL, opened
from tests.bag.test_set_aside import whole
from tests.requirements import requirement
from tests.upstream.support import until

pytestmark = pytest.mark.anyio


def fast_clock(folder: Path, **options: Any) -> Holdall:
    """Every call that does not end at once is slow."""
    return opened(folder, **({"slow_after_seconds": 0.0} | options))


def _handle(taken: Taken) -> str:
    assert isinstance(taken, Running)
    return taken.handle


class Slow:
    """A call that ends when it is told to."""

    def __init__(self, result: object = SMALL) -> None:
        self.started = asyncio.Event()
        self.end = asyncio.Event()
        self.result = result
        self.cancelled = False

    async def __call__(self) -> object:
        self.started.set()
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@requirement(
    "async:race",
    "async:handle-from-the-start",
    "async:same-handle-whole",
    "async:completion-event",
    "way:too-slow-registered",
    "api:run-races",
    "dialect:holdall-wait",
    "store:async-eagerly",
)
async def test_a_slow_call_goes_on_and_the_same_handle_holds_the_whole(tmp_path: Path) -> None:
    call = Slow(LOG)
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(call, tool="crawl", call_id="c1")
        match taken:
            case Running(handle):
                assert taken.content == (
                    f"crawl is still running. What it writes is kept, and can be read while it runs.\nhandle: {handle}\n"
                    f"{bag.core.signature}\n"
                    f'Next: wait_for_tool_output(handle="{handle}") · context_tail(handle="{handle}")'
                )
            case _:
                pytest.fail(repr(taken))
        assert (await bag.show(handle)).state == "running"
        assert "wait_for_tool_output" in [tool.name for tool in bag.tools()]
        call.end.set()
        waited = await bag.wait()
        assert [facts.handle for facts in waited.ended] == [handle]
        facts = await bag.show("c1")
        assert (facts.handle, facts.state, facts.measure.bytes) == (handle, "ready", len(LOG))
        assert (await bag.read(handle, bytes=":", bounded=False)).text == LOG


@requirement("async:call-wins")
async def test_a_call_that_wins_the_race_is_decided_by_its_size(tmp_path: Path) -> None:
    async def quick(size: int) -> str:
        return "x" * size

    async with opened(tmp_path) as bag:
        assert isinstance(await bag.run(quick, arguments={"size": 10}), Inline)
        assert isinstance(await bag.run(quick, arguments={"size": 100_000}), Kept)
        assert not bag.jobs.calls


@requirement("async:no-async", "way:policy-never-async")
async def test_without_async_every_call_is_awaited_and_so_is_one_that_never_goes_async(tmp_path: Path) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    async with fast_clock(tmp_path, async_enabled=False) as bag:
        assert (await bag.run(later)).content == "done"
    async with fast_clock(tmp_path, tools={"approve": ToolPolicy(never_async=True)}) as bag:
        assert (await bag.run(later, tool="approve")).content == "done"
        assert isinstance(await bag.run(later, tool="other"), Running)


@requirement("async:running-read", "async:running-tail", "async:running-grep", "api:run-writer")
@pytest.mark.parametrize("form", ["async generator", "generator", "writer", "async writer"])
async def test_what_a_running_call_has_written_can_be_read_tailed_and_searched(tmp_path: Path, form: str) -> None:
    end, written = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def async_generator() -> AsyncIterator[str]:
        yield "first line\n"
        yield "second ERROR line\n"
        written.set()
        await asyncio.to_thread(end.wait, 60)
        yield "last line\n"

    def generator() -> Iterator[str]:
        yield "first line\n"
        yield "second ERROR line\n"
        loop.call_soon_threadsafe(written.set)
        assert end.wait(60)
        yield "last line\n"

    def writing(writer: Writer) -> None:
        for part in generator():
            writer.write(part)

    async def writing_later(writer: Writer) -> str:
        async for part in async_generator():
            writer.write(part)
        return "and a result\n"

    calls = {
        "async generator": async_generator,
        "generator": generator,
        "writer": writing,
        "async writer": writing_later,
    }
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(calls[form], tool="build")
        assert isinstance(taken, Running)
        await written.wait()
        handle = taken.handle
        read = await bag.call("context_read", {"handle": handle})
        assert "first line\nsecond ERROR line\n" in read.text
        assert "still running" in read.text
        assert "second ERROR line" in (await bag.call("context_tail", {"handle": handle})).text
        assert (await bag.grep(handle, "ERROR")).total == 1
        end.set()
        await bag.wait(handle)
        more = "and a result\n" if form == "async writer" else ""
        assert (await bag.read(handle)).text == f"first line\nsecond ERROR line\nlast line\n{more}"


async def test_a_generator_that_is_quick_is_joined_and_one_that_is_large_is_kept_while_it_comes(tmp_path: Path) -> None:
    async def parts(number: int) -> AsyncIterator[str]:
        for _ in range(number):
            yield "x" * 1000

    async with opened(tmp_path) as bag:
        assert (await bag.run(parts, arguments={"number": 3})).content == "x" * 3000
        taken = await bag.run(parts, arguments={"number": 500}, tool="t")
        assert isinstance(taken, Kept)
        assert taken.artifact.measure.bytes == 500_000
        assert f"handle: {taken.handle}" in taken.content


@pytest.mark.parametrize("size", [0, 10, 200_000])
async def test_what_a_tool_writes_after_its_call_has_ended_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    left: list[Writer] = []

    def leaves(writer: Writer) -> str:
        left.append(writer)
        writer.write("x" * size)
        return "end"

    async with opened(tmp_path) as bag:
        await bag.run(leaves, tool="leaves")
        assert not caplog.messages
        for _ in range(2):
            left[0].write("after")
    assert caplog.messages == ["leaves wrote to its output after its call had ended: that is lost"]


async def test_a_large_output_that_was_stored_while_it_came_is_one_of_those_that_are_kept(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield from ["some output\n" * 1000] * 200

    async with opened(tmp_path / "holdall") as bag:
        assert not bag.tools()
        taken = await bag.run(parts, tool="t")
        assert [spec.name for spec in bag.tools()] == ["context_read", "context_grep", "context_tail", "context_query"]
        assert list(bag.core.kept) == [taken.handle]
    async with opened(tmp_path / "async", dialect="async") as bag:
        taken = await bag.run(parts, tool="t")
        assert f"### Ready (1)\n- t (id: {bag.core.shown_handle(str(taken.handle))}, " in bag.system_notice(turn=1)


@requirement("notice:system-failed")
@pytest.mark.parametrize("dialect", ["async", "holdall", "extract", "refs"])
async def test_a_call_that_wrote_too_much_and_then_failed_has_failed_however_much_it_was(
    tmp_path: Path, dialect: str
) -> None:
    wrote = "some output\n" * 9000

    async def raises(writer: Writer) -> None:
        writer.write(wrote)
        raise ValueError("no host")

    def breaks() -> Iterator[str]:
        yield wrote
        raise ValueError("no host")

    script = "print('some output\\n' * 9000, end=''); raise SystemExit(3)"
    calls = {"raises": raises, "breaks": breaks, "exits": Command([sys.executable, "-c", script])}
    reasons = {"raises": "ValueError: no host", "breaks": "ValueError: no host", "exits": "exit code 3"}
    async with opened(tmp_path, dialect=dialect) as bag:
        for tool, call in calls.items():
            taken = await bag.run(call, tool=tool)
            assert isinstance(taken, Kept)
            assert taken.is_error
            assert (taken.artifact.state, taken.artifact.error) == ("failed", reasons[tool])
            assert taken.artifact.measure.bytes == len(wrote)
            assert reasons[tool] in taken.content
        if dialect == "async":
            told = bag.system_notice(turn=1).partition("### Failed (3)\n")[2].split("\n")[:3]
            handles = [bag.core.handle_of(one) for one in bag.core.kept.values()]
            assert told == [
                f"- {tool} (id: {handle}, {reasons[tool]})" for tool, handle in zip(calls, handles, strict=True)
            ]


@pytest.mark.parametrize("dialect", ["async", "extract", "refs"])
async def test_a_notice_says_that_an_output_is_an_error(tmp_path: Path, dialect: str) -> None:
    def raises() -> None:
        raise ValueError("no host\n" * 9000)

    async with opened(tmp_path, dialect=dialect) as bag:
        result = {"isError": True, "content": [{"type": "text", "text": "no host\n" * 9000}]}
        for taken in (await bag.take(result, tool="said"), await bag.run(raises, tool="raised")):
            assert taken.is_error
            assert taken.text.endswith("\n[the call failed: this output is its error]")
        fine = await bag.take("no host\n" * 9000, tool="fine")
        assert "failed" not in fine.text
        if dialect == "async":
            notice = bag.system_notice(turn=1)
            assert notice.count(", the tool said that it failed)\n") == 2
            assert "### Ready (1)\n- fine (id: " in notice


# Commands


@requirement("async:running-tail")
async def test_a_command_is_kept_as_it_comes_and_its_exit_code_is_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        fine = await bag.run(Command([sys.executable, "-c", "print('hello')"]), tool="py")
        assert fine.content == "hello\n"
        failed = await bag.run(Command([sys.executable, "-c", "print('oh'); raise SystemExit(3)"]), tool="py")
        assert failed.is_error
        assert failed.content == "oh\n\n[exit code 3]"
        with pytest.raises(UsageError, match="a command is a list of words"):
            Command("echo hi")
        with pytest.raises(UsageError, match="this one has no words"):
            Command([])
        missing = await bag.run(Command(["/nowhere/at/all"]), tool="py")
        assert missing.is_error
        large = await bag.run(Command([sys.executable, "-c", "print('x' * 200_000)"]), tool="py")
        assert isinstance(large, Kept)
        assert large.artifact.measure.bytes == 200_001


def _breaks(first: str | bytes) -> Iterator[str | bytes]:
    yield first
    raise OSError("gone")


@requirement("way:policy-always-stored", "measure:bytes-as-they-came")
@pytest.mark.parametrize(
    ("call", "own", "ends", "code"),
    [
        (Command(["sh", "-c", "printf '\\377\\000\\001PNG'; exit 2"]), b"\xff\0\1PNG", "exit code 2", 2),
        (Command(["sh", "-c", "printf '{}'; exit 4"]), b"{}", "exit code 4", 4),
        (Command(["sh", "-c", "echo hi; kill -9 $$"]), b"hi\n", "killed by SIGKILL", -9),
        (Command(["false"]), b"", "exit code 1", 1),
        (functools.partial(_breaks, "row 1\n"), b"row 1\n", "OSError: gone", None),
        (functools.partial(_breaks, b"\xff\0"), b"\xff\0", "OSError: gone", None),
    ],
)
async def test_how_a_call_failed_stands_behind_what_is_shown_and_in_no_stored_byte(
    tmp_path: Path, call: Any, own: bytes, ends: str, code: int | None
) -> None:
    async with opened(tmp_path, tools={"t": ToolPolicy(store="always")}) as bag:
        taken = [await bag.run(call, tool="t")]
        taken += [] if isinstance(call, Command) else [await bag.take(call(), tool="t")]
        for one in taken:
            assert isinstance(one, Kept)
            assert one.is_error
            assert ends in one.text
            facts = await bag.fetch.recorded(one.handle)
            assert (await whole(bag, one.handle), facts.state, facts.error, facts.exit_code) == (
                own,
                "failed",
                ends,
                code,
            )


async def test_what_is_shown_of_a_call_that_failed_in_the_background_ends_as_it_would_at_once(tmp_path: Path) -> None:
    async with fast_clock(tmp_path) as bag:
        for script, told in (
            ("echo building; sleep 0.3; exit 3", "building\n\n[exit code 3]"),
            ("sleep 0.3; exit 3", "[exit code 3]"),
        ):
            running = await bag.run(Command(["sh", "-c", script]), tool="make")
            await bag.wait(_handle(running))
            shown = await bag.fetch.shown(_handle(running))
            assert (shown.text, shown.is_error) == (told, True)


async def test_rows_of_sqlite_that_a_plain_function_returns_are_read_where_they_may_be(tmp_path: Path) -> None:
    def rows(limit: int) -> Iterator[dict[str, int]]:
        base = sqlite3.connect(":memory:")
        return ({"n": n} for (n,) in base.execute("select 1 union select ?", (limit,)))

    async with opened(tmp_path) as bag:
        assert (await bag.run(rows, tool="rows", arguments={"limit": 2})).text.splitlines() == ['{"n": 1}', '{"n": 2}']


@requirement("async:abort")
async def test_a_command_that_was_ended_once_runs_again_and_beside_itself(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = (
        "import os, sys, time\nprint('begun', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    )
    command = Command([sys.executable, "-c", script, str(gate)])
    async with fast_clock(tmp_path) as bag:
        first, second = [await bag.run(command, tool="py") for _ in range(2)]
        assert isinstance(first, Running)
        assert isinstance(second, Running)
        await bag.jobs.abort(first.handle)
        gate.touch()
        await bag.wait(second.handle)
        assert [(await bag.show(one.handle)).state for one in (first, second)] == ["cancelled", "ready"]
        again = await bag.run(command, tool="py")
        handle = again.handle if isinstance(again, Running) else ""
        if handle:
            await bag.wait(handle)
        assert ((await bag.show(handle)).state if handle else again.text) in ("ready", "begun\n")


@requirement("async:abort", "async:grace-keeps-output", "api:stop-abort")
async def test_abort_ends_a_command_and_keeps_what_it_wrote(tmp_path: Path) -> None:
    script = "import sys, threading; print('begun', flush=True); threading.Event().wait()"
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(Command([sys.executable, "-c", script]), tool="py")
        assert isinstance(taken, Running)
        assert (await bag.wait(taken.handle, pattern="begun")).matched == taken.handle
        await bag.abort()
        facts = await bag.show(taken.handle)
        assert (facts.state, facts.error) == ("cancelled", "cancelled")
        assert (await bag.read(taken.handle)).text.strip() == "begun"


@requirement("async:abort", "api:stop-abort")
async def test_one_call_is_cancelled_by_its_handle_and_the_others_go_on(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def held() -> str:
        await gate.wait()
        return "done"

    async with fast_clock(tmp_path) as bag:
        first, second = [await bag.run(held, tool=name) for name in ("a", "b")]
        assert isinstance(first, Running)
        assert isinstance(second, Running)
        await bag.abort(first.handle, why="the user pressed stop")
        await bag.jobs.abort(first.handle, why="again")  # it has ended, and stays as it is
        assert [(await bag.show(one.handle)).state for one in (first, second)] == ["cancelled", "running"]
        assert (await bag.show(first.handle)).error == "the user pressed stop"
        assert not bag.jobs.is_stopping
        gate.set()
        assert (await bag.wait(second.handle)).ended[0].state == "ready"
        async with opened(tmp_path) as other:
            writer = await bag.jobs.begin(tool="c")
            with pytest.raises(UsageError, match=f"output {writer.handle} is no call of this process"):
                await other.abort(writer.handle)
            writer.finish()


async def test_a_command_that_ignores_the_signal_is_ended_all_the_same(tmp_path: Path) -> None:
    script = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
        "threading.Event().wait()"
    )
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(Command([sys.executable, "-c", script]), tool="py")
        assert isinstance(taken, Running)
        await bag.wait(taken.handle, pattern="deaf")
        await bag.abort()
        assert (await bag.show(taken.handle)).state == "cancelled"


# Waiting


@requirement("async:wait-any", "async:wait-handle", "async:wait-all", "async:no-polling", "api:wait")
async def test_a_wait_is_for_any_for_one_or_for_all(tmp_path: Path) -> None:
    calls = [Slow(f"result {n}") for n in range(3)]
    async with fast_clock(tmp_path) as bag:
        handles = [_handle(await bag.run(call, tool=f"t{n}")) for n, call in enumerate(calls)]
        waiting = asyncio.ensure_future(bag.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        calls[1].end.set()
        first = await waiting
        assert [facts.handle for facts in first.ended] == [handles[1]]
        assert [one.handle for one in first.running] == [handles[0], handles[2]]
        one = asyncio.ensure_future(bag.wait(handles[2]))
        calls[0].end.set()
        await bag.jobs.table.race(bag.jobs.calls[handles[0]].job, None)
        assert not one.done()
        calls[2].end.set()
        assert [facts.handle for facts in (await one).ended] == [handles[2]]
        assert [facts.handle for facts in (await bag.wait(all=True)).ended] == [handles[0]]
        assert (await bag.wait()).ended == ()


@requirement("async:wait-any")
@pytest.mark.parametrize("dialect", ["holdall", "async"])
async def test_what_a_model_has_read_since_it_ended_is_no_news_for_a_wait(tmp_path: Path, dialect: str) -> None:
    first, second = Slow("of the first"), Slow("of the second")
    async with fast_clock(tmp_path, dialect=dialect) as bag:
        handles = [_handle(await bag.run(call, tool="agent")) for call in (first, second)]
        first.end.set()
        await bag.jobs.ended(handles[:1])
        read = (
            ("context_read", {"handle": handles[0]})
            if dialect == "holdall"
            else ("get_tool_output", {"id": handles[0], "mode": "raw"})
        )
        assert "of the first" in (await bag.call(*read)).text
        waiting = asyncio.ensure_future(bag.call("wait_for_tool_output", {}))
        second.end.set()
        told = (await waiting).text
        assert bag.core.handle_of(await bag.show(handles[1])) in told
        assert bag.core.handle_of(await bag.show(handles[0])) not in told


@requirement("async:wait-bounded", "async:wait-timeout", "async:wait-nothing")
async def test_a_wait_is_bounded_and_says_what_still_runs(tmp_path: Path) -> None:
    call = Slow()
    async with fast_clock(tmp_path, wait_max_seconds=0.01, grace_seconds=0.0) as bag:
        assert (await bag.call("wait_for_tool_output", {})).text == "No async tools running."
        taken = await bag.run(call, tool="crawl")
        assert isinstance(taken, Running)
        answer = await bag.call("wait_for_tool_output", {"timeout": 999})
        assert answer.text.startswith(f"Still running:\n- crawl (id: {taken.handle}, running 0.")
        assert (await bag.wait(taken.handle, timeout=0)).timed_out


@requirement("async:wait-any", "async:wait-all", "async:no-polling", "gateway:one-session")
async def test_a_wait_is_also_for_what_others_run_in_the_same_session(tmp_path: Path) -> None:
    first, second, own = Slow(), Slow(), Slow()
    async with fast_clock(tmp_path) as other, fast_clock(tmp_path) as bag:
        before = _handle(await other.run(first, tool="first"))
        waiting = asyncio.ensure_future(bag.wait())
        first.end.set()
        waited = await waiting
        assert [facts.handle for facts in waited.ended] == [before]
        again = _handle(await other.run(second, tool="second"))
        mine = _handle(await bag.run(own, tool="own"))
        waited = await bag.wait(timeout=0)
        assert (waited.ended, [one.handle for one in waited.running]) == ((), [mine, again])
        waiting = asyncio.ensure_future(bag.wait(all=True))
        own.end.set()
        await bag.wait(mine)
        assert not waiting.done()
        second.end.set()
        waited = await waiting
        assert ([facts.handle for facts in waited.ended], waited.running) == ([again], ())
        assert (await bag.wait()).ended == ()
    async with fast_clock(tmp_path) as later:
        assert (await later.wait()).ended == (), "what ended before it was opened is no news"


@requirement("async:wait-brings-output", "ledger:shown")
async def test_a_wait_brings_what_has_ended_or_its_notice_as_often_as_it_is_named(tmp_path: Path) -> None:
    calls = {"small": Slow("three\nwords here\n"), "large": Slow(LOG), "failed": Slow(ValueError("no such page"))}
    async with fast_clock(tmp_path) as bag:
        handles = {name: _handle(await bag.run(call, tool=name)) for name, call in calls.items()}
        for call in calls.values():
            call.end.set()
        await bag.jobs.table.wait([one.job for one in bag.jobs.calls.values()], seconds=None, wait_for_all=True)

        async def waited(**arguments: Any) -> str:
            return (await bag.call("wait_for_tool_output", arguments)).text

        small = handles["small"]
        for _ in range(2):  # the second one ended before
            text = await waited(handle=small)
            tag = text.partition("\n<")[2].partition(">")[0]
            assert text == (
                f"Ended:\n- small (handle: {small}, 17 bytes, 2 lines)\n<{tag}>\nthree\nwords here\n</{tag}>"
            )
        assert bag.core.journal.coverage(small).share(17) == 1
        large = await waited(handle=handles["large"])
        notice = await bag.preview.notice(handles["large"])
        assert large.splitlines()[2] == notice.splitlines()[0]
        assert large.splitlines()[-1] == notice.splitlines()[-1]
        assert 0 < bag.core.journal.coverage(handles["large"]).share(len(LOG)) < 0.1
        failed = f"Ended:\n- failed (handle: {handles['failed']}, 0 bytes, 0 lines, failed: ValueError: no such page)"
        assert await waited(handle=handles["failed"]) == failed
        assert await waited() == "No async tools running."


@requirement("async:wait-brings-output", "async:wait-any")
async def test_an_answer_to_a_wait_is_bounded_however_much_has_ended(tmp_path: Path) -> None:
    calls = [Slow(f"{at:04} {'words ' * 1000}\n") for at in range(30)]
    async with fast_clock(tmp_path, max_background_calls=30) as bag:
        handles = [_handle(await bag.run(call, tool="t")) for call in calls]
        for call in calls:
            call.end.set()
        answer = await bag.call("wait_for_tool_output", {"all": True})
        assert len(answer.text.encode()) <= bag.settings.answer_max_bytes
        assert bag.core.count(answer.text) <= bag.settings.answer_max_tokens
        assert "- … 10 more: context_read() lists them" in answer.text
        assert answer.text.count("</") >= 2  # some whole, some as notices, the others by name
        assert all(f"(handle: {handle}, " in answer.text for handle in handles[:20])
        assert answer.text.splitlines()[-1].startswith("Next: context_tail(")


@requirement("async:messages-bounded", "async:messages-are-no-output")
async def test_of_the_messages_of_a_call_the_last_are_held_each_on_one_line(tmp_path: Path) -> None:
    call = Slow("output")
    async with fast_clock(tmp_path) as bag:
        messages = bag.jobs.messages("crawl")
        messages.add("before it is slow")
        handle = _handle(await bag.run(call, tool="crawl", messages=messages))
        assert (await bag.read(handle)).text == "before it is slow\n"
        messages.add("two\nlines \x1b[2J" + "x" * 10_000_000)
        last = (await bag.tail(handle, 1)).text
        assert last.startswith("two\\nlines \\x1b[2Jxxx")
        assert len(last) == 501
        for number in range(50_000):
            messages.add(f"message {number}")
        found = await bag.read(handle, bounded=False)
        lines = found.text.splitlines()
        assert len(found.data) <= 65 * 1024
        assert lines[0] == f"[{50_002 - len(lines) + 1:,} earlier messages left out]"
        assert lines[-1] == "message 49999"
        assert (await bag.grep(handle, "message 49998")).total == 1
        answer = await bag.call("context_tail", {"handle": handle, "lines": 1})
        assert "no output yet: these are its messages so far" in answer.text
        assert bag.core.journal.coverage(handle).share(6) == 0
        call.end.set()
        assert [facts.measure.bytes for facts in (await bag.wait(handle)).ended] == [6]
        assert (await bag.read(handle)).text == "output"
        messages.add("too late")
        assert (await bag.read(handle)).text == "output"


@requirement("async:running-messages")
async def test_another_process_reads_the_messages_and_they_stay_where_nothing_else_came(tmp_path: Path) -> None:
    call = Slow(ValueError("broke"))
    async with fast_clock(tmp_path) as bag, opened(tmp_path) as other:
        messages = bag.jobs.messages()
        handle = _handle(await bag.run(call, messages=messages))
        messages.add("one")
        await asyncio.to_thread(messages.write)
        assert (await other.read(handle)).notes == ("no output yet: these are its messages so far",)
        messages.add("two")
        call.end.set()
        await bag.wait(handle)
        for reader in (bag, other):
            found = await reader.read(handle)
            assert found.text == "one\ntwo\n"
            assert found.notes == ("it gave no output: these are its last messages", "failed: ValueError: broke")
        assert b"".join([chunk async for chunk in other.fetch.stream(handle)]) == b""


@requirement("async:wait-pattern")
async def test_a_wait_for_a_pattern_ends_when_it_is_written_even_bit_by_bit(tmp_path: Path) -> None:
    parts: asyncio.Queue[str | None] = asyncio.Queue()

    async def build() -> AsyncIterator[str]:
        while (part := await parts.get()) is not None:
            yield part

    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(build, tool="make")
        assert isinstance(taken, Running)
        waiting = asyncio.ensure_future(
            bag.call("wait_for_tool_output", {"handle": taken.handle, "pattern": "err[o]r: 7"})
        )
        for part in ("compiling\n", "er", "ror", ": "):
            parts.put_nowait(part)
        parts.put_nowait("7 things\n")
        assert (await waiting).text.startswith(f"The pattern is in what {taken.handle} has written.")
        never = asyncio.ensure_future(bag.wait(taken.handle, pattern="nothing like it"))
        parts.put_nowait(None)
        assert (await never).matched == ""
        refused = await bag.call("wait_for_tool_output", {"pattern": "x"})
        assert refused.is_error


@requirement("async:wait-pattern")
async def test_a_tool_that_writes_all_the_time_is_looked_at_now_and_then_and_at_its_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: asyncio.Queue[str | None] = asyncio.Queue()
    loop, looked, written, looks = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event(), list[bool]()
    look = PatternWatch.found

    def counted(self: PatternWatch, reader: OutputReader) -> bool:
        looks.append(look(self, reader))
        loop.call_soon_threadsafe(looked.set)
        return looks[-1]

    def heard() -> None:
        loop.call_soon_threadsafe(written.set)

    async def build() -> AsyncIterator[str]:
        while (part := await parts.get()) is not None:
            yield part

    monkeypatch.setattr(PatternWatch, "found", counted)
    monkeypatch.setattr(grep_module, "_GAP", 3600.0)
    async with fast_clock(tmp_path) as bag:
        handle = _handle(await bag.run(build, tool="make"))
        sink = bag.jobs.calls[handle].sink
        sink.listeners = (*sink.listeners, heard)
        parts.put_nowait("begun\n")
        await written.wait()
        waiting = asyncio.ensure_future(bag.wait(handle, pattern="done"))
        await looked.wait()
        for _ in range(20):
            written.clear()
            parts.put_nowait("still at it\n")
            await written.wait()
        parts.put_nowait("done\n")
        parts.put_nowait(None)
        assert (await waiting).matched == handle
        assert looks == [False, True]


# Slots


@requirement("async:running-read")
async def test_every_answer_about_an_output_that_is_being_written_says_so(tmp_path: Path) -> None:
    end, wrote = asyncio.Event(), asyncio.Semaphore(0)

    async def lines(writer: Writer) -> None:
        writer.write('{"a": 1}\n' * 1000)
        wrote.release()
        await end.wait()

    async def document(writer: Writer) -> None:
        writer.write('{"items": [1, 2, ')
        wrote.release()
        await end.wait()

    async with fast_clock(tmp_path) as bag:
        first = _handle(await bag.run(lines, tool="lines"))
        second = _handle(await bag.run(document, tool="document"))
        await wrote.acquire()
        await wrote.acquire()
        asked = {"handle": first, "path": "$..late"}
        assert (await bag.call("context_query", asked)).text == (
            "0 values · The output is still being written; these are its first 9,000 bytes. · Nothing below $ is 'late'."
        )
        asked = {"handle": second, "path": "$.late"}
        assert (await bag.call("context_query", asked)).text == (
            "The output is still being written: it ends at byte 17, where a closing bracket is expected. "
            "No value of the path stands before that."
        )
        listed = (await bag.call("context_read", {})).text.split("\n")[1:]
        assert [line.partition("  ")[2] for line in listed] == [
            '"document" · 17 bytes so far · running', '"lines" · 9,000 bytes so far · running',
        ]  # fmt: skip
        end.set()


@requirement("async:slots", "async:queued-says-so", "async:from-dispatch")
async def test_only_so_many_run_at_once_and_the_rest_say_that_they_are_queued(tmp_path: Path) -> None:
    calls = [Slow(f"result {n}") for n in range(4)]
    async with fast_clock(tmp_path, max_background_calls=2) as bag:
        taken = [await bag.run(call, tool=f"t{n}") for n, call in enumerate(calls)]
        assert all(isinstance(one, Running) for one in taken)
        assert [call.started.is_set() for call in calls] == [True, True, False, False]
        assert "is queued: other calls run already" in taken[2].content
        listed = (await bag.call("context_read", {})).text.splitlines()[1:]
        assert [line.rpartition(" · ")[2] for line in reversed(listed)] == ["running", "running", "queued", "queued"]
        assert [facts.state for facts in await bag.outputs()] == ["running", "running", "queued", "queued"]
        assert [(await bag.show(_handle(one))).state for one in taken[1:3]] == ["running", "queued"]
        read = [(await bag.call("context_read", {"handle": _handle(one)})).text for one in taken[1:3]]
        assert ["still running; 0 bytes so far" in one for one in read] == [True, False]
        assert "queued: other calls run already" in read[1]
        calls[0].end.set()
        await calls[2].started.wait()
        assert not calls[3].started.is_set(), "in the order of their dispatch"
        for call in calls:
            call.end.set()
        assert len((await bag.wait(all=True)).ended) == 4


# Ends of all kinds


@requirement("async:timeout")
async def test_a_call_that_takes_too_long_has_timed_out_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    async def endless(writer: Writer) -> None:
        writer.write("so far\n")
        await asyncio.Event().wait()

    async with fast_clock(tmp_path, tool_timeout_seconds=0.05) as bag:
        taken = await bag.run(endless, tool="crawl")
        assert isinstance(taken, Running)
        (facts,) = (await bag.wait()).ended
        assert (facts.state, facts.error) == ("timed out", "timed out after 0.05s")
        found = await bag.read(taken.handle)
        assert (found.text, found.notes) == ("so far\n", ("timed out after 0.05s",))
    async with opened(tmp_path, tool_timeout_seconds=0.05) as bag:
        late = await bag.run(endless, tool="crawl")
        assert late.is_error
        assert late.content == "so far\n\n[timed out after 0.05s]"


async def test_a_call_that_fails_in_the_background_says_how(tmp_path: Path) -> None:
    call = Slow(ValueError("no such host"))
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(call, tool="ping")
        assert isinstance(taken, Running)
        call.end.set()
        (facts,) = (await bag.wait()).ended
        assert (facts.state, facts.error) == ("failed", "ValueError: no such host")
        assert "failed: ValueError: no such host" in (await bag.call("context_read", {"handle": taken.handle})).text


@requirement("way:nothing-lost-silently")
@pytest.mark.parametrize("written", ["", "what it wrote"])
@pytest.mark.parametrize(
    ("error", "reason", "output"),
    [
        (RuntimeError("build failed:\na.c:1: E1\nsee above"), "build failed:", "a.c:1: E1\nsee above"),
        (RuntimeError("x" * 600), "x" * 400, "x" * 600),
        (
            ExceptionGroup("two", [ValueError("no host"), OSError("no disk")]),
            "two (2 sub-exceptions)",
            "OSError: no disk",
        ),
        (SystemExit("not\nso"), "the tool raised SystemExit: not", "so"),
    ],
    ids=["lines", "long", "group", "exit"],
)
async def test_an_error_of_more_than_a_line_is_the_output_of_its_call(
    tmp_path: Path, error: BaseException, reason: str, output: str, written: str
) -> None:
    end = asyncio.Event()

    async def build(writer: Writer) -> object:
        if written:
            writer.write(written)
        await end.wait()
        raise error

    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(build, tool="build")
        assert isinstance(taken, Running)
        end.set()
        (facts,) = (await bag.wait()).ended
        assert facts.state == "failed"
        assert reason in facts.error
        assert "\n" not in facts.error
        text = (await bag.read(taken.handle)).text
        assert text.startswith(written)
        assert text.endswith(output)


@requirement("async:grace", "async:grace-keeps-output", "api:leaving-ends-session")
async def test_leaving_the_session_gives_grace_then_cancels_and_keeps(tmp_path: Path) -> None:
    quick, endless = Slow("done"), Slow()
    async with fast_clock(tmp_path, grace_seconds=0.05) as bag:
        first, second = await bag.run(quick, tool="a"), await bag.run(endless, tool="b")
        assert isinstance(first, Running)
        assert isinstance(second, Running)
        quick.end.set()
    assert endless.cancelled
    async with opened(tmp_path) as bag:
        assert (await bag.show(first.handle)).state == "ready"
        assert (await bag.read(first.handle)).text == "done"
        assert (await bag.show(second.handle)).state == "cancelled"


@requirement("async:stop", "api:stop-abort")
async def test_stop_lets_what_runs_finish_and_offers_no_tools(tmp_path: Path) -> None:
    call = Slow("done")
    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(call, tool="a")
        assert isinstance(taken, Running)
        assert bag.tools()
        await bag.stop()
        assert bag.tools() == ()
        call.end.set()
        await bag.wait(taken.handle)
        assert (await bag.read(taken.handle)).text == "done"


async def test_a_call_that_swallows_its_cancellation_is_left_alone_and_counts_as_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.background.CLEAN_UP_SECONDS", 0.02)
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with fast_clock(tmp_path) as bag:
        taken = await bag.run(stubborn, tool="a")
        assert isinstance(taken, Running)
        await bag.abort()
        assert (await bag.show(taken.handle)).state == "cancelled"
        release.set()
        await asyncio.sleep(0)
        assert (await bag.show(taken.handle)).measure.bytes == 0, "what comes too late is dropped"


@pytest.mark.parametrize("why", ["", "the user pressed stop"])
async def test_when_all_calls_are_aborted_those_who_wait_for_one_are_told_and_go_on(tmp_path: Path, why: str) -> None:
    writing, silent = asyncio.Event(), Slow()

    async def writes(writer: Any) -> None:
        writer.write("as far as it came\n")
        writing.set()
        await asyncio.Event().wait()

    async def done() -> str:
        return LOG

    async def agent(bag: Holdall) -> list[Any]:
        async with bag.turn(window=100_000) as turn:
            calls = [turn.run(call, tool="t") for call in (done, writes, silent)]
        return [call.result for call in calls]

    async with opened(tmp_path) as bag:
        task = asyncio.ensure_future(agent(bag))
        await writing.wait()
        await silent.started.wait()
        await bag.jobs.abort(why=why)
        whole, part, nothing = await task
        assert isinstance(whole, Kept)
        assert not whole.is_error
        assert isinstance(part, Kept)
        assert (part.artifact.state, part.artifact.error, part.is_error) == ("cancelled", why or "cancelled", True)
        assert "It is not whole (cancelled" in part.text
        assert (await bag.read(part.handle)).text == "as far as it came\n"
        assert nothing.is_error
        assert ("cancelled: " + why if why else "cancelled") in nothing.text
        assert (await bag.counters()).kept == len(await bag.outputs())


async def test_a_thousand_cancellations_at_once_end_everything(tmp_path: Path) -> None:
    calls = [Slow() for _ in range(1000)]
    async with fast_clock(tmp_path, max_background_calls=1000, slow_after_seconds=60.0) as bag:
        runs = [asyncio.ensure_future(bag.run(call, tool="a")) for call in calls]
        for call in calls:
            await call.started.wait()
        for run in runs:
            run.cancel()
        results = await asyncio.gather(*runs, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert not bag.jobs.table.unfinished
        assert all(call.cancelled for call in calls)


async def test_where_the_store_refuses_a_slow_call_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    call = Slow(LOG)
    async with fast_clock(tmp_path) as bag:
        monkeypatch.setattr(type(bag.store), "begin", refused)
        monkeypatch.setattr(type(bag.store), "put", refused)
        running = asyncio.ensure_future(bag.run(call, tool="a"))
        await call.started.wait()
        call.end.set()
        taken = await running
        assert isinstance(taken, Unkept)
        assert "No space left on device" in taken.content


@requirement("store:disk-full")
@pytest.mark.parametrize("background", [True, False])
async def test_an_output_of_which_the_store_took_only_a_part_says_so(tmp_path: Path, background: bool) -> None:
    def writes() -> Iterator[str]:
        for _ in range(30):
            yield "a line of ten thousand bytes".ljust(9_999) + "\n"

    async with opened(tmp_path, session_quota_bytes=100_000) as bag:
        taken = await bag.run(writes, tool="a", background=background)
        if isinstance(taken, Running):
            (facts,) = (await bag.wait(taken.handle)).ended
        else:
            assert isinstance(taken, Kept)
            assert (
                "It is not whole (interrupted: not all of it is kept: 200,000 more bytes are gone: the" in taken.content
            )
            assert "); its beginning is kept." in taken.content
            facts = taken.artifact
        assert (facts.state, facts.measure.bytes) == ("interrupted", 100_000)
        lost = "not all of it is kept: 200,000 more bytes are gone: the quota of this session is 100.0 kB"
        assert facts.error.startswith(lost)


@requirement("store:disk-full")
@pytest.mark.parametrize("form", ["generator", "command", "writer"])
async def test_of_what_the_store_refuses_at_its_beginning_more_is_shown_than_it_took(tmp_path: Path, form: str) -> None:
    def lines() -> Iterator[str]:
        yield from (f"line {number}\n" for number in range(30_000))

    async def writes(writer: Writer) -> str:
        for line in lines():
            writer.write(line)
        return "and a result"

    prints = Command([sys.executable, "-c", "for number in range(30_000): print('line', number)"])
    call: Any = {"generator": lines, "command": prints, "writer": writes}[form]
    async with opened(tmp_path, session_quota_bytes=100) as bag:
        taken = await bag.run(call, tool="a")
        assert isinstance(taken, Unkept)
        assert isinstance(taken.fault, QuotaReached)
        assert "line 0\nline 1\n" in taken.text
        assert "line 1000\n" in taken.text
        assert "the rest was not kept and is gone: the quota of this session is 100 B" in taken.text
        assert [facts.state for facts in await bag.outputs()] == ["expired"]  # its beginning, which nobody saw


@requirement("store:disk-full")
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize(
    ("dialect", "told"),
    [
        ("clamp", "[not all of it is kept; handle: "),
        ("refs", "too large to be shown here; not all of it is kept.\n"),
        ("extract", "not all of it is kept: 200,000 more "),
        ("holdall", "It is not whole ("),
    ],
)
async def test_a_part_is_not_told_as_the_whole_and_a_failure_stays_one(
    tmp_path: Path, dialect: str, told: str, fails: bool
) -> None:
    def writes() -> Iterator[str]:
        for _ in range(30):
            yield "a line of ten thousand bytes".ljust(9_999) + "\n"
        if fails:
            raise ValueError("no host")

    async with opened(tmp_path, session_quota_bytes=100_000, dialect=dialect) as bag:
        taken = await bag.run(writes, tool="a")
        assert isinstance(taken, Kept)
        assert taken.is_error is fails
        assert ("ValueError: no host" in taken.text) is fails
        assert "not all of it is kept" in taken.text
        assert "; all of it is kept" not in taken.text
        assert "[all of it is kept" not in taken.text
        assert told in taken.text


async def test_an_output_whose_end_the_store_refuses_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Slow(LOG)
    async with fast_clock(tmp_path) as bag:
        running = await bag.run(call, tool="a")
        assert isinstance(running, Running)

        def refused(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(LiveWriter, "finish", refused)
        call.end.set()
        (facts,) = (await bag.wait(running.handle)).ended
        assert facts.state == "interrupted"
        assert facts.measure.bytes == len(LOG)


@requirement("store:disk-full")
async def test_an_output_whose_end_has_no_room_on_the_disk_is_told_with_its_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been written stands on the disk: it is what a model gets, and not a remark that all is gone."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def writes() -> Iterator[str]:
        for number in range(9_000):
            yield f"line {number}\n"

    async with opened(tmp_path) as bag:
        monkeypatch.setattr(LiveWriter, "finish", refused)
        taken = await bag.run(writes, tool="a")
        assert isinstance(taken, Kept)
        assert "It is not whole (interrupted" in taken.content
        assert (await bag.read(taken.handle, lines="8999:9000")).text == "line 8998\nline 8999\n"


# Turns, events, notices


async def test_a_turn_closes_when_every_call_has_ended_or_gone_to_the_background(tmp_path: Path) -> None:
    slow = Slow(LOG)
    async with fast_clock(tmp_path) as bag:
        async with bag.turn(tokens_left=10_000) as turn:
            background, inline = turn.run(slow, tool="slow"), turn.take(SMALL)
        assert isinstance(background.result, Running)
        assert inline.content is SMALL
        slow.end.set()
        await bag.wait()


@requirement("async:completion-event", "api:events")
async def test_events_wake_whoever_listens_each_exactly_once(tmp_path: Path) -> None:
    call = Slow("done")
    async with fast_clock(tmp_path) as bag:
        seen: list[str] = []

        async def listen() -> None:
            async for event in bag.events():
                seen.append(event.kind)
                if event.kind == "ended":
                    return

        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        taken = await bag.run(call, tool="a")
        assert isinstance(taken, Running)
        call.end.set()
        await listening
        assert seen == ["running", "ended"]


@requirement("api:events")
async def test_events_of_before_the_end_come_before_it(tmp_path: Path) -> None:
    seen: list[str] = []

    async def listen() -> None:
        async for event in bag.events():
            seen.append(event.tool)

    async with opened(tmp_path) as bag:
        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        for number in range(5):
            await bag.take("small", tool=f"t{number}")
    await asyncio.wait_for(listening, 30)
    assert seen == [f"t{number}" for number in range(5)]


async def test_what_is_not_found_in_a_running_call_is_told_with_that_it_runs(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        writer = await bag.jobs.begin(tool="export")
        runs = r" It is still running; {} bytes so far\."
        with pytest.raises(BadQuery, match=r"the output is empty.*" + runs.format(0)):
            await bag.query(writer.handle, path="$.a")
        writer.write(b'[{"a": 1}, {"a"')
        with pytest.raises(BadQuery, match="is not JSON.*" + runs.format(15)):
            await bag.query(writer.handle, "select * from t", at="$[1]")
        with pytest.raises(AnchorNotFound, match=r"can ignore case\." + runs.format(15)):
            await bag.slice(writer.handle, anchor="b")
        writer.finish()
        with pytest.raises(AnchorNotFound, match=r"Anchor not found in content: .* can ignore case\.$"):
            await bag.slice(writer.handle, anchor="b")


async def test_a_call_of_another_process_that_has_ended_is_not_listed_as_running(tmp_path: Path) -> None:
    async with opened(tmp_path) as one:
        writer = await one.jobs.begin(tool="ticker")
        async with opened(tmp_path) as other:
            await other.outputs()
            assert '"ticker" · not measured yet · running' in other.system_notice(turn=1, kept=True)
            writer.write(b"tick\n")
            writer.finish()
            assert '"ticker" · 5 bytes · 1 line (text)' in other.system_notice(turn=1, kept=True)


@requirement("watch:outputs-kept", "async:handle-from-the-start")
@pytest.mark.parametrize("queued", [False, True])
async def test_what_a_program_shows_of_a_running_call_is_its_notice_and_the_call_is_counted_once(
    tmp_path: Path, queued: bool
) -> None:
    before = Slow()
    async with fast_clock(tmp_path, max_background_calls=1 if queued else 8) as bag:
        await bag.run(before, tool="before")
        slow = Slow(LOG)
        running = await bag.run(slow, tool="crawl")
        shown = await bag.fetch.shown(_handle(running))
        assert shown == running
        assert ("queued" in shown.text) == queued
        before.end.set()
        slow.end.set()
        await bag.wait(all=True)
        told = await bag.counters()
        assert (told.background, told.kept, told.kept_bytes) == (2, 2, len(LOG) + len(SMALL))
        tree = bag.records.tree().to_json(with_outputs=True)
        assert [one["name"] for one in tree["children"]] == ["before", "crawl"], "to show it again is no call"
        assert tree["totals"]["tool_calls"] == 2
        assert isinstance(await bag.fetch.shown(_handle(running)), Kept)


@requirement("async:handle-from-the-start")
async def test_what_is_known_of_a_running_call_has_what_it_has_written_so_far(tmp_path: Path) -> None:
    written, end = asyncio.Event(), asyncio.Event()

    async def crawl(writer: Writer) -> None:
        writer.write("one\ntwo ä\n")
        written.set()
        await end.wait()

    async with fast_clock(tmp_path) as bag:
        handle = _handle(await bag.run(crawl, tool="crawl"))
        await written.wait()
        for facts in (await bag.show(handle), *await bag.outputs()):
            measure = facts.measure
            assert (facts.state, measure.bytes, measure.chars, measure.lines) == ("running", 11, 10, 2)
        end.set()
        await bag.wait(handle)
        assert [one.state for one in (await bag.show(handle), *await bag.outputs())] == ["ready"] * 2


@requirement("async:retrieval-count")
async def test_the_system_notice_lists_what_runs_what_is_ready_and_what_failed(tmp_path: Path) -> None:
    slow, done, broken = Slow(), Slow(LOG), Slow(ValueError("no"))
    async with fast_clock(tmp_path, dialect="async", grace_seconds=0.0) as bag:
        tools = ((slow, "a"), (done, "b"), (broken, "c"))
        _, ready, failed = [_handle(await bag.run(one, tool=name)) for one, name in tools]
        done.end.set()
        broken.end.set()
        await bag.wait(ready)
        await bag.wait(failed)
        shown = bag.system_notice(turn=2)
        assert "### Running (1)\n- a (id: " in shown
        assert "### Ready (1)\n- b (id: " in shown
        assert "tokens, exceeds threshold)" in shown
        assert "### Failed (1)\n- c (id: " in shown
        assert "ValueError: no)" in shown


@requirement("watch:outputs-kept")
async def test_counters_have_what_a_background_call_brought_and_one_wait_is_one_retrieval(tmp_path: Path) -> None:
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(LOG)
        await bag.run(slow, tool="crawl")
        slow.end.set()
        answer = await bag.call("wait_for_tool_output", {})
        told = await bag.counters()
        (facts,) = bag.core.kept.values()
        assert (told.background, told.kept, told.kept_bytes) == (1, 1, len(LOG))
        notice = answer.text[answer.text.index("crawl returned") :]
        assert told.tokens_kept_out == facts.measure.tokens - bag.core.count(notice)
        assert dict(told.retrievals) == {"wait": 1}
        waits = [event.seconds for event in bag.records.events() if event.data.get("verb") == "wait"]
        assert waits[0] > 0, "how long it was waited"
        assert not any(waits[1:]), "one wait, however many outputs it tells of"


@requirement("watch:outputs-kept")
async def test_what_a_program_shows_again_is_counted_as_kept_once_and_is_no_news(tmp_path: Path) -> None:
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(LOG)
        handle = _handle(await bag.run(slow, tool="crawl"))
        slow.end.set()
        await bag.wait(handle)
        out = [(await bag.counters()).tokens_kept_out]
        shown = [await bag.fetch.shown(handle) for _ in range(2)]
        told = await bag.counters()
        assert (told.kept, told.kept_bytes, dict(told.retrievals)) == (1, len(LOG), {"shown": 2})
        assert told.tokens_kept_out == out[0] - sum(bag.core.count(one.text) for one in shown)


@requirement("async:retrieval-count")
@pytest.mark.parametrize("way", ["read", "tool", "shown", "wait"])
async def test_a_failed_call_is_no_news_once_something_of_it_was_asked_for(tmp_path: Path, way: str) -> None:
    async with fast_clock(tmp_path) as bag:
        broken = Slow(ValueError("no"))
        handle = _handle(await bag.run(broken, tool="c"))
        broken.end.set()
        await bag.wait(handle)
        assert "### Failed (1)" in bag.system_notice(turn=2, only_news=True)
        if way == "read":
            await bag.read(handle)
        elif way == "tool":
            await bag.call("context_read", {"handle": handle})
        elif way == "shown":
            await bag.fetch.shown(handle)
        else:
            await bag.call("wait_for_tool_output", {"handle": handle})
        assert bag.system_notice(turn=3, only_news=True) == ""


async def _writes_and_fails(writer: Writer) -> None:
    writer.write("".join(f"line {n}\n" for n in range(9000)))
    raise ValueError("no host")


async def _writes_and_hangs(writer: Writer) -> None:
    writer.write("".join(f"line {n}\n" for n in range(9000)))
    await asyncio.Event().wait()


@pytest.mark.in_full(one_in=3)
@requirement("async:timeout")
@pytest.mark.parametrize("policy", ["oversized", "never"])
@pytest.mark.parametrize("dialect", ["async", "clamp", "extract", "holdall", "legacy", "refs"])
@pytest.mark.parametrize(
    ("call", "reason"), [(_writes_and_fails, "ValueError: no host"), (_writes_and_hangs, "timed out")]
)
async def test_a_call_that_wrote_much_and_failed_is_an_error_that_says_why(
    tmp_path: Path, dialect: str, policy: Any, call: Any, reason: str
) -> None:
    tools = {"b": ToolPolicy(store=policy, never_async=True)}
    seconds = 0.5 if call is _writes_and_hangs else 600.0
    async with opened(tmp_path, dialect=dialect, tools=tools, tool_timeout_seconds=seconds) as bag:
        taken = await bag.run(call, tool="b")
        assert taken.is_error
        reachable = taken.text
        if isinstance(taken, Kept) and dialect == "async":  # its notice has no place for it; its handle has
            reachable += (await whole(bag, taken.handle)).decode()[-100:] + taken.artifact.error
        assert reason in reachable
        if dialect == "legacy":
            assert taken.text.startswith("line 0\n")
            assert "bytes (" in taken.text
            assert "truncated" in taken.text
            assert "line 8999" in taken.text


@pytest.mark.parametrize("dialect", ["async", "extract", "holdall"])
async def test_an_answer_about_a_call_that_failed_says_so(tmp_path: Path, dialect: str) -> None:
    model = ScriptedModel(lambda _: "all is well", window=100_000)
    async with opened(tmp_path, dialect=dialect, slow_after_seconds=600, model=model) as bag:
        taken = await bag.run(_writes_and_fails, tool="b")
        assert isinstance(taken, Kept)
        names: dict[str, Any] = {"id": bag.core.shown_handle(taken.handle), "mode": "extract", "query": "is all well?"}
        asked = ("get_tool_output", names) if dialect == "async" else (
            "tool_output", {"handle": bag.core.shown_handle(taken.handle), "extract": "is all well?"}
        )  # fmt: skip
        answer = await bag.call(*asked)
        assert "of a call that did not end well (failed" in answer.text


async def test_a_slice_of_nothing_leads_nowhere(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async") as bag:
        handle = bag.core.shown_handle((await bag.keep(LOG)).handle)
        asked = {"id": handle, "mode": "slice", "slice": {"start": 0, "length": 0}}
        assert "Next" not in (await bag.call("get_tool_output", asked)).text


@requirement("async:same-handle-whole")
@pytest.mark.parametrize("meta", [{"page": 3}, {"next": "c" * 80}], ids=["short", "long"])
async def test_fields_for_a_client_of_a_result_that_went_on_in_the_background(tmp_path: Path, meta: object) -> None:
    """The text alone is behind the handle: JSON stays JSON. What stood beside it is told with it."""
    rows = json.dumps([{"n": at} for at in range(20_000)])
    came = {"content": [{"type": "text", "text": rows}], "isError": False, "_meta": meta}
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(came)
        handle = _handle(await bag.run(slow, tool="crawl"))
        slow.end.set()
        notice = (await bag.call("wait_for_tool_output", {})).text
        assert await whole(bag, handle) == rows.encode()
        if meta == {"page": 3}:
            assert 'other fields of the result are kept only here: {"_meta": {"page": 3}}' in notice
        else:
            other = notice.partition("other fields of the result are kept by themselves; handle: ")[2][:4]
            assert json.loads(await whole(bag, other)) == {"_meta": meta}


def _tool_message(text: str, **given: Any) -> object:
    messages = pytest.importorskip("langchain_core.messages", reason="LangChain is not installed here")
    return messages.ToolMessage(text, tool_call_id="a", **given)


@requirement("way:nothing-lost-silently")
async def test_what_an_object_of_a_framework_carries_is_kept_when_it_comes_in_the_background(tmp_path: Path) -> None:
    rows = [{"n": n} for n in range(1000)]
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(_tool_message("1000 rows", artifact=rows))
        handle = _handle(await bag.run(slow, tool="crawl"))
        slow.end.set()
        told = (await bag.call("wait_for_tool_output", {})).text
        assert await whole(bag, handle) == b"1000 rows"
        other = told.partition("other fields of the result are kept by themselves; handle: ")[2][:4]
        assert json.loads(await whole(bag, other)) == {"artifact": rows}


class Table:
    """As those of pandas, it is neither true nor false."""

    def __bool__(self) -> bool:
        raise ValueError

    def __repr__(self) -> str:
        return "n\n" + "1\n" * 100


@dataclass
class Returned:
    """As Pydantic AI has it."""

    return_value: object
    content: object
    metadata: object = None
    kind: str = "tool-return"


BESIDE: dict[str, tuple[object, object]] = {
    "Anthropic": (
        {
            "type": "tool_result",
            "tool_use_id": "x",
            "content": "ok",
            "is_error": True,
            "cache_control": {"a": "b" * 80},
        },
        {"cache_control": {"a": "b" * 80}},
    ),
    "OpenAI": (
        {"type": "function_call_output", "call_id": "c", "output": "ok", "status": "incomplete" * 9},
        {"status": "incomplete" * 9},
    ),
    "Pydantic AI": (
        Returned("ok", ["for the model"] * 9, {"rows": 3}),
        {"content": ["for the model"] * 9, "metadata": {"rows": 3}},
    ),
    "LangChain": (
        lambda: _tool_message("ok", artifact={"rows": [*range(1000)]}, response_metadata={"a": 1}),
        {"artifact": {"rows": [*range(1000)]}, "response_metadata": {"a": 1}},
    ),
    "a table": (lambda: _tool_message("ok", artifact=Table()), {"artifact": repr(Table())}),
}


@requirement("async:same-handle-whole")
@pytest.mark.parametrize(("came", "beside"), BESIDE.values(), ids=BESIDE)
async def test_what_only_a_framework_reads_of_a_result_is_kept_with_it(
    tmp_path: Path, came: object, beside: object
) -> None:
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(came() if callable(came) else came)
        handle = _handle(await bag.run(slow, tool="crawl"))
        slow.end.set()
        notice = (await bag.call("wait_for_tool_output", {})).text
        assert await whole(bag, handle) == b"ok"
        other = notice.partition("other fields of the result are kept by themselves; handle: ")[2][:4]
        assert json.loads(await whole(bag, other)) == beside


@requirement("async:same-handle-whole")
@pytest.mark.parametrize(
    "came",
    [
        {"content": [{"type": "text", "text": "ok"}], "isError": False, "resultType": "complete"},
        {"toolResult": {"toolUseId": "u", "content": [{"text": "ok"}], "status": "success"}},
        lambda: _tool_message("ok", name="crawl", id="b"),
        Returned("ok", []),
    ],
)
async def test_what_says_nothing_beside_a_text_is_not_told(tmp_path: Path, came: object) -> None:
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        slow = Slow(came() if callable(came) else came)
        handle = _handle(await bag.run(slow, tool="crawl"))
        slow.end.set()
        (ended,) = (await bag.wait(handle)).ended
        assert (await whole(bag, handle), ended.measure.notes) == (b"ok", ())


@requirement("async:crash-interrupted", "async:never-run-twice")
async def test_a_session_whose_process_died_finds_its_calls_interrupted(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, sys\nfrom holdall import Holdall, Settings\n"
        "async def call(writer):\n    writer.write('so far\\n')\n    print('ready', flush=True)\n    await asyncio.Event().wait()\n"
        "async def main():\n"
        "    bag = Holdall.open(home=sys.argv[1], session='s1', settings=Settings(slow_after_seconds=0.0))\n"
        "    await bag.run(call, tool='crawl')\n    print('running', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "home"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    said = {(await process.stdout.readline()).strip(), (await process.stdout.readline()).strip()}
    assert said == {b"ready", b"running"}
    process.kill()
    await process.wait()
    async with opened(tmp_path) as bag:
        (facts,) = await bag.outputs()
        assert facts.state == "interrupted"
        told = bag.system_notice(turn=1, only_news=True)
        assert f"### Failed (1)\n- crawl (id: {facts.handle}, its writer ended before it did; " in told
        assert (await bag.read(facts.handle)).text == "so far\n"
        assert not bag.system_notice(turn=2, only_news=True), "a model has looked at it"
        assert not bag.jobs.calls, "nothing is run again by itself"


# The hostile inputs of this area


async def test_a_group_of_a_thousand_errors_is_stored_in_full(tmp_path: Path) -> None:
    def fail() -> None:
        raise ExceptionGroup("g", [ValueError("x" * 5000) for _ in range(1000)])

    async with opened(tmp_path) as bag:
        taken = await bag.run(fail, tool="t")
        assert isinstance(taken, Kept)
        assert taken.is_error
        assert taken.artifact.measure.bytes > 5_000_000
        assert bag.core.count(taken.content) <= 500


async def test_a_call_that_ends_exactly_at_the_deadline_is_either_inline_or_running_never_both(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    deadline = 0.002

    def call(number: int) -> Any:
        async def ends() -> str:
            done: asyncio.Future[str] = loop.create_future()
            loop.call_later(deadline + (number % 21 - 10) / 10_000, done.set_result, f"result {number}")
            return await done

        return ends

    async with opened(tmp_path, slow_after_seconds=deadline, max_background_calls=1000) as bag:
        taken = await asyncio.gather(*(bag.run(call(n), tool=f"t{n}") for n in range(200)))
        await bag.wait(all=True)
        inline = {one.content for one in taken if isinstance(one, Inline)}
        kept = {one.handle for one in taken if isinstance(one, Running)}
        assert len(inline) + len(kept) == 200
        assert {facts.handle for facts in await bag.outputs()} == kept
        later = {(await bag.read(handle)).text for handle in kept}
        assert inline | later == {f"result {n}" for n in range(200)}
        assert not inline & later


@requirement("async:crash-interrupted")
async def test_fifty_calls_of_a_killed_process_are_all_interrupted_with_what_they_wrote(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom holdall import Holdall, Settings\n"
        "def call(number):\n"
        "    async def write(writer):\n        writer.write(f'part {number}')\n        await asyncio.Event().wait()\n"
        "    return write\n"
        "async def main():\n"
        "    settings = Settings(slow_after_seconds=0.0, max_background_calls=50)\n"
        "    bag = Holdall.open(home=sys.argv[1], session='s1', settings=settings)\n"
        "    await asyncio.gather(*(bag.run(call(n), tool=f't{n}') for n in range(50)))\n"
        "    print('all', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "home"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).strip() == b"all"
    process.kill()
    await process.wait()
    async with opened(tmp_path) as bag:
        outputs = await bag.outputs()
        assert [facts.state for facts in outputs] == ["interrupted"] * 50
        found = {facts.origin.tool: (await bag.read(facts.handle)).text for facts in outputs}
        assert found == {f"t{n}": f"part {n}" for n in range(50)}


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), None])
async def test_a_wait_with_nothing_running_answers_at_once_whatever_its_time(
    tmp_path: Path, seconds: float | None
) -> None:
    async with opened(tmp_path) as bag:
        waited = await bag.wait(timeout=seconds)
        assert (waited.ended, waited.running) == ((), ())


async def test_a_wait_of_no_time_with_something_running_says_what_runs(tmp_path: Path) -> None:
    async with fast_clock(tmp_path, grace_seconds=0.0) as bag:
        taken = await bag.run(Slow(), tool="t")
        for seconds in (0, -1, float("nan")):
            waited = await bag.wait(timeout=seconds)
            assert [one.handle for one in waited.running] == [_handle(taken)]


# The rest of the contract


@requirement(
    "dialect:holdall-seconds", "dialect:async-seconds", "settings:slow-after-seconds", "settings:async-enabled",
    "settings:tool-timeout-seconds", "settings:max-background-calls",
)  # fmt: skip
async def test_the_clock_is_five_seconds_in_two_dialects_and_stands_still_in_the_others() -> None:
    settings = Settings()
    assert (settings.slow_after_seconds, settings.async_enabled) == (5.0, True)
    assert (settings.tool_timeout_seconds, settings.max_background_calls) == (600.0, 8)
    assert {name for name, dialect in DIALECTS.items() if dialect.races} == {"holdall", "async"}
    names = by_name()
    assert [names[name].name for name in ("asyncTimeoutSecs", "async", "toolTimeout")] == [
        "slow_after_seconds", "async_enabled", "tool_timeout_seconds",
    ]  # fmt: skip


@requirement("store:retention-session-abort")
async def test_what_is_kept_for_its_session_goes_when_the_session_is_aborted(tmp_path: Path) -> None:
    async with fast_clock(tmp_path, retention="session") as bag:
        handle = _handle(await bag.run(Slow(), tool="t"))
        kept = (await bag.keep("text")).handle
        await bag.abort()
    async with opened(tmp_path) as bag:
        assert {facts.handle: facts.state for facts in await bag.outputs()} == {handle: "expired", kept: "expired"}


@requirement("answer:never-async", "answer:raw-whole", "answer:output-expired")
async def test_retrieval_never_goes_to_the_background_and_raw_gives_the_whole(tmp_path: Path) -> None:
    text = "word " * 6000
    async with fast_clock(tmp_path, dialect="async", max_background_calls=1) as bag:
        busy = Slow()
        await bag.run(busy, tool="busy")
        handle = (await bag.keep(text, tool="t")).handle
        whole = await bag.call("get_tool_output", {"id": handle, "mode": "raw"})
        assert whole.text == text, "over 16 KiB, and within the limits of the dialect"
        store = bag.store
        assert isinstance(store, DirectoryStore)
        store.expire(bag.session, [await bag.show(handle)], "by hand")
        gone = await bag.call("get_tool_output", {"id": handle, "mode": "raw"})
        assert (gone.text, gone.is_error) == ("Tool output expired", True)
        busy.end.set()


@requirement("answer:raw-failed")
async def test_raw_of_a_call_that_did_not_end_well_gives_its_error(tmp_path: Path) -> None:
    """After what it wrote, where it wrote something: as it would have come from a fast one."""
    long = ValueError("the upstream said no: " + "x" * 300)
    said = {"isError": True, "content": [{"type": "text", "text": "no such city"}]}
    broken, odd, refused, stopped, late = Slow(long), Slow(), Slow(said), Slow(), Slow()
    longer = ValueError("x" * 600 + "\nsecond line")
    ends = Slow(longer)

    async def wrote(writer: Writer) -> None:
        writer.write("some output\n")
        await odd.end.wait()
        raise ValueError("broken pipe")

    async def wrote_before(writer: Writer) -> None:
        writer.write("some output\n")
        await odd.end.wait()
        raise longer

    async with fast_clock(tmp_path, dialect="async", tool_timeout_seconds=30.0) as bag:
        handles = [_handle(await bag.run(call, tool="t")) for call in (broken, wrote, refused, ends, wrote_before)]
        for call in (broken, odd, refused, ends):
            call.end.set()
        await bag.wait(all=True)
        answers = [await bag.call("get_tool_output", {"id": one, "mode": "raw"}) for one in handles]
        assert [(one.text, one.is_error) for one in answers] == [
            (f"ValueError: {long}", True),
            ("some output\n[ValueError: broken pipe]", True),
            ("no such city", True),
            (f"ValueError: {longer}", True),
            (f"some output\n\nValueError: {longer}", True),
        ]
        assert [(await bag.coverage(one)).retrievals for one in handles[:3]] == [0, 1, 1], "an error is none"
        short = await bag.call("get_tool_output", {"id": handles[0], "mode": "raw"}, tokens_left=20)
        assert short.text == "Tool failed: ValueError: the upstream said no: xxxxxxxxxxxxxxxxxxxxxxxxxx…."
        for mode in ({"mode": "extract", "query": "why?"}, {"mode": "slice", "slice": {"start": 0}}):
            answer = await bag.call("get_tool_output", {"id": handles[0], **mode})
            assert (answer.text, answer.is_error) == (short.text, True), "no model is asked about nothing"
        stopped_at = _handle(await bag.run(stopped, tool="t"))
        await bag.abort()
        answer = await bag.call("get_tool_output", {"id": stopped_at, "mode": "raw"})
        assert (answer.text, answer.is_error) == ("cancelled", True)
    async with fast_clock(tmp_path, dialect="async", tool_timeout_seconds=0.01) as bag:
        handle = _handle(await bag.run(late, tool="t"))
        await bag.wait(handle)
        answer = await bag.call("get_tool_output", {"id": handle, "mode": "raw"})
        assert (answer.text, answer.is_error) == ("timed out after 0.01s", True)


@requirement("answer:raw-failed", "answer:raw-room")
async def test_raw_keeps_to_the_room_that_is_left(tmp_path: Path) -> None:
    text = "word " * 1980
    call = Slow(ValueError("broken"))

    async def wrote(writer: Writer) -> None:
        writer.write(text)
        await call()

    async with fast_clock(tmp_path, dialect="async") as bag:
        handle = (await bag.keep(text, tool="t")).handle
        failed = _handle(await bag.run(wrote, tool="t"))
        call.end.set()
        await bag.wait(failed)
        for left in (300, 0):
            answer = await bag.call("get_tool_output", {"id": handle, "mode": "raw"}, tokens_left=left)
            told = "Response too large (9900 bytes, ~1981 tokens). Use extract or slice mode."
            assert (answer.text, answer.is_error) == (told, True)
            answer = await bag.call("get_tool_output", {"id": failed, "mode": "raw"}, tokens_left=left)
            told = "Tool failed: ValueError: broken. It wrote 9900 bytes, ~1981 tokens. Use extract or slice mode."
            assert (answer.text, answer.is_error) == (told, True)
        async with bag.turn(tokens_left=3000) as turn:
            both = [turn.call("get_tool_output", {"id": handle, "mode": "raw"}) for _ in range(2)]
        assert sorted(one.is_error for one in both) == [False, True], "one of them whole, not a half of each"
        assert sum(bag.core.count(one.content) for one in both) <= 3000


@requirement("watch:async-promotions")
async def test_calls_that_went_to_the_background_are_counted(tmp_path: Path) -> None:
    async with fast_clock(tmp_path, grace_seconds=0.0) as bag:
        await bag.run(Slow(), tool="a")
        await bag.run(Slow(), tool="b")
        assert (await bag.counters()).background == 2


async def test_a_clock_that_jumps_changes_nothing_about_the_race(tmp_path: Path) -> None:
    times = iter([1e9, 5.0, 2e9, 0.0, 1e9] * 1000)
    call = Slow("done")
    async with fast_clock(tmp_path, clock=lambda: next(times)) as bag:
        handle = _handle(await bag.run(call, tool="t"))
        call.end.set()
        (facts,) = (await bag.wait()).ended
        assert (facts.handle, facts.state) == (handle, "ready")
        (still,) = bag.still_running() or (None,)
        assert still is None


async def test_memory_stays_flat_for_a_command_that_prints_much(tmp_path: Path) -> None:
    """A hundred megabytes, a little at a time; more would only take longer."""
    script = "import sys\nline = 'x' * 99 + '\\n'\nfor _ in range(1000): sys.stdout.write(line * 1000)"
    async with opened(tmp_path) as bag:
        await bag.run(Command([sys.executable, "-c", "print('x' * 100_000)"]), tool="warm")
        before = _resident()
        taken = await bag.run(Command([sys.executable, "-c", script]), tool="loud")
        assert isinstance(taken, Kept)
        assert taken.artifact.measure.bytes == 100_000_000
        assert _resident() - before < 48_000_000


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_an_error_that_was_told_is_not_held_until_the_collector_looks_for_it(tmp_path: Path) -> None:
    class Said(Exception):
        pass

    def fails() -> None:
        raise Said("x" * 10)

    async with opened(tmp_path) as bag:
        gc.disable()
        try:
            assert (await bag.run(fails, tool="f")).is_error
            # Tasks and threads that have ended are let go.
            await until(lambda: not any(isinstance(one, Said) for one in gc.get_objects()))
        finally:
            gc.enable()


@pytest.mark.parametrize("sign", ["\r", "\u2028", "\x0c", "\x85"])
async def test_an_error_is_told_whole_whatever_python_takes_for_the_end_of_a_line(tmp_path: Path, sign: str) -> None:
    goes_on = asyncio.Event()

    async def fails() -> None:
        await goes_on.wait()
        raise RuntimeError(f"disk a is full{sign} 10 % done")

    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        running = await bag.run(fails, tool="copy")
        assert isinstance(running, Running)
        goes_on.set()
        waited = await bag.wait(running.handle)
        assert waited.ended[0].error == f"RuntimeError: disk a is full{sign} 10 % done"


class _Large:
    """Stands for what a call holds while it runs."""


async def test_what_a_call_in_the_background_held_is_gone_with_it_however_it_ended(tmp_path: Path) -> None:
    """A session may last for days. The collector looks for cycles when it likes; here it never does."""
    held: list[weakref.ref[_Large]] = []
    go = asyncio.Event()

    async def fails() -> None:
        large = _Large()
        held.append(weakref.ref(large))
        await go.wait()
        try:
            raise ValueError("no such host")
        except ValueError as problem:
            inner = problem  # as calls through a connection do: the error and its frame hold each other
            raise RuntimeError(f"{large}") from inner

    waits = _Large()
    held.append(weakref.ref(waits))
    gc.disable()
    try:
        async with fast_clock(tmp_path) as bag:
            running = _handle(await bag.run(fails, tool="fails", waits=functools.partial(_never, waits)))
            del waits
            go.set()
            (ended,) = (await bag.wait(running)).ended
            assert ended.state == "failed"
            assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


def _never(_: _Large) -> bool:
    return False
