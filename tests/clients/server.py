"""An MCP server by hand. Each tool returns one form of result, `size` rows of it, with a badge in the middle row.

The standard library only: it starts twice in each trial. It is also imported, for what its results must be.
"""

import base64
import functools
import hashlib
import json
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL, MIDDLE, LARGE = 5, 3_000, 100_000  # rows: 500 bytes, 300 kB, and over 10 MB, in each of these forms
NAME = "Ada Lovelace"  # what the model knows of the row, and looks for


def badge_of(tool: str) -> str:
    """What the model does not know: it is in one row of the tool's result and nowhere else."""
    return f"badge-{hashlib.sha256(tool.encode()).hexdigest()[:12]}"


def _names(tool: str, size: int) -> list[tuple[int, str, str]]:
    names = [(at, f"visitor {at * 7919:09}", f"badge-{at:012x}") for at in range(size)]
    names[size // 2] = (size // 2, NAME, badge_of(tool))
    return names


def log(tool: str, size: int) -> str:
    lines = [
        f"2026-11-02T08:{at // 60 % 60:02}:{at % 60:02}Z INFO gate={at % 12} name={name} shown={badge} door=north took=12ms"
        for at, name, badge in _names(tool, size)
    ]
    return "\n".join(lines)


def rows(tool: str, size: int) -> dict[str, Any]:
    return {
        "rows": [
            {"at": at, "gate": at % 12, "name": name, "badge": badge, "door": "north", "took_ms": 12.5}
            for at, name, badge in _names(tool, size)
        ]
    }


def written(tool: str, size: int) -> str:
    return json.dumps(rows(tool, size))


@functools.cache
def image() -> str:
    """A PNG of 16 × 16 grey points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 16, 16, 8, 0, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + bytes(range(0, 256, 16)) for _ in range(16)))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _embedded(size: int) -> list[dict[str, Any]]:
    inside = {"uri": "visits://today.log", "mimeType": "text/plain", "text": log("embedded", size)}
    link = {"type": "resource_link", "uri": "visits://yesterday.log", "name": "yesterday.log", "mimeType": "text/plain"}
    return [{"type": "resource", "resource": inside}, link]


RESULTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "text": lambda size: {"content": [_text(log("text", size))]},
    "twin": lambda size: {"content": [_text(written("twin", size))], "structuredContent": rows("twin", size)},
    "loose": lambda size: {"content": [_text(written("loose", size))], "structuredContent": rows("loose", size)},
    "alone": lambda size: {"content": [], "structuredContent": rows("alone", size)},
    "both": lambda size: {"content": [_text(log("both", size))], "structuredContent": rows("both, in rows", size)},
    "wrapped": lambda size: {
        "content": [_text(written("wrapped", size))],
        "structuredContent": {"result": written("wrapped", size)},
    },
    "image": lambda size: {
        "content": [_text(log("image", size)), {"type": "image", "data": image(), "mimeType": "image/png"}]
    },
    "embedded": lambda size: {"content": _embedded(size)},
}
"""One form of result each: text; structured content with the same as text, with a schema and without one; structured
content without text; text and other structured content; text that is wrapped, as Python's SDK does it for `-> str`;
text and an image; an embedded resource and a link to one."""

_ROWS = {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": {"type": "object"}}}}
_WRAPPED = {"type": "object", "required": ["result"], "properties": {"result": {"type": "string"}}}
SCHEMAS: dict[str, dict[str, Any]] = {"twin": _ROWS, "alone": _ROWS, "both": _ROWS, "wrapped": _WRAPPED}


def slow(until: str) -> dict[str, Any]:
    """Returns once the file `until` is there, or after two minutes with an error: nobody made it."""
    for _ in range(1200):
        if Path(until).exists():
            return {"content": [_text(f"The gate is open. {badge_of('slow')}")]}
        time.sleep(0.1)
    return {"content": [_text("The gate stayed closed.")], "isError": True}


def _listed(name: str, about: str, **properties: str) -> dict[str, Any]:
    arguments = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "required": [*arguments], "properties": arguments}
    more = {"outputSchema": SCHEMAS[name]} if name in SCHEMAS else {}
    return {"name": name, "description": about, "inputSchema": schema, **more}


def _tools() -> list[dict[str, Any]]:
    visits = [_listed(name, f"Visits, in the form {name}.", size="integer") for name in RESULTS]
    return [*visits, _listed("slow", "Waits for the gate.", until="string")]


def _result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            server = {"name": "visits", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": _tools()}
        case "tools/call" if params["name"] == "slow":
            return slow(params["arguments"]["until"])
        case "tools/call" if params["name"] in RESULTS:
            return RESULTS[params["name"]](params["arguments"]["size"])
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    lock = threading.Lock()

    def answer(message: dict[str, Any]) -> None:
        result = _result(message["method"], message.get("params") or {})
        said = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        line = json.dumps({"jsonrpc": "2.0", "id": message["id"], **said})
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()


if __name__ == "__main__":
    main()
