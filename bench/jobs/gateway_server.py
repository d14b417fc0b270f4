"""The MCP server that stands behind the gateway in its benchmark: the protocol's own library, and five tools.

python gateway_server.py [NAME | --http]
"""

import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server import MCPServer

NAME = sys.argv[1] if len(sys.argv) > 1 else "bench"
LINE = "2026-11-02T06:00:00Z INFO worker-3 GET /api/v2/orders/4711 status=200 took=12ms\n"
server = MCPServer(NAME)


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """The same text."""
    return text


@server.tool(structured_output=False)
def who(text: str) -> str:
    """The name of this server, and the text."""
    return f"{NAME} {text}"


@server.tool(structured_output=False)
def pid() -> str:
    """Of this process."""
    return str(os.getpid())


@server.tool(structured_output=False)
def large(bytes: int) -> str:
    """Lines of a log, so many bytes."""
    return (LINE * (bytes // len(LINE) + 1))[:bytes]


@server.tool()
def rows(count: int) -> dict[str, Any]:
    """So many records: as structured content, and once more as the text that the library makes of it."""
    return {"rows": [{"id": number, "path": "/api/v2/orders", "status": 200, "ok": True} for number in range(count)]}


def over_http() -> None:
    """On a free port, which it prints."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn has it on sockets of its own
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    over_http() if NAME == "--http" else server.run("stdio")
