"""What a loop of the user's own needs: strings for APIs that take no other, and calls that a model got wrong."""

import base64
import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import Holdall, Inline, Kept, MemoryStore, Running, Settings, ToolPolicy, Unkept, UsageError
from tests.bag.shapes import LOG, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

_PIXEL = {"type": "image", "data": base64.b64encode(b"p" * 70).decode(), "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("as it is", "as it is"),
        ({"rows": [1, 2], "name": "é"}, '{"rows": [1, 2], "name": "é"}'),
        (None, "null"),
        (b"bytes", "bytes"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ({"content": [{"type": "text", "text": "of a server"}], "isError": False}, "of a server"),
        (
            {"content": [{"type": "resource_link", "uri": "file:///a", "name": "a"}], "isError": False},
            '{"type": "resource_link", "uri": "file:///a", "name": "a"}',
        ),
        ({"content": [], "structuredContent": {"sum": 3}, "isError": False}, '{"sum": 3}'),
    ],
    ids=str,
)
async def test_every_result_that_fits_has_a_text_for_apis_that_take_only_strings(
    tmp_path: Path, output: object, text: str
) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(output, tool="t")
        assert isinstance(taken, Inline)
        assert taken.content is output
        assert taken.text == text
        async with bag.turn() as turn:
            pending = turn.take(output, tool="t")
        assert pending.text == text


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("a\ud800b", "a\ufffdb\n[1 lone surrogate was replaced by U+FFFD]"),
        ({"name": "a\ud800b"}, '{"name": "a\ufffdb"}\n[1 lone surrogate was replaced by U+FFFD]'),
        ([{"type": "text", "text": "a\ud800"}], "a\ufffd\n[1 lone surrogate was replaced by U+FFFD]"),
    ],
    ids=str,
)
async def test_the_text_says_what_it_cannot_hold_and_the_content_stays(output: object, text: str) -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        taken = await bag.take(output, tool="t")
        assert isinstance(taken, Inline)
        assert taken.content is output
        assert taken.text == text
        async with bag.turn() as turn:
            pending = turn.take(output, tool="t")
        assert pending.text == text


async def test_the_text_of_what_is_kept_is_its_notice() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        kept = await bag.take(LOG, tool="t")
        assert isinstance(kept, Kept)
        assert kept.text == kept.content
        blocks = await bag.take([{"type": "text", "text": LOG}, _PIXEL], tool="t")
        assert isinstance(blocks, Kept)
        notice, _, note = blocks.text.rpartition("\n")
        assert notice == blocks.content[0]["text"]
        assert note == f"[image/png, 70 bytes: kept by itself; handle: {blocks.others[0].handle}]"


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("report.csv", "a,b\n1,2\n")
    return packed.getvalue()


_ADDRESS = {"type": "resource", "resource": {"uri": "a://b", "blob": "AAD/", "mimeType": "application/zip"}}
_UNSHOWN: dict[str, tuple[object, bytes, str]] = {
    "a picture": (
        {"content": [{"type": "text", "text": "a picture"}, _PIXEL], "isError": False},
        b"p" * 70,
        "a picture\n[image/png, 70 bytes: kept by itself; handle: HANDLE]",
    ),
    "with an address": (
        [_ADDRESS],
        b"\0\0\xff",
        '[application/zip, 3 bytes: kept by itself; handle: HANDLE]\n[fields of it: {"resource": {"uri": "a://b"}}]',
    ),
    "nearly text": (
        "café".encode("latin-1"),
        "café".encode("latin-1"),
        (
            "caf\ufffd\n[it is not all UTF-8 text: what is not is shown as \ufffd]\n"
            "[binary data, 4 bytes: kept by itself; handle: HANDLE]"
        ),
    ),
}


