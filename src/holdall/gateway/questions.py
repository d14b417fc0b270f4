"""A server of the older era asks its client on the way; a client of the newer era can only be asked by a result.

So the call goes on here, its request is answered with the question, and when the client comes again with the answer it
is handed to the server and the rest of the call is waited for. Nothing is called twice.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from holdall.gateway.client import Asked
from holdall.gateway.eras import envelope_of
from holdall.gateway.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Refusal, table

INTERACTIVE = frozenset(("tools/call", "prompts/get", "resources/read"))
_CAPABILITIES = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_OURS = "holdall-question-"
_KEPT_SECONDS = 600.0  # a question that nobody answers for so long is given up

Work = Callable[[Asked], Awaitable[dict[str, Any]]]


class Conversations:
    def __init__(self) -> None:
        self._open: dict[str, _Conversation] = {}

    async def answer(self, asked: Asked, work: Work) -> dict[str, Any]:
        """The result of the call, or what its server wants to know first."""
        state = asked.params.get("requestState")
        if not isinstance(state, str) or not state.startswith(_OURS):
            one = _Conversation(asked, work)
        elif (found := self._open.pop(state, None)) is None:
            raise Refusal(INVALID_PARAMS, "This question is not open any more; make the call again")
        else:
            one = found
            one.go_on(asked)
        result = await one.next()
        if result is not None:
            return result
        state = _OURS + secrets.token_hex(16)
        self._open[state] = one
        one.keep(lambda: self._open.pop(state, None))
        return {"resultType": "input_required", "inputRequests": one.questions(), "requestState": state}

    async def close(self) -> None:
        for one in self._open.values():
            one.end()


class _Conversation:
    def __init__(self, asked: Asked, work: Work) -> None:
        self._asked = asked  # the server knows only this one, however often the client comes
        self._waiting: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        asked.ask_back = self._ask
        self._task = asyncio.ensure_future(work(asked))

    def questions(self) -> dict[str, Any]:
        self._news.clear()
        return {key: question for key, (question, _) in self._waiting.items()}

    def go_on(self, again: Asked) -> None:
        """The client has come again: from now on the call is this request of it."""
        if self._timer is not None:
            self._timer.cancel()
        self._asked.id, self._asked.meta, self._asked.open = again.id, again.meta, True
        answers = table(again.params.get("inputResponses"))
        for key, (_, future) in list(self._waiting.items()):
            if key in answers and not future.done():
                future.set_result(table(answers[key]))
            elif not future.done():
                self._news.set()  # it is asked again

    async def next(self) -> dict[str, Any] | None:
        """The result; None where there is a question before it."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((self._task, news), return_when=asyncio.FIRST_COMPLETED)
            return self._task.result() if self._task.done() else None
        except asyncio.CancelledError:
            self.end()
            raise
        finally:
            news.cancel()

    def keep(self, forget: Callable[[], object]) -> None:
        def over() -> None:
            forget()
            self.end()

        self._timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, over)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        _, capabilities = envelope_of(self._asked.params)
        if _CAPABILITIES.get(method) not in capabilities:
            raise Refusal(METHOD_NOT_FOUND, "The client cannot be asked this", method)
        key = f"question-{len(self._waiting) + 1}-{secrets.token_hex(4)}"
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[key] = ({"method": method, "params": params}, future)
        self._news.set()
        try:
            return await future
        finally:
            del self._waiting[key]
