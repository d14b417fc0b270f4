"""FastMCP: a real server and its own client, in memory and over HTTP on a loopback address. The agent is the contract's."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import pytest
from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.response_limiting import ResponseLimitingMiddleware
from fastmcp.tools import ToolResult
from fastmcp.utilities.tests import asgi_client, asgi_server
from fastmcp.utilities.types import Image
from mcp_types import CallToolRequestParams, ElicitRequest, ElicitRequestFormParams, InputRequiredResult

from holdall.adapters.fastmcp import middleware
from tests.adapters.contract import (
    DELETED,
    NEEDLE,
    QUESTION,
    Contract,
    Got,
    Limit,
    Ran,
    Request,
    Script,
    example,
    fetch_some,
    finds_the_needle,
    handle_in,
    small,
)
from tests.requirements import requirement

pytestmark = pytest.mark.adapters
CONVERSATION: ContextVar[str] = ContextVar("CONVERSATION")


class ServedByFastMCP:
    """The client of the server is the framework; the conversation is what the user of the adapter finds in the context."""

    is_async = True
    is_lean = False
    limits: Mapping[Limit, str] = {
        "static": "clients list the tools of a server once",
        "room": "a server does not see the requests to the model",
    }

    def adapter(self, home: Path, **options: Any) -> Any:
        return middleware(home=str(home), session=lambda _: CONVERSATION.get(), **options)

    def close(self, adapter: Any) -> None:
        adapter.close()

    def nothing(self) -> Any:
        """For the benchmark: what the framework itself takes for a middleware that does nothing."""
        return Middleware()

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        CONVERSATION.set(conversation)
        return asyncio.run(self.talk(server(adapter, tools), script))

    async def talk(self, mcp: FastMCP, script: Script) -> Ran:
        requests: list[Request] = []
        results: dict[str, Got] = {}
        traffic: list[str] = []
        async with Client(mcp) as client:
            names = tuple(one.name for one in await client.list_tools())
            while True:
                text = "\n".join(one.text for one in results.values())
                requests.append(Request(dict(results), names, "", text))
                says = script(requests)
                if isinstance(says, str):
                    saved = "\n".join(traffic)
                    return Ran(says, requests, saved, saved, saved)
                came = await asyncio.gather(
                    *(client.call_tool(one.tool, dict(one.arguments), raise_on_error=False) for one in says)
                )
                results |= {one.id: got(result) for one, result in zip(says, came, strict=True)}
                traffic += [] if self.is_lean else [str(one) for one in came]

    def image_tool(self, name: str, image: bytes) -> Any:
        def photo() -> Image:
            """An image."""
            return Image(data=image, format="png")

        photo.__name__ = name
        return photo

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        CONVERSATION.set("c1")
        result = ToolResult(content=small())

        async def call_next(_: Any) -> Any:
            return result

        return result, asyncio.run(adapter.on_call_tool(called("small"), call_next))

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        """In the newest protocol a tool returns its question, and is called again with the answer."""
        CONVERSATION.set("c1")
        asked: list[str] = []

        async def delete(ctx: Context) -> Any:
            """Delete everything."""
            if ctx.input_responses is None:
                schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
                question = ElicitRequest(params=ElicitRequestFormParams(message=QUESTION, requested_schema=schema))
                return InputRequiredResult(input_requests={"sure": question})
            return DELETED

        async def person(message: str, *_: Any) -> Any:
            asked.append(message)
            return {"sure": True}

        async def talk() -> Any:
            async with Client(server(adapter, [delete]), elicitation_handler=person) as client:
                return await client.call_tool("delete")

        return asked[0] if (result := asyncio.run(talk())) and asked else "", got(result).text


def server(adapter: Any, tools: Sequence[Any], *before: Any) -> FastMCP:
    mcp = FastMCP("shop", middleware=[*before, adapter] if adapter else [*before])
    for one in tools:
        mcp.tool(one)
    return mcp


def got(result: Any) -> Got:
    texts = [block.text for block in result.content if block.type == "text"]
    images = [base64.b64decode(block.data) for block in result.content if block.type == "image"]
    return Got("\n".join(texts), bool(result.is_error), tuple(images))


def called(tool: str) -> Any:
    return MiddlewareContext(message=CallToolRequestParams(name=tool, arguments={}), method="tools/call")


class TestServer(Contract):
    framework = ServedByFastMCP()
    session = "c1"  # its user has named it


@pytest.fixture
async def adapter(tmp_path: Path) -> AsyncIterator[Any]:
    made = middleware(home=str(tmp_path))
    yield made
    made.close()


@pytest.mark.anyio
@requirement("adapter:conversations")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_in_one_process_the_session_is_that_of_the_process_or_of_the_connection(adapter: Any, mode: Any) -> None:
    mcp = server(adapter, [fetch_some])
    async with Client(mcp, mode=mode) as client:
        handle = handle_in(got(await client.call_tool("fetch_some")).text)
        found = await client.call_tool("context_grep", {"handle": handle, "pattern": NEEDLE})
        assert NEEDLE in got(found).text
        assert "A large tool output is kept whole" in (client.instructions or "")
    async with Client(mcp, mode=mode) as other:
        found = await other.call_tool("context_grep", {"handle": handle, "pattern": NEEDLE}, raise_on_error=False)
        assert (NEEDLE + '"' in got(found).text) == (mode == "auto")


@pytest.mark.anyio
@requirement("adapter:conversations")
async def test_over_http_those_who_sign_in_are_apart_and_others_need_a_session(tmp_path: Path) -> None:
    adapter = middleware(home=str(tmp_path))
    people = StaticTokenVerifier({who: {"client_id": who, "sub": who, "scopes": []} for who in ("ann", "bob")})
    mcp = FastMCP("shop", middleware=[adapter], auth=people, tools=[fetch_some])
    async with asgi_client(mcp, auth="ann") as ann:
        handle = handle_in(got(await ann.call_tool("fetch_some")).text)
        asked = {"handle": handle, "pattern": NEEDLE}
        assert NEEDLE + '"' in got(await ann.call_tool("context_grep", asked)).text
    async with asgi_client(mcp, auth="bob") as bob:
        assert "No output is kept" in got(await bob.call_tool("context_grep", asked, raise_on_error=False)).text
    open_to_all = server(adapter, [small])
    async with asgi_client(open_to_all) as client:
        with pytest.raises(ToolError, match="no identity"):
            await client.call_tool("small")
    shared = middleware(home=str(tmp_path), session="shared")
    async with asgi_client(server(shared, [small])) as client:
        assert got(await client.call_tool("small")).text == small()
    adapter.close()
    shared.close()


@pytest.mark.anyio
@requirement("adapter:conversations")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("stateless", [True, False])
async def test_no_header_of_a_client_names_the_session_of_another(tmp_path: Path, mode: Any, stateless: bool) -> None:
    adapter = middleware(home=str(tmp_path))
    people = StaticTokenVerifier({who: {"client_id": who, "sub": who, "scopes": []} for who in ("ann", "bob")})
    mcp = FastMCP("shop", middleware=[adapter], auth=people, tools=[fetch_some])
    async with asgi_server(mcp, stateless_http=stateless) as served, served.client(auth="ann", mode=mode) as ann:
        handle = handle_in(got(await ann.call_tool("fetch_some")).text)
        asked = {"handle": handle, "pattern": NEEDLE}
        assert NEEDLE + '"' in got(await ann.call_tool("context_grep", asked)).text
        [name] = adapter.conversations.pool.open_names
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "context_read"}}
        for said in (name.removeprefix("conversation:"), name):
            headers = {
                "authorization": "Bearer bob", "accept": "application/json, text/event-stream",
                "mcp-session-id": said, "mcp-protocol-version": "2025-06-18",
            }  # fmt: skip
            async with served.http_client(headers=headers) as http:
                answer = await http.post(served.url, json=message)
            assert "Nothing is kept" in answer.text if stateless else answer.status_code in (400, 404)
    open_to_all = server(adapter, [small])
    async with asgi_server(open_to_all, stateless_http=True) as served, served.client(mode=mode) as client:
        with pytest.raises(ToolError, match="no identity"):
            await client.call_tool("small")
    adapter.close()


@pytest.mark.anyio
@requirement("adapter:structured")
async def test_a_server_that_passes_results_on_keeps_them_and_promises_no_schema(adapter: Any) -> None:
    """What a proxy passes on carries the whole result beside its parts."""
    inner = FastMCP("inner", tools=[fetch_some])
    mcp = create_proxy(inner, name="outer", middleware=[adapter])
    async with Client(mcp) as client:
        (tool,) = [one for one in await client.list_tools() if one.name == "fetch_some"]
        result = await client.call_tool("fetch_some")
    assert tool.output_schema is None
    assert len(str(result)) < 5000
    assert handle_in(got(result).text)


class Shelf(ToolResult):
    """A result of the program's own."""


