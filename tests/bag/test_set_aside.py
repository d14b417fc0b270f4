"""take on results that carry more than text: what is set aside has its handle in its place, whatever becomes of the text."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp.types as mcp
import pytest

from holdall import Holdall, Inline, Kept, Unkept
from holdall.bag.streams import value_text
from holdall.values.errors import AmbiguousCallId, NeverStored
from holdall.values.outputs import Taken
from tests.bag.shapes import LOG, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG" + bytes(1_200_000)
PICTURE = base64.b64encode(PNG).decode()
PAD = "p" * 143_000
LINK = {"type": "resource_link", "uri": "a://" + PAD, "name": "n"}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PICTURE, "mimeType": "image/png"}


def blocks_of(content: Any) -> list[Any]:
    if isinstance(content, list | tuple):
        return list(content)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(content, dict) and "toolResult" in content:
        return content["toolResult"]["content"]  # pyright: ignore[reportUnknownVariableType]
    return content.get("content") or content.get("output") if isinstance(content, dict) else content.content  # pyright: ignore


def said(block: Any) -> str:
    return block["text"] if isinstance(block, dict) else block.text  # pyright: ignore[reportUnknownVariableType]


async def whole(bag: Holdall, handle: str) -> bytes:
    return b"".join([part async for part in bag.stream(handle)])


def kept(taken: Taken) -> Kept:
    assert isinstance(taken, Kept)
    return taken


MIXED: dict[str, tuple[Any, list[str]]] = {
    "a list": ([text(LOG), image()], ["notice", "note"]),
    "the picture first": ([image(), text(LOG)], ["note", "notice"]),
    "between two texts": ([text(LOG), image(), text("end")], ["notice", "note"]),
    "a large link": ([text(LOG), LINK], ["notice", "note"]),
    "two": ([image(), text(LOG), LINK], ["note", "notice", "note"]),
    "a tuple": ((text(LOG), image()), ["notice", "note"]),
    "mcp": ({"content": [text(LOG), image()], "isError": False}, ["notice", "note"]),
    "openai": ({"role": "tool", "tool_call_id": "c", "content": [text(LOG), image()]}, ["notice", "note"]),
    "openai responses": (
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
                {"type": "input_text", "text": LOG},
            ],
        },
        ["note", "notice"],
    ),
    "anthropic": ({"type": "tool_result", "tool_use_id": "u", "content": [text(LOG), image()]}, ["notice", "note"]),
    "bedrock": (
        {
            "toolResult": {
                "toolUseId": "u",
                "content": [{"text": LOG}, {"image": {"format": "png", "source": {"bytes": PNG}}}],
            }
        },
        ["notice", "note"],
    ),
    "mcp objects": (
        mcp.CallToolResult(
            content=[
                mcp.TextContent(type="text", text=LOG),
                mcp.ImageContent(type="image", data=PICTURE, mime_type="image/png"),
            ]
        ),
        ["notice", "note"],
    ),
}


@pytest.mark.parametrize("form", MIXED)
@requirement("way:takes-content-blocks", "way:nothing-lost-silently")
async def test_the_handle_of_what_was_set_aside_stands_in_its_place_beside_the_notice(
    tmp_path: Path, form: str
) -> None:
    result, expected = MIXED[form]
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take(result, tool="shoot"))
        shown = [said(block) for block in blocks_of(taken.content)]
        others = [facts.handle for facts in taken.others]
        notes = [one for one in shown if one.startswith("[")]
        assert ["note" if one.startswith("[") else "notice" for one in shown] == expected
        assert f"handle: {taken.handle}" in next(one for one in shown if not one.startswith("["))
        assert [note.split("; handle: ")[1].rstrip("]") for note in notes] == others
        assert await whole(bag, taken.handle) == (LOG + "\nend" if form == "between two texts" else LOG).encode()
        assert {len(await whole(bag, handle)) for handle in others} <= {len(PNG), len(json.dumps(LINK))}
        json.dumps(taken.content.model_dump() if isinstance(result, mcp.CallToolResult) else taken.content)
        if isinstance(result, mcp.CallToolResult):
            mcp.CallToolResult.model_validate(taken.content.model_dump(by_alias=True))
        again = await bag.take(taken.content, tool="shoot")
        assert again == Inline(taken.content), "what stands there now fits"


async def test_in_the_clamp_dialect_the_note_is_not_cut_away(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="clamp") as bag:
        taken = kept(await bag.take([text(LOG), image(), text(LOG)], tool="shoot"))
        [picture] = taken.others
        size = f"{len(PNG):,} bytes"
        note = f"[image/png, {size}: too large to show, kept; handle: {picture.handle}]"
        assert taken.content[1] == text(note)
        assert f"handle: {taken.handle}" in taken.content[0]["text"]
        assert [type(block) for block in taken.content] == [dict, dict, dict]


async def test_where_nothing_is_stored_the_model_is_told_of_the_picture_too(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take([text(LOG), image()], tool="shoot")
        assert isinstance(taken, Unkept)
        assert taken.content[1]["text"].startswith("[image/png, 1,200,004 bytes: too large to show, and not kept: ")
    async with opened(tmp_path, session_quota_bytes=1000) as bag:
        taken = await bag.take([image(), text(LOG)], tool="shoot")
        assert isinstance(taken, Unkept)
        assert "the quota of this session is 1.0 kB" in taken.content[0]["text"]
        assert taken.content[1]["text"].startswith("2026-01-01")


async def test_what_fits_but_for_a_picture_that_is_gone_is_not_whole(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take([text("short"), image()], tool="shoot")
        assert isinstance(taken, Unkept)
        assert isinstance(taken.fault, NeverStored)
        assert taken.content[1]["text"].startswith("[image/png, 1,200,004 bytes: too large to show, and not kept: ")
        assert (await bag.counters()).unkept == 1
    async with opened(tmp_path, session_quota_bytes=1000) as bag:
        taken = await bag.take([image(), text("short")], tool="shoot")
        assert isinstance(taken, Unkept)
        assert "the quota of this session is 1.0 kB" in str(taken.fault)


FIELDS: dict[str, tuple[Any, Any]] = {
    "annotations": ({**text("short"), "annotations": {"a": PAD}}, {"type": "text", "annotations": {"a": PAD}}),
    "citations": ({**text("short"), "citations": [{"cited": PAD}]}, {"type": "text", "citations": [{"cited": PAD}]}),
    "openai": (
        {"type": "input_text", "text": "short", "logprobs": PAD},
        {"type": "input_text", "logprobs": PAD},
    ),
    "an uri": (
        {"type": "resource", "resource": {"uri": "a://" + PAD, "text": "short"}},
        {"type": "resource", "resource": {"uri": "a://" + PAD}},
    ),
    "mcp object": (
        mcp.TextContent(type="text", text="short", _meta={"a": PAD}),
        {"type": "text", "meta": {"a": PAD}},
    ),
    "any object": (
        SimpleNamespace(type="text", text="short", annotations=[PAD]),
        {"type": "text", "annotations": [PAD]},
    ),
}


@pytest.mark.parametrize("form", FIELDS)
@requirement("way:nothing-lost-silently")
async def test_the_fields_of_a_text_block_that_are_too_large_are_kept_and_its_text_stays(
    tmp_path: Path, form: str
) -> None:
    block, fields = FIELDS[form]
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take([block, text("end")], tool="t"))
        shown = [said(one) for one in taken.content]
        size = f"{len(json.dumps(fields)):,} bytes"
        note = f"[fields of a text block, {size}: too large to show, kept; handle: {taken.handle}]"
        assert shown == ["short", note, "end"]
        assert json.loads(await whole(bag, taken.handle)) == fields


async def test_a_block_whose_text_and_fields_are_both_too_large_has_a_notice_and_a_note(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take({"content": [{**text(LOG), "annotations": {"a": PAD}}], "_meta": {"m": PAD}}))
        notice, note = [one["text"] for one in taken.content["content"]]
        assert f"handle: {taken.handle}" in notice
        assert note.endswith(f"handle: {taken.others[0].handle}]")
        assert taken.content["_meta"] == {"m": PAD}, "that is between the server and its client"
        assert len(str(taken.content["content"])) < 10_000


async def test_a_small_picture_with_large_fields_is_kept_with_them(tmp_path: Path) -> None:
    block = {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"a": PAD}}
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take([text("look"), block]))
        assert taken.content[1]["text"].startswith("[block, 143,")
        assert json.loads(await whole(bag, taken.handle)) == block


async def test_small_fields_stay_where_they_are(tmp_path: Path) -> None:
    blocks = [{**text("a"), "annotations": {"audience": ["user"]}}, {**text("b"), "citations": None}]
    async with opened(tmp_path) as bag:
        assert (await bag.take(blocks)).content is blocks


@requirement("way:nothing-lost-silently")
async def test_many_small_blocks_that_are_too_large_together_are_kept_as_one_list(tmp_path: Path) -> None:
    links = [{"type": "resource_link", "uri": f"a://{n:04}", "name": "x" * 1000} for n in range(300)]
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take({"content": [text("found"), *links, text("end")]}))
        content = taken.content["content"]
        shown, note, end = content[1:-2], content[-2], content[-1]
        assert (content[0], end) == (text("found"), text("end"))
        assert shown == links[: len(shown)]
        assert 40_000 < len(json.dumps(shown)) < 51_200
        assert note["text"].startswith(f"[{300 - len(shown)} blocks, ")
        assert json.loads(await whole(bag, taken.handle)) == links[len(shown) :]


async def test_many_text_blocks_with_small_fields_keep_their_texts(tmp_path: Path) -> None:
    blocks = [{**text(str(n)), "annotations": {"a": "x" * 1000}} for n in range(100)]
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take(blocks))
        shown = [one["text"] for one in taken.content]
        [note] = [one for one in shown if one.startswith("[")]
        assert [one for one in shown if one != note] == [str(n) for n in range(100)]
        fields = json.loads(await whole(bag, taken.handle))
        assert note.startswith(f"[fields of {len(fields)} text blocks, ")
        assert len(json.dumps(taken.content)) < 60_000


# Several text blocks are one text in the store: what else each of them says is not in it


def resource(n: int, body: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": f"a://mark-{n}!", "text": body}}


def resource_object(n: int, body: str) -> object:
    inner = mcp.TextResourceContents(uri=f"a://mark-{n}!", text=body)
    return mcp.EmbeddedResource(type="resource", resource=inner)


JOINED: dict[str, Callable[[int, str], Any]] = {
    "resources": resource,
    "resources as objects": resource_object,
    "_meta": lambda n, body: {**text(body), "_meta": {"from": f"mark-{n}!"}},
    "annotations": lambda n, body: mcp.TextContent(type="text", text=body, _meta={"from": f"mark-{n}!"}),
    "citations": lambda n, body: {**text(body), "citations": [{"cited_text": f"mark-{n}!"}]},
    "openai": lambda n, body: {"type": "output_text", "text": body, "annotations": [{"url": f"mark-{n}!"}]},
    "fields of nobody": lambda n, body: {**text(body), "author": f"mark-{n}!"},
}


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("dialect", ["holdall", "clamp"])
@pytest.mark.parametrize(("form", "count"), [*((form, 100) for form in JOINED), ("resources", 3), ("resources", 3000)])
@requirement("way:nothing-lost-silently", "way:takes-content-blocks")
async def test_what_each_of_many_text_blocks_says_beside_its_text_is_shown_or_kept(
    tmp_path: Path, form: str, dialect: str, count: int
) -> None:
    bodies = [f"body {n} " + "w " * (60_000 // count) for n in range(count)]
    blocks = [JOINED[form](n, body) for n, body in enumerate(bodies)]
    async with opened(tmp_path, dialect=dialect) as bag:
        taken = kept(await bag.take({"content": blocks, "isError": False}, tool="t"))
        stored = [(await whole(bag, one.handle)).decode() for one in (taken.artifact, *taken.others)]
        assert len(stored) <= 3
        everywhere = value_text(taken.content)[0] + "".join(stored)
        assert [n for n in range(count) if f"mark-{n}!" not in everywhere] == []
        assert all(one.handle in taken.text for one in taken.others)
        assert len(taken.text) < 200_000


@requirement("way:nothing-lost-silently")
@pytest.mark.parametrize(
    ("structured", "told"),
    [
        ({"error": ""}, '{"error": ""}'),
        ({"": "no"}, '{"": "no"}'),
        ({1: "no"}, '{"1": "no"}'),
        ({None: "no"}, '{"null": "no"}'),
        ({'a" [two handles: x is': "no"}, '{"a\\" [two handles: x is": "no"}'),
        ({"\u202erejected": 1}, '{"\\u202erejected": 1}'),
        ({"kept": True, "handle": "k3f9", "ref": {"any": 1}}, '{"kept": true, "handle": "k3f9", "ref": {"any": 1}}'),
        ({"kept": False, "bytes": 5, "why": "so"}, '{"kept": false, "bytes": 5, "why": "so"}'),
    ],
)  # fmt: skip
async def test_small_structured_content_of_any_form_is_told_as_it_is(
    tmp_path: Path, structured: Any, told: str
) -> None:
    """Also where it looks like a note of ours, or has a name that no note could show."""
    async with opened(tmp_path) as bag:
        for content in ([text("yes")], []):
            taken = await bag.take({"content": content, "structuredContent": structured})
            alone = told if not content else f"yes\n[structured content: {told}]"
            assert taken.text.replace("\n ", "").replace("\n}", "}") == alone or json.loads(taken.text) == json.loads(
                told
            )
        large = await bag.take({"content": [text(LOG)], "structuredContent": structured})
        assert "it is the text of this result" not in large.text
        assert "structured content" in large.text


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("dialect", ["async", "holdall"])
async def test_fields_of_many_blobs_are_kept_with_them_and_not_all_shown(tmp_path: Path, dialect: str) -> None:
    """Each is small enough to be shown; all of them are not."""
    images = [{**image(), "_meta": {"n": n, "about": "words " * 2000}} for n in range(15)]
    texts = base64.b64encode(b"\n" * 2001).decode()
    lines = [
        {"type": "resource", "resource": {"uri": f"file:///{n}", "mimeType": "text/plain", "blob": texts}} for n in range(60)
    ]  # fmt: skip
    async with opened(tmp_path, dialect=dialect, max_inline_lines=2000) as bag:
        taken = await bag.take({"content": images}, tool="t")
        assert len(taken.text.encode()) < 20_000
        stored = b"".join([await whole(bag, one.handle) for one in await bag.outputs()])
        assert all(f'"n": {n}, "about"'.encode() in stored for n in range(15))
        taken = await bag.take({"content": lines}, tool="t")
        assert len(taken.text.encode()) < 20_000
        stored = b"".join([await whole(bag, one.handle) for one in await bag.outputs()]) + taken.text.encode()
        assert all(f"file:///{n}".encode() in stored for n in range(60))


async def test_a_caption_of_a_picture_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        taken = await bag.take({"content": [{**image(), "text": "a caption"}]})
        assert '[fields of it: {"text": "a caption"}]' in taken.text


async def test_the_fields_of_a_few_blocks_are_shown_with_the_bytes_of_each(tmp_path: Path) -> None:
    bodies = {name: f"# ä {name}\n" * 4000 for name in ("alpha", "beta", "gamma")}
    async with opened(tmp_path) as bag:
        blocks = [{"type": "resource", "resource": {"uri": f"a://{name}", "text": one}} for name, one in bodies.items()]
        taken = kept(await bag.take([*blocks, text("end")], tool="read"))
        notice, note = taken.content
        assert notice == text(notice["text"]), "it is about all of them, and bears the address of none"
        head, tag, fields, end = note["text"].split("\n")
        assert (head, end) == ("[fields of 3 text blocks:]", tag.replace("<", "</"))
        for told in json.loads(fields):
            name = told["fields"]["resource"]["uri"].removeprefix("a://")
            assert (await bag.read(taken.handle, bytes=told["bytes"], bounded=False)).text == bodies[name]
        assert taken.text == f"{notice['text']}\n{note['text']}"
        assert taken.others == ()


async def test_fields_that_all_blocks_share_stay_where_they_are(tmp_path: Path) -> None:
    for_users = {"annotations": {"audience": ["user"]}}
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take([{**text(LOG), **for_users}] * 2, tool="t"))
        assert taken.content == [{**text(taken.content[0]["text"]), **for_users}]


@requirement("way:nothing-lost-silently")
async def test_where_nothing_is_stored_the_fields_of_joined_blocks_are_shown_or_named(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="legacy") as bag:
        taken = await bag.take([resource(n, LOG) for n in range(3)], tool="t")
        assert [f"mark-{n}!" in taken.content[-1]["text"] for n in range(3)] == [True] * 3
        taken = await bag.take([resource(n, "w " * 100) for n in range(400)], tool="t")
        notes = [one["text"] for one in taken.content[1:]]
        assert all("too large to show, and not kept" in note for note in notes)
        assert sum(int(note.removeprefix("[fields of ").split()[0]) for note in notes) == 400


@requirement("way:nothing-lost-silently")
async def test_text_has_what_blocks_say_beside_their_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        blocks: list[Any] = [resource(1, "one"), {**text("two"), "citations": None}, {**text("3"), "annotations": []}]
        taken = await bag.take(blocks)
        assert taken.text == '[fields of a text block: {"resource": {"uri": "a://mark-1!"}}]\none\ntwo\n3'
        said_twice = {**text("ok"), "_meta": {"state": "ok"}}
        assert (await bag.take([said_twice])).text == '[fields of a text block: {"_meta": {"state": "ok"}}]\nok'
        named = {**text("x"), "_meta": {"type": "invoice", "text": "y"}, "annotations": {"priority": 1}}
        told = '{"_meta": {"type": "invoice", "text": "y"}, "annotations": {"priority": 1}}'
        assert (await bag.take([named])).text == f"[fields of a text block: {told}]\nx"
        drawn = {"type": "image", "data": "AAD/", "mimeType": "image/png", "_meta": {"type": "scan", "format": 7}}
        assert (await bag.take([drawn])).text.endswith('\n[fields of it: {"_meta": {"type": "scan", "format": 7}}]')
        large = await bag.take([resource(1, LOG)])
        assert large.text.startswith('[fields of a text block: {"resource": {"uri": "a://mark-1!"}}]\n')
        structured = {"content": [text("ok")], "structuredContent": {"n": 1}}
        assert (await bag.take(structured)).text == 'ok\n[structured content: {"n": 1}]'
        assert (await bag.take({"content": [text('{"n":1}')], "structuredContent": {"n": 1}})).text == '{"n":1}'


ROWS: dict[str, Callable[[list[Any]], Any]] = {
    "a list": lambda rows: rows,
    "a tuple": tuple,
    "in a tool's return of Pydantic AI": lambda rows: SimpleNamespace(kind="tool-return", return_value=rows),
}


@pytest.mark.parametrize("form", ROWS)
@requirement("way:nothing-lost-silently")
async def test_rows_that_look_like_text_blocks_are_kept_as_the_value_that_they_are(tmp_path: Path, form: str) -> None:
    rows = [{**text("w" * 200), "author": f"mark-{n}!"} for n in range(500)]
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take(ROWS[form](rows), tool="comments"))
        value = json.loads(await whole(bag, taken.handle))
        assert (value if isinstance(value, list) else value["return_value"]) == rows
        few = await bag.take(rows[:2], tool="comments")
        assert few.content == rows[:2]
        assert json.loads(few.text) == rows[:2]
        one = kept(await bag.take({**text(LOG), "author": "me"}))
        assert json.loads(await whole(bag, one.handle)) == {**text(LOG), "author": "me"}


async def test_beside_an_image_a_text_is_a_block_whatever_else_it_has(tmp_path: Path) -> None:
    small = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take([{**text(LOG), "id": "lc_1"}, small]))
        assert taken.content == [{**text(taken.content[0]["text"]), "id": "lc_1"}, small]


# Bedrock

BEDROCK: dict[str, tuple[Any, bytes]] = {
    "image": ({"image": {"format": "png", "source": {"bytes": PNG}}}, PNG),
    "document": ({"document": {"format": "pdf", "name": "d", "source": {"bytes": PNG}}}, PNG),
    "a document of text": (
        {"document": {"format": "txt", "name": "d", "source": {"text": PAD}}},
        json.dumps({"document": {"format": "txt", "name": "d", "source": {"text": PAD}}}).encode(),
    ),
}


@pytest.mark.parametrize("form", BEDROCK)
@pytest.mark.parametrize("flat", [False, True])
@requirement("way:takes-content-blocks")
async def test_what_bedrock_returns_keeps_its_shape(tmp_path: Path, form: str, flat: bool) -> None:
    block, stored = BEDROCK[form]
    inner: dict[str, Any] = {"toolUseId": "u", "content": [block], "status": "error"}
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take(inner if flat else {"toolResult": inner}))
        assert taken.is_error
        new = taken.content if flat else taken.content["toolResult"]
        [note] = new["content"]
        assert list(note) == ["text"]
        first, _, beside = note["text"].partition("\n")
        assert first.endswith(f": too large to show, kept; handle: {taken.handle}]")
        assert beside == ('[fields of it: {"document": {"name": "d"}}]' if form == "document" else "")
        assert {**new, "content": [block]} == inner
        assert await whole(bag, taken.handle) == stored


@pytest.mark.parametrize("value", [{"a": PAD}, list(range(9000))], ids=["json", "json of many tokens"])
@pytest.mark.parametrize("beside", [[], [{"image": {"format": "png", "source": {"bytes": b"small"}}}]])
@requirement("way:takes-content-blocks")
async def test_json_that_is_all_there_is_to_read_gets_the_notice_of_a_text(
    tmp_path: Path, value: Any, beside: list[Any]
) -> None:
    inner: dict[str, Any] = {"toolUseId": "u", "content": [*beside, {"json": value}], "status": "success"}
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take({"toolResult": inner}, tool="list_items", call_id="u"))
        *others, notice = taken.content["toolResult"]["content"]
        first, handle, mark, *_ = notice["text"].splitlines()
        assert first.startswith(f"list_items returned {len(json.dumps(value)):,} bytes · 1 line · ")
        assert (handle, mark) == (f"handle: {taken.handle}", bag.core.signature)
        assert (others, list(notice)) == (beside, ["text"])
        assert {**taken.content["toolResult"], "content": []} == {**inner, "content": []}
        assert await whole(bag, "u") == json.dumps(value).encode()
        mixed = kept(await bag.take({**inner, "content": [{"text": "rows"}, {"json": value}]}))
        assert mixed.content["content"][0] == {"text": "rows"}
        assert mixed.content["content"][1]["text"].startswith("[json, ")


async def test_json_of_which_a_part_is_shown_is_shown_as_a_text(tmp_path: Path) -> None:
    result = {"toolUseId": "u", "content": [{"json": {"a": PAD}}], "status": "success"}
    async with opened(tmp_path, dialect="clamp") as bag:
        taken = kept(await bag.take(result))
        [block] = taken.content["content"]
        assert block["text"].startswith('{"a": "')


async def test_what_bedrock_returns_is_the_same_object_where_it_fits(tmp_path: Path) -> None:
    small = {"toolResult": {"toolUseId": "u", "content": [{"json": {"a": 1}}, {"text": "b"}]}}
    async with opened(tmp_path) as bag:
        assert await bag.take(small) == Inline(small)
        assert (await bag.take({"toolUseId": "u", "content": [{"text": "b"}], "status": "error"})).is_error
        assert not (await bag.take({"toolUseId": "u", "content": [{"text": "b"}], "status": "success"})).is_error


@requirement("way:nothing-lost-silently")
async def test_a_block_that_holds_itself_is_told_and_not_shown(tmp_path: Path) -> None:
    around: dict[str, Any] = {"type": "x", "pad": PAD}
    around["self"] = around
    async with opened(tmp_path) as bag:
        taken = kept(await bag.take({"content": [text("a"), around], "isError": False}))
        assert taken.content["content"][1]["text"].startswith("[block, 143,")


@requirement("store:call-id-as-handle", "store:call-id-reused")
async def test_the_id_of_a_call_leads_to_what_is_kept_of_it(tmp_path: Path) -> None:
    image = {"type": "image", "data": base64.b64encode(bytes(3_000_000)).decode(), "mimeType": "image/png"}
    table = json.dumps([{"n": at} for at in range(60_000)])
    async with opened(tmp_path) as bag:
        one = kept(await bag.take([image, {"type": "text", "text": "a chart"}], tool="chart", call_id="one"))
        assert (await bag.fetch.recorded("one")).handle == one.handle
        other = {**image, "data": base64.b64encode(b"x" * 3_000_000).decode()}
        await bag.take([image, other], tool="chart", call_id="two")
        with pytest.raises(AmbiguousCallId):
            await bag.fetch.recorded("two")
        text = kept(await bag.take([image, {"type": "text", "text": table}], tool="chart", call_id="text"))
        assert (await bag.fetch.recorded("text")).handle == text.handle, "the text, where that is kept"
        assert (await bag.fetch.recorded("text")).measure.kind == "json"
