"""Numbers and times as the pages show them. Pure, but for the time zone of this machine."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from holdall.text.escape import one_line
from holdall.text.numbers import age, grouped, plural, roughly, size


def number(value: object) -> float:
    """What a log says; 0 where that is no number, or none that could be true."""
    if isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e18:
        return float(value)
    return 0.0


def whole(value: object) -> int:
    return int(number(value))


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `2 min 05 s`, `1 h 12 min`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def money(cost: float) -> str:
    """`$0.0031`, `$12.40`: small sums keep their digits."""
    if 0 < cost < 0.0001:
        return "<$0.0001"
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def percent(share: float) -> str:
    """Never 0 for what is a little, never 100 for what is not all."""
    if share <= 0:
        return "0 %"
    if share >= 1:
        return "100 %"
    if share < 0.001:
        return "<0.1 %"
    return f"{min(share * 100, 99.9):.1f} %"


def moment(at: float) -> str:
    """`2026-11-15 11:28:03`, in the zone of this machine."""
    return _when(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def machine_time(at: float) -> str:
    """For the attribute `datetime`."""
    return _when(at).strftime("%Y-%m-%dT%H:%M:%SZ")


def _when(at: float) -> datetime:
    """A time that a damaged log claims may be none."""
    try:
        return datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "age": age,
    "duration": duration,
    "grouped": grouped,
    "machine_time": machine_time,
    "moment": moment,
    "money": money,
    "number": number,
    "one_line": one_line,
    "percent": percent,
    "plural": plural,
    "roughly": roughly,
    "size": size,
    "whole": whole,
}
