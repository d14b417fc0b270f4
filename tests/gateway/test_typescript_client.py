"""The official TypeScript clients, of both lines of their SDK, on stdio and over HTTP: the same with the gateway between."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.outside import NODE, NPM, REFERENCE, SCRIPTS, but_ours, exact, needs_npm, npm_server
from tests.gateway.support import SOON, gateway
from tests.gateway.test_keeping import handle_in
from tests.gateway.web import TOKEN, served
from tests.requirements import requirement
from tests.upstream.launch import sdk_server
from tests.upstream.support import http_server

pytestmark = [pytest.mark.anyio, needs_npm]

Calls = list[tuple[str, dict[str, Any]]]
EVERYTHING: Calls = [
    ("tools/call", {"name": "echo", "arguments": {"message": "é 😀"}}),
    ("tools/call", {"name": "get-structured-content", "arguments": {"location": "Chicago"}}),
    ("tools/call", {"name": "get-tiny-image", "arguments": {}}),
    ("tools/call", {"name": "trigger-long-running-operation", "arguments": {"duration": 0.3, "steps": 3}}),
    ("tools/call", {"name": "trigger-sampling-request", "arguments": {"prompt": "hello", "maxTokens": 9}}),
    ("tools/call", {"name": "trigger-elicitation-request", "arguments": {}}),
    ("tools/call", {"name": "get-sum", "arguments": {"a": "none"}}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "args-prompt", "arguments": {"city": "Bern"}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "demo://resource/static/document/features.md"}),
    ("resources/read", {"uri": "demo://nowhere"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "completable-prompt"},
                             "argument": {"name": "department", "value": "E"}}),
]  # fmt: skip
NEWER: Calls = [
    ("tools/call", {"name": "test_multiple_content_types", "arguments": {}}),
    ("tools/call", {"name": "test_tool_with_progress", "arguments": {}}),
    ("tools/call", {"name": "test_input_required_result_multiple_inputs", "arguments": {}}),
    ("tools/call", {"name": "test_headers", "arguments": {"region": "eu é"}}),
    ("tools/call", {"name": "test_error_handling", "arguments": {}}),
    ("prompts/get", {"name": "test_input_required_result_prompt"}),
    ("resources/read", {"uri": "test://template/7/data"}),
    ("resources/read", {"uri": "test://nowhere"}),
]
LIST: Calls = [("tools/list", {})]


async def told(sdk: int, calls: Calls, *, mode: str = "legacy", **where: Any) -> dict[str, Any]:
    """What the client tells after it has done all this."""
    asked = {"npm": str(NPM.parent), "sdk": sdk, "mode": mode, "calls": calls, **where}
    process = await asyncio.create_subprocess_exec(
        NODE, str(SCRIPTS / "client.mjs"), json.dumps(asked),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(SOON):
            out, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaint.decode()
    return json.loads(out)


def same(ours: dict[str, Any], theirs: dict[str, Any], calls: Calls) -> None:
    for (method, params), here, there in zip(calls, ours["answers"], theirs["answers"], strict=True):
        if method == "tools/list":
            assert exact(but_ours(here["result"])) == exact(but_ours(there["result"]))
        else:
            assert exact(here) == exact(there), (method, params)
    for key in ("server", "capabilities"):
        assert exact(ours[key]) == exact(theirs[key]), key


@pytest.mark.in_full(one_in=2)
@requirement("gateway:any-client")
@pytest.mark.parametrize("sdk", [1, 2])
async def test_a_typescript_client_gets_the_same_on_stdio_and_over_http(tmp_path: Path, sdk: int) -> None:
    server, calls = npm_server("server-everything"), LIST + EVERYTHING
    web = gateway(tmp_path / "web", "--http", "127.0.0.1:0", server=server)
    async with served(web, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _):
        direct, on_stdio, over_http = await asyncio.gather(
            told(sdk, calls, command=server),
            told(sdk, calls, command=gateway(tmp_path, server=server)),
            told(sdk, calls, url=url, token=TOKEN),
        )
    for one in (direct, on_stdio, over_http):  # a step that comes with the answer is dropped by this client itself
        assert one["progress"][:2] == [[1, 3], [2, 3]]
    assert "heard " in exact(direct["answers"][5])
    same(on_stdio, direct, calls)
    same(over_http, direct, calls)


async def test_a_typescript_client_of_the_newer_era_gets_the_same(tmp_path: Path) -> None:
    calls = LIST + NEWER
    with http_server(tmp_path, program=REFERENCE) as (spec, _):
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"reference": {"type": "http", "url": spec.url}}}))
        web = gateway(tmp_path / "web", "--http", "127.0.0.1:0", "--config", str(config))
        async with served(web, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _):
            newer = {"pin": "2026-07-28"}
            direct = await told(2, calls, mode=newer, url=spec.url)  # type: ignore[arg-type] - a table of the SDK's
            over_http = await told(2, calls, mode=newer, url=url, token=TOKEN)  # type: ignore[arg-type]
            through = gateway(tmp_path, server=[*sdk_server(REFERENCE)])
            on_stdio = await told(2, calls, mode=newer, command=through)  # type: ignore[arg-type]
    assert "file:///srv/bags" in exact(direct["answers"][3])
    same(over_http, direct, calls)
    same(on_stdio, direct, calls)


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("sdk", [1, 2])
async def test_a_typescript_client_takes_a_handle_where_a_schema_is_declared(tmp_path: Path, sdk: int) -> None:
    """It checks structured content by the schema that was listed, and would refuse a notice without it."""
    (tmp_path / "large.txt").write_text("".join(f"line {number}\n" for number in range(100_000)))
    words = gateway(tmp_path / "home", server=npm_server("server-filesystem", str(tmp_path)))
    read = ("tools/call", {"name": "read_text_file", "arguments": {"path": str(tmp_path / "large.txt")}})
    found = await told(sdk, [*LIST, read], command=words)
    assert any("outputSchema" in tool for tool in found["answers"][0]["result"]["tools"])
    result = found["answers"][1]["result"]
    assert handle_in(result["content"][0]["text"])
    assert result["structuredContent"]["kept"] is True
