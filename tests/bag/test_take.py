"""take: the one place that decides what a model gets of an output."""

import asyncio
import dataclasses
import errno
import io
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall import (
    Holdall,
    Inline,
    Kept,
    MemoryStore,
    NeverStored,
    Settings,
    StoreFault,
    StoreFull,
    ToolPolicy,
    Unkept,
    UsageError,
)  # fmt: skip
from holdall.bag import take as take_module
from holdall.guard.recovery import compact, replace_large_results
from holdall.store.directory.store import DirectoryStore
from holdall.values.chat import Assistant, Message, System, ToolCall, ToolResult, User
from holdall.values.spans import Span
from tests.bag.shapes import LOG, SMALL, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("api:take", "api:taken-union", "way:fits-same-object", "way:function-results", "way:one-place-decides")
@pytest.mark.parametrize(
    "output",
    [SMALL, b"bytes", bytearray(b"more"), {"a": [1, 2]}, [1, "x"], 42, 3.5, True, None, ("a", 1), {"content": "small"}],
    ids=repr,
)
async def test_what_fits_is_returned_as_the_same_object(tmp_path: Path, output: object) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(output, tool="t")
        assert isinstance(taken, Inline)
        assert taken.content is output
        assert not await bag.outputs()


@requirement("way:too-big-stored-then-notice", "store:oversized-eagerly")
async def test_what_does_not_fit_is_stored_whole_and_a_notice_stands_in_its_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(LOG, tool="fetch", arguments={"url": "x"}, call_id="c1")
        match taken:
            case Kept(artifact):
                assert (await bag.read(artifact.handle, bytes=":", bounded=False)).text == LOG
            case _:
                pytest.fail(repr(taken))
        assert f"handle: {taken.handle}" in taken.content
        assert (await bag.show("c1")).origin.arguments == {"url": "x"}


class Row:
    """A class that only knows its own text."""

    def __str__(self) -> str:
        return "row " * 20_000


@dataclasses.dataclass
class Report:
    title: str
    rows: list[int]


@requirement("way:nothing-lost-silently")
@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (LOG.encode(), LOG.encode()),
        ({"rows": list(range(20_000))}, json.dumps({"rows": list(range(20_000))}).encode()),
        (Report("r", list(range(20_000))), json.dumps({"title": "r", "rows": list(range(20_000))}).encode()),
        (Row(), json.dumps("row " * 20_000).encode()),
        (b"\x89PNG\x00" * 20_000, b"\x89PNG\x00" * 20_000),
        ("\ud800" * 60_000, "\ufffd".encode() * 60_000),
    ],
    ids=["bytes", "json", "dataclass", "object", "binary", "surrogates"],
)
async def test_every_form_is_kept_byte_for_byte(tmp_path: Path, output: object, kept: bytes) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(output, tool="t")
        assert isinstance(taken, Kept)
        assert (await bag.read(taken.handle, bytes=":", bounded=False)).data == kept


async def test_a_pydantic_model_is_taken_as_its_json(tmp_path: Path) -> None:
    pydantic = pytest.importorskip("pydantic")
    model: Any = pydantic.create_model("Model", rows=(list[int], ...))
    small, large = model(rows=[1]), model(rows=list(range(20_000)))
    async with opened(tmp_path) as bag:
        assert (await bag.take(small)).content is small
        taken = await bag.take(large)
        assert isinstance(taken, Kept)
        nodes = await bag.query(taken.handle, path="$.rows[19999]")
        assert nodes.to_json()["nodes"][0]["text"] == "19999"


async def test_a_value_that_holds_itself_is_told_as_python_tells_it(tmp_path: Path) -> None:
    circle: list[object] = ["x" * 60_000]
    circle.append(circle)
    async with opened(tmp_path) as bag:
        taken = await bag.take(circle)
        assert isinstance(taken, Kept)
        assert "[...]" in (await bag.tail(taken.handle, 1)).text
        assert "cannot be kept as JSON" in taken.artifact.measure.notes[0]


# Streams


async def _later(parts: list[object]) -> AsyncIterator[object]:
    for part in parts:
        await asyncio.sleep(0)
        yield part


