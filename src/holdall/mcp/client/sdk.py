"""What Holdall uses of the MCP SDK: its types, and the rules for headers that repeat arguments.

The extra `mcp` installs it; no other module imports it. It takes over a second, and a call needs it only where its tool
asks for such headers.
"""

from holdall.values.errors import MissingExtra

try:
    from mcp import types
    from mcp.shared.inbound import (
        find_invalid_x_mcp_header,
        mcp_param_headers,
        validate_mcp_param_headers,
        x_mcp_header_map,
    )
except ModuleNotFoundError as problem:
    raise MissingExtra("mcp", "mcp", "calling tools that want arguments in HTTP headers") from problem

__all__ = [
    "find_invalid_x_mcp_header",
    "mcp_param_headers",
    "types",
    "validate_mcp_param_headers",
    "x_mcp_header_map",
]
