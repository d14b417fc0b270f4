"""Data: an agent, its tools, and the report of a run."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from holdall.bag import Holdall
from holdall.llm.protocol import Model
from holdall.values.chat import Usage
from holdall.values.errors import UsageError
from holdall.values.record import record
from holdall.wire.tool import ToolSpec


@record
class AgentTool:
    """`call` is anything that `Holdall.run` accepts."""

    spec: ToolSpec
    call: object
    server: str = ""
    own_name: str = ""  # as its server calls it

    @property
    def other_names(self) -> tuple[str, ...]:
        """Under which a user may know it, whatever this agent calls it: a policy under any of them holds."""
        name = self.own_name
        return (name, f"{self.server}__{name}", f"mcp__{self.server}__{name}") if name else ()


class Toolbox:
    """The tools of one agent by name: functions, tools of MCP servers, other agents. Fixed once it is made."""

    def __init__(self, tools: Iterable[AgentTool] = ()) -> None:
        self._tools: dict[str, AgentTool] = {}
        for tool in tools:
            name = tool.spec.plain_name
            if name in self._tools:
                raise UsageError(f"two tools of this agent are called {name!r}: rename one of them.")
            self._tools[name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> AgentTool | None:
        return self._tools.get(name)

    def __len__(self) -> int:
        return len(self._tools)


Status = Literal["success", "failure", "partial"]
OpenBag = Callable[[str, str, Model], Holdall]  # session, parent, model


@record
class Agent:
    """`prompt` is its system prompt. `open_bag` opens a session for a run of it."""

    name: str
    prompt: str
    model: Model
    open_bag: OpenBag
    tools: Toolbox = field(default_factory=Toolbox)
    agents: Mapping[str, "Agent"] = field(default_factory=dict[str, "Agent"])
    description: str = ""
    max_turns: int = 30
    max_calls_per_turn: int = 32


@record
class Report:
    """How a run ended. `synthetic` means that the model never reported: the text then says so, and why."""

    text: str
    status: Status = "success"
    synthetic: bool = False
    why: str = ""
    turns: int = 0
    calls: int = 0  # of models: this agent's, those of its questions about outputs, and all of its sub-agents'
    usage: Usage = field(default_factory=Usage)
    session: str = ""
    coverage: Mapping[str, float] = field(default_factory=dict[str, float])  # of each kept output, the share seen
    # Of each, the shares that were shown, scanned by a verb and searched by a question.
    used: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])

    def to_json(self) -> dict[str, Any]:
        return {
            "report": self.text,
            "status": self.status,
            "synthetic": self.synthetic,
            "why": self.why,
            "turns": self.turns,
            "model_calls": self.calls,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost": self.usage.cost,
            "unpriced_calls": self.usage.unpriced_calls,
            "session": self.session,
            "seen": {handle: round(share, 6) for handle, share in self.coverage.items()},
            "coverage": {handle: dict(shares) for handle, shares in self.used.items()},
        }


@record(frozen=False)
class AgentQuota:
    """Shared by a run and its sub-agents: how many agents it may start, and how many it has started."""

    max_agents: int = 16
    max_depth: int = 3
    started: int = 0
    earlier: int = 0  # started before the run was resumed: their sessions keep their names
