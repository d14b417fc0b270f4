"""What a session has done, in numbers: a fold over its events."""

from collections import Counter
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
    model_calls: int = 0
    model_tokens: int = 0
    model_cost: float = 0.0

    def add(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case "inline":
                self.inline += 1
            case "kept":
                self.kept += 1
                self.kept_bytes += _number(data.get("bytes"))
                out = _number(data.get("tokens")) - _number(data.get("content_tokens"))
                self.tokens_kept_out += max(0, out) if data.get("replaced") else 0
            case "unkept":
                self.unkept += 1
            case "retrieved":
                self.retrievals[str(data.get("verb", "?"))] += 1
                self.retrieved_tokens += _number(data.get("tokens"))
            case "refused":
                self.refused += 1
            case "passed":
                self.passed_by_reference += 1
            case "running":
                self.background += 1
            case "asked":
                self.model_calls += 1
                self.model_tokens += _number(data.get("input_tokens")) + _number(data.get("output_tokens"))
                cost = data.get("cost")
                self.model_cost += float(cost) if isinstance(cost, int | float) else 0.0
            case "extracted":
                self.extractions[str(data.get("strategy", "?"))] += 1
                self.fallbacks += data.get("reason") == "fallback"
            case "ended":
                pass

    def merge(self, other: "Counters") -> None:
        for name in ("inline", "kept", "unkept", "kept_bytes", "tokens_kept_out", "retrieved_tokens", "refused",
                     "passed_by_reference", "background", "fallbacks", "model_calls", "model_tokens",
                     "model_cost"):  # fmt: skip
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
            "model_calls": self.model_calls,
            "model_tokens": self.model_tokens,
            "model_cost": round(self.model_cost, 6),
        }


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
