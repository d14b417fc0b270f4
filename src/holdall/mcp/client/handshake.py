"""How a connection begins, and what every request of it carries, in both eras of the protocol.

Up to 2025-11-25 there is a handshake, `initialize`; from 2026-07-28 on each request says for itself who asks, and
`server/discover` tells what a server can do. With `auto` the newer way is tried first. A server that stays silent on
it is sent the handshake as well. Where both work the newer one counts, also if it is answered a little later: a slow
start is no verdict about an era.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from holdall.mcp.client.protocol import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HANDSHAKES,
    METHOD_HEADER,
    MODERN,
    NAME_HEADER,
    NAMED_BY,
    SERVER_KEY,
    UNSUPPORTED_VERSION,
    VERSION_HEADER,
    VERSION_KEY,
    in_header,
)
from holdall.mcp.client.routes import Declined
from holdall.mcp.client.spec import Revision
from holdall.values.errors import UpstreamFault
from holdall.values.record import record

Send = Callable[[str, dict[str, Any], dict[str, str]], Awaitable[dict[str, Any]]]
"""Method, params and headers; raises Declined for an error of the protocol."""

DISCOVER, INITIALIZE, INITIALIZED = "server/discover", "initialize", "notifications/initialized"
_SILENT_SECONDS = 3.0  # until a server is sent the handshake as well
_LATE_SECONDS = 2.0  # by which the other answer may come after that to the handshake


class NoCommonRevision(Exception):
    """The message names what the server speaks."""


@record
class Identity:
    """Who asks, and what it can do for a server, as the protocol writes it."""

    name: str
    version: str
    capabilities: Mapping[str, Any]
    older: bool = False  # it speaks the older era itself: a server of both is greeted in that one

    @property
    def info(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}


@record
class Greeting:
    """What a server said of itself. `raw` is the result of the handshake or of `server/discover`, as it came."""

    revision: str
    raw: Mapping[str, Any]

    @property
    def modern(self) -> bool:
        return self.revision in MODERN

    @property
    def capabilities(self) -> Mapping[str, Any]:
        found = self.raw.get("capabilities")
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}

    @property
    def instructions(self) -> str:
        found = self.raw.get("instructions")
        return found if isinstance(found, str) else ""

    @property
    def server(self) -> Mapping[str, Any]:
        """Its name and version, where it tells them."""
        meta = self.raw.get("_meta")
        stamped = cast("Mapping[str, Any]", meta).get(SERVER_KEY) if isinstance(meta, Mapping) else None
        found = self.raw.get("serverInfo") or stamped
        return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}

    def lists(self, what: str) -> bool:
        """Whether it says when its list of tools, prompts or resources changes."""
        one = self.capabilities.get(what)
        return isinstance(one, Mapping) and bool(cast("Mapping[str, Any]", one).get("listChanged"))


def stamped(
    revision: str, identity: Identity, method: str, params: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The params and HTTP headers of one request. What a caller put into `_meta` about itself stays."""
    given = dict(params or {})
    headers = {VERSION_HEADER: revision}
    if revision not in MODERN:
        return given, headers
    meta: dict[str, Any] = {
        CLIENT_KEY: identity.info,
        CAPABILITIES_KEY: dict(identity.capabilities),
        **(given.get("_meta") or {}),
        VERSION_KEY: revision,
    }
    headers[METHOD_HEADER] = method
    if isinstance(name := given.get(NAMED_BY.get(method, "")), str):
        headers[NAME_HEADER] = in_header(name)
    return {**given, "_meta": meta}, headers


async def greet(send: Send, identity: Identity, wanted: Revision) -> Greeting:
    """Raises Declined if the server refuses, NoCommonRevision where it speaks nothing that we do."""
    if wanted == "handshake":
        return await _initialize(send, identity)
    if wanted != "auto":
        found = await _discover(send, identity)
        if found is None:
            raise NoCommonRevision(f"does not speak MCP {wanted}")
        return found
    if identity.older:
        return await _older_first(send, identity)
    probe = asyncio.ensure_future(_discover(send, identity))
    try:
        await asyncio.wait((probe,), timeout=_SILENT_SECONDS)
        if probe.done():
            return probe.result() or await _initialize(send, identity)
        return await _newer_of(probe, asyncio.ensure_future(_initialize(send, identity)))
    finally:
        probe.cancel()


async def _older_first(send: Send, identity: Identity) -> Greeting:
    """The handshake, and the newer way only where a server has given that up."""
    try:
        return await _initialize(send, identity)
    except (Declined, NoCommonRevision, UpstreamFault):
        if (found := await _discover(send, identity)) is None:
            raise  # what the handshake said is the better reason
        return found


async def _newer_of(probe: "asyncio.Future[Greeting | None]", handshake: "asyncio.Future[Greeting]") -> Greeting:
    handshake.add_done_callback(lambda done: done.cancelled() or done.exception())  # asked for in any case
    try:
        await asyncio.wait((probe, handshake), return_when=asyncio.FIRST_COMPLETED)
        if not probe.done():
            # A server that lives and knows both eras answers both. One that has refused the handshake is waited for.
            await asyncio.wait((probe,), timeout=_LATE_SECONDS if handshake.exception() is None else None)
        found = probe.result() if probe.done() and probe.exception() is None else None
        return found or await handshake  # both have failed: what the handshake said is the better reason
    finally:
        handshake.cancel()


async def _discover(send: Send, identity: Identity) -> Greeting | None:
    """None if nothing says that the server is of the newer era."""
    revision = MODERN[-1]
    for _ in range(2):  # it may name another revision, once
        params, headers = stamped(revision, identity, DISCOVER, None)
        try:
            raw = await send(DISCOVER, params, headers)
        except Declined as refusal:
            if refusal.code != UNSUPPORTED_VERSION:
                return None
            theirs = _listed(refusal.data, "supported")
            if theirs and not any(one in HANDSHAKES for one in theirs):
                revision = _newest(theirs)
                if not revision:
                    raise NoCommonRevision(f"speaks only {', '.join(map(str, theirs))[:80]} of MCP") from refusal
                continue
            return None
        newest = _newest(_listed(raw, "supportedVersions"))
        return Greeting(newest, raw) if newest else None
    return None


def _listed(table: object, key: str) -> list[object]:
    found = cast("Mapping[str, object]", table).get(key) if isinstance(table, Mapping) else None
    return cast("list[object]", found) if isinstance(found, list) else []


def _newest(theirs: list[object]) -> str:
    common = [one for one in MODERN if one in theirs]
    return common[-1] if common else ""


async def _initialize(send: Send, identity: Identity) -> Greeting:
    params = {
        "protocolVersion": HANDSHAKES[-1],
        "capabilities": dict(identity.capabilities),
        "clientInfo": identity.info,
    }
    raw = await send(INITIALIZE, params, {})
    revision = raw.get("protocolVersion")
    if revision not in HANDSHAKES:
        raise NoCommonRevision(f"speaks {str(revision)[:40]!r} of MCP, which is not known here")
    return Greeting(revision, raw)
