"""The words and numbers of MCP that both sides of the gateway say themselves.

They are written down here because the SDK takes over a second to import; a test compares them with the installed one.
"""

import base64

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that begin with `initialize`, oldest first."""
MODERN = ("2026-07-28",)
"""Revisions in which each request says for itself who asks, oldest first."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
CONNECTION_CLOSED, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32000, -32020, -32021, -32022
HTTP_STATUS = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400, METHOD_NOT_FOUND: 404,
}  # fmt: skip
"""Of an answer that is such an error, in the newer era; 200 of any other."""

_META = "io.modelcontextprotocol/"
VERSION_KEY, CLIENT_KEY, SERVER_KEY = f"{_META}protocolVersion", f"{_META}clientInfo", f"{_META}serverInfo"
CAPABILITIES_KEY, LOG_LEVEL_KEY = f"{_META}clientCapabilities", f"{_META}logLevel"
SUBSCRIPTION_KEY = f"{_META}subscriptionId"

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "mcp-protocol-version", "mcp-method", "mcp-name"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which param of a method its HTTP header repeats."""
PARAM_MARK = "x-mcp-header"
"""The word in the schema of a tool that asks for an argument to be repeated in a header."""


def in_header(text: str) -> str:
    """A text as HTTP carries it: as it is, or in base64 where it would not arrive so."""
    if text.isascii() and text.isprintable() and text == text.strip() and not _is_wrapped(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def says(header: str | None, text: object) -> bool:
    """Whether a header says this text, in either way."""
    if header is None or not isinstance(text, str):
        return False
    if not _is_wrapped(header):
        return header == text
    try:
        return header == f"=?base64?{base64.b64encode(text.encode()).decode()}?="
    except UnicodeEncodeError:
        return False


def _is_wrapped(text: str) -> bool:
    return text.startswith("=?base64?") and text.endswith("?=") and len(text) >= len("=?base64??=")
