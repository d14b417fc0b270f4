"""Changes of single resources, for a client of the newer era, in the way of each server's own era.

A server that is started again is asked again, for as long as the client listens.
"""

import asyncio
import logging

from holdall.gateway.catalogue import Catalogue
from holdall.gateway.client import Asked
from holdall.gateway.listeners import LISTEN
from holdall.gateway.messages import Refusal
from holdall.gateway.relay import Relay
from holdall.values.errors import UpstreamFault

_LOG = logging.getLogger("holdall.gateway")
_AGAIN = 1.0  # seconds before a server that broke off is asked again
_WORDS = 'changes of a resource of "%s" are not told: %s'


async def follow(relay: Relay, catalogue: Catalogue, asked: Asked, uri: str) -> None:
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


def _renamed(asked: Asked, method: str) -> Asked:
    """The same request under another name, for a server that knows it so."""
    return Asked(asked.id, method, {}, open=asked.open)
