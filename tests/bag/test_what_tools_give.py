"""Objects, paths, blocks and coroutines as tools and frameworks return them: what the model gets of each."""

import asyncio
import base64
import contextlib
import dataclasses
import io
import itertools
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, Inline, Kept, NeverStored, PathGiven, Running, ToolPolicy, Unkept
from holdall.bag.take import value_as_text
from tests.bag.shapes import LOG, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG" + bytes(1_200_000)


async def whole(bag: Holdall, handle: str) -> str:
    return b"".join([part async for part in bag.stream(handle)]).decode()


async def in_background(bag: Holdall, value: object) -> str:
    """What is kept of a slow call that returns this."""
    goes_on = asyncio.Event()

    async def call() -> object:
        await goes_on.wait()
        return value

    async with bag.turn() as turn:
        pending = turn.run(call, background=True)
    goes_on.set()
    assert isinstance(pending.result, Running)
    await bag.wait(pending.result.handle)
    return await whole(bag, pending.result.handle)


# Objects whose copy does not take the notice


def llama_index() -> Any:
    """LlamaIndex's `ToolOutput` and its blocks, as far as they matter here: `content` is made of `blocks`."""
    pydantic = pytest.importorskip("pydantic")

    class TextBlock(pydantic.BaseModel):
        block_type: str = "text"
        text: str

    class ImageBlock(pydantic.BaseModel):
        block_type: str = "image"
        image: bytes
        image_mimetype: str = "image/png"

    class ToolOutput(pydantic.BaseModel):
        blocks: list[Any]
        tool_name: str
        raw_output: Any = None
        is_error: bool = False

        @property
        def content(self) -> str:
            return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

        @content.setter
        def content(self, content: str) -> None:
            self.blocks = [TextBlock(text=content)]

        def __str__(self) -> str:
            return self.content

    # A block that stands in for another is made by the module of that one.
    globals()["TextBlock"] = TextBlock
    return TextBlock, ImageBlock, ToolOutput


class ReadOnly:
    """A result whose text cannot be replaced."""

    is_error = True

    def __init__(self, text: str) -> None:
        self._text = text
        self.lines = text.splitlines()
        self.seconds = 2

    @property
    def content(self) -> str:
        return self._text


class WithMore(ReadOnly):
    """One that holds more than its text."""

    def __init__(self, text: str, more: object) -> None:
        super().__init__(text)
        self.raw_output = {"rows": more}


class Settable(ReadOnly):
    @property
    def content(self) -> str:
        return self._text

    @content.setter
    def content(self, new: str) -> None:
        self._text = new


