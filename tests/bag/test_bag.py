"""The one object, as an agent's own loop uses it."""

import asyncio
import contextlib
import functools
import io
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import holdall
from holdall import (
    BadQuery,
    Fits,
    Holdall,
    Keep,
    Kept,
    MemoryStore,
    Nodes,
    OutputExpired,
    OutputMissing,
    Sessions,
    Settings,
    StoreFault,
    Table,
    Unkept,
    UnknownHandle,
    UsageError,
)
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputReader
from tests.bag.shapes import opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

LOG = "".join(f"2026-01-01 00:00:{n % 60:02} {'ERROR' if n % 500 == 3 else 'INFO'} job {n}\n" for n in range(3000))


@requirement(
    "api:exported-names",
    "api:open",
    "api:open-home",
    "api:keep-and-fetch",
    "api:without-runtime",
    "session:created-on-first-use",
)
async def test_what_is_kept_comes_back_whole_under_its_handle(tmp_path: Path) -> None:
    async with Holdall.open(session="s1", home=str(tmp_path / "h"), settings=Settings(dialect="holdall")) as bag:
        kept = await bag.keep(LOG, tool="fetch", arguments={"url": "x"}, call_id="c1")
    async with Holdall.open(session="s1", home=str(tmp_path / "h")) as bag:
        assert b"".join([chunk async for chunk in bag.stream(kept.handle)]) == LOG.encode()
        facts = await bag.show("c1")
        assert (facts.origin.tool, facts.origin.arguments) == ("fetch", {"url": "x"})


@requirement("api:read", "api:tail", "api:grep", "api:slice", "api:query")
async def test_the_verbs_are_methods(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        handle = (await bag.keep(LOG)).handle
        assert (await bag.read(handle, lines=(4, 4))).text == "2026-01-01 00:00:03 ERROR job 3\n"
        assert (await bag.tail(handle, 1)).text.endswith("job 2999\n")
        assert (await bag.grep(handle, "ERROR")).total == 6
        assert "job 3" in (await bag.slice(handle, anchor="ERROR", window=40)).text
        table = await bag.query(handle, "select count(*) from t where text like '%ERROR%'")
        assert isinstance(table, Table)
        assert table.rows == ((6,),)
        nodes = await bag.query((await bag.keep({"a": [1, 2]})).handle, path="$.a[*]")
        assert isinstance(nodes, Nodes)
        assert [node.text for node in nodes.nodes] == ["1", "2"]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"sql": "select 1", "path": "$"}, "give sql or a path, not both; at is the path of the table that sql reads."),
        ({"path": "$", "at": "$.a"}, "at chooses the table for sql; with a path write one path."),
        ({"sql": "select * from t", "skip": 1000}, "skip leaves out values of a path; in SQL write OFFSET 1000."),
    ],
)
async def test_what_a_query_would_not_look_at_is_refused(asked: dict[str, Any], problem: str) -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        handle = (await bag.keep({"a": [1, 2]})).handle
        with pytest.raises(BadQuery, match=re.escape(problem)):
            await bag.query(handle, **asked)
        assert problem[1:] in (await bag.call("context_query", {"handle": handle, **asked})).text


@requirement("runtime:totals-to-root")
async def test_a_session_below_another_counts_in_it(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="par", home=home) as above:
        for parent in ("par", above.session.id):
            async with Holdall.open(session=f"below {parent}", parent=parent, home=home) as below:
                assert below.session.parent == above.session.id
                await below.take(LOG, tool="fetch")
        assert (await above.care.stats(only_this_session=True)).by_tool == {"fetch": 2}
        assert (await above.care.counters(only_this_session=True)).kept == 2
    with pytest.raises(holdall.UsageError, match='there is no session "none" that "x" could be a part of'):
        Holdall.open(session="x", parent="none", home=home)


@pytest.mark.parametrize("pool", [False, True])
@requirement("api:open", "api:open-model", "session:name-confined")
async def test_what_cannot_be_opened_is_refused_at_once_and_says_what_to_write(pool: bool) -> None:
    def refusal(**wrong: Any) -> str:
        with pytest.raises(UsageError) as refused:
            (Sessions if pool else Holdall).open(store=MemoryStore(), **wrong)
        return str(refused.value)

    for settings, kind in (({"dialect": "refs"}, "a dict"), ({}, "a dict"), ("refs", "a str"), (5, "an int")):
        assert refusal(settings=settings) == (
            f"settings are an object of the class Settings, not {kind}: "
            "write settings=Settings(dialect=…, max_inline_tokens=…)."
        )
    assert refusal(model="gpt-5").startswith('no model is named "gpt-5". A model is named provider:model')
    assert refusal(model="opnai:gpt-5").endswith('Did you mean "openai:gpt-5"?')
    unknown = refusal(model="nosuch:thing")
    assert unknown.startswith('no model is named "nosuch:thing".')
    assert "Providers: openai, " in unknown
    for model in ("openai:gpt-5", "gguf:/nowhere/small.gguf"):  # a key and a file may still come
        async with (Sessions if pool else Holdall).open(store=MemoryStore(), model=model):
            pass


