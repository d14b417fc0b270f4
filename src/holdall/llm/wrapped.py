"""A model that is another model in every respect but the one that a subclass changes."""

from holdall.llm.catalogue import Price, price_of
from holdall.llm.pace import Pace, pace_of
from holdall.llm.protocol import Model, Request
from holdall.values.chat import Reply


class Wrapped:
    def __init__(self, model: Model) -> None:
        self.inner = model

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def window(self) -> int:
        return self.inner.window

    @property
    def max_output(self) -> int:
        return self.inner.max_output

    @property
    def calls_tools(self) -> bool:
        return self.inner.calls_tools

    @property
    def keeps_schema(self) -> bool:
        return self.inner.keeps_schema

    @property
    def price(self) -> Price | None:
        return price_of(self.inner)

    @property
    def pace(self) -> Pace:
        return pace_of(self.inner)

    async def ask(self, request: Request) -> Reply:
        return await self.inner.ask(request)

    async def close(self) -> None:
        await self.inner.close()