@requirement("way:notice-in-object")
async def test_what_else_an_object_holds_that_takes_no_notice_is_kept_or_stays(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        small = await bag.take(WithMore(LOG, [1, 2]), tool="rows")
        large = await bag.take(WithMore(LOG, "UNIQUE" * 50_000), tool="rows")
        assert small.content["raw_output"] == {"rows": [1, 2]}
        assert "lines" not in small.content, "they are the text once more"
        assert "raw_output" not in large.content
        assert isinstance(large, Kept)
        (kept,) = large.others
        told = f"[other fields of the result, 300,028 bytes: too large to show, kept; handle: {kept.handle}]"
        assert told in large.content["content"]
        assert json.loads(await whole(bag, kept.handle)) == {"raw_output": {"rows": "UNIQUE" * 50_000}}


@requirement("way:notice-in-object")
async def test_the_output_of_a_llama_index_tool_has_the_notice_in_it_and_keeps_its_picture(tmp_path: Path) -> None:
    text_block, image_block, tool_output = llama_index()
    blocks = [text_block(text=LOG), image_block(image=base64.b64encode(b"\x89PNG"))]
    output = tool_output(blocks=blocks, tool_name="fetch", raw_output=LOG)
    async with opened(tmp_path) as bag:
        taken = await bag.take(output, tool="fetch")
        assert isinstance(taken, Kept)
        assert type(taken.content) is tool_output
        assert str(taken.content).startswith("fetch returned ")
        assert taken.content.content == str(taken.content)
        assert len(str(taken.content)) < 2000
        assert taken.content.blocks[1] is blocks[1]
        assert await whole(bag, taken.handle) == LOG
        picture = tool_output(blocks=[image_block(image=base64.b64encode(PNG))], tool_name="fetch")
        taken = await bag.take(picture, tool="fetch")
        assert isinstance(taken, Kept)
        assert str(taken.content) == f"[image/png, 1,200,004 bytes: too large to show, kept; handle: {taken.handle}]"
    assert output.content == LOG


@requirement("way:notice-in-object")
async def test_an_object_takes_the_notice_or_a_dictionary_with_the_notice_stands_in_its_place(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        settable = Settable(LOG)
        taken = await bag.take(settable, tool="t")
        assert type(taken.content) is Settable
        assert taken.content.content.startswith("t failed with ")
        assert (settable.content, taken.is_error) == (LOG, True)
        taken = await bag.take(ReadOnly(LOG), tool="t")
        assert isinstance(taken, Kept)
        assert taken.content["content"].startswith("t returned the same bytes as ")
        assert taken.content["seconds"] == 2
        assert len(str(taken.content)) < 2000  # nothing else in it has the text
        assert taken.is_error


# Objects that JSON cannot express


class Opaque:
    __slots__ = ()


class Sayer:
    """All that there is to read of it is what it says of itself."""

    def __str__(self) -> str:
        return "Z" * 100_000


class Hit:
    def __init__(self, title: str) -> None:
        self.title = title


class Response:
    """As HTTP clients have it: it can be iterated, and its text is a property."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.status_code = 200
        self.raw = Opaque()
        self.hits = [Hit("one")]

    @property
    def text(self) -> str:
        return self._text

    def __iter__(self) -> Iterator[bytes]:
        raise AssertionError("its stream is not read")

    def __repr__(self) -> str:
        return "<Response [200]>"


class Picture:
    """As those of Pillow: what it is about is under a private name."""

    def __init__(self) -> None:
        self.info = "x" * 100
        self._mode, self._pixels = "RGB", [1, 2, 3]


class Slotted:
    __slots__ = ("_secret", "body", "status")

    def __init__(self, body: bytes) -> None:
        self.body, self.status, self._secret = body, 200, "s3cret"


class Rows:
    """Its rows come from elsewhere."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Frame:
    """As pandas and numpy have them: iterating gives the names of the columns, `to_dict` the data."""

    def __iter__(self) -> Iterator[str]:
        return iter(["a", "b"])

    def to_dict(self) -> dict[str, list[int]]:
        return {"a": [1, 2], "b": [3, 4]}


class Columns(list[str]):
    @property
    def is_unique(self) -> bool:
        return len(set(self)) == len(self)


class PandasFrame:
    """As that of pandas: as objects, its rows have one column of each name."""

    def __init__(
        self, columns: list[str], rows: list[tuple[Any, ...]], index: str = "", labels: range | None = None
    ) -> None:
        self.columns, self.rows, self.labels = Columns(columns), rows, range(len(rows)) if labels is None else labels
        about = {"name": index or None, "start": self.labels.start, "step": self.labels.step}
        self.index: object = type("Index" if index and labels is None else "RangeIndex", (), about)()

    def reset_index(self, *, allow_duplicates: bool = False) -> "PandasFrame":
        assert allow_duplicates, "a column may have the name of the index"
        numbered = [(label, *row) for label, row in zip(self.labels, self.rows, strict=True)]
        return PandasFrame([getattr(self.index, "name", None) or "index", *self.columns], numbered)

    def set_axis(self, labels: list[str], axis: int) -> "PandasFrame":
        assert axis == 1
        return PandasFrame(labels, self.rows)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Series:
    """As that of pandas and of numpy: `module` says whose it is."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def tolist(self) -> list[object]:
        return list(self.values)


def sqlite_rows() -> list[object]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        return database.execute("select 1 as a, 'x' as b, 2 as a union all select 3, 'y', 4").fetchall()


PandasSeries = type("Series", (Series,), {"__module__": "pandas.core.series"})
NaT = type("NaTType", (datetime,), {"__module__": "pandas._libs.tslibs.nattype"})(1, 1, 1)
NA = type("NAType", (), {"__module__": "pandas._libs.missing"})()
NAN = float("nan")


class Answer:
    """As those of HTTP: it has been read already."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self) -> bytes:
        return self.text.encode()


class Shelf:
    """What it reads has a name."""

    def __init__(self) -> None:
        self.names = ["a", "b"]

    def read(self, name: str, password: str = "") -> str:
        return name + password


class Sized:
    def __init__(self, text: str) -> None:
        self._rest = io.StringIO(text)


class SizedByName(Sized):
    def read(self, amt: int) -> str:
        return self._rest.read(amt)


class SizedByDefault(Sized):
    def read(self, most: int = -1) -> str:
        return self._rest.read(most)


class SizedByAny(Sized):
    def read(self, *arguments: int) -> str:
        return self._rest.read(*arguments)


@requirement("store:source-objects")
@pytest.mark.parametrize("kind", [SizedByName, SizedByDefault, SizedByAny])
async def test_whatever_reads_so_much_at_a_time_is_a_file(tmp_path: Path, kind: Callable[[str], object]) -> None:
    async with opened(tmp_path) as bag:
        for take in (bag.take, bag.keep):
            assert (
                await bag.read((await take(kind("of a file\n" * 20_000))).handle, lines=(1, 1))
            ).text == "of a file\n"  # type: ignore[arg-type] - it is kept


class Node:
    def __init__(self, name: str, above: "Node | None" = None) -> None:
        self.name, self.above = name, above
        self.below = [Node("leaf", self)] if above is None else []


class Endless:
    """As a mock: whatever it is asked for, it gives another of its kind."""

    def __getattr__(self, name: str) -> Any:
        return Endless()

    def __call__(self, *_: object, **__: object) -> "Endless":
        return Endless()


@requirement("store:source-objects")
@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Response("hi"), '{"status_code": 200, "raw": "…", "hits": [{"title": "one"}], "text": "hi"}'),
        (Slotted(b"\xff"), '{"body": "/w==", "status": 200}'),
        ([Hit("a"), Hit("b")], '[{"title": "a"}, {"title": "b"}]'),
        (Rows(3), '{"count": 3, "items": [0, 1, 2]}'),
        (Answer("hi"), '{"text": "hi"}'),
        (Shelf(), '{"names": ["a", "b"]}'),
        (Frame(), '{"a": [1, 2], "b": [3, 4]}'),
        (PandasFrame(["a", "b"], [(1, 2)]), '[{"a": 1, "b": 2}]'),
        (
            PandasFrame(["a"], [(5,), (6,)], labels=range(2024, 2026)),
            '[{"index": 2024, "a": 5}, {"index": 2025, "a": 6}]',
        ),
        (PandasFrame(["a"], [(5,), (6,)], labels=range(0, 4, 2)), '[{"index": 0, "a": 5}, {"index": 2, "a": 6}]'),
        (PandasFrame(["a"], [(5,)], "year", range(1)), '[{"year": 0, "a": 5}]'),
        (
            PandasFrame(["a", "b", "c"], [(NAN, NaT, NA), (0.5, None, [NAN])]),
            '[{"a": null, "b": null, "c": null}, {"a": 0.5, "b": null, "c": [NaN]}]',
        ),
        (sqlite_rows(), '[{"a": 1, "b": "x", "a.1": 2}, {"a": 3, "b": "y", "a.1": 4}]'),
        (PandasSeries(0.5, NAN, NaT, NA), "[0.5, null, null, null]"),
        (Series(0.5, NAN), "[0.5, NaN]"),
        ({"at": NaT, "x": NAN}, '{"at": null, "x": NaN}'),
        (PandasFrame(["a", "a.1", "a"], [(1, 2, 3)]), '[{"a": 1, "a.1": 2, "a.2": 3}]'),
        (PandasFrame(["a"], [(7,), (8,)], index="a"), '[{"a": 0, "a.1": 7}, {"a": 1, "a.1": 8}]'),
        (Node("root"), '{"name": "root", "above": null, "below": [{"name": "leaf", "above": "…", "below": []}]}'),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_of_an_object_what_can_be_read_is_what_a_model_reads(value: object, kept: str) -> None:
    assert re.sub(r'"<[^"]*>"', '"…"', value_as_text(value).split("\n[")[0]) == kept


@requirement("store:source-objects", "way:nothing-lost-silently")
async def test_a_large_object_is_kept_and_its_notice_says_what_could_not_be_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        small = Response("hi")
        assert (await bag.take(small)).content is small
        taken = await bag.take(Response(LOG), tool="fetch")
        assert isinstance(taken, Kept)
        assert "Kept whole, but 1 part of a Response could not be read: raw (Opaque)" in taken.content
        assert json.loads(await whole(bag, taken.handle))["text"] == LOG
        picture = await bag.take([Picture()] * 2000, tool="draw")
        assert "Kept whole, but 1 part of a Picture could not be read: _pixels (list)" in picture.content
        assert json.loads(await in_background(bag, Response(LOG)))["text"] == LOG
        [*_, facts] = await bag.outputs()
        assert facts.measure.notes == ("1 part of a Response could not be read: raw (Opaque)",)


@dataclasses.dataclass
class Page:
    title: str
    connection: object


class Attr:
    def __init__(self) -> None:
        self.name, self.sock = "a", Opaque()


async def _pages() -> AsyncIterator[object]:
    yield LOG
    yield Opaque()


@requirement("store:source-objects", "way:nothing-lost-silently")
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"x": Opaque(), "y": LOG}, "1 part of the output could not be read: x (Opaque)"),
        ({"rows": [{"a": 1}, {"b": Page(LOG, Opaque())}]}, "1 part of the output could not be read: rows[1].b.connection (Opaque)"),
        ({1: LOG, None: Opaque()}, "1 part of the output could not be read: null (Opaque)"),
        ([LOG, *[Opaque() for _ in range(50)]],
         "50 parts of the output could not be read: [1] (Opaque), [2] (Opaque), [3] (Opaque) and 47 more"),
        ({"a": Attr(), "b": LOG}, "1 part of an Attr could not be read: sock (Opaque)"),
        ({"a": Attr(), "b": LOG, "c": Opaque()}, "2 parts of the output could not be read: sock (Opaque), c (Opaque)"),
        (_pages(), "1 part of the output could not be read: an item (Opaque)"),
        (Sayer(), "1 part of the output kept only as str(): all of it (Sayer)"),
        ({"a": Opaque(), "b": [Sayer(), Sayer()]}, ("1 part of the output could not be read: a (Opaque), and "
         "2 parts of the output kept only as str(): b[0] (Sayer), b[1] (Sayer)")),
    ],
    ids=["key", "path", "not-text", "many", "attribute", "both", "stream", "str", "str-and-none"],
)  # fmt: skip
async def test_a_notice_names_the_parts_that_could_not_be_read(tmp_path: Path, value: object, said: str) -> None:
    async with opened(tmp_path) as bag:
        assert f"Kept whole, but {said}" in (await bag.take(value, tool="t")).content


