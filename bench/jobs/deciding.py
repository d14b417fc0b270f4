"""Deciding that a small text fits: this stands in the way of every tool call."""

import timeit

from bench.lab import Lab
from bench.machine import Watch
from bench.result import Gate, Measured, Row
from holdall.policy.decide import Inline

_SIZES = (200, 2_000, 8_000)
_TEXTS = {
    "ASCII": "2026-11-02T06:00:00Z INFO worker-3 GET /api/v2/orders/4711 status=200 took=12ms\n",
    "not ASCII": "Die Lösung für größere Ausgaben: «çà et là», naïve Übergänge und 日本語 mitten im Text\n",
}


async def decide(lab: Lab) -> Measured:
    """The best of many: what disturbs a microsecond only ever makes it longer."""
    rows: list[Row] = []
    async with lab.bag() as bag:
        for kind, line in _TEXTS.items():
            for size in _SIZES:
                text = (line * size).encode()[:size].decode("utf-8", "ignore")
                if not isinstance(bag.decide(text), Inline):
                    raise AssertionError(f"{size} bytes must fit")
                watch = Watch()
                times = timeit.repeat(lambda text=text: bag.decide(text), number=2_000, repeat=lab.sizes.rounds)
                figure = min(times) / 2_000
                case = f"{size:,} B fit, {kind}"
                rows.append(Row("decide", case, figure, "µs", gate=Gate(5e-6, "figure"), others=watch.others()))
    return Measured(rows)
