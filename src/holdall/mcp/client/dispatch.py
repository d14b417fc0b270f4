"""Requests and their answers on one connection, both ways: JSON-RPC, and of MCP only how a request is cancelled.

An answer is the first one with the very id of a request: a second one, or one with an id of another type, is none. A
request of the server's is answered in a task of its own, so that no message waits for another; of very many at once the
last are refused. When the connection ends, so does everything that was under way.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context
from typing import Any, Protocol

from holdall.mcp.client.codec import Kept, Message
from holdall.mcp.client.protocol import CONNECTION_CLOSED, INTERNAL_ERROR
from holdall.mcp.client.routes import Declined, weight

CLOSED = "Connection closed"
"""What a request ends with that was under way when the connection ended."""
CLOSED_INPUT = "closed its standard input"
"""How a connection ended whose server lives on, and may even speak."""


class Closed(Declined):
    """Our own word for it: a server may send the same one, and lives."""

    def __init__(self) -> None:
        super().__init__(CONNECTION_CLOSED, CLOSED)


_LOG = logging.getLogger("holdall.upstream")
_CANCELLED = "notifications/cancelled"
_LAST_SECONDS = 1.0  # for the answer to a request of the server's at the end
_CANCEL_SECONDS = 5.0
MAX_QUESTIONS, MAX_QUESTION_BYTES = 32, 8 * 1024 * 1024
"""Of a server that are open at once, and of all of them: somebody is to answer each, and until then it is held."""
TOO_MANY_QUESTIONS = (
    f"more than {MAX_QUESTIONS} requests of a server at once, or {MAX_QUESTION_BYTES // 1024**2} MiB of them, "
    "are refused"
)
_MAX_REFUSALS = 1000  # and answers to pings, on their way to a server that does not read them
_FAILED = 0  # the code for a callback that failed, as the SDK has it

Noted = Callable[[str, dict[str, Any], Context | None], None]
Asked = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Channel(Protocol):
    """The way to a server, and how it ended."""

    @property
    def kept(self) -> Kept:
        """Which replies hold something large; the reader removes it."""
        ...

    @property
    def heard(self) -> int:
        """Grows when the server says anything."""
        ...

    @property
    def pid(self) -> int | None:
        """Its process, where it is one of ours."""
        ...

    async def receive(self) -> tuple[Message, Context | None] | None:
        """The next message and, where there is one, the context of the request that it came for. None at the end."""
        ...

    async def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """`headers` are for HTTP. Raises BrokenPipeError where nobody can hear it any more."""
        ...

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        ...

    def said(self) -> str:
        """The end of its standard error so far, where it has one."""
        ...


class Dispatcher:
    """`noted` gets every notification, in the order of the wire; `asked` every request but a ping, to answer or raise
    Declined."""

    def __init__(self, channel: Channel, noted: Noted, asked: Asked) -> None:
        self._channel = channel
        self._noted = noted
        self._asked = asked
        self._closed = False
        self._waiting: dict[int, asyncio.Future[dict[str, Any] | Declined]] = {}
        self._answering: dict[int | str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: dict[asyncio.Task[None], int] = {}  # questions, with their bytes

    async def run(self) -> None:
        """Until the connection ends."""
        try:
            while (got := await self._channel.receive()) is not None:
                self._take(*got)
                del got  # it may be large, and the next one may be long in coming
        finally:
            self._closed = True
            for future in self._waiting.values():
                if not future.done():
                    future.set_result(Closed())
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def request(
        self, number: int, method: str, params: dict[str, Any], headers: Mapping[str, str], *, may_cancel: bool
    ) -> dict[str, Any]:
        """The result. Raises Declined. Where the caller gives up, the server is told so if it `may_cancel`."""
        if self._closed:
            raise Closed
        future: asyncio.Future[dict[str, Any] | Declined] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            with self._channel.kept.expecting(number, method):
                await self._channel.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, headers)
                outcome = await future
        except BrokenPipeError:
            raise Closed from None
        except asyncio.CancelledError:
            if may_cancel:
                with unbroken(), suppress(TimeoutError):
                    async with asyncio.timeout(_CANCEL_SECONDS):
                        await self.notify(_CANCELLED, {"requestId": number, "reason": "caller cancelled"}, {})
            raise
        finally:
            del self._waiting[number]
        if isinstance(outcome, Declined):
            try:
                raise outcome
            finally:
                del outcome, future  # what is raised holds this frame: it would hold itself, and all that it says
        return outcome

    async def notify(self, method: str, params: dict[str, Any] | None, headers: Mapping[str, str]) -> None:
        """One that cannot be delivered is dropped, as the protocol has it."""
        given = {} if params is None else {"params": params}
        await self._send({"jsonrpc": "2.0", "method": method, **given}, headers)

    # What comes

    def _take(self, message: Message, context: Context | None) -> None:
        method, number = message.get("method"), message.get("id")
        params: dict[str, Any] = message.get("params") or {}
        if method is None:
            # Equal is not enough: to Python true, 1 and 1.0 are.
            future = self._waiting.get(number) if type(number) is int else None
            if future is None:
                self._channel.kept.large.discard(str(number))  # nobody waits for it
            elif not future.done():
                future.set_result(_outcome(message))
        elif number is None:
            if method == _CANCELLED:
                self._withdraw(params.get("requestId"))
            try:
                self._noted(method, params, context)
            except Exception:  # the next message is not to suffer
                _LOG.warning("a notification of a server could not be handed on", exc_info=True)
        else:
            self._begin(number, method, params, context)

    def _begin(self, number: int | str, method: str, params: dict[str, Any], context: Context | None) -> None:
        size, is_ping = weight([method, params], MAX_QUESTION_BYTES), method == "ping"
        has_room = len(self._open) < MAX_QUESTIONS and sum(self._open.values()) + size <= MAX_QUESTION_BYTES
        takes = has_room and not is_ping
        if not takes and len(self._tasks) >= _MAX_REFUSALS:
            return
        own = context.copy() if context is not None else None
        work = self._answer(number, method, params) if takes else self._answer_at_once(number, is_ping=is_ping)
        task = asyncio.get_running_loop().create_task(work, context=own)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if takes:
            self._answering[number] = task
            self._open[task] = size
            task.add_done_callback(self._open.pop)

    async def _answer_at_once(self, number: int | str, *, is_ping: bool) -> None:
        said: Message = {"result": {}} if is_ping else {"error": Declined(INTERNAL_ERROR, TOO_MANY_QUESTIONS).error}
        await self._send({"jsonrpc": "2.0", "id": number, **said}, {})

    def _withdraw(self, number: object) -> None:
        if isinstance(number, int | str) and not isinstance(number, bool):
            task = self._answering.pop(number, None)
            if task is not None:
                task.cancel()

    async def _answer(self, number: int | str, method: str, params: dict[str, Any]) -> None:
        task = asyncio.current_task()
        head = {"jsonrpc": "2.0", "id": number}
        try:
            answer = {**head, "result": await self._asked(method, params)}
        except Declined as refusal:
            answer = {**head, "error": refusal.error}
        except asyncio.CancelledError:
            if self._answering.get(number) is task:  # else the server has taken it back, and wants no answer
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_SECONDS):
                        await self._send({**head, "error": Closed().error}, {})
            raise
        except Exception as problem:
            _LOG.warning('a callback for the request "%s" of a server failed', method, exc_info=True)
            answer = {**head, "error": Declined(_FAILED, str(problem)).error}
        finally:
            if self._answering.get(number) is task:
                del self._answering[number]
        await self._send(answer, {})

    async def _send(self, message: Message, headers: Mapping[str, str]) -> None:
        with suppress(BrokenPipeError):
            await self._channel.send(message, headers)


def unbroken() -> AbstractContextManager[object]:
    """Around what is awaited at an end: a cancelled scope of anyio would cancel that, too.

    Where nobody has imported anyio there is no such scope.
    """
    anyio = sys.modules.get("anyio")
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


def _outcome(message: Message) -> dict[str, Any] | Declined:
    error = message.get("error")
    return message["result"] if error is None else Declined(error["code"], error["message"], error.get("data"))
