"""Results in the forms of agent frameworks, as stand-ins with the same fields: the frameworks themselves are in
tests/adapters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, Kept
from tests.bag.shapes import LOG
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
PHOTO = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8192


@dataclass
class Blob:
    data: bytes
    mime_type: str = "image/png"


@dataclass
class Part:
    """Gemini's."""

    text: str | None = None
    inline_data: Blob | None = None


@dataclass
class BinaryContent:
    """Pydantic AI's."""

    data: bytes
    media_type: str = "image/png"
    kind: str = "binary"


@dataclass
class ToolReturn:
    """Pydantic AI's."""

    return_value: Any
    content: Any = None
    kind: str = "tool-return"


async def taken(tmp_path: Path, output: object) -> tuple[Any, bytes]:
    """What the model gets, and what is kept."""
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        result = await bag.take(output, tool="t")
        assert isinstance(result, Kept)
        return result.content, b"".join([part async for part in bag.stream(result.handle)])


WITH_TEXT: dict[str, tuple[object, Callable[[Any], str]]] = {
    "one block": ({"type": "text", "text": LOG}, lambda new: new["text"]),
    "ADK": ({"result": LOG}, lambda new: new["result"]),
    "Part": (Part(LOG), lambda new: new.text),
    "ToolReturn": (ToolReturn(LOG, content="for the user"), lambda new: new.return_value),
    "of blocks": (ToolReturn([{"type": "text", "text": LOG}]), lambda new: new.return_value[0]["text"]),
}
WITH_DATA: dict[str, tuple[object, Callable[[Any], str]]] = {
    "Part": (Part(inline_data=Blob(PHOTO)), lambda new: new.text),
    "BinaryContent": (BinaryContent(PHOTO), str),
}


@requirement("way:framework-results")
@pytest.mark.parametrize(("output", "text_of"), WITH_TEXT.values(), ids=WITH_TEXT)
async def test_the_text_inside_is_kept_as_text_and_the_notice_is_in_its_place(
    tmp_path: Path, output: object, text_of: Any
) -> None:
    content, kept = await taken(tmp_path, output)
    assert kept == LOG.encode()
    assert type(content) is type(output)
    assert text_of(content).splitlines()[1].startswith("handle: ")


@requirement("way:framework-results")
@pytest.mark.parametrize(("output", "text_of"), WITH_DATA.values(), ids=WITH_DATA)
async def test_large_data_inside_is_kept_as_its_bytes(tmp_path: Path, output: object, text_of: Any) -> None:
    content, kept = await taken(tmp_path, output)
    assert kept == PHOTO
    assert "image/png" in text_of(content)


@requirement("way:framework-results")
@pytest.mark.parametrize(
    "output",
    [
        Part("small"),
        BinaryContent(b"small"),
        ToolReturn("small"),
        {"result": "small"},
        {"type": "text", "text": "small"},
    ],
)
async def test_what_fits_is_the_same_object(tmp_path: Path, output: object) -> None:
    async with Holdall.open(home=str(tmp_path), session="s") as bag:
        result = await bag.take(output)
        assert result.content is output


@requirement("way:framework-results")
async def test_a_record_that_only_looks_like_a_block_is_a_value(tmp_path: Path) -> None:
    record = {"type": "file", "path": "a/b", "lines": LOG.splitlines()}
    content, kept = await taken(tmp_path, record)
    assert isinstance(content, str)
    assert kept.startswith(b'{"type": "file"')
