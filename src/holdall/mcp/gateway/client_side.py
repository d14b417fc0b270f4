"""One connected client: each of its requests is answered exactly once; requests to it are answered or given up.

A request runs in a task of its own; a client that cancels it ends that task and gets no answer, as the protocol wants.
Nothing here knows what a method means, or how messages travel.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Any, Protocol

from holdall.bag import Messages
from holdall.mcp.client.routes import weight
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.messages import Message, Refusal, RequestId, is_id, is_request, meta_of, table
from holdall.values.record import record

_LOG = logging.getLogger("holdall.gateway")
_CANCELLED, _PROGRESS = "notifications/cancelled", "notifications/progress"
_ENDING = "The gateway ended before the answer came; what the call has done is not known."
_GONE = "The client has gone"
_MOST_TOGETHER, _LARGE = 8 * 1024 * 1024, 64 * 1024  # bytes of the answers to a batch, and of one that counts
_NO_ROOM = f"The answers to this batch have more than {_MOST_TOGETHER // 1024**2} MiB: send its requests one by one"
CONNECTION_CLOSED = -32000

Send = Callable[[Message, RequestId | None], None]
"""A message for the client, and the id of its request that the message belongs to, where there is one."""


AskClient = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@record(frozen=False, eq=False)
class ClientRequest:
    """One request of a client on its way. It is `open` until it was answered."""

    id: RequestId
    method: str
    params: dict[str, Any]
    open: bool = True
    meta: dict[str, Any] = field(init=False)
    ask_client: AskClient | None = None  # how its client can be asked on the way, where it takes no requests
    messages: Messages | None = None  # what its server says on the way, where that is kept

    def __post_init__(self) -> None:
        self.meta = meta_of(self.params)

    @property
    def token(self) -> object:
        """Under which the client wants to hear of progress; None if it does not."""
        token = self.meta.get("progressToken")
        return token if is_id(token) else None


class Handler(Protocol):
    async def request(self, asked: ClientRequest) -> dict[str, Any]:
        """The result. Raises Refusal for an error of the protocol."""
        ...

    async def notified(self, method: str, params: dict[str, Any]) -> None: ...


class Client:
    def __init__(self, send: Send, handler: Handler) -> None:
        self._send = send
        self._handler = handler
        self._answering: dict[RequestId, asyncio.Task[Message | None]] = {}
        self._asked: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}
        self._tokens: dict[object, Callable[[dict[str, Any]], None]] = {}
        self._numbers = itertools.count(1)
        self._others: set[asyncio.Task[Any]] = set()
        self._closed = False
        # Where the client can come back for an answer: lets it go for now, as the server of its request wants it.
        self.pause: Callable[[RequestId], None] | None = None

    # From the client

    def hear(self, message: Message) -> None:
        """Take one message. Its answer is sent when it is there."""
        answering = self._taken(message)
        if answering is not None:
            answering.add_done_callback(self._send_answer)

    async def answers(self, batch: list[Any]) -> list[Message]:
        """The answers to a batch, in its order. All are held until the last is there, and written in one go: of those
        that are large, only as many as there is room for.
        """
        held = 0

        async def fitting(answering: "asyncio.Task[Message | None]") -> Message | None:
            nonlocal held
            answer = await answering
            del answering  # which holds it, too
            size = 0 if answer is None else weight(answer, _MOST_TOGETHER)
            if answer is not None and size > _LARGE:
                if held and held + size > _MOST_TOGETHER:
                    return messages.error(answer["id"], Refusal(messages.INTERNAL_ERROR, _NO_ROOM))
                held += size
            return answer

        waiting = [fitting(task) for one in batch if (task := self._taken(table(one))) is not None]
        return [answer for answer in await asyncio.gather(*waiting) if answer is not None]

    async def answer(self, message: Message) -> Message | None:
        """The answer to one message, for transports that send it themselves. Cancelling the wait ends the request."""
        answering = self._taken(message)
        return await answering if answering is not None else None

    # To the client

    def notify(self, method: str, params: dict[str, Any] | None = None, *, related: RequestId | None = None) -> None:
        if not self._closed:
            self._send(messages.notification(method, params), related)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        related: RequestId | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Its result. Raises Refusal if the client refuses, or goes. Cancelling the wait is told to the client."""
        if self._closed:
            raise Refusal(CONNECTION_CLOSED, _GONE)
        number = f"holdall-{next(self._numbers)}"
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        if (token := meta_of(params).get("progressToken")) is not None and progress is not None:
            # Two servers may use the same token: the client gets one of ours.
            self._tokens[number] = lambda said: progress({**said, "progressToken": token})
            params = {**params, "_meta": {**meta_of(params), "progressToken": number}}
        try:
            self._send(messages.request(number, method, params), related)
            return await future
        except asyncio.CancelledError:
            self.notify(_CANCELLED, {"requestId": number}, related=related)
            raise
        finally:
            self._asked.pop(number, None)
            self._tokens.pop(number, None)

    # Its end

    @property
    def busy(self) -> set["asyncio.Task[Message | None]"]:
        return set(self._answering.values())

    async def gone(self) -> None:
        """The client has gone: cancel its requests and the requests to it."""
        self._closed = True
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(Refusal(CONNECTION_CLOSED, _GONE))
        tasks = self.busy
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._others:
            await asyncio.wait(self._others)

    # Inside

    def _taken(self, message: Message) -> "asyncio.Task[Message | None] | None":
        number, method, params = message.get("id"), message.get("method"), table(message.get("params"))
        if is_request(message):
            method = method if isinstance(method, str) else ""
            return self._begin(ClientRequest(number, method, params))  # type: ignore[arg-type] - is_request has looked
        if isinstance(method, str) and "id" not in message:
            self._noted(method, params)
        elif is_id(number) and ("result" in message or "error" in message):
            self._settle(number, message)
        else:
            self._send(messages.error(None, Refusal(messages.INVALID_REQUEST, "Invalid request")), None)
        return None

    def _begin(self, asked: ClientRequest) -> "asyncio.Task[Message | None] | None":
        if (earlier := self._answering.get(asked.id)) is not None and not earlier.done():
            # Without the id: with it, this would be the answer to the first request.
            refusal = Refusal(messages.INVALID_REQUEST, "Invalid request: this id is in use")
            self._send(messages.error(None, refusal), None)
            return None
        task = asyncio.get_running_loop().create_task(self._answered(asked))
        self._answering[asked.id] = task

        def forget(_: object) -> None:
            if self._answering.get(asked.id) is task:
                del self._answering[asked.id]

        task.add_done_callback(forget)
        return task

    async def _answered(self, asked: ClientRequest) -> Message | None:
        try:
            if not asked.method:
                raise Refusal(messages.INVALID_REQUEST, "Invalid request: it names no method")
            if not isinstance(asked.params.get("_meta", {}), dict):
                raise Refusal(messages.INVALID_PARAMS, "Invalid params: _meta is not an object")
            return messages.result(asked.id, await self._handler.request(asked))
        except Refusal as refusal:
            return messages.error(asked.id, refusal)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return None  # the client does not want it any more
            return messages.error(asked.id, Refusal(messages.INTERNAL_ERROR, _ENDING))
        except Exception:  # whatever it is: the call ends in one answer, and the others continue
            _LOG.exception("a request of the client failed")
            return messages.error(asked.id, Refusal(messages.INTERNAL_ERROR, "Internal error of the gateway"))
        finally:
            asked.open = False

    def _send_answer(self, answering: "asyncio.Task[Message | None]") -> None:
        """Before anybody else hears that the task is done: at the end, all that was answered has been sent."""
        answer = None if answering.cancelled() else answering.result()
        if answer is None:
            return
        try:
            self._send(answer, answer["id"])
        except (RecursionError, ValueError):  # every call ends in an answer
            refusal = Refusal(messages.INTERNAL_ERROR, "The result cannot be written as JSON: it is nested too deep.")
            self._send(messages.error(answer["id"], refusal), answer["id"])

    def _noted(self, method: str, params: dict[str, Any]) -> None:
        if method == _CANCELLED:
            number = params.get("requestId")
            if is_id(number) and (task := self._answering.get(number)) is not None:  # type: ignore[arg-type]
                task.cancel()
        elif method == _PROGRESS:
            token = params.get("progressToken")
            if is_id(token) and (heard := self._tokens.get(token)) is not None:
                heard(params)
        else:
            self._keep(self._handler.notified(method, params))

    def _settle(self, number: Any, message: Message) -> None:
        future = self._asked.get(number)
        if future is None or future.done():
            return
        if "error" in message:
            error = table(message["error"])
            code = error.get("code")
            code = code if isinstance(code, int) else messages.INTERNAL_ERROR
            future.set_exception(Refusal(code, str(error.get("message", "")), error.get("data")))
        else:
            future.set_result(table(message["result"]))

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
