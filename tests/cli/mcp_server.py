"""A small MCP server over stdio for runs of agents: what it does with a call is in the name of the tool.

python mcp_server.py PID_FILE
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TOOLS = ["big", "shout", "die", "hang", "garbage", "pid"]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def call(number: Any, name: str, arguments: dict[str, Any]) -> None:
    text = {"type": "text", "text": ""}
    match name:
        case "big":
            text["text"] = "".join(f"row {row} of the server\n" for row in range(4_000))
        case "shout":
            text["text"] = str(arguments["text"]).upper()
        case "pid":
            text["text"] = str(os.getpid())
        case "die":
            sys.stderr.write("out of cheese\n")
            sys.stderr.flush()
            os._exit(3)
        case "garbage":
            sys.stdout.write('{"jsonrpc":"2.0","id":' + str(number) + ',"result":{"content":[tru]}}\n')
            sys.stdout.flush()
            return
        case _:
            while True:
                time.sleep(60)
    say({"id": number, "result": {"content": [text]}})


def main() -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as pids:
        pids.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        message = json.loads(line)
        number, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case "initialize":
                capabilities: dict[str, Any] = {"tools": {}}
                server = {"name": "small", "version": "0"}
                told = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": server}
                say({"id": number, "result": told})
            case "tools/list":
                listed = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS]
                say({"id": number, "result": {"tools": listed}})
            case "tools/call":
                call(number, params["name"], params.get("arguments", {}))
            case str() if number is not None:
                say({"id": number, "error": {"code": -32601, "message": "Method not found"}})
            case _:
                pass


def pids_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


if __name__ == "__main__":
    main()
