"""What Holdall uses of the MCP SDK and of what it brings. The extra `mcp` installs it; no other module imports it."""

from holdall.values.errors import MissingExtra

try:
    import anyio
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import types
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.dispatcher import CallOptions, DispatchContext
    from mcp.shared.exceptions import MCPError
    from mcp.shared.inbound import (
        ERROR_CODE_HTTP_STATUS,
        MCP_METHOD_HEADER,
        MCP_NAME_HEADER,
        MCP_PROTOCOL_VERSION_HEADER,
        NAME_BEARING_METHODS,
        InboundLadderRejection,
        classify_inbound_request,
        encode_header_value,
        find_invalid_x_mcp_header,
        mcp_param_headers,
        validate_mcp_param_headers,
        x_mcp_header_map,
    )
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
    from mcp.shared.message import SessionMessage
    from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
    from mcp.shared.transport_context import TransportContext
    from mcp.types import version as versions
except ModuleNotFoundError as problem:
    raise MissingExtra("mcp", "mcp", "talking to MCP servers") from problem

__all__ = [
    "ERROR_CODE_HTTP_STATUS",
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PROTOCOL_VERSION_HEADER",
    "NAME_BEARING_METHODS",
    "SUBSCRIPTION_ID_META_KEY",
    "CallOptions",
    "DispatchContext",
    "InboundLadderRejection",
    "JSONRPCDispatcher",
    "MCPError",
    "MemoryObjectReceiveStream",
    "MemoryObjectSendStream",
    "SessionMessage",
    "TransportContext",
    "anyio",
    "classify_inbound_request",
    "encode_header_value",
    "find_invalid_x_mcp_header",
    "httpx2",
    "mcp_param_headers",
    "streamable_http_client",
    "types",
    "validate_mcp_param_headers",
    "versions",
    "x_mcp_header_map",
]