@requirement("store:source-objects")
@pytest.mark.parametrize("value", [Opaque(), Endless()], ids=["opaque", "endless"])
@pytest.mark.timeout(20)
async def test_an_object_of_which_nothing_can_be_read_says_so(tmp_path: Path, value: object) -> None:
    said = value_as_text(value)
    kind = type(value).__name__
    assert said.endswith(f"\n[1 part of the output could not be read: all of it ({kind})]"), said
    async with opened(tmp_path) as bag:
        assert len(str((await bag.take(value)).content)) < 500  # a mock has a `read` without an end


# Paths


@requirement("way:path-not-read")
async def test_a_path_is_its_name_and_the_model_is_told_that_the_file_was_not_read(tmp_path: Path) -> None:
    file = tmp_path / "big.log"
    file.write_text(LOG)

    async def call() -> object:
        return file

    async with opened(tmp_path) as bag:
        for taken in (await bag.take(file, tool="t"), await bag.run(call, tool="t")):
            assert isinstance(taken, Inline)
            assert taken.content == f"{file}\n[the tool returned this path; the file itself was neither read nor kept]"
        assert await in_background(bag, file) == taken.content
        with pytest.raises(PathGiven, match=r"is a path\. Pass the open file to keep its content"):
            await bag.keep(file)
        nested = {"file": file}
        assert (await bag.take(nested)).content is nested