@requirement("way:takes-streams", "way:stream-joined-first")
@pytest.mark.parametrize("form", ["iterator", "async", "file", "pipe"])
async def test_a_stream_that_fits_is_joined_and_one_that_does_not_is_kept(tmp_path: Path, form: str) -> None:
    def stream(text: str) -> object:
        parts: list[object] = [text[at : at + 1000] for at in range(0, len(text), 1000)]
        if form == "iterator":
            return iter(parts)
        return _later(parts) if form == "async" else io.StringIO(text) if form == "file" else io.BytesIO(text.encode())

    async with opened(tmp_path) as bag:
        small = await bag.take(stream(SMALL))
        assert isinstance(small, Inline)
        assert small.content == (SMALL.encode() if form == "pipe" else SMALL)
        large = await bag.take(stream(LOG))
        assert isinstance(large, Kept)
        assert (await bag.read(large.handle, bytes=":", bounded=False)).text == LOG


@requirement("way:takes-streams")
async def test_a_stream_of_blocks_is_one_result_with_all_of_them(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    async with opened(tmp_path) as bag:
        assert (await bag.take(iter(blocks))).content == blocks
        taken = await bag.take(iter([{"type": "text", "text": "x" * 40_000}] * 2))
        assert isinstance(taken, Kept)
        assert taken.artifact.measure.bytes == 80_001


@requirement("way:nothing-lost-silently")
async def test_a_stream_that_breaks_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    def broken(count: int) -> Iterator[str]:
        for _ in range(count):
            yield "before\n"
        raise OSError("the line went dead")

    async with opened(tmp_path) as bag:
        small = await bag.take(broken(2), tool="crawl")
        assert isinstance(small, Inline)
        assert (small.content, small.is_error) == ("before\nbefore\n\n[OSError: the line went dead]", True)
        taken = await bag.take(broken(20_000), tool="crawl")
        assert isinstance(taken, Kept)
        assert taken.is_error
        assert "It is not whole (failed: OSError: the line went dead" in taken.content
        assert (await bag.read(taken.handle, bytes=":", bounded=False)).text == "before\n" * 20_000
    async with opened(tmp_path / "legacy", dialect="legacy") as bag:
        unkept = await bag.take(broken(20_000), tool="crawl")
        assert (unkept.is_error, unkept.text.endswith("before\n\n[OSError: the line went dead]")) == (True, True)


# Errors


@requirement("way:takes-errors", "way:error-text", "clamp:around-errors", "clamp:traceback-to-facts")
async def test_an_error_keeps_its_mark_and_its_traceback_goes_to_the_facts(tmp_path: Path) -> None:
    def fail(message: str) -> None:
        raise ValueError(message)

    async with opened(tmp_path) as bag:
        small = await bag.run(fail, tool="t", arguments={"message": "too hot"})
        assert isinstance(small, Inline)
        assert (small.content, small.is_error) == ("ValueError: too hot", True)
        assert "in fail" in small.traceback
        large = await bag.run(fail, tool="t", arguments={"message": "hot " * 20_000})
        assert isinstance(large, Kept)
        assert large.is_error
        assert large.artifact.origin.is_error
        assert "in fail" in large.artifact.origin.traceback
        assert large.content.startswith("t failed with 80,012 bytes"), "an API may have no other way to say it"
        assert "Traceback" not in large.content
        assert (await bag.read(large.handle, bytes=":", bounded=False)).text == "ValueError: " + "hot " * 20_000
        assert (await bag.show(large.handle)).origin.traceback == large.artifact.origin.traceback
        with pytest.raises(ValueError, match="too cold") as raised:
            fail("too cold")
        kept = await bag.keep(raised.value, tool="t")
        assert (await bag.read(kept.handle)).text == "ValueError: too cold"
        assert kept.origin.is_error
        assert "in fail" in kept.origin.traceback


# Policy


@requirement("way:policy-limits", "dialect:limits-settable")
async def test_a_tool_may_have_limits_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path, max_inline_bytes=5, tools={"loud": ToolPolicy(max_inline_bytes=100_000)}) as bag:
        assert isinstance(await bag.take("x" * 6, tool="quiet"), Kept)
        assert isinstance(await bag.take("word " * 2000, tool="loud"), Inline)


