"""An MCP server of the older era by hand, in raw lines of JSON: it uses much of the protocol, and fields to come.

python plain_server.py [NAME] [JOURNAL]     each notification that it hears is a line of the journal
"""

import base64
import json
import os
import sys
import threading
import time
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "plain"
JOURNAL = sys.argv[2] if len(sys.argv) > 2 else ""
LOCK = threading.Lock()
NEEDLE = "the needle stands here"
SHAPED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
    "$defs": {"Row": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}},
}
TOOLS: list[dict[str, Any]] = [
    {"name": name, "description": f"{name} of {NAME}", "inputSchema": {"type": "object"}, "future": {"x": [1, None]}}
    for name in (
        "echo",
        "items",
        "big",
        "picture",
        "fail",
        "ask",
        "sleep",
        "pid",
        "odd",
        "refuse",
        "long error",
        "steps",
    )
] + [
    {"name": "shaped", "inputSchema": {"type": "object"}, "outputSchema": SHAPED},
    {"name": "slow shape", "inputSchema": {"type": "object"}, "outputSchema": SHAPED},
]
COUNT: list[int] = []
WAITING: dict[str, threading.Event] = {}
ANSWERS: dict[str, Any] = {}


def say(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0"} | message, ensure_ascii=False) + "\n"
    with LOCK:
        sys.stdout.write(line)
        sys.stdout.flush()


def note(line: str) -> None:
    if JOURNAL:
        with LOCK, open(JOURNAL, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def items(count: int, at: int) -> str:
    """One line of JSON, about 10 MiB for 100,000 items."""
    rows = [
        {"id": row, "name": f"item number {row}", "price": row / 7, "note": NEEDLE if row == at else "nothing special"}
        for row in range(count)
    ]
    return json.dumps({"items": rows})


def ask_client(method: str, params: dict[str, Any]) -> dict[str, Any]:
    number = f"{NAME}-{len(WAITING)}"
    WAITING[number] = threading.Event()
    say({"id": number, "method": method, "params": params})
    WAITING[number].wait()
    return ANSWERS[number]


def call(name: str, arguments: dict[str, Any], token: Any) -> dict[str, Any]:  # noqa: PLR0912 - one line for each tool
    match name:
        case "context_read":
            return text(f"the server's own {name}")
        case "echo":
            return text(
                f"{arguments.get('text', '')}", _meta={"x/y": {"b": 1.0, "a": 12345678901234567890}}, later=[1e3]
            )
        case "items":
            return text(items(int(arguments.get("count", 100_000)), int(arguments.get("at", 77_777))))
        case "big":
            return text(
                "line\n" * int(arguments["lines"]), isError=bool(arguments.get("error")), later={"kept": "as is"}
            )
        case "picture":
            data = base64.b64encode(b"\x89PNG" + bytes(int(arguments["bytes"]))).decode()
            if "log" in arguments:
                say({"method": "notifications/message", "params": {"level": "info", "data": arguments["log"]}})
            if "type" in arguments:
                resource = {"uri": "plain://blob", "blob": data, "mimeType": arguments["type"]}
                return {"content": [{"type": "resource", "resource": resource}]}
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "fail":
            return text("it did not work", isError=True)
        case "ask":
            return text(json.dumps(ask_client(arguments["method"], arguments["params"])))
        case "sleep":
            note(f"sleeps {arguments.get('name', '')}")
            time.sleep(float(arguments["seconds"]))
            return text("slept", **arguments.get("more", {}))
        case "pid":
            return text(str(os.getpid()))
        case "odd":
            return {"content": [{"type": "future", "payload": "ü😀"}, {"type": "text", "text": "\u2028"}], "zeta": None}
        case "refuse":
            time.sleep(float(arguments.get("seconds", 0)))
            more = {"more": "D" * int(arguments["data"])} if "data" in arguments else {}
            message = "not today" + "!" * int(arguments.get("bytes", 0))
            raise Refused({"code": -32123, "message": message, "data": {"extra": [1, 2], **more}})
        case "long error":
            raise Refused({"code": -32000, "message": "\x1b[2J" + "E" * int(arguments["bytes"]), "data": "x"})
        case "steps":
            for step in range(int(arguments["steps"])):
                params = {"progressToken": token, "progress": step + 1, "message": f"step {step + 1}", "later": 1}
                say({"method": "notifications/progress", "params": params})
                say({"method": "notifications/message", "params": {"level": "info", "data": f"log {step + 1}"}})
                time.sleep(float(arguments.get("pause", 0)))
            return text("stepped")
        case "fifo":
            note("opens")
            with open(arguments["gate"], encoding="utf-8") as gate:
                gate.read()
            return dict(arguments["result"])
        case "progress":
            for step in range(int(arguments["count"])):
                said, later = "m" * int(arguments["bytes"]), "x" * int(arguments.get("later", 0))
                params = {"progressToken": token, "progress": step + 1, "message": said, "later": later}
                say({"method": "notifications/progress", "params": params})
            return text("done")
        case "shaped" | "slow shape":
            time.sleep(float(arguments.get("seconds", 0)))
            rows = {"rows": [{"id": row} for row in range(int(arguments["rows"]))]}
            return text(json.dumps(rows), structuredContent=rows)
        case _:
            raise Refused({"code": -32602, "message": f"Unknown tool: {name}"})


class Refused(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0912 - one line for each method
    match method:
        case "initialize":
            note("initialize " + json.dumps(params))
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {
                    "tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "logging": {},
                    "completions": {}, "experimental": {"later": {"a": 1}},
                },
                "serverInfo": {"name": NAME, "version": "7"},
                "instructions": f"be kind to {NAME}",
                "later": {"b": 2},
            }  # fmt: skip
        case "ping":
            return {}
        case "tools/list" if NAME == "many":
            # Ten thousand, some of them twice and under names of ours; they say something else each time.
            COUNT.append(1)
            names = ["echo", "echo", "context_read", "wait_for_tool_output", *(f"tool {n}" for n in range(9_996))]
            said = f"listed {len(COUNT)} \u202e"
            return {"tools": [{"name": name, "description": said, "inputSchema": {}} for name in names]}
        case "tools/list":
            if params.get("cursor") == "2":
                return {"tools": TOOLS[6:], "later": 1}
            return {"tools": TOOLS[:6], "nextCursor": "2"}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {}, params.get("_meta", {}).get("progressToken"))
        case "prompts/list":
            return {"prompts": [{"name": "greet", "title": NAME, "later": 1}]}
        case "prompts/get":
            said = f"{params['name']} {params.get('arguments')} of {NAME}"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}], "later": 1}
        case "resources/list":
            return {"resources": [{"uri": f"{NAME}://one", "name": "one", "later": 1}]}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": f"{NAME}://row/{{id}}", "name": "row"}]}
        case "resources/read" if str(params["uri"]).startswith(f"{NAME}://"):
            return {"contents": [{"uri": params["uri"], "text": f"text of {params['uri']}", "later": 1}]}
        case "resources/read":
            raise Refused({"code": -32002, "message": "Resource not found", "data": {"uri": params["uri"]}})
        case "resources/subscribe" | "logging/setLevel":
            note(f"{method} {json.dumps(params)}")
            return {}
        case "completion/complete":
            return {"completion": {"values": [f"{params['ref']} {NAME}"]}, "later": 1}
        case "later/method":
            return {"params": {key: value for key, value in params.items() if key != "_meta"}, "from": NAME}
        case _:
            raise Refused({"code": -32601, "message": "Method not found", "data": method})


def work(number: Any, method: str, params: dict[str, Any]) -> None:
    try:
        result = answer(method, params)
    except Refused as refusal:
        say({"id": number, "error": refusal.error})
    else:
        say({"id": number, "result": result})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if method is None:
            ANSWERS[number] = {key: message[key] for key in ("result", "error") if key in message}
            WAITING[number].set()
        elif number is None:
            note(f"{method} {json.dumps(params)}")
            if method == "notifications/later":
                say({"method": "notifications/later/answer", "params": params})
        else:
            threading.Thread(target=work, args=(number, method, params), daemon=True).start()


if __name__ == "__main__":
    main()
