"""Arguments of a call that its HTTP headers repeat, as the newer era has it: both must say the same.

Whoever stands between a client and us may decide by such a header, so one that lies is refused. Where the tool is not
known nothing is checked: its server will say so.
"""

from collections.abc import Mapping
from typing import Any, cast

from holdall.gateway.front import Front
from holdall.gateway.messages import Message, Refusal, table
from holdall.upstream.sdk import validate_mcp_param_headers

_PREFIX = "mcp-param-"


async def mismatch(front: Front, body: Message, headers: Mapping[str, str]) -> Refusal | None:
    """Why this call is refused; None where it is not."""
    params = table(body.get("params"))
    name, arguments = params.get("name"), params.get("arguments")
    if body.get("method") != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict | None):
        return None
    if not arguments and not any(key.startswith(_PREFIX) for key in headers):
        return None
    schema = await front.input_schema(name, params)
    given = cast("dict[str, Any]", arguments or {})
    found = validate_mcp_param_headers(schema, given, headers) if schema else None
    return Refusal(found.code, found.message, found.data) if found is not None else None