@requirement("way:policy-never-stored", "clamp:says-gone")
async def test_what_is_never_stored_reaches_no_disk_and_says_what_is_missing(tmp_path: Path) -> None:
    async with opened(tmp_path, tools={"vault": ToolPolicy(store="never")}) as bag:
        taken = await bag.take("secret " * 20_000, tool="vault")
        assert isinstance(taken, Unkept)
        assert isinstance(taken.fault, NeverStored)
        assert taken.content.endswith("gone: outputs of vault are not to be stored; there were 140,000 bytes in all]")
        assert bag.core.count(taken.content) <= 10_050
        image = {"type": "image", "data": "QUFB" * 600_000, "mimeType": "image/png"}
        pictured = await bag.take([{"type": "text", "text": "see"}, image], tool="vault")
        assert pictured.content[1]["text"] == (
            "[image/png, 1,800,000 bytes: too large to show, and not kept: outputs of vault are not to be stored]"
        )
    for folder, _, files in os.walk(tmp_path):
        for file in files:
            assert b"secret secret" not in (Path(folder) / file).read_bytes()


@requirement("way:policy-always-stored")
async def test_what_is_always_stored_is_stored_and_shown_as_it_came(tmp_path: Path) -> None:
    async with opened(tmp_path, tools={"audit": ToolPolicy(store="always")}) as bag:
        output = {"ok": True}
        taken = await bag.take(output, tool="audit")
        assert isinstance(taken, Kept)
        assert taken.content is output
        assert (await bag.read(taken.handle)).text == '{"ok": true}'


# Where the disk refuses


class Refusing(DirectoryStore):
    def put(self, *args: Any, **kwargs: Any) -> Any:
        raise StoreFull("no space is left on the disk.")


@requirement("store:take-never-raises", "store:unkept-clamped-text", "store:unkept-fault-reported", "api:open-store")
async def test_a_disk_that_refuses_is_told_and_never_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Holdall.open(store=Refusing(str(tmp_path / "home"))) as bag:
        with caplog.at_level(logging.WARNING, logger="holdall"):
            taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Unkept)
        assert isinstance(taken.fault, StoreFull)
        assert LOG.startswith(taken.content.split("\n\n[tool output truncated")[0])
        assert taken.content[-232:] == snapshot("""\
00:

[tool output truncated: exceeded 50KB or 2000 lines or 10000 tokens; request smaller chunks (offset/limit) or specific sections]
[the rest was not kept and is gone: no space is left on the disk; there were 168,900 bytes in all]\
""")
        assert bag.core.count(taken.content) <= 10_060
        assert "no space is left on the disk" in caplog.text
        streamed = await bag.take(iter([LOG] * 3), tool="fetch")
        assert isinstance(streamed, Unkept)
        assert streamed.content.startswith(LOG[:1000])
        mcp = await bag.take({"content": [{"type": "text", "text": LOG}], "isError": True})
        assert isinstance(mcp, Unkept)
        assert mcp.content["isError"] is True
        binary = await bag.take(b"\xff" * 60_000)
        assert binary.content == snapshot(
            "[binary data, 60,000 bytes: too large to show, and not kept: no space is left on the disk.]"
        )
        assert (await bag.take(SMALL)).content is SMALL
        assert (await bag.counters()).unkept == 4


@requirement("store:unkept-fault-reported")
async def test_what_is_not_to_be_stored_is_in_the_log_and_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdall")
    async with opened(tmp_path / "legacy", dialect="legacy") as bag:
        assert isinstance(await bag.take(LOG, tool="fetch"), Unkept)
    async with opened(tmp_path / "vault", tools={"vault": ToolPolicy(store="never")}) as bag:
        assert isinstance(await bag.take(LOG, tool="vault"), Unkept)
    said = [one for one in caplog.records if one.getMessage().startswith("unkept")]
    assert [one.levelno for one in said] == [logging.INFO] * 2


@requirement("store:take-never-raises")
@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE], ids=errno.errorcode.__getitem__)
async def test_whatever_the_system_refuses_is_a_fault_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    async with opened(tmp_path) as bag:
        monkeypatch.setattr("holdall.store.directory.disk.create", refused)
        taken = await bag.take(LOG)
        assert isinstance(taken, Unkept)
        assert isinstance(taken.fault, StoreFault)
        assert os.strerror(code).lower() in taken.content.lower()


@requirement("store:take-never-raises")
async def test_a_quota_is_a_fault_in_the_result(tmp_path: Path) -> None:
    async with opened(tmp_path, session_quota_bytes=1000) as bag:
        taken = await bag.take(LOG)
        assert isinstance(taken, Unkept)
        assert "the quota of this session is 1.0 kB" in taken.content


