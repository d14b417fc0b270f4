"""Tools that write and return, fail in odd ways, or whose output may not be kept: nothing is lost, nothing slips through."""

import asyncio
import base64
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdall import Command, Holdall, Inline, Kept, Running, ToolPolicy, Unkept
from holdall.bag import streams, take
from tests.bag.shapes import opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
SECRET = "SECRETTOKEN"
PICTURE = {"type": "image", "data": base64.b64encode(b"\x89PNG" + bytes(100)).decode(), "mimeType": "image/png"}
NEVER = {"vault": ToolPolicy(store="never")}


async def whole(bag: Holdall, handle: str) -> bytes:
    return b"".join([part async for part in bag.stream(handle)])


def on_disk(folder: Path) -> bool:
    found = subprocess.run(["grep", "-rl", SECRET, str(folder)], capture_output=True, text=True, check=False)
    return bool(found.stdout)


# What takes long to be written


class Reader:
    """Says in which thread it was read."""

    def __init__(self) -> None:
        self.threads: set[str] = set()

    def to_dict(self) -> dict[str, int]:
        self.threads.add(threading.current_thread().name)
        return {"read": 1}


@pytest.mark.in_full(one_in=4)
@requirement("api:any-loop")
@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("around", ["list", "dictionary", "result", "object"])
async def test_the_loop_goes_on_while_a_large_value_is_written(tmp_path: Path, around: str, redact: bool) -> None:
    reader = Reader()
    rows: list[Any] = [*([at, "x"] for at in range(30_000)), reader]
    values: dict[str, Any] = {
        "list": rows,
        "dictionary": {"rows": rows},
        "result": {"content": [], "structuredContent": {"rows": rows}, "isError": False},
        "object": Page("one", rows),
    }
    async with opened(tmp_path, tools={"load": ToolPolicy(redact=redact)}) as bag:
        taken = await bag.take(values[around], tool="load")
        assert isinstance(taken, Kept)
        assert b'[29999, "x"], {"read": 1}]' in await whole(bag, taken.handle)
    assert reader.threads
    assert threading.current_thread().name not in reader.threads


@requirement("way:nothing-lost-silently")
async def test_a_value_that_the_program_changes_while_it_is_written_is_written_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_an_end(value: object) -> object:
        if threading.current_thread() is not threading.main_thread():
            raise KeyError(7)
        return value

    def value_text(value: object) -> tuple[str, tuple[str, ...]]:
        if threading.current_thread() is not threading.main_thread():
            return "{'rows': …", ("RuntimeError: dictionary changed size during iteration",)
        return streams.value_text(value)

    monkeypatch.setattr(take, "with_an_end", with_an_end)
    monkeypatch.setattr(take, "value_text", value_text)
    value = {"rows": list(range(30_000))}
    async with opened(tmp_path) as bag:
        taken = await bag.take(value, tool="load")
        assert isinstance(taken, Kept)
        assert json.loads(await whole(bag, taken.handle)) == value
        assert taken.artifact.measure.notes == ()


# What has no end when it is written


@dataclasses.dataclass
class Page:
    title: str
    body: object


def repeated(times: int) -> list[Any]:
    """As aliases of YAML make it: twice as long each time, and always of two parts."""
    found: list[Any] = ["x", "x"]
    for _ in range(times):
        found = [found, found]
    return found


@requirement("way:nothing-lost-silently")
@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        repeated(90),
        {"a": 1, "b": repeated(90)},
        [[["x"] * 10_000] * 10_000] * 10_000,
        {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"a": repeated(90)}, "isError": False},
        Page("one", repeated(90)),
        [Page("one", repeated(90))],
    ],
    ids=["list", "dict", "wide", "result", "object", "objects"],
)
@pytest.mark.timeout(60)
async def test_a_value_that_repeats_its_parts_without_end_is_not_written(
    tmp_path: Path, value: Any, redact: bool
) -> None:
    async def load() -> Any:
        return value

    async with opened(tmp_path, tools={"load": ToolPolicy(redact=redact)}) as bag:
        for taken in (await bag.take(value, tool="load"), await bag.run(load, tool="load")):
            assert taken.text.startswith("[not shown and not kept: a value of type ")
            assert "repeats its parts" in taken.text
            assert "more than 10**18." in taken.text or "1,000,100,010,000" in taken.text
        kept = await bag.take("x" * 60_000, tool="other", arguments={"given": value})
        assert isinstance(kept, Kept)