# Blocks


@requirement("way:payload-uri")
async def test_a_picture_in_a_data_uri_is_kept_as_its_bytes(tmp_path: Path) -> None:
    uri = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    async with opened(tmp_path) as bag:
        taken = await bag.take([{"type": "image", "uri": uri}])
        assert isinstance(taken, Kept)
        assert (
            taken.content[0]["text"] == f"[image/png, 1,200,004 bytes: too large to show, kept; handle: {taken.handle}]"
        )
        assert b"".join([part async for part in bag.stream(taken.handle)]) == PNG
        plain = await bag.take([{"type": "file", "uri": "data:text/csv," + "a%2Cb%0A" * 400_000}])
        assert isinstance(plain, Kept)
        assert await whole(bag, plain.handle) == "a,b\n" * 400_000
        link = await bag.take([{"type": "resource_link", "uri": "abcd" * 50_000, "name": "n"}])
        assert isinstance(link, Kept)  # an address is none of its bytes, even if base64 could be such a text
        assert json.loads(await whole(bag, link.handle))["uri"] == "abcd" * 50_000


@requirement("way:invalid-base64")
async def test_a_payload_that_is_not_valid_base64_is_flagged(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        lines = "\n".join([base64.b64encode(PNG).decode()] * 1)
        wrapped = "\n".join(lines[at : at + 76] for at in range(0, len(lines), 76))
        good = await bag.take([{"type": "image", "data": wrapped, "mimeType": "image/png"}])
        assert isinstance(good, Kept)
        assert b"".join([part async for part in bag.stream(good.handle)]) == PNG
        bad = await bag.take([{"type": "image", "data": "!" * 1_200_000, "mimeType": "image/png"}])
        assert isinstance(bad, Kept)
        size = bad.artifact.measure.bytes
        what = f"image/png whose data is not valid base64, {size:,} bytes"
        assert bad.content[0]["text"] == f"[{what}: too large to show, kept; handle: {bad.handle}]"
        assert json.loads(await whole(bag, bad.handle))["data"] == "!" * 1_200_000


@requirement("way:error-flags")
@pytest.mark.parametrize("flags", [{"isError": False, "is_error": True}, {"isError": True, "is_error": False}])
async def test_either_flag_of_an_error_counts(tmp_path: Path, flags: dict[str, bool]) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take({"content": [{"type": "text", "text": "no such file"}], **flags})
        assert taken.is_error


@pytest.mark.in_full(one_in=3)
@requirement("way:many-blocks")
@pytest.mark.parametrize(
    ("dialect", "block"),
    [
        *((dialect, {"type": "text", "text": ""}) for dialect in ("holdall", "clamp", "legacy", "refs")),
        ("clamp", {"type": "text", "text": "x"}),
        ("holdall", {"type": "resource_link", "uri": "a://b", "name": "n"}),
        ("holdall", {"type": "image", "data": "AAAA", "mimeType": "image/png"}),
    ],
)
async def test_many_blocks_are_summarised(tmp_path: Path, dialect: str, block: dict[str, str]) -> None:
    count = (20_000 if dialect == "legacy" else 5_000) if "text" in block else 3000  # as the limits of each ask for
    async with opened(tmp_path, dialect=dialect) as bag:
        taken = await bag.take([dict(block) for _ in range(count)])
        assert len(json.dumps(taken.content)) < 100_000
        assert isinstance(taken, Unkept if dialect == "legacy" else Kept)
        if dialect == "clamp":
            assert "text blocks of" in str(taken.content)
            assert "are left out]" in str(taken.content)


@requirement("way:meta-bounded")
@pytest.mark.parametrize("name", ["_meta", "details"])
async def test_what_stands_beside_the_content_of_a_result_is_bounded(tmp_path: Path, name: str) -> None:
    beside = {"trace": "y" * 1_200_000}
    result = {"content": [{"type": "text", "text": "fine"}], "isError": False, name: beside}
    async with opened(tmp_path) as bag:
        taken = await bag.take(result)
        assert isinstance(taken, Kept)
        note = f"[{name}, 1,200,013 bytes: too large to show, kept; handle: {taken.handle}]"
        assert [one["text"] for one in taken.content["content"]] == ["fine", note]
        assert len(json.dumps(taken.content)) < 1000
        assert json.loads(await whole(bag, taken.handle)) == beside
        assert result[name] is beside
        small = {**result, name: {"a": 1}}
        assert (await bag.take(small)).content is small
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take(result)
        assert isinstance(taken, Inline | Unkept)
        assert "too large to show, and not kept" in taken.content["content"][1]["text"]
        assert len(json.dumps(taken.content)) < 1000


# Coroutines


@requirement("way:coroutine-awaited")
async def test_a_coroutine_is_awaited_and_what_it_gives_is_taken(tmp_path: Path) -> None:
    async def later(text: str) -> str:
        await asyncio.sleep(0)
        if not text:
            raise ValueError("no such file")
        return text

    async with opened(tmp_path) as bag:
        assert (await bag.take(later("hi"))).content == "hi"
        assert isinstance(await bag.take(later(LOG)), Kept)
        failed = await bag.take(later(""))
        assert (failed.content, failed.is_error) == ("ValueError: no such file", True)
        assert (await bag.run(lambda: later("hi"))).content == "hi"
        assert (await bag.keep(later("hi"))).measure.bytes == 2
        async with bag.turn() as turn:
            pending = turn.take(later("hi"))
        assert pending.content == "hi"


# Tools that end the program, and streams of very many parts


async def exits() -> str:
    await asyncio.sleep(0)
    sys.exit(3)


async def exits_later() -> AsyncIterator[str]:
    yield "so far\n"
    sys.exit(3)


def exits_now() -> Iterator[str]:
    yield "so far\n"
    sys.exit(3)


@requirement("async:tool-exits")
async def test_a_tool_that_ends_the_program_has_failed_and_the_others_go_on(tmp_path: Path) -> None:
    said = "ToolRaised: the tool raised SystemExit: 3"

    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    async with opened(tmp_path) as bag:
        async with bag.turn() as turn:
            failed, good = turn.run(exits), turn.run(fine)
        assert (failed.content, failed.result.is_error) == (said, True)
        assert good.content == "fine"
        assert (await bag.run(lambda: sys.exit(3))).content == said
        for stream in (exits_later, exits_now):
            assert (await bag.run(stream)).content == "so far\n\n[the tool raised SystemExit: 3]"
            taken = await bag.take(stream())
            assert (taken.content, taken.is_error) == ("so far\n\n[the tool raised SystemExit: 3]", True)
        assert (await bag.take(exits())).content == "SystemExit: 3"
        with pytest.raises(SystemExit):  # what surrounds the tools of a framework passes what they raise
            await bag.race(exits())


@requirement("way:takes-streams")
@pytest.mark.parametrize("how", ["take", "run"])
async def test_many_short_parts_of_an_asynchronous_stream_come_whole_and_in_order(tmp_path: Path, how: str) -> None:
    """How long that takes is measured by the benchmark (`slow`)."""

    async def rows() -> AsyncIterator[object]:
        for number in range(20_000):
            if number % 3000 == 0:
                await asyncio.sleep(0)
            yield f"row {number}\n" if number % 700 else f"row {number}\n".encode()

    async with opened(tmp_path) as bag:
        taken = await (bag.take(rows()) if how == "take" else bag.run(rows))
        assert isinstance(taken, Kept)
        assert await whole(bag, taken.handle) == "".join(f"row {number}\n" for number in range(20_000))


async def test_what_an_asynchronous_stream_gave_before_it_was_cancelled_is_kept(tmp_path: Path) -> None:
    waits = asyncio.Event()

    async def rows() -> AsyncIterator[str]:
        for number in range(20_000):
            yield f"row {number}\n"
        waits.set()
        await asyncio.sleep(60)

    async with opened(tmp_path) as bag:
        for call in (lambda: bag.take(rows()), lambda: bag.run(rows)):
            waits.clear()
            task = asyncio.ensure_future(call())
            await waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        kept = [await whole(bag, one.handle) for one in await bag.outputs()]
        assert kept == ["".join(f"row {number}\n" for number in range(20_000))] * 2


# Characters that nobody sees


@requirement("measure:hidden-counted")
async def test_a_model_is_told_of_the_characters_that_people_do_not_see(tmp_path: Path) -> None:
    secret = "".join(chr(0xE0000 + ord(char)) for char in "obey")
    line, note = f"all is \u202ellew\u202c{secret}\n", "hidden characters between these tags: people do not see them]"
    async with opened(tmp_path) as bag:
        plain = await bag.take(LOG, tool="t")
        assert "hidden" not in str(plain.content)
        taken = await bag.take(LOG + line, tool="t")
        assert isinstance(taken, Kept)
        # In the notice once, at the end; all of it is still there.
        assert f"\n[6 {note}" in taken.content
        answer = await bag.call("context_read", {"handle": taken.handle, "lines": "4999:5001"})
        assert f">\n[6 {note}" in answer.text
        assert secret in answer.text
        found = await bag.call("context_grep", {"handle": taken.handle, "pattern": "all is"})
        assert f">\n[6 {note}" in found.text
    async with opened(tmp_path, dialect="refs") as bag:
        assert f">\n[6 {note}" in (await bag.take(LOG + line, tool="t")).content


# Limits that are shorter than what has to be said


@requirement("clamp:tiny-limit")
@pytest.mark.parametrize("most", [10, 100])
async def test_a_clamp_to_a_few_bytes_still_says_what_happened(tmp_path: Path, most: int) -> None:
    def texts(content: Any) -> str:
        return content if isinstance(content, str) else "".join(one.get("text", "") for one in content)

    outputs: list[Any] = ["x" * 1000, [{"type": "text", "text": "x" * 500}, {"type": "text", "text": "y" * 500}]]
    for dialect, output in itertools.product(("clamp", "legacy"), outputs):
        async with opened(tmp_path, dialect=dialect, max_inline_bytes=most) as bag:
            taken = await bag.take(output)
            said = texts(taken.content)
            if isinstance(taken, Kept):
                assert said.startswith(f"[tool output truncated: exceeded {most} bytes or 2000 lines; ")
                assert said.endswith(f"\n[all of it is kept; handle: {taken.handle}]")
            else:
                assert re.search(r"\[… [0-9,]+ bytes \([0-9] lines?\) truncated …]", said)
            small = await bag.take("y" * most)
            assert small.content == "y" * most


# A process that is forked

FORKS = """
import asyncio, os, signal, sys
from holdall import Holdall, Sessions, SessionForked, blocking

def said(work):
    try:
        return work()
    except SessionForked as problem:
        return str(problem)

home = sys.argv[1]
signal.alarm(50)
pool = Sessions.open(home=home)
alone = Holdall.open(session="alone", home=home)
with blocking.Holdall.open(session="s", home=home) as bag:
    bag.keep("before")
    if os.fork() == 0:
        signal.alarm(20)
        async def pooled():
            async with pool.of("p") as one:
                await one.take("x")
        print(said(lambda: bag.take("x")), flush=True)
        print(said(lambda: asyncio.run(alone.take("x"))), flush=True)
        print(said(lambda: asyncio.run(pooled())), flush=True)
        asyncio.run(alone.close())
        asyncio.run(pool.close())
        bag.close()
        with blocking.Holdall.open(session="s", home=home) as again:
            print(len(again.outputs()), flush=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
    print(bag.take("x").content, flush=True)
asyncio.run(pool.close())
"""


@requirement("api:after-fork")
def test_after_a_fork_a_bag_says_so_and_the_parent_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path / "home")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = "this session was opened before a fork. Open it again in this process: Holdall.open(session=…)."
    assert (ran.stdout.splitlines(), ran.stderr) == ([said, said, said, "1", "0", "x"], "")


