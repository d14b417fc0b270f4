"""A model whose every call is an event of the session, with its sizes, tokens and cost; never its text."""

import time

from holdall.bag import Holdall
from holdall.guard.budget import PrefixSum
from holdall.llm.protocol import Model, Request
from holdall.llm.wrappers import Wrapped
from holdall.values.chat import Reply, Usage, size_of
from holdall.values.errors import ModelFault

_PREVIEW = 500


class Metered(Wrapped):
    def __init__(self, model: Model, bag: Holdall) -> None:
        super().__init__(model)
        self._bag = bag
        self._sizes = PrefixSum(lambda message: size_of((message,)))
        self.calls = 0
        self.usage = Usage()

    async def ask(self, request: Request) -> Reply:
        started = time.perf_counter()
        reply, why = Reply(), ""
        try:
            reply = await self.inner.ask(request)
        except ModelFault as fault:
            why = str(fault)
            raise
        finally:
            self.calls += 1
            self.usage = self.usage + reply.usage
            usage = reply.usage
            self._bag.journal.record(
                "asked", seconds=time.perf_counter() - started, purpose="turn", model=reply.model or self.name,
                messages=len(request.messages), request_bytes=self._size(request),
                reply_bytes=len(reply.text.encode("utf-8", "replace")), preview=reply.text[:_PREVIEW],
                calls=len(reply.calls), input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
                cost=usage.cost, why=why,
            )  # fmt: skip
        return reply

    def _size(self, request: Request) -> int:
        """The last message is not kept: the next request has another one in its place."""
        *kept, last = request.messages
        return self._sizes.of(kept) + size_of((last,))