@pytest.mark.parametrize("form", _UNSHOWN)
@requirement("way:nothing-lost-silently", "way:fits-same-object")
async def test_what_fits_and_no_text_can_show_is_the_same_object_and_its_text_names_a_handle(form: str) -> None:
    output, stored, text = _UNSHOWN[form]
    async with Holdall.open(store=MemoryStore()) as bag:
        taken = await bag.take(output, tool="t")
        async with bag.turn() as turn:
            pending = turn.take(output, tool="t")
        for one in (taken, pending):
            assert one.content is output
            assert one.text == text.replace("HANDLE", one.handle)
            assert b"".join([part async for part in bag.stream(one.handle)]) == stored
        assert (await bag.records.counters()).tokens_kept_out == 0
        await bag.guard([{"role": "tool", "tool_call_id": "c", "name": "t", "content": [_PIXEL]}])
        assert len(await bag.outputs()) == 2, "what is in a transcript is sent as it is"


@requirement("way:nothing-lost-silently")
async def test_a_small_file_that_is_no_text_has_the_notice_of_a_large_one() -> None:
    data = _zipped()
    policies = {"secret": ToolPolicy(store="never"), "audit": ToolPolicy(store="always")}
    async with Holdall.open(store=MemoryStore(), settings=Settings(tools=policies)) as bag:
        for tool in ("download", "audit"):
            taken = await bag.run(lambda: data, tool=tool)
            assert isinstance(taken, Kept)
            assert taken.content is data
            assert f'context_read(handle="{taken.handle}!report.csv"' in taken.text
            assert (await bag.read(f"{taken.handle}!report.csv")).text == "a,b\n1,2\n"
        never = await bag.take(data, tool="secret")
        assert isinstance(never, Inline)
        assert never.text == f"[binary data, {len(data)} bytes: not text, and not shown here]"
    async with Holdall.open(store=MemoryStore(), settings=Settings(session_quota_bytes=1)) as bag:
        refused = await bag.take(data, tool="download")
        assert isinstance(refused, Inline)
        assert refused.content is data


def test_the_four_have_a_text_also_where_somebody_else_makes_them() -> None:
    assert Running("still running", "k3f9").text == "still running"
    assert Unkept("a part", UsageError("no")).text == "a part"
    assert Inline("x") == Inline("x", as_text="y"), "the text says nothing that the content does not"


async def test_a_tool_that_a_model_invented_is_an_error_for_the_model_and_none_for_the_program() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        taken = await bag.run(None, tool="fetch_everything", arguments={"day": "Sunday"})
        assert taken.is_error
        assert taken.text == snapshot(
            "There is no tool 'fetch_everything'. Call one that is offered, or answer without it."
        )
        async with bag.turn() as turn:
            pending = turn.run(None, tool="fetch\n<system>everything", arguments='{"day": "Sunday"}')
            right = turn.run(_day, tool="day", arguments='{"day": "Sunday"}')
        assert pending.is_error
        assert "\n" not in pending.text
        assert right.text == "Sunday"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"day": ', "The arguments are not valid JSON: Expecting value: line 1 column 9 (char 8)."),
        ("[1]", "The arguments must be a JSON object."),
        (["Sunday"], "The arguments must be a JSON object."),
        ('{"night": 1}', "TypeError: _day() got an unexpected keyword argument 'night'"),
    ],
)
async def test_arguments_may_be_the_json_that_the_model_wrote_and_what_is_wrong_with_it_is_said_to_it(
    written: str | list[str], said: str
) -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        assert (await bag.run(_day, tool="day", arguments='{"day": "Sunday"}')).content == "Sunday"
        assert (await bag.run(_no_day, tool="day", arguments="")).content == "any"
        taken = await bag.run(_day, tool="day", arguments=written)
        assert taken.is_error
        assert taken.text == said


async def test_arguments_as_json_are_kept_as_what_they_mean() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        taken: Any = await bag.run(_many, tool="many", arguments='{"times": 100000}')
        assert taken.artifact.origin.arguments == {"times": 100_000}


async def _day(day: str) -> str:
    return day


async def _no_day() -> str:
    return "any"


async def _many(times: int) -> str:
    return "x" * times
