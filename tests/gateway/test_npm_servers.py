"""The servers that npm has, direct and through the gateway: what is small is the same, what is large is a handle."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.gateway.outside import both, but_ours, exact, link_in, needs_npm, npm_server, text_of, whole
from tests.gateway.support import Wire, gateway, official
from tests.gateway.test_keeping import handle_in
from tests.requirements import requirement
from tests.upstream.support import until

pytestmark = [pytest.mark.anyio, needs_npm]

NEEDLE = "the needle stands here"
TEMPLATE = "demo://resource/dynamic/blob/3"
EVERYTHING: list[tuple[str, dict[str, Any] | None]] = [
    ("tools/call", {"name": "echo", "arguments": {"message": "é \u2028 😀"}}),
    ("tools/call", {"name": "get-sum", "arguments": {"a": 0.1, "b": 1e300}}),
    ("tools/call", {"name": "get-sum", "arguments": {"a": "no number"}}),
    ("tools/call", {"name": "get-tiny-image", "arguments": {}}),
    ("tools/call", {"name": "get-annotated-message", "arguments": {"messageType": "error", "includeImage": True}}),
    ("tools/call", {"name": "get-structured-content", "arguments": {"location": "New York"}}),
    ("tools/call", {"name": "get-resource-links", "arguments": {"count": 4}}),
    ("tools/call", {"name": "nobody", "arguments": {}}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "simple-prompt"}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Bern"}}),
    ("prompts/get", {"name": "nobody"}),
    ("resources/list", None),
    ("resources/templates/list", None),
    ("resources/read", {"uri": "demo://resource/static/document/architecture.md"}),
    ("resources/read", {"uri": "demo://nowhere"}),
    ("resources/subscribe", {"uri": TEMPLATE}),
    ("resources/unsubscribe", {"uri": TEMPLATE}),
    ("logging/setLevel", {"level": "error"}),
    ("tools/call", {"name": "toggle-simulated-logging", "arguments": {}}),
    ("nobody/knows", {}),
]
COMPLETED = {
    "ref": {"type": "ref/prompt", "name": "completable-prompt"},
    "argument": {"name": "name", "value": "A"},
    "context": {"arguments": {"department": "Engineering"}},
}


async def answers(one: Wire, asked: list[tuple[str, dict[str, Any] | None]]) -> list[dict[str, Any]]:
    return [await one.ask(method, params) for method, params in asked]


async def same(direct: Wire, through: Wire, asked: list[tuple[str, dict[str, Any] | None]]) -> None:
    theirs, ours = await answers(direct, asked), await answers(through, asked)
    for (method, params), there, here in zip(asked, theirs, ours, strict=True):
        assert exact(here) == exact(there), (method, params)


@requirement("gateway:any-server")
async def test_everything_says_the_same_through_the_gateway(tmp_path: Path) -> None:
    async with both(tmp_path, npm_server("server-everything")) as (direct, through):
        there, here = await direct.greet(), await through.greet()
        assert exact({**here, "instructions": ""}) == exact({**there, "instructions": ""})
        assert f">\n{there['instructions']}\n</server-" in here["instructions"]
        await same(direct, through, [*EVERYTHING, ("completion/complete", COMPLETED)])
        theirs, ours = await direct.result("tools/list"), await through.result("tools/list")
        assert exact(but_ours(ours)) == exact(but_ours(theirs))


async def test_a_task_of_the_older_era_passes_as_it_is(tmp_path: Path) -> None:
    """It is a result without content, and what it comes to is asked for by other methods."""

    def about(answer: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in answer.items() if name not in ("taskId", "createdAt", "lastUpdatedAt")}

    call = {"name": "simulate-research-query", "arguments": {"topic": "bags"}, "task": {"ttl": 60_000}}
    async with both(tmp_path, npm_server("server-everything")) as (direct, through):
        found: list[dict[str, Any]] = []
        for one in (direct, through):
            await one.greet()
            made = (await one.result("tools/call", call))["task"]
            got = await one.result("tasks/get", {"taskId": made["taskId"]})
            ended = await one.result("tasks/cancel", {"taskId": made["taskId"]})
            found.append({"made": about(made), "got": set(got), "ended": ended["status"]})
        assert found[0] == found[1]
        assert found[0]["ended"] == "cancelled"


async def test_everything_asks_its_client_and_tells_how_far_it_is(tmp_path: Path) -> None:
    steps: list[tuple[float, float | None]] = []
    updates: list[str] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async def sampled(_context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        said = types.TextContent(type="text", text=f"heard {params.max_tokens}")
        return types.CreateMessageResult(role="assistant", content=said, model="made up")

    async def elicited(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": f"asked: {params.message[:6]}"})

    async def rooted(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/bags", name="bags")])  # type: ignore[arg-type]

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    words = gateway(tmp_path, server=npm_server("server-everything"))
    asked: dict[str, Any] = {
        "sampling_callback": sampled, "elicitation_callback": elicited, "list_roots_callback": rooted,
        "message_handler": heard,
    }  # fmt: skip
    async with official(words, **asked) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"} <= tools
        long = {"duration": 0.2, "steps": 4}
        await client.call_tool("trigger-long-running-operation", long, progress_callback=progressed)
        assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
        answer = await client.call_tool("trigger-sampling-request", {"prompt": "hello", "maxTokens": 77})
        assert "heard 77" in text_of(answer)
        answer = await client.call_tool("trigger-elicitation-request", {})
        assert "asked: Please" in "".join(str(block) for block in answer.content)
        assert "file:///srv/bags" in text_of(await client.call_tool("get-roots-list", {}))
        shaped = await client.call_tool("get-structured-content", {"location": "Chicago"})
        assert shaped.structured_content  # the client has checked it against the widened schema
        session: Any = client.session  # the method is deprecated, and in use
        with pytest.warns(MCPDeprecationWarning):
            await session.subscribe_resource(TEMPLATE)
        await client.call_tool("toggle-subscriber-updates", {})
        await until(lambda: updates == [TEMPLATE])


ITEMS = 100_000


def one_line() -> str:
    """10 MiB of JSON in one line."""
    rows = [
        {"id": row, "name": f"item number {row}", "price": row / 7, "note": NEEDLE if row == 77_777 else "nothing"}
        for row in range(ITEMS)
    ]
    return json.dumps({"items": rows, "pad": "é" * 1_500_000}, ensure_ascii=False)


@requirement("gateway:oversized-notice")
async def test_a_file_of_one_line_is_a_handle_and_all_of_it_can_be_reached(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "items.json").write_text(one_line(), encoding="utf-8")
    (files / "small.txt").write_text("small é\r\n", encoding="utf-8")
    assert (files / "items.json").stat().st_size >= 10 * 1024 * 1024
    server = npm_server("server-filesystem", str(files))
    small: list[tuple[str, dict[str, Any] | None]] = [
        ("tools/call", {"name": "read_text_file", "arguments": {"path": str(files / "small.txt")}}),
        ("tools/call", {"name": "list_directory", "arguments": {"path": str(files)}}),
        ("tools/call", {"name": "read_text_file", "arguments": {"path": "/etc/passwd"}}),
        ("prompts/list", {}),
    ]
    async with both(tmp_path, server) as (direct, through):
        await direct.greet()
        await through.greet()
        await same(direct, through, small)
        theirs, ours = await direct.result("tools/list"), await through.result("tools/list")
        assert exact(but_ours(ours)) == exact(but_ours(theirs))
    async with official(gateway(tmp_path, server=server)) as client:
        await client.list_tools()  # from here on the client checks what a result is made of
        result = await client.call_tool("read_text_file", {"path": str(files / "items.json")})
        notice = text_of(result)
        assert len(notice.encode()) < 4000
        assert await whole(client, link_in(result)) == (files / "items.json").read_text("utf-8")
        handle = handle_in(notice)
        found = text_of(await client.call_tool("context_grep", {"handle": handle, "pattern": "needle stands"}))
        assert '"id": 77777' in found
        one = {"handle": handle, "path": "$.items[99999].name"}
        assert "item number 99999" in text_of(await client.call_tool("context_query", one))


async def test_a_graph_of_memory_is_the_same_and_a_large_one_is_a_handle(tmp_path: Path) -> None:
    def entities(first: int, count: int) -> dict[str, Any]:
        made = [
            {"name": f"bag {number}", "entityType": "bag", "observations": [f"holds {number} things", "é 😀"]}
            for number in range(first, first + count)
        ]
        return {"name": "create_entities", "arguments": {"entities": made}}

    small: list[tuple[str, dict[str, Any] | None]] = [
        ("tools/call", entities(0, 3)),
        ("tools/call", {"name": "read_graph", "arguments": {}}),
        ("tools/call", {"name": "search_nodes", "arguments": {"query": "bag 2"}}),
        ("tools/call", {"name": "open_nodes", "arguments": {"names": ["nobody"]}}),
        ("tools/call", {"name": "create_entities", "arguments": {"entities": "none"}}),
    ]
    command = npm_server("server-memory")
    direct_one, second = (
        ["env", f"MEMORY_FILE_PATH={tmp_path / name}", *command] for name in ("direct.jsonl", "through.jsonl")
    )
    async with both(tmp_path, direct_one, second) as (direct, through):
        await direct.greet()
        await through.greet()
        await same(direct, through, small)
        theirs, ours = await direct.result("tools/list"), await through.result("tools/list")
        assert exact(but_ours(ours)) == exact(but_ours(theirs))
        await direct.result("tools/call", entities(3, 3000))
        graph = await direct.call("read_graph")
        assert len(graph["content"][0]["text"]) > 200_000
        await through.result("tools/call", entities(3, 3000))
        kept = await through.call("read_graph")
        link = next(block["uri"] for block in kept["content"] if block["type"] == "resource_link")
        read = await through.result("resources/read", {"uri": link})
        assert read["contents"][0]["text"] == graph["content"][0]["text"]
