"""Which model answers questions about outputs: the one of the settings, else the session's own.

A model that was given by name is made when it is first asked, and closed with the session; one that was handed in
belongs to whoever made it.
"""

from holdall.llm.naming import model_named
from holdall.llm.protocol import Model, Request
from holdall.values.chat import Reply
from holdall.values.errors import NoModel
from holdall.values.settings import Settings


class Nobody:
    """In place of a model for what needs none."""

    name, window, max_output, calls_tools, keeps_schema = "", 32_768, 1_024, False, False

    async def ask(self, request: Request) -> Reply:  # noqa: ARG002 - there is nobody to ask
        raise NoModel

    async def close(self) -> None:
        pass


class Models:
    def __init__(self, settings: Settings, current: Model | str | None) -> None:
        self.chosen: Model | str | None = settings.extraction_model or current
        self._offered: Model | None = None
        self._made: dict[str, Model] = {}

    @property
    def configured(self) -> bool:
        return bool(self.chosen)

    def offer(self, model: Model) -> None:
        """Use this one where none was named: a client's own, which is known only while it is connected."""
        if not self.chosen or self.chosen is self._offered:
            self.chosen = self._offered = model

    def withdraw(self, model: Model) -> None:
        if self.chosen is model and self._offered is model:
            self.chosen = self._offered = None

    def named(self, given: Model | str | None = None, *, tool: str = "", asked: bool = True) -> Model:
        """`given`, else the chosen one. Raises NoModel where there is none, unless it would not be asked anyway."""
        wanted = given or self.chosen
        if not wanted and not asked:
            return Nobody()
        if not wanted:
            raise NoModel(tool)
        if not isinstance(wanted, str):
            return wanted
        if wanted not in self._made:
            self._made[wanted] = model_named(wanted)
        return self._made[wanted]

    async def close(self) -> None:
        while self._made:
            await self._made.popitem()[1].close()
