"""A call that comes again: a retry, a step that a graph repeats, a transcript that is guarded before every request."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdall import AmbiguousCallId, Holdall, Inline, Kept
from tests.bag.shapes import LOG
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("api:take-again")
async def test_the_same_call_with_the_same_output_has_the_same_handle_and_notice(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        first = await bag.take(LOG, tool="fetch", call_id="c1")
        again = await bag.take(LOG.encode().decode(), tool="fetch", call_id="c1")
        assert isinstance(first, Kept)
        assert again == first
        assert len(bag.core.kept) == 1
        assert (await bag.counters()).kept == 1
    async with Holdall.open(home=str(tmp_path), session="s") as bag:  # after a restart
        assert (await bag.take(LOG, tool="fetch", call_id="c1")).content == first.content


@requirement("api:take-again")
async def test_the_same_call_taken_several_times_at_once_has_one_handle_and_notice(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path)) as bag:
        taken = await asyncio.gather(*(bag.take(LOG, tool="fetch", call_id="c1") for _ in range(5)))
        assert len({one.text for one in taken}) == len(bag.core.kept) == (await bag.counters()).kept == 1
        kept = await asyncio.gather(*(bag.keep(LOG, tool="other", call_id="c1") for _ in range(5)))
        assert len({one.handle for one in kept}) == 1
        others = await asyncio.gather(*(bag.take(LOG, tool="fetch", call_id=f"d{n}") for n in range(3)))
        assert len({one.handle for one in others}) == 3


@requirement("api:take-again")
async def test_another_output_call_or_tool_has_its_own_handle(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        given: list[tuple[str, str, str]] = [
            (LOG, "fetch", "c1"), (LOG + "x", "fetch", "c1"), (LOG, "fetch", "c2"), (LOG, "other", "c1"),
            (LOG, "fetch", ""), (LOG, "fetch", ""),
        ]  # fmt: skip
        handles = [(await bag.keep(text, tool=tool, call_id=call)).handle for text, tool, call in given]
        assert len(set(handles)) == len(given)
        await bag.forget(handles[0])
        assert (await bag.keep(LOG, tool="fetch", call_id="c1")).handle not in handles


@requirement("api:take-again")
async def test_a_transcript_that_is_guarded_twice_is_the_same(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": LOG},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": LOG}]},
    ]  # fmt: skip
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        first = await bag.guard(messages)
        assert await bag.guard(messages) == first
        assert await bag.guard(first) == first
        assert len(bag.core.kept) == 2


@requirement("api:take-put")
async def test_put_makes_the_object_around_what_comes_in_place_of_an_output(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        small = await bag.take("small", put=lambda new: {"wrapped": new})
        large = await bag.take(LOG, put=lambda new: {"wrapped": new})
    assert small == Inline("small")
    assert isinstance(large, Kept)
    assert large.content["wrapped"].splitlines()[1] == f"handle: {large.handle}"


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8h" * 200_000}}
NUMBERS = {"a": [{"n": number} for number in range(40_000)]}


@pytest.mark.in_full(one_in=3)
@requirement("api:take-again")
@pytest.mark.parametrize(
    "output",
    [
        [{"type": "text", "text": "a chart"}, IMAGE],
        {"content": [{"type": "text", "text": "short"}], "structuredContent": NUMBERS},
        {"content": [{"type": "text", "text": "long\n" * 50_000}], "structuredContent": NUMBERS, "_meta": {"m": "x" * 2_000_000}},
        {"toolResult": {"toolUseId": "c", "content": [{"json": NUMBERS}]}},
    ],
    ids=["image", "structure", "text and structure", "json"],
)  # fmt: skip
async def test_what_is_kept_beside_the_text_has_the_same_handle_too(tmp_path: Path, output: Any) -> None:
    """A transcript that is guarded again at every turn would cost a new prompt, and a new output, each time."""
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        first = await bag.take(output, tool="t", call_id="c")
        again = await bag.take(output, tool="t", call_id="c")
        assert (again.content, again.handle) == (first.content, first.handle)
        count = len(bag.core.store.outputs(bag.core.session))
        other = await bag.take(output, tool="t", call_id="d")
        assert other.handle != first.handle
        assert len(bag.core.store.outputs(bag.core.session)) == 2 * count
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        assert (await bag.take(output, tool="t", call_id="c")).content == first.content


@requirement("api:take-again")
async def test_a_call_with_other_arguments_is_another_whatever_its_id(tmp_path: Path) -> None:
    text = "the same\n" * 20_000
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        monday = await bag.take(text, tool="report", arguments={"day": "Monday"}, call_id="2")
        tuesday = await bag.take(text, tool="report", arguments={"day": "Tuesday"}, call_id="2")
        again = await bag.take(text, tool="report", arguments={"day": "Tuesday"}, call_id="2")
        unsaid = await bag.take(text, tool="report", call_id="2")
        assert monday.handle != tuesday.handle == again.handle == unsaid.handle
        assert (await bag.show(str(tuesday.handle))).origin.arguments == {"day": "Tuesday"}


async def test_a_call_id_leads_to_what_it_means_now(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        await bag.keep("first", call_id="one")
        assert (await bag.read("one")).text == "first"
        second = await bag.keep("second", call_id="one")
        with pytest.raises(AmbiguousCallId):
            await bag.read("one")
        await bag.forget(second.handle)
        assert (await bag.read("one")).text == "first", "what was removed is not meant"
