"""The plots, written by hand as SVG: how much of each gate is used, and cost against size; memory over time.

All panels read in black and white too, and on a dark page: the picture brings its own background.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench.result import Curve, Row, shown, shown_gate

_WIDTH, _BAR, _LEFT, _RIGHT = 900, 22, 300, 170
_PANEL = 300  # height of the second panel
_INK, _GRID, _GOOD, _BAD = "#1f2328", "#d0d7de", "#2f6f9f", "#b3402a"
_MARKS = (("#2f6f9f", ""), ("#b3402a", "6 3"), ("#4d7c3a", "2 3"))


def plot(rows: Sequence[Row], curves: Sequence[Curve]) -> str:
    gated = [row for row in rows if row.used is not None]
    bars_height = 70 + _BAR * max(1, len(gated))
    height = bars_height + (_PANEL + 90 if curves else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f'<g font-family="sans-serif" font-size="12" fill="{_INK}">',
        "<title>Holdall: speed against its gates, and cost against size</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        *_bars(gated),
        *(_curves(curves, bars_height + 30) if curves else ()),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(rows: Sequence[Row]) -> list[str]:
    """The length of a bar is the share of its gate that is used up; the line is the gate."""
    room = _WIDTH - _LEFT - _RIGHT
    longest = max(1.25, *(min(2.0, row.used or 0) for row in rows), 0)
    gate = _LEFT + room / longest
    bottom = 50 + _BAR * len(rows)
    parts = [_text(20, 24, "Share of each gate that is used (shorter is better)", bold=True)]
    for number, row in enumerate(rows):
        used = row.used or 0.0
        y = 44 + number * _BAR
        width = room * min(used, longest) / longest
        colour = _GOOD if used <= 1 else _BAD
        value = shown(row.judged or 0.0, row.unit if row.gate and row.gate.on == "figure" else "×")
        parts += [
            _text(_LEFT - 8, y + 12, f"{row.job}: {row.case}", anchor="end"),
            f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, width):.1f}" height="{_BAR - 6}" fill="{colour}"/>',
            _text(_WIDTH - _RIGHT + 8, y + 12, f"{value} ({shown_gate(row)})"),
        ]
    parts.append(
        f'<line x1="{gate:.1f}" x2="{gate:.1f}" y1="36" y2="{bottom}" stroke="{_INK}" stroke-dasharray="4 3"/>'
    )
    parts.append(_text(gate, bottom + 14, "gate", anchor="middle"))
    return parts


def _curves(curves: Sequence[Curve], top: int) -> list[str]:
    """Both axes are logarithmic: linear cost is a slope of one, flat cost is level."""
    xs = [math.log10(size) for curve in curves for size, _ in curve.points]
    ys = [math.log10(seconds) for curve in curves for _, seconds in curve.points]
    left, right, upper, lower = 80, _WIDTH - 120, top + 20, top + 20 + _PANEL
    x_low, x_high = min(xs), max(xs)
    y_low, y_high = math.floor(min(ys)), math.ceil(max(ys))

    def place(size: float, seconds: float) -> tuple[float, float]:
        x = left + (math.log10(size) - x_low) / max(1e-9, x_high - x_low) * (right - left)
        y = lower - (math.log10(seconds) - y_low) / max(1, y_high - y_low) * (lower - upper)
        return x, y

    parts = [_text(20, top, "Cost against size of the output (both axes logarithmic)", bold=True)]
    for power in range(y_low, y_high + 1):
        _, y = place(10**x_low, 10**power)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(_text(left - 8, y + 4, _seconds(power), anchor="end"))
    for size in sorted({size for curve in curves for size, _ in curve.points}):
        x, _ = place(size, 1)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{upper}" y2="{lower}" stroke="{_GRID}"/>')
        parts.append(_text(x, lower + 18, _bytes(size), anchor="middle"))
    for curve, (colour, dashes) in zip(curves, _MARKS, strict=False):
        places = [place(size, seconds) for size, seconds in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        parts.append(_text(places[-1][0] + 10, places[-1][1] + 4, curve.name))
    return parts


def over_time(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Megabytes against minutes, from zero: points are seconds and bytes."""
    left, right, upper, lower = 80, _WIDTH - 190, 50, 50 + _PANEL
    longest = max(1.0, *(at for points in series.values() for at, _ in points)) / 60
    step = 10 ** math.floor(math.log10(max(1.0, *(size for points in series.values() for _, size in points)) / 1e6))
    highest = step * math.ceil(max(size for points in series.values() for _, size in points) / 1e6 / step)
    height = lower + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
        f'<g font-family="sans-serif" font-size="12" fill="{_INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(20, 24, title, bold=True),
    ]
    for level in range(0, highest + 1, step):
        y = lower - level / highest * (lower - upper)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(_text(left - 8, y + 4, f"{level} MB", anchor="end"))
    parts.append(_text(left, lower + 18, "0", anchor="middle"))
    parts.append(_text(right, lower + 18, f"{longest:.0f} minutes", anchor="middle"))
    for (name, points), (colour, dashes) in zip(series.items(), _MARKS, strict=False):
        places = [
            (left + at / 60 / longest * (right - left), lower - size / 1e6 / highest * (lower - upper))
            for at, size in points
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'
        )
        parts.append(_text(places[-1][0] + 8, places[-1][1] + 4, name))
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text.replace("`", ""))}</text>'


def _seconds(power: int) -> str:
    for unit, scale in (("s", 0), ("ms", -3), ("µs", -6)):
        if power >= scale:
            return f"{10 ** (power - scale):,} {unit}"
    return f"1e{power} s"


def _bytes(size: int) -> str:
    return f"{size / 1e9:g} GB" if size >= 1e9 else f"{size / 1e6:g} MB"
