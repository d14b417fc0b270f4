"""How a model wants to be asked: how many requests at once, and how long one may take. It asks nothing itself."""

from dataclasses import dataclass

from holdall.llm.protocol import Model

SECONDS = 120.0  # a provider that has not answered by then seldom does


@dataclass(frozen=True, slots=True)
class Pace:
    """`seconds` is None where the model watches the clock itself: its time starts when its turn comes."""

    at_once: int | None = None  # requests that it reads side by side; None where any number
    seconds: float | None = SECONDS


_USUAL = Pace()


def pace_of(model: Model) -> Pace:
    """An implementation may leave it out."""
    pace: Pace = getattr(model, "pace", _USUAL)
    return pace
