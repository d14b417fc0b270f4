"""The two eras of the protocol: what a message of one needs in the other. Pure.

Up to 2025-11-25 a connection begins with a handshake, and a server may ask its client. From 2026-07-28 on each request
says for itself who asks, results say of what kind they are, and a question to the client is a result of its own.
"""

from collections.abc import Mapping
from typing import Any

from holdall.gateway.messages import INVALID_PARAMS, Refusal, meta_of
from holdall.upstream.sdk import types, versions

HANDSHAKES, MODERN = versions.HANDSHAKE_PROTOCOL_VERSIONS, versions.MODERN_PROTOCOL_VERSIONS
LATEST_HANDSHAKE = versions.LATEST_HANDSHAKE_VERSION
UNSUPPORTED_VERSION: int = types.UNSUPPORTED_PROTOCOL_VERSION
LOG_LEVEL: str = types.LOG_LEVEL_META_KEY
_VERSION, _INFO = types.PROTOCOL_VERSION_META_KEY, types.CLIENT_INFO_META_KEY
_CAPABILITIES, _SERVER = types.CLIENT_CAPABILITIES_META_KEY, types.SERVER_INFO_META_KEY
_ENVELOPE = frozenset((_VERSION, _INFO, _CAPABILITIES))
_CACHEABLE = frozenset(
    ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
)
_LINKS_SINCE = "2025-06-18"
REMOVED = frozenset(("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""What the newer era does not know any more, beside the handshake."""


def asks_modern(method: str, params: Mapping[str, Any]) -> str:
    """The revision that a request of the newer era names; empty for one of the older. Raises Refusal."""
    meta = meta_of(dict(params))
    if method == "initialize" or _VERSION not in meta:
        return ""
    wanted = meta[_VERSION]
    if not isinstance(wanted, str):
        raise Refusal(INVALID_PARAMS, "the protocol version must be a text")
    if wanted not in MODERN:
        raise Refusal(
            UNSUPPORTED_VERSION, f"Unsupported protocol version: {wanted[:40]}",
            {"supported": list(MODERN), "requested": wanted},
        )  # fmt: skip
    return wanted


def envelope_of(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who asks, and what it can do, as a request of the newer era says it."""
    meta = meta_of(dict(params))
    info, capabilities = meta.get(_INFO), meta.get(_CAPABILITIES)
    return (dict(info) if isinstance(info, Mapping) else {}), (  # type: ignore[arg-type] - JSON has texts for keys
        dict(capabilities) if isinstance(capabilities, Mapping) else {}  # type: ignore[arg-type]
    )


def towards_server(params: Mapping[str, Any], *, modern: bool) -> dict[str, Any]:
    """What a client sent, as its server can take it. The token of progress is replaced on the way by another."""
    given = dict(params)
    meta = meta_of(given)
    left_out = {"progressToken"} if modern else {"progressToken", *_ENVELOPE}
    if meta.keys() & left_out:
        meta = {name: value for name, value in meta.items() if name not in left_out}
        given["_meta"] = meta
        if not meta:
            del given["_meta"]
    return given


def towards_client(
    method: str, result: dict[str, Any], *, modern: bool, server_modern: bool, server: Mapping[str, Any]
) -> dict[str, Any]:
    """What a server answered, as its client can take it; the same object where both are of one era."""
    if modern == server_modern:
        return result
    if not modern:
        # A client of the older era would not have got these from the server itself.
        shown = {name: value for name, value in result.items() if name not in ("ttlMs", "cacheScope")}
        if shown.get("resultType") == "complete":
            del shown["resultType"]
        return shown
    return completed(method, result, server)


def completed(method: str, result: dict[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what the newer era wants in every one."""
    defaults: dict[str, Any] = {"resultType": "complete"}
    if method in _CACHEABLE:
        defaults |= {"ttlMs": 0, "cacheScope": "private"}
    meta = meta_of(result)
    if server and _SERVER not in meta:
        return {**defaults, **result, "_meta": {**meta, _SERVER: dict(server)}}
    return {**defaults, **result}


def is_question(result: Mapping[str, Any]) -> bool:
    return result.get("resultType") == "input_required"


def knows_links(revision: str) -> bool:
    return revision in MODERN or (revision in HANDSHAKES and revision >= _LINKS_SINCE)
