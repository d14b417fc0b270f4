"""One living connection to a server, from its greeting to its end.

Results are handed on as they came and not checked against any schema. A session is never repaired: when it is over,
whoever keeps the connection opens another.
"""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holdall.text.escape import one_line
from holdall.upstream import faults
from holdall.upstream.codec import Kept
from holdall.upstream.greeting import INITIALIZED, Greeting, Identity, NoCommonRevision, greet, stamped
from holdall.upstream.inbox import Inbox
from holdall.upstream.large import plain
from holdall.upstream.routes import CURRENT, Call, Callbacks
from holdall.upstream.sdk import CallOptions, JSONRPCDispatcher, MCPError, TransportContext
from holdall.upstream.spec import ServerSpec
from holdall.values.errors import UpstreamFault, WrongUse

LISTEN = "subscriptions/listen"
_FINAL = (0, 401, 403, 407)  # no connection, or no permission: the other era would not help


class Channel(Protocol):
    """The way to a server: the streams that the SDK reads and writes, and how they ended."""

    read: Any
    write: Any

    @property
    def kept(self) -> Kept:
        """What is known of replies beside what the SDK carries; whoever takes one removes it."""
        ...

    @property
    def heard(self) -> int:
        """Grows when the server says anything."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, where it is one of ours."""
        ...

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        ...

    def said(self) -> str:
        """The end of its standard error so far, where it has one."""
        ...


class Session:
    """`open` and `close` are called by the task that owns the channel; all else by anybody in the same loop."""

    def __init__(
        self,
        spec: ServerSpec,
        channel: Channel,
        *,
        identity: Identity,
        callbacks: Callbacks,
        tools_changed: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.channel = channel
        self.greeting = Greeting("", {})
        self.over = asyncio.Event()
        self.again = True  # whether it is started again with the next call
        self.answered = False  # whether any request was, after the greeting
        self._ended = ""  # why we ended it ourselves
        self._identity = identity
        self._inbox = Inbox(channel.read, callbacks, tools_changed)
        self._dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(channel.read, channel.write)
        self._driver: asyncio.Task[None] | None = None
        self._last = 0

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(call.method != LISTEN for call in self._inbox.calls.values())

    async def open(self) -> None:
        """Raises UpstreamFault where no greeting comes about."""
        reading = _Started()
        self._driver = asyncio.get_running_loop().create_task(self._drive(reading))
        try:
            async with asyncio.timeout(self.spec.start_seconds):
                await reading.event.wait()  # the SDK takes no requests before
                self.greeting = await greet(self._send_greeting, self._identity, self.spec.revision)
        except MCPError as refusal:
            raise await faults.not_ready(self, self.call("initialize", seconds=math.inf), refusal) from refusal
        except NoCommonRevision as problem:
            raise UpstreamFault(self.spec.name, str(problem)) from problem
        except TimeoutError as problem:
            raise faults.silent(self) from problem
        if not self.greeting.modern:
            await self.tell(INITIALIZED)

    async def close(self) -> None:
        self.over.set()
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.wait((self._driver,))
        self._inbox.close()

    def end(self, why: str, *, again: bool = True) -> None:
        """End it from here, for a reason in words that follow the server's name."""
        self._ended = self._ended or why
        self.again = again
        self.over.set()

    def call(self, method: str, *, seconds: float, **options: Any) -> Call:
        self._last += 1
        return Call(self._last, method, seconds=seconds, **options)

    async def request(
        self, call: Call, params: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The result as it came. Raises UpstreamFault in all other cases, and WrongUse for what is no JSON."""
        given = dict(params or {})
        _check(given, call)
        given["_meta"] = {**(given.get("_meta") or {}), "progressToken": call.number}
        given, stamps = stamped(self.greeting.revision, self._identity, call.method, given)
        try:
            async with asyncio.timeout(None if math.isinf(call.seconds) else call.seconds) as call.limit:
                result = await self._exchange(call, given, {**stamps, **(headers or {})})
        except TimeoutError as problem:
            raise faults.overdue(self, call) from problem
        except MCPError as refusal:
            await call.mailbox.drained()
            raise await faults.fault_of(self, call, refusal) from refusal
        finally:
            call.limit = None
        self.answered = True
        await call.mailbox.drained()
        return result

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """A notification. One that cannot be delivered is dropped, as the protocol has it."""
        given, headers = stamped(self.greeting.revision, self._identity, method, params)
        await self._dispatcher.notify(method, given or None, {"headers": headers})

    async def why(self) -> tuple[str, str]:
        return (self._ended, self.said()) if self._ended else await self.channel.why()

    def said(self) -> str:
        return self.channel.said()

    async def _exchange(
        self, call: Call, params: dict[str, Any], headers: Mapping[str, str], *, may_cancel: bool = True
    ) -> dict[str, Any]:
        """A cancellation of the caller, which its deadline is too, reaches the server from here."""
        options: CallOptions = {
            "request_id": call.number,
            "headers": dict(headers),
            "cancel_on_abandon": may_cancel,
        }
        self._inbox.calls[call.number] = call
        token = CURRENT.set(call)
        try:
            found = await self._dispatcher.send_raw_request(call.method, params, options)
            # The SDK holds on to a message until the next one comes; this may be a large one.
            result = dict(found)
            found.clear()
            if call.large is not None:
                result, call.large = call.large, None
            elif str(call.number) in self.channel.kept.large:
                self.channel.kept.large.discard(str(call.number))
            else:
                return self.channel.kept.take(call.number, result)
            return result if call.takes_large else plain(result)
        except asyncio.CancelledError:
            call.mailbox.close()
            raise
        finally:
            CURRENT.reset(token)
            del self._inbox.calls[call.number]

    async def _send_greeting(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        call = self.call(method, seconds=math.inf)
        try:
            return await self._exchange(call, params, headers, may_cancel=False)  # the protocol forbids it
        except MCPError as refusal:
            if call.trouble is not None and (call.trouble.status in _FINAL or method == "initialize"):
                raise await faults.not_ready(self, call, refusal) from refusal
            raise

    async def _drive(self, reading: "_Started") -> None:
        inbox = self._inbox
        try:
            await self._dispatcher.run(inbox.asked, inbox.unexpected, inbox.noted, task_status=reading)
        finally:
            self.over.set()
            reading.event.set()


class _Started:
    """How the SDK says that it reads."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def started(self, value: None = None) -> None:  # noqa: ARG002 - the SDK's names
        self.event.set()


def _check(params: Mapping[str, Any], call: Call) -> None:
    """Here, because the SDK would find out in a task of its own, and take the whole connection down with it."""
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise WrongUse(f'the arguments of "{one_line(call.name, 60)}" cannot be written as JSON: {problem}.') from None