async def test_a_value_that_repeats_some_parts_is_written_whole(tmp_path: Path) -> None:
    row = {"city": "Bern", "tags": ["a", "b"]}
    async with opened(tmp_path) as bag:
        taken = await bag.take({"rows": [row] * 3000}, tool="rows")
        assert isinstance(taken, Kept)
        assert json.loads(await whole(bag, taken.handle)) == {"rows": [row] * 3000}


# What may not be kept


async def slow() -> str:
    await asyncio.sleep(0.05)
    return SECRET


async def writing(writer: Any) -> str:
    for _ in range(20):
        writer.write(f"{SECRET} " * 1000)
        await asyncio.sleep(0)
    return "the end"


def generated() -> Iterator[str]:
    for _ in range(20):
        yield f"{SECRET} " * 1000


COMMAND = Command([sys.executable, "-c", f"print('{SECRET} ' * 30_000)"])


@requirement("store:unkept-clamped-text")
@pytest.mark.parametrize("call", [slow, writing, generated, COMMAND], ids=["slow", "writing", "generated", "command"])
@pytest.mark.parametrize("background", [False, True])
async def test_of_a_tool_that_may_not_be_stored_nothing_reaches_the_disk(
    tmp_path: Path, call: Any, background: bool
) -> None:
    async with opened(tmp_path, slow_after_seconds=0.01, tools=NEVER) as bag:
        taken = await bag.run(call, tool="vault", background=background)
        assert isinstance(taken, Inline | Unkept)  # there is no handle that anybody could ask for
        assert SECRET in str(taken.content)
        if call is not slow:
            assert isinstance(taken, Unkept)
            assert "the rest was not kept and is gone" in str(taken.content)
        assert await bag.outputs() == []
    assert not on_disk(tmp_path)


# Streams of values


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("dialect", ["clamp", "legacy", "holdall"])
async def test_a_stream_of_values_is_whole_or_says_what_is_missing(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        few = await bag.take({"i": number} for number in range(150))
        assert isinstance(few, Inline)
        assert '{"i": 149}' in few.content
        many = await bag.take({"i": number} for number in range(10_000))
        if dialect == "legacy":
            assert isinstance(many, Unkept)
            assert " truncated" in many.content
            assert '{"i": 9999}' in many.content
        else:
            assert isinstance(many, Kept)
            assert many.handle in many.content
            assert (await whole(bag, many.handle)).count(b'{"i": ') == 10_000


async def test_where_a_stream_cannot_be_kept_its_beginning_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, session_quota_bytes=1000) as bag:
        taken = await bag.take({"i": number} for number in range(10_000))
        assert isinstance(taken, Unkept)
        assert "the rest was not kept and is gone" in taken.content


async def test_a_dialect_that_shows_the_beginning_shows_that_of_what_was_written(tmp_path: Path) -> None:
    def call(writer: Any) -> None:
        for number in range(20_000):
            writer.write(f"line {number}\n")

    async with opened(tmp_path, dialect="clamp") as bag:
        taken = await bag.run(call)
        assert isinstance(taken, Kept)
        assert taken.content.startswith("line 0\nline 1\n")
        assert taken.handle in taken.content


# Writing and returning


