"""What Holdall uses of the MCP SDK and of what it brings: HTTP, its types, and the rules for headers.

The extra `mcp` installs it; no other module imports it. It takes over a second, so a server that is a program is talked
to without it.
"""

from holdall.values.errors import MissingExtra

try:
    import anyio
    import httpx2
    from mcp import types
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.inbound import (
        find_invalid_x_mcp_header,
        mcp_param_headers,
        validate_mcp_param_headers,
        x_mcp_header_map,
    )
    from mcp.shared.message import ClientMessageMetadata, SessionMessage
except ModuleNotFoundError as problem:
    raise MissingExtra("mcp", "mcp", "talking to MCP servers over HTTP") from problem

__all__ = [
    "ClientMessageMetadata",
    "SessionMessage",
    "anyio",
    "find_invalid_x_mcp_header",
    "httpx2",
    "mcp_param_headers",
    "streamable_http_client",
    "types",
    "validate_mcp_param_headers",
    "x_mcp_header_map",
]
