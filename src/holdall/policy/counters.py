"""What a session has done, in numbers: a fold over its events."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdall.values.events import Event


@dataclass(slots=True)
class Counters:
    """`tokens_kept_out` are those of the outputs that were kept, less those of what stood in their place."""

    inline: int = 0
    kept: int = 0
    unkept: int = 0
    kept_bytes: int = 0
    tokens_kept_out: int = 0
    retrievals: Counter[str] = field(default_factory=Counter[str])
    retrieved_tokens: int = 0
    refused: int = 0
    passed_by_reference: int = 0
    background: int = 0
    extractions: Counter[str] = field(default_factory=Counter[str])  # by the strategy that gave the answer
    fallbacks: int = 0
    turns: int = 0
    agents: int = 0
    recoveries: int = 0
    model_calls: int = 0
    model_tokens: int = 0
    model_cost: float = 0.0

    def add(self, event: Event) -> None:
        if (name := _COUNTED.get(event.kind)) is not None:
            setattr(self, name, getattr(self, name) + 1)
        data = event.data
        match event.kind:
            case "kept":
                self.kept_bytes += _number(data.get("bytes"))
                out = _number(data.get("tokens")) - _number(data.get("content_tokens"))
                self.tokens_kept_out += max(0, out) if data.get("replaced") else 0
            case "retrieved":
                self.retrievals[str(data.get("verb", "?"))] += 1
                self.retrieved_tokens += _number(data.get("tokens"))
            case "asked":
                self.model_tokens += _number(data.get("input_tokens")) + _number(data.get("output_tokens"))
                cost = data.get("cost")
                self.model_cost += float(cost) if isinstance(cost, int | float) else 0.0
            case "extracted":
                self.extractions[str(data.get("strategy", "?"))] += 1
                self.fallbacks += data.get("reason") == "fallback"
            case _:
                pass

    def merge(self, other: "Counters") -> None:
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.retrievals.update(other.retrievals)
        self.extractions.update(other.extractions)

    def to_json(self) -> dict[str, Any]:
        return {
            "inline": self.inline,
            "kept": self.kept,
            "unkept": self.unkept,
            "kept_bytes": self.kept_bytes,
            "tokens_kept_out": self.tokens_kept_out,
            "retrievals": dict(sorted(self.retrievals.items())),
            "retrieved_tokens": self.retrieved_tokens,
            "refused": self.refused,
            "passed_by_reference": self.passed_by_reference,
            "background": self.background,
            "extractions": dict(sorted(self.extractions.items())),
            "fallbacks": self.fallbacks,
            "turns": self.turns,
            "agents": self.agents,
            "recoveries": self.recoveries,
            "model_calls": self.model_calls,
            "model_tokens": self.model_tokens,
            "model_cost": round(self.model_cost, 6),
        }


# Kinds of events that are counted one by one, and where.
_COUNTED: Mapping[str, str] = {
    "inline": "inline", "kept": "kept", "unkept": "unkept", "refused": "refused", "passed": "passed_by_reference",
    "running": "background", "turn": "turns", "spawned": "agents", "recovered": "recoveries", "asked": "model_calls",
}  # fmt: skip
_ADDED = (
    *_COUNTED.values(),
    "kept_bytes",
    "tokens_kept_out",
    "retrieved_tokens",
    "fallbacks",
    "model_tokens",
    "model_cost",
)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