@requirement("api:open", "session:name-confined")
async def test_an_empty_name_is_no_session_without_a_name() -> None:
    with pytest.raises(UsageError, match="'' cannot be the name of a session: write 1 to 200 printable characters"):
        Holdall.open(session="", store=MemoryStore())


@requirement("answer:max-bytes", "answer:max-tokens")
async def test_every_answer_of_the_library_is_bounded_unless_asked_otherwise(tmp_path: Path) -> None:
    settings = Settings(answer_max_bytes=2000, answer_max_tokens=300)
    async with Holdall.open(home=str(tmp_path / "h"), settings=settings) as bag:
        handle = (await bag.keep(LOG)).handle
        assert len((await bag.read(handle)).data) <= 2000
        assert len((await bag.tail(handle, 1000)).data) <= 2000
        assert len((await bag.slice(handle, start=0)).data) <= 2000
        found = await bag.grep(handle, "job")
        assert sum(len(match.text) for match in found.matches) <= 2000
        assert found.total == 3000
        assert (await bag.read(handle, bytes=":", bounded=False)).text == LOG


@requirement("store:source-async-text-iterator", "store:source-async-bytes-iterator")
async def test_asynchronous_iterators_of_text_and_bytes_are_kept_in_order(tmp_path: Path) -> None:
    async def text() -> AsyncIterator[str]:
        for part in ("zw", "öl", "f"):
            await asyncio.sleep(0)
            yield part

    async def data() -> AsyncIterator[bytes]:
        for number in range(300):
            yield b"%d\n" % number * 1000

    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        kept = await bag.keep(text())
        assert (await bag.read(kept.handle)).text == "zwölf"
        kept = await bag.keep(data())
        expected = b"".join(b"%d\n" % number * 1000 for number in range(300))
        assert b"".join([chunk async for chunk in bag.stream(kept.handle)]) == expected


async def test_an_asynchronous_iterator_that_raises_midway_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"a" * 1000
        raise ValueError("mid")

    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        kept = await bag.keep(broken())
        assert (kept.state, kept.error, kept.measure.bytes) == ("failed", "ValueError: mid", 1000)
        assert (await bag.read(kept.handle)).notes == ("failed: ValueError: mid",)


@requirement("store:source-cancelled-midway")
async def test_a_cancelled_iterator_is_kept_as_far_as_it_came_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"a" * 1000
        waiting.set()
        await asyncio.Event().wait()

    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        task = asyncio.create_task(bag.keep(endless(), call_id="c"))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        facts = await bag.show("c")
        assert (facts.state, facts.measure.bytes) == ("cancelled", 1000)
        assert list((tmp_path / "h").rglob(".incoming-*")) == []


