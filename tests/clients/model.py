"""A language model that follows a script, in the protocols of four providers, on loopback.

The script is a generator: it yields the next call and is sent what the model then sees of its result. A request that
offers none of the tools behind a gateway (a title, a summary, a guess at the next speaker) gets a fixed answer.
Every request is kept as it came. The model knows nothing but its requests.
"""

import contextlib
import json
import re
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, cast


@dataclass(frozen=True)
class Shown:
    """What the model sees of a tool's result: its text, character for character, and how many images."""

    text: str
    images: int = 0


@dataclass(frozen=True)
class Call:
    """A call of a tool, by the names that we gave to the server and the tool. Agents join them in their own ways."""

    server: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A tool that a request offers. `space` is where some protocols put the name of the server."""

    name: str
    space: str = ""

    def is_of(self, server: str, tool: str) -> bool:
        return re.search(rf"(^|_){server}_+{tool}$", f"{self.space}_{self.name}") is not None


@dataclass(frozen=True)
class Seen:
    """A request: the tools that it offers, and the results of tools in it, oldest first, by the ids of their calls.

    `deferred` are tools that it only names. `loader` is the tool that brings them into the next request.
    """

    tools: list[Tool]
    results: dict[str, Shown]
    deferred: list[Tool] = field(default_factory=list[Tool])
    loader: Tool | None = None


@dataclass(frozen=True)
class Reply:
    """A call of a tool with the id of the call, or a text where there is no tool."""

    text: str = ""
    tool: Tool | None = None
    id: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


Json = dict[str, Any]
Written = tuple[Json, list[Json]]
OURS = ("context_grep", "wait_for_tool_output")
Script = Generator[Call, Shown, None]


@dataclass(frozen=True)
class Api:
    """The protocol of a provider: which paths are its requests, how one is read and how a reply is written.

    `write` gives the body of an answer that is not streamed, and the events of one that is; their names are their types.
    """

    path: str
    read: Callable[[Json], Seen]
    write: Callable[[Reply], Written]
    is_streamed: Callable[[str, Json], bool] = lambda path, body: bool(body.get("stream"))
    last: str = ""


def _shown(content: object) -> Shown:
    """The texts and images of a result that is a text or a list of parts."""
    if not isinstance(content, list):
        return Shown(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    parts = cast("list[Json]", content)
    texts = [str(part["text"]) for part in parts if "text" in part]
    return Shown("\n".join(texts), sum("image" in str(part.get("type")) for part in parts))


# Anthropic: /v1/messages


def _read_anthropic(body: Json) -> Seen:
    parts = [
        part
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "tool_result"
    ]
    results = {part["tool_use_id"]: _shown(part.get("content", "")) for part in parts}
    tools = [Tool(tool["name"]) for tool in body.get("tools", [])]
    # Claude Code tells names of tools in a text, each on its line, and loads them when the model selects them.
    deferred = [Tool(name) for name in re.findall(r"(?<=\\n)mcp__\w+?(?=\\n)", json.dumps(body["messages"]))]
    return Seen(tools, results, deferred, next((tool for tool in tools if tool.name == "ToolSearch"), None))


def _write_anthropic(reply: Reply) -> Written:
    usage = {"input_tokens": 10, "output_tokens": 10}
    if reply.tool is None:
        block: Json = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply.text}
        whole = {"type": "text", "text": reply.text}
        reason = "end_turn"
    else:
        block = {"type": "tool_use", "id": reply.id, "name": reply.tool.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
        whole = {**block, "input": reply.arguments}
        reason = "tool_use"
    message = {"id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": "scripted", "usage": usage}
    end = {"stop_reason": reason, "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]
    return {**message, "content": [whole], **end}, events


# OpenAI: /v1/responses


def _read_responses(body: Json) -> Seen:
    tools: list[Tool] = []
    for tool in body.get("tools", []):
        if tool["type"] == "namespace":
            tools += [Tool(inner["name"], tool["name"]) for inner in tool["tools"]]
        else:
            tools.append(Tool(tool.get("name", tool["type"])))
    items: list[Json] = body["input"]
    results = {item["call_id"]: _shown(item["output"]) for item in items if item.get("type") == "function_call_output"}
    return Seen(tools, results)


def _write_responses(reply: Reply) -> Written:
    if reply.tool is None:
        said: list[Json] = [{"type": "output_text", "text": reply.text, "annotations": []}]
        item: Json = {"type": "message", "role": "assistant", "id": f"msg_{reply.id}", "content": said}
    else:
        space = {"namespace": reply.tool.space} if reply.tool.space else {}
        item = {
            "type": "function_call", "id": f"fc_{reply.id}", "call_id": reply.id, "name": reply.tool.name, **space,
            "arguments": json.dumps(reply.arguments),
        }  # fmt: skip
    usage = {
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 20,
    }  # fmt: skip
    start: Json = {"id": f"resp_{reply.id}", "object": "response", "status": "in_progress", "output": []}
    whole = {**start, "status": "completed", "output": [item], "usage": usage}
    events: list[Json] = [
        {"type": "response.created", "response": start},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, events


# OpenAI: /v1/chat/completions


def _read_chat(body: Json) -> Seen:
    results: dict[str, Shown] = {}
    last = ""
    for message in body["messages"]:
        if message["role"] == "tool":
            last = message["tool_call_id"]
            results[last] = _shown(message["content"])
        elif message["role"] == "user" and last:  # results are only text here: their images follow as the user's
            results[last] = Shown(results[last].text, _shown(message["content"]).images)
    return Seen([Tool(tool["function"]["name"]) for tool in body.get("tools", [])], results)


def _write_chat(reply: Reply) -> Written:
    message: Json = {"role": "assistant", "content": reply.text or None}
    reason = "stop"
    if reply.tool is not None:
        called = {"name": reply.tool.name, "arguments": json.dumps(reply.arguments)}
        message["tool_calls"] = [{"index": 0, "id": reply.id, "type": "function", "function": called}]
        reason = "tool_calls"
    top = {"id": f"chat-{reply.id}", "created": 1, "model": "scripted"}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    whole = {**top, "object": "chat.completion", "usage": usage}
    chunk = {**top, "object": "chat.completion.chunk"}
    chunks: list[Json] = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]
    return whole | {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}, chunks


# Gemini: :generateContent and :streamGenerateContent


def _read_gemini(body: Json) -> Seen:
    tools = [
        Tool(declared["name"]) for group in body.get("tools", []) for declared in group.get("functionDeclarations", [])
    ]
    results: dict[str, Shown] = {}
    for content in body["contents"]:
        parts = content.get("parts", [])
        images = sum("inlineData" in part for part in parts)
        for part in parts:
            if (answer := part.get("functionResponse")) is not None:
                said = answer["response"]
                text = said["output"] if isinstance(said.get("output"), str) else json.dumps(said, ensure_ascii=False)
                inside = sum("inlineData" in inner for inner in answer.get("parts", []))
                # gemini-cli writes the name of the tool in front of the id.
                results[answer["id"].rpartition("__")[2]] = Shown(text, images + inside)
    return Seen(tools, results)


def _write_gemini(reply: Reply) -> Written:
    part: Json = {"text": reply.text}
    if reply.tool is not None:
        part = {"functionCall": {"id": reply.id, "name": reply.tool.name, "args": reply.arguments}}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    return whole, [whole]


APIS = (
    Api(r"/v1/messages$", _read_anthropic, _write_anthropic),
    Api(r"/v1/responses$", _read_responses, _write_responses),
    Api(r"/v1/chat/completions$", _read_chat, _write_chat, last="data: [DONE]\n\n"),
    Api(
        r":(streamG|g)enerateContent$", _read_gemini, _write_gemini,
        is_streamed=lambda path, body: "streamGenerateContent" in path,
    ),
)  # fmt: skip

# Whatever else is asked of a provider, with GET or POST: counts of tokens, lists of models.
_OTHERS = (
    (r"/count_tokens$", {"input_tokens": 10}),
    (r":countTokens$", {"totalTokens": 10}),
    (r"/models$", {"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": [], "has_more": False}),
)


class Model:
    """Plays the script once, however often a request is repeated.

    `tools` are those of the last request, `loaded` those that had to be asked for before they could be called, and
    `problem` says why it could not go on.
    """

    def __init__(self, script: Script, gateways: Sequence[str], requests: Path) -> None:
        self._script = script
        self._gateways = gateways
        self._requests = requests
        self._lock = threading.Lock()
        self._count = 0
        self._asked = 0
        self._reply = Reply()
        self._waiting: Call | None = None  # for its tool to be loaded
        self.loaded: list[str] = []
        self.tools: list[str] = []
        self.ended = False
        self.problem = ""

    def answer(self, path: str, body: Json) -> tuple[str, str]:
        """Media type and text."""
        with self._lock:
            self._count += 1
            kept = self._requests / f"{self._count:03}.json"
            kept.write_text(json.dumps({"path": path, "body": body}, indent=1, ensure_ascii=False))
            api = next((one for one in APIS if re.search(one.path, path)), None)
            if api is None:
                other = next((said for pattern, said in _OTHERS if re.search(pattern, path)), Json())
                return "application/json", json.dumps(other)
            whole, events = api.write(self._next(api.read(body)))
            if not api.is_streamed(path, body):
                return "application/json", json.dumps(whole)
            names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
            lines = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)]
            return "text/event-stream", "".join(lines) + api.last

    def _next(self, seen: Seen) -> Reply:
        if not any(tool.is_of(server, ".*") for tool in seen.tools + seen.deferred for server in self._gateways):
            return Reply("A trial")
        if self.ended or (self._asked and self._reply.id not in seen.results):
            return self._reply  # a request that is repeated, or one behind the end
        try:
            self.tools = [f"{tool.space}_{tool.name}".strip("_") for tool in seen.tools]
            self._reply = self._called(seen)
        except StopIteration:
            self.ended, self._reply = True, Reply("The end.")
        except Exception as problem:  # of a script; whoever runs the trial tells it
            self.ended, self._reply, self.problem = True, Reply("The end."), repr(problem)
        return self._reply

    def _called(self, seen: Seen) -> Reply:
        call, self._waiting = self._waiting, None
        if call is None:
            call = self._script.send(seen.results[self._reply.id]) if self._asked else next(self._script)
        self._asked += 1
        id = f"call_{self._asked:03}"
        if (tool := self._named(seen.tools, call)) is not None:
            return Reply(tool=tool, id=id, arguments=call.arguments)
        deferred = self._named(seen.deferred, call)
        if seen.loader is None or deferred is None or deferred.name in self.loaded:
            raise LookupError(f"the agent offers no {call.tool} of {call.server}: {self.tools}")
        self._waiting = call
        self.loaded.append(deferred.name)
        return Reply(tool=seen.loader, id=id, arguments={"query": f"select:{deferred.name}", "max_results": 5})

    def _named(self, tools: Sequence[Tool], call: Call) -> Tool | None:
        found = [tool for tool in tools if tool.is_of(call.server, call.tool)]
        if call.tool in OURS:  # one of our gateways may list these for all of them
            found += [tool for tool in tools for server in self._gateways if tool.is_of(server, call.tool)]
        return found[0] if found else None


class Answers(Protocol):
    def answer(self, path: str, body: Any, /) -> tuple[str, str]:
        """The media type and the text for a request."""
        ...


@contextlib.contextmanager
def serving(model: Answers) -> Generator[str]:
    """The address of a scripted model, while it answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say({})

        def do_POST(self) -> None:
            self._say(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"))

        def _say(self, body: Json) -> None:
            media_type, text = model.answer(self.path.partition("?")[0], body)
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are in their folder."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
