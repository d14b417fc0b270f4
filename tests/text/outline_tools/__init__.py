"""How the tests of outlines get them: measured and read as an output in a store is."""

from holdall.formats import Outline, Room, outline
from holdall.policy.measure import Measurer
from holdall.text.tokens import Estimate
from holdall.values.outputs import Measure


def measured(data: bytes) -> Measure:
    measurer = Measurer(Estimate())
    measurer.feed(data)
    return measurer.finish("")[0]


def outlined(data: str | bytes, *, budget: int = 1400) -> Outline:
    raw = data.encode("utf-8") if isinstance(data, str) else data
    return outline(lambda start, end: raw[start:end], measured(raw), room=Room(budget))


def text_of(data: str | bytes) -> str:
    found = outlined(data)
    return "\n".join([found.label, *found.lines])
