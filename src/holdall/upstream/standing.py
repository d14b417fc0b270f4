"""What was asked of a server once and is meant to hold: the level of its log, the resources whose changes are told.

A server that is started again knows none of it, so it is asked again. Nothing here is asked for by ourselves.
"""

import logging
from collections.abc import Mapping
from typing import Any

from holdall.text.escape import one_line
from holdall.upstream.session import Session
from holdall.values.errors import UpstreamFault

_LOG = logging.getLogger("holdall.upstream")
_SET_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE = "logging/setLevel", "resources/subscribe", "resources/unsubscribe"
_SECONDS = 5.0  # a start is not to be held up by one of these
_MOST = 1000


class Standing:
    def __init__(self) -> None:
        self._level: dict[str, Any] | None = None
        self._subscribed: dict[str, dict[str, Any]] = {}

    def granted(self, method: str, params: Mapping[str, Any] | None) -> None:
        """The server has agreed to this request."""
        given = {name: value for name, value in (params or {}).items() if name != "_meta"}
        uri = str(given.get("uri"))
        if method == _SET_LEVEL:
            self._level = given
        elif method == _SUBSCRIBE and len(self._subscribed) < _MOST:
            self._subscribed[uri] = given
        elif method == _UNSUBSCRIBE:
            self._subscribed.pop(uri, None)

    async def renew(self, session: Session) -> None:
        """Ask again, of a server that has just greeted. One that does not agree any more is served all the same."""
        if session.greeting.modern:  # there each request says for itself what it wants
            return
        wanted = [(_SET_LEVEL, self._level)] if self._level is not None else []
        wanted += [(_SUBSCRIBE, one) for one in self._subscribed.values()]
        for method, params in wanted:
            try:
                await session.request(session.call(method, seconds=_SECONDS), params)
            except UpstreamFault as fault:
                name = one_line(session.spec.name, 60)
                _LOG.warning('MCP server "%s" was started again and does not take %s again: %s', name, method, fault)
        session.answered = False  # whether it works is for others to find out
