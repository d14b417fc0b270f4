"""What the official conformance suite wants to find in a server, on the official SDK, over streamable HTTP or stdio.

python reference_server.py                  stdio
python reference_server.py --http PORT_FILE streamable HTTP on a free port, which is written into the file

Names and texts are those that the suite asks for. It serves both eras of the protocol.
"""

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import secrets
import socket
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import anyio
import uvicorn
from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")  # sampling and logging are deprecated in the newer era, and used here in the older
Context = ServerRequestContext[Any, Any]
Tool = Callable[[Context, dict[str, Any]], Awaitable[Any]]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
PAUSE = 0.01  # seconds between two things that a tool tells while it works
BUS = InMemorySubscriptionBus()
KEY = secrets.token_bytes(32)
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def said(*content: Any, **more: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return {"content": blocks, **more}


def picture() -> dict[str, Any]:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}}


def always(*content: Any, **more: Any) -> Tool:
    async def tool(_ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
        return said(*content, **more)

    return tool


# What a tool tells while it works


async def log(ctx: Context, level: Any, data: str) -> None:
    session: Any = ctx.session  # the method is deprecated, and in use
    await session.send_log_message(level, data, related_request_id=ctx.request_id)


async def logging(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(ctx, "info", words)
        await anyio.sleep(PAUSE)
    return said("Tool with logging executed successfully")


async def progress(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(PAUSE)
    return said("Tool with progress executed successfully")


async def reconnection(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer comes on the stream that the client opens after this one was closed."""
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await anyio.sleep(PAUSE * 5)
    return said("Reconnection test completed")


async def changed_tools(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    await BUS.publish(ToolsListChanged())
    if ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return said("The list of tools has changed")


async def changed_prompts(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    await BUS.publish(PromptsListChanged())
    if ctx.protocol_version < "2026":
        await ctx.session.send_prompt_list_changed()
    return said("The list of prompts has changed")


# Questions of the older era: the server asks its client while the call runs


async def sampling(ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    session: Any = ctx.session
    content = types.TextContent(type="text", text=str(arguments["prompt"]))
    messages = [types.SamplingMessage(role="user", content=content)]
    answer = await session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
    return said(f"LLM response: {answer.content.text}")


def asking(properties: dict[str, Any], required: list[str], words: str) -> Tool:
    async def tool(ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        message = str(arguments.get("message", "Please review and update the form fields with defaults"))
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return said(f"{words}: action={answer.action}, content={json.dumps(answer.content or {})}")

    return tool


def titled(*names: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": name} for number, name in enumerate(names, 1)]


OPTIONS = ["option1", "option2", "option3"]
DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "description": "User name", "default": "John Doe"},
    "age": {"type": "integer", "description": "User age", "default": 30},
    "score": {"type": "number", "description": "User score", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "description": "Verification status", "default": True},
}
ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
    "legacyEnum": {
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")}},
}
PERSON: dict[str, Any] = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}


# Questions of the newer era: a result that asks, and the call again with the answers


def form(message: str, field: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(text: str, tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def given(ctx: Context) -> tuple[dict[str, Any], str]:
    """The answers of the client and the state that it brings back, whose seal must be ours."""
    params = ctx.params or {}
    state = str(params.get("requestState") or "")
    if state and not hmac.compare_digest(sealed(state.rpartition(".")[0]), state):
        raise MCPError(types.INVALID_PARAMS, "requestState is not one that this server gave")
    return table(params.get("inputResponses")), state.rpartition(".")[0]


def asks(questions: dict[str, Any], state: str = "") -> dict[str, Any]:
    more = {"requestState": sealed(state)} if state else {}
    return {"resultType": "input_required", "inputRequests": questions, **more}


def table(value: object) -> dict[str, Any]:
    """A JSON object, or an empty one in place of anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def content_of(answer: object) -> dict[str, Any]:
    return table(table(answer).get("content"))


def wanting(questions: dict[str, Any], reply: Callable[[dict[str, Any]], str], *, state: str = "") -> Tool:
    """Complete once every question has an answer of the right form; until then those without one are asked."""

    async def tool(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
        answers, _ = given(ctx)
        open_ones = {key: one for key, one in questions.items() if not is_answer(one, answers.get(key))}
        return asks(open_ones, state) if open_ones else said(reply(answers))

    return tool


def is_answer(question: dict[str, Any], said_so: object) -> bool:
    answer = table(said_so)
    match question["method"]:
        case "elicitation/create":
            fields = question["params"]["requestedSchema"]["required"]
            return answer.get("action") in ("decline", "cancel") or all(one in content_of(answer) for one in fields)
        case "sampling/createMessage":
            return "content" in answer
        case _:
            return isinstance(answer.get("roots"), list)


async def several_rounds(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    answers, state = given(ctx)
    if "step2" in answers and state == "round-2":
        return said(f"Colour: {content_of(answers['step2']).get('color')}")
    if "step1" in answers and state == "round-1":
        return asks({"step2": form("Step 2: What is your favorite color?", "color")}, "round-2")
    return asks({"step1": form("Step 1: What is your name?", "name")}, "round-1")


async def capable(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    declared = table((ctx.meta or {}).get(CAPABILITIES))
    questions = {"sampling": sample("Hello", 10), "elicitation": form("What is your name?", "name"), "roots": ROOTS}
    return asks({f"by_{name}": one for name, one in questions.items() if name in declared})


async def needs_sampling(ctx: Context, _arguments: dict[str, Any]) -> dict[str, Any]:
    if "sampling" not in table((ctx.meta or {}).get(CAPABILITIES)):
        raise MCPError(-32021, "The client can do no sampling", {"requiredCapabilities": {"sampling": {}}})
    return said("The client can do sampling")


NAME = {"user_name": form("What is your name?", "name")}
TOOLS: dict[str, Tool] = {
    "test_simple_text": always("This is a simple text response for testing."),
    "test_image_content": always(picture()),
    "test_audio_content": always({"type": "audio", "data": SOUND, "mimeType": "audio/wav"}),
    "test_embedded_resource": always(
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": always(
        "Multiple content types test:",
        picture(),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": always("This tool intentionally returns an error for testing", isError=True),
    "test_tool_with_logging": logging,
    "test_logging_tool": logging,
    "test_tool_with_progress": progress,
    "test_sampling": sampling,
    "test_elicitation": asking(PERSON, ["username", "email"], "User response"),
    "test_elicitation_sep1034_defaults": asking(DEFAULTS, [], "Elicitation completed"),
    "test_elicitation_sep1330_enums": asking(ENUMS, [], "Elicitation completed"),
    "test_reconnection": reconnection,
    "test_trigger_tool_change": changed_tools,
    "test_trigger_prompt_change": changed_prompts,
    "json_schema_2020_12_tool": always("Valid."),
    "test_headers": always("The header was as the argument."),
    "test_missing_capability": needs_sampling,
    "test_streaming_elicitation": wanting(NAME, lambda _: "Streamed."),
    "test_input_required_result_elicitation": wanting(
        NAME, lambda answers: f"Hello, {content_of(answers['user_name']).get('name')}!"
    ),
    "test_input_required_result_sampling": wanting(
        {"capital_question": sample("What is the capital of France?", 100)},
        lambda answers: str(content_of(answers["capital_question"]).get("text")),
    ),
    "test_input_required_result_list_roots": wanting({"client_roots": ROOTS}, lambda a: json.dumps(a["client_roots"])),
    "test_input_required_result_request_state": wanting(
        {"confirm": form("Please confirm", "ok", "boolean")}, lambda _: "state-ok", state="confirming"
    ),
    "test_input_required_result_multiple_inputs": wanting(
        {**NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS},
        json.dumps,
        state="several",
    ),
    "test_input_required_result_multi_round": several_rounds,
    "test_input_required_result_tampered_state": wanting(NAME, json.dumps, state="sealed"),
    "test_input_required_result_capabilities": capable,
}
SCHEMA_2020: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "test_headers": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    "json_schema_2020_12_tool": SCHEMA_2020,
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
}


async def list_tools(_ctx: Context, _params: Any) -> Any:
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, description=f"For the suite: {name}", input_schema=SCHEMAS.get(name, empty))
            for name in TOOLS
        ]
    )


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Any:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    result = await TOOLS[params.name](ctx, params.arguments or {})
    return types.CallToolResult.model_validate(result) if "content" in result else result


# Prompts, resources, completion


async def list_prompts(_ctx: Context, _params: Any) -> Any:
    wanted = {
        "test_simple_prompt": (),
        "test_prompt_with_arguments": ("arg1", "arg2"),
        "test_prompt_with_embedded_resource": ("resourceUri",),
        "test_prompt_with_image": (),
        "test_input_required_result_prompt": (),
    }
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description=f"For the suite: {name}",
                arguments=[types.PromptArgument(name=one, description="A text", required=True) for one in names],
            )
            for name, names in wanted.items()
        ]
    )


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> Any:
    arguments = params.arguments or {}
    found: list[Any]
    match params.name:
        case "test_simple_prompt":
            found = ["This is a simple prompt for testing."]
        case "test_prompt_with_arguments":
            found = [f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"]
        case "test_prompt_with_embedded_resource":
            text = "Embedded resource content for testing."
            embedded = resource(arguments["resourceUri"], "text/plain", text)
            found = [embedded, "Please process the embedded resource above."]
        case "test_prompt_with_image":
            found = [picture(), "Please analyze the image above."]
        case "test_input_required_result_prompt":
            answers, _ = given(ctx)
            if "user_context" not in answers:
                return asks({"user_context": form("What context should the prompt use?", "context")})
            found = [f"Context: {content_of(answers['user_context']).get('context')}"]
        case name:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    messages = [{"role": "user", "content": said(one)["content"][0]} for one in found]
    return types.GetPromptResult.model_validate({"messages": messages})


async def list_resources(_ctx: Context, _params: Any) -> Any:
    kinds = {"test://static-text": "text/plain", "test://static-binary": "image/png", "test://watched-resource": None}
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=uri, name=uri.partition("://")[2], description="For the suite", mime_type=kind)
            for uri, kind in kinds.items()
        ]
    )


