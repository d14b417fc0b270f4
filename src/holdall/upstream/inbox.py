"""What a server sends by itself, and to whom it goes: a call that is under way, or whoever keeps the connection.

Nothing is looked into further than it takes to find the receiver, and nothing is answered here but `ping`.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from holdall.upstream.routes import CURRENT, Call, Callbacks, Declined, Mailbox
from holdall.upstream.sdk import SUBSCRIPTION_ID_META_KEY, DispatchContext, MCPError, TransportContext, types

PROGRESS = "notifications/progress"
TOOLS_CHANGED = "notifications/tools/list_changed"
# The SDK has acted on the one, and the other only says that we are listened to.
_NOT_HANDED_ON = frozenset({"notifications/cancelled", "notifications/subscriptions/acknowledged"})


class Inbox:
    """`calls` are those under way, by number. `stream` is where the SDK reads from."""

    def __init__(self, stream: object, callbacks: Callbacks, tools_changed: Callable[[], None]) -> None:
        self.calls: dict[int, Call] = {}
        self._stream = stream
        self._callbacks = callbacks
        self._tools_changed = tools_changed
        self._mailbox = Mailbox()

    def close(self) -> None:
        self._mailbox.close()

    def noted(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Every notification, in the order of the wire. True: the SDK need not do anything more with it."""
        given = dict(params or {})
        if method == PROGRESS:
            if (call := self.calls.get(_number(given.get("progressToken")))) is not None:
                call.progressed(given)
            return True
        if method == TOOLS_CHANGED:
            self._tools_changed()
        if method not in _NOT_HANDED_ON:
            self._hand_on(method, given)
        return True

    async def asked(
        self, _context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """A request of the server's: `sampling/createMessage`, `elicitation/create`, `roots/list`, or one to come."""
        if method == "ping":
            return {}
        call = self._mine(CURRENT.get())
        own = call.callbacks.ask if call is not None and call.callbacks is not None else None
        ask = own or self._callbacks.ask
        if ask is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", method)
        try:
            return await ask(method, dict(params or {}))
        except Declined as refusal:
            raise MCPError(refusal.code, refusal.message, refusal.data) from refusal

    async def unexpected(
        self, _context: DispatchContext[TransportContext], _method: str, _params: Mapping[str, Any] | None
    ) -> None:
        """For notifications that nobody took. There are none: `noted` has taken them all."""

    def _hand_on(self, method: str, params: dict[str, Any]) -> None:
        call = self._receiver(params)
        if call is not None and call.callbacks is not None and (own := call.callbacks.notify) is not None:
            call.mailbox.put(lambda: own(method, params))
        elif (notify := self._callbacks.notify) is not None:
            self._mailbox.put(lambda: notify(method, params))

    def _receiver(self, params: Mapping[str, Any]) -> Call | None:
        meta = params.get("_meta")
        if isinstance(meta, Mapping):
            number = _number(cast("Mapping[str, Any]", meta).get(SUBSCRIPTION_ID_META_KEY))
            if number in self.calls:
                return self.calls[number]
        context = getattr(self._stream, "last_context", None)  # only HTTP has one
        return self._mine(context.get(CURRENT)) if context is not None else None

    def _mine(self, call: Call | None) -> Call | None:
        """A task that asks one server may itself run for the call of another."""
        return call if call is not None and self.calls.get(call.number) is call else None


def _number(value: object) -> int:
    """A token or id as the number that it was sent as: some servers give it back as text. 0 is no call's."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
