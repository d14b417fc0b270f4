"""The operation tree: session, turns, and in them model calls, tool calls, sub-agents and extractions.

A fold over the events of a session, and nothing else: whoever has the log can build the tree. It holds sizes, counts
and short previews, never the content of a request (S0 decision 24).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdall.values.events import Event

VERSION = 1
OperationKind = Literal["session", "turn", "model", "tool", "agent", "extraction"]
_NUMBERS = ("input_tokens", "output_tokens", "bytes", "calls")


@dataclass(slots=True)
class Operation:
    """`at` is when it began. What it took is in `data`; what its children took is added up by `totals`."""

    kind: OperationKind
    name: str
    at: float
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    children: list["Operation"] = field(default_factory=list["Operation"])

    def totals(self) -> dict[str, Any]:
        """Model calls, tokens, cost and bytes of this operation and all below it."""
        found: dict[str, Any] = {"model_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0, "tool_calls": 0}
        waiting = [self]
        while waiting:
            one = waiting.pop()
            waiting += one.children
            if one.kind == "model":
                found["model_calls"] += 1
            elif one.kind == "tool":
                found["tool_calls"] += 1
            if one.kind in ("model", "agent"):
                found["input_tokens"] += _number(one.data.get("input_tokens"))
                found["output_tokens"] += _number(one.data.get("output_tokens"))
                found["cost"] += _number(one.data.get("cost"))
            if one.kind == "agent":
                found["model_calls"] += _number(one.data.get("calls"))
        found["cost"] = round(found["cost"], 6)
        return found

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"op": self.kind, "name": self.name, "at": self.at, "seconds": round(self.seconds, 6)}
        flat |= {name: value for name, value in self.data.items() if value not in (None, "", [])}
        if self.children:
            flat["children"] = [child.to_json() for child in self.children]
        return flat


@dataclass(slots=True)
class Tree:
    """The tree of one session, as far as its events go. Events come in the order of the log."""

    root: Operation
    _turn: Operation | None = None
    _questions: dict[str, list[Operation]] = field(default_factory=dict[str, list[Operation]])
    _agents: dict[str, Operation] = field(default_factory=dict[str, Operation])

    @staticmethod
    def of(name: str, events: Iterable[Event]) -> "Tree":
        tree: Tree | None = None
        for event in events:
            if tree is None:
                tree = Tree(Operation("session", name, event.at - event.seconds))
            tree.add(event)
        return tree or Tree(Operation("session", name, 0.0))

    def add(self, event: Event) -> None:
        self.root.seconds = max(self.root.seconds, event.at - self.root.at)
        began, data = event.at - event.seconds, dict(event.data)
        match event.kind:
            case "turn":
                self._end_turn(event.at)
                self._turn = Operation("turn", str(data.pop("number", "")), event.at, 0.0, data)
                self.root.children.append(self._turn)
            case "asked":
                model = Operation("model", str(data.get("model", "")), began, event.seconds, data)
                if op := str(data.pop("op", "")):
                    self._questions.setdefault(op, []).append(model)
                else:
                    self._place(model)
            case "extracted":
                asked = self._questions.pop(str(data.pop("op", "")), [])
                data |= {"handle": event.handle, "searched": len(event.spans("searched"))}
                for number in _NUMBERS[:2]:
                    data.pop(number, None)  # they are those of its calls
                data.pop("cost", None)
                self._place(Operation("extraction", event.tool, began, event.seconds, data, asked))
            case "called":
                data |= {"handle": event.handle, "call_id": event.call_id}
                self._place(Operation("tool", event.tool, began, event.seconds, data))
            case "spawned":
                agent = Operation("agent", event.tool, event.at, 0.0, data)
                self._agents[str(data.get("session", ""))] = agent
                self._place(agent)
            case "joined":
                self._join(event, data)
            case "reported" | "recovered":
                self.root.data[event.kind] = data
            case _:
                pass  # of one output: the ledger has them

    def to_json(self) -> dict[str, Any]:
        """With the totals of everything, and of what was asked and never came to an answer."""
        for asked in self._questions.values():
            self.root.children += asked
        self._questions.clear()
        return {"version": VERSION, "totals": self.root.totals(), **self.root.to_json()}

    def _place(self, operation: Operation) -> None:
        (self._turn or self.root).children.append(operation)
        if self._turn is not None:
            self._end_turn(operation.at + operation.seconds)

    def _end_turn(self, at: float) -> None:
        if self._turn is not None:
            self._turn.seconds = max(self._turn.seconds, at - self._turn.at)

    def _join(self, event: Event, data: Mapping[str, Any]) -> None:
        agent = self._agents.pop(str(data.get("session", "")), None)
        if agent is not None:
            agent.seconds = max(0.0, event.at - agent.at)
            agent.data |= data


def _number(value: object) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