@pytest.mark.anyio
@requirement("adapter:needle")
async def test_a_result_of_a_class_of_the_program_is_kept(adapter: Any) -> None:
    def shelf() -> Any:
        return Shelf(content=cast("Any", fetch_some()))

    async with Client(server(adapter, [shelf])) as client:
        assert handle_in(got(await client.call_tool("shelf")).text)


@pytest.mark.anyio
@requirement("adapter:interrupts")
async def test_an_error_of_a_tool_passes(adapter: Any) -> None:
    async def fails() -> str:
        raise ToolError("no such shop")

    async with Client(server(adapter, [fails])) as client:
        with pytest.raises(ToolError, match=r"^no such shop$"):
            await client.call_tool("fails")


@pytest.mark.anyio
@requirement("adapter:beside")
async def test_inside_its_own_limit_the_notice_is_what_is_measured(adapter: Any) -> None:
    limit = ResponseLimitingMiddleware(max_size=50_000)
    async with Client(server(adapter, [fetch_some], limit)) as client:
        result = await client.call_tool("fetch_some")
        handle = handle_in(got(result).text)
        assert "truncated" not in got(result).text
        assert NEEDLE in got(await client.call_tool("context_grep", {"handle": handle, "pattern": NEEDLE})).text


@requirement("adapter:beside")
def test_outside_its_own_limit_it_warns_that_results_are_cut_before_they_are_kept(tmp_path: Path) -> None:
    adapter, limit = middleware(home=str(tmp_path)), ResponseLimitingMiddleware(max_size=50_000)
    mcp = FastMCP("shop", middleware=[adapter, limit], tools=[fetch_some])

    async def talk() -> None:
        async with Client(mcp) as client:
            await client.call_tool("fetch_some")
            await client.call_tool("fetch_some")

    with pytest.warns(UserWarning, match="ResponseLimitingMiddleware") as warned:
        asyncio.run(talk())
    assert len(warned) == 1
    adapter.close()


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    names = example("fastmcp", fetch=fetch_some)
    ran = asyncio.run(ServedByFastMCP().talk(names["mcp"], finds_the_needle(fetch_some)))
    assert NEEDLE in ran.answer


@pytest.mark.anyio
async def test_a_tool_of_the_server_that_is_called_like_one_of_ours_is_left_out_and_that_is_said(
    tmp_path: Path,
) -> None:
    server = FastMCP("shop", middleware=[middleware(home=str(tmp_path), session="s")])

    @server.tool
    def context_read(number: int = 1) -> str:
        """Not ours."""
        return "mine"

    async with Client(server) as client:
        with pytest.warns(UserWarning, match="Left out, for it has the name of a tool of Holdall: context_read"):
            listed = await client.list_tools()
    assert [one.description for one in listed if one.name == "context_read"] != ["Not ours."]