async def test_what_a_tool_returns_after_it_wrote_keeps_its_form(tmp_path: Path) -> None:
    def picture(writer: Any) -> object:
        writer.write("log\n")
        return [PICTURE]

    def error(writer: Any) -> object:
        writer.write("log\n")
        return {"content": [{"type": "text", "text": "hi"}, PICTURE], "isError": True, "structuredContent": {"a": 1}}

    def data(writer: Any) -> object:
        writer.write("log\n")
        return b"\xff\xfe\x00"

    def odd(writer: Any) -> object:
        writer.write(b"\xff\xfe\x00")
        return "text"

    def fails(writer: Any) -> object:
        writer.write(b"\xff\xfe\x00")
        raise ValueError("no")

    async with opened(tmp_path) as bag:
        assert (await bag.run(picture)).content == [{"type": "text", "text": "log\n"}, PICTURE]
        taken = await bag.run(error)
        assert taken.is_error
        assert taken.content["content"] == [{"type": "text", "text": "log\n"}, {"type": "text", "text": "hi"}, PICTURE]
        assert taken.content["structuredContent"] == {"a": 1}
        assert (await bag.run(data)).content == b"log\n\xff\xfe\x00"
        assert (await bag.run(odd)).content == b"\xff\xfe\x00text"
        failed = await bag.run(fails)
        assert failed.is_error
        assert failed.content.startswith(b"\xff\xfe\x00\n[ValueError: no")
        printing = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00abc'); sys.exit(3)"
        command = await bag.run(Command([sys.executable, "-c", printing]))
        assert command.is_error
        assert command.content.startswith(b"\xff\xfe\x00abc\n[exit code 3")


async def test_a_generator_that_was_made_already_is_run_like_its_function(tmp_path: Path) -> None:
    async def later() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async with opened(tmp_path) as bag:
        for call in (later, later(), lambda: iter("ab"), iter("ab"), (sign for sign in "ab")):
            assert (await bag.run(call, tool="t")).text == "ab"
        no_call = await bag.run(5, tool="t")
        assert (no_call.is_error, no_call.text) == (True, "TypeError: an int cannot be called")


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_value_that_was_written_is_a_line_of_its_own_before_what_is_returned(tmp_path: Path, size: int) -> None:
    def call(writer: Any, returns: object) -> object:
        writer.write("x" * size)
        writer.write({"a": 1})
        return returns

    async with opened(tmp_path) as bag:
        for returns, last in (("y", "y"), ("\ny", "y"), ("", ""), (b"y", "y")):
            taken = await bag.run(call, tool="t", arguments={"returns": returns})
            written = await whole(bag, taken.handle) if isinstance(taken, Kept) else taken.text.encode()
            expected = ["x" * size, '{"a": 1}', last]
            assert written.decode() == "\n".join(expected[: 2 + bool(last)]), returns


async def test_what_a_tool_returns_after_much_was_written_can_be_reached(tmp_path: Path) -> None:
    def call(writer: Any) -> object:
        writer.write("x" * 60_000)
        return {"content": [{"type": "text", "text": "hi"}, PICTURE], "isError": True}

    async with opened(tmp_path) as bag:
        taken = await bag.run(call)
        assert isinstance(taken, Kept)
        assert taken.is_error
        assert taken.artifact.state == "failed"
        kept = (await whole(bag, taken.handle)).decode()
        assert "hi" in kept
        picture = next(one for one in await bag.outputs() if one.handle != taken.handle)
        assert picture.handle in kept
        assert await whole(bag, picture.handle) == b"\x89PNG" + bytes(100)


async def test_a_slow_tool_that_says_that_it_failed_is_told_as_failed(tmp_path: Path) -> None:
    async def call() -> object:
        await asyncio.sleep(0.02)
        return {"content": [{"type": "text", "text": "no such file"}], "isError": True}

    async with opened(tmp_path, slow_after_seconds=0) as bag:
        running = await bag.run(call, tool="fetch")
        assert isinstance(running, Running)
        [ended] = (await bag.wait(running.handle)).ended
        assert ended.state == "failed"
        assert ended.error == "the tool said that it failed"
        assert await whole(bag, running.handle) == b"no such file"


