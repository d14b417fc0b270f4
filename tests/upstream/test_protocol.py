"""What is written down of the protocol is what the installed SDK has."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared import inbound
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import version
from mcp_types import jsonrpc

from holdall.mcp.client import protocol
from holdall.mcp.client.sdk import types
from holdall.mcp.gateway.http_app import misfit

OTHER = {
    "UNSUPPORTED_VERSION": "UNSUPPORTED_PROTOCOL_VERSION",
    "MISSING_CAPABILITY": "MISSING_REQUIRED_CLIENT_CAPABILITY",
}


def test_revisions_codes_and_keys_are_those_of_the_sdk() -> None:
    assert protocol.HANDSHAKES == version.HANDSHAKE_PROTOCOL_VERSIONS
    assert protocol.MODERN == version.MODERN_PROTOCOL_VERSIONS
    same = {name: name for name in ("PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS")}
    same |= {name: name for name in ("INTERNAL_ERROR", "CONNECTION_CLOSED", "HEADER_MISMATCH")}
    for ours, theirs in (same | OTHER).items():
        assert getattr(protocol, ours) == getattr(jsonrpc, theirs)
    assert protocol.VERSION_KEY == types.PROTOCOL_VERSION_META_KEY
    assert protocol.CLIENT_KEY == types.CLIENT_INFO_META_KEY
    assert protocol.SERVER_KEY == types.SERVER_INFO_META_KEY
    assert protocol.CAPABILITIES_KEY == types.CLIENT_CAPABILITIES_META_KEY
    assert protocol.LOG_LEVEL_KEY == types.LOG_LEVEL_META_KEY
    assert protocol.SUBSCRIPTION_KEY == SUBSCRIPTION_ID_META_KEY
    assert protocol.VERSION_HEADER == inbound.MCP_PROTOCOL_VERSION_HEADER
    assert protocol.METHOD_HEADER == inbound.MCP_METHOD_HEADER
    assert protocol.NAME_HEADER == inbound.MCP_NAME_HEADER
    assert protocol.NAMED_BY == inbound.NAME_BEARING_METHODS
    assert protocol.HTTP_STATUS == inbound.ERROR_CODE_HTTP_STATUS
    assert protocol.PARAM_MARK == inbound.X_MCP_HEADER_KEY


@given(st.text())
@example("=?base64?=")
@example("=?base64??=")
@example("=?base64?YQ==?=")
@example(" edge ")
@example("a tab\t")
def test_a_name_in_a_header_is_written_as_the_sdk_writes_it(text: str) -> None:
    assert protocol.in_header(text) == inbound.encode_header_value(text)


HEADERS = st.sampled_from(
    ["", "a", " a", "ä", "=?base64?YQ==?=", "=?base64?w6Q=?=", "=?base64?YR==?=", "=?base64?/w==?="]
)


@given(HEADERS | st.text(), st.sampled_from(["", "a", "ä", "=?base64?YQ==?=", "\udcff", 5]))
def test_what_a_header_says_is_what_the_sdk_reads(header: str, text: object) -> None:
    assert protocol.says(header, text) == (inbound.decode_header_value(header) == text)


VERSIONS = st.sampled_from(["2026-07-28", "2025-11-25", "later", 5, None])
METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", None])
NAMES = st.sampled_from(["a", "ä", 5, None])


@given(VERSIONS, VERSIONS, METHODS, METHODS, NAMES, HEADERS, st.sampled_from(["all", "some", "none", "odd"]))
def test_a_request_over_http_is_refused_where_the_sdk_refuses_it(
    version: Any, told: Any, method: Any, said: Any, name: Any, header: str, meta: str
) -> None:
    envelope: Any = {protocol.VERSION_KEY: version, protocol.CAPABILITIES_KEY: {}}
    if meta != "all":
        envelope = {"some": {protocol.VERSION_KEY: version}, "none": {}, "odd": [version]}[meta]
    body = {"method": method, "params": {"_meta": envelope, "name": name, "uri": name}}
    headers = {protocol.VERSION_HEADER: told, protocol.METHOD_HEADER: said, protocol.NAME_HEADER: header}
    given = {key: value for key, value in headers.items() if isinstance(value, str)}
    theirs, ours = inbound.classify_inbound_request(body, headers=given), misfit(body, given)
    if isinstance(theirs, inbound.InboundLadderRejection):
        assert ours is not None
        assert (ours.code, ours.data) == (theirs.code, theirs.data)
    else:
        assert ours is None
