"""The plot, written by hand as SVG: what is seen against what it costs, one point for each strategy."""

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 900, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 40, 60, 380
_INK, _GRID, _OURS, _THEIRS, _AIM = "#1f2328", "#d0d7de", "#2f6f9f", "#b3402a", "#e6f0e2"
_LEAST, _MOST = 200, 50_000  # tokens
_LETTER = 6.5  # the width of one, roughly
_AIM_TOKENS, _AIM_SHARE = 2_500, 0.8

_Label = tuple[float, float, float]  # its left and right end, and its height


def picture(points: Sequence[tuple[str, float, float]]) -> str:
    """Of (name, share from 0 to 1, tokens); a name that begins with Holdall is ours."""
    corner = _place(_AIM_SHARE, _AIM_TOKENS)
    size = f'width="{_WIDTH}" height="{_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f'<g font-family="sans-serif" font-size="12" fill="{_INK}">',
        "<title>Holdall: what a model has seen of what a question needs, against the tokens that it cost</title>",
        f'<rect {size} fill="#ffffff"/>',
        _text(20, 24, "Tasks that look something up: evidence seen, against tokens per task (logarithmic)", bold=True),
        f'<rect x="{_LEFT}" y="{_TOP}" width="{corner[0] - _LEFT:.1f}" height="{corner[1] - _TOP:.1f}" fill="{_AIM}"/>',
        _text(_LEFT + 6, _TOP + 14, "aim"),
        *_axes(),
    ]
    used: list[_Label] = []
    for name, share, tokens in sorted(points, key=lambda point: point[1:]):
        parts += _point(name, share, tokens, used)
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _axes() -> list[str]:
    parts: list[str] = []
    for percent in range(0, 101, 20):
        _, y = _place(percent / 100, _LEAST)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{percent} %", anchor="end"))
    for tokens in (200, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000):
        x, _ = _place(0, tokens)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}" stroke="{_GRID}"/>')
        parts.append(_text(x, _BOTTOM + 18, f"{tokens:,}", anchor="middle"))
    return parts


def _point(name: str, share: float, tokens: float, used: list[_Label]) -> list[str]:
    x, y = _place(share, tokens)
    label = f"{name} ({share:.0%}, {tokens:,.0f})"
    to_left = x > _WIDTH * 0.6
    left = x - 9 - len(label) * _LETTER if to_left else x + 9
    right, height = left + len(label) * _LETTER, y + 4
    while any(abs(height - other[2]) < 13 and left < other[1] and right > other[0] for other in used):
        height -= 1  # above the label that is there
    used.append((left, right, height))
    mark = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{_OURS}"/>'
        if name.startswith("Holdall")
        else f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{_THEIRS}"/>'
    )
    return [mark, _text(x - 9 if to_left else x + 9, height, label, anchor="end" if to_left else "start")]


def _place(share: float, tokens: float) -> tuple[float, float]:
    along = math.log(max(tokens, _LEAST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + along * (_WIDTH - _LEFT - _RIGHT), _BOTTOM - share * (_BOTTOM - _TOP)


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