async def list_templates(_ctx: Context, _params: Any) -> Any:
    one = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="For the suite")
    return types.ListResourceTemplatesResult(resource_templates=[one])


async def read_resource(_ctx: Context, params: types.ReadResourceRequestParams) -> Any:
    uri = str(params.uri)
    parts = uri.split("/")
    if uri == "test://static-text":
        found: dict[str, Any] = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif uri == "test://static-binary":
        found = {"mimeType": "image/png", "blob": PIXEL}
    elif uri == "test://watched-resource":
        found = {"mimeType": "text/plain", "text": "Watched."}
    elif parts[2:3] == ["template"] and parts[4:] == ["data"]:
        value = {"id": parts[3], "templateTest": True, "data": f"Data for ID: {parts[3]}"}
        found = {"mimeType": "application/json", "text": json.dumps(value)}
    else:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [{"uri": uri, **found}]})


async def complete(_ctx: Context, _params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False))


async def nothing_more(_ctx: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


class Events(EventStore):
    """Every event of every stream, so that a client can go on where a connection broke."""

    def __init__(self) -> None:
        self._all: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._all.append((stream_id, message))
        return str(len(self._all))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        after = int(last_event_id)
        stream = self._all[after - 1][0]
        for number, (one, message) in enumerate(self._all[after:], after + 1):
            if one == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Reference(Server[Any]):
    """In the handshake it says, too, that its lists change."""

    def create_initialization_options(self, *given: Any, **named: Any) -> Any:
        return super().create_initialization_options(
            NotificationOptions(tools_changed=True, prompts_changed=True, resources_changed=True)
        )


def make() -> Server[Any]:
    kind: Any = Reference  # some of its handlers are deprecated, and in use
    return kind(
        "reference",
        version="1.0.0",
        get_tool_input_schema=SCHEMAS.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing_more,
        on_unsubscribe_resource=nothing_more,
        on_completion=complete,
        on_set_logging_level=nothing_more,
        on_subscriptions_listen=ListenHandler(BUS),
    )


async def over_stdio() -> None:
    server = make()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def over_http(port_file: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    app = make().streamable_http_app(event_store=Events(), retry_interval=500)
    partial = port_file.with_suffix(".partial")
    partial.write_text(str(listener.getsockname()[1]))
    os.replace(partial, port_file)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=Path)
    port_file = parser.parse_args().http
    asyncio.run(over_http(port_file) if port_file else over_stdio())


if __name__ == "__main__":
    main()