# Streams of texts and bytes

REPLACED = ("1 lone surrogate was replaced by U+FFFD",)


@requirement("measure:lone-surrogates")
@pytest.mark.parametrize("way", ["take", "take later", "run"])
@pytest.mark.parametrize(
    ("parts", "data", "notes"),
    [
        (["head\n", b"caf\xe9" * 25_000], b"head\n" + b"caf\xe9" * 25_000, ()),
        (["head\n", b"caf\xe9\n"], b"head\ncaf\xe9\n", ()),
        (["head\n", bytearray(b"caf\xc3"), b"\xa9\n"], "head\ncafé\n".encode(), ()),
        (["head\ud800\n", b"x\n"], "head\ufffd\nx\n".encode(), REPLACED),
        (["head\n", {"a": "\ud800"}], 'head\n{"a": "\ufffd"}'.encode(), REPLACED),
    ],
    ids=["much Latin-1", "little Latin-1", "UTF-8 in two", "surrogate", "surrogate in a value"],
)
async def test_texts_beside_bytes_are_kept_to_the_byte_or_it_is_said_what_was_replaced(
    tmp_path: Path, parts: list[Any], data: bytes, notes: tuple[str, ...], way: str
) -> None:
    async def later() -> AsyncIterator[Any]:
        for part in parts:
            yield part

    async with opened(tmp_path) as bag:
        if way == "run":
            taken = await bag.run(lambda: iter(parts), tool="x")
        else:
            taken = await bag.take(iter(parts) if way == "take" else later(), tool="x")
        if isinstance(taken, Inline):
            assert (taken.content, ()) == (data.decode(), notes)
        else:
            assert isinstance(taken, Kept)
            facts = bag.core.store.resolve(bag.core.session, taken.handle)
            assert (bag.core.store.open(facts).read(0, len(data) + 1), facts.measure.notes) == (data, notes)


