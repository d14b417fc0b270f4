"""Between one client and its servers: a request forwarded with all that belongs to it, and what a server sends itself.

Progress, logs, questions and cancellations belong to the call that they came for; there is no "current" call. Results
come back as they were, except for what the client's era of the protocol writes differently.
"""

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from holdall.bag import Messages
from holdall.bag.core import in_thread
from holdall.mcp.client.codec import is_deep
from holdall.mcp.client.connection import Connection, Servers
from holdall.mcp.client.dispatch import MAX_QUESTION_BYTES, MAX_QUESTIONS, TOO_MANY_QUESTIONS, unbroken
from holdall.mcp.client.handshake import Greeting, Identity
from holdall.mcp.client.keeper import ConnectionOptions
from holdall.mcp.client.routes import Callbacks, Declined, weight
from holdall.mcp.client.server_process import Bounds, StopTimeouts
from holdall.mcp.client.spec import ServerSpec
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.client_side import Client, ClientRequest
from holdall.mcp.gateway.known import CHANGES, LISTED, Copy, KnownServer, KnownServers, Member
from holdall.mcp.gateway.messages import INTERNAL_ERROR, METHOD_NOT_FOUND, Refusal, table
from holdall.text.marks import Mark
from holdall.values.errors import UpstreamFault, UpstreamRefused, UsageError
from holdall.values.outputs import RawResult
from holdall.values.record import record
from holdall.wire.answers import log_message, progress_message
from holdall.wire.clamp import MAX_BYTES, clamp_text
from holdall.wire.notes import without_mark
from holdall.wire.results import bears

_LOG = logging.getLogger("holdall.gateway")
_STOP_TIMEOUTS = StopTimeouts(1.0, 0.5, 0.5)  # all of us have to be gone within five seconds
_PROGRESS, _LOG_MESSAGE = "notifications/progress", "notifications/message"
_SET_LEVEL = "logging/setLevel"
_MAX_ROUNDS = 10
MAX_UNDER_WAY_BYTES = 64 * 1024 * 1024
TOO_MUCH_UNDER_WAY = f"The requests under way would hold more than {MAX_UNDER_WAY_BYTES // 1024**2} MiB"
PROGRESS_BURST, PROGRESS_A_SECOND = 500, 100  # notifications of one call to its client
_PLAIN_PROGRESS = frozenset(("progressToken", "progress", "total", "message"))
_PAUSE, _LONGEST_PAUSE = 0.05, 0.25  # where a server wants to be asked again and has no question

OnNotification = Callable[[str, str, dict[str, Any]], Awaitable[None]]
"""Server, method and params of a notification that belongs to no call."""


@record
class Caller:
    """Who is connected. `revision` is empty while that is not known."""

    revision: str = ""
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def modern(self) -> bool:
        return self.revision in messages.MODERN

    @property
    def identity(self) -> Identity:
        """Servers see the real client: some of them serve clients differently."""
        name, version = self.info.get("name"), self.info.get("version")
        return Identity(str(name or "holdall"), str(version or "0"), self.capabilities, older=not self.modern)


class ProgressUpdates:
    """The progress of one call on its way to the client: an update, within the limits of one.

    A long message is shortened and says so. Of thousands a second only some are sent; the last one is always sent.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        messages: Messages | None,
        masked: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> None:
        self._send = send
        self._masked = masked
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._allowed = float(PROGRESS_BURST)
        self._at = self._loop.time()
        self._held: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def came(self, params: dict[str, Any]) -> None:
        params = self._within_limits(await self._masked(params))
        if self._messages is not None:
            self._messages.add(progress_message(params), is_masked=True)
        now = self._loop.time()
        self._allowed = min(PROGRESS_BURST, self._allowed + (now - self._at) * PROGRESS_A_SECOND)
        self._at = now
        self._held = params
        if self._allowed >= 1:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(1 / PROGRESS_A_SECOND, self.flush)

    def flush(self) -> None:
        """Send the one that is held back: in time, or before the answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None:
            held, self._held = self._held, None
            self._allowed -= 1
            self._send(held)

    def _within_limits(self, params: dict[str, Any]) -> dict[str, Any]:
        said = params.get("message")
        if isinstance(said, str):
            if self._messages is not None:
                short = self._messages.within_limits(said)
            else:
                short = clamp_text(said, max_bytes=MAX_BYTES, max_lines=None).text
            params = params if short is said else {**params, "message": short}
        others = {name: value for name, value in params.items() if name != "message"}
        if len(messages.encode(others)) <= MAX_BYTES:
            return params
        _LOG.warning("a progress notification of a server is too large; only its progress and message are passed on")
        return {name: value for name, value in params.items() if name in _PLAIN_PROGRESS and not _is_long(value)}