@requirement("store:source-cancelled-midway", "way:nothing-lost-silently")
@pytest.mark.parametrize("way", ["keep", "take"])
async def test_a_cancelled_iterator_of_a_thread_is_not_kept_as_one_that_ended(tmp_path: Path, way: str) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def rows() -> Iterator[str]:
        yield LOG * 3
        waiting.set()
        go_on.wait(60)
        yield "more\n"
        yield "and more\n"

    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        task = asyncio.create_task(getattr(bag, way)(rows(), call_id="c"))
        await asyncio.to_thread(waiting.wait, 60)
        task.cancel()
        asyncio.get_running_loop().call_soon(go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        facts = await bag.show("c")
        assert (facts.state, facts.error, facts.measure.bytes) == ("cancelled", "Cancelled", len(f"{LOG * 3}more\n"))


@requirement("way:nothing-lost-silently", "api:take")
@pytest.mark.parametrize("wrong", [{"tool": 5}, {"server": 5}, {"call_id": 7}], ids=["tool", "server", "call_id"])
async def test_what_is_no_text_is_refused_before_it_is_in_a_record_and_none_is_nothing(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    (name,) = wrong
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        for output in (LOG, "small"):
            for call in (bag.take, bag.keep):
                with pytest.raises(UsageError, match=f"^{name} must be text, not int\\.$"):
                    await call(output, **wrong)
        async with bag.turn() as turn:
            with pytest.raises(UsageError, match=f"^{name} must be text"):
                turn.take(LOG, **wrong)
        assert await bag.outputs() == []
        none: dict[str, Any] = {name: None}
        kept = await bag.take(LOG, **none)
        assert isinstance(kept, Kept)
        assert [one.handle for one in await bag.outputs()] == [kept.handle]
        with pytest.raises(UsageError, match="guard takes a list of messages"):
            await bag.guard({"role": "tool"})  # type: ignore[arg-type]


@requirement("api:take", "clamp:runtime-guards")
async def test_what_is_of_the_wrong_type_is_refused_and_says_what_to_write() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        kept = await bag.take(LOG)
        calls: dict[str, Callable[..., object]] = {
            "timeout": functools.partial(bag.wait),
            "window": functools.partial(bag.turn),
            "tokens_used": functools.partial(bag.turn, window=5),
            "max_turns": functools.partial(bag.system_notice, turn=1),
            "turn": functools.partial(bag.system_notice),
        }
        left: list[Callable[..., object]] = [
            functools.partial(bag.turn),
            functools.partial(bag.take, "x"),
            functools.partial(bag.run, lambda: "x"),
            functools.partial(bag.call, "context_read", {"handle": kept.handle}),
            functools.partial(bag.preview.decide, "x"),
        ]
        for name, call in (*calls.items(), *(("tokens_left", one) for one in left)):
            with pytest.raises(UsageError) as refused:
                await cast("Awaitable[object]", call(**{name: "5"}))
            assert str(refused.value) == f"{name} must be a number, not '5'; write {name}=60, without quotes."
        with pytest.raises(UsageError, match=r"guard takes a list of messages, not a NoneType: write guard\(\[message"):
            await bag.guard(cast("Any", None))
    with pytest.raises(UsageError, match="home is the path of a folder to keep outputs in, not an int: write home='/"):
        Holdall.open(home=cast("Any", 5))


@requirement("clamp:runtime-guards")
async def test_messages_that_can_be_read_only_once_are_guarded() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        (guarded,) = await bag.guard(cast("Any", iter([{"role": "tool", "tool_call_id": "c", "content": LOG}])))
        assert len(guarded["content"]) < 5000


async def test_a_handle_that_is_empty_or_no_text_names_no_output(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        await bag.take(LOG, tool="one")
        for verb in (bag.read, bag.show, bag.tail, bag.forget):
            with pytest.raises(UnknownHandle, match='no output is kept under ""'):
                await verb("")
            for wrong in (5, None):
                with pytest.raises(UsageError, match="a handle is text, not"):
                    await verb(wrong)  # type: ignore[arg-type]


@requirement("clamp:traceback-to-facts")
async def test_a_traceback_is_in_the_facts_however_late_a_call_fails(tmp_path: Path) -> None:
    def rows() -> Iterator[str]:
        yield LOG
        raise ValueError("in the middle")

    async def rows_later() -> AsyncIterator[str]:
        yield LOG
        raise ValueError("in the middle")

    async def late() -> str:
        await asyncio.sleep(0.05)
        raise ValueError("at the end")

    async with Holdall.open(home=str(tmp_path / "h"), settings=Settings(slow_after_seconds=0)) as bag:
        for rows_of in (rows, rows_later):
            facts = await bag.show((await bag.take(rows_of())).handle)
            assert (facts.state, f"in {rows_of.__name__}\n" in facts.origin.traceback) == ("failed", True)
        running = await bag.run(late, tool="late")
        await bag.wait(running.handle)
        facts = await bag.show(running.handle)
        assert (facts.state, "in late\n" in facts.origin.traceback) == ("failed", True)
        long = await bag.show((await bag.keep(_failing("x" * 200_000))).handle)
        assert len(long.origin.traceback) < 70_000
        assert "characters are left out]" in long.origin.traceback


def _failing(why: str) -> Iterator[str]:
    yield LOG
    raise ValueError(why)


@requirement("store:source-cancelled-midway")
async def test_a_text_whose_take_is_cancelled_is_kept_whole_and_has_its_handle_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, put = threading.Event(), threading.Event(), DirectoryStore.put

    def slow(self: Any, *given: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return put(self, *given, **named)

    monkeypatch.setattr(DirectoryStore, "put", slow)
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        task = asyncio.create_task(bag.take(LOG, tool="fetch", call_id="c"))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        [facts] = await bag.outputs()
        assert (facts.state, facts.measure.bytes) == ("ready", len(LOG))
        assert list((tmp_path / "h").rglob(".incoming-*")) == []
        other = await bag.take(f"{LOG}!", tool="fetch")
        assert facts.handle not in other.text  # nobody was told of it: nothing is told as what differs from it
        again = await bag.take(LOG, tool="fetch", call_id="c")
        assert again.handle == facts.handle
        assert len(await bag.outputs()) == 2


@pytest.mark.parametrize("how", ["take", "keep", "run"])
@pytest.mark.parametrize("kind", ["asynchronous", "plain"])
@requirement("store:quota-refuses-aloud")
async def test_a_generator_that_is_refused_is_closed(how: str, kind: str) -> None:
    ended: list[str] = []

    async def later() -> AsyncIterator[str]:
        try:
            for _ in range(10_000):
                yield "x" * 1000
        finally:
            ended.append("asynchronous")

    def now() -> Iterator[str]:
        try:
            for _ in range(10_000):
                yield "x" * 1000
        finally:
            ended.append("plain")

    tool: Any = later if kind == "asynchronous" else now
    async with Holdall.open(store=MemoryStore(), settings=Settings(session_quota_bytes=300_000)) as bag:
        if how == "keep":
            with pytest.raises(StoreFault) as refused:
                await bag.keep(tool())
            told: object = refused.value
        else:
            told = await (bag.take(tool()) if how == "take" else bag.run(tool))
            assert "the quota of this session" in told.text
        assert ended == [kind], told  # a fault, whose traceback holds what it was raised in


async def test_many_calls_at_once_keep_and_fetch_without_getting_in_each_others_way(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        kept = await asyncio.gather(*(bag.keep(f"output {n}\n" * 2000, call_id=f"c{n}") for n in range(24)))
        assert len({facts.handle for facts in kept}) == 24
        read = await asyncio.gather(*(bag.read(f"c{n}", lines=(2000, 2000)) for n in range(24)))
        assert [passage.text for passage in read] == [f"output {n}\n" for n in range(24)]


@requirement("store:running-record-first", "async:same-handle-whole")
async def test_a_running_output_is_read_while_it_grows_and_is_whole_at_its_end(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        writer = await bag.begin(tool="make", terminal=True)
        writer.write(b"one\n")
        assert (await bag.read(writer.handle)).text == "one\n"
        writer.write("zw\u00f6lf".encode()[:3])
        part = await bag.read(writer.handle, lines="2:")
        assert (part.state, part.data) == ("running", b"zw\xc3")
        writer.write(b"\xb6lf\n")
        assert (await bag.grep(writer.handle, "zwölf")).total == 1
        facts = writer.finish(exit_code=0)
        assert (await bag.read(writer.handle)).text == "one\nzwölf\n"
        assert (facts.state, facts.measure.lines) == ("ready", 2)


async def test_a_followed_output_ends_when_its_writer_does(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        writer = await bag.begin(tool="make")
        writer.write(b"one\ntwo\n")
        following = bag.follow(writer.handle, 1)
        assert await anext(following) == b"two\n"
        writer.write(b"three\n")
        assert await anext(following) == b"three\n"
        writer.write(b"four\n")
        writer.finish()
        assert b"".join([chunk async for chunk in following]) == b"four\n"


@requirement("store:retention-session-success", "store:retention-session-failure")
@pytest.mark.parametrize("failing", [False, True])
async def test_outputs_kept_for_their_session_go_when_it_ends_however_it_ends(tmp_path: Path, failing: bool) -> None:
    settings = Settings(retention="session")
    home, handle = str(tmp_path / "h"), ""
    with contextlib.suppress(RuntimeError):
        async with Holdall.open(session="s", home=home, settings=settings) as bag:
            handle = (await bag.keep("secret" * 1000)).handle
            if failing:
                raise RuntimeError
    async with Holdall.open(session="s", home=home) as bag:
        with pytest.raises(OutputExpired, match="kept for its session, which has ended"):
            await bag.read(handle)
    assert not _holds(home, b"secret")


def _holds(home: str, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in Path(home).rglob("*.txt"))


async def test_a_foreign_handle_and_an_unknown_one_get_the_same_answer(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="one", home=home) as one, Holdall.open(session="two", home=home) as two:
        foreign = await one.keep("theirs")
        answers: list[str] = []
        for handle in (foreign.handle, foreign.long_handle, "zzzz", foreign.long_handle[:-1] + "0"):
            with pytest.raises(UnknownHandle) as raised:
                await two.read(handle)
            answers.append(str(raised.value).replace(handle, "X"))
        assert len(set(answers)) == 1


@requirement("api:open-tokenizer", "measure:session-tokenizer")
async def test_the_tokenizer_that_is_handed_in_counts(tmp_path: Path) -> None:
    class Words:
        name = "words"

        def count(self, text: str) -> int:
            return len(text.split())

    async with Holdall.open(home=str(tmp_path / "h"), tokenizer=Words()) as bag:
        kept = await bag.keep("one two three")
        assert (kept.measure.tokens, kept.measure.tokens_exact, kept.measure.tokenizer) == (3, True, "words")
        assert bag.decide("one " * 2000) == Fits()
        assert bag.decide("one " * 10_001) == Keep("tokens")


async def test_an_open_file_and_a_value_are_kept_like_everything_else(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path / "h")) as bag:
        assert (await bag.keep(io.BytesIO(b"from a file"))).measure.bytes == 11
        assert (await bag.keep([{"a": 1}])).measure.kind == "json"


async def test_an_output_that_changes_under_an_open_reader_is_noticed(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="s", home=home) as bag:
        handle = (await bag.keep("x" * 1000)).handle
        await bag.read(handle)
        other = DirectoryStore(home)
        other.expire(bag.session, [await bag.show(handle)], "by hand")
        other.close()
        with pytest.raises(OutputExpired):
            await bag.read(handle)


@requirement("store:retention-changed")
@pytest.mark.parametrize("memory", [False, True])
async def test_a_rule_that_is_set_holds_for_a_session_that_is_there_already(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, memory: bool
) -> None:
    home, store = str(tmp_path / "h"), MemoryStore() if memory else None

    async def rule(retention: str | None) -> str:
        settings = Settings(retention=retention)
        where: dict[str, Any] = {"store": store} if store is not None else {"home": home}
        async with Holdall.open(session="s", settings=settings, **where) as bag:
            return str(bag.session.retention)

    assert [await rule(one) for one in ("keep", None, "7", "7 days", None)] == ["keep", "keep"] + ["7 days"] * 3
    assert caplog.messages == ["retention of session s changed from keep to 7 days, for all that is in it"]


@requirement("store:gc-at-open")
async def test_opening_sweeps_once_a_day(tmp_path: Path) -> None:
    home, now = str(tmp_path / "h"), [1_000_000_000.0]
    settings = Settings(retention="1 days")

    def clock() -> float:
        return now[0]

    async with Holdall.open(session="s", home=home, settings=settings, clock=clock) as bag:
        handle = (await bag.keep("old")).handle
    now[0] += 86_400 / 2
    async with Holdall.open(session="s", home=home, clock=clock) as bag:
        assert (await bag.read(handle)).text == "old"
    now[0] += 86_400
    async with Holdall.open(session="s", home=home, clock=clock) as bag:
        with pytest.raises(OutputExpired, match=r"kept for 1 day\)"):
            await bag.read(handle)


@requirement("notice:system-sections", "notice:system-holdall")
async def test_the_system_notice_counts_all_that_is_ready_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async") as bag:
        every = [await bag.keep(f"output {n}", tool=f"t{n}") for n in range(23)]
        shown = bag.core.shown_handle(every[-1].handle)
        await bag.call("get_tool_output", {"id": shown, "mode": "slice", "slice": {"start": 0, "length": 4}})
        told = bag.system_notice(turn=1)
        ready = told[told.index("### Ready") : told.index("---")].strip().split("\n")
        assert ready[0] == "### Ready (23)"
        assert [line.split()[1] for line in ready[1:-1]] == [f"t{n}" for n in range(2, 22)], "never looked at, newest"
        assert ready[-1] == "… and 3 more"
        assert "## Kept Outputs" not in bag.system_notice(turn=1, kept=True), "they are all under Ready"
    async with opened(tmp_path / "b") as bag:
        for n in range(21):
            await bag.keep(f"output {n}", tool=f"t{n}")
        told = bag.system_notice(turn=1, kept=True)
        assert '"t0"' not in told
        assert told[: told.index("\n\n---")].endswith("\n… and 1 more")


@requirement("notice:system-holdall")
async def test_after_a_compaction_the_newest_are_listed_and_those_that_the_model_works_with(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        every = [await bag.keep(f"output {n}", tool=f"t{n}") for n in range(30)]
        for at in (0, 3, 27, 28, 29):
            await bag.call("context_read", {"handle": every[at].handle})
        told = bag.system_notice(turn=1, kept=True)
    assert re.findall(r'"t(\d+)"', told) == [str(n) for n in (0, 3, *range(12, 30))]
    assert "\n… and 10 more\n" in told


@requirement("notice:system-sections")
async def test_where_all_that_is_kept_is_ready_the_same_are_listed_there(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async") as bag:
        every = [await bag.keep(f"output {n}", tool=f"t{n}") for n in range(30)]
        for at in (0, 3, 27, 28, 29):
            await bag.call("get_tool_output", {"id": every[at].long_handle, "mode": "raw"})
        told = bag.system_notice(turn=1, kept=True)
    assert re.findall(r"- t(\d+) ", told) == [str(n) for n in (0, 3, *range(12, 30))]


@requirement("store:tombstone", "answer:output-expired")
@pytest.mark.parametrize("memory", [False, True])
async def test_an_output_past_its_time_has_expired_for_the_model_before_anything_is_removed(
    tmp_path: Path, memory: bool
) -> None:
    now = [1_000_000_000.0]
    where: dict[str, Any] = {"store": MemoryStore(clock=lambda: now[0])} if memory else {"home": str(tmp_path / "h")}
    settings = Settings(dialect="async", retention="2 seconds")
    async with Holdall.open(session="s", settings=settings, clock=lambda: now[0], **where) as bag:
        taken = await bag.take("a line of words\n" * 20_000, tool="x")
        assert isinstance(taken, Kept)
        asked = {"id": bag.core.shown_handle(taken.handle), "mode": "slice", "slice": {"start": 0, "length": 4}}
        assert "a li" in (await bag.call("get_tool_output", asked)).text
        now[0] += 3
        assert (await bag.call("get_tool_output", asked)).text == "Tool output expired"
        assert "Ready" not in bag.system_notice(turn=2)


@requirement("store:retention-session-others")
async def test_one_who_looks_from_another_process_or_was_killed_there_neither_ends_nor_keeps_a_session(
    tmp_path: Path,
) -> None:
    home, settings = str(tmp_path / "h"), Settings(retention="session")
    looks = "import os, sys; from holdall import blocking; bag = blocking.Holdall.open(session='s', home=sys.argv[1])"
    async with Holdall.open(session="s", home=home, settings=settings) as agent:
        handle = (await agent.keep("secret" * 1000)).handle
        for how in ("bag.close()", "os.kill(os.getpid(), 9)"):
            await asyncio.to_thread(subprocess.run, [sys.executable, "-c", f"{looks}; {how}", home], check=False)
            assert (await agent.show(handle)).state == "ready"
    assert not _holds(home, b"secret")


@requirement("store:retention-session-others")
async def test_a_bag_that_was_left_with_a_call_running_keeps_no_session_from_ending(tmp_path: Path) -> None:
    home, settings, goes_on = str(tmp_path / "h"), Settings(retention="session"), asyncio.Event()
    left = Holdall.open(session="s", home=home, settings=settings)
    await left.keep("secret" * 1000)
    await left.run(goes_on.wait, tool="slow", background=True)
    await left.detach()
    async with Holdall.open(session="s", home=home):
        pass
    assert not _holds(home, b"secret")
    goes_on.set()


@requirement("store:retention-changed")
async def test_a_session_ends_by_the_rule_that_it_has_then(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="s", home=home, settings=Settings(retention="session")) as agent:
        await agent.keep("secret" * 1000)
        async with Holdall.open(session="s", home=home, settings=Settings(retention="keep")):
            pass
    assert _holds(home, b"secret")


@requirement("store:retention-session-others")
async def test_where_a_store_cannot_say_who_has_a_session_open_it_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path / "h")

    def refuse(*_: object, **__: object) -> None:
        raise StoreFault("too many open files")

    async with Holdall.open(session="s", home=home, settings=Settings(retention="session")) as agent:
        await agent.keep("secret" * 1000)
        async with Holdall.open(session="s", home=home) as other:
            monkeypatch.setattr(other.store, "claim", refuse)
        assert _holds(home, b"secret")


@requirement("store:retention-session-async", "store:retention-session-others")
@pytest.mark.parametrize("memory", [False, True])
async def test_a_session_ends_when_the_last_one_leaves_that_has_it_open(tmp_path: Path, memory: bool) -> None:
    where: dict[str, Any] = {"store": MemoryStore()} if memory else {"home": str(tmp_path / "h")}
    async with Holdall.open(session="s", settings=Settings(dialect="async"), **where) as bag:
        handle = (await bag.keep("what the agent works with", tool="x")).handle
        async with Holdall.open(session="s", **where) as look:
            assert [one.handle for one in await look.outputs()] == [handle]
        assert (await bag.read(handle)).text == "what the agent works with"
        visitor = Holdall.open(session="s", **where)
        visitor.core.only_look()
    async with visitor:
        with pytest.raises(OutputExpired):
            await visitor.read(handle)


@requirement("store:quota-refuses-aloud", "store:retention-session-extract", "store:retention-session-async")
@pytest.mark.parametrize("pooled", [False, True])
async def test_quotas_and_the_retention_of_a_dialect_hold_in_a_store_that_is_given(pooled: bool) -> None:
    store = MemoryStore()

    @contextlib.asynccontextmanager
    async def session(name: str, settings: Settings) -> AsyncGenerator[Holdall]:
        if not pooled:
            async with Holdall.open(session=name, store=store, settings=settings) as bag:
                yield bag
        else:
            async with Sessions.open(store=store, settings=settings) as sessions, sessions.of(name) as bag:
                yield bag

    limits = {"session": Settings(session_quota_bytes=1000), "store": Settings(quota_bytes=1000)}
    for what, settings in limits.items():
        async with session("q", settings) as bag:
            taken = await bag.take("a line of words\n" * 20_000, tool="x")
            assert isinstance(taken, Unkept)
            assert f"the quota of this {what} is 1.0 kB" in taken.content
    states: dict[str, str] = {}
    for settings in (Settings(dialect="async"), Settings(dialect="extract"), Settings()):
        async with session(settings.dialect, settings) as bag:
            assert isinstance(await bag.take("a line of words\n" * 20_000, tool="x"), Kept)
        [output] = store.outputs(bag.session)
        states[settings.dialect] = output.state
    assert states == {"async": "expired", "extract": "expired", "holdall": "ready"}


@requirement("notice:system-sections")
async def test_the_system_notice_counts_nothing_that_has_expired(tmp_path: Path) -> None:
    now = [1_000_000_000.0]
    settings = Settings(dialect="async", retention="2 hours")
    async with Holdall.open(home=str(tmp_path / "h"), settings=settings, clock=lambda: now[0]) as bag:
        for number in range(50):
            now[0] += 0 if number != 10 else 3600
            await bag.keep(f"output {number}", tool=f"t{number}")
        assert "### Ready (50)" in bag.system_notice(turn=1)
        now[0] += 3700
        told = bag.system_notice(turn=2)
        assert "### Ready (40)" in told
        assert "… and 20 more" in told


@requirement("notice:system-sections")
async def test_what_has_expired_is_not_ready_in_the_system_notice(tmp_path: Path) -> None:
    home, now = str(tmp_path / "h"), [1_000_000_000.0]
    settings = Settings(dialect="async", retention="1 days")
    async with Holdall.open(session="s", home=home, settings=settings, clock=lambda: now[0]) as bag:
        taken = await bag.take("a line of words\n" * 20_000, tool="x")
        assert isinstance(taken, Kept)
        assert "### Ready (1)" in bag.system_notice(turn=1)
        now[0] += 2 * 86_400
        await bag.care.sweep()
        told = bag.system_notice(turn=2)
        assert "Ready" not in told
        assert "Retrieve" not in told
        assert taken.handle not in bag.system_notice(turn=2, kept=True)


def test_the_public_names_are_all_there_and_importing_the_package_costs_nothing() -> None:
    assert all(hasattr(holdall, name) for name in holdall.__all__)
    assert set(holdall.__all__) <= set(dir(holdall))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = holdall.nonsense  # pyright: ignore[reportUnknownVariableType, reportAttributeAccessIssue]


@requirement("api:forget", "store:removed", "store:removed-with-last-handle")
@pytest.mark.parametrize("memory", [False, True])
async def test_what_is_forgotten_is_gone_and_says_so(tmp_path: Path, memory: bool) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    async with Holdall.open(home=str(tmp_path), store=MemoryStore() if memory else None) as bag:
        first, second = [await bag.take(text, tool="t") for _ in range(2)]
        assert isinstance(first, Kept)
        assert isinstance(second, Kept)
        await bag.read(first.handle, lines=(1, 2))  # it is open, and in the cache of blocks
        removed = await bag.forget(first.handle)
        assert removed.still_held == {first.handle: (second.handle,)}
        assert removed.freed_bytes == 0
        with pytest.raises(OutputExpired, match="was removed on request"):
            await bag.read(first.handle, lines=(1, 2))
        answer = await bag.call("context_read", {"handle": first.handle})
        assert answer.is_error
        assert "was removed on request" in answer.text
        assert bag.noticed(first.handle) is None
        assert first.handle not in bag.core.kept
        assert first.handle not in (await bag.call("context_read", {})).text
        assert (await bag.read(second.handle, lines=(1, 1))).text == "line 0\n"
        assert (await bag.forget(second.handle)).freed_bytes == len(text)
        assert [event.handle for event in bag.history() if event.kind == "removed"] == [first.handle, second.handle]


@requirement("store:folder-removed")
@pytest.mark.parametrize("which", ["home", "session"])
async def test_a_handle_that_was_shown_is_told_to_be_gone_also_where_its_folder_was_made_anew(
    tmp_path: Path, which: str
) -> None:
    async with opened(tmp_path) as bag:
        lost = await bag.keep(LOG, tool="fetch", call_id="c1")
        shutil.rmtree(tmp_path / "home" / ("" if which == "home" else f"session-{bag.session.id}"))
        new = await bag.keep("another output", tool="fetch")
        for one in (lost.handle, lost.long_handle, "c1"):
            for fetch in (bag.read, bag.show, bag.coverage, bag.forget):
                with pytest.raises(OutputMissing, match=f"output {lost.handle} are gone: .* removed from the store"):
                    await fetch(one)
        told = await bag.call("context_grep", {"handle": lost.handle, "pattern": "ERROR"})
        assert f"output {lost.handle} are gone" in told.text
        listed = [(one.handle, one.state) for one in await bag.outputs()]
        assert listed == [(lost.handle, "unreadable"), (new.handle, "ready")]
        with pytest.raises(UnknownHandle):
            await bag.read("zzzz")


async def test_slow_verbs_of_one_session_stop_no_other_and_wait_for_each_other(tmp_path: Path) -> None:
    go, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def slow(_: OutputReader) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(60)
        with lock:
            running -= 1

    async with opened(tmp_path) as one, Holdall.open(session="other", store=one.core.store) as other:
        busy, free = await one.keep(LOG), await other.keep(LOG)
        calls = [asyncio.ensure_future(one.core.on(busy.handle, slow)) for _ in range(50)]
        calls[40].cancel()
        while running < 4:  # noqa: ASYNC110 - threads set no event of this loop
            await asyncio.sleep(0.01)
        assert (await other.read(free.handle, lines="1:1")).text == LOG.split("\n")[0] + "\n"
        go.set()
        done = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [at == 40 for at in range(50)]
    assert most == 4


@requirement("measure:kind-said")
async def test_text_is_read_as_its_caller_says_in_notices_and_sql(tmp_path: Path) -> None:
    said = "One word, two words\nJust a sentence without it\n" * 2000
    async with Holdall.open(session="s1", home=str(tmp_path / "h")) as bag:
        kept = await bag.keep(said, kind="csv")
        assert (kept.measure.kind, (await bag.keep(said)).measure.kind) == ("csv", "text")
        assert "4,000 rows × 2 columns (comma-separated, no header)" in await bag.preview.notice(kept.handle)
        found = await bag.query(kept.handle, sql="select column1, count(*) from t where column1 > '' group by 1")
        assert isinstance(found, Table)
        assert found.rows == ((" two words", 2000),)
        binary = (await bag.keep(bytes(99), kind="csv")).measure
        assert (binary.kind, binary.notes) == ("binary", ("it is binary, not text, and is not read as csv",))
        with pytest.raises(UsageError, match=r"kind is one of text, .*; not 'parquet'"):
            await bag.keep(said, kind="parquet")
    async with Holdall.open(session="s1", home=str(tmp_path / "h")) as bag:
        assert (await bag.show(kept.handle)).origin.read_as == "csv"


async def test_the_home_may_be_a_path(tmp_path: Path) -> None:
    async with Holdall.open(home=tmp_path / "home", session="s") as bag:  # type: ignore[arg-type]
        handle = (await bag.keep("kept")).handle
        assert (await bag.read(handle)).text == "kept"


@requirement("store:inside-session", "store:no-acknowledged-loss")
async def test_what_outlives_its_block_goes_into_its_own_session(tmp_path: Path) -> None:
    going, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[str]:
        yield "first\n"
        going.set()
        go_on.wait(100)
        yield "last\n"

    async with Holdall.open(session="alice", home=str(tmp_path)) as alice:
        writer = await alice.jobs.begin(tool="t", arguments={"q": "of alice"})
        writer.write(b"of alice\n")
        keeping = asyncio.ensure_future(alice.keep(slow(), tool="t"))
        await asyncio.to_thread(going.wait, 100)
    async with Holdall.open(session="bob", home=str(tmp_path)) as bob:
        await bob.keep("mine", tool="t")
        ended = writer.finish()
        go_on.set()
        kept = await keeping
        assert [one.state for one in await bob.outputs()] == ["ready"]
    async with Holdall.open(session="alice", home=str(tmp_path)) as alice:
        for facts, text in ((ended, "of alice\n"), (kept, "first\nlast\n")):
            assert (await alice.read(facts.handle)).text == text