# Values that do odd things


class Broken:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError("do not look")

    def __repr__(self) -> str:
        raise RuntimeError("do not look")


class BrokenDict(dict[str, object]):
    def items(self) -> Any:
        raise RuntimeError("do not look")


class BrokenList(list[object]):
    def __len__(self) -> int:
        raise RuntimeError("do not look")


class Attributes(dict[str, object]):
    """As libraries write it: names are attributes, too."""

    def __getattr__(self, name: str) -> object:
        return self[name]


@requirement("store:take-never-raises")
async def test_a_dictionary_whose_names_are_attributes_is_one(tmp_path: Path) -> None:
    async def call() -> object:
        return Attributes(id=1, total=99.5)

    async with opened(tmp_path) as bag:
        for taken in (
            await bag.take(await call()),
            await bag.run(call),
            await bag.run(lambda: Attributes(id=1, total=99.5)),
        ):
            assert (taken.is_error, taken.text) == (False, '{"id": 1, "total": 99.5}')
        assert await whole(bag, (await bag.keep(await call())).handle) == b'{"id": 1, "total": 99.5}'


ODD: list[object] = [10**5000, [10**5000] * 3, Broken(), BrokenDict(a=1), BrokenList([1])]


@requirement("store:take-never-raises")
@pytest.mark.parametrize("value", ODD, ids=["int", "ints", "object", "dict", "list"])
async def test_a_value_that_cannot_be_written_is_told_and_harms_no_other_call(tmp_path: Path, value: object) -> None:
    async def call() -> object:
        return value

    async with opened(tmp_path) as bag:
        for taken in (await bag.take(value), await bag.run(call)):
            assert isinstance(taken, Inline)
        async with bag.turn() as turn:
            odd, good = turn.run(call), turn.run(slow)
        assert good.content == SECRET
        assert isinstance(odd.result, Inline)  # the value itself, or that it failed
    async with opened(tmp_path, slow_after_seconds=0) as bag:
        running = await bag.run(call)
        if isinstance(running, Running):
            [ended] = (await bag.wait(running.handle)).ended
            assert ended.state == "ready"


async def test_a_value_that_holds_itself_is_told_to_be_no_json_however_large_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        for size, kept in ((10, Inline), (100_000, Kept)):
            value: dict[str, object] = {"text": "x" * size}
            value["self"] = value
            taken = await bag.take(value, tool="t")
            assert isinstance(taken, kept)
            assert "a dict cannot be kept as JSON: Circular reference detected." in taken.text


async def test_a_tool_that_raises_a_cancellation_of_its_own_has_failed_and_its_turn_goes_on(tmp_path: Path) -> None:
    async def call() -> str:
        raise asyncio.CancelledError

    async with opened(tmp_path) as bag:
        taken = await bag.run(call)
        assert taken.is_error
        async with bag.turn() as turn:
            odd, good = turn.run(call), turn.run(slow)
        assert odd.result.is_error
        assert good.content == SECRET


@pytest.mark.parametrize("lines", [1, 3_000, 30_000])
async def test_a_stream_that_raises_a_cancellation_of_its_own_has_failed_with_what_there_was(
    tmp_path: Path, lines: int
) -> None:
    expected = "".join(f"row {n}\n" for n in range(lines))

    async def cancelled_inside() -> None:
        waits = asyncio.ensure_future(asyncio.Event().wait())
        waits.cancel()
        await waits

    async def yields() -> AsyncIterator[str]:
        for line in expected.splitlines(keepends=True):
            yield line
        await cancelled_inside()

    async def writes(writer: Any) -> None:
        writer.write(expected)
        await cancelled_inside()

    def plain() -> Iterator[str]:
        yield expected
        raise asyncio.CancelledError

    async with opened(tmp_path) as bag:
        calls = [bag.run(yields, tool="a"), bag.run(writes, tool="b"), bag.run(plain, tool="c")]
        calls += [bag.take(yields(), tool="d"), bag.take(plain(), tool="e")]
        for call in calls:
            taken = await call
            assert taken.is_error
            if isinstance(taken, Kept):
                assert taken.artifact.state == "failed"
                assert await whole(bag, taken.handle) == expected.encode()
            else:
                assert (lines, taken.text.splitlines()[0]) == (1, "row 0")
                assert "ancelled" in taken.text
        told = await bag.take(cancelled_inside(), tool="f")
        assert (told.is_error, told.text) == (True, "CancelledError")


