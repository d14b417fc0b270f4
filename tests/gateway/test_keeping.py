"""What is too large is kept whole: the client gets a notice, and every byte through the tools and the links."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.types import TextContent

from tests.gateway.servers.plain_server import NEEDLE, SHAPED, items
from tests.gateway.support import WAITS, Wire, gateway, official, plain, text_of, wire
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


def handle_in(notice: str) -> str:
    return notice.partition("handle: ")[2].split()[0]


@pytest.mark.in_full(one_in=2)
@requirement("gateway:oversized-notice", "gateway:any-server")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_ten_mebibytes_on_one_line_travel_as_a_notice_and_come_back_whole(tmp_path: Path, mode: str) -> None:
    whole = items(110_000, 77_777)
    assert len(whole) > 10 * 1024 * 1024
    async with official(gateway(tmp_path, before=WAITS, server=plain()), mode) as client:

        async def said(tool: str, **arguments: Any) -> str:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result
            block = result.content[0]
            assert isinstance(block, TextContent)
            return block.text

        await client.list_tools()
        result = await client.call_tool("items", {"count": 110_000, "at": 77_777})
        travelled = result.model_dump_json(by_alias=True)
        assert len(travelled) < 4096
        handle = handle_in(travelled.replace("\\n", "\n"))
        assert NEEDLE in await said("context_grep", handle=handle, pattern="needle.stands")
        counted = await said("context_query", handle=handle, sql="select count(*) as n from t", at="$.items")
        assert "110000" in counted.replace(",", "")
        link = next(block for block in result.content if block.type == "resource_link")
        pages: list[str] = []
        for start in range(0, len(whole), 4 * 1024 * 1024):
            read = await client.read_resource(f"{link.uri}?bytes={start}:{start + 4 * 1024 * 1024}")
            pages.append(read.contents[0].text)  # type: ignore[union-attr] - it is text
        assert "".join(pages) == whole
        page = await said("context_read", handle=handle, bytes="5000000:5000100")
        assert whole[5_000_000:5_000_100] in page


@requirement("gateway:oversized-notice")
async def test_paging_with_the_tool_returns_every_byte(client: Wire) -> None:
    whole = items(3_000, 5)
    handle = handle_in(text_of(await client.call("items", count=3_000, at=5)))
    found = ""
    while len(found) < len(whole):
        text = text_of(await client.call("context_read", handle=handle, bytes=f"{len(found)}:"))
        tag = text.split("\n<")[1].split(">")[0]
        part = text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]
        assert part
        found += part
    assert found == whole


async def test_the_rest_of_a_result_stays_and_an_error_stays_one(client: Wire) -> None:
    result = await client.call("big", lines=50_000, error=True)
    assert result["isError"] is True
    assert result["later"] == {"kept": "as is"}
    assert [block["type"] for block in result["content"]] == ["text", "resource_link"]
    assert len(text_of(result)) < 3000
    older = text_of(await client.call("context_tail", handle=handle_in(text_of(result))))
    assert "line" in older


async def test_a_picture_has_a_limit_of_its_own(client: Wire) -> None:
    small = await client.call("picture", bytes=300_000)
    assert [block["type"] for block in small["content"]] == ["image"]
    large = await client.call("picture", bytes=3_000_000)
    assert "image/png, 3,000,004 bytes" in text_of(large)
    link = large["content"][1]["uri"]
    read = await client.result("resources/read", {"uri": f"{link}?bytes=0:10"})
    assert base64.b64decode(read["contents"][0]["blob"]) == b"\x89PNG" + bytes(6)


@pytest.mark.parametrize("kind", ["image/png", "application/x-foo", "text/x-bar; charset=utf-8", "no type \n"])
async def test_what_is_kept_by_itself_has_the_type_that_its_tool_gave_it(client: Wire, kind: str) -> None:
    link = (await client.call("picture", bytes=2_000_000, type=kind))["content"][-1]
    expected = kind if "/" in kind else "application/octet-stream"
    assert link["mimeType"] == expected
    read = await client.result("resources/read", {"uri": f"{link['uri']}?bytes=0:10"})
    assert read["contents"][0]["mimeType"] == expected


async def test_structured_content_is_the_original_or_the_handle_and_the_schema_allows_both(tmp_path: Path) -> None:
    async with official(gateway(tmp_path, server=plain())) as client:  # it checks what it gets against the schema
        listed = await client.list_tools(cursor="2")
        schema = next(tool.output_schema for tool in listed.tools if tool.name == "shaped")
        assert schema is not None
        assert schema["$defs"] == SHAPED["$defs"]
        assert schema["type"] == "object"
        small = await client.call_tool("shaped", {"rows": 3})
        assert small.structured_content == {"rows": [{"id": 0}, {"id": 1}, {"id": 2}]}
        large = await client.call_tool("shaped", {"rows": 50_000})
        assert large.structured_content is not None
        assert large.structured_content["kept"] is True
        handle = large.structured_content["handle"]
        answer = await client.call_tool("context_query", {"handle": handle, "path": "$.rows[49999].id"})
        assert "49999" in str(answer.content[0])


async def test_a_running_notice_fits_the_schema_too(tmp_path: Path) -> None:
    words = gateway(tmp_path, before=["--set", "slow_after_seconds=0.2"], server=plain())
    async with official(words) as client:
        await client.list_tools(cursor="2")
        running = await client.call_tool("slow shape", {"rows": 2, "seconds": 1.0})
        assert running.structured_content is not None
        handle = running.structured_content["handle"]
        notice = running.content[0].text  # type: ignore[union-attr] - it is text
        assert running.structured_content == {"kept": True, "handle": handle, "notice": notice, "running": True}
        waited = await client.call_tool("wait_for_tool_output", {"handle": handle})
        assert "Ended" in str(waited.content[0])
        read = await client.call_tool("context_read", {"handle": handle})
        assert '{"rows": [{"id": 0}, {"id": 1}]}' in read.content[0].text  # type: ignore[union-attr] - it is text


async def test_a_link_leads_into_its_own_session_only(tmp_path: Path) -> None:
    foreign_words = gateway(tmp_path, "--client", "another", server=plain())
    async with wire(gateway(tmp_path, server=plain())) as client, wire(foreign_words) as other:
        await client.greet()
        await other.greet()
        link = (await client.call("big", lines=50_000))["content"][1]["uri"]
        read = await client.result("resources/read", {"uri": f"{link}?lines=2:3"})
        assert read["contents"] == [{"uri": f"{link}?lines=2:3", "mimeType": "text/plain", "text": "line\nline\n"}]
        foreign = await other.ask("resources/read", {"uri": link})
        session = link.rpartition("/")[0]
        unknown = await client.ask("resources/read", {"uri": f"{session}/zzzz"})
        assert foreign["error"] | {"data": 0} == unknown["error"] | {"data": 0}
        assert foreign["error"]["code"] == -32002
        for bad in (f"{link}?lines=1:2&bytes=1:2", f"{link}?rows=1", f"{link}?bytes=x", f"{link}#a"):
            assert "error" in await client.ask("resources/read", {"uri": bad}), bad
        handle = link.rpartition("/")[2]
        there = await other.result("tools/call", {"name": "context_read", "arguments": {"handle": handle}})
        assert there["isError"] is True


async def test_an_old_client_gets_no_block_that_it_does_not_know(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, server=plain())) as client:
        await client.greet("2025-03-26")
        assert [block["type"] for block in (await client.call("big", lines=50_000))["content"]] == ["text"]


async def test_an_error_of_ten_megabytes_is_kept_too(client: Wire) -> None:
    error = (await client.ask("tools/call", {"name": "long error", "arguments": {"bytes": 10_000_000}}))["error"]
    assert error["code"] == -32000
    assert len(json.dumps(error)) < 4096
    assert "\x1b" not in error["message"]
    found = text_of(await client.call("context_grep", handle=error["data"]["handle"], pattern="E+", count=True))
    assert "1" in found


async def test_all_of_a_long_error_is_kept_its_data_too(client: Wire) -> None:
    for arguments in ({"bytes": 100_000}, {"data": 100_000}, {"bytes": 100_000, "data": 100_000}):
        error = (await client.ask("tools/call", {"name": "refuse", "arguments": arguments}))["error"]
        assert error["code"] == -32123
        assert len(json.dumps(error)) < 4096
        whole = await client.result("resources/read", {"uri": await _link(client, error["data"]["handle"])})
        message, _, data = whole["contents"][0]["text"].partition("\n")
        assert message == "not today" + "!" * arguments.get("bytes", 0)
        more = {"more": "D" * 100_000} if "data" in arguments else {}
        assert json.loads(data) == {"extra": [1, 2], **more}


async def test_who_shows_only_text_is_told_of_structured_content_that_is_kept(client: Wire) -> None:
    rows = {"rows": [{"id": row} for row in range(10_000)]}
    picture = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    said = {"type": "text", "text": "see the rows"}
    for blocks, kinds in (
        ([], ["text", "resource_link"]),
        ([picture], ["text", "image", "resource_link"]),
        ([said, picture], ["text", "text", "image", "resource_link"]),
    ):
        more = {"content": blocks, "structuredContent": rows}
        result = await client.call("sleep", seconds=0, more=more)
        assert [block["type"] for block in result["content"]] == kinds
        note = [block["text"] for block in result["content"] if block["type"] == "text"][-1]
        assert note.startswith("The text of this result is complete. " if said in blocks else "sleep returned ")
        assert handle_in(note) == result["structuredContent"]["handle"]


async def _link(client: Wire, handle: str) -> str:
    link: str = (await client.call("big", lines=50_000))["content"][-1]["uri"]
    return link.rpartition("/")[0] + "/" + handle


@requirement("gateway:tools-listed-always")
async def test_our_tools_are_listed_always_or_when_needed(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, server=plain())) as always:
        await always.greet()
        before = await always.result("tools/list", {"cursor": "2"})
        await always.call("big", lines=50_000)
        assert await always.result("tools/list", {"cursor": "2"}) == before
        assert all(one["method"] != "notifications/tools/list_changed" for one in always.heard)
    async with wire(gateway(tmp_path, "--session", "new", "--tools", "when-needed", server=plain())) as needed:
        assert (await needed.greet())["capabilities"]["tools"]["listChanged"] is True
        before = await needed.result("tools/list", {"cursor": "2"})
        assert not any(tool["name"].startswith("context_") for tool in before["tools"])
        await needed.call("big", lines=50_000)
        await needed.hears("notifications/tools/list_changed")
        after = await needed.result("tools/list", {"cursor": "2"})
        assert [tool["name"] for tool in after["tools"]][-4:] == [
            "context_read", "context_grep", "context_tail", "context_query",
        ]  # fmt: skip


async def test_a_session_with_a_name_outlives_the_process(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, "--session", "work", server=plain())) as first:
        await first.greet()
        handle = handle_in(text_of(await first.call("big", lines=50_000)))
        assert first.process.stdin is not None
        first.process.stdin.close()
        assert await first.ended() == 0
    async with wire(gateway(tmp_path, "--session", "work", server=plain())) as second:
        await second.greet()
        again = text_of(await second.call("big", lines=50_000))
        assert f"same bytes as {handle}" in again, "another call, though it has the same id on another connection"
        assert handle_in(again) != handle
        assert "50,000" in text_of(await second.call("context_grep", handle=handle, pattern="line", count=True))
    async with wire(gateway(tmp_path, server=plain())) as third:
        await third.greet()
        assert (await third.call("context_grep", handle=handle, pattern="line"))["isError"] is True


@requirement("reference:off-in-gateway")
async def test_a_kept_output_is_passed_on_by_reference_where_that_is_on(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, "--by-reference", server=plain())) as on:
        await on.greet()
        handle = handle_in(text_of(await on.call("big", lines=20_000)))
        assert text_of(await on.call("echo", text=f"holdall:{handle}#L1-L2")) == "line\nline\n"
        assert (await on.call("echo", text="holdall:zzzz"))["isError"] is True
    async with wire(gateway(tmp_path, server=plain())) as off:
        await off.greet()
        assert text_of(await off.call("echo", text="holdall:zzzz")) == "holdall:zzzz"


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize(("dialect", "keeps"), [("clamp", True), ("legacy", False)])
async def test_where_links_are_given_reading_them_is_announced(tmp_path: Path, dialect: str, keeps: bool) -> None:
    """A client that keeps to capabilities would never read the one way to the rest."""
    (tmp_path / "server.py").write_text(ONLY_TOOLS)
    words = gateway(
        tmp_path / "home",
        before=["--set", f"dialect={dialect}"],
        server=[sys.executable, str(tmp_path / "server.py")],
    )
    async with wire(words) as client:
        assert ("resources" in (await client.greet())["capabilities"]) is keeps


ONLY_TOOLS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": hello}), flush=True)
"""