async def test_events_that_the_disk_refuses_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    async with opened(tmp_path) as bag:
        monkeypatch.setattr(type(bag.store), "append_events", full)
        assert (await bag.take(SMALL)).content is SMALL
        assert (await bag.counters()).inline == 1
        monkeypatch.undo()
        await bag.take(SMALL)
        await bag.close()
    async with opened(tmp_path) as bag:
        assert (await bag.counters()).inline == 2, "the event that waited was written with the next one"


# Room


@requirement("way:decide-room-left", "dialect:holdall-room", "dialect:extract-room", "dialect:async-room")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "async"])
async def test_what_is_larger_than_the_room_left_is_kept_whatever_the_limits_say(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, dialect=dialect) as bag:
        text = "word " * 1000
        assert isinstance(await bag.take(text, tokens_left=1100), Inline)
        assert isinstance(await bag.take(text, tokens_left=900), Kept)


@requirement("dialect:legacy-room")
async def test_legacy_cuts_to_the_room_left(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take("word " * 1000, tokens_left=400)
        assert isinstance(taken, Unkept)
        assert bag.core.count(taken.content) <= 400
        assert "truncated" in taken.content


@requirement("dialect:legacy-room", "dialect:legacy-json")
async def test_legacy_uses_the_room_left_for_what_json_has_without_its_spaces(tmp_path: Path) -> None:
    text = json.dumps({"a": list(range(1000))})
    compact = json.dumps({"a": list(range(1000))}, separators=(",", ":"))
    async with opened(tmp_path, dialect="legacy") as bag:
        least, most = bag.core.count(compact), bag.core.count(text)
        for room in (least, least + 100, most - 1):
            async with bag.turn(tokens_left=room) as turn:
                taken = turn.take(text, tool="fetch")
            assert taken.content == compact
        async with bag.turn(tokens_left=least - 1) as turn:
            taken = turn.take(text, tool="fetch")
        assert least * 0.8 < bag.core.count(str(taken.content)) < least
        assert len(json.loads(str(taken.content))["a"]) > 800


@pytest.mark.parametrize("dialect", ["clamp", "legacy"])
async def test_a_little_over_a_limit_of_tokens_nearly_all_is_shown(tmp_path: Path, dialect: str) -> None:
    text = "".join(f"line {number}\n" for number in range(300))
    async with opened(tmp_path, dialect=dialect, max_inline_tokens=1100) as bag:
        assert 1100 < bag.core.count(text) < 1300
        taken = await bag.take(text, tool="fetch")
        assert 900 < bag.core.count(str(taken.content)) <= 1200


@requirement("dialect:legacy-json")
async def test_legacy_gives_json_whole_that_fits_without_its_spaces(tmp_path: Path) -> None:
    rows = [{"id": n, "name": f"n{n}"} for n in range(300)]
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take(json.dumps(rows, indent=4), tool="t")
        assert taken.content == json.dumps(rows, separators=(",", ":"))


@pytest.mark.fuzz
@given_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["ü", "漢", "😀", "\n", "x" * 50, "a\r\n", "\x00", "</k3f9:1>"]), max_size=400))
async def test_whatever_is_taken_is_whole_or_reachable(tmp_path: Path, pieces: list[str]) -> None:
    text = "".join(pieces)
    async with opened(tmp_path, max_inline_bytes=2000) as bag:
        taken = await bag.take(text)
        if isinstance(taken, Inline):
            assert taken.content is text
        else:
            assert isinstance(taken, Kept)
            assert (await bag.read(taken.handle, bytes=":", bounded=False)).text == text
            assert taken.handle in taken.content


@pytest.mark.parametrize("name", ["a.b", "a_b", "v__a.b", "v__a_b", "mcp__v__a_b"])
async def test_a_policy_holds_for_a_name_as_providers_write_it(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path, tools={name: ToolPolicy(store="never")}) as bag:
        bag.core.is_shown_as("a.b", "a.b", "v__a.b", "mcp__v__a.b")
        assert isinstance(await bag.take(LOG, tool="a.b"), Unkept)


