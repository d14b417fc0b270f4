"""A call of a tool: ours by the bag, anybody else's by its server and then through the bag.

Every call ends in one answer: a result, the notice of one that is kept, or that it goes on in the background.
"""

from collections.abc import Mapping
from typing import Any

from holdall.bag import Holdall
from holdall.gateway import eras, results
from holdall.gateway.client import Asked
from holdall.gateway.messages import INVALID_PARAMS, Refusal, table
from holdall.gateway.relay import Relay
from holdall.text.escape import one_line
from holdall.upstream import large
from holdall.upstream.connection import Connection
from holdall.values.errors import UpstreamFault, UpstreamRefused
from holdall.values.outputs import Running

_TOO_LATE = "asks its user something first, and the call had gone to the background by then"
_AGAIN = "Call it again, or let its calls wait (never_async)."
_MOST_TOLD = 300  # signs of a message, and of data: in what is one line. More than that is an output
_MOST_WRITTEN = 10 * _MOST_TOLD  # as much where each of them is an escape


class ToolCall:
    """One call of a server's tool. `shown` is its name for the client."""

    def __init__(self, relay: Relay, connection: Connection, asked: Asked, *, tool: str, shown: str) -> None:
        self._relay = relay
        self._connection = connection
        self._asked = asked
        self._tool = tool
        self._shown = shown
        self._original: dict[str, Any] | None = None
        self._untouched: dict[str, Any] | None = None
        self._refusal: Refusal | None = None

    async def run(self, bag: Holdall, listed: Mapping[str, Any]) -> dict[str, Any]:
        """`listed` is the tool as its server lists it; empty where it has not been listed."""
        arguments = self._asked.params.get("arguments")
        if not isinstance(arguments, dict | None):
            raise Refusal(INVALID_PARAMS, "The arguments of a tool must be an object")
        schema = table(listed.get("inputSchema"))
        taken = await bag.run(
            self._called, tool=self._shown, arguments=arguments or {}, server=self._connection.name,
            schema=schema or None,
            waits=lambda: self._relay.waits_for_client(self._connection.name),
        )  # fmt: skip
        if self._untouched is not None:  # also where it came in the moment in which the clock had won
            return self._untouched
        if isinstance(taken, Running):
            self._asked.open = False
        elif self._refusal is not None:
            raise results.refused(taken, self._refusal)
        revision, has_schema = self._relay.caller.revision, isinstance(listed.get("outputSchema"), Mapping)
        original, self._original = self._original, None  # it may be large, and is not needed any more
        result = results.for_the_client(
            taken, original, revision=revision, has_schema=has_schema, handle_of=bag.handle_of
        )
        return result if result is original else self._completed(result)

    async def _called(self, **arguments: Any) -> object:
        params = {**self._asked.params, "name": self._tool, "arguments": arguments}
        try:
            result = await self._relay.forward(self._connection, self._asked, params)
        except Refusal as refusal:
            if not self._asked.open:
                return self._failed(refusal)
            self._refusal = refusal
            return results.of_refusal(refusal)
        if result.get("resultType") not in (None, "complete"):  # a question, a task, a kind that is still to come
            if not self._asked.open:
                raise UpstreamFault(self._connection.name, _TOO_LATE, way_out=_AGAIN)
            self._untouched = large.plain(result)
            return ""
        if (text := large.only_text(result)) is not None:
            self._remember(result)
            return text.data
        result = large.plain_texts(result)
        self._remember(result)
        return results.for_the_bag(result)

    def _failed(self, refusal: Refusal) -> dict[str, Any]:
        """In the background nobody is left to be refused: how the call failed is told in a line, or is its output."""
        data = "" if refusal.data is None else results.data_of(refusal)
        said = f"(code {refusal.code})"
        if len(refusal.message) > _MOST_TOLD or len(data) > _MOST_TOLD:
            return results.of_refusal(Refusal(refusal.code, f"{said} {refusal.message}", refusal.data))
        what = f'refused "{one_line(self._tool, 60)}": {one_line(refusal.message, _MOST_WRITTEN)} {said}'
        what += f", with the data {one_line(data, _MOST_WRITTEN)}" if data else ""
        raise UpstreamRefused(
            self._connection.name, what, code=refusal.code, reason=refusal.message, data=refusal.data
        ) from refusal

    def _remember(self, result: dict[str, Any]) -> None:
        """Only while somebody waits: a call in the background is kept by its session, and so would this be."""
        if self._asked.open:
            self._original = result

    def _completed(self, result: dict[str, Any]) -> dict[str, Any]:
        if not self._relay.caller.modern:
            return result
        greeting = self._connection.greeting
        return eras.completed(self._asked.method, result, greeting.server if greeting is not None else {})
