"""A well-behaved MCP server on the official SDK, over stdio or streamable HTTP. It serves both eras of the protocol.

python good_server.py                  stdio
python good_server.py --http PORT_FILE streamable HTTP on a free port, which is written into the file
python good_server.py --journal FILE   each cancelled call writes a line there
"""

import argparse
import asyncio
import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")  # sampling and logging are deprecated in the newer era, and used here in the older
Context = ServerRequestContext[Any, Any]

BUS = InMemorySubscriptionBus()
NAMES = [
    "echo",
    "slow",
    "hang",
    "big",
    "chatty",
    "ask",
    "fail",
    "odd",
    "environment",
    "refuse",
    "grow",
    "pid",
    "input",
    "headed",
]


def text(value: str, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)], **more)


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Two pages, so that whoever stops after the first one misses some."""
    second = params is not None and params.cursor == "second"
    names = NAMES[6:] if second else NAMES[:6]
    schema: dict[str, Any] = {"type": "object"}
    strict = {"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}}}
    headed = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tools = [
        types.Tool(
            name=name,
            input_schema=headed if name == "headed" else schema,
            output_schema=strict if name == "odd" else None,
        )
        for name in names
    ]
    return types.ListToolsResult(tools=tools, next_cursor=None if second else "second")


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    arguments = params.arguments or {}
    return await TOOLS[params.name](ctx, arguments)


async def echo(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    return text(str(arguments.get("text", "")))


async def slow(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """Works in steps and says so."""
    for step in range(int(arguments["steps"])):
        await report(ctx, step + 1, int(arguments["steps"]), f"step {step + 1}")
        await anyio.sleep(float(arguments.get("pause", 0.05)))
    return text(str(arguments.get("text", "done")))


async def report(ctx: Context, progress: float, total: float, message: str) -> None:
    token = (ctx.meta or {}).get("progress_token") or (ctx.meta or {}).get("progressToken")
    if token is None:
        return
    await ctx.session.send_notification(
        types.ProgressNotification(
            params=types.ProgressNotificationParams(
                progress_token=token, progress=progress, total=total, message=message
            )
        ),
        related_request_id=ctx.request_id,
    )


OPENED: dict[str, anyio.Event] = {}


async def speak(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """Says how far it is, logs it where it can, and ends when `open` is called with its name."""
    gate = OPENED.setdefault(str(arguments["name"]), anyio.Event())
    for step in (1, 2, 3):
        await report(ctx, step, 3, f"step {step} of {arguments['name']}")
        if ctx.protocol_version < "2026":
            session: Any = ctx.session  # the method is deprecated, and in use
            await session.send_log_message("info", f"log {step}", related_request_id=ctx.request_id)
    await gate.wait()
    if arguments.get("fails"):
        raise MCPError(-32000, "it broke")
    return text("z" * int(arguments["bytes"]))


async def open_gate(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    OPENED.setdefault(str(arguments["name"]), anyio.Event()).set()
    return text("opened")


async def hang(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """Never answers; what is told when it is cancelled is in the journal."""
    note(f"begun {arguments.get('text', '')}")
    try:
        await anyio.sleep_forever()
    except BaseException:
        note(f"cancelled {arguments.get('text', '')}")
        raise
    return text("never")


def note(line: str) -> None:
    if "--journal" in sys.argv:
        with open(sys.argv[sys.argv.index("--journal") + 1], "a", encoding="utf-8") as file:
            file.write(line + "\n")


async def big(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    return text("x" * int(arguments["bytes"]))


async def chatty(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    session: Any = ctx.session  # the method is deprecated, and in use
    await session.send_log_message("info", arguments.get("text", ""), related_request_id=ctx.request_id)
    return text(str(arguments.get("text", "")))


async def ask(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """Asks the client in return."""
    try:
        answer = await ctx.session.elicit_form(
            str(arguments.get("text", "?")), {"type": "object", "properties": {}}, related_request_id=ctx.request_id
        )
    except MCPError as refusal:
        return text(f"{refusal.code} {refusal.message}", is_error=True)
    return text(answer.model_dump_json(by_alias=True, exclude_none=True))


async def fail(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    return text("it did not work", is_error=True)


async def odd(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """A result that breaks the tool's own schema."""
    return text("é", structured_content={"number": "not a number"})


async def environment(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    request = ctx.request
    if request is not None:
        return text(request.headers.get(arguments["name"], ""))
    return text(os.environ.get(arguments["name"], "") + "|" + os.getcwd())


async def refuse(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    raise MCPError(-32000, "Connection closed", {"extra": [1, 2]})


async def grow(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    NAMES.append(str(arguments["name"]))
    await BUS.publish(ToolsListChanged())
    if ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return text("grown")


async def pid(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    return text(str(os.getpid()))


async def ask_for_input(ctx: Context, arguments: dict[str, Any]) -> Any:
    """The newer era's way to ask: the result is a question, and the call comes again with the answer."""
    answers = (ctx.params or {}).get("inputResponses")
    if answers:
        return text(f"{answers['name']['content']['name']} {(ctx.params or {}).get('requestState')}")
    question = types.ElicitRequest(
        params=types.ElicitRequestFormParams(message="name?", requested_schema={"type": "object", "properties": {}})
    )
    return types.InputRequiredResult(input_requests={"name": question}, request_state="state-1")


async def headed(ctx: Context, arguments: dict[str, Any]) -> types.CallToolResult:
    """An argument of it has to be in a header, too."""
    return text(ctx.request.headers.get("mcp-param-region", "") if ctx.request is not None else "")


TOOLS = {
    "echo": echo, "slow": slow, "hang": hang, "big": big, "chatty": chatty, "ask": ask, "fail": fail, "odd": odd,
    "environment": environment, "refuse": refuse, "grow": grow, "pid": pid,
    "input": ask_for_input, "headed": headed, "speak": speak, "open": open_gate,
}  # fmt: skip


class Changing(Server[Any]):
    """In the handshake it says, too, that its tools change."""

    def create_initialization_options(self, *given: Any, **named: Any) -> Any:
        return super().create_initialization_options(NotificationOptions(tools_changed=True))


def make() -> Server[Any]:
    return Changing(
        "good",
        version="1",
        instructions="be kind",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(BUS),
    )


async def over_stdio() -> None:
    server = make()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def over_http(port_file: Path, json_response: bool) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    app = make().streamable_http_app(json_response=json_response, max_request_body_size=100_000_000)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(listener.getsockname()[1]))
    os.replace(partial, port_file)
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--journal", type=Path)
    given = parser.parse_args()
    asyncio.run(over_http(given.http, given.json) if given.http else over_stdio())


if __name__ == "__main__":
    main()
