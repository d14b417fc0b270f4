"""An MCP server in raw lines of JSON, for the transcripts: what it says never changes.

python mcp_server.py ERA JOURNAL GATE     ERA is older or newer; each line that it hears is one of the journal; the tool
                                          `gate` answers once somebody opens the pipe GATE + its argument `name`
"""

import base64
import json
import sys
import threading
from typing import Any

from tests.golden import samples

ERA, JOURNAL, GATE = sys.argv[1:4]
LOCK = threading.Lock()
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SHAPE = {
    "type": "object",
    "required": ["rows"],
    "properties": {"rows": {"type": "array", "items": {"type": "object"}}},
}
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"Gives {name}.", "inputSchema": {"type": "object"}, "future": {"x": [1, None, 1e3]}}
    for name in ("echo", "text", "picture", "link", "fail", "refuse", "steps", "ask", "gate", "odd", "many blocks")
] + [{"name": "rows", "title": "Rows", "inputSchema": {"type": "object"}, "outputSchema": SHAPE}]
ASKED: dict[Any, dict[str, Any]] = {}
ANSWERED = threading.Condition()


class Refused(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


def say(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0"} | message, ensure_ascii=False) + "\n"
    if any("\ud800" <= sign < "\ue000" for sign in line):  # which only an escape can carry
        line = json.dumps({"jsonrpc": "2.0"} | message) + "\n"
    with LOCK:
        sys.stdout.buffer.write(line.encode())
        sys.stdout.buffer.flush()


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    number = f"question-{len(ASKED)}"
    ASKED[number] = {}
    say({"id": number, "method": method, "params": params})
    with ANSWERED:
        ANSWERED.wait_for(lambda: ASKED[number])
    return ASKED[number]


def call(name: str, arguments: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912 - one line for each tool
    match name:
        case "echo":
            meta = {"x/y": {"b": 1.0, "a": 12345678901234567890}}
            return text(str(arguments.get("text", "")), _meta=meta, later=[1e3, 1.10])
        case "text":
            sample = arguments["sample"]
            whole = samples.BYTES[sample]().decode() if sample in samples.BYTES else samples.TEXTS[sample]()
            return text(whole, isError=bool(arguments.get("error")), later={"kept": "as is"})
        case "rows":
            rows = {"rows": [{"id": n, "name": f"row {n}", "price": n / 8} for n in range(arguments["count"])]}
            return text(json.dumps(rows), structuredContent=rows)
        case "picture":
            data = base64.b64encode(samples.binary(int(arguments["bytes"]))).decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "link":
            link = {"type": "resource_link", "uri": "golden://one", "name": "one", "mimeType": "text/plain"}
            inside = {
                "type": "resource",
                "resource": {"uri": "golden://in", "text": samples.log(40 * arguments["size"])},
            }
            return {"content": [link, inside]}
        case "many blocks":
            return {
                "content": [{"type": "text", "text": samples.markdown(60), "annotations": {"n": n}} for n in range(8)]
            }
        case "odd":
            return {"content": [{"type": "future", "payload": "ü😀"}, {"type": "text", "text": "\u2028"}], "zeta": None}
        case "fail":
            return text("it did not work", isError=True)
        case "refuse":
            raise Refused(-32123, "not today", {"extra": [1, 2]})
        case "steps":
            token = params.get("_meta", {}).get("progressToken")
            for step in range(1, 3):
                told = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}", "later": 1}
                say({"method": "notifications/progress", "params": told})
            return text("stepped")
        case "ask":
            return text(
                json.dumps(
                    ask(
                        "elicitation/create",
                        {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}},
                    )
                )
            )
        case "gate":
            with open(GATE + arguments["name"], "rb"):  # a pipe, which opens when somebody opens its other end
                pass
            return text(samples.log() if arguments.get("large") else "opened")
        case _:
            raise Refused(-32602, f"Unknown tool: {name}")


def capabilities() -> dict[str, Any]:
    return {
        "tools": {"listChanged": True},
        "prompts": {},
        "resources": {},
        "completions": {},
        "experimental": {"z": {}},
    }


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912 - one line for each method
    match method:
        case "initialize" if ERA == "older":
            info = {"name": "golden", "version": "7", "title": "Golden"}
            return {
                "protocolVersion": params["protocolVersion"], "capabilities": capabilities(), "serverInfo": info,
                "instructions": "be kind", "later": {"b": 2},
            }  # fmt: skip
        case "server/discover" if ERA == "newer":
            return {
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities(),
                "instructions": "be kind",
                "later": {"b": 2},
            }
        case "tools/list":
            second = params.get("cursor") == "2"
            return {"tools": TOOLS[6:] if second else TOOLS[:6]} | ({"later": 1} if second else {"nextCursor": "2"})
        case "tools/call":
            return call(params["name"], params.get("arguments") or {}, params)
        case "prompts/list":
            return {"prompts": [{"name": "greet", "later": 1}]}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": f"hello {params['name']}"}}]}
        case "resources/list":
            return {"resources": [{"uri": "golden://one", "name": "one", "later": 1}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "golden://row/{id}", "name": "row"}]}
        case "resources/read":
            if not str(params["uri"]).startswith("golden://"):
                raise Refused(-32002, "Resource not found", {"uri": params["uri"]})
            return {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}", "later": 1}]}
        case "completion/complete":
            return {"completion": {"values": ["a", "b"]}, "later": 1}
        case "ping" if ERA == "older":
            return {}
        case _:
            raise Refused(-32601, "Method not found", method)


def newer(result: dict[str, Any]) -> dict[str, Any]:
    return (
        {"resultType": "complete"} | result | ({"ttlMs": 0, "cacheScope": "private"} if "content" not in result else {})
    )


def work(number: Any, method: str, params: dict[str, Any]) -> None:
    try:
        result = answer(method, params)
    except Refused as refusal:
        say({"id": number, "error": refusal.error})
    else:
        say({"id": number, "result": newer(result) if ERA == "newer" else result})


def main() -> None:
    with open(JOURNAL, "ab", buffering=0) as journal:
        for line in sys.stdin.buffer:
            journal.write(line)
            message = json.loads(line)
            number, method, params = message.get("id"), message.get("method"), message.get("params", {})
            if method is None:
                with ANSWERED:
                    ASKED[number] = {key: message[key] for key in ("result", "error") if key in message}
                    ANSWERED.notify_all()
            elif number is not None:
                threading.Thread(target=work, args=(number, method, params), daemon=True).start()


if __name__ == "__main__":
    main()
