"""Which connections are refused again and again, whatever serves them. It needs no server to be imported."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any


class Refusals:
    """How often a connection was refused. From the third time on it is closed with the answer: requests without a token
    would otherwise stand in line by the thousand, and keep it busy. Who was refused once may have sent a long body, and
    has to read why.
    """

    _CLOSED_AT = 3
    _KNOWN = 2048  # more than there are connections

    def __init__(self) -> None:
        self._counts: OrderedDict[object, int] = OrderedDict()

    def headers(self, scope: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
        """Of the answer to one more request that is refused."""
        client = scope.get("client")
        self._counts[client] = count = self._counts.pop(client, 0) + 1
        if len(self._counts) > self._KNOWN:
            self._counts.popitem(last=False)
        if count < self._CLOSED_AT or client is None:
            return []
        del self._counts[client]
        return [(b"connection", b"close")]

    def forget(self, scope: Mapping[str, Any]) -> None:
        """Who has come in was not refused before."""
        self._counts.pop(scope.get("client"), None)
