"""An MCP server by hand whose results are large in several forms, and that says something else with each start.

python odd_server.py COUNT_FILE     the file gets a line for each start
"""

import functools
import json
import os
import sys
from typing import Any

LINE = '2026-11-02 worker-3 \u2014 \U0001f600 "quoted" took=12ms\n'


def text_of(size: int) -> str:
    """About so many bytes, and characters of every width."""
    return LINE * (size // len(LINE.encode()) + 1)


def rows_of(size: int) -> dict[str, Any]:
    row = {"at": "2026-11-02", "worker": "\u2014 \U0001f600", "took": 12.5, "tags": ["a", "b"], "ok": True}
    return {"rows": [row] * (size // len(json.dumps(row)) + 1)}


def _indented(data: dict[str, Any]) -> str:
    """What `json.dumps(data, indent=1)` gives of equal rows, which is slow for so many."""
    row = "\n".join(f"  {line}" for line in json.dumps(data["rows"][0], indent=1).splitlines())
    return '{\n "rows": [\n' + ",\n".join([row] * len(data["rows"])) + "\n ]\n}"


def result(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    text = text_of(int(arguments.get("bytes", 100)))
    block = {"type": "text", "text": text, "annotations": {"audience": ["user"]}}
    match name:
        case "text":
            return {"content": [block], "later": {"kept": "as is"}}
        case "twin":
            return {"content": [block], "structuredContent": {"result": text}}
        case "other twin":
            return {"content": [block], "structuredContent": {"result": text + "and more"}}
        case "data" | "data alone" | "data beside":
            rows = rows_of(int(arguments["bytes"]))
            said = {"data": _indented(rows), "data alone": "", "data beside": text_of(2_000_000)}[name]
            return {"content": [{"type": "text", "text": said}] if said else [], "structuredContent": rows}
        case "blocks":  # as some libraries write a list
            rows = rows_of(int(arguments["bytes"]))["rows"]
            blocks = [{"type": "text", "text": json.dumps(row, indent=2)} for row in rows]
            return {"content": blocks, "structuredContent": {"result": rows}}
        case "two":
            return {"content": [block, block]}
        case "error":
            return {"content": [block], "isError": True}
        case "half":
            return {"content": [{"type": "text", "text": text + "\ud83d"}]}
        case "parent":
            return {"content": [{"type": "text", "text": str(os.getppid())}]}
        case _:
            return in_an_odd_place(name, text)


def in_an_odd_place(name: str, text: str) -> dict[str, Any]:
    match name:
        case "meta":
            return {"content": [{"type": "text", "text": "small"}], "_meta": {"note": text}}
        case "new block":
            return {"content": [{"type": "new", "thing": text}]}
        case "failure":  # an error of the protocol
            return {"code": -32000, "message": "no", "data": {"why": text}}
        case _:
            os._exit(0)


@functools.lru_cache(1)  # the same is asked for again, to see that it is let go
def _written(name: str, size: int | None) -> str:
    return json.dumps(result(name, {} if size is None else {"bytes": size}))


def main() -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write("started\n")
    with open(sys.argv[1], encoding="utf-8") as file:
        starts = len(file.readlines())
    tools = [{"name": "text", "description": f"start {starts} \u202e", "inputSchema": {"type": "object"}}]
    tools += [{"name": "added", "inputSchema": {"type": "object"}}] if starts > 1 else []
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params", {})
        answer: dict[str, Any] = {"result": {}}
        match message.get("method"):
            case "initialize":
                info = {"name": "odd", "version": "1"}
                version = params["protocolVersion"]
                answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
            case "tools/list":
                answer = {"result": {"tools": tools}}
            case "tools/call":
                written = _written(params["name"], params.get("arguments", {}).get("bytes"))
                name = "error" if params["name"] == "failure" else "result"
                print(f'{{"jsonrpc": "2.0", "id": {json.dumps(number)}, "{name}": {written}}}', flush=True)
                continue
            case "resources/read":
                answer = {"error": {"code": -32002, "message": "Resource not found"}}
            case _:
                pass
        if number is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": number, **answer}), flush=True)


if __name__ == "__main__":
    main()
