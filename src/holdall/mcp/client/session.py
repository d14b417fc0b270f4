"""One living connection to a server, from its greeting to its end: what it sends goes to the call that it belongs to,
and a request without a result ends in one error that says how to fix it.
"""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, cast

from holdall.mcp.client import codec
from holdall.mcp.client.codec import WholeResult, plain
from holdall.mcp.client.dispatch import CLOSED_INPUT, Channel, Closed, Dispatcher
from holdall.mcp.client.handshake import INITIALIZED, Greeting, Identity, NoCommonRevision, greet, stamped
from holdall.mcp.client.protocol import CONNECTION_CLOSED, INTERNAL_ERROR, METHOD_NOT_FOUND, SUBSCRIPTION_KEY
from holdall.mcp.client.routes import CURRENT, Call, Callbacks, Declined, HttpFailure, Mailbox
from holdall.mcp.client.spec import HttpServer, ServerSpec, StdioServer, without_secrets
from holdall.text.escape import foreign, one_line
from holdall.values.errors import NotTrusted, UpstreamFault, UpstreamRefused, UpstreamTimeout, UsageError
from holdall.values.outputs import LargeJson

# The one error in which a request ends that was not answered with a result, with advice on how to fix it.


_CUT = "SSE stream "  # how the words of the SDK begin for an answer over HTTP that ended too early
_MADE_BY_HTTP = frozenset({"Server returned an error response", "Not Found", "Session terminated"})
_SOON = 1.0
_UNKNOWN = "What this call has done is not known."
_AGAIN = " The next one starts it again."


class EndedSession(Protocol):
    """A session that may be over."""

    spec: ServerSpec
    over: asyncio.Event
    again: bool

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        ...

    def said(self) -> str:
        """The end of its standard error so far."""
        ...

    def end(self, why: str) -> None: ...


async def fault_of(session: EndedSession, call: Call, refusal: Declined) -> UpstreamFault:
    name, shown = session.spec.name, one_line(call.name, 60)
    is_http = isinstance(session.spec, HttpServer)
    if refusal.data is codec.GARBLED:
        return UpstreamFault(name, f'answered "{shown}" with {refusal.message}', said=session.said())
    if (trouble := call.trouble) is not None and refusal.message in _MADE_BY_HTTP:
        return UpstreamFault(name, trouble.what, advice=_http_hint(trouble, session.spec))
    if isinstance(refusal, Closed):
        what, said = await _ending(session)
        advice = _UNKNOWN + (_AGAIN if session.again else "")
        return UpstreamFault(name, f'{what} while "{shown}" ran', said=said, advice=advice)
    if refusal.code == CONNECTION_CLOSED and refusal.message.startswith(_CUT) and is_http:
        return UpstreamFault(name, f'broke off its answer to "{shown}" ({foreign(refusal.message)})')
    reason = foreign(without_secrets(refusal.message[:2000], session.spec))
    what = f'refused "{shown}": {reason} (code {refusal.code})'
    return UpstreamRefused(name, what, code=refusal.code, reason=refusal.message, data=refusal.data)


async def not_ready(session: EndedSession, call: Call, refusal: Declined) -> UpstreamFault:
    """The same for a greeting."""
    if isinstance(refusal, Closed):
        what, said = await _ending(session)
        return UpstreamFault(
            session.spec.name, f"{what} before it was ready", said=said, advice=_start_hint(session.spec)
        )
    return await fault_of(session, call, refusal)


def silent(session: EndedSession) -> UpstreamTimeout:
    """No greeting came."""
    seconds = session.spec.start_seconds
    advice = f"Check that {session.spec.shown} speaks MCP, or raise its start_timeout_seconds."
    what = f"did not answer the greeting within {seconds:g} s"
    return UpstreamTimeout(session.spec.name, what, said=session.said(), advice=advice)


def overdue(session: EndedSession, call: Call) -> UpstreamTimeout:
    what = f'did not answer "{one_line(call.name, 60)}" within {call.seconds:g} s, and reported no progress'
    advice = "It was told to stop; what it has done until then is not known. A longer deadline can be given."
    return UpstreamTimeout(session.spec.name, what, said=session.said(), advice=advice)


