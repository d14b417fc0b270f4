"""What a job measures, and what it must reach. Values only: nothing here runs or prints."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Unit = Literal["s", "ms", "µs", "bytes", "×", "power", "calls"]
_SCALES: Mapping[str, float] = {"s": 1, "ms": 1e3, "µs": 1e6}


@dataclass(frozen=True, slots=True)
class Gate:
    """A bound on the ratio to the floor, or on the figure itself where the issue names an absolute one."""

    bound: float
    on: Literal["ratio", "figure"] = "ratio"
    side: Literal["most", "least"] = "most"
    left: str = ""  # where the time is, by a profile: published where it is missed

    def used(self, value: float) -> float:
        """How much of the bound is used up: over 1 means that it is broken."""
        if self.side == "most":
            return value / self.bound
        return self.bound / value if value > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Times are seconds and sizes are bytes, whatever unit they are shown in."""

    job: str
    case: str
    figure: float
    unit: Unit
    floor: float | None = None
    gate: Gate | None = None
    inverse: bool = False  # the ratio is floor ÷ figure: a speed as a share of the floor's
    others: float | None = None  # cores that other processes kept busy meanwhile
    notes: str = ""
    more: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def ratio(self) -> float | None:
        if self.floor is None or not self.floor or not self.figure:
            return None
        return self.floor / self.figure if self.inverse else self.figure / self.floor

    @property
    def judged(self) -> float | None:
        """The number that the gate looks at."""
        if self.gate is None:
            return None
        return self.figure if self.gate.on == "figure" else self.ratio

    @property
    def used(self) -> float | None:
        return None if self.gate is None or self.judged is None else self.gate.used(self.judged)

    @property
    def verdict(self) -> Literal["pass", "fail", "–"]:
        if self.gate is None:
            return "–"
        return "pass" if self.used is not None and self.used <= 1 else "fail"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Curve:
    """Cost against size: (bytes, seconds) of one operation."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one job gives back."""

    rows: Sequence[Row]
    curves: Sequence[Curve] = ()


def shown(value: float, unit: Unit) -> str:
    """A figure as the table has it: three digits that count."""
    if unit == "bytes":
        return f"{value / 1e6:.1f} MB"
    if unit == "calls":
        return f"{value:,.0f} calls"
    if unit in ("×", "power"):
        return f"{value:.2f}{' ×' * (unit == '×')}"
    scaled = value * _SCALES[unit]
    digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2 if scaled >= 1 else 3
    return f"{scaled:.{digits}f} {unit}"


def shown_gate(row: Row) -> str:
    if row.gate is None:
        return "–"
    sign = "≤" if row.gate.side == "most" else "≥"
    bound = shown(row.gate.bound, row.unit) if row.gate.on == "figure" else f"{row.gate.bound:g} ×"
    return f"{sign} {bound}"