def test_settings_refuse_what_is_no_policy() -> None:
    with pytest.raises(Exception, match="tools"):
        Settings(tools={"fetch": "never"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(Exception, match="store"):
        ToolPolicy(store="sometimes")  # pyright: ignore[reportArgumentType]


def test_the_faults_of_a_store_are_one_family() -> None:
    assert issubclass(NeverStored, StoreFault)


@requirement("dialect:holdall-is-default")
async def test_without_a_setting_the_dialect_is_ours(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        assert bag.dialect.name == "holdall"


@requirement("dialect:clamp-handle", "clamp:stored-first")
async def test_in_the_clamp_dialect_the_handle_stands_after_the_suffix(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="clamp") as bag:
        taken = await bag.take(LOG)
        assert isinstance(taken, Kept)
        assert taken.content.endswith(f"or specific sections]\n[all of it is kept; handle: {taken.handle}]")
        assert len(taken.content.encode()) <= 50 * 1024
        assert (await bag.read(taken.handle, bytes=":", bounded=False)).text == LOG


@requirement("api:open-clock")
async def test_times_come_from_the_clock_that_is_handed_in(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=lambda: 1_234_567_890.5) as bag:
        taken = await bag.take(LOG)
        assert isinstance(taken, Kept)
        assert taken.artifact.created == 1_234_567_890.5


@requirement("way:nothing-lost-silently")
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([1, 23, 4], "1\n23\n4"),
        ([0.25, None, True], "0.25\nnull\ntrue"),
        ([{"a": 1}, {"a": 2}], '{"a": 1}\n{"a": 2}'),
        (["a", {"n": 1}, "\n", 5, "b\n", [2], "c", "d", 6, "", "\r\ne"], 'a\n{"n": 1}\n5\nb\n[2]\ncd\n6\r\ne'),
        ([b"a", 1, b"\n", bytearray(b"b"), memoryview(b"c"), 2], "a\n1\nbc\n2"),
    ],
    ids=["numbers", "scalars", "rows", "among texts", "among bytes"],
)
@requirement("way:nothing-lost-silently", "api:take")
async def test_values_of_a_stream_are_on_lines_of_their_own_and_texts_are_joined(
    tmp_path: Path, parts: list[object], text: str
) -> None:
    async with opened(tmp_path) as bag:
        assert (await bag.take(iter(parts))).content == text
        assert (await bag.take(_later(parts))).content == text
        assert (await bag.run(lambda: iter(parts))).content == text
        running = await bag.run(lambda: _later(parts), background=True)
        await bag.wait(running.handle)
        for facts in (await bag.keep(iter(parts)), await bag.show(running.handle)):
            assert await bag.fetch.original_text(facts.handle) == text


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("count", [9_000, 30_000])
@pytest.mark.parametrize("form", ["iterator", "async", "run"])
@requirement("way:nothing-lost-silently")
async def test_many_numbers_of_a_stream_are_queried_as_those_of_a_list(tmp_path: Path, form: str, count: int) -> None:
    numbers: list[object] = [None if n % 3 == 0 else n for n in range(count)]
    async with opened(tmp_path) as bag:
        call = bag.run(lambda: iter(numbers)) if form == "run" else None
        taken = await (call or bag.take(iter(numbers) if form == "iterator" else _later(numbers)))
        assert isinstance(taken, Kept)
        found = await bag.query(taken.handle, "select count(*), count(value), sum(value::bigint) from t")
        assert found.rows == ((count, count * 2 // 3, sum(n for n in range(count) if n % 3)),)


@pytest.mark.parametrize("form", ["iterator", "async"])
async def test_of_a_stream_that_is_not_stored_the_text_says_how_much_there_was(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends where it can be held; else only the beginning is at hand."""
    parts: list[object] = ["x" * 10_000] * 400
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take(iter(parts) if form == "iterator" else _later(parts))
        assert isinstance(taken, Unkept)
        assert f"{4_000_000 - taken.content.count('x'):,} bytes (1 line) truncated" in taken.content
        assert taken.content.endswith("xxx")
    monkeypatch.setattr(take_module, "_MAX_WHOLE", 1_000_000)
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take(iter(parts) if form == "iterator" else _later(parts))
        assert isinstance(taken, Unkept)
        assert taken.content.endswith("nothing is to be stored; there were 4,000,000 bytes in all]")


@requirement("way:nothing-lost-silently")
async def test_in_the_clamp_dialect_binary_data_is_told_by_its_size_and_handle(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="clamp") as bag:
        taken = await bag.take(b"\xff" * 60_000)
        assert isinstance(taken, Kept)
        assert taken.content == f"[binary data, 60,000 bytes: too large to show, kept; handle: {taken.handle}]"
        cut = await bag.take(LOG)
        assert isinstance(cut, Kept)
        shown = (await bag.coverage(cut.handle)).shown.bytes()
        assert 40_000 < shown < 51_200


@requirement("store:take-never-raises")
@pytest.mark.parametrize("part", ["holdall.policy.measure.kind_of", "holdall.verbs.preview.outline"])
async def test_a_guess_that_fails_costs_the_picture_and_never_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(part, fails)
    async with opened(tmp_path) as bag:
        with pytest.warns(UserWarning, match=r"Holdall could not .* IndexError.* Please report it"):
            taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Kept)
        assert taken.handle in taken.content
        assert b"".join([part async for part in bag.stream(taken.handle)]) == LOG.encode()
        told = "its kind could not be told (IndexError)" in taken.artifact.measure.notes
        assert told == (part == "holdall.policy.measure.kind_of")


ODD = "name \udce4 \ufffd \ud83d\n" * 9_000


@requirement("measure:surrogates-rebuilt")
@pytest.mark.parametrize("memory", [False, True])
async def test_a_text_with_lone_surrogates_is_had_back_as_it_was(tmp_path: Path, memory: bool) -> None:
    async with Holdall.open(home=str(tmp_path), store=MemoryStore() if memory else None) as bag:

        async def parts() -> AsyncIterator[object]:
            for start in range(0, len(ODD), 7_777):
                yield ODD[start : start + 7_777]

        async def written(writer: Any) -> None:
            for start in range(0, len(ODD), 5_555):
                writer.write(ODD[start : start + 5_555])

        for output in (ODD, parts(), {"type": "tool_result", "content": [{"type": "text", "text": ODD}]}):
            taken = await bag.take(output, tool="t")
            assert isinstance(taken, Kept)
            assert await bag.original_text(taken.handle) == ODD
            assert taken.artifact.measure.notes == ("18,000 lone surrogates were replaced by U+FFFD",)
        taken = await bag.run(written, tool="t")
        assert isinstance(taken, Kept)
        assert await bag.original_text(taken.handle) == ODD
        value = await bag.take([ODD], tool="t")
        assert isinstance(value, Kept)
        assert json.loads(await bag.original_text(value.handle)) == [ODD]
        plain = await bag.keep("ü\n", tool="t")
        assert (await bag.original_text(plain.handle), plain.measure.surrogates) == ("ü\n", "")
        binary = await bag.keep(b"\xff", tool="t")
        with pytest.raises(UsageError, match="is no text"):
            await bag.original_text(binary.handle)


@requirement("clamp:says-gone")
async def test_a_text_that_is_cut_over_characters_names_that_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="refs", tools={"vault": ToolPolicy(store="never")}) as bag:
        taken = await bag.take("abc de\n" * 714, tool="vault")
        assert "[tool output truncated: exceeded 16KB or 4000 characters; request" in taken.content


@requirement("dialect:refs-errors")
async def test_refs_shows_the_errors_in_their_order_and_says_how_many_more_there_are(tmp_path: Path) -> None:
    said = [
        "ValueError: bad a", "ERROR disk full on /dev/sda", "Traceback (most recent call last):\nKeyError: 'q'",
        "FATAL: password authentication failed", "error: undefined reference to foo", "Exception in thread main",
    ]  # fmt: skip
    quiet = "ok fine\n" * 80
    many = "".join(f"{quiet}\nERROR {n} {'something ' * 20}\n\n" for n in range(60)) + quiet
    async with opened(tmp_path, dialect="refs") as bag:
        few = await bag.take("".join(f"{quiet}\n{one}\n\n" for one in said) + quiet, tool="t")
        assert re.findall(r"^Line \d+:\n((?:[^<\n].*\n)+)", few.content, re.MULTILINE) == [f"{one}\n" for one in said]
        assert "more line" not in few.content
        told = (await bag.take(many, tool="t")).content
        shown = [int(number) for number in re.findall(r"^ERROR (\d+) ", told, re.MULTILINE)]
        assert shown == [*range(len(shown))]
        assert 5 < len(shown) < 20
        assert f"({60 - len(shown)} more lines may be about errors.)" in told
        lines = [f"ERROR {n} {'x' * 1000}\n" for n in range(2000)]
        sampled = (await bag.take("".join(lines), tool="t")).content
        assert "(at least 1,035 more lines may be about errors.)" in sampled  # of the beginning and the end
        long = await bag.take(f"{quiet}\nERROR 0 {'e' * 3000}\n\n{quiet * 10}", tool="t")
        assert "eee…\n" in long.content


@requirement("dialect:refs-head-tail", "extract:truncate", "ledger:truncate")
async def test_bytes_that_are_no_text_are_not_shown_as_if_they_were(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="refs") as bag:
        taken = await bag.take(bytes(range(256)) * 100, tool="t")
        assert isinstance(taken, Kept)
        assert "It is binary data, no text: nothing of it is shown here.\nContextRef: " in taken.content
        assert not (await bag.coverage(taken.handle)).shown.as_lists()
    async with opened(tmp_path, dialect="extract") as bag:
        asked = {"handle": taken.handle, "extract": "x", "mode": "truncate"}
        told = (await bag.call("tool_output", asked)).text
        assert "[not text; as hexadecimal bytes:]\n00 01 02 03" in told
        assert "fd fe ff\n<" in told
        assert "\ufffd" not in told


@requirement("dialect:refs-snippets")
@pytest.mark.parametrize("text", ["a\n" * 2000 + "x" * 3000 + "\nend\n", "first\n" + "x" * 3000 + "\n" + "a\n" * 2000])
async def test_refs_fills_a_snippet_with_a_part_of_a_long_line(tmp_path: Path, text: str) -> None:
    async with opened(tmp_path, dialect="refs") as bag:
        content = (await bag.take(text, tool="t")).content
        assert "\nend\n" in content or "\nfirst\n" in content
        assert len(max(re.findall("x+", content), key=len)) == pytest.approx(2048, abs=10)


@requirement("store:notice-recorded")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "refs", "async", "clamp"])
async def test_what_a_model_got_is_recorded(tmp_path: Path, dialect: Any) -> None:
    log = "".join(f"line {number} ü\n" for number in range(20_000))
    async with Holdall.open(home=str(tmp_path), settings=Settings(dialect=dialect, difference_notices=False)) as bag:
        small = await bag.take("small", tool="t")
        taken = await bag.take(log, tool="t")
        again = await bag.take([{"type": "text", "text": log}], tool="t")
        assert isinstance(small, Inline)
        assert isinstance(taken, Kept)
        assert isinstance(again, Kept)
        for one, content in ((taken, taken.content), (again, again.content[0]["text"])):
            noticed = bag.noticed(one.handle)
            assert noticed is not None
            beginning = log.encode()[: noticed.after].decode()
            assert (noticed.dialect, beginning + noticed.text) == (dialect, content)
            assert len(noticed.text) < 6_000, "what is in the output is not kept twice"
        assert len(bag.store.notes(bag.session)) == 2
        await asyncio.to_thread(bag.store.expire, bag.session, [taken.artifact], "test")
        assert bag.noticed(taken.handle) is None
        assert bag.noticed(again.handle) is not None, "it has the same bytes, and a notice of its own"


@requirement("way:one-place-decides")
@pytest.mark.parametrize("dialect", ["holdall", "clamp"])
@pytest.mark.parametrize("output", [LOG, b"\xff\x00" * 40_000], ids=["text", "binary"])
async def test_what_was_kept_earlier_is_shown_as_it_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, output: str | bytes
) -> None:
    monkeypatch.setattr("holdall.bag.take.new_fence_tag", lambda: "aaaa")
    monkeypatch.setattr("holdall.bag.take.new_tag", lambda: "aaaa")
    async with opened(tmp_path, dialect=dialect) as bag:
        taken = await bag.take(output, tool="fetch")
        assert isinstance(taken, Kept)
        assert await bag.fetch.shown(taken.handle) == taken
        first, second = bag.records.history()
        assert (first.kind, second.kind, second.data["verb"]) == ("kept", "retrieved", "shown")
        assert first.data["shown"] == second.data["shown"]


@requirement("ledger:error-paragraphs")
@pytest.mark.parametrize("dialect", ["refs", "holdall"])
async def test_what_a_notice_shows_of_errors_is_in_the_ledger(tmp_path: Path, dialect: str) -> None:
    quiet = [f"2026-01-01 00:00:00 INFO all is well {n}" for n in range(3000)]
    quiet[1500:1500] = ["", "Traceback of job 7", "  ValueError: no such disk", "  after that", ""]
    quiet[2500:2500] = ["   FATAL: out of memory "]
    text = "\n".join(quiet) + "\n"
    async with opened(tmp_path, dialect=dialect, max_inline_lines=100, notice_max_tokens=600) as bag:
        taken = await bag.take(text, tool="t")
        assert isinstance(taken, Kept)
        ledger = await bag.coverage(taken.handle)
        wanted = (
            "Traceback of job 7\n  ValueError: no such disk\n  after that"
            if dialect == "refs"
            else "ValueError: no such disk"
        )
        for shown in (wanted, "FATAL: out of memory"):
            at = text.index(shown)
            assert shown in taken.content
            assert ledger.shown.covers(Span(at, at + len(shown)))
        assert ledger.shown.bytes() < 6000, "and nothing else"


@requirement("ledger:shown")
async def test_lines_of_a_log_that_a_notice_shows_without_their_time_are_in_the_ledger(tmp_path: Path) -> None:
    what = {1700: "FAILED:  disk 7 is gone"}
    log = "".join(f"2026-11-15 10:{n // 60:02}:{n % 60:02} job {n} {what.get(n, 'done')}\n" for n in range(3000))
    async with opened(tmp_path) as bag:
        taken = await bag.take(log, tool="jobs")
        assert isinstance(taken, Kept)
        assert "L1,701 × 1  job 1700 FAILED: disk 7 is gone" in taken.content
        shown = (await bag.coverage(taken.handle)).shown
        read = [log.encode()[start:end].decode() for start, end in shown.as_lists()]
        assert read == ["job 1700 FAILED:  disk 7 is gone"]


@requirement("way:batch-envelope-not-stored", "way:batch-members")
async def test_recovery_keeps_the_members_of_a_batch_one_by_one(tmp_path: Path) -> None:
    parts = [
        {"tool": "fetch", "result": LOG}, {"tool": "small", "result": SMALL},
        {"tool": "other", "result": f"{LOG}more\n", "is_error": True},
    ]  # fmt: skip
    async with opened(tmp_path) as bag:
        transcript: list[Message] = [User("u"), ToolResult("b", "batch", json.dumps(parts))]
        assert await replace_large_results(bag, transcript, 60_000) == 1
        kept = [(one.origin.tool, one.origin.call_id, one.measure.lines) for one in await bag.outputs()]
        assert kept == [("fetch", "b.0", 5000), ("other", "b.2", 5001)]
        first, second, third = json.loads(transcript[-1].text)
        assert first["result"].startswith("fetch returned 168,900 bytes")
        assert second == parts[1]
        assert third["result"].startswith("other returned ")
        assert third["is_error"] is True


@requirement("ledger:recovery", "watch:outputs-kept")
@pytest.mark.parametrize("dialect", ["holdall", "clamp"])
async def test_what_recovery_replaces_is_in_the_ledger(tmp_path: Path, dialect: str) -> None:
    """What the model had in a request that it answered was shown whole; of the rest it has the notice."""
    call = ToolCall("c1", "t", {})
    results = [ToolResult("c1", "t", LOG), ToolResult("c2", "t", LOG + "more\n")]
    async with opened(tmp_path, dialect=dialect) as bag:
        transcript: list[Message] = [System("s"), User("u"), Assistant("", (call,)), results[0], Assistant("", (call,))]
        transcript.append(results[1])
        assert await replace_large_results(bag, transcript, 60_000) == 2
        seen = list(bag.records.seen().values())
        first, second = (facts.handle for facts in await bag.outputs())
        assert seen[0] == 1.0
        shown = (await bag.coverage(second)).shown
        assert 0 < shown.bytes() < 0.4 * len(LOG)
        text = (LOG + "more\n").encode()
        for start, end in shown.as_lists():
            assert text[start:end].decode().strip("\n").split("\n")[0] in transcript[-1].text
        counters = await bag.counters()
        assert (counters.kept, counters.tokens_kept_out > 0) == (2, True)
        again = await bag.read(first, lines=(1, 2))
        assert again.bytes.start == 0
        transcript[2:2] = [Assistant("talk " * 50), User("go on")] * 6
        assert await compact(bag, transcript)
        conversation = next(facts for facts in await bag.outputs() if facts.origin.tool == "conversation")
        assert bag.records.seen()[conversation.handle] == 1.0