def not_started(spec: ServerSpec, problem: Exception) -> UpstreamFault:
    """The channel itself could not be opened."""
    where = f" in {spec.source}" if spec.source else ""
    if isinstance(problem, OSError) and isinstance(spec, StdioServer):
        if isinstance(problem, FileNotFoundError) and problem.filename == spec.cwd:
            return UpstreamFault(spec.name, "has a working folder that does not exist", advice=f"Correct cwd{where}.")
        advice = f"Install it, or correct its command{where}."
        if " " in spec.command.strip() and not spec.arguments:
            advice = f"Its command{where} has spaces in it: what follows the program belongs into args."
        return UpstreamFault(
            spec.name, f"cannot be started: {spec.shown}: {problem.strerror or 'failed'}", advice=advice
        )
    if isinstance(problem, NotTrusted):
        advice = f"Start this again: without --trust you are asked again about what is{where or ' in its file'}."
        return UpstreamFault(spec.name, f"was not started: {problem}", advice=advice)
    first: BaseException = problem
    while isinstance(first, BaseExceptionGroup):  # the SDK's tasks fail together
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    words = foreign(without_secrets(str(first), spec))
    return UpstreamFault(spec.name, f"failed ({type(first).__name__}: {words})")


def resting(spec: ServerSpec, last: UpstreamFault | None, seconds: float) -> UpstreamFault:
    """It failed too often to be started for this call."""
    what = last.what if last is not None else "failed"
    said = last.said if last is not None else ""
    advice = f"It failed several times in a row and is started again in {seconds:.0f} s, with the next call."
    return UpstreamFault(spec.name, what, said=said, advice=advice)


async def _ending(session: EndedSession) -> tuple[str, str]:
    """How it ended. One that only reads no more would live on and fail every call: it is ended from here.

    The last words of one that died may take long to read, and other calls wait for them: it ends without us.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(session.over.wait(), _SOON)
    what, said = await session.why()
    if what == CLOSED_INPUT:
        session.end(what)
    return what, said


def _start_hint(spec: ServerSpec) -> str:
    if not isinstance(spec, StdioServer):
        return ""
    its = " with its arguments" if spec.arguments else ""  # which may hold passwords
    return f"Run {spec.shown}{its} in a terminal to see what it needs."


def _http_hint(trouble: HttpFailure, spec: ServerSpec) -> str:
    if trouble.sent:
        return _UNKNOWN
    if trouble.status in (401, 403, 407):
        return f"Check its headers{' in ' + spec.source if spec.source else ''}."
    return "Check that it runs, and its url." if trouble.status in (0, 404) else ""


# What a server sends by itself, and its receiver: a running call, or the connection.
#
# Nothing is looked into further than it takes to find the receiver, and nothing is answered here but `ping`.


PROGRESS = "notifications/progress"
TOOLS_CHANGED = "notifications/tools/list_changed"
# The one was acted on, and the other only says that we are listened to.
_NOT_FORWARDED = frozenset({"notifications/cancelled", "notifications/subscriptions/acknowledged"})


class Inbox:
    """`calls` are those under way, by number."""

    def __init__(self, callbacks: Callbacks, tools_changed: Callable[[], None]) -> None:
        self.calls: dict[int, Call] = {}
        self._callbacks = callbacks
        self._tools_changed = tools_changed
        self._mailbox = Mailbox()

    def close(self) -> None:
        self._mailbox.close()

    async def caught_up(self) -> None:
        """Until all that came before an answer, and may be of its call, was handed on."""
        await self._mailbox.caught_up()

    def noted(self, method: str, params: dict[str, Any], context: Context | None) -> None:
        """Every notification, in the order of the wire. Only over HTTP it has a context."""
        if method == PROGRESS:
            if (call := self.calls.get(_number(params.get("progressToken")))) is not None:
                call.progressed(params)
            return
        if method == TOOLS_CHANGED:
            self._tools_changed()
        if method not in _NOT_FORWARDED:
            self._forward_notification(method, params, context)

    async def asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request of the server's: `sampling/createMessage`, `elicitation/create`, `roots/list`, or one to come."""
        call = self._mine(CURRENT.get())
        own = call.callbacks.ask if call is not None and call.callbacks is not None else None
        ask = own or self._callbacks.ask
        if ask is None:
            raise Declined(METHOD_NOT_FOUND, "Method not found", method[:200])
        return await ask(method, params)

    def _forward_notification(self, method: str, params: dict[str, Any], context: Context | None) -> None:
        call = self._receiver(params, context)
        if call is not None and call.callbacks is not None and (own := call.callbacks.notify) is not None:
            call.mailbox.put(lambda: own(method, params), params)
        elif (notify := self._callbacks.notify) is not None:
            self._mailbox.put(lambda: notify(method, params), params)

    def _receiver(self, params: Mapping[str, Any], context: Context | None) -> Call | None:
        meta = params.get("_meta")
        if isinstance(meta, Mapping):
            number = _number(cast("Mapping[str, Any]", meta).get(SUBSCRIPTION_KEY))
            if number in self.calls:
                return self.calls[number]
        return self._mine(context.get(CURRENT)) if context is not None else None

    def _mine(self, call: Call | None) -> Call | None:
        """A task that asks one server may itself run for the call of another."""
        return call if call is not None and self.calls.get(call.number) is call else None


