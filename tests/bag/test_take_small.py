"""The fast path of `take` decides as the long way does, for the forms that results have."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from holdall import Holdall, Inline, Kept
from holdall.bag.take import prepare, settle, take_small
from holdall.values.outputs import Origin, RawResult
from tests.bag.shapes import opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
BIG = "a line of a log\n" * 20_000


@dataclass
class Message:
    content: Any
    type: str = "tool"
    status: str = "success"


def blocks(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, **more}]


FORMS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "value": lambda text: {"rows": [text, 1, None, True, 2.5], "name": "ä"},
    "value with an object": lambda text: {"rows": [Message(text)]},
    "value with keys that are no text": lambda text: {(1, 2): text},
    "MCP": lambda text: {"content": blocks(text), "isError": False},
    "MCP error": lambda text: {"content": blocks(text), "isError": True},
    "MCP of two blocks": lambda text: {"content": blocks(text) + blocks("b"), "isError": False},
    "MCP with annotations": lambda text: {"content": blocks("a", annotations={"note": text}), "isError": False},
    "MCP with structured content": lambda text: {"content": blocks("a"), "structuredContent": {"x": text}},
    "MCP, its text twice": lambda text: {
        "content": blocks(text),
        "isError": False,
        "structuredContent": {"result": text},
    },
    "MCP as it came": lambda text: RawResult({"content": blocks(text), "isError": False}, b"{}"),
    "MCP with a name twice": lambda _: RawResult({"content": blocks("a"), "isError": False}, b"x" * 5000),
    "a record with content": lambda text: {"content": blocks(text), "title": "t"},
    "content alone": lambda text: {"content": text},
    "MCP object": lambda text: CallToolResult(content=[TextContent(type="text", text=text)]),
    "MCP error object": lambda text: CallToolResult(content=[TextContent(type="text", text=text)], is_error=True),
    "MCP structured object": lambda text: CallToolResult(
        content=[TextContent(type="text", text="a")], structured_content={"x": text}
    ),
    "MCP object, its text twice": lambda text: CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content={"result": text}
    ),
    "MCP image": lambda _: CallToolResult(content=[ImageContent(type="image", data="QUJD", mime_type="image/png")]),
    "message": Message,
    "message of blocks": lambda text: Message(blocks(text)),
    "failed message": lambda text: Message(text, status="error"),
    "another object": lambda text: Message(text, type="human"),
}
QUICK = {
    "text", "value", "MCP", "MCP, its text twice", "MCP as it came", "MCP object", "MCP object, its text twice",
    "message", "message of blocks",
}  # fmt: skip


@pytest.mark.in_full(one_in=3)
@requirement("way:fits-same-object")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["small", BIG])
async def test_the_short_way_says_what_the_long_way_says(tmp_path: Path, form: str, text: str) -> None:
    output, origin = FORMS[form](text), Origin(tool="t", server="", arguments=None, call_id="c")
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        quick = take_small(bag.core, output, origin)
        long = await settle(bag.core, await prepare(bag.core, output, origin))
        assert isinstance(quick, Inline) == (form in QUICK and text == "small")
        if isinstance(quick, Inline):
            assert isinstance(long, Inline)
            assert quick.content is output
            assert quick.is_error == long.is_error
        taken = await bag.take(output, tool="t", call_id="c")
        assert type(taken) is type(long)
        if isinstance(taken, Kept) and isinstance(long, Kept):
            assert taken.artifact.measure == long.artifact.measure


@requirement("way:fits-same-object")
async def test_what_bears_the_mark_does_not_take_the_short_way(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        for form in QUICK:
            output = FORMS[form](f"a notice, {bag.core.signature}")
            assert not isinstance(take_small(bag.core, output, Origin(tool="t")), Inline), form


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
async def test_bytes_of_every_type_are_read_as_text(tmp_path: Path, make: Any) -> None:
    async with opened(tmp_path) as bag:
        given = make(b"some text")
        taken = await bag.take(given, tool="t")
        assert taken.content is given
        assert taken.text == "some text"
        kept = await bag.take(make(b"\x89PNG\0\xff"), tool="t")
        assert kept.text.startswith("t returned 6 bytes · 1 line · 4 tokens (binary)\n")
