"""Who hears of changes: a client of the older era at once, one of the newer era in the streams that it has opened."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from holdall.mcp.client.protocol import SUBSCRIPTION_KEY
from holdall.mcp.gateway.client_side import Client, ClientRequest
from holdall.mcp.gateway.listing import Catalogue
from holdall.mcp.gateway.messages import INTERNAL_ERROR, Refusal, entries, meta_of, table
from holdall.mcp.gateway.relay import Relay
from holdall.values.errors import UpstreamFault

# A stream is a request, `subscriptions/listen`, that is answered when it ends; each message of it carries its id.


LISTEN = "subscriptions/listen"
_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_UPDATED = "notifications/resources/updated"
_KINDS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_MOST, _MOST_URIS = 100, 1000  # streams of a client, and resources in all of them


class Listeners:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._streams: dict[int, tuple[ClientRequest, Mapping[str, Any]]] = {}
        self._over = asyncio.Event()

    def check(self, asked: ClientRequest) -> None:
        """Raises Refusal where it is one too many."""
        if len(self._streams) >= _MOST:
            raise Refusal(INTERNAL_ERROR, f"More than {_MOST} subscriptions are open")
        uris = sum(len(honoured.get("resourceSubscriptions", ())) for _, honoured in self._streams.values())
        if uris + len(uris_of(asked)) > _MOST_URIS:
            raise Refusal(INTERNAL_ERROR, f"More than {_MOST_URIS:,} resources of subscriptions")

    async def listen(self, asked: ClientRequest) -> dict[str, Any]:
        """Until the client gives it up, or all is over."""
        wanted = table(asked.params.get("notifications"))
        honoured: dict[str, Any] = {kind: True for kind in _KINDS.values() if wanted.get(kind) is True}
        uris = uris_of(asked)
        if uris:
            honoured["resourceSubscriptions"] = list(uris)
        self._streams[id(asked)] = (asked, honoured)
        try:
            self._tell(asked, _ACKNOWLEDGED, {"notifications": honoured})
            await self._over.wait()
        finally:
            del self._streams[id(asked)]
        return {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: asked.id}}

    def heard(self, method: str, params: dict[str, Any]) -> None:
        """A notification for those streams that asked for it."""
        for asked, honoured in list(self._streams.values()):
            listed = params.get("uri") in honoured.get("resourceSubscriptions", ())
            if (method == _UPDATED and listed) or honoured.get(_KINDS.get(method, "")):
                self._tell(asked, method, params)

    def close(self) -> None:
        self._over.set()

    def _tell(self, asked: ClientRequest, method: str, params: dict[str, Any]) -> None:
        meta = {**meta_of(params), SUBSCRIPTION_KEY: asked.id}
        self._client.notify(method, {**params, "_meta": meta}, related=asked.id)


def uris_of(asked: ClientRequest) -> tuple[str, ...]:
    """The resources whose changes a stream is about."""
    uris = entries(table(asked.params.get("notifications")).get("resourceSubscriptions"))
    return tuple(uri for uri in uris if isinstance(uri, str))


def is_change(method: str) -> bool:
    """Whether the newer era tells this only in a stream."""
    return method in _KINDS or method == _UPDATED


# Changes of single resources, for a client of the newer era, in the way of each server's own era.
#
# A server that is started again is asked again, for as long as the client listens.


_LOG = logging.getLogger("holdall.gateway")
_AGAIN = 1.0  # seconds before a server that broke off is asked again
_WORDS = 'changes of a resource of "%s" are not reported: %s'


async def follow(relay: Relay, catalogue: Catalogue, asked: ClientRequest, uri: str) -> None:
    """Hear of one resource, until this is cancelled. What is heard reaches the client as any other change does."""
    place = catalogue.place_of(uri) or relay.servers.names[0]
    connection = relay.servers[place]
    while True:
        try:
            greeting = await connection.start()
            if not greeting.modern:
                # Once: the connection says it again to a server that was started again.
                await relay.forward(connection, _renamed(asked, "resources/subscribe"), {"uri": uri})
                return
            wanted = {"notifications": {"resourceSubscriptions": [uri]}}
            await relay.forward(connection, _renamed(asked, LISTEN), wanted)
        except Refusal as refusal:
            _LOG.warning(_WORDS, place, refusal)
            return
        except UpstreamFault as fault:
            _LOG.warning(_WORDS, place, fault)
        await asyncio.sleep(_AGAIN)


def _renamed(asked: ClientRequest, method: str) -> ClientRequest:
    """The same request under another name, for a server that knows it so."""
    return ClientRequest(asked.id, method, {}, open=asked.open)