def _number(value: object) -> int:
    """A token or id as the number that it was sent as: some servers give it back as text. 0 is no call's."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


# Results are handed on as they came and not checked against any schema. A session is never repaired: when it is over,
# its connection opens another.


LISTEN = "subscriptions/listen"
_FINAL = (0, 401, 403, 407, 429, 503)  # no connection, no permission, too busy: no verdict about an era


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
        self._inbox = Inbox(callbacks, tools_changed)
        self._dispatcher = Dispatcher(channel, self._inbox.noted, self._inbox.asked)
        self._driver: asyncio.Task[None] | None = None
        self._last = 0

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(call.method != LISTEN for call in self._inbox.calls.values())

    async def open(self) -> None:
        """Raises UpstreamFault if no greeting comes about."""
        self._driver = asyncio.get_running_loop().create_task(self._drive())
        try:
            async with asyncio.timeout(self.spec.start_seconds):
                self.greeting = await greet(self._send_greeting, self._identity, self.spec.revision)
        except Declined as refusal:
            raise await not_ready(self, self.call("initialize", seconds=math.inf), refusal) from refusal
        except NoCommonRevision as problem:
            raise UpstreamFault(self.spec.name, str(problem)) from problem
        except TimeoutError as problem:
            raise silent(self) from problem
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
        """The result as it came. Raises UpstreamFault in all other cases, and UsageError for what is not JSON."""
        given = dict(params or {})
        _check(given, call)
        given["_meta"] = {**(given.get("_meta") or {}), "progressToken": call.number}
        given, stamps = stamped(self.greeting.revision, self._identity, call.method, given)
        try:
            async with asyncio.timeout(None if math.isinf(call.seconds) else call.seconds) as call.limit:
                result = await self._exchange(call, given, {**stamps, **(headers or {})})
        except TimeoutError as problem:
            raise overdue(self, call) from problem
        except Declined as refusal:
            await call.mailbox.drained()
            raise await fault_of(self, call, refusal) from refusal
        finally:
            call.limit = None
        self.answered = True
        await self._inbox.caught_up()
        await call.mailbox.drained()
        return result

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """A notification. One that cannot be delivered is dropped, as the protocol has it."""
        given, headers = stamped(self.greeting.revision, self._identity, method, params)
        await self._dispatcher.notify(method, given or None, headers)

    async def why(self) -> tuple[str, str]:
        return (self._ended, self.said()) if self._ended else await self.channel.why()

    def said(self) -> str:
        return self.channel.said()

    async def _exchange(
        self, call: Call, params: dict[str, Any], headers: Mapping[str, str], *, may_cancel: bool = True
    ) -> dict[str, Any]:
        """A cancellation of the caller, which its deadline is too, reaches the server from here."""
        self._inbox.calls[call.number] = call
        token = CURRENT.set(call)
        try:
            result = await self._dispatcher.request(call.number, call.method, params, headers, may_cancel=may_cancel)
            if str(call.number) not in self.channel.kept.large:
                return result
            self.channel.kept.large.discard(str(call.number))
            if call.takes_large:
                return result
            if isinstance(result, WholeResult) or (_has_much_structure(result) and not _is_output(call.method)):
                raise Declined(INTERNAL_ERROR, f"a reply of {codec.TOO_MANY}", codec.GARBLED)
            return await asyncio.to_thread(plain, result)
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
        except Declined as refusal:
            if call.trouble is not None and (call.trouble.status in _FINAL or method == "initialize"):
                raise await not_ready(self, call, refusal) from refusal
            raise

    async def _drive(self) -> None:
        try:
            await self._dispatcher.run()
        finally:
            self.over.set()


def _has_much_structure(result: Mapping[str, Any]) -> bool:
    return any(isinstance(one, LargeJson) and len(one.data) > codec.AT_ONCE for one in result.values())


def _is_output(method: str) -> bool:
    return method.startswith(("tools/call", "tasks/"))


def _check(params: Mapping[str, Any], call: Call) -> None:
    """Checked here: over HTTP the SDK would fail in its own task and end the whole connection."""
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise UsageError(
            f'the arguments of "{one_line(call.name, 60)}" cannot be written as JSON: {problem}.'
        ) from None