# What can be read only once


@dataclasses.dataclass
class OtherRows:
    rows: Any


def fails() -> Iterator[int]:
    yield 1
    raise ValueError("no more")


ONCE: list[tuple[Any, str]] = [
    (lambda: {"rows": ({"id": number} for number in range(2))}, '{"rows": [{"id": 0}, {"id": 1}]}'),
    (lambda: [1, map(str, [1, 2])], '[1, ["1", "2"]]'),
    (lambda: {"a": (1, zip([1], [2], strict=True))}, '{"a": [1, [[1, 2]]]}'),
    (lambda: {"deep": [{"er": reversed([1, iter([2])])}]}, '{"deep": [{"er": [[2], 1]}]}'),
    (lambda: {"file": io.StringIO("a\nb\n")}, '{"file": ["a\\n", "b\\n"]}'),
    (lambda: OtherRows(iter([1, 2])), '{"rows": [1, 2]}'),
    (lambda: {"rows": fails()}, '{"rows": [1, "ValueError: no more"]}'),
]


@pytest.mark.parametrize("store", ["oversized", "always"])
@pytest.mark.parametrize(("made", "text"), ONCE)
async def test_an_iterator_inside_of_a_value_is_read_once_and_told_every_time(
    tmp_path: Path, made: Any, text: str, store: Any
) -> None:
    """It was empty for all who looked after the first: the model was told that there are no rows."""
    async with opened(tmp_path, tools={"x": ToolPolicy(store=store)}) as bag:
        for taken in (await bag.take(made(), tool="x"), await bag.run(made, tool="x")):
            assert taken.text == text
            assert value_as_text(taken.content) == text, "the framework gets it too"
            if isinstance(taken, Kept):
                assert await whole(bag, taken.handle) == text
        for ways in (lambda: iter([made(), made()]), lambda: iter([made()] * 1)):
            for taken in (await bag.take(ways(), tool="x"), await bag.run(ways, tool="x")):
                assert set(taken.text.split("\n")) == {text}