async def test_a_plain_iterator_without_an_end_stops_when_its_call_is_cancelled(tmp_path: Path) -> None:
    given = threading.Event()

    def endless() -> Iterator[str]:
        while True:
            yield "a line of output\n" * 1000
            given.set()

    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        task = asyncio.create_task(bag.keep(endless(), tool="crawl"))
        await asyncio.to_thread(given.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):  # else it would never come here
            await task
        (facts,) = await bag.outputs()
        assert facts.measure.bytes >= 17_000


async def test_what_a_cancelled_call_had_written_is_kept(tmp_path: Path) -> None:
    wrote = asyncio.Event()

    async def call(writer: Any) -> None:
        writer.write("as far as it came\n")
        wrote.set()
        await asyncio.sleep(60)

    async with opened(tmp_path) as bag:
        task = asyncio.ensure_future(bag.run(call, tool="crawl"))
        await wrote.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        [facts] = await bag.outputs()
        assert (facts.state, facts.origin.tool) == ("cancelled", "crawl")
        assert await whole(bag, facts.handle) == b"as far as it came\n"


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("store", ["oversized", "never", "full"])
@pytest.mark.parametrize("dialect", ["holdall", "clamp", "async", "legacy", "extract", "refs"])
async def test_a_stream_that_breaks_is_told_in_the_same_way_by_take_and_by_run(
    tmp_path: Path, dialect: Any, store: Any
) -> None:
    """However much of it came before: its own bytes are kept, and beside them how it ended."""

    def breaks(text: str) -> Iterator[str]:
        yield text
        raise ValueError("the stream broke")

    quota: dict[str, Any] = {"session_quota_bytes": 1_000} if store == "full" else {}
    policy = {"x": ToolPolicy(store="oversized" if store == "full" else store)}
    async with opened(tmp_path, dialect=dialect, tools=policy, **quota) as bag:
        texts = ["a\n", "a\n" * 2_500, "1 a\n" * 1_900 + " 7" * 10_000, "word and more\n" * 10_000]
        for text in texts[:-1] if store == "full" else texts:  # a long one is not read on for nothing: nobody knows
            taken = await bag.take(breaks(text), tool="x")
            ran = await bag.run(partial(breaks, text), tool="x")
            for one in (taken, ran):
                assert one.is_error
                assert "ValueError: the stream broke" in one.text
                if store == "full":  # a call that writes to the store as it runs has its beginning there
                    continue
                assert type(one) is type(ran)
                if isinstance(one, Kept):
                    assert await whole(bag, one.handle) == text.encode()
                    assert one.artifact.state == "failed"


async def test_an_error_that_a_slow_tool_gives_is_whole(tmp_path: Path) -> None:
    async def call() -> object:
        await asyncio.sleep(0.02)
        return {"content": [{"type": "text", "text": "test failed\n" * 9_000}], "isError": True}

    async with opened(tmp_path, slow_after_seconds=0) as bag:
        running = await bag.run(call, tool="fetch")
        assert isinstance(running, Running)
        said = (await bag.call("wait_for_tool_output", {"handle": running.handle})).text
        assert "\nfetch failed with 108,000 bytes · 9,000 lines · 27,000 tokens (text)\n" in said
