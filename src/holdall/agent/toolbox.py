"""The tools of one agent: functions, tools of MCP servers, other agents. By name, each with what is called."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdall.values.errors import WrongUse
from holdall.wire.tool import ToolSpec


@dataclass(frozen=True, slots=True)
class AgentTool:
    """`call` is whatever `Holdall.run` can call."""

    spec: ToolSpec
    call: object
    server: str = ""


class Toolbox:
    """Fixed once it is made: an agent's tools do not change under it."""

    def __init__(self, tools: Iterable[AgentTool] = ()) -> None:
        self._tools: dict[str, AgentTool] = {}
        for tool in tools:
            name = tool.spec.plain_name
            if name in self._tools:
                raise WrongUse(f"two tools of this agent are called {name!r}: rename one of them.")
            self._tools[name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> AgentTool | None:
        return self._tools.get(name)

    def __len__(self) -> int:
        return len(self._tools)