async def test_what_was_put_around_a_notice_has_its_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take(LOG, tool="x", put=lambda new: {"body": new, "code": 200})
        assert isinstance(taken, Kept)
        assert taken.text == taken.content["body"]
        assert taken.handle in taken.text


async def test_a_writer_for_a_tool_that_is_not_to_be_stored_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, tools={"vault": ToolPolicy(store="never")}) as bag:
        with pytest.raises(NeverStored):
            await bag.jobs.begin(tool="vault")
        assert await bag.outputs() == []


@requirement("measure:bytes-as-they-came")
async def test_a_model_of_pydantic_that_it_cannot_write_itself_keeps_every_field(tmp_path: Path) -> None:
    pydantic = pytest.importorskip("pydantic")

    class Page(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, extra="allow")
        url: str
        body: bytes
        meta: dict[str, int] = pydantic.Field(repr=False)
        left_out: str = pydantic.Field("left out", exclude=True)
        connection: Any = None

    pages = [Page(url=f"u{at}", body=b"\xff" if at else b"ok", meta={"important": at}, more=at) for at in range(3)]
    pages[2].connection = object()
    async with opened(tmp_path) as bag:
        kept = await bag.keep(pages)
        rows = json.loads((await bag.read(kept.handle)).text)
        notes = (await bag.show(kept.handle)).measure.notes
    assert [(one["url"], one["body"], one["meta"], one["more"]) for one in rows] == [
        ("u0", "ok", {"important": 0}, 0),
        ("u1", "/w==", {"important": 1}, 1),
        ("u2", "/w==", {"important": 2}, 2),
    ]
    assert all("left_out" not in one for one in rows)
    assert len(notes) == 1
    assert "could not be read" in notes[0]