def _with_few_questions(result: dict[str, Any]) -> dict[str, Any]:
    """The same result. Raises Refusal for one that asks more than the client can be asked to answer."""
    if messages.is_question(result):
        many = len(table(result.get("inputRequests"))) > MAX_QUESTIONS
        if many or weight(result, MAX_QUESTION_BYTES) > MAX_QUESTION_BYTES:
            raise Refusal(INTERNAL_ERROR, f"The result of this call is a question: {TOO_MANY_QUESTIONS}")
    return result


def _is_large(result: dict[str, Any]) -> bool:
    return not (isinstance(result, RawResult) and result.raw) and weight(result, _LONG) > _LONG


def _is_long(value: object) -> bool:
    return len(messages.encode({"": value})) > MAX_BYTES + 100


_LONG = 1024 * 1024  # bytes that are looked through at once
_SHORT = 64 * 1024  # bytes of a request: a longer one is weighed where nobody waits for it


_OUTPUT = ("content", "structuredContent")


def _output_of(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in _OUTPUT if name in result}


class Relay:
    def __init__(
        self,
        specs: Sequence[ServerSpec],
        client: Client,
        caller: Caller,
        heard: OnNotification,
        known: KnownServers | None = None,
        bounds: Bounds | None = None,
        masks: Callable[[Any], Any] | None = None,
        marks: Mark | None = None,
    ) -> None:
        """`known` is for sessions that share what their servers say, or the servers; `masks` for all that is masked;
        `marks` finds the mark of real notices, which no server may show.
        """
        self.caller = caller
        self._client = client
        self._heard = heard
        self._masks = masks
        self._marks = marks
        self._asking: Counter[str] = Counter()
        self._masking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._under_way: dict[str, list[ClientRequest]] = {spec.name: [] for spec in specs}
        self._means = ConnectionOptions(identity=caller.identity, patience=_STOP_TIMEOUTS, bounds=bounds or Bounds())
        self._known = known
        self.held_bytes = 0  # of the requests that are under way, where they are not counted for several sessions
        self._copies: dict[str, tuple[Copy, Member]] = {}
        callbacks = {spec.name: self._callbacks(spec.name) for spec in specs}
        connect = None if known is None else self._copy
        self.servers = Servers(specs, callbacks=callbacks, means=self._means, connect=connect)

    @property
    def only(self) -> Connection | None:
        """The server, where there is one."""
        return next(iter(self.servers)) if len(self.servers) == 1 else None

    @property
    def speaks_newer(self) -> bool:
        """Whether any of the servers was greeted in the newer era, because its client is of that."""
        return self.caller.modern and any(one.greeting is not None and one.greeting.modern for one in self.servers)

    async def forward(
        self, connection: Connection, asked: ClientRequest, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The result of the same request at this server. Raises Refusal as the server does, and UpstreamFault.

        In the result of a tool a large text may be a LargeText, and structured content a LargeJson.
        """
        try:
            return await self._forwarded(connection, asked, params)
        except UpstreamFault as fault:
            fault.mask(self._masks)
            raise

    async def _forwarded(
        self, connection: Connection, asked: ClientRequest, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        params = asked.params if params is None else params
        copy = self._copies[connection.name][0] if self._known is not None else None
        if copy is not None:
            connection = copy.connection  # which may have been chosen since the request came
            if (answer := await self._without_copy(copy, asked.method, params)) is not None:
                return answer
        # A call that has gone to the background was answered, and still holds all that came with it: from the time
        # when it waits for its server to start.
        async with self.holding(params):
            greeting = await connection.start()
            age = copy.uses(greeting, asked.method) if copy is not None else 0
            given = messages.towards_server(params, modern=greeting.modern)
            self._under_way[connection.name].append(asked)
            try:
                result = await self._answered(connection, asked, given)
            finally:
                self._under_way[connection.name].remove(asked)
        if copy is not None and asked.method in LISTED:
            copy.known.keep(copy, asked.method, given, result, age)
        return await self._shown(asked.method, result, greeting)

    @contextlib.asynccontextmanager
    async def holding(self, params: Mapping[str, Any]) -> AsyncGenerator[None]:
        """For as long as a request may wait: what came with it counts. Raises Refusal where that is too much."""
        share, size = self._known or self, weight(params, _SHORT)
        if size > _SHORT:
            size = await asyncio.to_thread(weight, params, MAX_UNDER_WAY_BYTES)
        if share.held_bytes and share.held_bytes + size > MAX_UNDER_WAY_BYTES:
            raise Refusal(INTERNAL_ERROR, f"{TOO_MUCH_UNDER_WAY}: wait until calls have ended")
        share.held_bytes += size
        try:
            yield
        finally:
            share.held_bytes -= size

    async def _shown(self, method: str, result: dict[str, Any], greeting: Greeting) -> dict[str, Any]:
        if method != "tools/call":
            result = await self._unmarked(result)
        else:  # the bag looks at its output, and keeps what it takes out of sight
            rest = {name: one for name, one in result.items() if name not in _OUTPUT}
            result = result if (plain := await self._unmarked(rest)) is rest else {**_output_of(result), **plain}
        result = messages.towards_client(
            method, result, modern=self.caller.modern, server_modern=greeting.modern, server=greeting.server
        )
        passes = method != "tools/call" and method not in LISTED
        return await asyncio.to_thread(messages.written, result) if passes and _is_large(result) else result

    async def _unmarked(self, value: Any) -> Any:
        """The same object where no string in it holds the mark. Clients show models what is not a tool's too."""
        if self._marks is None:
            return value
        is_long = weight(value, _LONG) > _LONG  # others do not wait until it has been looked through
        if not (await asyncio.to_thread(bears, value, self._marks) if is_long else bears(value, self._marks)):
            return value
        if not is_long and not is_deep(value):
            without = self._without_marks(value, self._marks)
            if not bears(without, self._marks):  # it may be in pieces, of which none is the mark
                return without
        raise Refusal(INTERNAL_ERROR, "The server's answer holds the mark of real notices")

    def _without_marks(self, value: Any, marks: Mark) -> Any:
        if isinstance(value, str):
            return without_mark(value, marks)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {without_mark(name, marks): self._without_marks(one, marks) for name, one in members}
        if isinstance(value, list):
            return [self._without_marks(one, marks) for one in cast("list[Any]", value)]
        return value

    async def _without_copy(self, copy: Copy, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """What can be answered before this session has a copy of the server; None if nothing can."""
        greeting = copy.known.greeting
        if greeting is None or copy.connection.greeting is not None:
            return None
        given = messages.towards_server(params, modern=greeting.modern)
        if method == _SET_LEVEL and "logging" in greeting.capabilities:
            copy.connection.remember(method, given)  # it is told when it starts
            return {}
        if method not in LISTED:
            return None
        page = await copy.known.page(copy, method, given)
        if isinstance(page, UpstreamRefused):
            raise Refusal(page.code, page.reason, page.data)
        return None if page is None else await self._shown(method, page, greeting)

    async def _answered(self, connection: Connection, asked: ClientRequest, given: dict[str, Any]) -> dict[str, Any]:
        """The result. What the server wants to know before it, a client of the older era is asked."""
        result = _with_few_questions(await self._send(connection, asked, given))
        rounds, pause = 0, _PAUSE
        while messages.is_question(result) and not self.caller.modern:
            rounds += 1
            if rounds > _MAX_ROUNDS:
                raise Refusal(INTERNAL_ERROR, f"The server asked for more input more than {_MAX_ROUNDS} times")
            if questions := table(result.get("inputRequests")):
                answers = await self._answers(connection.name, asked, questions)
                again: dict[str, Any] = {**given, "inputResponses": answers}
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                again = dict(given)
            if result.get("requestState") is not None:
                again["requestState"] = result["requestState"]
            result = _with_few_questions(await self._send(connection, asked, again))
        return result

    async def masked(self, server: str, value: Any, asked: ClientRequest | None, *, is_output: bool = False) -> Any:
        """Without the mark, and the secrets of the call that it is for. Where that is not said, it may be of one that
        has ended. The mark stays in an output: the bag looks for it there, and keeps what has it.

        In a thread, so that no server holds up the others; what one server says stays in its order.
        """
        value = value if is_output else await self._unmarked(value)
        masks = self._masks  # the same for all calls of a session
        if masks is None or (asked is not None and (asked.messages is None or not asked.messages.masks)):
            return value
        async with self._masking[server]:
            return await in_thread(masks, {"value": value})

    def waits_for_client(self, server: str) -> bool:
        """Whether a question of this server's is open."""
        return self._asking[server] > 0

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification of the client's, for every server that lives."""
        for connection in self.servers:
            await connection.notify(method, params or None)

    async def greetings(self, seconds: float) -> dict[str, Greeting | UpstreamFault | None]:
        """What each server says of itself, or why it does not; None for one that still starts, which continues."""
        tasks = {one.name: asyncio.ensure_future(self._greeting(one)) for one in self.servers}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=None if len(tasks) == 1 else seconds)
        for name, task in tasks.items():
            if not task.done():
                _LOG.warning('MCP server "%s" is not ready yet; the others are served', name)
                task.add_done_callback(lambda done, name=name: self._late(name, done))
        return {name: task.result() if task.done() else None for name, task in tasks.items()}

    async def close(self) -> None:
        if self._known is None:
            await self.servers.aclose()
            return
        with unbroken():
            await asyncio.gather(*(copy.known.left(copy, member) for copy, member in self._copies.values()))

    # Inside

    def _copy(self, spec: ServerSpec) -> Connection:
        known = KnownServer() if self._known is None else self._known.of(spec.name, self._means.identity)
        member = Member(self._callbacks(spec.name), lambda: bool(self._under_way[spec.name]))
        copy = Copy(known, lambda callbacks: Connection(spec, callbacks=callbacks, means=self._means), member)
        self._copies[spec.name] = copy, member
        return copy.connection

    async def _greeting(self, connection: Connection) -> Greeting | UpstreamFault:
        name = connection.name
        try:
            if self._known is None:
                return await self._plain(connection, await connection.start())
            copy, member = self._copies[name]
            greeting = await copy.known.greet(copy, lambda method: self._heard(name, method, {}))
            joined = copy.known.join(copy, member)
            self._copies[name] = joined, member
            self.servers.replace(joined.connection)
            return await self._plain(connection, greeting)
        except UpstreamFault as fault:
            return fault.mask(self._masks)

    async def _plain(self, connection: Connection, greeting: Greeting) -> Greeting:
        """Without the mark, which a server knows that was started again in the same session."""
        try:
            return replace(greeting, raw=await self._unmarked(greeting.raw))
        except Refusal as refusal:
            raise UpstreamFault(connection.name, "holds the mark of real notices in its greeting") from refusal

    async def _send(self, connection: Connection, asked: ClientRequest, params: dict[str, Any]) -> dict[str, Any]:
        progress = ProgressUpdates(
            lambda params: self._progressed(asked, params),
            asked.messages,
            lambda params: self.masked(connection.name, params, asked),
        )
        options: dict[str, Any] = {
            "progress": progress.came,
            "callbacks": self._callbacks_of(connection, asked),
        }
        try:
            if asked.method == "tools/call":
                more = {name: value for name, value in params.items() if name not in ("name", "arguments")}
                arguments = table(params.get("arguments"))
                options["takes_large"] = True
                return (await connection.call(str(params["name"]), arguments, more=more, **options)).result
            return (await connection.request(asked.method, params, **options)).result
        except UpstreamRefused as refusal:
            if asked.method == "tools/call":
                raise Refusal(refusal.code, refusal.reason, refusal.data) from refusal
            reason, data = await self._unmarked([refusal.reason, refusal.data])
            raise Refusal(refusal.code, reason, data) from refusal
        except UsageError as problem:  # numbers that are none in JSON, for instance
            raise Refusal(INTERNAL_ERROR, str(problem)) from problem
        finally:
            progress.flush()

    def _progressed(self, asked: ClientRequest, params: dict[str, Any]) -> None:
        if asked.open and asked.token is not None:
            self._client.notify(_PROGRESS, {**params, "progressToken": asked.token}, related=asked.id)

    def _callbacks_of(self, connection: Connection, asked: ClientRequest) -> Callbacks:
        """What comes for this call, where that can be told, goes to the client as part of it while it is open."""

        async def notify(method: str, params: dict[str, Any]) -> None:
            if method == _LOG_MESSAGE:
                params = await self.masked(connection.name, params, asked)
                if asked.messages is not None:
                    asked.messages.add(log_message(params), is_masked=True)
            if asked.open and method == _LOG_MESSAGE:
                self._client.notify(method, params, related=asked.id)
            elif self._known is not None and method in CHANGES:
                await self._copies[connection.name][0].heard(method, params)
            else:
                await self._heard(connection.name, method, params)

        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return await self._ask(connection.name, method, params, asked if asked.open else None)

        def paused() -> None:
            if asked.open and self._client.pause is not None:
                self._client.pause(asked.id)

        return Callbacks(notify, ask, paused)

    def _callbacks(self, server: str) -> Callbacks:
        async def notify(method: str, params: dict[str, Any]) -> None:
            if method == _LOG_MESSAGE:
                await self._logged(server, params)
            else:
                await self._heard(server, method, params)

        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return await self._ask(server, method, params, None)

        return Callbacks(notify, ask)

    async def _logged(self, server: str, params: dict[str, Any]) -> None:
        """Over stdio nothing says to which request a log message belongs: the last one is told, before its answer, and
        each that runs has it among its messages, as one of the server.

        In the newer era it is told only where the request asked for it.
        """
        params = await self.masked(server, params, None)
        calls = [one.messages for one in self._under_way[server] if one.messages is not None]
        for one in calls:
            one.add(log_message(params, of_call=len(calls) == 1), is_masked=True)
        modern = self.caller.modern
        wanting = [
            one for one in self._under_way[server] if one.open and (not modern or messages.LOG_LEVEL in one.meta)
        ]
        if wanting or not modern:
            self._client.notify(_LOG_MESSAGE, params, related=wanting[-1].id if wanting else None)

    async def _ask(
        self, server: str, method: str, params: dict[str, Any], asked: ClientRequest | None
    ) -> dict[str, Any]:
        """A question of a server's to the client. One of the newer era is asked by the result of a call of its own."""
        params = await self.masked(server, params, asked)
        if self.caller.modern:
            return await self._ask_client(server, method, params, asked)

        def progress(said: dict[str, Any]) -> None:
            task = asyncio.ensure_future(self.servers[server].notify(_PROGRESS, said))
            _KEPT.add(task)
            task.add_done_callback(_KEPT.discard)

        self._asking[server] += 1
        try:
            return await self._client.ask(
                method, params, related=asked.id if asked is not None else None, progress=progress
            )
        except Refusal as refusal:
            raise Declined(refusal.code, refusal.message, refusal.data) from refusal
        finally:
            self._asking[server] -= 1

    async def _ask_client(
        self, server: str, method: str, params: dict[str, Any], asked: ClientRequest | None
    ) -> dict[str, Any]:
        able = [one for one in self._under_way[server] if one.ask_client is not None]  # nothing says for which it is
        chosen = asked or (able[-1] if able else None)
        if chosen is None or chosen.ask_client is None:
            raise Declined(METHOD_NOT_FOUND, "The client takes no requests", method)
        self._asking[server] += 1
        try:
            return await chosen.ask_client(method, params)
        except Refusal as refusal:
            raise Declined(refusal.code, refusal.message, refusal.data) from refusal
        finally:
            self._asking[server] -= 1

    async def _answers(self, server: str, asked: ClientRequest, questions: dict[str, Any]) -> dict[str, Any]:
        async def one(question: object) -> dict[str, Any]:
            method, params = table(question).get("method"), table(table(question).get("params"))
            params = await self.masked(server, params, asked)
            return await self._client.ask(str(method), params, related=asked.id if asked.open else None)

        self._asking[server] += 1
        try:
            found = await asyncio.gather(*(one(question) for question in questions.values()))
        finally:
            self._asking[server] -= 1
        return dict(zip(questions, found, strict=True))

    def _late(self, name: str, task: "asyncio.Future[Greeting | UpstreamFault]") -> None:
        if task.cancelled() or isinstance(task.result(), UpstreamFault):
            return
        for what in ("tools", "prompts", "resources"):
            told = asyncio.ensure_future(self._heard(name, f"notifications/{what}/list_changed", {}))
            _KEPT.add(told)
            told.add_done_callback(_KEPT.discard)


_KEPT: set["asyncio.Future[Any]"] = set()
"""References to running tasks: the loop holds only weak ones."""
